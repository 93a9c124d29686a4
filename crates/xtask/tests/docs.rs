//! What the docs quote from files is what the files say.
//!
//! A fenced block below `<!-- from PATH -->` is a part of that file of the checkout, word for
//! word. So what a reader copies is what CI builds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

struct Quote {
    line: usize,
    path: String,
    text: String,
}

/// What a Markdown text quotes.
fn quotes(markdown: &str) -> Vec<Quote> {
    let mut lines = markdown.lines().zip(1..);
    let mut quotes = vec![];
    while let Some((line, number)) = lines.next() {
        let path = line
            .trim()
            .strip_prefix("<!-- from ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        let Some(path) = path else { continue };
        let fence = lines.find(|(line, _)| !line.trim().is_empty());
        let (fence, _) = fence.expect("a block follows");
        // A block in a list is indented as its fence is.
        let indent = fence.len() - fence.trim_start().len();
        assert!(
            fence[indent..].starts_with("```"),
            "line {number}: no block follows"
        );
        let text = lines
            .by_ref()
            .map(|(line, _)| line.get(indent..).unwrap_or_default())
            .take_while(|line| *line != "```")
            .fold(String::new(), |text, line| text + line + "\n");
        quotes.push(Quote {
            line: number,
            path: path.to_string(),
            text,
        });
    }
    quotes
}

/// Whether the whole lines of `quote` stand in `file`, one after the other.
fn holds(file: &str, quote: &str) -> bool {
    !quote.trim().is_empty() && format!("\n{file}").contains(&format!("\n{quote}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn quotes_are_what_the_files_say() {
    let mut quoted = BTreeSet::new();
    let mut docs: Vec<_> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect();
    docs.push(root().join("README.md"));
    for doc in docs {
        for quote in quotes(&fs::read_to_string(&doc).unwrap()) {
            let (doc, line, path) = (doc.display(), quote.line, &quote.path);
            let file = fs::read_to_string(root().join(path));
            let file =
                file.unwrap_or_else(|error| panic!("{doc}:{line}: {path}: {error}"));
            assert!(
                holds(&file, &quote.text),
                "{doc}:{line}: {path} does not hold\n{}",
                quote.text
            );
            quoted.insert(quote.path);
        }
    }
    // What an author of an extension copies.
    for file in ["Cargo.toml", "pyproject.toml", "tests/reuse.rs"] {
        let path = format!("crates/reuse-extension/{file}");
        assert!(quoted.contains(&path), "no doc quotes {path}");
    }
}

#[test]
fn a_quote_is_whole_lines() {
    let markdown = "Text.\n\n1. Item:\n\n   <!-- from a.toml -->\n\n   ```toml\n   b = 1\n\n   \
                    [c]\n   ```\n\n```toml\nno = \"quote\"\n```\n";
    let [quote] = &quotes(markdown)[..] else {
        panic!("one block is a quote");
    };
    assert_eq!((quote.line, &*quote.path), (5, "a.toml"));
    assert_eq!(quote.text, "b = 1\n\n[c]\n");

    assert!(holds("a = 0\nb = 1\n\n[c]\nd = 2\n", &quote.text));
    assert!(!holds("ab = 1\n\n[c]\n", &quote.text));
    assert!(!holds("b = 1\n\n[c]d\n", &quote.text));
    assert!(!holds("b = 1\n[c]\n", &quote.text));
    assert!(!holds("b = 1\n", ""));
}
