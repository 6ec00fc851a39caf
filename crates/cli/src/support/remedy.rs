//! Advice in error messages: libraries report the cause, and this module adds the flags that avoid it.

use onetrip_engine::memory::{Fits, MemoryError};
use onetrip_engine::profiles::FindError;
use onetrip_engine::step::StepError;
use onetrip_ir::device::{Choice, DeviceError};

/// What a device could not do, and what to give.
pub fn device(error: &DeviceError) -> String {
    let what = match error {
        DeviceError::Memory { .. } => ": use a smaller --context, --batch or model",
        DeviceError::Full { .. } => ": use a smaller --context, --batch or model, or end what else uses the GPU",
        DeviceError::Binding { .. } => "; use a smaller --context, --batch or model, or --device cpu",
        DeviceError::Reset { .. } => "; run again, or use --device cpu",
        DeviceError::EncodeThread { .. } => ": run again without --encode-thread",
        DeviceError::Choice { what, .. } => match what {
            Choice::Submission => ": leave --commit and --encode-thread out, or give --device wgpu or cuda",
            Choice::Replay => ": give --commit tick, every:K or each",
            Choice::EncodeThread => ": --encode-thread is for --device wgpu",
        },
        DeviceError::Gap { .. } | DeviceError::Failed { .. } | DeviceError::Lost { .. } | DeviceError::Batch(_) => "",
    };
    format!("{error}{what}")
}

/// Why a step or loading failed, and what to give.
pub fn step(error: &StepError) -> String {
    match error {
        StepError::Device(error) => device(error),
        StepError::Memory(error) => memory(error),
        StepError::Logits(_) => {
            format!("{error} (fetch the model again, or try --compute f32, which keeps the cache in f32 too)")
        }
        StepError::TooLong { tokens, .. } => format!("{error}: give --context {tokens} or more, or less text"),
        StepError::Ticks { asked, most: 1, .. } => {
            format!("--ticks-per-launch {asked}: {error}: leave it out, or use --device cuda and --commit replay")
        }
        StepError::Ticks { asked, .. } => format!("--ticks-per-launch {asked}: {error}"),
        StepError::Model(_) | StepError::Input(_) => error.to_string(),
    }
}

fn memory(error: &MemoryError) -> String {
    match error {
        MemoryError::NoContext => format!("{error}: give --context at least 1"),
        MemoryError::CacheType { .. } => format!("{error} for --cache"),
        MemoryError::Device { fits, .. } => format!("{error}: {}, or use --device cpu", fitting(*fits)),
        MemoryError::Host { sequences: 1, .. } => format!("{error}: give a smaller --context"),
        MemoryError::Host { .. } => format!("{error}: give a smaller --batch or --context"),
        MemoryError::Weights { .. } => format!("{error}; free some, or use a smaller model or --weights"),
    }
}

fn fitting(fits: Fits) -> String {
    match fits {
        Fits::Context(n) => format!("--context {n} fits"),
        Fits::Sequences(n, context) => format!("--batch {n} with --context {context} fits"),
        Fits::Weights(bytes) => format!(
            "the weights have to be smaller (a model file of at most {:.1} GB, or --weights)",
            bytes as f64 / 1e9
        ),
    }
}

/// Why there is no profile to predict with, and what to give.
pub fn profile(error: &FindError) -> String {
    let all_the_same = "--hardware NAME uses another all the same";
    match error {
        FindError::None(others) => {
            let or = if others.is_empty() { String::new() } else { format!("; {all_the_same}") };
            format!("{error}: run `onetrip calibrate` once (with its --device){or}")
        }
        FindError::Profile(_) | FindError::Unknown(..) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_said_as_the_flags_that_ask_for_it() {
        assert_eq!(fitting(Fits::Context(768)), "--context 768 fits");
        assert_eq!(fitting(Fits::Sequences(6, 256)), "--batch 6 with --context 256 fits");
        assert!(fitting(Fits::Weights(3_000_000_000)).contains("at most 3.0 GB"));
    }

    #[test]
    fn errors_of_the_libraries_end_in_a_remedy() {
        let device_name = || "cuda".to_string();
        let memory = DeviceError::Memory { device: device_name(), asked: 9, what: "caches".into() };
        assert_eq!(device(&memory), "cuda cannot hold 9 bytes of caches: use a smaller --context, --batch or model");
        let ticks = |most| step(&StepError::Ticks { asked: 4, most, device: device_name() });
        assert!(
            ticks(1).starts_with("--ticks-per-launch 4: the device cuda takes one tick")
                && ticks(1).ends_with("--commit replay"),
            "{}",
            ticks(1)
        );
        assert!(ticks(3).contains("1 to 3") && !ticks(3).contains("replay"), "{}", ticks(3));
        let long = StepError::TooLong { tokens: 9, context: 8 };
        assert_eq!(step(&long), "9 tokens do not fit a context of 8: give --context 9 or more, or less text");
    }
}
