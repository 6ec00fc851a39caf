//! What is said to people beside the output. Nothing here panics on a closed pipe.

use std::io::{IsTerminal, Write};

/// A line for people on stderr. Where stderr is closed there is nobody to tell.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// True when a person reads stderr.
pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Text with control characters escaped, for one cell of a table.
pub fn escaped(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}
