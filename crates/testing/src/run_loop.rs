//! There is one run loop. This finds every call that records a plan's dispatches on a device, whatever the caller names the
//! device.

use libtest_mimic::Failed;
use xtask::tidy::{Source, Tree};

use crate::setup::root;

/// The file of the loop.
const LOOP: &str = "crates/core/src/record.rs";
/// Crates whose files may call `encode`, `begin` and `finish` of a device: the devices themselves.
const DEVICES: [&str; 3] = ["crates/cpu/", "crates/cuda/", "crates/wgpu/"];
/// Crates that are not part of the product: tests, with a device of their own, and tasks.
const NO_PRODUCT: [&str; 2] = ["crates/testing/", "crates/xtask/"];

/// A call that may be of a device's method.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    method: &'static str,
    line: usize,
}

/// Calls of `Device::encode` and `Device::begin` in code without comments and texts, and mentions of them by path.
///
/// Types are not known here, so a call is recognized by its form: these methods have exactly one argument, and no other method
/// of the same name has one (`Tokenizer::encode` has two, those of kernels' writers two). A path that ends in the name
/// (`Device::encode`, `<_ as Device>::begin`) counts as a call if it has the device as an additional first argument, and as a
/// value if it has no arguments. `finish` is not looked for: it has no argument, like many other methods of that name, and is
/// of no use without `begin`.
fn calls(code: &str) -> Vec<Call> {
    let mut found = vec![];
    for method in ["encode", "begin"] {
        for (at, _) in code.match_indices(method) {
            let (before, after) = (code[..at].trim_end(), code[at + method.len()..].trim_start());
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            if code[..at].ends_with(is_part) || code[at + method.len()..].starts_with(is_part) {
                continue;
            }
            let is_method = before.ends_with('.') && !before.ends_with("..") && arguments(after) == Some(1);
            let is_path = before.ends_with("::") && matches!(arguments(after), None | Some(2));
            if is_method || is_path {
                found.push(Call { method, line: 1 + code[..at].matches('\n').count() });
            }
        }
    }
    found
}

/// Arguments of the call that begins here; none where this is no call.
fn arguments(code: &str) -> Option<usize> {
    let inside = code.strip_prefix('(')?;
    let (mut depth, mut angles, mut commas, mut last_is_empty) = (0, 0, 0, true);
    for (at, c) in inside.char_indices() {
        match c {
            // Types of a generic call have commas of their own.
            '<' if angles > 0 || inside[..at].ends_with("::") => angles += 1,
            '>' if angles > 0 && !inside[..at].ends_with(['-', '=']) => angles -= 1,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ')' => return Some(commas + usize::from(!last_is_empty)),
            ',' if depth == 0 && angles == 0 => {
                commas += 1;
                last_is_empty = true;
                continue;
            }
            _ => {}
        }
        last_is_empty &= c.is_whitespace();
    }
    None
}

/// What is wrong with the files of a product: each with its path from the root and its text.
fn wrong<'a>(files: impl IntoIterator<Item = (&'a str, &'a Source)>) -> Vec<String> {
    let mut wrong = vec![];
    let (mut encodes, mut begins) = (0, 0);
    for (path, source) in files {
        if DEVICES.iter().chain(&NO_PRODUCT).any(|folder| path.starts_with(folder)) || path.contains("/tests/") {
            continue;
        }
        for Call { method, line } in calls(&source.product_code()) {
            match (path, method) {
                (LOOP, "encode") => encodes += 1,
                (LOOP, _) => begins += 1,
                _ => wrong
                    .push(format!("{path}:{line}: a call of `{method}`, as of a device: {LOOP} has the one run loop")),
            }
        }
    }
    // The loop is there, and dispatches are submitted in one place of it; a plan that is only shown to a device, for its
    // kernels, begins too.
    if encodes != 1 || begins == 0 {
        wrong.push(format!(
            "{LOOP} calls `encode` {encodes} times and `begin` {begins} times: is the loop still there?"
        ));
    }
    wrong
}

/// Only the run loop records dispatches on a device.
pub fn is_one() -> Result<(), Failed> {
    let tree = Tree::read(&root())?;
    let wrong = wrong(tree.files.iter().filter_map(|f| Some((f.path.as_str(), f.rust.as_ref()?))));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// The finder finds a second loop in each of these, and nothing in the others.
pub fn finds() -> Result<(), Failed> {
    let run = "fn record(device: &mut dyn Device) { device.begin(plan); for n in 0..2 { device.encode(n)?; } }";
    let evades = [
        "fn f(d: &mut dyn Device) { for n in 0..2 { d.encode(n)?; } }",
        "fn f(&mut self) { self.device.encode(at[0].len()) }",
        "fn f(gpu: &mut G) { gpu\n    . // a comment\n    encode /* another */ (n,\n); }",
        "fn f(d: &mut D) { Device::encode(d, n) }",
        "fn f(d: &mut D) { <D as Device>::encode(&mut *d, n) }",
        "fn f() { rows.try_for_each(Device::encode) }",
        "use onetrip_ir::device::Device as D;\nfn f(x: &mut dyn D) { let step = D::encode; step(x, 0) }",
        "fn f(d: &mut dyn Device) { d.begin(&Arc::new(joint)); }",
        "fn f(d: &mut dyn Device) { open(|x| x, 1).unwrap().encode(g(1, 2)) }",
        "fn f(d: &mut dyn Device) { d.encode(next::<A, fn(B) -> C>()) }",
        "fn f(d: &mut dyn Device) { let _ = \"//\"; d.encode(n); }",
    ];
    let harmless = [
        "fn f(t: &Tokenizer) { t.encode(text, Special::NONE)? }",
        "fn f(c: &Clock) { c.encode() + Producing::begin() }",
        "fn f() { prompt::encode(tokenizer, text, Special::PROMPT)? }",
        "fn encode(n: usize) {} fn g() { reencode(1); x.encoder(1); x.encode_all(1); x.begins }",
        "// device.encode(n)\nfn f() { note(\"device.encode(n)\"); }",
        "#[cfg(test)] mod tests { fn f(d: &mut dyn Device) { d.encode(0); } }",
        "fn f() { w.begin(name, 64) }",
    ];
    let of = |text: &str| {
        let (run, other) = (Source::new(run.into()), Source::new(text.into()));
        wrong([(LOOP, &run), ("crates/engine/src/other.rs", &other)])
    };
    if let Some(text) = evades.iter().find(|text| of(text).len() != 1) {
        return Err(format!("found {:?} in\n{text}", of(text)).into());
    }
    if let Some(text) = harmless.iter().find(|text| !of(text).is_empty()) {
        return Err(format!("found {:?} in\n{text}", of(text)).into());
    }
    let (twice, none) = (Source::new(run.repeat(2)), Source::new("fn record() {}".into()));
    match wrong([(LOOP, &twice)]).is_empty() || wrong([(LOOP, &none)]).is_empty() {
        true => Err("a loop that is there twice, or not at all, passes".into()),
        false => Ok(()),
    }
}
