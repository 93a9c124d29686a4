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
    /// Keys of `[workspace.package]` that the packages of the wheel have in the place of
    /// upstream's.
    #[serde(default)]
    pub package: toml::Table,
    /// The name of the crate whose types cross the boundary between libraries.
    #[serde(default)]
    pub ffi: Option<String>,
    /// The Python module whose docstrings' examples the patches change.
    #[serde(default)]
    pub doctests: Option<String>,
    /// Packages in `upstream/` that are no artifact themselves.
    #[serde(default)]
    pub members: Vec<String>,
    /// The folders of `upstream/` and of `patches/`, one an upstream repository.
    pub tree: BTreeMap<String, Tree>,
    /// Upstream's tests that cannot run here.
    #[serde(default)]
    pub skip: Vec<Skip>,
    /// Packages whose own test suites run on the patched build: those of pip on the
    /// wheel, those of cargo on the crates.
    #[serde(default)]
    pub client: BTreeMap<String, Client>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Skip {
    /// The variable that names the folder with the files that the tests read.
    #[serde(default)]
    pub unless: Option<String>,
    /// What their names begin with.
    pub tests: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Client {
    pub artifact: Artifact,
    /// For a package of pip: the program that compares its suite on two wheels.
    #[serde(default)]
    pub script: Option<PathBuf>,
    /// For a package of cargo: more arguments of `cargo test`.
    #[serde(default)]
    pub args: Vec<String>,
    /// The folder of `.slt` files, of which those that read files of other packages are left
    /// out.
    #[serde(default)]
    pub sql_tests: Option<PathBuf>,
    /// The packages of which it has the versions of its own lock file, since those of the
    /// checkout's do not go with it.
    #[serde(default)]
    pub own_lock: Vec<String>,
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
    #[serde(default)]
    pub tests: Tests,
}

/// How the tests of a crate run.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tests {
    /// A feature that they ask for.
    #[serde(default)]
    pub feature: Option<String>,
    /// What the names of those begin with that can run at all.
    #[serde(default)]
    pub only: Option<String>,
    /// Its tests and benches need files that it comes without.
    #[serde(default)]
    pub lib_only: bool,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Registry {
    /// A `.crate`, fetched with cargo.
    Cargo,
    /// An sdist, fetched with pip.
    Pip,
}

impl Line {
    /// The crates of the line: their artifacts and where they lie below `upstream/`.
    pub fn crates(&self) -> impl Iterator<Item = (&Artifact, PathBuf)> {
        self.tree.iter().flat_map(|(name, tree)| {
            tree.artifact
                .iter()
                .filter(|artifact| artifact.registry == Registry::Cargo)
                // Without a slash at the end where the crate is all of the repository.
                .map(move |it| {
                    (it, Path::new(name).join(&it.path).components().collect())
                })
        })
    }

    /// The crate of this name, and its tree.
    pub fn find(&self, name: &str) -> Option<(&str, &Artifact)> {
        self.tree.iter().find_map(|(tree, at)| {
            let artifact = at
                .artifact
                .iter()
                .find(|it| it.registry == Registry::Cargo && it.name == name)?;
            Some((tree.as_str(), artifact))
        })
    }

    /// The name of the tree that the wheel is built from, and its artifact.
    pub fn wheel(&self) -> Result<(&str, &Artifact)> {
        let wheels = self.tree.iter().flat_map(|(name, tree)| {
            let of_tree = tree.artifact.iter().map(move |it| (name.as_str(), it));
            of_tree.filter(|(_, it)| it.registry == Registry::Pip)
        });
        let wheels: Vec<_> = wheels.collect();
        match wheels.as_slice() {
            [wheel] => Ok(*wheel),
            _ => bail!(
                "line {} has {} sdists instead of one",
                self.name,
                wheels.len()
            ),
        }
    }

    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        let of_clients = self.client.values().map(|client| &client.artifact);
        let of_trees = self.tree.values().flat_map(|tree| &tree.artifact);
        of_trees.chain(of_clients)
    }
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
    for artifact in line.artifacts() {
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
