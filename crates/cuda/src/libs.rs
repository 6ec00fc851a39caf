//! CUDA's libraries, opened at run time. An error says where a missing library was searched for and how to get it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cudarc::{cublaslt, driver, nvrtc};
use libloading::Library;

/// A library of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lib {
    /// The driver's library, which comes with the GPU's driver package.
    Driver,
    /// NVRTC, the run-time compiler.
    Nvrtc,
    /// cuBLASLt for matrix products; without it everything still runs, but prompts are slower.
    BlasLt,
}

/// The error for a library that is not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is missing: looked for {}; {get}", looked.join(", "))]
pub struct Missing {
    /// The library, in words.
    pub what: &'static str,
    /// File names and folders that were tried.
    pub looked: Vec<String>,
    /// How to install the library.
    pub get: &'static str,
}

/// Folders where toolkits install libraries outside the loader's own list.
const FOLDERS: [&str; 3] = ["/usr/local/cuda/lib64", "/opt/cuda/lib64", "/usr/lib/wsl/lib"];

impl Lib {
    fn stem(self) -> &'static str {
        match self {
            Lib::Driver => "cuda",
            Lib::Nvrtc => "nvrtc",
            Lib::BlasLt => "cublasLt",
        }
    }

    /// Opens the library, by the loader's rules, then in `extra` folders, then where toolkits put it. Its functions can be
    /// called from then on.
    pub fn open(self, extra: &[PathBuf]) -> Result<(), Missing> {
        if self.is_open() {
            return Ok(());
        }
        let names = cudarc::get_lib_name_candidates(self.stem());
        let mut looked = vec![names[0].clone()];
        for folder in extra.iter().map(PathBuf::as_path).chain(FOLDERS.map(Path::new)) {
            looked.push(folder.display().to_string());
            if self.open_in(folder) && self.is_open() {
                return Ok(());
            }
        }
        let (what, get) = match self {
            Lib::Driver => ("the NVIDIA driver library", "install NVIDIA's driver for this GPU"),
            Lib::Nvrtc => (
                "NVRTC, CUDA's run-time compiler,",
                "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` and name its lib folder in ONETRIP_CUDA_LIBS",
            ),
            Lib::BlasLt => (
                "cuBLASLt, NVIDIA's library of matrix products,",
                "install the CUDA toolkit, or `pip install nvidia-cublas` and name its lib folder in ONETRIP_CUDA_LIBS",
            ),
        };
        Err(Missing { what, looked, get })
    }

    /// The loader finds the library, or it was opened before.
    fn is_open(self) -> bool {
        // SAFETY: opening NVIDIA's libraries runs their initialisers, which have no preconditions.
        unsafe {
            match self {
                Lib::Driver => driver::sys::is_culib_present(),
                Lib::Nvrtc => nvrtc::sys::is_culib_present(),
                Lib::BlasLt => cublaslt::sys::is_culib_present(),
            }
        }
    }

    /// Opens the library from a folder and keeps it: the loader then finds it by name.
    fn open_in(self, folder: &Path) -> bool {
        static KEPT: Mutex<Vec<Library>> = Mutex::new(vec![]);
        let prefix = format!("{}{}{}", std::env::consts::DLL_PREFIX, self.stem(), std::env::consts::DLL_SUFFIX);
        let Ok(files) = std::fs::read_dir(folder) else { return false };
        let mut paths: Vec<PathBuf> = files.flatten().map(|f| f.path()).collect();
        paths.sort();
        let is_it = |p: &&PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
        paths.iter().filter(is_it).any(|path| {
            // SAFETY: as above; the library is never closed.
            match unsafe { Library::new(path) } {
                Ok(library) => {
                    KEPT.lock().unwrap_or_else(|e| e.into_inner()).push(library);
                    true
                }
                Err(_) => false,
            }
        })
    }
}
