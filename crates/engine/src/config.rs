//! What a model's file says about its shape, in one form for GGUF metadata and Hugging Face's `config.json`.

use serde_json::Value as Json;

use crate::files::{FileError, Kind, MetadataAccess, ModelFile};
use crate::rope::{RopeConfig, Scaling};
use onetrip_core::ops::conv::MAX_TAPS;

/// Upper limits: a number beyond them is damage, not a model.
const MAX_LAYERS: usize = 4096;
const MAX_WIDTH: usize = 1 << 20;
const MAX_CONTEXT: usize = 1 << 27;

/// The shape of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Architecture, by GGUF's names: `llama`, `qwen2`, `qwen3`, `qwen35`, `gemma3`.
    pub arch: String,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Numbers per head.
    pub head_dim: usize,
    /// Positions the model was trained for.
    pub context: usize,
    /// Epsilon of the norms.
    pub eps: f32,
    /// Rotary embedding (of the global layers, where there are local ones).
    pub rope: RopeConfig,
    /// Rotary base of layers with a sliding window (Gemma 3).
    pub local_rope_base: f32,
    /// Positions a token sees in layers with a sliding window.
    pub window: Option<u32>,
    /// One layer in so many has no window; 0: all layers have it.
    pub window_period: usize,
    /// Rotary pairs are `(i, i + half)` instead of neighbours.
    pub neox: bool,
    /// Factor on attention scores, where it is not `1/sqrt(head_dim)`.
    pub attention_scale: Option<f32>,
    /// Norm weights are stored less one (Gemma in Hugging Face's form).
    pub norm_plus_one: bool,
    /// Layers that keep a state instead of a cache.
    pub recurrent: Option<Recurrent>,
}

/// The shape of layers that keep a recurrent state (gated delta net).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrent {
    /// Query and key heads.
    pub k_heads: usize,
    /// Value heads.
    pub v_heads: usize,
    /// Numbers in a head of each.
    pub state: usize,
    /// Inputs that the convolution sees.
    pub conv: usize,
    /// One layer in so many has full attention.
    pub period: usize,
}

impl Recurrent {
    /// Layer `layer` has full attention.
    pub fn is_attention(&self, layer: usize) -> bool {
        (layer + 1).is_multiple_of(self.period)
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file's metadata.
    #[error(transparent)]
    File(#[from] FileError),
    /// An architecture without a page.
    #[error("{file}: architecture `{arch}` is not supported; supported are {known}")]
    Arch {
        /// The file.
        file: String,
        /// What it says.
        arch: String,
        /// What there is.
        known: String,
    },
    /// Numbers that do not fit together.
    #[error("{file}: {what}; the file is damaged or of an unknown variant: fetch or convert it again")]
    Shape {
        /// The file.
        file: String,
        /// What does not fit.
        what: String,
    },
}

impl Config {
    /// Reads and checks the configuration of a model file.
    pub fn read(file: &ModelFile) -> Result<Config, ConfigError> {
        let config = match file.kind() {
            Kind::Gguf => from_gguf(file)?,
            Kind::HuggingFace => from_json(file)?,
            Kind::Safetensors => {
                let what = "a bare safetensors file says nothing about its architecture; give the folder that has its \
                            config.json";
                return Err(ConfigError::Shape { file: file.name().into(), what: what.into() });
            }
        };
        config.check(file)?;
        Ok(config)
    }

    fn check(&self, file: &ModelFile) -> Result<(), ConfigError> {
        let shape = |what: String| Err(ConfigError::Shape { file: file.name().into(), what });
        let known: Vec<&str> = crate::arch::PAGES.iter().map(|(name, _)| *name).collect();
        if !known.contains(&self.arch.as_str()) {
            let (arch, known) = (crate::files::shown(&self.arch), known.join(", "));
            return Err(ConfigError::Arch { file: file.name().into(), arch, known });
        }
        if self.layers == 0 || self.width == 0 || self.heads == 0 || self.kv_heads == 0 || self.context == 0 {
            return shape(format!("{self:?} has a zero"));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return shape(format!("{} query heads do not divide among {} key heads", self.heads, self.kv_heads));
        }
        if self.head_dim == 0 || self.head_dim > 4096 || self.rope.dim == 0 || !self.rope.dim.is_multiple_of(2) {
            return shape(format!("a head of {} with {} rotated", self.head_dim, self.rope.dim));
        }
        let bad = |x: f32| !x.is_finite() || x < 0.0;
        if self.rope.dim > self.head_dim || self.rope.base == 0.0 || bad(self.rope.base) || bad(self.eps) {
            return shape(format!("rotary dimension {}, base {}, epsilon {}", self.rope.dim, self.rope.base, self.eps));
        }
        Ok(())
    }

    /// Layer `i` sees everything before it.
    pub fn is_global(&self, layer: usize) -> bool {
        self.window.is_none() || (self.window_period > 0 && (layer + 1).is_multiple_of(self.window_period))
    }
}

fn from_gguf(file: &ModelFile) -> Result<Config, ConfigError> {
    let m = file.metadata();
    let arch = file.key(m.get_str("general.architecture"))?.to_string();
    let key = |name: &str| format!("{arch}.{name}");
    let count = |name: &str, limit| file.key(m.get_count(&key(name), limit));
    let opt_count = |name: &str, limit| file.key(m.opt_count(&key(name), limit));
    let opt_f32 = |name: &str| file.key(m.opt_f32(&key(name)));
    if !crate::arch::PAGES.iter().any(|(name, _)| *name == arch) {
        let known: Vec<&str> = crate::arch::PAGES.iter().map(|(name, _)| *name).collect();
        let arch = crate::files::shown(&arch);
        return Err(ConfigError::Arch { file: file.name().into(), arch, known: known.join(", ") });
    }
    let heads = count("attention.head_count", MAX_WIDTH)?;
    let width = count("embedding_length", MAX_WIDTH)?;
    let head_dim = opt_count("attention.key_length", MAX_WIDTH)?.unwrap_or(width / heads.max(1));
    let scaling = match file.key(m.opt_str(&key("rope.scaling.type")))? {
        None | Some("none") => Scaling::None,
        Some("linear") => Scaling::Linear { factor: opt_f32("rope.scaling.factor")?.unwrap_or(1.0) },
        Some("yarn") => Scaling::Yarn {
            factor: opt_f32("rope.scaling.factor")?.unwrap_or(1.0),
            original: opt_count("rope.scaling.original_context_length", MAX_CONTEXT)?.unwrap_or(0) as f32,
            attention: opt_f32("rope.scaling.attn_factor")?,
            beta_fast: 32.0,
            beta_slow: 1.0,
        },
        Some(other) => {
            let what = format!("rope scaling `{}` is not known", crate::files::shown(other));
            return Err(ConfigError::Shape { file: file.name().into(), what });
        }
    };
    let window = opt_count("attention.sliding_window", MAX_CONTEXT)?.filter(|w| *w > 0).map(|w| w as u32);
    let recurrent = if arch == "qwen35" { Some(recurrent(file, &arch)?) } else { None };
    // Layers at the end that guess further tokens (multi-token prediction) are no part of the model proper.
    let guessing = opt_count("nextn_predict_layers", MAX_LAYERS)?.unwrap_or(0);
    Ok(Config {
        layers: count("block_count", MAX_LAYERS)?.saturating_sub(guessing),
        width,
        heads,
        kv_heads: opt_count("attention.head_count_kv", MAX_WIDTH)?.unwrap_or(heads),
        head_dim,
        context: count("context_length", MAX_CONTEXT)?,
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

/// Reads and checks the `ssm.*` keys.
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
    if r.k_heads == 0 || r.v_heads == 0 || r.state == 0 || r.period == 0 || r.conv < 2 {
        return shape(format!("a recurrent layer cannot have this shape: {r:?}"));
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

fn from_json(file: &ModelFile) -> Result<Config, ConfigError> {
    let null = Json::Null;
    let config = file.config().unwrap_or(&null);
    let shape = |what: String| ConfigError::Shape { file: format!("{}/config.json", file.name()), what };
    let opt_count = |key: &str, limit: usize| match config.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(v) => match v.as_u64().filter(|&n| n as usize <= limit) {
            Some(n) => Ok(Some(n as usize)),
            None => Err(shape(format!("`{key}` should be a whole number up to {limit}"))),
        },
    };
    let count = |key: &str, limit| opt_count(key, limit)?.ok_or_else(|| shape(format!("`{key}` is missing")));
    let opt_f32 = |at: &Json, key: &str| at.get(key).and_then(Json::as_f64).map(|x| x as f32);
    let model_type = config.get("model_type").and_then(Json::as_str).unwrap_or("");
    let arch = match model_type {
        "llama" | "mistral" => "llama",
        "gemma3_text" => "gemma3",
        other => other,
    };
    // Of this one only the GGUF form is read: its heads are in another order here.
    if arch == "qwen35" || !crate::arch::PAGES.iter().any(|(name, _)| *name == arch) {
        let known = "llama, mistral, qwen2, qwen3, gemma3_text".to_string();
        let arch = crate::files::shown(arch);
        return Err(ConfigError::Arch { file: file.name().into(), arch, known });
    }
    let heads = count("num_attention_heads", MAX_WIDTH)?;
    let width = count("hidden_size", MAX_WIDTH)?;
    let head_dim = opt_count("head_dim", MAX_WIDTH)?.unwrap_or(width / heads.max(1));
    // Newer files keep all of the rotary embedding's numbers together.
    let rope =
        [config.get("rope_parameters"), config.get("rope_scaling")].into_iter().flatten().find(|v| v.is_object());
    let rope = rope.unwrap_or(&null);
    let rope = if arch == "gemma3" { rope.get("full_attention").unwrap_or(rope) } else { rope };
    let kind = rope.get("rope_type").or(rope.get("type")).and_then(Json::as_str).unwrap_or("default");
    let factor = opt_f32(rope, "factor").unwrap_or(1.0);
    let context = count("max_position_embeddings", MAX_CONTEXT)?;
    let original = opt_f32(rope, "original_max_position_embeddings").unwrap_or(context as f32);
    let scaling = match kind {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor },
        "yarn" => Scaling::Yarn {
            factor,
            original,
            attention: opt_f32(rope, "attention_factor"),
            beta_fast: opt_f32(rope, "beta_fast").unwrap_or(32.0),
            beta_slow: opt_f32(rope, "beta_slow").unwrap_or(1.0),
        },
        "llama3" => Scaling::Llama3 {
            factor,
            low: opt_f32(rope, "low_freq_factor").unwrap_or(1.0),
            high: opt_f32(rope, "high_freq_factor").unwrap_or(4.0),
            original,
        },
        other => return Err(shape(format!("rope scaling `{}` is not known", crate::files::shown(other)))),
    };
    let windowed = match arch {
        "gemma3" => true,
        "qwen2" | "qwen3" => config.get("use_sliding_window").and_then(Json::as_bool).unwrap_or(false),
        _ => true,
    };
    let window = opt_count("sliding_window", MAX_CONTEXT)?.filter(|&w| windowed && w > 0).map(|w| w as u32);
    let scalar = opt_f32(config, "query_pre_attn_scalar").filter(|s| arch == "gemma3" && *s > 0.0);
    let base = opt_f32(rope, "rope_theta").or(opt_f32(config, "rope_theta"));
    Ok(Config {
        layers: count("num_hidden_layers", MAX_LAYERS)?,
        width,
        heads,
        kv_heads: opt_count("num_key_value_heads", MAX_WIDTH)?.unwrap_or(heads),
        head_dim,
        context,
        eps: opt_f32(config, "rms_norm_eps").unwrap_or(1e-6),
        rope: RopeConfig { base: base.unwrap_or(if arch == "gemma3" { 1e6 } else { 10000.0 }), dim: head_dim, scaling },
        local_rope_base: opt_f32(config, "rope_local_base_freq").unwrap_or(10000.0),
        window,
        window_period: match arch {
            "gemma3" => opt_count("sliding_window_pattern", MAX_LAYERS)?.unwrap_or(6),
            _ => 0,
        },
        neox: true,
        attention_scale: scalar.map(|s| 1.0 / s.sqrt()),
        norm_plus_one: arch == "gemma3",
        recurrent: None,
        arch: arch.to_string(),
    })
}
