//! The files that tidy looks at: what git tracks or would track; every file where there is no git.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::source::Source;

/// Longest file that is read; longer ones are a finding by their size alone.
pub const FILE_BYTES: u64 = 5 * 1000 * 1000;

/// The files of a checkout, in the order of paths.
#[derive(Debug)]
pub struct Tree {
    /// All files, binary ones too.
    pub files: Vec<File>,
}

/// One file.
#[derive(Debug)]
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Its text; empty for binary and over-long files.
    pub text: String,
    /// The views of a Rust file.
    pub rust: Option<Source>,
}

impl File {
    fn new(path: String, bytes: u64, text: String) -> Self {
        let rust = path.ends_with(".rs").then(|| Source::new(text.clone()));
        Self { path, bytes, text, rust }
    }
}

impl Tree {
    /// Reads the checkout at `root`.
    pub fn read(root: &Path) -> Result<Self> {
        let mut paths = if root.join(".git").exists() { git_files(root)? } else { walk(root)? };
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let full = root.join(&path);
            // A file that git still lists but that is deleted, or a link: nothing to read.
            let Ok(meta) = std::fs::symlink_metadata(&full) else { continue };
            if !meta.is_file() {
                continue;
            }
            let text = if meta.len() > FILE_BYTES {
                String::new()
            } else {
                let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
                String::from_utf8(bytes).unwrap_or_default()
            };
            files.push(File::new(path, meta.len(), text));
        }
        Ok(Self { files })
    }

    /// A tree out of (path, content) pairs, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File::new((*path).into(), text.len() as u64, (*text).into());
        Self { files: files.iter().map(file).collect() }
    }

    /// The text of a file, if it is there.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

fn git_files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot start git: is it installed?")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    let list = String::from_utf8(output.stdout).context("a path is not UTF-8")?;
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}

fn walk(root: &Path) -> Result<Vec<String>> {
    let (mut paths, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).with_context(|| format!("folder {folder:?}"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if !entry.file_type()?.is_dir() {
                paths.push(path);
            } else if !matches!(name.as_str(), "target" | ".git") {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}
