//! The layout of every type that crosses the boundary, released beside patched. Libraries
//! of both exchange these types by value, so that a byte in another place is corruption.
//!
//! `cargo xtask test` compiles the two programs that write the files which
//! `FFI_LAYOUT_STOCK` and `FFI_LAYOUT_PATCHED` name.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Each type's heading line and its fields' lines.
fn layouts(variable: &str) -> BTreeMap<String, Vec<String>> {
    let file = std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run this test with `cargo xtask test`")
    });
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("cannot read {file}: {error}"));
    let mut layouts = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if !line.starts_with(' ') {
            name = line.split(' ').next().unwrap_or_default().to_string();
            layouts.insert(name.clone(), vec![]);
        }
        layouts
            .get_mut(&name)
            .expect("a field follows its type")
            .push(line.to_string());
    }
    layouts
}

#[test]
fn ffi_types_have_the_layout_of_the_release() {
    let stock = layouts("FFI_LAYOUT_STOCK");
    let patched = layouts("FFI_LAYOUT_PATCHED");
    assert!(stock.contains_key("FFI_ExecutionPlan"), "{stock:?}");

    let mut table = format!("{:<46}{}\n", "stock", "patched");
    for (name, lines) in &stock {
        let other = patched.get(name).map(Vec::as_slice).unwrap_or_default();
        for row in 0..lines.len().max(other.len()) {
            let left = lines.get(row).map_or("-", String::as_str);
            let right = other.get(row).map_or("-", String::as_str);
            writeln!(table, "{left:<46}{right}").unwrap();
        }
    }
    for lines in patched
        .iter()
        .filter_map(|(name, lines)| (!stock.contains_key(name)).then_some(lines))
    {
        for line in lines {
            writeln!(table, "{:<46}{line}", "-").unwrap();
        }
    }
    insta::assert_snapshot!(table);

    for (name, lines) in &stock {
        assert_eq!(Some(lines), patched.get(name), "{name} has moved");
    }
}
