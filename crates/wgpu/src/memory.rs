//! Buffers: weights, states, slots, the words of the batch, pending tokens, and the ring of outputs.

use onetrip_ir::device::{DeviceError, WeightData};
use wgpu::{Buffer, BufferUsages};

/// Number of sequences for which the buffer of pending tokens has space.
pub const PENDING_TOKEN: u64 = 16_384;
/// Bytes of weights in one submission of an upload. At most two such submissions are under way, which bounds the memory of the
/// driver's staging copies.
const UPLOAD: usize = 32 << 20;
/// Number of threads that write such a chunk together, each at least [`SHARE`] bytes. Several threads are faster because each
/// waits for the pages of a mapped file one by one.
const WRITERS: usize = 4;
/// See [`WRITERS`].
const SHARE: usize = 1 << 20;

/// Allocates buffers; an error names the buffer that could not be allocated.
pub struct Memory {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub name: String,
    pub binding: u64,
}

impl Memory {
    fn error(&self, asked: u64, what: &str) -> DeviceError {
        DeviceError::Memory { device: self.name.clone(), asked, what: what.into() }
    }

    /// A zeroed buffer that kernels can bind. Its size is rounded up to a multiple of 16 bytes, the size of the widest load.
    pub fn storage(&self, what: &str, bytes: u64) -> Result<Buffer, DeviceError> {
        let bytes = bytes.max(16).next_multiple_of(16);
        if bytes > self.binding {
            let (device, what) = (self.name.clone(), what.into());
            return Err(DeviceError::Binding { device, what, asked: bytes, most: self.binding });
        }
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        self.buffer(what, bytes, usage)
    }

    /// A buffer of `bytes` bytes for `usage`; `what` names it in the error.
    pub fn buffer(&self, what: &str, bytes: u64, usage: BufferUsages) -> Result<Buffer, DeviceError> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let valid = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let descriptor = wgpu::BufferDescriptor { label: Some(what), size: bytes, usage, mapped_at_creation: false };
        let made = self.device.create_buffer(&descriptor);
        let errors = [pollster::block_on(valid.pop()), pollster::block_on(memory.pop())];
        if errors.iter().any(|e| e.is_some()) { Err(self.error(bytes, what)) } else { Ok(made) }
    }

    /// Uploads weights to buffers of their own. Each weight is dropped when it has been copied. While one chunk crosses the
    /// bus, the next is written to staging memory.
    pub fn upload(&self, weights: &mut dyn Iterator<Item = WeightData>) -> Result<Vec<Buffer>, DeviceError> {
        let (mut buffers, mut written, mut last) = (vec![], 0, None);
        for weight in weights {
            let bytes = (*weight).as_ref();
            let buffer = self.storage("a weight", bytes.len() as u64)?;
            for (i, part) in bytes.chunks(UPLOAD).enumerate() {
                self.write_together(&buffer, (i * UPLOAD) as u64, part);
                written += part.len();
                if written >= UPLOAD {
                    written = 0;
                    let before = last.replace(self.queue.submit([]));
                    let wait =
                        before.map(|index| wgpu::PollType::Wait { submission_index: Some(index), timeout: None });
                    // An error here is reported by the next call that asks for errors.
                    let _ = wait.map(|wait| self.device.poll(wait));
                }
            }
            buffers.push(buffer);
        }
        self.queue.submit([]);
        Ok(buffers)
    }

    /// Writes many bytes, with up to [`WRITERS`] threads.
    fn write_together(&self, buffer: &Buffer, at: u64, bytes: &[u8]) {
        let writers = std::thread::available_parallelism().map_or(1, |n| n.get().min(WRITERS));
        let share = bytes.len().div_ceil(writers).max(SHARE).next_multiple_of(4);
        std::thread::scope(|scope| {
            for (i, part) in bytes.chunks(share).enumerate().rev() {
                let write = move || self.write(buffer, at + (i * share) as u64, part);
                // This thread writes the first share, and each share for which the system starts no thread.
                if i == 0 || std::thread::Builder::new().spawn_scoped(scope, write).is_err() {
                    write();
                }
            }
        });
    }

    /// Writes bytes at offset `at`, padded with zeros to whole 32-bit words.
    pub fn write(&self, buffer: &Buffer, at: u64, bytes: &[u8]) {
        let whole = bytes.len() & !3;
        if whole > 0 {
            self.queue.write_buffer(buffer, at, &bytes[..whole]);
        }
        if whole < bytes.len() {
            let mut word = [0; 4];
            word[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.queue.write_buffer(buffer, at + whole as u64, &word);
        }
    }

    /// Copies `bytes` bytes, rounded up to whole 32-bit words, from the beginning of one buffer to the beginning of another.
    pub fn copy(&self, from: &Buffer, to: &Buffer, bytes: u64) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(from, 0, to, 0, bytes.next_multiple_of(4));
        self.queue.submit([encoder.finish()]);
    }

    /// Reads bytes back to the host, after it has waited for all submitted work.
    pub fn read(&self, buffer: &Buffer, at: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
        let size = bytes.next_multiple_of(4);
        if size == 0 {
            return Ok(vec![]);
        }
        let back = self.buffer("a copy to read", size, BufferUsages::MAP_READ | BufferUsages::COPY_DST)?;
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, at, &back, 0, size);
        self.queue.submit([encoder.finish()]);
        back.map_async(wgpu::MapMode::Read, .., |_| {});
        let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
        let failed = |why: String| DeviceError::Failed { device: self.name.clone(), at: String::new(), why };
        let view = back.get_mapped_range(..).map_err(|e| failed(e.to_string()))?;
        Ok(view[..bytes as usize].to_vec())
    }
}
