//! Keys that change what a model computes and that its definition does not read. A file that gives one of them another value
//! than the neutral one is refused by the key's name: its answers would be wrong without a word.

use super::ConfigError;
use super::keys::Keys;
use crate::files::Value;

/// The value of a key at which it has no effect. A key that is missing or null never has one.
#[derive(Clone, Copy, PartialEq)]
enum Neutral {
    /// 0, false, or an empty list or text.
    Zero,
    /// The number 1.
    One,
    /// True.
    True,
    /// The number of elements of a head.
    HeadDim,
    /// No value.
    Nothing,
    /// One of these words.
    Words(&'static [&'static str]),
}
use Neutral::{HeadDim, Nothing, One, True, Words, Zero};

/// Keys of GGUF, after the architecture.
const GGUF: &[(&str, Neutral)] = &[
    ("attention.causal", True),
    ("attention.clamp_kqv", Zero),
    ("attention.group_norm_epsilon", Nothing),
    ("attention.group_norm_groups", Zero),
    ("attention.indexer.top_k", Zero),
    ("attention.key_length_mla", Zero),
    ("attention.key_length_swa", HeadDim),
    ("attention.kv_lora_rank", Zero),
    ("attention.layer_norm_epsilon", Nothing),
    ("attention.max_alibi_bias", Zero),
    ("attention.output_scale", One),
    ("attention.q_lora_rank", Zero),
    ("attention.relative_buckets_count", Zero),
    ("attention.scale", Zero),
    ("attention.shared_kv_layers", Zero),
    ("attention.sliding_window", Zero),
    ("attention.sliding_window_pattern", Zero),
    ("attention.temperature_length", Zero),
    ("attention.temperature_scale", Zero),
    ("attention.value_length", HeadDim),
    ("attention.value_length_mla", Zero),
    ("attention.value_length_swa", HeadDim),
    ("altup.num_inputs", Zero),
    ("attn_logit_softcapping", Zero),
    ("deepstack_layer_count", Zero),
    ("embedding_length_per_layer_input", Zero),
    ("embedding_scale", One),
    ("expert_count", Zero),
    ("final_logit_softcapping", Zero),
    ("full_attention_interval", Zero),
    ("leading_dense_block_count", Zero),
    ("logit_scale", One),
    ("pooling_type", Zero),
    ("residual_scale", One),
    ("rope.dimension_count_swa", HeadDim),
    ("rope.freq_base_swa", Zero),
    ("rope.scaling.alpha", Zero),
    ("router_logit_softcapping", Zero),
    ("ssm.conv_kernel", Zero),
    ("ssm.inner_size", Zero),
    ("ssm.state_size", Zero),
    ("swin_norm", Zero),
    ("use_parallel_residual", Zero),
    ("wkv.head_size", Zero),
];

/// Keys of `config.json`.
const JSON: &[(&str, Neutral)] = &[
    ("alibi", Zero),
    ("attention_chunk_size", Zero),
    ("attention_multiplier", Nothing),
    ("attn_logit_softcapping", Zero),
    ("attn_temperature_tuning", Zero),
    ("clip_qkv", Zero),
    ("embedding_multiplier", One),
    ("final_logit_softcapping", Zero),
    ("hidden_size_per_layer_input", Zero),
    ("layer_types", Words(&["full_attention"])),
    ("logit_scale", One),
    ("logits_scaling", One),
    ("n_routed_experts", Zero),
    ("no_rope_layer_interval", Zero),
    ("no_rope_layers", Nothing),
    ("num_experts", Zero),
    ("num_kv_shared_layers", Zero),
    ("num_local_experts", Zero),
    ("parallel_attn", Zero),
    ("position_embedding_type", Words(&["rope", "rotary", "rope_type", "absolute"])),
    ("qk_layernorm", Zero),
    ("query_pre_attn_scalar", HeadDim),
    ("residual_multiplier", One),
    ("rope_interleave", Zero),
    ("rope_local_base_freq", Zero),
    ("rope_parameters.mrope_section", Nothing),
    ("rope_ratio", One),
    ("rope_scaling.mrope_section", Nothing),
    ("rotary_pct", One),
    ("scale_depth", Nothing),
    ("scale_emb", One),
    ("sliding_window", Zero),
    ("sliding_window_pattern", Zero),
    ("use_bidirectional_attention", Zero),
    ("use_parallel_residual", Zero),
    ("use_qk_norm", Zero),
];

impl Neutral {
    fn is(self, value: &Value, head_dim: usize) -> bool {
        let number = value.as_f64();
        let numbers = || match value {
            Value::Ints(all) => Some(all.iter().map(|x| *x as f64).collect::<Vec<_>>()),
            Value::Floats(all) => Some(all.clone()),
            Value::Bools(all) => Some(all.iter().map(|b| *b as u8 as f64).collect()),
            _ => None,
        };
        let all = |wanted: f64| number == Some(wanted) || numbers().is_some_and(|all| all.iter().all(|x| *x == wanted));
        match self {
            Zero => all(0.0) || value.as_bool() == Some(false) || value.as_str() == Some(""),
            One => all(1.0),
            True => value.as_bool() == Some(true) || all(1.0),
            HeadDim => all(head_dim as f64),
            Nothing => false,
            Words(known) => match value {
                Value::Strs(words) => words.iter().all(|w| known.contains(&w.as_str())),
                _ => value.as_str().is_some_and(|w| known.contains(&w)),
            },
        }
    }
}

/// Refuses a file with a key that changes the result and that was not read. Called when the whole configuration is read.
pub fn refuse_unread(keys: &Keys, head_dim: usize) -> Result<(), ConfigError> {
    let table = if keys.is_gguf() { GGUF } else { JSON };
    for (name, value) in keys.all() {
        let Some((_, neutral)) = table.iter().find(|(known, _)| *known == name) else { continue };
        if !keys.was_asked(name) && !neutral.is(value, head_dim) {
            let (arch, value) = (onetrip_ir::text::shown(keys.named()), value.brief(40));
            let what = format!("changes what the model computes, and is not implemented for architecture `{arch}`");
            let whole = if keys.is_gguf() { format!("{arch}.{name}") } else { name.into() };
            return Err(ConfigError::Effect {
                file: keys.file().name().into(),
                what: format!("key `{whole}` is {value}: it {what}"),
            });
        }
    }
    Ok(())
}

/// The names of the keys with an effect, for docs/models.md: the kind of file, and its keys.
pub fn effects() -> [(&'static str, Vec<&'static str>); 2] {
    let names = |table: &[(&'static str, Neutral)]| table.iter().map(|(name, _)| *name).collect();
    [("GGUF", names(GGUF)), ("config.json", names(JSON))]
}
