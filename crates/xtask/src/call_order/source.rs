//! The functions of a Rust file and what they call, in the order of the text.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};

use crate::cycles::is_test;

/// Something in the text of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call, with what stands before the name: `self.device.submit`, `pieces::choose`, `.collect`.
    Call(String),
    /// A name that is not called.
    Name(String),
    /// A text.
    Text(String),
}

/// A function, or a constant.
#[derive(Clone, Debug)]
struct Function {
    /// The type or trait that it belongs to.
    owner: Option<String>,
    name: String,
    events: Vec<Event>,
}

/// The functions of files, read once each.
#[derive(Default)]
pub struct Functions {
    files: BTreeMap<String, Vec<Function>>,
}

impl Functions {
    fn of(&mut self, path: &str, text: &str) -> Result<&[Function]> {
        if !self.files.contains_key(path) {
            let file = syn::parse_file(text).with_context(|| format!("{path} cannot be parsed"))?;
            let mut reader = Reader { owner: None, found: vec![] };
            reader.visit_file(&file);
            self.files.insert(path.to_owned(), reader.found);
        }
        Ok(&self.files[path])
    }

    /// The file has a function of that name (`name` or `Owner::name`); a file that is no Rust has the name somewhere.
    pub fn has(&mut self, path: &str, text: &str, name: &str) -> Result<bool> {
        if !path.ends_with(".rs") {
            return Ok(crate::tidy::words(text, name).next().is_some());
        }
        Ok(self.of(path, text)?.iter().any(|function| is_named(function, name)))
    }

    /// What a function does, in order; the functions of its own file that it calls are put where they are called, once
    /// each, before the call itself.
    pub fn events(&mut self, path: &str, text: &str, name: &str) -> Result<Vec<Event>> {
        let all = self.of(path, text)?;
        let (mut out, mut seen) = (vec![], BTreeSet::new());
        let own: Vec<usize> = (0..all.len()).filter(|&n| is_named(&all[n], name)).collect();
        own.iter().for_each(|&n| expand(all, n, &mut seen, &mut out));
        Ok(out)
    }
}

fn is_named(function: &Function, name: &str) -> bool {
    match name.rsplit_once("::") {
        Some((owner, name)) => function.name == name && function.owner.as_deref() == Some(owner),
        None => function.name == name && function.owner.is_none(),
    }
}

fn expand(all: &[Function], n: usize, seen: &mut BTreeSet<usize>, out: &mut Vec<Event>) {
    if !seen.insert(n) {
        return;
    }
    for event in &all[n].events {
        if let Event::Call(call) = event {
            let called: Vec<usize> = (0..all.len()).filter(|&other| may_call(call, &all[other])).collect();
            called.into_iter().for_each(|other| expand(all, other, seen, out));
        }
        out.push(event.clone());
    }
}

/// A call may be one of this function of the same file: a method by its name, a function by its name alone, or both by
/// their type.
fn may_call(call: &str, function: &Function) -> bool {
    match (call.rsplit_once('.'), call.rsplit_once("::")) {
        (Some((_, name)), _) => function.owner.is_some() && function.name == name,
        (None, None) => function.owner.is_none() && function.name == call,
        (None, Some((before, name))) => {
            let owner = function.owner.as_deref();
            function.name == name && owner.is_some() && (before == "Self" || owner == Some(before))
        }
    }
}

struct Reader {
    owner: Option<String>,
    found: Vec<Function>,
}

impl Reader {
    fn add(&mut self, name: &Ident, body: TokenStream) {
        let mut events = vec![];
        read(body, &mut events);
        self.found.push(Function { owner: self.owner.clone(), name: name.to_string(), events });
    }

    fn within(&mut self, owner: Option<String>, read: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.owner, owner);
        read(self);
        self.owner = before;
    }

    /// Functions in the text of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let rest = &tokens[at + 1..];
            let is_end = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ';') || body(t).is_some();
            let end = rest.iter().position(is_end);
            let braces = end.and_then(|end| body(&rest[end]));
            match (token, rest.first(), braces) {
                (TokenTree::Ident(word), Some(TokenTree::Ident(name)), Some(body)) if word == "fn" => {
                    self.add(name, body)
                }
                (TokenTree::Ident(word), _, Some(body)) if word == "impl" || word == "trait" => {
                    let mut names = rest[..end.unwrap_or(0)].iter().filter_map(|t| match t {
                        TokenTree::Ident(name) => Some(name.to_string()),
                        _ => None,
                    });
                    let owner = names.next_back();
                    self.within(owner, |reader| reader.tokens(body));
                }
                // What belongs to a type was read with it.
                (TokenTree::Group(group), ..) if !belongs_to_type(&tokens[..at]) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }
}

fn body(token: &TokenTree) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}

/// The tokens before a group begin an `impl` or a `trait` whose body it is.
fn belongs_to_type(before: &[TokenTree]) -> bool {
    let ends = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ';') || body(t).is_some();
    let item = before.iter().rposition(ends).map_or(before, |end| &before[end + 1..]);
    item.iter().any(|t| matches!(t, TokenTree::Ident(word) if word == "impl" || word == "trait"))
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        match item {
            Item::Fn(item) if !is_test(&item.attrs) => self.add(&item.sig.ident, item.block.to_token_stream()),
            Item::Const(item) => self.add(&item.ident, item.expr.to_token_stream()),
            Item::Static(item) => self.add(&item.ident, item.expr.to_token_stream()),
            Item::Impl(item) => {
                let owner = match &*item.self_ty {
                    syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
                    _ => None,
                };
                self.within(owner, |reader| visit::visit_item_impl(reader, item));
            }
            Item::Trait(item) => {
                let owner = Some(item.ident.to_string());
                self.within(owner, |reader| visit::visit_item_trait(reader, item));
            }
            Item::Mod(item) if !is_test(&item.attrs) => visit::visit_item_mod(self, item),
            Item::Macro(item) => self.tokens(item.mac.tokens.clone()),
            _ => {}
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.add(&item.sig.ident, item.block.to_token_stream());
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.add(&item.ident, item.expr.to_token_stream());
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let body = item.default.as_ref().map_or(TokenStream::new(), ToTokens::to_token_stream);
        self.add(&item.sig.ident, body);
    }
}

/// The events of a text; the arguments of a call come before it.
fn read(tokens: TokenStream, out: &mut Vec<Event>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                read(group.stream(), out);
                if group.delimiter() == Delimiter::Parenthesis
                    && let Some(name) = name_end(&tokens[..at])
                {
                    out.push(Event::Call(name_to(&tokens, name)));
                }
            }
            TokenTree::Ident(_) if !is_part_of_call(&tokens, at) => out.push(Event::Name(name_to(&tokens, at))),
            TokenTree::Literal(literal) => {
                let text = syn::parse_str::<syn::LitStr>(&literal.to_string());
                out.extend(text.ok().map(|text| Event::Text(text.value())));
            }
            _ => {}
        }
    }
}

fn punct(tokens: &[TokenTree], at: usize, c: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c)
}

/// Where the name of a call stands whose arguments come next: at the end, or before `::<…>`.
fn name_end(before: &[TokenTree]) -> Option<usize> {
    let last = before.len().checked_sub(1)?;
    if matches!(before[last], TokenTree::Ident(_)) {
        return Some(last);
    }
    if !punct(before, last, '>') {
        return None;
    }
    let (mut depth, mut at) = (0usize, last);
    loop {
        if punct(before, at, '>') && !punct(before, at.wrapping_sub(1), '-') {
            depth += 1;
        } else if punct(before, at, '<') {
            depth -= 1;
        }
        if depth == 0 {
            break;
        }
        at = at.checked_sub(1)?;
    }
    let name = at.checked_sub(3)?;
    let is_turbofish = punct(before, at - 1, ':') && punct(before, at - 2, ':');
    (is_turbofish && matches!(before[name], TokenTree::Ident(_))).then_some(name)
}

fn is_part_of_call(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at + 1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

/// The name that ends at `at`, with what it is joined to by `.` and `::` in front: `self.device.submit`. What is joined
/// to something other than a name begins with its `.`.
fn name_to(tokens: &[TokenTree], at: usize) -> String {
    let mut name = tokens[at].to_string();
    let mut at = at;
    loop {
        let (mark, before) = if at >= 1 && punct(tokens, at - 1, '.') && !(at >= 2 && punct(tokens, at - 2, '.')) {
            (".", at.checked_sub(2))
        } else if at >= 2 && punct(tokens, at - 1, ':') && punct(tokens, at - 2, ':') {
            ("::", at.checked_sub(3))
        } else {
            return name;
        };
        name.insert_str(0, mark);
        match before {
            Some(before) if matches!(tokens[before], TokenTree::Ident(_)) => {
                name.insert_str(0, &tokens[before].to_string());
                at = before;
            }
            _ => return name,
        }
    }
}
