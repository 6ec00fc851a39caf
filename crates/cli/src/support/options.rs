//! Flags that several commands share, as groups: a name means the same everywhere.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use onetrip_core::fuse::Fuse;
use onetrip_devices::{DeviceSpec, UnknownDevice};
use onetrip_engine::renamed::{self, Renamed};
use onetrip_ir::batch::SampleParams;
use onetrip_ir::device::Commit;
use onetrip_ir::formats::DType;
use onetrip_ir::target::Compute;

/// Which model.
#[derive(Args, Clone, Debug)]
pub struct FileArgs {
    /// The model, as --model takes it: MODEL.gguf or a folder
    // Of commands with a text, this may be the text: `positional` settles which.
    #[arg(index = 1, value_name = "MODEL")]
    pub first: Option<OsString>,
    /// `tiny` (part of this program), a .gguf file, or a Hugging Face folder with config.json, tokenizer.json and
    /// *.safetensors; to look at without weights also `shape:NAME:FORMAT` and `listing:NAME` or `listing:FILE` (the nodes
    /// of another engine) [default: tiny]
    #[arg(long, short, value_parser = path(), value_name = "MODEL")]
    pub model: Option<PathBuf>,
}

impl FileArgs {
    /// The model that was asked for.
    pub fn path(&self) -> &Path {
        self.model.as_deref().unwrap_or(Path::new("tiny"))
    }

    /// Its name in what is printed.
    pub fn name(&self) -> Cow<'_, str> {
        self.path().to_string_lossy()
    }
}

/// Where no `--device` is given.
pub static DEFAULT_DEVICE: DeviceSpec = DeviceSpec::CPU;

/// Which model, on which device, in which precision, by which rules.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    #[command(flatten)]
    pub file: FileArgs,
    /// Device: `cpu`, `cuda` or `cuda:1` (NVIDIA), `wgpu` (Vulkan, Metal, DX12) or `wgpu:NAME` of an adapter [default: cpu]
    #[arg(long, value_parser = device, value_name = "NAME")]
    pub device: Option<DeviceSpec>,
    /// How dispatches are handed to a GPU, never waiting: `each`, `every:K`, `tick` (one submission, made afresh) or `replay`
    /// (a kept one: CUDA) [default: the fastest that `bench --commit-sweep` wrote, else replay on CUDA, tick on others]
    #[arg(long, value_parser = commit, value_name = "POLICY")]
    pub commit: Option<Commit>,
    /// Encode and submit on a second thread (--device wgpu)
    #[arg(long)]
    pub encode_thread: bool,
    /// Decode ticks in one submission (CUDA): tokens are read behind, and a text that ends in the middle has had up to N - 1
    /// ticks run for nothing [default: 1]
    #[arg(long, value_parser = at_least_one, allow_negative_numbers = true, value_name = "N")]
    pub ticks_per_launch: Option<usize>,
    /// Threads of the CPU device [default: all processors]
    #[arg(long, short_alias = 't', value_parser = threads, allow_negative_numbers = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Type that matrices are converted to at load: `stored` (none), q8_0, q4_0, f16, f32, … [default: stored]
    #[arg(long, value_parser = weights, value_name = "TYPE")]
    pub weights: Option<Weights>,
    /// How far activations may be rounded where they meet weights: f32 (not at all), f16 or bf16 (in tensor cores), int8
    /// (in blocks of 32 where the weight is quantized, f16 in tensor cores) [default: int8]
    #[arg(long, value_parser = compute, value_name = "TYPE")]
    pub compute: Option<Compute>,
    /// Type of the key/value cache: f16, f32 or q8_0 [default: f16, with --compute f32 f32]
    #[arg(long, value_parser = cache, value_name = "TYPE")]
    pub cache: Option<DType>,
    /// Rules of fusion: `all`, `none`, or names separated by commas [default: all]
    #[arg(long, value_parser = fuse, value_name = "RULES")]
    pub fuse: Option<Fuse>,
}

// Flags are options, not defaults, so that a gate file can say what no flag does.
impl ModelArgs {
    /// `--device`.
    pub fn device(&self) -> &DeviceSpec {
        self.device.as_ref().unwrap_or(&DEFAULT_DEVICE)
    }

    /// `--weights`: the type to convert to, if any.
    pub fn weights(&self) -> Option<DType> {
        self.weights.and_then(|w| w.0)
    }

    /// `--compute`.
    pub fn compute(&self) -> Compute {
        self.compute.unwrap_or(Compute::Int8)
    }

    /// `--cache`. Whoever asks for f32 has nothing rounded, what is in the cache neither.
    pub fn cache(&self) -> DType {
        let exact = self.compute() == Compute::F32;
        self.cache.unwrap_or(if exact { DType::F32 } else { DType::F16 })
    }

    /// `--fuse`.
    pub fn fuse(&self) -> Fuse {
        self.fuse.clone().unwrap_or(Fuse::All)
    }
}

/// `--weights`.
#[derive(Clone, Copy, Debug)]
pub struct Weights(pub Option<DType>);

/// How the next token is chosen.
#[derive(Args, Clone, Debug)]
pub struct SampleArgs {
    /// Randomness: 0 takes the best token every time (greedy), 0.8 is lively; default: the model's advice, else 0
    #[arg(long, alias = "temp", value_parser = temperature, allow_negative_numbers = true, value_name = "X")]
    pub temperature: Option<f32>,
    /// Choose among the K best tokens; 0 for all; default: the model's advice, else 0
    #[arg(long, value_parser = whole_u32, allow_negative_numbers = true, value_name = "K")]
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
    #[arg(long, short_alias = 's', default_value = "0", value_parser = whole, allow_negative_numbers = true, value_name = "N")]
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
    #[arg(long, value_parser = at_least_one, allow_negative_numbers = true, value_name = "T")]
    pub prompt: Option<usize>,
    /// Positions of each sequence after the step [default: 256 for decode, T for prefill]
    #[arg(long, value_parser = at_least_one, allow_negative_numbers = true, value_name = "L")]
    pub context: Option<usize>,
    /// Sequences [default: 1]
    #[arg(long, value_parser = at_least_one, allow_negative_numbers = true, value_name = "S")]
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

/// The largest number of tokens, positions or sequences: sizes made of it do not overflow.
pub const MOST: usize = 1 << 27;
/// The largest number of threads.
const MOST_THREADS: usize = 1024;

fn between(text: &str, low: usize, high: usize) -> Result<usize, String> {
    let is_large = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<usize>() {
        Ok(n) if (low..=high).contains(&n) => Ok(n),
        Ok(n) if n > high => Err(format!("the limit is {high}")),
        Err(_) if is_large => Err(format!("the limit is {high}")),
        _ => Err(format!("give a whole number of at least {low}")),
    }
}

/// A whole number of at least 1 (and not so large that sizes made of it overflow).
pub fn at_least_one(text: &str) -> Result<usize, String> {
    between(text, 1, MOST)
}

/// A number of tokens, positions or runs, which may be none.
pub fn count(text: &str) -> Result<usize, String> {
    between(text, 0, MOST)
}

/// A number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    between(text, 1, MOST_THREADS)
}

/// A whole number, for seeds.
pub fn whole(text: &str) -> Result<u64, String> {
    let hint = format!("give a whole number of at least 0, and up to {}", u64::MAX);
    text.parse().map_err(|_| hint)
}

fn whole_u32(text: &str) -> Result<u32, String> {
    let hint = format!("give a whole number of at least 0, and up to {}", u32::MAX);
    text.parse().map_err(|_| hint)
}

/// New tokens at most; `-1` is [`UNLIMITED`].
pub fn new_tokens(text: &str) -> Result<usize, String> {
    match text {
        "-1" => Ok(UNLIMITED),
        _ => count(text).map_err(|e| format!("{e} (-1: until the model or the context ends)")),
    }
}

/// As many new tokens as the model makes and the context holds.
pub const UNLIMITED: usize = usize::MAX;

/// At most so many; a number that is too large for anything is no limit.
pub fn limit(text: &str) -> Result<usize, String> {
    match at_least_one(text) {
        Err(_) if text.bytes().any(|b| b != b'0') && text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() => {
            Ok(usize::MAX)
        }
        other => other,
    }
}

/// A path: any bytes, but not none.
pub fn path() -> impl TypedValueParser<Value = PathBuf> {
    let read = |text: OsString| match text.is_empty() {
        true => Err("the path is empty: name a file".to_string()),
        false => Ok(PathBuf::from(text)),
    };
    OsStringValueParser::new().try_map(read)
}

/// Text that goes to the model.
pub fn utf8() -> impl TypedValueParser<Value = String> {
    let read = |text: OsString| text.into_string().map_err(|_| "the text is not UTF-8: convert it first".to_string());
    OsStringValueParser::new().try_map(read)
}

/// A text that ends a text.
pub fn stop() -> impl TypedValueParser<Value = String> {
    utf8().try_map(|text| match text.is_empty() {
        true => {
            Err("an empty text would end every text before its first token: give some text, or leave it out"
                .to_string())
        }
        false => Ok(text),
    })
}

/// `--fuse`, each rule by its old or its new name.
pub fn fuse(text: &str) -> Result<Fuse, String> {
    fuse_with(renamed::RULES, text)
}

fn fuse_with(rules: &[Renamed], text: &str) -> Result<Fuse, String> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let hint = "give `all`, `none`, or names of rules separated by commas";
    if names.iter().any(|n| n.is_empty()) {
        return Err(format!("a name is empty: {hint}"));
    }
    match names.iter().find(|n| matches!(**n, "all" | "none")) {
        Some(name) if names.len() > 1 => Err(format!("`{name}` stands alone: {hint}")),
        Some(name) => Fuse::parse(name),
        None => Fuse::parse(&renamed::new_names(rules, text)),
    }
}

/// `--fuse` as it is written.
pub fn fuse_name(fuse: &Fuse) -> String {
    match fuse {
        Fuse::All => "all".into(),
        Fuse::None => "none".into(),
        Fuse::Some(names) => names.join(","),
    }
}

/// `--compute` as it is written.
pub fn compute_name(compute: Compute) -> &'static str {
    match compute {
        Compute::Int8 => "int8",
        Compute::F32 => "f32",
        Compute::F16 => "f16",
        Compute::Bf16 => "bf16",
    }
}

/// `--device`.
pub fn device(text: &str) -> Result<DeviceSpec, String> {
    text.parse().map_err(|e: UnknownDevice| e.to_string())
}

/// `--commit`.
pub fn commit(text: &str) -> Result<Commit, String> {
    text.parse()
}

/// `--weights`.
pub fn weights(text: &str) -> Result<Weights, String> {
    if text == "stored" {
        return Ok(Weights(None));
    }
    DType::parse(text).map(|d| Weights(Some(d))).ok_or_else(|| {
        let names: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
        format!("no such type; types: stored, {}", names.join(", "))
    })
}

/// `--compute`.
pub fn compute(text: &str) -> Result<Compute, String> {
    match text {
        "int8" => Ok(Compute::Int8),
        "f32" => Ok(Compute::F32),
        "f16" => Ok(Compute::F16),
        "bf16" => Ok(Compute::Bf16),
        _ => Err("give int8, f16, bf16 or f32".into()),
    }
}

/// `--cache`.
pub fn cache(text: &str) -> Result<DType, String> {
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
    fn a_device_is_known_by_its_old_and_its_new_name() {
        for (text, name) in [
            ("cpu", "cpu"),
            ("cuda:1", "cuda:1"),
            ("gpu", "wgpu"),
            ("wgpu", "wgpu"),
            ("gpu:RTX: 4", "wgpu:RTX: 4"),
            ("wgpu:RTX: 4", "wgpu:RTX: 4"),
        ] {
            assert_eq!(device(text).map(|d| d.to_string()).as_deref(), Ok(name));
        }
        for text in ["", "wgp", "wgpu:", "gpu:", "cuda:", "cuda:x", "cpu:0", "Wgpu"] {
            assert!(device(text).is_err_and(|e| e.contains("devices: cpu")), "{text:?}");
        }
    }

    #[test]
    fn rules_are_known_by_their_old_and_their_new_names() {
        let (old, new) = ("a-name-of-old", "gate-up");
        let with = |text: &str| fuse_with(&[(old, new)], text);
        assert_eq!(with("a-name-of-old, residual-norm"), fuse("gate-up,residual-norm"));
        assert_eq!(with("gate-up"), fuse("gate-up"));
        assert!(fuse(old).is_err_and(|e| e.contains("`a-name-of-old`")));
        assert!(with("all,a-name-of-old").is_err_and(|e| e.contains("`all` stands alone")));
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
