//! Speed of the vector kernels on one thread of this machine: `cargo run --release --example simd_bench [ISA] [PART]`;
//! PART is `floats`, `maps`, `streams` (two weights in turn) or a format; without it all but `streams`.
//!
//! Decode: one token over 200 MB of weights, in GB/s of tile bytes. Prefill: 512 tokens, in 10^9 operations a second
//! (two a weight and token), with weights that stay in the second-level cache and with weights streamed from memory.
//! Time is the thread's time on a processor where the system tells it (other processes then disturb less), else
//! wall time. Each figure is the best and the median of its repeats.

use onetrip_core::formats::tile::TileLayout;
use onetrip_core::formats::{BlockSpec, Offset, Unpacked};
use onetrip_core::simd::{DotRows, FloatKind, Isa, Mix, Simd, q8_row_bytes, simd};
use std::hint::black_box;
use std::time::Instant;

const TABLE: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const MATRIX: usize = 200 << 20;

fn specs() -> Vec<(&'static str, BlockSpec)> {
    let s = |block, bytes, group, bits, zero, offset| BlockSpec {
        block,
        bytes,
        group,
        bits,
        zero,
        offset,
        table: None,
        sub_scales: block == 256,
    };
    let mut iq4 = s(256, 136, 32, 4, 0, Offset::None);
    iq4.table = Some(&TABLE);
    vec![
        ("q4_0", s(32, 18, 32, 4, 8, Offset::None)),
        ("q4_1", s(32, 20, 32, 4, 0, Offset::Plain)),
        ("q5_0", s(32, 22, 32, 5, 16, Offset::None)),
        ("q8_0", s(32, 34, 32, 8, 128, Offset::None)),
        ("q2_k", s(256, 84, 16, 2, 0, Offset::Scaled)),
        ("q3_k", s(256, 110, 16, 3, 4, Offset::None)),
        ("q4_k", s(256, 144, 32, 4, 0, Offset::Scaled)),
        ("q5_k", s(256, 176, 32, 5, 0, Offset::Scaled)),
        ("q6_k", s(256, 210, 16, 6, 32, Offset::None)),
        ("iq4_xs", iq4),
    ]
}

/// Seconds this thread has run; `None` where the system does not tell.
fn on_cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().next()?.parse::<f64>().ok().map(|ns| ns * 1e-9)
}

/// Best and median seconds of `repeats` runs, each long enough for the clock.
fn time(repeats: usize, mut f: impl FnMut()) -> (f64, f64) {
    f();
    let once = Instant::now();
    f();
    let inner = (0.1 / once.elapsed().as_secs_f64().max(1e-9)).ceil().clamp(1.0, 1e6) as usize;
    let mut times: Vec<f64> = (0..repeats)
        .map(|_| {
            let (cpu, wall) = (on_cpu(), Instant::now());
            (0..inner).for_each(|_| f());
            let wall = wall.elapsed().as_secs_f64();
            // The counter moves at scheduler ticks on some systems; wall time bounds it.
            let cpu = cpu.zip(on_cpu()).map_or(wall, |(a, b)| b - a);
            cpu.min(wall) / inner as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[repeats / 2])
}

fn random(n: usize) -> Vec<f32> {
    let mut x = 9u64;
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

fn show(what: &str, work: f64, unit: &str, (best, median): (f64, f64)) {
    println!("{what:<36} {:>8.1} {unit} best, {:>8.1} median", work / best / 1e9, work / median / 1e9);
}

fn tiles(s: &Simd, only: &str) {
    let k = 2048;
    for (name, spec) in specs().into_iter().filter(|x| only.is_empty() || only == x.0) {
        let layout = TileLayout::new(spec, k).expect("a layout");
        let stored: Vec<u8> = (0..16 * layout.stored_row_bytes()).map(|i| ((i * 7919) >> 3) as u8).collect();
        let rows: Vec<&[u8]> = stored.chunks(layout.stored_row_bytes()).collect();
        let unpack = |b: &[u8], u: &mut Unpacked| {
            u.codes[..spec.block].fill(b[0] & ((1u32 << spec.bits) - 1) as u8);
            (u.d, u.m) = (0.01, 0.01);
        };
        let mut tile = vec![0; layout.tile_bytes()];
        let packing = time(5, || layout.pack(&rows, &unpack, &mut tile));
        show(&format!("{name} pack (with a empty unpack)"), stored.len() as f64, "GB/s", packing);
        let count = MATRIX / layout.tile_bytes();
        let matrix: Vec<u8> = tile.iter().copied().cycle().take(count * tile.len()).collect();
        let n = 512;
        let x = random(n * k);
        let mut acts = vec![0; n * q8_row_bytes(k)];
        for (x, out) in x.chunks(k).zip(acts.chunks_mut(q8_row_bytes(k))) {
            (s.quantize_q8)(x, out);
        }
        let mut out = vec![[0.0; 16]; n];
        let mut run = |tiles: &[u8], n: usize| {
            for tile in tiles.chunks(layout.tile_bytes()) {
                (s.dot_tile)(&layout, tile, &acts, n, &mut out);
                black_box(&mut out);
            }
        };
        let decode = time(9, || run(&matrix, 1));
        show(&format!("{name} decode, 200 MB"), matrix.len() as f64, "GB/s", decode);
        let few = &matrix[..(256 << 10) / tile.len() * tile.len()];
        show(&format!("{name} decode, 256 KB"), few.len() as f64, "GB/s", time(9, || run(few, 1)));
        let ops = |tiles: &[u8], n: usize| (tiles.len() / layout.tile_bytes() * 16 * k * n * 2) as f64;
        let part = &matrix[..matrix.len() / 8 / tile.len() * tile.len()];
        show(&format!("{name} 4 tokens, 25 MB"), ops(part, 4), "GOPS", time(5, || run(part, 4)));
        show(&format!("{name} 16 tokens, 25 MB"), ops(part, 16), "GOPS", time(5, || run(part, 16)));
        show(&format!("{name} 4 tokens, 256 KB"), ops(few, 4), "GOPS", time(5, || run(few, 4)));
        show(&format!("{name} 16 tokens, 256 KB"), ops(few, 16), "GOPS", time(5, || run(few, 16)));
        show(&format!("{name} 512 tokens, 256 KB"), ops(few, n), "GOPS", time(5, || run(few, n)));
        let part = &part[..part.len() / 8 / tile.len() * tile.len()];
        show(&format!("{name} 512 tokens, 3 MB"), ops(part, n), "GOPS", time(5, || run(part, n)));
    }
}

/// One token over two matrices of 50 MB in large pages, so many tiles of the one and then of the other.
fn streams(s: &Simd) {
    let mut memory = memmap2::MmapMut::map_anon(MATRIX / 2).expect("memory");
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    memory.fill(1);
    let (a, b) = memory.split_at(MATRIX / 4);
    for (name, spec) in specs() {
        for k in [1024, 4096, 8192] {
            let layout = TileLayout::new(spec, k).expect("a layout");
            let mut acts = vec![0; q8_row_bytes(k)];
            (s.quantize_q8)(&random(k), &mut acts);
            let mut out = [[0.0; 16]];
            for run in [1, 16] {
                let bytes = run * layout.tile_bytes();
                let pass = || {
                    for part in a.chunks_exact(bytes).zip(b.chunks_exact(bytes)).flat_map(|(a, b)| [a, b]) {
                        for tile in part.chunks(layout.tile_bytes()) {
                            (s.dot_tile)(&layout, tile, &acts, 1, black_box(&mut out));
                        }
                    }
                };
                let what = format!("{name}, two of {k} columns, {run:>2} tiles a turn");
                show(&what, (2 * (a.len() / bytes * bytes)) as f64, "GB/s", time(9, pass));
            }
        }
    }
}

fn floats(s: &Simd) {
    let (k, n) = (896, 512);
    let acts = random(n * k);
    let mut out = vec![0.0; n * 256];
    let bytes = vec![0x12u8; MATRIX];
    for kind in [FloatKind::F32, FloatKind::F16, FloatKind::Bf16] {
        let row_bytes = k * kind.bytes();
        let mut run = |n_tokens: usize, total: usize, rows: usize| {
            for part in bytes[..total / row_bytes / rows * rows * row_bytes].chunks(row_bytes * rows) {
                let o = DotRows { kind, rows: part, row_bytes, n_rows: rows, k, acts: &acts, act_stride: k, n_tokens };
                (s.dot_rows)(&o, &mut out, 256);
                black_box(&mut out);
            }
        };
        show(&format!("{kind:?} rows, decode 200 MB"), MATRIX as f64, "GB/s", time(5, || run(1, MATRIX, 64)));
        show(&format!("{kind:?} rows, decode 256 KB"), (256 << 10) as f64, "GB/s", time(5, || run(1, 256 << 10, 48)));
        let ops = (32 << 20) as f64 / row_bytes as f64 * (k * 2) as f64;
        for n in [4, 16] {
            let what = format!("{kind:?} rows, {n} tokens, 32 MB");
            show(&what, ops * n as f64, "GFLOPS", time(5, || run(n, 32 << 20, 48)));
        }
        let ops = (1 << 20) as f64 / row_bytes as f64 * (k * n * 2) as f64;
        show(&format!("{kind:?} rows, 512 tokens, 48 rows"), ops, "GFLOPS", time(5, || run(n, 1 << 20, 48)));
    }
    for dim in [64, 128] {
        let context = 1024;
        let (q, mut p, mut o) = (random(dim), vec![0.1; context], vec![0.0; dim]);
        let bytes = &bytes[..context * dim * 2];
        let run = || (s.scores)(FloatKind::F16, bytes, context, dim, &q, 0.1, black_box(&mut p));
        show(&format!("F16 scores, dim {dim}"), bytes.len() as f64, "GB/s", time(9, run));
        let run = || (s.mix1)(FloatKind::F16, bytes, context, dim, &p, black_box(&mut o));
        show(&format!("F16 mix1, dim {dim}"), bytes.len() as f64, "GB/s", time(9, run));
        let (m, n) = (64, 64);
        let (p, v, mut o) = (random(m * n), random(n * dim), vec![0.0; m * dim]);
        let run = || {
            let mix = Mix { p: &p, p_stride: n, v: &v, v_stride: dim, m, n, d: dim };
            (s.mix)(&mix, black_box(&mut o), dim);
        };
        show(&format!("mix 64 x 64 x {dim}"), (2 * m * n * dim) as f64, "GFLOPS", time(9, run));
        let mut o = vec![0.0; 64 * dim];
        let run = || (s.transpose)(FloatKind::F16, &bytes[..128 * dim], 64, dim, black_box(&mut o), 64);
        show(&format!("F16 transpose 64 x {dim}"), (64 * dim) as f64, "G numbers/s", time(9, run));
    }
}

fn maps(s: &Simd) {
    let n = 4096;
    let x = random(n);
    let (mut y, mut h, mut q) = (x.clone(), vec![0u16; n], vec![0; q8_row_bytes(n)]);
    let mut one = |what: &str, f: &mut dyn FnMut(&mut [f32])| {
        show(what, n as f64, "G numbers/s", time(9, || f(black_box(&mut y))));
    };
    one("rms_norm", &mut |y| (s.rms_norm)(&x, Some(&x), 1e-5, y));
    one("softmax_exp (with a copy)", &mut |y| {
        y.copy_from_slice(&x);
        black_box((s.softmax_exp)(y, 1.0));
    });
    one("silu_mul", &mut |y| (s.silu_mul)(&x, &x, y));
    one("gelu_tanh_mul", &mut |y| (s.gelu_tanh_mul)(&x, &x, y));
    one("tanh (with a copy)", &mut |y| {
        y.copy_from_slice(&x);
        (s.tanh)(y);
    });
    one("add", &mut |y| (s.add)(&x, &x, y));
    one("max", &mut |y| {
        black_box((s.max)(y));
    });
    one("f32_to_f16", &mut |y| (s.f32_to_f16)(y, black_box(&mut h)));
    one("quantize_q8", &mut |y| (s.quantize_q8)(y, black_box(&mut q)));
}

fn main() {
    let mut args = std::env::args().skip(1);
    let wanted = args.next().unwrap_or_else(|| Isa::detect().name().to_string());
    let part = args.next().unwrap_or_default();
    let Some(isa) = Isa::available().iter().find(|isa| isa.name() == wanted) else {
        eprintln!("this processor has no {wanted}; it has {:?}", Isa::available());
        std::process::exit(2);
    };
    let s = simd(*isa);
    println!("{}", s.name());
    match part.as_str() {
        "floats" => floats(s),
        "maps" => maps(s),
        "streams" => streams(s),
        "" => {
            tiles(s, "");
            floats(s);
            maps(s);
        }
        name => tiles(s, name),
    }
}
