//! Bad input: one line that says what, where and what to do; exit code 2; no panic.

use crate::{has_gpu, onetrip, onetrip_with_stdin, tiny};

#[test]
fn a_missing_model_is_named() {
    onetrip(&["run", "x", "--model", "no/such.gguf"]).refused(2, &["no/such.gguf"]);
    onetrip(&["run", "x", "--model", "smallest"]).refused(2, &["no model `smallest`", "tiny", ".gguf"]);
    onetrip(&["inspect", "no/such.gguf"]).refused(2, &["no/such.gguf"]);
}

#[test]
fn damaged_model_files_are_refused_by_every_command_that_opens_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let good = std::fs::read(tiny()).expect("the embedded model");
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_string()
    };
    let mut magic = good.clone();
    magic[..4].copy_from_slice(b"GGML");
    let mut count = good.clone();
    count[8..16].fill(0xff);
    let files = [
        write("half.gguf", &good[..good.len() / 2]),
        write("head.gguf", &good[..200]),
        write("empty.gguf", b""),
        write("magic.gguf", &magic),
        write("count.gguf", &count),
    ];
    for file in &files {
        let name = file.rsplit('/').next().unwrap();
        for command in
            [&["run", "x", "--model"][..], &["explain", "--model"], &["inspect"], &["tokenize", "x", "--model"]]
        {
            onetrip(&[command, &[file.as_str()]].concat()).refused(2, &[name]);
        }
    }
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "Dear diary").expect("written");
    onetrip(&["run", "x", "--model", path.to_str().unwrap()]).refused(2, &["notes.txt", "not a model file"]);
    onetrip(&["run", "x", "--model", dir.path().to_str().unwrap()]).refused(2, &["config.json"]);
}

#[test]
fn text_that_is_not_utf8_is_refused_with_the_place_of_the_byte() {
    onetrip_with_stdin(&["run", "-"], b"abc\xffdef").refused(2, &["stdin", "byte 3", "UTF-8"]);
    onetrip_with_stdin(&["tokenize"], b"\xe4\xb8").refused(2, &["byte 0"]);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("latin1.txt");
    std::fs::write(&path, b"na\xefve").expect("written");
    onetrip(&["ppl", "--text", path.to_str().unwrap()]).refused(2, &["latin1.txt", "byte 2"]);
}

#[test]
fn a_prompt_longer_than_the_context_says_how_long_it_is() {
    onetrip(&["run", "It is a truth universally acknowledged", "--context", "3"])
        .refused(2, &["--context is 3", " tokens"]);
    let ids = vec!["1"; 1 << 14].join(",");
    let inspect = onetrip(&["inspect", "tiny", "--json"]).json();
    let context = inspect["metadata"].as_array().unwrap().iter().find(|m| m["key"] == "llama.context_length");
    let context = context.expect("a context")["value"].as_str().expect("text").to_string();
    onetrip(&["run", "--tokens", &ids]).refused(2, &["16384 tokens", &context]);
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    onetrip(&["run", "--tokens", "4000000000"]).refused(2, &["4000000000", "vocabulary"]);
    onetrip(&["ppl", "--tokens", "1,4000000000"]).refused(2, &["4000000000"]);
    onetrip(&["tokenize", "--decode", "4000000000"]).refused(2, &["4000000000"]);
    onetrip(&["run", "--tokens", "1,two"]).refused(2, &["`two`"]);
}

#[test]
fn values_of_flags_are_checked() {
    let cases: [(&[&str], &str); 18] = [
        (&["--temperature", "-1"], "at least 0"),
        (&["--temperature", "inf"], "at least 0"),
        (&["--top-p", "0"], "above 0"),
        (&["--top-p", "1.5"], "up to 1"),
        (&["--min-p", "1"], "below 1"),
        (&["--repeat-penalty", "0"], "above 0"),
        (&["--threads", "0"], "at least 1"),
        (&["--context", "0"], "at least 1"),
        (&["--context", "99999999999999999999"], "the limit is 134217728"),
        (&["--cache", "q4_0"], "f16, f32 or q8_0"),
        (&["--weights", "q9"], "q8_0"),
        (&["--compute", "bf16"], "no tensor cores"),
        (&["--fuse", "gateup"], "did you mean `gate-up`"),
        (&["--device", "cuda:99"], "GPU"),
        (&["--device", "abacus"], "devices: cpu"),
        (&["--logprobs", "0"], "1..=100"),
        (&["--system", "Be brief."], "--chat"),
        (&["--no-such-flag"], "--no-such-flag"),
    ];
    for (flags, word) in cases {
        onetrip(&[&["run", "x"], flags].concat()).refused(2, &[word]);
        onetrip(&[&["run", "x", "--json"], flags].concat()).refused_json(2, &[word]);
    }
    onetrip(&["explain", "--prompt", "8"]).refused(2, &["--phase prefill"]);
    onetrip(&["profile", "--repeat", "2"]).refused(2, &["at least 5"]);
    onetrip(&["bench", "--prompt", "0", "--gen", "0"]).refused(2, &["nothing to measure"]);
    onetrip(&["selftest", "--op", "frobnicate"]).refused(2, &["rms_norm"]);
    onetrip(&["selftest", "--isa", "sse9"]).refused(2, &["portable"]);
}

#[test]
fn a_submit_mode_that_a_device_has_not_is_refused() {
    let run = |flags: &[&str]| onetrip(&[&["run", "x", "-n", "2"], flags].concat());
    run(&["--commit", "often"]).refused(2, &["every:K", "replay"]);
    run(&["--commit", "each"]).refused(2, &["CPU device", "--device wgpu"]);
    run(&["--encode-thread"]).refused(2, &["CPU device", "--encode-thread"]);
    onetrip(&["bench", "--commit-sweep"]).refused(2, &["--device wgpu"]);
    onetrip(&["bench", "--write", "a.toml"]).refused(2, &["--commit-sweep"]);
    onetrip(&["bench", "--rules", "--write"]).refused(2, &["name a file"]);
    if !has_gpu() {
        return;
    }
    run(&["--device", "wgpu", "--commit", "replay"]).refused(2, &["wgpu keeps no recording", "tick"]);
    let capture = |n: &str| {
        let output = crate::command(&["run", "x", "-n", "2", "--device", "wgpu"]).env("ONETRIP_CAPTURE", n).output();
        crate::Done::of(output.expect("the binary starts"))
    };
    capture("first").refused(2, &["ONETRIP_CAPTURE=first", "from 1"]);
    assert_eq!(capture("2").stdout, run(&["--device", "wgpu"]).stdout);
}

#[test]
fn a_context_that_no_machine_has_memory_for_is_refused() {
    onetrip(&["run", "x", "--context", "134217728"]).refused(2, &["--context"]);
}

#[test]
fn nothing_to_continue_says_what_to_give() {
    let done = onetrip(&["ppl"]);
    done.refused(2, &["--text FILE", "--tokens IDS"]);
    onetrip(&["ppl", "--tokens", "5"]).refused(2, &["at least 2"]);
}

#[test]
fn an_unknown_instruction_set_in_the_switch_is_refused() {
    let output = crate::command(&["explain"]).env("ONETRIP_ISA", "mmx").output().expect("the binary starts");
    crate::Done::of(output).refused(2, &["ONETRIP_ISA=mmx", "portable"]);
}

#[test]
fn whole_numbers_that_are_negative_or_too_large_say_what_can_be() {
    for flag in ["--seed", "--top-k", "--context", "--threads"] {
        onetrip(&["run", "x", flag, "-1"]).refused(2, &[flag, "give a whole number of at least "]);
    }
    onetrip(&["run", "x", "-n", "-2"]).refused(2, &["at least 0", "-1: until"]);
    onetrip(&["run", "x", "--threads", "1025"]).refused(2, &["the limit is 1024"]);
    onetrip(&["bench", "--prompt", "-1"]).refused(2, &["at least 0"]);
    let huge = onetrip(&["ppl", "--tokens", "1,2,3", "--limit", "99999999999", "--json"]).json();
    assert_eq!(huge["predictions"], 2, "a limit above everything is none");
}

#[test]
fn an_unlimited_run_ends_with_the_context() {
    let done = onetrip(&["run", "It is a truth", "-n", "-1", "--ignore-eos", "--context", "40", "--json"]).json();
    assert_eq!(done["stopped"], "context");
}

#[test]
fn a_step_that_no_figure_can_count_is_refused() {
    let prefill = ["explain", "--phase", "prefill", "--prompt", "100000000"];
    onetrip(&[&prefill[..], &["--batch", "3"]].concat()).refused(2, &["the limit is 100000000"]);
    onetrip(&[&prefill[..], &["--context", "134217728"]].concat()).refused(2, &["tokens times positions"]);
}

#[test]
fn weights_that_make_no_logit_finite_fail_the_work_and_say_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("damaged.gguf");
    let mut bytes = std::fs::read(tiny()).expect("the embedded model");
    // The last half of the file is weights and nothing else.
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    std::fs::write(&path, bytes).expect("written");
    let path = path.to_str().expect("UTF-8");
    for args in [
        &["run", "--tokens", "1,2,3", "-n", "4"][..],
        &["run", "--tokens", "1,2,3", "-n", "4", "--temperature", "1"],
        &["ppl", "--tokens", "1,2,3"],
        &["ppl", "--teacher", "1,2,3"],
        &["bench", "--prompt", "8", "--gen", "4", "--repeat", "1"],
    ] {
        onetrip(&[args, &["--model", path]].concat()).refused(1, &["not finite", "--compute f32"]);
    }
}

#[test]
fn rules_that_are_empty_or_contradict_each_other_are_refused() {
    onetrip(&["explain", "--fuse", ""]).refused(2, &["--fuse"]);
    onetrip(&["explain", "--fuse", ","]).refused(2, &["a name is empty"]);
    onetrip(&["explain", "--fuse", "all,none"]).refused(2, &["`all` stands alone"]);
}

#[cfg(unix)]
#[test]
fn paths_may_have_any_bytes_and_prompts_have_to_be_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(OsStr::from_bytes(b"two  spaces \xff.gguf"));
    std::fs::copy(tiny(), &path).expect("copied");
    let run = |command: &str, flags: &[&OsStr]| {
        let output = crate::command(&[command]).args(flags).output().expect("the binary starts");
        crate::Done::of(output)
    };
    assert_eq!(run("inspect", &[path.as_os_str()]).code, Some(0));
    assert_eq!(run("explain", &[OsStr::new("--model"), path.as_os_str()]).code, Some(0));
    std::fs::write(&path, "x").expect("written");
    run("inspect", &[path.as_os_str()]).refused(2, &["two  spaces \u{fffd}.gguf"]);
    run("run", &[OsStr::from_bytes(b"caf\xe9")]).refused(2, &["[PROMPT]", "not UTF-8"]);
    run("tokenize", &[OsStr::new("--decode"), OsStr::from_bytes(b"\xe9")]).refused(2, &["argument 3", "not UTF-8"]);
}

#[test]
fn an_empty_path_and_a_file_without_its_folder_say_what_to_give() {
    onetrip(&["run", "x", "--model", ""]).refused(2, &["--model", "empty"]);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("model.safetensors");
    let mut bytes = 8u64.to_le_bytes().to_vec();
    bytes.extend(b"{}      ");
    std::fs::write(&path, bytes).expect("written");
    for command in [&["run", "x"][..], &["explain"], &["run", "--tokens", "1"]] {
        onetrip(&[command, &["--model", path.to_str().unwrap()]].concat()).refused(2, &["give the folder"]);
    }
}

#[test]
fn a_text_on_stdin_has_a_limit() {
    let long = vec![b'a'; (64 << 20) + 1];
    onetrip_with_stdin(&["run", "-"], &long).refused(2, &["stdin", "64 MB"]);
    onetrip_with_stdin(&["tokenize"], &long).refused(2, &["64 MB"]);
}
