//! `cargo xtask cycles`: finds cycles in the dependencies between the source files of a crate.
//!
//! An edge goes from a file to the file that *defines* an item that it uses, so that a file with re-exports alone adds no
//! cycle. A `mod child;` is not a use of the child, but a `pub use child::X` is. The folder of an op counts as one node, and so
//! does that of a format, since their files may depend on each other. Tests do not count.
//!
//! Not found are method calls (they name no file) and names that a macro generates, which count as uses by the file that calls
//! the macro.

mod components;
mod modules;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use crate::tidy::Tree;
use components::{circle, components};
pub use modules::is_test;
use modules::{Files, Modules};
pub use resolve::Edge;

/// Folders whose direct subfolders count as one node each.
const FOLDERS: [&str; 2] = ["ops", "formats"];

/// Nodes that may be in a cycle, by crate: the list of ops, the ops, and the files that define the meaning of both. An entry is
/// a module, or with `/` at its end a folder that counts as one node; `*` is any name.
const ALLOWED: [(&str, &[&str]); 1] = [("core", &["ops", "ops/*/", "graph", "reference"])];

/// Crates that still have other cycles. An entry must be removed with the crate's last cycle: the test on the workspace fails
/// if a crate of this list has none.
pub const NOT_YET: [&str; 0] = [];

/// The files of one crate, and its circles.
#[derive(Clone, Debug)]
pub struct Crate {
    /// Its folder below `crates/`.
    pub name: String,
    /// Source files of the product.
    pub files: usize,
    /// The circles.
    pub cycles: Vec<Cycle>,
}

/// A strongly connected component: files each of which depends on every other, directly or through others of them.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// Its files and folders (these end with `/`), from the root of the checkout.
    pub members: Vec<String>,
    /// Its files, those of folders counted one by one.
    pub files: usize,
    /// The shortest cycle through one of its members.
    pub example: Vec<Edge>,
    /// All uses between its members.
    pub edges: Vec<Edge>,
    /// Members that must not be in a cycle.
    pub others: Vec<String>,
}

impl Crate {
    /// Number of files in cycles.
    pub fn in_cycles(&self) -> usize {
        self.cycles.iter().map(|cycle| cycle.files).sum()
    }

    /// True if the crate has a cycle that is not allowed.
    pub fn is_cyclic(&self) -> bool {
        self.cycles.iter().any(|cycle| !cycle.others.is_empty())
    }
}

/// The crates below `crates/` of a tree, each with its circles. With `each_file` folders are not taken as one.
pub fn find(tree: &Tree, each_file: bool) -> Result<Vec<Crate>> {
    let is_rust = |path: &&str| path.starts_with("crates/") && path.ends_with(".rs");
    let files: Files =
        tree.files.iter().map(|f| (f.path.as_str(), f.text.as_str())).filter(|(p, _)| is_rust(p)).collect();
    let name = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
    let names: BTreeSet<String> = files.keys().map(|path| name(path)).collect();
    names.iter().map(|name| of_crate(name, &files, each_file)).collect()
}

fn of_crate(name: &str, files: &Files, each_file: bool) -> Result<Crate> {
    let modules = Modules::read(&format!("crates/{name}"), files)?;
    let own: BTreeSet<&str> = modules.all.iter().map(|module| module.file.as_str()).collect();
    let node = |file: &str| if each_file { file.to_owned() } else { node(file) };
    let mut graph: BTreeMap<String, BTreeSet<String>> = own.iter().map(|file| (node(file), BTreeSet::new())).collect();
    let edges = resolve::edges(&modules);
    for edge in &edges {
        let (from, to) = (node(&edge.from), node(&edge.to));
        if from != to {
            graph.entry(from).or_default().insert(to);
        }
    }
    let cycles = components(&graph).into_iter().map(|members| {
        let between = |from: &str, to: &str| members.contains(from) && members.contains(to) && from != to;
        let inside: Vec<Edge> = edges.iter().filter(|e| between(&node(&e.from), &node(&e.to))).cloned().collect();
        let way = circle(&graph, &members);
        let step =
            |pair: &[String]| inside.iter().find(|e| node(&e.from) == pair[0] && node(&e.to) == pair[1]).cloned();
        Cycle {
            files: own.iter().filter(|file| members.contains(&node(file))).count(),
            example: way.windows(2).filter_map(step).collect(),
            others: members.iter().filter(|member| !may_cycle(name, member)).cloned().collect(),
            edges: inside,
            members: members.into_iter().collect(),
        }
    });
    Ok(Crate { name: name.to_owned(), files: own.len(), cycles: cycles.collect() })
}

/// The node of a file: itself, or the folder that counts as one.
fn node(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    // crates/<crate>/src/ops/<op>/…
    match parts[..] {
        ["crates", _, "src", folder, _, _, ..] if FOLDERS.contains(&folder) => parts[..5].join("/") + "/",
        _ => file.to_owned(),
    }
}

/// A node may stand in a circle of its crate.
fn may_cycle(name: &str, node: &str) -> bool {
    let module = node.strip_prefix(&format!("crates/{name}/src/")).unwrap_or(node);
    let module = module.strip_suffix(".rs").map_or(module, |path| path.strip_suffix("/mod").unwrap_or(path));
    let fits = |pattern: &str| match pattern.split_once('*') {
        None => pattern == module,
        Some((before, after)) => {
            let name = module.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
        }
    };
    ALLOWED.iter().any(|(of, patterns)| *of == name && patterns.iter().any(|pattern| fits(pattern)))
}

/// What is wrong in the workspace, a text each: a circle that is not allowed in a crate outside `not_yet`; a crate of that
/// list that has none, or is not there; a module that may stand in a circle and stands in none.
pub fn findings(crates: &[Crate], not_yet: &[&str]) -> Vec<String> {
    let mut found = vec![];
    for one in crates.iter().filter(|one| !not_yet.contains(&one.name.as_str())) {
        for cycle in one.cycles.iter().filter(|cycle| !cycle.others.is_empty()) {
            let others = cycle.others.join(", ");
            found.push(format!("{}: files use each other in a circle: {others}\n{}", one.name, chain(cycle)));
        }
    }
    for name in not_yet {
        match crates.iter().find(|one| one.name == **name) {
            Some(one) if one.is_cyclic() => {}
            Some(_) => found.push(format!("{name} has no circle any more: take it off the list of those that have")),
            None => found.push(format!("there is no crate {name}: take it off the list of those with circles")),
        }
    }
    for (name, patterns) in ALLOWED.iter().filter(|(name, _)| !not_yet.contains(name)) {
        let Some(one) = crates.iter().find(|one| one.name == *name) else { continue };
        let members: Vec<&String> = one.cycles.iter().flat_map(|cycle| &cycle.members).collect();
        for module in patterns.iter().filter(|pattern| !pattern.contains('*')) {
            let file = |end: &str| format!("crates/{name}/src/{module}{end}");
            if !members.iter().any(|member| **member == file(".rs") || **member == file("/mod.rs")) {
                found.push(format!("{name}: {module} stands in no circle: take it off the list of those that may"));
            }
        }
    }
    found
}

fn chain(cycle: &Cycle) -> String {
    let line = |edge: &Edge| format!("    {}:{} uses {} ({})\n", edge.from, edge.line, edge.to, edge.path);
    cycle.example.iter().map(line).collect()
}

/// What the command prints: a line for each crate, then each circle with its members and one way round; with `all` every
/// use inside the circles.
pub fn text(crates: &[Crate], all: bool) -> String {
    let mut out = String::from("crate          files  in circles\n");
    for one in crates {
        let _ = writeln!(out, "{:<13} {:>6}  {:>10}", one.name, one.files, one.in_cycles());
    }
    for one in crates {
        for cycle in &one.cycles {
            let (n, nodes) = (cycle.files, cycle.members.len());
            let allowed = if cycle.others.is_empty() { ", allowed" } else { "" };
            let _ = writeln!(out, "\n{}: a circle of {nodes} nodes with {n} files{allowed}", one.name);
            for member in &cycle.members {
                let mark = if cycle.others.contains(member) { "" } else { "  (allowed)" };
                let _ = writeln!(out, "  {member}{mark}");
            }
            out += "  one way round:\n";
            out += &chain(cycle);
            if all {
                out += "  what each uses:\n";
                out += &uses(cycle);
            }
        }
    }
    out
}

/// A line for each two files of a circle: the names that the first has of the second.
fn uses(cycle: &Cycle) -> String {
    let mut pairs: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for edge in &cycle.edges {
        pairs.entry((&edge.from, &edge.to)).or_default().insert(&edge.path);
    }
    let names = |paths: &BTreeSet<&str>| paths.iter().copied().collect::<Vec<_>>().join(", ");
    pairs.iter().map(|((from, to), paths)| format!("    {from} -> {to}: {}\n", names(paths))).collect()
}

/// The same as JSON.
pub fn json(crates: &[Crate]) -> Value {
    let edge = |e: &Edge| json!({ "from": e.from, "to": e.to, "line": e.line, "path": e.path });
    let cycle = |c: &Cycle| {
        json!({
            "members": c.members,
            "files": c.files,
            "allowed": c.others.is_empty(),
            "others": c.others,
            "example": c.example.iter().map(edge).collect::<Vec<_>>(),
            "uses": c.edges.iter().map(edge).collect::<Vec<_>>(),
        })
    };
    let one = |c: &Crate| {
        json!({
            "crate": c.name,
            "files": c.files,
            "in_cycles": c.in_cycles(),
            "cycles": c.cycles.iter().map(cycle).collect::<Vec<_>>(),
        })
    };
    json!({ "version": 1, "crates": crates.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests;
