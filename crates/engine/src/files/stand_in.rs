//! Files that a download or a clone left in the place of the real ones: pointers of Git LFS, and pages of a web server.

use std::path::Path;

use super::error::{FileError, shown_path};

/// What the file is instead, and how the real one is fetched.
pub(crate) struct StandIn {
    /// In words.
    pub what: &'static str,
    /// Advice to the user.
    pub hint: &'static str,
}

/// The beginning of every pointer of Git LFS.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Beginnings of pages, in lower case.
const WEB_PAGES: [&[u8]; 3] = [b"<!doctype", b"<html", b"<?xml"];
/// More bytes than the longest of [`WEB_PAGES`] has.
const LONGEST: usize = 16;

/// Whether a file with these bytes stands in the place of another.
pub(crate) fn stand_in(bytes: &[u8]) -> Option<StandIn> {
    if bytes.starts_with(LFS) {
        let hint =
            "run `git lfs pull` in the folder that was cloned (git-lfs has to be installed), or download the file";
        return Some(StandIn { what: "a Git LFS pointer to the file, and not the file itself", hint });
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let head = text[..text.len().min(LONGEST)].to_ascii_lowercase();
    let hint = "download the file again, by the link to the file itself (on Hugging Face /resolve/ in place of /blob/)";
    let page = StandIn { what: "a web page that was saved under this name, and not the file itself", hint };
    WEB_PAGES.iter().any(|page| head.starts_with(page)).then_some(page)
}

/// Refuses a file that stands in the place of another.
pub(super) fn refuse(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    match stand_in(bytes) {
        Some(StandIn { what, hint }) => Err(FileError::Unsupported { file: shown_path(path), what: what.into(), hint }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_pages_are_refused_and_files_of_weights_are_not() {
        let refused = |bytes: &[u8]| refuse(Path::new("m.gguf"), bytes).map_err(|e| e.to_string());
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n";
        assert!(
            refused(pointer).is_err_and(|e| e.starts_with("m.gguf: a Git LFS pointer") && e.contains("git lfs pull"))
        );
        for page in [&b"\n <!DOCTYPE html>"[..], b"\xef\xbb\xbf<HTML lang=en>", b"<?xml version=\"1.0\"?><Error>"] {
            assert!(refused(page).is_err_and(|e| e.contains("a web page") && e.contains("download")));
        }
        for file in [&b""[..], b"GGUF", b"<", b"{\"model\": 1}", b"\x10\0\0\0\0\0\0\0{}", b"version 2"] {
            assert_eq!(refused(file), Ok(()));
        }
    }
}
