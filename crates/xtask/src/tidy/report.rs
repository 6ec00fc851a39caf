//! What the checks find.

use std::fmt;

/// One place where the tree breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root, with `/`.
    pub path: String,
    /// Line from 1; 0 when the whole file is meant.
    pub line: usize,
    /// Short name of the check.
    pub check: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": [{}] {}", self.check, self.message)
    }
}

/// Collects findings.
#[derive(Default)]
pub struct Report {
    /// In the order in which they were found.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Adds one; line 0 means the whole file.
    pub fn add(&mut self, check: &'static str, path: &str, line: usize, message: impl Into<String>) {
        self.findings.push(Finding { path: path.to_owned(), line, check, message: message.into() });
    }
}
