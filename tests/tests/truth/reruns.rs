//! What the table has no column for: what a plan gives that is run again as it is, in
//! words, and what single partitions of copies give.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::Result;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, common::collect,
};
use futures::StreamExt;
use reuse_check::engine::{Outcome, beside, filled_metrics, same};
use reuse_tests::inspect::output_rows;
use reuse_tests::is_released;
use reuse_tests::run::reset;
use reuse_tests::version::{Version, at};

use crate::snapshot::assert_snapshot;

use super::promise::{Trial, runner};
use super::shapes::{self, FOUR, FOUR_OWN, Setting};

/// Shapes that keep something of a run, each something else.
const BARE: &[&str] = &[
    "scan of Parquet files",
    "scan of memory",
    "scan of streams",
    "group by, memory",
    "max, Parquet",
    "window by partition",
    "TopK, memory",
    "TopK of 3, Parquet",
    "hash join, build side changes",
    "hash join, left, of memory",
    "sort merge join, full",
    "nested loop join, left",
    "cross join",
    "symmetric hash join",
    "scalar subquery in a filter",
    "recursion, hash join of memory",
];

/// How long one partition is waited for that may wait for the others.
const WAITS: Duration = Duration::from_millis(50);

/// Those of a shape that [`bare_reruns`] tries.
const SETTINGS: &[&str] = &["1", "4", "1 own", "4 merge"];

fn trial(name: &str) -> Result<Trial> {
    let mut cases = shapes::cases().into_iter();
    Ok(Trial {
        tables: Arc::new(shapes::tables()?),
        memory: shapes::memory(),
        case: cases.find(|case| case.name == name).expect("a shape"),
    })
}

/// What a bare rerun gives is promised to nobody, but must not change unseen: the docs
/// speak of it. Only the words of the patched crates are kept.
#[tokio::test(flavor = "multi_thread")]
async fn bare_reruns() -> Result<()> {
    let mut text = String::new();
    for name in BARE {
        let trial = trial(name)?;
        let _ = writeln!(text, "{name}: {}", trial.case.sql);
        let settings = trial.case.settings.iter();
        for setting in settings.filter(|it| SETTINGS.contains(&it.label)) {
            let _ = writeln!(
                text,
                "  {}: {}",
                setting.label,
                rerun(&trial, setting).await?
            );
        }
    }
    match is_released() {
        true => println!("{text}"),
        false => assert_snapshot("bare_reruns", &text),
    }
    Ok(())
}

/// Over the same data, and over changed data.
async fn rerun(trial: &Trial, setting: &Setting) -> Result<String> {
    let session = trial.session(&setting.settings).await?;
    let runner = runner(session.task_ctx());
    let text = |outcome: Outcome, fresh: &Outcome| match same(&outcome, fresh) {
        true => "as fresh".to_string(),
        false => beside(&outcome, fresh),
    };
    let plan = trial.plan(&session).await?;
    let first = runner.run(&plan).await;
    let unchanged = text(runner.run(&plan).await, &first);

    let plan = trial.plan(&session).await?;
    runner.run(&plan).await.ok();
    trial.set(Version::Changed);
    let fresh = trial.plan(&session).await?;
    let fresh = at(Version::Changed, runner.run(&fresh)).await;
    let changed = at(Version::Changed, runner.run(&plan)).await;
    trial.set(Version::First);
    assert!(!same(&fresh, &first), "the data does not change");
    Ok(format!(
        "{unchanged}; data changed: {}",
        text(changed, &fresh)
    ))
}

/// A copy after one partition alone was executed and its first batch read.
#[tokio::test(flavor = "multi_thread")]
async fn reset_after_one_partition() -> Result<()> {
    let mut begun = 0;
    for name in BARE {
        let trial = trial(name)?;
        for setting in &trial.case.settings {
            let session = trial.session(&setting.settings).await?;
            let runner = runner(session.task_ctx());
            let fresh = trial.plan(&session).await?;
            let fresh = runner.run(&fresh).await;
            let p = trial.plan(&session).await?;
            let mut stream = p.execute(0, session.task_ctx())?;
            // Some joins wait for all of their partitions.
            let first = tokio::time::timeout(WAITS, stream.next()).await;
            begun += usize::from(matches!(first, Ok(Some(Ok(_)))));
            drop(stream);
            let copy = runner.run(&reset(&p)?).await;
            let label = setting.label;
            assert!(
                same(&copy, &fresh),
                "{name}, {label}: {}",
                beside(&copy, &fresh)
            );
        }
    }
    assert!(begun >= BARE.len(), "{begun} plans gave a first batch");
    Ok(())
}

/// A copy of a copy counts its own run, and only that.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_a_copy_of_a_copy() -> Result<()> {
    let trial = trial("scan of Parquet files")?;
    for setting in &trial.case.settings {
        let session = trial.session(&setting.settings).await?;
        let runner = runner(session.task_ctx());
        let p = trial.plan(&session).await?;
        let copy = reset(&p)?;
        let second = reset(&copy)?;
        for plan in [&p, &copy, &second] {
            assert_eq!(output_rows(plan), None, "{}", setting.label);
            runner.run(plan).await.ok();
        }
        for plan in [&p, &copy, &second, &p] {
            assert_eq!(output_rows(plan), Some(2000), "{}", setting.label);
        }
        assert_eq!(filled_metrics(&reset(&second)?), [""; 0]);
    }
    Ok(())
}

/// Each partition read from a copy of its own, as a distributed engine does. Where the
/// partitions of one plan share a queue of files, one that is alone reads all of them: so
/// it is for plans that were planned anew as well.
#[tokio::test(flavor = "multi_thread")]
async fn one_partition_of_each_copy() -> Result<()> {
    for (name, setting, whole) in [
        ("scan of Parquet files", FOUR, false),
        ("scan of Parquet files", FOUR_OWN, true),
        ("scan with a filter", FOUR_OWN, true),
        ("union", FOUR_OWN, true),
        ("group by, memory", FOUR, true),
        ("scan of streams", FOUR, true),
    ] {
        let trial = trial(name)?;
        let session = trial.session(&setting.settings).await?;
        let p = trial.plan(&session).await?;
        let Ok(rows) = runner(session.task_ctx()).run(&p).await else {
            panic!("{name} fails");
        };
        let count = p.output_partitioning().partition_count();
        assert!(count > 1, "{name} has one partition");
        let (mut anew, mut copies) = (vec![], vec![]);
        for partition in 0..count {
            let task = || session.task_ctx();
            let rows = async |plan: Arc<dyn ExecutionPlan>| {
                let batches = collect(plan.execute(partition, task())?).await?;
                Ok::<_, datafusion::error::DataFusionError>(
                    batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
                )
            };
            anew.push(rows(trial.plan(&session).await?).await?);
            copies.push(rows(reset(&p)?).await?);
        }
        let label = setting.label;
        assert_eq!(copies, anew, "{name}, {label}");
        let sum: usize = copies.iter().sum();
        assert_eq!(sum == rows.count(), whole, "{name}, {label}: {sum} rows");
    }
    Ok(())
}
