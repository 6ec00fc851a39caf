//! Finds special tokens that are written out in a text.

use std::collections::HashMap;

/// How `Tokenizer::encode` treats special tokens; the two choices are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    /// Put the beginning-of-sequence token before (and the end-of-sequence token after) the text, where the model asks for it.
    pub add: bool,
    /// Read the text of control tokens, such as `<|im_end|>`, as those tokens. Off for text that a user wrote.
    pub parse: bool,
}

impl Special {
    /// For plain text: adds no tokens and reads the text of control tokens as plain text.
    pub const NONE: Special = Special { add: false, parse: false };
    /// For a prompt: adds BOS and reads control tokens. (A rendered chat template has its own BOS: use [`Special::TEMPLATE`].)
    pub const PROMPT: Special = Special { add: true, parse: true };
    /// For a rendered chat template: adds no tokens, but reads control tokens.
    pub const TEMPLATE: Special = Special { add: false, parse: true };
}

use super::table::{Table, TokenKind};

/// A segment of a text: one special token, or text without special tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Token(u32),
    Text(&'t str),
}

/// Finds special tokens in a text: the longest ones first in the whole text, then shorter ones in the rest; tokens of one
/// length from left to right. This is the order of llama.cpp; it differs from leftmost-longest where tokens overlap.
#[derive(Default)]
pub(super) struct Matcher {
    /// Tokens by length, the longest first.
    lengths: Vec<OneLength>,
}

/// The special tokens whose text has one length in bytes.
struct OneLength {
    length: usize,
    /// For each byte, whether a token of this length begins with it. Most positions of a text are ruled out without a look-up.
    first: [bool; 256],
    tokens: HashMap<Vec<u8>, (u32, bool)>,
}

impl Matcher {
    /// A matcher for control and unknown tokens (found only with `parse`) and for user-defined tokens (always found).
    pub(super) fn new(table: &Table) -> Matcher {
        let mut lengths: Vec<OneLength> = Vec::new();
        for (id, kind, text) in table.iter() {
            let always = match kind {
                TokenKind::UserDefined => true,
                TokenKind::Control | TokenKind::Unknown => false,
                _ => continue,
            };
            let Some(&first) = text.first() else { continue };
            let place = match lengths.binary_search_by(|l| text.len().cmp(&l.length)) {
                Ok(place) => place,
                Err(place) => {
                    let one = OneLength { length: text.len(), first: [false; 256], tokens: HashMap::new() };
                    lengths.insert(place, one);
                    place
                }
            };
            lengths[place].first[usize::from(first)] = true;
            lengths[place].tokens.entry(text.to_vec()).or_insert((id, always));
        }
        Matcher { lengths }
    }

    /// The segments of `text` in order, without empty ones. Without `parse`, only user-defined tokens are found.
    pub(super) fn split<'t>(&self, text: &'t str, parse: bool) -> Vec<Part<'t>> {
        let mut parts = vec![Part::Text(text)];
        for one in &self.lengths {
            if one.length > text.len() {
                continue;
            }
            let mut next = Vec::with_capacity(parts.len());
            for part in parts {
                match part {
                    Part::Token(_) => next.push(part),
                    Part::Text(text) => one.split(text, parse, &mut next),
                }
            }
            parts = next;
        }
        parts.retain(|part| *part != Part::Text(""));
        parts
    }
}

impl OneLength {
    fn split<'t>(&self, text: &'t str, parse: bool, out: &mut Vec<Part<'t>>) {
        let bytes = text.as_bytes();
        let (mut start, mut at) = (0, 0);
        while at + self.length <= bytes.len() {
            let found = if self.first[usize::from(bytes[at])] {
                self.tokens.get(&bytes[at..at + self.length]).filter(|(_, always)| *always || parse)
            } else {
                None
            };
            match found {
                Some(&(id, _)) => {
                    // The text of a token is whole characters, so `start` and `at` are character boundaries.
                    out.push(Part::Text(text.get(start..at).unwrap_or_default()));
                    out.push(Part::Token(id));
                    at += self.length;
                    start = at;
                }
                None => at += 1,
            }
        }
        out.push(Part::Text(text.get(start..).unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Spelling;
    use super::*;

    fn matcher(tokens: &[(&str, TokenKind)]) -> Matcher {
        let mut table = Table::default();
        for (text, kind) in tokens {
            table.push(text, *kind, Spelling::Plain);
        }
        Matcher::new(&table)
    }

    #[test]
    fn control_tokens_are_found_only_when_asked_for_and_user_defined_ones_always() {
        let matcher =
            matcher(&[("<s>", TokenKind::Control), ("\n\n", TokenKind::UserDefined), ("a", TokenKind::Normal)]);
        assert_eq!(matcher.split("<s>a\n\n", false), [Part::Text("<s>a"), Part::Token(1)]);
        assert_eq!(matcher.split("<s>a\n\n", true), [Part::Token(0), Part::Text("a"), Part::Token(1)]);
        assert_eq!(matcher.split("", true), []);
    }

    #[test]
    fn the_longest_token_wins_even_where_a_shorter_one_begins_earlier() {
        let matcher = matcher(&[("ab", TokenKind::UserDefined), ("bcd", TokenKind::UserDefined)]);
        assert_eq!(matcher.split("abcdab", false), [Part::Text("a"), Part::Token(1), Part::Token(0)]);
    }

    #[test]
    fn tokens_of_several_bytes_a_character_cut_at_character_boundaries() {
        let matcher = matcher(&[("é", TokenKind::UserDefined), ("▁▁", TokenKind::UserDefined)]);
        assert_eq!(
            matcher.split("xéy▁▁▁", false),
            [Part::Text("x"), Part::Token(0), Part::Text("y"), Part::Token(1), Part::Text("▁")]
        );
    }
}
