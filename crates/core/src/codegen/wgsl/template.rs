//! Files of WGSL as templates. A file is complete WGSL: its header, between two marker lines, declares every constant, binding,
//! alias and function that it takes from elsewhere, with defaults (a function of another file returns a value of its type).
//! In a module the generated declarations take the place of the header. There are two operations on the rest:
//!
//! - [`renamed`]: a file that is written for one operand (a weight `w0`, a cache `kc`, a head `q`) serves others under their
//!   names.
//! - [`each`]: what a file writes for number 0 of something (`h0`: a query head, `w0`: a weight of an output) is written for
//!   each of them. So values of all of them are in registers of their own, and the file has the code once.

/// The lines around a header.
pub const HEADER: (&str, &str) = ("// header: defaults\n", "// header: end\n");

/// The file without its header: the comment in front of it, and what follows.
pub(crate) fn without_header(file: &str) -> (&str, &str) {
    let parts = file.split_once(HEADER.0).and_then(|(before, rest)| Some((before, rest.split_once(HEADER.1)?.1)));
    parts.unwrap_or(("", file))
}

/// The text with other names: in each identifier, a part between underscores that is `from` becomes `to`. With `w0` and `w1`,
/// `w0`, `w0_scale` and `dot_w0` become `w1`, `w1_scale` and `dot_w1`.
pub(crate) fn renamed(text: &str, from: &str, to: &str) -> String {
    identifiers(text, |word, out| {
        for (i, part) in word.split('_').enumerate() {
            out.push_str(if i > 0 { "_" } else { "" });
            out.push_str(if part == from { to } else { part });
        }
    })
}

/// The text with what it writes for number 0 of `what` written for each of `numbers`: a block between lines `// each h0` and
/// `// end h0`, and outside of blocks each line of code that has an identifier with the part `h0`. The identifier `h0` alone is
/// the number itself, which the header declares as a constant. `within` is applied to what is written for a number.
pub(crate) fn each(text: &str, what: &str, numbers: &[usize], within: impl Fn(usize, String) -> String) -> String {
    let zero = format!("{what}0");
    let (open, close) = (format!("// each {zero}"), format!("// end {zero}"));
    let repeated = |piece: &str| -> String {
        let one = |&n: &usize| {
            let (name, number) = (format!("{what}{n}"), format!("{n}u"));
            let text = identifiers(piece, |word, out| match word == zero {
                true => out.push_str(&number),
                false => out.push_str(&renamed(word, &zero, &name)),
            });
            within(n, text)
        };
        numbers.iter().map(one).collect()
    };
    let (about, text) = without_header(text);
    let (mut out, mut block) = (about.to_string(), None);
    for line in text.split_inclusive('\n') {
        let code = line.trim();
        match &mut block {
            _ if code == open => block = Some(String::new()),
            _ if code == close => out.push_str(&repeated(&block.take().unwrap_or_default())),
            Some(block) => block.push_str(line),
            None if !code.starts_with("//") && renamed(line, &zero, "") != line => out.push_str(&repeated(line)),
            None => out.push_str(line),
        }
    }
    out
}

/// The text, each identifier of it replaced by what `write` puts in its place.
fn identifiers(text: &str, write: impl Fn(&str, &mut String)) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find(is_part) {
        let (before, word) = rest.split_at(start);
        let (word, after) = word.split_at(word.find(|c| !is_part(c)).unwrap_or(word.len()));
        out.push_str(before);
        write(word, &mut out);
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_identifiers_are_renamed() {
        let text = "w0_scale(w0[i], dot_w0, w01, aw0, w0u);";
        assert_eq!(renamed(text, "w0", "w12"), "w12_scale(w12[i], dot_w12, w01, aw0, w0u);");
    }

    #[test]
    fn lines_and_blocks_are_written_for_each_number() {
        let file = "// header: defaults\nconst h0: u32 = 0u;\n// header: end\n// h0 here\nlet q_h0 = of(h0);\nbarrier();\n\
            // each h0\nif a_h0 {\n    b(w0);\n}\n// end h0\nend();\n";
        let text = each(file, "h", &[0, 3], |n, text| each(&text, "w", &[n, 1], |_, text| text));
        let block = |h: u32| format!("if a_h{h} {{\n    b({h}u);\n    b(1u);\n}}\n");
        let lines = "// h0 here\nlet q_h0 = of(0u);\nlet q_h3 = of(3u);\nbarrier();\n";
        assert_eq!(text, format!("{lines}{}{}end();\n", block(0), block(3)));
    }
}
