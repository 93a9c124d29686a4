//! What can be seen of a plan without a run: its properties and its metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// How the text of a scalar subquery in an expression begins.
pub(crate) const SUBQUERY: &str = "scalar_subquery(";

/// What a copy must have in common with its original, as text: the types have no
/// equality that would do (two unknown partitionings, for example, are never equal).
pub fn properties(plan: &Arc<dyn ExecutionPlan>) -> [(&'static str, String); 10] {
    let it = plan.properties();
    let ordering = match plan.output_ordering() {
        Some(ordering) => without_results(&ordering.to_string()),
        None => "none".to_string(),
    };
    [
        ("name", plan.name().to_string()),
        ("schema", format!("{:?}", plan.schema())),
        (
            "partitioning",
            without_results(&it.partitioning.to_string()),
        ),
        ("ordering", ordering),
        ("emission", format!("{:?}", it.emission_type)),
        ("boundedness", format!("{:?}", it.boundedness)),
        ("evaluation", format!("{:?}", it.evaluation_type)),
        ("scheduling", format!("{:?}", it.scheduling_type)),
        ("fetch", format!("{:?}", plan.fetch())),
        ("number of children", plan.children().len().to_string()),
    ]
}

/// The text of expressions without the results of scalar subqueries, which are of a run.
fn without_results(text: &str) -> String {
    let mut parts = text.split(SUBQUERY);
    let mut without = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let rest = part.split_once(')').map_or("", |(_, rest)| rest);
        without += SUBQUERY;
        without += ")";
        without += rest;
    }
    without
}

/// Values of a node's metrics by name, summed over its partitions.
pub(crate) type Counts = BTreeMap<String, usize>;

/// What a node has counted so far. Times are left out: those of a done run may still
/// grow when its last task ends. So are ratios, which are no sums.
pub(crate) fn counts(plan: &Arc<dyn ExecutionPlan>) -> Counts {
    let mut counts = Counts::new();
    for metric in plan.metrics().unwrap_or_default().iter() {
        let value = metric.value();
        if !is_time(value) {
            *counts.entry(value.name().to_string()).or_default() += value.as_usize();
        }
    }
    counts
}

fn is_time(value: &MetricValue) -> bool {
    matches!(
        value,
        MetricValue::ElapsedCompute(_)
            | MetricValue::Time { .. }
            | MetricValue::StartTimestamp(_)
            | MetricValue::EndTimestamp(_)
    )
}

/// What a node has counted, `output_rows 1` and so on, and whether it has times.
pub fn filled_metrics(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let counts = counts(plan).into_iter().filter(|(_, count)| *count != 0);
    let mut filled: Vec<_> = counts
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let metrics = plan.metrics().unwrap_or_default();
    let mut values = metrics.iter().map(|metric| metric.value());
    if values.any(|value| is_time(value) && value.as_usize() != 0) {
        filled.push("times".to_string());
    }
    filled
}

/// `output_rows 2, was 1` for each metric that changed.
pub(crate) fn changed_counts(before: &Counts, after: &Counts) -> Vec<String> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let count = |counts: &Counts, name: &String| counts.get(name).copied().unwrap_or(0);
    let changed = names.into_iter().filter_map(|name| {
        let (new, old) = (count(after, name), count(before, name));
        (new != old).then(|| format!("{name} {new}, was {old}"))
    });
    changed.collect()
}

/// The first of `texts`, the number of output rows before others, and how many more.
pub(crate) fn some_of(mut texts: Vec<String>) -> String {
    const SHOWN: usize = 3;
    texts.sort_by_key(|text| !text.starts_with("output_rows"));
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    match more {
        0 => texts.join("; "),
        more => format!("{}; {more} more", texts.join("; ")),
    }
}
