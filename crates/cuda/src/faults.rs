//! What to say when the GPU refuses or fails.

use super::*;

impl CudaDevice {
    /// What the driver refused, and what to do about it.
    pub(crate) fn failed(&self, e: DriverError) -> DeviceError {
        let hint = match e.kind {
            Kind::Memory => format!(
                "; {}: use a smaller --context, --batch or model, or end what else uses the GPU",
                self.memory_in_words()
            ),
            // Launches are not waited for, so the driver tells of a fault at any later call.
            Kind::Fatal if !self.options.sync => format!(
                "; a kernel failed in this tick or in one before it, and nothing on the GPU can be used any more: run the \
                 same again with {}, which waits behind every launch and names the dispatch",
                "ONETRIP_CUDA_LAUNCH=serial,sync"
            ),
            Kind::Fatal => "; nothing on the GPU can be used any more: please report this with the command".into(),
            Kind::Other => String::new(),
        };
        DeviceError::Failed { device: self.name.clone(), at: String::new(), why: format!("{e}{hint}") }
    }

    /// Memory for something, or why not.
    pub(crate) fn allocate(&self, bytes: u64, what: &str) -> Result<Memory, DeviceError> {
        self.gpu.memory(bytes).map_err(|e| match e.kind {
            Kind::Memory => {
                let what = format!("{what} ({})", self.memory_in_words());
                DeviceError::Memory { device: self.name.clone(), asked: bytes, what }
            }
            _ => self.failed(e),
        })
    }

    fn memory_in_words(&self) -> String {
        memory_in_words(self.gpu.free_memory(), self.properties.memory)
    }
}

/// What is free; where much is not, that another program may have it.
fn memory_in_words(free: u64, all: u64) -> String {
    let gb = |bytes: u64| bytes as f64 / 1e9;
    format!("{:.1} GB of its {:.1} GB are free, the rest is in use by this and other programs", gb(free), gb(all))
}
