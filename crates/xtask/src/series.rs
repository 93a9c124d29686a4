//! The patch series: `patches/<tree>` is filed upstream, `patches/local/<tree>` never is.
//!
//! A folder holds one `.patch` a change, in `git format-patch` form, and `series`, which
//! names them in the order in which they apply. A patch's file name is made from its
//! subject ([`file_name`]); its last paragraph carries the [`Trailers`].

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::project::Project;

/// One patch as it lies in `patches/`.
pub struct Patch {
    /// Its place, relative to `patches/`.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    pub message: Message,
}

impl Patch {
    /// What commands and people call it.
    pub fn name(&self) -> &str {
        self.path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default()
    }

    /// The files that it touches, as upstream names them.
    pub fn touched(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.bytes)
            .lines()
            .filter_map(|line| line.strip_prefix("+++ b/"))
            .map(str::to_string)
            .collect()
    }

    /// How many lines it adds and removes.
    pub fn size(&self) -> (usize, usize) {
        let diff = String::from_utf8_lossy(&self.bytes);
        let (mut added, mut removed, mut in_hunk) = (0, 0, false);
        for line in diff.lines() {
            if line.starts_with("diff --git ") {
                in_hunk = false;
            } else if line.starts_with("@@ ") {
                in_hunk = true;
            } else if in_hunk {
                added += usize::from(line.starts_with('+'));
                removed += usize::from(line.starts_with('-'));
            }
        }
        (added, removed)
    }

    /// The Rust tests that it adds: the file, as upstream names it, and the function.
    pub fn tests(&self) -> Vec<(String, String)> {
        let diff = String::from_utf8_lossy(&self.bytes);
        let (mut file, mut in_test, mut tests) = (String::new(), false, vec![]);
        for line in diff.lines() {
            if let Some(name) = line.strip_prefix("+++ b/") {
                file = name.to_string();
            }
            // The attribute may be the context of an earlier test.
            let code = line.get(1..).unwrap_or_default().trim();
            let signature = code.strip_prefix("async ").unwrap_or(code);
            if is_test_attribute(code) {
                in_test = true;
            } else if let Some(rest) = signature.strip_prefix("fn ") {
                let name = rest.split('(').next().unwrap_or_default();
                if std::mem::take(&mut in_test) && line.starts_with('+') {
                    tests.push((file.clone(), name.to_string()));
                }
            }
        }
        tests
    }
}

/// Whether a line is the attribute of a test: `#[test]`, `#[tokio::test(...)]`.
fn is_test_attribute(line: &str) -> bool {
    let attribute = line.strip_prefix("#[").unwrap_or_default();
    let path = attribute.split(['(', ']']).next().unwrap_or_default();
    path.rsplit("::").next() == Some("test")
}

/// The commit message: a pull request and what UPSTREAM.md lists.
pub struct Message {
    pub subject: String,
    pub body: String,
    pub trailers: Trailers,
}

pub struct Trailers {
    /// The upstream issue, or `none`.
    pub issue: String,
    /// `no`, the pull request's address, or [`LOCAL`].
    pub forwarded: String,
    /// What it was written against: an artifact of the line, such as
    /// `toy 1.0.0`, or a commit of the branch that it is filed against, such as
    /// `main 0123...`.
    pub base: String,
    /// The subjects of the patches that it needs, or `none`.
    pub depends_on: Vec<String>,
    /// The tests that fail without it, see [`crate::proof`].
    pub tested_by: Vec<String>,
}

/// `Forwarded:` of a patch that is not meant for upstream.
pub const LOCAL: &str = "not-needed";

impl Trailers {
    pub fn is_local(&self) -> bool {
        self.forwarded == LOCAL
    }

    /// Whether it changes what only `branch` has, so that it does not apply to the line. It
    /// comes after those that do, and is written by git in a checkout of the branch.
    pub fn is_for_branch(&self, branch: &str) -> bool {
        self.base
            .strip_prefix(branch)
            .and_then(|rest| rest.strip_prefix(' '))
            .is_some_and(|commit| {
                commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit())
            })
    }
}

/// Where the two series of a tree lie below `patches/`, in the order they apply.
pub fn folders(tree: &str) -> [PathBuf; 2] {
    [PathBuf::from(tree), Path::new("local").join(tree)]
}

/// Reads all patches of a tree, in order. A tree without local patches has no folder for
/// them; the one that is filed must exist.
pub fn read(project: &Project, tree: &str) -> Result<Vec<Patch>> {
    let [filed, local] = folders(tree);
    let mut patches = read_folder(&project.patches(), &filed)?;
    if project.patches().join(&local).exists() {
        patches.extend(read_folder(&project.patches(), &local)?);
    }
    Ok(patches)
}

fn read_folder(patches: &Path, folder: &Path) -> Result<Vec<Patch>> {
    let series = patches.join(folder).join("series");
    let names = fs::read_to_string(&series)
        .with_context(|| format!("cannot read {}", series.display()))?;
    let mut read = Vec::new();
    for name in names.lines() {
        ensure!(
            Path::new(name).components().count() == 1 && name.ends_with(".patch"),
            "{}: `{name}` is not the name of a patch in this folder",
            series.display()
        );
        let path = folder.join(name);
        ensure!(
            !read.iter().any(|patch: &Patch| patch.path == path),
            "{}: `{name}` is listed twice",
            series.display()
        );
        let file = patches.join(&path);
        let bytes = fs::read(&file).with_context(|| {
            format!("{} lists `{name}`, which cannot be read", series.display())
        })?;
        let message = parse(&bytes).with_context(|| {
            format!("{} is not a patch of the series", file.display())
        })?;
        read.push(Patch {
            path,
            bytes,
            message,
        });
    }
    for entry in fs::read_dir(patches.join(folder))
        .with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry.context("cannot list the patches")?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "patch")
            && !read.iter().any(|patch| patches.join(&patch.path) == path)
        {
            bail!("{} is not in {}", path.display(), series.display());
        }
    }
    Ok(read)
}

/// The file name for a patch of this subject: its words in lower case, without the
/// type that upstream's convention puts before the colon.
pub fn file_name(subject: &str) -> String {
    let words = match subject.split_once(": ") {
        Some((kind, words)) if !kind.contains(' ') => words,
        _ => subject,
    };
    let mut stem = String::new();
    for c in words.chars() {
        match c {
            'a'..='z' | '0'..='9' | '_' => stem.push(c),
            'A'..='Z' => stem.push(c.to_ascii_lowercase()),
            _ if !stem.is_empty() && !stem.ends_with('-') => stem.push('-'),
            _ => {}
        }
    }
    format!("{}.patch", stem.trim_end_matches('-'))
}

/// Takes a mail apart as `git am` does.
pub fn parse(bytes: &[u8]) -> Result<Message> {
    let text = std::str::from_utf8(bytes).context("it is not UTF-8")?;
    let (head, rest) = text
        .split_once("\n\n")
        .context("there is no empty line after the mail header")?;
    ensure!(
        head.starts_with("From 0000000000000000000000000000000000000000 "),
        "it does not start with a zeroed `From ` line: write it with `cargo xtask export`"
    );
    let subject = subject(head)?;
    // A message without a body leaves nothing before the line.
    let rest = format!("\n{rest}");
    let (message, diff) = rest
        .split_once("\n---\n")
        .context("there is no `---` line between message and diff")?;
    ensure!(diff.contains("\ndiff --git "), "it holds no diff");
    let message = message.trim_end();
    let (body, trailers) = message.rsplit_once("\n\n").unwrap_or(("", message));
    Ok(Message {
        subject,
        body: body.trim().to_string(),
        trailers: parse_trailers(trailers)?,
    })
}

/// `Subject:` with its folded lines.
fn subject(head: &str) -> Result<String> {
    let mut lines = head
        .lines()
        .skip_while(|line| !line.starts_with("Subject: "));
    let first = lines.next().context("there is no `Subject:`")?;
    let mut subject = first["Subject: ".len()..].to_string();
    for more in lines.take_while(|line| line.starts_with(' ')) {
        subject.push_str(more);
    }
    ensure!(
        !subject.contains("=?"),
        "the subject is not plain ASCII: {subject}"
    );
    Ok(subject)
}

fn parse_trailers(paragraph: &str) -> Result<Trailers> {
    let all = |key: &str| -> Result<Vec<String>> {
        let values = paragraph
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let values: Vec<_> = values.map(|value| value.trim().to_string()).collect();
        ensure!(
            !values.is_empty(),
            "the message does not end with a `{key}:` trailer"
        );
        Ok(values)
    };
    let get = |key: &str| -> Result<String> {
        let mut values = all(key)?;
        ensure!(values.len() == 1, "`{key}:` is there twice");
        Ok(values.remove(0))
    };
    let trailers = Trailers {
        issue: get("Upstream-Issue")?,
        forwarded: get("Forwarded")?,
        base: get("Base")?,
        depends_on: all("Depends-on")?,
        tested_by: all("Tested-by").unwrap_or_default(),
    };
    ensure!(
        matches!(trailers.forwarded.as_str(), "no" | LOCAL)
            || trailers.forwarded.starts_with("https://"),
        "`Forwarded:` is none of `no`, `{LOCAL}` and a pull request's address: {}",
        trailers.forwarded
    );
    Ok(trailers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_is_the_subject_without_its_type() {
        assert_eq!(
            file_name("feat(ffi): forward `ExecutionPlan::reset_state` (again)"),
            "forward-executionplan-reset_state-again.patch"
        );
        assert_eq!(file_name("Say so: here"), "say-so-here.patch");
    }

    const PATCH: &str =
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A <a@b>
Date: Thu, 1 Jan 2026 00:00:00 +0000
Subject: feat: a subject that is
 folded

Body.

Upstream-Issue: none
Forwarded: no
Base: toy 1.0.0
Depends-on: feat: one
Depends-on: feat: another
Tested-by: toy tests::answers
---

diff --git a/x b/x
";

    #[test]
    fn parse_reads_subject_body_and_trailers() {
        let message = parse(PATCH.as_bytes()).unwrap();
        assert_eq!(message.subject, "feat: a subject that is folded");
        assert_eq!(message.body, "Body.");
        assert_eq!(message.trailers.base, "toy 1.0.0");
        assert_eq!(message.trailers.depends_on, ["feat: one", "feat: another"]);
        assert_eq!(message.trailers.tested_by, ["toy tests::answers"]);
        assert!(!message.trailers.is_local());
        assert!(!message.trailers.is_for_branch("main"));
    }

    #[test]
    fn a_patch_has_a_size_and_tests() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,9 @@\n     #[test]\n     fn old() {\n\
                    +    fn helper() {\n+    #[tokio::test(flavor = \"x\")]\n\
                    +    #[ignore]\n+    async fn new() {\n---- a\n+#[test]\n\
                    +fn newer() {\n";
        let patch = Patch {
            path: "x".into(),
            bytes: format!("{PATCH}{diff}").into_bytes(),
            message: parse(PATCH.as_bytes()).unwrap(),
        };
        assert_eq!(patch.size(), (6, 1));
        let tests = ["new", "newer"].map(|test| ("x".to_string(), test.to_string()));
        assert_eq!(patch.tests(), tests);
    }

    #[test]
    fn a_base_can_be_a_commit_of_the_branch() {
        let base = "Base: main 0123456789abcdef0123456789abcdef01234567";
        let patch = PATCH.replace("Base: toy 1.0.0", base);
        let trailers = parse(patch.as_bytes()).unwrap().trailers;
        assert!(trailers.is_for_branch("main"));
        assert!(!trailers.is_for_branch("ma"));
        let patch = PATCH.replace("Base: toy 1.0.0", "Base: main 0123");
        let trailers = parse(patch.as_bytes()).unwrap().trailers;
        assert!(!trailers.is_for_branch("main"));
    }

    #[test]
    fn parse_names_what_is_missing() {
        for (remove, error) in [
            ("From 0000", "zeroed `From ` line"),
            ("Subject: ", "no `Subject:`"),
            ("Base: toy 1.0.0\n", "`Base:` trailer"),
            ("---\n", "no `---` line"),
            ("\ndiff --git a/x b/x", "no diff"),
        ] {
            let patch = PATCH.replacen(remove, "", 1);
            let message = format!("{:#}", parse(patch.as_bytes()).err().unwrap());
            assert!(message.contains(error), "without {remove:?}: {message}");
        }
    }
}
