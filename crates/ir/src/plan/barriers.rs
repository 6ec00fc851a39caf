//! Barriers between the dispatches of a tick. On the CPU they are the fork–join barriers of the thread pool and on CUDA the
//! dependencies between launches: one for each dispatch. Through wgpu they are the barriers that its resource tracker inserts,
//! which are *modelled* here, since no counter reports them at run time.
//!
//! wgpu tracks hazards per whole buffer within a pass. Before a dispatch it inserts one barrier for all buffers together if
//! any of the dispatch's buffers was last written in this pass, or is written now and was used in this pass. The first
//! dispatch of a pass has one barrier more, against the work before the pass: the step batch is written anew for every tick.

use super::{BufRef, Plan};
use crate::kernel::{Access, Code};
use crate::target::Target;

impl Plan {
    /// Barriers between dispatches of a tick that is recorded as one pass.
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
            // No dispatch writes a weight, so a weight never needs a barrier.
            let buffers = d.args.iter().zip(&text.access).filter(|(arg, _)| !matches!(arg, BufRef::Weight(_)));
            for (arg, access) in buffers {
                let writes = *access != Access::Read;
                // A buffer that is bound twice in this dispatch is compared with its own first binding too.
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
