//! Chat templates: Jinja templates that come with a model and turn messages into the prompt format of its training.
//!
//! Templates are written for Python's Jinja2 as the `transformers` package configures it; this module configures minijinja to
//! produce the same text. Templates are also untrusted input: their work, recursion, memory and output are limited, and they
//! have no access to files, time zones or the network.

mod methods;
mod python;
mod time;

use std::io;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, SystemTime};

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};

/// Most bytes of a template. Published templates are below 50 KB.
const MAX_SOURCE: usize = 1 << 18;
/// Most characters of a line of a template, and most lines: minijinja counts both in 16 bits.
const MAX_LINE: usize = 65_000;
/// Fuel of every render. Fuel counts minijinja's instructions, and one more for each 64 bytes of data that are produced.
const BASE_FUEL: u64 = 500_000;
/// Additional fuel for each message.
const MESSAGE_FUEL: u64 = 500;
/// Most fuel of a render, however long the conversation; the sizes in [`STACKS`] follow from it.
const MAX_FUEL: u64 = 4_000_000;
/// How deep macros, includes and recursive loops may nest.
const MAX_RECURSION: usize = 100;
/// Most bytes of output, in addition to eight times the bytes of the messages.
const MAX_OUTPUT: usize = 1 << 20;
/// Stack sizes of the thread that renders, largest first. Values are freed, compared and printed recursively, and a template
/// can nest them as deep as its fuel allows, so the stack must be large; only stack pages that are touched take memory. Where
/// the system cannot start a thread with the largest stack (address space may be limited), a smaller stack is used, and fuel
/// is reduced in proportion.
const STACKS: [usize; 3] = [256 << 20, 64 << 20, 16 << 20];
/// Most time that a template may take. Fuel bounds the number of instructions; the deadline bounds the time of one instruction
/// that prints or compares a list which contains itself many times, for which minijinja counts fuel only afterwards.
const DEADLINE: Duration = Duration::from_secs(5);

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The role of the speaker: `system`, `user` or `assistant`; some templates know more, such as `tool`.
    pub role: String,
    /// Text of the message.
    pub content: String,
}

impl Message {
    /// A message of that role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// Why a chat template gives no prompt. Every error text is one line.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The template cannot be parsed.
    #[error("the chat template has a syntax error{0}")]
    Syntax(String),
    /// The template refuses the conversation (`raise_exception`), for instance because it supports no system message or
    /// because turns do not alternate.
    #[error("the chat template refuses this conversation: {0}")]
    Refused(String),
    /// The template fails while it is rendered.
    #[error("the chat template fails{0}")]
    Render(String),
    /// The template exceeds one of the limits that keep it from running forever or filling the memory.
    #[error("the chat template is over the limit of {0}")]
    Limit(&'static str),
}

/// A parsed chat template with the model's BOS and EOS texts.
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
    /// Whether the content of a message has to be a list of parts, once it is known.
    wants_parts: OnceLock<bool>,
}

/// A text that no template has of itself, by which it is found whether a template prints the content of a message.
const MARK: &str = "onetrip-mark-7f3a";

const NAME: &str = "chat";

impl ChatTemplate {
    /// Parses `source`. `bos` and `eos` are the texts of the model's BOS and EOS tokens (such as `<s>`), empty if it has none.
    ///
    /// # Errors
    /// [`ChatError::Syntax`] with the line, [`ChatError::Limit`] for a template over 256 KB.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, ChatError> {
        if source.len() > MAX_SOURCE {
            return Err(ChatError::Limit("256 KB of source"));
        }
        if source.lines().count() > MAX_LINE || source.lines().any(|line| line.len() > MAX_LINE) {
            return Err(ChatError::Limit("65000 lines, or 65000 bytes in a line"));
        }
        let mut environment = Environment::new();
        environment.set_debug(false);
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| ChatError::Syntax(place(&e)))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_recursion_limit(MAX_RECURSION);
        python::install(&mut environment);
        methods::install(&mut environment);
        // Jinja2 reads every kind of line break as one of its own.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let source = python::without_generation_tags(&source);
        // Parsing recurses as deep as the template nests, so it runs on a thread with a large stack, as rendering does.
        let environment = limited(move |share| {
            if source.len() > MAX_SOURCE / share {
                return Err(ChatError::Limit("source for the memory that this process may have"));
            }
            match environment.add_template_owned(NAME, source) {
                Ok(()) => Ok(environment),
                Err(error) => Err(ChatError::Syntax(place(&error))),
            }
        })?;
        Ok(ChatTemplate { environment, bos: bos.to_owned(), eos: eos.to_owned(), wants_parts: OnceLock::new() })
    }

    /// Renders the prompt for a conversation. With `add_generation_prompt` the prompt ends where the assistant's answer begins.
    ///
    /// The text contains the special tokens, and BOS if the template writes it, so it must be encoded with
    /// [`crate::tokenizer::Special::TEMPLATE`].
    ///
    /// # Errors
    /// The template refuses, fails, or is over a limit.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, ChatError> {
        self.render_at(messages, add_generation_prompt, SystemTime::now())
    }

    /// [`ChatTemplate::render`] at a given time, for templates that print the date (in UTC).
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn render_at(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        now: SystemTime,
    ) -> Result<String, ChatError> {
        // A template for lists of parts would pass over a text without a word.
        let wants_parts = *self.wants_parts.get_or_init(|| {
            let mark = [Message::new("user", MARK)];
            let shows = |parts| self.render_with(&mark, true, now, parts).is_ok_and(|text| text.contains(MARK));
            !shows(false) && shows(true)
        });
        self.render_with(messages, add_generation_prompt, now, wants_parts)
    }

    fn render_with(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        now: SystemTime,
        parts: bool,
    ) -> Result<String, ChatError> {
        let size: usize = messages.iter().map(|m| m.role.len() + m.content.len()).sum();
        let mut environment = self.environment.clone();
        // Fuel grows with the size of the conversation, since several filters may each produce its bytes once more.
        let fuel = BASE_FUEL + messages.len() as u64 * MESSAGE_FUEL + size as u64 / 8;
        environment.add_function("strftime_now", move |format: &str| time::format(format, now));
        let list: Vec<Value> = messages.iter().map(|message| message_value(message, parts)).collect();
        // `transformers` also defines `tools` and `documents` when there are none, with the value `None`.
        let context = Value::from_pairs([
            ("messages", Value::from(list)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(add_generation_prompt)),
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
        ]);
        let mut out = Limited { bytes: Vec::new(), limit: MAX_OUTPUT.saturating_add(size.saturating_mul(8)) };
        limited(move |share| {
            environment.set_fuel(Some(fuel.min(MAX_FUEL / share as u64)));
            let template = environment.get_template(NAME).map_err(|e| ChatError::Render(place(&e)))?;
            match template.render_captured_to(context, &mut out) {
                Ok(_) => Ok(String::from_utf8_lossy(&out.bytes).into_owned()),
                Err(error) => Err(render_error(&error)),
            }
        })
    }
}

/// A message as templates see it; with `parts`, its content is a list with one part of type `text`.
fn message_value(message: &Message, parts: bool) -> Value {
    let text = Value::from(message.content.as_str());
    let content = match parts {
        true => Value::from(vec![Value::from_pairs([("type", Value::from("text")), ("text", text)])]),
        false => text,
    };
    Value::from_pairs([("role", Value::from(message.role.as_str())), ("content", content)])
}

/// Runs `work` on a thread with the largest of [`STACKS`] with which the system can start one. The argument of `work` is the
/// size of the largest stack divided by the size of its own. A thread that exceeds the [`DEADLINE`] is abandoned.
fn limited<T: Send + 'static>(
    work: impl FnOnce(usize) -> Result<T, ChatError> + Send + 'static,
) -> Result<T, ChatError> {
    let (send, receive) = mpsc::sync_channel(1);
    // `work` reaches the thread through a channel once the thread runs: a closure given to a thread that cannot be started
    // would be lost.
    let (hand, take) = mpsc::sync_channel::<(usize, Box<dyn FnOnce(usize) -> Result<T, ChatError> + Send>)>(1);
    let take = Arc::new(Mutex::new(take));
    let start = |stack: usize| {
        let (send, take) = (send.clone(), take.clone());
        std::thread::Builder::new().name("chat template".to_owned()).stack_size(stack).spawn(move || {
            let handed = take.lock().ok().and_then(|take| take.recv().ok());
            if let Some((share, work)) = handed {
                // Sending fails if the deadline has passed, since the receiver is gone then.
                let _ = send.send(work(share));
            }
        })
    };
    let mut refused = None;
    let started = STACKS.into_iter().find_map(|stack| match start(stack) {
        Ok(thread) => Some((stack, thread)),
        Err(e) => {
            refused = Some(e);
            None
        }
    });
    let Some((stack, thread)) = started else {
        let why = refused.map_or(String::new(), |e| format!(": {e}"));
        return Err(ChatError::Render(format!(": no thread to run it on{why}")));
    };
    drop(send);
    // Sending does not block: the channel holds one value.
    let _ = hand.send((STACKS[0] / stack, Box::new(work)));
    let result = match receive.recv_timeout(DEADLINE) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => return Err(ChatError::Limit("5 seconds")),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(ChatError::Render(": a panic in the template engine".to_owned()))
        }
    };
    // The thread has sent its result and is about to end; joining it leaves no thread behind.
    let _ = thread.join();
    result
}

fn render_error(error: &minijinja::Error) -> ChatError {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(raised) = inner.downcast_ref::<python::Raised>() {
            return ChatError::Refused(one_line(&raised.0));
        }
        source = inner.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => ChatError::Limit("work (a loop that is too long, or a text that grows too large)"),
        ErrorKind::WriteFailure => ChatError::Limit("output (1 MB beyond eight times the messages)"),
        _ => ChatError::Render(place(error)),
    }
}

/// Line and text of an error, to be appended to a message: ` in line 3: KIND: DETAIL`.
fn place(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {}", one_line(detail))).unwrap_or_default();
    format!("{line}: {}{detail}", error.kind())
}

/// The first 300 characters of a text, with spaces instead of control characters such as line breaks.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

/// An output buffer; a write that would make it longer than `limit` bytes fails.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::Error::other("output limit"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
