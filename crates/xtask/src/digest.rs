//! SHA-256, as files and caches are known by it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// In lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

pub fn sha256_of_file(file: &Path) -> Result<String> {
    let bytes =
        fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(sha256(&bytes))
}
