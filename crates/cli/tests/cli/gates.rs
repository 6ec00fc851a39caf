//! Gates: counts that may not creep up.

use crate::onetrip;

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().expect("UTF-8").to_string()
}

#[test]
fn a_gate_that_was_just_written_passes_and_more_dispatches_fail_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate = path(&dir, "gate.json");
    assert_eq!(onetrip(&["count", "--write-gate", &gate]).code, Some(0));
    let pass = onetrip(&["count", "--gate", &gate]);
    assert_eq!((pass.code, pass.stderr.as_str()), (Some(0), ""));
    let fail = onetrip(&["count", "--gate", &gate, "--fuse", "none"]);
    assert_eq!(fail.code, Some(1));
    assert_eq!(fail.stderr.lines().count(), 1);
    for word in ["gate.json", "dispatches", "is above the gate's", "elementwise", "--write-gate"] {
        assert!(fail.stderr.contains(word), "no {word:?} in {:?}", fail.stderr);
    }
}

#[test]
fn a_gate_brings_its_step_and_counts_that_it_lacks_are_not_checked() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate = path(&dir, "gate.json");
    let args = ["count", "--phase", "prefill", "--prompt", "40", "--batch", "2", "--write-gate", &gate];
    assert_eq!(onetrip(&args).code, Some(0));
    let out = onetrip(&["count", "--gate", &gate, "--json"]).json();
    assert_eq!(out["gate"]["passed"], true);
    assert_eq!(
        (&out["step"]["phase"], &out["step"]["prompt"], &out["step"]["batch"]),
        (&"prefill".into(), &40.into(), &2.into())
    );
    // A file by hand with one count: the others may be anything.
    std::fs::write(&gate, r#"{"dispatches": 100000}"#).expect("written");
    assert_eq!(onetrip(&["count", "--gate", &gate]).code, Some(0));
    std::fs::write(&gate, r#"{"dispatches": 1}"#).expect("written");
    let fail = onetrip(&["count", "--gate", &gate, "--json"]);
    assert_eq!(fail.code, Some(1));
    let out: serde_json::Value = serde_json::from_str(&fail.stdout).expect("JSON");
    assert_eq!(out["gate"]["passed"], false);
}

#[test]
fn a_damaged_gate_is_bad_input() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate = path(&dir, "gate.json");
    onetrip(&["count", "--gate", &gate]).refused(2, &["gate.json", "cannot read"]);
    for (content, word) in [
        ("{", "gate.json"),
        ("[]", "gate.json"),
        (r#"{"dispatches": "many"}"#, "`dispatches`"),
        (r#"{"dispatches": 1, "batch": 0}"#, "`batch`"),
        (r#"{"dispatches": 1, "phase": "lunch"}"#, "`phase`"),
        (r#"{"model": 7, "dispatches": 1}"#, "`model`"),
        (r#"{"dispatchs": 7}"#, "`dispatchs` is no key of a gate"),
        (r#"{"model": "tiny"}"#, "no row to check"),
        (r#"{"dispatches": 7.5}"#, "`dispatches`"),
        (r#"{"dispatches": 7, "dispatches_by_op": {"matmul": "x"}}"#, "`dispatches_by_op`"),
        (r#"{"dispatches": 7, "cache": "q9"}"#, "`cache`"),
        (r#"{"dispatches": 7, "model": "no/such.gguf"}"#, "no/such.gguf"),
    ] {
        std::fs::write(&gate, content).expect("written");
        onetrip(&["count", "--gate", &gate]).refused(2, &[word, "gate.json"]);
    }
    onetrip(&["count", "--write-gate", &path(&dir, "no/such/gate.json")]).refused(2, &["cannot write", "a folder"]);
}

#[test]
fn a_gate_keeps_what_is_not_the_default_and_says_when_the_model_is_another() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate = path(&dir, "gate.json");
    let flags = ["--fuse", "none", "--cache", "f32", "--compute", "f32", "--weights", "f16"];
    assert_eq!(onetrip(&[&["count", "--write-gate", &gate][..], &flags].concat()).code, Some(0));
    let text = std::fs::read_to_string(&gate).expect("a gate");
    for pair in [r#""fuse": "none""#, r#""cache": "f32""#, r#""compute": "f32""#, r#""weights": "f16""#] {
        assert!(text.contains(pair), "no {pair} in {text}");
    }
    // With the defaults the counts of bytes would be others.
    let (with, without) = (onetrip(&["count", "--gate", &gate, "--json"]).json(), onetrip(&["count", "--json"]).json());
    assert_eq!(with["gate"]["passed"], true);
    assert_ne!(with["ledger"]["bytes_read"], without["ledger"]["bytes_read"]);
    let other = onetrip(&["count", "--gate", &gate, "--model", "shape:smollm2-135m:q4_1"]);
    assert!(other.stderr.starts_with("note: the gate ") && other.stderr.contains("for the model tiny"), "{other:?}");
}
