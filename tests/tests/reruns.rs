//! Snapshots of what every query shape gives when its plan is run again: as it is, and
//! reset.
//!
//! ```text
//!   reruns/scan.rs, aggregate.rs, ...   shapes of each kind
//!   reruns/shared_state.rs              shapes whose nodes share run state
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
#[path = "reruns/shared_state.rs"]
mod shared_state;
#[path = "reruns/sort.rs"]
mod sort;
#[path = "reruns/subquery.rs"]
mod subquery;
#[path = "reruns/wrapper.rs"]
mod wrapper;

use datafusion::error::Result;
use reuse_tests::compare::compare;
use reuse_tests::data::Data;
use reuse_tests::shape::Shape;

/// Checks that a reset copy of `shape` keeps every promise, and keeps all that its runs
/// gave as snapshot `name`.
async fn right_after_reset(name: &str, shape: Shape) -> Result<()> {
    all_right(&format!("right_after_reset__{name}"), &[shape]).await
}

/// As [`right_after_reset`], for shapes that share run state.
async fn all_right_after_reset(name: &str, shapes: &[Shape]) -> Result<()> {
    all_right(&format!("shared_state__{name}"), shapes).await
}

async fn all_right(name: &str, shapes: &[Shape]) -> Result<()> {
    let data = Data::new()?;
    let mut texts = vec![];
    let mut found = vec![];
    for shape in shapes {
        let (text, all) = compare(&data, shape).await?;
        for (settings, runs) in all {
            let metrics = runs.metrics().to_vec();
            found.push((shape.sql, settings, runs.departures(), metrics));
        }
        texts.push(text);
    }
    // The snapshot first: it shows what went wrong.
    snapshot(name, &texts.join("\n"));
    for (sql, settings, departures, metrics) in found {
        assert!(departures.is_empty(), "{sql} ({settings}): {departures:?}");
        assert!(
            metrics.is_empty(),
            "{sql} ({settings}): metrics of {metrics:?}"
        );
    }
    Ok(())
}

/// One folder for the snapshots of every module.
fn snapshot(name: &str, text: &str) {
    insta::assert_snapshot!(name, text);
}
