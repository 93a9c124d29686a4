//! One run of a plan, and what came out of it, whatever that is.
//!
//! ```text
//!                     ┌─ task: execute(0), poll ... ─┐
//!   Runner ── spawns ─┼─ task: execute(1), poll ... ─┼─► rows │ error │ panic │ no end
//!     │               └─ task: execute(n), poll ... ─┘
//!     └── waits on a thread of its own, up to the time limit
//! ```
//!
//! Partitions are drained at the same time, since some plans wait for all of them. No
//! code of a node runs on the thread that waits: a node that blocks its thread for ever
//! is no more than a run that does not end.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::common::runtime::JoinSet;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, SendableRecordBatchStream,
};
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinError;

use crate::rows::{Rows, number};

/// Stack of a thread that runs plans, in bytes: what a main thread has. tokio's default
/// of 2 MiB is too little for a plan some hundred nodes deep.
pub(crate) const STACK_SIZE: usize = 8 << 20;

/// Why a run gave no rows. Texts are first lines, those of several partitions each kept
/// once, so that they do not depend on which one failed first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Error(String),
    Panic(String),
    NoEnd(Duration),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(text) => write!(f, "error: {text}"),
            Failure::Panic(text) => write!(f, "panic: {text}"),
            Failure::NoEnd(limit) => write!(f, "no end within {limit:?}"),
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Failure::Error(first_line(&error.to_string()))
    }
}

/// What a run gave.
pub type Outcome = Result<Rows, Failure>;

/// `outcome` as it is shown beside what a fresh plan gave, from which it differs.
pub fn beside(outcome: &Outcome, fresh: &Outcome) -> String {
    match (outcome, fresh) {
        (Ok(rows), Ok(fresh)) => rows.beside(fresh),
        (Err(failure), Ok(fresh)) => {
            format!("{failure}; a fresh plan gives {}", number(fresh.count()))
        }
        (Ok(rows), Err(fresh)) => {
            format!("{}; a fresh plan gives {fresh}", number(rows.count()))
        }
        (Err(failure), Err(fresh)) => format!("{failure}; a fresh plan gives {fresh}"),
    }
}

/// How far [`Runner::start`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Each stream is polled once, whatever comes of it.
    OnePoll,
    /// Each stream has given its first batch, or has ended.
    FirstBatch,
}

/// A run under way.
pub struct Started {
    plan: Arc<dyn ExecutionPlan>,
    partitions: Vec<(Vec<RecordBatch>, SendableRecordBatchStream)>,
}

/// Runs plans, each within the time limit.
pub struct Runner {
    task: Arc<TaskContext>,
    limit: Duration,
    runtime: Mutex<Option<Runtime>>,
}

impl Runner {
    pub fn new(task: Arc<TaskContext>, limit: Duration) -> Self {
        Self {
            task,
            limit,
            runtime: Mutex::new(None),
        }
    }

    /// Runs every partition to its end.
    pub async fn run(&self, plan: &Arc<dyn ExecutionPlan>) -> Outcome {
        self.run_partitions(plan, 0..partition_count(plan)).await
    }

    /// Runs some of the partitions to their end.
    pub async fn run_partitions(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        partitions: Range<usize>,
    ) -> Outcome {
        let batches = self.batches(plan, partitions).await?;
        Ok(Rows::new(plan, &batches)?)
    }

    /// The batches of some of the partitions, each run to its end.
    pub async fn batches(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        partitions: Range<usize>,
    ) -> Result<Vec<Vec<RecordBatch>>, Failure> {
        let drained = partitions.map(|partition| self.drain(plan, partition));
        let drained: Vec<_> = drained.collect();
        self.at_once(drained).await
    }

    /// Begins to run every partition.
    pub async fn start(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        until: Until,
    ) -> Result<Started, Failure> {
        let started = (0..partition_count(plan)).map(|partition| {
            let (plan, task) = (Arc::clone(plan), Arc::clone(&self.task));
            async move {
                let mut stream = plan.execute(partition, task)?;
                let first = match until {
                    Until::OnePoll => stream.next().now_or_never().flatten(),
                    Until::FirstBatch => stream.next().await,
                };
                Ok((Vec::from_iter(first.transpose()?), stream))
            }
        });
        let started: Vec<_> = started.collect();
        Ok(Started {
            partitions: self.at_once(started).await?,
            plan: Arc::clone(plan),
        })
    }

    /// Runs what was started to its end.
    pub async fn finish(&self, started: Started) -> Outcome {
        let rest =
            started
                .partitions
                .into_iter()
                .map(|(mut batches, stream)| async move {
                    batches.extend(stream.try_collect::<Vec<_>>().await?);
                    Ok(batches)
                });
        let batches = self.at_once(rest).await?;
        Ok(Rows::new(&started.plan, &batches)?)
    }

    /// Drops what was started.
    pub async fn cancel(&self, started: Started) -> Result<(), Failure> {
        let dropped = started.partitions.into_iter().map(|partition| async {
            drop(partition);
            Ok(())
        });
        self.at_once(dropped).await.map(|_| ())
    }

    /// A reset copy of `plan`.
    pub async fn reset(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>, Failure> {
        let plan = Arc::clone(plan);
        let mut copies = self.at_once([async { reset_plan_states(plan) }]).await?;
        Ok(copies.swap_remove(0))
    }

    /// What `future` gives, without a time limit: planning may take its time.
    ///
    /// # Errors
    ///
    /// Those of `future`; [`DataFusionError::ExecutionJoin`] if it panics.
    pub async fn call<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let task = self.runtime()?.spawn(future);
        task.await
            .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
    }

    fn drain(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        partition: usize,
    ) -> impl Future<Output = Result<Vec<RecordBatch>>> + Send + 'static {
        let (plan, task) = (Arc::clone(plan), Arc::clone(&self.task));
        async move { plan.execute(partition, task)?.try_collect().await }
    }

    /// Runs the futures at the same time, each in a task of its own, and returns their
    /// values in the futures' order.
    async fn at_once<T, F>(
        &self,
        futures: impl IntoIterator<Item = F>,
    ) -> Result<Vec<T>, Failure>
    where
        F: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let limit = self.limit;
        let runtime = self.runtime()?;
        let mut tasks = JoinSet::new();
        for (index, future) in futures.into_iter().enumerate() {
            tasks.spawn_on(async move { (index, future.await) }, &runtime);
        }
        let mut values = vec![];
        let mut errors = BTreeSet::new();
        let mut panics = BTreeSet::new();
        let mut cancelled = false;
        let ended = tokio::time::timeout(limit, async {
            while let Some(joined) = tasks.join_next().await {
                match joined {
                    Ok((index, Ok(value))) => values.push((index, value)),
                    Ok((_, Err(error))) => {
                        errors.insert(first_line(&error.to_string()));
                    }
                    // Another run did not end either, and took the runtime with it.
                    Err(error) if error.is_cancelled() => cancelled = true,
                    Err(error) => {
                        panics.insert(panic_text(error));
                    }
                }
            }
        })
        .await;
        if ended.is_err() {
            // Threads of it may be blocked for good.
            self.drop_runtime();
        }
        if !panics.is_empty() {
            Err(Failure::Panic(join(panics)))
        } else if !errors.is_empty() {
            Err(Failure::Error(join(errors)))
        } else if ended.is_err() || cancelled {
            Err(Failure::NoEnd(limit))
        } else {
            values.sort_by_key(|(index, _)| *index);
            Ok(values.into_iter().map(|(_, value)| value).collect())
        }
    }

    fn runtime(&self) -> Result<Handle> {
        let mut runtime = self.lock();
        if runtime.is_none() {
            let built = Builder::new_multi_thread()
                .enable_all()
                .thread_name("reuse-check-plan")
                .thread_stack_size(STACK_SIZE)
                .build()?;
            *runtime = Some(built);
        }
        Ok(runtime.as_ref().expect("was just built").handle().clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_runtime(&self) {
        if let Some(runtime) = self.lock().take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.drop_runtime();
    }
}

pub(crate) fn partition_count(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}

fn join(texts: BTreeSet<String>) -> String {
    Vec::from_iter(texts).join("; ")
}

/// The text of a panic.
fn panic_text(error: JoinError) -> String {
    let payload = error.into_panic();
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    first_line(text.unwrap_or("with a payload that is no text"))
}

/// What an internal error says after its first line is the same for all of them.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_string()
}
