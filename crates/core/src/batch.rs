//! What one run of the model works on: a ragged batch of tokens, and the parameters that change from tick to tick.

use crate::expr::Bind;

/// Sampling parameters of one sequence. The order in which they act: repeat penalty, temperature, top-k, top-p, min-p.
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
    /// Divide the logits of tokens of the history by this where positive, multiply where negative; 1 changes nothing.
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
    /// Page table: page of the cache that holds positions `i * page_len ..`.
    pub pages: Vec<u32>,
    /// Row of the recurrent states that is this sequence's own.
    pub slot: u32,
    /// How the next token is chosen.
    pub sample: SampleParams,
    /// Recent tokens, for the repeat penalty.
    pub history: Vec<u32>,
}

impl SeqSpan {
    /// The sequence begins in this step: its recurrent states count as zeros, whatever its slot holds.
    pub fn begins(&self) -> bool {
        self.length <= self.count
    }
}

/// Cosines and sines of one rotary embedding: rotation frequencies by pair, and a factor on both.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// Radians per position of each pair of dimensions.
    pub inv_freq: Vec<f32>,
    /// Factor on cosine and sine (YaRN's attention factor; 1 elsewhere).
    pub factor: f32,
}

/// The ragged batch of one step. Tokens of a sequence are adjacent rows in rising positions.
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
    /// Positions in a page of the cache.
    pub page_len: u32,
    /// One table per rotary embedding of the model: `[T][2][pairs]`, cosines then sines of each row.
    pub rope: Vec<Vec<f32>>,
}

impl StepBatch {
    /// The symbols' values: tokens, sequences, longest context.
    pub fn bind(&self) -> Bind {
        Bind {
            t: self.ids.len() as u64,
            s: self.seqs.len() as u64,
            l: self.seqs.iter().map(|s| s.length as u64).max().unwrap_or(0),
        }
    }

    /// Adds `count` tokens of a sequence at the end of the batch.
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
            for (row, &p) in table.chunks_exact_mut(2 * n.max(1)).zip(&self.positions) {
                let (cos, sin) = row.split_at_mut(n);
                for i in 0..n {
                    // f64 for the angle: positions of 100k in f32 would lose four digits.
                    let (s, c) = (p as f64 * spec.inv_freq[i] as f64).sin_cos();
                    cos[i] = c as f32 * spec.factor;
                    sin[i] = s as f32 * spec.factor;
                }
            }
            self.rope.push(table);
        }
    }

    /// Page of the cache and offset in it of a position of a sequence.
    pub fn cache_slot(&self, seq: usize, position: u32) -> (usize, usize) {
        let page = self.seqs[seq].pages[(position / self.page_len) as usize];
        (page as usize, (position % self.page_len) as usize)
    }
}
