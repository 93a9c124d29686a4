//! `cargo xtask demo`: the main job on real input, the released wheel beside ours.

use anyhow::Result;

use crate::apply;
use crate::process::{self, Steps};
use crate::project::Project;
use crate::python;
use crate::wheel;

pub fn run(project: &Project) -> Result<()> {
    let mut steps = Steps::new(5);
    steps.step("make upstream/ from the pinned artifacts", || {
        apply::run(project)
    })?;
    let wheel = steps.step(
        "build the patched wheel (the first time: 20 to 40 minutes)",
        || wheel::build(project, false),
    )?;
    let stock = steps.step("install the released wheel", || python::stock(project))?;
    let patched = steps.step("install the patched wheel", || {
        python::patched(project, &wheel)
    })?;
    steps.step("rerun the seed query on both", || {
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
    })?;
    steps.finish("demo");
    eprintln!("the wheel: {}", wheel.display());
    Ok(())
}
