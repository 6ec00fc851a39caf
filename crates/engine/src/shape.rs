//! Models without weights: `shape:qwen2.5-0.5b:f16` stands for the header of a file of that model in that format. Plans,
//! counts and predictions need only the header. `shape:qwen3.5-9b@4:q4_0` has only the first 4 layers.

use onetrip_ir::formats::DType;

use crate::config::Recurrent;
use crate::files::{FileError, Metadata, ModelFile, Value};

/// The prefix of names of models without weights.
pub const PREFIX: &str = "shape:";

/// The dimensions of a model, as its authors published them.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Name of the shape, as between the colons of `shape:NAME:FORMAT`.
    pub name: &'static str,
    /// Name of the architecture in GGUF.
    pub arch: &'static str,
    layers: u64,
    width: u64,
    ffn: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    vocabulary: u64,
    context: u64,
    rope_base: f64,
    eps: f64,
    /// The embedding table is also the output matrix.
    is_tied: bool,
    /// Positions of the sliding window of attention, if there is one.
    window: Option<u64>,
    /// Elements of a head that are rotated (RoPE); `None` if all are.
    rotated: Option<u64>,
    /// Shape of the layers that keep a recurrent state instead of a KV cache, if there are any.
    recurrent: Option<Recurrent>,
}

const LLAMA: Shape = Shape {
    name: "",
    arch: "llama",
    layers: 0,
    width: 0,
    ffn: 0,
    heads: 32,
    kv_heads: 8,
    head_dim: 64,
    vocabulary: 128_256,
    context: 131_072,
    rope_base: 5e5,
    eps: 1e-5,
    is_tied: true,
    window: None,
    rotated: None,
    recurrent: None,
};

const QWEN: Shape = Shape { arch: "qwen2", vocabulary: 151_936, context: 32_768, rope_base: 1e6, eps: 1e-6, ..LLAMA };

/// All shapes. To add one, write an entry here. Its architecture needs a model definition and, if it has tensors that no other
/// architecture has, lines in [`tensors`].
pub const SHAPES: &[Shape] = &[
    Shape {
        name: "smollm2-135m",
        layers: 30,
        width: 576,
        ffn: 1536,
        heads: 9,
        kv_heads: 3,
        vocabulary: 49_152,
        context: 8192,
        rope_base: 1e5,
        ..LLAMA
    },
    Shape { name: "llama-1b", layers: 16, width: 2048, ffn: 8192, ..LLAMA },
    Shape { name: "llama-8b", layers: 32, width: 4096, ffn: 14_336, head_dim: 128, is_tied: false, ..LLAMA },
    Shape { name: "qwen2.5-0.5b", layers: 24, width: 896, ffn: 4864, heads: 14, kv_heads: 2, ..QWEN },
    Shape {
        name: "qwen2.5-7b",
        layers: 28,
        width: 3584,
        ffn: 18_944,
        heads: 28,
        kv_heads: 4,
        head_dim: 128,
        vocabulary: 152_064,
        is_tied: false,
        ..QWEN
    },
    Shape {
        name: "qwen3-0.6b",
        arch: "qwen3",
        layers: 28,
        width: 1024,
        ffn: 3072,
        heads: 16,
        head_dim: 128,
        context: 40_960,
        ..QWEN
    },
    Shape {
        name: "qwen3.5-9b",
        arch: "qwen35",
        layers: 32,
        width: 4096,
        ffn: 12_288,
        heads: 16,
        kv_heads: 4,
        head_dim: 256,
        vocabulary: 248_320,
        context: 262_144,
        rope_base: 1e7,
        is_tied: false,
        rotated: Some(64),
        recurrent: Some(Recurrent { k_heads: 16, v_heads: 32, state: 128, conv: 4, period: 4 }),
        ..QWEN
    },
    Shape {
        name: "gemma-3-270m",
        arch: "gemma3",
        layers: 18,
        width: 640,
        ffn: 2048,
        heads: 4,
        kv_heads: 1,
        head_dim: 256,
        vocabulary: 262_144,
        window: Some(512),
        ..QWEN
    },
];

/// Why the header of a shape cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    /// The name is not `shape:NAME:FORMAT`.
    #[error("`{0}`: a shape is written `shape:NAME:FORMAT`, such as `shape:qwen2.5-0.5b:f16`; names: {1}")]
    Form(String, String),
    /// There is no such shape.
    #[error("there is no shape `{0}`; shapes: {1}")]
    Unknown(String, String),
    /// The number of layers is 0 or larger than the model's.
    #[error("`{0}`: after `@` comes a number of layers, 1 to {1}")]
    Layers(String, u64),
    /// There is no such format.
    #[error("there is no format `{0}`; formats: {1}")]
    Format(String, String),
    /// The width of a matrix is not a multiple of the block size of the format.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Names of all shapes.
pub fn names() -> Vec<&'static str> {
    SHAPES.iter().map(|s| s.name).collect()
}

/// Makes the header of `shape:NAME:FORMAT`.
///
/// Matrices have the given format; norm weights and biases are F32. A tied embedding table is Q8_0 where the format has fewer
/// bits, as in the published files of small models.
pub fn open(name: &str) -> Result<ModelFile, ShapeError> {
    let shown = |text: &str| onetrip_ir::text::shown(text);
    let all = || names().join(", ");
    let Some((shape, format)) = name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once(':')) else {
        // A valid name without a format is the most common mistake, so the error shows the whole form.
        return Err(ShapeError::Form(shown(name), all()));
    };
    let unknown = || ShapeError::Unknown(shown(shape), all());
    let (base, layers) = shape.split_once('@').map_or((shape, None), |(base, layers)| (base, Some(layers)));
    let mut found = *SHAPES.iter().find(|s| s.name == base).ok_or_else(unknown)?;
    if let Some(layers) = layers {
        let whole = found.layers;
        let layers = layers.parse().ok().filter(|n| (1..=whole).contains(n));
        found.layers = layers.ok_or_else(|| ShapeError::Layers(shown(shape), whole))?;
    }
    let dtype = DType::parse(format).ok_or_else(|| {
        let formats: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
        ShapeError::Format(shown(format), formats.join(", "))
    })?;
    Ok(ModelFile::from_header(name, metadata(&found), tensors(&found, dtype))?)
}

impl Shape {
    /// If this layer is recurrent: elements of the packed projection of q, k and v, elements of all values in a row, and the
    /// number of value heads.
    fn delta_net(&self, layer: u64) -> Option<(u64, u64, u64)> {
        let r = self.recurrent.filter(|r| !r.is_attention(layer as usize))?;
        let inner = (r.v_heads * r.state) as u64;
        Some((2 * (r.k_heads * r.state) as u64 + inner, inner, r.v_heads as u64))
    }
}

fn metadata(s: &Shape) -> Metadata {
    let mut m = Metadata::new();
    m.insert("general.architecture".into(), Value::Str(s.arch.into()));
    m.insert("general.name".into(), Value::Str(s.name.into()));
    let mut set = |key: &str, value: Value| m.insert(format!("{}.{key}", s.arch), value);
    let counts = [
        ("block_count", s.layers),
        ("embedding_length", s.width),
        ("feed_forward_length", s.ffn),
        ("attention.head_count", s.heads),
        ("attention.head_count_kv", s.kv_heads),
        ("attention.key_length", s.head_dim),
        ("attention.value_length", s.head_dim),
        ("context_length", s.context),
        ("vocab_size", s.vocabulary),
    ];
    for (key, n) in counts {
        set(key, Value::U64(n));
    }
    if let Some(window) = s.window {
        set("attention.sliding_window", Value::U64(window));
    }
    if let Some(rotated) = s.rotated {
        set("rope.dimension_count", Value::U64(rotated));
    }
    if let Some(r) = s.recurrent {
        let counts = [
            ("ssm.group_count", r.k_heads),
            ("ssm.time_step_rank", r.v_heads),
            ("ssm.state_size", r.state),
            ("ssm.inner_size", r.v_heads * r.state),
            ("ssm.conv_kernel", r.conv),
            ("full_attention_interval", r.period),
        ];
        for (key, n) in counts {
            set(key, Value::U64(n as u64));
        }
    }
    set("attention.layer_norm_rms_epsilon", Value::F64(s.eps));
    set("rope.freq_base", Value::F64(s.rope_base));
    m
}

/// Name, dimensions (innermost first) and GGUF type number of each tensor.
fn tensors(s: &Shape, dtype: DType) -> Vec<(String, Vec<u64>, u32)> {
    let mut all = vec![];
    let narrow = dtype.block() > 1 && dtype.block_bytes() < dtype.block();
    let table = if s.is_tied && narrow { DType::Q8_0 } else { dtype };
    let mut matrix = |name: String, k: u64, rows: u64, dtype: DType| {
        all.push((format!("{name}.weight"), vec![k, rows], dtype.ggml()))
    };
    matrix("token_embd".into(), s.width, s.vocabulary, table);
    if !s.is_tied {
        matrix("output".into(), s.width, s.vocabulary, dtype);
    }
    let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
    for layer in 0..s.layers {
        let mut parts = match s.delta_net(layer) {
            Some((packed, inner, heads)) => vec![
                ("attn_qkv", s.width, packed),
                ("attn_gate", s.width, inner),
                ("ssm_alpha", s.width, heads),
                ("ssm_beta", s.width, heads),
                ("ssm_out", inner, s.width),
            ],
            None => vec![
                // In Qwen 3.5 one matrix gives the queries and their gates.
                ("attn_q", s.width, if s.recurrent.is_some() { 2 * q } else { q }),
                ("attn_k", s.width, kv),
                ("attn_v", s.width, kv),
                ("attn_output", q, s.width),
            ],
        };
        parts.extend([("ffn_gate", s.width, s.ffn), ("ffn_up", s.width, s.ffn), ("ffn_down", s.ffn, s.width)]);
        for (part, k, rows) in parts {
            matrix(format!("blk.{layer}.{part}"), k, rows, dtype);
        }
        if let (Some((packed, ..)), Some(r)) = (s.delta_net(layer), s.recurrent) {
            matrix(format!("blk.{layer}.ssm_conv1d"), r.conv as u64, packed, DType::F32);
        }
    }
    let mut row = |name: String, width: u64| all.push((name, vec![width], DType::F32.ggml()));
    row("output_norm.weight".into(), s.width);
    for layer in 0..s.layers {
        let mut part = |part: &str, width| row(format!("blk.{layer}.{part}"), width);
        part("attn_norm.weight", s.width);
        if let (Some((_, _, heads)), Some(r)) = (s.delta_net(layer), s.recurrent) {
            part("ssm_dt.bias", heads);
            part("ssm_a", heads);
            part("ssm_norm.weight", r.state as u64);
        }
        // Qwen 3.5 has another name for the norm before the feed-forward network.
        part(if s.recurrent.is_some() { "post_attention_norm.weight" } else { "ffn_norm.weight" }, s.width);
        if s.arch == "qwen2" {
            part("attn_q.bias", q);
            part("attn_k.bias", kv);
            part("attn_v.bias", kv);
        }
        if matches!(s.arch, "qwen3" | "gemma3") || (s.arch == "qwen35" && s.delta_net(layer).is_none()) {
            part("attn_q_norm.weight", s.head_dim);
            part("attn_k_norm.weight", s.head_dim);
        }
        if s.arch == "gemma3" {
            part("post_attention_norm.weight", s.width);
            part("post_ffw_norm.weight", s.width);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn every_shape_opens_in_every_usual_format_and_has_no_data() {
        for shape in SHAPES {
            for format in ["f32", "f16", "q8_0", "q4_0", "q4_1"] {
                let file = open(&format!("shape:{}:{format}", shape.name)).expect("a header");
                assert!(file.is_header_only());
                assert_eq!(
                    Config::read(&file, &crate::models::names()).expect("a configuration").layers as u64,
                    shape.layers
                );
            }
        }
    }

    #[test]
    fn the_shapes_have_as_many_weights_as_their_names_say() {
        let millions = |name: &str| {
            let file = open(&format!("shape:{name}:f16")).expect("a header");
            file.tensors().map(|t| t.elements()).sum::<u64>() / 1_000_000
        };
        assert_eq!(millions("smollm2-135m"), 134);
        assert_eq!(millions("qwen2.5-0.5b"), 494);
        assert_eq!(millions("gemma-3-270m"), 268);
        assert_eq!(millions("llama-8b"), 8030);
        assert_eq!(millions("qwen2.5-7b"), 7615);
        assert_eq!(millions("qwen3.5-9b"), 8953);
    }

    #[test]
    fn a_wrong_name_is_answered_with_those_there_are() {
        let error = |name: &str| open(name).map(|_| ()).expect_err("no shape").to_string();
        assert!(error("shape:qwen9:f16").contains("`qwen9`") && error("shape:qwen9:f16").contains("llama-8b"));
        assert!(error("shape:llama-8b:q9").contains("q4_0"));
        assert!(error("shape:llama-8b").contains("shape:NAME:FORMAT"));
        for layers in ["0", "25", "x", ""] {
            assert!(error(&format!("shape:qwen2.5-0.5b@{layers}:f16")).contains("1 to 24"));
        }
        let first = Config::read(&open("shape:qwen3.5-9b@4:q4_0").expect("a header"), &crate::models::names())
            .expect("a configuration");
        assert_eq!((first.layers, first.recurrent.map(|r| r.is_attention(3))), (4, Some(true)));
        // Rows of 896 are not whole blocks of 256.
        assert!(error("shape:qwen2.5-0.5b:q4_k").contains("whole blocks"));
    }
}
