//! Configurations of GGUF files.

use crate::files::{GgufWriter, ModelFile, Value};
use crate::models::configure;

/// The error text for the file of a small model with these entries changed or added; empty if the file is accepted.
fn error(changes: &[(&str, Value)]) -> String {
    let mut w = GgufWriter::new();
    w.set("general.architecture", Value::Str("llama".into()));
    let counts = [("block_count", 2), ("embedding_length", 64), ("attention.head_count", 4), ("context_length", 128)];
    for (key, n) in counts {
        w.set(format!("llama.{key}"), Value::U64(n));
    }
    w.set("llama.attention.layer_norm_rms_epsilon", Value::F64(1e-5));
    for (key, value) in changes {
        w.set(format!("llama.{key}"), value.clone());
    }
    let file = ModelFile::from_slice("test.gguf", &w.to_bytes().expect("a small file")).expect("opens");
    configure(&file).err().map_or(String::new(), |e| e.to_string())
}

#[test]
fn numbers_that_would_make_every_logit_nan_are_refused_by_key() {
    assert_eq!(error(&[]), "");
    let of = |kind: &str, key, x: f64| error(&[("rope.scaling.type", Value::Str(kind.into())), (key, Value::F64(x))]);
    for x in [f64::INFINITY, f64::NAN, 1e300, -1.0] {
        for (key, error) in [
            ("attention.layer_norm_rms_epsilon", error(&[("attention.layer_norm_rms_epsilon", Value::F64(x))])),
            ("rope.freq_base", error(&[("rope.freq_base", Value::F64(x))])),
            ("rope.scaling.factor", of("linear", "rope.scaling.factor", x)),
            ("rope.scaling.factor", of("yarn", "rope.scaling.factor", x)),
            ("rope.scaling.attn_factor", of("yarn", "rope.scaling.attn_factor", x)),
        ] {
            assert!(error.contains(&format!("`llama.{key}` is ")) && error.contains(" can be"), "{key} {x}: {error}");
        }
    }
    assert!(of("linear", "rope.scaling.factor", 0.0).contains("`llama.rope.scaling.factor` is 0: "));
    assert_eq!(of("linear", "rope.scaling.factor", 4.0), "");
}

#[test]
fn counts_that_cannot_be_are_named_by_their_key() {
    let count = |key: &'static str, n| error(&[(key, Value::U64(n))]);
    assert!(count("block_count", 0).contains("`llama.block_count` is 0"));
    assert!(count("attention.key_length", 5000).contains("`llama.attention.key_length`"));
    assert!(count("rope.dimension_count", 18).contains("an even number from 2 to 16"));
    assert!(count("attention.head_count_kv", 3).contains("4 query heads"));
}

#[test]
fn a_key_that_changes_the_result_is_refused_by_name_unless_it_is_neutral() {
    for (key, value) in [
        ("attn_logit_softcapping", Value::F64(50.0)),
        ("expert_count", Value::U64(8)),
        ("logit_scale", Value::F64(0.0625)),
        ("attention.causal", Value::Bool(false)),
        ("attention.value_length", Value::U64(8)),
        ("use_parallel_residual", Value::Bool(true)),
        ("rope.scaling.alpha", Value::F64(2.0)),
    ] {
        let error = error(&[(key, value)]);
        assert!(error.contains(&format!("`llama.{key}` is ")) && error.contains("not implemented"), "{key}: {error}");
    }
    for (key, value) in [
        ("attn_logit_softcapping", Value::F64(0.0)),
        ("expert_count", Value::U64(0)),
        ("logit_scale", Value::F64(1.0)),
        ("attention.causal", Value::Bool(true)),
        ("attention.value_length", Value::U64(16)),
        ("vocab_size", Value::U64(32000)),
    ] {
        assert_eq!(error(&[(key, value)]), "", "{key}");
    }
}

#[test]
fn lists_for_each_layer_are_read_where_all_items_are_equal() {
    assert_eq!(error(&[("attention.head_count_kv", Value::Ints(vec![2, 2]))]), "");
    let error = error(&[("attention.head_count_kv", Value::Ints(vec![2, 4]))]);
    assert!(error.contains("`llama.attention.head_count_kv`") && error.contains("other layers"), "{error}");
}
