//! `apply`, `export` and `check` on a small project of their own: one crate of one file,
//! served from a cache folder, so that nothing is fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

const LIB: &str = "//! A toy.\n\n// One.\n\n// Two.\n\n// Three.\n\npub fn answer() -> u32 {\n    41\n}\n";
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
        let artifact = toy.artifact();
        fs::create_dir_all(artifact.parent().unwrap()).unwrap();
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(
            fs::File::create(&artifact).unwrap(),
            flate2::Compression::fast(),
        ));
        let manifest =
            "[package]\nname = \"toy\"\nversion = \"1.0.0\"\nedition = \"2024\"\n";
        for (path, text) in [("Cargo.toml", manifest), ("src/lib.rs", LIB)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, format!("toy-1.0.0/{path}"), text.as_bytes())
                .unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap();

        let sha256 = format!("{:x}", Sha256::digest(fs::read(&artifact).unwrap()));
        toy.write(
            "patches/sources.toml",
            &format!(
                r###"default-line = "1"
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
            "[workspace]\nresolver = \"3\"\nmembers = [\"user\", \
             \"upstream/toys/crates/toy\"]\n[patch.crates-io]\n\
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
             Base: toy 1.0.0\nDepends-on: none\n"
        );
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
    assert!(before[4].contains("(patches/toys/answer-rightly.patch) | apache/toys |"));
    assert!(
        before[4].contains("(patches/local/toys/say-that-it-is-ours.patch) | (local) |")
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
fn a_changed_series_is_applied_and_keeps_times_of_unchanged_files() {
    let toy = Toy::with_series();
    let manifest = toy.upstream().join("crates/toy/Cargo.toml");
    let lib = toy.upstream().join("crates/toy/src/lib.rs");
    let (manifest_time, lib_time) = (modified(&manifest), modified(&lib));
    sleep(Duration::from_millis(20));
    toy.write("patches/local/toys/series", "");
    fs::remove_file(
        toy.root()
            .join("patches/local/toys/say-that-it-is-ours.patch"),
    )
    .unwrap();
    toy.ok(&["apply"]);
    assert!(toy.lib().contains("A toy") && toy.lib().contains("42"));
    assert_eq!(modified(&manifest), manifest_time);
    assert!(modified(&lib) > lib_time);

    // Back to what the artifact holds: still a change that cargo has to see.
    let lib_time = modified(&lib);
    sleep(Duration::from_millis(20));
    toy.write("patches/toys/series", "");
    fs::remove_file(toy.root().join("patches/toys/answer-rightly.patch")).unwrap();
    toy.ok(&["apply"]);
    assert_eq!(toy.lib(), LIB);
    assert_eq!(modified(&manifest), manifest_time);
    assert!(modified(&lib) > lib_time);
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
        &["[patch.crates-io] needs `toy = "],
    );
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
        "feat: answer rightly\n---",
        "none\n---",
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

/// Cargo goes by file times, and names the build of a file by its place in the checkout.
#[test]
fn checkouts_that_share_a_target_folder_do_not_take_each_others_build() {
    let target = TempDir::new().unwrap();
    let [a, b] = [Toy::with_series(), Toy::with_series()];
    let check = |toy: &Toy| {
        let output = toy
            .command(&["check"])
            .env("CARGO_TARGET_DIR", target.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said_by(&output));
        modified(&toy.upstream().join("crates/toy/src/lib.rs"))
    };
    let first = check(&a);
    assert_eq!(check(&a), first);
    check(&b);
    assert!(check(&a) > first, "what b built last would pass for a's");
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
