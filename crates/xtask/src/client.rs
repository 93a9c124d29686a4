//! Clients: packages that build on DataFusion, whose own tests show what the patches do to
//! them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use crate::artifact;
use crate::process;
use crate::project::Project;
use crate::python::Venv;
use crate::sources::{Client, Registry};
use crate::target;
use crate::workspace::{self, Features};

/// Runs the suites of the clients from pip, on the released and on the patched wheel.
pub fn on_wheels(project: &Project, stock: &Venv, patched: &Venv) -> Result<()> {
    for (name, client) in &project.line.client {
        let Some(script) = &client.script else {
            continue;
        };
        let mut python = patched.command("python");
        python
            .arg(project.root.join(script))
            .arg("--sdist")
            .arg(artifact::fetch(project, &client.artifact)?)
            .arg("--stock")
            .arg(stock.python())
            .arg("--patched")
            .arg(patched.python());
        let what =
            format!("compare {name}'s tests on the released and the patched wheel");
        process::run(&mut python, &what)?;
    }
    Ok(())
}

/// Runs the suites of the clients from cargo on the patched crates.
pub fn on_crates(project: &Project) -> Result<()> {
    for (name, client) in &project.line.client {
        if client.artifact.registry == Registry::Cargo {
            on_patched_crates(project, name, client)?;
        }
    }
    Ok(())
}

fn on_patched_crates(project: &Project, name: &str, client: &Client) -> Result<()> {
    let root = project.target().join("client").join(name);
    let manifest = unpack(project, client, &root)?;
    process::stdout(
        target::cargo(project, "metadata")?
            .args(["--format-version", "1", "--manifest-path"])
            .arg(&manifest),
        &format!("resolve {name} with the patched crates"),
    )?;
    // Otherwise the tests would pass on the released crates, without a word.
    workspace::all_patched(project, &root.join("Cargo.lock")).with_context(|| {
        format!(
            "{name} {} does not build on the patched crates: pin one in \
             patches/sources.toml that takes the versions of line {}",
            client.artifact.version, project.line.name
        )
    })?;
    if let Some(folder) = &client.sql_tests {
        let folder = root.join(&client.artifact.path).join(folder);
        let (removed, left) = remove_incomplete(&folder)?;
        eprintln!(
            "{left} files of SQL tests, without {removed} that read files which the \
             package does not have"
        );
    }
    process::run(
        target::cargo(project, "test")?
            .args(["--locked", "--no-fail-fast", "--manifest-path"])
            .arg(&manifest)
            .args(["-p", &client.artifact.name])
            .args(&client.args),
        &format!("run the tests of {name}"),
    )
}

/// Removes the `.slt` files in `folder`, and in those below, that name a file above their
/// package, and returns how many these are, and how many are left.
fn remove_incomplete(folder: &Path) -> Result<(usize, usize)> {
    let (mut removed, mut left) = (0, 0);
    let what = || format!("cannot look for SQL tests in {}", folder.display());
    for entry in fs::read_dir(folder).with_context(what)? {
        let path = entry.with_context(what)?.path();
        if path.is_dir() {
            let below = remove_incomplete(&path)?;
            (removed, left) = (removed + below.0, left + below.1);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            let what = || format!("cannot look into {}", path.display());
            if fs::read_to_string(&path)
                .with_context(what)?
                .contains("../")
            {
                fs::remove_file(&path).with_context(what)?;
                removed += 1;
            } else {
                left += 1;
            }
        }
    }
    Ok((removed, left))
}

/// Makes `root` a workspace with the client where its repository has it, since a test may
/// read the workspace's files, and returns the workspace's manifest.
fn unpack(project: &Project, client: &Client, root: &Path) -> Result<PathBuf> {
    let pinned = &client.artifact;
    ensure!(
        pinned.path != Path::new(""),
        "patches/sources.toml does not say where the repository of {} has it: add `path`",
        pinned.name
    );
    let file = artifact::fetch(project, pinned)?;
    if root.exists() {
        fs::remove_dir_all(root)
            .with_context(|| format!("cannot remove {}", root.display()))?;
    }
    let folder = root.join(&pinned.path);
    let parent = folder.parent().context("a client has a folder")?;
    fs::create_dir_all(parent)
        .with_context(|| format!("cannot make {}", parent.display()))?;
    artifact::unpack(pinned, &file, &folder)?;

    let mut member = workspace::read(&folder.join("Cargo.toml"))?;
    workspace::depend_on_features(project, &mut member, Features::OfWheel)
        .with_context(|| format!("in the manifest of {}", pinned.name))?;
    workspace::write(&folder.join("Cargo.toml"), &toml::to_string(&member)?)?;

    let mut manifest = toml::toml! {
        [workspace]
        resolver = "3"
    };
    let members = vec![pinned.path.display().to_string()];
    workspace::table(&mut manifest, "workspace")?
        .insert("members".into(), members.into());
    manifest.extend(workspace::profile(project)?);
    manifest.extend(workspace::patch(project, root, |_| true)?);
    let path = root.join("Cargo.toml");
    workspace::write(&path, &toml::to_string(&manifest)?)?;

    let mut lock = workspace::read(&project.root.join("Cargo.lock"))?;
    let own = folder.join("Cargo.lock");
    packages(&mut lock)?
        .retain(|package| !name(package).is_some_and(|it| client.own_lock.contains(&it)));
    add_missing(&mut lock, workspace::read(&own)?)
        .with_context(|| format!("cannot use {}", own.display()))?;
    workspace::write(&root.join("Cargo.lock"), &toml::to_string(&lock)?)?;
    Ok(path)
}

/// Adds to a lock file the packages of another that it holds in no version: all else then
/// stays as the checkout has it, and a newer release of one of them changes nothing.
fn add_missing(lock: &mut Table, mut other: Table) -> Result<()> {
    let packages = packages(lock)?;
    let known: BTreeSet<_> = packages.iter().filter_map(name).collect();
    let other = std::mem::take(self::packages(&mut other)?);
    let missing = other
        .into_iter()
        .filter(|package| name(package).is_some_and(|name| !known.contains(&name)));
    packages.extend(missing);
    Ok(())
}

fn packages(lock: &mut Table) -> Result<&mut Vec<Value>> {
    lock.get_mut("package")
        .and_then(Value::as_array_mut)
        .context("it lists no packages")
}

fn name(package: &Value) -> Option<String> {
    Some(package.get("name")?.as_str()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_brings_only_what_the_checkout_has_in_no_version() {
        let mut lock = toml::toml! {
            version = 4
            package = [
                { name = "shared", version = "1.0.0" },
                { name = "shared", version = "2.0.0" },
            ]
        };
        let own = toml::toml! {
            version = 4
            package = [
                { name = "client", version = "0.4.2" },
                { name = "shared", version = "1.5.0" },
            ]
        };
        add_missing(&mut lock, own).unwrap();
        let wanted = toml::toml! {
            version = 4
            package = [
                { name = "shared", version = "1.0.0" },
                { name = "shared", version = "2.0.0" },
                { name = "client", version = "0.4.2" },
            ]
        };
        assert_eq!(lock, wanted);
    }

    #[test]
    fn sql_tests_that_read_files_above_their_package_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("below");
        fs::create_dir(&below).unwrap();
        let with = "CREATE EXTERNAL TABLE t LOCATION '../core/tests/data/t.csv'";
        for (path, text) in [
            (root.path().join("with.slt"), with),
            (root.path().join("with.csv"), with),
            (root.path().join("without.slt"), "SELECT 1"),
            (below.join("with.slt"), with),
        ] {
            fs::write(path, text).unwrap();
        }
        assert_eq!(remove_incomplete(root.path()).unwrap(), (2, 1));
        assert!(root.path().join("without.slt").exists());
        assert!(root.path().join("with.csv").exists());
        assert!(!below.join("with.slt").exists());
        assert!(remove_incomplete(&below.join("none")).is_err());
    }

    #[test]
    fn a_lock_file_without_packages_is_an_error() {
        let mut lock = toml::toml! { version = 4 };
        let error = add_missing(&mut lock, Table::new()).unwrap_err();
        assert!(error.to_string().contains("lists no packages"), "{error}");
    }
}
