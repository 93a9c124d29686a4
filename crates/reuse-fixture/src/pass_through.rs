//! Nodes that do nothing, in any number: what is measured on them is the boundary.

use std::fmt;
use std::sync::Arc;

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, internal_err, plan_err};
use datafusion_execution::TaskContext;
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream,
};

use crate::example::nodes::{properties, schema};

/// `nodes` nodes, one below the other, that send one row.
///
/// # Errors
///
/// If `nodes` is 0.
pub fn chain(nodes: usize) -> Result<Arc<dyn ExecutionPlan>> {
    if nodes == 0 {
        return plan_err!("a plan has one node at least");
    }
    (1..nodes).try_fold(leaf(), |plan, _| PassThroughExec::try_new(vec![plan]))
}

/// One node over `nodes - 1` others, each a partition of one row.
///
/// # Errors
///
/// If `nodes` is below 2.
pub fn wide(nodes: usize) -> Result<Arc<dyn ExecutionPlan>> {
    if nodes < 2 {
        return plan_err!("a wide plan has two nodes at least");
    }
    PassThroughExec::try_new((1..nodes).map(|_| leaf()).collect())
}

/// One of DataFusion's own: one row, no column.
fn leaf() -> Arc<dyn ExecutionPlan> {
    Arc::new(PlaceholderRowExec::new(schema(&[])))
}

/// The partitions of its inputs, one after the other. It keeps nothing from a run, so the
/// default of `reset_state` is right for it.
#[derive(Debug)]
struct PassThroughExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl PassThroughExec {
    /// # Errors
    ///
    /// If there are no inputs, or their schemas differ.
    fn try_new(inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let properties = Self::properties_over(&inputs)?;
        Ok(Arc::new(Self { inputs, properties }))
    }

    fn properties_over(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<PlanProperties>> {
        let Some(first) = inputs.first() else {
            return plan_err!("PassThroughExec has one input at least");
        };
        let schema = first.schema();
        if inputs.iter().any(|input| input.schema() != schema) {
            return plan_err!("the inputs of PassThroughExec differ in their schemas");
        }
        let partitions = inputs
            .iter()
            .map(|input| input.output_partitioning().partition_count())
            .sum();
        Ok(properties(EquivalenceProperties::new(schema), partitions))
    }
}

impl DisplayAs for PassThroughExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PassThroughExec")
    }
}

impl ExecutionPlan for PassThroughExec {
    fn name(&self) -> &str {
        "PassThroughExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let properties = match options.children_properties {
            ChildrenPropertiesMode::Keep => Arc::clone(&self.properties),
            ChildrenPropertiesMode::Recompute => Self::properties_over(&inputs)?,
        };
        Ok(Arc::new(Self { inputs, properties }))
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

    fn execute(
        &self,
        mut partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        for input in &self.inputs {
            let partitions = input.output_partitioning().partition_count();
            if partition < partitions {
                return input.execute(partition, context);
            }
            partition -= partitions;
        }
        internal_err!("PassThroughExec has not that many partitions")
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
