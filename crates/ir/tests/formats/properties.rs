//! What must hold for any block, whatever a file or a model brings.

use onetrip_ir::formats::DType;
use onetrip_ir::formats::block::{MAX_BLOCK, Unpacked};
use onetrip_ir::formats::convert::{FormatError, dequantize, quantize, requantize};
use proptest::prelude::*;

fn block_formats() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|dtype| !dtype.is_float())
}

fn rounded(dtype: DType, x: &[f32]) -> Vec<f32> {
    let mut stored = vec![0; dtype.row_bytes(x.len()).unwrap()];
    quantize(dtype, x, &mut stored).unwrap();
    let mut out = vec![f32::NAN; x.len()];
    dequantize(dtype, &stored, &mut out).unwrap();
    out
}

/// `count` normally distributed values (sum of twelve uniforms), the same for the same seed.
fn normal(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count).map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0).collect()
}

fn relative_error(x: &[f32], y: &[f32]) -> f64 {
    let square = |v: f32| f64::from(v) * f64::from(v);
    let error: f64 = x.iter().zip(y).map(|(x, y)| square(x - y)).sum();
    (error / x.iter().map(|&x| square(x)).sum::<f64>()).sqrt()
}

#[test]
fn names_and_gguf_numbers_lead_back_to_the_format() {
    for &dtype in DType::ALL {
        assert_eq!(DType::parse(dtype.name()), Some(dtype));
        assert_eq!(DType::parse(&dtype.name().to_uppercase()), Some(dtype));
        assert_eq!(DType::parse(&format!("{dtype:?}")), Some(dtype), "the name is the variant's");
        assert_eq!(DType::from_ggml(dtype.ggml()), Some(dtype));
    }
    let known = (0..1000).filter(|&n| DType::from_ggml(n).is_some()).count();
    assert_eq!(known, DType::ALL.len(), "no two formats share a number");
    assert_eq!(DType::parse("q4_k_m"), None);
    assert_eq!(DType::parse(""), None);
    assert_eq!(DType::from_ggml(u32::MAX), None);
    // Removed or not supported types of GGUF: Q4_2, Q4_3, Q8_1, Q8_K, IQ2_XXS, I8.
    assert!([4, 5, 9, 15, 16, 24].iter().all(|&n| DType::from_ggml(n).is_none()));
}

#[test]
fn block_sizes_are_those_of_gguf() {
    let sizes: Vec<_> = DType::ALL.iter().map(|d| (d.name(), d.ggml(), d.block(), d.block_bytes())).collect();
    let expected = [
        ("f32", 0, 1, 4),
        ("f16", 1, 1, 2),
        ("bf16", 30, 1, 2),
        ("q4_0", 2, 32, 18),
        ("q4_1", 3, 32, 20),
        ("q5_0", 6, 32, 22),
        ("q5_1", 7, 32, 24),
        ("q8_0", 8, 32, 34),
        ("q2_k", 10, 256, 84),
        ("q3_k", 11, 256, 110),
        ("q4_k", 12, 256, 144),
        ("q5_k", 13, 256, 176),
        ("q6_k", 14, 256, 210),
        ("iq4_nl", 20, 32, 18),
        ("iq4_xs", 23, 256, 136),
        ("mxfp4", 39, 32, 17),
    ];
    assert_eq!(sizes, expected);
}

#[test]
fn specs_fit_the_contract_kernels_rely_on() {
    for dtype in block_formats() {
        let spec = dtype.spec().unwrap();
        assert_eq!((spec.block, spec.bytes), (dtype.block(), dtype.block_bytes()), "{dtype}");
        assert!(spec.block <= MAX_BLOCK && spec.block % spec.group == 0, "{dtype}");
        assert!(spec.group == 16 || spec.group == 32, "{dtype}");
        assert!(spec.table.is_none() || (spec.bits == 4 && spec.zero == 0), "{dtype}");
        let mut stored = vec![0xff; spec.bytes];
        let mut parts = Unpacked::default();
        for fill in [0x00, 0xff, 0xa5] {
            stored.fill(fill);
            dtype.def().unpack(&stored, &mut parts);
            assert!(parts.quants[..spec.block].iter().all(|&quant| u32::from(quant) < 1 << spec.bits), "{dtype}");
            assert!(spec.sub_scales || parts.sc.iter().all(|&sc| sc == 1), "{dtype}");
        }
    }
}

#[test]
fn lengths_that_do_not_belong_together_are_refused() {
    let mut out = [0.0; 64];
    assert_eq!(
        dequantize(DType::Q4_0, &[0; 35], &mut out),
        Err(FormatError::Bytes { dtype: DType::Q4_0, elements: 64, need: 36, bytes: 35 })
    );
    assert_eq!(
        dequantize(DType::Q4_K, &[0; 144], &mut out),
        Err(FormatError::Ragged { dtype: DType::Q4_K, elements: 64 })
    );
    assert!(quantize(DType::Q8_0, &out, &mut [0; 69]).is_err());
    let cut = requantize(DType::Q8_0, &[0; 33], DType::F16, &mut [0; 64]).unwrap_err();
    assert_eq!(cut.to_string(), "33 bytes are not whole q8_0 blocks of 34 bytes: the row is cut off");
    assert!(requantize(DType::Q8_0, &[0; 34], DType::Q6_K, &mut [0; 210]).is_err(), "32 elements are no Q6_K block");
}

#[test]
fn more_bits_round_closer() {
    let x = normal(256 * 64, 1);
    let errors: Vec<_> = block_formats().map(|dtype| (dtype, relative_error(&x, &rounded(dtype, &x)))).collect();
    let error = |dtype| errors.iter().find(|e| e.0 == dtype).unwrap().1;
    use DType::*;
    for ladder in [&[Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_0][..], &[Q4_0, Q5_0, Q8_0], &[Q4_1, Q5_1, Q8_0]] {
        for pair in ladder.windows(2) {
            assert!(error(pair[1]) < 0.7 * error(pair[0]), "{} against {}: {errors:?}", pair[1], pair[0]);
        }
    }
    // The searched formats are better than the better plain one of the same bits.
    for (searched, plain) in [(Q4_K, Q4_1), (IQ4_NL, Q4_1), (IQ4_XS, Q4_1), (Q5_K, Q5_1)] {
        assert!(error(searched) < error(plain), "{searched} against {plain}: {errors:?}");
    }
}

#[test]
fn requantize_is_dequantize_then_quantize() {
    // 1024 elements are converted at a time: three of those and a rest.
    let x = normal(3 * 1024 + 512, 2);
    for &src in DType::ALL {
        let mut stored = vec![0; src.row_bytes(x.len()).unwrap()];
        quantize(src, &x, &mut stored).unwrap();
        let values = rounded(src, &x);
        for &dst in DType::ALL {
            let bytes = dst.row_bytes(x.len()).unwrap();
            let (mut got, mut want) = (vec![0x5a; bytes], vec![0; bytes]);
            requantize(src, &stored, dst, &mut got).unwrap();
            quantize(dst, &values, &mut want).unwrap();
            assert!(got == if src == dst { stored.clone() } else { want }, "{src} to {dst}");
        }
    }
}

/// The largest rounding error of one element, in parts of the block's largest size: a step of the quants (half a step for
/// the plain rules, a whole one where the search may clip), and for sub-scales what their own rounding adds.
fn worst(dtype: DType) -> f32 {
    use DType::*;
    match dtype {
        F32 => 0.0,
        F16 => 1.0 / 2048.0,
        BF16 => 1.0 / 256.0,
        // One step: the value opposite to the extreme one is clipped.
        Q4_0 => 1.0 / 8.0,
        Q5_0 => 1.0 / 16.0,
        // The range is up to twice the largest size, in 15 or 31 steps.
        Q4_1 => 1.0 / 15.0,
        Q5_1 => 1.0 / 31.0,
        Q8_0 => 0.5 / 127.0,
        // Searched: 1.5 steps (of a range of twice the size). Sub-scales: half a step of theirs, for scale and min.
        Q2_K => 1.0 + 4.0 / 30.0,
        Q4_K => 3.0 / 15.0 + 4.0 / 126.0,
        Q5_K => 3.0 / 31.0 + 4.0 / 126.0,
        Q3_K => 1.5 / 4.0 + 1.0 / 64.0,
        Q6_K => 1.5 / 32.0 + 1.0 / 256.0,
        // Steps of the book differ: 24 of 113 at the positive end.
        IQ4_NL => 1.5 * 24.0 / 113.0,
        IQ4_XS => 1.5 * 24.0 / 113.0 + 1.0 / 64.0,
        // Half the step from 4 to 6, and what is cut off above 6, of a largest size from 4 to 8.
        MXFP4 => 1.0 / 4.0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn row_bytes_is_exact_or_none(elements in prop_oneof![any::<usize>(), 0..5000usize, (0..=usize::MAX / 256).prop_map(|n| n * 256)]) {
        for &dtype in DType::ALL {
            let exact = (elements as u128 / dtype.block() as u128) * dtype.block_bytes() as u128;
            let fits = elements % dtype.block() == 0 && exact <= usize::MAX as u128;
            prop_assert_eq!(dtype.row_bytes(elements).map(|b| b as u128), fits.then_some(exact), "{}", dtype);
        }
    }

    #[test]
    fn pack_is_the_inverse_of_unpack(bytes in proptest::collection::vec(any::<u8>(), 210)) {
        for dtype in block_formats() {
            let block = &bytes[..dtype.block_bytes()];
            // What an earlier block left behind must not show.
            let mut parts = Unpacked { quants: [0xff; MAX_BLOCK], d: 9.0, m: 9.0, sc: [-9; 16], mc: [9; 16] };
            dtype.def().unpack(block, &mut parts);
            if parts.d.is_nan() || parts.m.is_nan() {
                continue; // the payload of a NaN may change
            }
            let mut again = vec![0xa5; block.len()];
            dtype.def().pack(&parts, &mut again);
            prop_assert_eq!(&again[..], block, "{}", dtype);
        }
    }

    #[test]
    fn rounding_stays_within_the_steps_of_the_format(
        x in proptest::collection::vec(-1.0f32..1.0, 256),
        exponents in proptest::collection::vec(-3i32..=0, 16),
        shift in prop_oneof![Just(0.0f32), -1.0f32..1.0],
        scale in prop_oneof![Just(1.0f32), 0.05f32..500.0],
    ) {
        // Groups of very different size, on either side of zero.
        let x: Vec<f32> = x.iter().enumerate().map(|(i, x)| (x + shift) * 10f32.powi(exponents[i / 16]) * scale).collect();
        for &dtype in DType::ALL {
            let y = rounded(dtype, &x);
            for (x, y) in x.chunks_exact(dtype.block()).zip(y.chunks_exact(dtype.block())) {
                let largest = x.iter().fold(0.0f32, |a, x| a.max(x.abs()));
                // Scales are f16: 11 bits, and no finer than 2^-24 (quants and sub-scales multiply that by 127 at most
                // in Q8_0 and by 63 * 31 in Q5_K; both fields of it).
                let bound = worst(dtype) * largest + if dtype.is_float() { 1e-7 } else { largest / 500.0 + 2e-4 };
                for (x, y) in x.iter().zip(y) {
                    prop_assert!((x - y).abs() <= bound, "{}: {} became {}, largest {}", dtype, x, y, largest);
                }
            }
        }
    }

    #[test]
    fn any_bytes_and_any_floats_are_converted_without_a_panic(bits in proptest::collection::vec(any::<u32>(), 256)) {
        let x: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
        let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
        for &dtype in DType::ALL {
            let stored = &bytes[..dtype.row_bytes(256).unwrap()];
            let mut out = vec![0.0; 256];
            dequantize(dtype, stored, &mut out).unwrap();
            let mut again = vec![0; stored.len()];
            quantize(dtype, &x, &mut again).unwrap();
            quantize(dtype, &out, &mut again).unwrap();
        }
    }

    #[test]
    fn extreme_sizes_stay_finite(x in proptest::collection::vec(-1.0f32..1.0, 256), power in -45i32..=38) {
        let x: Vec<f32> = x.iter().map(|x| x * 10f32.powi(power)).collect();
        for dtype in [DType::Q2_K, DType::Q3_K, DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::IQ4_NL, DType::IQ4_XS, DType::MXFP4] {
            let y = rounded(dtype, &x);
            prop_assert!(y.iter().all(|y| y.is_finite()), "{} at 1e{}", dtype, power);
        }
    }
}
