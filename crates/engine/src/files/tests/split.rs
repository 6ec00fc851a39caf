use std::path::{Path, PathBuf};

use super::super::{GgufWriter, ModelFile, Value};
use super::refused;

/// Writes part `number` (from 0) of `count` with one tensor of `tensors` as `name`.
fn part(dir: &Path, name: &str, number: u64, count: u64, total: u64) -> PathBuf {
    let mut w = GgufWriter::new();
    w.set("split.no", Value::U64(number)).set("split.count", Value::U64(count));
    w.set("split.tensors.count", Value::U64(total));
    if number == 0 {
        w.set("general.architecture", Value::Str("llama".into()));
    }
    w.tensor(format!("t{number}"), &[32], 24, vec![number as u8; 32]).unwrap();
    let path = dir.join(name);
    w.write(std::fs::File::create(&path).unwrap()).unwrap();
    path
}

fn name(number: u64) -> String {
    format!("m-{:05}-of-00003.gguf", number + 1)
}

#[test]
fn any_part_opens_the_whole_model() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..3).map(|n| part(dir.path(), &name(n), n, 3, 3)).collect();
    for path in &paths {
        let file = ModelFile::open(path).unwrap();
        assert_eq!(file.parts().len(), 3);
        assert!(file.name().ends_with("m-00001-of-00003.gguf"));
        assert_eq!(file.metadata()["general.architecture"], Value::Str("llama".into()));
        for (n, t) in file.tensors().enumerate() {
            assert_eq!((t.name.as_str(), t.part), (format!("t{n}").as_str(), n));
            assert_eq!(file.data(t), [n as u8; 32]);
        }
    }
}

#[test]
fn a_missing_part_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let first = part(dir.path(), &name(0), 0, 3, 3);
    part(dir.path(), &name(2), 2, 3, 3);
    refused(ModelFile::open(first), "m-00002-of-00003.gguf", "part 2 of 3 is missing");
}

#[test]
fn parts_of_another_number_count_or_model_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = part(dir.path(), &name(0), 0, 3, 3);
    part(dir.path(), &name(1), 2, 3, 3);
    part(dir.path(), &name(2), 2, 3, 3);
    refused(ModelFile::open(&first), "m-00002-of-00003.gguf", "split.no is 2, but 1 belongs here");
    part(dir.path(), &name(1), 1, 4, 3);
    refused(ModelFile::open(&first), "m-00002-of-00003.gguf", "split.count is 4, but 3 belongs here");
    part(dir.path(), &name(1), 1, 3, 3);
    part(dir.path(), &name(0), 0, 3, 7);
    refused(ModelFile::open(&first), "m-00001-of-00003.gguf", "split.tensors.count is 7, but the parts hold 3");
}

#[test]
fn a_part_under_another_name_or_without_siblings_names_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    refused(ModelFile::open(part(dir.path(), "m.gguf", 0, 3, 3)), "m.gguf", "-of-00003.gguf");
    let path = part(dir.path(), "m-1-of-00003.gguf", 0, 3, 3);
    refused(ModelFile::open(path), "m-1-of-00003.gguf", "its name does not end in");
    let path = part(dir.path(), "m-00001-of-4000000000.gguf", 0, 4_000_000_000, 3);
    refused(ModelFile::open(path), "m-00001", "split.count is 4000000000");
}

#[test]
fn a_tensor_in_two_parts_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = part(dir.path(), "m-00001-of-00002.gguf", 0, 2, 2);
    let mut w = GgufWriter::new();
    w.set("split.no", Value::U64(1)).set("split.count", Value::U64(2));
    w.tensor("t0", &[32], 24, vec![0; 32]).unwrap();
    w.write(std::fs::File::create(dir.path().join("m-00002-of-00002.gguf")).unwrap()).unwrap();
    refused(ModelFile::open(first), "m-00002-of-00002.gguf", "tensor `t0`: occurs in ");
}

#[test]
fn a_part_in_memory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(part(dir.path(), "m.gguf", 0, 3, 3)).unwrap();
    refused(ModelFile::from_slice("m", &bytes), "m", "open split models by path");
}
