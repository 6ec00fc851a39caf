//! The contents of a model file as plain data, for tables and JSON.

use serde::Serialize;

use super::model_file::ModelFile;
use super::value::Kind;

/// Most characters of a metadata text that are shown.
const TEXT: usize = 120;

/// The contents of a model file: its files, metadata and tensors, with totals.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Path of the file or folder.
    pub file: String,
    /// `gguf`, `hugging_face` or `safetensors`.
    pub format: Kind,
    /// Version of the format (GGUF only).
    #[serde(rename = "format_version")]
    pub version: Option<u32>,
    /// The files that hold tensors.
    pub parts: Vec<PartRow>,
    /// Metadata in the order of the keys; long values are shortened.
    pub metadata: Vec<MetadataRow>,
    /// Tensors in the order of the file.
    pub tensors: Vec<TensorRow>,
    /// Totals by storage type, most bytes first.
    pub types: Vec<TypeRow>,
    /// Number of elements of all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
}

/// One file that holds tensors.
#[derive(Clone, Debug, Serialize)]
pub struct PartRow {
    /// Path of the file.
    pub file: String,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// One metadata entry.
#[derive(Clone, Debug, Serialize)]
pub struct MetadataRow {
    /// Key.
    pub key: String,
    /// Type in words.
    pub kind: &'static str,
    /// Value on one line, shortened.
    pub value: String,
}

/// The description of one tensor.
#[derive(Clone, Debug, Serialize)]
pub struct TensorRow {
    /// Name.
    pub name: String,
    /// Dimensions, innermost first.
    pub dims: Vec<u64>,
    /// Storage type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Bytes of the data.
    pub bytes: u64,
    /// Index of its file in `parts`.
    pub part: usize,
}

/// Totals of all tensors of one storage type.
#[derive(Clone, Debug, Serialize)]
pub struct TypeRow {
    /// Storage type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Number of tensors.
    pub tensors: usize,
    /// Number of elements of these tensors.
    pub elements: u64,
    /// Bytes of these tensors.
    pub bytes: u64,
}

impl ModelFile {
    /// Totals by storage type, most bytes first.
    pub fn types(&self) -> Vec<TypeRow> {
        let mut types: Vec<TypeRow> = Vec::new();
        for t in self.tensors() {
            let n = types.iter().position(|row| row.kind == t.kind.name).unwrap_or_else(|| {
                types.push(TypeRow { kind: t.kind.name.to_string(), tensors: 0, elements: 0, bytes: 0 });
                types.len() - 1
            });
            types[n].tensors += 1;
            types[n].elements = types[n].elements.saturating_add(t.elements());
            types[n].bytes += t.bytes as u64;
        }
        types.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.kind.cmp(&b.kind)));
        types
    }

    /// The contents of this file, as the command `inspect` shows them.
    pub fn summary(&self) -> Summary {
        let types = self.types();
        Summary {
            file: self.name().to_string(),
            format: self.kind(),
            version: self.version(),
            parts: self.parts().map(|(file, bytes)| PartRow { file: file.to_string(), bytes: bytes as u64 }).collect(),
            metadata: self
                .metadata()
                .iter()
                .map(|(key, value)| MetadataRow {
                    key: onetrip_ir::text::shorten(key, TEXT),
                    kind: value.type_name(),
                    value: value.brief(TEXT),
                })
                .collect(),
            tensors: self
                .tensors()
                .map(|t| TensorRow {
                    name: onetrip_ir::text::shorten(&t.name, TEXT),
                    dims: t.dims.clone(),
                    kind: onetrip_ir::text::shorten(&t.kind.name, TEXT),
                    bytes: t.bytes as u64,
                    part: t.part,
                })
                .collect(),
            parameters: types.iter().fold(0u64, |n, row| n.saturating_add(row.elements)),
            bytes: types.iter().map(|row| row.bytes).sum(),
            types,
        }
    }
}
