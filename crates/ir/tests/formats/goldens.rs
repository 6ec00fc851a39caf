//! Stored blocks and their values as the PyPI package `gguf` gives them; `make_goldens.py` says what is in the files.

use onetrip_ir::formats::DType;
use onetrip_ir::formats::convert::{dequantize, quantize};

macro_rules! goldens {
    ($($dtype:ident $file:literal),* $(,)?) => {
        const GOLDENS: &[(DType, &[u8])] = &[$((DType::$dtype, include_bytes!($file)),)*];
    };
}

goldens! {
    F32 "f32.bin", F16 "f16.bin", BF16 "bf16.bin",
    Q4_0 "q4_0.bin", Q4_1 "q4_1.bin", Q5_0 "q5_0.bin", Q5_1 "q5_1.bin", Q8_0 "q8_0.bin",
    Q2_K "q2_k.bin", Q3_K "q3_k.bin", Q4_K "q4_k.bin", Q5_K "q5_k.bin", Q6_K "q6_k.bin",
    IQ4_NL "iq4_nl.bin", IQ4_XS "iq4_xs.bin", MXFP4 "mxfp4.bin",
}

struct Golden {
    stored: &'static [u8],
    values: Vec<f32>,
    to_quantize: Vec<f32>,
    quantized: &'static [u8],
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn read(dtype: DType, file: &'static [u8]) -> Golden {
    let count = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (blocks, to_quantize) = (count(0), count(4));
    let (stored, rest) = file[8..].split_at(blocks * dtype.block_bytes());
    let (values, rest) = rest.split_at(blocks * dtype.block() * 4);
    let (x, quantized) = rest.split_at(to_quantize * dtype.block() * 4);
    assert_eq!(quantized.len(), to_quantize * dtype.block_bytes(), "{dtype}: the file has its stated length");
    Golden { stored, values: floats(values), to_quantize: floats(x), quantized }
}

#[test]
fn every_format_has_a_golden() {
    assert_eq!(GOLDENS.iter().map(|g| g.0).collect::<Vec<_>>(), DType::ALL);
    for &(dtype, file) in GOLDENS {
        let golden = read(dtype, file);
        assert!(golden.stored.len() / dtype.block_bytes() >= 28, "{dtype}");
        assert!(golden.values.iter().filter(|v| v.is_finite()).count() > golden.values.len() / 2, "{dtype}");
    }
}

/// Bits are compared, signs of zero included. A NaN is compared as a NaN: which one an operation gives is not defined
/// (its sign differs between `x - y` and `x + -y`, for one). F32 and BF16 only move bits, so there NaNs are exact.
#[test]
fn dequantize_equals_gguf_bit_for_bit() {
    for &(dtype, file) in GOLDENS {
        let golden = read(dtype, file);
        let mut got = vec![7.5; golden.values.len()];
        dequantize(dtype, golden.stored, &mut got).unwrap();
        let moves_bits = matches!(dtype, DType::F32 | DType::BF16);
        for (i, (got, want)) in got.iter().zip(&golden.values).enumerate() {
            let equal = got.to_bits() == want.to_bits() || (!moves_bits && got.is_nan() && want.is_nan());
            let (block, element) = (i / dtype.block(), i % dtype.block());
            assert!(equal, "{dtype}: block {block}, element {element}: {got:e} for {want:e}");
        }
    }
}

#[test]
fn quantize_equals_gguf_bit_for_bit() {
    let mut compared = vec![];
    for &(dtype, file) in GOLDENS {
        let golden = read(dtype, file);
        if golden.to_quantize.is_empty() {
            continue;
        }
        let mut got = vec![0xa5; golden.quantized.len()];
        quantize(dtype, &golden.to_quantize, &mut got).unwrap();
        let blocks = got.chunks_exact(dtype.block_bytes()).zip(golden.quantized.chunks_exact(dtype.block_bytes()));
        for (i, (got, want)) in blocks.enumerate() {
            let x = &golden.to_quantize[i * dtype.block()..][..dtype.block()];
            // The payload of a NaN in half precision depends on the processor.
            let nan = dtype == DType::F16 && x[0].is_nan();
            if nan {
                assert_eq!((got[1] & 0x7c, want[1] & 0x7c), (0x7c, 0x7c), "{dtype}: {x:?} stays a NaN");
            } else {
                assert_eq!(got, want, "{dtype}: block {i}: {x:?}");
            }
        }
        compared.push(dtype);
    }
    use DType::*;
    assert_eq!(compared, [F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, MXFP4]);
}
