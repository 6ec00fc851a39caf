//! Decodes token by token and returns only whole characters.

use super::encoder::Tokenizer;

/// Decodes UTF-8 bytes that arrive bit by bit. The bytes of an incomplete character are kept until its rest arrives; bytes that
/// cannot become a character give U+FFFD at once. The whole output equals `String::from_utf8_lossy` of all bytes.
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

    /// Ends the text; a character that is still incomplete becomes one U+FFFD.
    pub fn flush(&mut self) -> String {
        let unfinished = !std::mem::take(&mut self.pending).is_empty();
        if unfinished { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }
}

impl Tokenizer {
    /// The text of `ids` for readers: without control tokens, and without the space that SentencePiece puts before the first
    /// word. Bytes that are not UTF-8, and ids outside the vocabulary, become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = self.stream_from_start();
        let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
        text.push_str(&stream.flush());
        text
    }

    /// The complete text of `ids`, with the names of control tokens and with the first space, for logs and tests.
    pub fn decode_verbatim(&self, ids: &[u32]) -> String {
        let mut buffer = Utf8Buffer::default();
        let mut text = String::new();
        for &id in ids {
            text.push_str(&buffer.push(self.token_bytes(id)));
        }
        text.push_str(&buffer.flush());
        text
    }

    /// A decoder for tokens that continue a text, as a model's answer continues its prompt.
    pub fn stream(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self, false)
    }

    /// A decoder for tokens from the beginning of a text; it drops the space that SentencePiece puts there.
    pub fn stream_from_start(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self, self.space_prefix)
    }
}

/// Decodes ids one at a time; control tokens give no text. Made by [`Tokenizer::stream`].
pub struct StreamDecoder<'t> {
    tokenizer: &'t Tokenizer,
    buffer: Utf8Buffer,
    /// Whether the next text begins with a space that the tokenizer has added, and that is to be dropped.
    drop_space: bool,
}

impl<'t> StreamDecoder<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, drop_space: bool) -> Self {
        StreamDecoder { tokenizer, buffer: Utf8Buffer::default(), drop_space }
    }

    /// Adds a token; returns the text that is complete with it. The text is empty while a character is incomplete.
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

    /// Ends the text; returns U+FFFD if a character is still incomplete.
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
