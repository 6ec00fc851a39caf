//! Error texts of parsers and other libraries, which have several lines, as one sentence.

/// Line number and text of a line of an excerpt, which may both be empty.
fn excerpt(line: &str) -> Option<(&str, &str)> {
    let (number, text) = line.split_once('|')?;
    let (number, text) = (number.trim(), text.trim());
    number.bytes().all(|b| b.is_ascii_digit()).then_some((number, text))
}

/// Lines as parts of one sentence. A line that ends in a colon has a list behind it. Of an excerpt of a source (`3 | x = `)
/// the text is quoted, and the lines that only mark a place in it (`  |   ^`) are left out.
pub fn sentence<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let is_mark = |line: &&str| excerpt(line).is_some_and(|(number, text)| number.is_empty() || text.is_empty());
    let lines = lines.map(str::trim).filter(|line| !line.is_empty() && !is_mark(line));
    let (mut all, mut is_list) = (String::new(), false);
    for line in lines {
        let choice = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')?.split_once(": "));
        let (line, is_item) = match (line.strip_prefix("tip: "), choice) {
            (Some(tip), _) => (tip.to_string(), false),
            (None, Some((what, values))) => (format!("{what} are {values}"), false),
            (None, None) => match excerpt(line) {
                Some((_, text)) => (format!("in `{text}`"), false),
                None => (line.to_string(), is_list),
            },
        };
        all.push_str(match all.chars().last() {
            None => "",
            Some(':' | ',' | ';' | '.' | '!' | '?' | '(') => " ",
            Some(_) if is_item => ", ",
            Some(_) => "; ",
        });
        all.push_str(&line);
        is_list = is_item || line.ends_with(':');
    }
    all
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn lines_of_an_error_become_parts_of_a_sentence() {
        let of = |text: &str| sentence(text.lines());
        let unknown = "unexpected argument '--ctx' found\n\n  tip: a similar argument exists: '--context'\n";
        assert_eq!(of(unknown), "unexpected argument '--ctx' found; a similar argument exists: '--context'");
        let value = "invalid value 'x' for '--phase <P>'\n  [possible values: decode, prefill]\n";
        assert_eq!(of(value), "invalid value 'x' for '--phase <P>'; possible values are decode, prefill");
        let missing = "these were not provided:\n  <FILE>\n  --seed <N>\n\n  tip: see x\n";
        assert_eq!(of(missing), "these were not provided: <FILE>, --seed <N>; see x");
        let toml = "TOML parse error at line 3, column 5\n  |\n3 | x = \n  |     ^\ninvalid string\n";
        assert_eq!(of(toml), "TOML parse error at line 3, column 5; in `x =`; invalid string");
    }
}
