//! The input of one step: a ragged batch of tokens, and the parameters that change from tick to tick.

use crate::expr::Bind;

/// Stands for a token id that the host does not know yet: the id that the sequence sampled last, which is on the device.
pub const PENDING_TOKEN: u32 = u32::MAX;

/// Words of the header of [`StepBatch::words`], before the arrays.
const HEADER: usize = 32;

/// Sampling parameters of one sequence. They are applied in this order: repeat penalty, temperature, top-k, top-p, min-p.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleParams {
    /// 0 takes the best token (greedy).
    pub temperature: f32,
    /// Keep the `k` best tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the smallest set of best tokens whose probability reaches `p`; 1 keeps all.
    pub top_p: f32,
    /// Drop tokens less likely than `min_p` times the best one; 0 drops none.
    pub min_p: f32,
    /// Positive logits of tokens in the history are divided by this, negative ones multiplied; 1 changes nothing.
    pub repeat_penalty: f32,
    /// Seed of the counter-based random numbers: the same seed and position give the same draw on every device.
    pub seed: u64,
    /// Report the log-probability of the token and of the `top` best tokens.
    pub top: u32,
}

impl Default for SampleParams {
    fn default() -> Self {
        SampleParams { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, repeat_penalty: 1.0, seed: 0, top: 0 }
    }
}

/// One sequence of a step batch.
#[derive(Clone, Debug, Default)]
pub struct SeqSpan {
    /// First row of this sequence in the batch.
    pub start: u32,
    /// Rows of this sequence in the batch.
    pub count: u32,
    /// Cached positions after this step.
    pub length: u32,
    /// Page table: entry `i` is the page of the KV cache that holds the positions from `i * page_len` on.
    pub pages: Vec<u32>,
    /// Recurrent slot of this sequence: its row in the recurrent states.
    pub slot: u32,
    /// Sampling parameters for the next token.
    pub sample: SampleParams,
    /// Recent tokens, for the repeat penalty.
    pub history: Vec<u32>,
}

impl SeqSpan {
    /// The sequence's 16 words (see [`StepBatch::words`]); its history is appended to `history`.
    fn words(&self, history: &mut Vec<u32>) -> [u32; 16] {
        let (p, at) = (&self.sample, history.len() as u32);
        history.extend_from_slice(&self.history);
        let (seed_low, seed_high) = (p.seed as u32, (p.seed >> 32) as u32);
        let [temperature, top_p, min_p, penalty] =
            [p.temperature, p.top_p, p.min_p, p.repeat_penalty].map(f32::to_bits);
        let first_chunk = self.is_first_chunk() as u32;
        let (start, count, length, slot, n) =
            (self.start, self.count, self.length, self.slot, self.history.len() as u32);
        [
            start,
            count,
            length,
            slot,
            first_chunk,
            temperature,
            p.top_k,
            top_p,
            min_p,
            penalty,
            seed_low,
            seed_high,
            p.top,
            at,
            n,
            0,
        ]
    }

    /// True if the sequence begins in this step: its recurrent states count as zeros, whatever its slot contains.
    pub fn is_first_chunk(&self) -> bool {
        self.length <= self.count
    }
}

/// One rotary embedding: the frequency of each pair of dimensions, and a factor on cosines and sines.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// Radians per position of each pair of dimensions.
    pub inv_freq: Vec<f32>,
    /// Factor on cosine and sine (YaRN's attention factor; 1 elsewhere).
    pub factor: f32,
}

/// The ragged batch of one step. The tokens of a sequence are adjacent rows with ascending positions.
#[derive(Clone, Debug, Default)]
pub struct StepBatch {
    /// Token id of each row.
    pub ids: Vec<u32>,
    /// Position of each row in its sequence.
    pub positions: Vec<u32>,
    /// Sequence (index into `seqs`) of each row.
    pub seq: Vec<u32>,
    /// The sequences.
    pub seqs: Vec<SeqSpan>,
    /// Rows whose logits are wanted.
    pub logit_rows: Vec<u32>,
    /// Positions in a page of the KV cache.
    pub page_len: u32,
    /// One table for each rotary embedding of the model: `[T][2][pairs]`, for each row its cosines and then its sines.
    pub rope: Vec<Vec<f32>>,
}

impl StepBatch {
    /// The values of the symbols: tokens, sequences, longest context.
    pub fn bind(&self) -> Bind {
        Bind {
            t: self.ids.len() as u64,
            s: self.seqs.len() as u64,
            l: self.seqs.iter().map(|s| s.length as u64).max().unwrap_or(0),
        }
    }

    /// Appends tokens of a sequence to the batch, the first of them at `first_position`, and sets the span's rows and length.
    pub fn push(&mut self, ids: &[u32], first_position: u32, mut span: SeqSpan) {
        span.start = self.ids.len() as u32;
        span.count = ids.len() as u32;
        span.length = first_position + ids.len() as u32;
        for (i, id) in ids.iter().enumerate() {
            self.ids.push(*id);
            self.positions.push(first_position + i as u32);
            self.seq.push(self.seqs.len() as u32);
        }
        self.seqs.push(span);
    }

    /// Fills the rotary tables for the positions of this batch.
    pub fn fill_rope(&mut self, specs: &[RopeSpec]) {
        self.rope.clear();
        for spec in specs {
            let n = spec.inv_freq.len();
            let mut table = vec![0f32; self.positions.len() * 2 * n];
            // Angles are f64, since f32 would lose four digits at positions of 100k. A position is a multiple of 64 plus a
            // rest below 64, and the sines of the sum follow from those of both: a long prompt needs few sines, and a
            // position has the same sines in every batch.
            let turns = |p: u32| spec.inv_freq.iter().map(|&f| (p as f64 * f as f64).sin_cos()).collect::<Vec<_>>();
            let mut small: Vec<Vec<(f64, f64)>> = vec![vec![]; 64];
            let mut large = (0, turns(0));
            for (row, &p) in table.chunks_exact_mut(2 * n.max(1)).zip(&self.positions) {
                let (rest, base) = ((p % 64) as usize, p - p % 64);
                if large.0 != base {
                    large = (base, turns(base));
                }
                if small[rest].is_empty() {
                    small[rest] = turns(rest as u32);
                }
                let (cos, sin) = row.split_at_mut(n);
                for (i, ((s, c), (ds, dc))) in large.1.iter().zip(&small[rest]).enumerate() {
                    cos[i] = (c * dc - s * ds) as f32 * spec.factor;
                    sin[i] = (s * dc + c * ds) as f32 * spec.factor;
                }
            }
            self.rope.push(table);
        }
    }

    /// The batch in words of 32 bits, as text kernels read it (`codegen/cuda/batch.cuh`, `codegen/wgsl/batch.wgsl`):
    ///
    /// | word | contents |
    /// |---|---|
    /// | 0–3 | T, S, L (the longest), positions in a page |
    /// | 4–8 | offsets of ids `[T]`, positions `[T]`, sequence of each row `[T]`, sequences `[S][16]`, pages `[S][stride]` |
    /// | 9–12 | stride of the page table; offsets of the rows of logits `[S]` and of the histories; number of rotary tables |
    /// | 16 + i | offset of rotary table i: f32 `[T][2][pairs]` |
    ///
    /// The 16 words of a sequence: start, count, length, slot, first chunk; temperature (f32), top_k, top_p (f32), min_p (f32),
    /// repeat penalty (f32), seed (low word, high word), top; start of its history within the histories, and its length; 0.
    /// There are at most 16 rotary tables.
    pub fn words(&self) -> Vec<u32> {
        let stride = self.seqs.iter().map(|s| s.pages.len()).max().unwrap_or(0);
        let bind = self.bind();
        let mut words = vec![0u32; HEADER];
        words[..4].copy_from_slice(&[bind.t as u32, bind.s as u32, bind.l as u32, self.page_len]);
        let place = |words: &mut Vec<u32>, at: usize, part: &[u32]| {
            words[at] = words.len() as u32;
            words.extend_from_slice(part);
        };
        place(&mut words, 4, &self.ids);
        place(&mut words, 5, &self.positions);
        place(&mut words, 6, &self.seq);
        let mut history = vec![];
        let seqs: Vec<u32> = self.seqs.iter().flat_map(|s| s.words(&mut history)).collect();
        place(&mut words, 7, &seqs);
        let pages = self.seqs.iter().flat_map(|s| (0..stride).map(|i| s.pages.get(i).copied().unwrap_or(0)));
        let pages: Vec<u32> = pages.collect();
        place(&mut words, 8, &pages);
        words[9] = stride as u32;
        place(&mut words, 10, &self.logit_rows);
        place(&mut words, 11, &history);
        words[12] = self.rope.len() as u32;
        for (i, table) in self.rope.iter().take(HEADER - 16).enumerate() {
            place(&mut words, 16 + i, bytemuck::cast_slice(table));
        }
        words
    }

    /// The page of the KV cache that holds a position of a sequence, and the offset within the page.
    pub fn cache_slot(&self, seq: usize, position: u32) -> (usize, usize) {
        let page = self.seqs[seq].pages[(position / self.page_len) as usize];
        (page as usize, (position % self.page_len) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotary_tables_hold_the_cosine_and_sine_of_every_position() {
        let spec = RopeSpec { inv_freq: vec![1.0, 0.1, 1e-4], factor: 1.5 };
        let mut batch = StepBatch { positions: vec![0, 1, 63, 64, 200, 131_071, 5], ..Default::default() };
        batch.fill_rope(std::slice::from_ref(&spec));
        for (row, &p) in batch.rope[0].chunks_exact(6).zip(&batch.positions) {
            for (i, &f) in spec.inv_freq.iter().enumerate() {
                let angle = p as f64 * f as f64;
                assert!(
                    (row[i] as f64 - 1.5 * angle.cos()).abs() < 2e-7
                        && (row[3 + i] as f64 - 1.5 * angle.sin()).abs() < 2e-7
                );
            }
        }
    }

    #[test]
    fn words_hold_the_batch_at_the_places_that_the_header_names() {
        let mut batch = StepBatch { page_len: 4, ..Default::default() };
        let sample = SampleParams { temperature: 0.5, top_k: 7, seed: 1 << 40 | 9, top: 2, ..Default::default() };
        batch.push(&[5, 6], 0, SeqSpan { pages: vec![3], slot: 1, ..Default::default() });
        let second = SeqSpan { pages: vec![8, 9], history: vec![40, 41], sample, ..Default::default() };
        batch.push(&[PENDING_TOKEN], 6, second);
        batch.logit_rows = vec![1, 2];
        batch.fill_rope(&[RopeSpec { inv_freq: vec![1.0, 0.1], factor: 1.0 }]);
        let w = batch.words();
        let at = |head: usize, i: usize| w[w[head] as usize + i];
        assert_eq!(w[..4], [3, 2, 7, 4]);
        assert_eq!([at(4, 0), at(4, 2), at(5, 1), at(5, 2), at(6, 1), at(6, 2)], [5, PENDING_TOKEN, 1, 6, 0, 1]);
        let spans: Vec<u32> = (0..32).map(|i| at(7, i)).collect();
        let one = 1f32.to_bits();
        assert_eq!(spans[..16], [0, 2, 2, 1, 1, 0, 0, one, 0, one, 0, 0, 0, 0, 0, 0]);
        assert_eq!(spans[16..], [2, 1, 7, 0, 0, 0.5f32.to_bits(), 7, one, 0, one, 9, 256, 2, 0, 2, 0]);
        assert_eq!((w[9], at(8, 0), at(8, 2), at(8, 3)), (2, 3, 8, 9));
        assert_eq!([at(10, 1), at(11, 1), w[12]], [2, 41, 1]);
        assert_eq!((f32::from_bits(at(16, 4)), f32::from_bits(at(16, 8))), (1f32.cos(), 6f32.cos()));
    }
}
