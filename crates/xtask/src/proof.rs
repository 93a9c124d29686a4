//! What proves a patch. Its `Tested-by:` trailers name the tests that fail without it:
//!
//! ```text
//! Tested-by: toy-crate parser::tests::name            cargo test -p toy-crate
//! Tested-by: pytest python/tests/test_a.py::test_b    in the patch's tree
//! Tested-by: pytest reuse:python/tests/test_a.py::test_b    in this checkout
//! Tested-by: bench reuse-tests reset group/id         criterion: package, target, benchmark
//! Tested-by: check                                    cargo xtask check
//! Tested-by: documentation                            it changes nothing else
//! Tested-by: nothing: why                             a local patch that changes no result
//! ```
//!
//! and `patches/undo/<name>.diff` takes its change out of the finished tree, with as little
//! as compiles, and leaves the tests there. `cargo xtask prove` runs the ones with and
//! without the other.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use walkdir::WalkDir;

use crate::project::Project;
use crate::series::Patch;

#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    Cargo {
        package: String,
        test: String,
    },
    Pytest {
        file: String,
        test: String,
        ours: bool,
    },
    Bench {
        package: String,
        target: String,
        id: String,
    },
    Check,
    /// None, and why.
    None(String),
}

impl Proof {
    pub fn parse(text: &str) -> Result<Self> {
        if text == "documentation" || text.starts_with("nothing: ") {
            return Ok(Proof::None(text.to_string()));
        }
        let words: Vec<_> = text.split(' ').map(str::to_string).collect();
        Ok(match words.as_slice() {
            [check] if check == "check" => Proof::Check,
            [pytest, test] if pytest == "pytest" => {
                let (file, test) = test.split_once("::").with_context(|| {
                    format!("`Tested-by: {text}` names no test: file::test")
                })?;
                let in_checkout = file.strip_prefix("reuse:");
                Proof::Pytest {
                    file: in_checkout.unwrap_or(file).to_string(),
                    test: test.to_string(),
                    ours: in_checkout.is_some(),
                }
            }
            [bench, package, target, id] if bench == "bench" => Proof::Bench {
                package: package.clone(),
                target: target.clone(),
                id: id.clone(),
            },
            [package, test] if package != "bench" => Proof::Cargo {
                package: package.clone(),
                test: test.clone(),
            },
            _ => bail!(
                "`Tested-by: {text}` is none of `PACKAGE TEST`, `pytest FILE::TEST`, \
                 `bench PACKAGE TARGET ID` and `check`"
            ),
        })
    }

    /// How to run it in a checkout of upstream, where it can be.
    pub fn command(&self) -> Option<String> {
        match self {
            Proof::Cargo { package, test } => {
                Some(format!("cargo test -p {package} -- {test}"))
            }
            Proof::Pytest {
                file,
                test,
                ours: false,
            } => Some(format!("pytest {file}::{test}")),
            _ => None,
        }
    }

    /// That there is such a test, for a patch of `tree`; `upstream/` must be there.
    pub fn exists(&self, project: &Project, tree: &str) -> Result<()> {
        let found = match self {
            Proof::Check | Proof::None(_) => true,
            Proof::Pytest { file, test, ours } => {
                let root = if *ours {
                    project.root.clone()
                } else {
                    project.upstream().join(tree)
                };
                // Without its parameters, or a class before it.
                let name = test.split('[').next().unwrap_or_default();
                let name = name.rsplit("::").next().unwrap_or_default();
                fs::read_to_string(root.join(file))
                    .is_ok_and(|text| text.contains(&format!("def {name}(")))
            }
            Proof::Cargo { package, test } => {
                let name = test.rsplit("::").next().unwrap_or_default();
                holds(&folder_of(project, package)?, &format!("fn {name}("))?
            }
            Proof::Bench {
                package, target, ..
            } => {
                let file = format!("benches/{target}.rs");
                folder_of(project, package)?.join(file).is_file()
            }
        };
        ensure!(found, "`Tested-by: {self}`: there is no such test");
        Ok(())
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Proof::Cargo { package, test } => write!(f, "{package} {test}"),
            Proof::Pytest { file, test, ours } => {
                let ours = if *ours { "reuse:" } else { "" };
                write!(f, "pytest {ours}{file}::{test}")
            }
            Proof::Bench {
                package,
                target,
                id,
            } => write!(f, "bench {package} {target} {id}"),
            Proof::Check => write!(f, "check"),
            Proof::None(why) => write!(f, "{why}"),
        }
    }
}

/// What takes the change of a patch out of its tree.
pub fn undo(project: &Project, patch: &Patch) -> PathBuf {
    let file = format!("{}.diff", patch.name());
    project.patches().join("undo").join(file)
}

/// Where a package lies, of the line or of ours.
fn folder_of(project: &Project, package: &str) -> Result<PathBuf> {
    if let Some((tree, artifact)) = project.line.find(package) {
        return Ok(project.upstream().join(tree).join(&artifact.path));
    }
    let folders = [
        project.root.join("crates").join(package),
        project.root.join("tests"),
    ];
    folders
        .into_iter()
        .find(|folder| {
            fs::read_to_string(folder.join("Cargo.toml"))
                .is_ok_and(|text| text.contains(&format!("name = \"{package}\"")))
        })
        .with_context(|| format!("there is no package {package}"))
}

/// Whether a Rust source below `folder` holds `text`.
fn holds(folder: &Path, text: &str) -> Result<bool> {
    for entry in WalkDir::new(folder) {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        if entry.path().extension().is_some_and(|it| it == "rs")
            && fs::read_to_string(entry.path()).is_ok_and(|it| it.contains(text))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_printed_as_it_is_written() {
        for text in [
            "toy tests::answers",
            "pytest python/tests/test_a.py::test_b[c]",
            "pytest reuse:python/tests/test_a.py::test_b",
            "bench reuse-tests reset clone/1000",
            "check",
            "documentation",
            "nothing: it saves time",
        ] {
            assert_eq!(Proof::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "toy", "pytest test_a.py", "bench reset", "a b c"] {
            assert!(Proof::parse(text).is_err(), "{text}");
        }
    }
}
