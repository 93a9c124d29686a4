//! What a reset copy promises, and whether one shape under one setting keeps it.
//!
//! The kit (`reuse-check`) runs a plan and its copies in every way and looks at them. Here is
//! what a user of it cannot ask: that runs at the same time read different data, that the
//! right rows come from a plan of one partition without dynamic filters, and what becomes of
//! the dynamic filters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use reuse_check::Promise;
use reuse_check::engine::{
    Failure, Outcome, Plan, Ran, Runner, Step, Tried, Way, Ways, beside, same,
};
use reuse_tests::inspect::{Filter, filters, ids, links, output_rows, pruned, spills};
use reuse_tests::settings::Settings;
use reuse_tests::tables::{Memory, Tables};
use reuse_tests::version::{Version, at};

use super::shapes::{Case, Setting};

/// Time after which a run counts as one that does not end. The longest here takes well under
/// a second.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

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
        "P ran; rows of a second R(P), and of R(R(P)) after R(P) ran",
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
        "P begun, or half read, while R(P) runs on other data; rows of both",
    ),
    (
        "both",
        "two copies at the same time on different data, before P ran and after; rows",
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
    ("kept", "P's metrics after a copy ran"),
    (
        "bounds",
        "the bounds of P's dynamic filters after copies ran on other data",
    ),
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

    fn of(case: &Case, got: &Outcome, right: &Outcome) -> Self {
        Self(match (got, right) {
            (Ok(got), Ok(right)) if case.one_by_one && got.are_one_by_one(right) => {
                return Self::RIGHT;
            }
            (got, right) if !case.one_by_one && same(got, right) => return Self::RIGHT,
            (Ok(got), Ok(right)) if case.rows_open && got.count() == right.count() => {
                return Self::RIGHT;
            }
            (Err(Failure::NoEnd(_)), _) => 'H',
            (Err(Failure::Panic(_)), _) => 'P',
            (Err(Failure::Error(_)), _) => 'E',
            (Ok(got), _) if got.count() == 0 => '0',
            (Ok(got), Ok(right)) if got.count() < right.count() => 'L',
            (Ok(got), Ok(right)) if got.count() == right.count() => 'W',
            (Ok(_), _) => 'M',
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
    fn rows(&mut self, promise: usize, case: &Case, got: &Outcome, right: &Outcome) {
        let cell = Cell::of(case, got, right);
        self.put(promise, cell, || beside(got, right));
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
                let outcome = runner(session.task_ctx()).run(&plan).await;
                Ok::<_, datafusion::error::DataFusionError>(outcome)
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
        let plan = || self.plan(&session).boxed();
        let ways = Ways {
            plan: &plan,
            part: self.case.part,
            runner: &runner(session.task_ctx()),
            slow: &runner(small_batches(&session)?),
            elsewhere: |run| at(Version::Changed, run).boxed(),
            whole: true,
        };
        for step in Step::ALL {
            let tried = ways.try_step(step).await?;
            if step == Step::Reset {
                self.copy_looks(&tried, &mut row);
            }
            self.ran(&tried, right, &mut row);
        }
        let bare = ways.run_again().await?;
        let cell = match &bare {
            Err(Failure::Panic(_) | Failure::NoEnd(_)) => {
                Cell::of(&self.case, &bare, &right.first)
            }
            _ => Cell::RIGHT,
        };
        row.put(BARE, cell, || beside(&bare, &right.first));
        self.dynamic_filters(setting, &session, &ways, right, &mut row)
            .await?;

        let used = plan().await?;
        ways.runner.run(&used).await.ok();
        let before = ways.before_change(&used).await?;
        self.set(Version::Changed);
        let tried = ways.after_change(before).await;
        self.set(Version::First);
        self.ran(&tried, right, &mut row);
        let same = Cell::of(&self.case, &right.changed, &right.first);
        if [row.cells[CHANGE], same] == [Cell::RIGHT; 2] {
            row.cells[CHANGE] = Cell::SAME;
        }
        Ok(row)
    }

    /// Compares the rows of what ran.
    fn ran(&self, tried: &Tried, right: &Right, row: &mut Row) {
        for ran in &tried.ran {
            let column = match ran.way {
                // In `dynamic_filters`.
                Way::Fresh => continue,
                Way::Reset => RESET,
                Way::SecondReset | Way::ResetOfReset => AGAIN,
                Way::Unused => UNUSED,
                Way::After => AFTER,
                Way::OneCopy | Way::OtherCopy => BOTH,
                Way::Beside | Way::OriginalBeside => BESIDE,
                Way::OriginalMidway | Way::Midway => MIDWAY,
                Way::Cancelled => HALF,
                Way::Changed | Way::BeforeChange => CHANGE,
            };
            let right = match ran.way {
                Way::Changed | Way::BeforeChange => &right.changed,
                way if way.is_elsewhere() => &right.files,
                _ => &right.first,
            };
            row.rows(column, &self.case, &ran.outcome, right);
        }
    }

    /// What else the copy of a plan that ran shows.
    fn copy_looks(&self, tried: &Tried, row: &mut Row) {
        if let Some(failure) = &tried.no_copy {
            row.put(RESET, Cell('E'), || format!("reset: {failure}"));
            return;
        }
        for column in [LOOK, EMPTY, KEPT] {
            row.put(column, Cell::RIGHT, String::new);
        }
        for departure in &tried.departures {
            let column = match departure.promise {
                Promise::Properties => LOOK,
                Promise::Metrics => EMPTY,
                _ => KEPT,
            };
            row.put(column, Cell::BROKEN, || {
                format!("{}: {}", departure.run, departure.text)
            });
        }
        let ran = tried.ran.iter().find(|ran| ran.way == Way::Reset);
        if let Some(Ran {
            outcome: Ok(rows),
            plan: Some(plan),
            ..
        }) = ran
            && let Some(counted) = output_rows(plan)
        {
            row.holds(EMPTY, counted == rows.count(), || {
                format!("{counted} output rows; right: {}", rows.count())
            });
        }
    }

    /// A fresh plan, and one without dynamic filters to see what these prune; then a plan
    /// that ran and one that did not, and the filters of their copies.
    async fn dynamic_filters(
        &self,
        setting: &Setting,
        session: &SessionContext,
        ways: &Ways<'_>,
        right: &Right,
        row: &mut Row,
    ) -> Result<()> {
        let (runner, part) = (ways.runner, self.case.part);
        let fresh = part(&self.plan(session).await?);
        let fresh_filters = filters(&fresh)?;
        let outcome = runner.run(&fresh).await;
        row.rows(FRESH, &self.case, &outcome, &right.first);
        assert!(
            !self.case.spills || spills(&fresh)? > 0,
            "{}: a fresh plan spills nothing",
            self.case.name
        );
        let without = self.pruned_without(setting, &fresh).await?;

        let p = self.plan(session).await?;
        runner.run(&p).await.ok();
        let kept = filter_texts(&p)?;
        let (copy, second) =
            (runner.reset(&part(&p)).await, runner.reset(&part(&p)).await);
        // Why there is no copy is in other columns.
        if let (Ok(copy), Ok(second)) = (copy, second) {
            self.own_filters(&p, [&copy, &second], &fresh_filters, row)?;
            // Whether or not its metrics started empty.
            let counted = pruned(&copy)?;
            runner.run(&copy).await.ok();
            self.prunes("", pruned(&copy)? - counted, without, row);
            self.pushed_again(&p, session, runner, right, row).await?;
            at(Version::Changed, runner.run(&second)).await.ok();
            self.bounds(&kept, &filter_texts(&p)?, row);
        }

        let p = self.plan(session).await?;
        let kept = filter_texts(&p)?;
        if let Ok(copy) = runner.reset(&part(&p)).await {
            runner.run(&copy).await.ok();
            self.prunes("P unused: ", pruned(&copy)?, without, row);
            self.bounds(&kept, &filter_texts(&p)?, row);
        }
        Ok(())
    }

    fn prunes(&self, of: &str, got: usize, without: Option<usize>, row: &mut Row) {
        if let Some(without) = without {
            row.holds(PRUNES, got > without, || {
                format!("{of}{got}, without dynamic filters {without}")
            });
        }
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
        runner(session.task_ctx()).run(&plan).await.ok();
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
        runner: &Runner,
        right: &Right,
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
        let Ok(copy) = runner.reset(&(self.case.part)(p)).await else {
            return Ok(());
        };
        let copy = push(copy)?;
        let lost = orphans(&copy)?;
        row.holds(PUSH, lost == 0, || {
            format!("{lost} filters without a producer")
        });
        let outcome = runner.run(&copy).await;
        row.rows(PUSH, &self.case, &outcome, &right.first);
        Ok(())
    }

    /// Filters of a copy: none of the original's, and each in the places that the
    /// original has it in.
    fn own_filters(
        &self,
        p: &Plan,
        [copy, second]: [&Plan; 2],
        fresh: &[Filter],
        row: &mut Row,
    ) -> Result<()> {
        let of_copy = filters(copy)?;
        if fresh.is_empty() && of_copy.is_empty() {
            return Ok(());
        }
        for other in [&filters(p)?, &filters(second)?] {
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

    pub fn set(&self, version: Version) {
        for table in &self.memory {
            table.set(version);
        }
    }
}

pub fn runner(task: Arc<TaskContext>) -> Runner {
    Runner::new(task, TIME_LIMIT)
}

fn filter_texts(plan: &Plan) -> Result<Vec<String>> {
    Ok(filters(plan)?.into_iter().map(|it| it.text).collect())
}

/// Runs with this take long enough to be interrupted.
fn small_batches(session: &SessionContext) -> Result<Arc<TaskContext>> {
    let mut state = session.state();
    let options = state.config_mut().options_mut();
    options.set("datafusion.execution.batch_size", "64")?;
    Ok(state.task_ctx())
}
