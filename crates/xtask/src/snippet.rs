//! `cargo xtask snippet`: what an extension author adds to a Cargo.toml.

use anyhow::{Result, ensure};

use crate::apply::Stamp;
use crate::project::Project;
use crate::workspace;

pub fn run(project: &Project) -> Result<()> {
    ensure!(
        Stamp::read(&project.upstream()).is_some(),
        "there is no upstream/ to point at: run `cargo xtask apply`"
    );
    println!("# The patched crates of line {}.", project.line.name);
    println!("[patch.crates-io]");
    for (name, path) in workspace::crates(project) {
        let path = project.root.join(path);
        println!("{name} = {{ path = {:?} }}", path.display().to_string());
    }
    Ok(())
}
