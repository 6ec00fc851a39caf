//! The tokenizer of a Hugging Face folder: the `tokenizers` crate reads `tokenizer.json`, this module the files beside it.

use std::borrow::Cow;
use std::collections::BTreeMap;
mod check;
pub(super) mod pipeline;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::encoder::{Model, Tokenizer};
use super::error::TokenizerError;
use super::gguf::ends_by_name;
use super::special::Matcher;
use super::table::{Spelling, Table, TokenKind, byte_token};
use crate::files::{StandIn, stand_in};
use crate::sentence::sentence;
use pipeline::Pipeline;

/// Those fields of `tokenizer.json` that are checked here, in addition to what the crate reads.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    model: ModelShape<'a>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(borrow, default)]
    added_tokens: Vec<AddedShape<'a>>,
}

#[derive(Deserialize)]
struct AddedShape<'a> {
    id: u32,
    #[serde(borrow)]
    content: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ModelShape<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    merges: Vec<MergeShape<'a>>,
    #[serde(borrow)]
    vocab: VocabularyShape<'a>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    dropout: Option<f64>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
}

/// The tokens of a vocabulary, and its highest id.
struct VocabularyShape<'a> {
    tokens: HashSet<Cow<'a, str>>,
    highest: u32,
}

/// A merge: one string with a space, or a pair of strings. Its `Deserialize` is written by hand, because serde's untagged enums
/// copy every value first, which takes seconds for half a million merges.
enum MergeShape<'a> {
    Joined(Cow<'a, str>),
    Pair(Text<'a>, Text<'a>),
}

/// A string, borrowed from the file if it has no escapes.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for VocabularyShape<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;
        impl<'de> Visitor<'de> for Tokens {
            type Value = VocabularyShape<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a vocabulary: tokens with their ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut vocabulary = VocabularyShape { tokens: HashSet::new(), highest: 0 };
                while let Some((token, id)) = map.next_entry::<Text, u32>()? {
                    vocabulary.tokens.insert(token.0);
                    vocabulary.highest = vocabulary.highest.max(id);
                }
                Ok(vocabulary)
            }
        }
        deserializer.deserialize_map(Tokens)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MergeShape<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Merge;
        impl<'de> Visitor<'de> for Merge {
            type Value = MergeShape<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("two tokens: one string with a space, or a pair")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(MergeShape::Joined(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(MergeShape::Joined(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut next = || list.next_element::<Text>();
                match (next()?, next()?, next()?) {
                    (Some(left), Some(right), None) => Ok(MergeShape::Pair(left, right)),
                    _ => Err(de::Error::custom("a merge of other than two tokens")),
                }
            }
        }
        deserializer.deserialize_any(Merge)
    }
}

/// `tokenizer_config.json` and `generation_config.json`, as far as they concern tokens.
#[derive(Default)]
struct Config {
    bos: Option<String>,
    eos: Option<String>,
    add_bos: bool,
    add_eos: bool,
    bos_id: Option<u64>,
    end_ids: Vec<u64>,
    /// Tokens with their ids that stand beside `tokenizer.json`, in the order of the ids, and whether they are special.
    added: BTreeMap<u64, (String, bool)>,
    chat_template: Option<String>,
}

pub(super) fn build(path: &Path) -> Result<Tokenizer, TokenizerError> {
    let bytes = std::fs::read(path).map_err(|e| file_error(path, &e.to_string()))?;
    if let Some(StandIn { what, hint }) = stand_in(&bytes) {
        return Err(file_error(path, &format!("{what}; {hint}")));
    }
    let config = Config::read(path.parent().unwrap_or(Path::new("")))?;
    from_bytes(&bytes, &config).map_err(|problem| file_error(path, &problem))
}

pub(super) fn from_slice(bytes: &[u8]) -> Result<Tokenizer, TokenizerError> {
    from_bytes(bytes, &Config::default()).map_err(|problem| file_error(Path::new("tokenizer.json"), &problem))
}

fn file_error(path: &Path, problem: &str) -> TokenizerError {
    TokenizerError::File { path: path.display().to_string(), problem: sentence(problem.lines()) }
}

fn from_bytes(bytes: &[u8], config: &Config) -> Result<Tokenizer, String> {
    let shape: Shape = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    check_model(&shape.model)?;
    check::normalizer(&shape.normalizer)?;
    check::pre_tokenizer(&shape.pre_tokenizer)?;
    check::post_processor(&shape.post_processor)?;
    check::decoder(&shape.decoder)?;
    let mut pipeline = tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| e.to_string())?;
    // Truncation and padding are switched off: they would silently change the ids of a prompt.
    pipeline.with_truncation(None).map_err(|e| e.to_string())?.with_padding(None);

    // Tokens that only the files beside `tokenizer.json` have, as far as their ids follow the vocabulary.
    for (id, (text, special)) in &config.added {
        if pipeline.token_to_id(text).is_none() && pipeline.get_vocab_size(true) as u64 == *id {
            let token = tokenizers::AddedToken::from(text.clone(), *special);
            let added = if *special { pipeline.add_special_tokens([token]) } else { pipeline.add_tokens([token]) };
            added.map_err(|e| e.to_string())?;
        }
    }

    // The crate assigns ids to added tokens itself and ignores those in the file; if the two differ, the file is refused.
    for token in &shape.added_tokens {
        let given = pipeline.token_to_id(&token.content);
        if given != Some(token.id) {
            return Err(format!(
                "added_tokens: {:?} has id {}, which does not follow the vocabulary (it would become {given:?})",
                token.content, token.id
            ));
        }
    }

    let decoder = DecoderKind::of(&shape.decoder);
    let table = table(&pipeline, &decoder)?;
    let mut ends: Vec<bool> = table.iter().map(|(_, kind, name)| ends_by_name(kind, name)).collect();
    let find = |name: &Option<String>| name.as_deref().and_then(|name| pipeline.token_to_id(name));
    let size = table.len();
    let by_id = |id: Option<u64>| id.and_then(|id| u32::try_from(id).ok()).filter(|id| (*id as usize) < size);
    let bos = find(&config.bos).or_else(|| by_id(config.bos_id));
    let eos = find(&config.eos).or_else(|| by_id(config.end_ids.first().copied()));
    let mut notes = vec![];
    for id in &config.end_ids {
        match usize::try_from(*id).ok().and_then(|id| ends.get_mut(id)) {
            Some(end) => *end = true,
            None => notes.push(format!("eos_token_id {id} is outside the vocabulary of {size} tokens and is not used")),
        }
    }
    if let Some(end) = eos.and_then(|id| ends.get_mut(id as usize)) {
        *end = true;
    }
    // Encoding an empty text shows whether the template of the pipeline adds BOS.
    let empty = pipeline.encode_fast("", true).map_err(|e| e.to_string())?;
    if let Some(id) = empty.get_ids().iter().find(|id| **id as usize >= table.len()) {
        return Err(format!("post_processor: the template adds id {id}, which is outside the vocabulary"));
    }
    let template_adds_bos = bos.is_some() && empty.get_ids().first().copied() == bos;
    Ok(Tokenizer {
        matcher: Matcher::default(),
        table,
        model: Model::Json(Box::new(Pipeline { parsing: pipeline, plain: OnceLock::new() })),
        ends,
        bos,
        eos,
        add_bos: config.add_bos || template_adds_bos,
        add_eos: config.add_eos,
        space_prefix: decoder.strips_first_space,
        chat_template: config.chat_template.clone(),
        notes,
    })
}

/// Checks what the BPE model of the crate assumes without checking.
fn check_model(model: &ModelShape) -> Result<(), String> {
    if model.kind != "BPE" {
        return Err(format!("model.type is {:?}, which is not supported; supported is BPE", model.kind));
    }
    let affix = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    if affix(&model.continuing_subword_prefix) || affix(&model.end_of_word_suffix) {
        return Err("model: prefixes or suffixes of words are not supported".to_owned());
    }
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err("model.dropout: a tokenizer that drops merges at random is not supported".to_owned());
    }
    let tokens = &model.vocab.tokens;
    if tokens.is_empty() {
        return Err("model.vocab: the vocabulary is empty".to_owned());
    }
    // Real vocabularies have few unused ids. The check keeps one huge id from making the table of tokens huge.
    if model.vocab.highest as usize > 4 * tokens.len() + 65_536 {
        return Err(format!("model.vocab: id {} in a vocabulary of {} tokens", model.vocab.highest, tokens.len()));
    }
    if let Some(unknown) = model.unk_token.as_deref().filter(|unknown| !tokens.contains(*unknown)) {
        return Err(format!("model.unk_token: {unknown:?} is not in model.vocab"));
    }
    // The crate joins the two halves of a merge in a buffer as long as the longest token, without checking that they fit.
    let mut joined = String::new();
    for (number, merge) in model.merges.iter().enumerate() {
        let (left, right) = match merge {
            MergeShape::Pair(left, right) => (left.0.as_ref(), right.0.as_ref()),
            // The crate skips comment lines too.
            MergeShape::Joined(both) if both.starts_with("#version") => continue,
            MergeShape::Joined(both) => {
                both.split_once(' ').ok_or_else(|| format!("model.merges: merge {number} is not two tokens"))?
            }
        };
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        for part in [left, right, joined.as_str()] {
            if !tokens.contains(part) {
                return Err(format!(
                    "model.merges: merge {number} needs the token {part:?}, which is not in model.vocab"
                ));
            }
        }
    }
    Ok(())
}

/// How the decoder of a `tokenizer.json` turns tokens into text.
struct DecoderKind {
    spelling: Spelling,
    byte_fallback: bool,
    strips_first_space: bool,
}

impl DecoderKind {
    fn of(decoder: &Value) -> DecoderKind {
        let parts: Vec<&Value> = match decoder.get("decoders").and_then(Value::as_array) {
            Some(list) => list.iter().collect(),
            None => vec![decoder],
        };
        let mut kind = DecoderKind { spelling: Spelling::Plain, byte_fallback: false, strips_first_space: false };
        for part in parts {
            match part.get("type").and_then(Value::as_str) {
                Some("ByteLevel") => kind.spelling = Spelling::ByteLevel,
                Some("ByteFallback") => kind.byte_fallback = true,
                Some("Replace") if part.pointer("/pattern/String").and_then(Value::as_str) == Some("▁") => {
                    kind.spelling = Spelling::SentencePiece;
                }
                Some("Metaspace") => {
                    kind.spelling = Spelling::SentencePiece;
                    kind.strips_first_space = part.get("prepend_scheme").and_then(Value::as_str) != Some("never");
                }
                Some("Strip") => {
                    let start = part.get("start").and_then(Value::as_u64).unwrap_or(0);
                    kind.strips_first_space |= start > 0 && part.get("content").and_then(Value::as_str) == Some(" ");
                }
                _ => {}
            }
        }
        kind
    }
}

fn table(pipeline: &tokenizers::Tokenizer, decoder: &DecoderKind) -> Result<Table, String> {
    let vocabulary = pipeline.get_vocab(true);
    let added = pipeline.get_added_tokens_decoder();
    let mut by_id: Vec<(u32, &str)> = vocabulary.iter().map(|(text, id)| (*id, text.as_str())).collect();
    by_id.sort_unstable();
    let highest = by_id.last().map_or(0, |(id, _)| *id as usize);
    // The same check as for the vocabulary, now with the added tokens.
    if highest > 4 * by_id.len() + 65_536 {
        return Err(format!("token id {highest} in a vocabulary of {} tokens", by_id.len()));
    }
    let mut table = Table::default();
    for (id, text) in by_id {
        while table.len() < id as usize {
            table.push("", TokenKind::Unused, Spelling::Plain);
        }
        if table.len() > id as usize {
            // If two texts have the same id, the first is kept.
            continue;
        }
        let kind = match added.get(&id) {
            Some(token) if token.special => TokenKind::Control,
            Some(_) => TokenKind::UserDefined,
            None if decoder.byte_fallback && byte_token(text).is_some() => TokenKind::Byte,
            None => TokenKind::Normal,
        };
        // Unlike in GGUF, spaces in added tokens are written as in all other tokens here.
        match kind {
            TokenKind::UserDefined if decoder.spelling == Spelling::SentencePiece => {
                table.push(&text.replace(super::table::SPACE, " "), kind, decoder.spelling);
            }
            _ => table.push(text, kind, decoder.spelling),
        }
    }
    Ok(table)
}

impl Config {
    /// Reads the files beside `tokenizer.json`. Each may be missing, but one that cannot be parsed is an error.
    fn read(folder: &Path) -> Result<Config, TokenizerError> {
        let mut config = Config::default();
        if let Some(json) = read_json(&folder.join("tokenizer_config.json"))? {
            config.bos = token_text(json.get("bos_token"));
            config.eos = token_text(json.get("eos_token"));
            config.add_bos = json.get("add_bos_token").and_then(Value::as_bool).unwrap_or(false);
            config.add_eos = json.get("add_eos_token").and_then(Value::as_bool).unwrap_or(false);
            config.chat_template = template_text(json.get("chat_template"));
            for (id, token) in json.get("added_tokens_decoder").and_then(Value::as_object).into_iter().flatten() {
                let special = token.get("special").and_then(Value::as_bool).unwrap_or(false);
                if let (Ok(id), Some(text)) = (id.parse(), token_text(Some(token))) {
                    config.added.insert(id, (text, special));
                }
            }
        }
        if let Some(json) = read_json(&folder.join("special_tokens_map.json"))? {
            config.bos = config.bos.or_else(|| token_text(json.get("bos_token")));
            config.eos = config.eos.or_else(|| token_text(json.get("eos_token")));
        }
        if let Some(json) = read_json(&folder.join("added_tokens.json"))? {
            for (text, id) in json.as_object().into_iter().flatten() {
                if let Some(id) = id.as_u64() {
                    config.added.entry(id).or_insert_with(|| (text.clone(), true));
                }
            }
        }
        // What generation_config.json says counts before config.json; a token that either names ends a text.
        for file in ["generation_config.json", "config.json"] {
            let Some(json) = read_json(&folder.join(file))? else { continue };
            for part in [Some(&json), json.get("text_config")].into_iter().flatten() {
                match part.get("eos_token_id") {
                    Some(Value::Array(ids)) => config.end_ids.extend(ids.iter().filter_map(Value::as_u64)),
                    Some(id) => config.end_ids.extend(id.as_u64()),
                    None => {}
                }
                config.bos_id = config.bos_id.or_else(|| part.get("bos_token_id").and_then(Value::as_u64));
            }
        }
        let template = folder.join("chat_template.jinja");
        if template.is_file() {
            let source = std::fs::read_to_string(&template).map_err(|e| file_error(&template, &e.to_string()))?;
            config.chat_template = Some(source);
        }
        Ok(config)
    }
}

fn read_json(path: &Path) -> Result<Option<Value>, TokenizerError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(file_error(path, &e.to_string())),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| file_error(path, &e.to_string()))
}

/// The text of a token, which is written as a string or as an object with the text in `content`.
fn token_text(value: Option<&Value>) -> Option<String> {
    let value = value?;
    let text = value.as_str().or_else(|| value.get("content").and_then(Value::as_str));
    text.map(str::to_owned)
}

/// The text of a chat template, which is one string, or the one named `default` in a list of templates.
fn template_text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let named = |name: &str| list.iter().find(|item| item.get("name").and_then(Value::as_str) == Some(name));
            named("default").or(list.first())?.get("template").and_then(Value::as_str).map(str::to_owned)
        }
        _ => None,
    }
}
