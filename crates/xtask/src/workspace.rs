//! Cargo workspaces on the patched crates: the one in the root, whose manifest follows the
//! pins and the released packages, and those made elsewhere, which build as it does, so that
//! cargo finds DataFusion compiled.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};
use toml_edit::{Array, DocumentMut, Item};

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

/// The crates of the line by name, and where they lie in the checkout.
pub fn crates(project: &Project) -> impl Iterator<Item = (&str, String)> {
    project.line.crates().map(|(artifact, path)| {
        let path = Path::new("upstream").join(path);
        (artifact.name.as_str(), path.display().to_string())
    })
}

/// The root's Cargo.toml for the line:
///
/// - its members below `upstream/` are the crates of the line and `members`;
/// - `[patch.crates-io]` names these crates;
/// - the packages of the wheel inherit what upstream's workspace has for them, at its place
///   in `upstream/`, and what the line has in `package`.
///
/// All else stays as it is. Needs the sources of the wheel, below `upstream`.
pub fn manifest(project: &Project, upstream: &Path) -> Result<String> {
    let line = &project.line;
    let text = fs::read_to_string(project.root.join("Cargo.toml"))
        .context("cannot read Cargo.toml")?;
    let mut root: DocumentMut = text.parse().context("cannot parse Cargo.toml")?;

    let members = root["workspace"]["members"]
        .as_array_mut()
        .context("Cargo.toml has no workspace members")?;
    members.retain(|it| !it.as_str().is_some_and(|it| it.starts_with("upstream/")));
    let theirs = crates(project).map(|(_, path)| path);
    members.extend(theirs.chain(line.members.iter().cloned()));
    one_a_line(members);

    let mut patch = toml_edit::Table::new();
    for (name, path) in crates(project) {
        patch.insert(name, path_to(&path));
    }
    if root.get("patch").is_none() {
        let mut table = toml_edit::Table::new();
        table.set_implicit(true);
        root.insert("patch", Item::Table(table));
    }
    let crates_io = &mut root["patch"]["crates-io"];
    if let Some(before) = crates_io.as_table() {
        *patch.decor_mut() = before.decor().clone();
    }
    *crates_io = Item::Table(patch);

    let Ok((tree, _)) = line.wheel() else {
        return Ok(root.to_string());
    };
    let file = upstream.join(tree).join("Cargo.toml");
    let text = fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let theirs: DocumentMut = text
        .parse()
        .with_context(|| format!("cannot parse {}", file.display()))?;
    for key in ["package", "dependencies"] {
        let inherited = theirs["workspace"][key]
            .as_table()
            .with_context(|| format!("{} has no [workspace.{key}]", file.display()))?;
        let ours = root["workspace"][key]
            .as_table_mut()
            .with_context(|| format!("Cargo.toml has no [workspace.{key}]"))?;
        for (name, value) in inherited {
            let mut value = value.clone();
            if let Some(path) = value.get("path").and_then(Item::as_str) {
                let path = format!("upstream/{tree}/{path}");
                value["path"] = toml_edit::value(path);
            }
            ours.insert(name, value);
        }
        if key == "package" {
            for (name, value) in &line.package {
                let text = value
                    .as_str()
                    .with_context(|| format!("`package.{name}` is not a string"))?;
                ours.insert(name, toml_edit::value(text));
            }
        }
    }
    Ok(root.to_string())
}

fn one_a_line(array: &mut Array) {
    for value in array.iter_mut() {
        value.decor_mut().set_prefix("\n    ");
    }
    array.set_trailing("\n");
    array.set_trailing_comma(true);
}

fn path_to(path: &str) -> Item {
    let mut table = toml_edit::InlineTable::new();
    table.insert("path", path.into());
    Item::Value(table.into())
}

/// That a lock file takes each crate of the line from `upstream/` and from nowhere else:
/// cargo only warns about a `[patch]` entry that nothing uses.
pub fn all_patched(project: &Project, file: &Path) -> Result<()> {
    let lock = read(file)?;
    let file = file.display();
    if let Some(unused) = lock.get("patch") {
        bail!("{file}: these [patch] entries are used by nothing: {unused}");
    }
    let packages = lock
        .get("package")
        .and_then(|packages| packages.as_array())
        .with_context(|| format!("{file} lists no packages"))?;
    for (name, path) in crates(project) {
        let sources: Vec<_> = packages
            .iter()
            .filter(|package| package.get("name").and_then(|n| n.as_str()) == Some(name))
            .map(|package| package.get("source"))
            .collect();
        ensure!(
            sources == [None],
            "{file}: {name} does not come from {path} alone, but from {sources:?}"
        );
    }
    Ok(())
}

/// Which dependencies a package elsewhere shares with the wheel.
#[derive(PartialEq)]
pub enum Features {
    /// All, DataFusion too.
    OfWheel,
    /// What an extension on the released crates has.
    OfExtension,
}

/// Adds the features that the wheel's dependencies have to a package's manifest.
pub fn depend_on_features(
    project: &Project,
    manifest: &mut Table,
    features: Features,
) -> Result<()> {
    let folder = project.root.join("crates/reuse-features");
    let dependency = Table::from_iter([
        ("path".to_string(), folder.display().to_string().into()),
        (
            "default-features".to_string(),
            (features == Features::OfWheel).into(),
        ),
    ]);
    table(manifest, "dependencies")?.insert("reuse-features".into(), dependency.into());
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
    let crates = crates(project)
        .filter(|(name, _)| wanted(name))
        .map(|(name, path)| {
            let path = Table::from_iter([("path".to_string(), path.into())]);
            (name.to_string(), path.into())
        })
        .collect::<Table>();
    let patch = Table::from_iter([("crates-io".to_string(), crates.into())]);
    Ok(Table::from_iter([("patch".to_string(), patch.into())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A difference would make cargo build everything once more, without a word.
    #[test]
    fn the_workspaces_beside_the_root_have_its_profile() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let profile =
            |file: &str| read(&root.join(file)).unwrap()["profile"]["dev"].clone();
        for file in ["tests/stock/Cargo.toml", "tests/stock-extension/Cargo.toml"] {
            assert_eq!(profile(file), profile("Cargo.toml"), "{file}");
        }
    }
}
