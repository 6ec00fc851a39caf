//! Checks a `tokenizer.json` before the `tokenizers` crate reads it.
//!
//! The crate trusts the file: it panics on a template that names an undefined token, on a decoder that is not an object, and on
//! a split of length 0. So only components that language models use and that were reviewed are accepted, and the properties
//! that the crate assumes of them are checked first.

use serde_json::Value;

/// Largest factor by which all normalizers together may lengthen a text.
const MAX_GROWTH: usize = 256;
/// Most levels that sequences of components may nest.
const MAX_DEPTH: usize = 4;

const NORMALIZERS: &[&str] = &["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "Replace", "Prepend", "Sequence"];
const PRE_TOKENIZERS: &[&str] =
    &["ByteLevel", "Metaspace", "Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "Sequence"];
const POST_PROCESSORS: &[&str] = &["ByteLevel", "TemplateProcessing", "Sequence"];
const DECODERS: &[&str] = &["ByteLevel", "ByteFallback", "Fuse", "Strip", "Replace", "Metaspace", "Sequence"];

/// Checks a normalizer: its components are known, and they cannot lengthen a text without bound.
pub(super) fn normalizer(part: &Value) -> Result<(), String> {
    let mut growth = 1_usize;
    each(part, "normalizer", "normalizers", NORMALIZERS, 0, &mut |kind, part| {
        let content = |key: &str| part.get(key).and_then(Value::as_str).map_or(0, str::len);
        let factor = match kind {
            "Replace" => content("content") / pattern_length(part).max(1) + 1,
            // NFKC and NFKD can decompose one character into 18.
            "NFKC" | "NFKD" => 18,
            "NFC" | "NFD" | "Lowercase" => 4,
            "Prepend" if content("prepend") > 64 => return Err("normalizer: a long text to prepend".to_owned()),
            _ => 1,
        };
        growth = growth.saturating_mul(factor);
        if growth > MAX_GROWTH {
            return Err("normalizer: replacements that make a text far longer".to_owned());
        }
        Ok(())
    })
}

/// Bytes of the text that a `Replace` matches, if its pattern is plain text, else 0.
fn pattern_length(part: &Value) -> usize {
    part.pointer("/pattern/String").and_then(Value::as_str).map_or(0, str::len)
}

/// Checks a pre-tokenizer: its components are known.
pub(super) fn pre_tokenizer(part: &Value) -> Result<(), String> {
    each(part, "pre_tokenizer", "pretokenizers", PRE_TOKENIZERS, 0, &mut |_, _| Ok(()))
}

/// Checks a decoder: its components are known.
pub(super) fn decoder(part: &Value) -> Result<(), String> {
    each(part, "decoder", "decoders", DECODERS, 0, &mut |_, _| Ok(()))
}

/// Checks a post-processor: its components are known, and all tokens of its templates are defined.
pub(super) fn post_processor(part: &Value) -> Result<(), String> {
    each(part, "post_processor", "processors", POST_PROCESSORS, 0, &mut |kind, part| {
        if kind == "TemplateProcessing" { template(part) } else { Ok(()) }
    })
}

fn template(part: &Value) -> Result<(), String> {
    let defined = part.get("special_tokens").and_then(Value::as_object);
    let pieces = part.get("single").and_then(Value::as_array).ok_or("post_processor: a template without `single`")?;
    let mut sequences = 0;
    for piece in pieces {
        let name = |key: &str| piece.get(key).and_then(|inner| inner.get("id")).and_then(Value::as_str);
        match (name("SpecialToken"), name("Sequence")) {
            (Some(token), None) if defined.is_some_and(|defined| defined.contains_key(token)) => {}
            (Some(token), None) => {
                return Err(format!("post_processor: the template's token {token:?} is not defined"));
            }
            (None, Some("A")) => sequences += 1,
            _ => return Err("post_processor: a piece of `single` is neither a special token nor sequence A".to_owned()),
        }
    }
    if sequences == 1 { Ok(()) } else { Err("post_processor: `single` has not exactly one sequence".to_owned()) }
}

/// Calls `check` for a component, or for each component of a sequence. A type that is not in `known` is an error.
fn each(
    part: &Value,
    what: &str,
    list: &str,
    known: &[&str],
    depth: usize,
    check: &mut dyn FnMut(&str, &Value) -> Result<(), String>,
) -> Result<(), String> {
    if part.is_null() && depth == 0 {
        return Ok(());
    }
    let kind = part.get("type").and_then(Value::as_str).ok_or_else(|| format!("{what}: a part without a type"))?;
    if !known.contains(&kind) {
        return Err(format!("{what}: {kind:?} is not supported; supported are {}", known.join(", ")));
    }
    if kind != "Sequence" {
        return check(kind, part);
    }
    if depth == MAX_DEPTH {
        return Err(format!("{what}: sequences nest too deep"));
    }
    let parts = part.get(list).and_then(Value::as_array).ok_or_else(|| format!("{what}: a sequence without {list}"))?;
    parts.iter().try_for_each(|part| each(part, what, list, known, depth + 1, check))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replacements_may_lengthen_a_text_a_little_and_not_without_bound() {
        let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
        let sequence = |parts: Vec<Value>| json!({"type": "Sequence", "normalizers": parts});
        assert_eq!(normalizer(&sequence(vec![json!({"type": "NFC"}), replace(" ", "▁")])), Ok(()));
        assert!(normalizer(&sequence(vec![replace("a", "aa"); 9])).is_err());
        assert!(normalizer(&replace("", &"x".repeat(300))).is_err());
        assert_eq!(normalizer(&Value::Null), Ok(()));
    }

    #[test]
    fn parts_that_are_unknown_or_nest_too_deep_are_refused() {
        let mut nested = json!({"type": "Fuse"});
        for _ in 0..5 {
            nested = json!({"type": "Sequence", "decoders": [nested]});
        }
        for part in [json!(5), json!({}), json!({"type": "CTC"}), json!({"type": "Sequence"}), nested] {
            assert!(decoder(&part).is_err(), "{part}");
        }
        assert!(pre_tokenizer(&json!({"type": "FixedLength", "length": 0})).is_err());
        assert!(post_processor(&json!({"type": "Sequence", "processors": [null]})).is_err());
    }

    #[test]
    fn templates_may_only_use_what_they_define() {
        let template = |single: Value| {
            json!({"type": "TemplateProcessing", "single": single, "pair": [],
                   "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})
        };
        let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
        let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        assert_eq!(post_processor(&template(json!([token("<s>"), sequence("A")]))), Ok(()));
        for single in [
            json!([token("</s>"), sequence("A")]),
            json!([sequence("B")]),
            json!([sequence("A"), sequence("A")]),
            json!(["$A"]),
            json!([]),
            json!(null),
        ] {
            assert!(post_processor(&template(single.clone())).is_err(), "{single}");
        }
    }
}
