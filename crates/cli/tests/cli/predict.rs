//! Predictions: profiles, shapes, the ladder and questions about rules and merges.

use serde_json::Value;

use crate::{Done, command, onetrip};

const SHAPE: &str = "shape:smollm2-135m:q4_1";

fn on_h200(more: &[&str]) -> Done {
    let base = ["explain", "--model", SHAPE, "--device", "cuda", "--hardware", "h200", "--assume"];
    onetrip(&[&base[..], more].concat())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_shape_is_explained_and_counted_but_not_run() {
    let counted = onetrip(&["count", "--model", SHAPE, "--json"]).json();
    assert_eq!(counted["ledger"]["dispatches"], 153);
    for run in [&["run", "x"][..], &["bench"], &["profile"], &["tokenize", "x"]] {
        onetrip(&[run, &["--model", SHAPE]].concat()).refused(2, &["shape", "without weights", "explain"]);
    }
    onetrip(&["explain", "--model", "shape:smollm:q4_1"]).refused(2, &["no shape `smollm`", "smollm2-135m"]);
}

#[test]
fn a_device_that_is_not_here_is_planned_and_priced() {
    let shown = onetrip(&["explain", "--model", SHAPE, "--device", "cuda", "--hardware", "h200", "--json"]).json();
    assert_eq!((&shown["hardware"]["name"], &shown["ledger"]["gaps"]), (&Value::from("h200"), &Value::from(0)));
    let rows = shown["dispatches"].as_array().expect("rows").iter().map(|d| number(&d["predicted_us"])).sum::<f64>();
    assert!((rows - number(&shown["predicted"]["rows_us"])).abs() < 1e-6);
    // No machine has so many GPUs; without a driver that is said instead.
    onetrip(&["run", "x", "--device", "cuda:99"]).refused(2, &["GPU"]);
}

#[test]
fn why_names_the_faster_kernels_and_what_each_lacks() {
    let ask = |more: &[&str]| {
        let base = ["explain", "--model", "shape:qwen2.5-0.5b:q4_0", "--device", "cuda", "--why", "1"];
        onetrip(&[&base[..], more].concat())
    };
    let text = ask(&["--compute", "f32"]).stdout;
    assert!(text.contains("runs matmul/norm+gemv_multi.dequant"), "{text}");
    assert!(text.contains("not gemv: a quantized weight meets activations that are not int8"), "{text}");
    let text = ask(&[]).stdout;
    assert!(text.contains("runs matmul/norm+gemv.int8") && text.contains("built with k_warps "), "{text}");
    assert!(text.contains("not gemm_skinny: it serves 9 to 64 rows"), "{text}");
    let on_wgpu = ["explain", "--model", "shape:qwen2.5-0.5b:q4_0", "--device", "wgpu", "--why", "1"];
    let text = onetrip(&on_wgpu).stdout;
    assert!(text.contains("runs matmul/gemv.int8") && text.contains("built with workgroup 128, turns "), "{text}");
    let shown = ask(&["--json"]).json();
    let [only] = &shown["dispatches"].as_array().expect("rows")[..] else { panic!("{shown}") };
    assert_eq!(only["n"], 1);
    assert_eq!(only["rejected"][0]["kernel"], "gemm_skinny");
    onetrip(&["explain", "--model", SHAPE, "--why", "9999"]).refused(2, &["--why 9999", "0 to 152"]);
}

#[test]
fn an_op_without_a_kernel_is_a_gap_and_is_priced_only_when_assumed() {
    // The listing's mask is cast to f16, for which the CPU has no kernel.
    let listing = ["explain", "--model", "listing:qwen3.5-9b-ggml-2026-04", "--fuse", "none", "--json"];
    let with = |more: &[&str]| onetrip(&[&listing[..], &["--hardware", "epyc-zen4-2"], more].concat()).json();
    let shown = with(&[]);
    assert_eq!(shown["predicted"], Value::Null);
    assert_eq!(shown["ledger"]["gaps"], 1);
    let assumed = with(&["--assume"]);
    let marked: Vec<&Value> =
        assumed["dispatches"].as_array().expect("rows").iter().filter(|d| d["assumed"] == true).collect();
    assert!(
        marked.len() == 1 && number(&marked[0]["predicted_us"]) > 0.0 && number(&assumed["predicted"]["tick_us"]) > 0.0
    );
}

#[test]
fn the_ladder_begins_without_rules_and_ends_with_the_plan() {
    let all = on_h200(&["--ladder", "--json"]).json();
    let ladder = all["ladder"].as_array().expect("a ladder");
    assert_eq!(ladder[0]["rule"], Value::Null);
    assert_eq!(ladder[ladder.len() - 1]["dispatches"], all["ledger"]["dispatches"]);
    let gains: f64 = ladder[1..].iter().map(|r| number(&r["saved"]["us"])).sum();
    let ends = number(&ladder[0]["predicted_us"]) - number(&all["predicted"]["tick_us"]);
    assert!((gains - ends).abs() < 1e-6, "{gains} {ends}");
    let text = on_h200(&["--ladder"]).stdout;
    assert!(text.contains("gate-up") && text.contains("x is read once"), "{text}");
}

#[test]
fn what_if_compares_rules_and_merges_and_names_what_forbids_one() {
    let none = on_h200(&["--what-if", "none", "--json"]).json();
    assert!(number(&none["what_if"]["gain_us"]) < 0.0, "{none}");
    assert!(number(&none["what_if"]["rules"]["dispatches"]) > number(&none["what_if"]["now"]["dispatches"]));
    let profile = include_str!("../../../../profiles/h200.toml");
    let merged = on_h200(&["--fuse", "none", "--what-if", "merge:1,2", "--json"]).json();
    assert_eq!(merged["what_if"]["launches_saved"], 1);
    // A launch at least, as the profile has it.
    let curve = profile.split("[[curve]]").find(|c| c.contains("name = \"launch\"")).expect("a launch");
    let launch = curve.lines().find_map(|l| l.strip_prefix("y = [")?.strip_suffix(']')).expect("a figure");
    let launch: f64 = launch.parse().expect("a number");
    assert!(number(&merged["what_if"]["gain_us"]) > launch, "{launch}");
    // A product and the norm over all of it.
    onetrip(&["explain", "--model", SHAPE, "--what-if", "merge:3,4"])
        .refused(2, &["dispatch 4", "whole rows", "dispatch 3"]);
    onetrip(&["explain", "--what-if", "merge:5,4"]).refused(2, &["earlier first"]);
    onetrip(&["explain", "--what-if", "gate-upp"]).refused(2, &["`gate-up`"]);
}

#[test]
fn without_a_profile_explain_says_how_to_get_one_and_refuses_another_machines() {
    let dir = tempfile::tempdir().expect("a folder");
    let explain = |more: &[&str]| {
        let mut command = command(&[&["explain"], more].concat());
        Done::of(command.env("ONETRIP_PROFILES", dir.path()).env("ONETRIP_ISA", "portable").output().expect("starts"))
    };
    let done = explain(&[]);
    assert!(done.code == Some(0) && done.stdout.contains("onetrip calibrate"), "{}", done.stdout);
    assert!(!done.stdout.contains("predicted µs"));
    let foreign = "name = \"far\"\ndevice = \"a machine far away\"\ndate = \"2026-01-01\"\nkind = \"cpu\"\nnote = \"\"\n[caps]\n\
        [[curve]]\nname = \"launch\"\nx = [0.0]\ny = [1.0]\n[[curve]]\nname = \"read\"\nx = [1.0]\ny = [1e10]\n";
    std::fs::write(dir.path().join("far-2026-01-01.toml"), foreign).expect("written");
    let done = explain(&[]);
    assert!(done.stdout.contains("a machine far away") && !done.stdout.contains("predicted µs"), "{}", done.stdout);
    let named = explain(&["--hardware", "far"]);
    assert!(named.stdout.contains("predicted µs") && named.stdout.contains("a machine far away"), "{}", named.stdout);
    std::fs::write(dir.path().join("bad.toml"), "name = 3").expect("written");
    explain(&["--hardware", "bad"]).refused(2, &["bad.toml", "line 1"]);
    explain(&["--hardware", "nobody"]).refused(2, &["no profile `nobody`", "h200"]);
    explain(&["--hardware", "h200"]).refused(2, &["NVIDIA H200", "GPU"]);
}

/// A stored profile that is no use is named on stderr, with the reason, and the command goes on with the others.
#[test]
fn stored_profiles_that_cannot_be_read_are_skipped_with_a_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let mut command = command(args);
        Done::of(command.env("ONETRIP_PROFILES", dir.path()).env("ONETRIP_ISA", "portable").output().expect("starts"))
    };
    let devices = onetrip(&["devices", "--json"]).json();
    let cpu = &devices["devices"][0];
    let device =
        format!("{}, {} cores, {}", cpu["processor"].as_str().expect("text"), cpu["cores"], std::env::consts::OS);
    let own = |version: &str| {
        format!(
            "{version}name = \"own\"\ndevice = {device:?}\ndate = \"2026-01-01\"\nkind = \"cpu\"\nnote = \"\"\n[caps]\nisa = \
             \"portable\"\n[[curve]]\nname = \"launch\"\nx = [0.0]\ny = [1.0]\n[[curve]]\nname = \"read\"\nx = [1.0]\ny = \
             [1e10]\n"
        )
    };
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    write("a-own.toml", &own(""));
    let used = run(&["explain", "--json"]);
    let plain = used.json();
    assert_eq!((&plain["hardware"]["name"], used.stderr.as_str()), (&Value::from("own"), ""));
    // All newer by their names, so that they are looked at first.
    write("b-broken.toml", "name = [\n");
    write("c-later.toml", &own("version = 3\n").replace("note", "remarks"));
    write("d-types.toml", &own("").replace("\"2026-01-01\"", "2026"));
    write("e-key.toml", &own("colour = 1\n"));
    write("f-curve.toml", &own("").replace("[1e10]", "[-1.0]"));
    std::fs::write(dir.path().join("g-bytes.toml"), b"\xff\xfe").expect("written");
    std::fs::create_dir(dir.path().join("h-folder.toml")).expect("a folder");
    let mut wanted = vec![
        ("b-broken.toml", "TOML"),
        ("c-later.toml", "version 3 is not known"),
        ("d-types.toml", "expected a string"),
        ("e-key.toml", "`colour`"),
        ("f-curve.toml", "negative"),
        ("g-bytes.toml", "UTF-8"),
        ("h-folder.toml", "no file"),
    ];
    if cfg!(unix) {
        let made = std::process::Command::new("mkfifo").arg(dir.path().join("i-pipe.toml")).status();
        assert!(made.expect("mkfifo").success());
        wanted.push(("i-pipe.toml", "no file"));
    }
    for args in [&["explain", "--json"][..], &["profile", "--repeat", "5", "--json"]] {
        let done = run(args);
        assert_eq!(done.json()["hardware"]["name"], "own", "{args:?}");
        let lines: Vec<&str> = done.stderr.lines().filter(|line| line.starts_with("note: skipped ")).collect();
        assert_eq!(lines.len(), wanted.len(), "{}", done.stderr);
        for (name, why) in &wanted {
            assert!(lines.iter().any(|l| l.contains(name) && l.contains(why)), "{name} {why}: {}", done.stderr);
        }
    }
    // The same figures in a file of version 2 predict the same.
    write("z-own.toml", &own("version = 2\n"));
    let newest = run(&["explain", "--json"]);
    assert_eq!((&newest.json()["predicted"], newest.stderr.as_str()), (&plain["predicted"], ""));
    // What was asked for by name is not skipped.
    run(&["explain", "--hardware", "c-later"]).refused(2, &["c-later.toml", "version 3 is not known"]);
    run(&["explain", "--hardware", "h-folder"]).refused(2, &["h-folder.toml", "no file"]);
}

#[test]
fn a_device_may_be_given_by_its_old_and_its_new_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let gate = dir.path().join("gate.json");
    let gate = gate.to_str().expect("UTF-8");
    let count = |device: &str| onetrip(&["count", "--device", device, "--json"]).stdout;
    assert!(count("gpu").contains("\"device\":\"wgpu\"") /* an alias */);
    assert_eq!(count("gpu"), count("wgpu"));
    // No adapter is called so: what nearly every adapter has is planned for.
    assert_eq!(count("gpu:no such adapter"), count("wgpu:no such adapter"));
    onetrip(&["count", "--device", "wgpu:"]).refused(2, &["wgpu:NAME"]);
    let limits = |device: &str| format!("{{\"device\": \"{device}\", \"dispatches\": 100000}}");
    for device in ["gpu", "wgpu"] {
        std::fs::write(gate, limits(device)).expect("written");
        assert_eq!(onetrip(&["count", "--gate", gate, "--json"]).json()["device"], "wgpu");
    }
}

#[test]
fn calibrate_writes_a_profile_that_explain_and_profile_predict_with() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("own.toml");
    let file = file.to_str().expect("UTF-8");
    let args = ["calibrate", "--write", file, "--threads", "1", "--formats", "q8_0", "--json"];
    let made = onetrip(&args).json();
    assert_eq!(made["profile"], file);
    for key in ["device", "date", "caps", "curves"] {
        assert!(!made[key].is_null(), "no `{key}`");
    }
    let plan = onetrip(&["explain", "--threads", "1", "--hardware", file, "--json"]).json();
    assert!(number(&plan["predicted"]["tick_us"]) > 0.0);
    let timed = onetrip(&["profile", "--threads", "1", "--repeat", "5", "--hardware", file, "--json"]).json();
    assert!(number(&timed["predicted"]["tick_us"]) > 0.0 && number(&timed["rows"][1]["predicted_us"]) > 0.0);
    onetrip(&["calibrate", "--repeat", "2"]).refused(2, &["--repeat"]);
    onetrip(&["calibrate", "--formats", "q9"]).refused(2, &["q8_0"]);
}

#[test]
fn calibrate_of_a_gpu_writes_a_profile_that_explain_finds_by_itself() {
    onetrip(&["calibrate", "--quick"]).refused(2, &["--quick", "--device"]);
    onetrip(&["calibrate", "--device", "wgpu", "--threads", "2"]).refused(2, &["--threads"]);
    let devices = onetrip(&["devices", "--json"]).json();
    let has_gpu = devices["devices"].as_array().expect("devices").iter().any(|d| !d["backend"].is_null());
    if !has_gpu {
        onetrip(&["calibrate", "--device", "wgpu", "--quick"]).refused(2, &["adapter"]);
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| Done::of(command(args).env("ONETRIP_PROFILES", dir.path()).output().expect("starts"));
    let made = run(&["calibrate", "--device", "wgpu", "--quick", "--formats", "f16,q4_0", "--json"]).json();
    let names: Vec<&str> =
        made["curves"].as_array().expect("curves").iter().filter_map(|c| c["name"].as_str()).collect();
    for name in [
        "launch",
        "launch.independent",
        "read",
        "flops",
        "stream.q4_0.cold",
        "stream.f16.independent.hot",
        "stream.q4_0.norm.cold",
        "stream.q4_0.pair.cold",
        "stream.q4_0.sum.cold",
        "kernel_switch",
        "matmul.q4_0",
        "encode",
        "commit",
        "commit_wait",
        "submit",
        "copy.to",
        "copy.from",
        "attention.64",
        "delta_net",
        "sample",
    ] {
        assert!(names.contains(&name), "no curve `{name}` in {names:?}");
    }
    let plan = run(&["explain", "--device", "wgpu", "--json"]).json();
    assert_eq!(plan["hardware"]["device"], made["device"], "found without --hardware");
    let rows = plan["dispatches"].as_array().expect("rows");
    assert!(rows.iter().all(|r| number(&r["predicted_us"]) > 0.0));
    assert!(number(&plan["predicted"]["tick_us"]) >= rows.iter().map(|r| number(&r["predicted_us"])).sum::<f64>());
}

#[test]
fn several_ticks_a_submission_are_refused_where_a_device_cannot() {
    for device in ["cpu", "wgpu"] {
        let done = onetrip(&["run", "x", "--device", device, "--ticks-per-launch", "4"]);
        assert!(done.code == Some(2) && done.stderr.lines().count() == 1, "{}", done.stderr);
        assert!(done.stderr.contains("--ticks-per-launch 4") || done.stderr.contains("adapter"), "{}", done.stderr);
    }
    onetrip(&["run", "x", "--ticks-per-launch", "0"]).refused(2, &["--ticks-per-launch"]);
    let plain = onetrip(&["run", "Once", "-n", "8", "--json"]).json();
    let one = onetrip(&["run", "Once", "-n", "8", "--ticks-per-launch", "1", "--json"]).json();
    assert_eq!(plain["tokens"], one["tokens"]);
}

#[test]
fn replays_of_a_step_are_equal_in_every_bit() {
    let done = onetrip(&["selftest", "--replays", "40", "--threads", "2", "--json"]).json();
    let steps = done["steps"].as_array().expect("steps");
    assert_eq!(steps.iter().map(|s| s["times"].as_u64().unwrap_or(0)).collect::<Vec<_>>(), [2, 40, 8, 2]);
    assert!(steps.iter().all(|s| s["different"] == 0 && number(&s["numbers"]) > 0.0), "{steps:?}");
    onetrip(&["selftest", "--model", "tiny"]).refused(2, &["--replays"]);
}
