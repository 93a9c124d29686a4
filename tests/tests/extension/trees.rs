//! Plans of several libraries: local nodes over foreign ones and the other way round.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use datafusion_ffi::execution_plan::ForeignExecutionPlan;
use reuse_extension_interface::Rows;
use reuse_tests::run::{Outcome, reset};
use reuse_tests::settings::{EVERY_SETTING, Settings};

use super::contract::SHAPES;
use super::host::{Build, Host, names, plan};

/// `parent` with `child` in place of its only child.
fn over(
    parent: &Arc<dyn ExecutionPlan>,
    child: &Arc<dyn ExecutionPlan>,
    mode: ChildrenPropertiesMode,
) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(parent)
        .replace_children(vec![Arc::clone(child)], ReplaceChildrenOptions::new(mode))
}

/// A query of the host over a table of the extension: its join, aggregate and repartitions
/// and the foreign nodes below are all reset.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_under_local() -> Result<()> {
    for settings in EVERY_SETTING {
        let host = Host::new(settings)?;
        let rows = Rows::new(vec![1, 2, 3, 4]);
        for (shape, _) in SHAPES {
            let table = host.table(Build::Patched.library(), shape, &rows)?;
            host.session.register_table(shape, table)?;
        }
        host.session
            .sql("CREATE TABLE mem AS SELECT value AS k FROM generate_series(0, 99)")
            .await?
            .collect()
            .await?;
        let query = "SELECT m.k, c.number, count(*) AS n, sum(b.sum) AS s \
                     FROM mem m JOIN counter c ON m.k = c.value \
                     JOIN build_side b ON m.k = b.value JOIN one_shot o ON m.k = o.value \
                     GROUP BY m.k, c.number";
        let p = host.plan(query).await?;
        let fresh = host.run(&p).await;
        assert_eq!(
            fresh.to_string(),
            "4 rows: (1, 1, 1, 10) (2, 2, 1, 10) (3, 3, 1, 10) (4, 4, 1, 10)",
            "{settings}"
        );
        let copy = reset(&p)?;
        assert_eq!(host.run(&copy).await, fresh, "{settings}");
        assert_eq!(host.run(&reset(&copy)?).await, fresh, "{settings}");
        let (a, b) = (reset(&p)?, reset(&p)?);
        let (a, b) = tokio::join!(host.run(&a), host.run(&b));
        assert_eq!([a, b], [fresh.clone(), fresh], "{settings}");

        let copy = reset(&p)?;
        rows.set(vec![30, 20]);
        assert_eq!(
            host.run(&copy).await.to_string(),
            "2 rows: (20, 2, 1, 50) (30, 1, 1, 50)",
            "{settings}"
        );
    }
    Ok(())
}

/// A foreign node over a plan of the host that can run once, and local nodes over that.
#[tokio::test(flavor = "multi_thread")]
async fn local_under_foreign() -> Result<()> {
    let host = Host::new(&Settings::new(4, true))?;
    // Its repartitions panic when they run again.
    let local = host
        .plan(
            "SELECT value / 10 AS value, count(*) AS n FROM generate_series(0, 99) \
             GROUP BY value / 10 ORDER BY value",
        )
        .await?;
    assert!(names(&local).contains(&"RepartitionExec".to_string()));
    let rows = Rows::new(vec![1]);
    let parent = plan(Build::Patched.library(), "local_child", &rows)?;
    let mut p = over(&parent, &local, ChildrenPropertiesMode::Recompute)?;
    for depth in 1..4 {
        // This library's nodes come back as themselves.
        let child = p.children()[0];
        assert_eq!(depth > 1, child.is::<ForeignExecutionPlan>());
        assert!(depth > 1 || Arc::ptr_eq(child, &local));

        let fresh = host.run(&p).await;
        let Outcome::Rows(found) = &fresh else {
            panic!("{fresh}")
        };
        assert_eq!(found.len(), 10);
        assert_eq!(found[9][..3], ["9", "10", "45"], "{fresh}");
        let copy = reset(&p)?;
        assert_eq!(names(&copy), names(&p));
        assert_eq!(host.run(&copy).await, fresh);
        assert_eq!(host.run(&reset(&copy)?).await, fresh);

        // One more foreign node on top of all that.
        let parent = plan(Build::Patched.library(), "local_child", &rows)?;
        p = over(&parent, &reset(&p)?, ChildrenPropertiesMode::Recompute)?;
    }
    Ok(())
}

/// Three libraries in one plan: host, patched and released. Only what the released one owns
/// keeps its state.
#[tokio::test(flavor = "multi_thread")]
async fn both_builds_in_one_plan() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    let rows = Rows::new(vec![1, 2]);
    for build in [Build::Patched, Build::Stock] {
        let other = match build {
            Build::Patched => Build::Stock,
            Build::Stock => Build::Patched,
        };
        let child = plan(other.library(), "counter", &rows)?;
        let parent = plan(build.library(), "local_child", &rows)?;
        let p = over(&parent, &child, ChildrenPropertiesMode::Recompute)?;
        let fresh = host.run(&p).await;
        assert_eq!(fresh.to_string(), "2 rows: (1, 1, 1) (2, 2, 3)");
        let expected = match build {
            // The counter below goes on.
            Build::Patched => "2 rows: (1, 3, 1) (2, 4, 3)",
            // The total above goes on.
            Build::Stock => "2 rows: (1, 1, 4) (2, 2, 6)",
        };
        assert_eq!(host.run(&reset(&p)?).await.to_string(), expected);
    }
    Ok(())
}

/// The children that a foreign node is given are those that it runs, in either mode and
/// after a reset.
#[tokio::test(flavor = "multi_thread")]
async fn replaced_children_are_executed() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    for mode in [
        ChildrenPropertiesMode::Keep,
        ChildrenPropertiesMode::Recompute,
    ] {
        for build in [Build::Patched, Build::Stock] {
            let parent = plan(build.library(), "local_child", &Rows::new(vec![1, 2]))?;
            let schema = parent.children()[0].schema();
            let columns = [vec![5, 6], vec![7, 8]]
                .map(|column| Arc::new(Int64Array::from(column)) as _);
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into())?;
            let local: Arc<dyn ExecutionPlan> =
                MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)?;
            let foreign =
                plan(Build::Patched.library(), "counter", &Rows::new(vec![5, 6]))?;
            for (child, expected) in [
                (local, "2 rows: (5, 7, 5) (6, 8, 11)"),
                (foreign, "2 rows: (5, 1, 5) (6, 2, 11)"),
            ] {
                let parent = plan(build.library(), "local_child", &Rows::new(vec![1]))?;
                let p = over(&parent, &child, mode)?;
                assert_eq!(names(&p)[1], child.name());
                assert_eq!(host.run(&p).await.to_string(), expected, "{build:?}");
                if build == Build::Patched {
                    let copy = host.run(&reset(&p)?).await;
                    assert_eq!(copy.to_string(), expected);
                }
                // The parent keeps the child that it had.
                assert_eq!(
                    host.run(&reset(&parent)?).await.to_string(),
                    match build {
                        Build::Patched => "1 row: (1, 1, 1)",
                        Build::Stock => "1 row: (1, 1, 12)",
                    }
                );
            }
        }
    }
    Ok(())
}

/// All that a host sees of a plan's properties, node by node, parents before children.
fn properties(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let of = plan.properties();
    let own = format!(
        "{}: {:?}, {}, {:?}, {:?}, {:?}, {:?}, {:?}",
        plan.name(),
        of.eq_properties.schema(),
        of.output_partitioning(),
        of.output_ordering().map(|order| order.to_string()),
        of.emission_type,
        of.boundedness,
        of.evaluation_type,
        of.scheduling_type,
    );
    let below = plan.children().into_iter().flat_map(properties);
    std::iter::once(own).chain(below).collect()
}

/// A reset changes no property and adds no node, of any shape and of sorted, partitioned
/// plans of DataFusion's operators.
#[tokio::test(flavor = "multi_thread")]
async fn properties_after_a_reset() -> Result<()> {
    for settings in EVERY_SETTING {
        let host = Host::new(settings)?;
        let mut plans = vec![];
        for (shape, _) in SHAPES {
            let rows = Rows::new(vec![1, 2, 3, 4]);
            plans.push(plan(Build::Patched.library(), shape, &rows)?);
        }
        for query in [SORTED, GROUPED] {
            let table = host.sql_table(Build::Patched.library(), &[], query)?;
            plans.push(host.scan(&table).await?);
        }
        for p in plans {
            let before = properties(&p);
            assert_eq!(properties(&reset(&p)?), before, "{settings}");
            host.run(&p).await;
            assert_eq!(properties(&p), before, "{settings}");
            let copy = reset(&p)?;
            assert_eq!(properties(&copy), before, "{settings}");
            host.run(&copy).await;
            assert_eq!(properties(&reset(&copy)?), before, "{settings}");
        }
    }
    Ok(())
}

const SORTED: &str =
    "SELECT value, value % 7 AS g FROM generate_series(0, 99) ORDER BY g, value";
const GROUPED: &str =
    "SELECT value % 7 AS g, count(*) AS n FROM generate_series(0, 99) GROUP BY value % 7";

/// What crosses the boundary is what the library's plan has: schema, partitioning, ordering,
/// emission and boundedness. The evaluation and scheduling types do not cross; see the cases
/// of datafusion-ffi.
#[tokio::test(flavor = "multi_thread")]
async fn properties_across_the_boundary() -> Result<()> {
    fn crossing(plan: &PlanProperties) -> [String; 5] {
        [
            format!("{:?}", plan.eq_properties.schema()),
            plan.output_partitioning().to_string(),
            format!(
                "{:?}",
                plan.output_ordering().map(|order| order.to_string())
            ),
            format!("{:?}", plan.emission_type),
            format!("{:?}", plan.boundedness),
        ]
    }
    for settings in EVERY_SETTING {
        let host = Host::new(settings)?;
        for query in [SORTED, GROUPED] {
            let native = host.plan(query).await?;
            assert_eq!(native.output_ordering().is_some(), query == SORTED);
            let table = host.sql_table(Build::Patched.library(), &[], query)?;
            let foreign = host.scan(&table).await?;
            let expected = crossing(native.properties());
            assert_eq!(crossing(foreign.properties()), expected, "{settings}");
            let copy = reset(&foreign)?;
            assert_eq!(crossing(copy.properties()), expected, "{settings}");
        }
        let counter = plan(Build::Patched.library(), "counter", &Rows::new(vec![1]))?;
        let ordering = counter.output_ordering().map(|order| order.to_string());
        assert_eq!(ordering.as_deref(), Some("number@1 ASC"));
    }
    Ok(())
}

/// Deep and wide plans, as the benchmarks measure them.
#[tokio::test(flavor = "multi_thread")]
async fn many_nodes() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    for shape in ["chain 1", "chain 201", "wide 201"] {
        let p = plan(Build::Patched.library(), shape, &Rows::new(vec![]))?;
        let Outcome::Rows(fresh) = host.run(&p).await else {
            panic!("{shape} fails");
        };
        assert_eq!(fresh.len(), if shape == "wide 201" { 200 } else { 1 });
        let copy = reset(&reset(&p)?)?;
        assert_eq!(names(&copy), names(&p), "{shape}");
        assert_eq!(host.run(&copy).await, Outcome::Rows(fresh), "{shape}");
    }
    Ok(())
}
