//! `cargo xtask apply`: from pinned artifacts and patches to `upstream/`.
//!
//! ```text
//! artifacts ──unpack──▶ .upstream-new/<tree> ──commit──▶ base ──git am──▶ the series
//!                              │
//!                    stamp, rename ▶ upstream/
//! ```
//!
//! Everything happens in `.upstream-new`; `upstream/` changes by a rename at the end. A
//! run that was killed leaves a folder behind that the next one removes or, if it was
//! between the two renames, puts back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use crate::artifact::{self, sha256};
use crate::git;
use crate::project::{self, Project};
use crate::series::{self, Patch};

/// Part of the digest: raise it when this module builds something else from the same
/// files.
const FORMAT: u32 = 1;

/// What `upstream/` was made from, kept in it as `.stamp`.
#[derive(Deserialize, Serialize)]
pub struct Stamp {
    line: String,
    /// Of the pins and of all patches.
    digest: String,
    /// The commit that each tree ended at.
    heads: BTreeMap<String, String>,
}

impl Stamp {
    fn file(upstream: &Path) -> PathBuf {
        upstream.join(".stamp")
    }

    pub fn read(upstream: &Path) -> Option<Self> {
        let text = fs::read_to_string(Self::file(upstream)).ok()?;
        toml::from_str(&text).ok()
    }

    pub fn write(&self, upstream: &Path) -> Result<()> {
        let text = toml::to_string(self).context("cannot write the stamp")?;
        fs::write(Self::file(upstream), text).context("cannot write the stamp")
    }

    /// For the patches as they are now and these heads.
    pub fn new(project: &Project, heads: BTreeMap<String, String>) -> Result<Self> {
        Ok(Self {
            line: project.line.name.clone(),
            digest: digest(project)?,
            heads,
        })
    }

    /// Whether `upstream/` is what the pins and patches say now.
    pub fn matches(&self, project: &Project) -> Result<bool> {
        Ok(self.line == project.line.name && self.digest == digest(project)?)
    }
}

pub fn run(project: &Project) -> Result<()> {
    let upstream = project.upstream();
    let new = project.root.join(".upstream-new");
    let old = project.root.join(".upstream-old");
    let _lock = lock(project)?;
    recover(&upstream, &new, &old)?;

    if let Some(stamp) = Stamp::read(&upstream) {
        let edits = unexported(project, &stamp)?;
        if stamp.matches(project)? {
            eprintln!("upstream/ is up to date (line {})", stamp.line);
            if !edits.is_empty() {
                eprintln!("it also holds work that is not in patches/ yet:\n{edits}");
            }
            return Ok(());
        }
        ensure!(
            edits.is_empty(),
            "upstream/ holds work that is not in patches/, and patches/ has changed:\n\
             {edits}\
             Save it with `cargo xtask export`, or discard it with\n\
             \x20 git -C upstream/<tree> reset --hard {applied} && \
             git -C upstream/<tree> clean -fd\n\
             and run this again.",
            applied = git::APPLIED,
        );
    } else {
        ensure!(
            !upstream.exists(),
            "{} exists but was not made by `cargo xtask apply`: move it away",
            upstream.display()
        );
    }

    eprintln!("applying the series of line {}", project.line.name);
    let heads = build(project, &new)?;
    Stamp::new(project, heads)?.write(&new)?;
    if upstream.exists() {
        keep_times(&upstream, &new)?;
        fs::rename(&upstream, &old).context("cannot move upstream/ away")?;
    }
    fs::rename(&new, &upstream).context("cannot move upstream/ into place")?;
    remove(&old)?;
    eprintln!("upstream/ is made (line {})", project.line.name);
    Ok(())
}

/// One `apply` or `export` at a time; the lock goes when the process does.
pub fn lock(project: &Project) -> Result<File> {
    let path = project.root.join(".upstream-lock");
    let file = File::create(&path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for another `cargo xtask` in this checkout ...");
        file.lock()
            .with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

/// Cleans up after a run that was killed.
fn recover(upstream: &Path, new: &Path, old: &Path) -> Result<()> {
    if !upstream.exists() && old.exists() {
        fs::rename(old, upstream).context("cannot put upstream/ back")?;
    }
    remove(new)?;
    remove(old)
}

fn remove(dir: &Path) -> Result<()> {
    // A git that outlived a killed run may still be writing there for a moment.
    let mut tries = 0;
    while let Err(error) = fs::remove_dir_all(dir) {
        match error.kind() {
            ErrorKind::NotFound => return Ok(()),
            ErrorKind::DirectoryNotEmpty if tries < 20 => {
                tries += 1;
                thread::sleep(Duration::from_millis(50));
            }
            _ => {
                return Err(error)
                    .with_context(|| format!("cannot remove {}", dir.display()));
            }
        }
    }
    Ok(())
}

/// Makes every tree of the line below `to`, and returns the commit that each ends at.
pub fn build(project: &Project, to: &Path) -> Result<BTreeMap<String, String>> {
    let mut heads = BTreeMap::new();
    for (name, tree) in &project.line.tree {
        let mut patches = series::read(project, name)?;
        patches.retain(|patch| !patch.message.trailers.is_for_branch(&tree.branch));
        let dir = to.join(name);
        fs::create_dir_all(&dir)
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let mut what = Vec::new();
        for pinned in &tree.artifact {
            let file = artifact::fetch(project, pinned)?;
            let target = dir.join(&pinned.path);
            fs::create_dir_all(target.parent().unwrap_or(&dir))
                .with_context(|| format!("cannot make {}", target.display()))?;
            artifact::unpack(pinned, &file, &target)?;
            what.push(format!("{} {}", pinned.name, pinned.version));
        }
        let message = format!("{} as released: {}", tree.repository, what.join(", "));
        git::commit_base(&dir, &message)?;
        apply_series(project, name, &dir, &patches)?;
        heads.insert(name.clone(), git::head(&dir)?);
    }
    Ok(heads)
}

fn apply_series(
    project: &Project,
    tree: &str,
    dir: &Path,
    patches: &[Patch],
) -> Result<()> {
    for (i, patch) in patches.iter().enumerate() {
        let file = project.patches().join(&patch.path);
        git::am(dir, &file).with_context(|| {
            format!(
                "patches/{} does not apply to {} of line {}: correct it, or its place in \
                 the `series` file beside it",
                patch.path.display(),
                tree,
                project.line.name
            )
        })?;
        // An exit code of 0 is not proof that something was applied.
        let commits = git::series(dir)?.len();
        ensure!(
            commits == i + 1,
            "git am accepted patches/{} but made no commit of it",
            patch.path.display()
        );
    }
    git::text(
        dir,
        &["update-ref", git::APPLIED, "HEAD"],
        "mark the series",
    )?;
    let left = git::uncommitted(dir)?;
    if !left.is_empty() {
        bail!("{tree}: the series leaves uncommitted files:\n{left}");
    }
    Ok(())
}

/// What `upstream/` holds that `patches/` does not, to be read by a person; empty if
/// nothing.
pub fn unexported(project: &Project, stamp: &Stamp) -> Result<String> {
    let mut edits = String::new();
    for (tree, applied) in &stamp.heads {
        let dir = project.upstream().join(tree);
        ensure!(
            dir.join(".git").is_dir(),
            "{} is not a git repository any more: remove upstream/ and run \
             `cargo xtask apply`",
            dir.display()
        );
        if git::head(&dir)? != *applied {
            let range = format!("{applied}..HEAD");
            let log =
                git::text(&dir, &["log", "--format=%h %s", &range], "list commits")?;
            let log = if log.is_empty() {
                "commits removed"
            } else {
                &log
            };
            edits.push_str(&format!("  upstream/{tree}, not exported:\n    "));
            edits.push_str(&log.replace('\n', "\n    "));
            edits.push('\n');
        }
        let uncommitted = git::uncommitted(&dir)?;
        if !uncommitted.is_empty() {
            edits.push_str(&format!("  upstream/{tree}, not committed:\n    "));
            edits.push_str(&uncommitted.replace('\n', "\n    "));
            edits.push('\n');
        }
    }
    Ok(edits)
}

/// Of everything that decides what `upstream/` holds.
fn digest(project: &Project) -> Result<String> {
    let mut all = format!("{FORMAT} {}\n", project.line.name);
    for (name, tree) in &project.line.tree {
        for pinned in &tree.artifact {
            all.push_str(&format!("{name} {}/", pinned.path.display()));
            all.push_str(&format!(" {} {}\n", pinned.file_name(), pinned.sha256));
        }
        for patch in series::read(project, name)? {
            let digest = sha256(&patch.bytes);
            all.push_str(&format!("{name} {} {digest}\n", patch.path.display()));
        }
    }
    Ok(sha256(all.as_bytes()))
}

/// Gives files that did not change the time of the old ones, so that cargo rebuilds only
/// what did.
fn keep_times(old: &Path, new: &Path) -> Result<()> {
    for entry in WalkDir::new(new)
        .into_iter()
        .filter_entry(|entry| entry.file_name() != ".git")
    {
        let entry = entry.context("cannot list the new sources")?;
        let before = old.join(entry.path().strip_prefix(new).unwrap_or(entry.path()));
        let Ok(data) = fs::metadata(&before) else {
            continue;
        };
        if entry.file_type().is_file()
            && data.is_file()
            && fs::read(&before).ok() == fs::read(entry.path()).ok()
        {
            let time = data.modified().context("this system keeps no file times")?;
            project::touch(entry.path(), time)?;
        }
    }
    Ok(())
}
