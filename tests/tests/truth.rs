//! What every promise of a reset copy is worth, shape by shape: the released crates
//! beside the patched ones.
//!
//! ```text
//!   truth/shapes.rs, tpch.rs   query shapes, their tables and settings   one row each
//!   truth/promise.rs           what is tried                             one column each
//!   truth/reruns.rs            what no column has: bare reruns in words, single partitions
//!
//!   tests/stock ── released crates ──► truth/stock.txt ──┐
//!                                                        ├──► snapshot: one beside the other
//!   this workspace ── patched crates ────────────────────┘    no patched cell may be wrong
//! ```
//!
//! The same source is compiled twice. A workspace of its own, `tests/stock`, builds it
//! against the released crates: there it checks that they still give what
//! `truth/stock.txt` says, which is all that the patched build needs to know of them.
//!
//! ```text
//! cargo test --manifest-path tests/stock/Cargo.toml truth
//! ```
//!
//! After a change to the shapes run it with `REUSE_TRUTH=write` to write the file, and
//! some more times with `REUSE_TRUTH=merge`: a cell that depends on which task comes
//! first becomes a `?`. `REUSE_TRUTH_ONLY=TEXT` tries the shapes with TEXT in their name,
//! prints what is wrong with them and compares nothing.

mod promise;
mod reruns;
mod shapes;
mod tpch;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result;
use futures::StreamExt;
use reuse_tests::{is_released, tests_dir};

use crate::snapshot::assert_snapshot;

use promise::{Cell, LEGEND, PROMISES, Row, Trial};
use shapes::{Case, Source};

/// Shapes that are tried at the same time.
const AT_ONCE: usize = 4;

const STOCK_HEAD: &str = "\
# What the released crates give, one line a shape; written by tests/stock.
# See tests/tests/truth.rs.
";

/// The released crates' cells.
fn stock_file() -> PathBuf {
    tests_dir().join("truth/stock.txt")
}

/// One shape: the worst cell of its settings in each column.
struct Line {
    shape: String,
    settings: String,
    cells: Vec<Cell>,
}

#[tokio::test(flavor = "multi_thread")]
async fn truth() -> Result<()> {
    let only = std::env::var("REUSE_TRUTH_ONLY").ok();
    let rows = rows(only.as_deref()).await?;
    let found: Vec<_> = rows.iter().flat_map(|row| &row.found).collect();
    let found = found.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{}", line.trim_end());
        text
    });
    if only.is_some() {
        println!("{}\n{found}", table(&lines(&rows), &stock()));
        return Ok(());
    }
    if is_released() {
        return released(&rows, &found);
    }

    let (shapes, stock) = (lines(&rows), stock());
    let names = |lines: &[Line]| -> BTreeSet<_> {
        let of_line = |line: &Line| (line.shape.clone(), line.settings.clone());
        lines.iter().map(of_line).collect()
    };
    let (tried, known) = (names(&shapes), names(&stock));
    let differ: Vec<_> = known.symmetric_difference(&tried).collect();
    assert!(
        differ.is_empty(),
        "truth/stock.txt is of other shapes or settings: {differ:?}. Write it again with \
         tests/stock."
    );
    // First what is wrong, which the snapshot only has a letter for.
    println!("{found}");
    assert_snapshot("truth", &table(&shapes, &stock));
    assert_eq!(found, "", "promises that are not kept");
    Ok(())
}

/// What the table must be to say anything: every shape that the text asks for is there,
/// and every promise was seen broken by the released crates.
#[test]
fn table_can_fail() {
    let stock = stock();
    assert!(stock.len() >= 220, "{} shapes", stock.len());
    for (column, (promise, _)) in PROMISES.iter().enumerate() {
        let mut cells = stock.iter().map(|line| line.cells[column]);
        let broken = cells.any(|cell| cell.is_wrong() && cell != Cell::OPEN);
        assert!(
            broken,
            "`{promise}` is kept by the released crates in every shape"
        );
    }
}

async fn rows(only: Option<&str>) -> Result<Vec<Row>> {
    let (own, tpch) = (Arc::new(shapes::tables()?), Arc::new(tpch::tables()?));
    let mut cases = shapes::cases();
    cases.extend(tpch::cases());
    let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "two shapes have one name");
    if let Some(only) = only {
        cases.retain(|case| case.name.contains(only));
    }
    let trials = cases.into_iter().map(|case| Trial {
        tables: Arc::clone(match case.source {
            Source::Own => &own,
            Source::Tpch => &tpch,
        }),
        memory: shapes::memory(),
        case,
    });
    let tried: Vec<Result<Vec<Row>>> = futures::stream::iter(trials)
        .map(|trial| {
            SpawnedTask::spawn(async move {
                let rows = trial.rows().await;
                let Case { name, sql, .. } = &trial.case;
                rows.map_err(|error| error.context(format!("{name}: {sql}")))
            })
            .join_unwind()
        })
        .buffered(AT_ONCE)
        .map(|joined| joined.expect("a trial is not cancelled"))
        .collect()
        .await;
    let failed: Vec<_> = tried
        .iter()
        .filter_map(|rows| rows.as_ref().err())
        .collect();
    assert!(
        failed.is_empty(),
        "shapes that cannot be tried: {failed:#?}"
    );
    Ok(tried.into_iter().flatten().flatten().collect())
}

/// Compares with what is known of the released crates, or writes it.
fn released(rows: &[Row], found: &str) -> Result<()> {
    println!("{found}");
    match std::env::var("REUSE_TRUTH").as_deref() {
        Ok("write") => {
            std::fs::write(stock_file(), stock_text(rows, &[]))?;
        }
        Ok("merge") => std::fs::write(stock_file(), stock_text(rows, &stock()))?,
        _ => {
            let text = stock_text(rows, &stock());
            assert!(
                text == std::fs::read_to_string(stock_file())?,
                "the released crates no longer give what truth/stock.txt says: run with \
                 REUSE_TRUTH=write and read the difference"
            );
        }
    }
    Ok(())
}

fn lines(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = vec![];
    for row in rows {
        match lines.last_mut() {
            Some(line) if line.shape == row.shape => {
                line.settings.push_str(", ");
                line.settings.push_str(row.setting);
                for (cell, other) in line.cells.iter_mut().zip(&row.cells) {
                    *cell = match *cell {
                        Cell::NONE => *other,
                        cell => cell.and(*other),
                    };
                }
            }
            _ => lines.push(Line {
                shape: row.shape.to_string(),
                settings: row.setting.to_string(),
                cells: row.cells.clone(),
            }),
        }
    }
    lines
}

fn of_shape<'a>(lines: &'a [Line], shape: &str) -> Option<&'a Line> {
    lines.iter().find(|line| line.shape == shape)
}

/// The lines of `truth/stock.txt`; what differs from what is known is left open.
fn stock_text(rows: &[Row], known: &[Line]) -> String {
    let mut text = STOCK_HEAD.to_string();
    for Line {
        shape,
        settings,
        cells,
    } in lines(rows)
    {
        let before = of_shape(known, &shape).map_or(&cells, |line| &line.cells);
        let cells = cells.iter().zip(before).map(|(cell, before)| {
            let cell = if before == cell { *before } else { Cell::OPEN };
            cell.to_string()
        });
        let cells = cells.collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "{shape} | {settings} | {cells}");
    }
    text
}

/// The lines of `truth/stock.txt`, read.
fn stock() -> Vec<Line> {
    let text = std::fs::read_to_string(stock_file()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<_> = line.split(" | ").collect();
            let [shape, settings, cells] = fields[..] else {
                panic!("not a line of truth/stock.txt: {line}");
            };
            let cells: Vec<_> = cells
                .split(' ')
                .map(|cell| Cell(cell.chars().next().unwrap_or_default()))
                .collect();
            assert_eq!(cells.len(), PROMISES.len(), "{line}");
            Line {
                shape: shape.to_string(),
                settings: settings.to_string(),
                cells,
            }
        })
        .collect()
}

/// Released and patched, side by side.
fn table(lines: &[Line], stock: &[Line]) -> String {
    let width = lines.iter().map(|line| line.shape.len()).max().unwrap_or(0);
    let mut text =
        String::from("Each cell: the released crates, then the patched ones.\n\n");
    for (cell, meaning) in LEGEND {
        let _ = writeln!(text, "  {cell}  {meaning}");
    }
    text.push('\n');
    for (promise, meaning) in PROMISES {
        let _ = writeln!(text, "  {promise:<6}  {meaning}");
    }
    let _ = write!(text, "\n{:width$}", "");
    for (promise, _) in PROMISES {
        let _ = write!(text, " {promise:<6}");
    }
    text.truncate(text.trim_end().len());
    text.push_str("  settings\n");
    for line in lines {
        let _ = write!(text, "{:width$}", line.shape);
        let released = of_shape(stock, &line.shape);
        for (column, patched) in line.cells.iter().enumerate() {
            let released = released.map_or(Cell::NONE, |line| line.cells[column]);
            let _ = write!(text, " {:<6}", format!("{released} {patched}"));
        }
        let _ = writeln!(text, "  {}", line.settings);
    }
    text
}
