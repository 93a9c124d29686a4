//! Snapshots of the checkout that runs, not of the one that compiled: checkouts share a
//! target folder, and insta's own macro knows only where it was compiled.

use std::path::PathBuf;

/// Compares `text` with the snapshot `name` of this crate's tests.
pub fn assert_snapshot(name: &str, text: &str) {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .expect("cargo sets CARGO_MANIFEST_DIR: run `cargo xtask test rust`");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(PathBuf::from(manifest).join("tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
