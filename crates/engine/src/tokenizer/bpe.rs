//! Byte-level BPE with a merge list, as in GPT-2 and its successors.
//!
//! A pre-tokenizer cuts the text into words, each byte of a word is written as one printable character, and the BPE model of
//! the `tokenizers` crate merges the characters.

use std::sync::OnceLock;

use tokenizers::Model as _;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::utils::SysRegex;

use super::error::TokenizerError;
use super::table::byte_to_char;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The pattern of Qwen 2, with combining marks as parts of words. Its ids were compared with those of llama.cpp, on the
/// vocabulary of another model.
const QWEN35: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The pattern of o200k and of what follows it: words by upper and lower case.
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// A pre-tokenizer, with all values of `tokenizer.ggml.pre` that stand for it.
struct Pre {
    names: &'static [&'static str],
    /// Regular expressions, applied in order: each cuts the segments that the one before has made. Text between matches is a
    /// segment too.
    patterns: &'static [&'static str],
    /// A word that is in the vocabulary becomes that token without any merge.
    whole_words: bool,
    /// Whether BOS is added to prompts for files that do not say so themselves.
    add_bos: bool,
}

/// All pre-tokenizers. Error messages list the first name of each.
const PRES: &[Pre] = &[
    Pre {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "gigachat",
            "mellum",
            "modern-bert",
            "olmo",
            "jais",
            "mpt",
            "trillion",
        ],
        patterns: &[GPT2],
        whole_words: false,
        add_bos: false,
    },
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral"],
        patterns: &[LLAMA3],
        whole_words: true,
        add_bos: true,
    },
    Pre { names: &["dbrx", "smaug-bpe"], patterns: &[LLAMA3], whole_words: false, add_bos: false },
    Pre {
        names: &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"],
        patterns: &[QWEN2],
        whole_words: false,
        add_bos: false,
    },
    Pre { names: &["qwen35"], patterns: &[QWEN35], whole_words: false, add_bos: false },
    Pre {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        patterns: &[r"\p{N}", GPT2],
        whole_words: false,
        add_bos: false,
    },
    Pre { names: &["gpt-4o", "llama4"], patterns: &[GPT4O], whole_words: false, add_bos: false },
    Pre { names: &["tekken"], patterns: &[TEKKEN], whole_words: true, add_bos: true },
    Pre {
        names: &["deepseek-v3"],
        patterns: &[r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3],
        whole_words: false,
        add_bos: false,
    },
    Pre {
        names: &["deepseek-coder"],
        patterns: &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
        whole_words: false,
        add_bos: false,
    },
    Pre {
        names: &["falcon"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
        whole_words: false,
        add_bos: false,
    },
    Pre {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
        whole_words: false,
        add_bos: false,
    },
];

/// The compiled patterns of each pre-tokenizer in [`PRES`]. They are compiled when first needed, because that takes longer than
/// building a small tokenizer.
static COMPILED: [OnceLock<Vec<Pattern>>; PRES.len()] = [const { OnceLock::new() }; PRES.len()];

/// A compiled pattern.
struct Pattern {
    regex: SysRegex,
    /// The pattern covers every text from end to end; text that is left over then means that the regex engine gave up.
    covers: bool,
}

impl Pattern {
    fn new(pattern: &str) -> Result<Pattern, TokenizerError> {
        let regex = SysRegex::new(pattern).map_err(|e| TokenizerError::Encode(e.to_string()))?;
        // Patterns that end with this alternative match letters, digits, other signs and any white space: all of a text.
        Ok(Pattern { regex, covers: pattern.ends_with(r"|\s+") })
    }
}

pub(super) struct ByteLevelBpe {
    patterns: &'static [Pattern],
    model: BPE,
    add_bos: bool,
}

impl ByteLevelBpe {
    /// `pre` is the value of `tokenizer.ggml.pre`; each merge is two tokens with one space between them.
    pub(super) fn new(pre: &str, tokens: &[String], merges: &[String]) -> Result<Self, TokenizerError> {
        let found = PRES.iter().zip(&COMPILED).find(|(kind, _)| kind.names.contains(&pre));
        let (kind, compiled) = found.ok_or_else(|| TokenizerError::Unsupported {
            key: "tokenizer.ggml.pre",
            value: pre.to_owned(),
            supported: PRES.iter().flat_map(|kind| kind.names).copied().collect::<Vec<_>>().join(", "),
        })?;
        let patterns = match compiled.get() {
            Some(patterns) => patterns,
            None => {
                let patterns =
                    kind.patterns.iter().map(|pattern| Pattern::new(pattern)).collect::<Result<Vec<_>, _>>()?;
                compiled.get_or_init(|| patterns)
            }
        };

        let mut vocab = Vocab::with_capacity(tokens.len());
        for (id, token) in (0u32..).zip(tokens) {
            vocab.insert(token.clone(), id);
        }
        let mut pairs = Vec::with_capacity(merges.len());
        let mut joined = String::new();
        for (number, merge) in merges.iter().enumerate() {
            let bad = |problem: String| TokenizerError::Invalid {
                key: "tokenizer.ggml.merges",
                problem: format!("merge {number} ({merge:?}) {problem}"),
            };
            // The first token may itself begin with a space.
            let cut = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
            let (left, right) = match cut {
                Some(at) => (&merge[..at], &merge[at + 1..]),
                None => return Err(bad("is not two tokens with a space between".to_owned())),
            };
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            // The builder of the crate does not check that both tokens and the merged one exist.
            for part in [left, right, joined.as_str()] {
                if part.is_empty() || !vocab.contains_key(part) {
                    return Err(bad(format!("needs the token {part:?}, which is not in tokenizer.ggml.tokens")));
                }
            }
            pairs.push((left.to_owned(), right.to_owned()));
        }
        let model = BPE::builder().vocab_and_merges(vocab, pairs).ignore_merges(kind.whole_words).build();
        let model =
            model.map_err(|e| TokenizerError::Invalid { key: "tokenizer.ggml.merges", problem: e.to_string() })?;
        Ok(ByteLevelBpe { patterns, model, add_bos: kind.add_bos })
    }

    /// Whether BOS is added to prompts for files with this pre-tokenizer that do not say so themselves.
    pub(super) fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// Appends the ids of `text`. A byte without a token in the vocabulary is dropped, as in llama.cpp.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let mut word = String::new();
        for piece in self.words(text) {
            word.clear();
            word.extend(piece.bytes().map(byte_to_char));
            let tokens = self.model.tokenize(&word).map_err(|e| TokenizerError::Encode(e.to_string()))?;
            out.extend(tokens.iter().map(|token| token.id));
        }
        Ok(())
    }

    fn words<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut pieces = vec![text];
        for pattern in self.patterns {
            let mut next = Vec::with_capacity(pieces.len());
            for piece in pieces {
                cut(pattern, piece, &mut next);
            }
            next.retain(|piece| !piece.is_empty());
            pieces = next;
        }
        pieces
    }
}

/// Appends the matches of `pattern` in `text`, and the text between them, in order.
fn cut<'t>(pattern: &Pattern, text: &'t str, out: &mut Vec<&'t str>) {
    let mut rest = text;
    let mut window = text.len();
    while !rest.is_empty() {
        let part = &rest[..rest.floor_char_boundary(window)];
        let (mut at, mut last) = (0, 0);
        for (start, end) in pattern.regex.find_iter(part) {
            out.extend([&part[at..start], &part[start..end]]);
            (at, last) = (end, start);
        }
        if at < part.len() && !(pattern.covers && part.len() > WINDOW) {
            out.push(&part[at..]);
            at = part.len();
        } else if at < part.len() {
            // The regex engine stops without an error after about a million characters that can match in many ways. From here
            // on the text is matched in windows, which are too short for that.
            window = WINDOW;
        } else if part.len() < rest.len() && last > 0 {
            // The last word of a window may continue after its end, so the next window begins with it again.
            out.pop();
            at = last;
        }
        rest = &rest[at..];
    }
}

/// Bytes in a window: far fewer than the regex engine can match at once.
const WINDOW: usize = 1 << 16;
