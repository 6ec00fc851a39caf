//! Wraps text at the edge of a terminal, between words, while it is being produced.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Text on its way to a terminal. The last word is held back until it is known whether it fits the line.
pub struct Wrap {
    columns: usize,
    at: usize,
    word: String,
}

impl Wrap {
    /// For a terminal of this many columns; `None` passes text on as it is.
    pub fn new(columns: Option<u16>) -> Wrap {
        // The last column stays free: some terminals go to the next line when it is filled.
        Wrap { columns: columns.map_or(usize::MAX, |n| usize::from(n).max(20) - 1), at: 0, word: String::new() }
    }

    /// What can be shown when `text` has come.
    pub fn push(&mut self, text: &str) -> String {
        if self.columns == usize::MAX {
            return text.into();
        }
        let mut out = String::new();
        for c in text.chars() {
            if c == '\n' {
                self.place(&mut out);
                out.push('\n');
                self.at = 0;
            } else if c.is_whitespace() {
                self.place(&mut out);
                // A space at the edge is the line break.
                let (c, at) = if self.at + 1 > self.columns { ('\n', 0) } else { (c, self.at + 1) };
                out.push(c);
                self.at = at;
            } else {
                // Texts without spaces break between any two wide characters, and a word that is very long anywhere.
                if c.width() == Some(2) || self.word.width() >= self.columns {
                    self.place(&mut out);
                }
                self.word.push(c);
            }
        }
        out
    }

    /// What was held back, at the end of the text.
    pub fn end(&mut self) -> String {
        let mut out = String::new();
        self.place(&mut out);
        out
    }

    fn place(&mut self, out: &mut String) {
        let width = self.word.width();
        if self.at > 0 && self.at + width > self.columns {
            out.push('\n');
            self.at = 0;
        }
        self.at += width;
        out.push_str(&self.word);
        self.word.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, piece: usize) -> String {
        let mut wrap = Wrap::new(Some(21));
        let chars: Vec<char> = text.chars().collect();
        let mut out: String = chars.chunks(piece).map(|c| wrap.push(&c.iter().collect::<String>())).collect();
        out.push_str(&wrap.end());
        out
    }

    #[test]
    fn lines_break_between_words_however_the_text_comes() {
        let text = "It is a truth universally acknowledged\n  that 世界世界世界世界世界世界 averyveryverylongwordwithoutanyspace";
        for piece in [1, 3, 100] {
            let got = wrapped(text, piece);
            assert!(got.lines().all(|line| line.trim_end().width() <= 20), "{got}");
            let joined = |t: &str| t.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(joined(&got), joined(text));
            assert!(got.starts_with("It is a truth \nuniversally \nacknowledged\n  that "), "{got:?}");
        }
        let mut plain = Wrap::new(None);
        assert_eq!(plain.push(text), text);
    }
}
