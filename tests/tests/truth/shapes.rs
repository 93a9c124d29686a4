//! The query shapes, the tables that they read and the settings that they are planned
//! under.
//!
//! | table | kind | rows | changed |
//! | --- | --- | --- | --- |
//! | `big` | Parquet, 40 row groups | `k`, `v` = 0..19999, `g` = v % 10 | `k` backwards |
//! | `multi` | four Parquet files of five row groups | `a` = 0..1999, `b`, `s` | each turned in its file |
//! | `small` | Parquet | `k` = 1, 7000, 12000, `w` | `k` = 1, 300, 12000 |
//! | `sorted` | two Parquet files, sorted by `k` | `k` = 0..1999, `v` | `v` turned |
//! | `edges` | Parquet, 20 row groups | `src` = 0..999, `dst` = src + 7 | `dst` = src + 11 |
//! | `bc` | CSV | `k` = 1 | `k` = 7 |
//! | `lines`, `json`, `ipc`, `avro` | files of CSV, JSON, Arrow and Avro | `k` = 0..199, `g` = k % 7 | each turned |
//! | `stream`, `unbounded` | streams | `k` = 0..99, `g` = k % 7 | each turned |
//! | `mem` | memory, ten batches | `k` = 0..99, `g` = k % 7 | `k` = 1..100, `g` = 6 - g |

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use reuse_tests::nodes::{plain_above_leaves, rebuilt, wrapped};
use reuse_tests::settings::Settings;
use reuse_tests::tables::{Format, Memory, Tables, batch, parts, turned};

/// A setting under a name short enough for the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub label: &'static str,
    pub settings: Settings,
}

const fn setting(label: &'static str, settings: Settings) -> Setting {
    Setting { label, settings }
}

const SPLIT: (&str, &str) = ("optimizer.repartition_file_min_size", "1");
const ROWS: (&str, &str) = ("execution.parquet.pushdown_filters", "true");
const QUEUE_OFF: (&str, &str) = ("execution.enable_file_stream_work_stealing", "false");
const PARTED: (&str, &str) = ("optimizer.hash_join_single_partition_threshold", "0");
const PARTED_ROWS: (&str, &str) =
    ("optimizer.hash_join_single_partition_threshold_rows", "0");
const SORTED: (&str, &str) = ("optimizer.prefer_hash_join", "false");
const PIECEWISE: (&str, &str) = ("optimizer.enable_piecewise_merge_join", "true");
const NO_LISTS: (&str, &str) = (
    "optimizer.hash_join_inlist_pushdown_max_distinct_values",
    "0",
);
const BUFFERED: (&str, &str) = ("execution.hash_join_buffering_capacity", "65536");
const WINDOW_TOPN: (&str, &str) = ("optimizer.enable_window_topn", "true");
const TOPK_AGGREGATION: (&str, &str) = ("optimizer.enable_topk_aggregation", "true");
const SMALL_BATCHES: (&str, &str) = ("execution.batch_size", "100");
const NO_RESERVATION: (&str, &str) = ("execution.sort_spill_reservation_bytes", "0");

/// The labels say: target partitions; `off`, no dynamic filters; `rows`, filters pushed
/// down to the rows of Parquet files; `own`, each partition has files of its own
/// instead of a common queue; `parted`, hash joins split both sides.
pub const ONE: Setting = setting("1", Settings::new(1, true));
pub const FOUR: Setting = setting("4", Settings::new(4, true).with(&[SPLIT]));
pub const FOUR_OFF: Setting = setting("4 off", Settings::new(4, false).with(&[SPLIT]));
pub const ONE_ROWS: Setting = setting("1 rows", Settings::new(1, true).with(&[ROWS]));
pub const FOUR_ROWS: Setting =
    setting("4 rows", Settings::new(4, true).with(&[SPLIT, ROWS]));
pub const EIGHT_ROWS_OWN: Setting = setting(
    "8 rows own",
    Settings::new(8, true).with(&[SPLIT, ROWS, QUEUE_OFF]),
);
pub const ONE_OWN: Setting = setting("1 own", Settings::new(1, true).with(&[QUEUE_OFF]));
pub const FOUR_OWN: Setting =
    setting("4 own", Settings::new(4, true).with(&[SPLIT, QUEUE_OFF]));
pub const FOUR_PARTED: Setting = setting(
    "4 parted",
    Settings::new(4, true).with(&[SPLIT, PARTED, PARTED_ROWS]),
);
pub const FOUR_PARTED_OFF: Setting = setting(
    "4 parted off",
    Settings::new(4, false).with(&[SPLIT, PARTED, PARTED_ROWS]),
);
pub const EIGHT_PARTED_ROWS: Setting = setting(
    "8 parted rows",
    Settings::new(8, true).with(&[SPLIT, PARTED, PARTED_ROWS, ROWS]),
);

const USUAL: &[Setting] = &[ONE, FOUR, FOUR_OFF, EIGHT_ROWS_OWN];
const SCAN: &[Setting] = &[ONE, FOUR, ONE_OWN, FOUR_OWN, EIGHT_ROWS_OWN];
const FILTERED: &[Setting] = &[ONE, ONE_ROWS, FOUR, FOUR_ROWS, EIGHT_ROWS_OWN, FOUR_OFF];
const HASH: &[Setting] = &[
    ONE,
    FOUR,
    FOUR_ROWS,
    FOUR_PARTED,
    FOUR_PARTED_OFF,
    EIGHT_PARTED_ROWS,
];
const MERGE: &[Setting] = &[
    setting("4 merge", Settings::new(4, true).with(&[SPLIT, SORTED])),
    setting(
        "8 merge rows",
        Settings::new(8, true).with(&[SPLIT, SORTED, ROWS]),
    ),
];
const PIECES: &[Setting] = &[
    setting("1 pieces", Settings::new(1, true).with(&[PIECEWISE])),
    setting("4 pieces", Settings::new(4, true).with(&[SPLIT, PIECEWISE])),
];

pub type Plan = Arc<dyn ExecutionPlan>;

/// Which tables a shape reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// See the module.
    Own,
    Tpch,
}

/// A query shape.
pub struct Case {
    pub name: &'static str,
    pub sql: String,
    pub source: Source,
    /// The query leaves open which rows it returns: only their number counts.
    pub rows_open: bool,
    /// The query orders by a key that cannot be evaluated outside of its run, and leaves no
    /// ties: the rows are compared one by one.
    pub one_by_one: bool,
    pub settings: Vec<Setting>,
    /// An option that the query cannot be planned without.
    pub option: Option<(&'static str, &'static str)>,
    /// A fresh plan's dynamic filters prune for sure.
    pub prunes: bool,
    /// A fresh plan spills.
    pub spills: bool,
    /// Done to a plan before it runs.
    pub change: fn(Plan) -> Result<Plan>,
    /// The part of a plan that copies are made of.
    pub part: fn(&Plan) -> Plan,
}

impl Case {
    pub fn new(name: &'static str, sql: &str, settings: &[Setting]) -> Self {
        Self {
            name,
            sql: sql.to_string(),
            source: Source::Own,
            rows_open: false,
            one_by_one: false,
            settings: settings.to_vec(),
            option: None,
            prunes: false,
            spills: false,
            change: Ok,
            part: Arc::clone,
        }
    }

    fn rows_open(mut self) -> Self {
        self.rows_open = true;
        self
    }

    fn one_by_one(mut self) -> Self {
        self.one_by_one = true;
        self
    }

    fn prunes(mut self) -> Self {
        self.prunes = true;
        self
    }

    fn spills(mut self) -> Self {
        self.spills = true;
        self
    }

    fn wrapped(mut self) -> Self {
        self.change = wrapped;
        self
    }

    fn rebuilt(mut self) -> Self {
        self.change = rebuilt;
        self
    }

    fn plain(mut self) -> Self {
        self.change = plain_above_leaves;
        self
    }
}

/// The scan that a plan of no joins begins with, or a join's probe side.
fn last_leaf(plan: &Plan) -> Plan {
    match plan.children().last() {
        Some(child) => last_leaf(child),
        None => Arc::clone(plan),
    }
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// The files and streams.
pub fn tables() -> Result<Tables> {
    let mut tables = Tables::default();

    let big = |k: ArrayRef| {
        batch(vec![
            ("k", k),
            ("v", numbers(0..20_000)),
            ("g", numbers((0..20_000).map(|v| v % 10))),
        ])
    };
    let versions = [big(numbers(0..20_000))?, big(numbers((0..20_000).rev()))?];
    tables.add("big", Format::Parquet(500), &[versions])?;

    let text = |a| format!("name {}", a % 40);
    let multi = batch(vec![
        ("a", numbers(0..2000)),
        ("b", numbers((0..2000).map(|a| a * 7 % 500))),
        (
            "s",
            Arc::new(StringArray::from_iter_values((0..2000).map(text))),
        ),
    ])?;
    let files = parts(&[multi], 4)?.into_iter();
    let files = files
        .map(|file| turned(file, &[("a", 250), ("b", 137), ("s", 11)]))
        .collect::<Result<Vec<_>>>()?;
    tables.add("multi", Format::Parquet(100), &files)?;

    let small =
        |k: [i64; 3], w: [i64; 3]| batch(vec![("k", numbers(k)), ("w", numbers(w))]);
    let versions = [
        small([1, 7000, 12_000], [10, 20, 30])?,
        small([1, 300, 12_000], [30, 20, 10])?,
    ];
    tables.add("small", Format::Parquet(500), &[versions])?;

    let sorted = batch(vec![
        ("k", numbers(0..2000)),
        ("v", numbers((0..2000).map(|k| k * 3 % 1000))),
    ])?;
    let files = parts(&[sorted], 2)?.into_iter();
    let files = files
        .map(|file| turned(file, &[("v", 137)]))
        .collect::<Result<Vec<_>>>()?;
    tables.add("sorted", Format::SortedParquet(100, "k"), &files)?;

    let edges = batch(vec![
        ("src", numbers(0..1000)),
        ("dst", numbers((0..1000).map(|src| (src + 7) % 1000))),
    ])?;
    tables.add(
        "edges",
        Format::Parquet(50),
        &[turned(edges, &[("dst", 4)])?],
    )?;

    let bc = |k| batch(vec![("k", numbers([k]))]);
    tables.add("bc", Format::Csv, &[[bc(1)?, bc(7)?]])?;

    let rows = |n| {
        batch(vec![
            ("k", numbers(0..n)),
            ("g", numbers((0..n).map(|k| k % 7))),
        ])
    };
    let halves = |n, by| -> Result<Vec<_>> {
        let halves = parts(&[rows(n)?], 2)?.into_iter();
        halves
            .map(|part| turned(part, &[("k", 10), ("g", by)]))
            .collect()
    };
    tables.add("lines", Format::Csv, &halves(200, 2)?)?;
    tables.add("json", Format::Json, &halves(200, 2)?)?;
    tables.add("ipc", Format::Arrow, &halves(200, 2)?)?;
    tables.add("avro", Format::Avro, &halves(200, 2)?)?;
    tables.add("stream", Format::Stream(10), &halves(100, 2)?)?;
    let whole = turned(rows(100)?, &[("k", 10), ("g", 2)])?;
    tables.add("unbounded", Format::UnboundedStream(10), &[whole])?;
    Ok(tables)
}

/// The memory tables, of one trial each.
pub fn memory() -> Vec<Memory> {
    let k = [(0..100).collect(), (1..101).collect()];
    let g = [
        (0..100).map(|k| k % 7).collect(),
        (0..100).map(|k| 6 - k % 7).collect(),
    ];
    vec![Memory::new("mem", 10, vec![("k", k), ("g", g)])]
}

/// All shapes over these tables.
pub fn cases() -> Vec<Case> {
    [
        scans(),
        aggregates(),
        sorts(),
        joins(),
        subqueries(),
        recursion(),
        ctes(),
        nodes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn scans() -> Vec<Case> {
    vec![
        Case::new("scan of Parquet files", "SELECT a, b, s FROM multi", SCAN),
        Case::new(
            "scan with a limit",
            "SELECT k FROM big LIMIT 5",
            &[ONE, ONE_OWN, FOUR_OWN],
        )
        .rows_open(),
        Case::new(
            "scan with a limit, of a queue",
            "SELECT k FROM big LIMIT 5",
            &[FOUR],
        )
        .rows_open(),
        Case::new(
            "scan with a filter",
            "SELECT v FROM big WHERE k % 4000 = 1",
            SCAN,
        ),
        Case::new(
            "scan that prunes by a constant",
            "SELECT v FROM big WHERE k BETWEEN 700 AND 720",
            &[ONE, FOUR_ROWS],
        ),
        Case::new("scan of CSV files", "SELECT k, g FROM lines", SCAN),
        Case::new("scan of JSON files", "SELECT k, g FROM json", SCAN),
        Case::new("scan of Arrow files", "SELECT k, g FROM ipc", SCAN),
        Case::new("scan of Avro files", "SELECT k, g FROM avro", SCAN),
        Case::new(
            "scan of memory",
            "SELECT k, g FROM mem WHERE k % 20 < 2",
            USUAL,
        ),
        Case::new("scan of streams", "SELECT k, g FROM stream", USUAL),
        Case::new(
            "values",
            "VALUES (1, 'a'), (2, 'b'), (3, NULL)",
            &[ONE, FOUR],
        ),
        Case::new(
            "generate_series",
            "SELECT * FROM generate_series(1, 500)",
            USUAL,
        ),
        Case::new(
            "generate_series, joined",
            "SELECT s.value, b.v FROM generate_series(1, 5) s JOIN big b ON s.value = b.k",
            HASH,
        ),
        Case::new(
            "unnest",
            "SELECT k, unnest([g, -g]) AS u FROM mem WHERE k < 3",
            USUAL,
        ),
        Case::new(
            "union",
            "SELECT k, g FROM mem WHERE k < 3 UNION ALL SELECT a, b FROM multi WHERE a > 1997",
            USUAL,
        ),
        Case::new(
            "union, intersect, except",
            "(SELECT g FROM mem UNION SELECT k FROM lines) INTERSECT \
             (SELECT b FROM multi EXCEPT SELECT g FROM big WHERE k < 3)",
            USUAL,
        ),
        Case::new(
            "union of groups, grouped again",
            "SELECT g, sum(n) AS n FROM (SELECT g, count(*) AS n FROM mem GROUP BY g \
             UNION ALL SELECT g, count(*) FROM lines WHERE k < 90 GROUP BY g) u GROUP BY g",
            USUAL,
        ),
        Case::new("no table", "SELECT 1 AS one, 'a' AS a", &[ONE]),
        Case::new(
            "CTE read twice",
            "WITH c AS (SELECT k, k + 1 AS n FROM bc) \
             SELECT x.k, y.n FROM c x JOIN c y ON x.k = y.k",
            HASH,
        ),
        Case::new(
            "run that fails",
            "SELECT max(100 / k) AS high FROM mem GROUP BY g % 1",
            &[ONE, FOUR],
        ),
    ]
}

fn aggregates() -> Vec<Case> {
    vec![
        Case::new(
            "group by, memory",
            "SELECT g, sum(k) AS s FROM mem GROUP BY g",
            USUAL,
        ),
        Case::new(
            "group by, Parquet",
            "SELECT k % 5 AS d, sum(v) AS s FROM big GROUP BY k % 5",
            USUAL,
        ),
        Case::new(
            "group by, sorted input",
            "SELECT k, max(v) AS m FROM sorted GROUP BY k ORDER BY k LIMIT 20",
            USUAL,
        ),
        Case::new(
            "grouping sets",
            "SELECT g, k % 2 AS d, sum(k) AS s FROM mem GROUP BY ROLLUP (g, k % 2)",
            USUAL,
        ),
        Case::new("distinct", "SELECT DISTINCT g FROM mem WHERE k < 5", USUAL),
        Case::new(
            "count distinct, with a filter",
            "SELECT count(DISTINCT g) FILTER (WHERE k > 90) AS c, \
             array_agg(k ORDER BY k) FILTER (WHERE k > 97) AS l FROM mem",
            USUAL,
        ),
        Case::new("count of a table", "SELECT count(*) AS n FROM big", USUAL),
        Case::new(
            "count",
            "SELECT count(*) AS n FROM mem WHERE g = 0 AND k < 50",
            USUAL,
        ),
        Case::new(
            "min and max, memory",
            "SELECT min(k) AS l, max(k) AS h FROM mem",
            USUAL,
        ),
        Case::new(
            "max, Parquet",
            "SELECT max(k) AS high FROM big WHERE v >= 10",
            FILTERED,
        ),
        Case::new(
            "min and max, Parquet",
            "SELECT min(k) AS low, max(k) AS high, max(g) AS g FROM big WHERE v < 19990",
            FILTERED,
        ),
        Case::new(
            "max under a projection",
            "SELECT max(x.n) AS high FROM (SELECT v AS w, k + 1 AS n FROM big) x WHERE x.w > 5",
            FILTERED,
        ),
        Case::new(
            "highest groups (TopK aggregation)",
            "SELECT v % 100 AS d, max(k) AS m FROM big GROUP BY v % 100 \
             ORDER BY m DESC LIMIT 3",
            &[
                setting("1 topk", Settings::new(1, true).with(&[TOPK_AGGREGATION])),
                setting(
                    "4 topk rows",
                    Settings::new(4, true).with(&[TOPK_AGGREGATION, SPLIT, ROWS]),
                ),
            ],
        ),
        Case::new(
            "distinct with a limit",
            "SELECT DISTINCT g FROM big LIMIT 4",
            &[ONE, FOUR_OWN],
        )
        .rows_open(),
        Case::new(
            "window by partition",
            "SELECT k, row_number() OVER (PARTITION BY g ORDER BY k) AS n \
             FROM mem WHERE k < 10",
            USUAL,
        ),
        Case::new(
            "window over a frame",
            "SELECT k, sum(g) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) \
             AS s FROM mem WHERE k < 10",
            USUAL,
        ),
        Case::new(
            "window over sorted files",
            "SELECT k, sum(v) OVER (ORDER BY k) AS s FROM sorted ORDER BY k LIMIT 50",
            USUAL,
        ),
        Case::new(
            "window over streams",
            "SELECT k, count(*) OVER (PARTITION BY g ORDER BY k) AS n FROM stream \
             WHERE k < 20",
            USUAL,
        ),
        Case::new(
            "window over an infinite stream",
            "SELECT count(*) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n \
             FROM unbounded",
            &[ONE, FOUR],
        ),
        Case::new(
            "first rows of each window",
            "SELECT g, k, n FROM (SELECT g, k, row_number() OVER \
             (PARTITION BY g ORDER BY k DESC) AS n FROM big) w WHERE n <= 2",
            &[
                ONE,
                FOUR,
                setting("4 topn", Settings::new(4, true).with(&[SPLIT, WINDOW_TOPN])),
            ],
        ),
    ]
}

fn sorts() -> Vec<Case> {
    let spilling = |sql, name| {
        let within = Settings::new(1, true)
            .with(&[SMALL_BATCHES, NO_RESERVATION])
            .within(200_000);
        let four = Settings::new(4, true)
            .with(&[SMALL_BATCHES, NO_RESERVATION, SPLIT])
            .within(600_000);
        Case::new(
            name,
            sql,
            &[setting("1 tight", within), setting("4 tight", four)],
        )
    };
    vec![
        Case::new(
            "sort, memory",
            "SELECT g, k FROM mem WHERE k < 10 ORDER BY g, k DESC",
            USUAL,
        ),
        Case::new(
            "sort, Parquet",
            "SELECT v, k FROM big WHERE k % 100 = 0 ORDER BY v DESC",
            USUAL,
        ),
        Case::new(
            "merge of sorted files",
            "SELECT k, v FROM sorted ORDER BY k",
            USUAL,
        ),
        Case::new(
            "TopK, memory",
            "SELECT k, g FROM mem ORDER BY g, k LIMIT 3",
            USUAL,
        ),
        Case::new(
            "TopK, CSV",
            "SELECT k, g FROM lines ORDER BY k DESC LIMIT 3",
            USUAL,
        ),
        Case::new(
            "TopK, streams",
            "SELECT k, g FROM stream ORDER BY g, k LIMIT 3",
            USUAL,
        ),
        Case::new(
            "TopK of 1, Parquet",
            "SELECT v FROM big ORDER BY k LIMIT 1",
            FILTERED,
        ),
        Case::new(
            "TopK of 3, Parquet",
            "SELECT k, v FROM big ORDER BY k LIMIT 3",
            &[ONE, FOUR, FOUR_OFF],
        ),
        Case::new(
            "TopK of 3, Parquet rows",
            "SELECT k, v FROM big ORDER BY k LIMIT 3",
            &[ONE_ROWS, FOUR_ROWS],
        )
        .prunes(),
        Case::new(
            "TopK of sorted files, backwards",
            "SELECT k, v FROM sorted ORDER BY k DESC LIMIT 3",
            FILTERED,
        ),
        Case::new(
            "TopK with an offset",
            "SELECT k, v FROM big ORDER BY k DESC LIMIT 3 OFFSET 2",
            FILTERED,
        ),
        Case::new(
            "TopK by two keys",
            "SELECT g, k FROM big ORDER BY g DESC, k LIMIT 4",
            FILTERED,
        ),
        Case::new(
            "TopK by text",
            "SELECT s, a FROM multi ORDER BY s DESC, a LIMIT 4",
            FILTERED,
        ),
        Case::new(
            "TopK under a projection",
            "SELECT x.n, x.w FROM (SELECT v AS w, k AS n FROM big) x ORDER BY x.n LIMIT 2",
            FILTERED,
        ),
        Case::new(
            "TopK of a computed key",
            "SELECT x.n, x.v FROM (SELECT v, k * 2 + 1 AS n FROM big) x ORDER BY x.n LIMIT 2",
            FILTERED,
        ),
        Case::new(
            "TopK over a union",
            "SELECT n, o FROM (SELECT k AS n, v AS o FROM big UNION ALL \
             SELECT a, b FROM multi UNION ALL SELECT k, g FROM mem) u ORDER BY n, o LIMIT 5",
            FILTERED,
        ),
        Case::new(
            "TopK over a filter",
            "SELECT k, v FROM big WHERE v % 3 = 0 AND g > 2 ORDER BY k LIMIT 2",
            FILTERED,
        ),
        Case::new(
            "TopK over groups",
            "SELECT g, sum(k) AS s FROM big WHERE k < 500 GROUP BY g ORDER BY s DESC LIMIT 2",
            USUAL,
        ),
        Case::new(
            "TopK of a TopK",
            "SELECT v, k FROM (SELECT k, v FROM big ORDER BY k LIMIT 50) x \
             ORDER BY v DESC LIMIT 2",
            FILTERED,
        ),
        Case::new(
            "TopK over a join",
            "SELECT b.v, s.w FROM small s JOIN big b ON s.k = b.k ORDER BY b.v DESC LIMIT 2",
            FILTERED,
        ),
        Case::new(
            "join of a TopK",
            "SELECT x.v, m.b FROM (SELECT v, k FROM big ORDER BY k LIMIT 3) x \
             JOIN multi m ON m.a = x.k",
            FILTERED,
        ),
        spilling("SELECT k, v, g FROM big ORDER BY g, k", "sort that spills").spills(),
        spilling(
            "SELECT k, sum(v) AS s, count(*) AS n FROM big GROUP BY k",
            "group by that spills",
        )
        .spills(),
    ]
}

fn joins() -> Vec<Case> {
    // The smaller side is on the left, as planning wants it.
    let join = |name, columns: &str, kind: &str, on: &str| {
        let sql = format!(
            "SELECT {columns} FROM (SELECT k AS x, w FROM small) s {kind} JOIN \
             (SELECT k, v FROM big WHERE v < 19900) b ON {on}"
        );
        Case::new(name, &sql, HASH)
    };
    let memory = |name, sql: &str| Case::new(name, sql, HASH);
    let merge = |name, kind: &str, columns: &str| {
        let sql = format!(
            "SELECT {columns} FROM (SELECT k, g FROM mem WHERE k < 8) m {kind} JOIN \
             (SELECT k AS kk, g AS gg FROM lines WHERE k < 8) n ON m.k = n.kk + 2"
        );
        Case::new(name, &sql, MERGE)
    };
    let nested = |name, kind: &str, columns: &str| {
        let sql = format!(
            "SELECT {columns} FROM (SELECT k, g FROM lines WHERE k < 5) m {kind} JOIN \
             (SELECT k AS kk, g AS gg FROM mem) n ON m.k < n.kk - 96"
        );
        Case::new(name, &sql, USUAL)
    };
    vec![
        join("hash join, inner", "w, v", "", "x = k").prunes(),
        join("hash join, left", "x, w, v", "LEFT", "x = k"),
        join("hash join, right", "w, v", "RIGHT", "x = k AND v < 9000"),
        join("hash join, full", "w, v", "FULL", "x = k"),
        join("hash join, left semi", "w", "LEFT SEMI", "x = k"),
        join("hash join, right semi", "v", "RIGHT SEMI", "x = k"),
        join("hash join, left anti", "w", "LEFT ANTI", "x = k"),
        join("hash join, right anti", "v", "RIGHT ANTI", "x = k"),
        join(
            "hash join, with a filter",
            "w, v",
            "",
            "x = k AND v + w > 1020",
        ),
        join("hash join, of an expression", "w, v", "", "x + 1 = k"),
        memory(
            "hash join, mark",
            "SELECT k, v FROM big WHERE v > 19997 OR k IN (SELECT k FROM bc)",
        ),
        memory(
            "hash join, mark of memory",
            "SELECT k FROM mem WHERE k > 97 OR k IN (SELECT g FROM mem WHERE k < 4)",
        ),
        memory(
            "hash join, not in",
            "SELECT k FROM mem WHERE k < 9 AND k NOT IN (SELECT g FROM lines)",
        ),
        memory(
            "hash join, of memory",
            "SELECT m.k, n.g FROM mem m JOIN mem n ON m.k = n.g WHERE n.k < 10",
        ),
        memory(
            "hash join, summed up",
            "SELECT sum(m.n * l.k) AS s FROM (SELECT g, 2 * k AS n FROM mem) m \
             JOIN lines l ON m.g = l.g WHERE l.k < 9",
        ),
        memory(
            "hash join, left, of memory",
            "SELECT m.kk, n.k FROM (SELECT DISTINCT k AS kk FROM mem WHERE k < 3) m \
             LEFT JOIN (SELECT k FROM mem) n ON m.kk = n.k + 1000",
        ),
        memory(
            "hash join, left semi, of memory",
            "SELECT kk FROM (SELECT k AS kk FROM mem WHERE k < 9) m \
             LEFT SEMI JOIN (SELECT g FROM mem) n ON m.kk = n.g",
        ),
        memory(
            "hash join, build side changes",
            "SELECT big.v FROM bc JOIN big ON bc.k = big.k",
        ),
        memory(
            "hash join, by two keys",
            "SELECT b.v FROM (SELECT k, k % 3 AS m FROM bc) s JOIN big b \
             ON s.k = b.k AND s.m = b.k % 3",
        ),
        memory(
            "hash join, by text",
            "SELECT m.a, m.b FROM (SELECT s FROM multi WHERE a = 3) x JOIN multi m \
             ON x.s = m.s",
        ),
        memory(
            "hash join, under a projection",
            "SELECT x.n, s.w FROM small s JOIN \
             (SELECT v AS n, v % 2 AS o, k AS y FROM big) x ON s.k = x.y",
        ),
        memory(
            "hash join, probe side grouped",
            "SELECT s.w, x.m FROM small s JOIN \
             (SELECT k, max(v) AS m FROM big GROUP BY k) x ON s.k = x.k",
        ),
        memory(
            "hash join, probe side a union",
            "SELECT s.w, x.n FROM small s JOIN \
             (SELECT k, v AS n FROM big UNION ALL SELECT a, b FROM multi) x ON s.k = x.k",
        ),
        memory(
            "two hash joins on one scan",
            "SELECT b.v, s.w, l.g FROM big b JOIN small s ON b.k = s.k \
             JOIN lines l ON b.g % 3 = l.g WHERE l.k < 9",
        ),
        memory(
            "hash join, build side a hash join",
            "SELECT b.v, e.dst FROM (SELECT e.dst FROM bc JOIN edges e ON bc.k = e.src) e \
             JOIN big b ON e.dst = b.k",
        ),
        memory(
            "hash join, of streams",
            "SELECT m.k, n.k AS kk FROM stream m JOIN stream n ON m.k = n.k + 50",
        ),
        Case::new(
            "hash join, large build side",
            "SELECT count(*) AS n, sum(b.v) AS s FROM (SELECT a FROM multi WHERE b < 300) m \
             JOIN big b ON m.a = b.k",
            &[
                ONE_ROWS,
                FOUR_ROWS,
                setting(
                    "4 parted rows no lists",
                    Settings::new(4, true).with(&[
                        SPLIT,
                        PARTED,
                        PARTED_ROWS,
                        ROWS,
                        NO_LISTS,
                    ]),
                ),
            ],
        ),
        Case::new(
            "hash join, probe side buffered",
            "SELECT b.v, s.w FROM small s JOIN big b ON s.k = b.k",
            &[setting(
                "4 parted buffered",
                Settings::new(4, true).with(&[SPLIT, PARTED, PARTED_ROWS, BUFFERED]),
            )],
        ),
        Case::new(
            "cross join",
            "SELECT m.k, n.g FROM (SELECT k FROM mem WHERE k < 3) m CROSS JOIN bc n2 \
             CROSS JOIN (SELECT g FROM mem WHERE k < 2) n",
            USUAL,
        ),
        nested("nested loop join, inner", "", "k, gg"),
        nested("nested loop join, left", "LEFT", "k, g, gg"),
        nested("nested loop join, right", "RIGHT", "g, kk, gg"),
        nested("nested loop join, full", "FULL", "k, g, kk, gg"),
        nested("nested loop join, left semi", "LEFT SEMI", "k, g"),
        nested("nested loop join, right semi", "RIGHT SEMI", "kk, gg"),
        nested("nested loop join, left anti", "LEFT ANTI", "k, g"),
        nested("nested loop join, right anti", "RIGHT ANTI", "kk, gg"),
        Case::new(
            "nested loop join, mark",
            "SELECT k FROM mem m WHERE k < 3 OR EXISTS \
             (SELECT 1 FROM lines n WHERE n.k > m.k + m.g + 100 AND n.k < 105)",
            USUAL,
        ),
        merge("sort merge join, inner", "", "k, g, gg"),
        merge("sort merge join, left", "LEFT", "k, g, gg"),
        merge("sort merge join, right", "RIGHT", "g, kk, gg"),
        merge("sort merge join, full", "FULL", "k, g, kk, gg"),
        merge("sort merge join, left semi", "LEFT SEMI", "k, g"),
        merge("sort merge join, right semi", "RIGHT SEMI", "kk, gg"),
        merge("sort merge join, left anti", "LEFT ANTI", "k, g"),
        merge("sort merge join, right anti", "RIGHT ANTI", "kk, gg"),
        Case::new(
            "sort merge join, of Parquet",
            "SELECT m.s, b.v FROM multi m JOIN big b ON m.a = b.k WHERE m.b < 9",
            MERGE,
        ),
        Case::new(
            "piecewise merge join, inner",
            "SELECT m.k, m.g, n.k AS low FROM mem m JOIN lines n ON m.k > n.k WHERE m.k < 4",
            PIECES,
        ),
        Case::new(
            "piecewise merge join, left",
            "SELECT m.k, m.g, n.k AS low FROM (SELECT k, g FROM mem WHERE k < 4) m \
             LEFT JOIN (SELECT k FROM lines WHERE k < 9) n ON m.k > n.k",
            PIECES,
        ),
        Case::new(
            "symmetric hash join",
            "SELECT l.k, r.g FROM unbounded l JOIN unbounded r ON l.k = r.g WHERE r.k < 10",
            USUAL,
        ),
        Case::new(
            "symmetric hash join, full",
            "SELECT l.k, r.g FROM unbounded l FULL JOIN unbounded r ON l.k = r.g + 95",
            USUAL,
        ),
    ]
}

fn subqueries() -> Vec<Case> {
    let case = |name, sql: &str| Case::new(name, sql, USUAL);
    vec![
        case(
            "in",
            "SELECT k FROM mem WHERE k IN (SELECT g FROM mem WHERE k < 4)",
        ),
        case(
            "exists",
            "SELECT k FROM mem m WHERE EXISTS (SELECT 1 FROM mem n WHERE n.g = m.k - 1)",
        ),
        case(
            "scalar subquery in a filter",
            "SELECT k, g FROM mem WHERE k > (SELECT max(k) - 20 FROM mem)",
        ),
        case(
            "scalar subquery in a projection",
            "SELECT k, k + (SELECT max(k) FROM bc) AS n FROM mem WHERE k < 20",
        ),
        case(
            "scalar subquery in a join filter",
            "SELECT m.k, n.k AS o FROM mem m JOIN lines n \
             ON m.k = n.k AND m.g + n.g > (SELECT max(k) + 3 FROM bc)",
        ),
        case(
            "scalar subquery in an outer join's filter",
            "SELECT m.k, n.k AS o FROM mem m LEFT JOIN lines n \
             ON m.k = n.k AND m.g + n.g > (SELECT max(k) + 3 FROM bc)",
        ),
        case(
            "scalar subquery in a nested loop join",
            "SELECT m.k, n.k AS o FROM mem m JOIN bc n ON m.k < n.k * (SELECT max(k) FROM bc)",
        ),
        case(
            "scalar subquery in an aggregate",
            "SELECT g, sum(k * (SELECT max(k) FROM bc)) AS s FROM mem GROUP BY g",
        ),
        case(
            "scalar subquery in a group key",
            "SELECT k % (2 + (SELECT max(k) FROM bc)) AS d, count(*) AS n FROM mem GROUP BY 1",
        ),
        case(
            "scalar subquery in HAVING",
            "SELECT g, sum(k) AS s FROM mem GROUP BY g \
             HAVING sum(k) > (SELECT max(k) * 100 FROM bc)",
        ),
        case(
            "scalar subquery in a sort key",
            "SELECT k FROM mem WHERE k < 50 ORDER BY k % (3 + (SELECT max(k) FROM bc)), k",
        )
        .one_by_one(),
        case(
            "scalar subquery in a TopK",
            "SELECT k FROM mem ORDER BY k % (3 + (SELECT max(k) FROM bc)), k DESC LIMIT 7",
        )
        .one_by_one(),
        case(
            "scalar subquery in a window",
            "SELECT k, sum(k + (SELECT max(k) FROM bc)) OVER (PARTITION BY g ORDER BY k) AS s \
             FROM mem",
        ),
        case(
            "scalar subquery in CASE",
            "SELECT k, CASE WHEN g > 3 THEN (SELECT max(k) FROM bc) \
             ELSE (SELECT min(v) FROM big WHERE k > 5) END AS c FROM mem",
        ),
        case(
            "scalar subqueries, nested",
            "SELECT k FROM mem WHERE k > (SELECT max(k) - 30 FROM mem \
             WHERE g < (SELECT max(k) + 1 FROM bc))",
        ),
        case(
            "scalar subquery that gives nothing",
            "SELECT k, (SELECT k FROM bc WHERE k > 3) AS n FROM mem WHERE k < 70",
        ),
        case(
            "scalar subquery in a union",
            "SELECT k + (SELECT max(k) FROM bc) AS n FROM mem UNION ALL \
             SELECT k - (SELECT min(k) FROM bc) FROM lines",
        ),
        Case::new(
            "scalar subquery pushed into a scan",
            "SELECT k, v FROM big WHERE k < (SELECT max(k) * 10 FROM bc)",
            FILTERED,
        ),
        Case::new(
            "scalar subquery and TopK on one scan",
            "SELECT k, v FROM big WHERE k > (SELECT max(k) FROM bc) ORDER BY k LIMIT 2",
            FILTERED,
        ),
        Case::new(
            "scalar subquery and hash join on one scan",
            "SELECT b.v, s.w FROM small s JOIN big b ON s.k = b.k \
             WHERE b.v + b.k > (SELECT max(k) FROM bc)",
            HASH,
        ),
        Case::new(
            "scalar subquery of a TopK",
            "SELECT a, b FROM multi WHERE a = (SELECT k + 3 FROM big ORDER BY v LIMIT 1)",
            FILTERED,
        ),
        Case::new(
            "scalar subquery of a max",
            "SELECT a, b FROM multi WHERE a > (SELECT max(k) - 18010 FROM big WHERE v >= 10)",
            FILTERED,
        ),
        Case::new(
            "scalar subquery, correlated",
            "SELECT w, (SELECT max(v) FROM big b WHERE b.k = s.k) AS m FROM small s",
            HASH,
        ),
    ]
}

fn recursion() -> Vec<Case> {
    let case = |name, sql: &str| Case::new(name, sql, USUAL);
    vec![
        case(
            "recursion",
            "WITH RECURSIVE r AS (SELECT k AS a FROM bc UNION ALL \
             SELECT a + 1 FROM r WHERE a < 9) SELECT * FROM r",
        ),
        case(
            "recursion without duplicates",
            "WITH RECURSIVE r AS (SELECT k AS a FROM bc UNION \
             SELECT (a + 3) % 10 FROM r) SELECT * FROM r",
        ),
        case(
            "recursion, cross join",
            "WITH RECURSIVE r AS (SELECT k AS v FROM bc UNION ALL \
             SELECT 2 FROM r CROSS JOIN (SELECT 2) s WHERE r.v <> 2) SELECT * FROM r",
        ),
        case(
            "recursion, hash join of memory",
            "WITH RECURSIVE r AS (SELECT 2 AS v UNION ALL \
             SELECT mem.k + mem.g + 1 FROM r JOIN mem ON mem.k = r.v WHERE mem.k < 20) \
             SELECT * FROM r",
        ),
        Case::new(
            "recursion, hash join of Parquet",
            "WITH RECURSIVE r AS (SELECT k AS v FROM bc UNION ALL \
             SELECT e.dst FROM r JOIN edges e ON r.v = e.src WHERE e.dst < 150) \
             SELECT * FROM r",
            HASH,
        ),
        Case::new(
            "recursion, semi join of Parquet",
            "WITH RECURSIVE r AS (SELECT k AS v FROM bc UNION ALL \
             SELECT r.v + 7 FROM r LEFT SEMI JOIN (SELECT src FROM edges WHERE dst < 100) e \
             ON r.v = e.src) SELECT * FROM r",
            HASH,
        ),
        case(
            "recursion, TopK",
            "WITH RECURSIVE r AS (SELECT k, 0 AS v FROM bc UNION ALL \
             (SELECT k + 1, v + 1 FROM r WHERE v < 9 ORDER BY v LIMIT 1)) SELECT * FROM r",
        ),
        Case::new(
            "recursion, TopK of Parquet",
            "WITH RECURSIVE r AS (SELECT k AS v, 0 AS n FROM bc UNION ALL \
             (SELECT e.dst, r.n + 1 FROM edges e CROSS JOIN r WHERE e.src > r.v AND r.n < 5 \
             ORDER BY e.src LIMIT 1)) SELECT * FROM r",
            FILTERED,
        ),
        Case::new(
            "recursion, max of Parquet",
            "WITH RECURSIVE r AS (SELECT k AS v, 0 AS n FROM bc UNION ALL \
             SELECT m.h - r.v, r.n + 1 FROM (SELECT max(dst) AS h FROM edges WHERE src > 3) m \
             CROSS JOIN r WHERE r.n < 4) SELECT * FROM r",
            FILTERED,
        ),
        case(
            "recursion that a limit ends",
            "WITH RECURSIVE r AS (SELECT k AS a, 0 AS v FROM bc UNION ALL \
             (SELECT * FROM r ORDER BY v LIMIT 1)) SELECT * FROM r LIMIT 5",
        ),
        case(
            "recursion, nested",
            "WITH RECURSIVE o AS (SELECT k AS n FROM bc UNION ALL \
             SELECT o.n + 1 FROM o CROSS JOIN (\
               WITH RECURSIVE i AS (SELECT 1 AS m UNION ALL SELECT m + 1 FROM i WHERE m < 2) \
               SELECT m FROM i) s WHERE o.n < 3) SELECT n FROM o",
        ),
        case(
            "recursion that reads a scalar subquery",
            "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL \
             SELECT a + 1 FROM r WHERE a < (SELECT max(k) + 3 FROM bc)) SELECT * FROM r",
        ),
        case(
            "recursion in a scalar subquery",
            "SELECT k FROM mem WHERE k < (WITH RECURSIVE r AS (SELECT k AS a FROM bc UNION ALL \
             SELECT a + 1 FROM r WHERE a < 9) SELECT sum(a) FROM r)",
        ),
        Case::new(
            "recursion, joined with Parquet",
            "WITH RECURSIVE r AS (SELECT k AS a FROM bc UNION ALL \
             SELECT a + 1 FROM r WHERE a < 9) SELECT r.a, b.v FROM r JOIN big b ON r.a = b.k",
            HASH,
        ),
        Case::new(
            "recursion, read twice",
            "WITH RECURSIVE r AS (SELECT k AS a FROM bc UNION ALL \
             SELECT a + 1 FROM r WHERE a < 9) \
             SELECT x.a, y.a AS b FROM r x JOIN r y ON x.a = y.a + 1",
            HASH,
        ),
    ]
}

/// Materialized CTEs, which the released crates compute wherever they are read.
fn ctes() -> Vec<Case> {
    let case = |name, sql: &str| {
        let mut case = Case::new(name, sql, &[ONE, FOUR, FOUR_OFF, EIGHT_PARTED_ROWS]);
        // The dialect in which the released sqlparser takes the word, which the released
        // DataFusion then ignores.
        case.option = Some(("datafusion.sql_parser.dialect", "postgresql"));
        case
    };
    let x = "WITH x AS MATERIALIZED (SELECT k, g FROM mem WHERE k > 3)";
    let with = |rest: &str| format!("{x} {rest}");
    let hundred = (0..100).map(|i| format!("SELECT k + {i} AS k FROM x"));
    let hundred = hundred.collect::<Vec<_>>().join(" UNION ALL ");
    let join = "SELECT b.v, s.w FROM small s JOIN big b ON s.k = b.k";
    let both_sides = with("SELECT p.k, q.g FROM x p JOIN x q ON p.k = q.k");
    let levels = (1..8).map(|level| {
        format!(
            "l{level} AS MATERIALIZED (SELECT a.k, (a.g + b.g) % 7 AS g \
             FROM l{} a JOIN l{} b ON a.k = b.k)",
            level - 1,
            level - 1
        )
    });
    let levels = levels.collect::<Vec<_>>().join(", ");
    let mut limit =
        case("CTE, LIMIT above", &with("SELECT k FROM x LIMIT 5")).rows_open();
    limit.settings.push(setting(
        "4 small",
        Settings::new(4, true).with(&[SPLIT, SMALL_BATCHES]),
    ));
    vec![
        case("CTE, read once", &with("SELECT k, g FROM x WHERE g > 2")),
        case("CTE, on both sides of a join", &both_sides),
        case("CTE, never read", &with("SELECT k FROM lines")),
        case("CTE, read 100 times", &with(&hundred)),
        case(
            "CTE, chained",
            &with(
                ", y AS MATERIALIZED (SELECT k + 1 AS k FROM x UNION ALL SELECT g FROM x) \
                 SELECT a.k, b.g FROM y a JOIN x b ON a.k = b.k",
            ),
        ),
        case(
            "CTE, a chain that doubles",
            &format!(
                "WITH l0 AS MATERIALIZED (SELECT k, g FROM mem), {levels} SELECT * FROM l7"
            ),
        ),
        case(
            "CTE, nested",
            "WITH x AS MATERIALIZED (WITH y AS MATERIALIZED (SELECT k, g FROM mem) \
             SELECT a.k, b.g FROM y a JOIN y b ON a.k = b.k + 1) \
             SELECT sum(a.k) AS s, b.g FROM x a JOIN x b ON a.k = b.k GROUP BY b.g",
        ),
        case(
            "CTE, columns renamed",
            "WITH x (a, b) AS MATERIALIZED (SELECT k, g FROM mem) \
             SELECT x.a, y.b FROM x JOIN x y ON x.b = y.a",
        ),
        case(
            "CTE, readers that filter and project",
            &with(
                "SELECT p.k, q.g FROM (SELECT k FROM x WHERE k < 50) p \
                 JOIN (SELECT k, g FROM x WHERE g = 2) q ON p.k = q.k",
            ),
        ),
        case(
            "CTE, no rows",
            "WITH x AS MATERIALIZED (SELECT k, g FROM mem WHERE k < 0) \
             SELECT count(*) AS n, (SELECT max(k) FROM x) AS m FROM x",
        ),
        case(
            "CTE, types of a union and of CASE",
            "WITH x AS MATERIALIZED (SELECT CASE WHEN g > 3 THEN 1 ELSE 0.5 END AS c FROM mem \
             UNION ALL SELECT k FROM lines) SELECT c, count(*) AS n FROM x GROUP BY c \
             HAVING count(*) > (SELECT min(c) FROM x)",
        ),
        limit,
        case(
            "CTE, TopK above",
            &with("SELECT k, g FROM x ORDER BY g DESC, k LIMIT 4"),
        ),
        case(
            "CTE, limited body",
            "WITH x AS MATERIALIZED (SELECT k, v FROM big ORDER BY k LIMIT 4) \
             SELECT a.v, b.k FROM x a JOIN x b ON a.k = b.k",
        ),
        case("CTE, in a union", &with("SELECT k FROM x UNION SELECT g FROM x")),
        case(
            "CTE, in a scalar subquery that asks first",
            &with("SELECT k, (SELECT max(g) FROM x) AS m FROM x WHERE k > (SELECT min(k) FROM x)"),
        ),
        case(
            "CTE, in a scalar subquery alone",
            &with("SELECT k FROM lines WHERE k > (SELECT max(g) FROM x)"),
        ),
        case(
            "CTE, with a scalar subquery in its body",
            "WITH x AS MATERIALIZED (SELECT k, g FROM mem WHERE k > (SELECT max(k) FROM bc)) \
             SELECT p.k FROM x p JOIN x q ON p.k = q.k + 1",
        ),
        case(
            "CTE, declared in a scalar subquery",
            "SELECT k FROM lines WHERE k > (WITH x AS MATERIALIZED (SELECT g FROM mem) \
             SELECT max(p.g) FROM x p JOIN x q ON p.g = q.g)",
        ),
        case(
            "CTE, declared in EXISTS",
            "SELECT k FROM lines WHERE EXISTS (\
             WITH x AS MATERIALIZED (SELECT k AS a FROM mem WHERE g > 3) \
             SELECT 1 FROM x WHERE x.a = lines.k)",
        ),
        case(
            "CTE, in IN",
            &with("SELECT k FROM lines WHERE k IN (SELECT k FROM x) AND g NOT IN (SELECT k FROM x)"),
        ),
        case(
            "CTE, in each iteration of a recursion",
            "WITH RECURSIVE x AS MATERIALIZED (SELECT k FROM mem), \
             r AS (SELECT k AS a FROM bc UNION ALL \
             SELECT x.k + 1 FROM r JOIN x ON r.a = x.k WHERE r.a < 12) \
             SELECT r.a, x.k FROM r JOIN x ON r.a = x.k + 1",
        ),
        case(
            "CTE, of each iteration of a recursion",
            "WITH RECURSIVE r AS (SELECT k AS a FROM bc UNION ALL \
             (WITH x AS MATERIALIZED (SELECT a + 1 AS a FROM r WHERE a < 9) \
             SELECT p.a FROM x p WHERE p.a <= (SELECT max(a) FROM x))) SELECT a FROM r",
        ),
        case(
            "CTE, recursive",
            "WITH RECURSIVE r AS MATERIALIZED (SELECT k AS a FROM bc UNION ALL \
             SELECT a + 1 FROM r WHERE a < 9) SELECT x.a, y.a AS b FROM r x JOIN r y \
             ON x.a = y.a + 1",
        ),
        case(
            "CTE, hash join in its body",
            &format!(
                "WITH x AS MATERIALIZED ({join}) SELECT p.v, q.w FROM x p JOIN x q ON p.v = q.v"
            ),
        )
        .prunes(),
        case(
            "CTE, on the build side of a filtered scan",
            "WITH x AS MATERIALIZED (SELECT k, w FROM small) \
             SELECT b.v, x.w FROM x JOIN big b ON x.k = b.k WHERE b.v > (SELECT min(w) FROM x)",
        ),
        case(
            "CTE, grouped and windowed",
            "WITH x AS MATERIALIZED (SELECT g, sum(k) AS s FROM mem GROUP BY g) \
             SELECT p.g, q.s, rank() OVER (ORDER BY p.s) AS r FROM x p LEFT JOIN x q \
             ON p.g = q.g + 1",
        ),
        case("CTE, wrapped", &both_sides).wrapped(),
        case("CTE, below a user's nodes", &both_sides).plain(),
        case("CTE, rebuilt", &both_sides).rebuilt(),
    ]
}

fn nodes() -> Vec<Case> {
    let recursion = "WITH RECURSIVE r AS (SELECT k AS a FROM bc UNION ALL \
                     SELECT a + 1 FROM r WHERE a < 9) SELECT * FROM r";
    let join = "SELECT b.v, s.w FROM small s JOIN big b ON s.k = b.k";
    let topk = "SELECT v FROM big ORDER BY k LIMIT 1";
    let max = "SELECT max(k) AS high FROM big WHERE v >= 10";
    let scalar = "SELECT k, v FROM big WHERE k < (SELECT max(k) * 10 FROM bc)";
    let groups = "SELECT g, sum(k) AS s FROM mem GROUP BY g";
    let mut cut = Case::new("scan of a TopK, cut off", topk, &[ONE_ROWS, FOUR_ROWS]);
    cut.part = last_leaf;
    let mut cut_join = Case::new("scan of a hash join, cut off", join, &[ONE_ROWS, ONE]);
    cut_join.part = last_leaf;
    vec![
        Case::new("wrapped: recursion", recursion, USUAL).wrapped(),
        Case::new("wrapped: hash join", join, HASH).wrapped(),
        Case::new("wrapped: TopK", topk, FILTERED).wrapped(),
        Case::new("wrapped: max", max, FILTERED).wrapped(),
        Case::new("wrapped: scalar subquery", scalar, FILTERED).wrapped(),
        Case::new("wrapped: group by", groups, USUAL).wrapped(),
        Case::new("user's node: recursion", recursion, USUAL).plain(),
        Case::new("user's node: hash join", join, HASH).plain(),
        Case::new("user's node: TopK", topk, FILTERED).plain(),
        Case::new("user's node: max", max, FILTERED).plain(),
        Case::new("user's node: scalar subquery", scalar, FILTERED).plain(),
        Case::new("user's node: group by", groups, USUAL).plain(),
        Case::new("rebuilt: hash join", join, HASH)
            .prunes()
            .rebuilt(),
        Case::new("rebuilt: TopK", topk, FILTERED).rebuilt(),
        Case::new("rebuilt: max", max, FILTERED).rebuilt(),
        cut,
        cut_join,
        Case::new("EXPLAIN ANALYZE", &format!("EXPLAIN ANALYZE {join}"), USUAL)
            .rows_open(),
    ]
}
