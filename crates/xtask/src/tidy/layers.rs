//! Checks of the layers: which crate may depend on which, and where unsafe code may be.

use super::report::Report;
use super::source::{Source, line_of, words};

/// The external crates that the compiler (`ir`, `core`) may depend on. None of them does I/O, starts threads or accesses a GPU,
/// which has to be verified before another one is added.
const CORE_DEPENDENCIES: [&str; 9] =
    ["bitflags", "bytemuck", "half", "indexmap", "libm", "serde", "serde_json", "smallvec", "thiserror"];

/// The layers: each crate with the workspace's crates that it may depend on. A crate depends only on crates of lower layers.
/// Devices see the launch IR and no op.
const STOREYS: [(&str, &[&str]); 11] = [
    ("ir", &[]),
    ("core", &["ir"]),
    ("cost", &["ir", "core"]),
    ("import", &["ir", "core"]),
    ("device-common", &["ir"]),
    ("cpu", &["ir", "device-common"]),
    ("cuda", &["ir", "device-common"]),
    ("wgpu", &["ir", "device-common"]),
    ("devices", &["ir", "core", "cost", "device-common", "cpu", "cuda", "wgpu"]),
    ("engine", &["ir", "core", "cost"]),
    ("cli", &["ir", "core", "cost", "import", "cpu", "cuda", "wgpu", "devices", "engine"]),
];

/// Crates that are not part of the product: they may depend on every crate, and no crate of the product on them.
const TOOLS: [&str; 2] = ["testing", "xtask"];

/// Parts of the standard library that do I/O or start threads.
const CORE_FORBIDDEN: [&str; 4] = ["fs", "net", "process", "thread"];

/// Words that would tie a model definition to a device.
const BACKEND_WORDS: [&str; 9] = ["cpu", "cuda", "gpu", "metal", "neon", "simd", "vulkan", "wgpu", "wgsl"];

/// Where unsafe code may live: devices, instruction sets, the shared view of buffers that CPU kernels write through, and
/// the readers of mapped files; in tests the device that runs CUDA kernels without a GPU. Each is a folder or one file
/// (`.rs`).
const UNSAFE_PLACES: [&str; 7] = [
    "crates/cpu",
    "crates/cuda",
    "crates/wgpu",
    "crates/ir/src/simd",
    "crates/ir/src/cpu",
    "crates/engine/src/files",
    "crates/testing/src/emulated",
];

/// True for a model definition: a file directly in the folder of architectures.
pub(super) fn is_model_definition(path: &str) -> bool {
    path.strip_prefix("crates/engine/src/models/").is_some_and(|name| !name.contains('/'))
}

pub(super) fn check_rust(path: &str, source: &Source, report: &mut Report) {
    unsafe_code(path, source, report);
    if is_test_file(path) {
        return;
    }
    let code = source.product_code();
    if ["crates/ir/src/", "crates/core/src/"].iter().any(|compiler| path.starts_with(compiler)) {
        core_does_no_io(path, &code, report);
    }
    if path.starts_with("crates/engine/src/") {
        engine_names_no_kernel(path, &code, report);
    }
    if is_model_definition(path) {
        no_backend_words(path, &source.uncommented, report);
    }
}

pub(super) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let in_folder = |folder: &str| path.contains(&format!("/{folder}/"));
    in_folder("tests") || in_folder("examples") || in_folder("benches") || name == "tests.rs"
}

fn core_does_no_io(path: &str, code: &str, report: &mut Report) {
    for root in ["std", "core", "alloc"] {
        for at in words(code, root) {
            let Some(rest) = code[at + root.len()..].trim_start().strip_prefix("::") else { continue };
            let used = use_heads(rest.trim_start());
            for module in used.into_iter().filter(|head| CORE_FORBIDDEN.contains(head)) {
                let message =
                    format!("core does no I/O and starts no thread: `std::{module}` belongs to another crate");
                report.add("core", path, line_of(code, at), message);
            }
        }
    }
}

/// The first names of a path or of each path in a `{…}` group: `fs` of `fs::File`, `fs` and `io` of `{fs::{A, B}, io}`.
fn use_heads(rest: &str) -> Vec<&str> {
    let name = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    if !rest.starts_with('{') {
        return vec![&rest[..name(rest)]];
    }
    let (mut heads, mut depth, mut expect) = (Vec::new(), 0usize, false);
    for (i, c) in rest.char_indices() {
        match c {
            '{' => (depth, expect) = (depth + 1, depth == 0),
            '}' if depth <= 1 => break,
            '}' => depth -= 1,
            ',' => expect = depth == 1,
            c if expect && !c.is_whitespace() => {
                heads.push(&rest[i..i + name(&rest[i..])]);
                expect = false;
            }
            _ => {}
        }
    }
    heads
}

fn engine_names_no_kernel(path: &str, code: &str, report: &mut Report) {
    let message = "engine never names a kernel: the lowering in core chooses it";
    let mut start = 0;
    let in_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for token in code.split(|c: char| !in_path(c)) {
        let at = token.as_ptr() as usize - code.as_ptr() as usize;
        start = start.max(at);
        let names: Vec<_> = token.split("::").collect();
        let of_op = names.iter().position(|name| *name == "ops").is_some_and(|ops| names[ops..].contains(&"cpu"));
        if of_op || names.iter().any(|name| name.ends_with("_kernel")) {
            report.add("engine", path, line_of(code, start), message);
        }
    }
}

fn no_backend_words(path: &str, code: &str, report: &mut Report) {
    for (n, line) in code.lines().enumerate() {
        for word in line.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(camel_parts) {
            let lower = word.to_ascii_lowercase();
            if BACKEND_WORDS.contains(&lower.as_str()) || lower.starts_with("avx") {
                report.add(
                    "arch",
                    path,
                    n + 1,
                    format!("`{word}` is a word of a backend; a model's definition has none"),
                );
            }
        }
    }
}

/// `CpuDevice` is `Cpu`, `Device`; `GPUDevice` is `GPU`, `Device`.
fn camel_parts(word: &str) -> Vec<&str> {
    let bytes = word.as_bytes();
    let (mut parts, mut start) = (Vec::new(), 0);
    for i in 1..bytes.len() {
        let upper = bytes[i].is_ascii_uppercase();
        let next_lower = bytes.get(i + 1).is_some_and(u8::is_ascii_lowercase);
        if upper && (!bytes[i - 1].is_ascii_uppercase() || next_lower) {
            parts.push(&word[start..i]);
            start = i;
        }
    }
    parts.push(&word[start..]);
    parts
}

fn unsafe_code(path: &str, source: &Source, report: &mut Report) {
    let allowed = UNSAFE_PLACES
        .iter()
        .any(|place| path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/') || rest == ".rs"));
    for at in words(&source.code, "unsafe") {
        let line = line_of(&source.code, at);
        if !allowed {
            let message = format!("unsafe code lives only in {}", UNSAFE_PLACES.join(", "));
            report.add("unsafe", path, line, message);
        }
        let rest = source.code[at + "unsafe".len()..].trim_start();
        let needs_reason = rest.starts_with('{') || words(rest, "impl").next() == Some(0);
        if needs_reason && !has_reason(source, line) {
            report.add("safety", path, line, "say why it is sound: `// SAFETY: …` within the three lines above");
        }
    }
}

/// Is there a comment with the reason on the line or within the three lines above? A comment of several lines counts
/// where its last line does.
fn has_reason(source: &Source, line: usize) -> bool {
    const MARK: &str = "SAFETY:";
    let (text, code): (Vec<_>, Vec<_>) = (source.text.lines().collect(), source.uncommented.lines().collect());
    let is_comment = |i: usize| code[i].trim().is_empty() && !text[i].trim().is_empty();
    let states = |i: usize| text[i].contains(MARK) && !code[i].contains(MARK);
    let here = line - 1;
    let mut first = here.saturating_sub(3);
    while first > 0 && is_comment(first) && is_comment(first - 1) {
        first -= 1;
    }
    (first..=here).any(states)
}

/// A manifest: crates of the workspace are depended on downwards only ([`STOREYS`]), and those of the compiler depend on
/// nothing from elsewhere that is not in [`CORE_DEPENDENCIES`]. What only tests need is free.
pub(super) fn check_manifest(path: &str, text: &str, report: &mut Report) {
    let Some(krate) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml")) else { return };
    if TOOLS.contains(&krate) {
        return;
    }
    if !STOREYS.iter().any(|(name, _)| *name == krate) {
        report.add("storey", path, 1, format!("`{krate}` has no place in the storeys of tidy/layers.rs"));
    }
    let mut section = String::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = header.trim().to_owned();
            if let Some((kind, name)) = section.rsplit_once('.') {
                dependency((path, n + 1), krate, kind, name, report);
            }
        } else if let Some(end) = line.find(['=', '.']) {
            dependency((path, n + 1), krate, &section, line[..end].trim(), report);
        }
    }
}

fn dependency((path, line): (&str, usize), krate: &str, section: &str, name: &str, report: &mut Report) {
    let last = section.rsplit('.').next().unwrap_or_default();
    let name = name.trim_matches('"');
    if !matches!(last, "dependencies" | "build-dependencies") {
        return;
    }
    let allowed = STOREYS.iter().find(|(storey, _)| *storey == krate).map_or(&[][..], |(_, below)| below);
    match name.strip_prefix("onetrip-") {
        Some(other) if !allowed.contains(&other) => {
            let message = format!("`{krate}` must not depend on `{other}`: it may on {}", allowed.join(", "));
            report.add("storey", path, line, message);
        }
        None if matches!(krate, "ir" | "core") && !CORE_DEPENDENCIES.contains(&name) => {
            let message = format!(
                "{krate} must not depend on `{name}`: the compiler does no I/O, starts no thread and knows no GPU crate"
            );
            report.add("core", path, line, message);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;

    #[test]
    fn core_does_no_io_outside_tests() {
        let bad = ["use std::fs;", "std::net::TcpStream", "use std::{fmt, fs::{File, read}};", "std::thread::spawn(f)"];
        for code in bad {
            assert_eq!(found("crates/core/src/a.rs", code), ["core"], "{code}");
            assert!(found("crates/engine/src/a.rs", code).is_empty(), "{code}");
            assert!(found("crates/core/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {code} }}")).is_empty());
            assert!(found("crates/core/tests/a.rs", code).is_empty(), "{code}");
        }
        assert!(found("crates/core/src/a.rs", "use std::{fmt, ops::{Add}}; // std::fs\n\"std::fs\"").is_empty());
    }

    #[test]
    fn core_depends_on_nothing_with_io_or_a_gpu() {
        let manifest = "crates/core/Cargo.toml";
        for text in [
            "[dependencies]\nwgpu = \"30\"",
            "[dependencies]\nhalf.workspace = true\nmemmap2.workspace = true",
            "[dependencies.cudarc]\nversion = \"1\"",
            "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"",
            "[build-dependencies]\ncc = \"1\"",
        ] {
            assert_eq!(found(manifest, text), ["core"], "{text}");
        }
        let good = "[package]\nname = \"x\"\n[dependencies]\nhalf = { version = \"2\", features = [\"a.b\"] } # wgpu = 1\n\
                    [dev-dependencies]\nproptest = \"1\"";
        assert!(found(manifest, good).is_empty());
        assert!(found("crates/wgpu/Cargo.toml", "[dependencies]\nwgpu = \"30\"").is_empty());
    }

    #[test]
    fn a_crate_depends_on_those_below_it_only() {
        for (krate, dep) in
            [("cpu", "core"), ("cuda", "engine"), ("ir", "core"), ("core", "cost"), ("engine", "devices")]
        {
            let text = format!("[dependencies]\nonetrip-{dep}.workspace = true");
            assert_eq!(found(&format!("crates/{krate}/Cargo.toml"), &text), ["storey"], "{krate} {dep}");
            let text = format!("[dev-dependencies]\nonetrip-{dep}.workspace = true");
            assert!(found(&format!("crates/{krate}/Cargo.toml"), &text).is_empty(), "{krate} {dep}");
        }
        assert_eq!(
            found("crates/cli/Cargo.toml", "[dependencies]\nonetrip-testing = { path = \"../testing\" }"),
            ["storey"]
        );
        assert_eq!(found("crates/attic/Cargo.toml", "[package]"), ["storey"]);
        assert!(found("crates/cpu/Cargo.toml", "[dependencies]\nonetrip-ir.workspace = true").is_empty());
        assert!(found("crates/testing/Cargo.toml", "[dependencies]\nonetrip-cli.workspace = true").is_empty());
    }

    #[test]
    fn storeys_are_listed_from_below() {
        for (i, (krate, below)) in super::STOREYS.iter().enumerate() {
            let known = |name: &&str| super::STOREYS[..i].iter().any(|(lower, _)| lower == name);
            assert!(below.iter().all(known), "{krate} names a crate that is not below it");
        }
    }

    #[test]
    fn engine_names_no_kernel() {
        for code in ["matmul_kernel(x)", "onetrip_core::ops::matmul::cpu::run(x)", "use a::ops::rope::cpu;"] {
            assert_eq!(found("crates/engine/src/step.rs", code), ["engine"], "{code}");
            assert!(found("crates/core/src/a.rs", code).is_empty(), "{code}");
        }
        assert!(found("crates/engine/src/step.rs", "ops::matmul::new(); kernel_count; \"ssm.conv_kernel\"").is_empty());
    }

    #[test]
    fn a_model_definition_has_no_word_of_a_backend() {
        let page = "crates/engine/src/models/llama.rs";
        for code in ["use x::CpuDevice;", "let gpu_rows = 1;", "\"CUDA\"", "has_avx512()", "GPUThing", "Simd::new()"] {
            assert_eq!(found(page, code), ["arch"], "{code}");
        }
        assert!(found(page, "// the cpu does it\nlet cpuid_like = input + metallic;").is_empty());
        assert!(found("crates/engine/src/load.rs", "use x::CpuDevice;").is_empty());
    }

    #[test]
    fn unsafe_code_has_its_places() {
        let code = "// SAFETY: the range was checked above\nunsafe { f() }";
        for place in ["crates/core/src/run.rs", "crates/engine/src/filesystem.rs", "crates/ir/src/simdish/a.rs"] {
            assert_eq!(found(place, code), ["unsafe"], "{place}");
        }
        for place in [
            "crates/cpu/src/pool.rs",
            "crates/ir/src/simd/avx.rs",
            "crates/ir/src/cpu/call.rs",
            "crates/engine/src/files/map.rs",
        ] {
            assert!(found(place, code).is_empty(), "{place}");
        }
        assert!(found("crates/core/src/run.rs", "#![forbid(unsafe_code)] // unsafe\n").is_empty());
    }

    #[test]
    fn unsafe_code_has_a_reason_near_it() {
        let place = "crates/cpu/src/pool.rs";
        assert_eq!(found(place, "unsafe { f() }"), ["safety"]);
        assert_eq!(found(place, "unsafe impl Send for X {}"), ["safety"]);
        assert_eq!(found(place, "// SAFETY: too far away\n\n\n\n\nunsafe { f() }"), ["safety"]);
        assert_eq!(found(place, "let x = \"SAFETY: a text\";\nunsafe { f() }"), ["safety"]);
        assert!(found(place, "// SAFETY: fine\nlet x =\n    g(\n    unsafe { f() });").is_empty());
        assert!(found(place, "// SAFETY: a reason\n// of\n// so\n// many\n// lines\nunsafe { f() }").is_empty());
        assert!(found(place, "let x = unsafe { f() }; // SAFETY: here\npub unsafe fn g() {}").is_empty());
    }
}
