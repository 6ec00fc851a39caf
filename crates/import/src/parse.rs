//! Parses the text of a node listing line by line and checks names, inputs, shapes and parameters. `docs/listing.md` describes
//! the format for people.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use onetrip_ir::formats::DType;
use onetrip_ir::text::{distance, shown};

/// An error in the text of a listing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("listing {listing}, line {line}: {what}")]
pub struct ListingError {
    /// Name or path of the listing.
    pub listing: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// The error, in words.
    pub what: String,
}

/// Most bytes of a listing. That of a decode step of a large model has a tenth of this.
pub const MOST_BYTES: usize = 8 << 20;
/// Most values of a listing. The time of rules grows faster than this number, as they look at pairs of nodes and their readers.
const MOST_VALUES: usize = 20_000;
const MOST_DIMS: usize = 4;
/// Most elements of a value: counts of bytes and of operations then still fit 64 bits.
const MOST_NUMBERS: u64 = 1 << 40;
/// Most tokens, sequences and positions of a step.
const MOST_ROWS: u64 = 1 << 20;

/// Type of the elements of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Floats or quantized elements.
    Real(DType),
    /// Integers: ids and positions.
    Whole,
}

/// The kind of value that a line defines.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A tensor of the model file.
    Weight,
    /// A state that the engine keeps from step to step.
    State,
    /// A part of the batch: ids, positions or the mask.
    Input,
    /// The bytes of another value with another shape; a view costs nothing.
    View {
        /// Bytes from the start of the viewed value.
        offset: u64,
        /// Bytes from one element to the next in each dimension; `None` if the elements are contiguous.
        strides: Option<Vec<u64>>,
    },
    /// A compute node, with the ggml name of its op.
    Node(&'static str),
}

/// A value of the listing, defined by one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Number of its line, from 1.
    pub line: usize,
    /// Name of the value, unique in the listing.
    pub name: String,
    /// The kind of value.
    pub kind: Kind,
    /// Indices of the items that a node reads, or of the item that a view shows.
    pub ins: Vec<usize>,
    /// Type of the elements.
    pub dtype: Type,
    /// Dimensions, innermost first, as ggml lists them.
    pub dims: Vec<u64>,
    /// Parameters of the op: key and value.
    params: Vec<(String, String)>,
}

impl Item {
    /// Number of elements.
    pub fn numbers(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Type and dimensions as text: `f32[4096,2]`.
    pub fn shape(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(u64::to_string).collect();
        let dtype = match self.dtype {
            Type::Real(dtype) => dtype.name(),
            Type::Whole => "i32",
        };
        format!("{dtype}[{}]", dims.join(","))
    }

    /// The value of a parameter as text, if the line has it.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The head of a listing: the origin and the sizes of the recorded step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Name of the engine whose nodes were recorded.
    pub engine: String,
    /// Name of the model that the engine ran.
    pub model: String,
    /// Day of the recording, as the file writes it.
    pub date: String,
    /// Whether the step is a decode step, with one token for each sequence.
    pub is_decode: bool,
    /// Tokens of the step.
    pub tokens: u64,
    /// Sequences of the step.
    pub sequences: u64,
    /// Positions of each sequence after the step.
    pub context: u64,
}

/// An op that listings may have: its ggml name, number of inputs, required parameters, optional parameters.
struct Known(&'static str, RangeInclusive<usize>, &'static [&'static str], &'static [&'static str]);

/// All ops that listings may have. The importer has a match arm for each.
const KNOWN: &[Known] = &[
    Known("ADD", 2..=2, &[], &[]),
    Known("CONCAT", 2..=2, &["dim"], &[]),
    Known("CONT", 1..=1, &[], &[]),
    Known("CPY", 1..=2, &[], &[]),
    Known("FLASH_ATTN_EXT", 3..=4, &["scale"], &["softcap", "window"]),
    Known("GATED_DELTA_NET", 6..=6, &[], &[]),
    Known("GET_ROWS", 2..=2, &[], &[]),
    Known("GLU", 2..=2, &["op"], &[]),
    Known("L2_NORM", 1..=1, &["eps"], &[]),
    Known("MUL", 2..=2, &[], &[]),
    Known("MUL_MAT", 2..=2, &[], &[]),
    Known("RMS_NORM", 1..=1, &["eps"], &[]),
    Known("ROPE", 2..=3, &["dims", "mode", "base"], &["scale"]),
    Known("SCALE", 1..=1, &["by"], &[]),
    Known("SET_ROWS", 3..=3, &[], &[]),
    Known("SSM_CONV", 2..=2, &[], &[]),
    Known("UNARY", 1..=1, &["op"], &[]),
];

/// Parses the text of a listing; returns its head and its values in order.
pub fn parse(name: &str, bytes: &[u8]) -> Result<(Head, Vec<Item>), ListingError> {
    let fail = |line, what: String| ListingError { listing: name.into(), line, what };
    if bytes.len() > MOST_BYTES {
        let what = format!("{} bytes: a listing has at most {MOST_BYTES}; is this one step of a model?", bytes.len());
        return Err(fail(1, what));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
        fail(line, "not UTF-8: a listing is text; save it as UTF-8".into())
    })?;
    let mut p = Parser::default();
    for (n, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((first, rest)) = words.split_first() else { continue };
        if first.starts_with('#') {
            continue;
        }
        p.line(n + 1, first, rest).map_err(|what| fail(n + 1, what))?;
    }
    let last = text.lines().count().max(1);
    p.finish().map_err(|what| fail(last, what))
}

/// The name in `names` with the smallest edit distance from `wrong`.
fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    let wrong: String = wrong.chars().take(64).collect();
    names.min_by_key(|name| distance(name, &wrong)).unwrap_or("")
}

#[derive(Default)]
struct Parser {
    /// Whether the first line, `listing 1`, was read.
    begun: bool,
    seen: Vec<&'static str>,
    head: Head,
    items: Vec<Item>,
    by_name: HashMap<String, usize>,
}

/// Keywords of the lines that the head must have, each once.
const HEAD: [&str; 5] = ["engine", "model", "date", "phase", "batch"];
const LINES: [&str; 10] = ["listing", "engine", "model", "date", "phase", "batch", "weight", "state", "input", "view"];

impl Parser {
    fn line(&mut self, line: usize, first: &str, rest: &[&str]) -> Result<(), String> {
        if !self.begun {
            self.begun = first == "listing" && rest == ["1"];
            let what = "the first line must be `listing 1`: the form and its version (see docs/listing.md)";
            return if self.begun { Ok(()) } else { Err(what.into()) };
        }
        if let Some(key) = HEAD.iter().find(|key| **key == first) {
            return self.head(key, rest);
        }
        match first {
            "weight" | "state" | "input" => self.source(line, first, rest),
            "view" => self.view(line, rest),
            "node" => self.node(line, rest),
            _ => {
                let near = nearest(first, LINES.into_iter().chain(["node"]));
                Err(format!("a line cannot begin with `{}`; did you mean `{near}`?", shown(first)))
            }
        }
    }

    fn head(&mut self, key: &'static str, rest: &[&str]) -> Result<(), String> {
        if self.seen.contains(&key) {
            return Err(format!("a second line `{key}`"));
        }
        self.seen.push(key);
        let text = shown(&rest.join(" "));
        if text.is_empty() {
            return Err(format!("`{key}` says nothing"));
        }
        match key {
            "engine" => self.head.engine = text,
            "model" => self.head.model = text,
            "date" => self.head.date = text,
            "phase" => match &text[..] {
                "decode" => self.head.is_decode = true,
                "prefill" => self.head.is_decode = false,
                _ => return Err(format!("phase `{text}`: it is `decode` or `prefill`")),
            },
            _ => {
                for (i, name) in ["tokens", "sequences", "context"].into_iter().enumerate() {
                    let word = rest.get(i).and_then(|w| w.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok());
                    let Some(n) = word.filter(|n| (1..=MOST_ROWS).contains(n) && rest.len() == 3) else {
                        return Err(format!("write `batch tokens=N sequences=N context=N`, each 1 to {MOST_ROWS}"));
                    };
                    *[&mut self.head.tokens, &mut self.head.sequences, &mut self.head.context][i] = n;
                }
            }
        }
        Ok(())
    }

    fn source(&mut self, line: usize, kind: &str, rest: &[&str]) -> Result<(), String> {
        let [name, shape] = rest[..] else { return Err(format!("write `{kind} NAME TYPE[DIMS]`")) };
        let (dtype, dims) = read_shape(shape)?;
        let kind = match kind {
            "weight" => Kind::Weight,
            "state" => Kind::State,
            _ => Kind::Input,
        };
        if dtype == Type::Whole && kind != Kind::Input {
            return Err("weights and states are not of whole numbers".into());
        }
        self.add(Item { line, name: name.into(), kind, ins: vec![], dtype, dims, params: vec![] })
    }

    fn view(&mut self, line: usize, rest: &[&str]) -> Result<(), String> {
        let [name, of, shape, ref params @ ..] = rest[..] else {
            return Err("write `view NAME OF TYPE[DIMS] [offset=BYTES] [strides=BYTES,…]`".into());
        };
        let (of, (dtype, dims)) = (self.input(of)?, read_shape(shape)?);
        let params = read_params("view", params, &[], &["offset", "strides"])?;
        let get = |key: &str| params.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        let whole = |text: &str| text.parse::<u64>().map_err(|_| format!("`{}` is no number of bytes", shown(text)));
        let offset = get("offset").map_or(Ok(0), whole)?;
        let strides = get("strides").map(|s| s.split(',').map(whole).collect::<Result<Vec<u64>, _>>()).transpose()?;
        if strides.as_ref().is_some_and(|s| s.len() != dims.len()) {
            return Err(format!("{} dimensions need as many strides", dims.len()));
        }
        let item = Item {
            line,
            name: name.into(),
            kind: Kind::View { offset, strides },
            ins: vec![of],
            dtype,
            dims,
            params: vec![],
        };
        self.fits(&item)?;
        self.add(item)
    }

    /// Returns an error if the last byte of a view is outside the viewed value.
    fn fits(&self, view: &Item) -> Result<(), String> {
        let of = &self.items[view.ins[0]];
        let Kind::View { offset, strides } = &view.kind else { return Ok(()) };
        if of.dtype != view.dtype {
            return Err(format!("a view {} of {} {}: types disagree", view.shape(), of.name, of.shape()));
        }
        if view.numbers() == 0 {
            return Ok(());
        }
        let size = size_of(view);
        let end = match strides {
            None => size(view.numbers()),
            Some(strides) => {
                let last =
                    view.dims.iter().zip(strides).try_fold(0u64, |a, (n, s)| a.checked_add((n - 1).checked_mul(*s)?));
                last.and_then(|last| last.checked_add(size(1)))
                    .ok_or_else(|| format!("strides that reach beyond {}", of.name))?
            }
        };
        // A view of a view may reach beyond that view, to the end of the value behind it.
        let mut root = of;
        let mut start = *offset;
        while let Kind::View { offset, .. } = &root.kind {
            start = start.saturating_add(*offset);
            root = &self.items[root.ins[0]];
        }
        let have = size(root.numbers());
        if start.saturating_add(end) > have {
            let (end, root) = (start.saturating_add(end), &root.name);
            return Err(format!("the view ends at byte {end} of {root}, which has {have}"));
        }
        Ok(())
    }

    fn node(&mut self, line: usize, rest: &[&str]) -> Result<(), String> {
        let [name, op, ref rest @ ..] = rest[..] else {
            return Err("write `node NAME OP INPUT… TYPE[DIMS] [KEY=VALUE…]`".into());
        };
        let Some(Known(op, inputs, must, may)) = KNOWN.iter().find(|k| k.0 == op) else {
            let near = nearest(op, KNOWN.iter().map(|k| k.0));
            let all: Vec<&str> = KNOWN.iter().map(|k| k.0).collect();
            return Err(format!("unknown op `{}`; did you mean `{near}`? Ops: {}", shown(op), all.join(", ")));
        };
        let Some(at) = rest.iter().position(|word| word.contains('[')) else {
            return Err(format!("{op} has no shape: write `TYPE[DIMS]` after its inputs"));
        };
        let ins = rest[..at].iter().map(|name| self.input(name)).collect::<Result<Vec<usize>, _>>()?;
        if !inputs.contains(&ins.len()) {
            let (least, most) = (inputs.start(), inputs.end());
            let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Err(format!("{op} takes {range} inputs, got {}", ins.len()));
        }
        let (dtype, dims) = read_shape(rest[at])?;
        let params = read_params(op, &rest[at + 1..], must, may)?;
        self.add(Item { line, name: name.into(), kind: Kind::Node(op), ins, dtype, dims, params })
    }

    fn input(&self, name: &str) -> Result<usize, String> {
        let found = self.by_name.get(name).copied();
        found.ok_or_else(|| {
            format!("input `{}` is not named on any line above: give it a line of its own before this one", shown(name))
        })
    }

    fn add(&mut self, item: Item) -> Result<(), String> {
        if item.name.len() > 128 || item.name.contains(['[', '=', '#']) || item.name.chars().any(char::is_control) {
            return Err(format!("`{}` is no name: at most 128 bytes without `[`, `=`, `#`", shown(&item.name)));
        }
        if self.items.len() == MOST_VALUES {
            return Err(format!("more than {MOST_VALUES} values: a listing is one step of a model"));
        }
        if let Some(before) = self.by_name.insert(item.name.clone(), self.items.len()) {
            let before = &self.items[before];
            return Err(format!("`{}` is named on line {} already: names are unique", shown(&item.name), before.line));
        }
        self.items.push(item);
        Ok(())
    }

    fn finish(self) -> Result<(Head, Vec<Item>), String> {
        if let Some(key) = HEAD.iter().find(|key| !self.seen.contains(key)) {
            return Err(format!("the listing ends without a line `{key}`"));
        }
        let h = &self.head;
        if !h.tokens.is_multiple_of(h.sequences)
            || (h.is_decode && h.tokens != h.sequences)
            || h.context < h.tokens / h.sequences
        {
            let Head { tokens, sequences, context, .. } = h;
            return Err(format!(
                "{tokens} tokens in {sequences} sequences of {context} positions are no {} step",
                if h.is_decode { "decode" } else { "prefill" }
            ));
        }
        if !self.items.iter().any(|i| matches!(i.kind, Kind::Node(_))) {
            return Err("the listing ends without a line `node`".into());
        }
        Ok((self.head, self.items))
    }
}

/// A function that gives the bytes of a number of elements of the item's type; integers count as four bytes.
fn size_of(item: &Item) -> impl Fn(u64) -> u64 + use<> {
    let (block, bytes) = match item.dtype {
        Type::Real(dtype) => (dtype.block() as u64, dtype.block_bytes() as u64),
        Type::Whole => (1, 4),
    };
    move |n: u64| n.div_ceil(block).saturating_mul(bytes)
}

/// Parses type and dimensions: `f32[4096,2]`.
fn read_shape(word: &str) -> Result<(Type, Vec<u64>), String> {
    let form = || format!("`{}` is no shape: write `TYPE[DIMS]`, such as `f32[4096,1]`", shown(word));
    let (dtype, dims) = word.strip_suffix(']').and_then(|w| w.split_once('[')).ok_or_else(form)?;
    let dtype = match dtype {
        "i32" | "i64" => Type::Whole,
        name => Type::Real(DType::parse(name).ok_or_else(|| {
            let near = nearest(name, DType::ALL.iter().map(|d| d.name()).chain(["i32"]));
            format!("unknown type `{}`; did you mean `{near}`?", shown(name))
        })?),
    };
    let dims = dims.split(',').map(|d| d.parse::<u64>().map_err(|_| form())).collect::<Result<Vec<u64>, _>>()?;
    let numbers = dims.iter().try_fold(1u64, |a, d| a.checked_mul(*d)).filter(|n| *n <= MOST_NUMBERS);
    if dims.len() > MOST_DIMS || numbers.is_none() {
        let what = format!("at most {MOST_DIMS} dimensions and {MOST_NUMBERS} numbers");
        return Err(format!("`{}` is too large: {what}", shown(word)));
    }
    if let Type::Real(dtype) = dtype
        && !dims[0].is_multiple_of(dtype.block() as u64)
    {
        return Err(format!("rows of {} are no whole blocks of {}", dims[0], dtype.name()));
    }
    Ok((dtype, dims))
}

/// Parses words `key=value`. Every key must be known (in `must` or `may`), and may occur once.
fn read_params(op: &str, words: &[&str], must: &[&str], may: &[&str]) -> Result<Vec<(String, String)>, String> {
    let mut params: Vec<(String, String)> = vec![];
    for word in words {
        let Some((key, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return Err(format!("`{}` after the shape: parameters are written KEY=VALUE", shown(word)));
        };
        if !must.iter().chain(may).any(|k| *k == key) {
            let all: Vec<&str> = must.iter().chain(may).copied().collect();
            let has = if all.is_empty() { "none".into() } else { all.join(", ") };
            return Err(format!("{op} has no parameter `{}`; it has {has}", shown(key)));
        }
        if params.iter().any(|(k, _)| k == key) {
            return Err(format!("`{key}` is given twice"));
        }
        params.push((key.into(), value.into()));
    }
    match must.iter().find(|key| !params.iter().any(|(k, _)| k == *key)) {
        Some(key) => Err(format!("{op} lacks its parameter `{key}`: add `{key}=VALUE` after the shape")),
        None => Ok(params),
    }
}
