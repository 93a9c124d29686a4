//! Every way to run one shape again, each beside what a fresh plan gives.
//!
//! ```text
//!   fresh          P ─ run
//!   bare           P ─ run ─ run
//!   reset          P ─ run ─┬─ R(P) ─ run
//!   second reset            └─ R(P) ─ run
//!   reset of ...   P ─ run ─── R(P) ─ run ─ R(R(P)) ─ run
//!   two copies     P ──┬─ R(P) ─ run   (in turn, or both at once)
//!                      ├─ R(P) ─ run
//!                      └─ run          (the original, afterwards)
//!   while running  P ─ first batches ─ R(P) ─ rest of P ─ run R(P)
//! ```
//!
//! `P` is planned anew for each line and `R` is [`reset_plan_states`]. The same is
//! done once more with the tables changed after the first run: rerunning over the same
//! data cannot show that a plan kept what it read.
//!
//! All of it but the bare rerun is what the contract of a reset copy promises:
//!
//! 1. run, it gives what a fresh plan gives;
//! 2. making and running it changes nothing in the original or another copy;
//! 3. copies run at the same time;
//! 4. schema, partitioning and display are the original's;
//! 5. its metrics start empty.

use std::fmt::{self, Write};
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties, displayable};

use crate::data::{Data, Version};
use crate::run::{Outcome, run, start};
use crate::shape::{Order, Settings, Shape};

/// Label of the one run that promises nothing.
pub const BARE_RERUN: &str = "bare rerun";

/// Width of the first column in a snapshot.
const LABEL: usize = 12;

/// What was done, and what each plan that took part gave.
struct Line {
    label: &'static str,
    outcomes: Vec<Outcome>,
}

impl Line {
    fn new(label: &'static str, outcomes: impl Into<Vec<Outcome>>) -> Self {
        Self {
            label,
            outcomes: outcomes.into(),
        }
    }

    fn is_as(&self, fresh: &Outcome) -> bool {
        self.outcomes.iter().all(|outcome| outcome == fresh)
    }

    fn text(&self, fresh: &Outcome) -> String {
        let texts: Vec<_> = self.outcomes.iter().map(|it| beside(it, fresh)).collect();
        texts.join(" | ")
    }
}

/// An outcome as it is shown beside the fresh plan's.
fn beside(outcome: &Outcome, fresh: &Outcome) -> String {
    match outcome == fresh {
        true => "as fresh".to_string(),
        false => outcome.to_string(),
    }
}

/// Runs over one state of the tables.
struct Section {
    fresh: Outcome,
    bare: Outcome,
    promised: Vec<Line>,
    /// See [`Shape::open`].
    open: Option<&'static str>,
}

impl Section {
    fn departures(&self) -> impl Iterator<Item = &Line> {
        self.promised
            .iter()
            .filter(|line| Some(line.label) != self.open && !line.is_as(&self.fresh))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const OPEN: &str = "left open: it depends on which partition comes first";
        writeln!(f, "  {:<LABEL$}{}", "fresh", self.fresh)?;
        let bare = match self.open {
            Some(BARE_RERUN) => OPEN.to_string(),
            _ => beside(&self.bare, &self.fresh),
        };
        writeln!(f, "  {BARE_RERUN:<LABEL$}{bare}")?;
        let (mut kept, mut departures) = (vec![], String::new());
        for line in &self.promised {
            let label = line.label;
            if Some(label) == self.open {
                writeln!(departures, "  {label}: {OPEN}")?;
            } else if line.is_as(&self.fresh) {
                kept.push(label);
            } else {
                writeln!(departures, "  {label}: {}", line.text(&self.fresh))?;
            }
        }
        if !kept.is_empty() {
            writeln!(f, "  {:<LABEL$}{}", "as fresh", kept.join(", "))?;
        }
        f.write_str(&departures)
    }
}

/// What the runs of one shape under one setting gave.
pub struct Runs {
    same_data: Section,
    changed_data: Section,
    /// The fresh plan, before it ran.
    plan: String,
    /// A reset copy of a plan that ran.
    reset_plan: String,
    /// Names of the nodes of such a copy that come with metrics.
    metrics: Vec<String>,
    /// Promises of a copy's schema and partitioning that were not kept.
    properties: Vec<&'static str>,
}

impl Runs {
    /// Runs `shape` under `settings` in every way. `data` is in its first version
    /// before and after.
    ///
    /// # Errors
    ///
    /// If the query cannot be planned or a plan cannot be reset. A run that fails is an
    /// outcome.
    pub async fn new(data: &Data, shape: &Shape, settings: &Settings) -> Result<Self> {
        let session = data.session(settings).await?;
        let task = session.task_ctx();
        let order = shape.order;
        let plan = || async {
            let frame = session.sql(shape.sql).await?;
            frame.create_physical_plan().await
        };
        let runner = Runner { task, order };

        let fresh_plan = plan().await?;
        let display = show(&fresh_plan);
        let fresh = runner.run(&fresh_plan).await;
        let mut lines = vec![];

        let p = plan().await?;
        runner.run(&p).await;
        let copy = reset(&p)?;
        let reset_plan = show(&copy);
        let metrics = nodes_with_metrics(&copy);
        let properties = changed_properties(&p, &copy);
        lines.push(Line::new("reset", [runner.run(&copy).await]));
        lines.push(Line::new("second reset", [runner.run(&reset(&p)?).await]));

        let p = plan().await?;
        runner.run(&p).await;
        let copy = reset(&p)?;
        runner.run(&copy).await;
        let outcome = runner.run(&reset(&copy)?).await;
        lines.push(Line::new("reset of a reset", [outcome]));

        let p = plan().await?;
        runner.run(&p).await;
        let bare = runner.run(&p).await;
        let outcome = runner.run(&reset(&p)?).await;
        lines.push(Line::new("reset after the bare rerun", [outcome]));

        let p = plan().await?;
        let (one, two) = (reset(&p)?, reset(&p)?);
        let outcomes = [runner.run(&one).await, runner.run(&two).await];
        lines.push(Line::new("two copies in turn", outcomes));
        lines.push(Line::new("original after them", [runner.run(&p).await]));

        let p = plan().await?;
        let (one, two) = (reset(&p)?, reset(&p)?);
        let (one, two) = tokio::join!(runner.run(&one), runner.run(&two));
        let mut outcomes = [one, two];
        // Which of the two is the first to go wrong is open.
        outcomes.sort();
        lines.push(Line::new("two copies at once", outcomes));

        let p = plan().await?;
        let outcomes = match start(&p, &runner.task).await {
            Ok(started) => {
                let copy = reset(&p)?;
                [started.finish(order).await, runner.run(&copy).await]
            }
            Err(outcome) => [outcome, runner.run(&reset(&p)?).await],
        };
        lines.push(Line::new("reset while running (original | copy)", outcomes));

        let p = plan().await?;
        let outcomes = match start(&p, &runner.task).await {
            Ok(started) => {
                let copy = runner.run(&reset(&p)?).await;
                [started.finish(order).await, copy]
            }
            Err(outcome) => [outcome, runner.run(&reset(&p)?).await],
        };
        lines.push(Line::new("copy run meanwhile (original | copy)", outcomes));
        let same_data = Section {
            fresh,
            bare,
            promised: lines,
            open: shape.open,
        };

        let used = plan().await?;
        runner.run(&used).await;
        let p = plan().await?;
        runner.run(&p).await;
        let copy_before = reset(&plan().await?)?;
        data.set(Version::Changed)?;
        let changed = data.session(settings).await?;
        let fresh_plan = changed.sql(shape.sql).await?.create_physical_plan().await?;
        let fresh = runner.run(&fresh_plan).await;
        let bare = runner.run(&used).await;
        let lines = vec![
            Line::new("reset", [runner.run(&reset(&p)?).await]),
            Line::new("second reset", [runner.run(&reset(&p)?).await]),
            Line::new("copy made before", [runner.run(&copy_before).await]),
        ];
        data.set(Version::First)?;

        Ok(Self {
            same_data,
            changed_data: Section {
                fresh,
                bare,
                promised: lines,
                open: shape.open,
            },
            plan: data.redact(&display),
            reset_plan: data.redact(&reset_plan),
            metrics,
            properties,
        })
    }

    /// Each promise that was not kept, in words; metrics are left to
    /// [`Self::metrics`].
    pub fn departures(&self) -> Vec<String> {
        let of = |section: &Section, when: &str| -> Vec<String> {
            let labels = section.departures().map(|line| line.label);
            labels.map(|label| format!("{label}{when}")).collect()
        };
        let mut departures = of(&self.same_data, "");
        departures.extend(of(&self.changed_data, ", data changed"));
        departures.extend(self.properties.iter().map(|text| text.to_string()));
        if self.reset_plan != self.plan {
            departures.push("plan display".to_string());
        }
        departures
    }

    /// Names of the nodes of a reset copy that has not run yet and still has metrics.
    pub fn metrics(&self) -> &[String] {
        &self.metrics
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "same data\n{}", self.same_data)?;
        if self.changed_data.fresh != self.same_data.fresh {
            write!(f, "data changed after the first run\n{}", self.changed_data)?;
        }
        if !self.metrics.is_empty() {
            writeln!(
                f,
                "metrics left in a reset copy: {}",
                self.metrics.join(", ")
            )?;
        }
        if self.reset_plan == self.plan {
            write!(f, "plan, fresh and reset\n{}", self.plan)
        } else {
            write!(
                f,
                "plan, fresh\n{}plan, reset after a run\n{}",
                self.plan, self.reset_plan
            )
        }
    }
}

struct Runner {
    task: Arc<TaskContext>,
    order: Order,
}

impl Runner {
    async fn run(&self, plan: &Arc<dyn ExecutionPlan>) -> Outcome {
        run(plan, &self.task, self.order).await
    }
}

/// A reset copy of `plan`.
pub fn reset(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    reset_plan_states(Arc::clone(plan))
}

/// The plan as `EXPLAIN` shows it, indented as snapshots show it.
pub fn show(plan: &Arc<dyn ExecutionPlan>) -> String {
    let display = displayable(plan.as_ref()).indent(false).to_string();
    display.lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "  {line}");
        text
    })
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

/// Runs `shape` under each of its settings. Settings that give the same text share one
/// block of it.
///
/// # Errors
///
/// As [`Runs::new`].
pub async fn compare(
    data: &Data,
    shape: &Shape,
) -> Result<(String, Vec<(Settings, Runs)>)> {
    let mut blocks: Vec<(Vec<String>, String)> = vec![];
    let mut all = vec![];
    for settings in &shape.settings {
        let runs = Runs::new(data, shape, settings).await?;
        let text = runs.to_string();
        let title = settings.to_string();
        match blocks.iter_mut().find(|(_, block)| *block == text) {
            Some((titles, _)) => titles.push(title),
            None => blocks.push((vec![title], text)),
        }
        all.push((*settings, runs));
    }
    let mut text = format!("{}\n", shape.sql);
    for (titles, block) in blocks {
        let _ = write!(text, "\n## {}\n{block}", titles.join("\n## "));
    }
    Ok((text, all))
}
