//! The weights of a model: found by their GGUF names in files of any format, and converted to the type and layout that the
//! kernels read.

use std::collections::HashMap;
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

use crate::files::{FileError, Kind, ModelFile, TensorInfo};

/// Called while weights are converted and uploaded, with the bytes of the file that are done and the bytes in all.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

struct Entry {
    tensor: TensorInfo,
    stored: DType,
    dtype: DType,
    rows: usize,
    width: usize,
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
    arch: String,
    plus_one: bool,
    requantize: Option<DType>,
    target: Target,
    entries: Vec<Entry>,
    /// For each weight index, the index of its entry in `entries`.
    entry_of: Vec<usize>,
    by_name: HashMap<String, Option<usize>>,
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

impl Weights {
    /// An empty list. Matrices are converted to the type `requantize` where their width is a multiple of its block size.
    /// With `plus_one`, the file stores norm weights minus one, so one is added at load. `target` has the size of the largest
    /// buffer binding.
    pub fn new(file: Arc<ModelFile>, arch: &str, plus_one: bool, requantize: Option<DType>, target: Target) -> Weights {
        let (entries, entry_of, by_name) = Default::default();
        Weights { file, arch: arch.into(), plus_one, requantize, target, entries, entry_of, by_name }
    }

    /// The file that holds the weights.
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// Index and signature of the weight with this GGUF name, if the file has it.
    pub fn find(&mut self, name: &str) -> Result<Option<(usize, Sig)>, FileError> {
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None => {
                let index = self.register(name)?;
                self.by_name.insert(name.into(), index);
                index
            }
        };
        Ok(index.map(|i| (i, self.sig(i))))
    }

    /// Like `find`, but a weight that the file does not have is an error.
    pub fn get(&mut self, name: &str) -> Result<(usize, Sig), FileError> {
        match self.find(name)? {
            Some(found) => Ok(found),
            None => Err(self.file.require(&self.name_in_file(name)).err().unwrap_or_else(|| {
                // `find` has looked for the same name, so `require` fails too; this error is for the case that it does not.
                FileError::tensor(self.file.name(), name, "missing", "fetch or convert the model again")
            })),
        }
    }

    fn name_in_file(&self, name: &str) -> String {
        if self.file.kind() == Kind::Gguf { name.into() } else { hugging_face_name(&self.arch, name) }
    }

    fn register(&mut self, name: &str) -> Result<Option<usize>, FileError> {
        let Some(tensor) = self.file.tensor(&self.name_in_file(name)).cloned() else { return Ok(None) };
        let stored = self.file.dtype(&tensor)?;
        let width = tensor.dims.first().copied().unwrap_or(1) as usize;
        let rows = (tensor.elements() / width as u64) as usize;
        if tensor.dims.len() > 2 {
            let what = format!("has {} dimensions, a matrix has two", tensor.dims.len());
            return Err(FileError::tensor(self.file.name(), name, what, "convert the model again"));
        }
        let dtype = match self.requantize {
            // Single rows (norm weights, biases) are small, and kernels read them as f32.
            _ if tensor.dims.len() < 2 => DType::F32,
            Some(wanted) if wanted.row_bytes(width).is_some() => wanted,
            _ => stored,
        };
        let first = self.entry_of.len();
        let mut e = Entry { tensor, stored, dtype, rows, width, first, shards: 1 };
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
        let total = self.entries.iter().map(|e| e.tensor.bytes).sum();
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
                if self.plus_one && e.tensor.name.ends_with("norm.weight") {
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
        if piece.rows.end == e.rows {
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
        let row = self.e.tensor.bytes / self.e.rows.max(1);
        if self.rows.len() == self.e.rows { 0..self.e.tensor.bytes } else { self.rows.start * row..self.rows.end * row }
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
        if e.tensor.dims.len() < 2 {
            return Make::Row { bytes: e.rows * e.width * 4 };
        }
        let row = e.dtype.row_bytes(e.width).unwrap_or(0);
        match layout {
            Layout::Stored if e.dtype == e.stored => Make::Mapped,
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

/// The name that Hugging Face files give to the tensor with the GGUF name `name`.
fn hugging_face_name(arch: &str, name: &str) -> String {
    let fixed = |name: &str| match name {
        "token_embd.weight" => Some("model.embed_tokens.weight"),
        "output_norm.weight" => Some("model.norm.weight"),
        "output.weight" => Some("lm_head.weight"),
        _ => None,
    };
    if let Some(found) = fixed(name) {
        return found.into();
    }
    let mut parts = name.splitn(3, '.');
    let (Some("blk"), Some(layer), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { return name.into() };
    let (part, kind) = rest.rsplit_once('.').unwrap_or((rest, "weight"));
    let part = match part {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "ffn_norm" if arch == "gemma3" => "pre_feedforward_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        "post_attention_norm" => "post_attention_layernorm",
        "post_ffw_norm" => "post_feedforward_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        other => other,
    };
    format!("model.layers.{layer}.{part}.{kind}")
}

#[cfg(test)]
mod tests {
    use super::hugging_face_name;

    #[test]
    fn names_of_the_two_worlds_meet() {
        let llama = |n| hugging_face_name("llama", n);
        assert_eq!(llama("token_embd.weight"), "model.embed_tokens.weight");
        assert_eq!(llama("blk.12.attn_q.bias"), "model.layers.12.self_attn.q_proj.bias");
        assert_eq!(llama("blk.0.ffn_norm.weight"), "model.layers.0.post_attention_layernorm.weight");
        let gemma = hugging_face_name("gemma3", "blk.0.ffn_norm.weight");
        assert_eq!(gemma, "model.layers.0.pre_feedforward_layernorm.weight");
    }
}
