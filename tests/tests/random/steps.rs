//! Random steps with the copies of one plan, each run compared with a fresh plan's.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use fastrand::Rng;
use reuse_tests::inspect::filters;
use reuse_tests::is_released;
use reuse_tests::run::{Outcome, Started, first_line, reset, run, start};
use reuse_tests::settings::{Order, Settings};
use reuse_tests::tables::{Memory, Tables};
use reuse_tests::version::{
    Version::{self, Changed, First},
    at,
};

use super::sql::{Query, memory, query};

type Plan = Arc<dyn ExecutionPlan>;

/// One step. A number chooses among what there is, so that any steps can be left out.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Runs a plan; a copy of it if it has run.
    Run(usize, Version),
    Reset(usize),
    /// Runs two at the same time.
    Together([usize; 2], [Version; 2]),
    /// Reads the first batches.
    Start(usize, Version),
    /// Reads the rest.
    Finish(usize),
    /// Gives up a run that was started.
    Drop(usize),
    /// Changes the tables in memory.
    Change,
}

impl Step {
    fn random(rng: &mut Rng) -> Self {
        let version = |rng: &mut Rng| if rng.u8(0..3) == 0 { Changed } else { First };
        let one = rng.usize(0..8);
        match rng.usize(0..16) {
            0..=3 => Step::Run(one, version(rng)),
            4..=6 => Step::Reset(one),
            7..=9 => {
                let versions = [version(rng), version(rng)];
                Step::Together([one, rng.usize(0..8)], versions)
            }
            10..=11 => Step::Start(one, version(rng)),
            12..=13 => Step::Finish(one),
            14 => Step::Drop(one),
            _ => Step::Change,
        }
    }
}

/// What one seed stands for.
#[derive(Clone, Debug)]
pub struct Try {
    pub seed: u64,
    pub query: Query,
    pub settings: Settings,
    pub steps: Vec<Step>,
}

const OPTIONS: &[&[(&str, &str)]] = &[
    &[("execution.parquet.reorder_filters", "true")],
    &[("execution.enable_file_stream_work_stealing", "false")],
    &[("execution.collect_statistics", "false")],
    &[("execution.batch_size", "16")],
    &[("execution.coalesce_batches", "false")],
    &[("optimizer.prefer_hash_join", "false")],
    &[
        ("optimizer.hash_join_single_partition_threshold", "0"),
        ("optimizer.hash_join_single_partition_threshold_rows", "0"),
    ],
    &[(
        "optimizer.hash_join_inlist_pushdown_max_distinct_values",
        "0",
    )],
    &[("optimizer.enable_piecewise_merge_join", "true")],
    &[("optimizer.enable_window_topn", "true")],
    &[("optimizer.enable_topk_aggregation", "false")],
    &[("optimizer.repartition_sorts", "false")],
    &[(
        "optimizer.enable_physical_uncorrelated_scalar_subquery",
        "false",
    )],
    &[("execution.hash_join_buffering_capacity", "65536")],
    &[("optimizer.prefer_existing_sort", "true")],
];

impl Try {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let query = query(&mut rng);
        let partitions = [1, 2, 4, 8][rng.usize(0..4)];
        let mut options = vec![];
        if rng.u8(0..4) != 0 {
            options.push(("optimizer.repartition_file_min_size", "1"));
        }
        if rng.bool() {
            options.push(("execution.parquet.pushdown_filters", "true"));
        }
        for option in OPTIONS {
            if rng.u8(0..6) == 0 {
                options.extend_from_slice(option);
            }
        }
        // A few bytes for each plan of the test.
        let settings = Settings::new(partitions, rng.u8(0..8) != 0).with(options.leak());
        let steps = (0..rng.usize(4..14))
            .map(|_| Step::random(&mut rng))
            .collect();
        Self {
            seed,
            query,
            settings,
            steps,
        }
    }
}

impl fmt::Display for Try {
    /// What it takes to try it again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}, {}\n{}",
            self.seed, self.settings, self.query.sql
        )
    }
}

/// How a try ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Runs that were compared.
    pub runs: usize,
    /// Whether the plan has dynamic filters.
    pub filters: bool,
    /// Whether it gives rows.
    pub rows: bool,
    /// Why the query was not tried.
    pub skipped: Option<String>,
    /// What went wrong.
    pub failure: Option<String>,
}

enum State {
    Fresh,
    Running(Started, Outcome),
    Used,
}

/// Carries out the steps of a try until one of them goes wrong.
pub async fn attempt(tables: &Tables, it: &Try) -> Result<Ended> {
    let mut ended = Ended::default();
    let world = World {
        tables,
        memory: memory(),
        it,
    };
    let session = world.session(&it.settings).await?;
    let task = session.task_ctx();
    let plan = match world.plan(&session).await {
        Ok(plan) => plan,
        Err(error) => {
            let reason = not_planned(&error);
            match world.inlined(&session).await {
                // Also without materialized CTEs.
                Err(_) => ended.skipped = Some(reason),
                Ok(_) => {
                    ended.failure = Some(format!(
                        "{it}\n  {reason}, which it is with its CTEs inlined"
                    ));
                }
            }
            return Ok(ended);
        }
    };
    ended.filters = !filters(&plan)?.is_empty();

    let mut memory_now = First;
    let mut right = HashMap::new();
    let mut pool = vec![(plan, State::Fresh)];
    let mut log = String::new();
    for step in &it.steps {
        // The plan to use: never one that ran.
        let usable = |pool: &mut Vec<(Plan, State)>, index: usize, log: &mut String| {
            let index = index % pool.len();
            if matches!(pool[index].1, State::Fresh) {
                return Ok(index);
            }
            let copy = reset(&pool[index].0)?;
            let _ = writeln!(log, "  {} = reset({index})", pool.len());
            pool.push((copy, State::Fresh));
            Ok::<_, DataFusionError>(pool.len() - 1)
        };
        let running = |pool: &[(Plan, State)], index: usize| {
            let running: Vec<_> = (0..pool.len())
                .filter(|at| matches!(pool[*at].1, State::Running(..)))
                .collect();
            let index = index.checked_rem(running.len())?;
            Some(running[index])
        };
        for version in [First, Changed] {
            if let std::collections::hash_map::Entry::Vacant(slot) =
                right.entry((version as u8, memory_now as u8))
            {
                match world.right(version).await? {
                    Ok(outcome) => {
                        ended.rows |=
                            matches!(&outcome, Outcome::Rows(rows) if !rows.is_empty());
                        slot.insert(outcome);
                    }
                    Err(reason) => {
                        ended.skipped = Some(reason);
                        return Ok(ended);
                    }
                }
            }
        }
        let expected =
            |version: Version| right[&(version as u8, memory_now as u8)].clone();

        let mut compared = vec![];
        match *step {
            Step::Run(index, version) => {
                let index = usable(&mut pool, index, &mut log)?;
                let _ = writeln!(log, "  run {index} on {version:?}");
                pool[index].1 = State::Used;
                let got = at(version, world.run(&pool[index].0, &task)).await;
                compared.push((index, got, expected(version)));
            }
            Step::Reset(index) => {
                let index = index % pool.len();
                let copy = reset(&pool[index].0)?;
                let _ = writeln!(log, "  {} = reset({index})", pool.len());
                pool.push((copy, State::Fresh));
            }
            Step::Together(indexes, versions) => {
                let one = usable(&mut pool, indexes[0], &mut log)?;
                pool[one].1 = State::Used;
                let two = usable(&mut pool, indexes[1], &mut log)?;
                pool[two].1 = State::Used;
                let _ = writeln!(
                    log,
                    "  run {one} on {:?} and {two} on {:?} together",
                    versions[0], versions[1]
                );
                let got = tokio::join!(
                    at(versions[0], world.run(&pool[one].0, &task)),
                    at(versions[1], world.run(&pool[two].0, &task))
                );
                compared.push((one, got.0, expected(versions[0])));
                compared.push((two, got.1, expected(versions[1])));
            }
            Step::Start(index, version) => {
                let index = usable(&mut pool, index, &mut log)?;
                let _ = writeln!(log, "  start {index} on {version:?}");
                match at(version, start(&pool[index].0, &task)).await {
                    Ok(started) => {
                        pool[index].1 = State::Running(started, expected(version));
                    }
                    Err(outcome) => {
                        pool[index].1 = State::Used;
                        compared.push((index, outcome, expected(version)));
                    }
                }
            }
            Step::Finish(index) => {
                let Some(index) = running(&pool, index) else {
                    continue;
                };
                let _ = writeln!(log, "  finish {index}");
                let state = std::mem::replace(&mut pool[index].1, State::Used);
                if let State::Running(started, right) = state {
                    let got = started.finish(world.order()).await;
                    compared.push((index, got, right));
                }
            }
            Step::Drop(index) => {
                let Some(index) = running(&pool, index) else {
                    continue;
                };
                let _ = writeln!(log, "  drop {index}");
                pool[index].1 = State::Used;
            }
            Step::Change => {
                if running(&pool, 0).is_some() {
                    continue;
                }
                memory_now = if memory_now == First { Changed } else { First };
                let _ = writeln!(log, "  memory tables: {memory_now:?}");
                for table in &world.memory {
                    table.set(memory_now);
                }
            }
        }
        for (index, got, right) in compared {
            ended.runs += 1;
            if got != right {
                ended.failure = Some(format!(
                    "{it}\n{log}  {index} gave: {got}\n  right: {right}"
                ));
                return Ok(ended);
            }
        }
    }
    Ok(ended)
}

/// Leaves out steps as long as it still fails.
pub async fn shrink(tables: &Tables, it: &Try) -> Result<Option<String>> {
    let mut it = it.clone();
    let mut failure = None;
    for index in (0..it.steps.len()).rev() {
        let mut fewer = it.clone();
        fewer.steps.remove(index);
        if let Some(text) = attempt(tables, &fewer).await?.failure {
            (it, failure) = (fewer, Some(text));
        }
    }
    Ok(failure)
}

fn not_planned(error: &DataFusionError) -> String {
    format!("not planned: {}", first_line(&error.to_string()))
}

async fn physical_plan(session: &SessionContext, sql: &str) -> Result<Plan> {
    session.sql(sql).await?.create_physical_plan().await
}

struct World<'a> {
    tables: &'a Tables,
    memory: Vec<Memory>,
    it: &'a Try,
}

impl World<'_> {
    fn order(&self) -> Order {
        if self.it.query.ordered {
            Order::Kept
        } else {
            Order::Any
        }
    }

    async fn session(&self, settings: &Settings) -> Result<SessionContext> {
        let session = self.tables.session(settings).await?;
        for table in &self.memory {
            table.register(&session)?;
        }
        Ok(session)
    }

    async fn plan(&self, session: &SessionContext) -> Result<Plan> {
        // The released crates inline every CTE.
        if is_released() {
            return self.inlined(session).await;
        }
        physical_plan(session, &self.it.query.sql).await
    }

    async fn inlined(&self, session: &SessionContext) -> Result<Plan> {
        physical_plan(session, &self.it.query.inlined()).await
    }

    async fn run(&self, plan: &Plan, task: &Arc<TaskContext>) -> Outcome {
        run(plan, task, self.order()).await
    }

    /// What a fresh plan gives now, with all CTEs inlined, or why that says nothing: a plan
    /// of one partition without dynamic filters does not give the same.
    async fn right(&self, version: Version) -> Result<Result<Outcome, String>> {
        let fresh = async |settings: &Settings| {
            at(version, async {
                let session = self.session(settings).await?;
                Ok::<_, DataFusionError>(match self.inlined(&session).await {
                    Ok(plan) => self.run(&plan, &session.task_ctx()).await,
                    Err(error) => Outcome::Error(not_planned(&error)),
                })
            })
            .await
        };
        let simple = fresh(&Settings::new(1, false)).await?;
        if !matches!(simple, Outcome::Rows(_)) {
            return Ok(Err(format!("does not run: {simple}")));
        }
        let outcome = fresh(&self.it.settings).await?;
        Ok(if outcome == simple {
            Ok(outcome)
        } else {
            Err(format!(
                "fresh plans disagree\n  {}\n{}\n  {outcome}\n  simple: {simple}",
                self.it.settings, self.it.query.sql
            ))
        })
    }
}
