//! What the tests under `tests/` have in common: tables in two versions, the settings that
//! a query is planned under, one run of a plan and what came out of it, and what can be
//! seen of a plan without a run.

use std::path::PathBuf;

pub mod inspect;
pub mod memory;
pub mod nodes;
pub mod run;
pub mod settings;
pub mod tables;
pub mod version;

/// True in `tests/stock`, which compiles the same source against the released crates.
pub fn is_released() -> bool {
    env!("CARGO_PKG_NAME") == "reuse-tests-stock"
}

/// The folder of the tests, of the checkout that runs them: a binary that was compiled from
/// the same source in another one may be used again as it is.
pub fn tests_dir() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .expect("cargo sets CARGO_MANIFEST_DIR: run `cargo xtask test rust`");
    let manifest = PathBuf::from(manifest);
    match is_released() {
        true => manifest.join("../tests"),
        false => manifest.join("tests"),
    }
}
