//! Where things are: the checkout, and what is shared between checkouts.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::sources::{self, Line};

pub struct Project {
    pub root: PathBuf,
    pub line: Line,
    /// `datafusion-reuse` in the user's cache folder: artifacts, tools, build output.
    pub cache: PathBuf,
    /// Cargo's target folder, if not the one that all checkouts share.
    pub target: Option<PathBuf>,
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
        Self::at(root.to_path_buf(), line)
    }

    /// The checkout in this folder.
    pub fn at(root: PathBuf, line: Option<&str>) -> Result<Self> {
        let cache = dirs::cache_dir()
            .context("this user has no cache folder: set HOME or XDG_CACHE_HOME")?
            .join("datafusion-reuse");
        Ok(Self {
            line: sources::read(&root.join("patches/sources.toml"), line)?,
            root,
            cache,
            target: None,
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

    /// Cargo's target folder.
    pub fn target(&self) -> PathBuf {
        match &self.target {
            Some(target) => target.clone(),
            None => self.shared_target(),
        }
    }

    /// The target folder of all checkouts: the one cargo is told to use, or one in the cache.
    pub fn shared_target(&self) -> PathBuf {
        match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => self.root.join(target),
            None => self.cache.join("target"),
        }
    }
}
