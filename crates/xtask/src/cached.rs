//! Builds that are kept: what a build gives depends on its inputs alone, so that the next
//! one with the same, from whatever checkout, finds it in the cache.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use walkdir::WalkDir;

use crate::digest::{sha256, sha256_of_file};

/// The key of a build: the content of every file in `sources`, which are files and folders
/// below `root`, and what else it depends on.
pub fn key(root: &Path, sources: &[&str], also: &[&str]) -> Result<String> {
    let mut text = String::new();
    for source in sources {
        let files = WalkDir::new(root.join(source))
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| {
                // What builds and Python leave among the sources.
                !["target", "__pycache__"]
                    .iter()
                    .any(|name| entry.file_name() == *name)
            });
        for file in files {
            let file = file.with_context(|| format!("cannot read {source}"))?;
            if file.file_type().is_file() {
                // Not the whole path: another checkout is at another place.
                let path = file.path().strip_prefix(root)?.display();
                writeln!(text, "{} {path}", sha256_of_file(file.path())?)?;
            }
        }
    }
    for word in also {
        writeln!(text, "{word}")?;
    }
    Ok(sha256(text.as_bytes()))
}

/// What `build` made for this key, now or earlier: a folder in `cache`.
///
/// `build` fills the folder that it is given. It is kept when that succeeds, and not before:
/// a build that was interrupted leaves nothing that would be found.
pub fn cached(
    cache: &Path,
    key: &str,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let kept = cache.join(key);
    if kept.exists() {
        return Ok(kept);
    }
    fs::create_dir_all(cache)
        .with_context(|| format!("cannot make {}", cache.display()))?;
    let temporary = tempfile::Builder::new()
        .prefix(".building-")
        .tempdir_in(cache)
        .with_context(|| format!("cannot make a folder in {}", cache.display()))?;
    let built = temporary.path().join(key);
    fs::create_dir(&built).with_context(|| format!("cannot make {}", built.display()))?;
    build(&built)?;
    match fs::rename(&built, &kept) {
        // Another process has built the same meanwhile.
        Err(_) if kept.exists() => Ok(kept),
        renamed => renamed
            .with_context(|| format!("cannot make {}", kept.display()))
            .map(|()| kept),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    /// Builds a folder with one file that says `text`.
    fn build(cache: &Path, key: &str, text: &str) -> String {
        let folder = cached(cache, key, |folder| Ok(fs::write(folder.join("a"), text)?));
        fs::read_to_string(folder.unwrap().join("a")).unwrap()
    }

    #[test]
    fn a_key_is_built_once() {
        let cache = tempfile::tempdir().unwrap();
        let cache = cache.path().join("made with the first build");
        assert_eq!(build(&cache, "one", "first"), "first");
        assert_eq!(build(&cache, "one", "second"), "first");
        assert_eq!(build(&cache, "two", "third"), "third");
        assert_eq!(build(&cache, "one", "fourth"), "first");
        assert_eq!(
            fs::read_dir(&cache).unwrap().count(),
            2,
            "nothing else is left"
        );
    }

    #[test]
    fn a_build_that_fails_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let failed = cached(cache.path(), "one", |folder| {
            fs::write(folder.join("a"), "half")?;
            bail!("no compiler")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no compiler");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
        assert_eq!(build(cache.path(), "one", "whole"), "whole");
    }

    #[test]
    fn what_another_process_built_meanwhile_is_kept() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cached(cache.path(), "one", |folder| {
            assert_eq!(build(cache.path(), "one", "theirs"), "theirs");
            Ok(fs::write(folder.join("a"), "ours")?)
        });
        let text = fs::read_to_string(folder.unwrap().join("a")).unwrap();
        assert_eq!(text, "theirs");
    }

    #[test]
    fn a_key_tells_sources_apart_but_not_checkouts() {
        let checkout = |file: &str, text: &str| {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join("crate/target")).unwrap();
            fs::write(root.path().join("crate").join(file), text).unwrap();
            root
        };
        let key = |root: &tempfile::TempDir| key(root.path(), &["crate"], &["1.95"]);
        let of = |file, text| key(&checkout(file, text)).unwrap();
        assert_eq!(of("a", "text"), of("a", "text"));
        assert_ne!(of("a", "text"), of("a", "other text"));
        assert_ne!(of("a", "text"), of("b", "text"));
        assert_eq!(of("target/a", "text"), of("target/b", "other text"));

        let root = checkout("a", "text");
        let other = super::key(root.path(), &["crate"], &["1.96"]).unwrap();
        assert_ne!(key(&root).unwrap(), other);
        assert!(super::key(root.path(), &["missing"], &[]).is_err());
    }
}
