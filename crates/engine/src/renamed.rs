//! Old names of renamed things. A renamed thing keeps its old name as an alias wherever people write it or files hold it: in
//! flags, gates, profiles, and files of measurements.
//!
//! A table holds pairs of an old and a new name. Every lookup takes its table as a parameter and returns a name unchanged if
//! the table does not have it, so that callers can look up every name without knowing which ones were renamed.

use serde_json::{Map, Value};

/// An old name and the current name of the same thing.
pub type Renamed<'a> = (&'a str, &'a str);

/// Kinds of devices: `--device`, gates, and the commit policies of profiles.
pub const DEVICES: &[Renamed] = &[("gpu", "wgpu")];
/// Rules of fusion: `--fuse`, `--what-if`, gates, and the files of `bench --rules`.
pub const RULES: &[Renamed] = &[("columns-in-place", "slices-in-place")];
/// Ops: `selftest --op`, and counts by op in gates.
pub const OPS: &[Renamed] = &[("columns", "slice")];
/// Keys of gates.
pub const KEYS: &[Renamed] = &[];
/// Curves of profiles of version 1, as [`curve_name`] reads them.
pub const CURVES: &[Renamed] = &[
    ("attention.blocks", "attention.prefill"),
    ("attention.rows", "attention.decode"),
    ("columns", "slice"),
    ("launch.apart", "launch.independent"),
    ("stream.*.apart", "stream.*.independent"),
    ("turn", "kernel_switch"),
];

/// The current name of the thing that is or was called `name`.
pub fn new_name<'a>(table: &[Renamed<'a>], name: &'a str) -> &'a str {
    table.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// The old name of the thing that is called `name` now, or `name` itself if it was never renamed.
pub fn old_name<'a>(table: &[Renamed<'a>], name: &'a str) -> &'a str {
    table.iter().find(|(_, new)| *new == name).map_or(name, |(old, _)| old)
}

/// Replaces old names in a comma-separated list by current ones; spaces around names are dropped.
pub fn new_names(table: &[Renamed], list: &str) -> String {
    list.split(',').map(|name| new_name(table, name.trim())).collect::<Vec<_>>().join(",")
}

/// Replaces old keys of an object by current ones and keeps their order. The error names a key that the object has under both
/// its old and its current name.
pub fn new_keys(table: &[Renamed], object: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut renamed = Map::new();
    for (key, value) in object {
        let name = new_name(table, &key).to_string();
        if renamed.insert(name.clone(), value).is_some() {
            return Err(format!("`{}` and `{name}` are the same key: leave one out", old_name(table, &name)));
        }
    }
    Ok(renamed)
}

/// The current name of a curve. Names of curves are words separated by dots. A pair of `table` replaces the leading words of a
/// name; `*` matches any one word, which is kept. The first pair that matches is applied.
pub fn curve_name(table: &[Renamed], name: &str) -> String {
    let words: Vec<&str> = name.split('.').collect();
    for (old, new) in table {
        let old: Vec<&str> = old.split('.').collect();
        if old.len() > words.len() || !old.iter().zip(&words).all(|(word, have)| *word == "*" || word == have) {
            continue;
        }
        let mut kept = old.iter().zip(&words).filter(|(word, _)| **word == "*").map(|(_, have)| *have);
        let new = new.split('.').map(|word| if word == "*" { kept.next().unwrap_or(word) } else { word });
        return new.chain(words[old.len()..].iter().copied()).collect::<Vec<_>>().join(".");
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use onetrip_core::fuse::{Fuse, RULES as CURRENT_RULES};
    use onetrip_core::ops::Op;
    use serde_json::json;

    use super::*;

    const MADE_UP: &[Renamed] = &[("abacus", "calculator"), ("quill", "pen")];

    /// Describes the first fault of a table: an old name that occurs twice or is still in use, or a new name that is unused.
    fn fault(table: &[Renamed], is_current: impl Fn(&str) -> bool) -> Option<String> {
        let twice = |name: &str| table.iter().filter(|(old, _)| *old == name).count() > 1;
        table.iter().find_map(|&(old, new)| match () {
            () if twice(old) => Some(format!("`{old}` is renamed twice")),
            () if is_current(old) => Some(format!("`{old}` is a name today")),
            () if table.iter().any(|(old, _)| *old == new) => Some(format!("`{new}` is an old name itself")),
            () if !is_current(new) => Some(format!("`{new}` is no name today")),
            () => None,
        })
    }

    #[test]
    fn tables_lead_from_names_that_are_gone_to_names_that_exist() {
        assert_eq!(fault(RULES, |name| CURRENT_RULES.iter().any(|r| r.name == name)), None);
        assert_eq!(fault(OPS, |name| Op::NAMES.contains(&name)), None);
        assert_eq!(fault(DEVICES, |name| ["cpu", "cuda", "wgpu"].contains(&name)), None);
        assert!(KEYS.iter().chain(CURVES).all(|(old, new)| !old.is_empty() && old != new));
        // Faulty tables are found.
        let is_current = |name: &str| ["calculator", "pen"].contains(&name);
        assert_eq!(fault(MADE_UP, is_current), None);
        for (wrong, word) in [
            (&[("pen", "calculator")][..], "`pen` is a name today"),
            (&[("quill", "pencil")], "`pencil` is no name"),
            (&[("quill", "pen"), ("quill", "calculator")], "renamed twice"),
            (&[("quill", "feather"), ("feather", "pen")], "is an old name itself"),
        ] {
            assert!(fault(wrong, is_current).is_some_and(|f| f.contains(word)), "{wrong:?}: {word}");
        }
    }

    #[test]
    fn old_and_new_names_are_the_same_thing_and_others_stay() {
        for name in ["abacus", "calculator"] {
            assert_eq!(new_name(MADE_UP, name), "calculator");
            assert_eq!(old_name(MADE_UP, name), "abacus");
        }
        assert_eq!((new_name(MADE_UP, "ruler"), old_name(MADE_UP, "ruler")), ("ruler", "ruler"));
        assert_eq!(new_name(MADE_UP, "abacuses"), "abacuses");
        assert_eq!(new_names(MADE_UP, "ruler, quill,pen"), "ruler,pen,pen");
        assert_eq!(new_names(MADE_UP, ""), "");
    }

    #[test]
    fn rules_are_found_by_their_old_names() {
        let rule = CURRENT_RULES[0].name;
        let table = [("a-name-of-old", rule)];
        assert!(Fuse::parse("a-name-of-old").is_err());
        assert_eq!(Fuse::parse(&new_names(&table, "a-name-of-old")), Fuse::parse(rule));
    }

    #[test]
    fn keys_keep_their_order_and_no_key_comes_twice() {
        let object = |value: Value| value.as_object().cloned().expect("an object");
        let renamed = new_keys(MADE_UP, object(json!({ "z": 1, "quill": 2, "a": 3 }))).expect("keys");
        assert_eq!(Value::from(renamed).to_string(), r#"{"z":1,"pen":2,"a":3}"#);
        let twice = new_keys(MADE_UP, object(json!({ "pen": 1, "quill": 2 }))).expect_err("one key");
        assert!(twice.contains("`quill`") && twice.contains("`pen`"), "{twice}");
    }

    #[test]
    fn leading_words_of_curves_are_replaced_and_stars_stay() {
        let table =
            [("stream.*.sum", "stream.*.residual"), ("attention.blocks", "attention.prefill"), ("turn", "switch")];
        for (old, new) in [
            ("stream.q4_0.sum.cold", "stream.q4_0.residual.cold"),
            ("stream.q4_0.summer.cold", "stream.q4_0.summer.cold"),
            ("attention.blocks.128", "attention.prefill.128"),
            ("attention.128", "attention.128"),
            ("turn", "switch"),
            ("turned", "turned"),
            ("a.turn", "a.turn"),
        ] {
            assert_eq!(curve_name(&table, old), new);
        }
    }
}
