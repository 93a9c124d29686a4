//! Builds in cargo's target folder, which all checkouts of a user share: a full build takes
//! 20 minutes, and the second checkout should not pay for it again.
//!
//! Cargo names what it builds by the path inside the workspace and trusts file times. With
//! one target folder for two checkouts it would take the build of the one's file for the
//! other's, or build everything again. So a file gets the time of its *content*:
//!
//! ```text
//!                    the list in the target folder      this checkout's file
//!   same content     path  sha256  time ──────────────▶ that time:  nothing to build
//!   any other        path  sha256  now  ◀────────────── now:        cargo builds it
//! ```
//!
//! The list says what was built last. It is brought up to date before every call of cargo,
//! and a lock keeps the others waiting until the call has ended.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use crate::digest::sha256_of_file;
use crate::process;
use crate::project::Project;
use crate::python;

/// A call of cargo, or of what calls it, that has the target folder for itself until this
/// is dropped.
pub struct Build {
    command: Command,
    _lock: File,
}

impl Deref for Build {
    type Target = Command;

    fn deref(&self) -> &Command {
        &self.command
    }
}

impl DerefMut for Build {
    fn deref_mut(&mut self) -> &mut Command {
        &mut self.command
    }
}

/// `cargo <subcommand>` in the patched workspace with what the build of the wheel has, since
/// any difference would make cargo build DataFusion once more: protoc, and the PyO3
/// settings that maturin wrote.
pub fn cargo(project: &Project, subcommand: &str) -> Result<Build> {
    let mut command = process::cargo()?;
    command.arg(subcommand).current_dir(&project.root);
    command.envs(variables(project)?);
    build(project, command)
}

/// What tells cargo to build where the wheel was built, and as it was.
pub fn variables(project: &Project) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut variables = vec![
        ("CARGO_TARGET_DIR", project.target()),
        ("PROTOC", python::tools(project)?.program("protoc")?),
    ];
    if let Some(settings) = pyo3_settings(project)? {
        variables.push(("PYO3_CONFIG_FILE", settings));
    }
    Ok(variables)
}

/// The file that maturin leaves of a build, if there was one. Of the shared folder: what is
/// built in a copy of that was built with it, and its path is part of a build.
pub fn pyo3_settings(project: &Project) -> Result<Option<PathBuf>> {
    let folder = project.shared_target().join("maturin");
    let mut settings: Vec<_> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with("-abi3.txt"))
        .collect();
    if settings.len() > 1 {
        bail!(
            "{} holds the settings of several Pythons: remove that folder",
            folder.display()
        );
    }
    Ok(settings.pop())
}

/// Builds the wheel of the package in `folder` into `out`, a folder that holds nothing
/// else, and returns its place there.
pub fn maturin(
    project: &Project,
    folder: &Path,
    out: &Path,
    args: &[&str],
) -> Result<PathBuf> {
    let tools = python::tools(project)?;
    let mut command = tools.command("maturin");
    command
        .current_dir(folder)
        .args(["build", "--out"])
        .arg(out)
        .args(args)
        .envs(variables(project)?);
    let mut build = build(project, command)?;
    process::run(
        &mut build,
        &format!("build the wheel of {}", folder.display()),
    )?;
    let built: Vec<_> = fs::read_dir(out)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot list {}", out.display()))?;
    match built.as_slice() {
        [wheel] => Ok(wheel.path()),
        _ => bail!("maturin built {} files instead of a wheel", built.len()),
    }
}

fn build(project: &Project, command: Command) -> Result<Build> {
    let target = project.target();
    fs::create_dir_all(&target)
        .with_context(|| format!("cannot make {}", target.display()))?;
    let lock = process::lock(
        &target.join("lock"),
        &format!("another `cargo xtask` that builds in {}", target.display()),
    )?;
    give_times(&project.root, &target.join("sources"))?;
    Ok(Build {
        command,
        _lock: lock,
    })
}

/// Gives the sources below `root` the times that the list has for their content, and brings
/// the list up to date.
fn give_times(root: &Path, list: &Path) -> Result<()> {
    let text = fs::read_to_string(list).unwrap_or_default();
    let known: BTreeMap<_, _> = text.lines().filter_map(parse).collect();
    let now = SystemTime::now();
    let mut text = String::new();
    for folder in ["crates", "tests", "upstream"] {
        let folder = root.join(folder);
        if !folder.exists() {
            continue;
        }
        for entry in WalkDir::new(&folder)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| {
                ![".git", "target", "__pycache__"]
                    .iter()
                    .any(|other| entry.file_name() == *other)
            })
        {
            let entry = entry.context("cannot list the sources")?;
            if !entry.file_type().is_file() {
                continue;
            }
            let file = entry.path();
            let path = file.strip_prefix(root)?.to_string_lossy().into_owned();
            let sha256 = sha256_of_file(file)?;
            let time = match known.get(path.as_str()) {
                Some((same, time)) if *same == sha256 => *time,
                _ => now,
            };
            if modified(file)? != time {
                File::options()
                    .write(true)
                    .open(file)
                    .and_then(|opened| opened.set_modified(time))
                    .with_context(|| {
                        format!("cannot set the time of {}", file.display())
                    })?;
            }
            let nanoseconds = time.duration_since(UNIX_EPOCH)?.as_nanos();
            writeln!(text, "{sha256} {nanoseconds} {path}")?;
        }
    }
    fs::write(list, text).with_context(|| format!("cannot write {}", list.display()))
}

/// A line of the list.
fn parse(line: &str) -> Option<(&str, (&str, SystemTime))> {
    let mut words = line.splitn(3, ' ');
    let (sha256, nanoseconds, path) = (words.next()?, words.next()?, words.next()?);
    let time = UNIX_EPOCH + Duration::from_nanos(nanoseconds.parse().ok()?);
    Some((path, (sha256, time)))
}

fn modified(file: &Path) -> Result<SystemTime> {
    fs::metadata(file)
        .and_then(|data| data.modified())
        .with_context(|| format!("cannot read the time of {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Checkouts {
        folder: tempfile::TempDir,
    }

    impl Checkouts {
        fn file(&self, checkout: &str) -> PathBuf {
            self.folder.path().join(checkout).join("crates/a/lib.rs")
        }

        fn write(&self, checkout: &str, text: &str) {
            let file = self.file(checkout);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        /// What a build in the checkout finds as the file's time.
        fn time(&self, checkout: &str) -> SystemTime {
            std::thread::sleep(Duration::from_millis(2));
            let folder = self.folder.path();
            give_times(&folder.join(checkout), &folder.join("sources")).unwrap();
            modified(&self.file(checkout)).unwrap()
        }
    }

    #[test]
    fn a_file_has_the_time_of_its_content() {
        let checkouts = Checkouts {
            folder: tempfile::tempdir().unwrap(),
        };
        for checkout in ["a", "b"] {
            checkouts.write(checkout, "one");
        }
        let one = checkouts.time("a");
        assert_eq!(checkouts.time("a"), one);
        assert_eq!(checkouts.time("b"), one, "the same content is built");

        checkouts.write("b", "two");
        let two = checkouts.time("b");
        assert!(two > one);
        let again = checkouts.time("a");
        assert!(again > two, "what `b` built last would pass for `a`'s");
        assert!(checkouts.time("b") > again);

        // Another file of the same time, such as a copy that keeps it.
        let time = checkouts.time("b");
        checkouts.write("b", "three");
        let file = File::options()
            .write(true)
            .open(checkouts.file("b"))
            .unwrap();
        file.set_modified(time).unwrap();
        assert!(checkouts.time("b") > time);
    }

    /// With cargo itself, in one target folder: whether it compiled, and what the program says.
    fn run(folder: &Path, checkout: &str) -> (bool, String) {
        let root = folder.join(checkout);
        give_times(&root, &folder.join("sources")).unwrap();
        let cargo = std::env::var_os("CARGO").unwrap();
        let output = process::command(cargo)
            .args(["run", "--offline"])
            .current_dir(root.join("crates/a"))
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let printed = String::from_utf8(output.stdout).unwrap();
        (said.contains("Compiling"), printed)
    }

    #[test]
    fn cargo_builds_what_has_another_content_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |checkout: &str, text: &str| {
            let at = folder.path().join(checkout).join("crates/a");
            fs::create_dir_all(at.join("src")).unwrap();
            let manifest = "[package]\nname = \"a\"\nedition = \"2024\"\n";
            fs::write(at.join("Cargo.toml"), manifest).unwrap();
            let program = format!("fn main() {{ println!(\"{text}\"); }}\n");
            fs::write(at.join("src/main.rs"), program).unwrap();
        };
        let run = |checkout| run(folder.path(), checkout);
        write("one", "first");
        assert_eq!(run("one"), (true, "first\n".to_string()));
        write("two", "first");
        assert_eq!(run("two"), (false, "first\n".to_string()));
        write("two", "second");
        assert_eq!(run("two"), (true, "second\n".to_string()));
        assert_eq!(run("one"), (true, "first\n".to_string()));
        assert_eq!(run("one"), (false, "first\n".to_string()));
        assert_eq!(run("two"), (true, "second\n".to_string()));
    }

    #[test]
    fn a_file_that_was_gone_is_built_again() {
        let checkouts = Checkouts {
            folder: tempfile::tempdir().unwrap(),
        };
        checkouts.write("a", "one");
        let one = checkouts.time("a");
        let list = checkouts.folder.path().join("sources");
        give_times(&checkouts.folder.path().join("b"), &list).unwrap();
        assert!(checkouts.time("a") > one);
    }
}
