//! Features of Python that templates use: methods of its types, `raise_exception`, and `tojson` as `json.dumps` writes it.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

/// The message of a `raise_exception` in a template. It is the source of minijinja's error, where the caller finds it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

/// Most levels that a value may nest in JSON.
const MAX_DEPTH: usize = 64;

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        // Lists and maps are not printed: a list may contain another many times, and its text would be huge.
        let text = match message.kind() {
            ValueKind::String | ValueKind::Number | ValueKind::Bool | ValueKind::None => message.to_string(),
            other => format!("({other})"),
        };
        let raised = Raised(text);
        Err(Error::new(ErrorKind::InvalidOperation, "raised by the template").with_source(raised))
    });
    environment.add_filter("tojson", tojson);
}

/// Replaces the tags `{% generation %}`, with which `transformers` marks the assistant's text for training only, by an `if`
/// whose condition is always true; white-space control marks stay.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        rest = tag;
        // A tag is `{%`, a white-space mark or none, the word, a mark or none, `%}`.
        let inner = tag.strip_prefix(['-', '+']).unwrap_or(tag);
        let open = &tag[..tag.len() - inner.len()];
        let inner = inner.trim_start();
        let (word, condition) = if inner.starts_with("generation") {
            ("generation", "if true")
        } else if inner.starts_with("endgeneration") {
            ("endgeneration", "endif")
        } else {
            continue;
        };
        let after = inner[word.len()..].trim_start();
        let end = after.strip_prefix(['-', '+']).unwrap_or(after);
        if !end.starts_with("%}") {
            continue;
        }
        let close = &after[..after.len() - end.len()];
        for part in [open, " ", condition, " ", close] {
            out.push_str(part);
        }
        rest = end;
    }
    out.push_str(rest);
    out
}

/// The options of `json.dumps`.
struct Style {
    /// One step of indentation; `None` keeps everything on one line.
    indent: Option<String>,
    comma: String,
    colon: String,
    ascii: bool,
    sorted: bool,
}

/// `json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`, the defaults of
/// `transformers` (Jinja2's own filter would escape HTML).
fn tojson(state: &State, value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent = match options.get::<Option<Value>>("indent")? {
        None => None,
        Some(value) if value.is_none() => None,
        Some(value) => match (value.as_str(), value.as_i64()) {
            (Some(text), _) if text.len() <= 64 => Some(text.to_owned()),
            (None, Some(width)) if width <= 64 => Some(" ".repeat(usize::try_from(width).unwrap_or(0))),
            _ => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent is not a width up to 64")),
        },
    };
    let (mut comma, mut colon) = (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    if let Some(separators) = options.get::<Option<Value>>("separators")?.filter(|value| !value.is_none()) {
        let pair: Vec<Value> = separators.try_iter()?.take(3).collect();
        match pair.as_slice() {
            [first, second] => (comma, colon) = (first.to_string(), second.to_string()),
            _ => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators is not a pair")),
        }
    }
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut out = String::new();
    write_value(state, value, &Style { indent, comma, colon, ascii, sorted }, 0, &mut out)?;
    Ok(Value::from(out))
}

fn write_value(state: &State, value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson: nested too deep"));
    }
    let before = out.len();
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&value.to_string()),
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), style.ascii, out),
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sorted {
                keys.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            }
            write_list(style, depth, ['{', '}'], keys, out, |key, out| {
                write_key(&key, style, out);
                out.push_str(&style.colon);
                write_value(state, &value.get_item(&key)?, style, depth + 1, out)
            })?;
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            write_list(style, depth, ['[', ']'], items, out, |item, out| {
                write_value(state, &item, style, depth + 1, out)
            })?;
        }
        other => {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("tojson: {other} is not JSON serializable")));
        }
    }
    // minijinja counts fuel only for the whole result, so a list with many references to one long text would be written for
    // free; fuel is therefore consumed while writing.
    if depth > 0 {
        state.consume_fuel(1 + (out.len() - before) as u64 / 64)?;
    }
    Ok(())
}

fn write_list(
    style: &Style,
    depth: usize,
    [open, close]: [char; 2],
    items: Vec<Value>,
    out: &mut String,
    mut write: impl FnMut(Value, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |depth: usize, out: &mut String| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    };
    let filled = !items.is_empty();
    out.push(open);
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            out.push_str(&style.comma);
        }
        line(depth + 1, out);
        write(item, out)?;
    }
    if filled {
        line(depth, out);
    }
    out.push(close);
    Ok(())
}

/// Writes a key. JSON keys are strings, so numbers and booleans are written between quotes.
fn write_key(key: &Value, style: &Style, out: &mut String) {
    match key.kind() {
        ValueKind::None => write_string("null", style.ascii, out),
        ValueKind::Bool => write_string(if key.is_true() { "true" } else { "false" }, style.ascii, out),
        _ => write_string(&key.to_string(), style.ascii, out),
    }
}

fn write_string(text: &str, ascii: bool, out: &mut String) {
    use std::fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{C}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 || (ascii && !c.is_ascii()) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    // Writing into a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_conditions_with_the_same_white_space_control() {
        assert_eq!(
            without_generation_tags("a{%- generation -%}b{% endgeneration +%}c{% if generation %}d{%generation%}"),
            "a{%- if true -%}b{% endif +%}c{% if generation %}d{% if true %}"
        );
        for other in ["{% generations %}", "{% generation", "{%", "{{ generation }}", "{%- set generation = 1 %}"] {
            assert_eq!(without_generation_tags(other), other);
        }
    }
}
