//! Arguments without a flag: the model, and behind it the text of commands that take one.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use onetrip_engine::shape;
use onetrip_import as listing;

use crate::support::fail::Fail;
use crate::support::foreign::in_quotes;
use crate::support::load::TINY_NAME;
use crate::support::options::FileArgs;

/// The first bytes of a GGUF file.
const GGUF: &[u8] = b"GGUF";

/// True of an argument that names a model and no text: it ends in `.gguf`, or it is the path of a GGUF file, of a safetensors
/// file, or of a folder with `config.json`.
pub fn is_model(argument: &OsStr) -> bool {
    let path = Path::new(argument);
    let ends_in = |extension: &str| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension));
    ends_in("gguf")
        || path.is_file() && (ends_in("safetensors") || starts_with(path, GGUF))
        || path.is_dir() && path.join("config.json").is_file()
}

fn starts_with(path: &Path, magic: &[u8]) -> bool {
    let mut head = vec![];
    let read = std::fs::File::open(path).and_then(|file| file.take(magic.len() as u64).read_to_end(&mut head));
    read.is_ok() && head == magic
}

/// A model that is no file: only a text behind it tells it from a text.
fn is_name(argument: &OsStr) -> bool {
    let has = |prefix: &str| argument.to_str().is_some_and(|name| name.starts_with(prefix));
    argument == TINY_NAME || has(shape::PREFIX) || has(listing::PREFIX)
}

/// An argument as it is typed in a shell: in quotes where it has to be.
pub fn quoted(argument: &Path) -> String {
    let shown = argument.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:=,@\\".contains(c);
    if shown.chars().all(is_plain) { shown.into_owned() } else { format!("\"{shown}\"") }
}

impl FileArgs {
    /// Of a command without a text: an argument is the model.
    ///
    /// # Errors
    /// It is empty, or `--model` is given too.
    pub fn settle(&mut self) -> Result<(), Fail> {
        match (self.first.take(), &self.model) {
            (None, _) => Ok(()),
            (Some(first), None) => self.take(first),
            (Some(first), Some(model)) => Err(twice(&first, model, "")),
        }
    }

    /// Of a command with a text, which stands in `text` if it is the second argument: an argument alone is the model if it
    /// [is one](is_model), else the text; of two, the first is the model.
    ///
    /// # Errors
    /// A model is given twice or is empty, a text is not UTF-8, or two arguments are no model and a text.
    pub fn settle_with_text(&mut self, text: &mut Option<String>, command: &str) -> Result<(), Fail> {
        let Some(first) = self.first.take() else { return Ok(()) };
        match (&self.model, text.is_some()) {
            (Some(model), _) if is_model(&first) => {
                Err(twice(&first, model, "; a text that is the name of a model is given on stdin"))
            }
            (None, true) if is_model(&first) || is_name(&first) => self.take(first),
            (None, false) if is_model(&first) => self.take(first),
            (_, false) => {
                let read = first.into_string();
                let bad = "the text in the place of [PROMPT] is not UTF-8: convert it first";
                *text = Some(read.map_err(|_| Fail::Usage(bad.into()))?);
                Ok(())
            }
            (_, true) => Err(words(&first, command)),
        }
    }

    fn take(&mut self, first: OsString) -> Result<(), Fail> {
        if first.is_empty() {
            return Err(Fail::Usage("the path of the model is empty: name a file".into()));
        }
        self.model = Some(PathBuf::from(first));
        Ok(())
    }
}

fn twice(first: &OsStr, model: &Path, advice: &str) -> Fail {
    let (first, model) = (first.to_string_lossy(), model.to_string_lossy());
    Fail::Usage(format!("the model is given twice, as `{first}` and as --model {model}: leave one of them out{advice}"))
}

/// Several arguments the first of which is no model: most likely the words of a text.
fn words(first: &OsStr, command: &str) -> Fail {
    let first = first.to_string_lossy();
    Fail::Usage(format!("`{first}` is no model, and a text is one argument: {}", in_quotes(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(
        first: &str,
        second: Option<&str>,
        model: Option<&str>,
    ) -> Result<(Option<PathBuf>, Option<String>), String> {
        let mut file = FileArgs { first: Some(first.into()), model: model.map(PathBuf::from) };
        let mut text = second.map(String::from);
        match file.settle_with_text(&mut text, "run") {
            Ok(()) => Ok((file.model, text)),
            Err(Fail::Usage(what)) => Err(what),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_of_two_is_the_model_and_one_alone_is_what_it_looks_like() {
        let ok = |model: Option<&str>, text: Option<&str>| Ok((model.map(PathBuf::from), text.map(String::from)));
        assert_eq!(given("hi", None, None), ok(None, Some("hi")));
        assert_eq!(given("m.gguf", None, None), ok(Some("m.gguf"), None));
        assert_eq!(given("M.GGUF", Some("hi"), None), ok(Some("M.GGUF"), Some("hi")));
        assert_eq!(given("tiny", None, None), ok(None, Some("tiny")));
        assert_eq!(given("tiny", Some("hi"), None), ok(Some("tiny"), Some("hi")));
        assert_eq!(given("hi", None, Some("m.gguf")), ok(Some("m.gguf"), Some("hi")));
        assert!(given("It", Some("is"), None).is_err_and(|e| e.contains("`It` is no model") && e.contains("quotes")));
        assert!(given("It", Some("is"), Some("m.gguf")).is_err_and(|e| e.contains("quotes")));
        assert!(given("a.gguf", None, Some("b.gguf")).is_err_and(|e| e.contains("twice, as `a.gguf`")));
    }

    #[test]
    fn a_path_is_in_quotes_where_a_shell_would_cut_it() {
        assert_eq!(quoted(Path::new("a/b.gguf")), "a/b.gguf");
        assert_eq!(quoted(Path::new("my models/b.gguf")), "\"my models/b.gguf\"");
    }
}
