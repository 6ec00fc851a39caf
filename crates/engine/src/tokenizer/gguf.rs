//! Builds the tokenizer of a GGUF file from its metadata.

use super::bpe::ByteLevelBpe;
use super::encoder::{Model, Tokenizer};
use super::error::TokenizerError;
use super::special::Matcher;
use super::spm::ScoredBpe;
use super::table::{Spelling, Table, TokenKind, byte_token};
use crate::files::{Metadata, Value};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const EOT: &str = "tokenizer.ggml.eot_token_id";
const EOM: &str = "tokenizer.ggml.eom_token_id";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";

/// Names of tokens with which models end a turn, a message or a text. Such a token ends generation even where the metadata has
/// another end token: the files of chat models often have the end of text there, while the model ends its turn with its own
/// token.
const END_NAMES: &[&str] = &[
    "</s>",
    "<eos>",
    "<EOT>",
    "[EOS]",
    "[EOT]",
    "<|end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|return|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
];

/// Whether a token of this kind and name ends generation.
///
/// A user-defined `</s>` does not: Qwen has it as text and Gemma as an HTML tag.
pub(super) fn ends_by_name(kind: TokenKind, name: &[u8]) -> bool {
    let may_end = match kind {
        TokenKind::Control | TokenKind::Unknown => true,
        TokenKind::UserDefined => name != b"</s>",
        TokenKind::Normal | TokenKind::Unused | TokenKind::Byte => false,
    };
    may_end && END_NAMES.iter().any(|end| end.as_bytes() == name)
}

/// The kind of a token that the file calls normal: converters have typed the tokens with which chat models end a turn so. A name
/// with such marks is no text that anybody writes; `</s>` and `<eos>` are.
pub(super) fn kind_by_name(kind: TokenKind, name: &str) -> TokenKind {
    let is_marked = name.starts_with("<|") || name.starts_with("<｜") || name.starts_with("<end_of_");
    match kind {
        TokenKind::Normal if is_marked && END_NAMES.contains(&name) => TokenKind::Control,
        other => other,
    }
}

pub(super) fn build(metadata: &Metadata) -> Result<Tokenizer, TokenizerError> {
    let model_name = text(metadata, MODEL)?.ok_or(TokenizerError::Missing { key: MODEL })?;
    let spelling = match model_name {
        "gpt2" => Spelling::ByteLevel,
        "llama" => Spelling::SentencePiece,
        other => {
            return Err(TokenizerError::Unsupported {
                key: MODEL,
                value: other.to_owned(),
                supported: "gpt2 (byte-level BPE), llama (SentencePiece BPE)".to_owned(),
            });
        }
    };
    let tokens = match metadata.get(TOKENS) {
        None => return Err(TokenizerError::Missing { key: TOKENS }),
        Some(Value::Strs(tokens)) if !tokens.is_empty() => tokens,
        Some(Value::Strs(_)) => return Err(invalid(TOKENS, "the vocabulary is empty")),
        Some(_) => return Err(invalid(TOKENS, "not an array of strings")),
    };
    if u32::try_from(tokens.len()).is_err() {
        return Err(invalid(TOKENS, "more tokens than 32-bit ids"));
    }
    let mut notes = vec![];
    let mut id = |key| id(metadata, key, tokens.len(), &mut notes);
    let (bos, eos, eot, eom, unknown) = (id(BOS)?, id(EOS)?, id(EOT)?, id(EOM)?, id(UNKNOWN)?);

    let kinds = match kinds(metadata, tokens.len())? {
        Some(kinds) => kinds,
        None => guess_kinds(tokens, &[bos, eos, eot, eom], unknown, spelling),
    };
    let mut table = Table::default();
    for (token, kind) in tokens.iter().zip(&kinds) {
        table.push(token, kind_by_name(*kind, token), spelling);
    }
    let mut ends: Vec<bool> = table.iter().map(|(_, kind, name)| ends_by_name(kind, name)).collect();
    for id in [eos, eot, eom].into_iter().flatten() {
        ends[id as usize] = true;
    }

    let (model, default_bos, default_prefix) = match spelling {
        Spelling::SentencePiece => {
            let model = ScoredBpe::new(tokens, scores(metadata, tokens.len())?, unknown)?;
            (Model::Spm(Box::new(model)), true, true)
        }
        _ => {
            let merges: &[String] = match metadata.get(MERGES) {
                None => return Err(TokenizerError::Missing { key: MERGES }),
                Some(Value::Strs(merges)) => merges,
                // The reader may have given an empty array any element type.
                Some(value) if array_length(value) == Some(0) => &[],
                Some(_) => return Err(invalid(MERGES, "not an array of strings")),
            };
            let model = ByteLevelBpe::new(text(metadata, PRE)?.unwrap_or("default"), tokens, merges)?;
            let default_bos = model.adds_bos();
            (Model::Bpe(Box::new(model)), default_bos, false)
        }
    };
    Ok(Tokenizer {
        matcher: Matcher::new(&table),
        table,
        model,
        ends,
        bos,
        eos,
        add_bos: flag(metadata, "tokenizer.ggml.add_bos_token")?.unwrap_or(default_bos),
        add_eos: flag(metadata, "tokenizer.ggml.add_eos_token")?.unwrap_or(false),
        space_prefix: flag(metadata, "tokenizer.ggml.add_space_prefix")?.unwrap_or(default_prefix)
            && spelling == Spelling::SentencePiece,
        chat_template: text(metadata, "tokenizer.chat_template")?.map(str::to_owned),
        notes,
    })
}

fn invalid(key: &'static str, problem: impl Into<String>) -> TokenizerError {
    TokenizerError::Invalid { key, problem: problem.into() }
}

fn text<'m>(metadata: &'m Metadata, key: &'static str) -> Result<Option<&'m str>, TokenizerError> {
    match metadata.get(key) {
        None => Ok(None),
        Some(Value::Str(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(key, "not a string")),
    }
}

fn flag(metadata: &Metadata, key: &'static str) -> Result<Option<bool>, TokenizerError> {
    match metadata.get(key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(invalid(key, "not a truth value")),
    }
}

/// The id under a key. One outside the vocabulary is as good as none, and noted.
fn id(
    metadata: &Metadata,
    key: &'static str,
    vocabulary: usize,
    notes: &mut Vec<String>,
) -> Result<Option<u32>, TokenizerError> {
    let id = match metadata.get(key) {
        None => return Ok(None),
        Some(Value::U64(id)) => u32::try_from(*id).ok(),
        Some(Value::I64(id)) => u32::try_from(*id).ok(),
        Some(_) => return Err(invalid(key, "not an integer")),
    };
    match id {
        Some(id) if (id as usize) < vocabulary => Ok(Some(id)),
        _ => {
            notes.push(format!("{key} is outside the vocabulary of {vocabulary} tokens and is not used"));
            Ok(None)
        }
    }
}

fn array_length(value: &Value) -> Option<usize> {
    match value {
        Value::Strs(items) => Some(items.len()),
        Value::Ints(items) => Some(items.len()),
        Value::Floats(items) => Some(items.len()),
        Value::Bools(items) => Some(items.len()),
        _ => None,
    }
}

fn check_length(key: &'static str, found: usize, vocabulary: usize) -> Result<(), TokenizerError> {
    if found == vocabulary {
        return Ok(());
    }
    Err(invalid(key, format!("{found} entries for a vocabulary of {vocabulary} tokens")))
}

fn kinds(metadata: &Metadata, vocabulary: usize) -> Result<Option<Vec<TokenKind>>, TokenizerError> {
    match metadata.get(TYPES) {
        None => Ok(None),
        Some(Value::Ints(types)) => {
            check_length(TYPES, types.len(), vocabulary)?;
            Ok(Some(types.iter().map(|number| TokenKind::from_gguf(*number)).collect()))
        }
        Some(_) => Err(invalid(TYPES, "not an array of integers")),
    }
}

/// Guesses kinds of tokens for a file without token types: ids that the metadata names are control tokens, and byte tokens are
/// known by their spelling.
fn guess_kinds(tokens: &[String], control: &[Option<u32>], unknown: Option<u32>, spelling: Spelling) -> Vec<TokenKind> {
    let by_text = |token: &String| {
        let is_byte = spelling == Spelling::SentencePiece && byte_token(token).is_some();
        if is_byte { TokenKind::Byte } else { TokenKind::Normal }
    };
    let mut kinds: Vec<TokenKind> = tokens.iter().map(by_text).collect();
    for id in control.iter().copied().flatten() {
        kinds[id as usize] = TokenKind::Control;
    }
    if let Some(id) = unknown {
        kinds[id as usize] = TokenKind::Unknown;
    }
    kinds
}

#[expect(clippy::cast_possible_truncation, reason = "scores are f32 in the file and were widened by the reader")]
fn scores(metadata: &Metadata, vocabulary: usize) -> Result<Vec<f32>, TokenizerError> {
    match metadata.get(SCORES) {
        None => Err(TokenizerError::Missing { key: SCORES }),
        Some(Value::Floats(scores)) => {
            check_length(SCORES, scores.len(), vocabulary)?;
            // Adding 0 turns -0 into +0, so that the two compare as equal.
            Ok(scores.iter().map(|score| *score as f32 + 0.0).collect())
        }
        Some(_) => Err(invalid(SCORES, "not an array of floats")),
    }
}
