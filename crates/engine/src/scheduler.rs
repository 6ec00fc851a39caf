//! Which tokens run next: sequences, their pages of the cache, and the ragged batch of the next step.

use onetrip_ir::batch::{PENDING_TOKEN, SampleParams, SeqSpan, StepBatch};

/// Positions in a page of the cache.
pub const PAGE_LEN: usize = 256;
/// Recent tokens that the repeat penalty looks at.
const HISTORY: usize = 64;

/// One sequence: its tokens, its pages of the KV cache and its sampling parameters.
#[derive(Clone, Debug)]
struct Sequence {
    /// All tokens so far, prompt and generated.
    tokens: Vec<u32>,
    /// How many of them are in the cache.
    done: usize,
    /// Pages of the cache, in order of position.
    pages: Vec<u32>,
    sample: SampleParams,
}

/// The sequences and the free pages.
pub struct Scheduler {
    sequences: Vec<Option<Sequence>>,
    free: Vec<u32>,
    /// Positions a sequence may have.
    context: usize,
    /// The model has recurrent states, which cannot go back to an earlier token.
    recurrent: bool,
    /// The sequence of each span of the batch that `next` returned last.
    running: Vec<usize>,
}

/// The sequences of a batch that was submitted, one for each of its spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running(Vec<usize>);

impl Running {
    /// The span of a sequence.
    pub fn span(&self, seq: usize) -> Option<usize> {
        self.0.iter().position(|s| *s == seq)
    }
}

/// A token that came out of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenOutput {
    /// The sequence.
    pub seq: usize,
    /// The token.
    pub id: u32,
    /// Its log-probability, where asked for.
    pub log_prob: Option<f32>,
    /// The best tokens and their log-probabilities, where asked for.
    pub top: Vec<(u32, f32)>,
}

impl Scheduler {
    /// A scheduler with pages for `sequences` sequences of at most `context` positions each.
    pub fn new(context: usize, sequences: usize) -> Scheduler {
        let pages = pages_for(context) * sequences;
        Scheduler {
            sequences: vec![None; sequences],
            free: (0..pages as u32).rev().collect(),
            context,
            recurrent: false,
            running: vec![],
        }
    }

    /// Says whether the model has recurrent states. If it has, a sequence is continued only from the token at which its state
    /// stands; with any other beginning it runs from the start.
    pub fn recurrent(self, recurrent: bool) -> Scheduler {
        Scheduler { recurrent, ..self }
    }

    /// Number of pages for so many sequences of so many positions.
    pub fn pages(context: usize, sequences: usize) -> usize {
        pages_for(context) * sequences
    }

    /// Adds an empty sequence and returns its number, unless all sequences are in use.
    pub fn add(&mut self, sample: SampleParams) -> Option<usize> {
        let seq = self.sequences.iter().position(|s| s.is_none())?;
        self.sequences[seq] = Some(Sequence { tokens: vec![], done: 0, pages: vec![], sample });
        Some(seq)
    }

    /// Ends a sequence; its pages are free again.
    pub fn remove(&mut self, seq: usize) {
        if let Some(s) = self.sequences.get_mut(seq).and_then(Option::take) {
            self.free.extend(s.pages.into_iter().rev());
        }
    }

    /// Replaces the tokens of a sequence and keeps the cache of their common prefix. At least the last token runs (again),
    /// since its logits are wanted. Returns the number of tokens kept.
    pub fn set_tokens(&mut self, seq: usize, tokens: &[u32]) -> usize {
        let Some(Some(s)) = self.sequences.get_mut(seq) else { return 0 };
        let same = s.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let kept = s.done.min(same).min(tokens.len().saturating_sub(1));
        s.done = if self.recurrent && kept < s.done { 0 } else { kept };
        s.tokens = tokens.to_vec();
        s.done
    }

    /// Changes the sampling parameters of a sequence.
    pub fn set_sample(&mut self, seq: usize, sample: SampleParams) {
        if let Some(Some(s)) = self.sequences.get_mut(seq) {
            s.sample = sample;
        }
    }

    /// Tokens of a sequence.
    pub fn tokens(&self, seq: usize) -> &[u32] {
        self.sequences.get(seq).and_then(Option::as_ref).map_or(&[], |s| &s.tokens)
    }

    /// The batch of the next step, of at most `rows` tokens; none when every token is in the cache. A sequence that
    /// reached its context is left out.
    pub fn next(&mut self, rows: usize) -> Option<StepBatch> {
        let mut batch = StepBatch { page_len: PAGE_LEN as u32, ..Default::default() };
        self.running.clear();
        for (i, slot) in self.sequences.iter_mut().enumerate() {
            let Some(s) = slot else { continue };
            let room = rows.saturating_sub(batch.ids.len());
            let n = (s.tokens.len().min(self.context) - s.done.min(self.context)).min(room);
            if n == 0 {
                continue;
            }
            while s.pages.len() * PAGE_LEN < s.done + n {
                s.pages.push(self.free.pop()?);
            }
            let span = SeqSpan {
                pages: s.pages.clone(),
                slot: i as u32,
                sample: s.sample.clone(),
                history: s.tokens[s.tokens.len().saturating_sub(HISTORY)..].to_vec(),
                ..Default::default()
            };
            batch.push(&s.tokens[s.done..s.done + n], s.done as u32, span);
            self.running.push(i);
        }
        batch.logit_rows = batch.seqs.iter().map(|s| s.start + s.count - 1).collect();
        (!batch.ids.is_empty()).then_some(batch)
    }

    /// Whether the batch that `next` returned last may be submitted while the batch before it still runs: every token id is
    /// known on the host, or is the id that the same span of the batch before will sample. A repeat penalty needs all ids on
    /// the host.
    pub fn may_follow(&self, batch: &StepBatch, before: Option<&Running>) -> bool {
        let waits = batch.ids.contains(&PENDING_TOKEN);
        let counts_tokens = batch.seqs.iter().any(|s| s.sample.repeat_penalty != 1.0);
        !waits || (!counts_tokens && before.is_some_and(|b| b.0 == self.running))
    }

    /// Notes that the batch that `next` returned last is submitted: its tokens count as done, and every sequence of which all
    /// tokens have run gets a pending token at its end.
    pub fn handed_over(&mut self, batch: &StepBatch) -> Running {
        for (&seq, span) in self.running.iter().zip(&batch.seqs) {
            let Some(Some(s)) = self.sequences.get_mut(seq) else { continue };
            s.done += span.count as usize;
            if s.done == s.tokens.len() {
                s.tokens.push(PENDING_TOKEN);
            }
        }
        Running(self.running.clone())
    }

    /// Stores the sampled tokens of a batch that was submitted: `sampled` has one row for each span. The row of a sequence is
    /// dropped if the batch did not run it to its end (a chunk of a prompt).
    pub fn accept(
        &mut self,
        batch: &StepBatch,
        of: &Running,
        sampled: impl Fn(usize) -> TokenOutput,
    ) -> Vec<TokenOutput> {
        let mut out = vec![];
        for (row, (&seq, span)) in of.0.iter().zip(&batch.seqs).enumerate() {
            let Some(Some(s)) = self.sequences.get_mut(seq) else { continue };
            if let Some(place) = s.tokens.get_mut(span.length as usize).filter(|id| **id == PENDING_TOKEN) {
                let token = TokenOutput { seq, ..sampled(row) };
                *place = token.id;
                out.push(token);
            }
        }
        out
    }

    /// Stores the sampled tokens of the batch that `next` returned last, which is done already.
    pub fn take(&mut self, batch: &StepBatch, sampled: impl Fn(usize) -> TokenOutput) -> Vec<TokenOutput> {
        let running = self.handed_over(batch);
        self.accept(batch, &running, sampled)
    }

    /// Number of tokens of a sequence that are known on the host.
    pub fn known(&self, seq: usize) -> usize {
        let tokens = self.tokens(seq);
        tokens.iter().position(|&id| id == PENDING_TOKEN).unwrap_or(tokens.len())
    }

    /// Forgets the batches that were submitted and not taken: texts end at their last known token. A recurrent state
    /// that has gone beyond it begins anew.
    pub fn settle(&mut self) {
        for s in self.sequences.iter_mut().flatten() {
            let Some(known) = s.tokens.iter().position(|&id| id == PENDING_TOKEN) else { continue };
            s.tokens.truncate(known);
            if s.done >= known {
                s.done = if self.recurrent { 0 } else { known.saturating_sub(1) };
            }
        }
    }
}

fn pages_for(context: usize) -> usize {
    context.div_ceil(PAGE_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: u32) -> impl Fn(usize) -> TokenOutput {
        move |_| TokenOutput { seq: 0, id, log_prob: None, top: vec![] }
    }

    #[test]
    fn a_prompt_runs_in_chunks_and_only_its_end_gives_a_token() {
        let mut s = Scheduler::new(1000, 1);
        let seq = s.add(SampleParams::default()).expect("room");
        s.set_tokens(seq, &[7; 600]);
        let a = s.next(512).expect("a chunk");
        assert_eq!((a.ids.len(), a.seqs[0].length, a.seqs[0].pages.len()), (512, 512, 2));
        assert!(s.take(&a, token(1)).is_empty());
        let b = s.next(512).expect("the rest");
        assert_eq!((b.positions[0], b.ids.len()), (512, 88));
        assert_eq!(s.take(&b, token(9))[0].id, 9);
        assert_eq!(s.next(512).expect("decode").ids, [9]);
    }

    #[test]
    fn sequences_share_a_batch_and_give_their_pages_back() {
        let mut s = Scheduler::new(300, 2);
        let (a, b) = (s.add(SampleParams::default()).unwrap(), s.add(SampleParams::default()).unwrap());
        assert_eq!(s.add(SampleParams::default()), None);
        s.set_tokens(a, &[1, 2, 3]);
        s.set_tokens(b, &[4]);
        let batch = s.next(512).expect("both");
        assert_eq!((batch.ids.clone(), batch.seq.clone()), (vec![1, 2, 3, 4], vec![0, 0, 0, 1]));
        assert_eq!(batch.logit_rows, [2, 3]);
        assert_ne!(batch.seqs[0].pages, batch.seqs[1].pages);
        s.remove(a);
        assert_eq!(s.free.len(), 3);
    }

    #[test]
    fn a_common_beginning_stays_in_the_cache() {
        let mut s = Scheduler::new(300, 1);
        let seq = s.add(SampleParams::default()).unwrap();
        s.set_tokens(seq, &[1, 2, 3, 4]);
        let batch = s.next(512).expect("prompt");
        s.take(&batch, token(5));
        assert_eq!(s.set_tokens(seq, &[1, 2, 3, 9, 9]), 3);
        assert_eq!(s.next(512).expect("rest").ids, [9, 9]);
        let mut again = Scheduler::new(300, 1);
        let seq = again.add(SampleParams::default()).unwrap();
        again.set_tokens(seq, &[1, 2]);
        let batch = again.next(512).expect("prompt");
        again.take(&batch, token(5));
        assert_eq!(again.set_tokens(seq, &[1, 2]), 1, "the last token runs again");
    }

    #[test]
    fn a_recurrent_state_is_continued_where_it_stands_or_begun_anew() {
        let mut s = Scheduler::new(300, 2).recurrent(true);
        let (_, seq) = (s.add(SampleParams::default()), s.add(SampleParams::default()).unwrap());
        s.set_tokens(seq, &[1, 2, 3]);
        let batch = s.next(512).expect("prompt");
        assert_eq!(batch.seqs[0].slot, seq as u32);
        assert!(batch.seqs[0].is_first_chunk());
        s.take(&batch, token(4));
        assert_eq!(s.set_tokens(seq, &[1, 2, 3, 4, 5]), 3, "the state stands behind the third token");
        let batch = s.next(512).expect("two tokens");
        assert!(!batch.seqs[0].is_first_chunk());
        s.take(&batch, token(6));
        assert_eq!(s.set_tokens(seq, &[1, 2, 3, 9]), 0, "the state has seen other tokens");
        assert!(s.next(512).expect("all again").seqs[0].is_first_chunk());
    }

    #[test]
    fn a_batch_follows_one_whose_ids_are_not_known_yet() {
        let mut s = Scheduler::new(300, 2);
        let seq = s.add(SampleParams::default()).unwrap();
        s.set_tokens(seq, &[1, 2]);
        let a = s.next(512).expect("prompt");
        let ran_a = s.handed_over(&a);
        let b = s.next(512).expect("a token that is not known");
        assert_eq!((b.ids.clone(), b.positions.clone()), (vec![PENDING_TOKEN], vec![2]));
        assert!(s.may_follow(&b, Some(&ran_a)) && !s.may_follow(&b, None));
        let ran_b = s.handed_over(&b);
        assert_eq!(s.accept(&a, &ran_a, token(7))[0].id, 7);
        assert_eq!(s.accept(&b, &ran_b, token(8))[0].id, 8);
        assert_eq!(s.tokens(seq), [1, 2, 7, 8]);
        let other = s.add(SampleParams::default()).unwrap();
        s.set_tokens(other, &[5]);
        let c = s.next(512).expect("both");
        let ran_c = s.handed_over(&c);
        s.remove(other);
        let d = s.next(512).expect("one");
        assert!(!s.may_follow(&d, Some(&ran_c)), "the span of the other sequence is gone");
        s.settle();
        assert_eq!(s.tokens(seq), [1, 2, 7, 8]);
        assert_eq!(s.next(512).expect("the last token again").ids, [8]);
    }

    #[test]
    fn a_full_context_runs_no_further() {
        let mut s = Scheduler::new(4, 1);
        let seq = s.add(SampleParams::default()).unwrap();
        s.set_tokens(seq, &[1, 2, 3, 4]);
        let batch = s.next(512).expect("fits");
        s.take(&batch, token(5));
        assert!(s.next(512).is_none());
    }
}
