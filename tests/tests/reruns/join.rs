//! Joins. Most keep the side that they read first, and outer and semi joins also which
//! of its rows were matched.
//!
//! Planning swaps the sides of a hash join for their sizes. Here the smaller one is on
//! the left, so that each join runs as the query has it.

use datafusion::error::Result;
use reuse_tests::shape::{DYNAMIC_FILTERS_OFF, Settings, Shape};

use crate::right_after_reset;

/// As by default, and with both sides of a hash join split by their keys.
const HASH_JOIN: &[Settings] = &[
    Settings::new(1, true),
    Settings::new(1, false),
    Settings::new(4, true),
    Settings::new(4, false),
    Settings::new(4, true).with(PARTITIONED),
    Settings::new(4, false).with(PARTITIONED),
];
const PARTITIONED: &[(&str, &str)] = &[
    ("optimizer.hash_join_single_partition_threshold", "0"),
    ("optimizer.hash_join_single_partition_threshold_rows", "0"),
];

#[tokio::test(flavor = "multi_thread")]
async fn hash_join_inner() -> Result<()> {
    let shape =
        Shape::new("SELECT m.k, n.g FROM mem m JOIN mem n ON m.k = n.g WHERE n.k < 10")
            .under(HASH_JOIN);
    right_after_reset("hash_join_inner", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_join_left() -> Result<()> {
    let shape = Shape::new(
        "SELECT m.kk, n.k FROM (SELECT DISTINCT k AS kk FROM mem WHERE k < 3) m \
         LEFT JOIN (SELECT k FROM mem) n ON m.kk = n.k + 1000",
    )
    .under(HASH_JOIN);
    right_after_reset("hash_join_left", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_join_right() -> Result<()> {
    let shape = Shape::new(
        "SELECT m.kk, n.k FROM (SELECT k AS kk FROM mem WHERE k < 3) m \
         RIGHT JOIN (SELECT k FROM mem) n ON m.kk = n.k + 1",
    )
    .under(HASH_JOIN);
    right_after_reset("hash_join_right", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_join_full() -> Result<()> {
    let shape = Shape::new(
        "SELECT m.k, n.kk FROM (SELECT k FROM mem WHERE k < 4) m \
         FULL JOIN (SELECT k AS kk FROM mem WHERE k < 4) n ON m.k = n.kk + 2",
    )
    .under(HASH_JOIN);
    right_after_reset("hash_join_full", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_join_left_semi() -> Result<()> {
    let shape = Shape::new(
        "SELECT kk FROM (SELECT k AS kk FROM mem WHERE k < 9) m \
         LEFT SEMI JOIN (SELECT g FROM mem) n ON m.kk = n.g",
    )
    .under(HASH_JOIN);
    right_after_reset("hash_join_left_semi", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_join_right_semi() -> Result<()> {
    let shape = Shape::new(
        "SELECT k FROM (SELECT g AS gg FROM mem WHERE k < 4) m \
         RIGHT SEMI JOIN (SELECT k FROM mem) n ON m.gg = n.k",
    )
    .under(HASH_JOIN);
    right_after_reset("hash_join_right_semi", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_join_left_anti() -> Result<()> {
    let shape = Shape::new(
        "SELECT kk FROM (SELECT k AS kk FROM mem WHERE k < 9) m \
         LEFT ANTI JOIN (SELECT g FROM mem) n ON m.kk = n.g + 1",
    )
    .under(HASH_JOIN);
    right_after_reset("hash_join_left_anti", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_join_right_anti() -> Result<()> {
    let shape = Shape::new(
        "SELECT k FROM (SELECT k AS kk FROM mem WHERE k >= 4) m \
         RIGHT ANTI JOIN (SELECT k FROM mem) n ON m.kk = n.k",
    )
    .under(HASH_JOIN);
    right_after_reset("hash_join_right_anti", shape).await
}

/// The build side is a file that changes between the runs. With dynamic filters on it
/// is `shared_state::dynamic_filter_hash_join_parquet_probe`.
#[tokio::test(flavor = "multi_thread")]
async fn hash_join_changed_build_side() -> Result<()> {
    let shape = Shape::new("SELECT big.v FROM bc JOIN big ON bc.k = big.k")
        .under(DYNAMIC_FILTERS_OFF);
    right_after_reset("hash_join_changed_build_side", shape).await
}

/// One column of `a` is changed in place: 120 before, 8000 after.
#[tokio::test(flavor = "multi_thread")]
async fn hash_join_array_changed_in_place() -> Result<()> {
    let shape = Shape::new(
        "SELECT sum(t.v2 * b.w) AS s FROM (SELECT i, 2 * v AS v2 FROM a) t JOIN b USING (i)",
    );
    right_after_reset("hash_join_array_changed_in_place", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_loop_join() -> Result<()> {
    let shape = Shape::new(
        "SELECT m.k AS low, n.k AS high FROM mem m JOIN mem n ON m.k < n.k - 96",
    );
    right_after_reset("nested_loop_join", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_loop_join_left() -> Result<()> {
    let shape = Shape::new(
        "SELECT m.k AS low, n.k AS high FROM (SELECT k FROM mem WHERE k < 5) m \
         LEFT JOIN mem n ON m.k < n.k - 96",
    );
    right_after_reset("nested_loop_join_left", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_join() -> Result<()> {
    let shape = Shape::new(
        "SELECT m.k, n.g FROM (SELECT k FROM mem WHERE k < 3) m \
         CROSS JOIN (SELECT g FROM mem WHERE k < 2) n",
    );
    right_after_reset("cross_join", shape).await
}

/// Needs more than one partition to be chosen.
#[tokio::test(flavor = "multi_thread")]
async fn sort_merge_join() -> Result<()> {
    let shape = Shape::new(
        "SELECT m.k, n.kk FROM (SELECT k FROM mem WHERE k < 4) m \
         FULL JOIN (SELECT k AS kk FROM mem WHERE k < 4) n ON m.k = n.kk + 2",
    )
    .under(&[
        Settings::new(4, true).with(&[("optimizer.prefer_hash_join", "false")]),
        Settings::new(4, false).with(&[("optimizer.prefer_hash_join", "false")]),
    ]);
    right_after_reset("sort_merge_join", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn piecewise_merge_join() -> Result<()> {
    let shape = Shape::new(
        "SELECT m.k, m.g, n.k AS low FROM mem m JOIN mem n ON m.k > n.k WHERE m.k < 4",
    )
    .under(&[
        Settings::new(1, true).with(&[("optimizer.enable_piecewise_merge_join", "true")]),
        Settings::new(4, true).with(&[("optimizer.enable_piecewise_merge_join", "true")]),
    ]);
    right_after_reset("piecewise_merge_join", shape).await
}

/// Both inputs are declared infinite, so that neither side may be read first.
#[tokio::test(flavor = "multi_thread")]
async fn symmetric_hash_join() -> Result<()> {
    let shape = Shape::new(
        "SELECT l.k, r.g FROM unbounded l JOIN unbounded r ON l.k = r.g WHERE r.k < 10",
    );
    right_after_reset("symmetric_hash_join", shape).await
}
