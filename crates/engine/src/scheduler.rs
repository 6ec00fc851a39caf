//! Chooses the tokens of the next step: holds all sequences and their pages of the KV cache, and builds ragged batches.

use onetrip_ir::batch::{PENDING_TOKEN, SampleParams, SeqSpan, StepBatch};

/// Token positions in a page of the KV cache.
pub const PAGE_LEN: usize = 256;
/// Number of most recent tokens to which the repeat penalty applies.
const HISTORY: usize = 64;

/// One sequence: its tokens, its pages of the KV cache and its sampling parameters.
#[derive(Clone, Debug)]
struct Sequence {
    /// All tokens so far, prompt and generated.
    tokens: Vec<u32>,
    /// Number of leading tokens whose keys and values are in the KV cache (or are written by a submitted batch).
    done: usize,
    /// Page numbers in the KV cache, in order of position.
    pages: Vec<u32>,
    sample: SampleParams,
}

/// All sequences, and the pages of the KV cache that no sequence uses.
pub struct Scheduler {
    sequences: Vec<Option<Sequence>>,
    free: Vec<u32>,
    /// Most positions that a sequence may have.
    context: usize,
    /// Whether the model has recurrent states: unlike a KV cache, they cannot be cut back to an earlier token.
    recurrent: bool,
    /// For each span of the batch that `next` returned last, the number of its sequence.
    running: Vec<usize>,
}

/// The sequence numbers of a submitted batch, one for each of its spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running(Vec<usize>);

impl Running {
    /// Index of the span of sequence `seq`, if the sequence is in the batch.
    pub fn span(&self, seq: usize) -> Option<usize> {
        self.0.iter().position(|s| *s == seq)
    }
}

/// A token that a step sampled for a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenOutput {
    /// Number of the sequence, as [`Scheduler::add`] returned it.
    pub seq: usize,
    /// Token id.
    pub id: u32,
    /// Log-probability of the token, where the sampling parameters ask for it.
    pub log_prob: Option<f32>,
    /// The most probable tokens and their log-probabilities, where the sampling parameters ask for them.
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

    /// Sets whether the model has recurrent states. If it has, new tokens of a sequence continue from its state only if they
    /// begin with every token that the state has seen; otherwise the sequence runs again from its first token.
    pub fn recurrent(self, recurrent: bool) -> Scheduler {
        Scheduler { recurrent, ..self }
    }

    /// Number of pages that `sequences` sequences of `context` positions each need.
    pub fn pages(context: usize, sequences: usize) -> usize {
        pages_for(context) * sequences
    }

    /// Adds an empty sequence and returns its number, unless all sequences are in use.
    pub fn add(&mut self, sample: SampleParams) -> Option<usize> {
        let seq = self.sequences.iter().position(|s| s.is_none())?;
        self.sequences[seq] = Some(Sequence { tokens: vec![], done: 0, pages: vec![], sample });
        Some(seq)
    }

    /// Ends a sequence and frees its pages.
    pub fn remove(&mut self, seq: usize) {
        if let Some(s) = self.sequences.get_mut(seq).and_then(Option::take) {
            self.free.extend(s.pages.into_iter().rev());
        }
    }

    /// Replaces the tokens of a sequence and keeps the KV cache of the prefix that old and new tokens share. The last token
    /// always runs, even if the cache has it, because its logits are needed. Returns the number of tokens that stay cached.
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

    /// Tokens of a sequence, prompt and generated; empty if there is no such sequence.
    pub fn tokens(&self, seq: usize) -> &[u32] {
        self.sequences.get(seq).and_then(Option::as_ref).map_or(&[], |s| &s.tokens)
    }

    /// Builds the batch of the next step from at most `rows` tokens that are not in the KV cache yet. Returns `None` if there
    /// is no such token. A sequence that has filled its context is left out.
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

    /// Whether the batch that `next` returned last may be submitted while the batch `before` still runs. It may if the host
    /// knows every token id, or if each pending token is one that the same span of the batch before will sample on the device.
    /// With a repeat penalty the host must know all ids, because it sends the recent tokens along.
    pub fn may_follow(&self, batch: &StepBatch, before: Option<&Running>) -> bool {
        let waits = batch.ids.contains(&PENDING_TOKEN);
        let counts_tokens = batch.seqs.iter().any(|s| s.sample.repeat_penalty != 1.0);
        !waits || (!counts_tokens && before.is_some_and(|b| b.0 == self.running))
    }

    /// Notes that the batch that `next` returned last is submitted. Its tokens count as done, and a pending token is appended
    /// to every sequence whose tokens have now all been submitted.
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

    /// Stores the sampled tokens of a submitted batch: `sampled` gives the token of each span, by the span's index. The token
    /// of a span that ended before the end of its sequence (a chunk of a prompt) is dropped.
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

    /// Stores the sampled tokens of the batch that `next` returned last, for callers that have already run it to its end.
    pub fn take(&mut self, batch: &StepBatch, sampled: impl Fn(usize) -> TokenOutput) -> Vec<TokenOutput> {
        let running = self.handed_over(batch);
        self.accept(batch, &running, sampled)
    }

    /// Number of leading tokens of a sequence whose ids the host knows (tokens before the first pending one).
    pub fn known(&self, seq: usize) -> usize {
        let tokens = self.tokens(seq);
        tokens.iter().position(|&id| id == PENDING_TOKEN).unwrap_or(tokens.len())
    }

    /// Forgets batches that were submitted but whose tokens were not accepted: every sequence is cut off behind its last token
    /// known to the host. A sequence whose recurrent state has seen later tokens runs again from its first token.
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
