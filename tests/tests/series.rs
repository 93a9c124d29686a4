//! The patch series as a reviewer sees it: each patch's subject, the files that it
//! touches, and how many lines it adds and removes.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn series() {
    let patches = Path::new(env!("CARGO_MANIFEST_DIR")).join("../patches");
    let mut text = String::new();
    for folder in [
        "datafusion",
        "datafusion-python",
        "datafusion-sqlparser-rs",
        "local/datafusion",
        "local/datafusion-python",
    ] {
        let folder_path = patches.join(folder);
        let Ok(series) = fs::read_to_string(folder_path.join("series")) else {
            continue;
        };
        for name in series.lines() {
            writeln!(text, "{folder}/{name}").unwrap();
            describe(&folder_path.join(name), &mut text);
        }
    }
    insta::assert_snapshot!(text);
}

fn describe(patch: &PathBuf, text: &mut String) {
    let mail = fs::read_to_string(patch).unwrap();
    let subject = mail
        .lines()
        .skip_while(|line| !line.starts_with("Subject: "))
        .enumerate()
        .take_while(|(i, line)| *i == 0 || line.starts_with(' '))
        .map(|(_, line)| line)
        .collect::<String>();
    writeln!(text, "  {subject}").unwrap();

    // Outside of any repository: inside of one, git leaves out what is not below it.
    let outside = tempfile::tempdir().unwrap();
    let numstat = Command::new("git")
        .args(["apply", "--numstat"])
        .arg(patch)
        .current_dir(outside.path())
        .output()
        .expect("git is installed");
    assert!(numstat.status.success(), "{numstat:?}");
    let numstat = String::from_utf8(numstat.stdout).unwrap();
    assert!(!numstat.is_empty(), "{} holds no diff", patch.display());
    for line in numstat.lines() {
        let mut columns = line.split('\t');
        let [added, removed, file] = [(); 3].map(|()| columns.next().unwrap());
        writeln!(text, "  +{added} -{removed} {file}").unwrap();
    }
}
