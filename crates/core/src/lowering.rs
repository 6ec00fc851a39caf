//! An op's answer for a kernel language, and the site it answers for.

use std::sync::Arc;

use onetrip_ir::cpu::call::CpuCall;
use onetrip_ir::cpu::scratch::Scratch;
use onetrip_ir::expr::Expr;
use onetrip_ir::kernel::{Arg, Code, Cost, Launch, Text};
use onetrip_ir::kernel_id::KernelId;
use onetrip_ir::plan::Rejected;
use onetrip_ir::target::{Compute, RowBucket, Target};
use onetrip_ir::tensor::Sig;

/// Everything an op may look at when it chooses a kernel or counts its cost.
#[derive(Clone, Debug)]
pub struct OpSite {
    /// Signatures of the inputs.
    pub ins: Vec<Sig>,
    /// Signatures of the outputs.
    pub outs: Vec<Sig>,
    /// The row bucket that the plan is built for.
    pub bucket: RowBucket,
    /// Every sequence has exactly one token, so that row i belongs to sequence i.
    pub one_each: bool,
    /// Precision of activations.
    pub compute: Compute,
    /// The kernel language and the device's capabilities.
    pub target: Target,
}

impl OpSite {
    /// The cost of reading all inputs once and writing all outputs once, with this many flops.
    pub fn streams(&self, flops: Expr) -> Cost {
        let sum = |sigs: &[Sig]| sigs.iter().fold(Expr::Const(0), |a, s| a + s.bytes());
        Cost { read: sum(&self.ins), written: sum(&self.outs), flops }
    }
}

/// An op's answer for a kernel language.
pub enum Lowering {
    /// Launches in order, with the sizes in bytes of the scratch slots they share.
    Steps {
        /// The launches.
        launches: Vec<Launch>,
        /// Bytes of each scratch slot.
        scratch: Vec<Expr>,
        /// The faster kernels that do not serve the site, in order of preference.
        rejected: Vec<Rejected>,
    },
    /// There is no kernel at this site, for this reason.
    Gap(&'static str),
}

impl Lowering {
    /// Launches with their scratch slots, of an op that has no other kernel here.
    pub fn steps(launches: Vec<Launch>, scratch: Vec<Expr>) -> Lowering {
        Lowering::Steps { launches, scratch, rejected: vec![] }
    }

    /// What was chosen, with the rejections of the candidates before it, or the gap.
    pub fn selected(chosen: Result<(Lowering, Vec<Rejected>), &'static str>) -> Lowering {
        match chosen {
            Ok((Lowering::Steps { launches, scratch, .. }, rejected)) => {
                Lowering::Steps { launches, scratch, rejected }
            }
            Ok((gap, _)) => gap,
            Err(why) => Lowering::Gap(why),
        }
    }

    /// Whether there is a kernel.
    pub fn is_there(&self) -> bool {
        matches!(self, Lowering::Steps { .. })
    }

    /// A lowering that is one launch of a text kernel, with the given cost.
    pub fn text(kernel: impl Into<KernelId>, args: Vec<Arg>, grid: Expr, cost: Cost, text: Text) -> Lowering {
        debug_assert_eq!(args.len(), text.access.len());
        let code = Code::Text(Arc::new(text));
        Lowering::Steps {
            launches: vec![Launch { kernel: kernel.into(), code, args, grid, grain: 1, cost, grid_syncs: 0 }],
            scratch: vec![],
            rejected: vec![],
        }
    }

    /// A lowering that is one launch of CPU code, with the given cost. Its arguments are all inputs, then all outputs.
    pub fn one(
        site: &OpSite,
        kernel: impl Into<KernelId>,
        grid: Expr,
        grain: usize,
        cost: Cost,
        code: impl Fn(&CpuCall, &mut Scratch) + Send + Sync + 'static,
    ) -> Lowering {
        let args = (0..site.ins.len()).map(Arg::In).chain((0..site.outs.len()).map(Arg::Out)).collect();
        let code = Code::Cpu(Arc::new(code));
        Lowering::Steps {
            launches: vec![Launch { kernel: kernel.into(), code, args, grid, grain, cost, grid_syncs: 0 }],
            scratch: vec![],
            rejected: vec![],
        }
    }
}
