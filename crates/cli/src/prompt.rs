//! From what a user gives (text, stdin, messages) to the token ids of a prompt.

use std::io::{IsTerminal, Read};

use onetrip_engine::chat::{ChatTemplate, Message};
use onetrip_engine::config::Config;
use onetrip_engine::tokenizer::{Special, Tokenizer};

use crate::fail::Fail;

/// Positions there is room for, unless the model has fewer or the text needs more.
const USUAL_CONTEXT: usize = 4096;

/// The text on stdin, without the line break at its end.
pub fn stdin_text() -> Result<String, Fail> {
    let mut bytes = vec![];
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|e| Fail::Input(format!("cannot read the text on stdin: {e}")))?;
    let mut text = utf8("stdin", bytes)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Bytes as text; the error names the first byte that is wrong.
pub fn utf8(from: &str, bytes: Vec<u8>) -> Result<String, Fail> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Fail::Input(format!("{from}: byte {at} is not UTF-8; convert the text to UTF-8 first"))
    })
}

/// The text given as an argument, or on stdin where it is `-` or missing.
pub fn text(given: Option<&str>, example: &str) -> Result<String, Fail> {
    match given {
        Some("-") => stdin_text(),
        Some(text) => Ok(text.to_string()),
        None if std::io::stdin().is_terminal() => Err(Fail::Input(format!("no text: give one, as in `{example}`"))),
        None => stdin_text(),
    }
}

/// The ids of a text, in the tokenizer's words where it cannot.
pub fn encode(tokenizer: &Tokenizer, text: &str, special: Special) -> Result<Vec<u32>, Fail> {
    tokenizer.encode(text, special).map_err(|e| Fail::Input(e.to_string()))
}

/// The model's chat template.
pub fn template(tokenizer: &Tokenizer, model: &str) -> Result<ChatTemplate, Fail> {
    let Some(source) = tokenizer.chat_template() else {
        let what =
            "has no chat template, it only continues texts: use `onetrip run` without --chat, or another --model";
        let what = format!("{model} {what}");
        return Err(Fail::Input(what));
    };
    let name =
        |id: Option<u32>| id.map_or(String::new(), |id| String::from_utf8_lossy(tokenizer.token_bytes(id)).into());
    Ok(ChatTemplate::new(source, &name(tokenizer.bos()), &name(tokenizer.eos()))?)
}

/// The ids of a conversation, up to where the answer begins.
pub fn conversation(template: &ChatTemplate, tokenizer: &Tokenizer, messages: &[Message]) -> Result<Vec<u32>, Fail> {
    encode(tokenizer, &template.render(messages, true)?, Special::TEMPLATE)
}

/// Positions to make room for: what was asked for, or the usual number, more for a longer text, never above what the
/// model was trained for.
pub fn context(asked: Option<usize>, config: &Config, needed: usize) -> usize {
    asked.unwrap_or(USUAL_CONTEXT.max(needed).min(config.context))
}
