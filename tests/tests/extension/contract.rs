//! What a reset copy promises, for each shape of the extension, each kept state another.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ffi::execution_plan::{ForeignExecutionPlan, nodes_without_reset_state};
use reuse_check::{Promise, Report, ReuseCheck, Verdict};
use reuse_extension_interface::Rows;
use reuse_tests::run::reset;
use reuse_tests::settings::Settings;

use super::host::{Build, Host, names, output_rows, plan};
use crate::snapshot::assert_snapshot;

/// The shapes, and the name of each one's root.
pub const SHAPES: [(&str, &str); 4] = [
    ("build_side", "BuildSideExec"),
    ("one_shot", "OneShotExec"),
    ("counter", "CounterExec"),
    ("local_child", "RunningTotalExec"),
];

/// What the kit says of a plan of `shape`, whose rows change.
async fn check(build: Build, shape: &'static str) -> Result<Report> {
    let rows = Rows::new(vec![1, 2, 3, 4]);
    let changed = rows.clone();
    let library = build.library();
    ReuseCheck::new(move || std::future::ready(plan(library, shape, &rows)))
        .with_change(move || async move {
            changed.set(vec![10, 20, 30]);
            Ok(())
        })
        .run()
        .await
}

async fn reports(build: Build) -> Result<(String, Vec<Report>)> {
    let (mut text, mut reports) = (String::new(), vec![]);
    for (shape, _) in SHAPES {
        let report = check(build, shape).await?;
        let _ = writeln!(text, "{shape}: {report}");
        reports.push(report);
    }
    Ok((text, reports))
}

#[tokio::test(flavor = "multi_thread")]
async fn patched() -> Result<()> {
    let (text, reports) = reports(Build::Patched).await?;
    assert_snapshot("contract_patched", &text);
    for report in reports {
        assert!(report.is_ok(), "{report}");
        let verdicts = report.nodes().iter().flat_map(|node| node.verdicts);
        assert!(
            verdicts.into_iter().all(|it| it == Verdict::Holds),
            "{report}"
        );
    }
    Ok(())
}

/// The same source and the same host, but the extension cannot be asked for a reset: what
/// comes out is what forwarding it is for.
#[tokio::test(flavor = "multi_thread")]
async fn stock() -> Result<()> {
    let (text, reports) = reports(Build::Stock).await?;
    assert_snapshot("contract_stock", &text);
    for report in reports {
        // Each node, and what it does to the rows of a copy.
        for node in 0..report.nodes().len() {
            let mut findings = report.findings().iter();
            let unreached = findings.any(|it| it.node == node && it.promise.is_none());
            assert!(unreached, "{report}");
        }
        let mut findings = report.findings().iter();
        let stale = findings.any(|it| it.promise == Some(Promise::Result));
        assert!(stale, "{report}");
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
