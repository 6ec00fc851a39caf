//! Is what was fetched there, and right?

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::catalogue::Set;

/// Is every file of the set there, with the right size and SHA-256?
pub fn present(dir: &Path, set: &Set) -> Result<bool> {
    for file in set.files {
        let path = dir.join(file.path);
        let right_size = std::fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() == file.bytes);
        if !right_size || sha256(&path)? != file.sha256 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// SHA-256 of a file's bytes, as 64 lower-case hexadecimal digits.
pub fn sha256(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let n = file.read(&mut buffer).with_context(|| format!("cannot read {}", path.display()))?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
    }
    let mut hex = String::with_capacity(64);
    for byte in hash.finalize() {
        write!(hex, "{byte:02x}")?;
    }
    Ok(hex)
}
