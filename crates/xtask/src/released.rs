//! The labels of the wheels that were handed out, in `patches/released`: a line
//! `label SHA-256` each, of the patches (their SHA256SUMS) that the wheel was built with.
//! A label stands for the same patches for ever.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result, ensure};

use crate::digest::sha256_of_file;
use crate::export;
use crate::project::Project;

const FILE: &str = "released";

/// That the patches under the line's label are not others than those it was handed out with.
pub fn check(project: &Project) -> Result<()> {
    let label = label(project)?;
    let Some(before) = read(project)?
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{label} ")).map(str::to_string))
    else {
        return Ok(());
    };
    ensure!(
        before == patches(project)?,
        "a wheel {label} was handed out with other patches: raise the number in \
         patches/sources.toml, `package.version`, and run `cargo xtask apply`"
    );
    Ok(())
}

/// Puts the line's label and the patches on record; commit the file.
pub fn record(project: &Project) -> Result<()> {
    check(project)?;
    let mut text = read(project)?;
    let line = format!("{} {}\n", label(project)?, patches(project)?);
    if !text.contains(&line) {
        text.push_str(&line);
        let file = project.patches().join(FILE);
        fs::write(&file, text)
            .with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("patches/{FILE} holds the label now: commit it with what you hand out");
    }
    Ok(())
}

fn label(project: &Project) -> Result<&str> {
    let version = project.line.package.get("version");
    version
        .and_then(|version| version.as_str())
        .with_context(|| format!("line {} has no `package.version`", project.line.name))
}

fn patches(project: &Project) -> Result<String> {
    sha256_of_file(&project.patches().join(export::SUMS))
}

fn read(project: &Project) -> Result<String> {
    let file = project.patches().join(FILE);
    match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("cannot read {}", file.display())),
    }
}
