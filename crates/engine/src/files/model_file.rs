//! An opened model file: its metadata, its tensor descriptions, and the bytes of its tensors in the memory map.

use std::collections::HashMap;
use std::path::Path;

use onetrip_ir::formats::DType;
use onetrip_ir::text::shown;

use super::bytes::Bytes;
use super::error::{FileError, KeyError, shown_path};
use super::folder::{self, Folder};
use super::types::TensorType;
use super::value::{Kind, Metadata, TensorInfo, Value};
use super::{gguf, safetensors, split};

/// A model file (or folder, or set of parts), opened by memory map and checked.
#[derive(Debug)]
pub struct ModelFile {
    name: String,
    kind: Kind,
    version: Option<u32>,
    parts: Vec<(String, Bytes)>,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
    folder: Option<Folder>,
}

impl ModelFile {
    /// Opens a `.gguf` file, a Hugging Face folder, or a bare `.safetensors` file. For a split GGUF model, `path` may be any of
    /// its parts; the others are found beside it. All descriptions are read and checked, but no weights.
    pub fn open(path: impl AsRef<Path>) -> Result<ModelFile, FileError> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::open_folder(path);
        }
        let file = shown_path(path);
        let bytes = Bytes::map(path)?;
        if path.extension().is_some_and(|e| e == "safetensors") {
            return Self::from_safetensors(file, vec![(shown_path(path), bytes)], None);
        }
        if !bytes.starts_with(gguf::MAGIC) && path.extension().is_none_or(|e| e != "gguf") {
            return Err(FileError::Unsupported {
                file,
                what: format!("not a model file (it starts with {:02x?})", &bytes[..bytes.len().min(4)]),
                hint: "give a .gguf file, a .safetensors file or a Hugging Face folder",
            });
        }
        let head = gguf::read(&file, &bytes, 0)?;
        match split::count(&file, &head.metadata)? {
            1 => Self::from_gguf(vec![(file, bytes)], vec![head]),
            count => {
                let parts = split::open(path, count)?;
                Self::from_gguf(parts.files, parts.heads)
            }
        }
    }

    /// Opens a GGUF model that is part of the program. The bytes are copied if they are not aligned to 32.
    pub fn from_bytes(bytes: &'static [u8]) -> Result<ModelFile, FileError> {
        Self::from_memory("embedded model", Bytes::embedded(bytes))
    }

    /// Opens a GGUF model in memory; errors call it `name`. The bytes are copied.
    pub fn from_slice(name: &str, bytes: &[u8]) -> Result<ModelFile, FileError> {
        Self::from_memory(name, Bytes::copied(bytes))
    }

    /// Opens a bare safetensors model in memory; errors call it `name`. The bytes are copied.
    pub fn from_safetensors_slice(name: &str, bytes: &[u8]) -> Result<ModelFile, FileError> {
        Self::from_safetensors(name.to_string(), vec![(name.to_string(), Bytes::copied(bytes))], None)
    }

    /// Makes a GGUF model without data from metadata and, for each tensor, its name, dimensions (innermost first) and GGUF type
    /// number. Plans can be made for the model, but no weights can be loaded.
    pub fn from_header(
        name: &str,
        metadata: Metadata,
        tensors: Vec<(String, Vec<u64>, u32)>,
    ) -> Result<ModelFile, FileError> {
        let tensor = |(tensor, dims, number): (String, Vec<u64>, u32)| {
            let refuse = |what| Err(FileError::tensor(name, &tensor, what, "give another type of weights"));
            let Some(kind) = TensorType::from_ggml(number) else { return refuse(format!("unknown type {number}")) };
            let size = kind.tensor_bytes(&dims).and_then(|n| usize::try_from(n).ok());
            let Some(bytes) = size else {
                return refuse(format!(
                    "rows of {:?} are not whole blocks of {} of {}",
                    dims.first(),
                    kind.block,
                    kind.name
                ));
            };
            Ok(TensorInfo { name: tensor, dims, kind, bytes, part: 0, offset: 0 })
        };
        let tensors = tensors.into_iter().map(tensor).collect::<Result<Vec<_>, FileError>>()?;
        let parts = vec![(name.to_string(), Bytes::copied(&[]))];
        Self::assemble(name.to_string(), Kind::Gguf, None, parts, metadata, tensors, None)
    }

    /// Whether this is a model without data, made by [`ModelFile::from_header`].
    pub fn is_header_only(&self) -> bool {
        self.parts.iter().all(|(_, bytes)| bytes.is_empty())
    }

    fn from_memory(name: &str, bytes: Bytes) -> Result<ModelFile, FileError> {
        let head = gguf::read(name, &bytes, 0)?;
        if split::count(name, &head.metadata)? > 1 {
            return Err(FileError::Unsupported {
                file: name.to_string(),
                what: "one part of a split model".into(),
                hint: "open split models by path",
            });
        }
        Self::from_gguf(vec![(name.to_string(), bytes)], vec![head])
    }

    fn from_gguf(parts: Vec<(String, Bytes)>, heads: Vec<gguf::Head>) -> Result<ModelFile, FileError> {
        let mut heads = heads.into_iter();
        let Some(first) = heads.next() else {
            return Err(FileError::damaged("model", 0, "a model has at least one part"));
        };
        let mut tensors = first.tensors;
        tensors.extend(heads.flat_map(|h| h.tensors));
        let name = parts[0].0.clone();
        Self::assemble(name, Kind::Gguf, Some(first.version), parts, first.metadata, tensors, None)
    }

    fn open_folder(dir: &Path) -> Result<ModelFile, FileError> {
        let folder = Folder::open(dir)?;
        let files = folder::weight_files(dir)?.into_iter().map(|path| Ok((shown_path(&path), Bytes::map(&path)?)));
        Self::from_safetensors(shown_path(dir), files.collect::<Result<_, FileError>>()?, Some(folder))
    }

    /// `files` has for each file its name and its bytes.
    fn from_safetensors(
        name: String,
        files: Vec<(String, Bytes)>,
        folder: Option<Folder>,
    ) -> Result<ModelFile, FileError> {
        let mut metadata = Metadata::new();
        let mut tensors = Vec::new();
        let mut parts = Vec::new();
        for (file, bytes) in files {
            let mut head = safetensors::read(&file, &bytes, parts.len())?;
            for (key, note) in head.notes {
                metadata.insert(format!("safetensors.{key}"), Value::Str(note));
            }
            // Kernels have no f64: such tensors, which are rare and small, are converted here.
            let (wide, rest): (Vec<_>, Vec<_>) = head.tensors.drain(..).partition(|t| t.kind.name == "F64");
            tensors.extend(rest);
            let narrowed: Vec<(TensorInfo, Bytes)> = wide.into_iter().map(|t| narrowed(t, &bytes)).collect();
            parts.push((file.clone(), bytes));
            for (mut tensor, bytes) in narrowed {
                tensor.part = parts.len();
                tensors.push(tensor);
                parts.push((file.clone(), bytes));
            }
        }
        if let Some(folder) = &folder {
            folder::flatten("", &folder.config, &mut metadata);
        }
        let kind = if folder.is_some() { Kind::HuggingFace } else { Kind::Safetensors };
        Self::assemble(name, kind, None, parts, metadata, tensors, folder)
    }

    fn assemble(
        name: String,
        kind: Kind,
        version: Option<u32>,
        parts: Vec<(String, Bytes)>,
        metadata: Metadata,
        tensors: Vec<TensorInfo>,
        folder: Option<Folder>,
    ) -> Result<ModelFile, FileError> {
        let mut by_name = HashMap::with_capacity(tensors.len());
        for (n, t) in tensors.iter().enumerate() {
            if let Some(other) = by_name.insert(t.name.clone(), n) {
                let what = format!("occurs in {} too", parts[tensors[other].part].0);
                let hint = "keep the files of one model only in the folder";
                return Err(FileError::tensor(&parts[t.part].0, &t.name, what, hint));
            }
        }
        Ok(ModelFile { name, kind, version, parts, metadata, tensors, by_name, folder })
    }

    /// The file or folder, as errors name it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of model file.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Version of the GGUF format; `None` for other kinds of files.
    pub fn version(&self) -> Option<u32> {
        self.version
    }

    /// The files that hold tensors: name, and length in bytes.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&str, usize)> {
        self.parts.iter().map(|(name, bytes)| (name.as_str(), bytes.len()))
    }

    /// Metadata. For GGUF: its entries (for a split model, those of the first part). For a folder: `config.json` with dotted
    /// keys (`rope_scaling.factor`). For safetensors: the entries of `__metadata__`, as `safetensors.KEY`.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Adds the name of this file to the error of a metadata entry: `file.key(file.metadata().get_u64("…"))?`.
    pub fn key<T>(&self, found: Result<T, KeyError>) -> Result<T, FileError> {
        found.map_err(|error| FileError::Key { file: self.name.clone(), error })
    }

    /// All tensors, in the order of their descriptions (GGUF) or of their data (safetensors).
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.tensors.iter()
    }

    /// The tensor of this name, if there is one.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&n| &self.tensors[n])
    }

    /// The tensor of this name, or else an error that names the tensor and the file.
    pub fn require(&self, name: &str) -> Result<&TensorInfo, FileError> {
        let hint = "the file is incomplete, or of another architecture than it says";
        self.tensor(name).ok_or_else(|| FileError::tensor(&self.name, name, "missing", hint))
    }

    /// The format of a tensor, or an error if the engine cannot compute with it: a type without a definition, no elements, or rows
    /// that are not whole blocks.
    pub fn dtype(&self, tensor: &TensorInfo) -> Result<DType, FileError> {
        let refuse = |what: String, hint| {
            let file = self.parts.get(tensor.part).map_or(self.name.as_str(), |p| p.0.as_str());
            Err(FileError::tensor(file, &tensor.name, what, hint))
        };
        let Some(dtype) = tensor.kind.ggml.and_then(DType::from_ggml) else {
            let what = format!("cannot compute with type {}", shown(&tensor.kind.name));
            return refuse(what, "convert the model to a type that is supported, such as F16, BF16 or Q8_0");
        };
        if tensor.elements() == 0 {
            return refuse(format!("dimensions {:?} hold no elements", tensor.dims), "convert the model again");
        }
        let row = tensor.dims.first().map_or(1, |&n| n as usize);
        let bytes = dtype.row_bytes(row).and_then(|n| n.checked_mul((tensor.elements() / row as u64) as usize));
        if bytes != Some(tensor.bytes) {
            let what = format!("{} bytes are not {:?} elements of {}", tensor.bytes, tensor.dims, tensor.kind.name);
            return refuse(what, "convert the model again");
        }
        if !self.is_header_only() && self.data(tensor).len() != tensor.bytes {
            return refuse("its bytes are not in this file".into(), "fetch the file again");
        }
        Ok(dtype)
    }

    /// Whether the bytes of a tensor are aligned for its elements, so that kernels can read them where they are.
    pub fn is_aligned(&self, tensor: &TensorInfo, dtype: DType) -> bool {
        // Block formats need the alignment of f16 at most: no field of their blocks is a wider float.
        let align = if dtype == DType::F32 { 4 } else { 2 };
        self.data(tensor).as_ptr().align_offset(align) == 0
    }

    /// The bytes of a tensor in the memory map, without a copy. In GGUF they are aligned to at least 8 bytes; in safetensors
    /// any alignment can occur ([`is_aligned`](Self::is_aligned)). Empty if `tensor` does not belong to this file.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        let part = self.parts.get(tensor.part);
        part.and_then(|(_, bytes)| bytes.get(self.range(tensor))).unwrap_or_default()
    }

    /// Tells the system that the pages of this tensor are not needed any more, so that a weight that was converted does not
    /// stay in memory twice. The pages can still be read, again from the file. Does nothing for bytes that are not mapped from
    /// a file.
    pub fn release(&self, tensor: &TensorInfo) {
        if let Some((_, bytes)) = self.parts.get(tensor.part) {
            bytes.release(self.range(tensor));
        }
    }

    fn range(&self, tensor: &TensorInfo) -> std::ops::Range<usize> {
        tensor.offset..tensor.offset.saturating_add(tensor.bytes)
    }

    /// `config.json` of a Hugging Face folder.
    pub fn config(&self) -> Option<&serde_json::Value> {
        self.folder.as_ref().map(|f| &f.config)
    }

    /// `tokenizer_config.json` of a Hugging Face folder.
    pub fn tokenizer_config(&self) -> Option<&serde_json::Value> {
        self.folder.as_ref()?.tokenizer_config.as_ref()
    }

    /// `generation_config.json` of a Hugging Face folder.
    pub fn generation_config(&self) -> Option<&serde_json::Value> {
        self.folder.as_ref()?.generation_config.as_ref()
    }

    /// Path of `tokenizer.json` in a Hugging Face folder, if the folder has it.
    pub fn tokenizer_json_path(&self) -> Option<&Path> {
        self.folder.as_ref()?.tokenizer_json.as_deref()
    }

    /// Text of `chat_template.jinja` of a Hugging Face folder (older folders have the template in `tokenizer_config.json`).
    pub fn chat_template_file(&self) -> Option<&str> {
        self.folder.as_ref()?.chat_template.as_deref()
    }
}

/// A tensor of f64 as f32, with its bytes.
fn narrowed(tensor: TensorInfo, bytes: &[u8]) -> (TensorInfo, Bytes) {
    let wide = bytes.get(tensor.offset..tensor.offset + tensor.bytes).unwrap_or_default();
    let narrow: Vec<u8> =
        wide.as_chunks::<8>().0.iter().flat_map(|x| (f64::from_le_bytes(*x) as f32).to_le_bytes()).collect();
    let kind = TensorType::from_safetensors("F32");
    (TensorInfo { kind, bytes: narrow.len(), offset: 0, ..tensor }, Bytes::copied(&narrow))
}
