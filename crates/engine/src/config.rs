//! The configuration of a model, read from GGUF metadata or from the `config.json` of Hugging Face into the same struct.

mod hyperparameters;
mod json;

pub use hyperparameters::{Config, ConfigError, Recurrent};
use hyperparameters::{MAX_CONTEXT, MAX_HEAD, MAX_LAYERS, MAX_WIDTH};

use crate::files::{Kind, MetadataAccess, ModelFile};
use onetrip_core::ops::conv::MAX_TAPS;
use onetrip_core::ops::rope::frequencies::{RopeConfig, Scaling};

impl Config {
    /// Reads and checks the configuration of a model file. Its architecture must be one of `known`.
    pub fn read(file: &ModelFile, known: &[&str]) -> Result<Config, ConfigError> {
        let config = match file.kind() {
            Kind::Gguf => from_gguf(file, known)?,
            Kind::HuggingFace => json::read(file, known)?,
            Kind::Safetensors => return Err(ConfigError::Bare { file: file.name().into() }),
        };
        config.check(file, known)?;
        Ok(config)
    }

    fn check(&self, file: &ModelFile, known: &[&str]) -> Result<(), ConfigError> {
        let shape = |what: String| ConfigError::Shape { file: file.name().into(), what };
        if !known.contains(&self.arch.as_str()) {
            let (arch, known) = (onetrip_ir::text::shown(&self.arch), known.join(", "));
            return Err(ConfigError::Arch { file: file.name().into(), arch, known });
        }
        // The name of a key for error texts: as it is in GGUF, or in `config.json`.
        let key = |gguf: &str, json: &str| match file.kind() {
            Kind::Gguf => format!("`{}.{gguf}`", self.arch),
            _ => format!("`{json}` of config.json"),
        };
        let counts = [
            (self.layers, "block_count", "num_hidden_layers"),
            (self.width, "embedding_length", "hidden_size"),
            (self.heads, "attention.head_count", "num_attention_heads"),
            (self.kv_heads, "attention.head_count_kv", "num_key_value_heads"),
            (self.context, "context_length", "max_position_embeddings"),
        ];
        if let Some((_, gguf, json)) = counts.iter().find(|(n, ..)| *n == 0) {
            return Err(shape(format!("{} is 0: at least 1 is needed", key(gguf, json))));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let keys = [key(counts[2].1, counts[2].2), key(counts[3].1, counts[3].2)];
            let (q, kv) = (self.heads, self.kv_heads);
            return Err(shape(format!(
                "{q} query heads ({}) do not divide among {kv} key heads ({})",
                keys[0], keys[1]
            )));
        }
        let (head, rotated) = (self.head_dim, self.rope.dim);
        if !(1..=MAX_HEAD).contains(&head) {
            let key = key("attention.key_length", "head_dim");
            return Err(shape(format!(
                "a head has {head} numbers ({key}, or the width by the heads): 1 to {MAX_HEAD} can be"
            )));
        }
        if rotated < 2 || !rotated.is_multiple_of(2) || rotated > head {
            let key = key("rope.dimension_count", "head_dim");
            return Err(shape(format!(
                "{rotated} numbers of a head are rotated ({key}): an even number from 2 to {head} can be"
            )));
        }
        let within = |x: f32, low: f32, high: f32, gguf: &str, json: &str| match x >= low && x <= high {
            true => Ok(()),
            false => Err(shape(format!("{} is {x}: {low} to {high} can be", key(gguf, json)))),
        };
        within(self.eps, 0.0, 1.0, "attention.layer_norm_rms_epsilon", "rms_norm_eps")?;
        within(self.rope.base, 1e-3, 1e12, "rope.freq_base", "rope_theta")?;
        within(self.local_rope_base, 1e-3, 1e12, "rope.freq_base_swa", "rope_local_base_freq")?;
        if let Some(scale) = self.attention_scale {
            within(1.0 / (scale * scale), 1e-6, 1e6, "attention.scale", "query_pre_attn_scalar")?;
        }
        for part in self.rope.scaling.numbers() {
            within(
                part.value,
                part.low,
                part.high,
                &format!("rope.scaling.{}", part.gguf),
                &format!("rope_scaling.{}", part.json),
            )?;
        }
        if let Scaling::Llama3 { low, high, .. } = self.rope.scaling
            && low >= high
        {
            let keys = "`rope_scaling.low_freq_factor` and `rope_scaling.high_freq_factor` of config.json";
            return Err(shape(format!("{keys} are {low} and {high}: the first has to be the smaller one")));
        }
        Ok(())
    }

    /// Whether attention of layer `layer` sees all earlier positions instead of a sliding window.
    pub fn is_global(&self, layer: usize) -> bool {
        self.window.is_none() || (self.window_period > 0 && (layer + 1).is_multiple_of(self.window_period))
    }
}

fn from_gguf(file: &ModelFile, known: &[&str]) -> Result<Config, ConfigError> {
    let m = file.metadata();
    let arch = file.key(m.get_str("general.architecture"))?.to_string();
    let key = |name: &str| format!("{arch}.{name}");
    let count = |name: &str, limit| file.key(m.get_count(&key(name), limit));
    let opt_count = |name: &str, limit| file.key(m.opt_count(&key(name), limit));
    let opt_f32 = |name: &str| file.key(m.opt_f32(&key(name)));
    if !known.contains(&arch.as_str()) {
        let arch = onetrip_ir::text::shown(&arch);
        return Err(ConfigError::Arch { file: file.name().into(), arch, known: known.join(", ") });
    }
    let heads = count("attention.head_count", MAX_WIDTH)?;
    let width = count("embedding_length", MAX_WIDTH)?;
    let head_dim = opt_count("attention.key_length", MAX_WIDTH)?.unwrap_or(width / heads.max(1));
    let context = count("context_length", MAX_CONTEXT)?;
    let scaling = match file.key(m.opt_str(&key("rope.scaling.type")))? {
        None | Some("none") => Scaling::None,
        Some("linear") => Scaling::Linear { factor: opt_f32("rope.scaling.factor")?.unwrap_or(1.0) },
        Some("yarn") => Scaling::Yarn {
            factor: opt_f32("rope.scaling.factor")?.unwrap_or(1.0),
            original: opt_count("rope.scaling.original_context_length", MAX_CONTEXT)?.unwrap_or(context) as f32,
            attention: opt_f32("rope.scaling.attn_factor")?,
            beta_fast: 32.0,
            beta_slow: 1.0,
        },
        Some(other) => {
            let what = format!("rope scaling `{}` is not known", onetrip_ir::text::shown(other));
            return Err(ConfigError::Shape { file: file.name().into(), what });
        }
    };
    let window = opt_count("attention.sliding_window", MAX_CONTEXT)?.filter(|w| *w > 0).map(|w| w as u32);
    let recurrent = if arch == "qwen35" { Some(recurrent(file, &arch)?) } else { None };
    // Layers for multi-token prediction come last in `block_count`; they are not run, so they are not counted.
    let guessing = opt_count("nextn_predict_layers", MAX_LAYERS)?.unwrap_or(0);
    Ok(Config {
        layers: count("block_count", MAX_LAYERS)?.saturating_sub(guessing),
        width,
        heads,
        kv_heads: opt_count("attention.head_count_kv", MAX_WIDTH)?.unwrap_or(heads),
        head_dim,
        context,
        eps: file.key(m.get_f32(&key("attention.layer_norm_rms_epsilon")))?,
        rope: RopeConfig {
            base: opt_f32("rope.freq_base")?.unwrap_or(10000.0),
            dim: opt_count("rope.dimension_count", MAX_WIDTH)?.unwrap_or(head_dim),
            scaling,
        },
        local_rope_base: 10000.0,
        window,
        window_period: if arch == "gemma3" { 6 } else { 0 },
        neox: arch != "llama",
        attention_scale: None,
        norm_plus_one: false,
        recurrent,
        arch,
    })
}

/// Reads and checks the shape of recurrent layers from the `ssm.*` keys.
fn recurrent(file: &ModelFile, arch: &str) -> Result<Recurrent, ConfigError> {
    let m = file.metadata();
    let count = |name: &str, limit| file.key(m.get_count(&format!("{arch}.{name}"), limit));
    let r = Recurrent {
        k_heads: count("ssm.group_count", 4096)?,
        v_heads: count("ssm.time_step_rank", 4096)?,
        state: count("ssm.state_size", 4096)?,
        conv: count("ssm.conv_kernel", MAX_TAPS)?,
        period: file.key(m.opt_count(&format!("{arch}.full_attention_interval"), MAX_LAYERS))?.unwrap_or(4),
    };
    let inner = count("ssm.inner_size", MAX_WIDTH)?;
    let shape = |what: String| Err(ConfigError::Shape { file: file.name().into(), what });
    let least = [
        (r.k_heads, 1, "ssm.group_count"),
        (r.v_heads, 1, "ssm.time_step_rank"),
        (r.state, 1, "ssm.state_size"),
        (r.period, 1, "full_attention_interval"),
        (r.conv, 2, "ssm.conv_kernel"),
    ];
    if let Some((n, least, key)) = least.iter().find(|(n, least, _)| n < least) {
        return shape(format!("`{arch}.{key}` is {n}: at least {least} is needed"));
    }
    if r.v_heads * r.state != inner {
        let (v, s) = (r.v_heads, r.state);
        return shape(format!(
            "`{arch}.ssm.inner_size` is {inner}, but {v} heads (`ssm.time_step_rank`) of {s} (`ssm.state_size`) are {}",
            v * s
        ));
    }
    if !r.v_heads.is_multiple_of(r.k_heads) {
        let (v, k) = (r.v_heads, r.k_heads);
        let keys = "`ssm.time_step_rank`, `ssm.group_count`";
        return shape(format!("{v} value heads do not divide among {k} key heads ({keys})"));
    }
    Ok(r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{GgufWriter, Value};

    /// The error text for the file of a small model with these entries changed or added; empty if the file is accepted.
    fn error(changes: &[(&str, Value)]) -> String {
        let mut w = GgufWriter::new();
        w.set("general.architecture", Value::Str("llama".into()));
        let counts =
            [("block_count", 2), ("embedding_length", 64), ("attention.head_count", 4), ("context_length", 128)];
        for (key, n) in counts {
            w.set(format!("llama.{key}"), Value::U64(n));
        }
        w.set("llama.attention.layer_norm_rms_epsilon", Value::F64(1e-5));
        for (key, value) in changes {
            w.set(format!("llama.{key}"), value.clone());
        }
        let file = ModelFile::from_slice("test.gguf", &w.to_bytes().expect("a small file")).expect("opens");
        Config::read(&file, &crate::models::names()).err().map_or(String::new(), |e| e.to_string())
    }

    #[test]
    fn numbers_that_would_make_every_logit_nan_are_refused_by_key() {
        assert_eq!(error(&[]), "");
        let of =
            |kind: &str, key, x: f64| error(&[("rope.scaling.type", Value::Str(kind.into())), (key, Value::F64(x))]);
        for x in [f64::INFINITY, f64::NAN, 1e300, -1.0] {
            for (key, error) in [
                ("attention.layer_norm_rms_epsilon", error(&[("attention.layer_norm_rms_epsilon", Value::F64(x))])),
                ("rope.freq_base", error(&[("rope.freq_base", Value::F64(x))])),
                ("rope.scaling.factor", of("linear", "rope.scaling.factor", x)),
                ("rope.scaling.factor", of("yarn", "rope.scaling.factor", x)),
                ("rope.scaling.attn_factor", of("yarn", "rope.scaling.attn_factor", x)),
            ] {
                assert!(
                    error.contains(&format!("`llama.{key}` is ")) && error.contains(" can be"),
                    "{key} {x}: {error}"
                );
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
}
