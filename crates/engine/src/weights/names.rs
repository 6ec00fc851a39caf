//! Names and dimensions of weights: as model definitions ask for them, and as files have them.

use crate::config::Config;
use crate::files::{Kind, ModelFile};

/// The dimensions that a model definition wants of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dims {
    /// A matrix of `rows` rows (`None`: as many as the file has) of `width` elements.
    Matrix {
        /// Number of rows.
        rows: Option<usize>,
        /// Elements in a row.
        width: usize,
    },
    /// A matrix with a row for each token; it may have more rows than the tokenizer has tokens.
    Table {
        /// Number of tokens, where the configuration says it.
        tokens: Option<usize>,
        /// Elements in a row.
        width: usize,
    },
    /// The filters of a convolution: a row of taps for each channel.
    Filter {
        /// Number of channels.
        channels: usize,
        /// Taps of a filter.
        taps: usize,
    },
    /// A single row of so many elements.
    Row(usize),
}

impl Dims {
    /// The embedding table of a model, which is also its output matrix where the two are tied.
    pub fn embedding(config: &Config) -> Dims {
        Dims::Table { tokens: config.vocabulary, width: config.width }
    }

    /// Rows and elements in a row of a tensor with the dimensions `found` (innermost first); `None` if it is not what is
    /// wanted. Dimensions of 1 do not count: a row of 64 may be written as 1 × 64.
    pub fn of(self, found: &[u64]) -> Option<(usize, usize)> {
        let (rows, width) = match self {
            Dims::Matrix { rows, width } => (rows, width),
            Dims::Table { width, .. } => (None, width),
            Dims::Filter { channels, taps } => (Some(channels), taps),
            Dims::Row(width) => (Some(1), width),
        };
        let long: Vec<usize> = found.iter().filter(|n| **n != 1).map(|n| *n as usize).collect();
        let have = match long[..] {
            [] => (1, 1),
            [n] if width == 1 => (n, 1),
            [n] => (1, n),
            [n, rows] => (rows, n),
            _ => return None,
        };
        (have.1 == width && rows.is_none_or(|rows| rows == have.0)).then_some(have)
    }

    /// Rows and elements in a row, as far as the definition knows them.
    pub fn wanted(self) -> (Option<usize>, usize) {
        match self {
            Dims::Matrix { rows, width } => (rows, width),
            Dims::Table { tokens, width } => (tokens, width),
            Dims::Filter { channels, taps } => (Some(channels), taps),
            Dims::Row(width) => (Some(1), width),
        }
    }

    /// The dimensions in words, for error texts.
    pub fn text(self) -> String {
        match self {
            Dims::Row(n) => format!("{n} elements"),
            Dims::Table { width, .. } => format!("rows of {width}"),
            _ => match self.wanted() {
                (Some(rows), width) => format!("{rows} rows of {width}"),
                (None, width) => format!("rows of {width}"),
            },
        }
    }
}

/// How the tensors of a file are named.
#[derive(Debug)]
pub struct Names {
    gguf: bool,
    /// What stands before `embed_tokens.weight` in a folder of Hugging Face: `model.`, `language_model.model.` …
    body: String,
    /// Name of the output matrix in the file.
    head: String,
    /// Parts of names that are not the usual ones: in GGUF, and in folders of Hugging Face.
    special: &'static [(&'static str, &'static str)],
}

const EMBEDDING: &str = "embed_tokens.weight";
const HEAD: &str = "lm_head.weight";

/// Parts of tensor names in GGUF and in folders of Hugging Face, without `.weight` and `.bias`.
const USUAL: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

impl Names {
    /// The names of the tensors of `file`; `special` has parts of names that are not the usual ones.
    pub fn of(file: &ModelFile, special: &'static [(&'static str, &'static str)]) -> Names {
        // Folders of models that see pictures, and some exports, have the language model under another prefix.
        let shortest = |end: &str| {
            let all = file.tensors().map(|t| t.name.as_str()).filter(|n| *n == end || n.ends_with(&format!(".{end}")));
            all.min_by_key(|n| n.len()).map(String::from)
        };
        let body = shortest(EMBEDDING).and_then(|n| n.strip_suffix(EMBEDDING).map(String::from));
        Names {
            gguf: file.kind() == Kind::Gguf,
            body: body.unwrap_or_else(|| "model.".into()),
            head: shortest(HEAD).unwrap_or_else(|| HEAD.into()),
            special,
        }
    }

    /// The name in the file of the weight with the GGUF name `name`.
    pub fn in_file(&self, name: &str) -> String {
        if self.gguf {
            return name.into();
        }
        match name {
            "token_embd.weight" => return format!("{}{EMBEDDING}", self.body),
            "output_norm.weight" => return format!("{}norm.weight", self.body),
            "output.weight" => return self.head.clone(),
            _ => {}
        }
        let mut parts = name.splitn(3, '.');
        let (Some("blk"), Some(layer), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return name.into();
        };
        let (part, kind) = rest.rsplit_once('.').unwrap_or((rest, "weight"));
        let part = self.special.iter().chain(USUAL).find(|(gguf, _)| *gguf == part).map_or(part, |(_, json)| json);
        format!("{}layers.{layer}.{part}.{kind}", self.body)
    }

    /// The number of the layer to which a tensor of the file belongs, if it belongs to one.
    pub fn layer(&self, name: &str) -> Option<usize> {
        let rest =
            if self.gguf { name.strip_prefix("blk.") } else { name.strip_prefix(&format!("{}layers.", self.body)) };
        rest?.split('.').next()?.parse().ok()
    }
}

/// Ends of the names of tensors that hold nothing which changes the result: tables that the program computes itself.
pub const COMPUTED: &[&str] = &["rotary_emb.inv_freq", "attn.bias", "attn.masked_bias", "attn_rot_embd"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_two_worlds_meet() {
        let names = |body: &str, special| Names { gguf: false, body: body.into(), head: HEAD.into(), special };
        let plain = names("model.", &[]);
        assert_eq!(plain.in_file("token_embd.weight"), "model.embed_tokens.weight");
        assert_eq!(plain.in_file("blk.12.attn_q.bias"), "model.layers.12.self_attn.q_proj.bias");
        assert_eq!(plain.in_file("blk.0.ffn_norm.weight"), "model.layers.0.post_attention_layernorm.weight");
        let other = names("language_model.model.", &[("ffn_norm", "pre_feedforward_layernorm")]);
        let norm = "language_model.model.layers.0.pre_feedforward_layernorm.weight";
        assert_eq!(other.in_file("blk.0.ffn_norm.weight"), norm);
        assert_eq!((other.layer(norm), other.layer("vision_tower.layers.0.norm.weight")), (Some(0), None));
    }

    #[test]
    fn dimensions_of_one_do_not_count() {
        let matrix = Dims::Matrix { rows: Some(3), width: 4 };
        assert_eq!(matrix.of(&[4, 3]), Some((3, 4)));
        assert_eq!(matrix.of(&[4, 1, 3]), Some((3, 4)));
        assert_eq!(matrix.of(&[3, 4]), None);
        assert_eq!(matrix.of(&[4, 3, 2]), None);
        assert_eq!(Dims::Row(4).of(&[4]), Some((1, 4)));
        assert_eq!(Dims::Row(4).of(&[1, 4]), Some((1, 4)));
        assert_eq!(Dims::Row(1).of(&[1]), Some((1, 1)));
        assert_eq!(Dims::Row(4).of(&[2, 2]), None);
        assert_eq!(Dims::Matrix { rows: Some(5), width: 1 }.of(&[1, 5]), Some((5, 1)));
        assert_eq!(Dims::Table { tokens: Some(9), width: 4 }.of(&[4, 12]), Some((12, 4)));
    }
}
