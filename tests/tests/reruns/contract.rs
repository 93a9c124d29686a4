//! What a reset copy promises beyond the rows of a run that went well, in small tests.
//! `right_after_reset` checks the same promises for every shape.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use reuse_tests::compare::reset;
use reuse_tests::data::{Data, Version};
use reuse_tests::run::{Outcome, run, start};
use reuse_tests::shape::{Order, Settings};

/// A repartition, an outer join's bitmap and an aggregate in one plan.
const SQL: &str = "SELECT m.g, count(n.k) AS n FROM mem m \
                   LEFT JOIN (SELECT k FROM mem WHERE k < 3) n ON m.k = n.k GROUP BY m.g";

async fn plan(session: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    session.sql(sql).await?.create_physical_plan().await
}

async fn rows(session: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> Outcome {
    run(plan, &session.task_ctx(), Order::Any).await
}

/// Every node's name and how many rows it says it gave; `None` before it ran.
fn output_rows(plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, Option<usize>)> {
    let own = plan.metrics().and_then(|metrics| metrics.output_rows());
    let mut all = vec![(plan.name().to_string(), own)];
    for child in plan.children() {
        all.extend(output_rows(child));
    }
    all
}

/// (2) The original keeps its own metrics and gives its own rows.
#[tokio::test(flavor = "multi_thread")]
async fn original_is_unaffected() -> Result<()> {
    let data = Data::new()?;
    let session = data.session(&Settings::new(4, true)).await?;
    let original = plan(&session, SQL).await?;
    let fresh = rows(&session, &plan(&session, SQL).await?).await;

    for _ in 0..2 {
        assert_eq!(rows(&session, &reset(&original)?).await, fresh);
    }
    assert!(
        output_rows(&original)
            .iter()
            .all(|(_, rows)| rows.is_none())
    );
    assert_eq!(rows(&session, &original).await, fresh);
    let after_run = output_rows(&original);
    assert_eq!(rows(&session, &reset(&original)?).await, fresh);
    assert_eq!(output_rows(&original), after_run);
    Ok(())
}

/// (2) Nor is it by a copy that reads other data while it runs.
#[tokio::test(flavor = "multi_thread")]
async fn running_original_is_unaffected() -> Result<()> {
    let data = Data::new()?;
    let session = data.session(&Settings::new(4, true)).await?;
    let sql = "SELECT bc.k FROM bc JOIN mem ON bc.k = mem.k";
    let original = plan(&session, sql).await?;
    let first = rows(&session, &plan(&session, sql).await?).await;

    let started = start(&original, &session.task_ctx()).await;
    let started = started.unwrap_or_else(|outcome| panic!("{outcome}"));
    data.set(Version::Changed)?;
    let copy = rows(&session, &reset(&original)?).await;
    assert_eq!(copy.to_string(), "1 row: (7)");
    assert_eq!(first.to_string(), "1 row: (1)");
    assert_eq!(started.finish(Order::Any).await, first);
    Ok(())
}

/// (3) Eight copies at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn copies_run_at_the_same_time() -> Result<()> {
    let data = Data::new()?;
    let session = data.session(&Settings::new(4, true)).await?;
    let original = plan(&session, SQL).await?;
    let fresh = rows(&session, &original).await;
    assert_eq!(
        fresh.to_string(),
        "7 rows: (0, 1) (1, 1) (2, 1) (3, 0) (4, 0) (5, 0) (6, 0)"
    );

    let copies = (0..8)
        .map(|_| reset(&original))
        .collect::<Result<Vec<_>>>()?;
    let runs = copies.iter().map(|copy| rows(&session, copy));
    for outcome in futures::future::join_all(runs).await {
        assert_eq!(outcome, fresh);
    }
    Ok(())
}

/// (4) Schema and partitioning, metadata and nullability included.
#[tokio::test(flavor = "multi_thread")]
async fn schema_and_partitioning_are_the_originals() -> Result<()> {
    let data = Data::new()?;
    let session = data.session(&Settings::new(4, true)).await?;
    for sql in [SQL, "SELECT g, k FROM mem ORDER BY g, k"] {
        let original = plan(&session, sql).await?;
        rows(&session, &original).await;
        let copy = reset(&original)?;
        assert_eq!(copy.schema(), original.schema());
        let (of_copy, of_original) = (copy.properties(), original.properties());
        // As text: an unknown partitioning does not equal itself.
        assert_eq!(
            of_copy.output_partitioning().to_string(),
            of_original.output_partitioning().to_string()
        );
        assert_eq!(of_copy.output_ordering(), of_original.output_ordering());
    }
    Ok(())
}

/// (5) A copy's metrics are those of its own run. File scans are
/// `shared_state::file_scan_metrics_start_empty`.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_start_empty() -> Result<()> {
    let data = Data::new()?;
    let session = data.session(&Settings::new(4, true)).await?;
    let original = plan(&session, SQL).await?;
    rows(&session, &original).await;
    let copy = reset(&original)?;
    assert!(output_rows(&copy).iter().all(|(_, rows)| rows.is_none()));
    rows(&session, &copy).await;
    assert_eq!(output_rows(&copy), output_rows(&original));
    assert_eq!(output_rows(&copy)[0].1, Some(7));
    Ok(())
}

/// (1) after a run that was given up.
#[tokio::test(flavor = "multi_thread")]
async fn reset_after_a_run_dropped_half_way() -> Result<()> {
    let data = Data::new()?;
    let session = data.session(&Settings::new(4, true)).await?;
    let original = plan(&session, SQL).await?;
    let fresh = rows(&session, &plan(&session, SQL).await?).await;
    drop(start(&original, &session.task_ctx()).await);
    assert_eq!(rows(&session, &reset(&original)?).await, fresh);
    Ok(())
}

/// (1) after one partition alone was executed and its first batch read.
#[tokio::test(flavor = "multi_thread")]
async fn reset_after_one_partition() -> Result<()> {
    let data = Data::new()?;
    let session = data.session(&Settings::new(4, true)).await?;
    let original = plan(&session, SQL).await?;
    let fresh = rows(&session, &plan(&session, SQL).await?).await;
    let mut stream = original.execute(0, session.task_ctx())?;
    stream.next().await.transpose()?;
    drop(stream);
    assert_eq!(rows(&session, &reset(&original)?).await, fresh);
    Ok(())
}

/// (1) after a run that failed: over the first version of the data it divides by zero.
#[tokio::test(flavor = "multi_thread")]
async fn reset_after_an_error() -> Result<()> {
    let data = Data::new()?;
    let session = data.session(&Settings::new(4, true)).await?;
    let sql = "SELECT max(100 / k) AS high FROM mem GROUP BY g % 1";
    let original = plan(&session, sql).await?;
    let failed = rows(&session, &original).await;
    assert!(failed.to_string().contains("Divide by zero"), "{failed}");

    data.set(Version::Changed)?;
    let copy = rows(&session, &reset(&original)?).await;
    assert_eq!(copy.to_string(), "1 row: (100)");
    Ok(())
}
