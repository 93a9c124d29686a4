//! What a workspace outside of the checkout needs to build with the checkout's crates,
//! features and profile, so that cargo finds most of DataFusion compiled.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::check;
use crate::project::Project;

/// Reads a manifest or a lock file.
pub fn read(file: &Path) -> Result<Table> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).with_context(|| format!("cannot parse {}", file.display()))
}

pub fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

pub fn table<'a>(manifest: &'a mut Table, key: &str) -> Result<&'a mut Table> {
    manifest
        .get_mut(key)
        .and_then(Value::as_table_mut)
        .with_context(|| format!("the manifest has no [{key}]"))
}

/// Adds the features that the wheel has to a package's manifest.
pub fn depend_on_features(project: &Project, manifest: &mut Table) -> Result<()> {
    let features = path_to(&project.root.join("crates/reuse-features"));
    table(manifest, "dependencies")?.insert("reuse-features".into(), features);
    Ok(())
}

/// The `[profile]` tables of the checkout.
pub fn profile(project: &Project) -> Result<Table> {
    let mut root = read(&project.root.join("Cargo.toml"))?;
    Ok(root.remove_entry("profile").into_iter().collect())
}

/// `[patch.crates-io]` with the patched crates of the checkout that `wanted` is true for, for
/// the workspace in `root`.
///
/// Cargo tells builds of a local package apart by its place in the workspace. So that these
/// are the ones of the checkout, they are in the same place: below a link to `upstream/`.
pub fn patch(
    project: &Project,
    root: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Result<Table> {
    let link = root.join("upstream");
    if link.is_symlink() {
        fs::remove_file(&link)
            .with_context(|| format!("cannot remove {}", link.display()))?;
    }
    std::os::unix::fs::symlink(project.upstream(), &link)
        .with_context(|| format!("cannot make the link {}", link.display()))?;
    let crates = check::crates(project)
        .into_iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, path)| (name.to_string(), path_to(Path::new(&path))))
        .collect::<Table>();
    let patch = Table::from_iter([("crates-io".to_string(), crates.into())]);
    Ok(Table::from_iter([("patch".to_string(), patch.into())]))
}

fn path_to(folder: &Path) -> Value {
    let path = folder.display().to_string().into();
    Table::from_iter([("path".to_string(), path)]).into()
}
