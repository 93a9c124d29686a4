//! What a check of a large plan costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use reuse_check::ReuseCheck;

use crate::node::{Data, Kind, NodeExec, SourceExec};

/// A chain of `depth` nodes over a source.
fn deep(depth: usize, data: &Data) -> Arc<dyn ExecutionPlan> {
    let source = SourceExec::plan(data, 1);
    (0..depth).fold(source, |plan, _| NodeExec::plan(Kind::Cache, plan))
}

/// `width` sources side by side, each with a node above.
fn wide(width: usize, data: &Data) -> Arc<dyn ExecutionPlan> {
    let branches = (0..width).map(|_| deep(1, data)).collect();
    UnionExec::try_new(branches).unwrap()
}

/// Plans made by a check of `make`'s plan.
async fn cost(
    make: fn(usize, &Data) -> Arc<dyn ExecutionPlan>,
    size: usize,
) -> Result<usize> {
    let data = Data::new(0..4);
    let changed = data.clone();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let report = ReuseCheck::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        let plan = make(size, &data);
        async { Ok(plan) }
    })
    .with_change(move || async move {
        changed.set(4..8);
        Ok(())
    })
    .run()
    .await?;
    assert!(report.is_ok(), "{report}");
    Ok(made.load(Ordering::SeqCst))
}

#[tokio::test]
async fn plans_made_grow_with_the_number_of_nodes() -> Result<()> {
    for (make, size) in [(deep as fn(_, &_) -> _, 40), (wide, 10)] {
        let one = cost(make, size).await?;
        let two = cost(make, 2 * size).await?;
        let three = cost(make, 3 * size).await?;
        assert_eq!(three - two, two - one, "{one}, {two}, {three}");
    }
    Ok(())
}
