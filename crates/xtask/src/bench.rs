//! `cargo xtask bench`: what a reset and an execution cost across the FFI boundary.

use anyhow::Result;

use crate::apply;
use crate::extension;
use crate::process;
use crate::project::Project;
use crate::target;
use crate::test;

pub fn run(project: &Project) -> Result<()> {
    apply::run(project, &apply::Args::default())?;
    eprintln!("building the extension, against the patched and the released crates");
    let patched = extension::patched(project)?;
    let stock = extension::stock(project)?;
    let mut cargo = target::cargo(project, "bench")?;
    // The profile that everything else is built with: the ratios are what counts.
    cargo.args([
        "--locked",
        "--profile",
        "dev",
        "-p",
        "reuse-tests",
        "--bench",
        "foreign",
        "--bench",
        "reset",
    ]);
    process::run(
        test::extension_env(&mut cargo, &patched, &stock),
        "run the benchmarks",
    )
}
