//! The table of token bytes and kinds that all tokenizers share.

/// The character that SentencePiece writes for a space.
pub(super) const SPACE: char = '\u{2581}';

/// The kind of a token: `tokenizer.ggml.token_type` of GGUF; tokens of a `tokenizer.json` get kinds of the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Text of some bytes.
    Normal,
    /// Stands for text that the vocabulary cannot express.
    Unknown,
    /// Steers the model and is not text: `<|im_end|>`, `</s>`.
    Control,
    /// Text that is always one token, before any merges.
    UserDefined,
    /// An id without a token, which pads the vocabulary.
    Unused,
    /// One raw byte, written `<0xE2>`.
    Byte,
}

impl TokenKind {
    /// The kind with this GGUF number. Unknown numbers count as normal, because newer writers may add some.
    pub(super) fn from_gguf(number: i64) -> TokenKind {
        match number {
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Normal,
        }
    }
}

/// How a vocabulary spells the bytes of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Each byte is one printable character (GPT-2's table).
    ByteLevel,
    /// U+2581 for a space, `<0xE2>` for a raw byte.
    SentencePiece,
    /// The text of a token is its bytes.
    Plain,
}

/// Bytes and kind of every id, in one allocation each.
#[derive(Default)]
pub(super) struct Table {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    kinds: Vec<TokenKind>,
}

impl Table {
    /// Adds the next id. `text` is the token as the vocabulary writes it.
    pub(super) fn push(&mut self, text: &str, kind: TokenKind, spelling: Spelling) {
        match kind {
            TokenKind::Unused => {}
            TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined => {
                self.bytes.extend_from_slice(text.as_bytes());
            }
            TokenKind::Byte => match byte_token(text) {
                Some(byte) => self.bytes.push(byte),
                None => self.bytes.extend_from_slice(text.as_bytes()),
            },
            TokenKind::Normal => spell(text, spelling, &mut self.bytes),
        }
        self.ends.push(self.bytes.len());
        self.kinds.push(kind);
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { *self.ends.get(id - 1)? };
        self.bytes.get(start..end)
    }

    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// All ids with kind and bytes. The bytes are the text of the token only for some kinds, such as control tokens.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, TokenKind, &[u8])> {
        (0..self.kinds.len()).filter_map(|id| {
            let id = u32::try_from(id).ok()?;
            Some((id, self.kind(id)?, self.bytes(id)?))
        })
    }
}

fn spell(text: &str, spelling: Spelling, out: &mut Vec<u8>) {
    let mut utf8 = [0; 4];
    for c in text.chars() {
        match spelling {
            Spelling::ByteLevel => match char_to_byte(c) {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
            },
            Spelling::SentencePiece if c == SPACE => out.push(b' '),
            _ => out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
        }
    }
}

/// The byte that a token such as `<0xE2>` names.
pub(super) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// GPT-2's byte alphabet: printable Latin-1 bytes stand for themselves, the other 68 are U+0100, U+0101, … in order.
pub(super) fn byte_to_char(byte: u8) -> char {
    let moved = match byte {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => return char::from(byte),
        0x00..=0x20 => u32::from(byte),
        0x7F..=0xA0 => 33 + u32::from(byte - 0x7F),
        0xAD => 67,
    };
    char::from_u32(0x100 + moved).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The inverse of [`byte_to_char`]; `None` for a character outside the alphabet.
pub(super) fn char_to_byte(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_a_bijection_of_256_printable_characters() {
        let chars: std::collections::BTreeSet<char> = (0..=255).map(byte_to_char).collect();
        assert_eq!(chars.len(), 256);
        assert!((0..=255).all(|byte| char_to_byte(byte_to_char(byte)) == Some(byte)));
        assert_eq!((byte_to_char(b' '), byte_to_char(b'\n'), byte_to_char(0xAD)), ('Ġ', 'Ċ', 'Ń'));
        assert_eq!(char_to_byte('世'), None);
    }

    #[test]
    fn only_two_hex_digits_make_a_byte_token() {
        assert_eq!(byte_token("<0xE2>"), Some(0xE2));
        for text in ["<0xE>", "<0x+1>", "<0xE2", "0xE2", "<0xGG>", "<0x€>"] {
            assert_eq!(byte_token(text), None, "{text}");
        }
    }
}
