//! A node with state of its own over an input that has state too.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, internal_err, plan_err};
use datafusion_execution::TaskContext;
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream,
};
use futures::StreamExt;

use super::properties;

/// Sends the rows of its input with one more column: the total of the first column over
/// all rows so far, of all partitions.
#[derive(Debug)]
pub struct RunningTotalExec {
    input: Arc<dyn ExecutionPlan>,
    /// Run state. The streams write it, so they share it with the node.
    total: Arc<Mutex<i64>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RunningTotalExec {
    /// # Errors
    ///
    /// If the first column of the input is not of type Int64.
    pub fn try_new(input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(Self {
            properties: Self::properties_over(&input)?,
            input,
            total: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    fn properties_over(input: &Arc<dyn ExecutionPlan>) -> Result<Arc<PlanProperties>> {
        let of_input = input.schema();
        match of_input.fields().first() {
            Some(first) if first.data_type() == &DataType::Int64 => {}
            _ => return plan_err!("the first column to add up is not of type Int64"),
        }
        let total = Arc::new(Field::new("total", DataType::Int64, false));
        let fields: Vec<_> = of_input.fields().iter().cloned().chain([total]).collect();
        let mut equivalences = EquivalenceProperties::new(Arc::new(Schema::new(fields)));
        // The input's columns keep their places, so what they are sorted by holds here.
        if let Some(ordering) = input.output_ordering() {
            equivalences.add_ordering(ordering.clone());
        }
        let partitions = input.output_partitioning().partition_count();
        Ok(properties(equivalences, partitions))
    }
}

impl DisplayAs for RunningTotalExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "RunningTotalExec")
    }
}

impl ExecutionPlan for RunningTotalExec {
    fn name(&self) -> &str {
        "RunningTotalExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    /// A total depends on the order of the rows. A host does not see this, as datafusion-ffi
    /// does not forward it: with several target partitions it may repartition the input.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    /// Keeps the state, as a rule that rewrites the plan expects, and the properties where
    /// the caller vouches for them.
    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("RunningTotalExec has one input");
        };
        let properties = match options.children_properties {
            ChildrenPropertiesMode::Keep => Arc::clone(&self.properties),
            ChildrenPropertiesMode::Recompute => Self::properties_over(&input)?,
        };
        Ok(Arc::new(Self {
            input,
            total: Arc::clone(&self.total),
            properties,
            metrics: self.metrics.clone(),
        }))
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

    /// The copy adds up from zero, and has the same input: whoever resets the plan resets
    /// that one too, and puts it in.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            input: Arc::clone(&self.input),
            total: Arc::default(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let total = Arc::clone(&self.total);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        let with_total = {
            let schema = Arc::clone(&schema);
            move |batch: Result<RecordBatch>| {
                let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(add_total(&batch?, &mut total, &schema)?.record_output(&metrics))
            }
        };
        let batches = self.input.execute(partition, context)?.map(with_total);
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

/// `batch` with the column `total`, which goes on from `total` and leaves its last value
/// there.
fn add_total(
    batch: &RecordBatch,
    total: &mut i64,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let values = batch.column(0).as_primitive::<Int64Type>();
    let totals = values.iter().map(|value| {
        *total += value.unwrap_or(0);
        *total
    });
    let totals: ArrayRef = Arc::new(Int64Array::from_iter_values(totals));
    let columns = batch.columns().iter().cloned().chain([totals]).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
