//! A table whose scan is a plan of one of our nodes.

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::table_provider::FFI_TableProvider;
use reuse_extension_interface::Rows;

use crate::nodes::{
    BuildSideExec, CounterExec, FailingExec, Failure, OneShotExec, RunningTotalExec,
    chain, wide,
};
use crate::runtime;

/// What a scan gives; made from a name, which [`Shape::from_str`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    BuildSide,
    OneShot,
    Counter,
    /// A node with state over one of the same library, with state too.
    LocalChild,
    Fails(Failure),
    /// So many nodes that do nothing, one below the other.
    Chain(usize),
    /// So many nodes that do nothing, all but one beside each other.
    Wide(usize),
}

impl FromStr for Shape {
    type Err = DataFusionError;

    /// # Errors
    ///
    /// If the name is none of those below. `chain` and `wide` are followed by a number of
    /// nodes, as in `chain 51`.
    ///
    /// # Panics
    ///
    /// If the name is `panic`, for the tests of what a host makes of that.
    fn from_str(name: &str) -> Result<Self> {
        let (kind, number) = name.split_once(' ').unwrap_or((name, ""));
        Ok(match (kind, number.parse()) {
            ("build_side", Err(_)) => Self::BuildSide,
            ("one_shot", Err(_)) => Self::OneShot,
            ("counter", Err(_)) => Self::Counter,
            ("local_child", Err(_)) => Self::LocalChild,
            ("reset_error", Err(_)) => Self::Fails(Failure::ResetError),
            ("reset_panic", Err(_)) => Self::Fails(Failure::ResetPanic),
            ("execute_error", Err(_)) => Self::Fails(Failure::ExecuteError),
            ("execute_panic", Err(_)) => Self::Fails(Failure::ExecutePanic),
            ("stream_error", Err(_)) => Self::Fails(Failure::StreamError),
            ("stream_panic", Err(_)) => Self::Fails(Failure::StreamPanic),
            ("chain", Ok(nodes)) => Self::Chain(nodes),
            ("wide", Ok(nodes)) => Self::Wide(nodes),
            ("panic", Err(_)) => panic!("deliberate panic of the library"),
            _ => return plan_err!("the extension has no shape `{name}`"),
        })
    }
}

impl Shape {
    /// A plan over `rows`, which it reads when it runs.
    pub fn plan(self, rows: &Rows) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = rows.clone();
        Ok(match self {
            Self::BuildSide => Arc::new(BuildSideExec::new(rows)),
            Self::OneShot => Arc::new(OneShotExec::new(rows)),
            Self::Counter => Arc::new(CounterExec::try_new(rows)?),
            Self::LocalChild => {
                let input = Arc::new(CounterExec::try_new(rows)?);
                Arc::new(RunningTotalExec::try_new(input)?)
            }
            Self::Fails(failure) => Arc::new(FailingExec::new(rows, failure)),
            Self::Chain(nodes) => chain(nodes)?,
            Self::Wide(nodes) => wide(nodes)?,
        })
    }
}

/// A table of 64-bit integers; its columns depend on the shape.
#[derive(Debug)]
pub struct ReuseTable {
    shape: Shape,
    rows: Rows,
    schema: SchemaRef,
}

impl ReuseTable {
    /// # Errors
    ///
    /// If `shape` has a number of nodes that makes no plan.
    pub fn try_new(shape: Shape, rows: Rows) -> Result<Self> {
        let schema = shape.plan(&rows)?.schema();
        Ok(Self {
            shape,
            rows,
            schema,
        })
    }
}

#[async_trait]
impl TableProvider for ReuseTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// A new plan each time. It may be run again, so it must not hold anything of the
    /// session that asks for it.
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.shape.plan(&self.rows)?;
        let all = || {
            (0..self.schema.fields().len()).eq(projection.into_iter().flatten().copied())
        };
        match projection {
            Some(columns) if !all() => project(plan, columns),
            _ => Ok(plan),
        }
    }
}

fn project(
    plan: Arc<dyn ExecutionPlan>,
    columns: &[usize],
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let columns = columns.iter().map(|&index| {
        let name = schema.field(index).name();
        ProjectionExpr::new(Arc::new(Column::new(name, index)), name)
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}

/// `table` as other libraries can use it.
///
/// `codec` is the host's: with it both sides exchange filter expressions.
pub fn export(
    table: Arc<dyn TableProvider>,
    codec: FFI_LogicalExtensionCodec,
) -> FFI_TableProvider {
    let pushes_filters_down = false;
    let runtime = Some(runtime::handle());
    FFI_TableProvider::new_with_ffi_codec(table, pushes_filters_down, runtime, codec)
}
