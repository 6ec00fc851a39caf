//! Sampling parameters that the makers of a model recommend: `general.sampling.*` in GGUF files, `generation_config.json` in
//! Hugging Face folders (if it sets `do_sample`). Without a recommendation, sampling is greedy.

use onetrip_ir::batch::SampleParams;
use serde_json::Value as Json;

use crate::files::{Kind, MetadataAccess, ModelFile};

/// The recommended parameters. An invalid recommendation is ignored and no error, because the model runs without it.
pub fn recommended(file: &ModelFile) -> SampleParams {
    let plain = SampleParams::default();
    let number = |gguf: &str, json: &str| match file.kind() {
        Kind::Gguf => file.metadata().opt_f32(&format!("general.sampling.{gguf}")).ok().flatten(),
        _ => {
            let config = file.generation_config().filter(|c| c.get("do_sample") == Some(&Json::Bool(true)))?;
            config.get(json).and_then(Json::as_f64).map(|x| x as f32)
        }
    };
    let top_k = match file.kind() {
        Kind::Gguf => file.metadata().opt_u64("general.sampling.top_k").ok().flatten().map(|k| k as f32),
        _ => number("top_k", "top_k"),
    };
    let within =
        |found: Option<f32>, low: f32, high: f32, or: f32| found.filter(|x| *x >= low && *x <= high).unwrap_or(or);
    SampleParams {
        temperature: within(number("temp", "temperature"), 0.0, 100.0, plain.temperature),
        top_k: within(top_k, 0.0, 1e6, 0.0) as u32,
        top_p: within(number("top_p", "top_p"), 1e-6, 1.0, plain.top_p),
        min_p: within(number("min_p", "min_p"), 0.0, 0.999, plain.min_p),
        repeat_penalty: within(number("penalty_repeat", "repetition_penalty"), 0.01, 100.0, plain.repeat_penalty),
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{GgufWriter, Value};

    fn gguf(entries: &[(&str, Value)]) -> ModelFile {
        let mut w = GgufWriter::new();
        entries.iter().for_each(|(key, value)| {
            w.set(*key, value.clone());
        });
        ModelFile::from_slice("test.gguf", &w.to_bytes().expect("a small file")).expect("opens")
    }

    #[test]
    fn a_model_that_recommends_nothing_is_greedy() {
        assert_eq!(recommended(&gguf(&[])), SampleParams::default());
    }

    #[test]
    fn recommendations_of_a_gguf_file_are_taken_and_nonsense_is_not() {
        let file = gguf(&[
            ("general.sampling.temp", Value::F64(0.5)),
            ("general.sampling.top_k", Value::U64(40)),
            ("general.sampling.top_p", Value::F64(7.0)),
            ("general.sampling.penalty_repeat", Value::Str("x".into())),
        ]);
        let p = recommended(&file);
        assert_eq!((p.temperature, p.top_k, p.top_p, p.repeat_penalty), (0.5, 40, 1.0, 1.0));
    }
}
