//! Causal convolution over time, each channel by itself, with what it needs of earlier steps in a recurrent state.
//!
//! `y[t, c] = Σ_i w[c, i] · x[t - (taps - 1) + i, c]`, where rows before the sequence's first one are zeros.
//! Inputs: `x [T, channels]`, `w [channels, taps]`, state `[slot][taps - 1][channels]` (the last inputs, oldest
//! first). Outputs: `[T, channels]`, the state. Source: Mamba (Gu and Dao, 2023), section 3.4.

use super::*;
use crate::formats::DType;
use crate::wgsl::Wgsl;

mod cuda;

/// The op.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Inputs that an output sees: its own and those before it.
    pub taps: usize,
}

/// Most inputs that an output may see.
pub const MAX_TAPS: usize = 16;

/// Channels of a work item.
const CHANNELS: usize = 256;

impl OpDef for Conv {
    const NAME: &'static str = "conv";

    fn ggml(&self) -> &'static str {
        "SSM_CONV"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 3)?;
        self.check(&ins[0], &ins[1], &ins[2])?;
        Ok(vec![Sig::slot(ins[0].rows.clone(), ins[0].width), ins[2].clone()])
    }

    fn meaning(&self) -> Meaning {
        let taps = self.taps;
        Meaning::Direct(Box::new(move |c| {
            let (x, w, state) = (c.input(0).clone(), c.input(1).clone(), c.state(2));
            let width = x.width;
            let mut out = vec![0f32; x.data.len()];
            for span in c.batch.seqs.clone() {
                let slot = span.slot as usize;
                let mut rows = c.states[state].get(slot, 0, 0);
                if span.begins() {
                    rows.fill(0.0);
                }
                let (start, count) = (span.start as usize, span.count as usize);
                rows.extend_from_slice(&x.data[start * width..(start + count) * width]);
                for (t, ch) in (0..count).flat_map(|t| (0..width).map(move |ch| (t, ch))) {
                    let sum: f64 = (0..taps).map(|i| w.row(ch)[i] as f64 * rows[(t + i) * width + ch] as f64).sum();
                    out[(start + t) * width + ch] = sum as f32;
                }
                let kept = rows.len() - (taps - 1) * width;
                c.states[state].set(slot, 0, 0, &rows[kept..]);
            }
            c.output(0).copy_from_slice(&out);
        }))
    }

    fn cost(&self, site: &Site) -> Cost {
        let (x, w) = (&site.ins[0], &site.ins[1]);
        let state = Expr::S * site.ins[2].row_bytes();
        Cost::of(
            x.bytes() + w.bytes() + state.clone(),
            site.outs[0].bytes() + state,
            Expr::T * (x.width * 2 * self.taps),
        )
    }

    fn cpu(&self, site: &Site) -> Lowering {
        let filter = Filter { taps: self.taps, channels: site.ins[0].width, dtype: site.ins[1].dtype };
        let blocks = filter.channels.div_ceil(CHANNELS);
        Lowering::one(site, "conv/channels", Expr::S * blocks, 1, self.cost(site), move |c, scratch| {
            while let Some(range) = c.items.take() {
                for item in range {
                    let (seq, from) = (item / blocks, item % blocks * CHANNELS);
                    let n = CHANNELS.min(filter.channels - from);
                    let span = &c.batch.seqs[seq];
                    let [taps] = scratch.split_f32([filter.taps * n]);
                    filter.load(c.bytes(1), from, n, taps);
                    for t in 0..span.count as usize {
                        let at = (span.start as usize + t) * filter.channels + from;
                        filter.row(c, (0, 2), seq, t, from, taps, c.write(3, at..at + n));
                    }
                    filter.keep(c, (0, 2), seq, from, n);
                }
            }
        })
    }

    fn cuda(&self, site: &Site) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &Site) -> Lowering {
        if !site.ins[1].dtype.is_float() {
            return Lowering::Gap("a quantized filter has no kernel");
        }
        let channels = site.ins[0].width;
        let mut w = Wgsl::new("conv/channels", 128);
        w.number("TAPS", self.taps);
        w.number("CHANNELS", channels);
        w.read("x", Arg::In(0), site.ins[0].dtype);
        w.read("w", Arg::In(1), site.ins[1].dtype);
        w.bind("state", "f32", Arg::Out(1), Access::ReadWrite);
        w.write("y", Arg::Out(0));
        w.text(include_str!("kernel.wgsl")).lowering(Expr::S * channels.div_ceil(128), self.cost(site))
    }

    fn cases() -> Vec<Case> {
        let x = |w| Sig::slot(Expr::T, w);
        let ins =
            |width, taps| vec![x(width), Sig::weight(width, taps, DType::F32), Sig::recurrent((taps - 1) * width)];
        let mut cases = vec![];
        for (class, (t, s, l)) in [("one", (1, 1, 9)), ("start", (2, 1, 2)), ("few", (7, 3, 9)), ("many", (70, 2, 40))]
        {
            // x and the filter once, three earlier rows a sequence in and out, four multiply-adds a number.
            let case = Case::new(format!("4 taps, {class}"), Conv { taps: 4 }, ins(300, 4), (t, s, l));
            let state = s * 3 * 1200;
            cases.push(case.costs(t * 1200 + 300 * 16 + state, t * 1200 + state, t * 300 * 8));
            cases.push(Case::new(format!("2 taps, {class}"), Conv { taps: 2 }, ins(33, 2), (t, s, l)));
            let mut half = ins(64, 4);
            half[1].dtype = DType::F16;
            cases.push(Case::new(format!("half-precision filter, {class}"), Conv { taps: 4 }, half, (t, s, l)));
        }
        cases
    }
}

impl Conv {
    /// The filter and the state fit x.
    pub(crate) fn check(&self, x: &Sig, w: &Sig, state: &Sig) -> Result<(), ShapeError> {
        let fail = |why: String| Err(ShapeError { op: Self::NAME, why });
        if !(2..=MAX_TAPS).contains(&self.taps) {
            return fail(format!("{} taps, should be 2 to {MAX_TAPS}", self.taps));
        }
        if w.width != self.taps || w.rows.constant() != Some(x.width as u64) || !w.is_weight() {
            let (have, want) = (format!("{}x{}", w.rows, w.width), format!("{}x{}", x.width, self.taps));
            return fail(format!("a filter of {have} for {} channels, should be {want}", x.width));
        }
        if state.role != crate::tensor::Role::Recurrent || state.width != (self.taps - 1) * x.width {
            return fail(format!("a state of {} numbers for {} rows of {}", state.width, self.taps - 1, x.width));
        }
        Ok(())
    }
}

/// The filter as a kernel applies it: also used inside the delta net, on the channels of a head.
#[derive(Clone, Copy)]
pub(crate) struct Filter {
    pub taps: usize,
    pub channels: usize,
    pub dtype: DType,
}

impl Filter {
    /// Turns the filters of `n` channels into one row of `n` for each tap.
    pub fn load(self, weight: &[u8], from: usize, n: usize, out: &mut [f32]) {
        let row_bytes = self.dtype.row_bytes(self.taps).unwrap_or(0);
        let stored = &weight[from * row_bytes..(from + n) * row_bytes];
        if let (DType::F32, Ok(numbers)) = (self.dtype, bytemuck::try_cast_slice::<u8, f32>(stored)) {
            for (i, filter) in numbers.chunks_exact(self.taps).enumerate() {
                filter.iter().enumerate().for_each(|(tap, w)| out[tap * n + i] = *w);
            }
            return;
        }
        let mut one = [0f32; MAX_TAPS];
        for i in 0..n {
            self.dtype.def().dequantize(&stored[i * row_bytes..(i + 1) * row_bytes], &mut one[..self.taps]);
            (0..self.taps).for_each(|tap| out[tap * n + i] = one[tap]);
        }
    }

    /// Row `t` of a sequence's rows in this step, for the channels `from..from + out.len()`. `args` are x and the
    /// state, which is as it was before the step.
    #[allow(clippy::too_many_arguments)]
    pub fn row(
        self,
        c: &CpuCall,
        (x_arg, state_arg): (usize, usize),
        seq: usize,
        t: usize,
        from: usize,
        taps: &[f32],
        out: &mut [f32],
    ) {
        let (span, n) = (&c.batch.seqs[seq], out.len());
        out.fill(0.0);
        for tap in 0..self.taps {
            // Row of the input, counted from the oldest one in the state.
            let row = t + tap;
            let x = match row.checked_sub(self.taps - 1) {
                Some(row) => {
                    let at = (span.start as usize + row) * self.channels + from;
                    &c.f32s(x_arg)[at..at + n]
                }
                None if span.begins() => continue,
                None => {
                    let at = (span.slot as usize * (self.taps - 1) + row) * self.channels + from;
                    bytemuck::cast_slice(c.bytes_at(state_arg, at * 4..(at + n) * 4))
                }
            };
            let w = &taps[tap * n..(tap + 1) * n];
            out.iter_mut().zip(w.iter().zip(x)).for_each(|(o, (w, x))| *o += w * x);
        }
    }

    /// Keeps the last rows of a sequence's channels `from..from + n` for the next step.
    pub fn keep(self, c: &CpuCall, (x_arg, state_arg): (usize, usize), seq: usize, from: usize, n: usize) {
        let span = &c.batch.seqs[seq];
        let (count, old) = (span.count as usize, self.taps - 1);
        let place = |row: usize| (span.slot as usize * old + row) * self.channels + from;
        // Rising order: a row that moves down is read before it is overwritten.
        for row in 0..old {
            let at = place(row);
            let out = c.write(state_arg, at..at + n);
            match (row + count).checked_sub(old) {
                Some(x_row) => {
                    let at = (span.start as usize + x_row) * self.channels + from;
                    out.copy_from_slice(&c.f32s(x_arg)[at..at + n]);
                }
                None if span.begins() => out.fill(0.0),
                None => {
                    let at = place(row + count);
                    out.copy_from_slice(bytemuck::cast_slice(c.bytes_at(state_arg, at * 4..(at + n) * 4)));
                }
            }
        }
    }
}
