//! Each shape of the table can be run again.

use std::sync::{Arc, Mutex};

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use reuse_check::ReuseCheck;
use reuse_extension::table::{ReuseTable, Shape};

async fn check(shape: Shape) -> Result<()> {
    let rows = Arc::new(Mutex::new(vec![1_i64, 2, 3]));
    let table = ReuseTable::try_new(shape, Arc::clone(&rows) as _)?;
    let ctx = SessionContext::new();
    ctx.register_table("t", Arc::new(table))?;
    let task = ctx.task_ctx();
    let report = ReuseCheck::new(move || {
        let ctx = ctx.clone();
        async move {
            let query = ctx.sql("SELECT * FROM t WHERE value > 1").await?;
            query.create_physical_plan().await
        }
    })
    .with_task_context(task)
    .with_change(move || async move {
        *rows.lock().unwrap() = vec![4, 5, 6];
        Ok(())
    })
    .run()
    .await?;
    assert!(report.is_ok(), "{report}");
    Ok(())
}

#[tokio::test]
async fn build_side() -> Result<()> {
    check(Shape::BuildSide).await
}

#[tokio::test]
async fn one_shot() -> Result<()> {
    check(Shape::OneShot).await
}

#[tokio::test]
async fn counter() -> Result<()> {
    check(Shape::Counter).await
}

#[tokio::test]
async fn local_child() -> Result<()> {
    check(Shape::LocalChild).await
}
