//! The fixture extension, built twice from the same source: against the patched crates and
//! against the released ones. As a library for Rust hosts and as a wheel each.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cached;
use crate::process;
use crate::project::Project;
use crate::target;

/// What one build gives.
pub struct Extension {
    /// For Rust hosts, see `reuse_extension_interface::load`.
    pub library: PathBuf,
    /// For Python.
    pub wheel: PathBuf,
}

/// Against the patched crates; `upstream/` must be there. The wheel's package is
/// `reuse_fixture`.
pub fn patched(project: &Project) -> Result<Extension> {
    let folder = project.root.join("crates/reuse-fixture");
    let out = project.root.join("target/extension");
    if out.exists() {
        fs::remove_dir_all(&out)
            .with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let manifest = folder.join("Cargo.toml").display().to_string();
    let args = ["--manifest-path", &manifest, "--features", "sql"];
    Ok(Extension {
        library: library(project, "reuse_fixture_rust", &args)?,
        wheel: target::maturin(project, &folder, &out, &[])?,
    })
}

/// What the build against the released crates is made of.
const STOCK_SOURCES: [&str; 6] = [
    "crates/reuse-extension/src",
    "crates/reuse-extension-interface",
    "crates/reuse-features",
    "crates/reuse-fixture/src",
    "python/requirements/tools.txt",
    "tests/stock-extension",
];

/// Against the released crates; one process can import its package, `reuse_fixture_stock`,
/// and the patched one. No patch has a part in it, so it is built once and kept.
pub fn stock(project: &Project) -> Result<Extension> {
    let also = [&*project.line.name, &process::rustc()?];
    let key = cached::key(&project.root, &STOCK_SOURCES, &also)?;
    let name = "reuse_fixture_stock_rust";
    let folder = project.root.join("tests/stock-extension");
    let built = cached::cached(&project.cache.join("stock"), &key, |out| {
        let manifest = folder.join("Cargo.toml").display().to_string();
        let library = library(project, name, &["--manifest-path", &manifest])?;
        fs::copy(&library, out.join(file(name)))
            .with_context(|| format!("cannot copy {}", library.display()))?;
        target::maturin(project, &folder, &out.join("wheel"), &[])?;
        Ok(())
    })?;
    let wheel = fs::read_dir(built.join("wheel"))?
        .next()
        .with_context(|| format!("{} has no wheel", built.display()))??;
    Ok(Extension {
        library: built.join(file(name)),
        wheel: wheel.path(),
    })
}

/// A library that every Rust host has to refuse.
pub fn other_layout(project: &Project) -> Result<PathBuf> {
    let args = [
        "--package",
        "reuse-features",
        "--package",
        "reuse-extension-interface",
        "--features",
        "reuse-extension-interface/other-layout",
    ];
    library(project, "other_layout", &args)
}

/// Builds the library `name` of the packages that `args` tell.
fn library(project: &Project, name: &str, args: &[&str]) -> Result<PathBuf> {
    let mut cargo = target::cargo(project, "build")?;
    cargo.args(["--locked", "--example", name]).args(args);
    process::run(&mut cargo, &format!("build the library {name}"))?;
    Ok(project.target().join("debug/examples").join(file(name)))
}

fn file(library: &str) -> String {
    format!("{DLL_PREFIX}{library}{DLL_SUFFIX}")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::*;

    type Package = (String, String);

    /// Name and version of each package that a lock file holds, and of what it depends on.
    fn locked(file: &str) -> BTreeMap<Package, BTreeSet<Package>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join(file)).unwrap();
        let lock: toml::Table = text.parse().unwrap();
        let packages = lock["package"].as_array().unwrap();
        let text = |value: &toml::Value| value.as_str().unwrap().to_string();
        let versions: BTreeMap<_, _> = packages
            .iter()
            .map(|package| (text(&package["name"]), text(&package["version"])))
            .collect();
        // `name version`, or `name` where there is one version.
        let dependency = |value: &toml::Value| match text(value).split_once(' ') {
            Some((name, version)) => (name.to_string(), version.to_string()),
            None => (text(value), versions[&text(value)].clone()),
        };
        packages
            .iter()
            .map(|package| {
                let dependencies =
                    package.get("dependencies").and_then(|it| it.as_array());
                let dependencies = dependencies.into_iter().flatten().map(dependency);
                let package = (text(&package["name"]), text(&package["version"]));
                (package, dependencies.collect())
            })
            .collect()
    }

    /// Any difference makes cargo build most of it once more, without a word.
    #[test]
    fn both_builds_have_the_same_dependencies() {
        let patched = locked("Cargo.lock");
        for (file, own) in [
            ("tests/stock-extension/Cargo.lock", "reuse-fixture-stock"),
            ("tests/stock/Cargo.lock", "reuse-tests-stock"),
        ] {
            for (package, dependencies) in locked(file) {
                if package.0 == own {
                    continue;
                }
                let Some(there) = patched.get(&package) else {
                    panic!("only in {file}: {package:?}");
                };
                let other: Vec<_> = dependencies.difference(there).collect();
                assert!(other.is_empty(), "{package:?} of {file} asks for {other:?}");
            }
        }
    }

    /// What is not part of the key could change, and the old build would be found.
    #[test]
    fn all_sources_of_the_stock_build_are_in_its_key() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for source in STOCK_SOURCES {
            assert!(root.join(source).exists(), "{source}");
        }
        for (package, _) in locked("tests/stock-extension/Cargo.lock") {
            let folder = format!("crates/{}", package.0);
            if root.join(&folder).exists() {
                assert!(STOCK_SOURCES.contains(&&*folder), "{folder}");
            }
        }
    }
}
