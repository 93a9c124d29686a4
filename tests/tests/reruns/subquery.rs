//! Subqueries that planning turns into joins. Scalar ones stay subqueries and are in
//! `shared_state`.

use datafusion::error::Result;
use reuse_tests::shape::Shape;

use crate::right_after_reset;

#[tokio::test(flavor = "multi_thread")]
async fn in_subquery() -> Result<()> {
    let shape =
        Shape::new("SELECT k FROM mem WHERE k IN (SELECT g FROM mem WHERE k < 4)");
    right_after_reset("in_subquery", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn not_in_subquery() -> Result<()> {
    let shape =
        Shape::new("SELECT k FROM mem WHERE k < 9 AND k NOT IN (SELECT g FROM mem)");
    right_after_reset("not_in_subquery", shape).await
}

/// A mark join.
#[tokio::test(flavor = "multi_thread")]
async fn in_subquery_or() -> Result<()> {
    let shape = Shape::new(
        "SELECT k FROM mem WHERE k > 97 OR k IN (SELECT g FROM mem WHERE k < 4)",
    );
    right_after_reset("in_subquery_or", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn exists_subquery() -> Result<()> {
    let shape = Shape::new(
        "SELECT k FROM mem m WHERE EXISTS (SELECT 1 FROM mem n WHERE n.g = m.k - 1)",
    );
    right_after_reset("exists_subquery", shape).await
}
