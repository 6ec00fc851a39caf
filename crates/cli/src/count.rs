//! `onetrip count`: the ledger of a plan, and gates that keep its counts from creeping up.

use std::path::Path;

use clap::Args;
use onetrip_core::plan::Ledger;
use onetrip_engine::switch;
use serde_json::{Map, Value, json};

use crate::fail::Fail;
use crate::load;
use crate::options::{ModelArgs, Phase, PlanArgs};
use crate::output::{Out, ledger_text};
use crate::plans::Step;

/// Flags of `count`.
#[derive(Args)]
pub struct CountArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    plan: PlanArgs,
    /// Exit with 1 and name the row when a count is above the one in FILE. Model and step are FILE's where no flag says
    /// otherwise
    #[arg(long, value_name = "FILE")]
    gate: Option<String>,
    /// Write the counts to FILE, for --gate. Rows that are taken out of it are not checked
    #[arg(long, value_name = "FILE", conflicts_with = "gate")]
    write_gate: Option<String>,
}

/// What a gate file holds.
struct Gate {
    file: String,
    content: Map<String, Value>,
}

/// Runs the command. No weight is loaded.
pub fn main(mut args: CountArgs, out: &Out) -> Result<(), Fail> {
    let gate = args.gate.as_deref().map(Gate::read).transpose()?;
    if let Some(gate) = &gate {
        gate.complete(&mut args.model, &mut args.plan)?;
    }
    let step = Step::new(&args.plan)?;
    let mut model = load::model(load::file_or_shape(args.model.file.name())?, &args.model)?;
    let ledger = model.plan(step.key())?.ledger(step.bind());
    if let Some(file) = &args.write_gate {
        let mut text =
            serde_json::to_string_pretty(&content(args.model.file.name(), step, &ledger)).unwrap_or_default();
        text.push('\n');
        std::fs::write(file, text).map_err(|e| Fail::Input(format!("cannot write {file}: {e}")))?;
    }
    let above = gate.as_ref().map(|g| g.above(&ledger)).transpose()?;
    if out.json {
        let mut all = json!({ "model": args.model.file.name(), "device": args.model.device, "step": step.json(), "ledger": ledger });
        if let Some(above) = &above {
            all["gate"] = json!({ "passed": above.is_empty(), "above": above });
        }
        out.object(&all)?;
    } else {
        out.line(&format!("{}: {}, device {}", args.model.file.name(), step.title(), args.model.device))?;
        out.text(&ledger_text(&ledger))?;
    }
    match (gate, above) {
        (Some(gate), Some(above)) if !above.is_empty() => {
            let what = format!("{}: {}", gate.file, above.join("; "));
            Err(Fail::Work(format!("{what}; if that is meant, write the gate again with --write-gate")))
        }
        (Some(gate), _) if !out.json => out.line(&format!("gate         {}: no count is above it", gate.file)),
        _ => Ok(()),
    }
}

/// The counts of a gate. Those by op say where a count has grown; they are no limits of their own.
fn counts(l: &Ledger) -> [(&'static str, u64); 10] {
    [
        ("dispatches", l.dispatches),
        ("grid_syncs", l.grid_syncs),
        ("barriers", l.barriers),
        ("commits", l.commits),
        ("waits", l.waits),
        ("copies", l.copies),
        ("off_device", l.off_device),
        ("gaps", l.gaps),
        ("bytes_read", l.bytes_read),
        ("bytes_written", l.bytes_written),
    ]
}

fn content(model: &str, step: Step, ledger: &Ledger) -> Value {
    // Models below the folder of fetched models are named from there, so that the file serves on every machine.
    let below = switch::models_dir().and_then(|dir| Path::new(model).strip_prefix(dir).ok().map(Path::to_path_buf));
    let model = below.map_or(model.to_string(), |path| path.to_string_lossy().into_owned());
    let mut all = json!({ "model": model, "phase": step.phase.name(), "batch": step.batch, "context": step.context });
    if step.phase == Phase::Prefill {
        all["prompt"] = step.prompt.into();
    }
    for (name, n) in counts(ledger) {
        all[name] = n.into();
    }
    all["dispatches_by_op"] = json!(ledger.dispatches_by_op);
    all
}

impl Gate {
    fn read(file: &str) -> Result<Gate, Fail> {
        let text =
            std::fs::read_to_string(file).map_err(|e| Fail::Input(format!("cannot read the gate {file}: {e}")))?;
        let content = serde_json::from_str(&text);
        let content =
            content.map_err(|e| Fail::Input(format!("{file}: {e}; write the gate again with --write-gate")))?;
        Ok(Gate { file: file.into(), content })
    }

    fn wrong(&self, key: &str, want: &str) -> Fail {
        Fail::Input(format!("{}: `{key}` should be {want}; write the gate again with --write-gate", self.file))
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Fail> {
        let number = |v: &Value| v.as_u64().ok_or_else(|| self.wrong(key, "a whole number"));
        self.content.get(key).map(number).transpose()
    }

    fn size(&self, key: &str) -> Result<Option<usize>, Fail> {
        let size = |n: u64| usize::try_from(n).ok().filter(|n| (1..=1 << 27).contains(n));
        self.number(key)?.map(|n| size(n).ok_or_else(|| self.wrong(key, "a sensible number of at least 1"))).transpose()
    }

    /// Fills in what no flag says.
    fn complete(&self, model: &mut ModelArgs, plan: &mut PlanArgs) -> Result<(), Fail> {
        if let (None, Some(name)) = (&model.file.model, self.content.get("model")) {
            let name = name.as_str().ok_or_else(|| self.wrong("model", "a name"))?;
            let fetched = switch::models_dir().map(|dir| dir.join(name)).filter(|path| path.exists());
            model.file.model = Some(fetched.map_or(name.to_string(), |path| path.to_string_lossy().into_owned()));
        }
        if let (None, Some(phase)) = (plan.phase, self.content.get("phase")) {
            plan.phase = match phase.as_str() {
                Some("decode") => Some(Phase::Decode),
                Some("prefill") => Some(Phase::Prefill),
                _ => return Err(self.wrong("phase", "`decode` or `prefill`")),
            };
        }
        plan.batch = plan.batch.or(self.size("batch")?);
        plan.context = plan.context.or(self.size("context")?);
        plan.prompt = plan.prompt.or(self.size("prompt")?);
        Ok(())
    }

    /// The rows whose count is above the gate's.
    fn above(&self, ledger: &Ledger) -> Result<Vec<String>, Fail> {
        let mut above = vec![];
        for (name, have) in counts(ledger) {
            if let Some(limit) = self.number(name)?.filter(|limit| have > *limit) {
                let grown = if name == "dispatches" { self.grown(ledger) } else { String::new() };
                above.push(format!("{name} {have} is above the gate's {limit}{grown}"));
            }
        }
        Ok(above)
    }

    /// Ops with more dispatches than the gate has: ` (matmul 121 > 91)`.
    fn grown(&self, ledger: &Ledger) -> String {
        let Some(Value::Object(before)) = self.content.get("dispatches_by_op") else { return String::new() };
        let before = |op: &str| before.get(op).and_then(Value::as_u64).unwrap_or(0);
        let grown = ledger.dispatches_by_op.iter().filter(|(op, n)| **n > before(op));
        let grown: Vec<String> = grown.map(|(op, n)| format!("{op} {n} > {}", before(op))).collect();
        if grown.is_empty() { String::new() } else { format!(" ({})", grown.join(", ")) }
    }
}
