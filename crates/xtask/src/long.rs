//! `cargo xtask long`: checks that never run in CI, because they take long or need a GPU, another engine, or an idle machine.
//! Each check says where its output belongs; whoever runs it commits the output.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Seconds that one target is fuzzed.
const FUZZ_SECONDS: u64 = 600;

/// One long check.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its name on the command line.
    pub name: String,
    /// One sentence on the check's purpose.
    pub about: String,
    /// Arguments that it needs after `--`, as a pattern; empty where it needs none.
    pub wants: &'static str,
    /// Where its output belongs.
    pub output: &'static str,
    /// The program, from the root of the checkout, and its first arguments; those of the command line follow.
    pub command: Vec<String>,
    /// True if the check runs the release binary, which is then built first.
    pub needs_binary: bool,
}

const BINARY: &str = "target/release/onetrip";
const RUNS: &str = "bench/runs/<date>-<machine>/: the JSON, and a short .md beside it";

/// Name, what it does, arguments wanted, where its output belongs, command. `ONETRIP` is the release binary.
const PARTS: [(&str, &str, &str, &str, &[&str]); 9] = [
    (
        "gpu-check",
        "everything that holds on a GPU, in one table (needs a GPU)",
        "--models DIR [--devices NAMES] [--log DIR]",
        RUNS,
        &["bench/tools/gpu-check.sh", "ONETRIP"],
    ),
    (
        "replays",
        "steps of a model again and again, no bit may differ (ONETRIP_CUDA_DELAYS=SEED delays warps)",
        "[--device NAME] [--model MODEL]",
        RUNS,
        &["ONETRIP", "selftest", "--replays", "10000", "--json"],
    ),
    (
        "transformers",
        "logits of random models beside transformers' (`transformers_check.py make DIR` makes them)",
        "check DIR target/release/onetrip DEVICE",
        RUNS,
        &["bench/tools/transformers_check.py"],
    ),
    (
        "cuda-bench",
        "the figures of docs/cuda.md (needs an NVIDIA GPU)",
        "MODELS_DIR OUT_DIR",
        "docs/cuda.md: bench/tools/cuda-doc.py OUT_DIR > docs/cuda.md",
        &["bench/tools/cuda-bench.sh", "ONETRIP"],
    ),
    (
        "peers",
        "interleaved pairs with llama.cpp on this machine",
        "MODEL.gguf … [--threads N]",
        "bench/runs/<date>-<machine>/ (written there) and the README's table",
        &["bench/peers/llama_cpp.py"],
    ),
    (
        "rules",
        "what each rule gains, in interleaved pairs",
        "--model MODEL --threads N --write bench/runs/<date>-<machine>/rules.json",
        "the file given, then `cargo xtask docs` for docs/rules.md",
        &["ONETRIP", "bench", "--rules"],
    ),
    (
        "commits",
        "which commit policy is fastest on a GPU",
        "--device NAME [--model MODEL]",
        "docs/commits.md",
        &["ONETRIP", "bench", "--commit-sweep"],
    ),
    (
        "calibrate",
        "a profile of this machine, for predictions",
        "--write profiles/<machine>.toml [--device NAME]",
        "profiles/",
        &["ONETRIP", "calibrate"],
    ),
    (
        "kernels",
        "every op's cases on a device, with other activations than each case's own",
        "--device NAME --compute TYPE",
        RUNS,
        &["ONETRIP", "selftest", "--json"],
    ),
];

/// The parts for a checkout: the list above, and one for each fuzz target.
pub fn parts(root: &Path) -> Result<Vec<Part>> {
    let fixed = PARTS.iter().map(|(name, about, wants, output, command)| Part {
        name: (*name).into(),
        about: (*about).into(),
        wants,
        output,
        command: command.iter().map(|word| if *word == "ONETRIP" { BINARY } else { word }.to_owned()).collect(),
        needs_binary: command.contains(&"ONETRIP") || wants.contains(BINARY),
    });
    let mut parts: Vec<Part> = fixed.collect();
    let targets = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&targets).with_context(|| format!("cannot read {}", targets.display()))?;
    let names = entries.map(|entry| Ok(entry?.path().file_stem().unwrap_or_default().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_>>()?;
    names.sort();
    parts.extend(names.into_iter().map(|target| {
        let command = format!("cargo fuzz run {target} fuzz/corpus/{target} fuzz/seeds/{target} --");
        let mut command: Vec<String> = command.split(' ').map(str::to_owned).collect();
        command.push(format!("-max_total_time={FUZZ_SECONDS}"));
        Part {
            name: format!("fuzz-{target}"),
            about: format!("hostile input, {FUZZ_SECONDS} s (needs cargo-fuzz)"),
            wants: "",
            output: "a test beside the code for each finding",
            command,
            needs_binary: false,
        }
    }));
    Ok(parts)
}

/// A table of the parts.
pub fn list(parts: &[Part]) -> String {
    let mut out = String::from("cargo xtask long PART [-- ARGUMENTS]\n");
    for part in parts {
        let _ = writeln!(out, "\n{}: {}", part.name, part.about);
        if !part.wants.is_empty() {
            let _ = writeln!(out, "    arguments: {}", part.wants);
        }
        let _ = writeln!(out, "    commit: {}", part.output);
    }
    out
}

/// Runs one part with further arguments and says where its output belongs. `Ok(false)` where it fails.
pub fn run(root: &Path, parts: &[Part], name: &str, arguments: &[String]) -> Result<bool> {
    let Some(part) = parts.iter().find(|part| part.name == name) else {
        let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
        bail!("no part {name:?}; the parts are {}", names.join(", "));
    };
    let is_needed = !part.wants.is_empty() && !part.wants.starts_with('[');
    if is_needed && arguments.is_empty() {
        bail!("{name} needs arguments: cargo xtask long {name} -- {}", part.wants);
    }
    let cargo = crate::env::cargo();
    if part.needs_binary {
        let mut build = Command::new(&cargo);
        build.args(["build", "--release", "--bin", "onetrip"]).current_dir(root);
        if !build.status().context("cannot start cargo")?.success() {
            return Ok(false);
        }
    }
    let (program, first) = part.command.split_first().context("a part without a command")?;
    let path = if program == "cargo" { cargo } else { root.join(program) };
    let mut command = Command::new(&path);
    command.args(first).args(arguments).current_dir(root).stdin(Stdio::null());
    if name.starts_with("fuzz-") {
        // Sanitizers need a nightly compiler; this variable allows them with a stable one.
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    let passed = command.status().with_context(|| format!("cannot start {}", path.display()))?.success();
    eprintln!("{name}: {}; its output belongs to {}", if passed { "passed" } else { "FAILED" }, part.output);
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn what_a_part_starts_is_there() {
        let parts = parts(&checkout()).unwrap();
        for part in &parts {
            let program = part.command[0].as_str();
            let is_there = [BINARY, "cargo"].contains(&program) || checkout().join(program).is_file();
            assert!(is_there, "{}: {program}", part.name);
            assert!(list(&parts).contains(&format!("\n{}: ", part.name)) && !part.output.is_empty());
        }
        assert!(parts.iter().any(|part| part.name == "fuzz-gguf"));
        assert!(parts.iter().all(|part| parts.iter().filter(|other| other.name == part.name).count() == 1));
    }

    #[test]
    fn only_parts_that_are_there_run_and_with_what_they_need() {
        let dir = tempfile::tempdir().unwrap();
        let part = |name: &str, wants, arg: &str| Part {
            name: name.into(),
            about: "x".into(),
            wants,
            output: "docs/",
            command: vec!["cargo".into(), arg.into()],
            needs_binary: false,
        };
        let parts =
            [part("good", "[--quiet]", "--version"), part("bad", "", "no-such-command"), part("asks", "FILE", "x")];
        assert!(run(dir.path(), &parts, "good", &[]).unwrap());
        assert!(!run(dir.path(), &parts, "bad", &[]).unwrap());
        assert!(run(dir.path(), &parts, "asks", &[]).unwrap_err().to_string().contains("-- FILE"));
        assert!(run(dir.path(), &parts, "none", &[]).unwrap_err().to_string().contains("good, bad, asks"));
    }
}
