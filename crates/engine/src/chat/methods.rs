//! Methods, filters and tests of Python and Jinja2 that minijinja lacks, or that answer otherwise there.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

/// The widest text that padding makes.
const MAX_WIDTH: usize = 1 << 16;

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    environment.add_test("iterable", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Iterable)
    });
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String)
    });
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("wordcount", |text: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count()
    });
    environment.add_filter("truncate", truncate);
    environment.add_filter("dictsort", dictsort);
    environment.add_function("dict", dict);
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// Methods of `str`; all others are those of `minijinja_contrib`.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(made) = string_method(text, name, args)?
    {
        // A method may give more text than it was given, which is paid for as output is.
        state.consume_fuel(1 + made.as_str().map_or(0, str::len) as u64 / 64)?;
        return Ok(made);
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

fn string_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let word = |n: usize| {
        let found = args.get(n).and_then(Value::as_str);
        found.ok_or_else(|| wrong(format!("{name}: argument {} should be a string", n + 1)))
    };
    let three = |a: &str, b: &str, c: &str| Value::from(vec![Value::from(a), Value::from(b), Value::from(c)]);
    Ok(Some(match name {
        "removeprefix" => text.strip_prefix(word(0)?).unwrap_or(text).into(),
        "removesuffix" => text.strip_suffix(word(0)?).unwrap_or(text).into(),
        "partition" => match text.split_once(word(0)?) {
            Some((before, after)) => three(before, word(0)?, after),
            None => three(text, "", ""),
        },
        "rpartition" => match text.rsplit_once(word(0)?) {
            Some((before, after)) => three(before, word(0)?, after),
            None => three("", "", text),
        },
        "index" | "rindex" => {
            let wanted = word(0)?;
            let found = if name == "index" { text.find(wanted) } else { text.rfind(wanted) };
            let at = found.ok_or_else(|| wrong(format!("{name}: substring not found")))?;
            text[..at].chars().count().into()
        }
        "rsplit" => rsplit(text, args)?,
        "swapcase" => text.chars().flat_map(swapped).collect::<String>().into(),
        "casefold" => text.to_lowercase().into(),
        "title" => title(text).into(),
        "zfill" | "ljust" | "rjust" | "center" => padded(text, name, args)?.into(),
        _ => return Ok(None),
    }))
}

fn swapped(c: char) -> Vec<char> {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}

/// Every letter that follows no letter is upper case, and all others are lower case.
fn title(text: &str) -> String {
    let mut after_letter = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match after_letter {
            true => out.extend(c.to_lowercase()),
            false => out.extend(c.to_uppercase()),
        }
        after_letter = c.is_alphabetic();
    }
    out
}

/// `str.rsplit(sep=None, maxsplit=-1)`.
fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let most = match args.get(1).and_then(Value::as_i64) {
        Some(n) if n >= 0 => usize::try_from(n).unwrap_or(usize::MAX),
        _ => usize::MAX - 1,
    };
    let mut parts: Vec<String> = match args.first().filter(|sep| !sep.is_none()) {
        Some(sep) => {
            let sep = sep.as_str().filter(|s| !s.is_empty()).ok_or_else(|| wrong("rsplit: the separator is empty"))?;
            text.rsplitn(most + 1, sep).map(String::from).collect()
        }
        None => {
            let (mut rest, mut parts) = (text.trim_end(), vec![]);
            while !rest.is_empty() && parts.len() < most {
                let at = rest
                    .rfind(char::is_whitespace)
                    .map_or(0, |at| rest[at..].chars().next().map_or(at, |c| at + c.len_utf8()));
                parts.push(rest[at..].to_string());
                rest = rest[..at].trim_end();
            }
            if !rest.is_empty() {
                parts.push(rest.trim_start().to_string());
            }
            parts
        }
    };
    parts.reverse();
    Ok(Value::from(parts))
}

fn padded(text: &str, name: &str, args: &[Value]) -> Result<String, Error> {
    let width = args.first().and_then(Value::as_i64).ok_or_else(|| wrong(format!("{name}: the width is no number")))?;
    let width = usize::try_from(width).unwrap_or(0);
    if width > MAX_WIDTH {
        return Err(wrong(format!("{name}: a width of more than {MAX_WIDTH}")));
    }
    let fill = match (name, args.get(1).map(|f| f.as_str().unwrap_or_default())) {
        ("zfill", _) => '0',
        (_, None) => ' ',
        (_, Some(fill)) => match (fill.chars().next(), fill.chars().count()) {
            (Some(c), 1) => c,
            _ => return Err(wrong(format!("{name}: the fill is not one character"))),
        },
    };
    let missing = width.saturating_sub(text.chars().count());
    let of = |n: usize| String::from(fill).repeat(n);
    Ok(match name {
        "ljust" => format!("{text}{}", of(missing)),
        "center" => {
            // Python puts the odd one to the left where the width is odd.
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", of(left), of(missing - left))
        }
        // A sign stays in front of zeros.
        "zfill" if text.starts_with(['+', '-']) => format!("{}{}{}", &text[..1], of(missing), &text[1..]),
        _ => format!("{}{text}", of(missing)),
    })
}

/// Jinja2's `int(default=0, base=10)`: what is no number gives the default.
fn int(value: &Value, default: Option<Value>, base: Option<u32>, kwargs: Kwargs) -> Result<Value, Error> {
    let default = default.or(kwargs.get("default")?).unwrap_or(Value::from(0));
    let base = base.or(kwargs.get("base")?).unwrap_or(10);
    kwargs.assert_all_used()?;
    if !(2..=36).contains(&base) {
        return Err(wrong("int: the base is not 2 to 36"));
    }
    if let Some(text) = value.as_str() {
        let digits = text.trim().replace('_', "").to_ascii_lowercase();
        let digits = match base {
            16 => digits.trim_start_matches("0x"),
            8 => digits.trim_start_matches("0o"),
            2 => digits.trim_start_matches("0b"),
            _ => &digits,
        };
        let whole = i128::from_str_radix(digits, base).ok();
        let whole = whole.or_else(|| number(text).filter(|x| x.is_finite()).map(|x| x.trunc() as i128));
        return Ok(whole.map_or(default, Value::from));
    }
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number => match value.as_i64() {
            Some(_) => value.clone(),
            None => f64::try_from(value.clone())
                .ok()
                .filter(|x| x.is_finite())
                .map_or(default, |x| Value::from(x.trunc() as i128)),
        },
        _ => default,
    })
}

/// Jinja2's `float(default=0.0)`.
fn float(value: &Value, default: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let default = default.or(kwargs.get("default")?).unwrap_or(Value::from(0.0));
    kwargs.assert_all_used()?;
    let found = match value.as_str() {
        Some(text) => number(text),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None => f64::try_from(value.clone()).ok(),
    };
    Ok(found.map_or(default, Value::from))
}

fn number(text: &str) -> Option<f64> {
    text.trim().replace('_', "").parse().ok()
}

/// Jinja2's `truncate(length=255, killwords=false, end="...", leeway=5)`.
fn truncate(text: &str, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let at = |n: usize, name: &str| -> Result<Option<Value>, Error> {
        Ok(args.get(n).cloned().or(kwargs.get::<Option<Value>>(name)?))
    };
    let size = |value: Option<Value>, or: usize| value.and_then(|v| v.as_usize()).unwrap_or(or);
    let (length, killwords) = (size(at(0, "length")?, 255), at(1, "killwords")?.is_some_and(|v| v.is_true()));
    let end = at(2, "end")?.map_or_else(|| "...".to_string(), |v| v.to_string());
    let leeway = size(at(3, "leeway")?, 5);
    kwargs.assert_all_used()?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text.to_string());
    }
    let kept: String = text.chars().take(length.saturating_sub(end.chars().count())).collect();
    let kept = if killwords { &kept[..] } else { kept.rsplit_once(' ').map_or(&kept[..], |(words, _)| words) };
    Ok(format!("{kept}{end}"))
}

/// Jinja2's `dictsort(case_sensitive=false, by="key", reverse=false)`.
fn dictsort(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let at = |n: usize, name: &str| -> Result<Option<Value>, Error> {
        Ok(args.get(n).cloned().or(kwargs.get::<Option<Value>>(name)?))
    };
    let is_set = |value: Option<Value>| value.is_some_and(|v| v.is_true());
    let (cased, reverse) = (is_set(at(0, "case_sensitive")?), is_set(at(2, "reverse")?));
    let by_value = at(1, "by")?.is_some_and(|v| v.as_str() == Some("value"));
    kwargs.assert_all_used()?;
    if value.kind() != ValueKind::Map {
        return Err(wrong("dictsort: not a mapping"));
    }
    let mut pairs = vec![];
    for key in value.try_iter()? {
        let item = value.get_item(&key)?;
        pairs.push((key, item));
    }
    let sorted_by = |(key, item): &(Value, Value)| {
        let by = if by_value { item } else { key };
        match by.as_str() {
            Some(text) if !cased => Value::from(text.to_lowercase()),
            _ => by.clone(),
        }
    };
    pairs.sort_by_cached_key(sorted_by);
    if reverse {
        pairs.reverse();
    }
    Ok(pairs.into_iter().map(|(key, item)| Value::from(vec![key, item])).collect::<Vec<_>>().into())
}

/// Python's `dict`: of a mapping, of a list of pairs, of named values.
fn dict(from: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let mut pairs: Vec<(Value, Value)> = vec![];
    if let Some(from) = from {
        for item in from.try_iter()? {
            match from.kind() {
                ValueKind::Map => pairs.push((item.clone(), from.get_item(&item)?)),
                _ => {
                    let pair: Vec<Value> = item.try_iter()?.take(3).collect();
                    match &pair[..] {
                        [key, value] => pairs.push((key.clone(), value.clone())),
                        _ => return Err(wrong("dict: an item is not a pair")),
                    }
                }
            }
        }
    }
    for name in kwargs.args() {
        pairs.push((Value::from(name), kwargs.get(name)?));
    }
    Ok(Value::from_pairs(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(template: &str) -> String {
        let mut environment = Environment::new();
        environment.set_fuel(Some(100_000));
        install(&mut environment);
        environment.render_str(template, ()).unwrap_or_else(|e| format!("error: {e}"))
    }

    #[test]
    fn methods_and_filters_answer_as_in_python() {
        for (expression, want) in [
            ("'a,b,c'.rsplit(',', 1)[0]", "a,b"),
            ("' a  b c '.rsplit()|join('+')", "a+b+c"),
            ("'a b c'.rsplit(none, 1)|join('+')", "a b+c"),
            ("'abc'.removeprefix('a')", "bc"),
            ("'abc'.removesuffix('c')", "ab"),
            ("'a-b'.partition('-')[2]", "b"),
            ("'a-b-c'.rpartition('-')[0]", "a-b"),
            ("'abc'.index('c')", "2"),
            ("'-7'.zfill(4)", "-007"),
            ("'a'.ljust(2) + '|'", "a |"),
            ("'ab'.center(5, '*')", "**ab*"),
            ("\"they're\".title()", "They'Re"),
            ("'aB'.swapcase()", "Ab"),
            ("'x'|int", "0"),
            ("'1f'|int(base=16)", "31"),
            ("'2.7'|int", "2"),
            ("'x'|float", "0.0"),
            ("none is iterable", "False"),
            ("'a b_c d'|wordcount", "3"),
            ("'hello world foo'|truncate(8)", "hello..."),
            ("dict([('a', 1)]).a", "1"),
            ("({'B': 1, 'a': 2}|dictsort(true))[0][0]", "B"),
        ] {
            let got = said(&format!("{{{{ {expression} }}}}"));
            assert!(got.eq_ignore_ascii_case(want) && (got == want || want == "False"), "{expression}: {got}");
        }
        assert!(said("{{ 'abc'.index('x') }}").contains("not found"));
        assert!(said("{{ 'a'.ljust(100000000) }}").contains("width"));
    }
}
