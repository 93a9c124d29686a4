//! A node whose stream can be had once, as the receiving end of a channel can.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, exec_err};
use datafusion_execution::TaskContext;
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion_physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};

use super::{Rows, properties, row, schema};

/// Sends the rows from a task of its own, over a channel. A second execute is an error:
/// nothing, or half of the rows, would be a wrong answer that no one sees.
#[derive(Debug)]
pub struct OneShotExec {
    rows: Arc<dyn Rows>,
    /// Run state: whether the stream is gone.
    handed_out: AtomicBool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl OneShotExec {
    pub fn new(rows: Arc<dyn Rows>) -> Self {
        let equivalences = EquivalenceProperties::new(schema(&["value"]));
        Self {
            rows,
            handed_out: AtomicBool::new(false),
            properties: properties(equivalences, 1),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for OneShotExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "OneShotExec")
    }
}

impl ExecutionPlan for OneShotExec {
    fn name(&self) -> &str {
        "OneShotExec"
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

    /// The copy has a stream of its own; the original's goes on, to whoever reads it.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            rows: Arc::clone(&self.rows),
            handed_out: AtomicBool::new(false),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if self.handed_out.swap(true, Ordering::AcqRel) {
            return exec_err!(
                "OneShotExec has been executed: reset the plan to run it again"
            );
        }
        let rows = self.rows.read();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), 1);
        let sender = builder.tx();
        // Needs a runtime: this library's own, see `runtime.rs`. The task ends with the
        // stream.
        builder.spawn(async move {
            for value in rows {
                let batch = row(&schema, [value])?.record_output(&metrics);
                if sender.send(Ok(batch)).await.is_err() {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
