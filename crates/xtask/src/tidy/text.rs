//! Checks that look at any file: size, control characters, paths, host names, links, unfinished work.

use super::report::Report;
use super::source::{Source, line_of, words};
use super::tree::{FILE_BYTES, File, Tree};

/// Longest Rust file, in lines.
pub const RUST_LINES: usize = 600;

/// Longest definition of a model, in lines.
pub const MODEL_LINES: usize = 150;

/// The only files that may read environment variables: the product's table of switches, and the tasks' list.
pub const ENV_FILES: [&str; 2] = ["crates/engine/src/switch.rs", "crates/xtask/src/env.rs"];

/// Kinds of files that people write and read; recorded data (`.json`, `.txt`) may hold any character.
const WRITTEN: [&str; 12] = ["rs", "md", "toml", "py", "sh", "cu", "cuh", "wgsl", "yml", "yaml", "html", "css"];

pub(super) fn check(file: &File, report: &mut Report) {
    if file.bytes > FILE_BYTES {
        let mb = file.bytes as f64 / 1e6;
        let message = format!("{mb:.1} MB; a tracked file has at most {} MB", FILE_BYTES / 1_000_000);
        report.add("size", &file.path, 0, message);
    }
    let extension = file.path.rsplit('/').next().unwrap_or_default().rsplit_once('.').map_or("", |(_, e)| e);
    if WRITTEN.contains(&extension) || file.path == ".ci/run" {
        control_characters(file, report);
    }
    if file.path != "Cargo.lock" && !file.path.ends_with("/Cargo.lock") {
        machine_paths(file, report);
        host_names(file, report);
    }
}

pub(super) fn check_rust(path: &str, source: &Source, report: &mut Report) {
    let lines = source.text.lines().count();
    if lines > RUST_LINES {
        report.add("length", path, 0, format!("{lines} lines; a Rust file has at most {RUST_LINES}: split it"));
    }
    let is_arch = super::layers::is_model_definition(path);
    if is_arch && lines > MODEL_LINES {
        report.add("length", path, 0, format!("{lines} lines; a model's definition has at most {MODEL_LINES}"));
    }
    for name in ["todo", "unimplemented", "dbg"] {
        for at in words(&source.code, name).filter(|at| source.code[at + name.len()..].trim_start().starts_with('!')) {
            let message = format!("`{name}!` is left: finish it, or return an error");
            report.add("unfinished", path, line_of(&source.text, at), message);
        }
    }
    if !ENV_FILES.contains(&path) {
        environment(path, source, report);
    }
    gap_reasons(path, source, report);
}

/// `env::var`, `env::var_os`, `env::vars`, also out of a `use …::env::{…}` or `use …::{env::var}`.
fn environment(path: &str, source: &Source, report: &mut Report) {
    let code = &source.code;
    for at in words(code, "env") {
        let rest = code[at + "env".len()..].trim_start();
        let Some(rest) = rest.strip_prefix("::").map(str::trim_start) else { continue };
        let group = rest.strip_prefix('{').map(|group| group.split('}').next().unwrap_or_default());
        let reads = |name: &str| name.trim_start().starts_with("var");
        if group.map_or(reads(rest), |group| group.split(',').any(reads)) {
            let message = format!("environment variables are read in {} only", ENV_FILES.join(" and "));
            report.add("env", path, line_of(code, at), message);
        }
    }
}

/// A gap's reason is a sentence that users read, so it must not be too short.
fn gap_reasons(path: &str, source: &Source, report: &mut Report) {
    const SHORTEST: usize = 15;
    for name in ["Gap", "gap"] {
        for at in words(&source.code, name) {
            let mut rest = at + name.len();
            if !source.code[rest..].starts_with('(') {
                continue;
            }
            rest += 1;
            for wrapper in ["format!(", "String::from(", "Cow::Borrowed("] {
                let spaces = source.code[rest..].len() - source.code[rest..].trim_start().len();
                if source.code[rest + spaces..].starts_with(wrapper) {
                    rest += spaces + wrapper.len();
                }
            }
            let spaces = source.code[rest..].len() - source.code[rest..].trim_start().len();
            let Some(reason) = source.code[rest + spaces..].strip_prefix('"') else { continue };
            let start = rest + spaces + 1;
            let end = start + reason.find('"').unwrap_or(reason.len());
            let length = source.text[start..end].trim().chars().count();
            if length < SHORTEST {
                let message = format!("the reason of a gap has {length} characters; say in a sentence what is missing");
                report.add("gap", path, line_of(&source.text, at), message);
            }
        }
    }
}

/// Invisible characters: C0 but tab and line feed, C1, zero-width, directions, byte order marks.
fn control_characters(file: &File, report: &mut Report) {
    for (n, line) in file.text.lines().enumerate() {
        let odd = |c: &char| {
            matches!(c, '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}' | '\u{200b}'..='\u{200f}')
                || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        };
        if let Some(c) = line.chars().find(odd) {
            let message = format!("invisible character U+{:04X}; write it as an escape", c as u32);
            report.add("characters", &file.path, n + 1, message);
        }
    }
}

/// Absolute paths below folders that exist on one person's machine only.
fn machine_paths(file: &File, report: &mut Report) {
    const FOLDERS: [&str; 8] = ["home", "root", "Users", "tmp", "work", "workspace", "mnt", "media"];
    for (at, _) in file.text.match_indices('/') {
        let before = file.text[..at].chars().next_back();
        // `a/tmp` and `~/tmp` and `$X/tmp` and `../tmp` are relative to something named; `//` is a comment or a host.
        let joined = |c: char| c.is_alphanumeric() || "_-.~}/)]>*".contains(c);
        if before.is_some_and(joined) {
            continue;
        }
        let rest = &file.text[at + 1..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
        let (first, after) = rest.split_at(end);
        if FOLDERS.contains(&first) && !after.starts_with('.') {
            let message = format!("`/{first}` is a path of one machine; use a relative or a temporary one");
            report.add("paths", &file.path, line_of(&file.text, at), message);
        }
    }
}

/// Hosts of package registries, which must not be named: the tree names packages, and the clients are configured with a host
/// or a mirror.
fn host_names(file: &File, report: &mut Report) {
    let hosts = [
        ["pypi", "org"],
        ["pythonhosted", "org"],
        ["npmjs", "org"],
        ["npmjs", "com"],
        ["debian", "org"],
        ["ubuntu", "com"],
        ["index.crates", "io"],
        ["static.crates", "io"],
        ["//crates", "io"],
        ["anaconda", "org"],
    ];
    let lower = file.text.to_ascii_lowercase();
    for host in hosts.map(|parts| parts.join(".")) {
        for (at, _) in lower.match_indices(&host) {
            let message = format!("`{host}` is the host of a registry; name the package only");
            report.add("hosts", &file.path, line_of(&lower, at), message);
        }
    }
}

/// Every page of `docs/` is linked from README.md or ARCHITECTURE.md, so that nothing is written for no reader.
pub(super) fn check_docs_linked(tree: &Tree, report: &mut Report) {
    let entrances = ["README.md", "ARCHITECTURE.md"].map(|path| tree.text(path).unwrap_or_default());
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix("docs/") else { continue };
        if !name.ends_with(".md") || name.contains('/') {
            continue;
        }
        let linked = |text: &&str| {
            text.match_indices(&format!("]({}", file.path))
                .any(|(at, found)| text[at + found.len()..].starts_with([')', '#', ' ']))
        };
        if !entrances.iter().any(linked) {
            report.add("docs", &file.path, 0, "no link to it in README.md or ARCHITECTURE.md");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{check_tree, found};
    use super::*;

    const PLACE: &str = "crates/cli/src/a.rs";

    #[test]
    fn long_files_are_found() {
        assert_eq!(found(PLACE, &"//\n".repeat(601)), ["length"]);
        assert!(found(PLACE, &"//\n".repeat(600)).is_empty());
        assert_eq!(found("crates/engine/src/models/llama.rs", &"//\n".repeat(151)), ["length"]);
        assert!(found("crates/engine/src/models/llama.rs", &"//\n".repeat(150)).is_empty());
    }

    #[test]
    fn unfinished_work_is_found_in_code_only() {
        for call in ["todo!()", "unimplemented!(\"x\")", "dbg!(x)", "std::todo! {}"] {
            assert_eq!(found(PLACE, &format!("fn f() {{ {call} }}")), ["unfinished"], "{call}");
        }
        assert!(found(PLACE, "// todo!()\nfn f() -> &'static str { \"dbg!(x)\" }\nfn todo() {}").is_empty());
    }

    #[test]
    fn environment_variables_have_one_place() {
        for code in ["std::env::var(\"X\")", "env::var_os(x)", "env::vars()", "use std::env::{self, var};"] {
            assert_eq!(found(PLACE, code), ["env"], "{code}");
            assert!(found(ENV_FILES[0], code).is_empty(), "{code}");
        }
        assert!(found(PLACE, "std::env::args(); std::env::{temp_dir, args}; env!(\"CARGO_MANIFEST_DIR\")").is_empty());
    }

    #[test]
    fn short_reasons_of_gaps_are_found() {
        for code in
            ["Lowering::Gap(\"later\")", "Gap(format!(\"no {x}\"))", "gap(\n    \"soon\",\n)", "Gap(\"\".into())"]
        {
            assert_eq!(found(PLACE, code), ["gap"], "{code}");
        }
        let good = "Gap(\"needs subgroup add on this device\"); match x { Gap(reason) => {} } Gap(NO_KERNEL)";
        assert!(found(PLACE, good).is_empty());
    }

    #[test]
    fn invisible_characters_are_found_in_written_files() {
        for c in ['\u{202e}', '\u{200b}', '\u{feff}', '\u{85}', '\x07', '\r'] {
            assert_eq!(found("docs.md", &format!("a{c}b\n")), ["characters"], "{c:?}");
        }
        assert!(found("docs.md", "\täöü → ½\n").is_empty());
        assert!(found("crates/testing/reference/a.json", "\u{200d}").is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for (folder, rest) in [("home", "/someone/x"), ("root", "/.cache"), ("tmp", ""), ("Users", "/me")] {
            assert_eq!(found("a.md", &format!("see `/{folder}{rest}`")), ["paths"], "{folder}");
        }
        assert!(found("a.md", "~/home/x, a/tmp/b, /usr/bin, $X/tmp is no, ${D}/tmp, ../root, and/or").len() <= 1);
        assert!(found("a.md", "a/tmp/b ../root/x /usr/bin/env ${DIR}/tmp/x // tmp /v1/chat /rooted").is_empty());
    }

    #[test]
    fn host_names_of_registries_are_found() {
        for host in [["files.PythonHosted", "org"], ["deb.debian", "org"], ["https://crates", "io"]] {
            assert_eq!(found("a.md", &format!("from {}/x", host.join("."))), ["hosts"]);
        }
        assert!(found("a.md", "Debian, PyPI, npm, crates.io by name").is_empty());
        assert!(found("Cargo.lock", &["https://index.crates", "io"].join(".")).is_empty());
    }

    #[test]
    fn unlinked_pages_are_found() {
        let page = ("docs/a.md", "text");
        assert_eq!(check_tree(&Tree::of(&[page]))[0].check, "docs");
        assert_eq!(check_tree(&Tree::of(&[page, ("README.md", "docs/a.md and [b](docs/a.mdx)")]))[0].check, "docs");
        assert!(check_tree(&Tree::of(&[page, ("README.md", "[a](docs/a.md#part)")])).is_empty());
        assert!(check_tree(&Tree::of(&[page, ("ARCHITECTURE.md", "[a](docs/a.md)")])).is_empty());
    }

    #[test]
    fn big_files_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("big.bin"), vec![0; FILE_BYTES as usize + 1]).unwrap();
        std::fs::write(dir.path().join("fit.bin"), vec![0; FILE_BYTES as usize]).unwrap();
        let findings = super::super::check(dir.path());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!((findings[0].check, findings[0].path.as_str()), ("size", "big.bin"));
    }
}
