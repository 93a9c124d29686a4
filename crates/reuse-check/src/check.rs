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
//! A node is to blame if the subtree that it is the root of breaks a promise and no
//! subtree below it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::report::{Finding, NodeReport, Promise, Report, Verdict};
use crate::rows::{self, Rows};
use crate::run::{Failure, Outcome, Runner, Until, beside, partition_count};
use crate::{Change, MakePlan, foreign};

/// Runs of further fresh plans, before what differs from a fresh plan counts.
const CONFIRMATIONS: usize = 2;

/// What could be seen to hang. An ancestor of a node that does skips it, so that a check
/// waits for the time limit once and not once a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
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

/// What a fresh plan gives, and how far fresh plans agree on it.
#[derive(Clone, Debug)]
struct Fresh {
    outcome: Outcome,
    agreement: Agreement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// On the rows, or on the failure.
    Full,
    /// On the number of rows.
    Count,
    /// On giving rows.
    Rows,
    /// Some give rows and some fail.
    None,
}

impl Fresh {
    fn new(outcome: Outcome, agreement: Agreement) -> Self {
        Self { outcome, agreement }
    }

    /// Takes in what another fresh plan gave.
    fn observe(&mut self, other: &Outcome) {
        while self.agreement != Agreement::None && !self.allows(other) {
            self.agreement = match self.agreement {
                Agreement::Full => Agreement::Count,
                Agreement::Count => Agreement::Rows,
                Agreement::Rows | Agreement::None => Agreement::None,
            };
        }
    }

    /// True if a fresh plan might have given `outcome`.
    fn allows(&self, outcome: &Outcome) -> bool {
        match (self.agreement, outcome, &self.outcome) {
            (Agreement::None, _, _) => true,
            (Agreement::Full, outcome, fresh) => same(outcome, fresh),
            (Agreement::Count, Ok(rows), Ok(fresh)) => rows.count() == fresh.count(),
            (Agreement::Rows, Ok(_), Ok(_)) => true,
            _ => false,
        }
    }
}

impl Fresh {
    /// What `seen` gave, which these plans do not allow. Says nothing that differs from one
    /// check to the next.
    fn beside(&self, seen: &Seen) -> String {
        match (&seen.outcome, &self.outcome) {
            (Ok(_), Ok(_)) if seen.at_once => "other rows than a fresh plan".to_string(),
            (Ok(rows), Ok(fresh)) if self.agreement != Agreement::Full => format!(
                "{}; a fresh plan gives {}",
                rows::number(rows.count()),
                fresh.count()
            ),
            (outcome, fresh) => beside(outcome, fresh),
        }
    }

    /// What follows from fresh plans that do not agree.
    fn disagreement(&self) -> Option<&'static str> {
        match self.agreement {
            Agreement::Full => None,
            Agreement::Count => Some(
                "other rows from one fresh plan to the next, though as many (LIMIT without \
                 an order?): only their number was compared",
            ),
            Agreement::Rows => Some(
                "other rows from one fresh plan to the next, and not as many: only that \
                 there was no error was compared",
            ),
            Agreement::None => {
                Some("one fresh plan gives rows and the next fails: nothing was compared")
            }
        }
    }
}

fn same(one: &Outcome, other: &Outcome) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one.are(other),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

fn hung(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Failure::NoEnd(_)))
}

/// One run that was to give what a fresh plan gives.
struct Seen {
    promise: Promise,
    run: &'static str,
    outcome: Outcome,
    /// True if something else ran at the same time, so that what is wrong with the rows
    /// differs from one check to the next.
    at_once: bool,
}

impl Seen {
    fn alone(promise: Promise, run: &'static str, outcome: Outcome) -> Self {
        Self {
            promise,
            run,
            outcome,
            at_once: false,
        }
    }

    fn at_once(promise: Promise, run: &'static str, outcome: Outcome) -> Self {
        Self {
            at_once: true,
            ..Self::alone(promise, run, outcome)
        }
    }
}

/// A promise that was not kept: in which run, and what that gave.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Departure {
    promise: Promise,
    run: &'static str,
    text: String,
}

/// A node of the plan, and what was seen of the subtree below it.
struct Node {
    name: String,
    path: Vec<usize>,
    parent: Option<usize>,
    unbounded: bool,
    fresh: Option<Fresh>,
    /// Has run once, for the runs after the change.
    before_change: Option<Arc<dyn ExecutionPlan>>,
    /// Why its rows could not be checked.
    unchecked: Option<String>,
    hung: BTreeSet<Step>,
    hung_below: BTreeSet<Step>,
    departures: Vec<Departure>,
    /// Promises of which not all was seen.
    skipped: BTreeSet<Promise>,
    /// What fresh plans give partition by partition, where that is not the whole.
    by_partition: Option<String>,
    cannot_forward: bool,
}

impl Node {
    fn departs(&mut self, promise: Promise, run: &'static str, text: String) {
        let departure = Departure { promise, run, text };
        // Two copies at once may depart in the same way.
        if !self.departures.contains(&departure) {
            self.departures.push(departure);
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

    /// True if a run of this very node hung in a step other than those that even fresh
    /// plans may hang in.
    fn gave_up(&self) -> bool {
        let unsure = [Step::Fresh, Step::ByPartition];
        self.hung.iter().any(|step| !unsure.contains(step))
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
            nodes.push(Node {
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
            });
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
        Ok(self.report())
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

    fn report(self) -> Report {
        let Self { nodes, notes, .. } = self;
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

/// What a copy must have in common with its original, as text: the types have no
/// equality that would do (two unknown partitionings, for example, are never equal).
fn properties(plan: &Arc<dyn ExecutionPlan>) -> [(&'static str, String); 10] {
    let it = plan.properties();
    let ordering = match plan.output_ordering() {
        Some(ordering) => ordering.to_string(),
        None => "none".to_string(),
    };
    [
        ("name", plan.name().to_string()),
        ("schema", format!("{:?}", plan.schema())),
        ("partitioning", it.partitioning.to_string()),
        ("ordering", ordering),
        ("emission", format!("{:?}", it.emission_type)),
        ("boundedness", format!("{:?}", it.boundedness)),
        ("evaluation", format!("{:?}", it.evaluation_type)),
        ("scheduling", format!("{:?}", it.scheduling_type)),
        ("fetch", format!("{:?}", plan.fetch())),
        ("number of children", plan.children().len().to_string()),
    ]
}

/// Values of a node's metrics by name, summed over its partitions.
type Counts = BTreeMap<String, usize>;

/// What a node has counted so far. Times are left out: those of a done run may still
/// grow when its last task ends. So are ratios, which are no sums.
fn counts(plan: &Arc<dyn ExecutionPlan>) -> Counts {
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
fn filled_metrics(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
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
fn changed_counts(before: &Counts, after: &Counts) -> Vec<String> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let count = |counts: &Counts, name: &String| counts.get(name).copied().unwrap_or(0);
    let changed = names.into_iter().filter_map(|name| {
        let (new, old) = (count(after, name), count(before, name));
        (new != old).then(|| format!("{name} {new}, was {old}"))
    });
    changed.collect()
}

/// The first of `texts`, the number of output rows before others, and how many more.
fn some_of(mut texts: Vec<String>) -> String {
    const SHOWN: usize = 3;
    texts.sort_by_key(|text| !text.starts_with("output_rows"));
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    match more {
        0 => texts.join("; "),
        more => format!("{}; {more} more", texts.join("; ")),
    }
}
