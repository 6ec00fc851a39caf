//! Compiles kernels at run time with NVRTC. A folder keeps the results, so a machine compiles each translation unit once.

use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cudarc::nvrtc::sys;
use sha2::{Digest, Sha256};

use crate::libs::{Lib, Missing};

/// Why a kernel could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// NVRTC is missing.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The kernel text has an error, or needs a newer compiler.
    #[error("the kernel {entry} does not compile for {arch}: {log}")]
    Text {
        /// Name of the kernel.
        entry: String,
        /// The target architecture.
        arch: String,
        /// The compiler's messages.
        log: String,
    },
}

/// The compiler for one architecture.
#[derive(Debug)]
pub struct Compiler {
    /// The target architecture: `sm_90a`, or `compute_90` (PTX) where the compiler does not know the GPU's own.
    pub arch: String,
    /// Version of NVRTC, major and minor.
    pub version: (i32, i32),
    /// Compiler options (`-DNAME`) for every kernel, besides those of a call.
    pub defines: Vec<String>,
    cache: Option<PathBuf>,
}

/// Machine code (or PTX) of a translation unit.
pub type Binary = Vec<u8>;

impl Compiler {
    /// A compiler for compute capability `sm` (90 for 9.0) that keeps results in `cache`. Looks for NVRTC in the `extra`
    /// folders besides the usual places.
    pub fn new(sm: u32, cache: Option<PathBuf>, extra: &[PathBuf]) -> Result<Compiler, CompileError> {
        Lib::Nvrtc.open(extra)?;
        let (mut major, mut minor, mut n): (c_int, c_int, c_int) = (0, 0, 0);
        // SAFETY: the library is open; the pointers are to live integers.
        unsafe {
            sys::nvrtcVersion(&mut major, &mut minor);
            sys::nvrtcGetNumSupportedArchs(&mut n);
        }
        let mut known = vec![0 as c_int; n.max(0) as usize];
        // SAFETY: `known` is as long as the number of architectures asked for above.
        unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) };
        let arch = match known.iter().map(|&a| a as u32).filter(|&a| a <= sm).max() {
            // From 9.0 on, architecture-specific instructions (wgmma) need the `a` suffix.
            Some(best) if best == sm => format!("sm_{sm}{}", if sm >= 90 { "a" } else { "" }),
            Some(best) => format!("compute_{best}"),
            None => format!("sm_{sm}"),
        };
        Ok(Compiler { arch, version: (major, minor), defines: vec![], cache })
    }

    /// The code of a text, from the cache or compiled now. `defines` are further options, `-DNAME`.
    pub fn compile(&self, entry: &str, source: &str, defines: &[&str]) -> Result<Binary, CompileError> {
        let defines = &[self.defines.iter().map(String::as_str).collect(), defines.to_vec()].concat();
        let at = self.cache.as_ref().map(|folder| folder.join(self.key(source, defines)));
        if let Some(code) = at.as_ref().and_then(|path| std::fs::read(path).ok()).filter(|code| !code.is_empty()) {
            return Ok(code);
        }
        let code = self.compile_now(entry, source, defines)?;
        if let Some(path) = &at {
            keep(path, &code);
        }
        Ok(code)
    }

    /// As [`Compiler::compile`], but ignores the cached file and replaces it: for a binary that the driver rejects.
    pub fn compile_anew(&self, entry: &str, source: &str) -> Result<Binary, CompileError> {
        let defines: Vec<&str> = self.defines.iter().map(String::as_str).collect();
        let code = self.compile_now(entry, source, &defines)?;
        if let Some(folder) = &self.cache {
            keep(&folder.join(self.key(source, &defines)), &code);
        }
        Ok(code)
    }

    /// Compiles many texts, on `threads` threads, in the order given.
    pub fn compile_all(&self, texts: &[(&str, &str)], threads: usize) -> Vec<Result<Binary, CompileError>> {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let done: Vec<Mutex<Option<Result<Binary, CompileError>>>> = texts.iter().map(|_| Mutex::new(None)).collect();
        let work = || {
            loop {
                let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((entry, source)) = texts.get(i) else { return };
                let made = self.compile(entry, source, &[]);
                *done[i].lock().unwrap_or_else(|e| e.into_inner()) = Some(made);
            }
        };
        std::thread::scope(|scope| {
            (1..threads.min(texts.len())).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        let result = |m: Mutex<Option<_>>| m.into_inner().unwrap_or_else(|e| e.into_inner());
        done.into_iter().filter_map(result).collect()
    }

    fn key(&self, source: &str, defines: &[&str]) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{} {:?} {defines:?}\n", self.arch, self.version));
        hash.update(source);
        let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        format!("{hex}.{}", if self.is_machine_code() { "cubin" } else { "ptx" })
    }

    fn is_machine_code(&self) -> bool {
        self.arch.starts_with("sm_")
    }

    fn compile_now(&self, entry: &str, source: &str, defines: &[&str]) -> Result<Binary, CompileError> {
        let fail = |log: String| CompileError::Text { entry: entry.into(), arch: self.arch.clone(), log };
        let text = CString::new(source).map_err(|e| fail(e.to_string()))?;
        let name = CString::new(format!("{entry}.cu")).map_err(|e| fail(e.to_string()))?;
        let options = [format!("--gpu-architecture={}", self.arch), "--std=c++17".into(), "-lineinfo".into()];
        let options = options.into_iter().chain(defines.iter().map(|d| d.to_string()));
        let options: Result<Vec<CString>, _> = options.map(CString::new).collect();
        let options = options.map_err(|e| fail(e.to_string()))?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: all strings outlive the program, buffers have the sizes that NVRTC was asked for, and the program is
        // destroyed once.
        unsafe {
            let mut program = std::ptr::null_mut();
            let none = std::ptr::null();
            let made = sys::nvrtcCreateProgram(&mut program, text.as_ptr(), name.as_ptr(), 0, none, none);
            if made != sys::nvrtcResult::NVRTC_SUCCESS {
                return Err(fail(format!("{made:?}")));
            }
            let compiled = sys::nvrtcCompileProgram(program, pointers.len() as c_int, pointers.as_ptr());
            let result = if compiled == sys::nvrtcResult::NVRTC_SUCCESS {
                let mut size = 0;
                let mut code = vec![];
                let got = if self.is_machine_code() {
                    sys::nvrtcGetCUBINSize(program, &mut size);
                    code.resize(size, 0u8);
                    sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast())
                } else {
                    sys::nvrtcGetPTXSize(program, &mut size);
                    code.resize(size, 0u8);
                    sys::nvrtcGetPTX(program, code.as_mut_ptr().cast())
                };
                if got == sys::nvrtcResult::NVRTC_SUCCESS { Ok(code) } else { Err(fail(format!("{got:?}"))) }
            } else {
                let mut size = 0;
                sys::nvrtcGetProgramLogSize(program, &mut size);
                let mut log = vec![0u8; size];
                sys::nvrtcGetProgramLog(program, log.as_mut_ptr().cast());
                let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_string();
                Err(fail(format!("{compiled:?}\n{log}")))
            };
            sys::nvrtcDestroyProgram(&mut program);
            result
        }
    }
}

/// Writes a file of the cache so that no reader sees half of it. A cache that cannot be written is no error.
fn keep(path: &Path, code: &[u8]) {
    let Some(folder) = path.parent() else { return };
    let part = path.with_extension(format!("part{}-{:?}", std::process::id(), std::thread::current().id()));
    if std::fs::create_dir_all(folder).is_ok() && std::fs::write(&part, code).is_ok() {
        let _ = std::fs::rename(&part, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_of_one_entry_never_show_half_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sub").join("a.cubin");
        let codes: Vec<Vec<u8>> = (1..=4u8).map(|byte| vec![byte; 1 << 20]).collect();
        std::thread::scope(|scope| {
            for code in &codes {
                scope.spawn(|| (0..20).for_each(|_| keep(&path, code)));
            }
            for _ in 0..200 {
                let Ok(seen) = std::fs::read(&path) else { continue };
                assert!(codes.contains(&seen), "{} bytes of several writers", seen.len());
            }
        });
        let left = std::fs::read_dir(folder.path().join("sub")).expect("a folder").count();
        assert_eq!(left, 1, "parts of files are left");
        // Where nothing can be written that is no error.
        keep(Path::new("/dev/null/no/such.cubin"), &codes[0]);
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_where_it_was_looked_for_and_how_to_get_it() {
        let missing = Missing { what: "NVRTC", looked: vec!["libnvrtc.so".into(), "/x/lib".into()], get: "install it" };
        assert_eq!(missing.to_string(), "NVRTC is missing: looked for libnvrtc.so, /x/lib; install it");
    }
}
