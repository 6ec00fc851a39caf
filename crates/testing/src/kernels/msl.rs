//! The MSL of some kernels in a short form: the signature, the bindings, the workgroup size and a hash of the text. The text
//! itself is written to the target folder, by `cargo xtask docs` and by a test that finds a different text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtest_mimic::Failed;
use naga::common::wgsl::{TryToWgsl as _, TypeContext as _};
use naga::{AddressSpace, Binding, Module, StorageAccess};
use onetrip_ir::kernel::Text;
use onetrip_ir::target::WgslCaps;
use sha2::{Digest as _, Sha256};

use crate::wgpu::{texts_of, translated};

/// The head of the table.
const HEAD: &str = "\
What Metal gets of the hot kernels: naga's translation of each to MSL. Written by `cargo xtask docs`, which writes the texts
below target/msl, too; a test compares. The hash is of the text: with another one, read the old and the new text.
";

/// A kernel translated to MSL.
pub struct Kernel {
    name: String,
    /// Its lines in the table.
    block: String,
    /// The MSL.
    text: String,
}

impl Kernel {
    fn new(name: String, case: &str, text: &Text) -> Result<Kernel, Failed> {
        let (_, msl) = translated(text, true)?;
        let lines: Vec<&str> = msl.lines().map(str::trim_end).collect();
        let mut module = naga::front::wgsl::parse_str(&text.source)?;
        naga::compact::compact(&mut module, naga::compact::KeepUnused::No);
        let msl = format!("{}\n", lines.join("\n"));
        let hash = Sha256::digest(msl.as_bytes()).iter().fold(String::new(), |hash, byte| format!("{hash}{byte:02x}"));
        let mut block = format!("\n{name}, as for the case \"{case}\"\n{}", signature(&module));
        writeln!(block, "  MSL        {} lines, SHA-256 {hash}", lines.len())?;
        Ok(Kernel { name, block, text: msl })
    }

    /// Writes the text to a file of the folder, and gives its path.
    pub fn write_text(&self, folder: &Path) -> std::io::Result<PathBuf> {
        let path = folder.join(format!("{}.metal", self.name.replace('/', ".")));
        std::fs::create_dir_all(folder)?;
        std::fs::write(&path, &self.text)?;
        Ok(path)
    }
}

/// The kernels of these names; for each one the shortest text among the op's cases.
pub fn kernels(wanted: &[(&str, &str)]) -> Result<Vec<Kernel>, Failed> {
    let mut shortest: BTreeMap<String, (String, Arc<Text>)> = BTreeMap::new();
    for (op, hot) in wanted {
        for (kernel, case, text) in texts_of(op, &[WgslCaps::default()]) {
            let is_shorter = |(_, have): &(String, Arc<Text>)| text.source.len() < have.source.len();
            if kernel == *hot && shortest.get(&kernel).is_none_or(is_shorter) {
                shortest.insert(kernel, (case, text));
            }
        }
    }
    if shortest.len() < wanted.len() {
        return Err(format!("of {wanted:?} there are only {:?}", shortest.keys()).into());
    }
    shortest.into_iter().map(|(name, (case, text))| Kernel::new(name, &case, &text)).collect()
}

/// The interface of the kernel: its entry point, the workgroup size, and the binding of each operand.
fn signature(module: &Module) -> String {
    let types = module.to_ctx();
    let mut out = String::new();
    for entry in &module.entry_points {
        let arguments = entry.function.arguments.iter().map(|argument| {
            let from = match &argument.binding {
                Some(Binding::BuiltIn(builtin)) => builtin.to_wgsl_for_diagnostics(),
                _ => "no built-in value".into(),
            };
            format!("{}: {} = {from}", argument.name.as_deref().unwrap_or("_"), types.type_to_string(argument.ty))
        });
        let _ = writeln!(out, "  entry      {}({})", entry.name, arguments.collect::<Vec<_>>().join(", "));
        let [x, y, z] = entry.workgroup_size;
        let shared = module.global_variables.iter().filter(|(_, g)| g.space == AddressSpace::WorkGroup);
        let bytes: u32 = shared.map(|(_, g)| module.types[g.ty].inner.size(types)).sum();
        let _ = writeln!(out, "  workgroup  {x} x {y} x {z} invocations, {bytes} bytes of memory");
    }
    let mut bound: Vec<_> =
        module.global_variables.iter().filter_map(|(_, g)| Some((g.binding.as_ref()?, g))).collect();
    bound.sort_by_key(|(at, _)| (at.group, at.binding));
    for (at, global) in bound {
        let access = match global.space {
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => "read and written".into(),
            AddressSpace::Storage { .. } => "read".into(),
            other => format!("{other:?}"),
        };
        let (name, ty) = (global.name.as_deref().unwrap_or("_"), types.type_to_string(global.ty));
        let _ = writeln!(out, "  binding {}  {name}: {ty}, {access}", at.binding);
    }
    out
}

/// The whole table.
pub fn table(kernels: &[Kernel]) -> String {
    kernels.iter().fold(HEAD.to_string(), |table, kernel| table + &kernel.block)
}

/// Compares a committed table with the kernels. The text of each kernel that differs is written to the folder.
pub fn compare(committed: &str, kernels: &[Kernel], folder: &Path) -> Result<(), String> {
    let committed = committed.replace("\r\n", "\n");
    if committed == table(kernels) {
        return Ok(());
    }
    let mut wrong = vec![];
    for kernel in kernels.iter().filter(|kernel| !committed.contains(&kernel.block)) {
        let path = kernel.write_text(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        wrong.push(format!(
            "{} is not as committed; its MSL is now {}, its lines of the table are:\n{}",
            kernel.name,
            path.display(),
            kernel.block
        ));
    }
    if wrong.is_empty() {
        wrong.push("the table has other lines than those of its kernels\n".into());
    }
    Err(format!("{}run `cargo xtask docs` and commit", wrong.concat()))
}

/// The folder for the texts: `msl` in cargo's target folder.
pub fn folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(Path::to_path_buf);
    target.unwrap_or_else(|| super::root().join("target")).join("msl")
}

/// A table with a changed hash, workgroup size or binding, or with a kernel missing or added, fails the comparison.
pub fn finds() -> Result<(), Failed> {
    let (folder, kernels) = (tempfile::tempdir()?, kernels(&[("rms_norm", "rms_norm/weight")])?);
    let right = table(&kernels);
    compare(&right, &kernels, folder.path())?;
    let last = right.trim_end().chars().last().ok_or("an empty table")?;
    let other_hash = format!("{}{}\n", right.trim_end().trim_end_matches(last), if last == '0' { '1' } else { '0' });
    let wrong = [
        other_hash,
        right.replace("workgroup  ", "workgroup  1"),
        right.replacen(", read\n", ", read and written\n", 1),
        HEAD.to_string(),
    ];
    let path = folder.path().join("rms_norm.weight.metal");
    for table in &wrong {
        let said = compare(table, &kernels, folder.path()).err().ok_or_else(|| format!("passes: {table}"))?;
        if !said.contains(&*path.to_string_lossy()) || std::fs::read_to_string(&path)? != kernels[0].text {
            return Err(format!("no text of the kernel where it says: {said}").into());
        }
        std::fs::remove_file(&path)?;
    }
    match compare(&format!("{right}\nanother/kernel\n"), &kernels, folder.path()) {
        Ok(()) => Err("a table with a kernel that is gone passes".into()),
        Err(_) => Ok(()),
    }
}
