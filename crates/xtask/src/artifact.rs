//! Upstream's released files: fetched by package name, checked, unpacked.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;

use crate::digest::sha256_of_file;
use crate::process;
use crate::project::Project;
use crate::python;
use crate::sources::{Artifact, Registry};

/// The artifact's file, of the pinned SHA-256, fetched if this machine has not had it yet.
pub fn fetch(project: &Project, artifact: &Artifact) -> Result<PathBuf> {
    let file = project.cache.join("artifacts").join(artifact.file_name());
    if !file.exists() {
        eprintln!("fetching {} {}", artifact.name, artifact.version);
        // Into a temporary folder first: a file in the cache is a whole one.
        fs::create_dir_all(project.cache.join("artifacts"))
            .context("cannot make the artifact cache")?;
        let folder = tempfile::tempdir_in(&project.cache)
            .context("cannot make a temporary folder in the cache")?;
        let fetched = match artifact.registry {
            Registry::Cargo => fetch_crate(artifact, folder.path()),
            Registry::Pip => fetch_sdist(project, artifact, folder.path()),
        }
        .with_context(|| {
            format!("cannot fetch {} {}", artifact.name, artifact.version)
        })?;
        verify(artifact, &fetched)?;
        let whole = folder.path().join("whole");
        fs::copy(&fetched, &whole)
            .and_then(|_| fs::rename(&whole, &file))
            .with_context(|| format!("cannot store {}", file.display()))?;
    }
    verify(artifact, &file)?;
    Ok(file)
}

/// Cargo puts the `.crate` into its own cache when asked what is in it.
fn fetch_crate(artifact: &Artifact, folder: &Path) -> Result<PathBuf> {
    let package = format!("{}@{}", artifact.name, artifact.version);
    // In an empty folder, so that no workspace's patches are taken for the package.
    process::stdout(
        process::cargo()?
            .args(["info", "--quiet", "--registry", "crates-io"])
            .arg(&package)
            .current_dir(folder),
        "fetch a crate with cargo",
    )?;
    let home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => dirs::home_dir().context("HOME is not set")?.join(".cargo"),
    };
    let cache = home.join("registry/cache");
    for registry in fs::read_dir(&cache)
        .with_context(|| format!("cannot list {}", cache.display()))?
    {
        let file = registry
            .context("cannot list cargo's registries")?
            .path()
            .join(artifact.file_name());
        if file.exists() {
            return Ok(file);
        }
    }
    bail!(
        "cargo left no {} in {}",
        artifact.file_name(),
        cache.display()
    )
}

/// pip asks the sdist's build backend for its metadata, so it needs the tools.
fn fetch_sdist(project: &Project, artifact: &Artifact, folder: &Path) -> Result<PathBuf> {
    let tools = python::tools(project)?;
    process::stdout(
        tools
            .command("python")
            .args(["-m", "pip", "download", "--quiet", "--no-deps"])
            .args(["--no-build-isolation", "--no-binary", &artifact.name])
            .arg("--dest")
            .arg(folder)
            .arg(format!("{}=={}", artifact.name, artifact.version)),
        "fetch an sdist with pip",
    )?;
    let file = folder.join(artifact.file_name());
    ensure!(file.exists(), "pip left no {}", artifact.file_name());
    Ok(file)
}

pub fn verify(artifact: &Artifact, file: &Path) -> Result<()> {
    let found = sha256_of_file(file)?;
    let size = fs::metadata(file)
        .map(|data| data.len())
        .unwrap_or_default();
    ensure!(
        found == artifact.sha256,
        "{name} {version} is not what patches/sources.toml pins:\n\
         \x20 pinned SHA-256 {pinned}\n\
         \x20 found  SHA-256 {found}\n\
         \x20 in {file} ({size} bytes)\n\
         If the file was cut short, delete it and run this again; if the pin is wrong, \
         correct it in patches/sources.toml.",
        name = artifact.name,
        version = artifact.version,
        pinned = artifact.sha256,
        file = file.display(),
    );
    Ok(())
}

/// Unpacks the archive's one folder as `to`.
pub fn unpack(artifact: &Artifact, file: &Path, to: &Path) -> Result<()> {
    let what = || format!("cannot unpack {}", file.display());
    let parent = tempfile::tempdir_in(to.parent().context("no parent folder")?)
        .with_context(what)?;
    let reader = File::open(file).with_context(what)?;
    let mut archive = tar::Archive::new(GzDecoder::new(reader));
    // Cargo would take a file of years ago for one that it has built already.
    archive.set_preserve_mtime(false);
    archive.unpack(parent.path()).with_context(what)?;
    let inner = parent.path().join(artifact.folder());
    ensure!(
        inner.is_dir(),
        "{} holds no {}/",
        file.display(),
        artifact.folder()
    );
    if to.exists() {
        // The repository's root, under which other artifacts may lie already.
        for entry in fs::read_dir(&inner).with_context(what)? {
            let entry = entry.with_context(what)?;
            fs::rename(entry.path(), to.join(entry.file_name())).with_context(what)?;
        }
        return Ok(());
    }
    fs::rename(&inner, to).with_context(what)
}
