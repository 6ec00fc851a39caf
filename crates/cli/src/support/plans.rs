//! The step and the plan that `explain`, `count` and `profile` work on.

use onetrip_engine::graph_builder::Want;
use onetrip_engine::model::PlanKey;
use onetrip_import::Head;
use onetrip_ir::expr::Bind;
use onetrip_ir::target::Target;
use serde_json::{Value, json};

use crate::support::fail::Fail;
use crate::support::options::{Phase, PlanArgs};
use crate::support::output::note;

/// Positions of a decode step where none are given.
const DECODE_CONTEXT: usize = 256;
/// Tokens of a prefill step where none are given.
const PREFILL_TOKENS: usize = 512;

/// The most tokens of a step, and the largest product of tokens and positions: with larger ones, counts of bytes and operations
/// would not fit 64 bits.
const MOST_ROWS: usize = 100_000_000;
const MOST_SEEN: usize = 1 << 40;

/// A step with all of its sizes chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its phase.
    pub phase: Phase,
    /// Tokens of each sequence.
    pub prompt: usize,
    /// Positions of each sequence after it.
    pub context: usize,
    /// Sequences.
    pub batch: usize,
}

impl Step {
    /// The step that the flags ask for.
    pub fn new(args: &PlanArgs) -> Result<Step, Fail> {
        let (phase, batch) = (args.phase.unwrap_or(Phase::Decode), args.batch.unwrap_or(1));
        let prompt = match phase {
            Phase::Prefill => args.prompt.unwrap_or(PREFILL_TOKENS),
            Phase::Decode if args.prompt.is_some() => {
                return Err(Fail::Input(
                    "--prompt T is for --phase prefill: a decode step has one token a sequence".into(),
                ));
            }
            Phase::Decode => 1,
        };
        let context = args.context.unwrap_or(if phase == Phase::Decode { DECODE_CONTEXT } else { prompt });
        if context < prompt {
            let what =
                format!("--context {context} is below --prompt {prompt}: positions after the step include its tokens");
            return Err(Fail::Input(what));
        }
        let rows = prompt.saturating_mul(batch);
        if rows > MOST_ROWS {
            let what =
                format!("--prompt {prompt} times --batch {batch} is {rows} tokens in a step: the limit is {MOST_ROWS}");
            return Err(Fail::Input(what));
        }
        if rows.saturating_mul(context) > MOST_SEEN {
            let what = format!(
                "{rows} tokens in a step, each with --context {context}: the limit of tokens times positions is {MOST_SEEN}"
            );
            return Err(Fail::Input(what));
        }
        Ok(Step { phase, prompt, context, batch })
    }

    /// The step of a listing, which has exactly one; flags cannot ask for another.
    pub fn recorded(head: &Head, args: &PlanArgs) -> Result<Step, Fail> {
        let step = Step {
            phase: if head.is_decode { Phase::Decode } else { Phase::Prefill },
            prompt: (head.tokens / head.sequences.max(1)) as usize,
            context: head.context as usize,
            batch: head.sequences as usize,
        };
        let is_other = |asked: Option<usize>, have: usize| asked.is_some_and(|asked| asked != have);
        if args.phase.is_some_and(|phase| phase != step.phase)
            || is_other(args.prompt, step.prompt)
            || is_other(args.context, step.context)
            || is_other(args.batch, step.batch)
        {
            let what = "a listing is one recorded step";
            return Err(Fail::Input(format!(
                "{what} ({}): leave --phase, --prompt, --context, --batch out",
                step.title()
            )));
        }
        Ok(step)
    }

    /// Prints a note on stderr if no other command would run this as one step. Called after everything that can fail.
    pub fn note(self, target: Target) {
        let (rows, most) = (self.prompt.saturating_mul(self.batch), target.step_rows());
        if rows > most {
            note(&format!("note: this is one step of {rows} rows; `run` and `bench` take at most {most} a step"));
        }
    }

    /// Its plan.
    pub fn key(self) -> PlanKey {
        PlanKey::of(self.prompt.saturating_mul(self.batch), self.batch, Want::Sample { top: 0 })
    }

    /// Its sizes.
    pub fn bind(self) -> Bind {
        Bind { t: self.prompt as u64 * self.batch as u64, s: self.batch as u64, l: self.context as u64 }
    }

    /// For people.
    pub fn title(self) -> String {
        let Step { phase, prompt, context, batch } = self;
        match phase {
            Phase::Decode => format!("decode, {batch} sequence(s) at {context} positions"),
            Phase::Prefill => {
                format!("prefill of {prompt} tokens in {batch} sequence(s), {context} positions after it")
            }
        }
    }

    /// For JSON.
    pub fn json(self) -> Value {
        json!({ "phase": self.phase.name(), "prompt": self.prompt, "context": self.context, "batch": self.batch })
    }
}
