//! Snapshots of what every query shape gives when its plan is run again: as it is, and
//! reset.
//!
//! ```text
//!   reruns/scan.rs, aggregate.rs, ...   shapes that are right after a reset today
//!   reruns/wrong_today.rs               shapes that are not, shown as what they are
//!   reruns/contract.rs                  what a reset copy promises beyond its rows
//! ```
//!
//! Run with `INSTA_UPDATE=always` to accept what changed, then read the difference.

#[path = "reruns/aggregate.rs"]
mod aggregate;
#[path = "reruns/contract.rs"]
mod contract;
#[path = "reruns/join.rs"]
mod join;
#[path = "reruns/recursion.rs"]
mod recursion;
#[path = "reruns/scan.rs"]
mod scan;
#[path = "reruns/sort.rs"]
mod sort;
#[path = "reruns/subquery.rs"]
mod subquery;
#[path = "reruns/wrapper.rs"]
mod wrapper;
#[path = "reruns/wrong_today.rs"]
mod wrong_today;

use datafusion::error::Result;
use reuse_tests::compare::compare;
use reuse_tests::data::Data;
use reuse_tests::shape::Shape;

/// Checks that a reset copy of `shape` keeps every promise but for the metrics of its
/// file scans, and keeps all that its runs gave as snapshot `name`.
async fn right_after_reset(name: &str, shape: Shape) -> Result<()> {
    let data = Data::new()?;
    let (text, all) = compare(&data, &shape).await?;
    // The snapshot first: it shows what went wrong.
    snapshot(&format!("right_after_reset__{name}"), &text);
    for (settings, runs) in all {
        let departures = runs.departures();
        assert!(departures.is_empty(), "{settings}: {departures:?}\n{text}");
        for node in runs.metrics() {
            // `wrong_today::file_scan_metrics_add_up` has these.
            assert_eq!(node, "DataSourceExec", "{settings}: has metrics\n{text}");
        }
    }
    Ok(())
}

/// Checks that a reset copy of each shape, under each of its settings, still departs
/// from the fresh plan in all of `departures`, and keeps what the runs gave as snapshot
/// `name`.
async fn wrong_today(name: &str, shapes: &[Shape], departures: &[&str]) -> Result<()> {
    let data = Data::new()?;
    let mut texts = vec![];
    let mut found = vec![];
    for shape in shapes {
        let (text, all) = compare(&data, shape).await?;
        for (settings, runs) in all {
            found.push((shape.sql, settings, runs.departures()));
        }
        texts.push(text);
    }
    snapshot(&format!("wrong_today__{name}"), &texts.join("\n"));
    for (sql, settings, found) in found {
        for departure in departures {
            assert!(
                found.iter().any(|text| text == departure),
                "{sql} ({settings}) keeps `{departure}`. Repaired? Then move the case to \
                 right_after_reset; departs in {found:?}"
            );
        }
    }
    Ok(())
}

/// One folder for the snapshots of every module.
fn snapshot(name: &str, text: &str) {
    insta::assert_snapshot!(name, text);
}
