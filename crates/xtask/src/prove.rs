//! `cargo xtask prove`: each patch's tests fail without its change and pass with it.
//!
//! ```text
//!   the checkout ──copy──▶ <cache>/prove     with: all tests, in the finished tree
//!                                            for each patch
//!                                              git apply patches/undo/<name>.diff
//!                                              without: its tests
//!                                              git apply -R
//! ```
//!
//! In a copy, since cargo then has to build what was broken here and nowhere else. Its target
//! folder begins as a copy of the shared one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use walkdir::WalkDir;

use crate::apply;
use crate::check;
use crate::extension;
use crate::git;
use crate::process;
use crate::project::Project;
use crate::proof::{self, Proof};
use crate::python;
use crate::series::{self, Patch, Trailers};
use crate::target;
use crate::test;
use crate::wheel;

#[derive(clap::Args)]
pub struct Args {
    /// The patches: their file names below patches/, without `.patch`. All if not given.
    names: Vec<String>,
}

/// What one test did in one tree.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    /// It was not among those that the test program ran, or nothing compiled.
    Missing,
    /// A benchmark: its mean time.
    Took(Duration),
}

impl Outcome {
    fn shown(self) -> String {
        match self {
            Outcome::Passed => "passes".to_string(),
            Outcome::Failed => "fails".to_string(),
            Outcome::Missing => "did not run".to_string(),
            Outcome::Took(time) => format!("{time:.2?}"),
        }
    }
}

/// A row of the table.
struct Row {
    tree: String,
    patch: String,
    proof: Proof,
    without: Outcome,
    with: Outcome,
}

impl Row {
    /// A benchmark proves by its figures, which a reader judges.
    fn proves(&self) -> bool {
        match (self.without, self.with) {
            (Outcome::Took(without), Outcome::Took(with)) => without > with,
            pair => pair == (Outcome::Failed, Outcome::Passed),
        }
    }
}

pub fn run(project: &Project, args: &Args) -> Result<()> {
    apply::run(project, &apply::Args::default())?;
    let chosen = choose(project, &args.names)?;
    let (chosen, left): (Vec<_>, Vec<_>) = chosen
        .into_iter()
        .partition(|(_, patch)| proof::undo(project, patch).is_file());
    let copy = copy(project)?;
    let mut rows = Vec::new();
    for (tree, patch) in &chosen {
        for proof in &patch.message.trailers.tested_by {
            rows.push(Row {
                tree: tree.clone(),
                patch: patch.name().to_string(),
                proof: Proof::parse(proof)?,
                without: Outcome::Missing,
                with: Outcome::Missing,
            });
        }
    }
    let total = chosen.len();
    eprintln!("with all patches ...");
    let with = outcomes(&copy, &rows.iter().collect::<Vec<_>>())?;
    for (row, with) in rows.iter_mut().zip(with) {
        row.with = with;
    }
    for (number, (tree, patch)) in (1..).zip(&chosen) {
        let name = patch.name();
        eprintln!("[{number}/{total}] without {name} ...");
        let started = Instant::now();
        let of_patch = |row: &&mut Row| row.patch == name;
        let mut rows: Vec<_> = rows.iter_mut().filter(of_patch).collect();
        let without = without(&copy, tree, patch, &rows)?;
        for (row, without) in rows.iter_mut().zip(without) {
            row.without = without;
            eprintln!("  {} {}", row.proof, row.without.shown());
        }
        eprintln!("  {:.0} s", started.elapsed().as_secs_f64());
    }
    let left: String = left
        .iter()
        .map(|(_, patch)| {
            let Trailers {
                base, tested_by, ..
            } = &patch.message.trailers;
            let tested_by = tested_by.join(", ");
            format!("not run: {} ({base}), by {tested_by}\n", patch.name())
        })
        .collect();
    print!("{}{left}", table(&rows));
    let failed: Vec<_> = rows.iter().filter(|row| !row.proves()).collect();
    ensure!(
        failed.is_empty(),
        "not proved: {}",
        failed
            .iter()
            .map(|row| format!("{} by {}", row.patch, row.proof))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(())
}

fn choose(project: &Project, names: &[String]) -> Result<Vec<(String, Patch)>> {
    let mut all = Vec::new();
    for tree in project.line.tree.keys() {
        for patch in series::read(project, tree)? {
            all.push((tree.clone(), patch));
        }
    }
    for name in names {
        ensure!(
            all.iter().any(|(_, patch)| patch.name() == name),
            "no patch is called `{name}`"
        );
    }
    if !names.is_empty() {
        all.retain(|(_, patch)| names.iter().any(|name| name == patch.name()));
    }
    Ok(all)
}

/// The checkout again, in the cache, with a target folder of its own.
fn copy(project: &Project) -> Result<Project> {
    let cache = project.cache.join("prove");
    let root = cache.join("checkout");
    let target = cache.join("target");
    fs::create_dir_all(&cache)
        .with_context(|| format!("cannot make {}", cache.display()))?;
    if !target.exists() && project.target().exists() {
        eprintln!("copying the target folder to {}", target.display());
        process::run(
            process::tool("cp", "install coreutils")?
                .arg("-a")
                .arg(project.target())
                .arg(&target),
            "copy the target folder",
        )?;
    }
    if root.exists() {
        fs::remove_dir_all(&root)
            .with_context(|| format!("cannot remove {}", root.display()))?;
    }
    for entry in WalkDir::new(&project.root)
        .into_iter()
        .filter_entry(|entry| {
            // What other commands make, and the history.
            let top = entry.depth() == 1;
            !(top
                && [".git", ".venv", "dist", "target"]
                    .iter()
                    .any(|it| entry.file_name() == *it))
        })
    {
        let entry = entry.context("cannot list the checkout")?;
        let to = root.join(entry.path().strip_prefix(&project.root)?);
        if entry.file_type().is_dir() {
            fs::create_dir_all(&to)
        } else {
            fs::copy(entry.path(), &to).map(drop)
        }
        .with_context(|| format!("cannot make {}", to.display()))?;
    }
    let mut copy = Project::at(root, Some(&project.line.name))?;
    copy.target = Some(target);
    Ok(copy)
}

/// What the tests of a patch do with its change taken out.
fn without(
    copy: &Project,
    tree: &str,
    patch: &Patch,
    rows: &[&mut Row],
) -> Result<Vec<Outcome>> {
    let dir = copy.upstream().join(tree);
    let undo = proof::undo(copy, patch);
    let what = format!("apply {}", undo.display());
    process::text(git::git(&dir)?.arg("apply").arg(&undo), &what)?;
    let rows: Vec<_> = rows.iter().map(|row| &**row).collect();
    let outcomes = outcomes(copy, &rows);
    process::text(git::git(&dir)?.args(["apply", "-R"]).arg(&undo), &what)?;
    outcomes
}

/// What the test of each row does in the copy as it is; those of a package in one call.
fn outcomes(copy: &Project, rows: &[&Row]) -> Result<Vec<Outcome>> {
    let mut of_package = BTreeMap::new();
    let mut patched = None;
    for row in rows {
        match &row.proof {
            Proof::Cargo { package, test } => {
                let tests: &mut Vec<&str> = of_package.entry(package).or_default();
                tests.push(test);
            }
            Proof::Pytest { .. } if patched.is_none() => {
                patched = Some(python::patched(copy, &wheel::build(copy, false)?)?);
            }
            _ => {}
        }
    }
    let mut said = BTreeMap::new();
    for (package, tests) in of_package {
        said.insert(package, cargo_test(copy, package, &tests)?);
    }
    let mut outcomes = Vec::new();
    for row in rows {
        outcomes.push(match &row.proof {
            Proof::Cargo { package, test } => outcome(&said[package], test),
            Proof::Pytest { file, test, ours } => {
                let venv = patched.as_ref().context("no wheel was built")?;
                let mut python = venv.command("python");
                python
                    .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
                    .arg(format!("{file}::{test}"));
                if *ours {
                    let [of_patched, of_stock] =
                        [extension::patched(copy)?, extension::stock(copy)?];
                    test::extension_env(&mut python, &of_patched, &of_stock)
                        .env("STOCK_PYTHON", python::stock(copy)?.python())
                        .current_dir(&copy.root);
                } else {
                    python.current_dir(copy.upstream().join(&row.tree));
                }
                match process::output(&mut python, "run pytest")?.status.code() {
                    Some(0) => Outcome::Passed,
                    // Or killed by a signal.
                    Some(1) | None => Outcome::Failed,
                    Some(_) => Outcome::Missing,
                }
            }
            Proof::Bench {
                package,
                target,
                id,
            } => bench(copy, package, target, id)?,
            Proof::Check => match check::lock_file(copy) {
                Ok(()) => Outcome::Passed,
                Err(_) => Outcome::Failed,
            },
            Proof::None(_) => Outcome::Missing,
        });
    }
    Ok(outcomes)
}

/// Runs tests of a package and returns what cargo said.
fn cargo_test(copy: &Project, package: &str, tests: &[&str]) -> Result<String> {
    let mut cargo = target::cargo(copy, "test")?;
    cargo.args(["--locked", "--no-fail-fast"]);
    match copy.line.find(package) {
        Some((_, artifact)) => test::select_alone(&mut cargo, artifact),
        None => {
            cargo.args(["-p", package, "--tests", "-p", "reuse-features"]);
        }
    }
    // One after the other: of a test that aborts its program, the name is there.
    cargo
        .args(["--", "--test-threads", "1"])
        .args(tests)
        .env("INSTA_UPDATE", "no");
    let output = process::output(&mut cargo, "run cargo test")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !said.contains("\nrunning ") {
        bail!(
            "{package} does not compile:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(said)
}

/// What the harness said of a test.
fn outcome(said: &str, test: &str) -> Outcome {
    let begun = format!("test {test} ... ");
    match said.lines().find_map(|line| line.strip_prefix(&begun)) {
        Some("ok") => Outcome::Passed,
        // Or begun by a test program that aborted.
        Some(_) => Outcome::Failed,
        None => Outcome::Missing,
    }
}

/// The mean time of a criterion benchmark.
fn bench(copy: &Project, package: &str, target: &str, id: &str) -> Result<Outcome> {
    let mut cargo = target::cargo(copy, "bench")?;
    cargo
        .args(["--locked", "--profile", "dev", "-p", package])
        .args(["--bench", target, "--", id]);
    process::stdout(&mut cargo, &format!("run the benchmark {id}"))?;
    drop(cargo);
    let file = estimates(&copy.target(), id);
    let text = fs::read_to_string(&file)
        .with_context(|| format!("criterion left no {}", file.display()))?;
    let estimates: Estimates = serde_json::from_str(&text)
        .with_context(|| format!("cannot parse {}", file.display()))?;
    let nanoseconds = estimates.mean.point_estimate;
    Ok(Outcome::Took(Duration::from_nanos(nanoseconds as u64)))
}

/// Criterion's estimates, in nanoseconds.
#[derive(Deserialize)]
struct Estimates {
    mean: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

fn estimates(target: &Path, id: &str) -> PathBuf {
    target.join("criterion").join(id).join("new/estimates.json")
}

fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "| patch | test | without it | with it |\n| --- | --- | --- | --- |\n",
    );
    for row in rows {
        let ratio = match (row.without, row.with) {
            (Outcome::Took(without), Outcome::Took(with)) => {
                format!(" ({:.1} times)", without.as_secs_f64() / with.as_secs_f64())
            }
            _ => String::new(),
        };
        let mark = if row.proves() { "" } else { " **not proved**" };
        table.push_str(&format!(
            "| {} | {} | {}{ratio} | {}{mark} |\n",
            row.patch,
            row.proof,
            row.without.shown(),
            row.with.shown()
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\nrunning 3 tests\ntest a::fails ... FAILED\n\
                        test a::passes ... ok\ntest a::aborts ... \n";

    #[test]
    fn an_outcome_is_of_the_whole_name() {
        let of = |test| outcome(SAID, test).shown();
        assert_eq!(of("a::fails"), "fails");
        assert_eq!(of("a::passes"), "passes");
        assert_eq!(of("a::aborts"), "fails");
        assert_eq!(of("a::gone"), "did not run");
        assert_eq!(of("a::pass"), "did not run");
    }

    #[test]
    fn only_a_test_that_fails_without_and_passes_with_proves() {
        let proves = |without, with| {
            let proof = Proof::Check;
            let patch = "a".to_string();
            let row = Row {
                tree: "toys".to_string(),
                patch,
                proof,
                without,
                with,
            };
            row.proves()
        };
        use Outcome::*;
        assert!(proves(Failed, Passed));
        let [slow, fast] = [2, 1].map(|seconds| Took(Duration::from_secs(seconds)));
        assert!(proves(slow, fast));
        for (without, with) in [
            (Passed, Passed),
            (Failed, Failed),
            (Missing, Passed),
            (Failed, Missing),
            (fast, slow),
        ] {
            assert!(!proves(without, with));
        }
    }
}
