//! Checks which promises of a reset copy each node of a physical plan keeps.
//!
//! A physical plan is good for one run: its nodes keep what they build up, and run again
//! they fail, or silently give stale rows, too few or none. [`reset_plan_states`] makes a
//! copy that can be run from the start, if every node's [`ExecutionPlan::reset_state`]
//! does its part. An author of nodes wants to know whether theirs do:
//!
//! ```text
//!   make_plan ──► P P P P ...         fresh plans of the same query, as many as it takes
//!                 │
//!                 │  for each subtree, leaves first
//!                 ▼
//!     run · reset · reset of a reset · two copies at once · reset while the original
//!     runs · reset after a cancelled run · a partition of each copy · changed data
//!                 │
//!                 │  rows beside those of a fresh plan; metrics; properties
//!                 ▼
//!              Report                 which node breaks which promise, and in which run
//! ```
//!
//! The promises are those of [`Promise`]. To *break* one, a node's subtree has to depart
//! from what a fresh plan does while no subtree below departs: what is wrong with a node
//! shows at every node above it, which the report calls `below`.
//!
//! # Example
//!
//! ```
//! use datafusion::error::Result;
//! use datafusion::prelude::SessionContext;
//! use reuse_check::ReuseCheck;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let ctx = SessionContext::new();
//! let task = ctx.task_ctx();
//! let report = ReuseCheck::new(move || {
//!     let ctx = ctx.clone();
//!     async move {
//!         let query = "SELECT v % 3 AS g, count(*) AS n FROM range(10) AS t(v) GROUP BY g";
//!         ctx.sql(query).await?.create_physical_plan().await
//!     }
//! })
//! .with_task_context(task)
//! .run()
//! .await?;
//! assert!(report.is_ok(), "{report}");
//! # Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! - **Change the data.** Over the same data, a copy that still holds what the first run
//!   read gives the right rows. [`ReuseCheck::with_change`] makes it show.
//! - **Small tables, but more than a batch.** Each node's subtree is run some 25 times and
//!   planned some twelve times, without the nodes above that would end it early, such as a
//!   limit. A result of a single batch has no second half to disturb.
//! - **No plans that write.** They would write as many times.
//! - Shared state that shows only in a race may need more than one check to be seen.
//! - The lowest subtree that breaks a promise may do so through what two nodes of it share,
//!   for example a dynamic filter that a node at its top updates and a scan below keeps.
//!   The report blames the upper of them.
//! - Rows are compared as a multiset, and in order where the plan declares one. Where two
//!   fresh plans differ (`LIMIT` without `ORDER BY`), the report says so and compares the
//!   number of rows. Of an order by a scalar subquery only the keys before it are compared.
//!
//! [`reset_plan_states`]: datafusion::physical_plan::execution_plan::reset_plan_states
//! [`ExecutionPlan::reset_state`]: datafusion::physical_plan::ExecutionPlan::reset_state

mod blame;
mod check;
mod foreign;
mod look;
mod report;
mod rows;
mod run;
mod same;
mod ways;

/// What this project's tests of DataFusion's own operators share with a check, of which they
/// ask more. No part of the API.
#[doc(hidden)]
pub mod engine {
    pub use crate::look::{filled_metrics, properties};
    pub use crate::rows::Rows;
    pub use crate::run::{Failure, Outcome, Runner, beside};
    pub use crate::same::same;
    pub use crate::ways::{Plan, Ran, Step, Tried, Way, Ways};
}

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

pub use report::{Finding, NodeReport, Promise, Report, Verdict};

use check::Checker;
use run::{Runner, STACK_SIZE};

type MakePlan =
    Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn ExecutionPlan>>> + Send>;
type Change = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;

/// A check of the plans that a closure makes. See the [crate's documentation](crate).
#[must_use = "a check does nothing until it is run"]
pub struct ReuseCheck {
    make_plan: MakePlan,
    change: Option<Change>,
    task: Option<Arc<TaskContext>>,
    time_limit: Duration,
}

impl ReuseCheck {
    /// A check of the plans that `make_plan` returns: planned anew at each call, and of the
    /// same shape.
    pub fn new<F, Fut>(make_plan: F) -> Self
    where
        F: Fn() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'static,
    {
        Self {
            make_plan: Box::new(move || make_plan().boxed()),
            change: None,
            task: None,
            time_limit: Duration::from_secs(30),
        }
    }

    /// Runs the plans in `task` instead of in that of a new [`SessionContext`]. Plans that
    /// read from an object store which was registered with a session need that session's.
    pub fn with_task_context(mut self, task: Arc<TaskContext>) -> Self {
        self.task = Some(task);
        self
    }

    /// How long a run may take, all its partitions together: 30 seconds if nothing else is
    /// said. A run that takes longer is a finding.
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Changes the data that the plans read, so that state which a copy kept from a run
    /// before shows in its rows.
    ///
    /// Called once, while no plan runs. It changes data *under* the plans, such as the
    /// contents of a file, in place: what planning looks at (which files there are and how
    /// long, which batches a table in memory consists of) belongs to the plan, and a copy
    /// rightly keeps it.
    pub fn with_change<F, Fut>(mut self, change: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.change = Some(Box::new(move || change().boxed()));
        self
    }

    /// Runs the check.
    ///
    /// Plans are made and run on threads of the check's own, in a tokio runtime of its own,
    /// so that a node that blocks its thread holds up nobody but itself. Dropped, the check
    /// ends. Threads that a node blocks for good stay behind.
    ///
    /// # Errors
    ///
    /// Those of `make_plan` and of the change, as they are; if `make_plan` panics, or
    /// returns one plan twice or plans of different shapes. Whatever a plan does, fail, panic
    /// or hang, is a [`Finding`].
    pub async fn run(self) -> Result<Report> {
        let (mut send, receive) = oneshot::channel();
        thread::Builder::new()
            .name("reuse-check".to_string())
            .stack_size(STACK_SIZE)
            .spawn(move || {
                let waiting = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build();
                let report = match waiting {
                    Ok(waiting) => waiting.block_on(async {
                        tokio::select! {
                            report = self.check() => Some(report),
                            () = send.closed() => None,
                        }
                    }),
                    Err(error) => Some(Err(error.into())),
                };
                if let Some(report) = report {
                    // Nobody may be waiting any more.
                    send.send(report).ok();
                }
            })?;
        receive.await.unwrap_or_else(|_| {
            Err(DataFusionError::Execution(
                "the check panicked; its thread has printed why".to_string(),
            ))
        })
    }

    async fn check(self) -> Result<Report> {
        let task = self
            .task
            .unwrap_or_else(|| SessionContext::new().task_ctx());
        let runner = Runner::new(task, self.time_limit);
        let checker = Checker::new(self.make_plan, runner).await?;
        checker.run(self.change).await
    }
}

impl fmt::Debug for ReuseCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReuseCheck")
            .field("time_limit", &self.time_limit)
            .field("changes_data", &self.change.is_some())
            .finish_non_exhaustive()
    }
}
