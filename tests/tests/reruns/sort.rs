//! Sorts, and the first rows of one (TopK), which keeps its threshold.

use datafusion::error::Result;
use reuse_tests::shape::{DYNAMIC_FILTERS_OFF, Settings, Shape};

use crate::right_after_reset;

#[tokio::test(flavor = "multi_thread")]
async fn sort() -> Result<()> {
    let shape =
        Shape::new("SELECT g, k FROM mem WHERE k < 10 ORDER BY g, k DESC").ordered();
    right_after_reset("sort", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sort_parquet() -> Result<()> {
    let shape = Shape::new("SELECT k FROM big WHERE k % 100 = 0 ORDER BY v DESC")
        .ordered()
        .under(&[
            Settings::new(1, true),
            Settings::new(4, true).with(&[("optimizer.repartition_file_min_size", "1")]),
        ]);
    right_after_reset("sort_parquet", shape).await
}

/// The threshold is applied by the sort itself, dynamic filters on or off.
#[tokio::test(flavor = "multi_thread")]
async fn topk_memory() -> Result<()> {
    let shape = Shape::new("SELECT k FROM mem ORDER BY k LIMIT 3").ordered();
    right_after_reset("topk_memory", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn topk_offset() -> Result<()> {
    let shape =
        Shape::new("SELECT k FROM mem ORDER BY k DESC LIMIT 3 OFFSET 2").ordered();
    right_after_reset("topk_offset", shape).await
}

/// With dynamic filters on it is `shared_state::dynamic_filter_topk_parquet`.
#[tokio::test(flavor = "multi_thread")]
async fn topk_parquet() -> Result<()> {
    let shape = Shape::new("SELECT k FROM big ORDER BY k LIMIT 3")
        .ordered()
        .under(DYNAMIC_FILTERS_OFF);
    right_after_reset("topk_parquet", shape).await
}
