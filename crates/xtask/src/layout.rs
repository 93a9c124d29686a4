//! The memory layout of every `FFI_*` type, released and patched. Libraries of both exchange
//! these types by value, so that a byte in another place is corruption.
//!
//! Half of the fields are private, and only code inside of the module of a type can ask
//! for their offsets. So each variant is compiled once more from a copy that has, at the
//! end of every file, a module which writes them down.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use walkdir::WalkDir;

use crate::cached;
use crate::git;
use crate::process;
use crate::project::Project;
use crate::target;
use crate::workspace;

/// The variant that is built against the released crates.
const STOCK: &str = "stock";
const PATCHED: &str = "patched";

/// Compares the layouts: every released type is the same in the patched crate, and these are
/// the layouts that `patches/` has on record.
pub fn check(project: &Project) -> Result<()> {
    let stock = layout(project, STOCK)?;
    let patched = layout(project, PATCHED)?;
    compare(&stock, &patched)?;
    let record = format!("layout-{}.txt", project.line.name);
    let record = project.patches().join("local").join(record);
    if !fs::read_to_string(&record).is_ok_and(|found| found == patched) {
        let file = project.root.join("target/layout.txt");
        workspace::write(&file, &patched)?;
        bail!(
            "the layouts in {} are not those of the patched crate, {}: if the difference is \
             meant, replace the one by the other",
            record.display(),
            file.display()
        );
    }
    Ok(())
}

/// That every type of `stock` has the same lines in `patched`.
fn compare(stock: &str, patched: &str) -> Result<()> {
    let (stock, patched) = (types(stock), types(patched));
    ensure!(!stock.is_empty(), "the released crate has no FFI types");
    for (name, lines) in stock {
        let there = patched.get(name).map(Vec::as_slice).unwrap_or_default();
        ensure!(
            lines == there,
            "{name} is not laid out as in the release\n  released {lines:?}\n  \
             patched  {there:?}"
        );
    }
    Ok(())
}

/// Each type's line and its fields' lines.
fn types(layout: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut types = BTreeMap::<_, Vec<_>>::new();
    let mut name = "";
    for line in layout.lines() {
        if !line.starts_with(' ') {
            name = line.split(' ').next().unwrap_or_default();
        }
        types.entry(name).or_default().push(line);
    }
    types
}

/// The layouts in the FFI crate as it is in `commit` of its tree: a line
/// `name size=bytes align=bytes` for each type, followed by a line `  offset field` for each
/// field, in declaration order.
fn layout(project: &Project, variant: &str) -> Result<String> {
    let line = &project.line;
    let name = line.ffi.as_deref().unwrap_or_default();
    let (tree, artifact) = line
        .find(name)
        .with_context(|| format!("line {} has no crate `{name}`", line.name))?;
    let (tree, path) = (project.upstream().join(tree), &artifact.path);
    let (commit, lock) = if variant == STOCK {
        (git::BASE, "tests/stock-extension/Cargo.lock")
    } else {
        ("HEAD", "Cargo.lock")
    };
    // What the program is made of, and by what. The layout of a type depends on other crates.
    let crates = git::text(
        &tree,
        &["rev-parse", &format!("{commit}^{{tree}}")],
        "find the crates",
    )?;
    let made = [
        variant,
        &crates,
        include_str!("layout.rs"),
        &process::rustc()?,
    ];
    let key = cached::key(&project.root, &["Cargo.toml", lock], &made)?;
    let kept = cached::cached(&project.cache.join("layout"), &key, |out| {
        let folder = project.target().join("layout").join(variant);
        copy(&tree, commit, path, &folder)?;
        add_program(project, name, &folder.join(path), variant, lock)?;
        let mut cargo = target::cargo(project, "run")?;
        cargo
            .args(["--quiet", "--bin", "layout", "--manifest-path"])
            .arg(folder.join(path).join("Cargo.toml"));
        let text = process::text(&mut cargo, "print the layout of the FFI types")?;
        workspace::write(&out.join("layout.txt"), &format!("{text}\n"))
    })?;
    let file = kept.join("layout.txt");
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// Makes `folder` hold the files below `path` in a commit of `tree`.
fn copy(tree: &Path, commit: &str, path: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let tar = folder.join("source.tar");
    process::text(
        git::git(tree)?
            .args(["archive", "--format=tar", "-o"])
            .arg(&tar)
            .arg(commit)
            .arg(path),
        "copy the FFI crate",
    )?;
    // Cargo goes by file times, and those in the archive are of the commit.
    let mut archive = tar::Archive::new(
        fs::File::open(&tar).with_context(|| format!("cannot open {}", tar.display()))?,
    );
    archive.set_preserve_mtime(false);
    archive
        .unpack(folder)
        .with_context(|| format!("cannot unpack {}", tar.display()))
}

/// Makes the copy a workspace of its own with a program `layout`.
fn add_program(
    project: &Project,
    name: &str,
    folder: &Path,
    variant: &str,
    lock: &str,
) -> Result<()> {
    let manifest = folder.join("Cargo.toml");
    let mut manifest_table = workspace::read(&manifest)?;
    let package = workspace::table(&mut manifest_table, "package")?;
    // Of two packages of one name, each the root of its workspace, cargo would take the
    // one's build for the other's.
    package.insert("name".into(), format!("{name}-layout-{variant}").into());
    workspace::table(&mut manifest_table, "lib")?
        .insert("crate-type".into(), vec!["rlib".to_string()].into());
    for key in ["test", "dev-dependencies", "lints"] {
        manifest_table.remove(key);
    }
    let features = if variant == STOCK {
        // What the extension has: with more, all it shares would be compiled once more.
        manifest_table.remove("features");
        workspace::table(&mut manifest_table, "dependencies")?
            .retain(|_, dependency| dependency.get("optional").is_none());
        workspace::Features::OfExtension
    } else {
        workspace::Features::OfWheel
    };
    workspace::depend_on_features(project, &mut manifest_table, features)?;
    manifest_table.extend(toml::toml! {
        workspace = {}
        bin = [{ name = "layout", path = "layout.rs" }]
    });
    manifest_table.extend(workspace::profile(project)?);
    if variant == PATCHED {
        manifest_table.extend(workspace::patch(project, folder, |patched| {
            patched != name
        })?);
    }
    workspace::write(&manifest, &toml::to_string(&manifest_table)?)?;
    fs::copy(project.root.join(lock), folder.join("Cargo.lock"))
        .with_context(|| format!("cannot copy {lock}"))?;

    let mut program = String::from("fn main() {\n    let mut out = String::new();\n");
    for entry in WalkDir::new(folder.join("src")).sort_by_file_name() {
        let entry = entry.context("cannot list the sources of the FFI crate")?;
        let file = entry.path();
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        // The program is outside of the crate.
        let text = text
            .replace("\nmod ", "\npub mod ")
            .replace("\npub(crate) mod ", "\npub mod ");
        let code = layout_module(&text)
            .with_context(|| format!("cannot read {}", file.display()))?;
        workspace::write(
            file,
            &format!("{text}\n{}", code.as_deref().unwrap_or_default()),
        )?;
        if code.is_some() {
            let module = module_of(file, &folder.join("src"))?;
            writeln!(
                program,
                "    {}::{module}layout::write(&mut out);",
                name.replace('-', "_")
            )?;
        }
    }
    program.push_str("    print!(\"{out}\");\n}\n");
    workspace::write(&folder.join("layout.rs"), &program)
}

/// `a::b::` for src/a/b.rs and src/a/b/mod.rs.
fn module_of(file: &Path, src: &Path) -> Result<String> {
    let path = file.strip_prefix(src)?.with_extension("");
    let mut module = String::new();
    for part in path.iter().filter_map(|part| part.to_str()) {
        if part != "mod" && part != "lib" {
            write!(module, "{part}::")?;
        }
    }
    Ok(module)
}

/// A module that writes the layout of each `FFI_*` type of a file, if it has any.
fn layout_module(text: &str) -> Result<Option<String>> {
    let mut lines = String::new();
    for item in syn::parse_file(text)?.items {
        let (name, generics, fields) = match &item {
            syn::Item::Struct(item) => (&item.ident, &item.generics, Some(&item.fields)),
            syn::Item::Enum(item) => (&item.ident, &item.generics, None),
            _ => continue,
        };
        if !name.to_string().starts_with("FFI_") {
            continue;
        }
        // Their layout is that of their parameter with a tag, here for 8 bytes.
        let parameters = match generics.params.len() {
            0 => "",
            _ => "<u64>",
        };
        writeln!(
            lines,
            "    let (size, align) = (size_of::<{name}{parameters}>(), \
             align_of::<{name}{parameters}>());\n    \
             let _ = writeln!(out, \"{name}{parameters} size={{size}} align={{align}}\");"
        )?;
        for (index, field) in fields.into_iter().flatten().enumerate() {
            let field = match &field.ident {
                Some(field) => field.to_string(),
                None => index.to_string(),
            };
            writeln!(
                lines,
                "    let offset = std::mem::offset_of!({name}{parameters}, {field});\n    \
                 let _ = writeln!(out, \"  {{offset}} {field}\");"
            )?;
        }
    }
    Ok((!lines.is_empty()).then(|| {
        format!(
            "pub mod layout {{\nuse super::*;\nuse std::fmt::Write as _;\n\
             pub fn write(out: &mut String) {{\n{lines}}}\n}}\n"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "FFI_A size=16 align=8\n  0 a\n  8 b\nFFI_B size=4 align=4\n";

    #[test]
    fn a_type_may_be_added_but_none_may_move() {
        let patched = format!("{STOCK}FFI_C size=8 align=8\n  0 c\n");
        compare(STOCK, &patched).unwrap();
        for (from, to) in [
            ("  0 a\n  8 b", "  0 b\n  8 a"),
            ("size=16", "size=24"),
            ("FFI_B size=4 align=4\n", ""),
            ("  8 b\n", "  8 b\n  16 c\n"),
        ] {
            let error = compare(STOCK, &STOCK.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains("not laid out as in the release"));
        }
        assert!(compare("", STOCK).is_err());
    }

    #[test]
    fn a_module_asks_for_each_field() {
        let text = "pub struct FFI_A { a: u8, b: u16 }\nstruct Other { c: u8 }";
        let module = layout_module(text).unwrap().unwrap();
        assert!(module.contains("offset_of!(FFI_A, b)"), "{module}");
        assert!(!module.contains("Other"), "{module}");
        assert!(layout_module("struct Other;").unwrap().is_none());
    }
}
