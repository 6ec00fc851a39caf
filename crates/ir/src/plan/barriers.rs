//! Barriers between the dispatches of a tick: on the CPU fork–join barriers of the thread pool and on CUDA dependency edges, one a
//! dispatch; through wgpu the barriers that its resource tracker inserts, which are *modelled* here: no counter sees them at run time.
//!
//! wgpu follows every buffer as a whole through a pass. Before a dispatch it waits once, for all buffers together, if any of
//! the dispatch's buffers was written since its last use in the pass, or is written now and was used in the pass. What a
//! pass begins with waits once more, for what was before it: the step batch is written anew for every tick.

use super::{BufRef, Plan};
use crate::kernel::{Access, Code};
use crate::target::Target;

impl Plan {
    /// Waits between dispatches, in one tick that is one pass.
    pub fn barriers(&self) -> u64 {
        if !matches!(self.ctx.target, Target::Wgsl(_)) {
            return self.dispatches.len() as u64;
        }
        let mut used: Vec<(BufRef, bool)> = vec![];
        let mut barriers = u64::from(!self.dispatches.is_empty());
        for d in &self.dispatches {
            let Some(Code::Text(text)) = &d.code else { continue };
            let before = used.len();
            let mut waits = false;
            // Nobody writes weights.
            let buffers = d.args.iter().zip(&text.access).filter(|(arg, _)| !matches!(arg, BufRef::Weight(_)));
            for (arg, access) in buffers {
                let writes = *access != Access::Read;
                // What this dispatch does with a buffer twice, it does once.
                match used.iter_mut().find(|(buffer, _)| buffer == arg) {
                    None => used.push((*arg, writes)),
                    Some((_, written)) => {
                        waits |= writes || *written;
                        *written = writes;
                    }
                }
            }
            barriers += u64::from(waits && before > 0);
        }
        barriers
    }
}
