//! `onetrip devices`: what there is to run on.

use onetrip_cuda::driver::{self, Properties};
use onetrip_cuda::lt;
use onetrip_cuda::nvrtc::Compiler;
use onetrip_engine::switch;
use onetrip_gpu::{Adapter, OpenError};
use onetrip_ir::plan::text::human;
use serde_json::{Value, json};

use crate::fail::Fail;
use crate::output::Out;
use crate::{load, machine};

/// NVIDIA GPUs, or why there is none that can be used.
fn cuda() -> Result<(Vec<Properties>, String), String> {
    let folders = switch::cuda_libraries();
    let gpus = driver::list(&folders).map_err(|e| e.to_string())?;
    let sm = gpus.first().map_or(0, |gpu| gpu.sm);
    let compiler = Compiler::new(sm, None, &folders).map_err(|e| e.to_string())?;
    let (major, minor) = compiler.version;
    let products = match lt::version(&folders) {
        Ok((major, minor)) => format!("cuBLASLt {major}.{minor}"),
        Err(missing) => missing.to_string(),
    };
    Ok((gpus, format!("NVRTC {major}.{minor} compiles for {}; {products}", compiler.arch)))
}

fn cuda_json(p: &Properties, compiler: &str) -> Value {
    json!({
        "name": format!("cuda:{}", p.ordinal), "available": true, "gpu": p.name, "compute_capability": p.sm,
        "multiprocessors": p.sms, "memory_bytes": p.memory, "l2_bytes": p.l2, "shared_bytes": p.shared,
        "driver": p.driver, "compiler": compiler,
    })
}

fn gpu_json(a: &Adapter) -> Value {
    let missing: Vec<_> = a.missing.iter().map(|(what, then)| json!({ "feature": what, "means": then })).collect();
    json!({
        "name": format!("gpu:{}", a.name), "available": true, "backend": a.backend, "kind": a.kind, "driver": a.driver,
        "memory_bytes": a.memory, "features": a.features, "missing": missing,
        "workgroup_memory_bytes": a.caps.workgroup_bytes, "workgroup_invocations": a.caps.invocations,
        "subgroup_sizes": a.caps.subgroups, "cooperative_matrix": a.caps.coop,
    })
}

/// Runs the command.
pub fn main(out: &Out) -> Result<(), Fail> {
    let isa = load::isa()?;
    let gpus = onetrip_gpu::adapters();
    if out.json {
        let mut all = vec![machine::cpu_json(isa)];
        all.extend(gpus.iter().map(gpu_json));
        if gpus.is_empty() {
            all.push(json!({ "name": "gpu", "available": false, "reason": OpenError::None.to_string() }));
        }
        match cuda() {
            Ok((gpus, compiler)) => all.extend(gpus.iter().map(|p| cuda_json(p, &compiler))),
            Err(why) => all.push(json!({ "name": "cuda", "available": false, "reason": why })),
        }
        return out.object(&json!({ "devices": all }));
    }
    let (total, available) = machine::memory();
    let bytes = |b: Option<u64>| b.map_or("unknown".into(), |b| format!("{}B", human(b)));
    out.line(&format!("cpu   {}", machine::cpu()))?;
    out.line(&format!("      {} cores, memory {} ({} available)", machine::cores(), bytes(total), bytes(available)))?;
    out.line(&format!("      kernels: {} in use, {} on this processor", isa.name(), machine::isas().join(", ")))?;
    for a in gpus {
        out.line(&format!("gpu   {}", a.name))?;
        out.line(&format!("      {}, {}, driver {}, memory {}", a.backend, a.kind, a.driver, bytes(a.memory)))?;
        let (caps, tiles) = (a.caps, a.caps.coop);
        let sizes = caps.subgroups.map_or(String::new(), |(least, most)| match least == most {
            true => format!("; subgroups of {least}"),
            false => format!("; subgroups of {least} to {most}"),
        });
        let tiles = if tiles > 0 { format!("; matrices of {tiles}x{tiles}") } else { String::new() };
        out.line(&format!("      has {}{sizes}{tiles}", a.features.join(", ")))?;
        a.missing.iter().try_for_each(|(what, then)| out.line(&format!("      no {what}: {then}")))?;
    }
    if gpus.is_empty() {
        out.line(&format!("gpu   {}", OpenError::None))?;
    }
    let (gpus, compiler) = match cuda() {
        Ok(found) => found,
        Err(why) => return out.line(&format!("cuda  {why}")),
    };
    for p in &gpus {
        out.line(&format!("cuda  {} ({})", p.name, p.ordinal))?;
        let (major, minor) = (p.driver / 1000, p.driver % 1000 / 10);
        let memory = bytes(Some(p.memory));
        out.line(&format!(
            "      {} multiprocessors, memory {memory}, driver for CUDA {major}.{minor}; {compiler}",
            p.sms
        ))?;
    }
    Ok(())
}
