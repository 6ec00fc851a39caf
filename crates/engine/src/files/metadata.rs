//! Typed access to metadata, with errors that name the key.

use super::error::KeyError;
use super::value::{Metadata, Value};
use onetrip_ir::text::{shorten, shown};

/// Typed access to [`Metadata`]. If the entry is missing, `get_` functions return an error and `opt_` functions return `None`.
/// An entry of another type is an error for both.
pub trait MetadataAccess {
    /// The entry of a key, if there is one.
    fn find(&self, key: &str) -> Option<&Value>;

    /// An integer that is not negative, of any width.
    fn opt_u64(&self, key: &str) -> Result<Option<u64>, KeyError> {
        self.find(key).map(|v| v.as_u64().ok_or_else(|| wrong(key, "a non-negative integer", v))).transpose()
    }

    /// A number (an integer counts as one), rounded to f32.
    fn opt_f32(&self, key: &str) -> Result<Option<f32>, KeyError> {
        self.find(key).map(|v| v.as_f64().map(|x| x as f32).ok_or_else(|| wrong(key, "a number", v))).transpose()
    }

    /// A truth value.
    fn opt_bool(&self, key: &str) -> Result<Option<bool>, KeyError> {
        self.find(key).map(|v| v.as_bool().ok_or_else(|| wrong(key, "true or false", v))).transpose()
    }

    /// Text.
    fn opt_str(&self, key: &str) -> Result<Option<&str>, KeyError> {
        self.find(key).map(|v| v.as_str().ok_or_else(|| wrong(key, "text", v))).transpose()
    }

    /// A list of texts.
    fn opt_strs(&self, key: &str) -> Result<Option<&[String]>, KeyError> {
        self.find(key).map(|v| v.as_strs().ok_or_else(|| wrong(key, "a list of texts", v))).transpose()
    }

    /// A list of integers.
    fn opt_ints(&self, key: &str) -> Result<Option<&[i64]>, KeyError> {
        self.find(key).map(|v| v.as_ints().ok_or_else(|| wrong(key, "a list of integers", v))).transpose()
    }

    /// A list of floats.
    fn opt_floats(&self, key: &str) -> Result<Option<&[f64]>, KeyError> {
        self.find(key).map(|v| v.as_floats().ok_or_else(|| wrong(key, "a list of floats", v))).transpose()
    }

    /// Like [`opt_u64`](Self::opt_u64), and the entry must be there.
    fn get_u64(&self, key: &str) -> Result<u64, KeyError> {
        self.opt_u64(key)?.ok_or_else(|| missing(key))
    }

    /// A number that sizes memory or a loop. It must be at most `limit`, so that a hostile file cannot exhaust the machine.
    fn get_count(&self, key: &str, limit: usize) -> Result<usize, KeyError> {
        let found = self.get_u64(key)?;
        match usize::try_from(found) {
            Ok(n) if n <= limit => Ok(n),
            _ => Err(KeyError::Limit { key: shown(key), found, limit: limit as u64 }),
        }
    }

    /// Like [`get_count`](Self::get_count), where the entry may be missing.
    fn opt_count(&self, key: &str, limit: usize) -> Result<Option<usize>, KeyError> {
        self.opt_u64(key)?.map(|_| self.get_count(key, limit)).transpose()
    }

    /// Like [`opt_f32`](Self::opt_f32), and the entry must be there.
    fn get_f32(&self, key: &str) -> Result<f32, KeyError> {
        self.opt_f32(key)?.ok_or_else(|| missing(key))
    }

    /// Like [`opt_bool`](Self::opt_bool), and the entry must be there.
    fn get_bool(&self, key: &str) -> Result<bool, KeyError> {
        self.opt_bool(key)?.ok_or_else(|| missing(key))
    }

    /// Like [`opt_str`](Self::opt_str), and the entry must be there.
    fn get_str(&self, key: &str) -> Result<&str, KeyError> {
        self.opt_str(key)?.ok_or_else(|| missing(key))
    }

    /// Like [`opt_strs`](Self::opt_strs), and the entry must be there.
    fn get_strs(&self, key: &str) -> Result<&[String], KeyError> {
        self.opt_strs(key)?.ok_or_else(|| missing(key))
    }

    /// Like [`opt_ints`](Self::opt_ints), and the entry must be there.
    fn get_ints(&self, key: &str) -> Result<&[i64], KeyError> {
        self.opt_ints(key)?.ok_or_else(|| missing(key))
    }

    /// Like [`opt_floats`](Self::opt_floats), and the entry must be there.
    fn get_floats(&self, key: &str) -> Result<&[f64], KeyError> {
        self.opt_floats(key)?.ok_or_else(|| missing(key))
    }
}

impl MetadataAccess for Metadata {
    fn find(&self, key: &str) -> Option<&Value> {
        self.get(key)
    }
}

fn missing(key: &str) -> KeyError {
    KeyError::Missing { key: shown(key) }
}

fn wrong(key: &str, want: &'static str, found: &Value) -> KeyError {
    KeyError::Type { key: shown(key), want, found: format!("{} ({})", found.type_name(), found.brief(40)) }
}

impl Value {
    /// A non-negative integer, whichever way it is stored.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U64(n) => Some(n),
            Value::I64(n) => u64::try_from(n).ok(),
            _ => None,
        }
    }

    /// An integer that fits i64, whichever way it is stored.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::U64(n) => i64::try_from(n).ok(),
            Value::I64(n) => Some(n),
            _ => None,
        }
    }

    /// Any number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::U64(n) => Some(n as f64),
            Value::I64(n) => Some(n as f64),
            Value::F64(x) => Some(x),
            _ => None,
        }
    }

    /// A truth value.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(b) = *self { Some(b) } else { None }
    }

    /// Text.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(s) = self { Some(s) } else { None }
    }

    /// A list of texts.
    pub fn as_strs(&self) -> Option<&[String]> {
        if let Value::Strs(s) = self { Some(s) } else { None }
    }

    /// A list of integers.
    pub fn as_ints(&self) -> Option<&[i64]> {
        if let Value::Ints(n) = self { Some(n) } else { None }
    }

    /// A list of floats.
    pub fn as_floats(&self) -> Option<&[f64]> {
        if let Value::Floats(x) = self { Some(x) } else { None }
    }

    /// The type in words, for tables and errors.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::U64(_) => "unsigned integer",
            Value::I64(_) => "integer",
            Value::F64(_) => "float",
            Value::Bool(_) => "bool",
            Value::Str(_) => "text",
            Value::Strs(_) => "texts",
            Value::Ints(_) => "integers",
            Value::Floats(_) => "floats",
            Value::Bools(_) => "bools",
        }
    }

    /// The value as one line for people: text cut to `limit` characters; of a list its first items and its length.
    pub fn brief(&self, limit: usize) -> String {
        fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
            let head: Vec<String> = items.iter().take(4).map(show).collect();
            let more = if items.len() > 4 { ", …" } else { "" };
            format!("[{}{more}] ({} items)", head.join(", "), items.len())
        }
        // Most floats are f32 in the file: the shortest decimal form of the f32 is what their author wrote.
        fn float(x: &f64) -> String {
            if f64::from(*x as f32) == *x { (*x as f32).to_string() } else { x.to_string() }
        }
        match self {
            Value::U64(n) => n.to_string(),
            Value::I64(n) => n.to_string(),
            Value::F64(x) => float(x),
            Value::Bool(b) => b.to_string(),
            Value::Str(s) => shorten(s, limit),
            Value::Strs(v) => list(v, |s| format!("\"{}\"", shorten(s, 24))),
            Value::Ints(v) => list(v, i64::to_string),
            Value::Floats(v) => list(v, float),
            Value::Bools(v) => list(v, bool::to_string),
        }
    }
}
