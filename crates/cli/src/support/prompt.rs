//! Turns the user's input (text, stdin, messages) into the token ids of a prompt.

use std::io::{IsTerminal, Read};

use onetrip_engine::chat::{ChatError, ChatTemplate, Message};
use onetrip_engine::config::Config;
use onetrip_engine::tokenizer::{Special, Tokenizer};

use crate::support::fail::Fail;
use crate::support::load::IDS_INSTEAD;

/// Default context length in positions, unless the model has fewer or the text needs more.
pub const USUAL_CONTEXT: usize = 4096;

/// The longest text on stdin in bytes: some twenty times the longest context of any model.
pub const MOST_STDIN: usize = 64 << 20;

/// A text of more than [`MOST_STDIN`] bytes.
pub fn too_long() -> Fail {
    Fail::Input(format!("stdin: the text has more than {} MB: give less of it", MOST_STDIN >> 20))
}

/// The text on stdin, without the line break at its end.
pub fn stdin_text() -> Result<String, Fail> {
    let mut bytes = vec![];
    let read = std::io::stdin().lock().take(MOST_STDIN as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|e| Fail::Input(format!("cannot read the text on stdin: {e}; give it as an argument")))?;
    if bytes.len() > MOST_STDIN {
        return Err(too_long());
    }
    let mut text = utf8("stdin", bytes, 0)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Bytes as text; the error names the first byte that is wrong, `before` bytes of the source being read already.
pub fn utf8(from: &str, bytes: Vec<u8>, before: usize) -> Result<String, Fail> {
    String::from_utf8(bytes).map_err(|e| {
        let at = before + e.utf8_error().valid_up_to();
        Fail::Input(format!("{from}: byte {at} is not UTF-8; convert the text to UTF-8 first"))
    })
}

/// The text given as an argument, or on stdin where it is `-` or missing; a person is told to give one.
pub fn text(given: Option<&str>, advice: impl FnOnce() -> String) -> Result<String, Fail> {
    match given {
        Some("-") => stdin_text(),
        Some(text) => Ok(text.to_string()),
        None if std::io::stdin().is_terminal() => Err(Fail::Usage(format!("no text: {}", advice()))),
        None => stdin_text(),
    }
}

/// The ids of a text, in the tokenizer's words where it cannot.
pub fn encode(tokenizer: &Tokenizer, text: &str, special: Special) -> Result<Vec<u32>, Fail> {
    tokenizer.encode(text, special).map_err(|e| Fail::Input(format!("{e}; give less text, or {IDS_INSTEAD}")))
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
    let made = ChatTemplate::new(source, &name(tokenizer.bos()), &name(tokenizer.eos()));
    made.map_err(|e| template_fail(model, &e))
}

/// Names the model, and what to do.
fn template_fail(model: &str, error: &ChatError) -> Fail {
    let advice = match error {
        ChatError::Refused(_) => "say it in another way, such as without --system",
        _ => "mend the template in the model's files, or use `onetrip run` without --chat",
    };
    Fail::Input(format!("{model}: {error}; {advice}"))
}

/// The ids of a conversation, up to where the answer begins.
pub fn conversation(
    (template, model): (&ChatTemplate, &str),
    tokenizer: &Tokenizer,
    messages: &[Message],
) -> Result<Vec<u32>, Fail> {
    let text = template.render(messages, true).map_err(|e| template_fail(model, &e))?;
    encode(tokenizer, &text, Special::TEMPLATE)
}

/// Context length in positions: the requested one, or the default (more for a longer text), but never more than the model
/// was trained for.
pub fn context(asked: Option<usize>, config: &Config, needed: usize) -> usize {
    asked.unwrap_or(USUAL_CONTEXT.max(needed).min(config.context))
}
