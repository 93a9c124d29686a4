//! Sources: files, which share a queue of work between partitions, memory, generators.

use datafusion::error::Result;
use reuse_tests::compare::BARE_RERUN;
use reuse_tests::shape::{EVERY_SETTING, Settings, Shape};

use crate::right_after_reset;

/// The queue of files is a setting: without it a bare rerun reads everything again.
const WORK_STEALING: &[Settings] = &[
    Settings::new(1, true),
    Settings::new(4, true),
    Settings::new(1, true).with(NO_WORK_STEALING),
    Settings::new(4, true).with(NO_WORK_STEALING),
];
const NO_WORK_STEALING: &[(&str, &str)] =
    &[("execution.enable_file_stream_work_stealing", "false")];

#[tokio::test(flavor = "multi_thread")]
async fn scan() -> Result<()> {
    let shape = Shape::new("SELECT a FROM multi").under(WORK_STEALING);
    right_after_reset("scan", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn scan_limit() -> Result<()> {
    let shape = Shape::new("SELECT k FROM big LIMIT 5").rows_open().under(&[
        WORK_STEALING[0],
        WORK_STEALING[2],
        WORK_STEALING[3],
    ]);
    right_after_reset("scan_limit", shape).await
}

/// The first run may end before its partitions have emptied the queue, and a bare rerun
/// takes what is left.
#[tokio::test(flavor = "multi_thread")]
async fn scan_limit_of_partitions() -> Result<()> {
    let shape = Shape::new("SELECT k FROM big LIMIT 5")
        .rows_open()
        .under(&[WORK_STEALING[1]])
        .open(BARE_RERUN);
    right_after_reset("scan_limit_of_partitions", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn scan_filter() -> Result<()> {
    let shape = Shape::new("SELECT k FROM big WHERE v % 20000 = 1").under(&[
        Settings::new(1, true),
        Settings::new(4, true).with(&[("optimizer.repartition_file_min_size", "1")]),
        Settings::new(4, true).with(&[
            ("optimizer.repartition_file_min_size", "1"),
            ("execution.parquet.pushdown_filters", "true"),
        ]),
    ]);
    right_after_reset("scan_filter", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn scan_csv() -> Result<()> {
    let shape = Shape::new("SELECT k FROM bc").under(WORK_STEALING);
    right_after_reset("scan_csv", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn scan_memory() -> Result<()> {
    let shape = Shape::new("SELECT k FROM mem WHERE k % 20 = 0");
    right_after_reset("scan_memory", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn union() -> Result<()> {
    let shape = Shape::new(
        "SELECT k FROM mem WHERE k < 3 UNION ALL SELECT a FROM multi WHERE a > 397",
    );
    right_after_reset("union", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn values() -> Result<()> {
    let shape = Shape::new("VALUES (1, 'a'), (2, 'b'), (3, NULL)");
    right_after_reset("values", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn unnest() -> Result<()> {
    let shape = Shape::new("SELECT k, unnest([g, -g]) AS u FROM mem WHERE k < 3");
    right_after_reset("unnest", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn generate_series() -> Result<()> {
    let shape = Shape::new("SELECT * FROM generate_series(1, 5)").under(EVERY_SETTING);
    right_after_reset("generate_series", shape).await
}

/// Nothing materialises a CTE here: each reader has a scan of its own.
#[tokio::test(flavor = "multi_thread")]
async fn cte_read_twice() -> Result<()> {
    let shape = Shape::new(
        "WITH c AS (SELECT k FROM bc) \
         SELECT x.k AS x, y.k AS y FROM c x JOIN c y ON x.k = y.k",
    );
    right_after_reset("cte_read_twice", shape).await
}
