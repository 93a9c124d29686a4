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
//! between the two renames, puts back. A patch that does not apply stops it as it stops
//! `git am --3way`, with the conflict in that folder, which nothing removes until a person
//! says so.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::artifact;
use crate::digest::sha256;
use crate::git;
use crate::process;
use crate::project::Project;
use crate::series::{self, Patch};
use crate::workspace;

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

#[derive(clap::Args, Default)]
pub struct Args {
    /// Go on after the conflict that it stopped at was resolved.
    #[arg(long = "continue", conflicts_with = "abort")]
    go_on: bool,

    /// Throw away what a conflict has left.
    #[arg(long)]
    abort: bool,
}

/// Where a series stopped at a patch that does not apply, kept beside the trees in
/// `.upstream-new`.
#[derive(Deserialize, Serialize)]
struct Stopped {
    line: String,
    digest: String,
    tree: String,
    /// The file in `patches/`.
    patch: PathBuf,
    merged: Merged,
}

/// Of each tree with a patch that was merged instead of applied, the commit before the first
/// of them: what follows it is not what `patches/` holds.
type Merged = BTreeMap<String, String>;

impl Stopped {
    fn file(new: &Path) -> PathBuf {
        new.join(".stopped")
    }

    fn read(new: &Path) -> Option<Self> {
        toml::from_str(&fs::read_to_string(Self::file(new)).ok()?).ok()
    }
}

pub fn run(project: &Project, args: &Args) -> Result<()> {
    let upstream = project.upstream();
    let new = project.root.join(".upstream-new");
    let old = project.root.join(".upstream-old");
    let _lock = lock(project)?;
    let stopped = Stopped::read(&new);
    if args.abort {
        ensure!(stopped.is_some(), "there is no conflict to abort");
        return remove(&new);
    }
    let merged = match (&stopped, args.go_on) {
        (None, false) => {
            recover(&upstream, &new, &old)?;
            if is_up_to_date(project, &upstream)? {
                return write_manifest(project);
            }
            eprintln!("applying the series of line {}", project.line.name);
            build(project, &new, OnConflict::Stop)?
        }
        (None, true) => bail!("there is no conflict to go on from"),
        (Some(stopped), false) => bail!(
            "it stopped at patches/{} before: resolve the conflict in {} and run \
             `cargo xtask apply --continue`, or throw that folder away with \
             `cargo xtask apply --abort`",
            stopped.patch.display(),
            new.join(&stopped.tree).display()
        ),
        (Some(_), true) => go_on(project, &new, stopped)?,
    };
    let mut stamp = Stamp::new(project, heads(project, &new)?)?;
    stamp.heads.extend(merged);
    stamp.write(&new)?;
    if upstream.exists() {
        fs::rename(&upstream, &old).context("cannot move upstream/ away")?;
    }
    fs::rename(&new, &upstream).context("cannot move upstream/ into place")?;
    remove(&old)?;
    eprintln!("upstream/ is made (line {})", project.line.name);
    let edits = unexported(project, &stamp)?;
    if !edits.is_empty() {
        eprintln!("`cargo xtask export` writes what was merged to patches/:\n{edits}");
    }
    write_manifest(project)
}

/// Whether `upstream/` is what `patches/` says; an error if it holds work that would be lost.
fn is_up_to_date(project: &Project, upstream: &Path) -> Result<bool> {
    let Some(stamp) = Stamp::read(upstream) else {
        ensure!(
            !upstream.exists(),
            "{} exists but was not made by `cargo xtask apply`: move it away",
            upstream.display()
        );
        return Ok(false);
    };
    let edits = unexported(project, &stamp)?;
    if stamp.matches(project)? {
        eprintln!("upstream/ is up to date (line {})", stamp.line);
        if !edits.is_empty() {
            eprintln!("it also holds work that is not in patches/ yet:\n{edits}");
        }
        return Ok(true);
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
    Ok(false)
}

/// Goes on from a conflict that was resolved in `new`.
fn go_on(project: &Project, new: &Path, stopped: Option<Stopped>) -> Result<Merged> {
    let stopped = stopped.context("there is no conflict to go on from")?;
    ensure!(
        stopped.line == project.line.name && stopped.digest == digest(project)?,
        "patches/ has changed since it stopped at patches/{}: start anew with \
         `cargo xtask apply --abort` and `cargo xtask apply`",
        stopped.patch.display()
    );
    let dir = new.join(&stopped.tree);
    if git::is_applying(&dir) {
        let conflicts = git::conflicts(&dir)?;
        ensure!(
            conflicts.is_empty(),
            "in {} there are conflicts left: resolve and `git add`\n{conflicts}",
            dir.display()
        );
        git::am_continue(&dir)?;
    }
    let mut merged = stopped.merged;
    let trees: Vec<_> = project.line.tree.keys().collect();
    for tree in trees.into_iter().skip_while(|tree| **tree != stopped.tree) {
        let mut patches = series(project, tree)?;
        if *tree == stopped.tree {
            let at = patches.iter().position(|patch| patch.path == stopped.patch);
            patches.drain(..=at.context("the patch is not in its series")?);
        } else {
            make_base(project, tree, new)?;
        }
        apply_series(project, tree, new, &patches, OnConflict::Stop, &mut merged)?;
    }
    fs::remove_file(Stopped::file(new)).context("cannot remove the mark")?;
    Ok(merged)
}

/// Brings the root's manifest after the line.
fn write_manifest(project: &Project) -> Result<()> {
    let file = project.root.join("Cargo.toml");
    let wanted = workspace::manifest(project, &project.upstream())?;
    if fs::read_to_string(&file).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    eprintln!("writing Cargo.toml for line {}", project.line.name);
    workspace::write(&file, &wanted)
}

/// One `apply` or `export` at a time.
pub fn lock(project: &Project) -> Result<File> {
    let path = project.root.join(".upstream-lock");
    process::lock(&path, "another `cargo xtask` in this checkout")
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

/// What a patch that does not apply leads to.
#[derive(Clone, Copy, PartialEq)]
pub enum OnConflict {
    Fail,
    /// Merge it as `git am --3way` does, and stop where that needs a person.
    Stop,
}

/// Makes every tree of the line below `to`.
pub fn build(project: &Project, to: &Path, on_conflict: OnConflict) -> Result<Merged> {
    let mut merged = Merged::new();
    for name in project.line.tree.keys() {
        make_base(project, name, to)?;
        let patches = series(project, name)?;
        apply_series(project, name, to, &patches, on_conflict, &mut merged)?;
    }
    Ok(merged)
}

/// The patches of a tree that apply to the line.
fn series(project: &Project, tree: &str) -> Result<Vec<Patch>> {
    let mut patches = series::read(project, tree)?;
    let branch = &project.line.tree[tree].branch;
    patches.retain(|patch| !patch.message.trailers.is_for_branch(branch));
    Ok(patches)
}

/// The commit that each tree below `to` ends at.
fn heads(project: &Project, to: &Path) -> Result<BTreeMap<String, String>> {
    let trees = project.line.tree.keys();
    trees
        .map(|tree| Ok((tree.clone(), git::head(&to.join(tree))?)))
        .collect()
}

/// Unpacks the artifacts of a tree below `to` and commits them.
fn make_base(project: &Project, name: &str, to: &Path) -> Result<()> {
    let tree = &project.line.tree[name];
    let dir = to.join(name);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
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
    git::commit_base(&dir, &message)
}

fn apply_series(
    project: &Project,
    tree: &str,
    to: &Path,
    patches: &[Patch],
    on_conflict: OnConflict,
    merged: &mut Merged,
) -> Result<()> {
    let dir = to.join(tree);
    for patch in patches {
        let file = project.patches().join(&patch.path);
        let before = git::head(&dir)?;
        if let Err(error) = git::am(&dir, &file) {
            let what = format!(
                "patches/{} does not apply to {} of line {}",
                patch.path.display(),
                tree,
                project.line.name
            );
            if on_conflict == OnConflict::Fail {
                return Err(error.context(what));
            }
            merged.entry(tree.to_string()).or_insert(before.clone());
            // What it was written for may be in the trees that were there before.
            let old = project.upstream().join(tree);
            if git::am_merge(&dir, &file, &old)? {
                eprintln!("{what} as it is; it was merged");
            } else {
                let stopped = Stopped {
                    line: project.line.name.clone(),
                    digest: digest(project)?,
                    tree: tree.to_string(),
                    patch: patch.path.clone(),
                    merged: std::mem::take(merged),
                };
                fs::write(Stopped::file(to), toml::to_string(&stopped)?)
                    .context("cannot write where it stopped")?;
                bail!(
                    "{what}:\n{}\nIn {}, resolve this, `git add` the files and run \
                     `cargo xtask apply --continue`; or throw that folder away with \
                     `cargo xtask apply --abort`.",
                    git::conflicts(&dir)?,
                    dir.display()
                );
            }
        }
        // An exit code of 0 is not proof that something was applied.
        ensure!(
            git::head(&dir)? != before,
            "git am accepted patches/{} but made no commit of it",
            patch.path.display()
        );
    }
    git::text(
        &dir,
        &["update-ref", git::APPLIED, "HEAD"],
        "mark the series",
    )?;
    let left = git::uncommitted(&dir)?;
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
