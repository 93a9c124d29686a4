//! A node that computes something once for all of its partitions, as a hash join does with
//! its build side.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::TaskContext;
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::stream;

use super::{Rows, properties, row, schema};

const PARTITIONS: usize = 2;

/// Sends the rows, each beside the sum of all of them. The first partition that is
/// executed computes the sum; the others, and any later run, find it there.
#[derive(Debug)]
pub struct BuildSideExec {
    rows: Arc<dyn Rows>,
    /// Run state: not behind an `Arc`, so that no copy can come to share it.
    sum: OnceLock<i64>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BuildSideExec {
    pub fn new(rows: Arc<dyn Rows>) -> Self {
        let equivalences = EquivalenceProperties::new(schema(&["value", "sum"]));
        Self {
            rows,
            sum: OnceLock::new(),
            properties: properties(equivalences, PARTITIONS),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for BuildSideExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "BuildSideExec")
    }
}

impl ExecutionPlan for BuildSideExec {
    fn name(&self) -> &str {
        "BuildSideExec"
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

    /// The copy computes its own sum, from the rows as they are when it runs.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            rows: Arc::clone(&self.rows),
            sum: OnceLock::new(),
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
        let sum = *self.sum.get_or_init(|| rows.iter().sum());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        let batch = {
            let schema = Arc::clone(&schema);
            move |value| Ok(row(&schema, [value, sum])?.record_output(&metrics))
        };
        let mine = rows.into_iter().skip(partition).step_by(PARTITIONS);
        let batches = stream::iter(mine.map(batch));
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
