//! The example extension, built twice from the same source: against the patched crates and
//! against the released ones. As a library for Rust hosts and as a wheel each.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process;
use crate::project::Project;
use crate::wheel;

/// What one build gives.
pub struct Extension {
    /// For Rust hosts, see `reuse_extension_interface::load`.
    pub library: PathBuf,
    /// For Python.
    pub wheel: PathBuf,
}

/// Against the patched crates; `upstream/` must be there. The wheel's package is
/// `reuse_extension`.
pub fn patched(project: &Project) -> Result<Extension> {
    let folder = project.root.join("crates/reuse-extension");
    let args = ["--features", "as-the-wheel"];
    Ok(Extension {
        library: library(project, &folder, "reuse_extension_rust", &args)?,
        wheel: package(project, &folder, &args)?,
    })
}

/// Against the released crates; one process can import its package,
/// `reuse_extension_stock`, and the patched one.
pub fn stock(project: &Project) -> Result<Extension> {
    let folder = project.root.join("tests/stock-extension");
    Ok(Extension {
        library: library(project, &folder, "reuse_extension_stock_rust", &[])?,
        wheel: package(project, &folder, &[])?,
    })
}

/// A library that every Rust host has to refuse.
pub fn other_layout(project: &Project) -> Result<PathBuf> {
    library(
        project,
        &project.root.join("crates/reuse-extension-interface"),
        "other_layout",
        &["--features", "as-the-wheel,other-layout"],
    )
}

/// Builds the library `name` of the package in `folder`.
fn library(
    project: &Project,
    folder: &Path,
    name: &str,
    args: &[&str],
) -> Result<PathBuf> {
    let mut cargo = wheel::cargo(project, "build")?;
    cargo
        .args(["--locked", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .args(["--example", name])
        .args(args);
    process::run(&mut cargo, &format!("build the library {name}"))?;
    let file = format!("{DLL_PREFIX}{name}{DLL_SUFFIX}");
    Ok(project.target().join("debug/examples").join(file))
}

/// Builds the wheel of the package in `folder`, into a folder of its own below `target/` of
/// the checkout.
fn package(project: &Project, folder: &Path, args: &[&str]) -> Result<PathBuf> {
    let name = folder.file_name().context("a package has a folder")?;
    let out = project.root.join("target/extensions").join(name);
    if out.exists() {
        fs::remove_dir_all(&out)
            .with_context(|| format!("cannot remove {}", out.display()))?;
    }
    wheel::maturin(project, folder, &out, args)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Name and version of each package that a lock file holds.
    fn locked(file: &str) -> BTreeSet<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join(file)).unwrap();
        let lock: toml::Table = text.parse().unwrap();
        let packages = lock["package"].as_array().unwrap();
        let text = |value: &toml::Value| value.as_str().unwrap().to_string();
        packages
            .iter()
            .map(|package| (text(&package["name"]), text(&package["version"])))
            .collect()
    }

    /// Any difference makes cargo build DataFusion once more, without a word.
    #[test]
    fn both_builds_have_the_same_dependencies() {
        let patched = locked("Cargo.lock");
        for (file, package) in [
            ("tests/stock-extension/Cargo.lock", "reuse-extension-stock"),
            ("tests/stock/Cargo.lock", "reuse-tests-stock"),
        ] {
            let released = locked(file);
            let other: Vec<_> = released
                .difference(&patched)
                .filter(|(name, _)| name != package)
                .collect();
            assert!(other.is_empty(), "only in {file}: {other:?}");
        }
    }
}
