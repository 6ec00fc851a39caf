//! The configuration of a Hugging Face folder: `config.json`.

use serde_json::Value as Json;

use super::hyperparameters::{Config, ConfigError, MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH};
use crate::files::{FileError, ModelFile};
use onetrip_core::ops::rope::frequencies::{RopeConfig, Scaling};
use onetrip_ir::text::shown;

/// An object of the configuration, with its place in the file for error texts.
struct Part<'a> {
    file: &'a ModelFile,
    /// Prefix of the keys in error texts: `rope_scaling.` for that object, empty for the whole configuration.
    prefix: String,
    /// The object, or null if the configuration does not have it.
    value: &'a Json,
}

fn shape(file: &ModelFile, what: String) -> ConfigError {
    ConfigError::Shape { file: format!("{}/config.json", file.name()), what }
}

/// The first 40 characters of a value, for error texts.
fn brief(value: &Json) -> String {
    shown(&value.to_string().chars().take(40).collect::<String>())
}

impl<'a> Part<'a> {
    fn get(&self, key: &str) -> Option<&'a Json> {
        self.value.get(key).filter(|v| !v.is_null())
    }

    fn wrong(&self, key: &str, want: &str, found: &Json) -> ConfigError {
        shape(self.file, format!("`{}{key}` should be {want}, and is {}", self.prefix, brief(found)))
    }

    /// The value of `key`, read by `read`; a value of another type is an error that names the key and the type `want`.
    fn opt<T>(&self, key: &str, want: &str, read: impl Fn(&'a Json) -> Option<T>) -> Result<Option<T>, ConfigError> {
        self.get(key).map(|v| read(v).ok_or_else(|| self.wrong(key, want, v))).transpose()
    }

    fn number(&self, key: &str) -> Result<Option<f32>, ConfigError> {
        self.opt(key, "a number", |v| v.as_f64().map(|x| x as f32))
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        self.opt(key, "text", Json::as_str)
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.opt(key, "true or false", Json::as_bool)
    }

    fn object(&self, key: &str) -> Result<Option<Part<'a>>, ConfigError> {
        let value = self.opt(key, "an object", |v| v.is_object().then_some(v))?;
        Ok(value.map(|value| Part { file: self.file, prefix: format!("{}{key}.", self.prefix), value }))
    }

    fn opt_count(&self, key: &str, limit: usize) -> Result<Option<usize>, ConfigError> {
        let count = |v: &Json| v.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= limit);
        self.opt(key, &format!("a whole number up to {limit}"), count)
    }

    fn count(&self, key: &str, limit: usize) -> Result<usize, ConfigError> {
        self.opt_count(key, limit)?.ok_or_else(|| shape(self.file, format!("`{}{key}` is missing", self.prefix)))
    }
}

/// Reads the configuration. Values of a wrong type are errors, and so are settings that no model definition implements.
pub(super) fn read(file: &ModelFile, known: &[&str]) -> Result<Config, ConfigError> {
    let value = file.config().unwrap_or(&Json::Null);
    if !value.is_object() {
        return Err(shape(file, format!("the file should hold one JSON object, and holds {}", brief(value))));
    }
    let config = Part { file, prefix: String::new(), value };
    let model_type = config.text("model_type")?;
    let model_type = model_type.ok_or_else(|| shape(file, "`model_type` is missing".into()))?;
    let arch = match model_type {
        "llama" | "mistral" => "llama",
        "gemma3_text" => "gemma3",
        other => other,
    };
    // Qwen 3.5 is read from GGUF files only: Hugging Face files have its heads in another order.
    if arch == "qwen35" || !known.contains(&arch) {
        let known = "llama, mistral, qwen2, qwen3, gemma3_text".to_string();
        return Err(ConfigError::Arch { file: file.name().into(), arch: shown(arch), known });
    }
    check_activation(&config, arch)?;
    // The configuration promises an output matrix. Without this check the embedding table would silently take its place and
    // give wrong logits.
    if config.flag("tie_word_embeddings")? == Some(false) && file.tensor("lm_head.weight").is_none() {
        let what = "missing, and config.json says `tie_word_embeddings: false`";
        let hint = "fetch all weight files of the model again";
        return Err(FileError::tensor(file.name(), "lm_head.weight", what, hint).into());
    }
    let heads = config.count("num_attention_heads", MAX_WIDTH)?;
    let width = config.count("hidden_size", MAX_WIDTH)?;
    let head_dim = config.opt_count("head_dim", MAX_WIDTH)?.unwrap_or(width / heads.max(1));
    let context = config.count("max_position_embeddings", MAX_CONTEXT)?;
    // Newer files keep all parameters of the rotary embedding in `rope_parameters`; Gemma 3 has one object for each kind of
    // layer there.
    let (newer, older) = (config.object("rope_parameters")?, config.object("rope_scaling")?);
    let none = Part { file, prefix: String::new(), value: &Json::Null };
    let mut rope = newer.or(older).unwrap_or(none);
    let mut local = None;
    if arch == "gemma3" {
        local = rope.object("sliding_attention")?;
        rope = rope.object("full_attention")?.unwrap_or(rope);
    }
    let windowed = match arch {
        "qwen2" | "qwen3" => config.flag("use_sliding_window")?.unwrap_or(false),
        _ => true,
    };
    let window = config.opt_count("sliding_window", MAX_CONTEXT)?.filter(|&w| windowed && w > 0);
    let is_gemma = arch == "gemma3";
    let scalar = if is_gemma { config.number("query_pre_attn_scalar")? } else { None };
    let base = rope.number("rope_theta")?.or(config.number("rope_theta")?);
    let local_base = match &local {
        Some(local) => local.number("rope_theta")?,
        None => None,
    };
    Ok(Config {
        layers: config.count("num_hidden_layers", MAX_LAYERS)?,
        width,
        heads,
        kv_heads: config.opt_count("num_key_value_heads", MAX_WIDTH)?.unwrap_or(heads),
        head_dim,
        context,
        eps: config.number("rms_norm_eps")?.unwrap_or(1e-6),
        rope: RopeConfig {
            base: base.unwrap_or(if is_gemma { 1e6 } else { 10000.0 }),
            dim: head_dim,
            scaling: scaling(&rope, context)?,
        },
        local_rope_base: local_base.or(config.number("rope_local_base_freq")?).unwrap_or(10000.0),
        window: window.map(|w| w as u32),
        window_period: if is_gemma { config.opt_count("sliding_window_pattern", MAX_LAYERS)?.unwrap_or(6) } else { 0 },
        neox: true,
        attention_scale: scalar.map(|s| 1.0 / s.sqrt()),
        norm_plus_one: is_gemma,
        recurrent: None,
        arch: arch.to_string(),
    })
}

/// Checks the activation function. A model definition implements only one, so a file with another would give wrong logits.
fn check_activation(config: &Part, arch: &str) -> Result<(), ConfigError> {
    let (key, known): (&str, &[&str]) = match arch {
        "gemma3" => ("hidden_activation", &["gelu_pytorch_tanh"]),
        // `silu` and `swish` are names of the same function.
        _ => ("hidden_act", &["silu", "swish"]),
    };
    match config.text(key)? {
        Some(found) if !known.contains(&found) => {
            let what = format!("`{key}` is `{}`: for this architecture {} is computed", shown(found), known[0]);
            Err(shape(config.file, what))
        }
        _ => Ok(()),
    }
}

fn scaling(rope: &Part, context: usize) -> Result<Scaling, ConfigError> {
    let kind = match rope.text("rope_type")? {
        Some(kind) => Some(kind),
        None => rope.text("type")?,
    };
    let factor = rope.number("factor")?.unwrap_or(1.0);
    let original = rope.number("original_max_position_embeddings")?.unwrap_or(context as f32);
    Ok(match kind.unwrap_or("default") {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor },
        "yarn" => Scaling::Yarn {
            factor,
            original,
            attention: rope.number("attention_factor")?,
            beta_fast: rope.number("beta_fast")?.unwrap_or(32.0),
            beta_slow: rope.number("beta_slow")?.unwrap_or(1.0),
        },
        "llama3" => Scaling::Llama3 {
            factor,
            low: rope.number("low_freq_factor")?.unwrap_or(1.0),
            high: rope.number("high_freq_factor")?.unwrap_or(4.0),
            original,
        },
        other => return Err(shape(rope.file, format!("rope scaling `{}` is not known", shown(other)))),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The error text for a folder with this `config.json`; empty if the folder is accepted.
    fn error(config: &Json) -> String {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
        // A safetensors file without tensors.
        let mut bytes = 8u64.to_le_bytes().to_vec();
        bytes.extend(b"{}      ");
        std::fs::write(dir.path().join("model.safetensors"), bytes).expect("written");
        let file = ModelFile::open(dir.path()).expect("opens");
        Config::read(&file, &crate::models::names()).err().map_or(String::new(), |e| e.to_string())
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
}
