//! `onetrip devices`: what there is to run on.

use onetrip_core::plan::human;
use serde_json::json;

use crate::fail::Fail;
use crate::output::Out;
use crate::{load, machine};

/// Devices that this build does not have, and why.
const ABSENT: [(&str, &str); 2] = [
    ("cuda", "not in this build: NVIDIA GPUs come with a later version"),
    ("wgpu", "not in this build: other GPUs (Vulkan, Metal, DX12) come with a later version"),
];

/// Runs the command.
pub fn main(out: &Out) -> Result<(), Fail> {
    let isa = load::isa()?;
    if out.json {
        let absent = ABSENT.iter().map(|(name, why)| json!({ "name": name, "available": false, "reason": why }));
        let all: Vec<_> = [machine::cpu_json(isa)].into_iter().chain(absent).collect();
        return out.object(&json!({ "devices": all }));
    }
    let (total, available) = machine::memory();
    let bytes = |b: Option<u64>| b.map_or("unknown".into(), |b| format!("{}B", human(b)));
    out.line(&format!("cpu   {}", machine::cpu()))?;
    out.line(&format!("      {} cores, memory {} ({} available)", machine::cores(), bytes(total), bytes(available)))?;
    out.line(&format!("      kernels: {} in use, {} on this processor", isa.name(), machine::isas().join(", ")))?;
    ABSENT.iter().try_for_each(|(name, why)| out.line(&format!("{name:<5} {why}")))
}
