//! The memory layout of every `FFI_*` type of datafusion-ffi, released and patched.
//!
//! Half of the fields are private, and only code inside of the module of a type can ask
//! for their offsets. So each variant is compiled once more from a copy that has, at the
//! end of every file, a module which writes them down.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use walkdir::WalkDir;

use crate::artifact::sha256;
use crate::git;
use crate::process;
use crate::project::Project;
use crate::wheel;
use crate::workspace;

/// Where the crate is in the tree of apache/datafusion.
const CRATE: &str = "datafusion/ffi";

/// The variant that is built against the released crates.
pub const STOCK: &str = "stock";

/// Compiles datafusion-ffi as it is in `commit` of `upstream/datafusion` and returns the
/// file with the layouts: a line `name size=bytes align=bytes` for each type, followed by
/// a line `  offset field` for each field, in declaration order.
pub fn write(project: &Project, variant: &str, commit: &str) -> Result<PathBuf> {
    let folder = project.target().join("layout").join(variant);
    let tree = project.upstream().join("datafusion");
    let crate_folder = folder.join(CRATE);
    // What the copy is made of and by.
    let id = git::text(
        &tree,
        &["rev-parse", &format!("{commit}:{CRATE}")],
        "find datafusion-ffi",
    )?;
    let wanted = format!(
        "{id}\n{}\n{}",
        sha256(include_bytes!("layout.rs")),
        project.root.display()
    );
    let stamp = folder.join("stamp");
    if !fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let tar = folder.join("source.tar");
        process::text(
            git::git(&tree)?
                .args(["archive", "--format=tar", "-o"])
                .arg(&tar)
                .args([commit, CRATE]),
            "copy datafusion-ffi",
        )?;
        // Cargo goes by file times, and those in the archive are of the commit.
        let mut archive = tar::Archive::new(
            fs::File::open(&tar)
                .with_context(|| format!("cannot open {}", tar.display()))?,
        );
        archive.set_preserve_mtime(false);
        archive
            .unpack(&folder)
            .with_context(|| format!("cannot unpack {}", tar.display()))?;
        add_program(project, &crate_folder, variant)?;
        fs::write(&stamp, wanted)
            .with_context(|| format!("cannot write {}", stamp.display()))?;
    }
    let mut cargo = wheel::cargo(project, "run")?;
    cargo
        .args(["--quiet", "--bin", "layout", "--manifest-path"])
        .arg(crate_folder.join("Cargo.toml"));
    let text = process::text(&mut cargo, "print the layout of the FFI types")?;
    let file = folder.join("layout.txt");
    fs::write(&file, format!("{text}\n"))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// Makes the copy a workspace of its own with a program `layout`.
fn add_program(project: &Project, folder: &Path, variant: &str) -> Result<()> {
    let manifest = folder.join("Cargo.toml");
    let mut manifest_table = workspace::read(&manifest)?;
    let package = workspace::table(&mut manifest_table, "package")?;
    // Of two packages of one name, each the root of its workspace, cargo would take the
    // one's build for the other's.
    let name = format!("datafusion-ffi-layout-{variant}");
    package.insert("name".into(), name.into());
    workspace::table(&mut manifest_table, "lib")?
        .insert("crate-type".into(), vec!["rlib".to_string()].into());
    for key in ["test", "dev-dependencies", "lints"] {
        manifest_table.remove(key);
    }
    workspace::depend_on_features(project, &mut manifest_table)?;
    manifest_table.extend(toml::toml! {
        workspace = {}
        bin = [{ name = "layout", path = "layout.rs" }]
    });
    manifest_table.extend(workspace::profile(project)?);
    // Each with the crates that it is built with elsewhere: the patched ones of the root,
    // or the released ones of the extension that stands for all stock ones.
    let lock = if variant == STOCK {
        "tests/stock-extension/Cargo.lock"
    } else {
        manifest_table.extend(workspace::patch(project, folder, |name| {
            name != "datafusion-ffi"
        })?);
        "Cargo.lock"
    };
    workspace::write(&manifest, &toml::to_string(&manifest_table)?)?;
    fs::copy(project.root.join(lock), folder.join("Cargo.lock"))
        .with_context(|| format!("cannot copy {lock}"))?;

    let mut program = String::from("fn main() {\n    let mut out = String::new();\n");
    for entry in WalkDir::new(folder.join("src")).sort_by_file_name() {
        let entry = entry.context("cannot list the sources of datafusion-ffi")?;
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
                "    datafusion_ffi::{module}layout::write(&mut out);"
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
