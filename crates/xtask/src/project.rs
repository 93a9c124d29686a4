//! Where things are: the checkout, and what is shared between checkouts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use crate::process;
use crate::sources::{self, Line};

pub struct Project {
    pub root: PathBuf,
    pub line: Line,
    /// `datafusion-reuse` in the user's cache folder: artifacts, tools, build output.
    pub cache: PathBuf,
}

impl Project {
    /// The checkout that the current folder is in.
    pub fn find(line: Option<&str>) -> Result<Self> {
        let here = std::env::current_dir().context("cannot read the current folder")?;
        let Some(root) = here
            .ancestors()
            .find(|dir| dir.join("patches/sources.toml").is_file())
        else {
            bail!(
                "no patches/sources.toml in {} or above it: run this in the checkout",
                here.display()
            );
        };
        let cache = dirs::cache_dir()
            .context("this user has no cache folder: set HOME or XDG_CACHE_HOME")?
            .join("datafusion-reuse");
        Ok(Self {
            root: root.to_path_buf(),
            line: sources::read(&root.join("patches/sources.toml"), line)?,
            cache,
        })
    }

    pub fn patches(&self) -> PathBuf {
        self.root.join("patches")
    }

    pub fn upstream(&self) -> PathBuf {
        self.root.join("upstream")
    }

    pub fn dist(&self) -> PathBuf {
        self.root.join("dist")
    }

    /// Cargo's target folder: the one cargo is told to use, or one in the cache, since a
    /// full build takes 20 minutes and a second checkout should not pay for it again.
    pub fn target(&self) -> PathBuf {
        match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => self.root.join(dir),
            None => self.cache.join("target"),
        }
    }

    /// Makes cargo look at this checkout's sources again if another one built last.
    ///
    /// Cargo names what it builds by the path inside the workspace and trusts file times.
    /// With one target folder for two checkouts it would take the other one's build of an
    /// older file for this one's.
    pub fn claim_target(&self) -> Result<()> {
        let target = self.target();
        let owner = target.join("checkout");
        let root = self.root.display().to_string();
        if fs::read_to_string(&owner).is_ok_and(|owner| owner == root) {
            return Ok(());
        }
        let now = SystemTime::now();
        for folder in ["crates", "tests", "upstream"].map(|folder| self.root.join(folder))
        {
            if !folder.exists() {
                continue;
            }
            for entry in WalkDir::new(folder)
                .into_iter()
                .filter_entry(|entry| entry.file_name() != ".git")
            {
                let entry = entry.context("cannot list the sources")?;
                if entry.file_type().is_file() {
                    touch(entry.path(), now)?;
                }
            }
        }
        fs::create_dir_all(&target)
            .and_then(|()| fs::write(&owner, root))
            .with_context(|| format!("cannot write {}", owner.display()))
    }

    /// `cargo <subcommand>` in the patched workspace, with all that decides what is
    /// rebuilt the same from command to command.
    pub fn workspace_cargo(&self, subcommand: &str) -> Result<Command> {
        self.claim_target()?;
        let mut cargo = process::cargo()?;
        cargo
            .arg(subcommand)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", self.target());
        Ok(cargo)
    }
}

/// Sets the file's modification time.
pub fn touch(file: &Path, time: SystemTime) -> Result<()> {
    File::options()
        .write(true)
        .open(file)
        .and_then(|opened| opened.set_modified(time))
        .with_context(|| format!("cannot set the time of {}", file.display()))
}
