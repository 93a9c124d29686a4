//! One run of a plan, and what came out of it, whatever that is.
//!
//! ```text
//!   partition 0 ──► task ─┐
//!   partition 1 ──► task ─┼─► rows │ error │ panic │ no end within TIME_LIMIT
//!   partition n ──► task ─┘
//! ```
//!
//! Partitions are drained at the same time, as some plans wait for all of them.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::{StreamExt, TryStreamExt};
use tokio::task::JoinSet;

use crate::settings::Order;
use crate::version::{Version, at, current};

/// Time after which a run counts as one that does not end. The longest here takes
/// well under a second.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The rows of a result up to which a snapshot shows all of them.
const SHOWN: usize = 12;

/// A row, each value as text.
pub type Row = Vec<String>;

/// What a run gave. Texts of several partitions that failed are each kept once, so
/// that they do not depend on which one failed first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Rows(Vec<Row>),
    /// The number of rows, where the query leaves open which they are.
    RowCount(usize),
    Error(String),
    Panic(String),
    NoEnd,
}

impl Outcome {
    /// Rows in the form that `order` compares them.
    fn from_batches(batches: &[RecordBatch], order: Order) -> Result<Self> {
        let mut rows = vec![];
        let options = FormatOptions::default().with_null("NULL");
        for batch in batches {
            let columns = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options))
                .collect::<Result<Vec<_>, _>>()?;
            rows.extend((0..batch.num_rows()).map(|row| {
                columns
                    .iter()
                    .map(|column| column.value(row).to_string())
                    .collect::<Row>()
            }));
        }
        Ok(match order {
            Order::Any => {
                rows.sort_by_cached_key(|row| {
                    let numbers: Vec<Option<i64>> =
                        row.iter().map(|value| value.parse().ok()).collect();
                    (numbers, row.clone())
                });
                Outcome::Rows(rows)
            }
            Order::Kept => Outcome::Rows(rows),
            Order::RowsOpen => Outcome::RowCount(rows.len()),
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |rows: usize| match rows {
            0 => "no rows".to_string(),
            1 => "1 row".to_string(),
            n => format!("{n} rows"),
        };
        match self {
            Outcome::Rows(rows) => {
                write!(f, "{}", number(rows.len()))?;
                let text = |row: &Row| format!("({})", row.join(", "));
                match rows.as_slice() {
                    [] => Ok(()),
                    rows if rows.len() <= SHOWN => {
                        let rows: Vec<_> = rows.iter().map(text).collect();
                        write!(f, ": {}", rows.join(" "))
                    }
                    [first, .., last] => {
                        write!(
                            f,
                            ": {} .. {}, hash {:016x}",
                            text(first),
                            text(last),
                            hash(rows)
                        )
                    }
                    [_] => unreachable!("a single row is shown"),
                }
            }
            Outcome::RowCount(rows) => write!(f, "{}", number(*rows)),
            Outcome::Error(text) => write!(f, "error: {text}"),
            Outcome::Panic(text) => write!(f, "panic: {text}"),
            Outcome::NoEnd => write!(f, "no end within the time limit"),
        }
    }
}

/// FNV-1a over the values: unlike the standard library's hashers, it stays the same
/// from one release to the next.
fn hash(rows: &[Row]) -> u64 {
    rows.iter()
        .flat_map(|row| {
            row.iter()
                .flat_map(|value| value.bytes().chain([0]))
                .chain([1])
        })
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// A reset copy of `plan`.
pub fn reset(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    reset_plan_states(Arc::clone(plan))
}

/// Runs every partition to its end.
pub async fn run(
    plan: &Arc<dyn ExecutionPlan>,
    task: &Arc<TaskContext>,
    order: Order,
) -> Outcome {
    match Started::new(plan, task, false).await {
        Ok(started) => started.finish(order).await,
        Err(outcome) => outcome,
    }
}

/// A run that has begun: every partition is executed and has been asked for its first
/// batch.
pub async fn start(
    plan: &Arc<dyn ExecutionPlan>,
    task: &Arc<TaskContext>,
) -> Result<Started, Outcome> {
    Started::new(plan, task, true).await
}

/// A run under way; see [`start`]. It stays on the version that it began with.
pub struct Started {
    version: Version,
    streams: Vec<(Option<RecordBatch>, SendableRecordBatchStream)>,
}

impl Started {
    async fn new(
        plan: &Arc<dyn ExecutionPlan>,
        task: &Arc<TaskContext>,
        poll: bool,
    ) -> Result<Self, Outcome> {
        let partitions = plan.properties().output_partitioning().partition_count();
        let tasks = (0..partitions).map(|partition| {
            let (plan, task) = (Arc::clone(plan), Arc::clone(task));
            async move {
                let mut stream = plan.execute(partition, task)?;
                let first = if poll {
                    stream.next().await.transpose()?
                } else {
                    None
                };
                Ok((first, stream))
            }
        });
        Ok(Self {
            version: current(),
            streams: at_once(tasks).await?,
        })
    }

    /// Runs every partition to its end.
    pub async fn finish(self, order: Order) -> Outcome {
        let tasks = self.streams.into_iter().map(|(first, stream)| async move {
            let rest: Vec<RecordBatch> = stream.try_collect().await?;
            Ok(first.into_iter().chain(rest).collect::<Vec<_>>())
        });
        let batches = match at(self.version, at_once(tasks)).await {
            Ok(partitions) => partitions.concat(),
            Err(outcome) => return outcome,
        };
        Outcome::from_batches(&batches, order)
            .unwrap_or_else(|error| Outcome::Error(first_line(&error.to_string())))
    }
}

/// Runs the futures at the same time, each in a task of its own, and returns their
/// values in the futures' order. What failed comes back as the outcome of the run.
async fn at_once<T, F>(futures: impl Iterator<Item = F>) -> Result<Vec<T>, Outcome>
where
    F: Future<Output = Result<T>> + Send + 'static,
    T: Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (index, future) in futures.enumerate() {
        tasks.spawn(at(current(), async move { (index, future.await) }));
    }
    let mut values = vec![];
    let mut errors = BTreeSet::new();
    let mut panics = BTreeSet::new();
    let ended = tokio::time::timeout(TIME_LIMIT, async {
        while let Some(joined) = tasks.join_next().await {
            match joined {
                Ok((index, Ok(value))) => values.push((index, value)),
                Ok((_, Err(error))) => {
                    errors.insert(first_line(&error.to_string()));
                }
                Err(error) => {
                    panics.insert(panic_text(error));
                }
            }
        }
    })
    .await;
    let joined =
        |texts: BTreeSet<String>| texts.into_iter().collect::<Vec<_>>().join("; ");
    if !panics.is_empty() {
        Err(Outcome::Panic(joined(panics)))
    } else if !errors.is_empty() {
        Err(Outcome::Error(joined(errors)))
    } else if ended.is_err() {
        Err(Outcome::NoEnd)
    } else {
        values.sort_by_key(|(index, _)| *index);
        Ok(values.into_iter().map(|(_, value)| value).collect())
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let payload = match error.try_into_panic() {
        Ok(payload) => payload,
        Err(error) => return error.to_string(),
    };
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    first_line(text.unwrap_or("a payload that is no text"))
}

/// What an internal error says after its first line is the same for all of them. Which
/// partition it names depends on which was first to fail.
pub fn first_line(text: &str) -> String {
    const PARTITION: &str = "partition ";
    let line = text.lines().next().unwrap_or_default().trim();
    let mut parts = line.split(PARTITION);
    let mut first = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = if rest.len() < part.len() { "<n>" } else { "" };
        first.extend([PARTITION, number, rest]);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_no_partition() {
        let text = "Repartition: partition 12 ran, a partition not used yet\nmore";
        assert_eq!(
            first_line(text),
            "Repartition: partition <n> ran, a partition not used yet"
        );
    }
}
