//! `cargo xtask test`: all set-up, then everything that proves the series, or a part of it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::apply;
use crate::check;
use crate::client;
use crate::extension::{self, Extension};
use crate::layout;
use crate::process::{self, Steps};
use crate::project::Project;
use crate::python::{self, Venv};
use crate::series;
use crate::sources::Artifact;
use crate::target::{self, Build};
use crate::wheel;

#[derive(clap::Args)]
pub struct Args {
    /// What to test, all parts if not given; or a patched crate, whose own tests run then.
    ///
    /// tool:     xtask, and that patches/, UPSTREAM.md and the workspace agree
    /// patches:  the Rust tests that the patches bring, and the layout of the FFI types
    /// rust:     the query shapes, random plans and the extension on the patched crates
    /// python:   the patches' Python tests and ours, on the wheel
    /// client:   the suite of a real client on the released and on the patched wheel
    #[arg(verbatim_doc_comment)]
    what: Vec<String>,

    /// Of one part or crate only the tests with these names; anything that the test program
    /// takes (`-k NAME` for python).
    #[arg(last = true)]
    filter: Vec<String>,

    /// Also run upstream's whole suites of every patched crate and package.
    #[arg(long, conflicts_with_all = ["what", "filter"])]
    upstream: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    Tool,
    Patches,
    Rust,
    Python,
    Client,
}

/// What a test run was asked for.
struct What<'a> {
    parts: Vec<Part>,
    crates: Vec<&'a Artifact>,
}

impl<'a> What<'a> {
    fn parse(project: &'a Project, names: &[String]) -> Result<Self> {
        let mut what = What {
            parts: vec![],
            crates: vec![],
        };
        if names.is_empty() {
            what.parts = Part::value_variants().to_vec();
        }
        for name in names {
            if let Ok(part) = Part::from_str(name, false) {
                what.parts.push(part);
            } else if let Some((_, artifact)) = project.line.find(name) {
                what.crates.push(artifact);
            } else {
                let crates = project.line.crates().map(|(it, _)| it.name.as_str());
                bail!(
                    "`{name}` is neither tool, patches, rust, python or client nor a \
                     patched crate; these are {}",
                    crates.collect::<Vec<_>>().join(", ")
                );
            }
        }
        Ok(what)
    }

    fn has(&self, parts: &[Part]) -> bool {
        self.parts.iter().any(|part| parts.contains(part))
    }
}

pub fn run(project: &Project, args: &Args) -> Result<()> {
    let what = What::parse(project, &args.what)?;
    let filter = args.filter.as_slice();
    ensure!(
        filter.is_empty() || what.parts.len() + what.crates.len() == 1,
        "say which part the names after `--` are of"
    );
    let made = Made::default();
    let mut steps = Steps::default();
    if what.has(&[Part::Tool]) {
        steps.add("test the tool itself", || test_tool(project, filter));
    }
    steps.add("make upstream/ from the pinned artifacts", || {
        apply::run(project, &apply::Args::default())
    });
    if what.has(&[Part::Tool]) && filter.is_empty() {
        steps.add(
            "check patches/, UPSTREAM.md and the workspace against each other",
            || check::run(project, &check::Args::default()),
        );
    }
    // First, since all else shares its build of DataFusion and the settings that it leaves.
    if what.has(&[Part::Python, Part::Client])
        || target::pyo3_settings(project)?.is_none()
            && (!what.crates.is_empty() || what.has(&[Part::Patches, Part::Rust]))
    {
        steps.add(
            "build the patched wheel (the first time: 10 to 40 minutes)",
            || set(&made.wheel, wheel::build(project, false)),
        );
    }
    if what.has(&[Part::Rust, Part::Python]) {
        steps.add("build the extension on the patched crates", || {
            set(&made.extension, extension::patched(project))
        });
        steps.add(
            "build the extension on the released crates, if it was not before",
            || set(&made.stock_extension, extension::stock(project)),
        );
    }
    for artifact in &what.crates {
        steps.add(&format!("run the tests of {}", artifact.name), || {
            crate_tests(project, artifact, filter)
        });
    }
    if what.has(&[Part::Patches]) {
        steps.add("run the Rust tests that the patches bring", || {
            patches_tests(project, filter)
        });
        if filter.is_empty() {
            steps.add("compare the layouts of the FFI types", || {
                layout::check(project)
            });
        }
    }
    if what.has(&[Part::Rust]) {
        steps.add("test the kit, the query shapes and the extension", || {
            let other_layout = extension::other_layout(project)?;
            let mut cargo = our_tests(project, args.upstream, filter)?;
            made.extension_env(&mut cargo)?
                .env("REUSE_EXTENSION_OTHER_LAYOUT", &other_layout);
            process::run(&mut cargo, "test the patched workspace")
        });
    }
    if what.has(&[Part::Python, Part::Client]) {
        steps.add("install the released and the patched wheel", || {
            set(&made.stock, python::stock(project))?;
            set(
                &made.patched,
                python::patched(project, get(&made.wheel, "the wheel")?),
            )
        });
    }
    if what.has(&[Part::Python]) {
        // The tests that the patches bring, where upstream would run them.
        steps.add("run the patches' Python tests on the wheel", || {
            patches_pytest(project, &made, args.upstream, filter)
        });
        steps.add("run our own Python tests on the wheel", || {
            our_pytest(project, &made, filter)
        });
    }
    if what.has(&[Part::Client]) {
        steps.add("run the suites of clients on both wheels", || {
            let stock = get(&made.stock, "the released wheel")?;
            client::on_wheels(project, stock, get(&made.patched, "the patched wheel")?)
        });
    }
    if args.upstream {
        steps.add("run the suites of clients on the patched crates", || {
            client::on_crates(project)
        });
        steps.add(
            "try the query shapes and random plans on the released crates",
            || released_tests(project),
        );
        steps.add("run upstream's suites of the patched crates", || {
            upstream_tests(project)
        });
    }
    steps.run("test")
}

/// What the steps make for each other.
#[derive(Default)]
struct Made {
    wheel: OnceCell<PathBuf>,
    extension: OnceCell<Extension>,
    stock_extension: OnceCell<Extension>,
    stock: OnceCell<Venv>,
    patched: OnceCell<Venv>,
}

fn set<T>(cell: &OnceCell<T>, value: Result<T>) -> Result<()> {
    let _ = cell.set(value?);
    Ok(())
}

fn get<'a, T>(cell: &'a OnceCell<T>, what: &str) -> Result<&'a T> {
    cell.get().with_context(|| format!("no step made {what}"))
}

impl Made {
    fn extension_env<'a>(&self, command: &'a mut Command) -> Result<&'a mut Command> {
        Ok(extension_env(
            command,
            get(&self.extension, "the extension")?,
            get(&self.stock_extension, "the released extension")?,
        ))
    }
}

/// Where tests find the fixture extension, built against the patched and the released
/// crates.
pub fn extension_env<'a>(
    command: &'a mut Command,
    patched: &Extension,
    stock: &Extension,
) -> &'a mut Command {
    command
        .env("REUSE_EXTENSION", &patched.library)
        .env("REUSE_EXTENSION_STOCK", &stock.library)
        .env("EXTENSION_PATCHED_WHEEL", &patched.wheel)
        .env("EXTENSION_STOCK_WHEEL", &stock.wheel)
}

fn test_tool(project: &Project, filter: &[String]) -> Result<()> {
    process::run(
        process::cargo()?
            .args(["test", "--quiet", "--manifest-path"])
            .arg(project.root.join("crates/xtask/Cargo.toml"))
            .arg("--target-dir")
            .arg(project.root.join("target/xtask"))
            .arg("--")
            .args(filter),
        "test xtask",
    )
}

/// Every test that is asked for, failed ones or not. A snapshot that differs is a failure,
/// never a new snapshot.
fn cargo_test(project: &Project) -> Result<Build> {
    let mut cargo = target::cargo(project, "test")?;
    cargo
        .args(["--locked", "--no-fail-fast"])
        .env("INSTA_UPDATE", "no");
    Ok(cargo)
}

/// Asks for the tests of a patched crate.
fn select(cargo: &mut Command, artifact: &Artifact) {
    cargo.args(["-p", &artifact.name]);
    if let Some(feature) = &artifact.tests.feature {
        cargo.args(["--features", &format!("{}/{feature}", artifact.name)]);
    }
}

/// Asks for the tests of one patched crate alone: with the features of the wheel, and
/// without what depends on the crate.
pub fn select_alone(cargo: &mut Command, artifact: &Artifact) {
    select(cargo, artifact);
    let targets = match artifact.tests.lib_only {
        true => "--lib",
        false => "--tests",
    };
    cargo.args(["-p", "reuse-features", targets]);
}

fn crate_tests(project: &Project, artifact: &Artifact, filter: &[String]) -> Result<()> {
    let mut cargo = cargo_test(project)?;
    select_alone(&mut cargo, artifact);
    cargo.arg("--");
    if filter.is_empty() {
        cargo.args(&artifact.tests.only);
        skip(project, &mut cargo);
    }
    cargo.args(filter);
    process::run(&mut cargo, &format!("run the tests of {}", artifact.name))
}

/// The Rust tests that the patches bring.
fn patches_tests(project: &Project, filter: &[String]) -> Result<()> {
    // The crates by name, whether their integration tests are asked for; and the tests.
    let mut crates = BTreeMap::<_, (&Artifact, bool)>::new();
    let mut names = vec![];
    for (tree, at) in &project.line.tree {
        for patch in series::read(project, tree)? {
            if patch.message.trailers.is_for_branch(&at.branch) {
                continue;
            }
            for (file, test) in patch.tests() {
                let artifact = at
                    .artifact
                    .iter()
                    .filter(|artifact| Path::new(&file).starts_with(&artifact.path))
                    .max_by_key(|artifact| artifact.path.components().count())
                    .with_context(|| format!("{file} belongs to no artifact"))?;
                let below = Path::new(&file).strip_prefix(&artifact.path)?;
                let entry = crates.entry(&artifact.name).or_insert((artifact, false));
                entry.1 |= below.starts_with("tests");
                names.push(test);
            }
        }
    }
    eprintln!("{} tests in {} crates", names.len(), crates.len());
    for integration in [false, true] {
        let mut cargo = cargo_test(project)?;
        // With the features of the wheel.
        cargo.args(["--lib", "-p", "reuse-features"]);
        if integration {
            cargo.arg("--tests");
        }
        let mut chosen = crates.values().filter(|it| it.1 == integration).peekable();
        if chosen.peek().is_none() {
            continue;
        }
        for (artifact, _) in chosen {
            select(&mut cargo, artifact);
        }
        cargo.arg("--");
        if filter.is_empty() {
            cargo.args(&names);
        }
        cargo.args(filter);
        process::run(&mut cargo, "run the tests that the patches bring")?;
    }
    Ok(())
}

/// Ours, and those of the example that an author copies, in one command: they have the
/// features of the wheel. `all` adds the targets that are neither a library nor a test, and
/// the documentation.
fn our_tests(project: &Project, all: bool, filter: &[String]) -> Result<Build> {
    let mut cargo = cargo_test(project)?;
    for package in [
        "reuse-tests",
        "reuse-check",
        "reuse-extension",
        "reuse-features",
    ] {
        cargo.args(["-p", package]);
    }
    if !all {
        cargo.args(["--lib", "--tests"]);
    }
    cargo.arg("--").args(filter);
    Ok(cargo)
}

/// The truth table and the random plans against the released crates: fails if these no
/// longer give what the table says of them.
fn released_tests(project: &Project) -> Result<()> {
    let mut cargo = cargo_test(project)?;
    cargo
        .arg("--manifest-path")
        .arg(project.root.join("tests/stock/Cargo.toml"));
    process::run(
        &mut cargo,
        "find what the patches repair in the released crates",
    )
}

/// All tests and doc tests of the patched crates that can run here.
fn upstream_tests(project: &Project) -> Result<()> {
    let crates: Vec<_> = project
        .line
        .crates()
        .map(|(artifact, _)| artifact)
        .collect();
    let mut cargo = cargo_test(project)?;
    cargo.args(["-p", "reuse-features"]);
    for artifact in crates.iter().filter(|it| it.tests.only.is_none()) {
        select(&mut cargo, artifact);
    }
    cargo.arg("--");
    skip(project, &mut cargo);
    process::run(&mut cargo, "run upstream's suites")?;
    drop(cargo);
    for artifact in crates.iter().filter(|it| it.tests.only.is_some()) {
        crate_tests(project, artifact, &[])?;
    }
    Ok(())
}

/// Leaves out the tests that read files which no package has.
fn skip(project: &Project, cargo: &mut Command) {
    for skipped in &project.line.skip {
        if let Some(variable) = &skipped.unless {
            if std::env::var_os(variable).is_some() {
                continue;
            }
            eprintln!(
                "skipping tests that read files which no package has: set {variable} to the \
                 folder that has them"
            );
        }
        cargo.args(skipped.tests.iter().flat_map(|test| ["--skip", test]));
    }
}

fn pytest(
    venv: &Venv,
    folder: &Path,
    what: &str,
    args: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<()> {
    let mut command = venv.command("python");
    command
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .current_dir(folder);
    args(&mut command)?;
    // With a filter, a part of the tests may have none of that name.
    let status = command
        .status()
        .with_context(|| format!("failed to run {what}: cannot start the program"))?;
    let none = command.get_args().any(|arg| arg == "-k") && status.code() == Some(5);
    ensure!(status.success() || none, "failed to run {what} ({status})");
    Ok(())
}

fn patches_pytest(
    project: &Project,
    made: &Made,
    all: bool,
    filter: &[String],
) -> Result<()> {
    let venv = get(&made.patched, "the patched wheel")?;
    let tree = project.upstream().join(project.line.wheel()?.0);
    pytest(venv, &tree, "the patches' tests", |pytest| {
        pytest.arg("python/tests").args(filter);
        Ok(())
    })?;
    // The examples in the docstrings, with upstream's settings.
    let Some(module) = &project.line.doctests else {
        return Ok(());
    };
    let whole = module.split('.').next().unwrap_or(module);
    pytest(venv, &tree, "the docstrings' examples", |pytest| {
        pytest
            .args(["-p", "doctest_names", "--doctest-modules", "--pyargs"])
            .arg(if all { whole } else { module })
            .args(filter)
            .env("PYTHONPATH", project.root.join("python/plugins"));
        Ok(())
    })
}

fn our_pytest(project: &Project, made: &Made, filter: &[String]) -> Result<()> {
    let venv = get(&made.patched, "the patched wheel")?;
    let stock = get(&made.stock, "the released wheel")?;
    let folder = project.root.join("python");
    pytest(venv, &folder, "our tests", |pytest| {
        made.extension_env(pytest)?
            .arg("tests")
            .args(filter)
            .env("STOCK_PYTHON", stock.python());
        Ok(())
    })
}
