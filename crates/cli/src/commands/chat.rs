//! `onetrip chat`: a conversation. What was said before stays in the cache, so only what is new runs.

mod lines;
mod wrap;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use onetrip_engine::chat::{ChatTemplate, Message};
use onetrip_engine::generate::{FinishReason, Generated, StopConditions, generate};
use onetrip_engine::sampling::recommended;
use onetrip_engine::step::Engine;
use onetrip_engine::tokenizer::Tokenizer;
use onetrip_ir::batch::SampleParams;
use serde_json::{Value, json};

use crate::commands::chat::lines::{Line, Lines};
use crate::commands::chat::wrap::Wrap;
use crate::commands::run::{Stream, summary, tick_ledger, timings};
use crate::support::fail::Fail;
use crate::support::interrupt::Producing;
use crate::support::options::{ModelArgs, SampleArgs, at_least_one, new_tokens, stop, utf8};
use crate::support::output::{Out, note};
use crate::support::{load, prompt};

const HELP: &str = "/reset          forget the conversation\n\
                    /system TEXT    begin anew with this system message\n\
                    /regen          answer the last question again\n\
                    /save FILE      write the conversation to FILE, as JSON\n\
                    /load FILE      go on with the conversation in FILE\n\
                    /model FILE     go on with another model\n\
                    /stats          positions in use, turns, and speed of the last answer\n\
                    /help           this list\n\
                    /exit, Ctrl-D   leave\n\
                    Ctrl-C          stop an answer";
/// The commands that [`HELP`] lists.
const COMMANDS: [&str; 10] =
    ["/reset", "/system", "/regen", "/save", "/load", "/model", "/stats", "/help", "/exit", "/quit"];

/// Flags of `chat`.
#[derive(Args)]
pub struct ChatArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// System message
    #[arg(long, value_parser = utf8(), value_name = "TEXT")]
    system: Option<String>,
    /// New tokens of an answer at most. -1: until the model ends, or the context is full
    #[arg(short, aliases = ["n-predict", "predict"], default_value = "1024", value_parser = new_tokens, allow_negative_numbers = true, value_name = "N")]
    n: usize,
    #[command(flatten)]
    sample: SampleArgs,
    /// End an answer before this text (may be given several times)
    #[arg(long, value_parser = stop(), value_name = "TEXT")]
    stop: Vec<String>,
    /// Positions there is room for [default: what the model was trained for, as far as a quarter of the free memory holds it, and
    /// at most 32768; on a GPU 4096]
    #[arg(long, short_alias = 'c', alias = "ctx-size", value_parser = at_least_one, allow_negative_numbers = true, value_name = "L")]
    context: Option<usize>,
    /// Print JSON objects on stdout while an answer is made: one a line for each token, and behind an answer one with all of it
    #[arg(long, conflicts_with = "json", display_order = 901)]
    pub json_lines: bool,
}

/// A model that is loaded, with what a conversation needs of it.
struct Loaded {
    engine: Engine,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// The model as errors and the first line call it.
    name: String,
    sample: SampleParams,
    seq: usize,
}

impl Loaded {
    fn new(args: &ChatArgs, model_args: &ModelArgs) -> Result<Loaded, Fail> {
        let file = load::file(model_args.file.path())?;
        let tokenizer = load::tokenizer(&file)?;
        let name = model_args.file.name().into_owned();
        let template = prompt::template(&tokenizer, &name)?;
        let model = load::model(file, model_args)?;
        let context = args.context.unwrap_or_else(|| model.roomy_context(prompt::USUAL_CONTEXT));
        let mut engine = load::engine(model, model_args, context, 1)?;
        let sample = args.sample.params(&recommended(&engine.model().file), 0);
        let seq = engine.scheduler().add(sample.clone());
        let seq = seq.ok_or_else(|| Fail::Work("there is no room for a sequence".into()))?;
        Ok(Loaded { engine, tokenizer, template, name, sample, seq })
    }
}

/// A conversation and the model that has it.
struct Chat<'a> {
    loaded: Loaded,
    args: &'a ChatArgs,
    messages: Vec<Message>,
    turns: Vec<Value>,
    /// Positions in use, and the figures of the last answer.
    last: Option<(usize, String)>,
}

/// Runs the command.
pub fn main(args: ChatArgs, out: &Out) -> Result<(), Fail> {
    let loaded = Loaded::new(&args, &args.model)?;
    let mut chat = Chat { loaded, args: &args, messages: vec![], turns: vec![], last: None };
    chat.reset(args.system.clone());
    let mut lines = Lines::new(out)?;
    if lines.is_interactive() {
        note(&chat.title());
    }
    let ended = loop {
        let line = match lines.next()? {
            Line::Text(line) => line,
            Line::Nothing => continue,
            Line::End => break Ok(()),
        };
        let line = line.trim();
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let done = match command {
            "" => Ok(()),
            "/exit" | "/quit" => break Ok(()),
            _ if command.starts_with('/') && !command[1..].contains('/') => {
                chat.command(command, rest.trim(), out, lines.is_interactive())
            }
            _ => chat.turn(line, out, lines.is_interactive()),
        };
        match done {
            Ok(()) => {}
            // Of a pipe there is nobody who could go on: what was said until then is printed.
            Err(Fail::Interrupted) => break Err(Fail::Interrupted),
            Err(fail) => return Err(fail),
        }
    };
    if out.json {
        out.object(&json!({ "turns": chat.turns }))?;
    }
    ended
}

impl Chat<'_> {
    fn title(&self) -> String {
        format!("{} · context {} · /help lists commands", self.loaded.name, self.loaded.engine.context())
    }

    fn reset(&mut self, system: Option<String>) {
        self.messages = system.map(|text| Message::new("system", text)).into_iter().collect();
        self.last = None;
    }

    /// A line that begins with `/`. What a person gave wrong is said, and the talk goes on.
    fn command(&mut self, command: &str, rest: &str, out: &Out, is_interactive: bool) -> Result<(), Fail> {
        match (command, rest) {
            ("/help", _) => note(HELP),
            ("/reset", _) => {
                self.reset(self.args.system.clone());
                note("(the conversation begins anew)");
            }
            ("/system", "") => note("give a text: /system You answer in one sentence."),
            ("/system", text) => {
                self.reset(Some(text.into()));
                note("(the conversation begins anew with this system message)");
            }
            ("/regen", _) => return self.regen(out, is_interactive),
            ("/stats", _) => note(&self.stats()),
            ("/save" | "/load" | "/model", "") => note(&format!("give a file: {command} FILE")),
            ("/save", file) => match self.save(Path::new(file)) {
                Ok(n) => note(&format!("({n} messages are in {file})")),
                Err(what) => note(&what),
            },
            ("/load", file) => match read_messages(Path::new(file)) {
                Ok(messages) => {
                    note(&format!("(the conversation goes on after {} messages)", messages.len()));
                    self.messages = messages;
                    self.last = None;
                }
                Err(what) => note(&what),
            },
            ("/model", file) => {
                let mut model_args = self.args.model.clone();
                model_args.file.model = Some(PathBuf::from(file));
                match Loaded::new(self.args, &model_args) {
                    Ok(loaded) => {
                        self.loaded = loaded;
                        self.last = None;
                        note(&self.title());
                    }
                    Err(Fail::Input(what) | Fail::Work(what)) => note(&format!("{what}; the model stays the same")),
                    Err(fail) => return Err(fail),
                }
            }
            _ => {
                let off = |known: &&&str| strsim::levenshtein(known, command);
                let near = COMMANDS.iter().min_by_key(off).filter(|known| off(known) <= 2);
                let near = near.map_or(String::new(), |known| format!(" (did you mean {known}?)"));
                note(&format!("no command {command}{near}; /help lists them"));
            }
        }
        Ok(())
    }

    /// Answers the last question again.
    fn regen(&mut self, out: &Out, is_interactive: bool) -> Result<(), Fail> {
        let last = self.messages.iter().rposition(|m| m.role == "user");
        let Some(at) = last else {
            note("there is no question yet");
            return Ok(());
        };
        let text = self.messages[at].content.clone();
        self.messages.truncate(at);
        if self.loaded.sample.temperature > 0.0 {
            self.loaded.sample.seed = self.loaded.sample.seed.wrapping_add(1);
        } else {
            note("(the best token is taken every time, so the answer stays the same: --temperature 0.8 makes it vary)");
        }
        self.turn(&text, out, is_interactive)
    }

    fn stats(&self) -> String {
        let context = self.loaded.engine.context();
        let turns = self.messages.iter().filter(|m| m.role == "user").count();
        let (length, figures) = match &self.last {
            Some((length, figures)) => (*length, format!("; last answer: {figures}")),
            None => (0, String::new()),
        };
        let s = if turns == 1 { "" } else { "s" };
        format!("({}: {length} of {context} positions, {turns} turn{s}{figures})", self.loaded.name)
    }

    /// Writes the messages as JSON; their number.
    fn save(&self, file: &Path) -> Result<usize, String> {
        let list: Vec<Value> = self.messages.iter().map(|m| json!({ "role": m.role, "content": m.content })).collect();
        let text = serde_json::to_string_pretty(&list).unwrap_or_default() + "\n";
        std::fs::write(file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        Ok(list.len())
    }

    /// The ids of the conversation. Where they leave no room for an answer, the oldest turns are dropped until they do, and a
    /// line says so; the system message stays.
    fn tokens(&mut self) -> Result<Vec<u32>, Fail> {
        let context = self.loaded.engine.context();
        let room = self.args.n.clamp(1, (context / 4).max(1));
        let mut dropped = 0;
        loop {
            let template = (&self.loaded.template, &*self.loaded.name);
            let tokens = prompt::conversation(template, &self.loaded.tokenizer, &self.messages)?;
            let first = self.messages.iter().position(|m| m.role == "user").unwrap_or(0);
            let next = self.messages.iter().skip(first + 1).position(|m| m.role == "user");
            match next {
                Some(more) if tokens.len() + room > context => {
                    self.messages.drain(first..=first + more);
                    dropped += 1;
                }
                _ => {
                    if dropped > 0 {
                        let s = if dropped == 1 { " was" } else { "s were" };
                        note(&format!(
                            "(the context of {context} positions is full: the oldest {dropped} turn{s} dropped)"
                        ));
                    }
                    return Ok(tokens);
                }
            }
        }
    }

    /// A question and its answer.
    fn turn(&mut self, text: &str, out: &Out, is_interactive: bool) -> Result<(), Fail> {
        self.messages.push(Message::new("user", text));
        let tokens = match self.tokens() {
            Ok(tokens) => tokens,
            // A person can say something else; a pipe cannot.
            Err(Fail::Input(what)) if is_interactive => {
                self.messages.pop();
                note(&what);
                return Ok(());
            }
            Err(fail) => return Err(fail),
        };
        let (n, context) = (tokens.len(), self.loaded.engine.context());
        if n >= context {
            self.messages.pop();
            let what = format!(
                "{n} tokens do not fit the context of {context}: /reset begins anew, --context makes it larger"
            );
            if !is_interactive {
                return Err(Fail::Input(what));
            }
            note(&what);
            return Ok(());
        }
        let limits = StopConditions { n: self.args.n, stop: self.args.stop.clone(), ignore_end: false };
        let producing = Producing::begin();
        let mut stream = Stream::new(out, true);
        let is_shown = is_interactive && std::io::stdout().is_terminal();
        let columns = terminal_size::terminal_size().filter(|_| is_shown).map(|(width, _)| width.0);
        let mut wrap = Wrap::new(columns);
        let Loaded { engine, tokenizer, sample, seq, .. } = &mut self.loaded;
        let made = generate(
            engine,
            Some(tokenizer),
            *seq,
            &tokens,
            sample.clone(),
            &limits,
            producing.asked(),
            &mut |token, text| stream.push(token, &wrap.push(text), producing.asked()),
        )?;
        drop(producing);
        let held = wrap.end();
        if !held.is_empty() {
            out.text(&held)?;
        }
        stream.end()?;
        let length = (n + made.tokens.len()).min(context);
        let ledger = tick_ledger(&mut self.loaded.engine, 0, length)?;
        let figures = summary(&made, &ledger);
        if is_interactive {
            note(&format!("({figures} · {length} of {context} positions)"));
        }
        let turn = report(text, n, &made);
        if out.json_lines {
            out.part(&turn)?;
        }
        self.turns.push(turn);
        self.messages.push(Message::new("assistant", made.text.trim()));
        self.last = Some((length, figures));
        let is_stopped = made.finish == FinishReason::Interrupted && !is_interactive;
        if is_stopped { Err(Fail::Interrupted) } else { Ok(()) }
    }
}

/// The messages in a file that `/save` wrote, or that has the form of OpenAI's messages.
fn read_messages(file: &Path) -> Result<Vec<Message>, String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {name}: {e}"))?;
    let list: Value = serde_json::from_str(&text).map_err(|e| format!("{name} is not JSON: {e}"))?;
    let wrong = || format!("{name} holds no list of messages, each with `role` and `content`");
    let message = |m: &Value| {
        let text = |key: &str| m.get(key).and_then(Value::as_str);
        Some(Message::new(text("role")?, text("content")?))
    };
    list.as_array().and_then(|list| list.iter().map(message).collect()).ok_or_else(wrong)
}

fn report(user: &str, tokens: usize, made: &Generated) -> Value {
    let (prefill, decode) = timings(made);
    let ids: Vec<u32> = made.tokens.iter().map(|t| t.id).collect();
    json!({
        "user": user, "text": made.text, "tokens": ids, "prompt": tokens, "prompt_reused": tokens - made.prompt_run,
        "prefill": prefill, "decode": decode, "stopped": made.finish,
    })
}
