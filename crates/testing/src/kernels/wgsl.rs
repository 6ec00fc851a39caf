//! Every file of WGSL is valid by itself: its header declares all that it takes from elsewhere, with defaults.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use onetrip_core::codegen::WGSL_HEADER as HEADER;

use crate::setup::root;

/// Folders with files of WGSL.
const FOLDERS: [&str; 2] = ["crates/core/src/ops", "crates/core/src/codegen"];

fn files(folder: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "wgsl") {
            out.push(path);
        }
    }
    Ok(())
}

/// What is wrong with a file: no header, more than comments in front of it, WGSL that is none, or a header that declares what
/// the file does not use.
fn check(text: &str) -> Result<(), String> {
    let text = text.replace("\r\n", "\n");
    let parts = text.split_once(HEADER.0).and_then(|(before, rest)| Some((before, rest.split_once(HEADER.1)?)));
    let (before, (header, _)) = parts.ok_or("no header")?;
    if let Some(line) = before.lines().find(|line| !line.starts_with("//")) {
        return Err(format!("in front of the header: {line:?}"));
    }
    let module = naga::front::wgsl::parse_str(&text).map_err(|e| e.emit_to_string(&text))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator.validate(&module).map_err(|e| e.emit_to_string(&text))?;
    let mut used: HashMap<&str, usize> = HashMap::new();
    let code = || text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code().flat_map(words).for_each(|word| *used.entry(word).or_default() += 1);
    match header.lines().filter_map(declared).find(|name| used.get(name) == Some(&1)) {
        Some(name) => Err(format!("the header declares {name}, which is not used")),
        None => Ok(()),
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The name that a line of a header declares.
fn declared(line: &str) -> Option<&str> {
    let kind = ["const ", "fn ", "struct ", "alias ", "var"].into_iter().find_map(|kind| match kind {
        "var" => line.split_once("var<")?.1.split_once('>').map(|(_, rest)| rest),
        _ => line.strip_prefix(kind),
    });
    words(kind?).next()
}

/// All files.
pub fn are_valid() -> Result<(), Failed> {
    let mut all = vec![];
    FOLDERS.iter().try_for_each(|folder| files(&root().join(folder), &mut all))?;
    if all.len() < 40 {
        return Err(format!("only {} files are found", all.len()).into());
    }
    let mut wrong = vec![];
    for path in &all {
        if let Err(why) = check(&std::fs::read_to_string(path)?) {
            wrong.push(format!("{}: {why}", path.strip_prefix(root()).unwrap_or(path).display()));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// A file without a header, with code in front of it, with a hole, without a declaration, or with one too many is found.
pub fn finds() -> Result<(), Failed> {
    let body = "fn twice(i: u32) -> u32 { return WG * at(i); }\n";
    let header = "const WG: u32 = 64u;\nfn at(i: u32) -> u32 { return i; }\n";
    let file = |header: &str, body: &str| format!("// About.\n{}{header}{}\n{body}", HEADER.0, HEADER.1);
    check(&file(header, body))?;
    let wrong = [
        (body.to_string(), "no header"),
        (format!("const A = 1u;\n{}", file(header, body)), "in front of the header"),
        (file(header, &body.replace("WG", "$WG")), "error"),
        (file("const WG: u32 = 64u;\n", body), "no definition in scope for identifier"),
        (file(&format!("{header}const K: u32 = 1u;\n"), body), "K, which is not used"),
        (file(&format!("{header}var<private> k: u32;\n"), body), "k, which is not used"),
    ];
    for (text, why) in wrong {
        match check(&text) {
            Err(said) if said.contains(why) => {}
            other => return Err(format!("{text}\nshould fail with {why:?}, is {other:?}").into()),
        }
    }
    Ok(())
}
