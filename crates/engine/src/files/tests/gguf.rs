use proptest::prelude::*;

use super::super::{GgufWriter, KeyError, Kind, Metadata, MetadataAccess as _, ModelFile, TensorType, Value};
use super::{Raw, refused, small_gguf};
use onetrip_ir::formats::DType;

#[test]
fn what_was_written_is_read_back() {
    let bytes = small_gguf();
    let file = ModelFile::from_slice("small.gguf", &bytes).unwrap();
    assert_eq!((file.kind(), file.version()), (Kind::Gguf, Some(3)));

    let m = file.metadata();
    assert_eq!(m.get_str("general.architecture"), Ok("llama"));
    assert_eq!(m.get_u64("llama.block_count"), Ok(2));
    assert_eq!(m["a.large"], Value::U64(1 << 40));
    assert_eq!(m["a.negative"], Value::I64(-3));
    assert_eq!(m.get_f32("a.float"), Ok(0.5));
    assert_eq!(m.get_bool("a.bool"), Ok(true));
    assert_eq!(m.get_strs("tokenizer.ggml.tokens").unwrap(), ["a", "é", "", "▁the"]);
    assert_eq!(m.get_ints("tokenizer.ggml.token_type").unwrap(), [1, -1, 3, 6]);
    assert_eq!(m.get_floats("tokenizer.ggml.scores").unwrap(), [0.0, -1.5]);
    assert_eq!(m["a.bools"], Value::Bools(vec![true, false]));
    assert_eq!(m.len(), 10);

    let norm = file.require("norm.weight").unwrap();
    assert_eq!((norm.dims.as_slice(), norm.kind.name.as_ref(), norm.bytes), ([4, 3].as_slice(), "F32", 48));
    let numbers: &[f32] = bytemuck::cast_slice(file.data(norm));
    assert_eq!(numbers, (0..12).map(|n| n as f32).collect::<Vec<_>>());
    let quant = file.tensor("quant.weight").unwrap();
    assert_eq!(file.data(quant), (0..68).collect::<Vec<u8>>());
    assert_eq!(file.dtype(quant).unwrap(), DType::Q8_0);
    let names: Vec<&str> = file.tensors().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["norm.weight", "half.weight", "quant.weight"]);
}

#[test]
fn a_mapped_file_reads_as_its_bytes_and_after_release_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    let data: Vec<u8> = (0..100_000u32).flat_map(|n| n.to_le_bytes()).collect();
    let mut w = GgufWriter::new();
    w.tensor("a", &[100_000], 0, &data[..]).unwrap().tensor("b", &[100_000], 0, &data[..]).unwrap();
    w.write(std::fs::File::create(&path).unwrap()).unwrap();

    let file = ModelFile::open(&path).unwrap();
    let (a, b) = (file.tensor("a").unwrap(), file.tensor("b").unwrap());
    assert!(file.data(a) == data && file.data(b) == data);
    file.release(a);
    assert!(file.data(a) == data && file.data(b) == data);
    assert_eq!(file.parts().map(|p| p.1).collect::<Vec<_>>(), [std::fs::metadata(&path).unwrap().len() as usize]);
}

#[test]
#[cfg(target_os = "linux")]
fn released_pages_leave_resident_memory() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut ours = false;
        let mut kb = 0u64;
        for line in statm.lines() {
            if line.ends_with("released.gguf") {
                ours = true;
            } else if ours && let Some(rest) = line.strip_prefix("Rss:") {
                kb += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
                ours = false;
            }
        }
        kb
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("released.gguf");
    let data = vec![1u8; 8 << 20];
    let mut w = GgufWriter::new();
    w.tensor("a", &[2 << 20], 0, &data[..]).unwrap();
    w.write(std::fs::File::create(&path).unwrap()).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let a = file.tensor("a").unwrap();
    assert!(file.data(a).iter().all(|&b| b == 1));
    assert!(resident() >= 8 << 10, "{} kB", resident());
    file.release(a);
    assert!(resident() < 1 << 10, "{} kB", resident());
}

#[test]
fn a_tensor_of_another_file_gives_no_bytes_and_no_panic() {
    let large = ModelFile::from_slice("large", &small_gguf()).unwrap();
    let empty = ModelFile::from_slice("empty", &Raw::head(0, 0).0).unwrap();
    for t in large.tensors() {
        assert!(empty.data(t).is_empty());
        empty.release(t);
        assert!(empty.dtype(t).is_err());
    }
}

#[test]
fn embedded_bytes_are_aligned_whatever_the_linker_did() {
    // Of two starts that are one byte apart, at least one is not aligned.
    let bytes = small_gguf();
    let mut shifted = vec![0];
    shifted.extend(&bytes);
    let shifted: &'static [u8] = Box::leak(shifted.into_boxed_slice());
    let whole: &'static [u8] = Box::leak(bytes.into_boxed_slice());
    for bytes in [&shifted[1..], whole] {
        let file = ModelFile::from_bytes(bytes).unwrap();
        for t in file.tensors() {
            assert_eq!(file.data(t).as_ptr().align_offset(32), 0);
            file.dtype(t).unwrap();
        }
    }
}

#[test]
fn version_2_is_read_and_other_versions_are_refused_by_name() {
    let with = |version: u32| {
        let mut bytes = small_gguf();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        ModelFile::from_slice("v.gguf", &bytes)
    };
    assert_eq!(with(2).unwrap().version(), Some(2));
    refused(with(0), "v.gguf", "GGUF version 0");
    refused(with(1), "v.gguf", "GGUF version 1");
    refused(with(4), "v.gguf", "GGUF version 4");
    refused(with(3u32.swap_bytes()), "v.gguf", "big-endian GGUF (version 3)");
}

#[test]
fn a_tensor_without_dimensions_is_one_number() {
    let raw = Raw::head(1, 0).tensor("scale", &[], 0, 0).data(4);
    let file = raw.open().unwrap();
    let t = file.tensor("scale").unwrap();
    assert_eq!((t.elements(), t.bytes), (1, 4));
    assert_eq!(file.dtype(t).unwrap(), DType::F32);
}

#[test]
fn types_that_cannot_be_computed_open_and_are_refused_on_use() {
    let raw = Raw::head(2, 0).tensor("ids", &[4], 26, 0).tensor("none", &[0], 0, 32).data(48);
    let file = raw.open().unwrap();
    refused(file.dtype(file.tensor("ids").unwrap()), "raw.gguf", "tensor `ids`: cannot compute with type I32");
    refused(file.dtype(file.tensor("none").unwrap()), "raw.gguf", "hold no elements");
    refused(file.require("lost.weight"), "raw.gguf", "tensor `lost.weight`: missing");
}

#[test]
fn sizes_of_types_agree_with_the_formats() {
    for &dtype in DType::ALL {
        let kind = TensorType::from_ggml(dtype.ggml()).unwrap();
        assert!(kind.name.eq_ignore_ascii_case(dtype.name()), "{kind:?} {}", dtype.name());
        assert_eq!((kind.block, kind.bytes), (dtype.block() as u64, dtype.block_bytes() as u64), "{kind:?}");
    }
}

#[test]
fn keys_are_refused_with_their_name_and_what_was_found() {
    let mut m = Metadata::new();
    m.insert("a.count".into(), Value::U64(1 << 60));
    m.insert("a.text".into(), Value::Str("x".into()));
    assert_eq!(m.get_count("a.count", 4096).unwrap_err().to_string().lines().count(), 1);
    assert!(matches!(m.get_count("a.count", 4096), Err(KeyError::Limit { limit: 4096, .. })));
    assert!(matches!(m.get_u64("a.lost"), Err(KeyError::Missing { .. })));
    let text = m.get_u64("a.text").unwrap_err().to_string();
    assert!(text.contains("`a.text`") && text.contains("text (x)"), "{text}");
    assert_eq!(m.opt_f32("a.lost"), Ok(None));
    assert!(m.opt_f32("a.text").is_err());
    let file = ModelFile::from_slice("small.gguf", &small_gguf()).unwrap();
    refused(file.key(file.metadata().get_u64("a.lost")), "small.gguf", "key `a.lost` is missing");
}

#[test]
fn the_summary_shortens_lists_and_adds_up() {
    let mut w = GgufWriter::new();
    w.set("t", Value::Strs((0..1000).map(|n| n.to_string()).collect()));
    w.set("s", Value::Str("line\n".repeat(100)));
    w.tensor("a", &[32, 2], 8, vec![0; 68]).unwrap().tensor("b", &[64], 8, vec![0; 68]).unwrap();
    w.tensor_f32("c", &[3], &[0.0; 3]).unwrap();
    let summary = ModelFile::from_slice("m", &w.to_bytes().unwrap()).unwrap().summary();
    assert_eq!((summary.parameters, summary.bytes), (131, 148));
    let types: Vec<_> = summary.types.iter().map(|t| (t.kind.as_str(), t.tensors, t.elements, t.bytes)).collect();
    assert_eq!(types, [("Q8_0", 2, 128, 136), ("F32", 1, 3, 12)]);
    assert!(summary.metadata.iter().all(|row| row.value.lines().count() == 1 && row.value.len() < 500));
    assert_eq!(summary.metadata[1].value, r#"["0", "1", "2", "3", …] (1000 items)"#);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!((&json["format"], &json["tensors"][0]["type"]), (&"gguf".into(), &"Q8_0".into()));
}

#[test]
fn the_writer_refuses_what_no_reader_would_take() {
    let mut w = GgufWriter::new();
    let text = |r: Result<&mut GgufWriter, super::super::WriteError>| r.unwrap_err().to_string();
    assert!(text(w.tensor("a", &[4], 0, vec![0; 15])).contains("15 bytes are not [4] of F32"));
    assert!(text(w.tensor("a", &[33], 8, vec![0; 34])).contains("of Q8_0"));
    assert!(text(w.tensor("a", &[1], 4, vec![0])).contains("unknown type 4"));
    assert!(text(w.tensor("a", &[1; 5], 24, vec![0])).contains("5 dimensions"));
    assert!(text(w.tensor("a", &[1 << 32, 1 << 32], 24, vec![0])).contains("1 bytes are not"));
    w.tensor("a", &[1], 24, vec![0]).unwrap();
    assert!(text(w.tensor("a", &[1], 24, vec![0])).contains("already"));
    w.set("general.alignment", Value::U64(12));
    assert!(w.to_bytes().is_err());
    w.set("general.alignment", Value::U64(64));
    let file = ModelFile::from_slice("m", &w.to_bytes().unwrap()).unwrap();
    assert_eq!(file.data(file.tensor("a").unwrap()), [0]);
}

fn value() -> impl Strategy<Value = Value> {
    let float = || proptest::num::f32::NORMAL.prop_map(f64::from);
    prop_oneof![
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        float().prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        ".{0,20}".prop_map(Value::Str),
        prop::collection::vec(".{0,8}", 0..5).prop_map(Value::Strs),
        prop::collection::vec(any::<i64>(), 0..5).prop_map(Value::Ints),
        prop::collection::vec(float(), 0..5).prop_map(Value::Floats),
        prop::collection::vec(any::<bool>(), 0..5).prop_map(Value::Bools),
    ]
}

proptest! {
    #[test]
    fn any_metadata_and_tensors_survive_writing_and_reading(
        metadata in prop::collection::btree_map("[a-z.]{1,12}", value(), 0..8),
        tensors in prop::collection::btree_map("[a-z.0-9]{1,12}", (1u64..5, 1u64..4, any::<u8>()), 0..6),
    ) {
        let mut w = GgufWriter::new();
        for (key, value) in &metadata {
            w.set(key, value.clone());
        }
        for (name, &(blocks, rows, fill)) in &tensors {
            w.tensor(name, &[blocks * 32, rows], 2, vec![fill; (blocks * rows * 18) as usize]).unwrap();
        }
        let file = ModelFile::from_slice("p", &w.to_bytes().unwrap()).unwrap();
        prop_assert_eq!(file.metadata(), &metadata);
        prop_assert_eq!(file.tensors().len(), tensors.len());
        for (name, &(blocks, rows, fill)) in &tensors {
            let t = file.require(name).unwrap();
            prop_assert_eq!(&t.dims, &vec![blocks * 32, rows]);
            prop_assert_eq!(file.data(t), vec![fill; (blocks * rows * 18) as usize]);
        }
    }
}
