//! git, free of what the user's configuration or an outer repository would change.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Where the series starts and where it ended when it was applied.
pub const BASE: &str = "refs/reuse/base";
pub const APPLIED: &str = "refs/reuse/applied";

/// The identity and time of everything that is the tool's own doing, so that the same
/// patches give the same commit ids everywhere.
const NAME: &str = "datafusion-reuse";
const EMAIL: &str = "datafusion-reuse@localhost";
const DATE: &str = "2026-01-01T00:00:00Z";

/// `git -C dir`, where `dir` must itself be a repository: `git apply` and `git am` in a
/// folder of another repository skip what they do not find there, and exit with 0.
pub fn git(dir: &Path) -> Result<Command> {
    let mut git = process::tool("git", "install git (on Debian: apt-get install git)")?;
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        git.env_remove(variable);
    }
    git.arg("-C")
        .arg(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir))
        .env("LC_ALL", "C")
        .args(["-c", "core.hooksPath=/dev/null"])
        .args(["-c", "core.autocrlf=false"])
        .args(["-c", "gc.auto=0"]);
    Ok(git)
}

/// Runs git and returns what it printed, without the final newline.
pub fn text(dir: &Path, args: &[&str], what: &str) -> Result<String> {
    process::text(git(dir)?.args(args), what)
}

/// Makes `dir` a repository with one commit of all it holds, [`BASE`].
pub fn commit_base(dir: &Path, message: &str) -> Result<()> {
    text(dir, &["init", "-q", "-b", "main"], "make a git repository")?;
    // What tests leave behind is nobody's change.
    std::fs::write(
        dir.join(".git/info/exclude"),
        "__pycache__/\n.pytest_cache/\n*.pending-snap\ntarget/\n",
    )
    .context("cannot write .git/info/exclude")?;
    // The messages have headings, which git would drop as comments in an edit.
    text(
        dir,
        &["config", "core.commentChar", ";"],
        "configure the repository",
    )?;
    // -f: upstream's own .gitignore must not decide what the artifact holds.
    text(dir, &["add", "-A", "-f"], "stage the artifacts")?;
    process::text(
        git(dir)?
            .args(["commit", "-q", "--no-gpg-sign", "-m", message])
            .env("GIT_AUTHOR_NAME", NAME)
            .env("GIT_AUTHOR_EMAIL", EMAIL)
            .env("GIT_AUTHOR_DATE", DATE)
            .env("GIT_COMMITTER_NAME", NAME)
            .env("GIT_COMMITTER_EMAIL", EMAIL)
            .env("GIT_COMMITTER_DATE", DATE),
        "commit the artifacts",
    )?;
    text(dir, &["update-ref", BASE, "HEAD"], "mark the base")?;
    Ok(())
}

/// `git am`, which makes the same commit of the same patch everywhere.
fn git_am(dir: &Path) -> Result<Command> {
    let mut git = git(dir)?;
    git.args(["am", "-q"])
        .env("GIT_COMMITTER_NAME", NAME)
        .env("GIT_COMMITTER_EMAIL", EMAIL);
    Ok(git)
}

const AM: [&str; 3] = [
    "--no-gpg-sign",
    "--keep-non-patch",
    "--committer-date-is-author-date",
];

/// Applies one patch, or leaves everything as it was.
pub fn am(dir: &Path, patch: &Path) -> Result<()> {
    let applied = process::text(
        git_am(dir)?.args(AM).arg("--no-3way").arg(patch),
        "apply the patch",
    );
    if applied.is_err() && is_applying(dir) {
        process::text(git_am(dir)?.arg("--abort"), "take the patch back")?;
    }
    applied.map(drop)
}

/// Merges one patch, with what it was written for if that is in the repository `old`, and
/// returns whether that needed nobody. If not, `git am` waits in `dir`.
pub fn am_merge(dir: &Path, patch: &Path, old: &Path) -> Result<bool> {
    if old.join(".git").is_dir() {
        process::text(
            git(dir)?
                .args(["fetch", "-q", "--no-tags"])
                .arg(old)
                .arg("HEAD"),
            "look at the trees that were there before",
        )?;
    }
    let merge = process::output(
        git_am(dir)?.args(AM).arg("--3way").arg(patch),
        "merge the patch",
    )?;
    if !merge.status.success() && conflicts(dir)?.is_empty() {
        // Nothing to merge with: what applies of it, and `.rej` files.
        process::output(
            git(dir)?.args(["apply", "--reject"]).arg(patch),
            "apply a part of the patch",
        )?;
    }
    Ok(merge.status.success())
}

/// Goes on after [`am_merge`] with what is staged.
pub fn am_continue(dir: &Path) -> Result<()> {
    process::text(git_am(dir)?.arg("--continue"), "commit what was resolved")?;
    Ok(())
}

pub fn is_applying(dir: &Path) -> bool {
    dir.join(".git/rebase-apply").is_dir()
}

/// The files that need a person, one a line: unmerged ones, and rejected hunks.
pub fn conflicts(dir: &Path) -> Result<String> {
    let unmerged = ["diff", "--name-only", "--diff-filter=U"];
    let rejected = ["ls-files", "--others", "*.rej"];
    let unmerged = text(dir, &unmerged, "list the conflicts")?;
    let rejected = text(dir, &rejected, "list the rejected hunks")?;
    let files = unmerged.lines().chain(rejected.lines());
    Ok(files.map(|file| format!("  {file}\n")).collect())
}

/// The commit as mail, the same bytes on every machine and at every export.
pub fn format_patch(dir: &Path, commit: &str) -> Result<Vec<u8>> {
    process::stdout(
        git(dir)?
            .args([
                "-c",
                "diff.noprefix=false",
                "-c",
                "diff.mnemonicPrefix=false",
            ])
            .args([
                "format-patch",
                "-1",
                "--stdout",
                "--zero-commit",
                "--full-index",
            ])
            .args([
                "--no-signature",
                "--keep-subject",
                "--stat=72",
                "--no-renames",
            ])
            .args([
                "--no-attach",
                "--no-thread",
                "--no-base",
                "--no-to",
                "--no-cc",
            ])
            .args([
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                "--unified=3",
            ])
            .args([
                "--diff-algorithm=myers",
                "--src-prefix=a/",
                "--dst-prefix=b/",
            ])
            .args(["--binary", "--encode-email-headers", commit]),
        "export a commit",
    )
}

/// The commits of the series, oldest first.
pub fn series(dir: &Path) -> Result<Vec<String>> {
    let range = format!("{BASE}..HEAD");
    let list = text(dir, &["rev-list", "--reverse", &range], "list the commits")?;
    Ok(list.lines().map(str::to_string).collect())
}

/// What the work tree holds that no commit does, one path a line.
pub fn uncommitted(dir: &Path) -> Result<String> {
    text(
        dir,
        &["status", "--porcelain", "--untracked-files=all"],
        "look for uncommitted changes",
    )
}

pub fn head(dir: &Path) -> Result<String> {
    text(dir, &["rev-parse", "--verify", "HEAD"], "read HEAD")
}
