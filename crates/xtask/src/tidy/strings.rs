//! Checks of string literals in the product: names that have a type of their own, and what only a command line knows.

use super::layers::is_test_file;
use super::source::line_of;
use super::{Report, Source};

/// Names of kinds of devices.
const KINDS: [&str; 4] = ["cpu", "cuda", "gpu", "wgpu"];

/// Where such a name may stand: the registry, the crate that each device names itself in, and the table of old names.
const KIND_PLACES: [&str; 5] = [
    "crates/devices/src/kind.rs",
    "crates/cpu/src/",
    "crates/cuda/src/",
    "crates/wgpu/src/",
    "crates/engine/src/renamed.rs",
];

/// Who may speak of flags besides tools: the command line, and the texts that a compiler is started with.
const FLAG_PLACES: [&str; 2] = ["crates/cli/", "crates/cuda/src/nvrtc.rs"];

/// Crates that are no part of the product.
const TOOLS: [&str; 2] = ["crates/testing/", "crates/xtask/"];

pub(super) fn check_rust(path: &str, source: &Source, report: &mut Report) {
    let is_product = path.starts_with("crates/") && !TOOLS.iter().any(|tool| path.starts_with(tool));
    if !is_product || is_test_file(path) {
        return;
    }
    for (at, text) in source.product_strings() {
        let is_flag = |(at, _): (usize, &str)| text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase());
        if !FLAG_PLACES.iter().any(|place| path.starts_with(place)) && text.match_indices("--").any(is_flag) {
            let message =
                "a library speaks of no flag: give its error fields, and let the command line say what to give";
            report.add("flag", path, line_of(&source.text, at), message);
        }
        let kind = text.split_once(':').map_or(text, |(kind, _)| kind);
        // Features of crates are called so too, and a key of JSON is followed by its value.
        let is_feature = source.code[..at].trim_end().ends_with("feature =");
        let is_key = source.code[at + text.len() + 2..].trim_start().starts_with(':');
        let is_named = KINDS.contains(&kind) && !is_feature && !is_key;
        if is_named && !KIND_PLACES.iter().any(|place| path.starts_with(place)) {
            let message =
                format!("\"{text}\" names a device: match on `DeviceKind`, which prints and reads such names");
            report.add("kind", path, line_of(&source.text, at), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;

    #[test]
    fn only_the_command_line_speaks_of_flags() {
        let code = "fn f() { g(\"too long:\\\n    give --context 9\") }";
        for place in ["crates/engine/src/step.rs", "crates/devices/src/open.rs", "crates/core/src/device.rs"] {
            assert_eq!(found(place, code), ["flag"], "{place}");
            assert!(found(place, &format!("#[cfg(test)]\nmod t {{ {code} }}")).is_empty());
            assert!(found(place, "// --context\nfn f() { g(\"a -- b\", \"|---|--:|\"); i--j }").is_empty());
        }
        for place in ["crates/cli/src/fail.rs", "crates/testing/src/a.rs", "crates/engine/tests/a.rs"] {
            assert!(found(place, code).is_empty(), "{place}");
        }
    }

    #[test]
    fn names_of_devices_stand_in_the_registry_only() {
        for code in [
            "if device == \"cpu\" {}",
            "match kind { \"cuda\" | \"gpu\" => 1, _ => 2 }",
            "let is = name.starts_with(\"cuda:\");",
            "x(\"wgpu:{name}\")",
        ] {
            assert_eq!(found("crates/cli/src/a.rs", &format!("fn f() {{ {code} }}")), ["kind"], "{code}");
            for place in ["crates/devices/src/kind.rs", "crates/wgpu/src/a.rs", "crates/testing/src/a.rs"] {
                assert!(found(place, code).is_empty(), "{place}: {code}");
            }
            let tests = format!("#[cfg(test)]\nmod tests {{ fn f() {{ {code} }} }}");
            assert!(found("crates/cli/src/a.rs", &tests).is_empty(), "{code}");
        }
        let other = "// a device is \"cpu\"\nfn f() { g(\"a GPU\", '\"', \"the cpu and the gpu\", r\"cpus\") }\n\
                     #[cfg(feature = \"cuda\")]\nfn h() { json!({ \"gpu\": name }) }";
        assert!(found("crates/cli/src/a.rs", other).is_empty());
    }
}
