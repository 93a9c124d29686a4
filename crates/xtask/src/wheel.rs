//! `cargo xtask wheel`: the patched `datafusion` wheel, with every feature of the released
//! one, in `dist/`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::apply;
use crate::project::Project;
use crate::released;
use crate::target;

#[derive(clap::Args)]
pub struct Args {
    /// Optimise as the released wheel is: takes far longer, for measurements and for use. Its
    /// label goes on record, so that no other patches are built under it.
    #[arg(long)]
    release: bool,
}

pub fn run(project: &Project, args: &Args) -> Result<()> {
    apply::run(project, &apply::Args::default())?;
    if args.release {
        released::check(project)?;
    }
    let wheel = build(project, args.release)?;
    if args.release {
        released::record(project)?;
    }
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
    let (tree, artifact) = project.line.wheel()?;
    let folder = project.upstream().join(tree);
    let args: &[&str] = if release { &["--release"] } else { &[] };
    let built = target::maturin(project, &folder, out.path(), args)?;
    let name = built
        .file_name()
        .and_then(|name| name.to_str())
        .context("the wheel has no name")?;
    ensure!(
        name.starts_with(&format!("{}-", artifact.name)) && name.contains("+reuse."),
        "{name} does not carry the label of a patched build: set it in \
         patches/sources.toml, `package.version`"
    );
    let wheel = project.dist().join(name);
    fs::create_dir_all(project.dist())
        .and_then(|()| fs::copy(&built, &wheel))
        .with_context(|| format!("cannot write {}", wheel.display()))?;
    Ok(wheel)
}
