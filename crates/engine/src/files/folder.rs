//! A Hugging Face folder: which files belong to the model, and its JSON configurations.

use onetrip_ir::text::{shorten, shown};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::Value as Json;

use super::error::{FileError, shown_path};
use super::stand_in;
use super::value::{Metadata, Value};

/// Largest JSON file that is read into memory (an index of a very large model has about 10 MB).
const MAX_JSON: u64 = 64 << 20;

/// Contents of the files beside the weights.
#[derive(Debug)]
pub(super) struct Folder {
    pub config: Json,
    pub tokenizer_json: Option<PathBuf>,
    pub tokenizer_config: Option<Json>,
    pub generation_config: Option<Json>,
    pub chat_template: Option<String>,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Folder {
    pub(super) fn open(dir: &Path) -> Result<Folder, FileError> {
        let Some(config) = json(&dir.join("config.json"))? else {
            return Err(FileError::Part {
                file: shown_path(dir),
                what: "the folder has no config.json".into(),
                hint: "give a Hugging Face folder with config.json and *.safetensors, or name a .gguf file in it",
            });
        };
        let tokenizer = dir.join("tokenizer.json");
        Ok(Folder {
            config,
            tokenizer_json: tokenizer.is_file().then_some(tokenizer),
            tokenizer_config: json(&dir.join("tokenizer_config.json"))?,
            generation_config: json(&dir.join("generation_config.json"))?,
            chat_template: text(&dir.join("chat_template.jinja"))?,
        })
    }
}

/// The weight files of a folder. An index may list more tensors than its files have: what a model lacks is said when it is asked
/// for.
///
/// The first of these that exists is taken: `model.safetensors`; the files that `model.safetensors.index.json` lists; all
/// files `model-*.safetensors`; all files `*.safetensors`.
pub(super) fn weight_files(dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let single = dir.join("model.safetensors");
    if single.is_file() {
        return Ok(vec![single]);
    }
    let path = dir.join("model.safetensors.index.json");
    if let Some(bytes) = small_file(&path)? {
        let index: Index = parse(&path, &bytes)?;
        return indexed(dir, &path, index);
    }
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(dir).map_err(|e| FileError::io(dir, "list", e))? {
        let path = entry.map_err(|e| FileError::io(dir, "list", e))?.path();
        if path.extension().is_some_and(|e| e == "safetensors") && path.is_file() {
            found.insert(path);
        }
    }
    let numbered = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("model-"));
    if found.iter().any(numbered) {
        found.retain(numbered);
    }
    if found.is_empty() {
        return Err(FileError::Part {
            file: shown_path(dir),
            what: "the folder has no *.safetensors".into(),
            hint: "fetch the weights too, or name a .gguf file",
        });
    }
    Ok(found.into_iter().collect())
}

fn indexed(dir: &Path, path: &Path, index: Index) -> Result<Vec<PathBuf>, FileError> {
    let mut files: BTreeSet<String> = BTreeSet::new();
    for (tensor, file) in index.weight_map {
        // An index is untrusted: it may name only files in its own folder.
        let mut parts = Path::new(&file).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            let what =
                format!("tensor `{}` is said to be in `{}`, not a plain file name", shown(&tensor), shown(&file));
            return Err(FileError::Json { file: shown_path(path), what });
        }
        files.insert(file);
    }
    if files.is_empty() {
        return Err(FileError::Json { file: shown_path(path), what: "the index lists no tensors".into() });
    }
    let listed = files.into_iter().map(|file| dir.join(file));
    listed
        .map(|file| {
            if file.is_file() {
                return Ok(file);
            }
            Err(FileError::Part {
                file: shown_path(&file),
                what: format!("missing, but listed in {}", shown_path(path)),
                hint: "fetch the missing file",
            })
        })
        .collect()
}

/// A JSON file, or `None` if it is not there.
fn json(path: &Path) -> Result<Option<Json>, FileError> {
    small_file(path)?.map(|bytes| parse(path, &bytes)).transpose()
}

fn parse<'a, T: Deserialize<'a>>(path: &Path, bytes: &'a [u8]) -> Result<T, FileError> {
    serde_json::from_slice(bytes)
        .map_err(|e| FileError::Json { file: shown_path(path), what: shorten(&e.to_string(), 200) })
}

fn text(path: &Path) -> Result<Option<String>, FileError> {
    let Some(bytes) = small_file(path)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        FileError::damaged(&shown_path(path), at, "the text is not UTF-8")
    })?;
    Ok(Some(text))
}

/// A regular file of at most [`MAX_JSON`] bytes, or `None` if there is nothing of that name.
fn small_file(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FileError::io(path, "open", e)),
    };
    if !about.is_file() || about.len() > MAX_JSON {
        return Err(FileError::Unsupported {
            file: shown_path(path),
            what: format!("not a regular file of at most {} MB", MAX_JSON >> 20),
            hint: "fetch the file again",
        });
    }
    let bytes = std::fs::read(path).map_err(|e| FileError::io(path, "read", e))?;
    stand_in::refuse(path, &bytes)?;
    Ok(Some(bytes))
}

/// Writes a JSON object into metadata: `{"rope_scaling": {"factor": 8.0}}` becomes `rope_scaling.factor`. Metadata cannot hold
/// nulls, mixed lists and lists of objects; these are found in [`ModelFile::config`](super::ModelFile::config) only.
pub(super) fn flatten(prefix: &str, json: &Json, out: &mut Metadata) {
    let value = match json {
        Json::Object(map) => {
            for (key, value) in map {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&key, value, out);
            }
            return;
        }
        Json::Null => return,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match (n.as_u64(), n.as_i64(), n.as_f64()) {
            (Some(n), _, _) => Value::U64(n),
            (_, Some(n), _) => Value::I64(n),
            (_, _, Some(x)) => Value::F64(x),
            _ => return,
        },
        Json::String(s) => Value::Str(s.clone()),
        Json::Array(items) => {
            // JSON does not say the element type of an empty list; it becomes a list of integers.
            if let Some(v) = items.iter().map(Json::as_i64).collect() {
                Value::Ints(v)
            } else if let Some(v) = items.iter().map(Json::as_f64).collect() {
                Value::Floats(v)
            } else if let Some(v) = items.iter().map(Json::as_bool).collect() {
                Value::Bools(v)
            } else if let Some(v) = items.iter().map(|j| j.as_str().map(String::from)).collect() {
                Value::Strs(v)
            } else {
                return;
            }
        }
    };
    out.insert(prefix.to_string(), value);
}
