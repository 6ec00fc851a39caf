//! Barriers between the dispatches of a tick. On the CPU they are fork–join barriers of the thread pool and on CUDA dependency
//! edges, one for each dispatch. On wgpu they are the barriers that its resource tracker inserts; these are *modelled* here,
//! because no counter sees them at run time.
//!
//! The tracker of wgpu follows each buffer as a whole through a compute pass. It puts one barrier for all buffers before a
//! dispatch if the previous use of one of the dispatch's buffers in this pass was a write, or if the dispatch writes a buffer
//! that the pass has used before. The first dispatch of a pass has a barrier too, because the step batch is written anew for
//! every tick.

use super::{BufRef, Plan};
use crate::kernel::{Access, Code};
use crate::target::Target;

impl Plan {
    /// Number of barriers of one tick that is one compute pass.
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
            // No dispatch writes a weight, so weights need no barrier.
            let buffers = d.args.iter().zip(&text.access).filter(|(arg, _)| !matches!(arg, BufRef::Weight(_)));
            for (arg, access) in buffers {
                let writes = *access != Access::Read;
                // A dispatch has at most one barrier, however many of its buffers need one.
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
