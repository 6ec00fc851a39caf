//! The weights of a model: found by GGUF's names whatever the file, and made ready in the layout that the plans want.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onetrip_core::cpu_mem::AlignedBytes;
use onetrip_core::device::WeightData;
use onetrip_core::formats::DType;
use onetrip_core::plan::Layouts;
use onetrip_core::selftest::repack;
use onetrip_core::tensor::{Layout, Role, Sig};

use crate::files::{FileError, Kind, ModelFile, TensorInfo};

/// Called while weights are made ready: bytes done, bytes in all.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

struct Entry {
    tensor: TensorInfo,
    stored: DType,
    dtype: DType,
    rows: usize,
    width: usize,
}

/// The list of weights that graphs name by index. It grows while the first graph is built.
pub struct Weights {
    file: Arc<ModelFile>,
    arch: String,
    plus_one: bool,
    requantize: Option<DType>,
    entries: Vec<Entry>,
    by_name: HashMap<String, Option<usize>>,
}

/// A weight as it lies in the file's memory map.
struct Mapped {
    file: Arc<ModelFile>,
    tensor: TensorInfo,
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.file.data(&self.tensor)
    }
}

impl Weights {
    /// No weights yet. `requantize` is the type matrices are converted to, where their width allows it; `plus_one`
    /// says that norm weights are stored less one.
    pub fn new(file: Arc<ModelFile>, arch: &str, plus_one: bool, requantize: Option<DType>) -> Weights {
        let (entries, by_name) = Default::default();
        Weights { file, arch: arch.into(), plus_one, requantize, entries, by_name }
    }

    /// The file they are from.
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// Index and signature of a weight by GGUF's name, if the file has it.
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

    /// Like `find`; an error if the file does not have it.
    pub fn get(&mut self, name: &str) -> Result<(usize, Sig), FileError> {
        match self.find(name)? {
            Some(found) => Ok(found),
            None => Err(self.file.require(&self.name_in_file(name)).err().unwrap_or_else(|| {
                // `find` looked for the same name: this cannot be reached, and is an error all the same.
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
            // Single rows (norms, biases) are small and are read as f32.
            _ if tensor.dims.len() < 2 => DType::F32,
            Some(wanted) if wanted.row_bytes(width).is_some() => wanted,
            _ => stored,
        };
        self.entries.push(Entry { tensor, stored, dtype, rows, width });
        Ok(Some(self.entries.len() - 1))
    }

    fn sig(&self, index: usize) -> Sig {
        let e = &self.entries[index];
        Sig { rows: e.rows.into(), width: e.width, dtype: e.dtype, role: Role::Weight(Layout::Stored) }
    }

    /// The numbers of a weight of one row (rotary divisors).
    pub fn row(&self, index: usize) -> Vec<f32> {
        let e = &self.entries[index];
        let mut out = vec![0.0; e.rows * e.width];
        e.stored.def().dequantize(self.file.data(&e.tensor), &mut out);
        out
    }

    /// Bytes of all weights as computed with, in the stored layout.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|e| (e.rows * e.dtype.row_bytes(e.width).unwrap_or(0)) as u64).sum()
    }

    /// Makes all weights ready: mapped where they can stay as they lie, else converted on `threads` threads, the
    /// file's pages given back tensor by tensor.
    pub fn load(&self, layouts: &Layouts, threads: usize, progress: Progress) -> Vec<WeightData> {
        let total = self.entries.iter().map(|e| e.tensor.bytes).sum();
        let done = AtomicUsize::new(0);
        let one = |(index, e): (usize, &Entry)| -> WeightData {
            let layout = layouts.get(&index).copied().unwrap_or(Layout::Stored);
            let data = self.make(e, layout, threads);
            let now = done.fetch_add(e.tensor.bytes, Ordering::Relaxed) + e.tensor.bytes;
            progress(now, total);
            data
        };
        self.entries.iter().enumerate().map(one).collect()
    }

    fn make(&self, e: &Entry, layout: Layout, threads: usize) -> WeightData {
        let stored = self.file.data(&e.tensor);
        if e.tensor.dims.len() < 2 {
            let mut numbers = vec![0.0; e.rows * e.width];
            e.stored.def().dequantize(stored, &mut numbers);
            if self.plus_one && e.tensor.name.ends_with("norm.weight") {
                numbers.iter_mut().for_each(|x| *x += 1.0);
            }
            return Arc::new(AlignedBytes::copy_of(bytemuck::cast_slice(&numbers)));
        }
        if layout == Layout::Stored && e.dtype == e.stored {
            return Arc::new(Mapped { file: self.file.clone(), tensor: e.tensor.clone() });
        }
        let out = convert(e, stored, layout, threads);
        self.file.release(&e.tensor);
        Arc::new(out)
    }
}

/// A matrix in another type, layout, or both.
fn convert(e: &Entry, stored: &[u8], layout: Layout, threads: usize) -> AlignedBytes {
    let (from, to) = (e.stored.row_bytes(e.width).unwrap_or(1), e.dtype.row_bytes(e.width).unwrap_or(1));
    let unit_out = match layout {
        Layout::Stored => 16 * to,
        Layout::Tile16 => onetrip_core::tensor::tile_layout(e.dtype, e.width).map_or(16 * to, |t| t.tile_bytes()),
    };
    let total = match layout {
        Layout::Stored => e.rows * to,
        Layout::Tile16 => e.rows.div_ceil(16) * unit_out,
    };
    let mut out = AlignedBytes::zeroed(total);
    let units = e.rows.div_ceil(16);
    let share = units.div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let parts = stored.chunks(share * 16 * from).zip(out.as_mut().chunks_mut(share * unit_out));
        for (rows, out) in parts {
            scope.spawn(move || {
                let mut numbers = vec![0.0; e.width];
                let mut again = vec![0; 16 * to];
                for (rows, out) in rows.chunks(16 * from).zip(out.chunks_mut(unit_out)) {
                    let mut rows_in_type = rows;
                    if e.dtype != e.stored {
                        for (row, to) in rows.chunks_exact(from).zip(again.chunks_exact_mut(to)) {
                            e.stored.def().dequantize(row, &mut numbers);
                            e.dtype.def().quantize(&numbers, to);
                        }
                        rows_in_type = &again[..rows.len() / from * to];
                    }
                    match layout {
                        Layout::Stored => out.copy_from_slice(rows_in_type),
                        Layout::Tile16 => {
                            if let Some(tile) = repack(e.dtype, e.width, rows_in_type.len() / to, rows_in_type) {
                                out.copy_from_slice(tile.as_ref());
                            }
                        }
                    }
                }
            });
        }
    });
    out
}

/// Hugging Face's name of a tensor that GGUF calls `name`.
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
