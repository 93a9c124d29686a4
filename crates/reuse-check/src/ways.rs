//! Every way to run one plan and its copies.
//!
//! `P` is planned anew in each line, `R` is `reset_plan_states`; what a line is compared
//! with is a run of a fresh `P`.
//!
//! ```text
//!   reset                   P ─ run ─┬─ R(P) ─ run ─ R(R(P)) ─ run
//!                                    └─ R(P) ─ run
//!   unused                  P ─ R(P) ─ run ─ run of P
//!   two copies at once      P ─┬─ R(P) ─ run ─┐         ┌─ R(P) ─ run
//!                              ├─ R(P) ─ run ─┤         │
//!                              └──────────────┴─ run ───┴─ R(P) ─ run
//!   while the original runs P ─ one poll, or first batches ─┬─ R(P) ─ run
//!                                                           └─ rest of P
//!                           P ─ first batches ─ R(P) ─ rest of P ─ run of R(P)
//!   after a cancelled run   P ─ first batches ─ drop ─ R(P) ─ run
//!   after the data changed  P ─ run ──┐
//!                           P ─ R(P) ─┴─ change ─┬─ R(P) ─ run
//!                                                └─ run of the copy made before
//! ```
//!
//! What is right is not asked here.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::blame::Departure;
use crate::look::{Counts, changed_counts, counts, filled_metrics, properties, some_of};
use crate::report::Promise;
use crate::run::{Failure, Outcome, Runner, Until};

pub type Plan = Arc<dyn ExecutionPlan>;

/// Makes plans of one shape, each anew.
pub type MakeSubtree<'a> = dyn Fn() -> BoxFuture<'a, Result<Plan>> + Sync + 'a;

/// What is tried together, with plans of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Reset,
    Unused,
    TwoCopies,
    WhileStarted,
    WhileHalfWay,
    MadeHalfWay,
    Cancelled,
}

impl Step {
    pub const ALL: [Step; 7] = [
        Step::Reset,
        Step::Unused,
        Step::TwoCopies,
        Step::WhileStarted,
        Step::WhileHalfWay,
        Step::MadeHalfWay,
        Step::Cancelled,
    ];
}

/// How a plan, or a copy of it, came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Fresh,
    Reset,
    SecondReset,
    ResetOfReset,
    Unused,
    After,
    OneCopy,
    OtherCopy,
    Beside,
    OriginalBeside,
    OriginalMidway,
    Midway,
    Cancelled,
    Changed,
    BeforeChange,
}

impl Way {
    /// As a report names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Fresh => "a fresh plan",
            Way::Reset => "reset",
            Way::SecondReset => "reset once more",
            Way::ResetOfReset => "reset of a reset",
            Way::Unused => "reset before the original ran",
            Way::After => "the original, run after its copies",
            Way::OneCopy | Way::OtherCopy => "two copies at once",
            Way::Beside => "a copy, while the original runs",
            Way::OriginalBeside => "the original, while a copy runs",
            Way::OriginalMidway => "the original, a copy made while it runs",
            Way::Midway => "a copy made while the original runs",
            Way::Cancelled => "reset after a cancelled run",
            Way::Changed => "reset after the data changed",
            Way::BeforeChange => "reset before the data changed",
        }
    }

    /// What is broken if it gives other rows than a fresh plan.
    pub(crate) fn promise(self) -> Promise {
        match self {
            Way::Fresh
            | Way::Reset
            | Way::SecondReset
            | Way::ResetOfReset
            | Way::Unused
            | Way::Midway
            | Way::Cancelled
            | Way::Changed
            | Way::BeforeChange => Promise::Result,
            Way::After | Way::OriginalBeside | Way::OriginalMidway => Promise::Isolation,
            Way::OneCopy | Way::OtherCopy | Way::Beside => Promise::AtOnce,
        }
    }

    /// True if it is run [elsewhere](Ways::elsewhere).
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Way::OtherCopy | Way::Beside)
    }

    /// True if something else ran at the same time, so that what is wrong with the rows
    /// differs from one try to the next.
    pub(crate) fn at_once(self) -> bool {
        match self {
            Way::OriginalBeside | Way::OriginalMidway => true,
            way => way.promise() == Promise::AtOnce,
        }
    }
}

/// One run, and what came of it.
pub struct Ran {
    pub way: Way,
    pub outcome: Outcome,
    /// What ran.
    pub plan: Option<Plan>,
}

/// What a step showed.
#[derive(Default)]
pub struct Tried {
    pub ran: Vec<Ran>,
    /// What else is not as promised: properties and metrics.
    pub departures: Vec<Departure>,
    /// Why a plan that ran cannot be reset.
    pub no_copy: Option<Failure>,
}

impl Tried {
    /// Returns false if the run did not end, so that no more should be tried.
    fn put(&mut self, way: Way, plan: Option<&Plan>, outcome: Outcome) -> bool {
        let goes_on = !matches!(outcome, Err(Failure::NoEnd(_)));
        self.ran.push(Ran {
            way,
            outcome,
            plan: plan.map(Arc::clone),
        });
        goes_on
    }
}

/// A plan that ran and a copy of one that did not, for the time after the data changed.
pub struct BeforeChange {
    used: Plan,
    copy: Result<Plan, Failure>,
}

/// Makes a run read other data than the original's, if the caller has them.
pub type Elsewhere = fn(BoxFuture<'_, Outcome>) -> BoxFuture<'_, Outcome>;

/// Where plans come from and where they run.
pub struct Ways<'a> {
    /// Plans anew.
    pub plan: &'a MakeSubtree<'a>,
    /// The part of a plan that copies are made of.
    pub part: fn(&Plan) -> Plan,
    pub runner: &'a Runner,
    /// For runs that are to be interrupted.
    pub slow: &'a Runner,
    /// For the other of two runs at once, and for what runs after a change.
    pub elsewhere: Elsewhere,
    /// Properties and metrics are those of every node, and the display counts, rather than
    /// those of the topmost node.
    pub whole: bool,
}

impl Ways<'_> {
    /// Makes plans and copies and runs them. Whatever they do is no error.
    ///
    /// # Errors
    ///
    /// Those of planning.
    pub async fn try_step(&self, step: Step) -> Result<Tried> {
        let mut tried = Tried::default();
        match step {
            Step::Reset => self.reset(&mut tried).await?,
            Step::Unused => self.unused(&mut tried).await?,
            Step::TwoCopies => self.two_copies(&mut tried).await?,
            Step::WhileStarted => self.beside(Until::OnePoll, &mut tried).await?,
            Step::WhileHalfWay => self.beside(Until::FirstBatch, &mut tried).await?,
            Step::MadeHalfWay => self.made_half_way(&mut tried).await?,
            Step::Cancelled => self.cancelled(&mut tried).await?,
        }
        Ok(tried)
    }

    async fn fresh(&self) -> Result<Plan> {
        Ok((self.part)(&(self.plan)().await?))
    }

    async fn reset(&self, tried: &mut Tried) -> Result<()> {
        let whole = (self.plan)().await?;
        let plan = (self.part)(&whole);
        let looked = self.look(&plan)?;
        let outcome = self.runner.run(&whole).await;
        tried.put(Way::Fresh, Some(&plan), outcome);
        let counted = self.counts(&plan)?;
        let copy = match self.runner.reset(&plan).await {
            Ok(copy) => copy,
            Err(failure) => {
                tried.no_copy = Some(failure);
                return Ok(());
            }
        };
        tried.departures.extend(self.other_look(looked, &copy)?);
        let mut filled = vec![];
        for (name, node) in self.nodes(&copy)? {
            let of_node = filled_metrics(&node).into_iter();
            filled.extend(of_node.map(|text| format!("{text}{name}")));
        }
        if !filled.is_empty() {
            tried.departures.push(Departure {
                promise: Promise::Metrics,
                run: Way::Reset.name(),
                text: format!("before it ran, it has {}", some_of(filled)),
            });
        }
        let outcome = self.runner.run(&copy).await;
        let goes_on = tried.put(Way::Reset, Some(&copy), outcome);
        let after = self.counts(&plan)?;
        let changed = changed(&counted, &after);
        if !changed.is_empty() && !self.settles(&plan, &after).await? {
            tried.departures.push(Departure {
                promise: Promise::Isolation,
                run: "metrics of the original, after a copy ran",
                text: some_of(changed),
            });
        }
        if goes_on && tried.put(Way::SecondReset, None, self.run_copy(&plan).await) {
            tried.put(Way::ResetOfReset, None, self.run_copy(&copy).await);
        }
        Ok(())
    }

    /// A copy that only the plan before it ran is not enough to tell.
    async fn unused(&self, tried: &mut Tried) -> Result<()> {
        let plan = self.fresh().await?;
        if tried.put(Way::Unused, None, self.run_copy(&plan).await) {
            tried.put(Way::After, None, self.runner.run(&plan).await);
        }
        Ok(())
    }

    /// Of a plan that did not run, and of one that did.
    async fn two_copies(&self, tried: &mut Tried) -> Result<()> {
        let plan = self.fresh().await?;
        if self.copies_at_once(&plan, tried).await
            && tried.put(Way::After, None, self.runner.run(&plan).await)
        {
            self.copies_at_once(&plan, tried).await;
        }
        Ok(())
    }

    /// Returns false if one of them did not end.
    async fn copies_at_once(&self, plan: &Plan, tried: &mut Tried) -> bool {
        let copies = (self.runner.reset(plan).await, self.runner.reset(plan).await);
        let outcomes = match copies {
            (Ok(one), Ok(other)) => {
                let elsewhere = (self.elsewhere)(self.runner.run(&other).boxed());
                futures::join!(self.runner.run(&one), elsewhere)
            }
            (one, other) => {
                let failure = |copy: Result<Plan, Failure>| match copy {
                    Ok(_) => Err(Failure::Error("the other cannot be reset".to_string())),
                    Err(failure) => Err(failure),
                };
                (failure(one), failure(other))
            }
        };
        let one = tried.put(Way::OneCopy, None, outcomes.0);
        let other = tried.put(Way::OtherCopy, None, outcomes.1);
        one && other
    }

    async fn beside(&self, until: Until, tried: &mut Tried) -> Result<()> {
        let plan = self.fresh().await?;
        let original = match self.slow.start(&plan, until).await {
            Err(failure) => Err(failure),
            Ok(started) => {
                let copy = (self.elsewhere)(self.run_copy(&plan).boxed()).await;
                if !tried.put(Way::Beside, None, copy) {
                    return Ok(());
                }
                self.slow.finish(started).await
            }
        };
        tried.put(Way::OriginalBeside, None, original);
        Ok(())
    }

    async fn made_half_way(&self, tried: &mut Tried) -> Result<()> {
        let plan = self.fresh().await?;
        let started = match self.slow.start(&plan, Until::FirstBatch).await {
            Ok(started) => started,
            Err(failure) => {
                tried.put(Way::OriginalMidway, None, Err(failure));
                return Ok(());
            }
        };
        let copy = self.runner.reset(&plan).await;
        let original = self.slow.finish(started).await;
        if tried.put(Way::OriginalMidway, None, original) {
            let outcome = match copy {
                Ok(copy) => self.runner.run(&copy).await,
                Err(failure) => Err(failure),
            };
            tried.put(Way::Midway, None, outcome);
        }
        Ok(())
    }

    async fn cancelled(&self, tried: &mut Tried) -> Result<()> {
        let plan = self.fresh().await?;
        let cancelled = match self.slow.start(&plan, Until::FirstBatch).await {
            Ok(started) => self.slow.cancel(started).await,
            Err(failure) => Err(failure),
        };
        let outcome = match cancelled {
            Ok(()) => self.run_copy(&plan).await,
            Err(failure) => Err(failure),
        };
        tried.put(Way::Cancelled, None, outcome);
        Ok(())
    }

    /// Gets ready for a change of the data; `used` is a plan that ran.
    ///
    /// # Errors
    ///
    /// Those of planning.
    pub async fn before_change(&self, used: &Plan) -> Result<BeforeChange> {
        Ok(BeforeChange {
            used: (self.part)(used),
            copy: self.runner.reset(&self.fresh().await?).await,
        })
    }

    /// What copies give after the data changed.
    pub async fn after_change(&self, before: BeforeChange) -> Tried {
        let mut tried = Tried::default();
        let outcome = (self.elsewhere)(self.run_copy(&before.used).boxed()).await;
        if tried.put(Way::Changed, None, outcome)
            // Of a plan that cannot be reset, the other ways say so.
            && let Ok(copy) = &before.copy
        {
            let outcome = (self.elsewhere)(self.runner.run(copy).boxed()).await;
            tried.put(Way::BeforeChange, None, outcome);
        }
        tried
    }

    /// Runs a plan twice as it is, which promises nothing.
    ///
    /// # Errors
    ///
    /// Those of planning.
    pub async fn run_again(&self) -> Result<Outcome> {
        let plan = (self.plan)().await?;
        self.runner.run(&plan).await.ok();
        Ok(self.runner.run(&plan).await)
    }

    async fn run_copy(&self, plan: &Plan) -> Outcome {
        let copy = self.runner.reset(plan).await?;
        self.runner.run(&copy).await
    }

    /// True if the metrics of `plan`, which is done, stay what they are now when another
    /// copy runs: then it was the plan's own work in the background that changed them.
    async fn settles(&self, plan: &Plan, counts_now: &[Counted]) -> Result<bool> {
        let outcome = self.run_copy(plan).await;
        Ok(outcome.is_ok() && changed(counts_now, &self.counts(plan)?).is_empty())
    }

    /// The nodes to look at, and how a text names them.
    fn nodes(&self, plan: &Plan) -> Result<Vec<(String, Plan)>> {
        if !self.whole {
            return Ok(vec![(String::new(), Arc::clone(plan))]);
        }
        let mut nodes = vec![];
        plan.apply(|node| {
            nodes.push((format!(" of {}", node.name()), Arc::clone(node)));
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(nodes)
    }

    fn counts(&self, plan: &Plan) -> Result<Vec<Counted>> {
        let nodes = self.nodes(plan)?.into_iter();
        Ok(nodes.map(|(name, node)| (name, counts(&node))).collect())
    }

    /// What a copy must have in common with `plan`, which has not run: a run may show in
    /// the text of an expression.
    pub(crate) fn look(&self, plan: &Plan) -> Result<Vec<Look>> {
        let mut looked = vec![];
        for (name, node) in self.nodes(plan)? {
            let of_node = properties(&node).into_iter();
            looked.extend(of_node.map(|(what, text)| (what, name.clone(), text)));
        }
        if self.whole {
            let text = displayable(plan.as_ref()).indent(false).to_string();
            looked.push(("display", String::new(), text));
        }
        Ok(looked)
    }

    /// How a copy departs from what its original looks like.
    pub(crate) fn other_look(
        &self,
        original: Vec<Look>,
        copy: &Plan,
    ) -> Result<Vec<Departure>> {
        let pairs = original.into_iter().zip(self.look(copy)?);
        let other = pairs.filter(|((.., original), (.., copy))| original != copy);
        let departures = other.map(|((what, name, original), (.., copy))| Departure {
            promise: Promise::Properties,
            run: what,
            text: format!("{copy}{name}, the original's is {original}"),
        });
        Ok(departures.collect())
    }
}

/// A property: what it is, of which node, and its text.
type Look = (&'static str, String, String);

/// What a node has counted, after its name.
type Counted = (String, Counts);

fn changed(before: &[Counted], after: &[Counted]) -> Vec<String> {
    let mut texts = vec![];
    for ((name, before), (_, after)) in before.iter().zip(after) {
        let of_node = changed_counts(before, after).into_iter();
        texts.extend(of_node.map(|text| format!("{text}{name}")));
    }
    texts
}
