//! A Rust host: loads the libraries, asks them for tables and plans, and runs those.

use std::path::PathBuf;
use std::sync::Arc;

use abi_stable::std_types::RString;
use datafusion::catalog::TableProvider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{TaskContext, TaskContextProvider};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_ffi::execution_plan::ForeignExecutionPlan;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use reuse_extension_interface::{Codec, ExtensionRef, Made, Rows, load};
use reuse_tests::run::{Outcome, run};
use reuse_tests::settings::{Order, Settings};

/// Which crates the extension was built against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    Patched,
    Stock,
}

impl Build {
    pub fn path(self) -> PathBuf {
        path(match self {
            Build::Patched => "REUSE_EXTENSION",
            Build::Stock => "REUSE_EXTENSION_STOCK",
        })
    }

    pub fn library(self) -> ExtensionRef {
        load(&self.path()).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The file that an environment variable names.
pub fn path(variable: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(path) => path.into(),
        None => panic!(
            "{variable} is not set to a library: `cargo xtask test rust` builds and sets it"
        ),
    }
}

/// A plan of `shape`, made without a session.
pub fn plan(
    library: ExtensionRef,
    shape: &str,
    rows: &Rows,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = made(library.plan()(shape.into(), rows.clone()))?;
    let plan = <Arc<dyn ExecutionPlan>>::try_from(&plan.0)?;
    assert!(plan.is::<ForeignExecutionPlan>(), "{shape} is not foreign");
    Ok(plan)
}

pub fn made<T>(made: Made<T>) -> Result<T> {
    made.into_result()
        .map_err(|error| DataFusionError::External(error.into_string().into()))
}

/// A session of the host.
pub struct Host {
    pub session: Arc<SessionContext>,
}

impl Host {
    pub fn new(settings: &Settings) -> Result<Self> {
        let session = SessionContext::new_with_config(settings.config()?);
        Ok(Self {
            session: Arc::new(session),
        })
    }

    fn codec(&self) -> Codec {
        let provider = Arc::clone(&self.session) as Arc<dyn TaskContextProvider>;
        Codec(FFI_LogicalExtensionCodec::new_default(&provider))
    }

    pub fn table(
        &self,
        library: ExtensionRef,
        shape: &str,
        rows: &Rows,
    ) -> Result<Arc<dyn TableProvider>> {
        let table = made(library.table()(shape.into(), rows.clone(), self.codec()))?;
        Ok((&table.0).into())
    }

    pub fn sql_table(
        &self,
        library: ExtensionRef,
        setup: &[String],
        query: &str,
    ) -> Result<Arc<dyn TableProvider>> {
        let setup: Vec<_> = setup.iter().map(|text| RString::from(&**text)).collect();
        let table = library.sql_table()(setup[..].into(), query.into(), self.codec());
        Ok((&made(table)?.0).into())
    }

    /// The plan that the table's scan gives, as the library made it.
    pub async fn scan(
        &self,
        table: &Arc<dyn TableProvider>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = table.scan(&self.session.state(), None, &[], None).await?;
        assert!(plan.is::<ForeignExecutionPlan>(), "a scan is not foreign");
        Ok(plan)
    }

    /// The host's own plan of a query.
    pub async fn plan(&self, query: &str) -> Result<Arc<dyn ExecutionPlan>> {
        self.session.sql(query).await?.create_physical_plan().await
    }

    pub fn task(&self) -> Arc<TaskContext> {
        self.session.task_ctx()
    }

    pub async fn run(&self, plan: &Arc<dyn ExecutionPlan>) -> Outcome {
        run(plan, &self.task(), Order::Any).await
    }
}

/// The names of a plan's nodes, parents before children.
pub fn names(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let below = plan.children().into_iter().flat_map(names);
    std::iter::once(plan.name().to_string())
        .chain(below)
        .collect()
}

/// What the nodes of this name say to have sent, together.
pub fn output_rows(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = match plan.metrics() {
        Some(metrics) if plan.name() == name => metrics.output_rows().unwrap_or(0),
        _ => 0,
    };
    let below = plan.children().into_iter();
    own + below.map(|child| output_rows(child, name)).sum::<usize>()
}
