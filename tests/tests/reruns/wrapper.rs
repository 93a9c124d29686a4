//! Nodes inside of wrappers, as tracing puts them there: a wrapper that delegates is as
//! good as what it wraps.

use datafusion::error::Result;
use reuse_tests::compare::reset;
use reuse_tests::data::Data;
use reuse_tests::nodes::wrapped;
use reuse_tests::run::run;
use reuse_tests::shape::{EVERY_SETTING, Order};

/// A work table is found, and a join's build side reset, through the wrappers.
#[tokio::test(flavor = "multi_thread")]
async fn wrapped_nodes() -> Result<()> {
    let data = Data::new()?;
    for (sql, rows) in [
        (
            "WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a + 1 FROM r WHERE a < 5) \
             SELECT * FROM r",
            "5 rows: (1) (2) (3) (4) (5)",
        ),
        (
            "SELECT m.kk, n.k FROM (SELECT DISTINCT k AS kk FROM mem WHERE k < 3) m \
             LEFT JOIN (SELECT k FROM mem) n ON m.kk = n.k + 1000",
            "3 rows: (0, NULL) (1, NULL) (2, NULL)",
        ),
    ] {
        for settings in EVERY_SETTING {
            let session = data.session(settings).await?;
            let plan = session.sql(sql).await?.create_physical_plan().await?;
            let plan = wrapped(plan)?;
            let task = session.task_ctx();
            let first = run(&plan, &task, Order::Any).await;
            assert_eq!(first.to_string(), rows, "{settings}: {sql}");
            let copies = [reset(&plan)?, reset(&reset(&plan)?)?];
            for copy in &copies {
                let again = run(copy, &task, Order::Any).await;
                assert_eq!(again, first, "{settings}: {sql}");
            }
        }
    }
    Ok(())
}
