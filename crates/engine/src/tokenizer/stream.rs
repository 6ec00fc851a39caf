//! Decoding token by token: only whole characters come out.

use super::Tokenizer;

/// Turns bytes that arrive in pieces into text. A character that is still incomplete waits for its rest; bytes that can
/// never become a character are U+FFFD at once. What comes out in total equals `String::from_utf8_lossy` of the whole.
#[derive(Clone, Debug, Default)]
pub struct Utf8Buffer {
    /// At most three bytes: the beginning of one character.
    pending: Vec<u8>,
}

impl Utf8Buffer {
    /// Adds bytes; returns the text that is complete now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = after;
                    match error.error_len() {
                        Some(bad) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            rest = rest.get(bad..).unwrap_or_default();
                        }
                        None => break,
                    }
                }
            }
        }
        self.pending = rest.to_vec();
        text
    }

    /// Ends the text: a character that never got its rest is one U+FFFD.
    pub fn flush(&mut self) -> String {
        let unfinished = !std::mem::take(&mut self.pending).is_empty();
        if unfinished { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }
}

/// Decodes ids one at a time; control tokens give no text. Made by [`Tokenizer::stream`].
pub struct StreamDecoder<'t> {
    tokenizer: &'t Tokenizer,
    buffer: Utf8Buffer,
    /// The next text begins with a space that the tokenizer put there.
    drop_space: bool,
}

impl<'t> StreamDecoder<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, drop_space: bool) -> Self {
        StreamDecoder { tokenizer, buffer: Utf8Buffer::default(), drop_space }
    }

    /// The text that became complete with this token; often empty in the middle of a character.
    pub fn push(&mut self, id: u32) -> String {
        if self.tokenizer.is_special(id) {
            return String::new();
        }
        let mut bytes = self.tokenizer.token_bytes(id);
        if self.drop_space && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
            self.drop_space = false;
        }
        self.buffer.push(bytes)
    }

    /// The end: what is left of an unfinished character, as U+FFFD.
    pub fn flush(&mut self) -> String {
        self.buffer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_split_anywhere_comes_out_whole_and_the_sum_is_the_lossy_text() {
        let texts: [&[u8]; 6] = [
            "naïve 世界 🙂 ok".as_bytes(),
            b"\xF0\x9F\x99",
            b"a\xFFb\xE4\xB8c",
            b"\xED\xA0\x80\xC0\xAF",
            b"",
            b"\xE4\xE4\xB8\x96",
        ];
        for bytes in texts {
            for step in 1..=4 {
                let mut buffer = Utf8Buffer::default();
                let mut text = String::new();
                for piece in bytes.chunks(step) {
                    text.push_str(&buffer.push(piece));
                    assert!(buffer.pending.len() < 4);
                }
                text.push_str(&buffer.flush());
                assert_eq!(text, String::from_utf8_lossy(bytes), "{bytes:?} by {step}");
            }
        }
    }

    #[test]
    fn half_a_character_waits_for_its_other_half() {
        let mut buffer = Utf8Buffer::default();
        assert_eq!(buffer.push(&[0xE4, 0xB8]), "");
        assert_eq!(buffer.push(&[0x96, b'!']), "世!");
        assert_eq!(buffer.flush(), "");
    }
}
