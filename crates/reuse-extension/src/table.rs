//! A table whose scan is a plan of our nodes.

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion_catalog::{Session, TableProvider};
use datafusion_common::{DataFusionError, Result, plan_err};
use datafusion_expr::{Expr, TableType};
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::table_provider::FFI_TableProvider;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::nodes::{BuildSideExec, CounterExec, OneShotExec, Rows, RunningTotalExec};
use super::runtime;

/// What a scan gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    BuildSide,
    OneShot,
    Counter,
    /// A node with state over one of the same library, with state too.
    LocalChild,
}

impl FromStr for Shape {
    type Err = DataFusionError;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "build_side" => Self::BuildSide,
            "one_shot" => Self::OneShot,
            "counter" => Self::Counter,
            "local_child" => Self::LocalChild,
            _ => return plan_err!("the extension has no shape `{name}`"),
        })
    }
}

impl Shape {
    /// A plan over `rows`, which it reads when it runs.
    pub fn plan(self, rows: Arc<dyn Rows>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match self {
            Self::BuildSide => Arc::new(BuildSideExec::new(rows)),
            Self::OneShot => Arc::new(OneShotExec::new(rows)),
            Self::Counter => Arc::new(CounterExec::try_new(rows)?),
            Self::LocalChild => {
                let input = Arc::new(CounterExec::try_new(rows)?);
                Arc::new(RunningTotalExec::try_new(input)?)
            }
        })
    }
}

/// A table of 64-bit integers; its columns depend on the shape.
#[derive(Debug)]
pub struct ReuseTable {
    shape: Shape,
    rows: Arc<dyn Rows>,
    schema: SchemaRef,
}

impl ReuseTable {
    pub fn try_new(shape: Shape, rows: Arc<dyn Rows>) -> Result<Self> {
        let schema = shape.plan(Arc::clone(&rows))?.schema();
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
        project(self.shape.plan(Arc::clone(&self.rows))?, projection)
    }
}

/// The columns that a scan is asked for.
pub(crate) fn project(
    plan: Arc<dyn ExecutionPlan>,
    columns: Option<&Vec<usize>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let Some(columns) =
        columns.filter(|it| !it.iter().copied().eq(0..schema.fields().len()))
    else {
        return Ok(plan);
    };
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
