//! Three views of a Rust file: the original, one without comments, and one without comments and string literals. Removed text
//! is replaced by spaces, so that a byte position in one view is valid in the others.

/// One Rust source file with its masked views.
#[derive(Debug)]
pub struct Source {
    /// The file as it stands.
    pub text: String,
    /// Comments replaced by spaces.
    pub uncommented: String,
    /// Comments and the insides of string and character literals replaced by spaces.
    pub code: String,
}

impl Source {
    /// Splits `text` into code, literals and comments. Text that is no valid Rust gives some answer, never a panic.
    pub fn new(text: String) -> Self {
        let mut uncommented = text.clone().into_bytes();
        let mut code = uncommented.clone();
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let (kind, end) = piece(bytes, at);
            if kind == Kind::Comment {
                blank(&mut uncommented[at..end]);
            }
            if kind != Kind::Code {
                blank(&mut code[at..end]);
            }
            if kind == Kind::Literal {
                // The quotes are kept to mark the place of the literal.
                code[at] = bytes[at];
                code[end - 1] = bytes[at];
            }
            at = end;
        }
        // Whole characters were replaced byte by byte with spaces, so both views are UTF-8 again.
        let text_of = |bytes| String::from_utf8(bytes).unwrap_or_default();
        Self { uncommented: text_of(uncommented), code: text_of(code), text }
    }

    /// `code` with the bodies of `#[cfg(test)]` items replaced by spaces as well.
    pub fn product_code(&self) -> String {
        let mut out = self.code.clone().into_bytes();
        let mut from = 0;
        while let Some(found) = self.code[from..].find("#[cfg(test)]") {
            let start = from + found;
            let end = item_end(self.code.as_bytes(), start);
            blank(&mut out[start..end]);
            from = end;
        }
        String::from_utf8(out).unwrap_or_default()
    }
}

impl Source {
    /// String literals outside of `#[cfg(test)]` items: where each begins (at its quote), and its content as it is written.
    pub fn product_strings(&self) -> Vec<(usize, &str)> {
        let code = self.product_code();
        let mut quotes = code.match_indices('"').map(|(at, _)| at);
        let mut strings = vec![];
        while let (Some(open), Some(close)) = (quotes.next(), quotes.next()) {
            strings.push((open, &self.text[open + 1..close]));
        }
        strings
    }
}

/// The line (from 1) of a byte position.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|&&b| b == b'\n').count()
}

/// Start positions of `word` in `code` where it is a whole identifier.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let inside = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        !inside(before) && !inside(bytes.get(at + word.len()))
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Literal,
    Comment,
}

/// The piece that starts at `at`: its kind and where it ends.
fn piece(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, find(bytes, at, b'\n').unwrap_or(bytes.len())),
        [b'/', b'*', ..] => (Kind::Comment, block_comment_end(bytes, at)),
        [b'"', ..] => (Kind::Literal, string_end(bytes, at)),
        [b'\'', ..] => character_end(bytes, at).map_or((Kind::Code, at + 1), |end| (Kind::Literal, end)),
        _ => (Kind::Code, at + 1),
    }
}

/// Where the string that opens at `open` ends, closing quote included. Hashes before the quote make it a raw string.
fn string_end(bytes: &[u8], open: usize) -> usize {
    let hashes = bytes[..open].iter().rev().take_while(|&&b| b == b'#').count();
    let raw = open.checked_sub(hashes + 1).is_some_and(|i| bytes[i] == b'r');
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if !raw => at += 2,
            b'"' if !raw || bytes[at + 1..].iter().take(hashes).filter(|&&b| b == b'#').count() == hashes => {
                return at + 1;
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Where the character literal that opens at `open` ends; `None` for a lifetime.
fn character_end(bytes: &[u8], open: usize) -> Option<usize> {
    let escaped = bytes.get(open + 1) == Some(&b'\\');
    let close = find(bytes, open + if escaped { 3 } else { 2 }, b'\'')?;
    let inside = std::str::from_utf8(&bytes[open + 1..close]).ok()?;
    // The longest escape is `\u{10ffff}`.
    let is_literal = inside.chars().count() == 1 || (escaped && inside.len() <= 10 && !inside.contains('\n'));
    is_literal.then_some(close + 1)
}

fn find(bytes: &[u8], from: usize, byte: u8) -> Option<usize> {
    bytes.get(from..)?.iter().position(|&b| b == byte).map(|i| from + i)
}

/// Spaces for everything but line ends.
fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
}

/// Where the item that follows the attribute at `start` ends: at its `;`, or at the brace that closes its body.
fn item_end(code: &[u8], start: usize) -> usize {
    let mut depth = 0usize;
    for (i, byte) in code.iter().enumerate().skip(start) {
        match byte {
            b';' if depth == 0 => return i + 1,
            b'{' => depth += 1,
            b'}' if depth <= 1 => return i + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0usize, start);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new(text.to_owned()).code
    }

    #[test]
    fn comments_and_texts_are_blanked_in_place() {
        assert_eq!(code("a; // b\nc"), "a;     \nc");
        assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(code(r#"f("a\"b", 'c', '\'', x)"#), r#"f("    ", ' ', '  ', x)"#);
        assert_eq!(code("r#\"a \" b\"# + c"), "r#\"     \"# + c");
        assert_eq!(code(r#"("", x, "y")"#), r#"("", x, " ")"#);
        let source = Source::new("let a = \"// no comment\"; // one".into());
        assert_eq!(source.uncommented, "let a = \"// no comment\";       ");
    }

    #[test]
    fn lifetimes_are_no_characters() {
        assert_eq!(code("fn f<'a>(x: &'a str) -> &'a str"), "fn f<'a>(x: &'a str) -> &'a str");
        assert_eq!(code("b'x' + '\\u{1F600}' + 'ä'"), "b' ' + '         ' + '  '");
    }

    #[test]
    fn positions_hold_in_every_view() {
        let source = Source::new("/* äöü */ let x = \"ß\"; // ∞\nunsafe".into());
        assert_eq!(source.code.len(), source.text.len());
        assert_eq!(source.code.find("unsafe"), source.text.find("unsafe"));
        assert_eq!(line_of(&source.text, source.text.len()), 2);
    }

    #[test]
    fn broken_source_ends_in_some_answer() {
        for text in ["\"", "'", "'\\", "/*", "r#\"", "\"\\", "b'", "#[cfg(test)]", "#[cfg(test)] mod t { {"] {
            assert_eq!(Source::new(text.into()).product_code().len(), text.len(), "{text}");
        }
    }

    #[test]
    fn test_items_are_no_product_code() {
        let source =
            Source::new("use a; #[cfg(test)] mod t { fn f() { g() } } fn h() {}\n#[cfg(test)]\nmod u;\nz".into());
        let product = source.product_code();
        assert!(!product.contains("g()") && product.contains("fn h() {}"), "{product}");
        assert!(!product.contains("mod u") && product.ends_with('z'), "{product}");
    }

    #[test]
    fn words_are_whole_identifiers() {
        let found: Vec<_> = words("unsafe unsafe_code not_unsafe (unsafe)", "unsafe").collect();
        assert_eq!(found, [0, 31]);
    }
}
