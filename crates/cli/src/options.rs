//! Flags that several commands share, as groups: a name means the same everywhere.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use onetrip_core::batch::SampleParams;
use onetrip_core::formats::DType;
use onetrip_core::fuse::Fuse;
use onetrip_core::ops::Compute;

/// Which model.
#[derive(Args, Clone, Debug)]
pub struct FileArgs {
    /// `tiny` (part of this program), a .gguf file, or a Hugging Face folder with config.json, tokenizer.json and
    /// *.safetensors [default: tiny]
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
}

impl FileArgs {
    /// The model that was asked for.
    pub fn name(&self) -> &str {
        self.model.as_deref().unwrap_or("tiny")
    }
}

/// Which model, on which device, in which precision, by which rules.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    #[command(flatten)]
    pub file: FileArgs,
    /// Device of the plan: `cpu` runs here; `cuda` and `gpu` (wgpu) can be explained and counted
    #[arg(long, default_value = "cpu", value_parser = device, value_name = "NAME")]
    pub device: String,
    /// Threads of the CPU device [default: all processors]
    #[arg(long, value_parser = at_least_one, value_name = "N")]
    pub threads: Option<usize>,
    /// Type that matrices are converted to at load: `stored` (none), q8_0, q4_0, f16, f32, …
    #[arg(long, default_value = "stored", value_parser = weights, value_name = "TYPE")]
    pub weights: Weights,
    /// Precision of activations: f32, or int8 (blocks of 32, where they meet quantized weights)
    #[arg(long, default_value = "int8", value_parser = compute, value_name = "TYPE")]
    pub compute: Compute,
    /// Type of the key/value cache: f16, f32 or q8_0
    #[arg(long, default_value = "f16", value_parser = cache, value_name = "TYPE")]
    pub cache: DType,
    /// Rules of fusion: `all`, `none`, or names separated by commas
    #[arg(long, default_value = "all", value_parser = Fuse::parse, value_name = "RULES")]
    pub fuse: Fuse,
}

/// `--weights`.
#[derive(Clone, Copy, Debug)]
pub struct Weights(pub Option<DType>);

/// How the next token is chosen.
#[derive(Args, Clone, Debug)]
pub struct SampleArgs {
    /// Randomness: 0 takes the best token every time (greedy), 0.8 is lively; default: the model's advice, else 0
    #[arg(long, value_parser = temperature, allow_negative_numbers = true, value_name = "X")]
    pub temperature: Option<f32>,
    /// Choose among the K best tokens; 0 for all; default: the model's advice, else 0
    #[arg(long, value_name = "K")]
    pub top_k: Option<u32>,
    /// Choose among the best tokens that together have probability P; default: the model's advice, else 1
    #[arg(long, value_parser = top_p, allow_negative_numbers = true, value_name = "P")]
    pub top_p: Option<f32>,
    /// Leave out tokens less likely than P times the best one; default: the model's advice, else 0
    #[arg(long, value_parser = min_p, allow_negative_numbers = true, value_name = "P")]
    pub min_p: Option<f32>,
    /// Make the last 64 tokens less likely to come again, 1 changes nothing; default: the model's advice, else 1
    #[arg(long, value_parser = repeat_penalty, allow_negative_numbers = true, value_name = "X")]
    pub repeat_penalty: Option<f32>,
    /// Seed of the random numbers: the same seed gives the same text
    #[arg(long, default_value = "0", value_name = "N")]
    pub seed: u64,
}

impl SampleArgs {
    /// The engine's form: what was given, else what the model recommends, with the number of best tokens to report.
    pub fn params(&self, advice: &SampleParams, top: u32) -> SampleParams {
        SampleParams {
            temperature: self.temperature.unwrap_or(advice.temperature),
            top_k: self.top_k.unwrap_or(advice.top_k),
            top_p: self.top_p.unwrap_or(advice.top_p),
            min_p: self.min_p.unwrap_or(advice.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(advice.repeat_penalty),
            seed: self.seed,
            top,
        }
    }
}

/// Which step a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// One new token for every sequence.
    Decode,
    /// Many tokens of a prompt.
    Prefill,
}

impl Phase {
    /// Name in JSON and in flags.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Decode => "decode",
            Phase::Prefill => "prefill",
        }
    }
}

/// The step batch that a plan is printed, counted or timed for.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// The step: `decode` is one tick, `prefill` a prompt [default: decode]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "decode|prefill")]
    pub phase: Option<Phase>,
    /// Tokens of each sequence in a prefill step [default: 512]
    #[arg(long, value_parser = at_least_one, value_name = "T")]
    pub prompt: Option<usize>,
    /// Positions of each sequence after the step [default: 256 for decode, T for prefill]
    #[arg(long, value_parser = at_least_one, value_name = "L")]
    pub context: Option<usize>,
    /// Sequences [default: 1]
    #[arg(long, value_parser = at_least_one, value_name = "S")]
    pub batch: Option<usize>,
}

/// A list of token ids: `1,2,3` or `1 2 3`, or `@FILE` with such a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids(pub Vec<u32>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Ids, String> {
        let read;
        let list = match text.strip_prefix('@') {
            None => text,
            Some(path) => {
                read = std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
                read.trim()
            }
        };
        let list = list.trim().trim_start_matches('[').trim_end_matches(']');
        let words = list.split(|c: char| c == ',' || c.is_whitespace()).filter(|w| !w.is_empty());
        let id = |word: &str| {
            word.parse::<u32>().map_err(|_| {
                let shown: String = word.chars().take(20).collect();
                format!("`{shown}` is not a token id: give whole numbers separated by commas, or @FILE")
            })
        };
        words.map(id).collect::<Result<_, _>>().map(Ids)
    }
}

/// A whole number of at least 1 (and not so large that sizes made of it overflow).
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if (1..=1 << 27).contains(&n) => Ok(n),
        _ => Err("give a whole number of at least 1".into()),
    }
}

fn device(text: &str) -> Result<String, String> {
    match text {
        "cpu" | "cuda" | "gpu" => Ok(text.into()),
        "wgpu" => Ok("gpu".into()),
        _ => Err("no such device; devices: cpu, and for explain and count: cuda, gpu".into()),
    }
}

fn weights(text: &str) -> Result<Weights, String> {
    if text == "stored" {
        return Ok(Weights(None));
    }
    DType::parse(text).map(|d| Weights(Some(d))).ok_or_else(|| {
        let names: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
        format!("no such type; types: stored, {}", names.join(", "))
    })
}

fn compute(text: &str) -> Result<Compute, String> {
    match text {
        "int8" => Ok(Compute::Int8),
        "f32" => Ok(Compute::F32),
        "f16" | "bf16" => Err(format!("{text} is not on the CPU device yet: give int8 or f32")),
        _ => Err("give int8 or f32".into()),
    }
}

fn cache(text: &str) -> Result<DType, String> {
    let dtype = DType::parse(text).filter(|d| matches!(d, DType::F16 | DType::F32 | DType::Q8_0));
    dtype.ok_or_else(|| "give f16, f32 or q8_0".into())
}

fn number(text: &str, is_good: impl Fn(f32) -> bool, hint: &str) -> Result<f32, String> {
    text.parse::<f32>().ok().filter(|x| x.is_finite() && is_good(*x)).ok_or_else(|| format!("give {hint}"))
}

fn temperature(text: &str) -> Result<f32, String> {
    number(text, |x| x >= 0.0, "a number of at least 0")
}

fn top_p(text: &str) -> Result<f32, String> {
    number(text, |x| x > 0.0 && x <= 1.0, "a number above 0, up to 1")
}

fn min_p(text: &str) -> Result<f32, String> {
    number(text, |x| (0.0..1.0).contains(&x), "a number from 0 to below 1")
}

fn repeat_penalty(text: &str) -> Result<f32, String> {
    number(text, |x| x > 0.0, "a number above 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_any_usual_form() {
        for text in ["1,2,3", "1 2 3", "[1, 2, 3]", " 1,2,\n3 "] {
            assert_eq!(text.parse::<Ids>(), Ok(Ids(vec![1, 2, 3])), "{text:?}");
        }
        assert!("1,x".parse::<Ids>().is_err_and(|e| e.contains("`x`")));
        assert!("4294967296".parse::<Ids>().is_err());
        assert!("-1".parse::<Ids>().is_err());
        assert!("@no/such/file".parse::<Ids>().is_err_and(|e| e.contains("no/such/file")));
    }

    #[test]
    fn numbers_out_of_their_range_are_refused() {
        assert!(temperature("-0.1").is_err() && temperature("inf").is_err() && temperature("nan").is_err());
        assert!(top_p("0").is_err() && top_p("1").is_ok() && top_p("1.01").is_err());
        assert!(min_p("0").is_ok() && min_p("1").is_err());
        assert!(
            repeat_penalty("0").is_err() && at_least_one("0").is_err() && at_least_one("18446744073709551615").is_err()
        );
    }
}
