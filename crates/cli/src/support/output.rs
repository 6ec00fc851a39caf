//! Output on stdout. No function here panics on a closed pipe.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::Write;

use indicatif::{ProgressBar, ProgressStyle};
use onetrip_ir::plan::Ledger;
use onetrip_ir::plan::text::human;
use serde_json::Value;

use crate::support::fail::Fail;
pub use crate::support::stderr::{escaped, note, stderr_is_terminal};

/// What standard output holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// One JSON object, and nothing else (`--json`).
    Json,
    /// JSON objects, one a line, while the work goes on (`--json-lines`).
    JsonLines,
}

impl Form {
    /// What arguments ask for that are no command line: nobody but the flag itself can tell.
    pub fn asked(arguments: &[OsString]) -> Form {
        let has = |flag: &str| arguments.iter().take_while(|a| *a != "--").any(|a| a == flag);
        match (has("--json"), has("--json-lines")) {
            (_, true) => Form::JsonLines,
            (true, false) => Form::Json,
            (false, false) => Form::Text,
        }
    }
}

/// Standard output, and what it is to hold.
pub struct Out {
    /// It holds one JSON object only.
    pub json: bool,
    /// It holds JSON objects, one a line, while the work goes on.
    pub json_lines: bool,
    /// Version of the command's JSON.
    version: u32,
    /// The one object of `--json`, or the last one of `--json-lines`, is written.
    is_told: Cell<bool>,
}

impl Out {
    /// Standard output of a command whose JSON has this version.
    pub fn new(form: Form, version: u32) -> Out {
        let (json, json_lines) = (form == Form::Json, form == Form::JsonLines);
        Out { json, json_lines, version, is_told: Cell::new(false) }
    }

    /// A program reads it, and no person.
    pub fn is_json(&self) -> bool {
        self.json || self.json_lines
    }

    /// An object that says how the command ended is still to come.
    pub fn is_owed(&self) -> bool {
        self.is_json() && !self.is_told.get()
    }

    /// Version of the command's JSON.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Writes text at once.
    pub fn text(&self, text: &str) -> Result<(), Fail> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// Writes a line at once.
    pub fn line(&self, text: &str) -> Result<(), Fail> {
        self.text(&format!("{text}\n"))
    }

    /// Writes the one JSON object, or the last one, with the version of the command's JSON in front.
    pub fn object(&self, value: &Value) -> Result<(), Fail> {
        self.is_told.set(true);
        self.part(value)
    }

    /// Writes an object behind which others come (`--json-lines`), with the version of the command's JSON in front.
    pub fn part(&self, value: &Value) -> Result<(), Fail> {
        self.line(&versioned(self.version, value).to_string())
    }
}

/// The object with `version` as its first key, in the place of any that it has.
pub fn versioned(version: u32, value: &Value) -> Value {
    let rest = value.as_object().into_iter().flatten().filter(|(key, _)| *key != VERSION);
    let rest = rest.map(|(key, value)| (key.clone(), value.clone()));
    std::iter::once((VERSION.to_string(), version.into())).chain(rest).collect()
}

/// The first key of every JSON object that is printed or stored.
pub const VERSION: &str = "version";

/// Shows on a terminal how far a long work is; `bar` is made when it is first wanted.
pub fn progress(bar: &mut Option<ProgressBar>, what: &str, done: usize, total: usize) {
    if !stderr_is_terminal() {
        return;
    }
    let bar = bar.get_or_insert_with(|| {
        let bar = ProgressBar::new(total as u64);
        if let Ok(style) = ProgressStyle::with_template(&format!("{what} {{wide_bar}} {{pos}}/{{len}} {{eta}}")) {
            bar.set_style(style);
        }
        bar
    });
    bar.set_position(done as u64);
}

/// A table with a head; columns whose head starts with `>` are aligned to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let right: Vec<bool> = head.iter().map(|h| h.starts_with('>')).collect();
    let head: Vec<String> = head.iter().map(|h| h.trim_start_matches('>').to_string()).collect();
    let mut width = vec![0; head.len()];
    for row in rows.iter().chain([&head]) {
        row.iter().zip(&mut width).for_each(|(cell, w)| *w = (*w).max(cell.chars().count()));
    }
    let mut out = String::new();
    for row in [&head].into_iter().chain(rows) {
        let cells = row.iter().zip(&width).zip(&right);
        let cells = cells.map(|((cell, &w), &right)| if right { format!("{cell:>w$}") } else { format!("{cell:<w$}") });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// The ledger, for people.
pub fn ledger_text(l: &Ledger) -> String {
    let by_op = |map: &std::collections::BTreeMap<String, u64>| {
        let mut list: Vec<_> = map.iter().collect();
        list.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        list.iter().map(|(op, n)| format!("{op} {n}")).collect::<Vec<_>>().join(", ")
    };
    let mut out = String::new();
    let mut row = |name: &str, value: String| out.push_str(&format!("{name:<12} {value}\n"));
    row("nodes", {
        let empty = l.nodes - l.nodes_nonempty;
        format!("{} ({} not empty, {empty} empty): {}", l.nodes, l.nodes_nonempty, by_op(&l.nodes_by_op))
    });
    row("dispatches", format!("{}: {}", l.dispatches, by_op(&l.dispatches_by_op)));
    row("grid syncs", l.grid_syncs.to_string());
    row("barriers", l.barriers.to_string());
    row("commits", l.commits.to_string());
    row("waits", l.waits.to_string());
    row("copies", l.copies.to_string());
    row("off device", l.off_device.to_string());
    row("gaps", l.gaps.to_string());
    row("bytes", format!("{} read, {} written", human(l.bytes_read), human(l.bytes_written)));
    row("operations", human(l.flops));
    if l.repacked_bytes > 0 {
        row("layouts", format!("{} of weights in a second layout", human(l.repacked_bytes)));
    }
    out
}

/// A number of seconds, for people.
pub fn seconds(s: f64) -> String {
    match s {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Formats a number with three significant digits, or as an integer if it has more: `0.93`, `41.2`, `3100`.
pub fn rate(x: f64) -> String {
    match x {
        x if !x.is_finite() => "–".into(),
        x if x < 10.0 => format!("{x:.2}"),
        x if x < 100.0 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}

/// Tokens a second, or null where no time passed.
pub fn per_second(n: usize, s: f64) -> Value {
    if n > 0 && s > 0.0 { Value::from(n as f64 / s) } else { Value::Null }
}
