//! `onetrip chat`: a conversation. What was said before stays in the cache, so only what is new runs.

use std::io::{BufRead, IsTerminal, Read};

use clap::Args;
use onetrip_engine::chat::{ChatTemplate, Message};
use onetrip_engine::generate::{FinishReason, Generated, StopConditions, generate};
use onetrip_engine::sampling::recommended;
use onetrip_engine::step::Engine;
use onetrip_engine::tokenizer::Tokenizer;
use onetrip_ir::batch::SampleParams;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::{Value, json};

use crate::commands::run::{Stream, summary, tick_ledger, timings};
use crate::support::fail::Fail;
use crate::support::interrupt::Producing;
use crate::support::options::{ModelArgs, SampleArgs, at_least_one, new_tokens, stop, utf8};
use crate::support::output::{Out, note};
use crate::support::{load, prompt};

const HELP: &str = "/reset          forget the conversation\n\
                    /system TEXT    begin anew with this system message\n\
                    /help           this list\n\
                    /exit, Ctrl-D   leave\n\
                    Ctrl-C          stop an answer";

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
    /// Positions there is room for [default: 4096, less where the model has less]
    #[arg(long, short_alias = 'c', alias = "ctx-size", value_parser = at_least_one, allow_negative_numbers = true, value_name = "L")]
    context: Option<usize>,
    /// Print JSON objects on stdout while an answer is made: one a line for each token, and behind an answer one with all of it
    #[arg(long, conflicts_with = "json", display_order = 901)]
    pub json_lines: bool,
}

/// Where lines come from.
enum Lines {
    /// A person, with history (arrow up) and editing.
    Editor(Box<DefaultEditor>),
    /// A pipe: each line is a turn, and no prompt is shown.
    Pipe(usize),
}

/// What came of asking for a line.
enum Line {
    Text(String),
    Nothing,
    End,
}

impl Lines {
    fn new(out: &Out) -> Result<Lines, Fail> {
        if !std::io::stdin().is_terminal() || out.is_json() {
            return Ok(Lines::Pipe(0));
        }
        let editor = DefaultEditor::new();
        editor.map(|e| Lines::Editor(Box::new(e))).map_err(|e| Fail::Work(format!("cannot use the terminal: {e}")))
    }

    fn next(&mut self) -> Result<Line, Fail> {
        match self {
            Lines::Editor(editor) => match editor.readline("> ") {
                Ok(line) => {
                    // A line that cannot be remembered is still a line.
                    let _ = editor.add_history_entry(&line);
                    Ok(Line::Text(line))
                }
                Err(ReadlineError::Interrupted) => {
                    note("(Ctrl-D or /exit leaves, /help lists commands)");
                    Ok(Line::Nothing)
                }
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(e) => Err(Fail::Work(format!("cannot read from the terminal: {e}"))),
            },
            Lines::Pipe(read) => {
                let mut bytes = vec![];
                let n = std::io::stdin().lock().take(prompt::MOST_STDIN as u64 + 1).read_until(b'\n', &mut bytes);
                let n = n.map_err(|e| Fail::Input(format!("cannot read stdin: {e}; give the turns in a file")))?;
                if n > prompt::MOST_STDIN {
                    return Err(prompt::too_long());
                }
                let line = prompt::utf8("stdin", bytes, *read)?;
                *read += n;
                Ok(if n == 0 { Line::End } else { Line::Text(line) })
            }
        }
    }

    fn is_interactive(&self) -> bool {
        matches!(self, Lines::Editor(_))
    }
}

/// A conversation and the model that has it.
struct Chat<'a> {
    engine: Engine,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    args: &'a ChatArgs,
    sample: SampleParams,
    seq: usize,
    messages: Vec<Message>,
    turns: Vec<Value>,
}

/// Runs the command.
pub fn main(args: ChatArgs, out: &Out) -> Result<(), Fail> {
    let file = load::file(args.model.file.path())?;
    let tokenizer = load::tokenizer(&file)?;
    let template = prompt::template(&tokenizer, &args.model.file.name())?;
    let model = load::model(file, &args.model)?;
    let context = prompt::context(args.context, &model.config, 0);
    let mut engine = load::engine(model, &args.model, context, 1)?;
    let sample = args.sample.params(&recommended(&engine.model().file), 0);
    let seq = engine.scheduler().add(sample.clone());
    let seq = seq.ok_or_else(|| Fail::Work("there is no room for a sequence".into()))?;
    let mut chat = Chat { engine, tokenizer, template, args: &args, sample, seq, messages: vec![], turns: vec![] };
    chat.reset(args.system.clone());
    let mut lines = Lines::new(out)?;
    if lines.is_interactive() {
        note(&format!("{} · context {context} · /help lists commands", args.model.file.name()));
    }
    loop {
        let line = match lines.next()? {
            Line::Text(line) => line,
            Line::Nothing => continue,
            Line::End => break,
        };
        let line = line.trim();
        match line.split_once(char::is_whitespace).unwrap_or((line, "")) {
            ("", _) => {}
            ("/exit" | "/quit", _) => break,
            ("/help", _) => note(HELP),
            ("/reset", _) => chat.reset(chat.args.system.clone()),
            ("/system", "") => note("give a text: /system You answer in one sentence."),
            ("/system", text) => chat.reset(Some(text.trim().into())),
            (command, _) if command.starts_with('/') && !command[1..].contains('/') => {
                note(&format!("no command {command}; /help lists them"));
            }
            _ => chat.turn(line, out, lines.is_interactive())?,
        }
    }
    if out.json { out.object(&json!({ "turns": chat.turns })) } else { Ok(()) }
}

impl Chat<'_> {
    fn reset(&mut self, system: Option<String>) {
        self.messages = system.map(|text| Message::new("system", text)).into_iter().collect();
    }

    /// A question and its answer.
    fn turn(&mut self, text: &str, out: &Out, is_interactive: bool) -> Result<(), Fail> {
        self.messages.push(Message::new("user", text));
        let template = (&self.template, &*self.args.model.file.name());
        let tokens = match prompt::conversation(template, &self.tokenizer, &self.messages) {
            Ok(tokens) => tokens,
            // A person can say something else; a pipe cannot.
            Err(Fail::Input(what)) if is_interactive => {
                self.messages.pop();
                note(&what);
                return Ok(());
            }
            Err(fail) => return Err(fail),
        };
        let (n, context) = (tokens.len(), self.engine.context());
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
        let made = generate(
            &mut self.engine,
            Some(&self.tokenizer),
            self.seq,
            &tokens,
            self.sample.clone(),
            &limits,
            producing.asked(),
            &mut |token, text| stream.push(token, text, producing.asked()),
        )?;
        drop(producing);
        stream.end()?;
        let length = (n + made.tokens.len()).min(context);
        let ledger = tick_ledger(&mut self.engine, 0, length)?;
        if is_interactive {
            note(&format!("({} · {length} of {context} positions)", summary(&made, &ledger)));
            if made.finish == FinishReason::Context {
                note("the context is full: /reset begins anew, --context makes it larger");
            }
        }
        let turn = report(text, n, &made);
        if out.json_lines {
            out.part(&turn)?;
        }
        self.turns.push(turn);
        self.messages.push(Message::new("assistant", made.text.trim()));
        Ok(())
    }
}

fn report(user: &str, tokens: usize, made: &Generated) -> Value {
    let (prefill, decode) = timings(made);
    let ids: Vec<u32> = made.tokens.iter().map(|t| t.id).collect();
    json!({
        "user": user, "text": made.text, "tokens": ids, "prompt": tokens, "prompt_reused": tokens - made.prompt_run,
        "prefill": prefill, "decode": decode, "stopped": made.finish,
    })
}
