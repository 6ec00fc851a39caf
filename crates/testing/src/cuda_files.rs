//! Every CUDA file of an op compiles by itself: with the defaults in its own header, without a line that Rust makes. So each
//! kernel can be read, edited and compiled as a file.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_cuda::nvrtc::Compiler;
use onetrip_engine::switch;

use crate::emulated::units::has_compiler;
use crate::setup::root;

/// The macro that a launch's generated text defines; a file's header is for where it is not defined.
const LAUNCH: &str = "ONETRIP_LAUNCH";

/// The `.cu` files of all ops.
fn files() -> Result<Vec<PathBuf>, Failed> {
    let mut found = vec![];
    for op in fs::read_dir(root().join("crates/core/src/ops"))? {
        let folder = op?.path().join("cuda");
        if folder.is_dir() {
            for file in fs::read_dir(folder)? {
                found.push(file?.path());
            }
        }
    }
    found.retain(|file| file.extension().is_some_and(|e| e == "cu"));
    found.sort();
    if found.len() < 20 { Err(format!("only {} .cu files were found", found.len()).into()) } else { Ok(found) }
}

/// A file's text with what it includes, each header once. `emulated`: the headers of GPU instructions are those of the emulation.
fn flattened(file: &Path, emulated: bool, seen: &mut HashSet<PathBuf>) -> Result<String, Failed> {
    let mut out = String::new();
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    for line in text.lines() {
        let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) else {
            out += line;
            out.push('\n');
            continue;
        };
        let emulation = match name {
            "machine.cuh" if emulated => Some("machine.h"),
            "tensor.cuh" if emulated => Some("tensor.h"),
            _ => None,
        };
        let beside = file.with_file_name(name);
        let header = match emulation {
            Some(name) => root().join("crates/testing/src/emulated").join(name),
            None if beside.exists() => beside,
            None => root().join("crates/core/src/codegen/cuda").join(name),
        };
        if seen.insert(header.clone()) {
            out += &flattened(&header, emulated, seen)?;
        }
    }
    Ok(out)
}

fn sources(emulated: bool) -> Result<Vec<(PathBuf, String)>, Failed> {
    let mut all = vec![];
    for file in files()? {
        let text = flattened(&file, emulated, &mut HashSet::new())?;
        if !text.contains(&format!("#ifndef {LAUNCH}")) {
            return Err(format!("{} has no header with defaults (`#ifndef {LAUNCH}`)", file.display()).into());
        }
        all.push((file, text));
    }
    Ok(all)
}

/// As C++ over the headers of the emulation.
fn as_cpp() -> Result<Completion, Failed> {
    if !has_compiler() {
        return Ok(Completion::ignored_with("not run: there is no g++"));
    }
    let folder = tempfile::tempdir()?;
    let mut running = vec![];
    for (n, (file, text)) in sources(true)?.into_iter().enumerate() {
        let path = folder.path().join(format!("{n}.cpp"));
        let stack = "static const unsigned long STACK = 65536;\nstatic const unsigned MOST_THREADS = 1024;\n";
        // The emulation gives a kernel its dynamic shared memory by this name.
        let text = text.replace("extern __shared__ uint4 dynamic[];", "uint4* dynamic = emulated_shared;");
        fs::write(&path, format!("{stack}{text}"))?;
        let flags = ["-std=c++17", "-fsyntax-only", "-w"];
        let child = Command::new("g++").args(flags).arg(&path).stderr(std::process::Stdio::piped()).spawn()?;
        running.push((file, child));
        // Two at a time.
        if running.len() == 2 {
            finish(running.remove(0))?;
        }
    }
    running.into_iter().try_for_each(finish)?;
    Ok(Completion::Completed)
}

fn finish((file, child): (PathBuf, std::process::Child)) -> Result<(), Failed> {
    let made = child.wait_with_output()?;
    let first = |text: &[u8]| String::from_utf8_lossy(text).lines().take(12).collect::<Vec<_>>().join("\n");
    if made.status.success() { Ok(()) } else { Err(format!("{}:\n{}", file.display(), first(&made.stderr)).into()) }
}

/// As CUDA C++ by NVRTC, for one generation of GPU.
fn as_cuda(sm: u32) -> Result<Completion, Failed> {
    let compiler = match Compiler::new(sm, None, &switch::cuda_libraries()) {
        Ok(compiler) => compiler,
        Err(e) => return Ok(Completion::ignored_with(format!("not run: {e}"))),
    };
    let all = sources(false)?;
    let names: Vec<String> = all.iter().map(|(file, _)| file.display().to_string()).collect();
    let texts: Vec<(&str, &str)> = all.iter().map(|(_, text)| ("kernel", text.as_str())).collect();
    for (made, name) in compiler.compile_all(&texts, 2).into_iter().zip(names) {
        made.map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(Completion::Completed)
}

/// The tests.
pub fn tests() -> Vec<Trial> {
    vec![
        Trial::ignorable_test("kernels/every CUDA file compiles by itself as C++", as_cpp),
        Trial::ignorable_test("kernels/every CUDA file compiles by itself with NVRTC", || as_cuda(90)),
    ]
}
