use proptest::prelude::*;

use super::super::{FileError, ModelFile};
use super::{Raw, refused, small_gguf};

#[test]
fn a_file_cut_at_any_byte_is_an_error_of_one_line() {
    let bytes = small_gguf();
    let whole = ModelFile::from_slice("cut.gguf", &bytes).unwrap();
    // Only padding follows the last tensor; a file that is cut off there is complete.
    let end = whole.tensors().map(|t| t.offset + t.bytes).max().unwrap();
    assert!(end > 300 && end <= bytes.len());
    for length in 0..end {
        refused(ModelFile::from_slice("cut.gguf", &bytes[..length]), "cut.gguf", "byte ");
    }
    for length in end..bytes.len() {
        ModelFile::from_slice("cut.gguf", &bytes[..length]).unwrap();
    }
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_or_another_whole_file() {
    let bytes = small_gguf();
    let mut opened = 0;
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match ModelFile::from_slice("flip.gguf", &bytes) {
            Ok(file) => {
                opened += 1;
                for t in file.tensors() {
                    assert_eq!(file.data(t).len(), t.bytes);
                    let _ = file.dtype(t).map_err(|e| e.to_string());
                }
            }
            Err(e) => assert_eq!(e.to_string().lines().count(), 1, "{e}"),
        }
    }
    assert!(opened > 0);
}

#[test]
fn a_wrong_magic_is_refused() {
    Raw::default().bytes(b"GGML").data(100).refused("byte 0: the magic number");
    Raw::default().refused("byte 0: the magic number needs 4 bytes, but only 0 are left");
}

#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_made() {
    for n in [1, 1 << 20, 1 << 60, u64::MAX] {
        Raw::head(n, 0).refused("tensors announced");
        Raw::head(0, n).refused("metadata entries announced");
    }
}

#[test]
fn lengths_of_text_beyond_the_file_are_refused() {
    for n in [9, 1 << 32, 1 << 60, u64::MAX] {
        Raw::head(0, 1).u64(n).bytes(b"12345678").refused("a metadata key needs");
        Raw::head(0, 1).text("k").u32(8).u64(n).bytes(b"12345678").refused("the value of key `k` needs");
        Raw::head(1, 0).u64(n.max(100)).data(32).refused("a tensor name needs");
    }
}

#[test]
fn lengths_of_lists_beyond_the_file_are_refused() {
    for kind in [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12] {
        for n in [9, 1 << 60, u64::MAX] {
            Raw::head(0, 1).text("k").u32(9).u32(kind).u64(n).bytes(&[0; 8]).refused("array items announced");
        }
    }
}

#[test]
fn lists_of_lists_and_unknown_types_are_refused() {
    Raw::head(0, 1).text("k").u32(9).u32(9).u64(1).data(64).refused("`k` is an array of arrays");
    Raw::head(0, 1).text("k").u32(9).u32(13).u64(1).data(64).refused("`k` has items of unknown type 13");
    Raw::head(0, 1).text("k").u32(13).u64(1).data(64).refused("`k` has unknown type 13");
    Raw::head(0, 1).text("k").u32(u32::MAX).u64(1).data(64).refused("unknown type 4294967295");
}

#[test]
fn more_items_than_any_model_has_are_refused() {
    let n = (1 << 24) + 1;
    Raw::head(0, 1).text("k").u32(9).u32(0).u64(n).data(n as usize + 32).refused("more than 16777216 array items");
}

#[test]
fn truth_values_other_than_0_and_1_are_refused() {
    Raw::head(0, 1).text("k").u32(7).bytes(&[2]).refused("truth value 2");
    Raw::head(0, 1).text("k").u32(9).u32(7).u64(2).bytes(&[1, 255]).refused("truth value 255");
}

#[test]
fn integers_that_do_not_fit_a_list_are_refused() {
    Raw::head(0, 1).text("k").u32(9).u32(10).u64(1).u64(u64::MAX).refused("does not fit a signed integer");
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_place() {
    let key = Raw::head(0, 1).u64(2).bytes(b"a\xff").u32(4).u32(0);
    key.refused("byte 33: a metadata key is not UTF-8");
    let token = Raw::head(0, 1).text("t").u32(9).u32(8).u64(2).text("ok").u64(2).bytes(b"\xf0\x9f");
    token.refused("the value of key `t` is not UTF-8");
    Raw::head(1, 0).u64(1).bytes(b"\x80").u32(0).u32(0).u64(0).data(32).refused("a tensor name is not UTF-8");
}

#[test]
fn keys_and_tensors_that_occur_twice_are_refused() {
    Raw::head(0, 2).entry("k", 1).entry("k", 1).refused("key `k` occurs twice");
    let twice = Raw::head(2, 0).tensor("t", &[8], 0, 0).tensor("t", &[8], 0, 32).data(64);
    twice.refused("tensor `t` occurs twice");
}

#[test]
fn alignments_that_are_no_power_of_two_or_too_small_are_refused() {
    for n in [0, 1, 4, 12, 33, u32::MAX] {
        Raw::head(0, 1).entry("general.alignment", n).refused("key `general.alignment` should be a power of two");
    }
    Raw::head(0, 1).text("general.alignment").u32(8).text("32").refused("general.alignment");
    Raw::head(0, 1).entry("general.alignment", 8).open().unwrap();
    // The data would start at 2^31, far behind the end: no tensor can be there.
    let far = Raw::head(1, 1).entry("general.alignment", 1 << 31).tensor("t", &[1], 24, 0).data(64);
    far.refused("do not fit in the file");
}

#[test]
fn dimensions_that_overflow_or_break_blocks_are_refused() {
    for dims in [&[1 << 32, 1 << 32][..], &[u64::MAX, 2], &[u64::MAX], &[1 << 63], &[1 << 16; 4]] {
        Raw::head(1, 0).tensor("big", dims, 0, 0).data(64).refused("tensor `big`");
    }
    Raw::head(1, 0).tensor("t", &[33], 8, 0).data(68).refused("not whole blocks of 32");
    // 16 elements of a row are half a block, though two rows would fill one.
    Raw::head(1, 0).tensor("t", &[16, 2], 8, 0).data(34).refused("not whole blocks of 32");
    Raw::head(1, 0).tensor("t", &[1; 5], 0, 0).data(64).refused("has 5 dimensions");
    Raw::head(1, 0).text("t").u32(u32::MAX).data(64).refused("has 4294967295 dimensions");
}

#[test]
fn unknown_tensor_types_are_refused_with_name_and_number() {
    for number in [4, 5, 31, 255, u32::MAX] {
        let raw = Raw::head(1, 0).tensor("blk.0.attn_q.weight", &[32], number, 0).data(64);
        raw.refused(&format!("tensor `blk.0.attn_q.weight`: unknown tensor type {number}"));
    }
}

#[test]
fn offsets_outside_the_file_misaligned_or_overlapping_are_refused() {
    for offset in [32, 64, 1 << 40, u64::MAX - 31] {
        Raw::head(1, 0).tensor("t", &[8], 0, offset).data(32).refused("do not fit in the file");
    }
    for offset in [1, 8, 31] {
        Raw::head(1, 0).tensor("t", &[8], 0, offset).data(64).refused("no multiple of 32");
    }
    let overlap = Raw::head(2, 0).tensor("b", &[8], 0, 32).tensor("a", &[16], 0, 0).data(64);
    overlap.refused("tensors `a` and `b` overlap");
    let same = Raw::head(2, 0).tensor("a", &[8], 0, 0).tensor("b", &[8], 0, 0).data(64);
    same.refused("overlap");
    let swapped = Raw::head(2, 0).tensor("b", &[8], 0, 32).tensor("a", &[8], 0, 0).data(64);
    assert_eq!(swapped.open().unwrap().tensors().len(), 2);
}

#[test]
fn names_from_the_file_cannot_break_the_line_or_flood_it() {
    let name = format!("evil\n\x1b[31m\u{202e}{}", "x".repeat(10_000));
    let raw = Raw::head(1, 0).tensor(&name, &[32], 99, 0).data(64);
    raw.refused(r"evil\n\u{1b}[31m\u{202e}xxx");
    assert!(raw.open().unwrap_err().to_string().len() < 400);
}

#[test]
fn paths_that_are_no_model_files_are_refused_without_hanging() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    refused(ModelFile::open(path("lost.gguf")), "lost.gguf", "cannot open");
    std::fs::write(path("empty.gguf"), b"").unwrap();
    refused(ModelFile::open(path("empty.gguf")), "empty.gguf", "byte 0");
    std::fs::write(path("notes.txt"), b"hello").unwrap();
    refused(ModelFile::open(path("notes.txt")), "notes.txt", "not a model file");
    std::fs::write(path("named-otherwise"), small_gguf()).unwrap();
    ModelFile::open(path("named-otherwise")).unwrap();
    refused(ModelFile::open(dir.path()), &dir.path().to_string_lossy(), "no config.json");
    #[cfg(unix)]
    refused(ModelFile::open("/dev/zero"), "/dev/zero", "not a regular file");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn heads_of_any_fields_never_panic(
        tensors in 0u64..4,
        entries in 0u64..4,
        fields in prop::collection::vec(prop_oneof![0u64..34, any::<u64>(), Just(1u64 << 60)], 0..24),
        wide in prop::collection::vec(any::<bool>(), 24),
    ) {
        let mut raw = Raw::head(tensors, entries);
        for (&field, &wide) in fields.iter().zip(&wide) {
            raw = if wide { raw.u64(field) } else { raw.u32(field as u32) };
        }
        if let Err(e) = raw.data(64).open() {
            let damaged = matches!(e, FileError::Damaged { .. } | FileError::Tensor { .. } | FileError::Key { .. });
            prop_assert!(damaged && e.to_string().lines().count() == 1, "{}", e);
        }
    }

    #[test]
    fn a_span_of_a_good_file_overwritten_with_anything_never_panics(
        at in 0usize..400,
        with in prop::collection::vec(any::<u8>(), 1..16),
    ) {
        let mut bytes = small_gguf();
        let end = (at + with.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&with[..end - at]);
        if let Ok(file) = ModelFile::from_slice("p", &bytes) {
            for t in file.tensors() {
                prop_assert_eq!(file.data(t).len(), t.bytes);
            }
        }
    }
}
