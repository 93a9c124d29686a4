//! A node whose reset goes wrong, for the tests of what a host makes of that. Nothing here
//! is to be copied.

use std::fmt;
use std::sync::Arc;

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, exec_err};
use datafusion_execution::TaskContext;
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::stream;

use crate::example::nodes::{Rows, properties, row, schema};

/// What goes wrong. The panics of a stream and of `execute` end a process whose
/// datafusion-ffi does not catch them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `reset_state` returns an error.
    ResetError,
    /// `reset_state` panics.
    ResetPanic,
    /// `execute` of a reset copy returns an error.
    ExecuteError,
    /// `execute` of a reset copy panics.
    ExecutePanic,
    /// The stream of a reset copy sends an error.
    StreamError,
    /// The stream of a reset copy panics.
    StreamPanic,
}

/// Sends the rows until it is reset.
#[derive(Debug)]
pub struct FailingExec {
    rows: Arc<dyn Rows>,
    failure: Failure,
    is_reset: bool,
    properties: Arc<PlanProperties>,
}

impl FailingExec {
    pub fn new(rows: Arc<dyn Rows>, failure: Failure) -> Self {
        let equivalences = EquivalenceProperties::new(schema(&["value"]));
        Self {
            rows,
            failure,
            is_reset: false,
            properties: properties(equivalences, 1),
        }
    }
}

impl DisplayAs for FailingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "FailingExec")
    }
}

impl ExecutionPlan for FailingExec {
    fn name(&self) -> &str {
        "FailingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        match self.failure {
            Failure::ResetError => {
                exec_err!("FailingExec: deliberate error of reset_state")
            }
            Failure::ResetPanic => panic!("FailingExec: deliberate panic of reset_state"),
            _ => Ok(Arc::new(Self {
                rows: Arc::clone(&self.rows),
                failure: self.failure,
                is_reset: true,
                properties: Arc::clone(&self.properties),
            })),
        }
    }

    fn execute(
        &self,
        _: usize,
        _: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let failure = self.is_reset.then_some(self.failure);
        match failure {
            Some(Failure::ExecuteError) => {
                return exec_err!("FailingExec: deliberate error of execute");
            }
            Some(Failure::ExecutePanic) => {
                panic!("FailingExec: deliberate panic of execute")
            }
            _ => {}
        }
        let rows = self.rows.read();
        let schema = self.schema();
        let batch = {
            let schema = Arc::clone(&schema);
            move |value| match failure {
                Some(Failure::StreamError) => {
                    exec_err!("FailingExec: deliberate error of a stream")
                }
                Some(Failure::StreamPanic) => {
                    panic!("FailingExec: deliberate panic of a stream")
                }
                _ => row(&schema, [value]),
            }
        };
        let batches = stream::iter(rows.into_iter().map(batch));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
