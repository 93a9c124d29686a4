//! Aggregates, distinct rows and windows, most of them over a repartition.

use datafusion::error::Result;
use reuse_tests::shape::{DYNAMIC_FILTERS_OFF, Settings, Shape};

use crate::right_after_reset;

/// Four partitions can only be used again after a reset: a `RepartitionExec` gives each
/// of its outputs away once.
#[tokio::test(flavor = "multi_thread")]
async fn group_by() -> Result<()> {
    let shape = Shape::new("SELECT g, count(*) AS n FROM mem GROUP BY g");
    right_after_reset("group_by", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn group_by_parquet() -> Result<()> {
    let shape = Shape::new("SELECT k % 5 AS d, sum(v) AS s FROM big GROUP BY k % 5");
    right_after_reset("group_by_parquet", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn distinct() -> Result<()> {
    let shape = Shape::new("SELECT DISTINCT g FROM mem WHERE k < 5");
    right_after_reset("distinct", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn count() -> Result<()> {
    let shape = Shape::new("SELECT count(*) AS n FROM mem WHERE g = 0");
    right_after_reset("count", shape).await
}

/// Planning knows the row count and makes it a constant.
#[tokio::test(flavor = "multi_thread")]
async fn count_of_a_table() -> Result<()> {
    right_after_reset(
        "count_of_a_table",
        Shape::new("SELECT count(*) AS n FROM big"),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn min_max() -> Result<()> {
    let shape = Shape::new("SELECT min(k) AS low, max(k) AS high FROM mem");
    right_after_reset("min_max", shape).await
}

/// With dynamic filters on it is `shared_state::min_max_partial_aggregate`.
#[tokio::test(flavor = "multi_thread")]
async fn min_max_parquet() -> Result<()> {
    let shape = Shape::new("SELECT max(k) AS high FROM big WHERE v >= 10").under(&[
        Settings::new(1, false),
        Settings::new(4, false).with(&[("optimizer.repartition_file_min_size", "1")]),
    ]);
    right_after_reset("min_max_parquet", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn window_by_partition() -> Result<()> {
    let shape = Shape::new(
        "SELECT k, row_number() OVER (PARTITION BY g ORDER BY k) AS n \
         FROM mem WHERE k < 10",
    );
    right_after_reset("window_by_partition", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn window_over_frame() -> Result<()> {
    let shape = Shape::new(
        "SELECT k, sum(g) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s \
         FROM mem WHERE k < 10",
    )
    .under(DYNAMIC_FILTERS_OFF);
    right_after_reset("window_over_frame", shape).await
}
