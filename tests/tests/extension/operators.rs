//! DataFusion's own operators, foreign: the plan of a query that the extension planned,
//! beside the host's own plan of the same query.

use std::fmt::{self, Write};
use std::fs;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use reuse_extension_interface::Rows;
use reuse_tests::run::{Outcome, reset};
use reuse_tests::settings::{EVERY_SETTING, Settings};
use tempfile::TempDir;

use super::host::{Build, Host, names, output_rows, plan};
use crate::snapshot::assert_snapshot;

/// The operator that the row is about, and the query.
const ROWS: [(&str, &str); 10] = [
    ("DataSourceExec", "SELECT a FROM multi"),
    ("SortExec(TopK)", "SELECT k FROM mem ORDER BY k LIMIT 3"),
    (
        "HashJoinExec",
        "SELECT k FROM big WHERE k IN (SELECT k FROM small)",
    ),
    (
        "ScalarSubqueryExec",
        "SELECT k FROM mem WHERE k > (SELECT max(k) - 2 FROM mem)",
    ),
    ("LazyMemoryExec", "SELECT value FROM generate_series(1, 5)"),
    (
        "HashJoinExec",
        "SELECT b.v FROM small s JOIN big b ON s.k = b.k",
    ),
    (
        "HashJoinExec",
        "SELECT m.k FROM (SELECT DISTINCT k FROM mem WHERE k < 3) m \
         LEFT JOIN (SELECT k FROM mem) n ON m.k = n.k + 1000",
    ),
    (
        "AggregateExec",
        "SELECT g, count(*) AS n FROM mem GROUP BY g",
    ),
    (
        "CrossJoinExec",
        "SELECT a.k, b.k AS l FROM small a CROSS JOIN small b",
    ),
    (
        "NestedLoopJoinExec",
        "SELECT s.k, m.k AS l FROM small s JOIN mem m ON s.k + 97 < m.k",
    ),
];

/// The tables, as files of the host and as statements that either side runs.
struct Tables {
    folder: TempDir,
    setup: Vec<String>,
}

impl Tables {
    async fn new() -> Result<Self> {
        let folder = TempDir::new()?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let host = Host::new(&Settings::new(1, true))?;
        let series =
            |from, to| format!("SELECT value AS k FROM generate_series({from}, {to})");
        fs::create_dir(path("multi"))?;
        let mut files = vec![
            (
                format!("SELECT k, k AS v FROM ({})", series(0, 99_999)),
                path("big.parquet"),
            ),
            (
                "SELECT * FROM (VALUES (1), (50000)) AS t (k)".to_string(),
                path("small.parquet"),
            ),
        ];
        for file in 0..4 {
            let rows = series(file * 100, file * 100 + 99);
            files.push((
                format!("SELECT k AS a FROM ({rows})"),
                path(&format!("multi/{file}.parquet")),
            ));
        }
        for (query, file) in files {
            let copy = format!(
                "COPY ({query}) TO '{file}' STORED AS PARQUET \
                 OPTIONS ('format.max_row_group_size' '1000')"
            );
            host.session.sql(&copy).await?.collect().await?;
        }
        let external = |name, file| {
            let path = path(file);
            format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'")
        };
        let setup = vec![
            external("big", "big.parquet"),
            external("small", "small.parquet"),
            external("multi", "multi/"),
            format!(
                "CREATE TABLE mem AS SELECT k, k % 7 AS g FROM ({})",
                series(0, 99)
            ),
        ];
        Ok(Self { folder, setup })
    }

    /// The statements with which a library makes the same tables as a host that has these
    /// settings: a table in memory keeps the partitions that it was created with.
    fn setup(&self, settings: &Settings) -> Vec<String> {
        let partitions = settings.partitions;
        let set = format!("SET datafusion.execution.target_partitions = {partitions}");
        std::iter::once(set).chain(self.setup.clone()).collect()
    }

    /// A host that has the tables, too.
    async fn host(&self, settings: &Settings) -> Result<Host> {
        let host = Host::new(settings)?;
        for statement in &self.setup {
            host.session.sql(statement).await?.collect().await?;
        }
        Ok(host)
    }
}

/// What a plan gave, and after a reset its copy: rows, and the metric of the operator that
/// the query is about.
#[derive(PartialEq, Eq)]
struct Twice {
    rows: [Outcome; 2],
    metric: [usize; 2],
}

impl Twice {
    async fn new(host: &Host, p: Arc<dyn ExecutionPlan>, operator: &str) -> Result<Self> {
        let first = host.run(&p).await;
        let counted = output_rows(&p, operator);
        let copy = reset(&p)?;
        Ok(Self {
            rows: [first, host.run(&copy).await],
            metric: [counted, output_rows(&copy, operator)],
        })
    }
}

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.rows.each_ref().map(|outcome| match outcome {
            Outcome::Rows(rows) => rows.len().to_string(),
            other => other.to_string(),
        });
        let [before, after] = self.metric;
        write!(f, "{first} then {second}, metric {before} then {after}")
    }
}

/// Every operator, under every setting: the foreign plan gives what the native one gives,
/// its rows and its metrics.
#[tokio::test(flavor = "multi_thread")]
async fn same_as_native() -> Result<()> {
    let tables = Tables::new().await?;
    let mut blocks: Vec<(String, String)> = vec![];
    let mut departures = vec![];
    for settings in EVERY_SETTING {
        let mut block = String::new();
        let host = tables.host(settings).await?;
        let setup = tables.setup(settings);
        for (operator, query) in ROWS {
            let native = host.plan(query).await?;
            let nodes = names(&native);
            assert!(
                nodes.iter().any(|name| name == operator),
                "{query} has no {operator}: {nodes:?}"
            );
            let native = Twice::new(&host, native, operator).await?;
            assert_eq!(native.rows[0], native.rows[1], "{settings}: {query}");
            let _ = writeln!(block, "{operator}: {query}\n  native: {native}");
            let table = host.sql_table(Build::Patched.library(), &setup, query)?;
            let foreign = host.scan(&table).await?;
            assert_eq!(names(&foreign), nodes, "{settings}: {query}");
            let foreign = Twice::new(&host, foreign, operator).await?;
            if foreign != native {
                let _ = writeln!(block, "  foreign: {foreign}");
                departures.push(format!("{settings}: {query}"));
            }
        }
        match blocks.iter_mut().find(|(_, other)| *other == block) {
            Some((titles, _)) => *titles += &format!("## {settings}\n"),
            None => blocks.push((format!("## {settings}\n"), block)),
        }
    }
    let blocks: Vec<_> = blocks
        .into_iter()
        .map(|(titles, block)| titles + &block)
        .collect();
    let report = blocks.join("\n");
    assert_snapshot("operators", &report);
    assert!(departures.is_empty(), "{departures:?}\n{report}");
    Ok(())
}

/// What forwarding the reset is for: without it, an operator keeps the state of the first
/// run, and rows are missing without a word.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_reset() -> Result<()> {
    let host = Host::new(&Settings::new(1, true))?;
    let fresh = "3 rows: (1, 1) (2, 2) (3, 3)";
    for (build, again) in [
        (Build::Patched, fresh),
        (Build::Stock, "2 rows: (1, 5) (2, 6)"),
    ] {
        let p = plan(build.library(), "top_k", &Rows::new(vec![1, 2, 3, 4]))?;
        assert_eq!(host.run(&p).await.to_string(), fresh, "{build:?}");
        let copy = host.run(&reset(&p)?).await;
        assert_eq!(copy.to_string(), again, "{build:?}");
    }
    Ok(())
}

/// A foreign join reads its build side again: the file has changed since the first run.
#[tokio::test(flavor = "multi_thread")]
async fn changed_build_side() -> Result<()> {
    let tables = Tables::new().await?;
    let csv = tables.folder.path().join("bc.csv");
    // As long as before: a plan keeps the length that it was planned with.
    let write = |key| fs::write(&csv, format!("k\n{key}\n"));
    write(1)?;
    let mut setup = tables.setup.clone();
    setup.push(format!(
        "CREATE EXTERNAL TABLE bc (k BIGINT) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'true')",
        csv.display()
    ));
    let query = "SELECT bc.k FROM bc JOIN mem ON bc.k = mem.k";
    for settings in EVERY_SETTING {
        let host = Host::new(settings)?;
        let table = host.sql_table(Build::Patched.library(), &setup, query)?;
        write(1)?;
        let p = host.scan(&table).await?;
        assert_eq!(host.run(&p).await.to_string(), "1 row: (1)", "{settings}");
        write(7)?;
        let copy = reset(&p)?;
        assert_eq!(
            host.run(&copy).await.to_string(),
            "1 row: (7)",
            "{settings}"
        );
    }
    Ok(())
}
