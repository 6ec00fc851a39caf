//! Configurations of Hugging Face folders.

use serde_json::{Value as Json, json};

use crate::files::ModelFile;
use crate::models::configure;

/// What `read` makes of a folder with this `config.json`.
fn opened<T>(config: &Json, read: impl FnOnce(&ModelFile) -> T) -> T {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
    // A safetensors file without tensors.
    let mut bytes = 8u64.to_le_bytes().to_vec();
    bytes.extend(b"{}      ");
    std::fs::write(dir.path().join("model.safetensors"), bytes).expect("written");
    read(&ModelFile::open(dir.path()).expect("opens"))
}

/// The error text for a folder with this `config.json`; empty if the folder is accepted.
fn error(config: &Json) -> String {
    opened(config, |file| configure(file).err().map_or(String::new(), |e| e.to_string()))
}

fn with(key: &str, value: Json) -> String {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 128, "hidden_act": "silu",
    });
    config[key] = value;
    error(&config)
}

#[test]
fn values_of_the_wrong_type_are_errors_that_name_the_key() {
    assert_eq!(with("torch_dtype", json!("float32")), "");
    for (key, value) in [
        ("rms_norm_eps", json!("x")),
        ("rope_theta", json!("x")),
        ("rope_scaling", json!("x")),
        ("hidden_act", json!(5)),
        ("tie_word_embeddings", json!("no")),
        ("num_hidden_layers", json!(-2)),
        ("model_type", json!(7)),
    ] {
        let error = with(key, value.clone());
        assert!(error.contains(&format!("`{key}` should be ")), "{key} {value}: {error}");
    }
    let error = with("rope_scaling", json!({ "rope_type": 5 }));
    assert!(error.contains("`rope_scaling.rope_type` should be text"), "{error}");
}

#[test]
fn numbers_out_of_range_are_errors_that_name_the_key() {
    assert!(with("rms_norm_eps", json!(1e300)).contains("`rms_norm_eps` of config.json is inf: 0 to 1 can be"));
    for kind in ["linear", "yarn", "llama3"] {
        let error = with("rope_scaling", json!({ "rope_type": kind, "factor": 0 }));
        assert!(error.contains("`rope_scaling.factor` of config.json is 0"), "{error}");
    }
}

#[test]
fn another_activation_than_the_one_computed_is_refused() {
    assert!(with("hidden_act", json!("gelu")).contains("`hidden_act` is `gelu`"));
    let gemma = json!({ "model_type": "gemma3_text", "hidden_activation": "relu" });
    assert!(error(&gemma).contains("`hidden_activation` is `relu`"));
}

#[test]
fn a_head_that_is_promised_and_missing_is_an_error() {
    let error = with("tie_word_embeddings", json!(false));
    assert!(error.contains("`lm_head.weight`: missing"), "{error}");
    assert_eq!(with("tie_word_embeddings", json!(true)), "");
}

#[test]
fn a_configuration_that_is_no_object_or_names_no_model_says_so() {
    assert!(error(&json!([1])).contains("one JSON object"));
    assert!(error(&json!({ "hidden_size": 4 })).contains("`model_type` is missing"));
}

#[test]
fn keys_that_change_the_result_are_read_or_refused() {
    for (key, value) in [
        ("attn_logit_softcapping", json!(50.0)),
        ("num_local_experts", json!(8)),
        ("clip_qkv", json!(8.0)),
        ("query_pre_attn_scalar", json!(224)),
        ("layer_types", json!(["full_attention", "chunked_attention"])),
        ("layer_types", json!(["full_attention"])),
        ("rope_scaling", json!({ "factor": 4.0 })),
        ("rope_scaling", json!({ "rope_type": "yarn", "factor": null })),
        ("rope_scaling", json!({ "rope_type": "dynamic", "factor": 2.0 })),
    ] {
        let error = with(key, value.clone());
        assert!(
            error.contains(key.split('.').next().unwrap_or(key)) || error.contains("rope"),
            "{key} {value}: {error}"
        );
    }
    for (key, value) in [
        ("attn_logit_softcapping", json!(null)),
        ("num_local_experts", json!(0)),
        ("layer_types", json!(["full_attention", "full_attention"])),
        ("rope_scaling", json!({ "rope_type": "default" })),
    ] {
        assert_eq!(with(key, value.clone()), "", "{key} {value}");
    }
}

#[test]
fn windows_of_layers_come_from_lists_periods_or_the_first_layer() {
    let windows = |more: Json| {
        let mut config = json!({
            "model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
            "max_position_embeddings": 128, "sliding_window": 8,
        });
        more.as_object().into_iter().flatten().for_each(|(key, value)| config[key] = value.clone());
        let (_, config) = opened(&config, configure).expect("a configuration");
        (0..4).map(|layer| config.window(layer).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(windows(json!({})), [false; 4]);
    assert_eq!(windows(json!({ "use_sliding_window": true, "max_window_layers": 2 })), [false, false, true, true]);
    let types = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"];
    assert_eq!(windows(json!({ "use_sliding_window": true, "layer_types": types })), [true, false, true, false]);
    assert_eq!(windows(json!({ "model_type": "mistral" })), [true; 4]);
    let pattern = json!({ "model_type": "gemma3_text", "sliding_window_pattern": 2 });
    assert_eq!(windows(pattern), [true, false, true, false]);
}
