//! The configuration of a model file as typed keys. A GGUF file and the `config.json` of Hugging Face have other names for the
//! same hyperparameter, so every request gives both. The keys that were asked for are remembered: what the file says besides
//! them is compared with [`super::effects`].

use std::cell::RefCell;
use std::collections::BTreeSet;

use onetrip_ir::text::shown;
use serde_json::Value as Json;

use super::ConfigError;
use crate::files::{FileError, KeyError, Kind, MetadataAccess, ModelFile, Value};

/// The two names of a hyperparameter: in GGUF after the architecture (`attention.head_count`), and in `config.json`, dotted for
/// nested objects (`rope_scaling.factor`). An empty name: that kind of file does not have it. Several names separated by `|`:
/// the first that the file has counts.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Name in GGUF, without the architecture.
    pub gguf: &'a str,
    /// Name in `config.json`.
    pub json: &'a str,
}

/// A hyperparameter that both kinds of files have.
pub fn key<'a>(gguf: &'a str, json: &'a str) -> Key<'a> {
    Key { gguf, json }
}

/// The configuration of an opened model file.
pub struct Keys<'a> {
    file: &'a ModelFile,
    /// The architecture (GGUF) or `model_type` (`config.json`) that the file names.
    named: String,
    /// What stands before the keys: the architecture in GGUF, `text_config.` where a folder has its language model in there.
    prefix: String,
    asked: RefCell<BTreeSet<(String, String)>>,
}

impl<'a> Keys<'a> {
    /// The configuration of a file; an error if the file has none.
    pub fn new(file: &'a ModelFile) -> Result<Keys<'a>, ConfigError> {
        let mut keys = Keys { file, named: String::new(), prefix: String::new(), asked: RefCell::default() };
        keys.named = match file.kind() {
            Kind::Gguf => file.key(file.metadata().get_str("general.architecture"))?.to_string(),
            Kind::Safetensors => return Err(ConfigError::Bare { file: file.name().into() }),
            Kind::HuggingFace => {
                let root = file.config().unwrap_or(&Json::Null);
                if !root.is_object() {
                    let what = format!("the file should hold one JSON object, and holds {}", brief(root));
                    return Err(keys.refuse(what));
                }
                if root.pointer("/text_config/model_type").is_some_and(Json::is_string) {
                    keys.prefix = "text_config.".into();
                }
                let found = keys.text(key("", "model_type"))?;
                found.ok_or_else(|| keys.refuse("`model_type` is missing".into()))?.to_string()
            }
        };
        if file.kind() == Kind::Gguf {
            keys.prefix = format!("{}.", keys.named);
        }
        Ok(keys)
    }

    /// The file.
    pub fn file(&self) -> &'a ModelFile {
        self.file
    }

    /// Whether the file is a GGUF file.
    pub fn is_gguf(&self) -> bool {
        self.file.kind() == Kind::Gguf
    }

    /// The architecture (GGUF) or `model_type` (`config.json`) that the file names.
    pub fn named(&self) -> &str {
        &self.named
    }

    /// The name of a key in this file, for error texts.
    pub fn name(&self, key: Key) -> String {
        let (name, _) = self.places(key).next().unwrap_or_default();
        self.quoted(&name)
    }

    fn quoted(&self, name: &str) -> String {
        if self.is_gguf() { format!("`{}`", shown(name)) } else { format!("`{}` of config.json", shown(name)) }
    }

    /// An error about what the configuration says.
    pub fn refuse(&self, what: String) -> ConfigError {
        ConfigError::Shape { file: self.source(), what }
    }

    /// The whole names under which a key may stand in this file, and their forms without the architecture.
    fn places(&self, key: Key<'_>) -> impl Iterator<Item = (String, String)> {
        let names = if self.is_gguf() { key.gguf } else { key.json };
        let prefix = self.prefix.clone();
        let names: Vec<_> = names.split('|').filter(|n| !n.is_empty()).map(String::from).collect();
        names.into_iter().map(move |name| (format!("{prefix}{name}"), name))
    }

    /// Remembers that the key was asked for, and finds the first of its names that the file has.
    fn find(&self, key: Key, want: &'static str) -> Result<Option<(String, &'a Value)>, ConfigError> {
        self.asked.borrow_mut().insert((key.gguf.into(), key.json.into()));
        for (whole, _) in self.places(key) {
            if let Some(value) = self.file.metadata().get(&whole) {
                return Ok(Some((whole, value)));
            }
            // Objects and mixed lists of `config.json` are not in the metadata: they are of a wrong type for every key.
            if let Some(value) = self.json(&whole) {
                let found = brief(value);
                return Err(self.refuse(format!("`{}` should be {want}, and is {found}", shown(&whole))));
            }
        }
        Ok(None)
    }

    /// The value of a dotted key in `config.json` that is not null.
    fn json(&self, name: &str) -> Option<&'a Json> {
        let found = name.split('.').try_fold(self.file.config()?, |at, part| at.get(part))?;
        Some(found).filter(|v| !v.is_null())
    }

    fn opt<T>(
        &self,
        key: Key,
        want: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((name, value)) = self.find(key, want)? else { return Ok(None) };
        let wrong = || {
            let found = format!("{} ({})", value.type_name(), value.brief(40));
            self.error(KeyError::Type { key: shown(&name), want, found })
        };
        read(value).map(Some).ok_or_else(wrong)
    }

    fn error(&self, error: KeyError) -> ConfigError {
        FileError::Key { file: self.source(), error }.into()
    }

    /// The file that has the configuration, for error texts.
    fn source(&self) -> String {
        if self.is_gguf() { self.file.name().into() } else { format!("{}/config.json", self.file.name()) }
    }

    /// A number (an integer counts as one), rounded to f32.
    pub fn number(&self, key: Key) -> Result<Option<f32>, ConfigError> {
        self.opt(key, "a number", |v| v.as_f64().map(|x| x as f32))
    }

    /// A number from `low` to `high`.
    pub fn number_within(&self, key: Key, low: f32, high: f32) -> Result<Option<f32>, ConfigError> {
        let found = self.number(key)?;
        match found {
            Some(x) if !(x >= low && x <= high) => {
                Err(self.refuse(format!("{} is {x}: {low} to {high} can be", self.found_name(key))))
            }
            _ => Ok(found),
        }
    }

    /// The name under which this file has the key, for error texts.
    fn found_name(&self, key: Key) -> String {
        let there = self.places(key).find(|(whole, _)| self.file.metadata().contains_key(whole));
        there.map_or_else(|| self.name(key), |(whole, _)| self.quoted(&whole))
    }

    /// Text.
    pub fn text(&self, key: Key) -> Result<Option<&'a str>, ConfigError> {
        self.opt(key, "text", Value::as_str)
    }

    /// A truth value.
    pub fn flag(&self, key: Key) -> Result<Option<bool>, ConfigError> {
        self.opt(key, "true or false", Value::as_bool)
    }

    /// A list of texts.
    pub fn texts(&self, key: Key) -> Result<Option<&'a [String]>, ConfigError> {
        self.opt(key, "a list of texts", Value::as_strs)
    }

    /// A list of numbers.
    pub fn numbers(&self, key: Key) -> Result<Option<Vec<f32>>, ConfigError> {
        self.opt(key, "a list of numbers", |v| match v {
            Value::Ints(n) => Some(n.iter().map(|x| *x as f32).collect()),
            Value::Floats(x) => Some(x.iter().map(|x| *x as f32).collect()),
            _ => None,
        })
    }

    /// A number that sizes memory or a loop, at most `limit`. A list that has it for every layer is accepted where all its items
    /// are equal: layers of different sizes are not implemented.
    pub fn opt_count(&self, key: Key, limit: usize) -> Result<Option<usize>, ConfigError> {
        let want = "a non-negative integer";
        let Some((name, value)) = self.find(key, want)? else { return Ok(None) };
        let found = match value {
            Value::Ints(all) => match all.first() {
                Some(first) if all.iter().any(|x| x != first) => {
                    let what = "has other values in other layers, which is not implemented";
                    return Err(self.refuse(format!("{} {what}: {}", self.quoted(&name), value.brief(40))));
                }
                first => first.and_then(|&x| u64::try_from(x).ok()),
            },
            _ => value.as_u64(),
        };
        let error = match found {
            Some(n) if n <= limit as u64 => return Ok(Some(n as usize)),
            Some(found) => KeyError::Limit { key: shown(&name), found, limit: limit as u64 },
            None => {
                let found = format!("{} ({})", value.type_name(), value.brief(40));
                KeyError::Type { key: shown(&name), want, found }
            }
        };
        Err(self.error(error))
    }

    /// Like [`Keys::opt_count`], and the key must be there.
    pub fn count(&self, key: Key, limit: usize) -> Result<usize, ConfigError> {
        self.opt_count(key, limit)?.ok_or_else(|| self.missing(key))
    }

    /// The error for a key that is not there.
    pub fn missing(&self, key: Key) -> ConfigError {
        let name = self.places(key).next().map_or_else(String::new, |(whole, _)| shown(&whole));
        self.error(KeyError::Missing { key: name })
    }

    /// Whether `config.json` has an object under this key; another value than an object is an error.
    pub fn object(&self, name: &str) -> Result<bool, ConfigError> {
        match self.json(&format!("{}{name}", self.prefix)) {
            Some(value) if !value.is_object() => {
                Err(self.refuse(format!("`{}` should be an object, and is {}", shown(name), brief(value))))
            }
            found => Ok(found.is_some()),
        }
    }

    /// For each layer, whether the item of a list of truth values, or of numbers that stand for them, is set.
    pub fn flags(&self, key: Key) -> Result<Option<Vec<bool>>, ConfigError> {
        self.opt(key, "a list of true and false", |v| match v {
            Value::Bools(all) => Some(all.clone()),
            Value::Ints(all) => Some(all.iter().map(|x| *x != 0).collect()),
            _ => None,
        })
    }

    /// Whether the file has the key as a list.
    pub fn is_list(&self, key: Key) -> bool {
        let found = self.places(key).find_map(|(whole, _)| self.file.metadata().get(&whole));
        matches!(found, Some(Value::Ints(_) | Value::Bools(_) | Value::Floats(_) | Value::Strs(_)))
    }

    /// All keys that were asked for, by their names in GGUF and in `config.json`, as [`Key`] has them.
    pub fn asked(&self) -> Vec<(String, String)> {
        self.asked.borrow().iter().cloned().collect()
    }

    /// Whether a key of this file (without the architecture) was asked for.
    pub(super) fn was_asked(&self, name: &str) -> bool {
        let one = |names: &str| names.split('|').any(|n| n == name);
        self.asked.borrow().iter().any(|(gguf, json)| one(if self.is_gguf() { gguf } else { json }))
    }

    /// All keys that describe the model, without the architecture, with their values.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let prefix = self.prefix.clone();
        let all = self.file.metadata().iter();
        all.filter_map(move |(name, value)| Some((name.strip_prefix(&prefix)?, value)))
    }
}

/// The first 40 characters of a value, for error texts.
fn brief(value: &Json) -> String {
    shown(&value.to_string().chars().take(40).collect::<String>())
}
