//! `WITH x AS MATERIALIZED (...)`: what the truth table has no column for.
//!
//! How often a body runs, what is in the memory pool and on disk when a run is over, how
//! errors reach the readers, what is planned. That rows are right, and that a reset copy
//! keeps every promise, is in the truth table.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, collect, displayable,
};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use reuse_tests::run::{Outcome, run};
use reuse_tests::settings::Order;

use crate::snapshot::assert_snapshot;

/// `tick(n)`: returns `n`, counts the rows that it saw, and fails or panics when it has
/// seen half of the table, so that a CTE has kept something by then.
#[derive(Debug)]
struct Tick {
    signature: Signature,
    rows: Arc<AtomicUsize>,
    then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Then {
    Nothing,
    Fail,
    Panic,
}

impl PartialEq for Tick {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows)
    }
}

impl Eq for Tick {}

impl std::hash::Hash for Tick {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.then.hash(state);
    }
}

impl ScalarUDFImpl for Tick {
    fn name(&self) -> &str {
        "tick"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seen = self.rows.fetch_add(args.number_rows, Ordering::SeqCst);
        match self.then {
            _ if seen < ROWS / 2 => Ok(args.args[0].clone()),
            Then::Nothing => Ok(args.args[0].clone()),
            Then::Fail => datafusion::common::exec_err!("tick fails"),
            Then::Panic => panic!("tick panics"),
        }
    }
}

/// Rows of table `t`, in batches of 1,000: `k` from 0 on and `g` = `k` % 7.
const ROWS: usize = 10_000;
/// Bytes of the two columns.
const BYTES: usize = ROWS * 16;

/// A pool that knows what CTEs have of it. A hash join's build side stays in its plan, as in
/// the released crates.
#[derive(Debug)]
struct Pool {
    all: GreedyMemoryPool,
    /// Bytes that CTEs have now.
    held: AtomicUsize,
    /// The most that they had since it was last asked.
    peak: AtomicUsize,
}

impl Pool {
    fn grown(&self, reservation: &MemoryReservation, bytes: usize) {
        if reservation.consumer().name().contains("MaterializedCte") {
            let before = self.held.fetch_add(bytes, Ordering::SeqCst);
            self.peak.fetch_max(before + bytes, Ordering::SeqCst);
        }
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "Pool"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        self.grown(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        if reservation.consumer().name().contains("MaterializedCte") {
            self.held.fetch_sub(shrink, Ordering::SeqCst);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.all.try_grow(reservation, additional)?;
        self.grown(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }
}

/// Whether a CTE keeps its output, or passes it on to the one place where it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Kept,
    PassedOn,
}
use Output::{Kept, PassedOn};

struct Session {
    session: SessionContext,
    pool: Arc<Pool>,
    ticks: Arc<AtomicUsize>,
}

impl Session {
    fn new(partitions: usize) -> Result<Self> {
        Self::with(partitions, usize::MAX, Then::Nothing)
    }

    /// `memory` is what the pool has, in bytes.
    fn with(partitions: usize, memory: usize, then: Then) -> Result<Self> {
        let config = SessionConfig::new().with_target_partitions(partitions);
        let pool = Arc::new(Pool {
            all: GreedyMemoryPool::new(memory),
            held: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        });
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool) as _)
            .build_arc()?;
        let session = SessionContext::new_with_config_rt(config, runtime);
        let batches = (0..ROWS as i64 / 1_000).map(|batch| {
            let k = batch * 1_000..(batch + 1) * 1_000;
            let g = k.clone().map(|k| k % 7);
            let column =
                |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
            Ok(RecordBatch::try_from_iter([
                ("k", column(k.collect())),
                ("g", column(g.collect())),
            ])?)
        });
        let batches = batches.collect::<Result<Vec<_>>>()?;
        // As many partitions as the plan is to have.
        let mut parts = vec![vec![]; partitions];
        for (i, batch) in batches.into_iter().enumerate() {
            parts[i % partitions].push(batch);
        }
        let schema = parts[0][0].schema();
        let table = datafusion::datasource::MemTable::try_new(schema, parts)?;
        session.register_table("t", Arc::new(table))?;
        let ticks = Arc::new(AtomicUsize::new(0));
        session.register_udf(ScalarUDF::from(Tick {
            signature: Signature::exact(vec![DataType::Int64], Volatility::Volatile),
            rows: Arc::clone(&ticks),
            then,
        }));
        Ok(Self {
            session,
            pool,
            ticks,
        })
    }

    async fn plan(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
        self.session.sql(sql).await?.create_physical_plan().await
    }

    async fn shown(&self, sql: &str) -> Result<String> {
        let plan = self.plan(sql).await?;
        Ok(displayable(plan.as_ref()).indent(false).to_string())
    }

    async fn run(&self, plan: &Arc<dyn ExecutionPlan>) -> Outcome {
        run(plan, &self.session.task_ctx(), Order::Any).await
    }

    async fn rows(&self, sql: &str) -> Result<Outcome> {
        Ok(self.run(&self.plan(sql).await?).await)
    }

    fn context(&self) -> Arc<TaskContext> {
        self.session.task_ctx()
    }

    /// The rows that `tick` has seen since it was last asked.
    fn ticks(&self) -> usize {
        self.ticks.swap(0, Ordering::SeqCst)
    }

    /// The bytes that CTEs have in memory, and all that is on disk.
    fn held(&self) -> (usize, u64) {
        let disk = &self.session.runtime_env().disk_manager;
        (
            self.pool.held.load(Ordering::SeqCst),
            disk.used_disk_space(),
        )
    }

    /// Waits until nothing is held: what was cancelled ends a little later. Until then,
    /// since it was last asked, something was, if the output was `Kept`.
    async fn all_released(&self, output: Output) {
        let peak = self.pool.peak.swap(0, Ordering::SeqCst);
        assert_eq!(peak > 0, output == Kept, "{peak} bytes were held");
        for _ in 0..1_000 {
            if self.held() == (0, 0) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let (memory, disk) = self.held();
        panic!("{memory} bytes are in memory, {disk} on disk");
    }
}

const ONCE: &str = "WITH x AS MATERIALIZED (SELECT tick(k) AS k, g FROM t)";

/// Continuations that read `x` in every place there is.
const CONTINUATIONS: &[(&str, Output)] = &[
    ("SELECT * FROM x", PassedOn),
    ("SELECT p.k, q.g FROM x p JOIN x q ON p.k = q.k", Kept),
    (
        "SELECT count(*) FROM x p LEFT JOIN x q ON p.k = q.k + 1 WHERE p.g > 3",
        Kept,
    ),
    (
        "SELECT k FROM x UNION ALL SELECT g FROM x UNION ALL SELECT k + g FROM x",
        Kept,
    ),
    (
        "SELECT k, (SELECT max(g) FROM x) FROM x WHERE k > (SELECT avg(k) FROM x)",
        Kept,
    ),
    ("SELECT k FROM t WHERE k < (SELECT max(k) FROM x)", PassedOn),
    (
        "SELECT k FROM t WHERE k IN (SELECT k FROM x WHERE g = 1)",
        PassedOn,
    ),
    (
        ", y AS MATERIALIZED (SELECT k, g FROM x UNION ALL SELECT g, k FROM x) \
         SELECT a.k FROM y a JOIN y b ON a.k = b.g AND a.g = b.k",
        Kept,
    ),
];

/// `sql` with its CTEs as the released crates have them.
fn inlined(sql: &str) -> String {
    sql.replace(" MATERIALIZED", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn body_runs_once_a_run() -> Result<()> {
    for partitions in [1, 4, 8] {
        let session = Session::new(partitions)?;
        for &(continuation, output) in CONTINUATIONS {
            let sql = format!("{ONCE} {continuation}");
            let right = session.rows(&inlined(&sql)).await?;
            // As often as it is read: the test can fail.
            assert_eq!(session.ticks() > ROWS, output == Kept, "{continuation}");
            let plan = session.plan(&sql).await?;
            assert_eq!(
                session.ticks(),
                0,
                "{continuation}: run when it was planned"
            );
            for plan in [reset_plan_states(Arc::clone(&plan))?, plan] {
                assert_eq!(session.run(&plan).await, right, "{partitions}: {sql}");
                assert_eq!(session.ticks(), ROWS, "{partitions}: {continuation}");
                session.all_released(output).await;
            }
        }
    }
    Ok(())
}

/// As Python executes a plan.
#[tokio::test(flavor = "multi_thread")]
async fn body_runs_once_for_partitions_one_after_another() -> Result<()> {
    let session = Session::new(4)?;
    for (continuation, right, output) in [
        ("SELECT k FROM x", ROWS, PassedOn),
        ("SELECT k FROM x UNION ALL SELECT g FROM x", 2 * ROWS, Kept),
    ] {
        let plan = session.plan(&format!("{ONCE} {continuation}")).await?;
        assert!(plan.output_partitioning().partition_count() >= 4);
        let mut rows = 0;
        for partition in 0..plan.output_partitioning().partition_count() {
            let mut stream = plan.execute(partition, session.context())?;
            while let Some(batch) = stream.next().await.transpose()? {
                rows += batch.num_rows();
            }
        }
        assert_eq!(rows, right);
        assert_eq!(session.ticks(), ROWS);
        session.all_released(output).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_nobody_reads_do_not_run() -> Result<()> {
    let session = Session::new(4)?;
    let right = session.rows("SELECT * FROM t").await?;
    for unread in ["", ", y AS MATERIALIZED (SELECT k FROM x)"] {
        let sql = format!("{ONCE}{unread} SELECT * FROM t");
        assert_eq!(session.rows(&sql).await?, right);
    }
    assert_eq!(session.ticks(), 0);
    Ok(())
}

/// A body that reads the work table runs in each iteration, and its output goes with it.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_in_a_recursion() -> Result<()> {
    let right = Outcome::Rows((0..10).map(|a| vec![a.to_string()]).collect());
    let session = Session::new(4)?;
    let of_all = "WITH RECURSIVE x AS MATERIALIZED (SELECT tick(k) AS k FROM t), \
                  r AS (SELECT 0 AS a UNION ALL \
                        SELECT x.k + 1 FROM r JOIN x ON r.a = x.k WHERE r.a < 9) \
                  SELECT a FROM r";
    let plan = session.plan(of_all).await?;
    for plan in [reset_plan_states(Arc::clone(&plan))?, plan] {
        assert_eq!(session.run(&plan).await, right);
        assert_eq!(session.ticks(), ROWS);
        session.all_released(Kept).await;
    }
    let of_iteration = "WITH RECURSIVE r AS (SELECT 0 AS a UNION ALL \
         (WITH x AS MATERIALIZED (SELECT tick(a) + 1 AS a FROM r WHERE a < 9) \
          SELECT p.a FROM x p JOIN x q ON p.a = q.a)) SELECT a FROM r";
    let plan = session.plan(of_iteration).await?;
    for plan in [reset_plan_states(Arc::clone(&plan))?, plan] {
        assert_eq!(session.run(&plan).await, right);
        // A row an iteration, the last of which finds none.
        assert_eq!(session.ticks(), 9);
        session.all_released(Kept).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_dropped_half_way_leaves_nothing() -> Result<()> {
    for partitions in [1, 4] {
        let session = Session::new(partitions)?;
        for &(continuation, output) in CONTINUATIONS {
            let sql = format!("{ONCE} {continuation}");
            let right = session.rows(&inlined(&sql)).await?;
            let plan = session.plan(&sql).await?;
            let mut streams: Vec<_> = (0..plan.output_partitioning().partition_count())
                .map(|partition| plan.execute(partition, session.context()))
                .collect::<Result<_>>()?;
            streams[0].next().await.transpose()?;
            drop(streams);
            session.all_released(output).await;
            let copy = reset_plan_states(plan)?;
            assert_eq!(session.run(&copy).await, right, "{partitions}: {sql}");
            session.all_released(output).await;
        }
    }
    Ok(())
}

/// A reader that stops early, again and again, since what is left open depends on timing.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_above_leaves_nothing() -> Result<()> {
    for partitions in [1, 4] {
        let session = Session::new(partitions)?;
        for (rest, output) in [
            ("SELECT k FROM x LIMIT 3", PassedOn),
            ("SELECT p.k FROM x p, x q LIMIT 3", Kept),
        ] {
            let plan = session.plan(&format!("{ONCE} {rest}")).await?;
            for _ in 0..200 {
                let copy = reset_plan_states(Arc::clone(&plan))?;
                let batches = collect(Arc::clone(&copy), session.context()).await?;
                assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 3);
                session.all_released(output).await;
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_panics_of_a_body_reach_the_query() -> Result<()> {
    for (then, words) in [(Then::Fail, "tick fails"), (Then::Panic, "tick panics")] {
        for partitions in [1, 4] {
            let session = Session::with(partitions, usize::MAX, then)?;
            for &(continuation, output) in CONTINUATIONS {
                let plan = session.plan(&format!("{ONCE} {continuation}")).await?;
                for plan in [reset_plan_states(Arc::clone(&plan))?, plan] {
                    session.ticks();
                    match session.run(&plan).await {
                        Outcome::Error(text) => assert!(text.contains(words), "{text}"),
                        other => panic!("{continuation}: {other}"),
                    }
                    session.all_released(output).await;
                }
            }
        }
    }
    Ok(())
}

/// Not the body fails, but what reads it.
#[tokio::test(flavor = "multi_thread")]
async fn a_continuation_that_fails_leaves_nothing() -> Result<()> {
    let session = Session::with(4, usize::MAX, Then::Fail)?;
    let x = "WITH x AS MATERIALIZED (SELECT k, g FROM t)";
    for (rest, words, output) in [
        ("SELECT tick(k) FROM x", "tick fails", PassedOn),
        (
            "SELECT k FROM x WHERE k > (SELECT max(tick(k)) FROM x)",
            "tick fails",
            Kept,
        ),
        (
            "SELECT k, (SELECT max(k) FROM x) FROM x WHERE k > (SELECT k FROM x)",
            "more than one row",
            Kept,
        ),
    ] {
        let plan = session.plan(&format!("{x} {rest}")).await?;
        for plan in [reset_plan_states(Arc::clone(&plan))?, plan] {
            session.ticks();
            match session.run(&plan).await {
                Outcome::Error(text) => assert!(text.contains(words), "{text}"),
                other => panic!("{rest}: {other}"),
            }
            session.all_released(output).await;
        }
    }
    Ok(())
}

/// With less memory than the body has rows.
#[tokio::test(flavor = "multi_thread")]
async fn output_spills() -> Result<()> {
    let roomy = Session::new(4)?;
    for limit in [BYTES * 9 / 10, BYTES * 2] {
        let session = Session::with(4, limit, Then::Nothing)?;
        for rest in [
            "SELECT * FROM x UNION ALL SELECT g, k FROM x",
            "SELECT count(*), sum(k) FROM (SELECT k, g FROM x UNION ALL SELECT g, k FROM x)",
            "SELECT k FROM x WHERE k < (SELECT sum(g) / 40 FROM x)",
        ] {
            let sql = format!("{ONCE} {rest}");
            let right = roomy.rows(&sql).await?;
            let plan = session.plan(&sql).await?;
            let copy = reset_plan_states(Arc::clone(&plan))?;
            for plan in [&plan, &copy] {
                assert_eq!(session.run(plan).await, right, "{limit}: {rest}");
                let metrics = plan.metrics().expect("the CTE is the root");
                if limit < BYTES {
                    assert!(metrics.spilled_rows() > Some(0), "{limit}: {rest}");
                }
                session.all_released(Kept).await;
            }
        }
        // Dropped while its files are read.
        let twice = "SELECT * FROM x UNION ALL SELECT * FROM x";
        let plan = session.plan(&format!("{ONCE} {twice}")).await?;
        let mut stream = plan.execute(0, session.context())?;
        stream.next().await.transpose()?;
        assert_eq!(session.held().1 > 0, limit < BYTES);
        drop(stream);
        drop(plan);
        session.all_released(Kept).await;
    }
    Ok(())
}

/// With less memory than one batch has.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_read_once_is_not_kept() -> Result<()> {
    for partitions in [1, 4] {
        let session = Session::with(partitions, 1_000, Then::Nothing)?;
        for (rest, right) in [
            ("SELECT * FROM x", ROWS),
            ("SELECT k FROM t WHERE k < (SELECT max(k) FROM x)", ROWS - 1),
        ] {
            let plan = session.plan(&format!("{ONCE} {rest}")).await?;
            for plan in [reset_plan_states(Arc::clone(&plan))?, plan] {
                let mut rows = 0;
                for partition in 0..partitions {
                    let mut stream = plan.execute(partition, session.context())?;
                    while let Some(batch) = stream.next().await.transpose()? {
                        rows += batch.num_rows();
                        assert_eq!(session.held(), (0, 0));
                    }
                }
                assert_eq!(rows, right);
                session.all_released(PassedOn).await;
                assert_eq!(session.ticks(), ROWS);
                assert_eq!(plan.metrics().and_then(|m| m.spill_count()), None);
            }
        }
    }
    Ok(())
}

/// A nested loop join that is out of memory executes its left side once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_executed_twice() -> Result<()> {
    for x in [
        "SELECT k, g FROM t",
        "SELECT k, g FROM t UNION ALL SELECT g, k FROM t",
    ] {
        let sql = format!(
            "WITH x AS MATERIALIZED ({x}) \
             SELECT x.k, t.k AS other FROM x JOIN t ON x.k > t.k + 9990 AND x.g >= t.g"
        );
        let right = Session::new(1)?.rows(&sql).await?;
        let session = Session::with(1, BYTES / 2, Then::Nothing)?;
        let plan = session.plan(&sql).await?;
        assert_eq!(session.run(&plan).await, right);
        let mut spilled = 0;
        plan.apply(|node| {
            if node.name() == "NestedLoopJoinExec" {
                spilled += node.metrics().and_then(|m| m.spill_count()).unwrap_or(0);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        assert!(spilled > 0, "the join was not out of memory");
        // Which keeps its left side as long as the plan is there.
        assert!(session.held().1 > 0, "nothing is on disk");
        drop(plan);
        session.all_released(PassedOn).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_nobody_reads_are_not_computed() -> Result<()> {
    for partitions in [1, 4] {
        let session = Session::new(partitions)?;
        // Whether `k` is read, and where.
        for (k, rest) in [
            (false, "SELECT g FROM x"),
            (false, "SELECT count(*) AS n FROM x"),
            (false, "SELECT g FROM x WHERE g > (SELECT avg(g) FROM x)"),
            (true, "SELECT k FROM x"),
            (true, "SELECT g, (SELECT max(k) FROM x) AS m FROM x"),
            (
                true,
                "SELECT k AS n FROM x UNION ALL SELECT count(*) FROM x",
            ),
            (
                true,
                ", y AS MATERIALIZED (SELECT g AS a, 1 AS b, k AS c FROM x) \
                 SELECT p.c, (SELECT count(*) FROM x) AS n FROM y p JOIN y q ON p.c = q.c",
            ),
            (
                false,
                ", y AS MATERIALIZED (SELECT k + 1 AS a, g + 1 AS b FROM x) \
                 SELECT p.b, (SELECT count(*) FROM x) AS n FROM y p WHERE p.b < 3",
            ),
        ] {
            let sql = format!("{ONCE} {rest}");
            let right = session.rows(&inlined(&sql)).await?;
            session.ticks();
            let plan = session.plan(&sql).await?;
            let copy = reset_plan_states(Arc::clone(&plan))?;
            // Analyzed and optimized once more.
            let again = session.session.sql(&sql).await?.into_optimized_plan()?;
            let again = session.session.execute_logical_plan(again).await?;
            let again = again.create_physical_plan().await?;
            for plan in [plan, copy, again] {
                assert_eq!(session.run(&plan).await, right, "{partitions}: {rest}");
                let expected = if k { ROWS } else { 0 };
                assert_eq!(session.ticks(), expected, "{partitions}: {rest}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_plan_is_shown() -> Result<()> {
    let session = Session::new(1)?;
    let sql = "WITH x AS MATERIALIZED (SELECT k, g FROM t WHERE g > 3) \
               SELECT p.k FROM x p JOIN x q ON p.k = q.g WHERE p.k > (SELECT min(k) FROM x)";
    assert_snapshot("cte_physical", &session.shown(sql).await?);
    let logical = session.session.sql(sql).await?.into_optimized_plan()?;
    assert_snapshot("cte_logical", &logical.display_indent().to_string());
    Ok(())
}

/// Everything but AS MATERIALIZED is planned as it was.
#[tokio::test]
async fn others_are_inlined() -> Result<()> {
    let session = Session::new(4)?;
    for hint in ["", "NOT MATERIALIZED"] {
        let shown = session
            .shown(&format!(
                "WITH x AS {hint} (SELECT k FROM t) SELECT p.k FROM x p JOIN x q ON p.k = q.k"
            ))
            .await?;
        let inlined = session
            .shown(
                "SELECT p.k FROM (SELECT k FROM t) p JOIN (SELECT k FROM t) q ON p.k = q.k",
            )
            .await?;
        assert_eq!(shown, inlined);
    }
    Ok(())
}

/// The types of parameters are known after the scans have been planned.
#[tokio::test(flavor = "multi_thread")]
async fn parameters() -> Result<()> {
    let session = Session::new(4)?;
    let shown = async |frame: DataFrame| -> Result<String> {
        let batches = frame.collect().await?;
        Ok(arrow::util::pretty::pretty_format_batches(&batches)?.to_string())
    };
    let prepare = "PREPARE q (DOUBLE, VARCHAR) AS \
         WITH x AS MATERIALIZED (SELECT k + $1 AS k, $2 AS s FROM t) \
         SELECT p.k, q.s FROM x p JOIN x q ON p.k = q.k WHERE p.k < $1 + 1";
    session.session.sql(prepare).await?.collect().await?;
    let frame = session.session.sql("EXECUTE q(0.5, 'a')").await?;
    let rows = shown(frame).await?;
    assert_eq!(rows.lines().count(), 5, "one row: {rows}");
    assert!(rows.contains("| 0.5 | a |"), "{rows}");

    // Without a type until it has a value.
    let sql = "WITH x AS MATERIALIZED (SELECT $1 AS s, k FROM t WHERE k = 3) \
               SELECT x.s || 'b' AS s, y.s AS r FROM x JOIN x y ON x.k = y.k";
    let frame = session.session.sql(sql).await?;
    let frame = frame.with_param_values(vec![ScalarValue::from("a")])?;
    let rows = shown(frame).await?;
    assert_eq!(rows.lines().count(), 5, "one row: {rows}");
    assert!(rows.contains("| ab | a |"), "{rows}");
    Ok(())
}

/// Two copies of one view are two CTEs with one id.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_is_read_twice() -> Result<()> {
    let session = Session::new(4)?;
    let view = format!("{ONCE} SELECT p.k FROM x p JOIN x q ON p.k = q.k");
    let create = format!("CREATE VIEW v AS {view}");
    session.session.sql(&create).await?.collect().await?;
    let outcome = session
        .rows("SELECT v.k FROM v JOIN v w ON v.k = w.k WHERE w.k < 3")
        .await?;
    assert_eq!(
        outcome.to_string(),
        session
            .rows("SELECT k FROM t WHERE k < 3")
            .await?
            .to_string()
    );
    session.all_released(Kept).await;
    Ok(())
}

/// What is above the CTE filters its rows, never those of the body.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_above_stays_out_of_the_body() -> Result<()> {
    use datafusion::prelude::{col, lit, random};

    let session = Session::new(1)?;
    let count = "SELECT (SELECT count(k) FROM x) AS n, g FROM x GROUP BY g";
    let frame = session.session.sql(&format!("{ONCE} {count}")).await?;
    for (filter, right) in [
        (col("g").eq(lit(2)), 1),
        (random().lt(lit(2.0)), 7),
        (col("n").gt(lit(5)), 7),
    ] {
        let batches = frame.clone().filter(filter)?.collect().await?;
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows, right);
        assert_eq!(session.ticks(), ROWS);
        let n = batches.iter().find(|batch| batch.num_rows() > 0).unwrap();
        let n: &dyn Any = n.column(0).as_any();
        let n = n.downcast_ref::<Int64Array>().unwrap();
        assert!(n.iter().all(|n| n == Some(ROWS as i64)));
    }
    Ok(())
}

/// Planned, reset and run on a thread of 2 MiB.
#[test]
fn a_hundred_levels() -> Result<()> {
    let levels = (1..=100).map(|level| {
        let last = level - 1;
        format!(
            "l{level} AS MATERIALIZED (SELECT a.k, (a.g + b.g + {level}) % 7 AS g \
             FROM l{last} a JOIN l{last} b ON a.k = b.k)"
        )
    });
    let sql = format!(
        "WITH l0 AS MATERIALIZED (SELECT k, g FROM t WHERE k < 10), {} \
         SELECT sum(g) AS s FROM l100",
        levels.collect::<Vec<_>>().join(", ")
    );
    let mut right: Vec<i64> = (0..10).map(|k| k % 7).collect();
    for level in 1..=100 {
        right.iter_mut().for_each(|g| *g = (2 * *g + level) % 7);
    }
    let right: i64 = right.iter().sum();
    for partitions in [1, 4] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_stack_size(2 << 20)
            .enable_all()
            .build()?;
        let sql = sql.clone();
        let task = runtime.spawn(async move {
            let session = Session::new(partitions)?;
            let plan = session.plan(&sql).await?;
            let copy = reset_plan_states(Arc::clone(&plan))?;
            let mut outcomes = vec![];
            for plan in [plan, copy] {
                outcomes.push(session.run(&plan).await.to_string());
                session.all_released(Kept).await;
            }
            Ok::<_, datafusion::error::DataFusionError>(outcomes)
        });
        let outcomes = runtime.block_on(task).expect("no panic")?;
        let right = format!("1 row: ({right})");
        assert_eq!(outcomes, [right.clone(), right]);
    }
    Ok(())
}

#[tokio::test]
async fn encoding_is_refused_by_name() -> Result<()> {
    let session = Session::new(1)?;
    let sql = "WITH x AS MATERIALIZED (SELECT k FROM t) SELECT * FROM x";
    let plan = session.plan(sql).await?;
    let error = datafusion_proto::bytes::physical_plan_to_bytes(plan).unwrap_err();
    assert!(
        error.to_string().contains("MaterializedCteExec: name=x"),
        "{error}"
    );
    let logical = session.session.sql(sql).await?.into_unoptimized_plan();
    let error = datafusion_proto::bytes::logical_plan_to_bytes(&logical).unwrap_err();
    assert!(error.to_string().contains("MaterializedCte"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_body_without_end_is_refused() -> Result<()> {
    let session = Session::new(1)?;
    session
        .session
        .sql(
            "CREATE UNBOUNDED EXTERNAL TABLE u (a BIGINT) STORED AS CSV LOCATION '/nowhere/'",
        )
        .await?;
    let sql = "WITH x AS MATERIALIZED (SELECT a FROM u) SELECT a FROM x";
    let error = session.plan(sql).await.unwrap_err().to_string();
    assert!(
        error.contains("The CTE x cannot be materialized"),
        "{error}"
    );
    Ok(())
}
