//! Generates text from a prompt: runs steps, decodes the sampled tokens to text, and ends when a stop condition holds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use onetrip_ir::batch::SampleParams;

use crate::scheduler::TokenOutput;
use crate::step::{Engine, StepError};
use crate::tokenizer::Tokenizer;

/// Conditions that end a generation.
#[derive(Clone, Debug, Default)]
pub struct StopConditions {
    /// Largest number of new tokens. With 0 the prompt runs, which is timed, and the token behind it is dropped.
    pub n: usize,
    /// Stop texts: the first one that occurs in the answer ends it, and is not part of it.
    pub stop: Vec<String>,
    /// Generate on after an end token of the model.
    pub ignore_end: bool,
}

/// The reason why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The largest number of new tokens is reached.
    Length,
    /// The model sampled an end token.
    End,
    /// A stop text occurred.
    Stop,
    /// The context is full.
    Context,
    /// The caller set the flag `interrupted`.
    Interrupted,
}

/// The outcome of a generation.
#[derive(Clone, Debug)]
pub struct Generated {
    /// New tokens, with the end token if there is one.
    pub tokens: Vec<TokenOutput>,
    /// Text of the new tokens, without end token and stop text.
    pub text: String,
    /// The reason why the generation ended.
    pub finish: FinishReason,
    /// Tokens of the prompt that had to run, because the KV cache did not have them.
    pub prompt_run: usize,
    /// Seconds until the first token (of a generation of 0 tokens: the one that is dropped).
    pub prefill_s: f64,
    /// Seconds for the tokens after the first.
    pub decode_s: f64,
}

/// Passes text on, but holds back its end as long as that may be the beginning of a stop text.
#[derive(Default)]
struct StopFilter {
    held: String,
}

impl StopFilter {
    /// Adds text; returns the text that is now certain to be part of the answer, and whether a stop text occurred.
    fn push(&mut self, text: &str, stops: &[String]) -> (String, bool) {
        self.held.push_str(text);
        let found = stops.iter().filter(|s| !s.is_empty()).filter_map(|s| self.held.find(s.as_str())).min();
        if let Some(at) = found {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        // Hold back the longest suffix of the text that is a prefix of a stop text.
        let begins = |at: usize| stops.iter().any(|s| s.starts_with(&self.held[at..]));
        let keep = self.held.char_indices().map(|(at, _)| at).find(|&at| begins(at)).unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        (std::mem::replace(&mut self.held, rest), false)
    }
}

/// Runs a sequence from the prompt `tokens` until a stop condition of `limits` holds. `each` is called for every new token with
/// the text that has become certain since; a last call may bring the rest of the text.
#[allow(clippy::too_many_arguments)]
pub fn generate(
    engine: &mut Engine,
    tokenizer: Option<&Tokenizer>,
    seq: usize,
    tokens: &[u32],
    sample: SampleParams,
    limits: &StopConditions,
    interrupted: &AtomicBool,
    each: &mut dyn FnMut(&TokenOutput, &str),
) -> Result<Generated, StepError> {
    if tokens.is_empty() {
        return Err(StepError::Input("the prompt has no tokens: give some text".into()));
    }
    engine.check_ids(tokens)?;
    let (n, context) = (tokens.len(), engine.context());
    if n > context {
        return Err(StepError::TooLong { tokens: n, context });
    }
    engine.set_top(sample.top as usize);
    engine.scheduler().set_sample(seq, sample);
    let kept = engine.scheduler().set_tokens(seq, tokens);
    let mut decoder = tokenizer.map(Tokenizer::stream);
    let mut filter = StopFilter::default();
    let mut out = Generated {
        tokens: vec![],
        text: String::new(),
        finish: FinishReason::Length,
        prompt_run: n - kept,
        prefill_s: 0.0,
        decode_s: 0.0,
    };
    let start = Instant::now();
    let mut first = None;
    'run: while out.tokens.len() < limits.n.max(1) {
        if interrupted.load(Ordering::Relaxed) {
            out.finish = FinishReason::Interrupted;
            break;
        }
        let Some(new) = engine.step()? else {
            out.finish = FinishReason::Context;
            break;
        };
        for token in new.into_iter().filter(|t| t.seq == seq) {
            first.get_or_insert_with(Instant::now);
            if limits.n == 0 {
                break 'run;
            }
            let end = tokenizer.is_some_and(|t| t.is_end(token.id)) && !limits.ignore_end;
            let text = decoder.as_mut().map_or(String::new(), |d| d.push(token.id));
            let (text, stop) = filter.push(if end { "" } else { &text }, &limits.stop);
            out.text.push_str(&text);
            each(&token, &text);
            out.tokens.push(token);
            if end || stop {
                out.finish = if end { FinishReason::End } else { FinishReason::Stop };
                break 'run;
            }
        }
    }
    let end = Instant::now();
    let first = first.unwrap_or(end);
    out.prefill_s = (first - start).as_secs_f64();
    out.decode_s = (end - first).as_secs_f64();
    if out.finish != FinishReason::Stop {
        let rest = decoder.map_or(String::new(), |mut d| d.flush());
        let rest = std::mem::take(&mut filter.held) + &rest;
        out.text.push_str(&rest);
        if let (false, Some(last)) = (rest.is_empty(), out.tokens.last()) {
            each(last, &rest);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_text_is_found_across_pieces_and_never_shown() {
        let stops = vec!["\nUser:".to_string(), "END".to_string()];
        let mut f = StopFilter::default();
        assert_eq!(f.push("Hello\n", &stops), ("Hello".into(), false));
        assert_eq!(f.push("User", &stops), ("".into(), false));
        assert_eq!(f.push("name", &stops), ("\nUsername".into(), false));
        assert_eq!(f.push(" E", &stops), (" ".into(), false));
        assert_eq!(f.push("NDless", &stops), ("".into(), true));
    }

    #[test]
    fn text_without_stops_passes_at_once() {
        let mut f = StopFilter::default();
        assert_eq!(f.push("grüße", &[]), ("grüße".into(), false));
    }
}
