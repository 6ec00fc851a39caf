//! Words that are not used any more: the field has others (docs/glossary.md). The list is `retired.txt`.
//!
//! Refused are identifiers, file names, names of kernels, and phrases of at least two words; never a single English word,
//! which may mean something else.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

use super::report::Report;
use super::source::{Source, line_of};
use super::tree::{File, Tree};

/// The list, and how to write it.
const LIST: &str = include_str!("retired.txt");

/// Where the list lies.
const PATH: &str = "crates/xtask/src/tidy/retired.txt";

/// Exceptions at most.
pub const MOST_EXCEPTIONS: usize = 20;

/// What is not looked at: history, recorded data, the texts that explain old words, lists of packages.
const SKIPPED: [&str; 11] = [
    "CHANGELOG.md",
    "LICENSE-",
    "assets/",
    "bench/gates/",
    "bench/runs/",
    "docs/glossary.md",
    "docs/schema/",
    "fuzz/seeds/",
    "listings/",
    "crates/testing/reference/",
    PATH,
];

/// Source files: their identifiers are looked at.
const SOURCES: [&str; 7] = ["rs", "cu", "cuh", "h", "cpp", "wgsl", "metal"];

/// Texts: phrases and names of kernels are looked for in them as well as in sources.
const TEXTS: [&str; 6] = ["md", "txt", "toml", "py", "sh", "json"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Identifier,
    File,
    Kernel,
    Phrase,
}

impl Kind {
    fn named(name: &str) -> Option<Kind> {
        let kinds = [
            ("identifier", Kind::Identifier),
            ("file", Kind::File),
            ("kernel", Kind::Kernel),
            ("phrase", Kind::Phrase),
        ];
        kinds.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
    }
}

/// A word that is not used any more.
#[derive(Clone, Debug)]
struct Entry {
    kind: Kind,
    /// `*` stands for any letters.
    pattern: String,
    instead: String,
    /// It is looked for; if not, it still has to be replaced.
    is_held: bool,
}

/// A place where one is used nevertheless.
#[derive(Clone, Debug)]
struct Exception {
    path: String,
    pattern: String,
}

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Retired {
    entries: Vec<Entry>,
    exceptions: Vec<Exception>,
}

impl Retired {
    /// Reads a list: lines of `kind | pattern | use instead`, in which tabs may stand for ` | `; `except | path | pattern |
    /// reason`; empty lines, and comments that begin with `#`. Behind a line `[not yet]` stand words that are still used.
    pub fn parse(text: &str) -> Result<Retired> {
        let (mut retired, mut is_held) = (Retired::default(), true);
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            match line {
                "[held]" => is_held = true,
                "[not yet]" => is_held = false,
                "" => {}
                _ if line.starts_with('#') => {}
                _ => retired.add(line, is_held).with_context(|| format!("{PATH}:{}: {line:?}", n + 1))?,
            }
        }
        let exceptions = retired.exceptions.len();
        ensure!(exceptions <= MOST_EXCEPTIONS, "{exceptions} exceptions; there are at most {MOST_EXCEPTIONS}");
        Ok(retired)
    }

    fn add(&mut self, line: &str, is_held: bool) -> Result<()> {
        let columns: Vec<&str> = line.split(['|', '\t']).map(str::trim).filter(|column| !column.is_empty()).collect();
        match columns[..] {
            ["except", path, pattern, reason] => {
                ensure!(reason.split_whitespace().count() >= 3, "say in a sentence why");
                ensure!(self.entries.iter().any(|entry| entry.pattern == pattern), "no word above has this pattern");
                self.exceptions.push(Exception { path: path.to_owned(), pattern: pattern.to_owned() });
            }
            [kind, pattern, instead] => {
                let kind = Kind::named(kind).context("the kinds are identifier, file, kernel, phrase and except")?;
                let words = pattern.split_whitespace().count();
                match kind {
                    Kind::Phrase => ensure!(words >= 2, "a phrase has at least two words: one may mean something else"),
                    _ => ensure!(words == 1, "a name has no spaces"),
                }
                ensure!(pattern.chars().any(char::is_alphanumeric), "the pattern fits everything");
                ensure!(
                    self.entries.iter().all(|entry| entry.pattern != pattern || entry.kind != kind),
                    "it is there twice"
                );
                self.entries.push(Entry { kind, pattern: pattern.to_owned(), instead: instead.to_owned(), is_held });
            }
            _ => bail!("not of the form `kind | pattern | use instead`, nor `except | path | pattern | reason`"),
        }
        Ok(())
    }
}

/// The project's own list, on a tree. With `all` also the words that are still used.
pub(super) fn check(tree: &Tree, all: bool, report: &mut Report) {
    match Retired::parse(LIST) {
        Ok(retired) => check_with(&retired, tree, all, report),
        Err(error) => report.add("words", PATH, 0, format!("{error:#}")),
    }
}

fn check_with(retired: &Retired, tree: &Tree, all: bool, report: &mut Report) {
    let mut used = BTreeSet::new();
    for file in tree.files.iter().filter(|file| !is_skipped(&file.path)) {
        for (entry, line) in found(file, retired, all) {
            let is_excepted = |e: &&Exception| e.path == file.path && e.pattern == entry.pattern;
            if let Some(exception) = retired.exceptions.iter().find(is_excepted) {
                used.insert((&exception.path, &exception.pattern));
                continue;
            }
            let (old, new) = (&entry.pattern, &entry.instead);
            report.add("words", &file.path, line, format!("`{old}` is not used any more: {new}"));
        }
    }
    // An exception that nothing needs would let the word in again. A checkout that lacks the file says nothing.
    for exception in retired.exceptions.iter().filter(|e| tree.text(&e.path).is_some()) {
        let is_looked_for = |entry: &Entry| entry.pattern == exception.pattern && (all || entry.is_held);
        if !used.contains(&(&exception.path, &exception.pattern)) && retired.entries.iter().any(is_looked_for) {
            let message = format!("the exception for `{}` is not needed any more", exception.pattern);
            report.add("words", &exception.path, 0, message);
        }
    }
}

fn is_skipped(path: &str) -> bool {
    path.ends_with(".lock") || SKIPPED.iter().any(|start| path.starts_with(start))
}

/// The entries that a file has, with the line of each first place (0 for the name of the file).
fn found<'r>(file: &File, retired: &'r Retired, all: bool) -> Vec<(&'r Entry, usize)> {
    let extension = file.path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_source = SOURCES.contains(&extension);
    let is_text = is_source || TEXTS.contains(&extension) || file.path == ".ci/run";
    // Comments and texts of CUDA and WGSL are those of Rust.
    let made = (is_source && file.rust.is_none()).then(|| Source::new(file.text.clone()));
    let source = file.rust.as_ref().or(made.as_ref());
    let identifiers = source.map_or(vec![], |source| tokens(&source.code, |c| c.is_alphanumeric() || c == '_'));
    let kernels = match source {
        Some(source) => tokens(&source.uncommented, is_of_kernel),
        None if is_text => tokens(&file.text, is_of_kernel),
        None => vec![],
    };
    let prose = if is_text { Prose::new(&file.text) } else { Prose::default() };
    let mut out = vec![];
    for entry in retired.entries.iter().filter(|entry| all || entry.is_held) {
        let first =
            |tokens: &[(usize, &str)]| tokens.iter().find(|(_, token)| fits(&entry.pattern, token)).map(|t| t.0);
        let at = match entry.kind {
            Kind::Identifier => first(&identifiers).map(|at| line_of(&file.text, at)),
            Kind::Kernel => first(&kernels).map(|at| line_of(&file.text, at)),
            Kind::Phrase => prose.line(&entry.pattern),
            Kind::File => is_file(&entry.pattern, &file.path).then_some(0),
        };
        out.extend(at.map(|line| (entry, line)));
    }
    out
}

/// Letters of a kernel's name, as in `matmul/norm+gemv_multi.tile16`.
fn is_of_kernel(c: char) -> bool {
    c.is_alphanumeric() || "_/.+-".contains(c)
}

/// The longest pieces of a text whose characters are all `inside`, with where they begin; without full stops at the end.
fn tokens(text: &str, inside: impl Fn(char) -> bool) -> Vec<(usize, &str)> {
    let pieces = text.split(|c| !inside(c)).filter(|piece| !piece.is_empty());
    pieces.map(|piece| (piece.as_ptr() as usize - text.as_ptr() as usize, piece.trim_end_matches('.'))).collect()
}

/// A pattern is all of a name; each `*` in it is any letters.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| fits(after, &rest[at..]))
        }),
    }
}

/// A pattern is the last parts of a path: `row.cu`, `ops/matmul/row.cu`.
fn is_file(pattern: &str, path: &str) -> bool {
    let (wanted, parts): (Vec<_>, Vec<_>) = (pattern.split('/').rev().collect(), path.split('/').rev().collect());
    wanted.len() <= parts.len() && wanted.iter().zip(parts).all(|(pattern, part)| fits(pattern, part))
}

/// A text as a reader sees it: lower case, line breaks and the marks of comments as single spaces.
#[derive(Default)]
struct Prose {
    text: String,
    /// Where each line begins in the text.
    lines: Vec<usize>,
}

impl Prose {
    fn new(text: &str) -> Prose {
        let mut prose = Prose::default();
        for line in text.lines() {
            prose.lines.push(prose.text.len());
            let line = line.trim_start().trim_start_matches(['/', '!', '*', '#', '>']);
            for word in line.split_whitespace() {
                prose.text.push(' ');
                prose.text.extend(word.chars().flat_map(char::to_lowercase));
            }
        }
        prose.text.push(' ');
        prose
    }

    /// The line of the first place of a phrase; its first and last words are whole words.
    fn line(&self, phrase: &str) -> Option<usize> {
        let phrase = phrase.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let places = self.text.match_indices(&phrase);
        let whole = places.map(|(at, _)| at).find(|&at| {
            let (before, after) = (&self.text[..at], &self.text[at + phrase.len()..]);
            !is_inside(before.chars().next_back()) && !is_inside(after.chars().next())
        });
        whole.map(|at| self.lines.partition_point(|&line| line <= at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "# A comment\n\
        identifier | PAGES | MODELS\n\
        identifier | *_slab | warp tile\n\
        kernel | matmul/row* | matmul/gemv\n\
        file | ops/matmul/row.cu | gemv.cu\n\
        file | belt*.rs | stream.rs\n\
        phrase | counters that stay zero | zeroed workspace\n";

    fn found_in(list: &str, path: &str, text: &str) -> Vec<(usize, String)> {
        let mut report = Report::default();
        check_with(&Retired::parse(list).unwrap(), &Tree::of(&[(path, text)]), false, &mut report);
        report.findings.into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    fn lines(path: &str, text: &str) -> Vec<usize> {
        found_in(WORDS, path, text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn identifiers_are_found_in_code_alone() {
        assert_eq!(lines("crates/a/src/x.rs", "fn f() {\n    PAGES.len();\n}"), [2]);
        assert_eq!(lines("ops/x.cu", "u32 my_slab = 0; // PAGES"), [1]);
        assert!(lines("crates/a/src/x.rs", "// PAGES\n\"PAGES\"; let pages = MY_PAGES; slab; a_slabs;").is_empty());
        assert!(lines("README.md", "PAGES and a_slab").is_empty(), "a page may speak of it");
        assert_eq!(found_in(WORDS, "a.rs", "PAGES")[0].1, "`PAGES` is not used any more: MODELS");
    }

    #[test]
    fn kernels_are_found_in_texts_and_plans() {
        assert_eq!(lines("crates/a/src/x.rs", "let k = \"matmul/row4\"; // matmul/row"), [1]);
        assert_eq!(lines("plans/a.txt", "1  q  matmul/row.norm  4 MB"), [1]);
        assert_eq!(lines("docs/a.md", "first\nit is `matmul/row`."), [2]);
        assert!(lines("docs/a.md", "norm+matmul/row2, ops/matmul/row.cu and matmul/ row").is_empty());
    }

    #[test]
    fn files_are_found_by_their_last_parts() {
        assert_eq!(lines("crates/core/src/ops/matmul/row.cu", ""), [0]);
        assert_eq!(lines("crates/a/src/belts.rs", ""), [0]);
        assert!(lines("crates/core/src/ops/conv/row.cu", "").is_empty());
        assert!(lines("belt.rs/a.rs", "").is_empty() && lines("a/my_belt.rs", "").is_empty());
    }

    #[test]
    fn phrases_are_found_across_lines_and_in_any_case() {
        assert_eq!(lines("a.rs", "// One.\n/// Counters that\n///   stay zero, always"), [2]);
        assert_eq!(lines("docs/a.md", "**Counters that stay zero.**"), [1]);
        assert_eq!(lines("a.rs", "println!(\"counters that stay zero\")"), [1]);
        assert!(
            lines("a.rs", "// encounters that stay zero; counters that stay zeros; counters; stay zero").is_empty()
        );
        assert!(lines("a.bin", "counters that stay zero").is_empty());
    }

    #[test]
    fn history_and_recorded_data_may_have_old_words() {
        for path in ["CHANGELOG.md", "bench/runs/a/b.md", "docs/glossary.md", "crates/testing/reference/a.md"] {
            assert!(lines(path, "counters that stay zero matmul/row").is_empty(), "{path}");
        }
    }

    #[test]
    fn words_still_used_are_found_only_when_asked_for() {
        let list = "[not yet]\nidentifier | PAGES | MODELS\n[held]\nidentifier | Page | Model\n";
        let (retired, tree) = (Retired::parse(list).unwrap(), Tree::of(&[("a.rs", "PAGES; Page")]));
        let count = |all| {
            let mut report = Report::default();
            check_with(&retired, &tree, all, &mut report);
            report.findings.len()
        };
        assert_eq!((count(false), count(true)), (1, 2));
    }

    #[test]
    fn an_exception_is_for_one_file_and_has_to_be_needed() {
        let list = format!("{WORDS}except | a.rs | PAGES | the old name of a flag\n");
        assert!(found_in(&list, "a.rs", "PAGES").is_empty());
        assert_eq!(found_in(&list, "b.rs", "PAGES").len(), 1);
        assert!(found_in(&list, "a.rs", "MODELS")[0].1.contains("not needed any more"));
    }

    #[test]
    fn a_list_that_refuses_too_much_is_refused() {
        for line in [
            "phrase | room | stage",
            "identifier | a word | another",
            "identifier | * | x",
            "word | room | stage",
            "identifier | PAGES",
            "except | a.rs | PAGES | because it is so",
        ] {
            assert!(Retired::parse(line).is_err(), "{line}");
        }
        assert!(Retired::parse(&format!("{WORDS}except | a.rs | PAGES | because\n")).is_err(), "no reason");
        assert!(Retired::parse("identifier | A | B\nidentifier | A | C\n").is_err(), "twice");
        assert_eq!(Retired::parse("identifier\tA\tB\nkernel\tA\tC\n").unwrap().entries.len(), 2);
        let many =
            |n| (0..n).map(|n| format!("except | {n}.rs | PAGES | the old name of a flag\n")).collect::<String>();
        assert!(Retired::parse(&format!("{WORDS}{}", many(MOST_EXCEPTIONS))).is_ok());
        assert!(Retired::parse(&format!("{WORDS}{}", many(MOST_EXCEPTIONS + 1))).is_err());
    }

    #[test]
    fn the_projects_list_can_be_read_and_its_exceptions_are_few() {
        let retired = Retired::parse(LIST).unwrap();
        assert!(!retired.entries.is_empty() && retired.exceptions.len() <= MOST_EXCEPTIONS);
    }
}
