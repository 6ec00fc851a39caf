//! Models without weights: `shape:qwen2.5-0.5b:f16` stands for the header of a file of that model in that format. Plans,
//! counts and predictions need only the header. `shape:qwen3.5-9b@4:q4_0` has only the first 4 layers.

use std::sync::Arc;

use onetrip_ir::formats::DType;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::Target;

use crate::config::{ConfigError, Shape};
use crate::files::{FileError, Metadata, ModelFile};
use crate::graph_builder::{BuildError, GraphBuilder, Want};
use crate::models::{MODELS, configure};
use crate::weights::{Dims, Weights};

/// The prefix of names of models without weights.
pub const PREFIX: &str = "shape:";

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
    /// The dimensions of the shape contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The dimensions of the shape do not fit the model definition.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Names of all shapes.
pub fn names() -> Vec<&'static str> {
    MODELS.iter().flat_map(|m| m.shapes).map(|s| s.name).collect()
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
    let all_shapes = MODELS.iter().flat_map(|m| m.shapes.iter().map(move |s| (*m, *s)));
    let (model, mut found) = all_shapes.into_iter().find(|(_, s)| s.name == base).ok_or_else(unknown)?;
    if let Some(layers) = layers {
        let whole = found.layers;
        let layers = layers.parse().ok().filter(|n| (1..=whole).contains(n));
        found.layers = layers.ok_or_else(|| ShapeError::Layers(shown(shape), whole))?;
    }
    let dtype = DType::parse(format).ok_or_else(|| {
        let formats: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
        ShapeError::Format(shown(format), formats.join(", "))
    })?;
    let metadata = found.metadata(model.name);
    let tensors = tensors(&found, &metadata, dtype)?;
    Ok(ModelFile::from_header(name, metadata, tensors)?)
}

/// The tensors that the model definition reads of a GGUF file with this metadata: GGUF's names and dimensions, in the order in
/// which the definition asks for them. `is_tied`: the embedding table is also the output matrix.
pub fn declared(metadata: &Metadata, is_tied: bool) -> Result<Vec<(String, Dims)>, ShapeError> {
    let empty = Arc::new(ModelFile::from_header("a model's shape", metadata.clone(), vec![])?);
    let (model, mut config) = configure(&empty)?;
    config.tied = Some(is_tied);
    let mut weights = Weights::declaring(empty.clone(), Target::Cpu(Isa::Portable));
    let mut builder = GraphBuilder::new(&config, &mut weights, DType::F16, config.context, Want::LastLogits);
    (model.define)(&mut builder)?;
    Ok(weights.declared().to_vec())
}

/// Name, dimensions (innermost first) and GGUF type number of each tensor of a shape.
fn tensors(shape: &Shape, metadata: &Metadata, dtype: DType) -> Result<Vec<(String, Vec<u64>, u32)>, ShapeError> {
    let narrow = dtype.block() > 1 && dtype.block_bytes() < dtype.block();
    let table = if shape.is_tied && narrow { DType::Q8_0 } else { dtype };
    let declared = declared(metadata, shape.is_tied)?;
    let described = declared.iter().map(|(name, dims)| {
        let (rows, width) = dims.wanted();
        let matrix = vec![width as u64, rows.unwrap_or(1) as u64];
        let (dims, dtype) = match dims {
            Dims::Row(width) => (vec![*width as u64], DType::F32),
            Dims::Filter { .. } => (matrix, DType::F32),
            Dims::Table { .. } if name.starts_with("token_embd") => (matrix, table),
            Dims::Table { .. } | Dims::Matrix { .. } => (matrix, dtype),
        };
        (name.clone(), dims, dtype.ggml())
    });
    Ok(described.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_opens_in_every_usual_format_and_has_no_data() {
        for shape in MODELS.iter().flat_map(|m| m.shapes) {
            for format in ["f32", "f16", "q8_0", "q4_0", "q4_1"] {
                let file = open(&format!("shape:{}:{format}", shape.name)).expect("a header");
                assert!(file.is_header_only());
                assert_eq!(configure(&file).expect("a configuration").1.layers as u64, shape.layers);
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
        let (_, first) = configure(&open("shape:qwen3.5-9b@4:q4_0").expect("a header")).expect("a configuration");
        assert_eq!((first.layers, first.recurrent.map(|r| r.is_attention(3))), (4, Some(true)));
        // Rows of 896 are not whole blocks of 256.
        assert!(error("shape:qwen2.5-0.5b:q4_k").contains("whole blocks"));
    }
}
