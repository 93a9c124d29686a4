//! What can be seen of a plan without running it: its display, properties, dynamic filters
//! and metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, displayable};

/// One place in a plan that holds a dynamic filter.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Number of the node, parents before children.
    pub node: usize,
    /// Whether the node updates the filter, or lists it among its expressions.
    pub produced: bool,
    pub id: Option<u64>,
    /// As it is now.
    pub text: String,
}

/// Every place that holds a dynamic filter.
pub fn filters(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Filter>> {
    let mut filters = vec![];
    let mut node = 0;
    plan.apply(|plan| {
        let mut found = |produced, expr: &Arc<dyn PhysicalExpr>| {
            expr.apply(|expr| {
                if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
                    filters.push(Filter {
                        node,
                        produced,
                        id: expr.expression_id(),
                        text: expr.to_string(),
                    });
                }
                Ok(TreeNodeRecursion::Continue)
            })
        };
        for expr in plan.dynamic_expressions_produced() {
            found(true, &expr)?;
        }
        plan.apply_expressions(&mut |expr| found(false, expr))?;
        node += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(filters)
}

/// The same for two plans whose filters are linked alike: each place, with the number of
/// its filter in the order of their first places.
pub fn links(filters: &[Filter]) -> Vec<(usize, bool, usize)> {
    let mut seen = vec![];
    filters
        .iter()
        .map(|filter| {
            let known = seen.iter().position(|id| *id == filter.id);
            let number = known.unwrap_or_else(|| {
                seen.push(filter.id);
                seen.len() - 1
            });
            (filter.node, filter.produced, number)
        })
        .collect()
}

/// The filters of a plan, each once.
pub fn ids(filters: &[Filter]) -> BTreeSet<Option<u64>> {
    filters.iter().map(|filter| filter.id).collect()
}

/// `output_rows` of the plan itself.
pub fn output_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    plan.metrics().and_then(|set| set.output_rows())
}

/// Row groups, pages, files and rows that scans have left out, all in one number.
pub fn pruned(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut sum = 0;
    plan.apply(|plan| {
        for metric in plan.metrics().iter().flat_map(|set| set.iter()) {
            sum += match metric.value() {
                MetricValue::PruningMetrics {
                    pruning_metrics, ..
                } => pruning_metrics.pruned(),
                MetricValue::Count { name, count } if name.contains("pruned") => {
                    count.value()
                }
                _ => 0,
            };
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(sum)
}

/// The number of times that any node spilled.
pub fn spills(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut sum = 0;
    plan.apply(|plan| {
        let spilled = plan.metrics().and_then(|set| set.spill_count());
        sum += spilled.unwrap_or_default();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(sum)
}

/// The plan as `EXPLAIN` shows it.
pub fn show(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}
