//! The cost model on small plans made by hand.

use super::merge::{MergeError, merge, merged_cost};
use super::price::{Pricer, rounds, working_set};
use super::profile::{Caps, Curve, Kind, Profile, VERSION};
use onetrip_core::compile::layout::choose_layouts;
use onetrip_core::compile::lower::{lower, lower_assuming};
use onetrip_core::fuse::Fuse;
use onetrip_core::graph::{Graph, Source};
use onetrip_core::ops::elementwise::Elementwise;
use onetrip_core::ops::embed::Embed;
use onetrip_core::ops::matmul::Matmul;
use onetrip_core::ops::rms_norm::{RmsNorm, WHOLE_ROW};
use onetrip_ir::context::LoweringContext;
use onetrip_ir::expr::{Bind, Expr};
use onetrip_ir::formats::DType;
use onetrip_ir::plan::Plan;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, CudaCaps, RowBucket, Target};
use onetrip_ir::tensor::Sig;
use onetrip_ir::tree::Unary;

const ONE: Bind = Bind { t: 1, s: 1, l: 1 };

fn curve(name: &str, x: &[f64], y: &[f64]) -> Curve {
    let (x, y) = (x.to_vec(), y.to_vec());
    Curve { name: name.into(), threads: 0, x, y, min: vec![], max: vec![], source: None }
}

fn profile(kind: Kind, curves: Vec<Curve>) -> Profile {
    let (name, device, date, note) = ("p".into(), "d".into(), "2026-01-01".into(), String::new());
    Profile {
        version: VERSION,
        name,
        device,
        date,
        kind,
        note,
        caps: Caps::default(),
        commit: Default::default(),
        curves,
    }
}

/// 0 embed, 1 norm, 2 matmul, 3 silu, 4 matmul, 5 add of 4 and 0.
fn graph() -> Graph {
    let mut g = Graph::default();
    let table = g.source("table", Sig::weight(64, 256, DType::F32), Source::Weight(0));
    let w = g.source("w", Sig::weight(1, 256, DType::F32), Source::Weight(1));
    let up = g.source("up", Sig::weight(512, 256, DType::Q8_0), Source::Weight(2));
    let down = g.source("down", Sig::weight(256, 512, DType::Q8_0), Source::Weight(3));
    let mut push = |name: &str, op: onetrip_core::ops::Op, ins: &[usize]| g.push(name, op, ins).expect("shapes")[0];
    let x = push("embed", Embed { scale: 1.0 }.into(), &[table]);
    let norm = RmsNorm::weighted(1e-5, WHOLE_ROW);
    let h = push("norm", norm.into(), &[x, w]);
    let u = push("up", Matmul::plain().into(), &[h, up]);
    let tree = onetrip_ir::tree::Tree::unary(Unary::Silu, onetrip_ir::tree::Tree::In(0));
    let a = push("silu", Elementwise { tree }.into(), &[u]);
    let d = push("down", Matmul::plain().into(), &[a, down]);
    let y = push("add", Elementwise::add().into(), &[d, x]);
    g.outputs = vec![y];
    g
}

fn ctx(target: Target) -> LoweringContext {
    let one = RowBucket::R1;
    LoweringContext { tokens: one, seqs: one, one_each: true, compute: Compute::Int8, target }
}

fn plan(fuse: &Fuse) -> Plan {
    plan_on(Target::Cpu(Isa::Portable), fuse)
}

fn plan_on(target: Target, fuse: &Fuse) -> Plan {
    let g = graph();
    let layouts = choose_layouts(&g, target, Compute::Int8);
    lower(g, ctx(target), fuse, &layouts, "device").expect("a plan")
}

#[test]
fn a_merge_saves_the_launch_and_the_value_in_between() {
    let p = plan(&Fuse::None);
    // The embedding must still be written for the sum at the end, so only its second read is saved.
    let m = merge(&p, ONE, 0, 1, None).expect("can be merged");
    assert_eq!((m.launches_saved, m.read_saved, m.written_saved), (1, 1024, 0));
    // Only the activation reads the product, so neither its write nor its read remains.
    let m = merge(&p, ONE, 2, 3, None).expect("can be merged");
    assert_eq!((m.read_saved, m.written_saved), (2048, 2048));
    let (a, b) = (&p.dispatches[2].cost, &p.dispatches[3].cost);
    let sum = |f: fn(&onetrip_ir::kernel::Cost) -> &Expr| f(a).eval(ONE) + f(b).eval(ONE);
    let expected = (sum(|c| &c.read) - 2048, sum(|c| &c.written) - 2048, sum(|c| &c.flops));
    assert_eq!(merged_cost(a, b, ONE, &m), expected);
    // The result of the last dispatch is the graph's output and must be written.
    let m = merge(&p, ONE, 4, 5, None).expect("can be merged");
    assert_eq!((m.read_saved, m.written_saved), (1024, 1024));
}

#[test]
fn a_merge_is_refused_with_the_dependency_that_forbids_it() {
    let p = plan(&Fuse::None);
    let error = |a, b| merge(&p, ONE, a, b, None).expect_err("forbidden");
    assert!(matches!(error(2, 4), MergeError::Between { between: 3, .. }), "{}", error(2, 4));
    assert!(error(2, 4).to_string().contains("silu"));
    assert_eq!(error(3, 3), MergeError::Order(3, 3));
    assert_eq!(error(0, 99), MergeError::Missing(99, 6));
    // With the activation in the first product's epilogue, the second needs whole rows of the first.
    let fused = plan(&Fuse::Some(vec!["residual-epilogue".into()]));
    let rows = |name: &str| fused.dispatches.iter().position(|d| d.name.starts_with(name)).expect("a row");
    let e = merge(&fused, ONE, rows("up"), rows("down"), None).expect_err("forbidden");
    assert!(matches!(e, MergeError::WholeRows { .. }) && e.to_string().contains("whole rows"), "{e}");
}

#[test]
fn a_predicted_merge_is_one_launch_cheaper_at_least() {
    let curves = vec![curve("launch", &[0.0], &[2.0]), curve("read", &[1.0], &[1e9]), curve("flops", &[1.0], &[1e12])];
    let profile = profile(Kind::Gpu, curves);
    let pricer = Pricer::new(&profile, 1);
    let p = plan(&Fuse::None);
    let m = merge(&p, ONE, 2, 3, Some(&pricer)).expect("can be merged");
    let gain = m.before.zip(m.after).map(|(a, b)| a - b).expect("a prediction");
    // 2 µs, and 4096 bytes at 1 GB/s.
    assert!((gain - (2.0 + 4.096)).abs() < 1e-6, "{gain}");
}

#[test]
fn a_gpu_is_priced_by_launch_bytes_and_operations() {
    let curves = vec![curve("launch", &[0.0], &[3.0]), curve("read", &[1.0], &[1e12]), curve("flops", &[1.0], &[1e9])];
    let profile = profile(Kind::Gpu, curves);
    let p = plan(&Fuse::None);
    let tick = Pricer::new(&profile, 1).tick(&p, ONE);
    // 2 · 512 · 256 flops at 1 G/s take longer than the bytes.
    assert!((tick.dispatches[2] - (3.0 + 262.144)).abs() < 1e-6, "{}", tick.dispatches[2]);
    assert!((tick.total() - tick.dispatches.iter().sum::<f64>()).abs() < 1e-9);
}

#[test]
fn a_gpu_with_curves_of_its_ops_is_priced_by_them_and_by_what_a_dispatch_waits_for() {
    let curves = vec![
        curve("launch", &[0.0], &[3.0]),
        curve("launch.independent", &[0.0], &[1.0]),
        curve("read", &[2e6, 1e9], &[1e12, 1e12]),
        curve("flops", &[1.0], &[1e15]),
        curve("stream.q8_0.hot", &[1e4, 1e6], &[4.0, 5.0]),
        curve("stream.q8_0.cold", &[1e4, 1e6], &[6.0, 16.0]),
        curve("submit", &[1.0], &[7.0]),
        curve("encode", &[1.0, 101.0], &[1.0, 1001.0]),
    ];
    let mut profile = profile(Kind::Gpu, curves);
    // GPU kernels have the batch's words as an operand before the values.
    let p = plan_on(Target::Cuda(CudaCaps::default()), &Fuse::None);
    let tick = Pricer::new(&profile, 1).tick(&p, ONE);
    let bytes = DType::Q8_0.row_bytes(256).expect("whole blocks") as f64 * 512.0;
    // The bandwidth does not fall with the working set, so everything counts as cold.
    assert!((tick.dispatches[2] - (6.0 + 10.0 * (bytes - 1e4) / (1e6 - 1e4))).abs() < 1e-6, "{}", tick.dispatches[2]);
    // Each of these dispatches reads the output of the one before, so none costs only an independent launch.
    assert!(tick.dispatches.iter().all(|us| *us >= 3.0), "{:?}", tick.dispatches);
    // Encoding six dispatches takes 51 µs, longer than they run.
    let rows: f64 = tick.dispatches.iter().sum();
    assert!((tick.total() - rows.max(51.0).max(rows + 7.0)).abs() < 1e-6, "{} {rows}", tick.total());
    profile.curves.retain(|c| !c.name.starts_with("encode"));
    assert!((Pricer::new(&profile, 1).tick(&p, ONE).submit - 7.0).abs() < 1e-9);

    // Two norms of the same row write to different slots, so the second does not wait.
    let mut g = Graph::default();
    let table = g.source("table", Sig::weight(64, 256, DType::F32), Source::Weight(0));
    let x = g.push("x", Embed { scale: 1.0 }, &[table]).expect("shapes")[0];
    g.outputs =
        (0..2).map(|i| g.push(format!("scale{i}"), Elementwise::scale(0.5), &[x]).expect("shapes")[0]).collect();
    let target = Target::Cuda(CudaCaps::default());
    let apart = lower(g, ctx(target), &Fuse::None, &Default::default(), "cuda").expect("a plan");
    let rows = Pricer::new(&profile, 1).tick(&apart, ONE).dispatches;
    assert!(rows[1] >= 3.0 && (rows[1] - rows[2] - 2.0).abs() < 1e-6, "{rows:?}");
}

#[test]
fn a_cpu_product_is_priced_at_its_format_and_the_working_set() {
    let curves = vec![
        curve("launch", &[0.0], &[1.0]),
        curve("read", &[2e6, 1e9], &[1e11, 1e10]),
        curve("stream.q8_0.hot", &[1e4, 1e6], &[2.0, 11.0]),
        curve("stream.q8_0.cold", &[1e4, 1e6], &[4.0, 101.0]),
        curve("rms_norm", &[1.0], &[0.0]),
    ];
    let profile = profile(Kind::Cpu, curves);
    let pricer = Pricer::new(&profile, 1);
    let p = plan(&Fuse::None);
    let bytes = p.dispatches[2].operands[1].bytes.eval(ONE) as f64;
    let on = |line: (f64, f64)| line.0 + (line.1 - line.0) * (bytes - 1e4) / (1e6 - 1e4);
    assert!((pricer.dispatch(&p.dispatches[2], ONE, 1e6) - on((2.0, 11.0))).abs() < 1e-6);
    assert!((pricer.dispatch(&p.dispatches[2], ONE, 2e9) - on((4.0, 101.0))).abs() < 1e-6);
    let half = pricer.coldness(working_set(&p, ONE));
    assert_eq!(half, 0.0);
    assert!(pricer.coldness(2e8) > 0.1 && pricer.coldness(2e8) < 1.0);
}

#[test]
fn the_longest_share_follows_how_items_are_handed_out() {
    assert_eq!((rounds(1, 1, 2), rounds(2, 1, 2), rounds(9, 1, 2), rounds(96, 1, 2)), (1, 1, 5, 48));
    assert_eq!((rounds(100, 40, 2), rounds(0, 1, 2), rounds(7, 1, 1)), (80, 0, 7));
}

#[test]
fn what_has_no_kernel_is_fused_only_when_that_is_assumed() {
    let made = |assume| {
        let (g, target) = (graph(), Target::Cpu(Isa::Portable));
        // Weights in planes, the layout of GPUs, which no CPU kernel reads.
        let layouts = choose_layouts(&g, Target::Cuda(CudaCaps::default()), Compute::Int8);
        lower_assuming(g, ctx(target), &Fuse::All, &layouts, "cpu", assume).expect("a plan")
    };
    let (refused, assumed) = (made(false), made(true));
    assert!(refused.dispatches.len() > assumed.dispatches.len());
    assert!(!refused.refused.is_empty() && assumed.refused.is_empty());
    // An assumed kernel does not exist: every matmul of the plan has a gap.
    assert!(assumed.gaps().count() == assumed.dispatches.iter().filter(|d| d.op == "matmul").count());
}

#[test]
fn operands_say_what_a_dispatch_makes() {
    let p = plan(&Fuse::All);
    for d in &p.dispatches {
        assert_eq!(d.operands.len(), d.args.len(), "{}", d.name);
        assert!(d.operands.iter().any(|o| o.is_written), "{} makes nothing", d.name);
    }
}
