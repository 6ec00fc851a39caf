//! `cargo xtask ci`: the slower checks, on whole models in release builds. Every part runs, even after a failed one; the
//! summary names each with its time.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// One check: a name and a cargo command.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What the summary calls it.
    pub name: String,
    /// Arguments for cargo.
    pub args: Vec<String>,
}

/// Parts that always run: name and arguments for cargo. What `cargo test` has run, and is no faster in release, is left out.
const FIXED: [(&str, &[&str]); 1] = [(
    "parity on whole models",
    &[
        "run",
        "--quiet",
        "--release",
        "-p",
        "onetrip-parity",
        "--bin",
        "parity",
        "--",
        "--include-models",
        "--skip",
        "op/",
        "--skip",
        "kernels/",
        "--skip",
        "emulated/",
        "--skip",
        "rules/",
    ],
)];

/// Folder of count gates; each file is handed to `onetrip count --gate`.
const GATES: &str = "bench/gates";

/// The parts for the checkout at `root` with models in `models`: the fixed ones, then one for each gate.
///
/// A gate file names its model with a line or key `model`, a path below the models folder; without one, or with `tiny`,
/// the embedded model is counted; a shape or a listing is counted as it is named.
pub fn parts(root: &Path, models: &Path) -> Result<Vec<Part>> {
    let own = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let mut parts: Vec<_> =
        FIXED.iter().map(|(name, args)| Part { name: (*name).to_owned(), args: own(args) }).collect();
    let folder = root.join(GATES);
    if !folder.is_dir() {
        return Ok(parts);
    }
    let entries = std::fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut gates: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    gates.sort();
    for gate in gates.iter().filter(|gate| gate.extension().is_some_and(|e| e == "json" || e == "toml")) {
        let file = gate.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(gate).with_context(|| format!("cannot read the gate {file}"))?;
        let mut args = own(&["run", "--quiet", "--release", "-p", "onetrip", "--", "count", "--gate"]);
        args.push(format!("{GATES}/{file}"));
        // What the program has by name is no file.
        let is_file = |model: &String| model != "tiny" && !model.contains(':');
        if let Some(model) = gate_model(&text).filter(is_file) {
            args.extend(["--model".to_owned(), models.join(model).to_string_lossy().into_owned()]);
        }
        parts.push(Part { name: format!("gate {file}"), args });
    }
    Ok(parts)
}

/// The value of `"model": "…"` (JSON) or `model = "…"` (TOML).
fn gate_model(text: &str) -> Option<String> {
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(text) {
        return json.get("model")?.as_str().map(str::to_owned);
    }
    let value = |line: &str| {
        let rest = line.trim().strip_prefix("model")?.trim_start().strip_prefix('=')?.trim();
        Some(rest.strip_prefix('"')?.split('"').next()?.to_owned())
    };
    text.lines().find_map(value)
}

/// Runs the parts whose name contains `only`; prints each one's outcome and time. `Ok(true)` when all passed.
pub fn run(root: &Path, parts: &[Part], only: Option<&str>) -> Result<bool> {
    let chosen: Vec<_> = parts.iter().filter(|part| only.is_none_or(|text| part.name.contains(text))).collect();
    ensure!(!chosen.is_empty(), "no part has {:?} in its name", only.unwrap_or_default());
    let mut results = Vec::new();
    for part in chosen {
        println!("== {} ==", part.name);
        let start = Instant::now();
        let mut command = Command::new(crate::env::cargo());
        command.args(&part.args).current_dir(root).stdin(Stdio::null());
        let passed = match command.status() {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("cannot start cargo: {error}");
                false
            }
        };
        results.push((part.name.as_str(), passed, start.elapsed()));
    }
    print!("{}", summary(&results));
    Ok(results.iter().all(|(_, passed, _)| *passed))
}

fn summary(results: &[(&str, bool, Duration)]) -> String {
    let line = |(name, passed, time): &(&str, bool, Duration)| {
        format!("{:>8.1} s  {}  {name}\n", time.as_secs_f64(), if *passed { "passed" } else { "FAILED" })
    };
    let failed = results.iter().filter(|(_, passed, _)| !passed).count();
    let lines: String = results.iter().map(line).collect();
    format!("{lines}ci: {} part(s), {failed} failed\n", results.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_file_is_a_part_with_its_model() {
        let dir = tempfile::tempdir().unwrap();
        let gates = dir.path().join(GATES);
        std::fs::create_dir_all(&gates).unwrap();
        std::fs::write(gates.join("b.json"), r#"{"model": "smollm2/a.gguf", "dispatches": 184}"#).unwrap();
        std::fs::write(gates.join("a.toml"), "# counts\nmodel = \"tiny\"\n").unwrap();
        std::fs::write(gates.join("c.json"), r#"{"model": "shape:llama-8b:q4_0", "dispatches": 9}"#).unwrap();
        std::fs::write(gates.join("notes.md"), "").unwrap();
        let parts = parts(dir.path(), Path::new("models")).unwrap();
        let names: Vec<_> = parts.iter().skip(FIXED.len()).map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["gate a.toml", "gate b.json", "gate c.json"]);
        assert!(parts[FIXED.len()].args.ends_with(&["bench/gates/a.toml".to_owned()]));
        assert!(parts[FIXED.len() + 2].args.ends_with(&["bench/gates/c.json".to_owned()]));
        assert!(parts[FIXED.len() + 1].args.ends_with(&["--model".to_owned(), "models/smollm2/a.gguf".to_owned()]));
    }

    #[test]
    fn a_failed_part_fails_the_run_and_the_others_still_run() {
        let part = |name: &str, arg: &str| Part { name: name.into(), args: vec![arg.into()] };
        let parts = [part("bad", "no-such-subcommand"), part("good", "--version")];
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(!run(root, &parts, None).unwrap());
        assert!(run(root, &parts, Some("good")).unwrap());
        assert!(run(root, &parts, Some("none such")).is_err());
        let text = summary(&[("bad", false, Duration::ZERO), ("good", true, Duration::from_secs(2))]);
        assert!(text.contains("FAILED  bad") && text.contains("2.0 s  passed  good"), "{text}");
    }
}
