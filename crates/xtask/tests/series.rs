//! `apply`, `export` and `check` on a small project of their own: one crate of one file,
//! served from a cache folder, so that nothing is fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

const LIB: &str = "//! A toy.\n\n// One.\n\n// Two.\n\n// Three.\n\npub fn answer() -> u32 {\n    41\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn answers() {\n        assert!(super::answer() > 40);\n    }\n}\n";
const BODY: &str = "## Which issue does this PR close?\n\nNone.\n";

struct Toy {
    dir: TempDir,
}

impl Toy {
    /// A project whose upstream is `toy 1.0.0`, with an empty series.
    fn new() -> Self {
        let toy = Toy {
            dir: TempDir::new().unwrap(),
        };
        toy.write_artifact(LIB);
        let sha256 = format!("{:x}", Sha256::digest(fs::read(toy.artifact()).unwrap()));
        toy.write(
            "patches/sources.toml",
            &format!(
                r###"default-line = "1"
[line.1]
package = {{ version = "1.0.0+reuse.1" }}
[line.1.tree.toys]
repository = "apache/toys"
branch = "main"
headings = ["## Which issue does this PR close?"]
[[line.1.tree.toys.artifact]]
registry = "cargo"
name = "toy"
version = "1.0.0"
sha256 = "{sha256}"
path = "crates/toy"
"###
            ),
        );
        toy.write("patches/toys/series", "");
        toy.write("patches/SHA256SUMS", "");
        toy.write(
            "UPSTREAM.md",
            "# Upstream\n<!-- BEGIN series: written by `cargo xtask export` -->\n\
             <!-- END series -->\nThe end.\n",
        );
        toy.write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\n    \"user\",\n    \
             \"upstream/toys/crates/toy\",\n]\n[patch.crates-io]\n\
             toy = { path = \"upstream/toys/crates/toy\" }\n",
        );
        toy.write(
            "user/Cargo.toml",
            "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
             [dependencies]\ntoy = \"1\"\n",
        );
        toy.write("user/src/lib.rs", "//! A user.\n");
        toy.write(
            "Cargo.lock",
            "version = 4\n\n[[package]]\nname = \"toy\"\nversion = \"1.0.0\"\n\n\
             [[package]]\nname = \"user\"\nversion = \"0.0.0\"\ndependencies = [\n \
             \"toy\",\n]\n",
        );
        // The project is a repository itself: git must not take it for the one to patch.
        toy.git(&toy.root(), &["init", "-q"]);
        toy.write(".gitignore", "/upstream/\n/.upstream-*\n");
        toy
    }

    /// Puts the crate with this source where the tool looks first.
    fn write_artifact(&self, lib: &str) {
        let artifact = self.artifact();
        fs::create_dir_all(artifact.parent().unwrap()).unwrap();
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(
            fs::File::create(&artifact).unwrap(),
            flate2::Compression::fast(),
        ));
        let manifest =
            "[package]\nname = \"toy\"\nversion = \"1.0.0\"\nedition = \"2024\"\n";
        for (path, text) in [("Cargo.toml", manifest), ("src/lib.rs", lib)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, format!("toy-1.0.0/{path}"), text.as_bytes())
                .unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap();
    }

    /// With two patches, one of them local.
    fn with_series() -> Self {
        let toy = Toy::new();
        toy.ok(&["apply"]);
        toy.commit("feat: answer rightly", "41", "42", "no");
        toy.commit("Say that it is ours", "A toy", "Our toy", "not-needed");
        toy.ok(&["export"]);
        toy
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn upstream(&self) -> PathBuf {
        self.root().join("upstream/toys")
    }

    fn lib(&self) -> String {
        fs::read_to_string(self.upstream().join("crates/toy/src/lib.rs")).unwrap()
    }

    fn artifact(&self) -> PathBuf {
        self.dir
            .path()
            .join("cache/datafusion-reuse/artifacts/toy-1.0.0.crate")
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.root().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Replaces the first `from`, which must be there.
    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path} has no {from:?}");
        self.write(path, &text.replacen(from, to, 1));
    }

    fn git(&self, dir: &Path, args: &[&str]) {
        let output = Command::new("git")
            .arg("-C")
            .arg(dir)
            .args(["-c", "user.name=A", "-c", "user.email=a@b"])
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
    }

    /// Changes the crate and commits that as a patch of the series.
    fn commit(&self, subject: &str, from: &str, to: &str, forwarded: &str) {
        let lib = self.upstream().join("crates/toy/src/lib.rs");
        fs::write(&lib, self.lib().replacen(from, to, 1)).unwrap();
        let message = format!(
            "{subject}\n\n{BODY}\nUpstream-Issue: none\nForwarded: {forwarded}\n\
             Base: toy 1.0.0\nDepends-on: none\nTested-by: toy tests::answers\n"
        );
        self.write(&format!("patches/undo/{}.diff", name(subject)), "");
        self.git(
            &self.upstream(),
            &["commit", "-qa", "--cleanup=verbatim", "-m", &message],
        );
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(args)
            .current_dir(self.root())
            .env("XDG_CACHE_HOME", self.dir.path().join("cache"))
            .env("CARGO_NET_OFFLINE", "true")
            .env_remove("CARGO_TARGET_DIR");
        command
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", said_by(&output));
        said_by(&output)
    }

    /// Runs a command that must fail with all of these words.
    fn fails(&self, args: &[&str], words: &[&str]) {
        let output = self.command(args).output().unwrap();
        let said = said_by(&output);
        assert!(!output.status.success(), "{args:?} passed: {said}");
        for word in words {
            assert!(
                said.contains(word),
                "{args:?} does not say {word:?}: {said}"
            );
        }
    }
}

/// What a patch of this subject is called.
fn name(subject: &str) -> String {
    let words = subject.rsplit(": ").next().unwrap();
    words.to_lowercase().replace(' ', "-")
}

fn modified(file: &Path) -> SystemTime {
    fs::metadata(file).unwrap().modified().unwrap()
}

fn said_by(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn export_and_apply_give_the_same_bytes() {
    let toy = Toy::with_series();
    let before = [
        toy.read("patches/toys/answer-rightly.patch"),
        toy.read("patches/local/toys/say-that-it-is-ours.patch"),
        toy.read("patches/toys/series"),
        toy.read("patches/SHA256SUMS"),
        toy.read("UPSTREAM.md"),
    ];
    assert_eq!(before[2], "answer-rightly.patch\n");
    assert!(
        before[4].contains("(patches/toys/answer-rightly.patch) | +1 −1 | apache/toys |")
    );
    assert!(
        before[4].contains(
            "(patches/local/toys/say-that-it-is-ours.patch) | +1 −1 | (local) |"
        )
    );

    fs::remove_dir_all(toy.root().join("upstream")).unwrap();
    toy.ok(&["apply"]);
    assert!(toy.lib().contains("Our toy") && toy.lib().contains("42"));
    toy.ok(&["export"]);
    let after = [
        toy.read("patches/toys/answer-rightly.patch"),
        toy.read("patches/local/toys/say-that-it-is-ours.patch"),
        toy.read("patches/toys/series"),
        toy.read("patches/SHA256SUMS"),
        toy.read("UPSTREAM.md"),
    ];
    assert_eq!(before, after);
    toy.ok(&["check"]);
}

#[test]
fn apply_again_does_nothing() {
    let toy = Toy::with_series();
    let lib = toy.upstream().join("crates/toy/src/lib.rs");
    let time = modified(&lib);
    assert!(toy.ok(&["apply"]).contains("up to date"));
    assert_eq!(modified(&lib), time);
}

#[test]
fn a_changed_series_is_applied() {
    let toy = Toy::with_series();
    toy.write("patches/local/toys/series", "");
    fs::remove_file(
        toy.root()
            .join("patches/local/toys/say-that-it-is-ours.patch"),
    )
    .unwrap();
    toy.ok(&["apply"]);
    assert!(toy.lib().contains("A toy") && toy.lib().contains("42"));
    toy.write("patches/toys/series", "");
    fs::remove_file(toy.root().join("patches/toys/answer-rightly.patch")).unwrap();
    toy.ok(&["apply"]);
    assert_eq!(toy.lib(), LIB);
}

/// What the pinned crate holds now, one line of it changed.
fn move_pin(toy: &Toy, from: &str, to: &str) {
    let before = format!("{:x}", Sha256::digest(fs::read(toy.artifact()).unwrap()));
    toy.write_artifact(&LIB.replacen(from, to, 1));
    let after = format!("{:x}", Sha256::digest(fs::read(toy.artifact()).unwrap()));
    toy.edit("patches/sources.toml", &before, &after);
}

#[test]
fn a_patch_that_does_not_apply_is_merged_by_a_person_and_nothing_is_lost() {
    let toy = Toy::with_series();
    move_pin(&toy, "    41", "    40");
    let patch = "patches/toys/answer-rightly.patch does not apply to toys of line 1";
    toy.fails(
        &["apply"],
        &[patch, "crates/toy/src/lib.rs", "apply --continue"],
    );
    assert!(toy.lib().contains("Our toy"), "upstream/ is as it was");
    let there = toy.root().join(".upstream-new/toys/crates/toy/src/lib.rs");
    assert!(fs::read_to_string(&there).unwrap().contains("<<<<<<<"));

    // Half done, and tried again: the work is there.
    fs::write(&there, LIB.replace("    41", "    50")).unwrap();
    toy.fails(&["apply"], &["it stopped at", "answer-rightly.patch"]);
    toy.fails(&["apply", "--continue"], &["conflicts left"]);
    assert!(fs::read_to_string(&there).unwrap().contains("50"));
    let dir = toy.root().join(".upstream-new/toys");
    toy.git(&dir, &["add", "-A"]);
    let said = toy.ok(&["apply", "--continue"]);
    assert!(said.contains("cargo xtask export"), "{said}");
    // What follows applied, and the commit is still the patch.
    assert!(toy.lib().contains("50") && toy.lib().contains("Our toy"));
    assert!(toy.ok(&["apply"]).contains("feat: answer rightly"));
    toy.ok(&["export"]);
    assert!(
        toy.read("patches/toys/answer-rightly.patch")
            .contains("+    50")
    );
    toy.ok(&["check"]);
    toy.fails(&["apply", "--continue"], &["no conflict to go on from"]);
}

#[test]
fn a_conflict_can_be_thrown_away() {
    let toy = Toy::with_series();
    toy.fails(&["apply", "--abort"], &["no conflict to abort"]);
    let sources = toy.read("patches/sources.toml");
    let artifact = fs::read(toy.artifact()).unwrap();
    move_pin(&toy, "    41", "    40");
    toy.fails(&["apply"], &["does not apply"]);
    // A patch that was corrected by hand is not what it stopped at.
    toy.edit("patches/toys/answer-rightly.patch", "-    41", "-    40");
    toy.fails(&["apply", "--continue"], &["patches/ has changed since"]);
    toy.edit("patches/toys/answer-rightly.patch", "-    40", "-    41");
    toy.ok(&["apply", "--abort"]);
    assert!(!toy.root().join(".upstream-new").exists());
    toy.write("patches/sources.toml", &sources);
    fs::write(toy.artifact(), artifact).unwrap();
    assert!(toy.ok(&["apply"]).contains("up to date"));
}

#[test]
fn a_patch_whose_surroundings_moved_is_merged() {
    let toy = Toy::with_series();
    // The line above the one that it changes.
    move_pin(&toy, "// Three.", "// III.");
    let said = toy.ok(&["apply"]);
    assert!(said.contains("it was merged"), "{said}");
    assert!(toy.lib().contains("III") && toy.lib().contains("42"));
    toy.ok(&["export"]);
    toy.ok(&["check"]);
}

/// Without the trees of before there is nothing to merge with.
#[test]
fn in_a_fresh_clone_a_conflict_is_a_rejected_hunk() {
    let toy = Toy::with_series();
    fs::remove_dir_all(toy.upstream().parent().unwrap()).unwrap();
    move_pin(&toy, "    41", "    40");
    toy.fails(&["apply"], &["crates/toy/src/lib.rs.rej"]);
    let dir = toy.root().join(".upstream-new/toys");
    let there = dir.join("crates/toy/src/lib.rs");
    fs::write(&there, LIB.replace("    41", "    42")).unwrap();
    toy.fails(&["apply", "--continue"], &["lib.rs.rej"]);
    fs::remove_file(dir.join("crates/toy/src/lib.rs.rej")).unwrap();
    toy.git(&dir, &["add", "-A"]);
    toy.ok(&["apply", "--continue"]);
    assert!(toy.lib().contains("42") && toy.lib().contains("Our toy"));
}

#[test]
fn the_manifest_follows_the_line() {
    let toy = Toy::with_series();
    let sources = toy.read("patches/sources.toml");
    let (_, line) = sources.split_once("[line.1]").unwrap();
    let line = line
        .replace("line.1", "line.2")
        .replace("crates/toy", "lib/toy");
    toy.write(
        "patches/sources.toml",
        &format!("{sources}\n[line.2]{line}"),
    );
    let manifest = toy.read("Cargo.toml");
    for patch in ["toys/answer-rightly", "local/toys/say-that-it-is-ours"] {
        let patch = format!("patches/{patch}.patch");
        toy.write(&patch, &toy.read(&patch).replace("crates/toy", "lib/toy"));
    }
    toy.ok(&["--line", "2", "apply"]);
    let wanted = manifest.replace("crates/toy", "lib/toy");
    assert_eq!(toy.read("Cargo.toml"), wanted);
    toy.ok(&["--line", "2", "export"]);
    toy.ok(&["--line", "2", "check"]);
}

#[test]
fn work_that_is_not_exported_is_never_lost() {
    let toy = Toy::with_series();
    toy.commit("feat: answer anew", "42", "43", "no");
    // With the patches as they were, there is nothing to do and nothing to lose.
    assert!(toy.ok(&["apply"]).contains("feat: answer anew"));
    toy.edit("patches/toys/answer-rightly.patch", "+    42", "+    44");
    toy.fails(&["apply"], &["feat: answer anew", "cargo xtask export"]);
    assert!(toy.lib().contains("43"));

    let toy = Toy::with_series();
    fs::write(toy.upstream().join("new.txt"), "new").unwrap();
    toy.fails(&["export"], &["new.txt", "Commit them"]);
    toy.edit("patches/toys/answer-rightly.patch", "+    42", "+    44");
    toy.fails(&["apply"], &["new.txt", "not committed"]);
    assert!(toy.upstream().join("new.txt").exists());
}

#[test]
fn a_local_commit_before_one_to_be_filed_is_refused() {
    let toy = Toy::with_series();
    toy.commit("feat: answer anew", "42", "43", "no");
    toy.fails(
        &["export"],
        &["feat: answer anew", "follows a local commit"],
    );
}

#[test]
fn a_commit_without_trailers_is_refused() {
    let toy = Toy::with_series();
    fs::write(toy.upstream().join("new.txt"), "new").unwrap();
    toy.git(&toy.upstream(), &["add", "new.txt"]);
    toy.git(&toy.upstream(), &["commit", "-qm", "No trailers"]);
    toy.fails(&["export"], &["`Upstream-Issue:` trailer"]);
}

#[test]
fn bad_input_names_itself_and_leaves_upstream_alone() {
    let toy = Toy::with_series();
    let good = toy.lib();

    let sources = toy.read("patches/sources.toml");
    let start = sources.find("sha256 = \"").unwrap() + "sha256 = \"".len();
    let flipped = if sources[start..].starts_with('0') {
        "1"
    } else {
        "0"
    };
    let mut wrong = sources.clone();
    wrong.replace_range(start..=start, flipped);
    toy.write("patches/sources.toml", &wrong);
    toy.fails(
        &["apply"],
        &["toy 1.0.0 is not what patches/sources.toml pins"],
    );
    wrong.replace_range(start..=start, "X");
    toy.write("patches/sources.toml", &wrong);
    toy.fails(&["apply"], &["toy 1.0.0: `sha256` is not 64"]);
    toy.write("patches/sources.toml", &sources);

    toy.fails(
        &["--line", "2", "apply"],
        &["no line `2`", "the lines are 1"],
    );

    let patch = toy.read("patches/toys/answer-rightly.patch");
    toy.edit("patches/toys/answer-rightly.patch", "-    41", "-    40");
    toy.fails(
        &["apply"],
        &["patches/toys/answer-rightly.patch does not apply to toys of line 1"],
    );
    toy.ok(&["apply", "--abort"]);
    toy.write("patches/toys/answer-rightly.patch", &patch);

    // A download that was cut short; the pin has to ask for a rebuild for it to be read.
    let whole = fs::read(toy.artifact()).unwrap();
    fs::write(toy.artifact(), &whole[..whole.len() / 2]).unwrap();
    toy.edit("patches/toys/answer-rightly.patch", "+    42", "+    43");
    toy.fails(&["apply"], &["cut short, delete it", "toy-1.0.0.crate"]);

    assert_eq!(toy.lib(), good);
    fs::write(toy.artifact(), whole).unwrap();
    toy.ok(&["apply"]);
    assert!(toy.lib().contains("43"));
}

#[test]
fn missing_tools_are_named_with_the_fix() {
    let toy = Toy::new();
    let empty = TempDir::new().unwrap();
    let output = toy
        .command(&["apply"])
        .env("PATH", empty.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(
        said_by(&output).contains("`git` was not found on PATH: install git"),
        "{}",
        said_by(&output)
    );

    // An sdist is fetched with pip.
    toy.edit("patches/sources.toml", "\"cargo\"", "\"pip\"");
    toy.write("python/requirements/tools.txt", "maturin\n");
    let apply = |path: &Path, python: &str| {
        let output = toy
            .command(&["apply"])
            .env("PATH", path)
            .env("PYTHON", python)
            .output()
            .unwrap();
        assert!(!output.status.success());
        said_by(&output)
    };
    let said = apply(empty.path(), "");
    assert!(said.contains("install Python 3.10 or newer"), "{said}");
    let said = apply(empty.path(), "python9");
    assert!(said.contains("`python9` was not found on PATH"), "{said}");

    // An environment from which a tool has gone.
    let python = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap()
        .stdout;
    let python = String::from_utf8(python).unwrap();
    let cache = toy.dir.path().join("cache/datafusion-reuse");
    toy.write("python/requirements/tools.txt", "");
    let said = apply(empty.path(), python.trim());
    assert!(
        said.contains("has no maturin: delete the folder")
            && cache.join("tools").exists(),
        "{said}"
    );
}

#[test]
fn apply_works_after_one_that_was_killed_at_any_point() {
    let toy = Toy::with_series();
    let patch = toy.read("patches/toys/answer-rightly.patch");
    for step in 0..24 {
        // Another answer each time, so that there is something to do.
        let answer = format!("+    {}", 50 + step);
        let changed = patch.replacen("+    42", &answer, 1);
        toy.write("patches/toys/answer-rightly.patch", &changed);
        let mut apply = toy.command(&["apply"]).spawn().unwrap();
        sleep(Duration::from_millis(step * 6));
        apply.kill().unwrap();
        apply.wait().unwrap();
        toy.ok(&["apply"]);
        assert!(
            toy.lib().contains(&answer[1..]),
            "after {step}: {}",
            toy.lib()
        );
        assert!(!toy.root().join(".upstream-old").exists());
    }

    // Between the two renames, which the loop hardly hits.
    let upstream = toy.root().join("upstream");
    fs::rename(&upstream, toy.root().join(".upstream-old")).unwrap();
    fs::create_dir_all(toy.root().join(".upstream-new/toys")).unwrap();
    assert!(toy.ok(&["apply"]).contains("up to date"));
    assert!(!toy.root().join(".upstream-new").exists());
}

#[test]
fn check_finds_each_change_made_by_hand() {
    let toy = Toy::with_series();
    toy.ok(&["check"]);
    let check = |path: &str, from: &str, to: &str, words: &[&str]| {
        let text = toy.read(path);
        toy.edit(path, from, to);
        toy.fails(&["check"], words);
        toy.write(path, &text);
    };
    let patch = "patches/toys/answer-rightly.patch";

    check(
        patch,
        "None.",
        "None!",
        &["answer-rightly.patch was changed by hand"],
    );
    check(
        patch,
        "+    42",
        "+    43",
        &["answer-rightly.patch was changed by hand"],
    );
    check(
        patch,
        "## Which",
        "## What",
        &["lacks upstream's heading `## Which"],
    );
    check(
        patch,
        "Base: toy 1",
        "Base: toy 2",
        &["`Base: toy 2.0.0` is neither an artifact of line 1 nor a commit of main"],
    );
    check(
        patch,
        "Depends-on: none",
        "Depends-on: x",
        &["`Depends-on: x` is not the subject"],
    );
    check(
        patch,
        "@@ -",
        "@@ -1,99 +1,99 @@\n@@ -",
        &["failed to parse the diff"],
    );
    let sources = toy.read("patches/sources.toml");
    let hash = &sources[sources.find("sha256 = ").unwrap()..][..12];
    let other = if hash.ends_with("00") {
        "sha256 = \"11"
    } else {
        "sha256 = \"00"
    };
    check(
        "patches/sources.toml",
        hash,
        other,
        &["toy 1.0.0 is not what patches/sources.toml pins"],
    );
    check(
        "patches/toys/series",
        "answer-rightly.patch\n",
        "",
        &["answer-rightly.patch is not in", "toys/series"],
    );
    check(
        "patches/toys/series",
        "answer-rightly.patch",
        "another.patch",
        &["lists `another.patch`, which cannot be read"],
    );
    check(
        "UPSTREAM.md",
        "apache/toys | none",
        "apache/toys | apache/toys#1",
        &["UPSTREAM.md disagrees with the headers of the patches"],
    );
    check(
        "patches/SHA256SUMS",
        "toys/answer-rightly.patch",
        "toys/gone.patch",
        &["patches/toys/gone.patch is in SHA256SUMS but not there"],
    );
    check(
        "Cargo.toml",
        "toy = { path = \"upstream/toys/crates/toy\" }",
        "",
        &["Cargo.toml is not the one of line 1", "toy = { path ="],
    );
    check(
        patch,
        "Tested-by: toy tests::answers",
        "Tested-by: toy tests::gone",
        &["`Tested-by: toy tests::gone`: there is no such test"],
    );
    check(
        patch,
        "Tested-by: toy tests::answers\n",
        "",
        &["names no test that fails without it"],
    );
    let undo = toy.root().join("patches/undo/answer-rightly.diff");
    fs::remove_file(&undo).unwrap();
    toy.fails(&["check"], &["there is no", "undo/answer-rightly.diff"]);
    fs::write(&undo, "").unwrap();
    check(
        "Cargo.lock",
        "version = 4\n",
        "version = 4\n\n[[patch.unused]]\nname = \"gone\"\nversion = \"1.0.0\"\n",
        &["Cargo.lock"],
    );
    toy.ok(&["check"]);

    // Without sources, all but what needs them.
    fs::remove_dir_all(toy.root().join("upstream")).unwrap();
    check(
        patch,
        "None.",
        "None!",
        &["answer-rightly.patch was changed by hand"],
    );
    assert!(
        toy.ok(&["check"])
            .contains("run `cargo xtask apply` to check the rest")
    );
}

/// A patch of a file that only upstream's branch has.
#[test]
fn a_patch_for_the_branch_is_listed_and_checked_but_not_applied() {
    let toy = Toy::with_series();
    let patch = toy
        .read("patches/toys/answer-rightly.patch")
        .replace("answer rightly", "answer there")
        .replace("src/lib.rs", "src/only_there.rs")
        .replace("Base: toy 1.0.0", &format!("Base: main {}", "1".repeat(40)))
        .replace("Depends-on: none", "Depends-on: feat: answer rightly");
    toy.write("patches/toys/answer-there.patch", &patch);
    let series = "answer-rightly.patch\nanswer-there.patch\n";
    toy.write("patches/toys/series", series);
    toy.fails(&["check"], &["answer-there.patch is not in SHA256SUMS"]);
    toy.ok(&["export"]);
    assert_eq!(toy.read("patches/toys/answer-there.patch"), patch);
    assert_eq!(toy.read("patches/toys/series"), series);
    assert!(toy.read("UPSTREAM.md").contains("| main 1111"));
    toy.ok(&["check"]);

    toy.edit(
        "patches/toys/series",
        series,
        "answer-there.patch\nanswer-rightly.patch\n",
    );
    toy.fails(
        &["check"],
        &["answer-there.patch", "not the subject of an earlier"],
    );
    toy.edit(
        "patches/toys/answer-there.patch",
        "Depends-on: feat: answer rightly",
        "Depends-on: none",
    );
    toy.fails(
        &["check"],
        &["answer-rightly.patch", "follows one that does not"],
    );
    toy.write("patches/toys/answer-there.patch", &patch);
    toy.write("patches/toys/series", series);

    fs::remove_dir_all(toy.root().join("upstream")).unwrap();
    toy.ok(&["apply"]);
    toy.ok(&["check"]);
    assert!(!toy.upstream().join("crates/toy/src/only_there.rs").exists());
}

#[test]
fn check_finds_what_upstream_holds_beyond_the_series() {
    let toy = Toy::with_series();
    toy.commit("feat: answer anew", "42", "43", "no");
    toy.fails(&["check"], &["round trip", "feat: answer anew"]);
}

#[test]
fn a_label_that_was_handed_out_keeps_its_patches() {
    let toy = Toy::with_series();
    let sums = format!("{:x}", Sha256::digest(toy.read("patches/SHA256SUMS")));
    toy.write("patches/released", &format!("1.0.0+reuse.1 {sums}\n"));
    toy.ok(&["check"]);
    toy.commit("feat: answer anew", "42", "43", "not-needed");
    toy.ok(&["export"]);
    let words = ["1.0.0+reuse.1 was handed out with other patches: raise"];
    toy.fails(&["check"], &words);
    toy.edit("patches/sources.toml", "+reuse.1", "+reuse.2");
    toy.ok(&["check"]);
}

#[test]
fn pr_prints_what_to_file_and_refuses_local_patches() {
    let toy = Toy::with_series();
    let said = toy.ok(&["pr", "answer-rightly"]);
    assert!(said.contains("repository: apache/toys"), "{said}");
    assert!(said.contains("title:      feat: answer rightly"), "{said}");
    assert_eq!(toy.ok(&["pr", "answer-rightly", "--body"]), BODY);
    toy.fails(&["pr", "say-that-it-is-ours"], &["which is not filed"]);
    toy.fails(
        &["pr", "nothing"],
        &["no patch is called `nothing`", "answer-rightly"],
    );
}

#[test]
fn snippet_is_a_patch_table() {
    let toy = Toy::with_series();
    let snippet: toml::Table = toy.ok(&["snippet"]).parse().unwrap();
    let path = snippet["patch"]["crates-io"]["toy"]["path"]
        .as_str()
        .unwrap();
    assert!(Path::new(path).join("src/lib.rs").exists());
}
