//! Plans of DataFusion's own nodes, patched: nothing is wrong with them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use reuse_check::{Report, ReuseCheck, Verdict};
use tempfile::TempDir;

use crate::node::{Data, batch, schema};
use crate::snapshot::assert_snapshot;

struct Stream(Data);

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream")
    }
}

impl PartitionStream for Stream {
    fn schema(&self) -> &SchemaRef {
        static SCHEMA: std::sync::LazyLock<SchemaRef> = std::sync::LazyLock::new(schema);
        &SCHEMA
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.0.batches();
        Box::pin(MemoryStream::try_new(batches, schema(), None).expect("same schema"))
    }
}

fn session(partitions: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(2);
    SessionContext::new_with_config(config)
}

/// A table of a partition for each of `partitions`, which are read when a plan runs.
fn register(ctx: &SessionContext, name: &str, partitions: &[&Data]) -> Result<()> {
    let streams = partitions
        .iter()
        .map(|&data| Arc::new(Stream(data.clone())) as Arc<dyn PartitionStream>);
    let table = StreamingTable::try_new(schema(), streams.collect())?;
    ctx.register_table(name, Arc::new(table))?;
    Ok(())
}

/// Four files of 100 rows, v = 0..400.
async fn register_files(ctx: &SessionContext) -> Result<TempDir> {
    let dir = TempDir::new()?;
    for file in 0..4 {
        let path = dir.path().join(format!("{file}.parquet"));
        write(&path, file * 100..(file + 1) * 100)?;
    }
    let path = dir.path().display().to_string();
    ctx.register_parquet("files", path, ParquetReadOptions::default())
        .await?;
    Ok(dir)
}

fn write(path: &Path, values: std::ops::Range<i64>) -> Result<()> {
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema(), None)?;
    writer.write(&batch(values.collect()))?;
    writer.close()?;
    Ok(())
}

fn check(ctx: &SessionContext, query: &'static str) -> ReuseCheck {
    let task = ctx.task_ctx();
    let ctx = ctx.clone();
    ReuseCheck::new(move || {
        let ctx = ctx.clone();
        async move { ctx.sql(query).await?.create_physical_plan().await }
    })
    .with_task_context(task)
    .with_time_limit(Duration::from_secs(5))
}

/// Nothing was found, and everything was seen.
fn all_holds(report: &Report) {
    let mut verdicts = report.nodes().iter().flat_map(|node| node.verdicts);
    assert!(verdicts.all(|it| it == Verdict::Holds), "{report}");
}

/// The report, whichever partition of a second run is the first to fail.
fn text(report: &Report) -> String {
    (0..4).fold(report.to_string(), |text, partition| {
        text.replace(&format!("partition {partition} has"), "partition N has")
    })
}

/// A join whose build side changes from 1 and 5 to 7.
async fn check_hash_join(ctx: &SessionContext) -> Result<Report> {
    let (small, big) = (Data::new([1, 5]), Data::new(0..10));
    register(ctx, "small", &[&small])?;
    register(ctx, "big", &[&big, &big])?;
    let query = "SELECT b.v FROM small s JOIN big b ON s.v = b.v ORDER BY b.v";
    let changed = || async move {
        small.set([7]);
        Ok(())
    };
    check(ctx, query).with_change(changed).run().await
}

#[tokio::test]
async fn hash_join_without_a_dynamic_filter() -> Result<()> {
    for (partitions, name) in [(1, "hash_join"), (4, "hash_join_of_4_partitions")] {
        let ctx = session(partitions);
        let off = "SET datafusion.optimizer.enable_dynamic_filter_pushdown = false";
        ctx.sql(off).await?.collect().await?;
        let report = check_hash_join(&ctx).await?;
        assert_snapshot(name, &text(&report));
        assert!(report.is_ok(), "{report}");
    }
    Ok(())
}

/// The join and the `FilterExec` below share a filter.
#[tokio::test]
async fn hash_join_with_a_dynamic_filter() -> Result<()> {
    let report = check_hash_join(&session(1)).await?;
    assert_snapshot("hash_join_with_a_dynamic_filter", &text(&report));
    assert!(report.is_ok(), "{report}");
    Ok(())
}

#[tokio::test]
async fn top_k_over_files() -> Result<()> {
    let ctx = session(1);
    let _dir = register_files(&ctx).await?;
    let query = "SELECT v FROM files ORDER BY v LIMIT 1";
    let report = check(&ctx, query).run().await?;
    assert_snapshot("top_k_over_files", &text(&report));
    assert!(report.is_ok(), "{report}");
    Ok(())
}

#[tokio::test]
async fn file_scan_of_4_partitions() -> Result<()> {
    let ctx = session(4);
    let _dir = register_files(&ctx).await?;
    let report = check(&ctx, "SELECT v + 1 AS w FROM files").run().await?;
    assert_snapshot("file_scan_of_4_partitions", &text(&report));
    assert!(report.is_ok(), "{report}");
    Ok(())
}

#[tokio::test]
async fn scalar_subquery() -> Result<()> {
    let ctx = session(1);
    let data = Data::new(0..10);
    register(&ctx, "mem", &[&data])?;
    let query = "SELECT v FROM mem WHERE v > (SELECT max(v) - 4 FROM mem)";
    let report = check(&ctx, query)
        .with_change(move || async move {
            data.set(0..20);
            Ok(())
        })
        .run()
        .await?;
    assert_snapshot("scalar_subquery", &text(&report));
    assert!(report.is_ok(), "{report}");
    Ok(())
}

#[tokio::test]
async fn recursive_query() -> Result<()> {
    let ctx = session(1);
    let query = "WITH RECURSIVE r AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM r \
                 WHERE v < 5) SELECT * FROM r";
    let report = check(&ctx, query).run().await?;
    assert_snapshot("recursive_query", &text(&report));
    assert!(report.is_ok(), "{report}");
    Ok(())
}

#[tokio::test]
async fn group_by_of_4_partitions() -> Result<()> {
    let ctx = session(4);
    let data = Data::new(0..20);
    register(&ctx, "mem", &[&data, &data])?;
    let query = "SELECT v % 3 AS g, count(*) AS n FROM mem GROUP BY v % 3";
    let report = check(&ctx, query)
        .with_change(move || async move {
            data.set(0..50);
            Ok(())
        })
        .run()
        .await?;
    assert_snapshot("group_by_of_4_partitions", &text(&report));
    assert!(report.is_ok(), "{report}");
    Ok(())
}

/// What rows are compared by has a form for each of these, or none at all.
#[tokio::test]
async fn values_of_many_types() -> Result<()> {
    let ctx = session(2);
    let query = "SELECT v, CAST('NaN' AS double) AS nan, -0.0 AS zero, NULL AS nothing, \
                 [v, NULL] AS list, {'a': v, 'b': {'c': v}} AS struct, \
                 map {'k': v} AS map, arrow_cast('x', 'Dictionary(Int32, Utf8)') AS dict, \
                 interval '1 month' AS month, x'00ff' AS binary FROM range(5) AS r(v)";
    let report = check(&ctx, query).run().await?;
    all_holds(&report);
    // Over a scan without columns.
    let data = Data::new(0..5);
    register(&ctx, "mem", &[&data, &data])?;
    let changed = move || async move {
        data.set(0..9);
        Ok(())
    };
    let report = check(&ctx, "SELECT count(*) FROM mem")
        .with_change(changed)
        .run()
        .await?;
    all_holds(&report);
    assert!(!report.to_string().contains("shows nothing"), "{report}");
    Ok(())
}
