//! What can be seen of a plan without running it: its display, properties, dynamic filters
//! and metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties, displayable};

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

/// What every node counted, children after parents; no times.
pub fn metrics(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<String>> {
    let mut texts = vec![];
    plan.apply(|plan| {
        let counts = plan.metrics().map(|set| {
            let counts = set.iter().map(|metric| metric.value());
            let counts = counts.filter(|value| !is_time(value));
            let counts = counts.map(|value| format!("{}={value}", value.name()));
            counts.collect::<Vec<_>>().join(", ")
        });
        texts.push(format!("{}: {}", plan.name(), counts.unwrap_or_default()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(texts)
}

fn is_time(value: &MetricValue) -> bool {
    value.is_timestamp()
        || matches!(
            value,
            MetricValue::ElapsedCompute(_) | MetricValue::Time { .. }
        )
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

/// Names of the nodes that have metrics, children after parents.
pub fn nodes_with_metrics(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let own = plan
        .metrics()
        .is_some_and(|set| set.iter().next().is_some());
    let mut names: Vec<_> = own.then(|| plan.name().to_string()).into_iter().collect();
    for child in plan.children() {
        names.extend(nodes_with_metrics(child));
    }
    names
}

/// Which of a copy's properties are not the original's, at any node.
pub fn changed_properties(
    original: &Arc<dyn ExecutionPlan>,
    copy: &Arc<dyn ExecutionPlan>,
) -> Vec<&'static str> {
    let (of_original, of_copy) = (original.properties(), copy.properties());
    let mut changed = vec![];
    if original.schema() != copy.schema() {
        changed.push("schema");
    }
    // As text: an unknown partitioning does not equal itself.
    if of_original.output_partitioning().to_string()
        != of_copy.output_partitioning().to_string()
    {
        changed.push("partitioning");
    }
    if ordering(of_original) != ordering(of_copy) {
        changed.push("ordering");
    }
    if of_original.emission_type != of_copy.emission_type
        || of_original.boundedness != of_copy.boundedness
        || of_original.scheduling_type != of_copy.scheduling_type
        || of_original.evaluation_type != of_copy.evaluation_type
    {
        changed.push("properties");
    }
    if original.children().len() != copy.children().len() {
        changed.push("children");
    }
    for (original, copy) in original.children().into_iter().zip(copy.children()) {
        changed.extend(changed_properties(original, copy));
    }
    changed.dedup();
    changed
}

/// The ordering as text, without the results of scalar subqueries that a run puts into it.
fn ordering(properties: &PlanProperties) -> Option<String> {
    const SUBQUERY: &str = "scalar_subquery(";
    let text = properties.output_ordering()?.to_string();
    let mut parts = text.split(SUBQUERY);
    let mut ordering = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let rest = part.split_once(')').map_or("", |(_, rest)| rest);
        ordering += SUBQUERY;
        ordering += rest;
    }
    Some(ordering)
}
