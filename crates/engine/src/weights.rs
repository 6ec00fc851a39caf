//! The weights of a model: found by their GGUF names in files of any format, and converted to the type and layout that the
//! kernels read.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{Mmap, MmapMut};
use onetrip_core::compile::layout::Layouts;
use onetrip_ir::cpu::memory::ALIGN;
use onetrip_ir::device::{Device, DeviceError, WeightData};
use onetrip_ir::formats::DType;
use onetrip_ir::formats::planes::Planes;
use onetrip_ir::target::Target;
use onetrip_ir::tensor::{Layout, Role, Sig, tile_layout};

use crate::config::Config;
use crate::files::{FileError, ModelFile, TensorInfo};

mod names;

pub use names::Dims;
use names::{COMPUTED, Names};

/// Called while weights are converted and uploaded, with the bytes of the file that are done and the bytes in all.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

struct Entry {
    tensor: TensorInfo,
    stored: DType,
    dtype: DType,
    rows: usize,
    width: usize,
    /// First row of the weight in the tensor, and rows of the tensor: a tensor may hold several weights.
    within: (usize, usize),
    /// A single row (norm weights, biases), which kernels read as f32.
    single: bool,
    /// The bytes in the file are aligned for the elements, so that they can be used where they are.
    aligned: bool,
    /// Index of the first shard, as graphs name it; the weight has `shards` consecutive indices.
    first: usize,
    shards: usize,
}

impl Entry {
    fn sig(&self, layout: Layout) -> Sig {
        Sig { rows: self.rows.into(), width: self.width, dtype: self.dtype, role: Role::Weight(layout) }
    }
}

/// The list of weights that graphs name by index. It grows while the first graph is built. A weight that is larger than the
/// largest buffer binding of the device is split by rows into shards, each with its own index.
pub struct Weights {
    file: Arc<ModelFile>,
    names: Names,
    minus_one: bool,
    requantize: Option<DType>,
    target: Target,
    entries: Vec<Entry>,
    /// For each weight index, the index of its entry in `entries`.
    entry_of: Vec<usize>,
    by_name: HashMap<String, Option<usize>>,
    /// The weights that a definition asked for, where there is no file to look them up.
    declared: Option<Declared>,
}

/// What a definition asked for, where there is no file.
#[derive(Default)]
struct Declared {
    /// Names of whole weights and of parts of weights; a weight's index is its place in this list.
    asked: Vec<String>,
    tensors: Vec<(String, Dims)>,
}

/// A weight with its GGUF name and its index.
pub struct Named {
    /// GGUF's name.
    pub name: &'static str,
    /// Index of its first shard.
    pub index: usize,
    /// Its rows and type, before a layout is chosen.
    pub sig: Sig,
}

/// Rows of a weight that are used in place in the memory map of the file; `bytes` is their range in the tensor.
struct Mapped {
    file: Arc<ModelFile>,
    tensor: TensorInfo,
    bytes: Range<usize>,
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.file.data(&self.tensor).get(self.bytes.clone()).unwrap_or_default()
    }
}

impl Declared {
    fn note(&mut self, name: &str, dims: Dims, part: Option<Range<usize>>) -> (usize, Sig) {
        let key = part.as_ref().map_or_else(|| name.into(), |rows| format!("{name}@{}", rows.start));
        if !self.tensors.iter().any(|(n, _)| n == name) {
            self.tensors.push((name.into(), dims));
        }
        let index = self.asked.iter().position(|k| *k == key).unwrap_or_else(|| {
            self.asked.push(key);
            self.asked.len() - 1
        });
        let (rows, width) = dims.wanted();
        let rows = part.map_or(rows.unwrap_or(1), |part| part.len()).into();
        (index, Sig { rows, width, dtype: DType::F32, role: Role::Weight(Layout::Stored) })
    }
}

impl Weights {
    /// An empty list. Matrices are converted to the type `requantize` where their width is a multiple of its block size.
    /// `special` has parts of tensor names that are not the usual ones, in GGUF and in folders of Hugging Face. With
    /// `minus_one`, the file stores norm weights minus one, so one is added at load. `target` has the size of the largest
    /// buffer binding.
    pub fn new(
        file: Arc<ModelFile>,
        special: &'static [(&'static str, &'static str)],
        minus_one: bool,
        requantize: Option<DType>,
        target: Target,
    ) -> Weights {
        let (entries, entry_of, by_name) = Default::default();
        let names = Names::of(&file, special);
        Weights { file, names, minus_one, requantize, target, entries, entry_of, by_name, declared: None }
    }

    /// A list that notes what a definition asks for instead of looking it up: weights that a file may lack are not there.
    /// `file` needs no tensors.
    pub fn declaring(file: Arc<ModelFile>, target: Target) -> Weights {
        Weights { declared: Some(Declared::default()), ..Weights::new(file, &[], false, None, target) }
    }

    /// The weights that a definition asked for, by GGUF's names, in the order in which it asked.
    pub fn declared(&self) -> &[(String, Dims)] {
        self.declared.as_ref().map_or(&[], |declared| &declared.tensors)
    }

    /// The file that holds the weights.
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// Index and signature of the weight with this GGUF name, if the file has it. Other dimensions than `dims` are an error.
    pub fn find(&mut self, name: &str, dims: Dims) -> Result<Option<(usize, Sig)>, FileError> {
        if self.declared.is_some() {
            return Ok(None);
        }
        self.find_rows(name, dims, None)
    }

    /// Index and signature of some rows of the weight with this GGUF name, which has to have the dimensions `dims`: the rows of
    /// a matrix that a file has packed with others.
    pub fn part(&mut self, name: &str, dims: Dims, rows: Range<usize>) -> Result<(usize, Sig), FileError> {
        if let Some(declared) = &mut self.declared {
            return Ok(declared.note(name, dims, Some(rows)));
        }
        match self.find_rows(name, dims, Some(rows))? {
            Some(found) => Ok(found),
            None => self.get(name, dims),
        }
    }

    fn find_rows(
        &mut self,
        name: &str,
        dims: Dims,
        rows: Option<Range<usize>>,
    ) -> Result<Option<(usize, Sig)>, FileError> {
        let key = rows.as_ref().map_or_else(|| name.into(), |rows| format!("{name}@{}", rows.start));
        let index = match self.by_name.get(&key) {
            Some(index) => *index,
            None => {
                let index = self.register(name, dims, rows)?;
                self.by_name.insert(key, index);
                index
            }
        };
        Ok(index.map(|i| (i, self.sig(i))))
    }

    /// Like `find`, but a weight that the file does not have is an error.
    pub fn get(&mut self, name: &str, dims: Dims) -> Result<(usize, Sig), FileError> {
        if let Some(declared) = &mut self.declared {
            return Ok(declared.note(name, dims, None));
        }
        match self.find(name, dims)? {
            Some(found) => Ok(found),
            None => Err(self.file.require(&self.names.in_file(name)).err().unwrap_or_else(|| {
                // `find` has looked for the same name, so `require` fails too; this error is for the case that it does not.
                FileError::tensor(self.file.name(), name, "missing", "fetch or convert the model again")
            })),
        }
    }

    /// The output matrix: the file's own, or the embedding table where the model ties the two.
    pub fn output(&mut self, config: &Config) -> Result<Named, FileError> {
        let (name, dims) = ("output.weight", Dims::embedding(config));
        let own = match config.tied {
            Some(true) => None,
            Some(false) => Some(self.get(name, dims)?),
            None => self.find(name, dims)?,
        };
        if let Some((index, sig)) = own {
            return Ok(Named { name, index, sig });
        }
        let name = "token_embd.weight";
        let (index, sig) = self.get(name, dims)?;
        Ok(Named { name, index, sig })
    }

    /// A tensor of the file that belongs to one of the first `layers` layers and that the definition has not asked for: the
    /// model computes something that the definition does not.
    pub fn unread(&self, layers: usize) -> Option<&str> {
        let read: HashSet<&str> = self.entries.iter().map(|e| e.tensor.name.as_str()).collect();
        let names = self.file.tensors().map(|t| t.name.as_str());
        names.into_iter().find(|name| {
            let inside = self.names.layer(name).is_some_and(|layer| layer < layers);
            inside && !read.contains(name) && !COMPUTED.iter().any(|end| name.ends_with(end))
        })
    }

    fn register(&mut self, name: &str, dims: Dims, part: Option<Range<usize>>) -> Result<Option<usize>, FileError> {
        let Some(tensor) = self.file.tensor(&self.names.in_file(name)).cloned() else { return Ok(None) };
        let stored = self.file.dtype(&tensor)?;
        let Some((all, width)) = dims.of(&tensor.dims) else {
            let found = tensor.dims.iter().rev().map(u64::to_string).collect::<Vec<_>>().join(" × ");
            let what = format!("has the dimensions {found}, where the configuration asks for {}", dims.text());
            let hint = "the weights do not fit the configuration: fetch or convert the model again";
            return Err(FileError::tensor(self.file.name(), &tensor.name, what, hint));
        };
        let single = matches!(dims, Dims::Row(_));
        let dtype = match self.requantize {
            // Single rows (norm weights, biases) are small, and kernels read them as f32.
            _ if single => DType::F32,
            Some(wanted) if wanted.row_bytes(width).is_some() => wanted,
            _ => stored,
        };
        let first = self.entry_of.len();
        let part = part.unwrap_or(0..all);
        let (rows, within) = (part.len(), (part.start, all));
        let aligned = self.file.is_header_only() || self.file.is_aligned(&tensor, stored);
        let mut e = Entry { tensor, stored, dtype, rows, width, within, single, aligned, first, shards: 1 };
        // The layout is chosen later and decides the number of shards, so enough indices for any layout are reserved.
        e.shards = [Layout::Stored, Layout::Planes].map(|l| self.shards(&e, l).len()).into_iter().max().unwrap_or(1);
        self.entry_of.resize(first + e.shards, self.entries.len());
        self.entries.push(e);
        Ok(Some(first))
    }

    fn shards(&self, e: &Entry, layout: Layout) -> Vec<Sig> {
        e.sig(layout).shards(self.target.binding_bytes())
    }

    fn sig(&self, index: usize) -> Sig {
        self.entries[self.entry_of[index]].sig(Layout::Stored)
    }

    /// The elements of a weight of one row (divisors of rotary frequencies), dequantized to f32.
    pub fn row(&self, index: usize) -> Vec<f32> {
        let e = &self.entries[self.entry_of[index]];
        let mut out = vec![0.0; e.rows * e.width];
        e.stored.def().dequantize(self.file.data(&e.tensor), &mut out);
        out
    }

    /// Bytes of all weights in the types in which kernels read them, in the stored layout (without padding of other layouts).
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|e| (e.rows * e.dtype.row_bytes(e.width).unwrap_or(0)) as u64).sum()
    }

    /// Bytes of all weights in their chosen layouts, as a device with its own memory holds them.
    pub fn device_bytes(&self, layouts: &Layouts) -> u64 {
        let bytes = |p: &Piece| p.make.bytes().max(p.mapped().len()) as u64;
        self.pieces(layouts).iter().map(bytes).sum()
    }

    /// One item for every weight index, in order: whole weights, and the shards of large ones.
    fn pieces(&self, layouts: &Layouts) -> Vec<Piece<'_>> {
        let mut pieces = vec![];
        for e in &self.entries {
            let layout = layouts.get(&e.first).copied().unwrap_or(Layout::Stored);
            let mut row = 0;
            for sig in self.shards(e, layout) {
                let rows = row..row + sig.rows.constant().unwrap_or(0) as usize;
                row = rows.end;
                pieces.push(Piece { e, make: Make::of(e, layout, rows.len()), rows });
            }
            // Indices that were reserved for a layout with more shards stay empty.
            for _ in pieces.len()..e.first + e.shards {
                pieces.push(Piece { e, rows: row..row, make: Make::Mapped });
            }
        }
        pieces
    }

    /// Loads all weights on a device. A weight that needs no change is used in place in the memory map of the file; others are
    /// converted with `threads` threads, and the mapped pages of each converted tensor are released. On a device with its own
    /// memory, the next weights are converted while the device copies one.
    pub fn load(
        &self,
        layouts: &Layouts,
        threads: usize,
        progress: Progress,
        device: &mut dyn Device,
    ) -> Result<(), LoadError> {
        let pieces = self.pieces(layouts);
        let total = pieces.iter().map(|piece| piece.stored().len()).sum();
        let mut done = 0;
        if !self.target.is_text() {
            let count = &mut |piece: &Piece| {
                done += piece.stored().len();
                progress(done, total);
            };
            let mut ready = self.make(&pieces, threads, count)?.into_iter();
            return Ok(device.take_weights(&mut ready)?);
        }
        let failed = Mutex::new(None);
        let (send, receive) = std::sync::mpsc::sync_channel(AHEAD);
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| {
                let send = send;
                for piece in pieces.chunks(1) {
                    let made = self.make(piece, threads, &mut |_| ()).map(|mut made| made.pop());
                    let sent = match made {
                        Ok(Some(made)) => send.send((piece[0].stored().len(), made)).is_ok(),
                        Ok(None) => true,
                        Err(e) => {
                            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                            false
                        }
                    };
                    // Either the device has stopped taking weights, or no memory could be allocated for this one.
                    if !sent {
                        return;
                    }
                }
            });
            let mut before = 0;
            let mut ready = receive.into_iter().map(|(bytes, made)| {
                // The device asks for the next weight when it has copied the one before, which counts as done now.
                done += std::mem::replace(&mut before, bytes);
                progress(done, total);
                made
            });
            device.take_weights(&mut ready)
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(e) => Err(e.into()),
            None => Ok(taken?),
        }
    }

    /// Converts the given weights, or maps those that stay in the file; `count` is called after each.
    fn make(
        &self,
        pieces: &[Piece],
        threads: usize,
        count: &mut dyn FnMut(&Piece),
    ) -> std::io::Result<Vec<WeightData>> {
        // All converted weights share one mapping, in huge pages: a step reads every weight once, and with pages of 4 KB it
        // would wait for a TLB miss every 180 ns.
        let mut ends = vec![];
        let mut end = 0usize;
        for piece in pieces {
            end += piece.make.bytes().next_multiple_of(ALIGN);
            ends.push(end);
        }
        let mut arena = MmapMut::map_anon(end.max(1))?;
        #[cfg(target_os = "linux")]
        // The advice fails on systems without huge pages; the mapping then has pages of the usual size.
        let _ = arena.advise(memmap2::Advice::HugePage);
        let mut rest = &mut arena[..];
        for piece in pieces {
            let (out, tail) = std::mem::take(&mut rest).split_at_mut(piece.make.bytes().next_multiple_of(ALIGN));
            rest = tail;
            self.fill(piece, threads, &mut out[..piece.make.bytes()]);
            count(piece);
        }
        let arena = Arc::new(arena.make_read_only()?);
        let ready = pieces.iter().zip(ends).map(|(piece, end)| -> WeightData {
            match piece.make {
                Make::Mapped => {
                    let bytes = piece.mapped();
                    Arc::new(Mapped { file: self.file.clone(), tensor: piece.e.tensor.clone(), bytes })
                }
                _ => {
                    let start = end - piece.make.bytes().next_multiple_of(ALIGN);
                    Arc::new(Made { arena: arena.clone(), range: start..start + piece.make.bytes() })
                }
            }
        });
        Ok(ready.collect())
    }

    fn fill(&self, piece: &Piece, threads: usize, out: &mut [u8]) {
        let e = piece.e;
        let stored = self.file.data(&e.tensor).get(piece.stored()).unwrap_or_default();
        match &piece.make {
            Make::Mapped => return,
            Make::Row { .. } => {
                let mut numbers = vec![0.0; e.rows * e.width];
                e.stored.def().dequantize(stored, &mut numbers);
                if self.minus_one && e.tensor.name.ends_with("norm.weight") {
                    numbers.iter_mut().for_each(|x| *x += 1.0);
                }
                out.copy_from_slice(bytemuck::cast_slice(&numbers));
                return;
            }
            Make::Matrix { layout, unit, .. } => {
                let parts = Parts { unit: [*unit, 0, 0], planes: [out, &mut [], &mut []] };
                convert(e, stored, threads, parts, &|rows, [out, ..], row| match layout {
                    Layout::Tile16 => pack(e, rows, row, out),
                    _ => out.copy_from_slice(rows),
                });
            }
            Make::Planes(planes) => {
                let (quants, rest) = out.split_at_mut(planes.at_scales);
                let (scales, mins) = rest.split_at_mut(planes.at_mins - planes.at_scales);
                let unit = [planes.quant_row(), planes.scale_row(), planes.scale_row()].map(|bytes| 16 * bytes);
                let parts = Parts { unit, planes: [quants, scales, mins] };
                convert(e, stored, threads, parts, &|rows, [a, b, c], _| planes.pack(rows, a, b, c));
            }
        }
        let (at, all) = e.within;
        if at + piece.rows.end == all {
            self.file.release(&e.tensor);
        }
    }
}

/// Number of converted weights that may wait until the device takes them.
const AHEAD: usize = 2;

/// Why weights could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No memory could be allocated for converted weights.
    #[error(transparent)]
    Memory(#[from] std::io::Error),
    /// The device could not allocate or copy the weights.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The rows of one weight index (a whole weight, or one shard of it), and how they are loaded.
struct Piece<'a> {
    e: &'a Entry,
    rows: Range<usize>,
    make: Make,
}

impl Piece<'_> {
    /// The range of bytes of these rows in the stored tensor.
    fn stored(&self) -> Range<usize> {
        let (at, all) = self.e.within;
        let row = self.e.tensor.bytes / all.max(1);
        (at + self.rows.start) * row..(at + self.rows.end) * row
    }

    /// The range of bytes that is used in place in the memory map; empty if the rows are converted.
    fn mapped(&self) -> Range<usize> {
        if matches!(self.make, Make::Mapped) { self.stored() } else { 0..0 }
    }
}

/// A weight that was converted at load: a range of bytes in the mapping that converted weights share.
struct Made {
    arena: Arc<Mmap>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Made {
    fn as_ref(&self) -> &[u8] {
        &self.arena[self.range.clone()]
    }
}

/// How a weight is loaded; `bytes` is its size after conversion.
enum Make {
    /// The weight is used in place in the memory map of the file.
    Mapped,
    /// A single row, converted to f32.
    Row { bytes: usize },
    /// A matrix, converted to another type or layout; `unit` is the number of bytes of 16 rows.
    Matrix { layout: Layout, unit: usize, bytes: usize },
    /// A matrix, converted to planes of quants, scales and mins.
    Planes(Planes),
}

impl Make {
    /// How `rows` rows of the weight `e` are loaded.
    fn of(e: &Entry, layout: Layout, rows: usize) -> Make {
        if e.single {
            return Make::Row { bytes: e.rows * e.width * 4 };
        }
        let row = e.dtype.row_bytes(e.width).unwrap_or(0);
        match layout {
            Layout::Stored if e.dtype == e.stored && e.aligned => Make::Mapped,
            Layout::Stored => Make::Matrix { layout, unit: 16 * row, bytes: rows * row },
            Layout::Tile16 => {
                let unit = tile_layout(e.dtype, e.width).map_or(16 * row, |t| t.tile_bytes());
                Make::Matrix { layout, unit, bytes: rows.div_ceil(16) * unit }
            }
            Layout::Planes => match Planes::new(e.dtype, rows, e.width) {
                Some(planes) => Make::Planes(planes),
                // Not reached: `choose_layouts` chooses planes only for types and widths that have them.
                None => Make::Matrix { layout: Layout::Stored, unit: 16 * row, bytes: rows * row },
            },
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Make::Mapped => 0,
            Make::Row { bytes } | Make::Matrix { bytes, .. } => *bytes,
            Make::Planes(planes) => planes.bytes(),
        }
    }
}

/// The memory to which a converted matrix is written: up to three planes, and for each the number of bytes of 16 rows.
struct Parts<'a> {
    unit: [usize; 3],
    planes: [&'a mut [u8]; 3],
}

impl<'a> Parts<'a> {
    /// Splits off the memory of the next `16 · units` rows in each plane.
    fn take(&mut self, units: usize) -> [&'a mut [u8]; 3] {
        let mut i = 0;
        self.planes.each_mut().map(|plane| {
            let bytes = (self.unit[i] * units).min(plane.len());
            i += 1;
            plane.split_off_mut(..bytes).unwrap_or(&mut [])
        })
    }
}

/// Writes up to 16 rows, already in their new type, into their planes; the last argument is the number of bytes of a row.
type Put<'a> = &'a (dyn Fn(&[u8], [&mut [u8]; 3], usize) + Sync);

/// Converts a matrix to another type, layout, or both, 16 rows at a time. Uses `threads` threads, this one among them, or fewer
/// if the system cannot start as many.
fn convert(e: &Entry, stored: &[u8], threads: usize, parts: Parts, put: Put) {
    let (from, to) = (e.stored.row_bytes(e.width).unwrap_or(1), e.dtype.row_bytes(e.width).unwrap_or(1));
    // The rows are cut into four shares per thread, so that no thread waits long for the slowest one at the end.
    let share = (stored.len() / from).div_ceil(16).div_ceil(threads.max(1) * 4).max(1);
    let unit = parts.unit;
    let rest = Mutex::new((stored.chunks(share * 16 * from), parts));
    let work = || {
        let mut numbers = vec![0.0; e.width];
        let mut again = vec![0; 16 * to];
        loop {
            let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(rows) = rest.0.next() else { return };
            let mut mine = Parts { unit, planes: rest.1.take(share) };
            drop(rest);
            for rows in rows.chunks(16 * from) {
                let mut in_type = rows;
                if e.dtype != e.stored {
                    for (row, to) in rows.chunks_exact(from).zip(again.chunks_exact_mut(to)) {
                        e.stored.def().dequantize(row, &mut numbers);
                        e.dtype.def().quantize(&numbers, to);
                    }
                    in_type = &again[..rows.len() / from * to];
                }
                put(in_type, mine.take(1), to);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Packs at most 16 rows into one tile of the layout `Tile16`.
fn pack(e: &Entry, stored: &[u8], row_bytes: usize, out: &mut [u8]) {
    if let Some(layout) = tile_layout(e.dtype, e.width) {
        let rows: Vec<&[u8]> = stored.chunks_exact(row_bytes).collect();
        layout.pack(&rows, &|block, parts| e.dtype.def().unpack(block, parts), out);
    }
}
