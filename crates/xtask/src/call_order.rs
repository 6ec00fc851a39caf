//! The path of one token through the program, as ARCHITECTURE.md lists it. Each step is a function that an earlier step calls,
//! so that the list from top to bottom has the program's functions in the order in which they run.
//!
//! A step is an item of the numbered list below the heading [`HEADING`]:
//!
//! ```text
//! 4. `crates/engine/src/scheduler.rs` · `Scheduler::next` (from 3, as `scheduler.next`): what it does
//! ```
//!
//! `from N` names the calling step if it is not the one before. `as` gives the text of the call, for a function whose name is
//! too common to search for or that is called through a pointer. Calls are looked for in the step's own function, in functions
//! of its file that it calls, and in macros. A file that is not Rust (a kernel) counts as called where it is included, and a
//! constant where it is named.

mod source;

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};

use crate::tidy::Tree;
use source::{Event, Functions};

/// The heading of the list in ARCHITECTURE.md.
pub const HEADING: &str = "## Follow one token";

const PAGE: &str = "ARCHITECTURE.md";

/// One step of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its file, from the root of the checkout.
    pub path: String,
    /// Its function: `name`, or `Type::name`.
    pub function: String,
    /// The step that calls it, by its place in the list from 0; none for the first.
    pub from: Option<usize>,
    /// Text of the call, where it is not the name alone.
    pub called_as: Option<String>,
}

/// The steps of a page, in order.
pub fn steps(page: &str) -> Result<Vec<Step>> {
    let mut steps = vec![];
    for line in section(page)?.lines() {
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Some(rest) = line[digits..].strip_prefix(". ").filter(|_| digits > 0) else { continue };
        let number: usize = line[..digits].parse()?;
        ensure!(number == steps.len() + 1, "step {number} stands where {} should", steps.len() + 1);
        let step = step(rest, number).with_context(|| format!("step {number}: {line}"))?;
        steps.push(step);
    }
    ensure!(steps.len() > 1, "{PAGE} has no list of steps below {HEADING:?}");
    Ok(steps)
}

fn section(page: &str) -> Result<&str> {
    let start = page.find(&format!("{HEADING}\n")).with_context(|| format!("{PAGE} has no heading {HEADING:?}"))?;
    let body = &page[start + HEADING.len()..];
    Ok(body.find("\n## ").map_or(body, |end| &body[..end]))
}

fn step(text: &str, number: usize) -> Result<Step> {
    let quoted = |text: &str| {
        let (inside, rest) = text.strip_prefix('`')?.split_once('`')?;
        Some((inside.to_owned(), rest.to_owned()))
    };
    let form = "a step reads \"`path` · `function`: …\", with \"(from N, as `call`)\" before the colon where needed";
    let (path, rest) = quoted(text).context(form)?;
    let (function, rest) = rest.strip_prefix(" · ").and_then(quoted).context(form)?;
    let mut from = number.checked_sub(2);
    let mut called_as = None;
    if let Some((inside, _)) = rest.strip_prefix(" (").and_then(|rest| rest.split_once(')')) {
        for part in inside.split(", ") {
            if let Some(caller) = part.strip_prefix("from ") {
                let caller: usize = caller.parse().context(form)?;
                ensure!((1..number).contains(&caller), "it is called from a step above it");
                from = Some(caller - 1);
            } else if let Some((call, "")) =
                part.strip_prefix("as ").and_then(quoted).as_ref().map(|(call, rest)| (call, rest.as_str()))
            {
                called_as = Some(call.clone());
            } else {
                bail!(form);
            }
        }
    }
    Ok(Step { path, function, from, called_as })
}

/// The errors in the list of `tree`'s ARCHITECTURE.md and in its drawing, one text each.
pub fn findings(tree: &Tree) -> Result<Vec<String>> {
    let page = tree.text(PAGE).with_context(|| format!("there is no {PAGE}"))?;
    let steps = steps(page)?;
    let mut found = turns(&steps);
    let mut functions = Functions::default();
    // For each step the position of its last call that was matched: the next step that it calls must come after it.
    let mut reached: Vec<usize> = vec![0; steps.len()];
    for (n, step) in steps.iter().enumerate() {
        let Some(text) = tree.text(&step.path) else {
            found.push(format!("step {}: there is no file {}", n + 1, step.path));
            continue;
        };
        if !functions.has(&step.path, text, &step.function)? {
            found.push(format!("step {}: {} has no `{}`", n + 1, step.path, step.function));
            continue;
        }
        let Some(from) = step.from else { continue };
        let caller = &steps[from];
        let Some(text) = tree.text(&caller.path).filter(|_| caller.path.ends_with(".rs")) else { continue };
        let events = functions.events(&caller.path, text, &caller.function)?;
        let is_call = |event: &Event| calls(event, &caller.path, step);
        match events.iter().skip(reached[from]).position(is_call) {
            Some(at) => reached[from] += at + 1,
            None => {
                let (by, whom) = (format!("{} `{}`", caller.path, caller.function), called(step));
                let late = if events.iter().any(is_call) { " after the step that it calls before" } else { "" };
                found.push(format!("step {}: {by} does not call `{whom}`{late}", n + 1));
            }
        }
    }
    let drawn = drawing(&steps);
    if !section(page)?.contains(&format!("```text\n{drawn}```")) {
        found.push(format!("{PAGE}: the drawing of the steps is not\n```text\n{drawn}```"));
    }
    Ok(found)
}

/// The drawing of the list of `tree`'s ARCHITECTURE.md.
pub fn drawn(tree: &Tree) -> Result<String> {
    Ok(drawing(&steps(tree.text(PAGE).with_context(|| format!("there is no {PAGE}"))?)?))
}

fn called(step: &Step) -> &str {
    step.called_as.as_deref().unwrap_or_else(|| step.function.rsplit("::").next().unwrap_or_default())
}

/// An event in a function of the file `path` is a call of a step.
fn calls(event: &Event, path: &str, step: &Step) -> bool {
    match event {
        Event::Text(text) => !step.path.ends_with(".rs") && joined(path, text) == step.path,
        Event::Call(name) => ends_with(name, called(step)),
        // A constant is not called; it is named.
        Event::Name(name) => is_constant(&step.function) && ends_with(name, called(step)),
    }
}

/// A name whose last part is in capitals: `RULES`, `Cuda::CANDIDATES`.
fn is_constant(function: &str) -> bool {
    let last = function.rsplit("::").next().unwrap_or_default();
    last == last.to_uppercase()
}

/// `self.device.submit` ends with `device.submit`, not with `ice.submit`.
fn ends_with(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.') || before.ends_with("::"))
}

/// The path of `relative` as a file includes it.
fn joined(file: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The order never goes back: a file that was left is not entered again, and the caller of a step has not been left yet.
fn turns(steps: &[Step]) -> Vec<String> {
    let mut found = vec![];
    let mut open: Vec<usize> = vec![];
    for (n, step) in steps.iter().enumerate() {
        let left = n.checked_sub(1).is_some_and(|last| {
            steps[last].path != step.path && steps[..last].iter().any(|earlier| earlier.path == step.path)
        });
        if left {
            found.push(format!("step {}: turns back to {}, which was left before", n + 1, step.path));
        }
        if let Some(from) = step.from {
            match open.iter().position(|&at| at == from) {
                Some(at) => open.truncate(at + 1),
                None => found.push(format!("step {}: turns back to step {}, which has returned", n + 1, from + 1)),
            }
        }
        open.push(n);
    }
    found
}

/// The steps as a tree: each below and right of the one that calls it.
pub fn drawing(steps: &[Step]) -> String {
    let short = |path: &str| path.trim_start_matches("crates/").replacen("/src/", "/", 1);
    let is_below = |n: usize, caller: usize| std::iter::successors(Some(n), |&n| steps[n].from).any(|n| n == caller);
    let rows: Vec<(String, &str)> = steps
        .iter()
        .enumerate()
        .map(|(n, step)| {
            let mut callers: Vec<usize> = std::iter::successors(step.from, |&n| steps[n].from).collect();
            callers.reverse();
            let branches: String = callers
                .iter()
                .enumerate()
                .map(|(depth, &caller)| {
                    let is_last_column = depth + 1 == callers.len();
                    // Another call of the same caller follows further down.
                    let goes_on = (n + 1..steps.len()).any(|later| steps[later].from == Some(caller));
                    debug_assert!(is_below(n, caller));
                    match (is_last_column, goes_on) {
                        (true, true) => "├─ ",
                        (true, false) => "└─ ",
                        (false, true) => "│  ",
                        (false, false) => "   ",
                    }
                })
                .collect();
            (branches + &short(&step.path), step.function.as_str())
        })
        .collect();
    let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (left, function) in rows {
        let pad = width - left.chars().count();
        let _ = writeln!(out, "{left}{:pad$}  {function}", "");
    }
    out
}

#[cfg(test)]
mod tests;
