//! Synthetic prompts for measurements: their token ids, and running them.

use onetrip_engine::step::Engine;

use crate::support::fail::Fail;

/// Token ids that every vocabulary has; each text differs from the others.
pub fn ids(n: usize, text: usize, vocabulary: usize) -> Vec<u32> {
    (0..n).map(|i| ((i * 7 + text * 31 + 1) % vocabulary.max(1)) as u32).collect()
}

/// Adds new texts to the engine and returns their sequences.
pub fn begin(engine: &mut Engine, texts: &[Vec<u32>]) -> Result<Vec<usize>, Fail> {
    let mut sequences = vec![];
    for text in texts {
        let seq = engine.scheduler().add(Default::default());
        let seq = seq.ok_or_else(|| Fail::Work("there is no room for a sequence".into()))?;
        engine.scheduler().set_tokens(seq, text);
        sequences.push(seq);
    }
    Ok(sequences)
}

/// Steps until so many tokens of every sequence are known.
pub fn steps(engine: &mut Engine, sequences: &[usize], length: usize) -> Result<(), Fail> {
    while sequences.iter().any(|&s| engine.known(s) < length) {
        if engine.step()?.is_none() {
            return Err(Fail::Work("the context is full before the end of the run".into()));
        }
    }
    Ok(())
}
