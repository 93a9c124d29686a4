//! Random plans, used at random: run, reset, run together, given up half way, over data
//! that changes. Every run is compared with a fresh plan's, in which CTEs are inlined.
//!
//! ```text
//!   seed ──► query (random/sql.rs), settings, steps (random/steps.rs)
//!                                        │
//!              0: P                      │  run 0 on First
//!              1: R(0)                   │  1 = reset(0)
//!              2: R(1)                   │  start 1 on Changed, 2 = reset(1), ...
//!                                        ▼
//!                       each run's rows = a fresh plan's rows
//! ```
//!
//! Without more it tries a fixed set of seeds. A longer search:
//!
//! ```text
//! REUSE_RANDOM_SECONDS=3600 REUSE_RANDOM_SEEDS=100000..  cargo test ... random -- --nocapture
//! ```
//!
//! `REUSE_RANDOM_SEEDS` is a seed, `FROM..TO` or, with a time, `FROM..`; a failure names
//! its seed, so that `REUSE_RANDOM_SEEDS=SEED` tries it again.
//!
//! Built against the released crates, in `tests/stock`, it has to find failures.

mod sql;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::instant::Instant;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result;
use futures::StreamExt;
use reuse_tests::is_released;

use steps::{Try, attempt, shrink};

/// What CI tries.
const SEEDS: std::ops::Range<u64> = 0..1200;
/// What `tests/stock` tries: the first of these.
const SEEDS_OF_RELEASE: std::ops::Range<u64> = 0..100;

/// Plans that are tried at the same time.
const AT_ONCE: usize = 4;
/// Failures that are made as small as they can be and shown.
const SHOWN: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn random_plans() -> Result<()> {
    let variable = |name| std::env::var(name).ok();
    let seconds = variable("REUSE_RANDOM_SECONDS").map(|text| {
        let seconds = text.parse().expect("REUSE_RANDOM_SECONDS is a number");
        Duration::from_secs(seconds)
    });
    let chosen = variable("REUSE_RANDOM_SEEDS").map(|text| {
        let seeds = seeds(&text).expect("REUSE_RANDOM_SEEDS is N, N..M or N..");
        assert!(
            seeds.end != u64::MAX || seconds.is_some(),
            "REUSE_RANDOM_SEEDS without an end needs REUSE_RANDOM_SECONDS"
        );
        seeds
    });
    let fixed = chosen.is_none() && seconds.is_none();
    let seeds = match chosen {
        Some(seeds) => seeds,
        None if seconds.is_some() => 0..u64::MAX,
        None if is_released() => SEEDS_OF_RELEASE,
        None => SEEDS,
    };

    let tables = Arc::new(sql::tables()?);
    let begun = Instant::now();
    let on_time = |_: &u64| {
        let on_time = seconds.is_none_or(|limit| begun.elapsed() < limit);
        futures::future::ready(on_time)
    };
    let mut tries = futures::stream::iter(seeds)
        .take_while(on_time)
        .map(|seed| {
            let tables = Arc::clone(&tables);
            SpawnedTask::spawn(async move {
                let it = Try::new(seed);
                let ended = attempt(&tables, &it).await;
                (it, ended)
            })
            .join_unwind()
        })
        .buffered(AT_ONCE);

    let (mut plans, mut runs) = (0, 0);
    let (mut with_filters, mut with_ctes, mut with_rows) = (0, 0, 0);
    let (mut skipped, mut failed) = (vec![], vec![]);
    while let Some(joined) = tries.next().await {
        let (it, ended) = joined.expect("a try is not cancelled");
        let ended = ended.map_err(|error| error.context(it.to_string()))?;
        if let Some(reason) = ended.skipped {
            skipped.push(format!("seed {}: {reason}", it.seed));
            continue;
        }
        plans += 1;
        with_filters += usize::from(ended.filters);
        with_ctes += usize::from(it.query.has_materialized_cte());
        with_rows += usize::from(ended.rows);
        runs += ended.runs;
        if let Some(failure) = ended.failure {
            let smaller = match failed.len() < SHOWN {
                true => shrink(&tables, &it).await?,
                false => None,
            };
            failed.push((it.seed, smaller.unwrap_or(failure)));
        }
    }

    for text in &skipped {
        println!("skipped: {text}");
    }
    for (_, text) in failed.iter().take(SHOWN) {
        println!("\n{text}");
    }
    let failed: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
    println!(
        "\n{plans} plans, {with_filters} with dynamic filters, {with_ctes} with \
         materialized CTEs, {with_rows} with rows; \
         {runs} runs compared in {} s; {} queries skipped; {} plans failed, of the seeds \
         {failed:?}",
        begun.elapsed().as_secs(),
        skipped.len(),
        failed.len()
    );
    if is_released() && fixed {
        assert!(
            !failed.is_empty(),
            "finds nothing wrong with the released crates"
        );
        return Ok(());
    }
    assert!(
        failed.is_empty(),
        "{} plans failed; see above",
        failed.len()
    );
    if fixed {
        // Or it says little.
        assert!(skipped.len() * 10 <= plans, "too many queries were skipped");
        assert!(
            with_filters * 4 >= plans,
            "too few plans have dynamic filters"
        );
        assert!(with_rows * 3 >= plans * 2, "too few plans give rows");
        assert!(
            with_ctes * 10 >= plans,
            "too few plans have materialized CTEs"
        );
    }
    Ok(())
}

fn seeds(text: &str) -> Option<std::ops::Range<u64>> {
    match text.split_once("..") {
        None => text.parse().ok().map(|seed| seed..seed + 1),
        Some((from, "")) => Some(from.parse().ok()?..u64::MAX),
        Some((from, to)) => Some(from.parse().ok()?..to.parse().ok()?),
    }
}
