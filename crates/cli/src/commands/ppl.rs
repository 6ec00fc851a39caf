//! `onetrip ppl`: how well a model predicts a text.

use std::path::PathBuf;

use clap::Args;
use onetrip_engine::step::{Engine, LOGIT_ROWS, StepError};
use onetrip_engine::tokenizer::{Special, Tokenizer};
use serde_json::{Value, json};

use crate::support::fail::Fail;
use crate::support::options::{Ids, ModelArgs, at_least_one, limit, path};
use crate::support::output::{Out, escaped, table};
use crate::support::{load, prompt};

/// Best tokens of a step.
const TOP: usize = 5;

/// Flags of `ppl`.
#[derive(Args)]
pub struct PplArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// A text file; a BOS is put before it where the model asks for one
    #[arg(long, short_alias = 'f', alias = "file", value_parser = path(), value_name = "FILE", conflicts_with = "tokens")]
    text: Option<PathBuf>,
    /// Token ids instead of a text: 1,2,3 or @FILE
    #[arg(long, value_name = "IDS")]
    tokens: Option<Ids>,
    /// Only the first N tokens
    #[arg(long, value_parser = limit, allow_negative_numbers = true, value_name = "N")]
    limit: Option<usize>,
    /// Report the 5 best tokens and their logits at each step of these ids, which follow the text or --tokens
    #[arg(long, value_name = "IDS")]
    teacher: Option<Ids>,
    /// Positions of a window: a longer text is cut into windows that do not overlap, and the first token of each is not
    /// predicted [default: what the model was trained for]
    #[arg(long, short_alias = 'c', alias = "ctx-size", value_parser = at_least_one, allow_negative_numbers = true, value_name = "L")]
    context: Option<usize>,
    /// Tokens of a step: 1, up to 8, up to 64 and more have kernels of their own [default: 128]
    #[arg(long, value_parser = at_least_one, allow_negative_numbers = true, value_name = "N")]
    rows: Option<usize>,
}

/// Runs the command.
pub fn main(args: PplArgs, out: &Out) -> Result<(), Fail> {
    let file = load::file(args.model.file.path())?;
    let tokenizer = if args.text.is_some() { Some(load::tokenizer(&file)?) } else { load::tokenizer(&file).ok() };
    let mut ids = match (&args.text, &args.tokens, &tokenizer) {
        (Some(path), _, Some(tokenizer)) => {
            let name = path.to_string_lossy();
            let hint = "check the path and its permissions";
            let bytes = std::fs::read(path).map_err(|e| Fail::Input(format!("cannot read {name}: {e}; {hint}")))?;
            prompt::encode(tokenizer, &prompt::utf8(&name, bytes, 0)?, Special { add: true, parse: false })?
        }
        (_, Some(Ids(ids)), _) => ids.clone(),
        _ if args.teacher.is_some() => vec![],
        _ => return Err(Fail::Input("no text: give --text FILE or --tokens IDS".into())),
    };
    ids.truncate(args.limit.unwrap_or(usize::MAX));
    let given = ids.len();
    ids.extend(args.teacher.iter().flat_map(|Ids(ids)| ids));
    if ids.len() < 2 {
        return Err(Fail::Input(format!("{} tokens predict nothing: give at least 2", ids.len())));
    }
    let model = load::model(file, &args.model)?;
    let window = match (args.context, &args.teacher) {
        (Some(asked), _) => asked,
        (None, _) => model.config.context,
    };
    if args.teacher.is_some() && ids.len() > window {
        let n = ids.len();
        return Err(Fail::Input(format!("{n} tokens do not fit a context of {window}: give fewer, or --context {n}")));
    }
    let rows = args.rows.unwrap_or(LOGIT_ROWS);
    let mut engine = load::engine(model, &args.model, window.min(ids.len()), 1)?;
    match &args.teacher {
        None => perplexity(&mut engine, (&ids, rows), window, tokenizer.as_ref(), out),
        Some(_) => teacher(&mut engine, (&ids, rows), given, tokenizer.as_ref(), out),
    }
}

/// `-ln p(id)` under a row of logits: log-sum-exp in f64 about the largest.
fn nll(logits: &[f32], id: u32) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) as f64;
    let sum: f64 = logits.iter().map(|&x| (x as f64 - max).exp()).sum();
    max + sum.ln() - logits[id as usize] as f64
}

/// The first row of logits that are not finite: after it no figure means anything.
#[derive(Default)]
struct Damage(Option<usize>);

impl Damage {
    fn look(&mut self, at: usize, row: &[f32]) {
        if self.0.is_none() && !row.iter().all(|x| x.is_finite()) {
            self.0 = Some(at);
        }
    }

    fn check(self) -> Result<(), Fail> {
        self.0.map_or(Ok(()), |at| Err(StepError::Logits(at + 1).into()))
    }
}

fn perplexity(
    engine: &mut Engine,
    (ids, rows): (&[u32], usize),
    window: usize,
    tokenizer: Option<&Tokenizer>,
    out: &Out,
) -> Result<(), Fail> {
    let (mut total, mut predictions, mut bytes) = (0.0, 0usize, 0usize);
    let windows = ids.chunks(window).filter(|w| w.len() > 1);
    for part in windows.clone() {
        let mut damage = Damage::default();
        engine.logits(part, rows, &mut |i, row| {
            damage.look(i, row);
            if let Some(&id) = part.get(i + 1) {
                total += nll(row, id);
                predictions += 1;
                bytes += tokenizer.filter(|t| !t.is_special(id)).map_or(0, |t| t.token_bytes(id).len());
            }
        })?;
        damage.check()?;
    }
    if predictions == 0 {
        return Err(Fail::Input("windows of one token predict nothing: give --context 2 or more".into()));
    }
    let mean = total / predictions as f64;
    let bits = (bytes > 0).then(|| total / std::f64::consts::LN_2 / bytes as f64);
    let windows = windows.count();
    if out.json {
        return out.object(&json!({
            "perplexity": mean.exp(), "tokens": ids.len(), "predictions": predictions, "mean_nll": mean,
            "bits_per_byte": bits, "windows": windows, "window": window.min(ids.len()),
        }));
    }
    let bits = bits.map_or(String::new(), |b| format!(" · {b:.3} bits a byte"));
    out.line(&format!("perplexity {:.4} · {predictions} predictions in {windows} window(s){bits}", mean.exp()))
}

/// The best tokens at each step: with `given` tokens before, step `i` predicts `ids[given + i]`; without, the first step
/// comes after the first id, and the last predicts what would follow.
fn teacher(
    engine: &mut Engine,
    (ids, rows): (&[u32], usize),
    given: usize,
    tokenizer: Option<&Tokenizer>,
    out: &Out,
) -> Result<(), Fail> {
    let first = given.max(1) - 1;
    let end = if given == 0 { ids.len() } else { ids.len() - 1 };
    let (mut steps, mut total, mut predictions): (Vec<Step>, f64, usize) = Default::default();
    let mut damage = Damage::default();
    engine.logits(ids, rows, &mut |i, row| {
        damage.look(i, row);
        if !(first..end).contains(&i) {
            return;
        }
        let id = ids.get(i + 1).copied();
        if let Some(id) = id {
            total += nll(row, id);
            predictions += 1;
        }
        steps.push(Step { id, logit: id.map(|id| row[id as usize]), top: best(row) });
    })?;
    damage.check()?;
    let perplexity = (predictions > 0).then(|| (total / predictions as f64).exp());
    let hits = steps.iter().filter(|s| s.id.is_some() && s.top.first().map(|t| t.0) == s.id).count();
    if out.json {
        let step = |s: &Step| json!({ "id": s.id, "logit": s.logit, "top5": s.top });
        let steps: Vec<Value> = steps.iter().map(step).collect();
        return out.object(&json!({
            "perplexity": perplexity, "tokens": ids.len(), "predictions": predictions, "top1_equal": hits, "steps": steps,
        }));
    }
    let piece = |id: u32| match tokenizer {
        Some(t) => format!("{id} \"{}\"", escaped(&String::from_utf8_lossy(t.token_bytes(id)))),
        None => id.to_string(),
    };
    let row = |(n, s): (usize, &Step)| {
        let top: Vec<String> = s.top.iter().map(|&(id, x)| format!("{} {x:.3}", piece(id))).collect();
        vec![
            n.to_string(),
            s.id.map_or("–".into(), piece),
            s.logit.map_or("–".into(), |x| format!("{x:.3}")),
            top.join("  "),
        ]
    };
    let rows: Vec<_> = steps.iter().enumerate().map(row).collect();
    out.text(&table(&[">#", "token", ">logit", "best"], &rows))?;
    let ppl = perplexity.map_or(String::new(), |p| format!(" · perplexity {p:.4}"));
    out.line(&format!("\n{hits} of {predictions} are the best token{ppl}"))
}

struct Step {
    id: Option<u32>,
    logit: Option<f32>,
    top: Vec<(u32, f32)>,
}

/// The best tokens of a row, best first; of equal ones the smaller id.
fn best(row: &[f32]) -> Vec<(u32, f32)> {
    let mut top: Vec<(u32, f32)> = Vec::with_capacity(TOP + 1);
    for (id, &x) in row.iter().enumerate() {
        if top.len() == TOP && top.last().is_some_and(|t| x <= t.1) {
            continue;
        }
        let at = top.partition_point(|t| t.1 >= x);
        top.insert(at, (id as u32, x));
        top.truncate(TOP);
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_tokens_come_in_order_and_ties_by_id() {
        let row = [1.0, 5.0, -2.0, 5.0, 3.0, 0.0, 4.0];
        let ids: Vec<u32> = best(&row).iter().map(|t| t.0).collect();
        assert_eq!(ids, [1, 3, 6, 4, 0]);
        assert_eq!(best(&[2.0, 3.0]).len(), 2);
    }

    #[test]
    fn equal_logits_are_as_likely_as_each_other() {
        assert!((nll(&[7.0; 8], 3) - 8f64.ln()).abs() < 1e-12);
        assert!((nll(&[1000.0, 0.0], 0)).abs() < 1e-12);
    }
}
