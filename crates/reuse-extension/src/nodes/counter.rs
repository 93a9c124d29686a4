//! A node that its own streams write to while they run, as they do to a dynamic filter.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::TaskContext;
use datafusion_physical_expr::expressions::col;
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::stream;

use super::{Rows, properties, row, schema};

/// Sends the rows with a number each, from 1 on and ascending.
#[derive(Debug)]
pub struct CounterExec {
    rows: Arc<dyn Rows>,
    /// Run state. Streams outlive the call that makes them, so they share it with the node,
    /// and with nothing else.
    counted: Arc<AtomicI64>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CounterExec {
    pub fn try_new(rows: Arc<dyn Rows>) -> Result<Self> {
        let schema = schema(&["value", "number"]);
        let ascending = PhysicalSortExpr::new_default(col("number", &schema)?);
        let equivalences =
            EquivalenceProperties::new_with_orderings(schema, [[ascending]]);
        Ok(Self {
            rows,
            counted: Arc::new(AtomicI64::new(0)),
            properties: properties(equivalences, 1),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for CounterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "CounterExec")
    }
}

impl ExecutionPlan for CounterExec {
    fn name(&self) -> &str {
        "CounterExec"
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

    /// The copy counts from the start, in a counter of its own. Neither `Arc::clone` of the
    /// old one, which streams of the original still write, nor setting that one to zero.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            rows: Arc::clone(&self.rows),
            counted: Arc::new(AtomicI64::new(0)),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.read();
        let counted = Arc::clone(&self.counted);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let counted_rows =
            MetricBuilder::new(&self.metrics).counter("counted_rows", partition);
        let schema = self.schema();
        let batch = {
            let schema = Arc::clone(&schema);
            move |value| {
                let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
                counted_rows.add(1);
                Ok(row(&schema, [value, number])?.record_output(&baseline))
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

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
