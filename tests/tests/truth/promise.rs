//! What a reset copy promises, and whether one shape under one setting keeps it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use reuse_tests::inspect::{
    Filter, changed_properties, filters, ids, links, metrics, nodes_with_metrics,
    output_rows, pruned, show, spills,
};
use reuse_tests::run::{Outcome, reset, run, start};
use reuse_tests::settings::Settings;
use reuse_tests::tables::{Memory, Tables};
use reuse_tests::version::{Version, at};

use super::shapes::{Case, Setting};

type Plan = Arc<dyn ExecutionPlan>;

/// The columns of the table, with what each cell of them says. `P` is a plan, `R(P)` a
/// reset copy of it.
pub const PROMISES: &[(&str, &str)] = &[
    (
        "fresh",
        "a fresh plan's rows, beside one without dynamic filters or partitions",
    ),
    ("reset", "P ran; rows of R(P)"),
    (
        "again",
        "rows of a second R(P), and of R(R(P)) after R(P) ran",
    ),
    ("unused", "P has not run; rows of R(P)"),
    ("after", "rows of P itself after its copies ran"),
    (
        "change",
        "P ran, the data changed; rows of R(P), and of one made before",
    ),
    ("midway", "P half read, R(P) made; rows of P and of R(P)"),
    (
        "beside",
        "P half read while R(P) runs on other data; rows of both",
    ),
    (
        "both",
        "two copies at the same time on different data; rows of both",
    ),
    ("half", "P dropped half way; rows of R(P)"),
    (
        "bare",
        "P run twice without a reset: rows or an error, no panic",
    ),
    (
        "look",
        "R(P) has P's schema, properties and display as before P ran",
    ),
    (
        "empty",
        "R(P)'s metrics are empty, and after its run those of one run",
    ),
    ("kept", "P's metrics after copies ran on other data"),
    ("bounds", "the bounds of P's dynamic filters after that"),
    (
        "filter",
        "dynamic filters of R(P) are its own, linked as in P",
    ),
    (
        "push",
        "filters pushed down in R(P) once more: none lost its producer; rows",
    ),
    (
        "prunes",
        "dynamic filters prune in R(P) as in P, whether P ran or not",
    ),
];

const FRESH: usize = 0;
const RESET: usize = 1;
const AGAIN: usize = 2;
const UNUSED: usize = 3;
const AFTER: usize = 4;
const CHANGE: usize = 5;
const MIDWAY: usize = 6;
const BESIDE: usize = 7;
const BOTH: usize = 8;
const HALF: usize = 9;
const BARE: usize = 10;
const LOOK: usize = 11;
const EMPTY: usize = 12;
const KEPT: usize = 13;
const BOUNDS: usize = 14;
const FILTER: usize = 15;
const PUSH: usize = 16;
const PRUNES: usize = 17;

/// What the letters of a cell mean, the worse ones first.
pub const LEGEND: &[(Cell, &str)] = &[
    (Cell('H'), "no end within the time limit"),
    (Cell('P'), "a panic"),
    (Cell('E'), "an error"),
    (Cell('0'), "no rows"),
    (Cell('L'), "rows lost"),
    (Cell('M'), "rows too many"),
    (Cell('W'), "other rows"),
    (Cell('x'), "not kept"),
    (Cell('?'), "left open: no two tries agree, or not tried yet"),
    (Cell::RIGHT, "right"),
    (
        Cell::SAME,
        "right, and the changed data gives the same rows",
    ),
    (Cell::NONE, "says nothing of this shape"),
];

/// Whether one promise is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell(pub char);

impl Cell {
    pub const RIGHT: Self = Self('.');
    pub const SAME: Self = Self('=');
    pub const NONE: Self = Self('-');
    pub const BROKEN: Self = Self('x');
    /// Only in the file of the released crates' cells.
    pub const OPEN: Self = Self('?');

    pub fn is_wrong(self) -> bool {
        ![Self::RIGHT, Self::SAME, Self::NONE].contains(&self)
    }

    /// The worse of two.
    pub fn and(self, other: Self) -> Self {
        let rank = |cell| LEGEND.iter().position(|(known, _)| *known == cell);
        if rank(other) < rank(self) {
            other
        } else {
            self
        }
    }

    fn of(got: &Outcome, right: &Outcome) -> Self {
        if got == right {
            return Self::RIGHT;
        }
        let rows = |outcome: &Outcome| match outcome {
            Outcome::Rows(rows) => rows.len(),
            Outcome::RowCount(rows) => *rows,
            _ => 0,
        };
        Self(match got {
            Outcome::NoEnd => 'H',
            Outcome::Panic(_) => 'P',
            Outcome::Error(_) => 'E',
            got if rows(got) == 0 => '0',
            got if rows(got) < rows(right) => 'L',
            got if rows(got) > rows(right) => 'M',
            _ => 'W',
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The cells of one shape under one setting, and what was found wrong.
pub struct Row {
    pub shape: &'static str,
    pub setting: &'static str,
    pub cells: Vec<Cell>,
    pub found: Vec<String>,
}

impl Row {
    fn new(shape: &'static str, setting: &'static str) -> Self {
        Self {
            shape,
            setting,
            cells: vec![Cell::NONE; PROMISES.len()],
            found: vec![],
        }
    }

    fn put(&mut self, promise: usize, cell: Cell, text: impl FnOnce() -> String) {
        let known = self.cells[promise];
        self.cells[promise] = if known == Cell::NONE {
            cell
        } else {
            known.and(cell)
        };
        if cell.is_wrong() {
            let (shape, setting) = (self.shape, self.setting);
            let promise = PROMISES[promise].0;
            self.found
                .push(format!("{shape} | {setting} | {promise}: {}", text()));
        }
    }

    /// Compares rows.
    fn rows(&mut self, promise: usize, got: &Outcome, right: &Outcome) {
        let cell = Cell::of(got, right);
        self.put(promise, cell, || format!("{got}; right: {right}"));
    }

    /// Says whether something is as it must be.
    fn holds(&mut self, promise: usize, holds: bool, text: impl FnOnce() -> String) {
        let cell = if holds { Cell::RIGHT } else { Cell::BROKEN };
        self.put(promise, cell, text);
    }
}

/// The right rows: what a plan without dynamic filters and of one partition gives.
struct Right {
    first: Outcome,
    /// Files and streams are the changed ones, memory is not.
    files: Outcome,
    changed: Outcome,
}

/// One shape over its tables, those in memory its own.
pub struct Trial {
    pub case: Case,
    pub tables: Arc<Tables>,
    pub memory: Vec<Memory>,
}

impl Trial {
    /// The rows of the table for this shape, one a setting.
    ///
    /// # Errors
    ///
    /// If the query cannot be planned.
    pub async fn rows(&self) -> Result<Vec<Row>> {
        let right = self.right().await?;
        let mut rows = vec![];
        for setting in &self.case.settings {
            rows.push(self.row(setting, &right).await?);
        }
        let name = self.case.name;
        let pruned = |row: &Row| row.cells[PRUNES] != Cell::NONE;
        let pruned = rows.iter().filter(|row| pruned(row)).count();
        assert!(
            !self.case.prunes || pruned >= 2,
            "{name}: fresh plans prune nothing"
        );
        Ok(rows)
    }

    async fn right(&self) -> Result<Right> {
        let settings = Settings::new(1, false);
        let outcome = |version| async move {
            at(version, async {
                let session = self.session(&settings).await?;
                let plan = (self.case.part)(&self.plan(&session).await?);
                Ok::<_, datafusion::error::DataFusionError>(
                    self.run(&plan, &session.task_ctx()).await,
                )
            })
            .await
        };
        let first = outcome(Version::First).await?;
        let files = outcome(Version::Changed).await?;
        self.set(Version::Changed);
        let changed = outcome(Version::Changed).await;
        self.set(Version::First);
        Ok(Right {
            first,
            files,
            changed: changed?,
        })
    }

    async fn row(&self, setting: &Setting, right: &Right) -> Result<Row> {
        let mut row = Row::new(self.case.name, setting.label);
        let session = self.session(&setting.settings).await?;
        let task = &session.task_ctx();
        let plan = || self.plan(&session);
        let part = self.case.part;
        let Right {
            first,
            files,
            changed,
        } = right;

        // A fresh plan, and one without dynamic filters to see what these prune.
        let fresh = plan().await?;
        let (display, fresh_filters) = (show(&part(&fresh)), filters(&part(&fresh))?);
        row.rows(FRESH, &self.run(&part(&fresh), task).await, first);
        if self.case.spills {
            let spills = spills(&fresh)?;
            assert!(
                spills > 0,
                "{}: a fresh plan spills nothing",
                self.case.name
            );
        }
        let fresh_rows = output_rows(&part(&fresh));
        let without = self.pruned_without(setting, &fresh).await?;

        // P, run, and its copies.
        let p = plan().await?;
        self.run(&p, task).await;
        let kept = (settled(&p).await?, filter_texts(&p)?);
        if let Some(copy) = self.copy(&p, RESET, &mut row) {
            let changed = changed_properties(&part(&plan().await?), &copy);
            row.holds(LOOK, changed.is_empty(), || format!("other {changed:?}"));
            let text = show(&copy);
            row.holds(LOOK, text == display, || {
                format!("{text}; before: {display}")
            });
            let with = nodes_with_metrics(&copy);
            row.holds(EMPTY, with.is_empty(), || format!("in {with:?}"));
            self.own_filters(&p, &copy, &fresh_filters, &mut row)?;

            row.rows(RESET, &self.run(&copy, task).await, first);
            let rows = output_rows(&copy);
            row.holds(EMPTY, rows == fresh_rows, || {
                format!("{rows:?} output rows; right: {fresh_rows:?}")
            });
            // Whether or not its metrics started empty.
            if let Some(without) = without
                && let Some(copy) = self.copy(&p, PRUNES, &mut row)
            {
                let counted = pruned(&copy)?;
                self.run(&copy, task).await;
                let got = pruned(&copy)? - counted;
                row.holds(PRUNES, got > without, || {
                    format!("{got}, without dynamic filters {without}")
                });
            }
            self.pushed_again(&p, &session, first, &mut row).await?;
            if let Some(second) = self.copy(&p, AGAIN, &mut row) {
                row.rows(AGAIN, &self.run(&second, task).await, first);
            }
            if let Some(third) = self.again(&copy, &mut row) {
                row.rows(AGAIN, &self.run(&third, task).await, first);
            }
        }
        if let (Some(one), Some(two)) =
            (self.copy(&p, BOTH, &mut row), self.copy(&p, BOTH, &mut row))
        {
            let one = at(Version::First, self.run(&one, task));
            let two = at(Version::Changed, self.run(&two, task));
            let (one, two) = tokio::join!(one, two);
            row.rows(BOTH, &one, first);
            row.rows(BOTH, &two, files);
        }
        let now = (settled(&p).await?, filter_texts(&p)?);
        let nodes = kept.0.iter().zip(&now.0).filter(|(was, is)| was != is);
        let nodes: Vec<_> = nodes.map(|(was, _)| was.split(':').next()).collect();
        row.holds(KEPT, nodes.is_empty(), || {
            format!("other metrics of {nodes:?}")
        });
        self.bounds(&kept.1, &now.1, &mut row);
        let bare = self.run(&p, task).await;
        let panics = matches!(bare, Outcome::Panic(_) | Outcome::NoEnd);
        let cell = if panics {
            Cell::of(&bare, first)
        } else {
            Cell::RIGHT
        };
        row.put(BARE, cell, || bare.to_string());

        // P, not run, and its copy.
        let p = plan().await?;
        let kept = filter_texts(&p)?;
        if let Some(copy) = self.copy(&p, UNUSED, &mut row) {
            row.rows(UNUSED, &self.run(&copy, task).await, first);
            if let Some(without) = without {
                let got = pruned(&copy)?;
                row.holds(PRUNES, got > without, || {
                    format!("P unused: {got}, without dynamic filters {without}")
                });
            }
            self.bounds(&kept, &filter_texts(&p)?, &mut row);
            row.rows(AFTER, &self.run(&part(&p), task).await, first);
        }

        // P, under way.
        let slow = &small_batches(&session)?;
        let p = plan().await?;
        match start(&part(&p), slow).await {
            Ok(started) => {
                let copy = self.copy(&p, MIDWAY, &mut row);
                row.rows(MIDWAY, &started.finish(self.case.order).await, first);
                if let Some(copy) = copy {
                    row.rows(MIDWAY, &self.run(&copy, task).await, first);
                }
            }
            Err(outcome) => row.rows(MIDWAY, &outcome, first),
        }
        let p = plan().await?;
        match start(&part(&p), slow).await {
            Ok(started) => {
                if let Some(copy) = self.copy(&p, BESIDE, &mut row) {
                    let copy = at(Version::Changed, self.run(&copy, task)).await;
                    row.rows(BESIDE, &copy, files);
                }
                row.rows(BESIDE, &started.finish(self.case.order).await, first);
            }
            Err(outcome) => row.rows(BESIDE, &outcome, first),
        }
        let p = plan().await?;
        drop(start(&part(&p), slow).await);
        if let Some(copy) = self.copy(&p, HALF, &mut row) {
            row.rows(HALF, &self.run(&copy, task).await, first);
        }

        // The data changed after the run.
        let used = plan().await?;
        self.run(&used, task).await;
        let before = self.copy(&plan().await?, CHANGE, &mut row);
        self.set(Version::Changed);
        let copy = self.copy(&used, CHANGE, &mut row);
        for copy in [copy, before].into_iter().flatten() {
            let outcome = at(Version::Changed, self.run(&copy, task)).await;
            row.rows(CHANGE, &outcome, changed);
        }
        self.set(Version::First);
        if row.cells[CHANGE] == Cell::RIGHT && changed == first {
            row.cells[CHANGE] = Cell::SAME;
        }
        Ok(row)
    }

    /// What a plan prunes without dynamic filters, if `fresh`, which ran, pruned more.
    async fn pruned_without(
        &self,
        setting: &Setting,
        fresh: &Plan,
    ) -> Result<Option<usize>> {
        if !self.case.prunes || !setting.settings.dynamic_filters {
            return Ok(None);
        }
        let off = Settings {
            dynamic_filters: false,
            ..setting.settings
        };
        let session = self.session(&off).await?;
        let plan = self.plan(&session).await?;
        self.run(&plan, &session.task_ctx()).await;
        let without = pruned(&plan)?;
        // Not under every setting; see `rows`.
        Ok((pruned(fresh)? > without).then_some(without))
    }

    fn bounds(&self, before: &[String], now: &[String], row: &mut Row) {
        if !before.is_empty() {
            row.holds(BOUNDS, now == before, || {
                format!("{now:?}; before: {before:?}")
            });
        }
    }

    /// Pushes filters down in a copy, as a user who changed it would.
    async fn pushed_again(
        &self,
        p: &Plan,
        session: &SessionContext,
        right: &Outcome,
        row: &mut Row,
    ) -> Result<()> {
        let push = |plan| {
            let rule = FilterPushdown::new_post_optimization();
            rule.optimize(plan, session.state().config_options())
        };
        let orphans = |plan: &Plan| -> Result<usize> {
            let filters = filters(plan)?;
            let (made, read): (Vec<_>, Vec<_>) =
                filters.into_iter().partition(|filter| filter.produced);
            Ok(ids(&read).difference(&ids(&made)).count())
        };
        if filters(p)?.is_empty() || orphans(&(self.case.part)(p))? > 0 {
            return Ok(());
        }
        let Some(copy) = self.copy(p, PUSH, row) else {
            return Ok(());
        };
        let copy = push(copy)?;
        let lost = orphans(&copy)?;
        row.holds(PUSH, lost == 0, || {
            format!("{lost} filters without a producer")
        });
        row.rows(PUSH, &self.run(&copy, &session.task_ctx()).await, right);
        Ok(())
    }

    /// Filters of a copy: none of the original's, and each in the places that the
    /// original has it in.
    fn own_filters(
        &self,
        p: &Plan,
        copy: &Plan,
        fresh: &[Filter],
        row: &mut Row,
    ) -> Result<()> {
        let of_copy = filters(copy)?;
        if fresh.is_empty() && of_copy.is_empty() {
            return Ok(());
        }
        let second = filters(&self.copy_of(p)?)?;
        for other in [&filters(p)?, &second] {
            let shared: Vec<_> =
                ids(&of_copy).intersection(&ids(other)).copied().collect();
            row.holds(FILTER, shared.is_empty(), || format!("shared {shared:?}"));
        }
        let (links, right) = (links(&of_copy), links(fresh));
        row.holds(FILTER, links == right, || {
            format!("linked {links:?}; right: {right:?}")
        });
        Ok(())
    }

    pub async fn session(&self, settings: &Settings) -> Result<SessionContext> {
        let session = self.tables.session(settings).await?;
        if let Some((key, value)) = self.case.option {
            let state = session.state_ref();
            state.write().config_mut().options_mut().set(key, value)?;
        }
        for table in &self.memory {
            table.register(&session)?;
        }
        Ok(session)
    }

    pub async fn plan(&self, session: &SessionContext) -> Result<Plan> {
        let plan = session.sql(&self.case.sql).await?;
        (self.case.change)(plan.create_physical_plan().await?)
    }

    pub async fn run(&self, plan: &Plan, task: &Arc<TaskContext>) -> Outcome {
        run(plan, task, self.case.order).await
    }

    pub fn set(&self, version: Version) {
        for table in &self.memory {
            table.set(version);
        }
    }

    fn copy_of(&self, p: &Plan) -> Result<Plan> {
        reset(&(self.case.part)(p))
    }

    /// A reset copy, or why there is none.
    fn copy(&self, p: &Plan, promise: usize, row: &mut Row) -> Option<Plan> {
        match self.copy_of(p) {
            Ok(copy) => Some(copy),
            Err(error) => {
                row.put(promise, Cell('E'), || format!("reset: {error}"));
                None
            }
        }
    }

    fn again(&self, copy: &Plan, row: &mut Row) -> Option<Plan> {
        let again = reset(copy);
        if let Err(error) = &again {
            row.put(AGAIN, Cell('E'), || format!("reset: {error}"));
        }
        again.ok()
    }
}

fn filter_texts(plan: &Plan) -> Result<Vec<String>> {
    Ok(filters(plan)?.into_iter().map(|it| it.text).collect())
}

/// The counts of a plan that ran: tasks whose rows nobody asked for any more may take a
/// moment to end.
async fn settled(plan: &Plan) -> Result<Vec<String>> {
    let mut counts = metrics(plan)?;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let now = metrics(plan)?;
        if now == counts {
            break;
        }
        counts = now;
    }
    Ok(counts)
}

/// Runs with this take long enough to be interrupted.
fn small_batches(session: &SessionContext) -> Result<Arc<TaskContext>> {
    let mut state = session.state();
    let options = state.config_mut().options_mut();
    options.set("datafusion.execution.batch_size", "64")?;
    Ok(state.task_ctx())
}
