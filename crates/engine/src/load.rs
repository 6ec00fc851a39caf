//! Loads a model on a device: checks that there is memory for its weights and caches, then allocates and fills them.

use std::collections::{HashMap, VecDeque};

use onetrip_ir::device::Device;
use onetrip_ir::tensor::{Role, Sig};

use crate::memory::{self, MemoryError, Need};
use crate::model::Model;
use crate::scheduler::{PAGE_LEN, Scheduler};
use crate::step::{Engine, StepError};
use crate::weights::{LoadError, Progress};

impl Engine {
    /// Loads a model on a device: converts and uploads its weights with `threads` threads, and allocates states for
    /// `sequences` sequences of at most `context` tokens each.
    pub fn load(
        mut model: Model,
        mut device: Box<dyn Device>,
        context: usize,
        sequences: usize,
        threads: usize,
        progress: Progress,
    ) -> Result<Engine, StepError> {
        if context == 0 || sequences == 0 {
            return Err(MemoryError::NoContext.into());
        }
        model.context = context;
        let pages = Scheduler::pages(context, sequences) as u64;
        let state_bytes = |s: &Sig| {
            if s.role == Role::Recurrent {
                return Some((s.row_bytes() as u64).saturating_mul(sequences as u64));
            }
            let row = s.cache().and_then(|c| s.dtype.row_bytes(c.dim).map(|b| (b * c.heads) as u64));
            row.map(|row| row.saturating_mul(pages).saturating_mul(PAGE_LEN as u64))
        };
        let bytes: Option<Vec<u64>> = model.states().iter().map(state_bytes).collect();
        let Some(bytes) = bytes else {
            let (dim, cache) = (model.config.head_dim, model.options.cache);
            return Err(MemoryError::CacheType { dim, cache }.into());
        };
        let caches = bytes.iter().fold(0u64, |a, b| a.saturating_add(*b));
        match device.memory() {
            None => memory::check_host(caches, context, sequences)?,
            Some(have) => {
                let weights = model.weights().device_bytes(model.layouts());
                let need = Need { weights, caches, recurrent: recurrent_bytes(&model, sequences), pages, sequences };
                need.check(have, model.file.name(), device.name())?;
            }
        }
        device.set_states(&bytes)?;
        let loaded = model.weights().load(model.layouts(), threads, progress, &mut *device);
        loaded.map_err(|e| match e {
            LoadError::Device(e) => StepError::Device(e),
            LoadError::Memory(why) => {
                MemoryError::Weights { file: model.file.name().into(), why: why.to_string() }.into()
            }
        })?;
        let vocabulary = model.vocabulary()?;
        let (plans, scheduler) =
            (HashMap::new(), Scheduler::new(context, sequences).recurrent(model.config.recurrent.is_some()));
        let (flights, launches, ticks, top) = (VecDeque::new(), 0, 1, 0);
        Ok(Engine {
            model,
            device,
            plans,
            scheduler,
            flights,
            launches,
            ticks,
            vocabulary,
            context,
            sequences,
            top,
            state_bytes: bytes,
        })
    }
}

/// Bytes of the recurrent states of `sequences` sequences.
fn recurrent_bytes(model: &Model, sequences: usize) -> u64 {
    let rows = model.states().iter().filter(|s| s.role == Role::Recurrent).map(|s| s.row_bytes() as u64);
    rows.sum::<u64>().saturating_mul(sequences as u64)
}
