//! `cargo xtask check`: everything that says the same thing twice says the same thing.
//!
//! Without sources: the series, the patches, their checksums, UPSTREAM.md and the label of
//! the wheel. With `upstream/` there: the pins, the round trip, the tests that the patches
//! name, the workspace's manifest, cargo's own view of the `[patch]` table, and the
//! formatting. Every finding is printed, then the command fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::apply::{self, OnConflict, Stamp};
use crate::artifact;
use crate::digest::sha256;
use crate::export;
use crate::git;
use crate::process;
use crate::project::Project;
use crate::proof::{self, Proof};
use crate::released;
use crate::series::{self, Patch};
use crate::sources::Tree;
use crate::target;
use crate::workspace;

#[derive(clap::Args, Default)]
pub struct Args {
    /// Also run clippy on the patched crates and on ours, warnings denied.
    #[arg(long)]
    clippy: bool,
}

type Check = fn(&Project) -> Result<()>;

pub fn run(project: &Project, args: &Args) -> Result<()> {
    let mut checks: Vec<(&str, Check)> = vec![
        ("checksums", checksums),
        ("patches", patches),
        ("UPSTREAM.md", upstream_md),
        ("label", label),
    ];
    let with_sources = Stamp::read(&project.upstream()).is_some();
    if with_sources {
        checks.push(("pinned artifacts", pins));
        checks.push(("round trip", round_trip));
        checks.push(("proofs", proofs));
        checks.push(("Cargo.toml", manifest));
        checks.push(("Cargo.lock", lock_file));
        checks.push(("rustfmt", rustfmt));
    }
    if args.clippy {
        ensure!(
            with_sources,
            "--clippy needs upstream/: run `cargo xtask apply`"
        );
        checks.push(("clippy", clippy));
    }
    let mut failed = Vec::new();
    for (name, check) in checks {
        match check(project) {
            Ok(()) => eprintln!("check {name}: ok"),
            Err(error) => {
                eprintln!("check {name}: FAILED\n  {error:#}");
                failed.push(name);
            }
        }
    }
    if !with_sources {
        eprintln!("upstream/ is not there: run `cargo xtask apply` to check the rest");
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn checksums(project: &Project) -> Result<()> {
    let file = project.patches().join(export::SUMS);
    let written = fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let mut listed = BTreeSet::new();
    for line in written.lines() {
        let (sum, path) = line
            .split_once("  ")
            .with_context(|| format!("{}: not a checksum: {line}", file.display()))?;
        listed.insert(path);
        let bytes = fs::read(project.patches().join(path))
            .with_context(|| format!("patches/{path} is in SHA256SUMS but not there"))?;
        ensure!(
            sha256(&bytes) == sum,
            "patches/{path} was changed by hand: change the commit in upstream/ and run \
             `cargo xtask export`"
        );
    }
    for tree in project.line.tree.keys() {
        for patch in series::read(project, tree)? {
            let path = patch.path.to_string_lossy().into_owned();
            ensure!(
                listed.contains(path.as_str()),
                "patches/{path} is not in SHA256SUMS: run `cargo xtask export`"
            );
        }
    }
    Ok(())
}

fn patches(project: &Project) -> Result<()> {
    for (name, tree) in &project.line.tree {
        let patches = series::read(project, name)?;
        for (i, patch) in patches.iter().enumerate() {
            check_patch(project, tree, patch, &patches[..i])
                .with_context(|| format!("patches/{}", patch.path.display()))?;
        }
    }
    Ok(())
}

fn check_patch(
    project: &Project,
    tree: &Tree,
    patch: &Patch,
    before: &[Patch],
) -> Result<()> {
    let message = &patch.message;
    ensure!(
        patch.path.file_name().is_some_and(|name| {
            name.to_str() == Some(&series::file_name(&message.subject))
        }),
        "its subject asks for the name {}",
        series::file_name(&message.subject)
    );
    let is_local = patch.path.starts_with("local");
    ensure!(
        is_local == message.trailers.is_local(),
        "`Forwarded: {}` does not belong into this folder",
        message.trailers.forwarded
    );
    if !is_local {
        for heading in &tree.headings {
            ensure!(
                message.body.lines().any(|line| line == heading),
                "the message lacks upstream's heading `{heading}`"
            );
        }
    }
    let base = &message.trailers.base;
    let is_for_branch =
        |patch: &Patch| patch.message.trailers.is_for_branch(&tree.branch);
    let for_branch = is_for_branch(patch);
    ensure!(
        for_branch || is_local || !before.iter().any(is_for_branch),
        "it applies to line {} and follows one that does not: change their order in the \
         `series` file beside it",
        project.line.name
    );
    ensure!(
        for_branch
            || tree.artifact.iter().any(|pinned| {
                // By the repository's name too: the sdist's is that of a crate.
                [pinned.name.as_str(), tree.name()]
                    .iter()
                    .any(|name| *base == format!("{name} {}", pinned.version))
            }),
        "`Base: {base}` is neither an artifact of line {} nor a commit of {}",
        project.line.name,
        tree.branch
    );
    let needs = &message.trailers.depends_on;
    for needs in needs.iter().filter(|needs| *needs != "none") {
        ensure!(
            before.iter().any(|patch| patch.message.subject == *needs),
            "`Depends-on: {needs}` is not the subject of an earlier patch"
        );
    }
    ensure!(
        !message.trailers.tested_by.is_empty(),
        "it names no test that fails without it: add a `Tested-by:` trailer"
    );
    let mut needs_undo = !for_branch;
    for proof in &message.trailers.tested_by {
        needs_undo &= !matches!(Proof::parse(proof)?, Proof::None(_));
        ensure!(
            is_local || !proof.starts_with("nothing"),
            "what is filed needs a test: `Tested-by: {proof}`"
        );
    }
    ensure!(
        !needs_undo || proof::undo(project, patch).is_file(),
        "there is no {}, which takes its change out for `cargo xtask prove`",
        proof::undo(project, patch).display()
    );
    // Outside of any repository: in one, git would skip what is not below it.
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let file = project.patches().join(&patch.path);
    process::text(
        git::git(folder.path())?
            .args(["apply", "--numstat"])
            .arg(file),
        "parse the diff",
    )?;
    Ok(())
}

fn upstream_md(project: &Project) -> Result<()> {
    let text = fs::read_to_string(project.root.join("UPSTREAM.md"))
        .context("cannot read UPSTREAM.md")?;
    let (_, found, _) = export::split_table(&text)?;
    let wanted = export::table(project)?;
    for (found, wanted) in found.lines().zip(wanted.lines()) {
        ensure!(
            found == wanted,
            "UPSTREAM.md disagrees with the headers of the patches:\n  it says  {found}\n  \
             they say {wanted}\n  Change the commit in upstream/ and run \
             `cargo xtask export`, which writes the table."
        );
    }
    ensure!(
        found.lines().count() == wanted.lines().count(),
        "UPSTREAM.md does not list each patch once: run `cargo xtask export`"
    );
    Ok(())
}

/// A label that was handed out stands for the same patches for ever.
fn label(project: &Project) -> Result<()> {
    released::check(project)
}

/// The tests that the patches name.
fn proofs(project: &Project) -> Result<()> {
    for (name, tree) in &project.line.tree {
        for patch in series::read(project, name)? {
            if patch.message.trailers.is_for_branch(&tree.branch) {
                continue;
            }
            for proof in &patch.message.trailers.tested_by {
                Proof::parse(proof)?
                    .exists(project, name)
                    .with_context(|| format!("patches/{}", patch.path.display()))?;
            }
        }
    }
    Ok(())
}

/// The root's manifest against the pins and the released packages.
fn manifest(project: &Project) -> Result<()> {
    let found = fs::read_to_string(project.root.join("Cargo.toml"))
        .context("cannot read Cargo.toml")?;
    let wanted = workspace::manifest(project, &project.upstream())?;
    for (found, wanted) in found.lines().zip(wanted.lines()) {
        ensure!(
            found == wanted,
            "Cargo.toml is not the one of line {}:\n  it says    {found}\n  instead of \
             {wanted}\n  `cargo xtask apply` writes it",
            project.line.name
        );
    }
    ensure!(
        found.len() == wanted.len(),
        "Cargo.toml is not the one of line {}: `cargo xtask apply` writes it",
        project.line.name
    );
    Ok(())
}

/// The pinned hashes against the files that they were pinned for.
fn pins(project: &Project) -> Result<()> {
    for pinned in project.line.artifacts() {
        artifact::fetch(project, pinned)?;
    }
    Ok(())
}

/// Import, export, compare bytes; and the same for what `upstream/` holds now.
fn round_trip(project: &Project) -> Result<()> {
    let upstream = project.upstream();
    let stamp = Stamp::read(&upstream).context("upstream/ has no stamp")?;
    ensure!(
        stamp.matches(project)?,
        "upstream/ was made from other patches or pins: run `cargo xtask apply`"
    );
    let edits = apply::unexported(project, &stamp)?;
    ensure!(
        edits.is_empty(),
        "upstream/ holds work that is not in patches/; `cargo xtask export` writes it:\n\
         {edits}"
    );
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    apply::build(project, folder.path(), OnConflict::Fail)?;
    for tree in project.line.tree.keys() {
        let dir = folder.path().join(tree);
        for (path, bytes) in export::tree_files(project, &dir, tree)? {
            let found = fs::read(project.patches().join(&path))
                .with_context(|| format!("cannot read patches/{}", path.display()))?;
            ensure!(
                found == bytes,
                "patches/{} does not come back byte for byte when it is applied and \
                 exported: run `cargo xtask export` and look at the difference",
                path.display()
            );
        }
        let trees = ["rev-parse", "HEAD^{tree}"];
        ensure!(
            git::text(&dir, &trees, "read the tree")?
                == git::text(&upstream.join(tree), &trees, "read the tree")?,
            "upstream/{tree} is not what the series gives: run `cargo xtask export`"
        );
    }
    Ok(())
}

/// That cargo takes the workspace as it is, without a warning.
pub fn lock_file(project: &Project) -> Result<()> {
    let what = "resolve the workspace with Cargo.lock as it is";
    let mut cargo = process::cargo()?;
    cargo
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(&project.root);
    let output = process::output(&mut cargo, what)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && !said.contains("warning: "),
        "failed to {what}:\n{said}"
    );
    workspace::all_patched(project, &project.root.join("Cargo.lock"))
}

/// Upstream's settings on what the patches touch, ours on ours.
fn rustfmt(project: &Project) -> Result<()> {
    for (name, tree) in &project.line.tree {
        let mut files = BTreeSet::new();
        for patch in series::read(project, name)? {
            // What the branch has is not here.
            if !patch.message.trailers.is_for_branch(&tree.branch) {
                files.extend(patch.touched());
            }
        }
        for file in files.iter().filter(|file| file.ends_with(".rs")) {
            let path = project.upstream().join(name).join(file);
            check_format(&path, &tree.rustfmt)
                .with_context(|| format!("upstream/{name}/{file}"))?;
        }
    }
    let ours = git::text(
        &project.root,
        &["ls-files", "-co", "--exclude-standard", "*.rs"],
        "list our sources",
    )?;
    for file in ours.lines() {
        check_format(&project.root.join(file), "max_width=90")
            .with_context(|| file.to_string())?;
    }
    Ok(())
}

fn check_format(file: &Path, settings: &str) -> Result<()> {
    let mut rustfmt = process::tool("rustfmt", "run `rustup component add rustfmt`")?;
    rustfmt.args(["--check", "--edition", "2024"]);
    if !settings.is_empty() {
        rustfmt.args(["--config", settings]);
    }
    process::stdout(rustfmt.arg(file), "find it formatted")?;
    Ok(())
}

fn clippy(project: &Project) -> Result<()> {
    // The tests and benches of some read files that the packages come without.
    let (lib_only, all): (Vec<_>, Vec<_>) = project
        .line
        .crates()
        .map(|(artifact, _)| artifact)
        .partition(|artifact| artifact.tests.lib_only);
    let mut cargo = target::cargo(project, "clippy")?;
    cargo.args(["--workspace", "--all-targets"]);
    for artifact in &lib_only {
        cargo.args(["--exclude", &artifact.name]);
    }
    for artifact in all {
        if let Some(feature) = &artifact.tests.feature {
            cargo.args(["--features", &format!("{}/{feature}", artifact.name)]);
        }
    }
    cargo.args(["--", "-D", "warnings"]);
    process::run(&mut cargo, "run clippy on the patched workspace")?;
    drop(cargo);

    let mut cargo = target::cargo(project, "clippy")?;
    cargo.arg("--lib");
    for artifact in lib_only {
        cargo.args(["-p", &artifact.name]);
    }
    cargo.args(["--", "-D", "warnings"]);
    process::run(&mut cargo, "run clippy on the libraries of the rest")?;
    drop(cargo);

    process::run(
        process::cargo()?
            .args(["clippy", "--all-targets", "--manifest-path"])
            .arg(project.root.join("crates/xtask/Cargo.toml"))
            .arg("--target-dir")
            .arg(project.root.join("target/xtask"))
            .args(["--", "-D", "warnings"]),
        "run clippy on xtask",
    )
}
