//! `cargo xtask wheel`: the patched `datafusion` wheel, with every feature of the released
//! one, in `dist/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::apply;
use crate::process;
use crate::project::Project;
use crate::python;

#[derive(clap::Args)]
pub struct Args {
    /// Optimise as the released wheel is: takes far longer, for measurements and for use.
    #[arg(long)]
    release: bool,
}

pub fn run(project: &Project, args: &Args) -> Result<()> {
    apply::run(project)?;
    let wheel = build(project, args.release)?;
    println!("{}", wheel.display());
    eprintln!(
        "Install it in place of the released wheel: pip install {}\n\
         A reset reaches the operators of an FFI extension when it was built against the \
         same patched crates.\n\
         `cargo xtask snippet` prints what their Cargo.toml needs.",
        wheel.display()
    );
    Ok(())
}

/// Builds the wheel and returns its place in `dist/`; `upstream/` must be there.
pub fn build(project: &Project, release: bool) -> Result<PathBuf> {
    let out = tempfile::tempdir().context("cannot make a temporary folder")?;
    // Its pyproject.toml names the manifest, the module and the feature `substrait`, and
    // asks for a locked build: the lock file is the workspace's.
    let folder = project.upstream().join("datafusion-python");
    let args: &[&str] = if release { &["--release"] } else { &[] };
    let built = maturin(project, &folder, out.path(), args)?;
    let name = built
        .file_name()
        .and_then(|name| name.to_str())
        .context("the wheel has no name")?;
    ensure!(
        name.starts_with("datafusion-") && name.contains("+reuse."),
        "{name} does not carry the label of a patched build: set it in Cargo.toml, \
         [workspace.package] version"
    );
    let wheel = project.dist().join(name);
    fs::create_dir_all(project.dist())
        .and_then(|()| fs::copy(&built, &wheel))
        .with_context(|| format!("cannot write {}", wheel.display()))?;
    Ok(wheel)
}

/// Builds the wheel of the package in `folder` into `out`, a folder that holds nothing
/// else, and returns its place there.
pub fn maturin(
    project: &Project,
    folder: &Path,
    out: &Path,
    args: &[&str],
) -> Result<PathBuf> {
    project.claim_target()?;
    let tools = python::tools(project)?;
    process::run(
        tools
            .command("maturin")
            .current_dir(folder)
            .args(["build", "--out"])
            .arg(out)
            .args(args)
            .env("CARGO_TARGET_DIR", project.target())
            .env("PROTOC", tools.program("protoc")?),
        &format!("build the wheel of {}", folder.display()),
    )?;
    let built: Vec<_> = fs::read_dir(out)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot list {}", out.display()))?;
    match built.as_slice() {
        [wheel] => Ok(wheel.path()),
        _ => bail!("maturin built {} files instead of a wheel", built.len()),
    }
}

/// `cargo <subcommand>` in the patched workspace with what the wheel's build has, since
/// any difference would make cargo build DataFusion once more: protoc, and the PyO3
/// settings that maturin wrote.
pub fn cargo(project: &Project, subcommand: &str) -> Result<Command> {
    let mut cargo = project.workspace_cargo(subcommand)?;
    cargo.env("PROTOC", python::tools(project)?.program("protoc")?);
    let folder = project.target().join("maturin");
    let settings: Vec<_> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with("-abi3.txt"))
        .collect();
    match settings.as_slice() {
        [] => {}
        [settings] => {
            cargo.env("PYO3_CONFIG_FILE", settings);
        }
        _ => bail!(
            "{} holds the settings of several Pythons: remove that folder",
            folder.display()
        ),
    }
    Ok(cargo)
}
