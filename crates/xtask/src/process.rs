//! Running other programs: every call says what it was for when it fails.

use std::ffi::OsStr;
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

/// The command line as one would type it; the environment would bury it.
fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Says on stderr which step a long command is at, and how long each one took.
pub struct Steps {
    total: usize,
    done: usize,
    started: Instant,
}

impl Steps {
    pub fn new(total: usize) -> Self {
        Self {
            total,
            done: 0,
            started: Instant::now(),
        }
    }

    /// Announces the next step and runs it.
    pub fn step<T>(&mut self, what: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.done += 1;
        let position = format!("[{}/{}]", self.done, self.total);
        eprintln!("{position} {what} ...");
        let started = Instant::now();
        let result = f().with_context(|| format!("{position} {what}"))?;
        eprintln!(
            "{position} {what}: {:.1} s",
            started.elapsed().as_secs_f64()
        );
        Ok(result)
    }

    pub fn finish(self, what: &str) {
        eprintln!(
            "{what}: {:.1} s in all",
            self.started.elapsed().as_secs_f64()
        );
    }
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
