//! Each promise kept and broken, by nodes that do one thing wrong.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::instant::Instant;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use reuse_check::{Promise, Report, ReuseCheck, Verdict};

use crate::node::{Data, Kind, NodeExec, SourceExec};
use crate::snapshot::assert_snapshot;

const TIME_LIMIT: Duration = Duration::from_millis(500);

/// A check of `kinds`, the upper first, over a source of two partitions whose values
/// change.
async fn check(kinds: &'static [Kind]) -> Result<Report> {
    check_within(kinds, TIME_LIMIT).await
}

async fn check_within(kinds: &'static [Kind], time_limit: Duration) -> Result<Report> {
    let data = Data::new(0..6);
    let changed = data.clone();
    ReuseCheck::new(move || {
        let plan = chain(kinds, SourceExec::plan(&data, 2));
        async { Ok(plan) }
    })
    .with_time_limit(time_limit)
    .with_change(move || async move {
        changed.set(10..16);
        Ok(())
    })
    .run()
    .await
}

fn chain(kinds: &[Kind], source: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let nodes = kinds.iter().rev();
    let plan = nodes.fold(source, |plan, kind| NodeExec::plan(*kind, plan));
    Arc::new(CoalescePartitionsExec::new(plan))
}

/// The promises that the only guilty node, `name`, breaks.
fn broken_by(report: &Report, name: &str) -> Vec<Option<Promise>> {
    let findings = report.findings().iter();
    findings
        .map(|finding| {
            assert_eq!(finding.name, name, "{report}");
            finding.promise
        })
        .collect()
}

#[tokio::test]
async fn good_nodes() -> Result<()> {
    let report = check(&[Kind::Cache, Kind::Allows, Kind::Cache]).await?;
    assert_snapshot("good_nodes", &report.to_string());
    assert!(report.is_ok());
    let verdicts = report.nodes().iter().flat_map(|node| node.verdicts);
    assert!(
        verdicts.into_iter().all(|it| it == Verdict::Holds),
        "{report}"
    );
    Ok(())
}

/// A snapshot of what the check says of a `$kind` between nodes that do nothing wrong, and
/// the promises that it breaks.
macro_rules! bad_node {
    ($name:ident, $kind:ident, [$($promise:ident),*]) => {
        #[tokio::test]
        async fn $name() -> Result<()> {
            let report = check(&[Kind::Cache, Kind::$kind, Kind::Cache]).await?;
            assert_snapshot(stringify!($name), &report.to_string());
            let name = concat!(stringify!($kind), "Exec");
            let promises: &[Promise] = &[$(Promise::$promise),*];
            let promises: Vec<_> = promises.iter().copied().map(Some).collect();
            assert_eq!(broken_by(&report, name), promises, "{report}");
            assert_eq!(report.is_ok(), promises.is_empty());
            Ok(())
        }
    };
}

bad_node!(cache_that_a_reset_keeps, CacheNotReset, [Result]);
bad_node!(stream_that_can_be_taken_once, OneShot, [Result, Isolation]);
bad_node!(
    state_that_a_reset_clears_in_place,
    ClearedInPlace,
    [Isolation, AtOnce]
);
bad_node!(reset_that_repartitions, ResetRepartitions, [Properties]);
bad_node!(
    reset_that_changes_the_schema,
    ResetChangesSchema,
    [Properties]
);
bad_node!(
    metrics_that_copies_share,
    SharedMetrics,
    [Isolation, Metrics]
);
bad_node!(copy_of_a_copy_that_fails, CopyOfCopyFails, [Result]);
bad_node!(reset_that_keeps_half_a_run, KeepsHalf, [Result, AtOnce]);
bad_node!(work_queue_in_a_copy, CopyWorkQueue, [Result]);
bad_node!(copy_in_another_order, CopyReversed, []);
bad_node!(copy_out_of_the_declared_order, CopyUnordered, [Result]);
bad_node!(copy_that_hangs, CopyHangs, [Result]);
bad_node!(copy_that_blocks_its_thread, CopyBlocks, [Result]);
bad_node!(reset_that_panics, ResetPanics, [Result]);
bad_node!(reset_that_blocks_its_thread, ResetBlocks, [Result]);
bad_node!(reset_that_fails, ResetFails, [Result]);
bad_node!(copy_that_panics, CopyPanics, [Result]);
bad_node!(copy_that_fails, CopyFails, [Result]);
// Rows by chance are not its copies' fault, but that there are none is.
bad_node!(rows_by_chance, Random, []);
bad_node!(
    rows_by_chance_and_none_in_a_copy,
    RandomAndCopyEmpty,
    [Result]
);
// Its partitions are not a whole in fresh plans either, and no copy can help it.
bad_node!(work_queue_of_all_partitions, WorkQueue, []);

#[tokio::test]
async fn only_the_lowest_is_blamed() -> Result<()> {
    let kinds = &[Kind::CacheNotReset, Kind::Cache, Kind::CacheNotReset];
    let report = check(kinds).await?;
    assert_snapshot("only_the_lowest_is_blamed", &report.to_string());
    assert_eq!(report.findings().len(), 1);
    assert_eq!(report.findings()[0].node, 3);
    assert_eq!(report.nodes()[1].verdicts[0], Verdict::BelowBroken);
    Ok(())
}

#[tokio::test]
async fn nodes_that_do_not_run_alone() -> Result<()> {
    let report = check(&[Kind::Allows, Kind::NotAlone]).await?;
    assert_snapshot("nodes_that_do_not_run_alone", &report.to_string());
    assert!(report.is_ok());
    assert_eq!(report.nodes()[2].verdicts[0], Verdict::Unchecked);

    // What is broken there shows above, and the report says that it may be from there.
    let report = check(&[Kind::Cache, Kind::Allows, Kind::NotAloneAndCopyFails]).await?;
    assert_snapshot("guilty_node_that_does_not_run_alone", &report.to_string());
    assert_eq!(broken_by(&report, "AllowsExec"), [Some(Promise::Result)]);

    // What is broken below it is not blamed on what is above.
    let kinds = &[Kind::Allows, Kind::NotAlone, Kind::CopyFails];
    let report = check(kinds).await?;
    assert_eq!(broken_by(&report, "CopyFailsExec"), [Some(Promise::Result)]);
    Ok(())
}

#[tokio::test]
async fn plans_that_do_not_run() -> Result<()> {
    let report = check(&[Kind::Cache, Kind::Fails]).await?;
    assert_snapshot("plan_that_fails", &report.to_string());
    assert_eq!(broken_by(&report, "CoalescePartitionsExec"), [None]);

    let start = Instant::now();
    let kinds = &[Kind::Cache, Kind::Cache, Kind::Cache, Kind::Hangs];
    let limit = Duration::from_secs(2);
    let report = check_within(kinds, limit).await?;
    assert_snapshot("plan_that_hangs", &report.to_string());
    assert_eq!(broken_by(&report, "CoalescePartitionsExec"), [None]);
    // Once for the whole plan and once for the node, not for each above it.
    let waited = start.elapsed();
    assert!(waited < 3 * limit, "{waited:?}");
    Ok(())
}

#[tokio::test]
async fn a_hang_costs_one_time_limit() -> Result<()> {
    let start = Instant::now();
    let kinds = &[Kind::Cache, Kind::Cache, Kind::Cache, Kind::CopyHangs];
    let limit = Duration::from_secs(2);
    let report = check_within(kinds, limit).await?;
    assert_eq!(broken_by(&report, "CopyHangsExec"), [Some(Promise::Result)]);
    let waited = start.elapsed();
    assert!(waited < 3 * limit, "{waited:?}");
    Ok(())
}

#[tokio::test]
async fn without_a_change_stale_rows_do_not_show() -> Result<()> {
    let check = |change: bool, values: std::ops::Range<i64>| {
        let data = Data::new(0..6);
        let changed = data.clone();
        let check = ReuseCheck::new(move || {
            let plan = chain(&[Kind::CacheNotReset], SourceExec::plan(&data, 2));
            async { Ok(plan) }
        });
        match change {
            true => check.with_change(move || async move {
                changed.set(values);
                Ok(())
            }),
            false => check,
        }
    };
    let report = check(false, 0..0).run().await?;
    assert_snapshot("without_a_change", &report.to_string());
    assert!(report.is_ok());
    // A change to what is there already.
    let report = check(true, 0..6).run().await?;
    assert_snapshot("change_without_effect", &report.to_string());
    assert!(report.is_ok());
    let report = check(true, 10..16).run().await?;
    assert!(!report.is_ok());
    Ok(())
}

#[tokio::test]
async fn a_report_is_the_same_each_time() -> Result<()> {
    let kinds = &[Kind::SharedCursor, Kind::OneShot, Kind::Random];
    let first = check(kinds).await?;
    for _ in 0..3 {
        assert_eq!(check(kinds).await?, first);
    }
    Ok(())
}

#[test]
fn any_executor_will_do() -> Result<()> {
    let report = futures::executor::block_on(check(&[Kind::Cache]))?;
    assert!(report.is_ok(), "{report}");
    Ok(())
}

/// No snapshot: which of the nodes above show it as well depends on who wins the race for
/// the cursor.
#[tokio::test]
async fn cursor_that_copies_share() -> Result<()> {
    let report = check(&[Kind::Cache, Kind::SharedCursor, Kind::Cache]).await?;
    let broken = broken_by(&report, "SharedCursorExec");
    assert!(broken.contains(&Some(Promise::AtOnce)), "{report}");
    Ok(())
}
