//! Running other programs: every call says what it was for when it fails.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// A command for the program at a path.
///
/// `cargo run` tells this tool about its own package in the environment. Build scripts
/// read those variables too: one that finds other values than last time (ring's does)
/// builds its crate again, and after it all of DataFusion.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
            "CARGO_PRIMARY_PACKAGE",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(&*name);
        }
    }
    command
}

/// A command for `program`, or an error that names what is missing and the fix.
pub fn tool(program: &str, fix: &str) -> Result<Command> {
    let path = which::which(program)
        .with_context(|| format!("`{program}` was not found on PATH: {fix}"))?;
    Ok(command(path))
}

/// Cargo, as the one that runs this tool.
pub fn cargo() -> Result<Command> {
    match std::env::var_os("CARGO") {
        Some(cargo) => Ok(command(cargo)),
        None => tool("cargo", "install Rust with rustup"),
    }
}

/// The compiler, as it tells builds of different ones apart.
pub fn rustc() -> Result<String> {
    text(
        tool("rustc", "install Rust with rustup")?.arg("-vV"),
        "ask rustc for its version",
    )
}

/// Runs with this process's output; `what` completes "failed to …".
pub fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("failed to {what}: cannot start the program"))?;
    if !status.success() {
        bail!("failed to {what} ({status}): {}", shown(command));
    }
    Ok(())
}

/// Runs silently and returns stdout; what the program said is in the error.
pub fn stdout(command: &mut Command, what: &str) -> Result<Vec<u8>> {
    let output = output(command, what)?;
    if !output.status.success() {
        bail!(
            "failed to {what} ({}): {}\n{}{}",
            output.status,
            shown(command),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
    }
    Ok(output.stdout)
}

/// Like [`stdout`], as text without the final newline.
pub fn text(command: &mut Command, what: &str) -> Result<String> {
    let stdout = stdout(command, what)?;
    let text = String::from_utf8(stdout)
        .with_context(|| format!("failed to {what}: output is not UTF-8"))?;
    Ok(text.trim_end().to_string())
}

/// Runs silently, whatever the exit code.
pub fn output(command: &mut Command, what: &str) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to {what}: cannot start the program"))
}

/// Waits until this process alone holds the lock; it goes when the file is closed.
pub fn lock(path: &Path, who: &str) -> Result<File> {
    let file = File::create(path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for {who} ...");
        file.lock()
            .with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

/// The command line as one would type it; the environment would bury it.
fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

type Step<'a> = Box<dyn FnOnce() -> Result<()> + 'a>;

/// The steps of a long command. It says on stderr which one it is at, and at the end how
/// long each one took.
#[derive(Default)]
pub struct Steps<'a> {
    steps: Vec<(String, Step<'a>)>,
}

impl<'a> Steps<'a> {
    pub fn add(&mut self, what: &str, step: impl FnOnce() -> Result<()> + 'a) {
        self.steps.push((what.to_string(), Box::new(step)));
    }

    /// Runs the steps, up to the first that fails.
    pub fn run(self, what: &str) -> Result<()> {
        let total = self.steps.len();
        let begun = Instant::now();
        let mut table = String::new();
        let mut result = Ok(());
        for (number, (name, step)) in (1..).zip(self.steps) {
            eprintln!("[{number}/{total}] {name} ...");
            let started = Instant::now();
            result = step().with_context(|| format!("[{number}/{total}] {name}"));
            table.push_str(&row(started, &name));
            if result.is_err() {
                break;
            }
        }
        eprint!("\n{table}{}", row(begun, &format!("{what}, in all")));
        result
    }
}

fn row(started: Instant, what: &str) -> String {
    format!("{:>8.1} s  {what}\n", started.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_does_not_see_the_package_of_this_tool() {
        // Set by `cargo test` as by `cargo run`.
        assert_eq!(std::env::var("CARGO_PKG_NAME").unwrap(), "xtask");
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(
                command("cargo")
                    .get_envs()
                    .any(|(removed, value)| removed == name && value.is_none())
            );
        }
    }
}
