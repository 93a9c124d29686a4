//! `cargo xtask snippet`: what an extension author adds to a Cargo.toml.

use anyhow::{Result, ensure};

use crate::apply::Stamp;
use crate::check;
use crate::project::Project;

pub fn run(project: &Project) -> Result<()> {
    ensure!(
        Stamp::read(&project.upstream()).is_some(),
        "there is no upstream/ to point at: run `cargo xtask apply`"
    );
    println!("# The patched DataFusion {} crates.", project.line.name);
    println!("[patch.crates-io]");
    for (name, path) in check::crates(project) {
        let path = project.root.join(path);
        println!("{name} = {{ path = {:?} }}", path.display().to_string());
    }
    Ok(())
}
