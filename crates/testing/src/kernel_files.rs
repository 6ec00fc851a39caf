//! CUDA kernels as files: each compiles by itself with the defaults of its header, without a launch or any text made for it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use libtest_mimic::{Completion, Failed, Trial};
use onetrip_cuda::nvrtc::Compiler;
use onetrip_engine::switch;

use crate::setup::root;

/// How the header of a file begins.
const HEADER: &str = "#ifndef ONETRIP_LAUNCH\n";

/// Files that have no header yet: their text has places that are filled for a launch, or they are copies by a kernel.
const WITHOUT_HEADER: [&str; 8] = [
    "copy/cuda/copy.cu",
    "matmul/cuda/gemm_int8_mma.cu",
    "matmul/cuda/gemm_skinny.cu",
    "matmul/cuda/gemv.cu",
    "matmul/cuda/gemv_multi.cu",
    "state_read/cuda/state_read.cu",
    "state_write/cuda/state_write.cu",
    "window/cuda/window.cu",
];

/// The emulation's machine, in place of the GPU's.
const MACHINE: &str = concat!(
    "static const unsigned long STACK = 65536;\nstatic const unsigned MOST_THREADS = 1024;\n",
    include_str!("emulated/machine.h")
);

/// One test with g++, and one with NVRTC where the library is there.
pub fn tests() -> Vec<Trial> {
    let name = "kernels/every CUDA file compiles by itself with the defaults of its header";
    let has_gxx = Command::new("g++").arg("--version").output().is_ok_and(|o| o.status.success());
    vec![
        Trial::test(name, with_gxx).with_ignored_flag(!has_gxx),
        Trial::ignorable_test(format!("{name}, by NVRTC"), with_nvrtc),
    ]
}

/// Every file whose name ends with `.cu` below `folder`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failed> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files(&path, found)?,
            false if path.extension().is_some_and(|e| e == "cu") => found.push(path),
            false => {}
        }
    }
    Ok(())
}

/// Every kernel that has a header: its name below `ops/`, its text without includes. A file that has none and is not
/// listed, or has one and is listed, fails.
fn kernels(is_gpu: bool) -> Result<Vec<(String, String)>, Failed> {
    let ops = root().join("crates/core/src/ops");
    let mut found = vec![];
    files(&ops, &mut found)?;
    found.sort();
    let mut kernels = vec![];
    for path in found {
        let name = path.strip_prefix(&ops)?.to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(&path)?;
        match (text.contains(HEADER), WITHOUT_HEADER.contains(&name.as_str())) {
            (true, false) => kernels.push((name, resolved(&path, &text, is_gpu)?)),
            (false, true) => {}
            (false, false) => return Err(format!("{name} has no header that begins with {HEADER}").into()),
            (true, true) => return Err(format!("{name} has a header and is listed as a file without").into()),
        }
    }
    Ok(kernels)
}

/// A text with its includes in their places: files beside it, or those of `codegen/cuda/`.
fn resolved(path: &Path, text: &str, is_gpu: bool) -> Result<String, Failed> {
    let shared = root().join("crates/core/src/codegen/cuda");
    let mut out = String::new();
    for line in text.lines() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some("machine.cuh") if !is_gpu => out += MACHINE,
            Some("tensor.cuh") if !is_gpu => out += include_str!("emulated/tensor.h"),
            Some(name) => {
                let beside = path.with_file_name(name);
                let at = if beside.is_file() { beside } else { shared.join(name) };
                let text = std::fs::read_to_string(&at).map_err(|e| format!("{}: {e}", at.display()))?;
                out += &resolved(&at, &text, is_gpu)?;
            }
            None => out += line,
        }
        out.push('\n');
    }
    Ok(out)
}

/// Compiles every file as a translation unit of its own, by as many compilers at once as there are processors.
fn with_gxx() -> Result<(), Failed> {
    let kernels = kernels(false)?;
    let folder = tempfile::tempdir()?;
    let (next, wrong) = (Mutex::new(kernels.iter().enumerate()), Mutex::new(vec![]));
    let work = || {
        while let Some((n, (name, text))) = next.lock().ok().and_then(|mut next| next.next()) {
            let said = gxx(&folder.path().join(format!("{n}.cpp")), text);
            if let (Err(why), Ok(mut wrong)) = (said, wrong.lock()) {
                wrong.push(format!("{name}:\n{why}"));
            }
        }
    };
    std::thread::scope(|scope| {
        (1..std::thread::available_parallelism().map_or(1, |n| n.get())).for_each(|_| _ = scope.spawn(work));
        work();
    });
    let wrong = wrong.into_inner().unwrap_or_else(|e| e.into_inner());
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// What g++ has against a text, if anything.
fn gxx(path: &Path, text: &str) -> Result<(), String> {
    // Shared memory of a launch is an object elsewhere, for which a processor has no storage class.
    let text = text.replace("extern __shared__ uint4 dynamic[];", "uint4* dynamic = emulated_shared;");
    std::fs::write(path, text).map_err(|e| e.to_string())?;
    let flags = ["-std=c++17", "-O0", "-w", "-S", "-o", "/dev/null"];
    let made = Command::new("g++").args(flags).arg(path).output().map_err(|e| format!("g++: {e}"))?;
    if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
}

/// Compiles every file for one generation of GPU; ignored where there is no NVRTC.
fn with_nvrtc() -> Result<Completion, Failed> {
    let compiler = match Compiler::new(90, None, &switch::cuda_libraries()) {
        Ok(compiler) => compiler,
        Err(e) => return Ok(Completion::ignored_with(format!("not run: {e}"))),
    };
    let kernels = kernels(true)?;
    let sources: Vec<(&str, &str)> = kernels.iter().map(|(name, text)| (&**name, &**text)).collect();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    for made in compiler.compile_all(&sources, threads) {
        made?;
    }
    Ok(Completion::Completed)
}
