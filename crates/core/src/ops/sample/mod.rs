//! Chooses the next token of each sequence from its logits. Input: logits `[S, vocabulary]`. Output `[S, 2 + 2·top]`:
//! the id (its bits in an f32), its log-probability, then the `top` best ids and log-probabilities.
//!
//! Applied in this order: repeat penalty, temperature, top-k, top-p, min-p, then a draw with counter-based random numbers
//! of (seed, position). Log-probabilities are those of the logits after the penalty and before the temperature; they are
//! computed only where a sequence asks for them, and are NaN elsewhere. Where the best logit is not finite the id is
//! [`NO_TOKEN`].

use super::*;
use onetrip_ir::batch::SampleParams;

mod cuda;
mod wgsl;

/// The id where there is nothing to choose from: the best logit is not finite.
pub const NO_TOKEN: u32 = u32::MAX;

/// Chooses the next token of each sequence from its logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// How many best tokens a row of the output can hold.
    pub top: usize,
}

impl Sample {
    /// Elements in a row of the output.
    pub fn width(&self) -> usize {
        2 + 2 * self.top
    }
}

/// A uniform number in [0, 1) from a seed and a counter: Philox 4x32 with 10 rounds (Salmon et al., 2011), first word.
pub fn uniform(seed: u64, counter: u64) -> f32 {
    let mut c = [counter as u32, (counter >> 32) as u32, 0u32, 0u32];
    let mut k = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let a = 0xD251_1F53u64 * c[0] as u64;
        let b = 0xCD9E_8D57u64 * c[2] as u64;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    (c[0] >> 8) as f32 / (1 << 24) as f32
}

/// The id of the highest logit: the lowest id wins a tie, NaN never wins. `None` where the highest logit is not finite.
fn argmax(logits: &[f32]) -> Option<usize> {
    // Eight running maxima, so that the compiler can use vectors.
    let mut best = [f32::NEG_INFINITY; 8];
    for chunk in logits.chunks_exact(8) {
        for (b, x) in best.iter_mut().zip(chunk) {
            *b = if *x > *b { *x } else { *b };
        }
    }
    let tail = logits.chunks_exact(8).remainder();
    let larger = |a: f32, x: &f32| if *x > a { *x } else { a };
    let max = best.iter().chain(tail).fold(f32::NEG_INFINITY, larger);
    if max.is_finite() { logits.iter().position(|&x| x == max) } else { None }
}

/// Chooses one token and writes a row of the output, `[2 + 2·top]`. `position` is the counter of the random number.
pub fn choose(logits: &[f32], p: &SampleParams, history: &[u32], position: u64, out: &mut [f32]) {
    out.fill(f32::NAN);
    let penalized;
    let logits = if p.repeat_penalty != 1.0 && !history.is_empty() {
        let mut l = logits.to_vec();
        let mut seen = history.to_vec();
        seen.sort_unstable();
        seen.dedup();
        for id in seen {
            if let Some(x) = l.get_mut(id as usize) {
                *x = if *x > 0.0 { *x / p.repeat_penalty } else { *x * p.repeat_penalty };
            }
        }
        penalized = l;
        &penalized[..]
    } else {
        logits
    };
    let Some(first) = argmax(logits) else {
        out[0] = f32::from_bits(NO_TOKEN);
        return;
    };
    let max = logits[first];
    let id = if p.temperature <= 0.0 { first } else { draw(logits, max, p, position) };
    out[0] = f32::from_bits(id as u32);
    if p.top == 0 {
        return;
    }
    let sum: f64 = logits.iter().map(|x| ((x - max) as f64).exp()).sum();
    let log_sum = max as f64 + sum.ln();
    out[1] = (logits[id] as f64 - log_sum) as f32;
    let top = (p.top as usize).min((out.len() - 2) / 2);
    for (o, i) in out[2..].chunks_exact_mut(2).zip(best(logits, top)) {
        o[0] = f32::from_bits(i as u32);
        o[1] = (logits[i] as f64 - log_sum) as f32;
    }
}

/// The `n` best ids, best first; lower ids first among equals.
pub fn best(logits: &[f32], n: usize) -> Vec<usize> {
    let order = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
    let mut ids: Vec<usize> = (0..logits.len()).filter(|&i| !logits[i].is_nan()).collect();
    if n < ids.len() {
        ids.select_nth_unstable_by(n, order);
        ids.truncate(n);
    }
    ids.sort_unstable_by(order);
    ids
}

/// Draws an id at random from the logits, of which `max` is the highest, after temperature, top-k, top-p and min-p.
fn draw(logits: &[f32], max: f32, p: &SampleParams, position: u64) -> usize {
    let keep = if p.top_k == 0 { logits.len() } else { p.top_k as usize };
    // Tokens 40 units below the best one have no weight in f32; leaving them out keeps the sort short.
    let floor = max - 40.0 * p.temperature.max(0.01);
    let mut ids: Vec<usize> = if keep < logits.len() {
        best(logits, keep)
    } else {
        let mut ids: Vec<usize> = (0..logits.len()).filter(|&i| logits[i] >= floor).collect();
        ids.sort_unstable_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
        ids
    };
    let mut weights: Vec<f64> = ids.iter().map(|&i| (((logits[i] - max) / p.temperature) as f64).exp()).collect();
    let total: f64 = weights.iter().sum();
    if p.top_p < 1.0 {
        let mut reached = 0.0;
        let n = weights.iter().position(|w| {
            reached += w / total;
            reached >= p.top_p as f64
        });
        ids.truncate(n.map_or(ids.len(), |n| n + 1));
    }
    if p.min_p > 0.0 {
        let n = weights.iter().position(|w| *w < p.min_p as f64 * weights[0]);
        ids.truncate(n.unwrap_or(ids.len()).max(1));
    }
    weights.truncate(ids.len());
    let mut left = uniform(p.seed, position) as f64 * weights.iter().sum::<f64>();
    for (id, w) in ids.iter().zip(&weights) {
        left -= w;
        if left < 0.0 {
            return *id;
        }
    }
    ids[ids.len() - 1]
}

impl OpDef for Sample {
    const NAME: &'static str = "sample";

    fn ggml(&self) -> &'static str {
        "SAMPLE"
    }

    fn shape(&self, ins: &[Sig]) -> Result<Vec<Sig>, ShapeError> {
        want_inputs(Self::NAME, ins, 1)?;
        Ok(vec![Sig::slot(ins[0].rows.clone(), self.width())])
    }

    fn meaning(&self) -> Meaning {
        let width = self.width();
        Meaning::Direct(Box::new(move |c| {
            let logits = c.input(0).clone();
            let batch = c.batch;
            for (r, out) in c.output(0).chunks_exact_mut(width).enumerate() {
                let s = &batch.seqs[r];
                choose(logits.row(r), &s.sample, &s.history, s.length as u64, out);
            }
        }))
    }

    fn cost(&self, site: &OpSite) -> Cost {
        site.streams(site.ins[0].rows.clone() * site.ins[0].width)
    }

    fn cpu(&self, site: &OpSite) -> Lowering {
        let (width, vocabulary) = (self.width(), site.ins[0].width);
        Lowering::one(site, "sample/row", site.ins[0].rows.clone(), 1, self.cost(site), move |c, _| {
            let logits = c.f32s(0);
            while let Some(range) = c.items.take() {
                for r in range {
                    let s = &c.batch.seqs[r];
                    let row = &logits[r * vocabulary..(r + 1) * vocabulary];
                    let out = c.write(1, r * width..(r + 1) * width);
                    choose(row, &s.sample, &s.history, s.length as u64, out);
                }
            }
        })
    }

    fn cuda(&self, site: &OpSite) -> Lowering {
        cuda::lower(self, site)
    }

    fn wgsl(&self, site: &OpSite) -> Lowering {
        wgsl::lower(self, site)
    }

    fn cases() -> Vec<Case> {
        let b = (3, 3, 5);
        let case = |name: &str, top, v| Case::new(name, Sample { top }, vec![Sig::slot(Expr::S, v)], b).within(0.0);
        vec![
            case("greedy of 1000", 0, 1000).costs(12000, 24, 3000),
            case("room for the best 5", 5, 333),
            case("a large vocabulary", 2, 20_000),
            case("one token in the vocabulary", 1, 1),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(logits: &[f32], p: &SampleParams, history: &[u32], position: u64) -> usize {
        let mut out = [0.0; 8];
        choose(logits, p, history, position, &mut out);
        out[0].to_bits() as usize
    }

    fn shares(logits: &[f32], p: &SampleParams) -> Vec<f64> {
        let mut n = vec![0; logits.len()];
        (0..20_000).for_each(|i| n[one(logits, p, &[], i)] += 1);
        n.iter().map(|&n| n as f64 / 20_000.0).collect()
    }

    #[test]
    fn greedy_takes_the_best_and_the_lowest_id_among_equals() {
        let p = SampleParams::default();
        assert_eq!(one(&[0.0, 3.0, 3.0, f32::NAN], &p, &[], 0), 1);
    }

    #[test]
    fn there_is_no_token_where_the_best_logit_is_not_finite() {
        let warm = SampleParams { temperature: 1.0, top: 2, ..Default::default() };
        for p in [SampleParams::default(), warm] {
            for logits in [[f32::NAN; 9], [f32::INFINITY; 9], [f32::NEG_INFINITY; 9]] {
                assert_eq!(one(&logits, &p, &[], 0), NO_TOKEN as usize);
            }
        }
    }

    #[test]
    fn draws_follow_the_softmax_at_the_temperature() {
        let p = SampleParams { temperature: 2.0, ..Default::default() };
        let logits = [0.0, 2.0, 4.0];
        let z: f64 = logits.iter().map(|x| (*x as f64 / 2.0).exp()).sum();
        for (share, x) in shares(&logits, &p).iter().zip(logits) {
            assert!((share - (x as f64 / 2.0).exp() / z).abs() < 0.015, "{share}");
        }
    }

    #[test]
    fn top_k_top_p_and_min_p_cut_the_tail() {
        let logits = [3.0, 2.0, 1.0, 0.0];
        let base = SampleParams { temperature: 1.0, ..Default::default() };
        let cut = |p: SampleParams| shares(&logits, &p).iter().filter(|&&s| s > 0.0).count();
        assert_eq!(cut(base.clone()), 4);
        assert_eq!(cut(SampleParams { top_k: 2, ..base.clone() }), 2);
        assert_eq!(cut(SampleParams { top_p: 0.5, ..base.clone() }), 1);
        assert_eq!(cut(SampleParams { top_p: 0.7, ..base.clone() }), 2);
        assert_eq!(cut(SampleParams { min_p: 0.1, ..base.clone() }), 3);
    }

    #[test]
    fn a_penalty_pushes_tokens_of_the_history_down() {
        let p = SampleParams { repeat_penalty: 2.0, ..Default::default() };
        assert_eq!(one(&[1.5, 2.0, -1.0], &p, &[1, 1, 99], 0), 0);
    }

    #[test]
    fn log_probabilities_are_those_of_the_softmax() {
        let p = SampleParams { top: 2, ..Default::default() };
        let mut out = [0.0; 6];
        choose(&[0.0, 1.0, 2.0], &p, &[], 0, &mut out);
        let z = (1f32 + 1f32.exp() + 2f32.exp()).ln();
        assert!((out[1] - (2.0 - z)).abs() < 1e-6 && (out[5] - (1.0 - z)).abs() < 1e-6);
        assert_eq!((out[2].to_bits(), out[4].to_bits()), (2, 1));
    }

    #[test]
    fn random_numbers_equal_the_published_generator() {
        // Philox4x32-10 with counter 0 and key 0 gives 0x6627e8d5 first (Random123 known answers).
        assert_eq!(uniform(0, 0), (0x6627_e8d5u32 >> 8) as f32 / (1 << 24) as f32);
    }
}
