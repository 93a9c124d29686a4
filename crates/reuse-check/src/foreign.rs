//! Nodes that another library owns.

use datafusion::physical_plan::ExecutionPlan;
#[cfg(feature = "ffi")]
use datafusion_ffi::execution_plan::ForeignExecutionPlan;

/// What the author of a node has to do that a reset does not reach.
pub(crate) const WHAT_TO_DO: &str = "a reset does not reach it: its library was built \
    without the patched datafusion-ffi. Add the patched crates ([patch.crates-io]) to that \
    library's Cargo.toml and build it again";

/// True if `node` belongs to a library that was built without the patch: its copies keep
/// what a run has left, whatever its `reset_state` does.
pub(crate) fn cannot_forward_reset(node: &dyn ExecutionPlan) -> bool {
    #[cfg(feature = "ffi")]
    let cannot = node
        .downcast_ref::<ForeignExecutionPlan>()
        .is_some_and(|node| !node.forwards_reset_state());
    #[cfg(not(feature = "ffi"))]
    let cannot = {
        let _ = node;
        false
    };
    cannot
}
