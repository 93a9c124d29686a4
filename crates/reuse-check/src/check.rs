//! A check of one plan: its subtrees, leaves first, each beside fresh ones.
//!
//! How a subtree and its copies are run is in [`ways`](crate::ways), what counts as the same
//! in [`same`](crate::same), what else shows in [`look`](crate::look), and which node is to
//! blame in [`blame`]. Here is what a check adds: what is run partition by partition, what is
//! not run because it hung before, and what a fresh plan has to say to it.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::error::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::blame::{self, Departure, Node};
use crate::report::{Promise, Report};
use crate::rows::{self, Rows};
use crate::run::{Failure, Outcome, Runner, beside, partition_count};
use crate::same::{Agreement, Fresh, hung, same};
use crate::ways::{BeforeChange, MakeSubtree, Plan, Ran, Step, Tried, Way, Ways};
use crate::{Change, MakePlan};

/// Runs of further fresh plans, before what differs from a fresh plan counts.
const CONFIRMATIONS: usize = 2;

/// What could be seen to hang. An ancestor of a node that does skips it, so that a check
/// waits for the time limit once and not once a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Fresh,
    Step(Step),
    ByPartition,
    Changed,
}

impl Part {
    /// The promises that it is about.
    fn promises(self) -> &'static [Promise] {
        match self {
            Part::Fresh => &[],
            Part::Step(Step::Reset) => {
                &[Promise::Result, Promise::Properties, Promise::Metrics]
            }
            Part::Step(Step::Cancelled) | Part::ByPartition | Part::Changed => {
                &[Promise::Result]
            }
            Part::Step(Step::TwoCopies | Step::WhileStarted | Step::WhileHalfWay) => {
                &[Promise::Isolation, Promise::AtOnce]
            }
            Part::Step(Step::Unused | Step::MadeHalfWay) => {
                &[Promise::Result, Promise::Isolation]
            }
        }
    }
}

/// A check under way.
pub(crate) struct Checker {
    make_plan: Mutex<MakePlan>,
    runner: Runner,
    /// Never run; what later plans are compared with.
    first: Plan,
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
            make_plan: Mutex::new(make_plan),
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

    fn planned(&self) -> BoxFuture<'static, Result<Plan>> {
        let make_plan = self.make_plan.lock();
        (make_plan.unwrap_or_else(PoisonError::into_inner))()
    }

    /// The subtree of `number` in a plan that was never run.
    async fn plan(&self, number: usize) -> Result<Plan> {
        let root = self.runner.call(self.planned()).await?;
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
        if root_failed && self.nodes[number].hung_below.contains(&Part::Fresh) {
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
                node.hung.insert(Part::Fresh);
            }
        } else {
            let plan = self.plan(number).await?;
            fresh.observe(&self.runner.run(&plan).await);
            if keep {
                let before = self.before_change(number, &plan).await?;
                self.nodes[number].before_change = Some(before);
            }
        }
        self.nodes[number].fresh = Some(fresh);
        Ok(())
    }

    async fn before_change(&self, number: usize, used: &Plan) -> Result<BeforeChange> {
        let plan = || self.plan(number).boxed();
        self.ways(&plan).before_change(used).await
    }

    /// Every way over unchanged data.
    async fn check_copies(&mut self, number: usize) -> Result<()> {
        if self.nodes[number].unchecked.is_some() {
            // What can be seen without a run.
            let plan = self.plan(number).await?;
            match self.runner.reset(&plan).await {
                Ok(copy) => {
                    let departures = self.other_look(number, &plan, &copy)?;
                    self.nodes[number].departures(departures);
                }
                Err(failure) => self.cannot_be_reset(number, &failure),
            }
            return Ok(());
        }
        let mut ran = vec![];
        for step in Step::ALL {
            if self.skip(number, Part::Step(step)) {
                continue;
            }
            let tried = self.try_step(number, step).await?;
            self.note_hung(number, Part::Step(step), &tried.ran);
            self.nodes[number].departures(tried.departures);
            if let Some(failure) = tried.no_copy {
                self.cannot_be_reset(number, &failure);
                return Ok(());
            }
            ran.extend(tried.ran);
        }
        self.judge(number, ran).await?;
        self.check_by_partition(number).await
    }

    async fn try_step(&self, number: usize, step: Step) -> Result<Tried> {
        let plan = || self.plan(number).boxed();
        self.ways(&plan).try_step(step).await
    }

    fn other_look(
        &self,
        number: usize,
        plan: &Plan,
        copy: &Plan,
    ) -> Result<Vec<Departure>> {
        let fresh = || self.plan(number).boxed();
        let ways = self.ways(&fresh);
        ways.other_look(ways.look(plan)?, copy)
    }

    fn ways<'a>(&'a self, plan: &'a MakeSubtree<'a>) -> Ways<'a> {
        Ways {
            plan,
            part: Arc::clone,
            runner: &self.runner,
            slow: &self.runner,
            elsewhere: |run| run,
            whole: false,
        }
    }

    /// Partition i of copy i, of a plan which ran: together they are the whole, if they
    /// are so for fresh plans.
    async fn check_by_partition(&mut self, number: usize) -> Result<()> {
        let plan = &self.plan(number).await?;
        let count = partition_count(plan);
        if count < 2 || self.skip(number, Part::ByPartition) {
            return Ok(());
        }
        self.runner.run(plan).await.ok();
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
        if hung(&outcome) {
            self.nodes[number].hung.insert(Part::ByPartition);
        }
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
        let text = fresh.beside(&outcome, false);
        self.nodes[number].departs(Promise::Result, run, text);
        Ok(())
    }

    async fn run_by_partition(&self, plans: &[Plan]) -> Outcome {
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
        if self.skip(number, Part::Changed) {
            return Ok(());
        }
        let Some(before) = self.nodes[number].fresh.clone() else {
            return Ok(());
        };
        let tried = self.after_change(number, plan).await;
        self.note_hung(number, Part::Changed, &tried.ran);
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
        self.judge(number, tried.ran).await
    }

    async fn after_change(&self, number: usize, before: BeforeChange) -> Tried {
        let plan = || self.plan(number).boxed();
        self.ways(&plan).after_change(before).await
    }

    /// What the plan gives when it runs again as it is. It promises nothing.
    async fn run_again(&mut self) -> Result<()> {
        let Some(fresh) = self.nodes[0].fresh.clone() else {
            return Ok(());
        };
        if fresh.outcome.is_err() {
            return Ok(());
        }
        let plan = || self.plan(0).boxed();
        let again = self.ways(&plan).run_again().await?;
        let text = match fresh.allows(&again) {
            true => "as fresh".to_string(),
            false => beside(&again, &fresh.outcome),
        };
        self.notes.push(format!(
            "run again without a reset, which promises nothing: {text}"
        ));
        Ok(())
    }

    /// Compares what ran with what fresh plans give.
    async fn judge(&mut self, number: usize, ran: Vec<Ran>) -> Result<()> {
        let Some(mut fresh) = self.nodes[number].fresh.take() else {
            return Ok(());
        };
        let (of_fresh, ran): (Vec<_>, Vec<_>) =
            ran.into_iter().partition(|ran| ran.way == Way::Fresh);
        for ran in of_fresh {
            fresh.observe(&ran.outcome);
        }
        if ran.iter().any(|ran| !fresh.allows(&ran.outcome)) {
            for _ in 0..CONFIRMATIONS {
                let plan = self.plan(number).await?;
                fresh.observe(&self.runner.run(&plan).await);
            }
        }
        let node = &mut self.nodes[number];
        let at_once = |ran: &Ran| ran.way.promise() == Promise::AtOnce;
        let one_copy = ran.iter().find(|ran| ran.way.promise() == Promise::Result);
        let wrong_alone = one_copy.is_some_and(|ran| !fresh.allows(&ran.outcome));
        if wrong_alone && ran.iter().any(at_once) {
            // It says nothing of running at once.
            node.skipped.insert(Promise::AtOnce);
        }
        for ran in ran {
            let counts = !at_once(&ran) || !wrong_alone;
            if counts && !fresh.allows(&ran.outcome) {
                let text = fresh.beside(&ran.outcome, ran.way.at_once());
                node.departs(ran.way.promise(), ran.way.name(), text);
            }
        }
        node.fresh = Some(fresh);
        Ok(())
    }

    fn cannot_be_reset(&mut self, number: usize, failure: &Failure) {
        let node = &mut self.nodes[number];
        node.departs(Promise::Result, "reset", format!("no copy: {failure}"));
        if let Failure::NoEnd(_) = failure {
            node.hung.extend(Step::ALL.map(Part::Step));
            node.hung.extend([Part::ByPartition, Part::Changed]);
        }
        node.skipped.extend(Promise::ALL);
        node.before_change = None;
    }

    /// True if `part` would hang: it did so below, or another one did so here.
    fn skip(&mut self, number: usize, part: Part) -> bool {
        let node = &mut self.nodes[number];
        let skip = node.hung_below.contains(&part) || node.gave_up();
        if skip {
            node.skipped.extend(part.promises());
            // For the nodes above.
            node.hung_below.insert(part);
        }
        skip
    }

    fn note_hung(&mut self, number: usize, part: Part, ran: &[Ran]) {
        if ran.iter().any(|ran| hung(&ran.outcome)) {
            self.nodes[number].hung.insert(part);
        }
    }

    /// Tells the parent what hung.
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
