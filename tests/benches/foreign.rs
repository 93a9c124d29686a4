//! What a reset and an execution cost when the plan belongs to another library: patched,
//! released, and the same beside it in this library. All of it in one run, since these
//! numbers are only good for their ratios.
//!
//! Run it with `cargo xtask bench`, which builds both libraries.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::Schema;
use datafusion::common::instant::Instant;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::common::collect;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::prelude::SessionContext;
use reuse_extension_interface::{ExtensionRef, Rows, load};

const ROUNDS: usize = 15;

fn library(variable: &str) -> ExtensionRef {
    let path = std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run this with `cargo xtask bench`")
    });
    load(Path::new(&path)).unwrap_or_else(|error| panic!("{error}"))
}

fn foreign(library: ExtensionRef, shape: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = (library.plan())(shape.into(), Rows::new(vec![]))
        .into_result()
        .unwrap_or_else(|error| panic!("{error}"));
    (&plan.0).try_into()
}

/// `nodes` nodes of this library, one below the other.
fn local(nodes: usize) -> Arc<dyn ExecutionPlan> {
    let mut plan: Arc<dyn ExecutionPlan> =
        Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
    for _ in 1..nodes {
        plan = Arc::new(GlobalLimitExec::new(plan, 0, None));
    }
    plan
}

/// The median time of one call.
fn median(mut f: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS).map(|_| f()).collect();
    times.sort();
    times[ROUNDS / 2]
}

/// The mean of enough calls to be measured.
fn time(calls: u32, mut f: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        f();
    }
    start.elapsed() / calls
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn reset(plan: &Arc<dyn ExecutionPlan>, calls: u32) -> Duration {
    time(calls, || {
        black_box(reset_plan_states(Arc::clone(plan)).expect("a reset"));
    })
}

fn main() -> Result<()> {
    let patched = library("REUSE_EXTENSION");
    let stock = library("REUSE_EXTENSION_STOCK");

    println!("reset, µs a node (and in the unit of 51 nodes)");
    println!(
        "{:>8} {:>20} {:>20} {:>20}",
        "nodes", "local", "patched", "released"
    );
    let mut first = [0.0; 3];
    for nodes in [51, 201, 401, 2001_usize] {
        let plans = [
            Some(local(nodes)),
            Some(foreign(patched, &format!("chain {nodes}"))?),
            // The released one takes 12 s for 2,001 nodes.
            (nodes < 500)
                .then(|| foreign(stock, &format!("chain {nodes}")))
                .transpose()?,
        ];
        print!("{nodes:>8}");
        for (column, plan) in plans.iter().enumerate() {
            let Some(plan) = plan else {
                print!(" {:>20}", "-");
                continue;
            };
            let per_node = if column == 2 {
                micros(reset(plan, 1)) / nodes as f64
            } else {
                let calls = (4000 / nodes) as u32;
                micros(median(|| reset(plan, calls))) / nodes as f64
            };
            if nodes == 51 {
                first[column] = per_node;
            }
            print!(
                " {:>20}",
                format!("{per_node:.2} ({:.2})", per_node / first[column])
            );
        }
        println!();
    }
    let wide = foreign(patched, "wide 2001")?;
    let per_node = micros(median(|| reset(&wide, 2))) / 2001.0;
    println!("    wide {:>20} {per_node:>20.2}", "");

    println!("\nexecute and drain a plan of one node, µs");
    println!(
        "{:>32} {:>10} {:>10} {:>10}",
        "", "local", "patched", "released"
    );
    let runtime = tokio::runtime::Runtime::new()?;
    let session = SessionContext::new();
    let plans = [
        local(1),
        foreign(patched, "chain 1")?,
        foreign(stock, "chain 1")?,
    ];
    let run = |plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>| {
        let start = Instant::now();
        let stream = plan.execute(0, context).expect("an execution");
        black_box(runtime.block_on(collect(stream)).expect("batches"));
        start.elapsed()
    };
    let same = session.task_ctx();
    let contexts: [(&str, &dyn Fn() -> Arc<TaskContext>); 2] = [
        ("the same task context", &|| Arc::clone(&same)),
        ("another one of the session", &|| session.task_ctx()),
    ];
    for (name, context) in contexts {
        print!("{name:>32}");
        for plan in &plans {
            let mean =
                median(|| (0..100).map(|_| run(plan, context())).sum::<Duration>());
            print!(" {:>10.1}", micros(mean / 100));
        }
        println!();
    }
    Ok(())
}
