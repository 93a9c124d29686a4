//! Nodes of another library, as far as one process can show them.
//!
//! A node is made foreign by giving it the marker of another library, and what that was
//! built against is the version it tells. Real libraries are for the tests of the
//! extension.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ffi::execution_plan::FFI_ExecutionPlan;
use reuse_check::{Report, ReuseCheck};

use crate::node::{Data, Kind, NodeExec, SourceExec};
use crate::snapshot::assert_snapshot;

extern "C" fn other_library() -> usize {
    0
}

unsafe extern "C" fn released_version() -> u64 {
    datafusion_ffi::version()
}

fn disguise(mut plan: FFI_ExecutionPlan, released: bool) -> FFI_ExecutionPlan {
    plan.library_marker_id = other_library;
    if released {
        plan.version = released_version;
        plan.clone = clone_disguised::<true>;
    } else {
        plan.clone = clone_disguised::<false>;
    }
    plan
}

unsafe extern "C" fn clone_disguised<const RELEASED: bool>(
    plan: &FFI_ExecutionPlan,
) -> FFI_ExecutionPlan {
    let any = FFI_ExecutionPlan::new(SourceExec::plan(&Data::default(), 1), None);
    // SAFETY: `plan` was made by `FFI_ExecutionPlan::new`, as `any` was, whose function
    // this is.
    disguise(unsafe { (any.clone)(plan) }, RELEASED)
}

async fn check(released: bool) -> Result<Report> {
    let data = Data::new(0..6);
    let changed = data.clone();
    ReuseCheck::new(move || {
        let plan = NodeExec::plan(Kind::Cache, SourceExec::plan(&data, 2));
        let foreign = disguise(FFI_ExecutionPlan::new(plan, None), released);
        async move {
            let foreign: Arc<dyn ExecutionPlan> = (&foreign).try_into()?;
            Ok(NodeExec::plan(Kind::Allows, foreign))
        }
    })
    .with_change(move || async move {
        changed.set(10..16);
        Ok(())
    })
    .run()
    .await
}

#[tokio::test]
async fn node_of_a_library_built_against_the_release() -> Result<()> {
    let report = check(true).await?;
    assert_snapshot("built_against_the_release", &report.to_string());
    assert_eq!(report.findings()[0].node, 1, "{report}");
    assert_eq!(report.findings()[0].promise, None, "{report}");
    Ok(())
}

#[tokio::test]
async fn node_of_a_library_built_against_the_patch() -> Result<()> {
    let report = check(false).await?;
    assert_snapshot("built_against_the_patch", &report.to_string());
    assert!(report.is_ok(), "{report}");
    Ok(())
}
