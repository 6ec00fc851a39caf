//! The modules of a crate as its source files declare them: for each module its file, its items, its imports and the paths in
//! its code.
//!
//! Items under `#[cfg(test)]` or `#[test]` are left out, and with them the files that only tests have.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The files of a crate by path from the root of the checkout.
pub type Files<'a> = BTreeMap<&'a str, &'a str>;

/// A name that the source mentions: a path, and the line where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mention {
    /// Its segments; `crate`, `self` and `super` are segments too.
    pub path: Vec<String>,
    /// Line, from 1.
    pub line: usize,
}

/// One name that a `use` brings into its module.
#[derive(Clone, Debug)]
pub struct Import {
    /// What is imported; without the `*` where everything of a module is.
    pub what: Mention,
    /// The name it has here; none for `*`.
    pub name: Option<String>,
    /// True if other modules may use the name through this module.
    pub is_public: bool,
}

/// A module: a file, or an inline module of one.
#[derive(Debug)]
pub struct Module {
    /// The file that holds it.
    pub file: String,
    /// The module that declares it; none for a crate's root.
    pub parent: Option<usize>,
    /// The root of its crate.
    pub root: usize,
    /// Modules that it declares, by name.
    pub children: BTreeMap<String, usize>,
    /// Names of the items that it defines, macros of the crate included.
    pub items: BTreeSet<String>,
    /// Its imports.
    pub imports: Vec<Import>,
    /// Paths in its code.
    pub mentions: Vec<Mention>,
}

/// All modules of a crate: of its library, and of each of its binaries.
#[derive(Debug, Default)]
pub struct Modules {
    /// The modules; each refers to others by their place here.
    pub all: Vec<Module>,
    /// `macro_rules!` macros by name, and the file that defines them. Their scope is textual, so they are known everywhere.
    pub macros: BTreeMap<String, String>,
}

impl Modules {
    /// Reads the crate in `folder`, such as `crates/core`, from its roots downwards.
    pub fn read(folder: &str, files: &Files) -> Result<Modules> {
        let mut modules = Modules::default();
        for root in roots(folder, files) {
            let id = modules.add(&root, None);
            let place = Place { folder: parent(&root).to_owned(), inline: false };
            modules.read_file(id, &place, files)?;
        }
        Ok(modules)
    }

    fn add(&mut self, file: &str, declared_by: Option<usize>) -> usize {
        let id = self.all.len();
        self.all.push(Module {
            file: file.to_owned(),
            parent: declared_by,
            root: declared_by.map_or(id, |module| self.all[module].root),
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: vec![],
            mentions: vec![],
        });
        id
    }

    fn read_file(&mut self, module: usize, place: &Place, files: &Files) -> Result<()> {
        let path = self.all[module].file.clone();
        let Some(text) = files.get(path.as_str()) else { bail!("{path} is declared as a module and is not there") };
        let file = syn::parse_file(text).with_context(|| format!("{path} cannot be parsed"))?;
        self.read_items(module, &file.items, place, files)
    }

    fn read_items(&mut self, module: usize, items: &[syn::Item], place: &Place, files: &Files) -> Result<()> {
        let mut reader = Reader { modules: self, module, place, files, failed: None };
        items.iter().for_each(|item| reader.visit_item(item));
        reader.failed.map_or(Ok(()), Err)
    }

    fn declare(&mut self, module: usize, item: &syn::ItemMod, place: &Place, files: &Files) -> Result<()> {
        let name = item.ident.to_string();
        if let Some((_, items)) = &item.content {
            let file = self.all[module].file.clone();
            let child = self.add(&file, Some(module));
            self.all[module].children.insert(name.clone(), child);
            let inner = Place { folder: format!("{}/{name}", place.folder), inline: true };
            return self.read_items(child, items, &inner, files);
        }
        let (file, inner) = match path_attribute(&item.attrs) {
            Some(path) => {
                // Relative to the file's own folder; inside an inline module to the folder that it stands for.
                let from = if place.inline { &place.folder } else { parent(&self.all[module].file) };
                let file = joined(from, &path);
                let folder = parent(&file).to_owned();
                (file, folder)
            }
            None => {
                let flat = format!("{}/{name}.rs", place.folder);
                let nested = format!("{}/{name}/mod.rs", place.folder);
                let file = if files.contains_key(nested.as_str()) { nested } else { flat };
                (file, format!("{}/{name}", place.folder))
            }
        };
        let child = self.add(&file, Some(module));
        self.all[module].children.insert(name, child);
        self.read_file(child, &Place { folder: inner, inline: false }, files)
    }
}

/// Where the files of a module's children lie.
struct Place {
    folder: String,
    /// It is the folder of an inline module.
    inline: bool,
}

/// The files from which a crate's modules are reached: library, binary, further binaries.
fn roots(folder: &str, files: &Files) -> Vec<String> {
    let bins = format!("{folder}/src/bin/");
    let is_bin = |path: &&&str| {
        let rest = path.strip_prefix(bins.as_str());
        rest.is_some_and(|r| {
            (r.ends_with(".rs") && !r.contains('/')) || r.matches('/').count() == 1 && r.ends_with("/main.rs")
        })
    };
    let mains = ["lib.rs", "main.rs"].map(|name| format!("{folder}/src/{name}"));
    let mains = mains.into_iter().filter(|path| files.contains_key(path.as_str()));
    mains.chain(files.keys().filter(is_bin).map(ToString::to_string)).collect()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `a/b` and `../c.rs` is `a/c.rs`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`: not part of the product.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => needs_test(list.tokens.clone()),
        _ => false,
    })
}

/// The condition of a `cfg` cannot hold outside tests: it is `test`, or `all(…)` with such a part.
fn needs_test(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    match &tokens[..] {
        [TokenTree::Ident(name)] => name == "test",
        [TokenTree::Ident(name), TokenTree::Group(parts)] if name == "all" => {
            let parts: Vec<TokenTree> = parts.stream().into_iter().collect();
            let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
            parts.split(is_comma).any(|part| needs_test(part.iter().cloned().collect()))
        }
        _ => false,
    }
}

/// Reads the items of one module.
struct Reader<'a> {
    modules: &'a mut Modules,
    module: usize,
    place: &'a Place,
    files: &'a Files<'a>,
    failed: Option<anyhow::Error>,
}

impl Reader<'_> {
    fn here(&mut self) -> &mut Module {
        &mut self.modules.all[self.module]
    }

    fn define(&mut self, name: &Ident) {
        self.here().items.insert(name.to_string());
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String], is_public: bool) {
        let with = |name: &Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        let line = |name: &Ident| name.span().start().line;
        let (path, name, line) = match tree {
            syn::UseTree::Path(path) => return self.import(&path.tree, &with(&path.ident), is_public),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, before, is_public));
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                (before.to_vec(), before.last().cloned(), line(&name.ident))
            }
            syn::UseTree::Name(name) => (with(&name.ident), Some(name.ident.to_string()), line(&name.ident)),
            syn::UseTree::Rename(name) => {
                let path = if name.ident == "self" { before.to_vec() } else { with(&name.ident) };
                (path, Some(name.rename.to_string()), line(&name.ident))
            }
            syn::UseTree::Glob(star) => (before.to_vec(), None, star.star_token.spans[0].start().line),
        };
        self.here().imports.push(Import { what: Mention { path, line }, name, is_public });
    }

    /// Paths in the text of a macro, which is no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let punct = |at: usize, c: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let after = |c: char| at > 0 && punct(at - 1, c);
                    let is_fragment = after('$') && first != "crate";
                    let is_path = !after('.') && !after('\'') && !is_fragment;
                    let mut path = vec![first.to_string()];
                    while punct(at + 1, ':')
                        && punct(at + 2, ':')
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    if is_path {
                        let line = first.span().start().line;
                        self.here().mentions.push(Mention { path, line });
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        let (attributes, name) = match item {
            Item::Const(i) => (&i.attrs, Some(&i.ident)),
            Item::Enum(i) => (&i.attrs, Some(&i.ident)),
            Item::Fn(i) => (&i.attrs, Some(&i.sig.ident)),
            Item::Impl(i) => (&i.attrs, None),
            Item::Macro(i) => (&i.attrs, None),
            Item::Mod(i) => (&i.attrs, None),
            Item::Static(i) => (&i.attrs, Some(&i.ident)),
            Item::Struct(i) => (&i.attrs, Some(&i.ident)),
            Item::Trait(i) => (&i.attrs, Some(&i.ident)),
            Item::TraitAlias(i) => (&i.attrs, Some(&i.ident)),
            Item::Type(i) => (&i.attrs, Some(&i.ident)),
            Item::Union(i) => (&i.attrs, Some(&i.ident)),
            Item::Use(i) => (&i.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_test(attributes) {
            return;
        }
        if let Some(name) = name {
            self.define(name);
        }
        match item {
            Item::Mod(item) => {
                if let Err(error) = self.modules.declare(self.module, item, self.place, self.files) {
                    self.failed.get_or_insert(error);
                }
            }
            Item::Use(item) => {
                let is_public = !matches!(item.vis, syn::Visibility::Inherited);
                self.import(&item.tree, &[], is_public);
            }
            Item::Macro(item) => {
                if let Some(name) = &item.ident {
                    let file = self.here().file.clone();
                    self.modules.macros.entry(name.to_string()).or_insert(file);
                }
                self.visit_macro(&item.mac);
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(i) => &i.attrs,
            syn::ImplItem::Fn(i) => &i.attrs,
            syn::ImplItem::Type(i) => &i.attrs,
            syn::ImplItem::Macro(i) => &i.attrs,
            _ => return,
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let (None, Some(first)) = (&path.leading_colon, path.segments.first()) {
            let line = first.ident.span().start().line;
            self.here().mentions.push(Mention { path: names, line });
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.visit_path(&mac.path);
        if matches!(mac.delimiter, syn::MacroDelimiter::Brace(_)) && mac.path.is_ident("macro_rules") {
            // The patterns of a macro contain no uses; its expansions do.
            let tokens: Vec<TokenTree> = mac.tokens.clone().into_iter().collect();
            for pair in tokens.windows(2) {
                if let [TokenTree::Punct(arrow), TokenTree::Group(made)] = pair
                    && arrow.as_char() == '>'
                    && made.delimiter() != Delimiter::None
                {
                    self.tokens(made.stream());
                }
            }
        } else {
            self.tokens(mac.tokens.clone());
        }
    }

    // Paths in visibilities and attributes are not imports.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
