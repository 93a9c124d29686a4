//! Every way to run one plan and its copies, for each subtree of the plan.
//!
//! `P` is planned anew in each line, `R` is `reset_plan_states`; what a line is compared
//! with is a run of a fresh `P`.
//!
//! ```text
//!   reset                   P ─ run ─ R(P) ─ run ─ R(R(P)) ─ run
//!   two copies at once      P ─┬─ R(P) ─ run ─┐
//!                              ├─ R(P) ─ run ─┤
//!                              └──────────────┴─ run
//!   while the original runs P ─ one poll, or first batches ─┬─ R(P) ─ run
//!                                                           └─ rest of P
//!                           P ─ first batches ─ R(P) ─ rest of P
//!   after a cancelled run   P ─ first batches ─ drop ─ R(P) ─ run
//!   partition by partition  P ─ run ─┬─ R(P) ─ partition 0
//!                                    └─ R(P) ─ partition n
//!   after the data changed  P ─ run ─ change ─ R(P) ─ run
//! ```
//!
//! What of it counts as the same is in [`same`](crate::same), what else a copy shows in
//! [`look`](crate::look), and which node is to blame in [`blame`].

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;

use crate::blame::{self, Node};
use crate::look::{Counts, changed_counts, counts, filled_metrics, properties, some_of};
use crate::report::{Promise, Report};
use crate::rows::{self, Rows};
use crate::run::{Failure, Outcome, Runner, Until, beside, partition_count};
use crate::same::{Agreement, Fresh, Seen, hung, same};
use crate::{Change, MakePlan};

/// Runs of further fresh plans, before what differs from a fresh plan counts.
const CONFIRMATIONS: usize = 2;

/// What could be seen to hang. An ancestor of a node that does skips it, so that a check
/// waits for the time limit once and not once a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Fresh,
    Reset,
    TwoCopies,
    WhileStarted,
    WhileHalfWay,
    MadeHalfWay,
    Cancelled,
    ByPartition,
    Changed,
}

impl Step {
    /// Those that make a copy.
    const OF_COPIES: [Step; 8] = [
        Step::Reset,
        Step::TwoCopies,
        Step::WhileStarted,
        Step::WhileHalfWay,
        Step::MadeHalfWay,
        Step::Cancelled,
        Step::ByPartition,
        Step::Changed,
    ];

    /// The promises that it is about.
    fn promises(self) -> &'static [Promise] {
        match self {
            Step::Fresh => &[],
            Step::Reset => &[Promise::Result, Promise::Properties, Promise::Metrics],
            Step::Cancelled | Step::ByPartition | Step::Changed => &[Promise::Result],
            Step::TwoCopies | Step::WhileStarted | Step::WhileHalfWay => {
                &[Promise::Isolation, Promise::AtOnce]
            }
            Step::MadeHalfWay => &[Promise::Isolation],
        }
    }
}

/// A check under way.
pub(crate) struct Checker {
    make_plan: MakePlan,
    runner: Runner,
    /// Never run; what later plans are compared with.
    first: Arc<dyn ExecutionPlan>,
    /// In the order of `EXPLAIN`: parents before their children.
    nodes: Vec<Node>,
    notes: Vec<String>,
}

impl Checker {
    /// Makes the first plan.
    ///
    /// # Errors
    ///
    /// Those of `make_plan`.
    pub(crate) async fn new(make_plan: MakePlan, runner: Runner) -> Result<Self> {
        let first = runner.call(make_plan()).await?;
        let mut nodes = vec![];
        let mut pending = vec![(Arc::clone(&first), vec![], None)];
        while let Some((plan, path, parent)) = pending.pop() {
            let number = nodes.len();
            for (index, child) in plan.children().into_iter().enumerate().rev() {
                let path = [path.as_slice(), &[index]].concat();
                pending.push((Arc::clone(child), path, Some(number)));
            }
            nodes.push(Node::new(&plan, path, parent));
        }
        Ok(Self {
            make_plan,
            runner,
            first,
            nodes,
            notes: vec![],
        })
    }

    /// Runs everything.
    ///
    /// # Errors
    ///
    /// Those of `make_plan` and `change`, and if `make_plan` gives plans of different
    /// shapes or the same plan twice.
    pub(crate) async fn run(mut self, change: Option<Change>) -> Result<Report> {
        let changes = change.is_some();
        // The root first: if it does not run, no subtree has to.
        self.run_fresh(0, changes).await?;
        for number in (0..self.nodes.len()).rev() {
            if number > 0 {
                self.run_fresh(number, changes).await?;
            }
            self.check_copies(number).await?;
            self.pass_on_hung(number);
        }
        self.run_again().await?;
        match change {
            Some(change) => {
                self.runner.call(change()).await?;
                for number in (0..self.nodes.len()).rev() {
                    self.check_changed(number).await?;
                    self.pass_on_hung(number);
                }
            }
            None => self.notes.push(
                "the data stayed the same, so that a copy which keeps what the first run \
                 read was not seen: give the check a change of the data"
                    .to_string(),
            ),
        }
        Ok(blame::report(self.nodes, self.notes))
    }

    /// The subtree of `number` in a plan that was never run.
    async fn plan(&self, number: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let root = self.runner.call((self.make_plan)()).await?;
        if Arc::ptr_eq(&root, &self.first) {
            return Err(DataFusionError::Execution(
                "make_plan returned the same plan twice: it has to plan anew each time"
                    .to_string(),
            ));
        }
        let node = &self.nodes[number];
        let mut plan = root;
        for &index in &node.path {
            let child = plan.children().get(index).map(|&child| Arc::clone(child));
            match child {
                Some(child) => plan = child,
                None => return Err(self.other_shape(number, plan.name())),
            }
        }
        match plan.name() == node.name {
            true => Ok(plan),
            false => Err(self.other_shape(number, plan.name())),
        }
    }

    fn other_shape(&self, number: usize, found: &str) -> DataFusionError {
        DataFusionError::Execution(format!(
            "make_plan returned plans of different shapes: where the first had node \
             {number}, {}, another has {found}. Plan the same query each time, and let \
             `change` keep what planning looks at",
            self.nodes[number].name
        ))
    }

    /// Runs fresh plans.
    async fn run_fresh(&mut self, number: usize, keep: bool) -> Result<()> {
        let is_root = number == 0;
        if self.nodes[number].unbounded && !is_root {
            let text = "cannot run alone: its input has no end".to_string();
            self.nodes[number].unchecked = Some(text);
            return Ok(());
        }
        let root_failed = match &self.nodes[0].fresh {
            Some(fresh) => fresh.outcome.is_err(),
            None => false,
        };
        if root_failed && self.nodes[number].hung_below.contains(&Step::Fresh) {
            let text = "not run: a node below does not end".to_string();
            self.nodes[number].unchecked = Some(text);
            return Ok(());
        }
        let plan = self.plan(number).await?;
        let mut fresh = Fresh::new(self.runner.run(&plan).await, Agreement::Full);
        if let Err(failure) = &fresh.outcome {
            let hung = hung(&fresh.outcome);
            let node = &mut self.nodes[number];
            node.unchecked = Some(match is_root {
                true => format!("a fresh plan gives no rows: {failure}"),
                false => format!("cannot run alone: {failure}"),
            });
            if hung {
                node.hung.insert(Step::Fresh);
            }
        } else {
            let plan = self.plan(number).await?;
            fresh.observe(&self.runner.run(&plan).await);
            if keep {
                self.nodes[number].before_change = Some(plan);
            }
        }
        self.nodes[number].fresh = Some(fresh);
        Ok(())
    }

    /// Every step over unchanged data.
    async fn check_copies(&mut self, number: usize) -> Result<()> {
        let plan = self.plan(number).await?;
        if self.nodes[number].unchecked.is_some() {
            // What can be seen without a run.
            match self.runner.reset(&plan).await {
                Ok(copy) => self.compare_properties(number, &plan, &copy),
                Err(failure) => self.cannot_be_reset(number, &failure),
            }
            return Ok(());
        }
        let mut seen = vec![];
        if !self.skip(number, Step::Reset) {
            let goes_on = self.check_reset(number, &plan, &mut seen).await?;
            if !goes_on {
                return Ok(());
            }
        }
        self.check_two_copies(number, &mut seen).await?;
        for (step, until) in [
            (Step::WhileStarted, Until::OnePoll),
            (Step::WhileHalfWay, Until::FirstBatch),
        ] {
            self.check_while_running(number, step, until, &mut seen)
                .await?;
        }
        self.check_made_while_running(number, &mut seen).await?;
        self.check_cancelled(number, &mut seen).await?;
        self.judge(number, seen).await?;
        self.check_by_partition(number, &plan).await
    }

    /// A copy after the original ran, and a copy of that one. Returns false if there is
    /// no copy to go on with.
    async fn check_reset(
        &mut self,
        number: usize,
        plan: &Arc<dyn ExecutionPlan>,
        seen: &mut Vec<Seen>,
    ) -> Result<bool> {
        let outcome = self.runner.run(plan).await;
        if let Some(fresh) = &mut self.nodes[number].fresh {
            fresh.observe(&outcome);
        }
        let metrics = counts(plan);
        let copy = match self.runner.reset(plan).await {
            Ok(copy) => copy,
            Err(failure) => {
                self.cannot_be_reset(number, &failure);
                return Ok(false);
            }
        };
        self.compare_properties(number, plan, &copy);
        let filled = filled_metrics(&copy);
        if !filled.is_empty() {
            let text = format!("before it ran, it has {}", some_of(filled));
            self.nodes[number].departs(Promise::Metrics, "reset", text);
        }
        let outcome = self.runner.run(&copy).await;
        self.note_hung(number, Step::Reset, &[&outcome]);
        seen.push(Seen::alone(Promise::Result, "reset", outcome));
        let after = counts(plan);
        let changed = changed_counts(&metrics, &after);
        if !changed.is_empty() && !self.settles(plan, &after).await {
            let run = "metrics of the original, after a copy ran";
            self.nodes[number].departs(Promise::Isolation, run, some_of(changed));
        }
        if !self.nodes[number].gave_up() {
            let outcome = self.run_copy(&copy).await;
            self.note_hung(number, Step::Reset, &[&outcome]);
            seen.push(Seen::alone(Promise::Result, "reset of a reset", outcome));
        }
        Ok(true)
    }

    /// True if the metrics of `plan`, which is done, stay what they are now when another
    /// copy runs: then it was the plan's own work in the background that changed them.
    async fn settles(&self, plan: &Arc<dyn ExecutionPlan>, counts_now: &Counts) -> bool {
        let outcome = self.run_copy(plan).await;
        outcome.is_ok() && counts(plan) == *counts_now
    }

    async fn check_two_copies(
        &mut self,
        number: usize,
        seen: &mut Vec<Seen>,
    ) -> Result<()> {
        if self.skip(number, Step::TwoCopies) {
            return Ok(());
        }
        let plan = self.plan(number).await?;
        let copies = (
            self.runner.reset(&plan).await,
            self.runner.reset(&plan).await,
        );
        let outcomes = match copies {
            (Ok(one), Ok(other)) => {
                let (one, other) =
                    futures::join!(self.runner.run(&one), self.runner.run(&other));
                [one, other]
            }
            (one, other) => [one, other].map(|copy| match copy {
                Ok(_) => Err(Failure::Error("the other cannot be reset".to_string())),
                Err(failure) => Err(failure),
            }),
        };
        let [one, other] = &outcomes;
        self.note_hung(number, Step::TwoCopies, &[one, other]);
        seen.extend(outcomes.map(|outcome| {
            Seen::at_once(Promise::AtOnce, "two copies at once", outcome)
        }));
        if self.nodes[number].gave_up() {
            return Ok(());
        }
        let outcome = self.runner.run(&plan).await;
        self.note_hung(number, Step::TwoCopies, &[&outcome]);
        seen.push(Seen::alone(
            Promise::Isolation,
            "the original, run after its copies",
            outcome,
        ));
        Ok(())
    }

    async fn check_while_running(
        &mut self,
        number: usize,
        step: Step,
        until: Until,
        seen: &mut Vec<Seen>,
    ) -> Result<()> {
        if self.skip(number, step) {
            return Ok(());
        }
        let plan = self.plan(number).await?;
        let (copy, original) = match self.runner.start(&plan, until).await {
            Err(failure) => (None, Err(failure)),
            Ok(started) => {
                let copy = self.run_copy(&plan).await;
                self.note_hung(number, step, &[&copy]);
                if self.nodes[number].gave_up() {
                    seen.push(Seen::at_once(
                        Promise::AtOnce,
                        "a copy, while the original runs",
                        copy,
                    ));
                    return Ok(());
                }
                (Some(copy), self.runner.finish(started).await)
            }
        };
        self.note_hung(number, step, &[&original]);
        if let Some(outcome) = copy {
            seen.push(Seen::at_once(
                Promise::AtOnce,
                "a copy, while the original runs",
                outcome,
            ));
        }
        seen.push(Seen::at_once(
            Promise::Isolation,
            "the original, while a copy runs",
            original,
        ));
        Ok(())
    }

    /// A copy that is made while the original runs, and not run itself.
    async fn check_made_while_running(
        &mut self,
        number: usize,
        seen: &mut Vec<Seen>,
    ) -> Result<()> {
        let step = Step::MadeHalfWay;
        if self.skip(number, step) {
            return Ok(());
        }
        let plan = self.plan(number).await?;
        let outcome = match self.runner.start(&plan, Until::FirstBatch).await {
            Err(failure) => Err(failure),
            Ok(started) => {
                let _copy = self.runner.reset(&plan).await;
                self.runner.finish(started).await
            }
        };
        self.note_hung(number, step, &[&outcome]);
        let run = "the original, a copy made while it runs";
        seen.push(Seen::at_once(Promise::Isolation, run, outcome));
        Ok(())
    }

    async fn check_cancelled(
        &mut self,
        number: usize,
        seen: &mut Vec<Seen>,
    ) -> Result<()> {
        if self.skip(number, Step::Cancelled) {
            return Ok(());
        }
        let plan = self.plan(number).await?;
        let cancelled = match self.runner.start(&plan, Until::FirstBatch).await {
            Ok(started) => self.runner.cancel(started).await,
            Err(failure) => Err(failure),
        };
        let outcome = match cancelled {
            Ok(()) => self.run_copy(&plan).await,
            Err(failure) => Err(failure),
        };
        self.note_hung(number, Step::Cancelled, &[&outcome]);
        seen.push(Seen::alone(
            Promise::Result,
            "reset after a cancelled run",
            outcome,
        ));
        Ok(())
    }

    /// Partition i of copy i, of `plan`, which ran: together they are the whole, if they
    /// are so for fresh plans.
    async fn check_by_partition(
        &mut self,
        number: usize,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<()> {
        let count = partition_count(plan);
        if count < 2 || self.skip(number, Step::ByPartition) {
            return Ok(());
        }
        let mut copies = vec![];
        for _ in 0..count {
            match self.runner.reset(plan).await {
                Ok(copy) if partition_count(&copy) == count => copies.push(copy),
                // The other promises say it.
                _ => return Ok(()),
            }
        }
        let outcome = self.run_by_partition(&copies).await;
        let Some(fresh) = self.nodes[number].fresh.clone() else {
            return Ok(());
        };
        self.note_hung(number, Step::ByPartition, &[&outcome]);
        if fresh.allows(&outcome) {
            return Ok(());
        }
        for _ in 0..=CONFIRMATIONS {
            let mut plans = vec![];
            for _ in 0..count {
                plans.push(self.plan(number).await?);
            }
            let of_fresh = self.run_by_partition(&plans).await;
            if !fresh.allows(&of_fresh) {
                self.nodes[number].by_partition =
                    Some(match (of_fresh, &fresh.outcome) {
                        (Ok(rows), Ok(whole)) => {
                            format!("{} of {}", rows::number(rows.count()), whole.count())
                        }
                        (of_fresh, whole) => beside(&of_fresh, whole),
                    });
                return Ok(());
            }
        }
        let run = "each partition of a copy of its own";
        let text = fresh.beside(&Seen::alone(Promise::Result, run, outcome));
        self.nodes[number].departs(Promise::Result, run, text);
        Ok(())
    }

    async fn run_by_partition(&self, plans: &[Arc<dyn ExecutionPlan>]) -> Outcome {
        let mut batches = vec![];
        for (partition, plan) in plans.iter().enumerate() {
            let one = partition..partition + 1;
            batches.extend(self.runner.batches(plan, one).await?);
        }
        Ok(Rows::new(&plans[0], &batches)?)
    }

    /// A copy of a plan that ran before the data changed.
    async fn check_changed(&mut self, number: usize) -> Result<()> {
        let Some(plan) = self.nodes[number].before_change.take() else {
            return Ok(());
        };
        if self.skip(number, Step::Changed) {
            return Ok(());
        }
        let Some(before) = self.nodes[number].fresh.clone() else {
            return Ok(());
        };
        let outcome = self.run_copy(&plan).await;
        self.note_hung(number, Step::Changed, &[&outcome]);
        let fresh = self.plan(number).await?;
        let fresh = Fresh::new(self.runner.run(&fresh).await, before.agreement);
        if let Err(failure) = &fresh.outcome {
            let text = format!("after the change, a fresh plan gives no rows: {failure}");
            self.nodes[number].unchecked = Some(text);
            return Ok(());
        }
        if number == 0 && same(&fresh.outcome, &before.outcome) {
            self.notes.push(
                "the plan gives the same rows after the change, which therefore shows \
                 nothing: change what the query reads"
                    .to_string(),
            );
        }
        self.nodes[number].fresh = Some(fresh);
        let run = "reset after the data changed";
        let seen = Seen::alone(Promise::Result, run, outcome);
        self.judge(number, vec![seen]).await
    }

    /// What the plan gives when it runs again as it is. It promises nothing.
    async fn run_again(&mut self) -> Result<()> {
        let Some(fresh) = self.nodes[0].fresh.clone() else {
            return Ok(());
        };
        if fresh.outcome.is_err() {
            return Ok(());
        }
        let plan = self.plan(0).await?;
        self.runner.run(&plan).await.ok();
        let again = self.runner.run(&plan).await;
        let text = match fresh.allows(&again) {
            true => "as fresh".to_string(),
            false => beside(&again, &fresh.outcome),
        };
        self.notes.push(format!(
            "run again without a reset, which promises nothing: {text}"
        ));
        Ok(())
    }

    async fn run_copy(&self, plan: &Arc<dyn ExecutionPlan>) -> Outcome {
        let copy = self.runner.reset(plan).await?;
        self.runner.run(&copy).await
    }

    /// Compares what was seen with what fresh plans give.
    async fn judge(&mut self, number: usize, seen: Vec<Seen>) -> Result<()> {
        let Some(mut fresh) = self.nodes[number].fresh.take() else {
            return Ok(());
        };
        if seen.iter().any(|seen| !fresh.allows(&seen.outcome)) {
            for _ in 0..CONFIRMATIONS {
                let plan = self.plan(number).await?;
                fresh.observe(&self.runner.run(&plan).await);
            }
        }
        let node = &mut self.nodes[number];
        let one_copy = seen.iter().find(|seen| seen.promise == Promise::Result);
        let wrong_alone = one_copy.is_some_and(|seen| !fresh.allows(&seen.outcome));
        if wrong_alone && seen.iter().any(|seen| seen.promise == Promise::AtOnce) {
            // It says nothing of running at once.
            node.skipped.insert(Promise::AtOnce);
        }
        for seen in seen {
            let counts = seen.promise != Promise::AtOnce || !wrong_alone;
            if counts && !fresh.allows(&seen.outcome) {
                node.departs(seen.promise, seen.run, fresh.beside(&seen));
            }
        }
        node.fresh = Some(fresh);
        Ok(())
    }

    fn compare_properties(
        &mut self,
        number: usize,
        plan: &Arc<dyn ExecutionPlan>,
        copy: &Arc<dyn ExecutionPlan>,
    ) {
        for ((what, original), (_, copy)) in
            properties(plan).into_iter().zip(properties(copy))
        {
            if original != copy {
                let text = format!("{copy}, the original's is {original}");
                self.nodes[number].departs(Promise::Properties, what, text);
            }
        }
    }

    fn cannot_be_reset(&mut self, number: usize, failure: &Failure) {
        let node = &mut self.nodes[number];
        node.departs(Promise::Result, "reset", format!("no copy: {failure}"));
        if let Failure::NoEnd(_) = failure {
            node.hung.extend(Step::OF_COPIES);
        }
        node.skipped.extend(Promise::ALL);
        node.before_change = None;
    }

    /// True if `step` would hang: it did so below, or another one did so here.
    fn skip(&mut self, number: usize, step: Step) -> bool {
        let node = &mut self.nodes[number];
        let skip = node.hung_below.contains(&step) || node.gave_up();
        if skip {
            node.skipped.extend(step.promises());
            // For the nodes above.
            node.hung_below.insert(step);
        }
        skip
    }

    fn note_hung(&mut self, number: usize, step: Step, outcomes: &[&Outcome]) {
        if outcomes.iter().any(|outcome| hung(outcome)) {
            self.nodes[number].hung.insert(step);
        }
    }

    /// Tells the parent which steps hung.
    fn pass_on_hung(&mut self, number: usize) {
        if let Some(parent) = self.nodes[number].parent {
            let node = &self.nodes[number];
            let hung = node
                .hung
                .union(&node.hung_below)
                .copied()
                .collect::<Vec<_>>();
            self.nodes[parent].hung_below.extend(hung);
        }
    }
}
