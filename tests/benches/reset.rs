//! What a reset costs beside the run that follows it: of the plan that a deep model makes,
//! 300 chains of 15 joins each. The walk of the released version, which copies most nodes
//! twice, is measured beside it in the same run.
//!
//! ```text
//! UnionExec                                  300 times:
//!   ProjectionExec ─ HashJoinExec ─ ...      15 times, collect-left
//!     DataSourceExec                         16 rows
//! ```
//!
//! Run it with `cargo xtask bench`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::instant::Instant;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, collect};

const CHAINS: usize = 300;
const JOINS: usize = 15;
const ROWS: i64 = 16;

fn scan() -> Result<Arc<dyn ExecutionPlan>> {
    let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let column = || Arc::new(Int64Array::from_iter_values(0..ROWS)) as _;
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column(), column()])?;
    Ok(MemorySourceConfig::try_new_exec(
        &[vec![batch]],
        schema,
        None,
    )?)
}

/// `SELECT k, v FROM scan JOIN (one join less) USING (k)`
fn chain() -> Result<Arc<dyn ExecutionPlan>> {
    let mut plan = scan()?;
    for _ in 0..JOINS {
        let left = scan()?;
        let on = vec![(col("k", &left.schema())?, col("k", &plan.schema())?)];
        let join = HashJoinExec::try_new(
            left,
            plan,
            on,
            None,
            &JoinType::Inner,
            Some(vec![0, 3]),
            PartitionMode::CollectLeft,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let schema = join.schema();
        let exprs =
            ["k", "v"].map(|name| Ok(ProjectionExpr::new(col(name, &schema)?, name)));
        plan = Arc::new(ProjectionExec::try_new(
            exprs.into_iter().collect::<Result<Vec<_>>>()?,
            Arc::new(join),
        )?);
    }
    Ok(plan)
}

fn model() -> Result<Arc<dyn ExecutionPlan>> {
    let chains = (0..CHAINS).map(|_| chain()).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(CoalescePartitionsExec::new(UnionExec::try_new(
        chains,
    )?)))
}

fn nodes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    1 + plan.children().into_iter().map(nodes).sum::<usize>()
}

/// `reset_plan_states` as DataFusion 55 has it.
fn released(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| Ok(Transformed::yes(plan.reset_state()?)))
        .data()
}

const ROUNDS: usize = 31;

/// What `f` returns, and the time that it takes.
fn timed<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = black_box(f());
    (result, start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() -> Result<()> {
    let plan = model()?;
    let nodes = nodes(&plan);
    let runtime = tokio::runtime::Runtime::new()?;

    // In turns, so that what else the machine does meets all of them.
    let [mut released_times, mut reset_times, mut run_times] = [vec![], vec![], vec![]];
    for _ in 0..ROUNDS {
        let (_, time) = timed(|| released(Arc::clone(&plan)).unwrap());
        released_times.push(time);
        let (copy, time) = timed(|| reset_plan_states(Arc::clone(&plan)).unwrap());
        reset_times.push(time);
        let context = Arc::new(TaskContext::default());
        let (_, time) = timed(|| runtime.block_on(collect(copy, context)).unwrap());
        run_times.push(time);
    }
    let [released, reset, run] = [released_times, reset_times, run_times].map(median);

    println!("{nodes} nodes, {} hash joins", CHAINS * JOINS);
    for (name, time) in [("released reset", released), ("reset", reset), ("run", run)] {
        let node = time.as_secs_f64() * 1e6 / nodes as f64;
        let of_run = time.as_secs_f64() / run.as_secs_f64() * 100.0;
        println!(
            "{name:>15}: {time:>12.2?}, {node:.3} µs a node, {of_run:.1} % of a run"
        );
    }
    println!(
        "a reset takes {:.2} of the time that the released one takes",
        reset.as_secs_f64() / released.as_secs_f64()
    );
    Ok(())
}
