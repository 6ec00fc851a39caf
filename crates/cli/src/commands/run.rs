//! `onetrip run`: continue a text.

use clap::Args;
use onetrip_engine::chat::Message;
use onetrip_engine::files::ModelFile;
use onetrip_engine::generate::{FinishReason, Generated, StopConditions, generate};
use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::PlanKey;
use onetrip_engine::sampling::recommended;
use onetrip_engine::scheduler::TokenOutput;
use onetrip_engine::step::Engine;
use onetrip_engine::tokenizer::{Special, Tokenizer};
use onetrip_ir::expr::Bind;
use onetrip_ir::plan::Ledger;
use serde_json::{Value, json};

use crate::support::fail::Fail;
use crate::support::interrupt::Producing;
use crate::support::options::{Ids, ModelArgs, SampleArgs, UNLIMITED, at_least_one, new_tokens, stop, utf8};
use crate::support::output::{Out, escaped, note, per_second, rate, seconds};
use crate::support::positional::quoted;
use crate::support::{load, prompt};

/// Flags of `run`.
#[derive(Args)]
pub struct RunArgs {
    /// Text to continue; `-` or nothing reads it from stdin (without its last line break). A single argument is this text,
    /// unless it ends in .gguf or is a model's file or folder
    #[arg(index = 2, value_name = "PROMPT", value_parser = utf8())]
    prompt: Option<String>,
    /// Token ids to continue, instead of a text: 1,2,3 or @FILE
    #[arg(long, value_name = "IDS", conflicts_with = "chat")]
    tokens: Option<Ids>,
    #[command(flatten)]
    model: ModelArgs,
    /// Answer instead of continuing: the prompt goes through the model's chat template
    #[arg(long)]
    chat: bool,
    /// System message of the chat
    #[arg(long, value_name = "TEXT", value_parser = utf8(), requires = "chat")]
    system: Option<String>,
    /// New tokens at most; the model may end before. -1: until the model ends, or the context is full. 0: the prompt is
    /// run and timed, and no token is made
    #[arg(short, aliases = ["n-predict", "predict"], default_value = "128", value_parser = new_tokens, allow_negative_numbers = true, value_name = "N")]
    n: usize,
    #[command(flatten)]
    sample: SampleArgs,
    /// End before this text (may be given several times)
    #[arg(long, value_parser = stop(), value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on after the model's end of text
    #[arg(long)]
    ignore_eos: bool,
    /// Report the log-probability of each token and of the N best (up to 100)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    logprobs: Option<u32>,
    /// Positions there is room for [default: 4096, less where the model has less, more where the prompt needs it]
    #[arg(long, short_alias = 'c', alias = "ctx-size", value_parser = at_least_one, allow_negative_numbers = true, value_name = "L")]
    context: Option<usize>,
    /// Print JSON objects on stdout while the text is made: one a line for each token, and at the end that of --json
    #[arg(long, conflicts_with = "json", display_order = 901)]
    pub json_lines: bool,
}

impl RunArgs {
    /// Settles which arguments are the model and the prompt.
    pub fn settle(&mut self) -> Result<(), Fail> {
        self.model.file.settle_with_text(&mut self.prompt, "run")?;
        if self.tokens.is_some() && self.prompt.is_some() {
            return Err(Fail::Usage("--tokens IDS and a PROMPT are both given: leave one of them out".into()));
        }
        Ok(())
    }
}

/// Runs the command.
pub fn main(args: RunArgs, out: &Out) -> Result<(), Fail> {
    let file = load::file(args.model.file.path())?;
    let (tokenizer, tokens) = input(&args, &file)?;
    let model = load::model(file, &args.model)?;
    // Without a limit there is the usual room.
    let needed = tokens.len().saturating_add(if args.n == UNLIMITED { 1 } else { args.n });
    let context = prompt::context(args.context, &model.config, needed);
    if tokens.len() > context {
        let (n, file) = (tokens.len(), model.file.name());
        let what = match args.context {
            Some(_) => format!(
                "the prompt has {n} tokens and --context is {context}: give --context {n} or more, or less text"
            ),
            None => format!("{file}: the prompt has {n} tokens, the model has {context} positions: give less text"),
        };
        return Err(Fail::Input(what));
    }
    let mut engine = load::engine(model, &args.model, context, 1)?;
    let top = args.logprobs.unwrap_or(0).min(engine.vocabulary() as u32);
    let limits = StopConditions { n: args.n, stop: args.stop.clone(), ignore_end: args.ignore_eos };
    let sample = args.sample.params(&recommended(&engine.model().file), top);
    let seq = engine.scheduler().add(sample.clone());
    let seq = seq.ok_or_else(|| Fail::Work("there is no room for a sequence".into()))?;
    let producing = Producing::begin();
    let mut stream = Stream::new(out, tokenizer.is_some());
    let (mut ids, mut text) = (vec![], String::new());
    let made = generate(
        &mut engine,
        tokenizer.as_ref(),
        seq,
        &tokens,
        sample,
        &limits,
        producing.asked(),
        &mut |token, piece| {
            ids.push(token.id);
            text.push_str(piece);
            stream.push(token, piece, producing.asked());
        },
    );
    drop(producing);
    stream.end()?;
    let made = match made {
        Ok(made) => made,
        Err(e) => {
            // What came until then is kept.
            let fail = Fail::from(e);
            if let Some(Value::Object(error)) = fail.json().filter(|_| out.is_json()) {
                let mut all = json!({ "prompt_tokens": tokens, "tokens": ids, "text": text });
                all.as_object_mut().into_iter().for_each(|all| all.extend(error.clone()));
                out.object(&all)?;
            }
            return Err(fail);
        }
    };
    let length = (tokens.len() + made.tokens.len()).min(context);
    let ledger = tick_ledger(&mut engine, top as usize, length)?;
    if out.is_json() {
        out.object(&report(&tokens, &made, &ledger, args.logprobs.is_some()))?;
    } else {
        if args.logprobs.is_some() {
            made.tokens.iter().for_each(|t| note(&logprob_line(t, tokenizer.as_ref())));
        }
        note(&summary(&made, &ledger));
    }
    if made.finish == FinishReason::Interrupted { Err(Fail::Interrupted) } else { Ok(()) }
}

/// The tokenizer, if the model has one, and the ids of the prompt.
fn input(args: &RunArgs, file: &ModelFile) -> Result<(Option<Tokenizer>, Vec<u32>), Fail> {
    if let Some(Ids(ids)) = &args.tokens {
        if ids.is_empty() {
            return Err(Fail::Input("--tokens has no ids: give at least one".into()));
        }
        return Ok((load::tokenizer(file).ok(), ids.clone()));
    }
    let tokenizer = load::tokenizer(file)?;
    let model = args.model.file.name();
    let template = if args.chat { Some(prompt::template(&tokenizer, &model)?) } else { None };
    let advice = || {
        let path = args.model.file.model.as_deref().map(quoted);
        let name = path.as_ref().map_or(String::new(), |path| format!("{path} "));
        let chat = path.map_or(String::new(), |path| format!(", or talk with the model: `onetrip chat {path}`"));
        format!("give one, as in `onetrip run {name}\"It is a truth\"`{chat}")
    };
    let text = prompt::text(args.prompt.as_deref(), advice)?;
    let tokens = match template {
        Some(template) => {
            let mut messages: Vec<Message> = args.system.iter().map(|text| Message::new("system", text)).collect();
            messages.push(Message::new("user", text));
            prompt::conversation((&template, &model), &tokenizer, &messages)?
        }
        None => prompt::encode(&tokenizer, &text, Special::PROMPT)?,
    };
    if tokens.is_empty() {
        return Err(Fail::Input(
            "the prompt has no tokens: give some text, as in `onetrip run \"It is a truth\"`".into(),
        ));
    }
    Ok((Some(tokenizer), tokens))
}

/// Prints pieces as they come. When nobody reads any more it asks for the end.
pub struct Stream<'a> {
    out: &'a Out,
    has_text: bool,
    last: Option<char>,
    fail: Option<Fail>,
}

impl<'a> Stream<'a> {
    /// For text, or for bare ids where there is no tokenizer.
    pub fn new(out: &'a Out, has_text: bool) -> Stream<'a> {
        Stream { out, has_text, last: None, fail: None }
    }

    /// The next token and the text that is certain with it.
    pub fn push(&mut self, token: &TokenOutput, text: &str, asked: &std::sync::atomic::AtomicBool) {
        if self.out.json || self.fail.is_some() {
            return;
        }
        if self.out.json_lines {
            let done = self.out.part(&json!({ "token": token.id, "text": text }));
            return self.keep(done, asked);
        }
        let id;
        let text = if self.has_text {
            text
        } else {
            id = format!("{}{}", if self.last.is_some() { " " } else { "" }, token.id);
            &id
        };
        if text.is_empty() {
            return;
        }
        self.last = text.chars().last();
        let done = self.out.text(text);
        self.keep(done, asked);
    }

    /// Where nobody reads any more, the text has to end.
    fn keep(&mut self, done: Result<(), Fail>, asked: &std::sync::atomic::AtomicBool) {
        if let Err(fail) = done {
            self.fail = Some(fail);
            asked.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// The end of the text: a line break, if it has none.
    pub fn end(self) -> Result<(), Fail> {
        match self.fail {
            Some(fail) => Err(fail),
            None if self.last.is_some_and(|c| c != '\n') => self.out.text("\n"),
            None => Ok(()),
        }
    }
}

/// The counts of one tick at a context.
pub fn tick_ledger(engine: &mut Engine, top: usize, context: usize) -> Result<Ledger, Fail> {
    let key = PlanKey::of(1, 1, Want::Sample { top });
    Ok(engine.recorded(key)?.plan.ledger(Bind { t: 1, s: 1, l: context.max(1) as u64 }))
}

/// The line on stderr: `142 tokens · prefill 2.1 ms · decode 3100 tok/s · 37 dispatches/tick`.
pub fn summary(made: &Generated, ledger: &Ledger) -> String {
    let n = made.tokens.len();
    let mut parts = vec![format!("{n} token{}", if n == 1 { "" } else { "s" })];
    // Without a new token the speed of the prompt is all that there is to say.
    let speed = || format!(" for {} tokens, {} tok/s", made.prompt_run, rate(made.prompt_run as f64 / made.prefill_s));
    let speed = if n == 0 && has_run(made) { speed() } else { String::new() };
    parts.push(format!("prefill {}{speed}", seconds(made.prefill_s)));
    if n > 1 && made.decode_s > 0.0 {
        parts.push(format!("decode {} tok/s", rate((n - 1) as f64 / made.decode_s)));
    }
    parts.push(format!("{} dispatches/tick", ledger.dispatches));
    match made.finish {
        FinishReason::Context => parts.push("the context is full: give a larger --context".into()),
        FinishReason::Interrupted => parts.push("interrupted".into()),
        FinishReason::Length | FinishReason::End | FinishReason::Stop => {}
    }
    parts.join(" · ")
}

/// The prompt ran to its end: there is a token behind it, or none was asked for.
fn has_run(made: &Generated) -> bool {
    !made.tokens.is_empty() || made.finish == FinishReason::Length
}

/// Counts and times of a generation, for JSON.
pub fn timings(made: &Generated) -> (Value, Value) {
    let (n, run) = (made.tokens.len().saturating_sub(1), made.prompt_run);
    let part = |n: usize, s: f64| json!({ "tokens": n, "ms": s * 1e3, "tok_s": per_second(n, s) });
    (part(if has_run(made) { run } else { 0 }, made.prefill_s), part(n, made.decode_s))
}

fn report(prompt: &[u32], made: &Generated, ledger: &Ledger, with_logprobs: bool) -> Value {
    let ids: Vec<u32> = made.tokens.iter().map(|t| t.id).collect();
    let (prefill, decode) = timings(made);
    let mut all = json!({
        "prompt_tokens": prompt, "tokens": ids, "text": made.text, "prefill": prefill, "decode": decode,
        "stopped": made.finish, "ledger": ledger,
    });
    if with_logprobs {
        let one = |t: &TokenOutput| json!({ "id": t.id, "logprob": t.log_prob, "top": t.top });
        all["logprobs"] = made.tokens.iter().map(one).collect();
    }
    all
}

fn logprob_line(token: &TokenOutput, tokenizer: Option<&Tokenizer>) -> String {
    let piece = |id: u32| match tokenizer {
        Some(t) => format!("\"{}\"", escaped(&String::from_utf8_lossy(t.token_bytes(id)))),
        None => id.to_string(),
    };
    let top: Vec<String> = token.top.iter().map(|&(id, p)| format!("{} {p:.3}", piece(id))).collect();
    format!("{:<16} {:8.3}  best: {}", piece(token.id), token.log_prob.unwrap_or(f32::NAN), top.join("  "))
}
