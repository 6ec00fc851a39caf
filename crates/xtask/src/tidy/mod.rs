//! `cargo xtask tidy`: promises about the whole tree that the compiler cannot hold. ARCHITECTURE.md names them; each check
//! here has a test that shows it fail.

mod layers;
mod report;
mod retired;
mod source;
mod strings;
mod text;
mod tree;

use std::path::Path;

pub use report::Finding;
use report::Report;
pub use source::{Source, words};
pub use tree::Tree;

/// Runs every check on the checkout at `root`; findings in the order of paths. An unreadable tree is a finding too.
pub fn check(root: &Path) -> Vec<Finding> {
    check_with(root, false)
}

/// As [`check`]; with `all_words` it also finds the retired words that are still to be replaced.
pub fn check_with(root: &Path, all_words: bool) -> Vec<Finding> {
    match Tree::read(root) {
        Ok(tree) => check_tree_with(&tree, all_words),
        Err(error) => {
            let message = format!("cannot read the tree: {error:#}");
            vec![Finding { path: root.display().to_string(), line: 0, check: "tree", message }]
        }
    }
}

/// Every check, on a tree in memory.
pub fn check_tree(tree: &Tree) -> Vec<Finding> {
    check_tree_with(tree, false)
}

fn check_tree_with(tree: &Tree, all_words: bool) -> Vec<Finding> {
    let mut report = Report::default();
    for file in &tree.files {
        text::check(file, &mut report);
        if let Some(source) = &file.rust {
            text::check_rust(&file.path, source, &mut report);
            layers::check_rust(&file.path, source, &mut report);
            strings::check_rust(&file.path, source, &mut report);
        }
        if file.path.ends_with("/Cargo.toml") {
            layers::check_manifest(&file.path, &file.text, &mut report);
        }
    }
    text::check_docs_linked(tree, &mut report);
    retired::check(tree, all_words, &mut report);
    report.findings.sort();
    report.findings
}

/// The findings of all checks on one file.
#[cfg(test)]
fn found(path: &str, content: &str) -> Vec<&'static str> {
    let mut checks: Vec<_> = check_tree(&Tree::of(&[(path, content)])).iter().map(|f| f.check).collect();
    checks.dedup();
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_name_file_line_and_check() {
        let tree = Tree::of(&[("crates/cli/src/a.rs", "fn f() {\n    todo!()\n}\n")]);
        let findings = check_tree(&tree);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].to_string().starts_with("crates/cli/src/a.rs:2: [unfinished] "), "{}", findings[0]);
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_a_finding() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(check(&dir.path().join("none"))[0].check, "tree");
    }

    #[test]
    fn a_tree_on_disk_is_read_without_build_outputs() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [("crates/a/src/lib.rs", "fn f() { dbg!(1); }"), ("target/x.rs", "fn f() { dbg!(1); }")] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let paths: Vec<_> = check(dir.path()).into_iter().map(|f| f.path).collect();
        assert_eq!(paths, ["crates/a/src/lib.rs"]);
    }
}
