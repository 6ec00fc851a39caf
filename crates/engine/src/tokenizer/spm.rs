//! SentencePiece BPE: of all neighbouring symbols whose joined text is a token, those with the best token score merge first.
//!
//! GGUF files of this kind have scores but no merge list. The BPE of the `tokenizers` crate needs a merge list, in which no two
//! merges can have the same rank as equal scores do here; so the algorithm is written in this module.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::error::TokenizerError;
use super::table::{SPACE, byte_token};

pub(super) struct ScoredBpe {
    ids: HashMap<Box<str>, u32>,
    scores: Vec<f32>,
    /// The token of each raw byte, or the unknown token where the vocabulary has none.
    bytes: [u32; 256],
    /// Bytes of the longest token; a longer text is no token and needs no look-up.
    longest: usize,
}

/// A byte range of the text that is going to be a token or part of one, linked to its neighbours.
struct Symbol {
    start: usize,
    end: usize,
    previous: usize,
    next: usize,
}

const NONE: usize = usize::MAX;

/// A candidate: two neighbours whose joined text is a token. The heap orders candidates by score, then leftmost first.
struct Merge {
    score: f32,
    left: usize,
    right: usize,
    length: usize,
}

impl Ord for Merge {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Merge {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Merge {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Merge {}

impl ScoredBpe {
    /// `scores` has one score for each token (the caller has checked it). Bytes without a token are encoded as `unknown`.
    pub(super) fn new(tokens: &[String], scores: Vec<f32>, unknown: Option<u32>) -> Result<Self, TokenizerError> {
        let mut ids = HashMap::with_capacity(tokens.len());
        let mut bytes = [None; 256];
        let mut longest = 0;
        for (id, token) in (0u32..).zip(tokens) {
            // If two tokens have the same text, the last one is used for encoding.
            ids.insert(token.as_str().into(), id);
            longest = longest.max(token.len());
            if let Some(byte) = byte_token(token) {
                bytes[usize::from(byte)] = Some(id);
            }
        }
        let mut filled = [0; 256];
        for (byte, (slot, id)) in filled.iter_mut().zip(bytes).enumerate() {
            *slot = id.or(unknown).ok_or_else(|| TokenizerError::Invalid {
                key: "tokenizer.ggml.tokens",
                problem: format!("no byte token <0x{byte:02X}> and no tokenizer.ggml.unknown_token_id to stand for it"),
            })?;
        }
        Ok(ScoredBpe { ids, scores, bytes: filled, longest })
    }

    /// Appends the ids of `text`, with a space before it if asked for.
    pub(super) fn encode(&self, text: &str, space_prefix: bool, out: &mut Vec<u32>) {
        let mut escaped = String::with_capacity(text.len() + text.len() / 4 + 3);
        if space_prefix {
            escaped.push(SPACE);
        }
        escaped.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
        let symbols = self.merge_all(&escaped);
        let mut at = if symbols.is_empty() { NONE } else { 0 };
        while let Some(symbol) = symbols.get(at) {
            let piece = &escaped[symbol.start..symbol.end];
            match self.ids.get(piece) {
                Some(&id) => out.push(id),
                None => out.extend(piece.bytes().map(|byte| self.bytes[usize::from(byte)])),
            }
            at = symbol.next;
        }
    }

    fn merge_all(&self, text: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(n, (start, c))| Symbol {
                start,
                end: start + c.len_utf8(),
                previous: n.wrapping_sub(1),
                next: n + 1,
            })
            .collect();
        let Some(last) = symbols.last_mut() else { return symbols };
        last.next = NONE;

        let mut queue: BinaryHeap<Merge> =
            (1..symbols.len()).filter_map(|right| self.candidate(text, &symbols, right - 1, right)).collect();
        while let Some(merge) = queue.pop() {
            let (left, right) = (merge.left, merge.right);
            // A symbol that was merged into another is empty. If one of the two has grown since, the candidate is out of date.
            let (start, end) = (symbols[left].start, symbols[right].end);
            let alive = symbols[left].start < symbols[left].end && symbols[right].start < symbols[right].end;
            if !alive || end - start != merge.length {
                continue;
            }
            let next = symbols[right].next;
            symbols[left].end = end;
            symbols[left].next = next;
            symbols[right].end = symbols[right].start;
            if let Some(after) = symbols.get_mut(next) {
                after.previous = left;
                queue.extend(self.candidate(text, &symbols, left, next));
            }
            let previous = symbols[left].previous;
            if previous != NONE {
                queue.extend(self.candidate(text, &symbols, previous, left));
            }
        }
        symbols
    }

    fn candidate(&self, text: &str, symbols: &[Symbol], left: usize, right: usize) -> Option<Merge> {
        let (start, end) = (symbols[left].start, symbols[right].end);
        let length = end - start;
        if length > self.longest {
            return None;
        }
        let id = *self.ids.get(&text[start..end])?;
        let score = self.scores.get(id as usize).copied()?;
        Some(Merge { score, left, right, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bpe(tokens: &[(&str, f32)]) -> ScoredBpe {
        let texts: Vec<String> = tokens.iter().map(|(t, _)| (*t).to_owned()).collect();
        ScoredBpe::new(&texts, tokens.iter().map(|(_, s)| *s).collect(), Some(0)).expect("builds")
    }

    fn ids(bpe: &ScoredBpe, text: &str, space_prefix: bool) -> Vec<u32> {
        let mut out = Vec::new();
        bpe.encode(text, space_prefix, &mut out);
        out
    }

    #[test]
    fn the_best_score_merges_first_and_equal_scores_merge_from_the_left() {
        let by_score = bpe(&[("?", 0.0), ("a", 0.0), ("b", 0.0), ("c", 0.0), ("ab", -2.0), ("bc", -1.0)]);
        assert_eq!(ids(&by_score, "abc", false), [1, 5]);
        let tied = bpe(&[("?", 0.0), ("a", 0.0), ("b", 0.0), ("c", 0.0), ("ab", -1.0), ("bc", -1.0)]);
        assert_eq!(ids(&tied, "abc", false), [4, 3]);
    }

    #[test]
    fn spaces_become_the_space_mark_and_unknown_characters_their_bytes() {
        let bpe = bpe(&[("<unk>", 0.0), ("▁", -1.0), ("a", -1.0), ("▁a", -1.0), ("<0xC3>", 0.0), ("<0xA9>", 0.0)]);
        assert_eq!(ids(&bpe, "a a", true), [3, 3]);
        assert_eq!(ids(&bpe, "a a", false), [2, 3]);
        assert_eq!(ids(&bpe, "é", false), [4, 5]);
        assert_eq!(ids(&bpe, "z", false), [0]);
        assert!(ids(&bpe, "", false).is_empty());
    }

    #[test]
    fn scores_that_are_not_numbers_do_not_upset_the_order() {
        let bpe = bpe(&[("?", f32::NAN), ("a", f32::NAN), ("aa", f32::NAN), ("aaaa", f32::NAN)]);
        assert_eq!(ids(&bpe, "aaaaa", false), [3, 1]);
    }
}
