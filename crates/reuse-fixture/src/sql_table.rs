//! A table that is a query: its scan is the whole plan of it. That makes a foreign plan of
//! DataFusion's own operators, with all the state that these keep.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::example::runtime;

/// A query over tables of this library.
pub struct SqlTable {
    session: SessionContext,
    query: String,
    schema: SchemaRef,
}

impl SqlTable {
    /// Runs the statements of `setup`, such as `CREATE EXTERNAL TABLE`, and plans `query`
    /// for its schema. Must not be called on a thread of this library's runtime.
    ///
    /// # Errors
    ///
    /// If a statement fails or the query cannot be planned.
    pub fn try_new(setup: &[String], query: &str) -> Result<Self> {
        let session = SessionContext::new();
        let schema = runtime::handle().block_on(async {
            for statement in setup {
                session.sql(statement).await?.collect().await?;
            }
            let frame = session.sql(query).await?;
            Ok::<_, DataFusionError>(Arc::clone(frame.schema().inner()))
        })?;
        Ok(Self {
            session,
            query: query.to_string(),
            schema,
        })
    }
}

impl std::fmt::Debug for SqlTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SqlTable({})", self.query)
    }
}

#[async_trait]
impl TableProvider for SqlTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    /// Plans the query under the settings of `session`, so that it is the plan that the
    /// host would have made of it.
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.map(|columns| {
            let names = columns
                .iter()
                .map(|&column| self.schema.field(column).name());
            names.cloned().collect()
        });
        let plan = plan(
            self.session.clone(),
            session.config().clone(),
            self.query.clone(),
            columns,
        );
        // The host polls this scan on its own threads. Planning lists files, which needs
        // our runtime; see `runtime.rs`.
        let task = {
            let _guard = runtime::handle().enter();
            SpawnedTask::spawn(plan)
        };
        task.join()
            .await
            .map_err(|error| DataFusionError::External(Box::new(error)))?
    }
}

async fn plan(
    session: SessionContext,
    config: SessionConfig,
    query: String,
    columns: Option<Vec<String>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    // Our session has its catalog; the host's settings would ask for an empty one.
    let config = config.with_create_default_catalog_and_schema(false);
    let state = SessionStateBuilder::new_from_existing(session.state())
        .with_config(config)
        .build();
    let mut frame = SessionContext::new_with_state(state).sql(&query).await?;
    if let Some(columns) = columns {
        let columns: Vec<_> = columns.iter().map(String::as_str).collect();
        frame = frame.select_columns(&columns)?;
    }
    frame.create_physical_plan().await
}
