//! `cargo xtask demo`: the main job on real input, the released wheel beside ours.

use std::cell::OnceCell;

use anyhow::{Context, Result};

use crate::apply;
use crate::process::{self, Steps};
use crate::project::Project;
use crate::python;
use crate::wheel;

pub fn run(project: &Project) -> Result<()> {
    let wheel = OnceCell::new();
    let mut steps = Steps::default();
    steps.add("make upstream/ from the pinned artifacts", || {
        apply::run(project, &apply::Args::default())
    });
    steps.add(
        "build the patched wheel (the first time: 10 to 40 minutes)",
        || {
            let _ = wheel.set(wheel::build(project, false)?);
            Ok(())
        },
    );
    steps.add(
        "rerun the seed query on the released and the patched wheel",
        || {
            let stock = python::stock(project)?;
            let patched = python::patched(project, wheel.get().context("no wheel")?)?;
            process::run(
                patched
                    .command("python")
                    .arg(project.root.join("python/demo/side_by_side.py"))
                    .arg("--stock")
                    .arg(stock.python())
                    .arg("--patched")
                    .arg(patched.python()),
                "run the demo",
            )
        },
    );
    steps.run("demo")?;
    if let Some(wheel) = wheel.get() {
        eprintln!("the wheel: {}", wheel.display());
    }
    Ok(())
}
