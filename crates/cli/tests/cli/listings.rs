//! Listings: the nodes that another engine ran, explained and counted with our rules.

use std::path::Path;

use serde_json::Value;

use crate::onetrip;

const LISTING: &str = "listing:qwen3.5-9b-ggml-2026-04";

const SMALL: &str = "\
listing 1
engine a test
model a small one
date 2026-11-29
phase decode
batch tokens=1 sequences=1 context=256
weight table q8_0[64,1000]
weight norm.weight f32[64]
input tokens i32[1]
node embd GET_ROWS table tokens f32[64]
node rms RMS_NORM embd f32[64] eps=1e-6
node normed MUL rms norm.weight f32[64]
node logits MUL_MAT table normed f32[1000]
";

fn on_disk(text: impl AsRef<[u8]>) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("step.txt");
    std::fs::write(&path, text).expect("written");
    let model = format!("listing:{}", path.to_str().expect("UTF-8"));
    (dir, model)
}

#[test]
fn the_shipped_listing_without_rules_is_1151_nodes_by_op_with_144_empty_ones() {
    let out = onetrip(&["explain", "--model", LISTING, "--fuse", "none", "--json"]).json();
    assert_eq!((&out["ledger"]["nodes"], &out["ledger"]["nodes_nonempty"]), (&1151.into(), &1007.into()));
    assert_eq!(out["dispatches"].as_array().expect("rows").len(), 1151);
    let by_op = out["listing"]["nodes_by_op"].as_object().expect("ops");
    let have: Vec<(&str, u64)> = by_op.iter().map(|(op, n)| (op.as_str(), n.as_u64().unwrap_or(0))).collect();
    let want = [
        ("ADD", 88),
        ("CONCAT", 24),
        ("CONT", 8),
        ("CPY", 97),
        ("FLASH_ATTN_EXT", 8),
        ("GATED_DELTA_NET", 24),
        ("GET_ROWS", 99),
        ("GLU", 32),
        ("L2_NORM", 48),
        ("MUL", 161),
        ("MUL_MAT", 249),
        ("RMS_NORM", 105),
        ("ROPE", 16),
        ("SCALE", 48),
        ("SET_ROWS", 16),
        ("SSM_CONV", 24),
        ("UNARY", 104),
    ];
    assert_eq!(have, want);
    let text = onetrip(&["explain", "--model", LISTING, "--fuse", "none"]).stdout;
    let row = |cells: &[&str]| text.lines().any(|l| l.split_whitespace().collect::<Vec<_>>() == cells);
    for cells in [["MUL_MAT", "249", "0"], ["SCALE", "48", "48"], ["GET_ROWS", "99", "48"], ["all", "1151", "144"]] {
        assert!(row(&cells), "no {cells:?}");
    }
    assert!(text.contains("llama.cpp") && text.contains("2026-04"));
    let counted = onetrip(&["count", "--model", LISTING, "--fuse", "none"]).stdout;
    assert!(counted.contains("1151 (1007 not empty, 144 empty): MUL_MAT 249, MUL 161"), "{counted}");
}

#[test]
fn the_ladder_of_a_listing_ends_with_our_own_sample_by_itself() {
    let base = ["explain", "--model", LISTING, "--device", "cuda", "--hardware", "h200", "--assume"];
    let all = onetrip(&[&base[..], &["--ladder", "--json"]].concat()).json();
    let ladder = all["ladder"].as_array().expect("a ladder");
    let n = |rung: &Value| rung["dispatches"].as_u64().unwrap_or(0);
    let [.., before, last] = &ladder[..] else { panic!("a short ladder") };
    assert_eq!((&last["rule"], n(last)), (&"sample".into(), n(before) + 1));
    assert_eq!(n(&ladder[0]), 1151);
    assert_eq!(Some(n(last)), all["ledger"]["dispatches"].as_u64());
    assert!(all["predicted"]["tick_us"].as_f64() > Some(0.0));
    let text = onetrip(&[&base[..], &["--ladder"]].concat()).stdout;
    assert!(text.contains("the listing's engine samples on the host"), "{text}");
    let what_if = onetrip(&[&base[..], &["--what-if", "none", "--json"]].concat()).json();
    assert_eq!(what_if["what_if"]["rules"]["dispatches"], 1151);
    let merged = onetrip(&[&base[..], &["--fuse", "none", "--what-if", "merge:1,2", "--json"]].concat()).json();
    assert_eq!(merged["what_if"]["launches_saved"], 1);
}

#[test]
fn listings_are_counted_and_have_a_ladder_on_every_device() {
    for (device, profile, gaps) in [("cpu", "epyc-zen4-2", 1), ("cuda", "h200", 217), ("wgpu", "h200", 217)] {
        let on = |command: &str, more: &[&str]| {
            onetrip(&[&[command, "--model", LISTING, "--device", device, "--json"][..], more].concat()).json()
        };
        for assume in [&["--assume"][..], &[]] {
            let listed = on("count", &[&["--fuse", "none"][..], assume].concat());
            assert_eq!((&listed["ledger"]["dispatches"], &listed["ledger"]["gaps"]), (&1151.into(), &gaps.into()));
            let fused = on("count", assume);
            assert_eq!((&fused["ledger"]["dispatches"], &fused["ledger"]["gaps"]), (&163.into(), &0.into()));
            let shown = on("explain", &[&["--hardware", profile, "--ladder"][..], assume].concat());
            let ladder = shown["ladder"].as_array().expect("a ladder");
            let ends = [&ladder[0], &ladder[ladder.len() - 1]].map(|rung| rung["dispatches"].as_u64());
            assert_eq!(ends, [Some(1151), Some(163)], "{device}");
            assert!(ladder.iter().all(|rung| rung["refused"] == 0 && rung["predicted_us"].as_f64() > Some(0.0)));
        }
    }
}

#[test]
fn a_listing_of_ones_own_is_explained_and_counted_but_not_run() {
    let (_dir, model) = on_disk(SMALL);
    let counted = onetrip(&["count", "--model", &model, "--fuse", "none", "--json"]).json();
    assert_eq!(counted["ledger"]["dispatches"], 4);
    assert_eq!(counted["ledger"]["nodes_by_op"]["GET_ROWS"], 1);
    // Norm and weight become the head's prologue; then comes our sample.
    let fused = onetrip(&["count", "--model", &model, "--json"]).json();
    assert_eq!((&fused["ledger"]["dispatches"], &fused["ledger"]["nodes"]), (&3.into(), &4.into()));
    for run in [&["run", "x"][..], &["bench"], &["profile"], &["ppl", "--tokens", "1,2"], &["tokenize", "x"]] {
        onetrip(&[run, &["--model", &model]].concat()).refused(2, &["listing of nodes without weights", "explain"]);
    }
}

#[test]
fn a_listing_is_one_step_with_types_of_its_own() {
    for flags in [
        &["--phase", "prefill"][..],
        &["--batch", "2"],
        &["--context", "512"],
        &["--phase", "prefill", "--prompt", "9"],
    ] {
        onetrip(&[&["count", "--model", LISTING][..], flags].concat()).refused(2, &["one recorded step", "--batch"]);
    }
    // What it is anyhow may be said.
    let same = ["count", "--model", LISTING, "--phase", "decode", "--batch", "1", "--context", "256"];
    assert_eq!(onetrip(&same).code, Some(0));
    for flags in [["--weights", "f16"], ["--cache", "f32"]] {
        onetrip(&[&["count", "--model", LISTING][..], &flags].concat()).refused(2, &["types of its own", "--cache"]);
    }
}

#[test]
fn a_bad_listing_is_bad_input_with_its_line() {
    onetrip(&["explain", "--model", "listing:qwen"]).refused(2, &["no listing `qwen`", "qwen3.5-9b-ggml-2026-04"]);
    onetrip(&["explain", "--model", "listing:no/such.txt"]).refused(2, &["no/such.txt", "check the path"]);
    for (from, to, words) in [
        ("RMS_NORM", "RMS_NROM", &["line 11", "unknown op `RMS_NROM`", "did you mean `RMS_NORM`?"][..]),
        ("MUL rms", "MUL rsm", &["line 12", "`rsm`", "not named"]),
        ("node rms", "node embd", &["line 11", "`embd` is named on line 10"]),
        ("normed f32[1000]", "normed f32[999]", &["line 13", "shapes disagree", "1000"]),
        ("listing 1", "listing 7", &["line 1", "listing 1"]),
    ] {
        let (_dir, model) = on_disk(SMALL.replacen(from, to, 1));
        onetrip(&["explain", "--model", &model]).refused(2, words);
    }
    let (_dir, model) = on_disk([SMALL.as_bytes(), b"node \xff\n"].concat());
    onetrip(&["count", "--model", &model]).refused(2, &["line 14", "not UTF-8"]);
    // Directories and endless files are no listings.
    let dir = tempfile::tempdir().expect("a folder");
    onetrip(&["count", "--model", &format!("listing:{}", dir.path().display())]).refused(2, &["cannot read"]);
    if Path::new("/dev/zero").exists() {
        onetrip(&["count", "--model", "listing:/dev/zero"]).refused(2, &["at most"]);
    }
}

#[test]
fn a_gate_holds_a_listing_and_a_device_without_kernels() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate = dir.path().join("gate.json");
    let gate = gate.to_str().expect("UTF-8");
    let args = ["count", "--model", LISTING, "--device", "cuda", "--assume"];
    assert_eq!(onetrip(&[&args[..], &["--write-gate", gate]].concat()).code, Some(0));
    // It brings its listing, device and --assume.
    let passed = onetrip(&["count", "--gate", gate, "--json"]).json();
    assert_eq!((&passed["gate"]["passed"], &passed["device"]), (&true.into(), &"cuda".into()));
    let text = std::fs::read_to_string(gate).expect("a gate");
    std::fs::write(gate, text.replace("\"assume\": true", "\"assume\": 1")).expect("written");
    onetrip(&["count", "--gate", gate]).refused(2, &["`assume`", "true"]);
}

#[test]
fn what_each_rule_gains_is_measured_and_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("rules.json");
    let file = file.to_str().expect("UTF-8");
    let args = ["bench", "--rules", "--context", "8", "--write", file];
    let read = || -> Value { serde_json::from_str(&std::fs::read_to_string(file).expect("a file")).expect("JSON") };
    let out = onetrip(&[&args[..], &["--threads", "1", "--json"]].concat()).json();
    assert_eq!(out["rows"], read()["rows"]);
    let rows = out["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["rule"] == "gate-up").expect("a rule that fires");
    assert_eq!((&row["model"], &row["threads"], &row["pairs"]), (&"tiny".into(), &1.into(), &8.into()));
    let us = |key: &str| row["gain_us"][key].as_f64().expect("a number");
    assert!(us("min") <= us("median") && us("median") <= us("max") && row["tick_us"].as_f64() > Some(0.0));
    assert!(["faster", "slower", "coin flip"].contains(&row["verdict"].as_str().unwrap_or("")), "{row}");
    // The same again takes their place; another number of threads comes beside them.
    for threads in ["1", "2"] {
        assert_eq!(onetrip(&[&args[..], &["--threads", threads]].concat()).code, Some(0));
    }
    assert_eq!(read()["rows"].as_array().map(Vec::len), Some(2 * rows.len()));
    std::fs::write(file, "7").expect("written");
    onetrip(&args).refused(2, &["rules.json", "no list `rows`"]);
    onetrip(&["bench", "--rules", "--prompt", "9"]).refused(2, &["--rules", "--prompt"]);
}

/// Those of models with weights are for `cargo xtask ci`, which has the files.
#[test]
fn the_committed_gates_of_shapes_and_listings_hold() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/gates");
    let mut held = 0;
    for entry in std::fs::read_dir(dir).expect("gates") {
        let path = entry.expect("a gate").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let gate: Value = serde_json::from_str(&text).expect("JSON");
        if !gate["model"].as_str().is_some_and(|model| model.contains(':')) {
            continue;
        }
        let done = onetrip(&["count", "--gate", path.to_str().expect("UTF-8")]);
        assert_eq!(done.code, Some(0), "{}: {}", path.display(), done.stderr);
        held += 1;
    }
    assert!(held >= 15, "{held} gates");
}
