//! Nodes inside of wrappers, as tracing puts them there: a wrapper that delegates is as
//! good as what it wraps.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNode, TreeNodeRecursion,
};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use reuse_tests::compare::reset;
use reuse_tests::data::Data;
use reuse_tests::run::run;
use reuse_tests::shape::{EVERY_SETTING, Order};

/// Delegates everything that a reset or a recursive query needs.
#[derive(Debug)]
struct Wrapper(Arc<dyn ExecutionPlan>);

impl Wrapper {
    fn around(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self(plan))
    }
}

impl DisplayAs for Wrapper {
    fn fmt_as(
        &self,
        t: DisplayFormatType,
        f: &mut std::fmt::Formatter<'_>,
    ) -> std::fmt::Result {
        self.0.fmt_as(t, f)
    }
}

impl ExecutionPlan for Wrapper {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.0.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = Arc::clone(&self.0).replace_children(children, options)?;
        Ok(Self::around(inner))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Self::around(Arc::clone(&self.0).reset_state()?))
    }

    fn with_new_state(
        &self,
        state: Arc<dyn Any + Send + Sync>,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        self.0.with_new_state(state).map(Self::around)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.0.metrics()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

/// A work table is found, and a join's build side reset, through the wrappers.
#[tokio::test(flavor = "multi_thread")]
async fn wrapped_nodes() -> Result<()> {
    let data = Data::new()?;
    for (sql, rows) in [
        (
            "WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a + 1 FROM r WHERE a < 5) \
             SELECT * FROM r",
            "5 rows: (1) (2) (3) (4) (5)",
        ),
        (
            "SELECT m.kk, n.k FROM (SELECT DISTINCT k AS kk FROM mem WHERE k < 3) m \
             LEFT JOIN (SELECT k FROM mem) n ON m.kk = n.k + 1000",
            "3 rows: (0, NULL) (1, NULL) (2, NULL)",
        ),
    ] {
        for settings in EVERY_SETTING {
            let session = data.session(settings).await?;
            let plan = session.sql(sql).await?.create_physical_plan().await?;
            let plan = plan
                .transform_up(|node| Ok(Transformed::yes(Wrapper::around(node))))
                .data()?;
            let task = session.task_ctx();
            let first = run(&plan, &task, Order::Any).await;
            assert_eq!(first.to_string(), rows, "{settings}: {sql}");
            let copies = [reset(&plan)?, reset(&reset(&plan)?)?];
            for copy in &copies {
                let again = run(copy, &task, Order::Any).await;
                assert_eq!(again, first, "{settings}: {sql}");
            }
        }
    }
    Ok(())
}
