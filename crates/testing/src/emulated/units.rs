//! CUDA kernels compiled as C++ for the emulator: many in one translation unit, each compiled once in a process, in parallel.
//!
//! Headers, the start of the compiler and the linker take most of the time of one kernel, so kernels share a translation unit,
//! each in a namespace of its own. Every macro that a kernel defines is undefined after it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libloading::Library;
use onetrip_core::codegen::cuda::{MACHINE, TENSOR};
use onetrip_ir::kernel::{Code, Text};
use onetrip_ir::plan::Plan;

/// Bytes of a thread's stack: some cache lines more than a multiple of a page, since otherwise the stacks of all threads would
/// map to the same few sets of the cache.
const STACK: usize = (96 << 10) + 5 * 64;
/// Threads of the largest block.
const MOST_THREADS: usize = 1024;
/// Bytes of all stacks that a launch needs.
pub(super) const STACKS: usize = STACK * MOST_THREADS;

/// Kernels in a unit: enough to amortize the headers, few enough that every processor has units to compile.
const TOGETHER: usize = 12;

type Launch = unsafe extern "C" fn(*const *mut u8, u32, *mut u8);

/// A loaded translation unit.
struct Unit {
    /// The shared library with the kernels' code.
    _library: Library,
    /// A lock, since the kernels of a unit share one emulated machine.
    machine: Mutex<()>,
}

/// A kernel that is ready to run.
pub(super) struct Kernel {
    launch: Launch,
    unit: Arc<Unit>,
}

impl Kernel {
    /// Runs the kernel.
    ///
    /// # Safety
    /// `args` match the kernel's parameters in number and size; `stacks` points to [`STACKS`] bytes.
    pub(super) unsafe fn launch(&self, args: &[*mut u8], groups: u32, stacks: *mut u8) {
        let _machine = self.unit.machine.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the unit is loaded and nothing else runs on its machine; the caller vouches for the arguments.
        unsafe { (self.launch)(args.as_ptr(), groups, stacks) }
    }
}

/// A kernel, or the compiler's message.
type Compiled = Result<Arc<Kernel>, String>;

/// All kernels that were compiled in this process, by their text.
static COMPILED: Mutex<Option<HashMap<Arc<Text>, Compiled>>> = Mutex::new(None);

/// Texts of a plan.
pub(super) fn texts(plan: &Plan) -> impl Iterator<Item = &Arc<Text>> {
    plan.dispatches.iter().filter_map(|d| match &d.code {
        Some(Code::Text(text)) => Some(text),
        _ => None,
    })
}

/// Kernels of these texts, in their order.
pub(super) fn compile(texts: &[Arc<Text>]) -> Vec<Compiled> {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = compiled.get_or_insert_default();
    // Sorted, so that a unit has the same kernels in every run.
    let mut new: Vec<Arc<Text>> = vec![];
    let mut seen: HashSet<&Arc<Text>> = HashSet::new();
    new.extend(texts.iter().filter(|text| !compiled.contains_key(*text) && seen.insert(text)).cloned());
    compiled.extend(in_units(&new));
    texts.iter().map(|text| compiled[text].clone()).collect()
}

/// Compiles distinct texts.
fn in_units(texts: &[Arc<Text>]) -> Vec<(Arc<Text>, Compiled)> {
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let each = texts.len().div_ceil(workers).clamp(1, TOGETHER);
    let (units, done) = (Mutex::new(texts.chunks(each)), Mutex::new(vec![]));
    let next = || units.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(texts) = next() {
            let kernels = unit(texts);
            done.lock().unwrap_or_else(PoisonError::into_inner).extend(texts.iter().cloned().zip(kernels));
        }
    };
    std::thread::scope(|scope| {
        (1..workers).for_each(|_| _ = scope.spawn(work));
        work();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles one unit. If that fails, its halves are compiled separately, so that in the end only the faulty kernels fail.
fn unit(texts: &[Arc<Text>]) -> Vec<Compiled> {
    match (load(texts), texts) {
        (Ok(kernels), _) => kernels.into_iter().map(|kernel| Ok(Arc::new(kernel))).collect(),
        (Err(why), [text]) => vec![Err(format!("{}: {why}", text.entry))],
        (Err(_), _) => {
            let (first, second) = texts.split_at(texts.len() / 2);
            [unit(first), unit(second)].concat()
        }
    }
}

/// The kernels of one unit, or the compiler's message for the whole unit.
fn load(texts: &[Arc<Text>]) -> Result<Vec<Kernel>, String> {
    // The file can be deleted once it is loaded.
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for a kernel: {e}"))?;
    let (path, library) = (folder.path().join("unit.cpp"), folder.path().join("unit.so"));
    std::fs::write(&path, source(texts)).map_err(|e| format!("{}: {e}", path.display()))?;
    run_compiler(&path, &library)?;
    // SAFETY: the library was made of the texts and runs nothing when it is opened.
    let library = unsafe { Library::new(&library) }.map_err(|e| e.to_string())?;
    let launches: Result<Vec<Launch>, _> = (0..texts.len())
        // SAFETY: `source` gives the functions of these names this signature; the library outlives its kernels.
        .map(|n| unsafe { library.get::<Launch>(format!("launch_{n}")) }.map(|launch| *launch))
        .collect();
    let launches = launches.map_err(|e| e.to_string())?;
    let unit = Arc::new(Unit { _library: library, machine: Mutex::new(()) });
    Ok(launches.into_iter().map(|launch| Kernel { launch, unit: unit.clone() }).collect())
}

/// Whether there is a C++ compiler.
pub(crate) fn has_compiler() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| Command::new("g++").arg("--version").output().is_ok_and(|o| o.status.success()))
}

fn run_compiler(source: &Path, library: &Path) -> Result<(), String> {
    let flags = [
        "-std=c++17",
        "-Og",
        "-march=native",
        "-ffp-contract=off",
        "-fPIC",
        "-shared",
        "-w",
        "-fno-strict-aliasing",
        // A GPU faults on a misaligned load, but a processor does not, so alignment is checked.
        "-fsanitize=alignment",
        "-fno-sanitize-recover=alignment",
        // Libraries that are loaded at the same time must not share symbols.
        "-fno-gnu-unique",
    ];
    let made =
        Command::new("g++").args(flags).arg("-o").arg(library).arg(source).output().map_err(|e| format!("g++: {e}"))?;
    if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
}

/// The unit: the machine, then each kernel in a namespace with a function that launches it.
fn source(texts: &[Arc<Text>]) -> String {
    let mut out =
        format!("static const unsigned long STACK = {STACK};\nstatic const unsigned MOST_THREADS = {MOST_THREADS};\n");
    out += concat!(include_str!("machine.h"), include_str!("tensor.h"));
    for (n, text) in texts.iter().enumerate() {
        let kernel = text
            .source
            .replace(MACHINE, "")
            .replace(TENSOR, "")
            // Two kernels of a unit may have one name.
            .replace("extern \"C\" __global__", "static __global__")
            .replace("extern __shared__ uint4 dynamic[];", "uint4* dynamic = emulated_shared;");
        let _ = writeln!(out, "\nnamespace kernel_{n} {{\n#line 1 \"{}\"\n{kernel}", text.entry);
        for name in defined(&kernel) {
            let _ = writeln!(out, "#undef {name}");
        }
        let args: Vec<String> = (0..text.access.len()).map(|i| format!("emulated_args[{i}]")).collect();
        let _ = writeln!(
            out,
            "static void** emulated_args;\nstatic void emulated_call() {{ {}({}); }}\n\
             extern \"C\" void launch_{n}(void** args, u32 groups, char* stacks) {{\n\
             static u32 time;\nemulated_args = args, ::launch(emulated_call, time++, groups, {}, {}, stacks);\n}}\n}}",
            text.entry,
            args.join(", "),
            text.workgroup,
            text.shared,
        );
    }
    out
}

/// Names that a text defines for the preprocessor.
fn defined(text: &str) -> BTreeSet<&str> {
    let defines =
        text.lines().filter_map(|line| line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define "));
    let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    defines.filter_map(|rest| rest.trim_start().split(is_other).next()).collect()
}
