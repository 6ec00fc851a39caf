//! Error texts of parsers and other libraries, which have several lines, as one sentence.

/// Lines as parts of one sentence. A line that ends in a colon has a list behind it; excerpts of a source with their marks
/// (`3 | x = ` and `  |   ^`) mean nothing on one line.
pub fn sentence<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let is_excerpt = |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    let lines = lines.map(str::trim).filter(|line| !line.is_empty() && !is_excerpt(line));
    let (mut all, mut is_list) = (String::new(), false);
    for line in lines {
        let choice = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')?.split_once(": "));
        let (line, is_item) = match (line.strip_prefix("tip: "), choice) {
            (Some(tip), _) => (tip.to_string(), false),
            (None, Some((what, values))) => (format!("{what} are {values}"), false),
            (None, None) => (line.to_string(), is_list),
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
        assert_eq!(of(toml), "TOML parse error at line 3, column 5; invalid string");
    }
}
