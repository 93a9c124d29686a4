//! `cargo xtask export`: from the commits in `upstream/` back to `patches/`.
//!
//! Every commit after the base becomes one patch. Those with `Forwarded: not-needed` go
//! to `patches/local/<tree>` and must come last, the others to `patches/<tree>`. With
//! them go what is made from them: the `series` files, `patches/SHA256SUMS` and the
//! table in UPSTREAM.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::apply::{self, Stamp};
use crate::digest::sha256;
use crate::git;
use crate::project::Project;
use crate::series::{self, Message, Patch};

pub fn run(project: &Project) -> Result<()> {
    let _lock = apply::lock(project)?;
    let upstream = project.upstream();
    ensure!(
        Stamp::read(&upstream).is_some(),
        "there is no upstream/ to export: run `cargo xtask apply`"
    );

    // All of it is computed before the first file is written.
    let mut heads = BTreeMap::new();
    let mut files = BTreeMap::new();
    for tree in project.line.tree.keys() {
        let dir = upstream.join(tree);
        let uncommitted = git::uncommitted(&dir)?;
        ensure!(
            uncommitted.is_empty(),
            "upstream/{tree} has changes that are in no commit:\n{uncommitted}\n\
             Commit them there, one commit a change, and run this again."
        );
        files.extend(tree_files(project, &dir, tree)?);
        heads.insert(tree.clone(), git::head(&dir)?);
    }
    for folder in project
        .line
        .tree
        .keys()
        .flat_map(|tree| series::folders(tree))
    {
        replace(&project.patches(), &folder, &files)?;
    }
    fs::write(project.patches().join(SUMS), sums(project)?)
        .context("cannot write the checksums")?;
    update_table(project)?;
    for tree in heads.keys() {
        git::text(
            &upstream.join(tree),
            &["update-ref", git::APPLIED, "HEAD"],
            "mark the series",
        )?;
    }
    Stamp::new(project, heads)?.write(&upstream)
}

/// The files of a tree's two series, by their place below `patches/`. The patches that do
/// not apply to the line are as they lie there.
pub fn tree_files(
    project: &Project,
    dir: &Path,
    tree: &str,
) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let branch = &project.line.tree[tree].branch;
    let [filed, local] = series::folders(tree);
    let mut files = BTreeMap::new();
    let mut series = [String::new(), String::new()];
    for commit in git::series(dir)? {
        let bytes = git::format_patch(dir, &commit)?;
        let message = series::parse(&bytes)
            .with_context(|| format!("commit {commit} of upstream/{tree}"))?;
        let is_local = message.trailers.is_local();
        ensure!(
            is_local || series[1].is_empty(),
            "upstream/{tree}: `{}` is to be filed, but follows a local commit: move it \
             before that one with git rebase",
            message.subject
        );
        let name = series::file_name(&message.subject);
        series[usize::from(is_local)].push_str(&format!("{name}\n"));
        let path = if is_local { &local } else { &filed }.join(name);
        if files.insert(path.clone(), bytes).is_some() {
            bail!(
                "upstream/{tree}: two commits would be {}: change a subject",
                path.display()
            );
        }
    }
    for patch in series::read(project, tree)? {
        if patch.message.trailers.is_for_branch(branch) {
            series[0].push_str(&format!("{}.patch\n", patch.name()));
            files.insert(patch.path, patch.bytes);
        }
    }
    let [filed_series, local_series] = series;
    files.insert(filed.join("series"), filed_series.into_bytes());
    if !local_series.is_empty() {
        files.insert(local.join("series"), local_series.into_bytes());
    }
    Ok(files)
}

/// Makes a folder of `patches/` hold exactly its share of `files`.
fn replace(
    patches: &Path,
    folder: &Path,
    files: &BTreeMap<PathBuf, Vec<u8>>,
) -> Result<()> {
    let dir = patches.join(folder);
    let wanted = |path: &Path| path.parent() == Some(folder);
    if dir.exists() {
        for entry in fs::read_dir(&dir).context("cannot list the patches")? {
            let path = entry.context("cannot list the patches")?.path();
            let known = path
                .strip_prefix(patches)
                .is_ok_and(|path| files.contains_key(path));
            if path
                .extension()
                .is_some_and(|extension| extension == "patch")
                && !known
            {
                eprintln!("removing {}", path.display());
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    for (path, bytes) in files.iter().filter(|(path, _)| wanted(path)) {
        let file = patches.join(path);
        if fs::read(&file).is_ok_and(|found| found == *bytes) {
            continue;
        }
        eprintln!("writing patches/{}", path.display());
        fs::create_dir_all(&dir)
            .and_then(|()| fs::write(&file, bytes))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The checksums of the patches, in the form that `sha256sum --check` reads.
pub const SUMS: &str = "SHA256SUMS";

pub fn sums(project: &Project) -> Result<String> {
    let mut lines = String::new();
    for tree in project.line.tree.keys() {
        for Patch { path, bytes, .. } in series::read(project, tree)? {
            lines.push_str(&format!("{}  {}\n", sha256(&bytes), path.display()));
        }
    }
    Ok(lines)
}

const BEGIN: &str = "<!-- BEGIN series: written by `cargo xtask export` -->";
const END: &str = "<!-- END series -->";

fn update_table(project: &Project) -> Result<()> {
    let file = project.root.join("UPSTREAM.md");
    let text = fs::read_to_string(&file).context("cannot read UPSTREAM.md")?;
    let (before, _, after) = split_table(&text)?;
    let table = table(project)?;
    let new = format!("{before}{BEGIN}\n{table}{END}{after}");
    if new != text {
        eprintln!("writing UPSTREAM.md");
        fs::write(&file, new).context("cannot write UPSTREAM.md")?;
    }
    Ok(())
}

/// UPSTREAM.md: what is before the table, the table, what is after it.
pub fn split_table(text: &str) -> Result<(&str, &str, &str)> {
    let missing = || format!("UPSTREAM.md lacks the lines `{BEGIN}` and `{END}`");
    let (before, rest) = text.split_once(BEGIN).with_context(missing)?;
    let (table, after) = rest.split_once(END).with_context(missing)?;
    Ok((before, table.trim_start_matches('\n'), after))
}

/// The table in UPSTREAM.md, from the patches' headers.
pub fn table(project: &Project) -> Result<String> {
    let mut rows = String::from(
        "| change | lines | repository | upstream issue | forwarded | base | depends on | \
         tested by |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (name, tree) in &project.line.tree {
        for patch in series::read(project, name)? {
            let (added, removed) = patch.size();
            let Patch { path, message, .. } = patch;
            let Message {
                subject, trailers, ..
            } = message;
            let repository = if trailers.is_local() {
                "(local)"
            } else {
                &tree.repository
            };
            rows.push_str(&format!(
                "| [{subject}](patches/{}) | +{added} −{removed} | {repository} | {} | {} | {} | {} | {} |\n",
                path.display(),
                trailers.issue,
                trailers.forwarded,
                trailers.base,
                trailers.depends_on.join("<br>"),
                trailers.tested_by.join("<br>")
            ));
        }
    }
    Ok(rows)
}
