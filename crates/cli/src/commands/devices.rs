//! `onetrip devices`: what there is to run on.

use onetrip_devices::list::{CpuInfo, CudaInfo, Info, WgpuInfo, list};
use onetrip_devices::{DeviceKind, OpenError};
use onetrip_ir::plan::text::human;
use serde_json::{Value, json};

use crate::support::device;
use crate::support::fail::{Fail, why_none};
use crate::support::output::Out;

fn json_of(info: &Info) -> Value {
    let name = info.spec();
    match info {
        Info::Cpu(c) => json!({
            "name": name, "available": true, "processor": c.processor, "cores": c.cores, "isa": c.isa,
            "isa_available": c.isas, "memory_bytes": c.memory, "memory_available_bytes": c.memory_available,
        }),
        Info::Cuda(p) => json!({
            "name": name, "available": true, "gpu": p.name, "compute_capability": p.sm,
            "multiprocessors": p.sms, "memory_bytes": p.memory, "l2_bytes": p.l2, "shared_bytes": p.shared,
            "driver": p.driver, "compiler": p.compiler,
        }),
        Info::Wgpu(a) => {
            let missing: Vec<_> =
                a.missing.iter().map(|(what, then)| json!({ "feature": what, "means": then })).collect();
            json!({
                "name": name, "available": true, "backend": a.backend, "kind": a.class, "driver": a.driver,
                "memory_bytes": a.memory, "features": a.features, "missing": missing,
                "workgroup_memory_bytes": a.caps.workgroup_bytes, "workgroup_invocations": a.caps.invocations,
                "subgroup_sizes": a.caps.subgroups, "cooperative_matrix": a.caps.coop,
            })
        }
    }
}

/// Bytes for people.
fn bytes(b: Option<u64>) -> String {
    b.map_or("unknown".into(), |b| format!("{}B", human(b)))
}

/// What is said of a device: the first line stands behind its kind.
fn lines(info: &Info) -> Vec<String> {
    match info {
        Info::Cpu(CpuInfo { processor, cores, isa, isas, memory, memory_available }) => vec![
            processor.clone(),
            format!("{cores} cores, memory {} ({} available)", bytes(*memory), bytes(*memory_available)),
            format!("kernels: {isa} in use, {} on this processor", isas.join(", ")),
        ],
        Info::Cuda(CudaInfo { name, ordinal, sms, memory, driver, compiler, .. }) => {
            let (major, minor, memory) = (driver / 1000, driver % 1000 / 10, bytes(Some(*memory)));
            vec![
                format!("{name} ({ordinal})"),
                format!("{sms} SMs, memory {memory}, driver for CUDA {major}.{minor}; {compiler}"),
            ]
        }
        Info::Wgpu(WgpuInfo { name, backend, class, driver, memory, caps, features, missing }) => {
            let sizes = caps.subgroups.map_or(String::new(), |(least, most)| match least == most {
                true => format!("; subgroups of {least}"),
                false => format!("; subgroups of {least} to {most}"),
            });
            let tiles = caps.coop;
            let tiles = if tiles > 0 { format!("; matrices of {tiles}x{tiles}") } else { String::new() };
            let mut lines = vec![
                name.clone(),
                format!("{backend}, {class}, driver {driver}, memory {}", bytes(*memory)),
                format!("has {}{sizes}{tiles}", features.join(", ")),
            ];
            lines.extend(missing.iter().map(|(what, then)| format!("no {what}: {then}")));
            lines
        }
    }
}

/// Runs the command.
pub fn main(out: &Out) -> Result<(), Fail> {
    let all = list(&device::common()?);
    if out.json {
        let of = |(kind, found): &(DeviceKind, Result<Vec<Info>, OpenError>)| match found {
            Ok(found) => found.iter().map(json_of).collect(),
            Err(why) => vec![json!({ "name": kind.name(), "available": false, "reason": why_none(why) })],
        };
        let all: Vec<Value> = all.iter().flat_map(of).collect();
        return out.object(&json!({ "devices": all }));
    }
    for (kind, found) in &all {
        match found {
            Ok(found) => {
                for (n, line) in found.iter().flat_map(|info| lines(info).into_iter().enumerate()) {
                    out.line(&format!("{:<6}{line}", if n == 0 { kind.name() } else { "" }))?;
                }
            }
            Err(why) => out.line(&format!("{:<6}{}", kind.name(), why_none(why)))?,
        }
    }
    Ok(())
}
