//! `patches/sources.toml`: the pinned upstream artifacts of each line.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Sources {
    default_line: String,
    line: BTreeMap<String, Line>,
}

/// One released pair of upstream versions.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Line {
    #[serde(skip)]
    pub name: String,
    /// The folders of `upstream/` and of `patches/`, one an upstream repository.
    pub tree: BTreeMap<String, Tree>,
    /// Packages whose own test suites run on the patched build: those of pip on the
    /// wheel, those of cargo on the crates.
    #[serde(default)]
    pub client: BTreeMap<String, Artifact>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tree {
    /// `owner/name` of the repository that the patches are filed at.
    pub repository: String,
    /// The branch that they are filed against.
    pub branch: String,
    /// Upstream's rustfmt settings, as `rustfmt --config` takes them.
    #[serde(default)]
    pub rustfmt: String,
    /// The headings of upstream's pull request template.
    pub headings: Vec<String>,
    pub artifact: Vec<Artifact>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Artifact {
    pub registry: Registry,
    pub name: String,
    pub version: String,
    pub sha256: String,
    /// Where its files lie inside the upstream repository.
    #[serde(default)]
    pub path: PathBuf,
    /// The packages of which a client has the versions of its own lock file, since those of
    /// the checkout's do not go with it.
    #[serde(default)]
    pub own_lock: Vec<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Registry {
    /// A `.crate`, fetched with cargo.
    Cargo,
    /// An sdist, fetched with pip.
    Pip,
}

impl Tree {
    /// The repository's own name, without its owner.
    pub fn name(&self) -> &str {
        self.repository
            .split_once('/')
            .map_or(self.repository.as_str(), |(_, name)| name)
    }
}

impl Artifact {
    pub fn file_name(&self) -> String {
        let extension = match self.registry {
            Registry::Cargo => "crate",
            Registry::Pip => "tar.gz",
        };
        format!("{}-{}.{extension}", self.name, self.version)
    }

    /// The folder that the archive holds everything in.
    pub fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// Reads the line `name`, or the default one.
pub fn read(file: &Path, name: Option<&str>) -> Result<Line> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let mut sources: Sources = toml::from_str(&text)
        .with_context(|| format!("{} is not as expected", file.display()))?;
    let name = name.unwrap_or(&sources.default_line).to_string();
    let known = sources.line.keys().cloned().collect::<Vec<_>>().join(", ");
    let Some(mut line) = sources.line.remove(&name) else {
        bail!(
            "there is no line `{name}` in {}: the lines are {known}",
            file.display()
        );
    };
    line.name = name;
    for artifact in line
        .tree
        .values()
        .flat_map(|tree| &tree.artifact)
        .chain(line.client.values())
    {
        validate(artifact).with_context(|| format!("in {}", file.display()))?;
    }
    Ok(line)
}

fn validate(artifact: &Artifact) -> Result<()> {
    let Artifact {
        name,
        version,
        sha256,
        path,
        ..
    } = artifact;
    ensure!(
        sha256.len() == 64
            && sha256
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        "{name} {version}: `sha256` is not 64 lower-case hexadecimal digits: {sha256}"
    );
    ensure!(
        path.components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir)),
        "{name} {version}: `path` must stay inside the repository: {}",
        path.display()
    );
    Ok(())
}
