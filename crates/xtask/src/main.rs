//! `cargo xtask`: everything that is done to the patch series and with it.
//!
//! ```text
//! patches/ ──apply──▶ upstream/ ──wheel──▶ dist/ ──demo, test──▶ what users get
//!    ▲                    │
//!    └──────export────────┘        check: patches/, UPSTREAM.md and upstream/ agree
//! ```
//!
//! One module a command. The modules below them: [`project`] knows where things are,
//! [`sources`], [`series`] and [`proof`] read `patches/`, [`artifact`], [`git`] and
//! [`python`] wrap what is run from outside, [`target`] builds in the folder that all
//! checkouts share, and [`workspace`] makes a crate elsewhere build as ours do.

mod apply;
mod artifact;
mod bench;
mod cached;
mod check;
mod client;
mod demo;
mod digest;
mod export;
mod extension;
mod git;
mod layout;
mod pr;
mod process;
mod project;
mod proof;
mod prove;
mod python;
mod released;
mod series;
mod snippet;
mod sources;
mod target;
mod test;
mod wheel;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::project::Project;

/// Builds, checks and tests the patched DataFusion workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    /// The released pair of upstream versions to work on [default: the one that
    /// patches/sources.toml names].
    #[arg(long, global = true)]
    line: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fetch the pinned upstream artifacts and apply the series: writes upstream/.
    Apply(apply::Args),
    /// Write the commits in upstream/ back to patches/ and UPSTREAM.md.
    Export,
    /// Check that patches/, UPSTREAM.md, the workspace and upstream/ agree.
    Check(check::Args),
    /// Build the patched wheel into dist/.
    Wheel(wheel::Args),
    /// Set everything up, then rerun the seed query on the released and the patched wheel.
    Demo,
    /// Set everything up, then run the tests: the patches' own, query shapes, random plans,
    /// Python, a real client.
    Test(test::Args),
    /// Show that the tests of each patch fail without its change and pass with it.
    Prove(prove::Args),
    /// Measure what a reset costs beside the released walk and the run after it, and what a
    /// reset and an execution cost across the FFI boundary.
    Bench,
    /// Print a patch as a pull request: repository, branch, title, body, commands.
    Pr(pr::Args),
    /// Print the `[patch.crates-io]` table for an extension author's Cargo.toml.
    Snippet,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not `Debug`: with RUST_BACKTRACE set that prints a backtrace, which buries
            // what the user has to do.
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let project = Project::find(cli.line.as_deref())?;
    match cli.command {
        Command::Apply(args) => apply::run(&project, &args),
        Command::Export => export::run(&project),
        Command::Check(args) => check::run(&project, &args),
        Command::Wheel(args) => wheel::run(&project, &args),
        Command::Demo => demo::run(&project),
        Command::Test(args) => test::run(&project, &args),
        Command::Prove(args) => prove::run(&project, &args),
        Command::Bench => bench::run(&project),
        Command::Pr(args) => pr::run(&project, &args),
        Command::Snippet => snippet::run(&project),
    }
}
