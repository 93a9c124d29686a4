//! Recursive queries, which DataFusion itself resets once for every iteration.

use datafusion::error::Result;
use reuse_tests::shape::Shape;

use crate::right_after_reset;

#[tokio::test(flavor = "multi_thread")]
async fn recursive_cte() -> Result<()> {
    let shape = Shape::new(
        "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 5) \
         SELECT * FROM r",
    );
    right_after_reset("recursive_cte", shape).await
}

/// A build side over the work table.
#[tokio::test(flavor = "multi_thread")]
async fn recursive_cross_join() -> Result<()> {
    let shape = Shape::new(
        "WITH RECURSIVE r AS (\
           SELECT 1 AS v UNION ALL \
           SELECT 2 FROM r CROSS JOIN (SELECT 2) s WHERE r.v < 2\
         ) SELECT * FROM r",
    );
    right_after_reset("recursive_cross_join", shape).await
}

/// A join with a table that changes between runs.
#[tokio::test(flavor = "multi_thread")]
async fn recursive_hash_join() -> Result<()> {
    let shape = Shape::new(
        "WITH RECURSIVE r AS (\
           SELECT 2 AS v UNION ALL \
           SELECT mem.k + mem.g + 1 FROM r JOIN mem ON mem.k = r.v WHERE mem.k < 20\
         ) SELECT * FROM r",
    );
    right_after_reset("recursive_hash_join", shape).await
}

/// A TopK in every iteration.
#[tokio::test(flavor = "multi_thread")]
async fn recursive_topk() -> Result<()> {
    let shape = Shape::new(
        "WITH RECURSIVE r AS (\
           SELECT 0 AS k, 0 AS v UNION ALL (SELECT * FROM r ORDER BY v LIMIT 1)\
         ) SELECT * FROM r LIMIT 5",
    );
    right_after_reset("recursive_topk", shape).await
}

#[tokio::test(flavor = "multi_thread")]
async fn recursive_nested() -> Result<()> {
    let shape = Shape::new(
        "WITH RECURSIVE o AS (\
           SELECT 1 AS n UNION ALL \
           SELECT o.n + 1 FROM o CROSS JOIN (\
             WITH RECURSIVE i AS (SELECT 1 AS m UNION ALL SELECT m + 1 FROM i WHERE m < 2) \
             SELECT m FROM i\
           ) s WHERE o.n < 3\
         ) SELECT n FROM o",
    );
    right_after_reset("recursive_nested", shape).await
}
