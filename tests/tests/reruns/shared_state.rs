//! Shapes whose nodes share run state, which a reset of the released version does not keep
//! together or does not take apart: dynamic filters, the results of scalar subqueries, the
//! metrics of file scans.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::common::collect;
use datafusion::prelude::SessionContext;
use reuse_tests::compare::reset;
use reuse_tests::data::Data;
use reuse_tests::run::run;
use reuse_tests::shape::{EVERY_SETTING, Order, Settings, Shape};

use crate::{all_right_after_reset, snapshot};

const ROW_FILTER: &[(&str, &str)] = &[("execution.parquet.pushdown_filters", "true")];
const SPLIT_FILES: &[(&str, &str)] = &[("optimizer.repartition_file_min_size", "1")];
const SPLIT_FILES_AND_ROW_FILTER: &[(&str, &str)] = &[SPLIT_FILES[0], ROW_FILTER[0]];

/// The sort and the scan share a filter.
#[tokio::test(flavor = "multi_thread")]
async fn dynamic_filter_topk_parquet() -> Result<()> {
    let shapes = [
        Shape::new("SELECT k FROM big ORDER BY k LIMIT 1")
            .ordered()
            .under(&[Settings::new(1, true), Settings::new(4, true)]),
        Shape::new("SELECT k FROM big ORDER BY k LIMIT 3")
            .ordered()
            .under(&[
                Settings::new(1, true).with(ROW_FILTER),
                Settings::new(4, true).with(ROW_FILTER),
            ]),
    ];
    all_right_after_reset("dynamic_filter_topk_parquet", &shapes).await
}

/// As [`dynamic_filter_topk_parquet`], where a stale filter drops row groups only, and
/// leaves the one that holds the rows.
#[tokio::test(flavor = "multi_thread")]
async fn dynamic_filter_topk_parquet_row_groups() -> Result<()> {
    let shapes = [Shape::new("SELECT k FROM big ORDER BY k LIMIT 3")
        .ordered()
        .under(&[Settings::new(1, true), Settings::new(4, true)])];
    all_right_after_reset("dynamic_filter_topk_parquet_row_groups", &shapes).await
}

/// The join and the scan share a filter.
#[tokio::test(flavor = "multi_thread")]
async fn dynamic_filter_hash_join_parquet_probe() -> Result<()> {
    let shapes = [
        Shape::new("SELECT big.v FROM bc JOIN big ON bc.k = big.k").under(&[
            Settings::new(1, true).with(ROW_FILTER),
            Settings::new(4, true).with(ROW_FILTER),
        ]),
    ];
    all_right_after_reset("dynamic_filter_hash_join_parquet_probe", &shapes).await
}

/// As [`dynamic_filter_hash_join_parquet_probe`], where the build side is the same in every
/// run, or its new key is in a row group that a stale filter leaves.
#[tokio::test(flavor = "multi_thread")]
async fn dynamic_filter_hash_join_parquet_probe_row_groups() -> Result<()> {
    let settings = [Settings::new(1, true), Settings::new(4, true)];
    let shapes = [
        Shape::new("SELECT b.v FROM small s JOIN big b ON s.k = b.k").under(&settings),
        Shape::new("SELECT big.v FROM bc JOIN big ON bc.k = big.k").under(&settings),
    ];
    all_right_after_reset("dynamic_filter_hash_join_parquet_probe_row_groups", &shapes)
        .await
}

/// The aggregate and the scan share a filter, and the aggregate's streams its bounds.
#[tokio::test(flavor = "multi_thread")]
async fn min_max_partial_aggregate() -> Result<()> {
    let shapes = [
        Shape::new("SELECT max(k) AS high FROM big WHERE v >= 10")
            .under(&[Settings::new(4, true).with(SPLIT_FILES)]),
        Shape::new("SELECT min(k) AS low FROM big WHERE v >= 10")
            .under(&[Settings::new(4, true).with(SPLIT_FILES_AND_ROW_FILTER)]),
    ];
    all_right_after_reset("min_max_partial_aggregate", &shapes).await
}

/// A node and expressions below it share the slot of the subquery's result.
#[tokio::test(flavor = "multi_thread")]
async fn scalar_subquery_two_copies() -> Result<()> {
    let shapes = [
        Shape::new("SELECT k FROM mem WHERE k > (SELECT max(k) - 2 FROM mem)")
            .under(EVERY_SETTING),
    ];
    all_right_after_reset("scalar_subquery_two_copies", &shapes).await
}

/// A reset while a run reads the slots. Small batches keep that run under way.
#[tokio::test(flavor = "multi_thread")]
async fn scalar_subquery_reset_while_running() -> Result<()> {
    let shapes =
        [
            Shape::new("SELECT k FROM mem WHERE k > (SELECT max(k) - 50 FROM mem)")
                .under(&[Settings::new(1, true).with(&[("execution.batch_size", "5")])]),
        ];
    all_right_after_reset("scalar_subquery_reset_while_running", &shapes).await
}

/// The metrics of a file scan live in its source.
#[tokio::test(flavor = "multi_thread")]
async fn file_scan_metrics_start_empty() -> Result<()> {
    let settings = Settings::new(1, true);
    let sql = "SELECT a FROM multi";
    let data = Data::new()?;
    let session = data.session(&settings).await?;
    let original = session.sql(sql).await?.create_physical_plan().await?;
    let rows = |plan: &Arc<dyn ExecutionPlan>| {
        let rows = plan.metrics().and_then(|metrics| metrics.output_rows());
        rows.map_or("none".to_string(), |rows| rows.to_string())
    };

    let mut text = format!(
        "{sql}\n\n## {settings}\noutput_rows of {}\n",
        original.name()
    );
    let mut line = |what: &str, right: &str, plan: &Arc<dyn ExecutionPlan>| {
        text += &format!("  {what:<29}{} (right: {right})\n", rows(plan));
    };
    run(&original, &session.task_ctx(), Order::Any).await;
    line("the original, run", "400", &original);
    let copy = reset(&original)?;
    line("a copy, not run yet", "none", &copy);
    run(&copy, &session.task_ctx(), Order::Any).await;
    line("the copy, run", "400", &copy);
    let second = reset(&copy)?;
    run(&second, &session.task_ctx(), Order::Any).await;
    line("a copy of the copy, run", "400", &second);
    line("the original, after them", "400", &original);
    snapshot("shared_state__file_scan_metrics_start_empty", &text);

    assert_eq!(
        [rows(&original), rows(&copy), rows(&second)],
        ["400", "400", "400"]
    );
    Ok(())
}

/// Each partition of a scan read from a copy of its own, as a distributed engine does.
/// The partitions of one copy share its files: one that is alone reads all of them. So
/// it is for plans that were planned anew as well.
#[tokio::test(flavor = "multi_thread")]
async fn one_partition_of_each_copy() -> Result<()> {
    let sql = "SELECT a FROM multi";
    let data = Data::new()?;
    let mut text = format!("{sql}\n");
    let mut rows_of_copies = vec![];
    for settings in [
        Settings::new(4, true),
        Settings::new(4, true)
            .with(&[("execution.enable_file_stream_work_stealing", "false")]),
    ] {
        let session = data.session(&settings).await?;
        let original = session.sql(sql).await?.create_physical_plan().await?;
        run(&original, &session.task_ctx(), Order::Any).await;
        let (mut anew, mut copies) = (0, 0);
        for partition in 0..4 {
            let plan = session.sql(sql).await?.create_physical_plan().await?;
            anew += partition_rows(&plan, partition, &session).await?;
            let copy = reset(&original)?;
            copies += partition_rows(&copy, partition, &session).await?;
        }
        text += &format!(
            "\n## {settings}\nrows of the four partitions (right: 400)\n  planned anew  \
             {anew}\n  copies        {copies}\n"
        );
        assert_eq!(copies, anew, "{settings}");
        rows_of_copies.push(copies);
    }
    snapshot("shared_state__one_partition_of_each_copy", &text);
    assert_eq!(rows_of_copies[1], 400, "without work stealing");
    Ok(())
}

async fn partition_rows(
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    session: &SessionContext,
) -> Result<usize> {
    let batches = collect(plan.execute(partition, session.task_ctx())?).await?;
    Ok(batches.iter().map(|batch| batch.num_rows()).sum())
}
