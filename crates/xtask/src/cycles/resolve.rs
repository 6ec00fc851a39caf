//! Name resolution: from a path in a module to the file that defines the item.

use std::collections::BTreeSet;

use super::modules::{Mention, Module, Modules};

/// The result of resolving a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning<'m> {
    /// A module.
    Module(usize),
    /// An item that this file defines.
    Item(&'m str),
    /// An item of another crate.
    Outside,
}

/// Selects among a module and items of the same name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    /// More of the path follows.
    Module,
    /// The path ends here.
    Item,
}

/// One file uses another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The file that contains the use.
    pub from: String,
    /// The file that defines the used item.
    pub to: String,
    /// Line of the first file.
    pub line: usize,
    /// The path as it stands there.
    pub path: String,
}

/// All uses between the files of a crate, in order; a file's uses of itself are left out.
pub fn edges(modules: &Modules) -> BTreeSet<Edge> {
    let resolver = Resolver { modules };
    let mut edges = BTreeSet::new();
    for (id, module) in modules.all.iter().enumerate() {
        let mut add = |to: &str, mention: &Mention, star: &str| {
            if to != module.file {
                let (from, to) = (module.file.clone(), to.to_owned());
                edges.insert(Edge { from, to, line: mention.line, path: mention.path.join("::") + star });
            }
        };
        for import in &module.imports {
            let meaning = resolver.path(id, &import.what.path, Wanted::Item, &mut BTreeSet::new());
            let star = if import.name.is_none() { "::*" } else { "" };
            match meaning {
                Some(Meaning::Item(file)) => add(file, &import.what, star),
                // A module is imported for what is in it: what is used of it is found in its user's code. A re-export
                // has no such user, and everything of a module may be imported for the methods of its traits.
                Some(Meaning::Module(other)) => {
                    let is_needed = import.is_public || (import.name.is_none() && !resolver.gives_names(id, other));
                    if is_needed {
                        add(&modules.all[other].file, &import.what, star);
                    }
                }
                Some(Meaning::Outside) | None => {}
            }
        }
        for mention in &module.mentions {
            let meaning = resolver.path(id, &mention.path, Wanted::Item, &mut BTreeSet::new());
            if let Some(Meaning::Item(file)) = meaning {
                add(file, mention, "");
            }
        }
    }
    edges
}

/// Names that are being resolved, so that cyclic re-exports terminate.
type Seen = BTreeSet<(usize, String, Wanted)>;

struct Resolver<'m> {
    modules: &'m Modules,
}

impl<'m> Resolver<'m> {
    fn module(&self, id: usize) -> &'m Module {
        &self.modules.all[id]
    }

    /// What a path means in a module; none where its first name is of no module, item or import: a local variable, a
    /// type parameter, another crate.
    fn path(&self, module: usize, path: &[String], wanted: Wanted, seen: &mut Seen) -> Option<Meaning<'m>> {
        let mut at = module;
        let mut rest = path;
        let mut is_relative = false;
        while let [first, after @ ..] = rest {
            at = match first.as_str() {
                "crate" => self.module(at).root,
                "self" => at,
                "super" => self.module(at).parent?,
                _ => break,
            };
            (is_relative, rest) = (true, after);
        }
        let Some((first, after)) = rest.split_first() else { return Some(Meaning::Module(at)) };
        let kind = |after: &[String]| if after.is_empty() { wanted } else { Wanted::Module };
        let mut meaning = match self.name(at, first, kind(after), module, seen) {
            None if is_relative => return Some(Meaning::Item(&self.module(at).file)),
            found => found,
        };
        if meaning.is_none() && path.len() == 1 {
            meaning = self.modules.macros.get(first).map(|file| Meaning::Item(file));
        }
        let mut rest = after;
        while let (Some(Meaning::Module(inside)), [next, after @ ..]) = (meaning, rest) {
            // Items that a macro generates are not known: the path counts as a use of the deepest module that was found.
            let here = Meaning::Item(&self.module(inside).file);
            meaning = self.name(inside, next, kind(after), module, seen).or(Some(here));
            rest = after;
        }
        meaning
    }

    /// What a name of a module means for another, `from`, which may be the module itself.
    fn name(&self, id: usize, name: &str, wanted: Wanted, from: usize, seen: &mut Seen) -> Option<Meaning<'m>> {
        let key = (id, name.to_owned(), wanted);
        if !seen.insert(key.clone()) {
            return None;
        }
        let meaning = self.name_here(id, name, wanted, from, seen);
        seen.remove(&key);
        meaning
    }

    fn name_here(&self, id: usize, name: &str, wanted: Wanted, from: usize, seen: &mut Seen) -> Option<Meaning<'m>> {
        let module = self.module(id);
        let child = module.children.get(name).map(|&child| Meaning::Module(child));
        let item = module.items.contains(name).then_some(Meaning::Item(module.file.as_str()));
        let imported = |seen: &mut Seen| {
            let imports = module.imports.iter().filter(|import| import.is_public || self.is_within(from, id));
            let same = imports.filter(|import| import.name.as_deref() == Some(name));
            // An import of the name itself, as in `use name::name`, asks for another of its meanings.
            let found: Vec<_> =
                same.map(|i| self.path(id, &i.what.path, wanted, seen).unwrap_or(Meaning::Outside)).collect();
            let is_module = |m: &&Meaning| matches!(m, Meaning::Module(_)) == (wanted == Wanted::Module);
            found.iter().find(is_module).or(found.first()).copied()
        };
        let direct = match wanted {
            Wanted::Module => child.or(item).or_else(|| imported(seen)),
            Wanted::Item => item.or_else(|| imported(seen)).or(child),
        };
        direct.or_else(|| self.through_globs(id, name, wanted, from, seen))
    }

    /// A module is another or lies in it: then it sees the other's own imports.
    fn is_within(&self, module: usize, other: usize) -> bool {
        std::iter::successors(Some(module), |&m| self.module(m).parent).any(|m| m == other)
    }

    fn through_globs(
        &self,
        id: usize,
        name: &str,
        wanted: Wanted,
        from: usize,
        seen: &mut Seen,
    ) -> Option<Meaning<'m>> {
        let imports = self.module(id).imports.iter().filter(|import| import.is_public || self.is_within(from, id));
        let globs = imports.filter(|import| import.name.is_none());
        let mut found = globs.filter_map(|import| match self.path(id, &import.what.path, Wanted::Module, seen)? {
            Meaning::Module(other) if other != id => self.name(other, name, wanted, id, seen),
            _ => None,
        });
        found.find(|meaning| *meaning != Meaning::Outside)
    }

    /// Some name in the code of a module comes out of another, of which it imports everything.
    fn gives_names(&self, id: usize, other: usize) -> bool {
        let module = self.module(id);
        let is_own = |name: &str| {
            module.items.contains(name)
                || module.children.contains_key(name)
                || module.imports.iter().any(|import| import.name.as_deref() == Some(name))
        };
        let firsts = module.mentions.iter().filter_map(|mention| mention.path.first());
        firsts.filter(|name| !is_own(name)).any(|name| {
            let meaning = self.name(other, name, Wanted::Item, id, &mut BTreeSet::new());
            matches!(meaning, Some(Meaning::Item(_) | Meaning::Module(_)))
        })
    }
}
