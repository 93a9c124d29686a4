//! What a reset copy promises, for each shape of the extension, each kept state another.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ffi::execution_plan::{ForeignExecutionPlan, nodes_without_reset_state};
use reuse_extension_interface::Rows;
use reuse_tests::run::{Outcome, reset, start};
use reuse_tests::settings::{Order, Settings};

use super::host::{Build, Host, names, output_rows, plan};
use crate::snapshot::assert_snapshot;

/// The shapes, and the name of each one's root.
pub const SHAPES: [(&str, &str); 4] = [
    ("build_side", "BuildSideExec"),
    ("one_shot", "OneShotExec"),
    ("counter", "CounterExec"),
    ("local_child", "RunningTotalExec"),
];

/// Copies that share their state get in each other's way in any order.
const TWO_COPIES_AT_ONCE: &str = "two copies at once";

/// What was done, what plans gave in the end, and what each should have given.
type Line = (&'static str, Vec<(Outcome, Outcome)>);

/// Runs a plan of `shape` in every way that the contract speaks of.
async fn runs(build: Build, shape: &str) -> Result<(Outcome, Vec<Line>)> {
    let host = Host::new(&Settings::new(1, true))?;
    let rows = Rows::new(vec![1, 2, 3, 4]);
    let new = || plan(build.library(), shape, &rows);
    let run = |plan: Arc<dyn ExecutionPlan>| {
        let host = &host;
        async move { host.run(&plan).await }
    };

    let fresh = run(new()?).await;
    let mut lines: Vec<Line> = vec![];
    let mut line = |label, outcomes: Vec<Outcome>| {
        let expected = outcomes.into_iter().map(|outcome| (outcome, fresh.clone()));
        lines.push((label, expected.collect()));
    };

    let p = new()?;
    run(Arc::clone(&p)).await;
    let first = reset(&p)?;
    line("reset", vec![run(Arc::clone(&first)).await]);
    line("reset of a reset", vec![run(reset(&first)?).await]);
    line("second reset", vec![run(reset(&p)?).await]);

    let p = new()?;
    let (a, b) = (reset(&p)?, reset(&p)?);
    line(
        "two copies in turn, then the original",
        vec![run(a).await, run(b).await, run(p).await],
    );

    let p = new()?;
    let (a, b) = (run(reset(&p)?), run(reset(&p)?));
    let (a, b) = tokio::join!(a, b);
    line(TWO_COPIES_AT_ONCE, vec![a, b]);

    let p = new()?;
    let started = start(&p, &host.task()).await;
    let started = started.unwrap_or_else(|outcome| panic!("{outcome}"));
    let copy = run(reset(&p)?).await;
    line(
        "reset while running",
        vec![started.finish(Order::Any).await, copy],
    );

    let p = new()?;
    let started = start(&p, &host.task()).await;
    drop(started.unwrap_or_else(|outcome| panic!("{outcome}")));
    line("reset after a run was dropped", vec![run(reset(&p)?).await]);

    let p = new()?;
    run(Arc::clone(&p)).await;
    let copy = reset(&p)?;
    rows.set(vec![10, 20, 30]);
    let changed = run(new()?).await;
    lines.push(("reset, rows changed", vec![(run(copy).await, changed)]));

    Ok((fresh, lines))
}

fn text(fresh: &Outcome, bare: &Outcome, lines: &[Line]) -> String {
    let mut text = format!("fresh: {fresh}\nbare rerun: {bare}\n");
    for (label, outcomes) in lines {
        let outcomes: Vec<_> = outcomes
            .iter()
            .map(|(outcome, expected)| match outcome == expected {
                true => "as fresh".to_string(),
                false => outcome.to_string(),
            })
            .collect();
        let _ = writeln!(text, "{label}: {}", outcomes.join(" | "));
    }
    text
}

async fn report(build: Build) -> Result<(String, Vec<String>)> {
    let (mut report, mut departures) = (String::new(), vec![]);
    for (shape, _) in SHAPES {
        let host = Host::new(&Settings::new(1, true))?;
        let p = plan(build.library(), shape, &Rows::new(vec![1, 2, 3, 4]))?;
        host.run(&p).await;
        let bare = host.run(&p).await;
        let (fresh, mut lines) = runs(build, shape).await?;
        if build == Build::Stock {
            lines.retain(|(label, _)| *label != TWO_COPIES_AT_ONCE);
        }
        let _ = writeln!(report, "{shape}\n{}", text(&fresh, &bare, &lines));
        for (label, outcomes) in lines {
            if outcomes
                .iter()
                .any(|(outcome, expected)| outcome != expected)
            {
                departures.push(format!("{shape}: {label}"));
            }
        }
    }
    Ok((report, departures))
}

#[tokio::test(flavor = "multi_thread")]
async fn patched() -> Result<()> {
    let (report, departures) = report(Build::Patched).await?;
    assert_snapshot("contract_patched", &report);
    assert!(departures.is_empty(), "{departures:?}\n{report}");
    Ok(())
}

/// The same source and the same host, but the extension cannot be asked for a reset: what
/// comes out is what forwarding it is for.
#[tokio::test(flavor = "multi_thread")]
async fn stock() -> Result<()> {
    let (report, departures) = report(Build::Stock).await?;
    assert_snapshot("contract_stock", &report);
    for (shape, _) in SHAPES {
        let departure = format!("{shape}: reset, rows changed");
        assert!(departures.contains(&departure), "{report}");
    }
    Ok(())
}

/// The host can tell: which nodes of a plan cannot be reset, before it is.
#[test]
fn nodes_that_cannot_be_reset_are_known() -> Result<()> {
    for (shape, _) in SHAPES {
        let rows = Rows::new(vec![1]);
        let patched = plan(Build::Patched.library(), shape, &rows)?;
        let stock = plan(Build::Stock.library(), shape, &rows)?;
        let forwards = |plan: &Arc<dyn ExecutionPlan>| {
            let plan = plan.downcast_ref::<ForeignExecutionPlan>();
            plan.expect("the plan is foreign").forwards_reset_state()
        };
        assert!(forwards(&patched), "{shape}");
        assert!(!forwards(&stock), "{shape}");

        let without = |plan: &Arc<dyn ExecutionPlan>| -> Vec<_> {
            let nodes = nodes_without_reset_state(plan);
            nodes.iter().map(|node| node.name().to_string()).collect()
        };
        assert_eq!(without(&patched), [""; 0], "{shape}");
        assert_eq!(without(&stock), names(&stock), "{shape}");
        // A copy is what the original is.
        assert_eq!(without(&reset(&patched)?), [""; 0], "{shape}");
        assert_eq!(without(&reset(&stock)?), names(&stock), "{shape}");
    }
    Ok(())
}

/// A copy counts its own run, and only that; the original keeps its numbers.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_start_empty() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    for (shape, root) in SHAPES {
        let p = plan(
            Build::Patched.library(),
            shape,
            &Rows::new(vec![1, 2, 3, 4]),
        )?;
        host.run(&p).await;
        assert_eq!(output_rows(&p, root), 4, "{shape}");
        let copy = reset(&p)?;
        for name in names(&copy) {
            assert_eq!(output_rows(&copy, &name), 0, "{shape}: {name}");
        }
        host.run(&copy).await;
        for name in names(&copy) {
            assert_eq!(output_rows(&copy, &name), 4, "{shape}: {name}");
            assert_eq!(output_rows(&p, &name), 4, "{shape}: {name}");
        }
    }
    Ok(())
}

/// A plan outlives the table and the session that it was made with, and each run has the
/// context that it is given.
#[tokio::test(flavor = "multi_thread")]
async fn table_and_session_are_dropped() -> Result<()> {
    for (shape, _) in SHAPES {
        let host = Host::new(&Settings::new(1, true))?;
        let rows = Rows::new(vec![1, 2, 3, 4]);
        let table = host.table(Build::Patched.library(), shape, &rows)?;
        let p = host.scan(&table).await?;
        let fresh = host.run(&p).await;
        drop((host, table));

        let other = Host::new(&Settings::new(1, true))?;
        assert_eq!(other.run(&reset(&p)?).await, fresh, "{shape}");
    }
    Ok(())
}
