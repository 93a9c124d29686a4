//! The nodes, one file each, and what resetting them means.
//!
//! A plan is planned once and run many times: between two runs its owner calls
//! `reset_plan_states(plan)`, which walks the plan from its leaves up, calls
//! [`ExecutionPlan::reset_state`] on every node and puts the copies together with
//! [`ExecutionPlan::replace_children`]. The original can be running at that moment, and so
//! can other copies. What follows for a node that keeps anything from a run:
//!
//! - **Return a new node.** Clearing the state in place would pull it from under the
//!   original and from under streams that are still read.
//! - **Share nothing that a run writes.** A counter, a cache or a channel behind an `Arc`
//!   that the copy holds too is not reset at all. What no run writes (the schema, the
//!   rows to read, a connection pool) is shared by all.
//! - **Leave the children alone.** The walk has reset them already and hands them in
//!   afterwards; resetting them again would cost a walk per level.
//! - **Take over the properties** with `Arc::clone`: a reset changes no schema, ordering
//!   or partitioning, and computing them again costs more than all the rest.
//! - **Start with empty metrics**, or the copy reports the sum of all runs.
//!
//! The default of the trait keeps all of a node's state: it puts the node's own children
//! in again. That is right for a node without any.
//!
//! `replace_children` is no reset. Rules call it while they rewrite a plan, so it keeps
//! the state and what is connected to it.
//!
//! | node | keeps from a run |
//! | --- | --- |
//! | [`BuildSideExec`] | what its first partition computed for all of them |
//! | [`OneShotExec`] | that its only stream is gone |
//! | [`CounterExec`] | a count that its streams write, and that decides what they send |
//! | [`RunningTotalExec`] | a total over its input, which has state of its own |
//!
//! [`ExecutionPlan::reset_state`]: datafusion_physical_plan::ExecutionPlan::reset_state
//! [`ExecutionPlan::replace_children`]: datafusion_physical_plan::ExecutionPlan::replace_children

mod build_side;
mod counter;
mod one_shot;
mod running_total;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_physical_expr::{EquivalenceProperties, Partitioning};
use datafusion_physical_plan::PlanProperties;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};

pub use build_side::BuildSideExec;
pub use counter::CounterExec;
pub use one_shot::OneShotExec;
pub use running_total::RunningTotalExec;

/// Where a node finds its rows whenever it runs: a file, a service, here a list. A plan and
/// its copies share it, since no run writes it.
pub trait Rows: fmt::Debug + Send + Sync {
    fn read(&self) -> Vec<i64>;
}

impl Rows for Mutex<Vec<i64>> {
    fn read(&self) -> Vec<i64> {
        self.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Columns of 64-bit integers without nulls.
pub(crate) fn schema(names: &[&str]) -> SchemaRef {
    let fields: Vec<_> = names
        .iter()
        .map(|name| Field::new(*name, DataType::Int64, false))
        .collect();
    Arc::new(Schema::new(fields))
}

/// One row of such columns.
pub(crate) fn row<const COLUMNS: usize>(
    schema: &SchemaRef,
    values: [i64; COLUMNS],
) -> Result<RecordBatch> {
    let columns = values.map(|value| Arc::new(Int64Array::from(vec![value])) as _);
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.into())?)
}

/// Of a node that sends rows as it finds them, and ends.
pub(crate) fn properties(
    equivalences: EquivalenceProperties,
    partitions: usize,
) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        equivalences,
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}
