//! What each command prints with `--json` is what its schema under `docs/schema/` says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::chat::{TEMPLATE, chat_model};
use crate::{Done, command, has_gpu, onetrip, onetrip_with_stdin, tiny};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The schema called `name`: a command, or `files/NAME`.
fn schema(name: &str) -> Value {
    read(&folder().join(format!("{name}.json")))
}

/// The schema of what every command prints that fails.
const ERROR: &str = "error";

/// Names of the schemas in the folder itself, but for [`ERROR`]: those of commands.
fn schemas() -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder()).expect("docs/schema").map(|e| e.expect("an entry").path());
    let files = entries.filter(|p| p.extension().is_some_and(|e| e == "json"));
    let names = files.map(|p| p.file_stem().expect("a name").to_string_lossy().into_owned());
    names.filter(|name| name != ERROR).collect()
}

/// Commands as the help lists them; `--json` is a flag of all.
fn commands() -> BTreeSet<String> {
    let help = onetrip(&["--help"]).stdout;
    let list = help.split("Commands:\n").nth(1).expect("a list of commands");
    let list = list.lines().take_while(|line| !line.is_empty());
    list.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(String::from).collect()
}

fn errors(schema: &Value, value: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(schema).expect("a schema");
    validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// Asserts that `value` is what `schema` says, and that it would not be with a key that is not described, or without one
/// of its own, or in another version.
#[track_caller]
pub fn holds(name: &str, value: &Value) {
    let schema = schema(name);
    let wrong = errors(&schema, value);
    assert!(wrong.is_empty(), "{name}: {wrong:#?}\n{value}");
    for pointer in objects(value) {
        let mut more = value.clone();
        more.pointer_mut(&pointer).expect("an object")["no_such_key"] = json!("text");
        assert!(!errors(&schema, &more).is_empty(), "{name}: any key is allowed in `{pointer}`");
    }
}

/// Places of the first object in each list, and of all others.
fn objects(value: &Value) -> Vec<String> {
    let below = |key: &str, inner: &Value| objects(inner).into_iter().map(|p| format!("/{key}{p}")).collect::<Vec<_>>();
    match value {
        Value::Object(map) => {
            std::iter::once(String::new()).chain(map.iter().flat_map(|(key, v)| below(key, v))).collect()
        }
        Value::Array(list) => list.first().map(|v| below("0", v)).unwrap_or_default(),
        _ => vec![],
    }
}

/// The object of a run that ended with `code`, which its schema describes; the version comes first.
#[track_caller]
fn printed(done: &Done, name: &str, code: i32) -> Value {
    assert_eq!(done.code, Some(code), "{name}: {}", done.stderr);
    let version = &schema(name)["properties"]["version"]["const"];
    let version = if version.is_null() { &schema(name)["oneOf"][0]["properties"]["version"]["const"] } else { version };
    assert!(done.stdout.starts_with(&format!("{{\"version\":{version},")), "{name}: {}", done.stdout);
    let value: Value = serde_json::from_str(&done.stdout).expect("stdout is one JSON object");
    holds(name, &value);
    value
}

/// As [`printed`], of a command that succeeds with `--json`.
#[track_caller]
fn works(args: &[&str]) -> Value {
    printed(&onetrip(&[args, &["--json"]].concat()), args[0], 0)
}

#[test]
fn every_command_has_a_schema_and_every_schema_a_command() {
    assert_eq!(commands(), schemas());
    // Not by chance: the list is long, and has the first and the last.
    assert!(commands().len() >= 12 && commands().contains("run") && commands().contains("selftest"));
}

/// Every command once, in its usual form.
#[test]
fn every_command_prints_what_its_schema_says() {
    let dir = tempfile::tempdir().expect("a folder");
    let (model, profile) = (chat_model(&dir, TEMPLATE), dir.path().join("own.toml"));
    let profile = profile.to_str().expect("UTF-8");
    let usual: [&[&str]; 11] = [
        &["run", "It is a truth", "-n", "4"],
        &["explain"],
        &["count"],
        &["calibrate", "--write", profile, "--threads", "1", "--formats", "q8_0"],
        &["profile", "--repeat", "5", "--threads", "1", "--hardware", profile],
        &["bench", "--prompt", "8", "--gen", "4", "--repeat", "1"],
        &["ppl", "--tokens", "1,2,3"],
        &["tokenize", "It is a truth"],
        &["inspect", "tiny"],
        &["devices"],
        &["selftest", "--op", "rms_norm"],
    ];
    let mut values: Vec<(&str, Value)> = usual.iter().map(|args| (args[0], works(args))).collect();
    let chat = onetrip_with_stdin(&["chat", "--model", &model, "-n", "4", "--json"], b"It is a truth\nfor you\n");
    values.push(("chat", printed(&chat, "chat", 0)));
    let covered: BTreeSet<String> = values.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(covered, commands());
    for (name, value) in &values {
        // These have no key that comes only with a flag, so none of them may be missing.
        for key in value.as_object().expect("an object").keys() {
            let mut less = value.clone();
            less.as_object_mut().expect("an object").remove(key);
            assert!(!errors(&schema(name), &less).is_empty(), "{name}: `{key}` may be left out");
        }
        let mut later = value.clone();
        later["version"] = 2.into();
        assert!(!errors(&schema(name), &later).is_empty(), "{name}: any version is allowed");
    }
}

#[test]
fn other_forms_of_a_command_are_described_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_string();
    assert!(works(&["run", "--tokens", "1,2", "-n", "2", "--logprobs", "2"])["logprobs"].is_array());
    assert!(works(&["run", "--tokens", "1,2", "-n", "0"])["prefill"].is_object());
    let explain: [&[&str]; 7] = [
        &["--hardware", "epyc-zen4-2", "--ladder"],
        &["--what-if", "none"],
        &["--what-if", "merge:1,2", "--fuse", "none", "--hardware", "epyc-zen4-2"],
        &["--phase", "prefill", "--prompt", "16", "--batch", "2"],
        &["--model", "shape:qwen3.5-9b:q4_0", "--device", "cuda", "--hardware", "h200", "--assume"],
        &["--model", "listing:qwen3.5-9b-ggml-2026-04", "--fuse", "none"],
        &["--model", "shape:smollm2-135m:q4_1", "--device", "wgpu", "--hardware", "h200"],
    ];
    let shown: Vec<Value> = explain.iter().map(|flags| works(&[&["explain"], *flags].concat())).collect();
    assert!(shown[0]["ladder"].is_array() && shown[0]["predicted"].is_object());
    assert!(shown[1]["what_if"]["rules"].is_object() && shown[2]["what_if"]["merge"].is_array());
    assert!(shown[5]["listing"].is_object() && shown[5]["dispatches"].as_array().is_some_and(|d| !d.is_empty()));
    works(&["ppl", "--teacher", "1,2,3"]);
    works(&["tokenize", "--decode", "5,6"]);
    works(&["inspect", tiny().to_str().expect("UTF-8")]);
    works(&["selftest", "--replays", "3", "--threads", "1"]);
    let rules = file("rules.json");
    let gains =
        works(&["bench", "--rules", "--fuse", "gate-up", "--context", "8", "--threads", "1", "--write", &rules]);
    assert_eq!(gains["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(read(Path::new(&rules)), gains, "the file holds the same object");
    works(&["bench", "--prompt", "0", "--gen", "2", "--repeat", "1"]);
}

#[test]
fn gates_and_what_is_held_against_them_are_described() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate = dir.path().join("gate.json");
    let name = gate.to_str().expect("UTF-8");
    let flags = ["--phase", "prefill", "--prompt", "8", "--fuse", "none", "--cache", "f32", "--compute", "f32"];
    works(&[&["count", "--weights", "f16", "--write-gate", name][..], &flags].concat());
    let written = read(&gate);
    assert!(std::fs::read_to_string(&gate).expect("a gate").starts_with("{\n  \"version\": 1,\n"));
    holds("files/gate", &written);
    assert_eq!(works(&["count", "--gate", name])["gate"]["passed"], true);
    let mut less = written.clone();
    less["dispatches"] = 1.into();
    std::fs::write(&gate, less.to_string()).expect("written");
    assert_eq!(printed(&onetrip(&["count", "--gate", name, "--json"]), "count", 1)["gate"]["passed"], false);
    // Gates of this repository, some from before there was a version.
    let gates = std::fs::read_dir(folder().join("../../bench/gates")).expect("bench/gates");
    let gates: Vec<Value> = gates.map(|e| read(&e.expect("an entry").path())).collect();
    assert!(gates.len() > 10);
    gates.iter().for_each(|gate| holds("files/gate", gate));
}

#[test]
fn a_gate_without_a_version_is_read_and_a_later_one_is_not() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate = dir.path().join("gate.json");
    let name = gate.to_str().expect("UTF-8");
    for (text, holds) in [(r#"{"dispatches": 1000}"#, true), (r#"{"version": 1, "dispatches": 1}"#, false)] {
        std::fs::write(&gate, text).expect("written");
        assert_eq!(onetrip(&["count", "--gate", name]).code, Some(if holds { 0 } else { 1 }), "{text}");
    }
    for (text, word) in [
        (r#"{"version": 2, "dispatches": 1000}"#, "version 2"),
        (r#"{"version": "new", "dispatches": 1000}"#, "`version`"),
        (r#"{"version": 1}"#, "no row to check"),
    ] {
        std::fs::write(&gate, text).expect("written");
        onetrip(&["count", "--gate", name]).refused(2, &[word, "gate.json"]);
    }
}

#[test]
fn a_generation_that_fails_says_so_in_its_object() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("damaged.gguf");
    let mut bytes = std::fs::read(tiny()).expect("the embedded model");
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    std::fs::write(&path, bytes).expect("written");
    let args = ["run", "--tokens", "1,2,3", "-n", "4", "--json", "--model", path.to_str().expect("UTF-8")];
    let value = printed(&onetrip(&args), "run", 1);
    assert!(value["error"].as_str().is_some_and(|e| e.contains("not finite")), "{value}");
}

#[test]
fn what_a_gpu_prints_is_described() {
    if !has_gpu() {
        return;
    }
    works(&["run", "--tokens", "1,2,3", "-n", "2", "--device", "wgpu"]);
    works(&["profile", "--device", "wgpu", "--repeat", "5"]);
    works(&["selftest", "--op", "rms_norm", "--device", "wgpu"]);
    let dir = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let output = command(args).env("ONETRIP_PROFILES", dir.path()).output().expect("the binary starts");
        printed(&Done::of(output), args[0], 0)
    };
    run(&["calibrate", "--device", "wgpu", "--quick", "--formats", "f16", "--json"]);
    let sizes = ["--batch", "1", "--prompt", "1", "--gen", "1"];
    let sweep = run(&[&["bench", "--commit-sweep=tick", "--device", "wgpu", "--json", "--write"][..], &sizes].concat());
    assert!(sweep["written"].is_string());
}

/// Calls `each` with every schema inside a schema, with its place.
fn walk(place: &str, schema: &Value, each: &mut dyn FnMut(&str, &Value)) {
    each(place, schema);
    for key in ["properties", "$defs"] {
        for (name, inner) in schema[key].as_object().into_iter().flatten() {
            walk(&format!("{place}/{name}"), inner, each);
        }
    }
    for key in ["items", "additionalProperties"].into_iter().filter(|key| schema[key].is_object()) {
        walk(place, &schema[key], each);
    }
    for inner in ["oneOf", "prefixItems"].into_iter().filter_map(|key| schema[key].as_array()).flatten() {
        walk(place, inner, each);
    }
}

#[test]
fn schemas_are_closed_described_and_say_the_same_of_the_same() {
    let names: Vec<String> = schemas().into_iter().chain(["files/gate".into(), ERROR.into()]).collect();
    let mut shared: std::collections::BTreeMap<String, Value> = Default::default();
    for name in &names {
        let schema = schema(name);
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name} is no schema");
        assert!(schema["title"].is_string() && schema["description"].is_string() && schema.get("$id").is_none());
        let mut used = BTreeSet::new();
        walk(name, &schema, &mut |place, part| {
            for (key, property) in part["properties"].as_object().into_iter().flatten() {
                assert!(
                    property["description"].as_str().is_some_and(|d| d.ends_with('.')),
                    "{place}/{key}: no sentence"
                );
                let unit = |ending: &str, words: &[&str]| {
                    let text = property["description"].as_str().unwrap_or_default();
                    assert!(!key.ends_with(ending) || words.iter().any(|w| text.contains(w)), "{place}/{key}: no unit");
                };
                unit("_us", &["µs"]);
                unit("_bytes", &["bytes", "Bytes"]);
                unit("bytes_per_s", &["Bytes per second"]);
                unit("tok_s", &["per second"]);
            }
            if part["properties"].is_object() {
                assert_eq!(part["additionalProperties"], false, "{place} is open");
            }
            used.extend(part["$ref"].as_str().map(|r| r.trim_start_matches("#/$defs/").to_string()));
        });
        for (def, content) in schema["$defs"].as_object().into_iter().flatten() {
            assert!(used.contains(def), "{name}: `{def}` is not used");
            let first = shared.entry(def.clone()).or_insert_with(|| content.clone());
            assert_eq!(first, content, "`{def}` differs in {name}");
        }
    }
}
