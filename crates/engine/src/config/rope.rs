//! Rotary embeddings from the keys of a model file: base, rotated elements, and how frequencies are scaled for longer contexts.

use onetrip_core::ops::rope::frequencies::{RopeConfig, Scaling, yarn_attention};
use onetrip_ir::text::shown;

use super::ConfigError;
use super::hyperparameters::{MAX_CONTEXT, MAX_WIDTH};
use super::keys::{Key, Keys, key};

/// The objects of `config.json` that hold rotary parameters, in the order in which they are looked up.
const OBJECTS: &[&str] = &["rope_parameters.full_attention", "rope_parameters", "rope_scaling"];
/// The object for layers with a sliding window, where they have their own.
const SLIDING: &[&str] = &["rope_parameters.sliding_attention"];

/// The names of a parameter in several objects of `config.json`.
fn within(objects: &[&str], names: &[&str]) -> String {
    let all = names.iter().flat_map(|name| objects.iter().map(move |o| format!("{o}.{name}")));
    all.collect::<Vec<_>>().join("|")
}

/// The base of the frequencies, if the file says it: under `gguf` in GGUF; in the objects, or as `json`, in `config.json`.
fn base(keys: &Keys, gguf: &str, objects: &[&str], json: &str) -> Result<Option<f32>, ConfigError> {
    let json = format!("{}|{json}", within(objects, &["rope_theta"]));
    keys.number_within(key(gguf, &json), 1e-3, 1e12)
}

/// How the frequencies are scaled.
struct Scaled {
    scaling: Scaling,
    /// Factor on cosine and sine besides the one of the scaling.
    attention: f32,
    /// Positions of the original context; those of the configuration if the file says no other number.
    original: f32,
    /// Divisors of the frequencies for contexts up to the original one, and for longer ones.
    long_factors: Option<[Vec<f32>; 2]>,
}

/// Reads how the frequencies are scaled. `trained` is the number of positions in the configuration.
fn scaling(keys: &Keys, objects: &[&str], trained: usize) -> Result<Scaled, ConfigError> {
    let number = |gguf: &str, json: &str, low: f32, high: f32| {
        let json = if json.is_empty() { String::new() } else { within(objects, &[json]) };
        keys.number_within(key(gguf, &json), low, high)
    };
    for object in ["rope_parameters", "rope_scaling"] {
        keys.object(object)?;
    }
    let kind_names = within(objects, &["rope_type", "type"]);
    let kind = keys.text(key("rope.scaling.type", &kind_names))?;
    let factor = number("rope.scaling.factor|rope.scale_linear", "factor", 1e-3, 1e6)?;
    let original_names = within(objects, &["original_max_position_embeddings"]);
    let original = key("rope.scaling.original_context_length", &original_names);
    let original = match keys.number_within(original, 1.0, MAX_CONTEXT as f32)? {
        Some(n) => Some(n),
        None => keys.number_within(key("", "original_max_position_embeddings"), 1.0, MAX_CONTEXT as f32)?,
    };
    // In GGUF these factors multiply the one that the scaling has by itself.
    let attention = number("rope.scaling.attn_factor", "", 1e-3, 1e3)?.unwrap_or(1.0)
        * number("rope.scaling.yarn_attn_factor", "", 1e-3, 1e3)?.unwrap_or(1.0);
    let replaced = number("", "attention_factor", 1e-3, 1e3)?;
    let log = number("rope.scaling.yarn_log_multiplier", "", -1e3, 1e3)?.filter(|x| *x != 0.0);
    let scales = (number("", "mscale", -1e3, 1e3)?, number("", "mscale_all_dim", -1e3, 1e3)?);
    let betas = (
        number("rope.scaling.yarn_beta_fast", "beta_fast", 1e-3, 1e6)?.unwrap_or(32.0),
        number("rope.scaling.yarn_beta_slow", "beta_slow", 1e-3, 1e6)?.unwrap_or(1.0),
    );
    let truncate = keys.flag(key("", &within(objects, &["truncate"])))?.unwrap_or(true);
    // The share of YaRN's ramp; negative: the program's choice, which is all of it.
    let share = number("rope.scaling.yarn_ext_factor", "", -1e3, 1e3)?.filter(|x| *x >= 0.0);
    let low = number("", "low_freq_factor", 1e-3, 1e6)?;
    let high = number("", "high_freq_factor", 1e-3, 1e6)?;

    let lists = [["short_factor"], ["long_factor"]].map(|name| keys.numbers(key("", &within(objects, &name))));
    let [short, long] = lists;
    let (short, long) = (short?, long?);
    let mut long_factors = None;
    let mut attention = attention;

    let missing = |name: &str| keys.refuse(format!("{} is missing for this rope scaling", keys.name(names_of(name))));
    let scaling = match kind {
        // A GGUF file that has a factor and no type means a linear scaling, as older converters wrote it.
        None if keys.is_gguf() => {
            factor.filter(|f| *f != 1.0).map_or(Scaling::None, |factor| Scaling::Linear { factor })
        }
        None => match factor {
            Some(f) if f != 1.0 => {
                let what = format!("{} is {f}, and no `rope_type` says how to apply it", keys.name(names_of("factor")));
                return Err(keys.refuse(what));
            }
            _ => Scaling::None,
        },
        Some("default" | "none") => Scaling::None,
        Some("linear") => Scaling::Linear { factor: factor.ok_or_else(|| missing("factor"))? },
        Some("yarn") => {
            let from = original.unwrap_or(trained as f32);
            let factor = match factor {
                Some(factor) => factor,
                // Transformers takes the ratio of the two contexts then.
                None if original.is_some() => trained as f32 / from,
                None => return Err(missing("factor")),
            };
            if let Some(share) = share.filter(|x| *x != 1.0) {
                let what = "only 1 (all of YaRN's ramp) is implemented";
                return Err(keys.refuse(format!("`{}.rope.scaling.yarn_ext_factor` is {share}: {what}", keys.named())));
            }
            let attention = match (replaced, scales, log) {
                (Some(factor), ..) => Some(factor),
                (None, (Some(all), Some(dim)), _) if all != 0.0 && dim != 0.0 => {
                    Some(yarn_attention(factor, all) / yarn_attention(factor, dim))
                }
                // The multiplier is the one of the dimensions; the other is 1.
                (None, _, Some(log)) => Some(yarn_attention(factor, 1.0) / yarn_attention(factor, log)),
                _ => None,
            };
            Scaling::Yarn { factor, original: from, attention, beta_fast: betas.0, beta_slow: betas.1, truncate }
        }
        Some("llama3") => {
            let (low, high) = (low.unwrap_or(1.0), high.unwrap_or(4.0));
            if low >= high {
                let names = [names_of("low_freq_factor"), names_of("high_freq_factor")].map(|k| keys.name(k));
                return Err(keys.refuse(format!(
                    "{} and {} are {low} and {high}: the first has to be the smaller one",
                    names[0], names[1]
                )));
            }
            let factor = factor.ok_or_else(|| missing("factor"))?;
            Scaling::Llama3 { factor, low, high, original: original.unwrap_or(trained as f32) }
        }
        Some("longrope" | "su") if keys.is_gguf() => Scaling::None,
        Some("longrope" | "su") => {
            let (Some(short), Some(long)) = (short, long) else {
                return Err(keys.refuse("rope scaling `longrope` needs `short_factor` and `long_factor`".into()));
            };
            let from = original.unwrap_or(trained as f32);
            let ratio = if original.is_some() { trained as f32 / from } else { factor.unwrap_or(1.0) };
            // The paper's factor for a context that is longer by `ratio`.
            let longer = || if ratio > 1.0 { (1.0 + ratio.ln() / from.ln()).sqrt() } else { 1.0 };
            attention *= replaced.unwrap_or_else(longer);
            long_factors = Some([short, long]);
            Scaling::None
        }
        Some(other) => return Err(keys.refuse(format!("rope scaling `{}` is not known", shown(other)))),
    };
    Ok(Scaled { scaling, attention, original: original.unwrap_or(trained as f32), long_factors })
}

/// A parameter of rope scaling as error texts call it.
fn names_of(name: &str) -> Key<'static> {
    match name {
        "low_freq_factor" => key("rope.scaling.low_freq_factor", "rope_scaling.low_freq_factor"),
        "high_freq_factor" => key("rope.scaling.high_freq_factor", "rope_scaling.high_freq_factor"),
        _ => key("rope.scaling.factor", "rope_scaling.factor"),
    }
}

/// The rotary embedding of layers that see all positions, and what depends on the asked context.
pub struct Global {
    /// The rotary embedding.
    pub rope: RopeConfig,
    /// As [`Config::original`](super::Config::original).
    pub original: usize,
    /// As [`Config::long_factors`](super::Config::long_factors).
    pub long_factors: Option<[Vec<f32>; 2]>,
}

/// Reads the rotary embedding of layers that see all positions. All `head_dim` elements of a head are rotated unless the file
/// says otherwise.
pub fn global(keys: &Keys, head_dim: usize, trained: usize, default_base: f32) -> Result<Global, ConfigError> {
    let Scaled { scaling, attention, original, long_factors } = scaling(keys, OBJECTS, trained)?;
    let share = format!("{}|partial_rotary_factor", within(OBJECTS, &["partial_rotary_factor"]));
    let share = keys.number_within(key("", &share), 0.0, 1.0)?;
    let dim = match keys.opt_count(key("rope.dimension_count", ""), MAX_WIDTH)? {
        Some(dim) => dim,
        None => share.map_or(head_dim, |share| (head_dim as f32 * share) as usize),
    };
    if let Some(list) = long_factors.iter().flatten().find(|list| list.len() != dim / 2) {
        let what = format!("`short_factor` and `long_factor` need {} items, and one has {}", dim / 2, list.len());
        return Err(keys.refuse(what));
    }
    let base = base(keys, "rope.freq_base", OBJECTS, "rope_theta")?.unwrap_or(default_base);
    Ok(Global { rope: RopeConfig { base, dim, scaling, attention }, original: original as usize, long_factors })
}

/// Reads the rotary embedding of layers with a sliding window, where those have their own: other frequencies, and a scaling only
/// if the file has one for them.
pub fn sliding(keys: &Keys, global: &RopeConfig, trained: usize, default_base: f32) -> Result<RopeConfig, ConfigError> {
    let base = base(keys, "rope.freq_base_swa", SLIDING, "rope_local_base_freq")?.unwrap_or(default_base);
    let (mut scaling, mut attention) = (Scaling::None, 1.0);
    if keys.object("rope_parameters")? && keys.object(SLIDING[0])? {
        let own = self::scaling(keys, SLIDING, trained)?;
        (scaling, attention) = (own.scaling, own.attention);
    }
    Ok(RopeConfig { base, dim: global.dim, scaling, attention })
}
