//! The plans and tables that a host asks for by name.

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion_catalog::{Session, TableProvider};
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::{Expr, TableType};
use datafusion_physical_expr::PhysicalSortExpr;
use datafusion_physical_expr::expressions::col;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::sorts::sort::SortExec;

use crate::example::nodes::Rows;
use crate::example::table::{self as example, ReuseTable, project};
use crate::failing::{FailingExec, Failure};
use crate::pass_through::{chain, wide};

impl Rows for reuse_extension_interface::Rows {
    fn read(&self) -> Vec<i64> {
        self.get()
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// One of the example's.
    Example(example::Shape),
    Fails(Failure),
    /// So many nodes that do nothing, one below the other.
    Chain(usize),
    /// So many nodes that do nothing, all but one beside each other.
    Wide(usize),
    /// A node of DataFusion's own, over one of the example's.
    TopK,
}

impl FromStr for Shape {
    type Err = DataFusionError;

    /// `chain` and `wide` are followed by a number of nodes, as in `chain 51`.
    ///
    /// # Panics
    ///
    /// If the name is `panic`, for the tests of what a host makes of that.
    fn from_str(name: &str) -> Result<Self> {
        let (kind, number) = name.split_once(' ').unwrap_or((name, ""));
        Ok(match (kind, number.parse()) {
            ("chain", Ok(nodes)) => Self::Chain(nodes),
            ("wide", Ok(nodes)) => Self::Wide(nodes),
            ("top_k", _) => Self::TopK,
            ("reset_error", _) => Self::Fails(Failure::ResetError),
            ("reset_panic", _) => Self::Fails(Failure::ResetPanic),
            ("execute_error", _) => Self::Fails(Failure::ExecuteError),
            ("execute_panic", _) => Self::Fails(Failure::ExecutePanic),
            ("stream_error", _) => Self::Fails(Failure::StreamError),
            ("stream_panic", _) => Self::Fails(Failure::StreamPanic),
            ("panic", _) => panic!("deliberate panic of the library"),
            _ => Self::Example(name.parse()?),
        })
    }
}

impl Shape {
    /// A plan over `rows`, which it reads when it runs.
    pub fn plan(self, rows: Arc<dyn Rows>) -> Result<Arc<dyn ExecutionPlan>> {
        match self {
            Self::Example(shape) => shape.plan(rows),
            Self::Fails(failure) => Ok(Arc::new(FailingExec::new(rows, failure))),
            Self::Chain(nodes) => chain(nodes),
            Self::Wide(nodes) => wide(nodes),
            Self::TopK => {
                let input = example::Shape::Counter.plan(rows)?;
                let by = PhysicalSortExpr::new_default(col("value", &input.schema())?);
                Ok(Arc::new(
                    SortExec::new([by].into(), input).with_fetch(Some(3)),
                ))
            }
        }
    }

    /// A table whose scan is such a plan.
    pub fn table(self, rows: Arc<dyn Rows>) -> Result<Arc<dyn TableProvider>> {
        if let Self::Example(shape) = self {
            return Ok(Arc::new(ReuseTable::try_new(shape, rows)?));
        }
        let schema = self.plan(Arc::clone(&rows))?.schema();
        Ok(Arc::new(FixtureTable {
            shape: self,
            rows,
            schema,
        }))
    }
}

#[derive(Debug)]
struct FixtureTable {
    shape: Shape,
    rows: Arc<dyn Rows>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for FixtureTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        columns: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        project(self.shape.plan(Arc::clone(&self.rows))?, columns)
    }
}
