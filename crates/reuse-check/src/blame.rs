//! Which node is to blame: the one whose subtree breaks a promise that no subtree below it
//! breaks.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::check::Part;
use crate::foreign;
use crate::report::{Finding, NodeReport, Promise, Report, Verdict};
use crate::same::{Agreement, Fresh};
use crate::ways::BeforeChange;

/// A promise that was not kept: in which run, and what that gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    pub promise: Promise,
    /// In which run, or what.
    pub run: &'static str,
    pub text: String,
}

/// A node of the plan, and what was seen of the subtree below it.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) path: Vec<usize>,
    pub(crate) parent: Option<usize>,
    pub(crate) unbounded: bool,
    pub(crate) fresh: Option<Fresh>,
    pub(crate) before_change: Option<BeforeChange>,
    /// Why its rows could not be checked.
    pub(crate) unchecked: Option<String>,
    pub(crate) hung: BTreeSet<Part>,
    pub(crate) hung_below: BTreeSet<Part>,
    departures: Vec<Departure>,
    /// Promises of which not all was seen.
    pub(crate) skipped: BTreeSet<Promise>,
    /// What fresh plans give partition by partition, where that is not the whole.
    pub(crate) by_partition: Option<String>,
    cannot_forward: bool,
}

impl Node {
    /// A node of which nothing was seen yet.
    pub(crate) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        path: Vec<usize>,
        parent: Option<usize>,
    ) -> Self {
        Self {
            name: plan.name().to_string(),
            path,
            parent,
            unbounded: plan.boundedness().is_unbounded(),
            fresh: None,
            before_change: None,
            unchecked: None,
            hung: BTreeSet::new(),
            hung_below: BTreeSet::new(),
            departures: vec![],
            skipped: BTreeSet::new(),
            by_partition: None,
            cannot_forward: foreign::cannot_forward_reset(plan.as_ref()),
        }
    }

    pub(crate) fn departs(&mut self, promise: Promise, run: &'static str, text: String) {
        self.departures(vec![Departure { promise, run, text }]);
    }

    pub(crate) fn departures(&mut self, departures: Vec<Departure>) {
        for departure in departures {
            // Two copies at once may depart in the same way.
            if !self.departures.contains(&departure) {
                self.departures.push(departure);
            }
        }
    }

    fn is_settled(&self) -> bool {
        let agreement = self.fresh.as_ref().map(|fresh| fresh.agreement);
        self.unchecked.is_none() && agreement != Some(Agreement::None)
    }

    /// What this node did about `promise`, given whether a node below breaks it.
    fn verdict(&self, promise: Promise, broken_below: bool) -> Verdict {
        let needs_rows = promise != Promise::Properties;
        if self.departures.iter().any(|it| it.promise == promise) {
            match broken_below {
                true => Verdict::BelowBroken,
                false => Verdict::Broken,
            }
        } else if self.skipped.contains(&promise) || needs_rows && !self.is_settled() {
            match broken_below {
                true => Verdict::BelowBroken,
                false => Verdict::Unchecked,
            }
        } else {
            Verdict::Holds
        }
    }

    /// True if a run of this very node hung in another part than those that even fresh
    /// plans may hang in.
    pub(crate) fn gave_up(&self) -> bool {
        let unsure = [Part::Fresh, Part::ByPartition];
        self.hung.iter().any(|part| !unsure.contains(part))
    }
}

/// What follows from all that was seen; `notes` are of the plan as a whole.
pub(crate) fn report(nodes: Vec<Node>, notes: Vec<String>) -> Report {
    let mut broken_below = vec![BTreeSet::new(); nodes.len()];
    let mut unseen_below = vec![vec![]; nodes.len()];
    let mut not_whole_below = vec![false; nodes.len()];
    let mut verdicts = vec![];
    let mut findings = vec![];
    let mut node_notes = vec![];
    for (number, node) in nodes.iter().enumerate().rev() {
        let name = || format!("{number} {}", node.name);
        let of_node = Promise::ALL.map(|promise| {
            node.verdict(promise, broken_below[number].contains(&promise))
        });
        let finding = |promise, details| Finding {
            node: number,
            name: node.name.clone(),
            promise,
            details,
        };
        if node.cannot_forward {
            findings.push(finding(None, vec![foreign::WHAT_TO_DO.to_string()]));
        }
        if number == 0
            && let Some(text) = &node.unchecked
        {
            findings.push(finding(None, vec![text.clone()]));
        }
        for (promise, verdict) in Promise::ALL.into_iter().zip(of_node) {
            if verdict == Verdict::Broken {
                let mut details = details(&node.departures, promise);
                if !unseen_below[number].is_empty() {
                    let names: &Vec<String> = &unseen_below[number];
                    details.push(format!(
                        "or it is a node below that was not seen alone: {}",
                        names.join(", ")
                    ));
                }
                findings.push(finding(Some(promise), details));
            }
        }
        if let Some(text) = &node.unchecked
            && number > 0
        {
            node_notes.push((text.clone(), name()));
        } else if let Some(text) = node.fresh.as_ref().and_then(Fresh::disagreement) {
            node_notes.push((text.to_string(), name()));
        }
        if let Some(text) = &node.by_partition
            && !not_whole_below[number]
        {
            let text = format!(
                "not checked partition by partition, as fresh plans do not add up to \
                 the whole either: {text}"
            );
            node_notes.push((text, name()));
        }
        if let Some(parent) = node.parent {
            let broken = Promise::ALL.into_iter().zip(of_node);
            let broken = broken.filter(|(_, verdict)| {
                matches!(verdict, Verdict::Broken | Verdict::BelowBroken)
            });
            let broken = Vec::from_iter(broken.map(|(promise, _)| promise));
            let below = std::mem::take(&mut broken_below[number]);
            broken_below[parent].extend(below.into_iter().chain(broken));
            let mut unseen = unseen_below[number].clone();
            if !node.is_settled() {
                unseen.insert(0, name());
            }
            // Children come last first; the nodes are to be in order.
            unseen.append(&mut unseen_below[parent]);
            unseen_below[parent] = unseen;
            not_whole_below[parent] |=
                not_whole_below[number] || node.by_partition.is_some();
        }
        verdicts.push(of_node);
    }
    verdicts.reverse();
    let mut grouped: Vec<(String, Vec<String>)> = vec![];
    for (text, name) in node_notes.into_iter().rev() {
        match grouped.iter_mut().find(|(it, _)| *it == text) {
            Some((_, names)) => names.push(name),
            None => grouped.push((text, vec![name])),
        }
    }
    let of_nodes = grouped
        .into_iter()
        .map(|(text, names)| format!("{}: {text}", names.join(", ")));
    let notes = of_nodes.chain(notes).collect();
    let nodes = nodes
        .into_iter()
        .zip(verdicts)
        .map(|(node, verdicts)| NodeReport {
            name: node.name,
            path: node.path,
            verdicts,
        });
    Report {
        nodes: nodes.collect(),
        findings,
        notes,
    }
}

/// How `promise` was seen broken. Runs that gave the same share a line.
fn details(departures: &[Departure], promise: Promise) -> Vec<String> {
    let mut lines: Vec<(Vec<&str>, &str)> = vec![];
    for departure in departures.iter().filter(|it| it.promise == promise) {
        match lines.iter_mut().find(|(_, text)| *text == departure.text) {
            Some((runs, _)) => runs.push(departure.run),
            None => lines.push((vec![departure.run], &departure.text)),
        }
    }
    let lines = lines
        .into_iter()
        .map(|(runs, text)| format!("{}: {text}", runs.join("; ")));
    lines.collect()
}
