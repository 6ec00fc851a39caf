//! `onetrip inspect`: what a model file holds.

use clap::Args;
use onetrip_ir::plan::text::human;

use crate::support::fail::Fail;
use crate::support::load;
use crate::support::options::FileArgs;
use crate::support::output::{Out, escaped, table};

/// Flags of `inspect`.
#[derive(Args)]
pub struct InspectArgs {
    #[command(flatten)]
    pub file: FileArgs,
}

/// Runs the command.
pub fn main(args: InspectArgs, out: &Out) -> Result<(), Fail> {
    let summary = load::file(args.file.path())?.summary();
    if out.json {
        let value = serde_json::to_value(&summary);
        return out.object(&value.map_err(|e| Fail::Work(format!("cannot write the summary as JSON: {e}")))?);
    }
    let version = summary.version.map_or(String::new(), |v| format!(" version {v}"));
    let format = serde_json::to_value(summary.format).ok().and_then(|v| v.as_str().map(str::to_string));
    out.line(&format!("{}: {}{version}", escaped(&summary.file), format.unwrap_or_default()))?;
    if summary.parts.len() > 1 {
        let rows: Vec<_> = summary.parts.iter().map(|p| vec![escaped(&p.file), human(p.bytes)]).collect();
        out.text(&format!("\n{}", table(&["file", ">bytes"], &rows)))?;
    }
    let rows: Vec<_> = summary.metadata.iter().map(|m| vec![m.key.clone(), m.kind.into(), m.value.clone()]).collect();
    out.text(&format!("\n{}", table(&["metadata", "type", "value"], &rows)))?;
    let dims = |d: &[u64]| d.iter().map(u64::to_string).collect::<Vec<_>>().join(" × ");
    let rows = summary.tensors.iter().map(|t| vec![t.name.clone(), dims(&t.dims), t.kind.clone(), human(t.bytes)]);
    out.text(&format!("\n{}", table(&["tensor", "dimensions", "type", ">bytes"], &rows.collect::<Vec<_>>())))?;
    let rows =
        summary.types.iter().map(|t| vec![t.kind.clone(), t.tensors.to_string(), human(t.elements), human(t.bytes)]);
    let mut rows: Vec<_> = rows.collect();
    rows.push(vec!["all".into(), summary.tensors.len().to_string(), human(summary.parameters), human(summary.bytes)]);
    out.text(&format!("\n{}", table(&["type", ">tensors", ">elements", ">bytes"], &rows)))
}
