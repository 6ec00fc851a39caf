//! The JSON of each command.

use serde_json::Value;

use crate::onetrip;

#[track_caller]
fn has(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no `{key}` in {value}");
    }
}

#[track_caller]
fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!(number > 0.0, "{number}");
    number
}

fn ids(value: &Value) -> Vec<u64> {
    value.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id")).collect()
}

const LEDGER: [&str; 14] = [
    "nodes",
    "nodes_nonempty",
    "nodes_by_op",
    "dispatches",
    "dispatches_by_op",
    "grid_syncs",
    "barriers",
    "commits",
    "waits",
    "copies",
    "off_device",
    "bytes_read",
    "bytes_written",
    "flops",
];

#[test]
fn run_reports_ids_text_times_and_the_ledger_of_a_tick() {
    let out = onetrip(&["run", "It is a truth", "-n", "6", "--ignore-eos", "--json"]).json();
    has(&out, &["prompt_tokens", "tokens", "text", "prefill", "decode", "ledger", "stopped"]);
    has(&out["ledger"], &LEDGER);
    assert_eq!(ids(&out["tokens"]).len(), 6);
    assert_eq!(out["stopped"], "length");
    assert_eq!(out["prefill"]["tokens"].as_u64(), Some(ids(&out["prompt_tokens"]).len() as u64));
    assert_eq!(out["decode"]["tokens"], 5);
    positive(&out["prefill"]["tok_s"]);
    positive(&out["decode"]["tok_s"]);
    assert!(out.get("logprobs").is_none());
}

#[test]
fn ids_in_place_of_a_text_give_the_same_tokens() {
    let text = onetrip(&["run", "It is a truth", "-n", "6", "--json"]).json();
    let list: Vec<String> = ids(&text["prompt_tokens"]).iter().map(u64::to_string).collect();
    let by_ids = onetrip(&["run", "--tokens", &list.join(","), "-n", "6", "--json"]).json();
    assert_eq!(text["tokens"], by_ids["tokens"]);
    assert_eq!(text["text"], by_ids["text"]);
}

#[test]
fn log_probabilities_are_of_the_tokens_and_the_best_come_first() {
    let out = onetrip(&["run", "It is a truth", "-n", "4", "--temperature", "0", "--logprobs", "3", "--json"]).json();
    let (tokens, list) = (ids(&out["tokens"]), out["logprobs"].as_array().expect("a list").clone());
    assert_eq!(tokens.len(), list.len());
    for (id, entry) in tokens.iter().zip(&list) {
        assert_eq!(entry["id"].as_u64(), Some(*id));
        let top = entry["top"].as_array().expect("a list");
        assert_eq!(top.len(), 3);
        // Greedy: the token is the best one.
        assert_eq!(top[0][0].as_u64(), Some(*id));
        assert!((top[0][1].as_f64().unwrap() - entry["logprob"].as_f64().unwrap()).abs() < 1e-4);
        assert!(top[0][1].as_f64() >= top[1][1].as_f64() && top[0][1].as_f64().unwrap() <= 0.0);
    }
}

#[test]
fn a_stop_text_ends_the_text_before_it() {
    let whole = onetrip(&["run", "It is a truth", "-n", "24", "--json"]).json()["text"].as_str().unwrap().to_string();
    let word = whole.split_whitespace().nth(3).expect("some words").to_string();
    let out = onetrip(&["run", "It is a truth", "-n", "24", "--stop", &word, "--json"]).json();
    assert_eq!(out["stopped"], "stop");
    assert_eq!(out["text"].as_str(), whole.split(&word).next());
}

#[test]
fn a_dispatch_has_these_keys_and_the_ledger_adds_them_up() {
    for args in
        [&["explain", "--json"][..], &["explain", "--json", "--phase", "prefill", "--prompt", "64", "--batch", "2"]]
    {
        let out = onetrip(args).json();
        let dispatches = out["dispatches"].as_array().expect("a list");
        let want = ["n", "name", "op", "device", "kernel", "bytes_read", "bytes_written", "flops", "gap"];
        for d in dispatches {
            // These first; what is predicted comes behind them.
            assert_eq!(d.as_object().unwrap().keys().take(want.len()).collect::<Vec<_>>(), want);
            assert!(d["gap"].is_null());
        }
        let ledger = &out["ledger"];
        has(ledger, &LEDGER);
        assert_eq!(ledger["dispatches"].as_u64(), Some(dispatches.len() as u64));
        for key in ["bytes_read", "bytes_written", "flops"] {
            let sum: u64 = dispatches.iter().map(|d| d[key].as_u64().unwrap()).sum();
            assert_eq!(ledger[key].as_u64(), Some(sum), "{key}");
        }
    }
}

#[test]
fn without_rules_there_is_a_dispatch_for_each_node_that_is_not_dropped() {
    let dispatches = |fuse: &str| onetrip(&["count", "--fuse", fuse, "--json"]).json()["ledger"].clone();
    let (none, all) = (dispatches("none"), dispatches("all"));
    assert_eq!(none["dispatches"], none["nodes"]);
    assert_eq!(none["nodes"], all["nodes"]);
    assert!(all["dispatches"].as_u64() < none["dispatches"].as_u64());
}

#[test]
fn a_profile_has_a_time_for_every_row_and_the_totals_stand_side_by_side() {
    let out = onetrip(&["profile", "--repeat", "5", "--context", "32", "--json"]).json();
    has(&out, &["rows", "as_run_us", "as_timed_us", "unexplained_us", "gaps_us", "machine", "date"]);
    let plan = onetrip(&["explain", "--context", "32", "--json"]).json();
    let rows = out["rows"].as_array().expect("a list");
    let dispatches = plan["dispatches"].as_array().expect("a list");
    assert_eq!(rows.len(), dispatches.len());
    for (row, d) in rows.iter().zip(dispatches) {
        assert_eq!((&row["name"], &row["kernel"]), (&d["name"], &d["kernel"]));
        assert!(row["us"].as_f64().is_some_and(|us| us >= 0.0));
    }
    positive(&out["as_run_us"]);
    positive(&out["as_timed_us"]);
    assert!(onetrip(&["profile", "--repeat", "5", "--phase", "prefill", "--prompt", "16"]).code == Some(0));
}

#[test]
fn bench_gives_median_min_and_max() {
    let out = onetrip(&[
        "bench",
        "--prompt",
        "20",
        "--gen",
        "4",
        "--context",
        "3",
        "--batch",
        "2",
        "--repeat",
        "3",
        "--json",
    ]);
    let out = out.json();
    for key in ["prefill_tok_s", "decode_tok_s"] {
        let [median, min, max] = ["median", "min", "max"].map(|k| positive(&out[key][k]));
        assert!(min <= median && median <= max, "{key}: {}", out[key]);
    }
    positive(&out["load_s"]);
    has(&out, &["peak_rss_bytes", "machine", "device", "model", "dispatches_per_tick", "tick_us"]);
    assert_eq!((&out["device"], &out["model"]), (&"cpu".into(), &"tiny".into()));
}

#[test]
fn perplexity_of_a_text_and_of_its_ids_are_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("text.txt");
    let text = "It is a truth universally acknowledged, that a single man must be in want of a wife.";
    std::fs::write(&file, text).expect("written");
    let by_text = onetrip(&["ppl", "--text", file.to_str().unwrap(), "--limit", "12", "--json"]).json();
    let perplexity = positive(&by_text["perplexity"]);
    assert_eq!((&by_text["tokens"], &by_text["predictions"]), (&12.into(), &11.into()));
    let tokens = onetrip(&["tokenize", text, "--json"]).json();
    let list: Vec<String> = ids(&tokens["tokens"]).iter().take(12).map(u64::to_string).collect();
    let by_ids = onetrip(&["ppl", "--tokens", &list.join(" "), "--json"]).json();
    assert!((perplexity - positive(&by_ids["perplexity"])).abs() < 1e-9 * perplexity);
    // Windows: 12 tokens in windows of 5 are 4 + 4 + 1 predictions.
    let windows = onetrip(&["ppl", "--tokens", &list.join(" "), "--context", "5", "--json"]).json();
    assert_eq!((&windows["windows"], &windows["predictions"]), (&3.into(), &9.into()));
}

#[test]
fn a_teacher_meets_the_tokens_that_greedy_choice_made() {
    let run = onetrip(&["run", "It is a truth", "-n", "8", "--temperature", "0", "--ignore-eos", "--json"]).json();
    let join = |v: &Value| ids(v).iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let (prompt, made) = (join(&run["prompt_tokens"]), join(&run["tokens"]));
    let out = onetrip(&["ppl", "--tokens", &prompt, "--teacher", &made, "--json"]).json();
    let steps = out["steps"].as_array().expect("a list");
    assert_eq!(steps.len(), 8);
    assert_eq!(out["predictions"], 8);
    for (step, id) in steps.iter().zip(ids(&run["tokens"])) {
        assert_eq!(step["id"].as_u64(), Some(id));
        let top = step["top5"].as_array().expect("a list");
        assert_eq!(top.len(), 5);
        assert!(top.windows(2).all(|w| w[0][1].as_f64() >= w[1][1].as_f64()));
        // Decode and prefill round differently: a near tie may go either way.
        let margin = top[0][1].as_f64().unwrap() - step["logit"].as_f64().unwrap();
        assert!(top[0][0].as_u64() == Some(id) || margin < 0.1, "{step}");
    }
    // One token a step, as in generation: the same but for rounding.
    let one = onetrip(&["ppl", "--tokens", &prompt, "--teacher", &made, "--rows", "1", "--json"]).json();
    let logits = |v: &Value| -> Vec<f64> {
        v["steps"].as_array().into_iter().flatten().map(|s| s["logit"].as_f64().unwrap_or(f64::NAN)).collect()
    };
    let (together, one) = (logits(&out), logits(&one));
    assert_eq!(together.len(), one.len());
    assert!(together.iter().zip(&one).all(|(a, b)| (a - b).abs() < 0.2), "{together:?} {one:?}");
    assert_ne!(together, one, "these kernels round differently");
    onetrip(&["ppl", "--teacher", &made, "--rows", "0"]).refused(2, &["--rows"]);
    // Without anything before them, the ids predict each other and what would follow.
    let alone = onetrip(&["ppl", "--teacher", &made, "--json"]).json();
    assert_eq!((alone["steps"].as_array().map(Vec::len), &alone["predictions"]), (Some(8), &7.into()));
}

#[test]
fn the_other_commands_give_one_object_too() {
    let out = onetrip(&["inspect", "tiny", "--json"]).json();
    has(&out, &["metadata", "tensors", "types", "parameters", "bytes"]);
    let out = onetrip(&["devices", "--json"]).json();
    assert_eq!(out["devices"][0]["name"], "cpu");
    let devices = out["devices"].as_array().expect("a list");
    let named = |name: &str| devices.iter().find(|d| d["name"].as_str().is_some_and(|n| n.starts_with(name)));
    assert_eq!(named("cuda").expect("cuda is listed")["available"], false);
    let gpu = named("wgpu").expect("every adapter, or why there is none");
    assert!(gpu["available"] == false && gpu["reason"].is_string() || gpu["missing"].is_array(), "{gpu}");
    let out = onetrip(&["selftest", "--op", "rms_norm", "--json"]).json();
    assert_eq!(out["failed"], 0);
    assert!(out["passed"].as_u64() > Some(0));
    has(&out["results"][0], &["op", "case", "kernels", "error", "tolerance", "verdict"]);
}

#[test]
fn a_commit_sweep_measures_both_threads_and_keeps_the_fastest_in_the_profile() {
    if !crate::has_gpu() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let sweep = |write: &[&str]| {
        let args = [
            "bench",
            "--commit-sweep=tick",
            "--device",
            "wgpu",
            "--batch",
            "1",
            "--prompt",
            "1",
            "--gen",
            "1",
            "--json",
        ];
        let mut command = crate::command(&[&args[..], write].concat());
        crate::Done::of(command.env("ONETRIP_PROFILES", dir.path()).output().expect("the binary starts"))
    };
    sweep(&["--write"]).refused_json(2, &["no profile of", "onetrip calibrate"]);
    let devices = onetrip(&["devices", "--json"]).json();
    let gpu = devices["devices"].as_array().expect("a list").iter().find(|d| d["backend"].is_string());
    let name = gpu.expect("a GPU")["name"].as_str().expect("text").trim_start_matches("wgpu:").to_string();
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/h200.toml");
    let profile = std::fs::read_to_string(shipped).expect("a profile").replace("\"NVIDIA H200\"", &format!("{name:?}"));
    let profile = profile.replace("\"sm_90\"", "\"vulkan\"");
    let file = dir.path().join("software-2026-01-01.toml");
    std::fs::write(&file, profile).expect("written");
    let done = sweep(&["--write"]).json();
    let rows = done["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    for row in rows {
        has(row, &["phase", "batch", "commit", "encode_thread", "device_us", "idle_us", "verdict"]);
        positive(&row["encode_us"]);
        positive(&row["time_us"]["median"]);
        assert_eq!((row["submissions"].as_u64(), row["commit"].as_str()), (Some(1), Some("tick")));
    }
    assert_eq!(rows.iter().filter(|row| row["verdict"] == "best").count(), 2);
    has(&done["fastest"], &["hand_over", "usual", "ratio", "verdict"]);
    let kept = std::fs::read_to_string(&file).expect("the profile");
    assert!(kept.starts_with("version = 2\n") && kept.contains("[commit]\nwgpu = \""), "{kept}");
}
