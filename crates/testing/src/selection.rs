//! Kernel selection: every reason in the candidate tables rejects a candidate in some plan, and plans give no other reasons.

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::{Failed, Trial};
use onetrip_core::cases::case_graph;
use onetrip_core::lowering::Lowering;
use onetrip_core::ops::attention::Attention;
use onetrip_core::ops::delta_net::{DeltaNet, Front};
use onetrip_core::ops::matmul::Matmul;
use onetrip_core::ops::{Case, Op, candidates};
use onetrip_core::select::Language;
use onetrip_ir::expr::Expr;
use onetrip_ir::formats::DType;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, CudaCaps, Target, WgslCaps};
use onetrip_ir::tensor::{Cache, Sig};
use onetrip_ir::tree::Tree;

/// Targets that differ in the capabilities that candidates require.
fn targets() -> Vec<Target> {
    let cuda = CudaCaps::default();
    let wgsl = WgslCaps::default();
    let matrices = WgslCaps { coop: 16, ..wgsl };
    let mut all = vec![Target::Cpu(Isa::Portable)];
    for sm in [75, 90] {
        for shared in [4 << 10, 24 << 10, 48 << 10, 227 << 10] {
            all.extend([true, false].map(|lt| Target::Cuda(CudaCaps { sm, shared, lt, ..cuda })));
        }
    }
    for workgroup_bytes in [1 << 10, 4 << 10, 32 << 10] {
        for caps in
            [wgsl, matrices, WgslCaps { subgroups: Some((8, 32)), ..matrices }, WgslCaps { subgroups: None, ..wgsl }]
        {
            all.push(Target::Wgsl(WgslCaps { workgroup_bytes, ..caps }));
        }
    }
    all
}

/// A rejection: op, language, kernel, reason.
type Rejection = (&'static str, Language, &'static str, &'static str);

/// The rejections at the case's op on a target, both as it is and with its activations or its first output in MMA fragment
/// layout; and the gaps of the fragment variants.
fn rejections(case: &Case, target: Target, seen: &mut BTreeSet<Rejection>, gaps: &mut BTreeSet<&'static str>) {
    let Ok((graph, ctx)) = case_graph(case, target) else { return };
    let language = match target {
        Target::Cpu(_) => Language::Cpu,
        Target::Cuda(_) => Language::Cuda,
        Target::Wgsl(_) => Language::Wgsl,
    };
    let node = &graph.nodes[0];
    let site = graph.site(&ctx, &node.ins, &node.outs);
    let mut sites = vec![site.clone()];
    for dtype in [DType::F16, DType::BF16] {
        let mut reads = site.clone();
        reads.ins[0] = site.ins[0].as_mma_fragment(dtype);
        let mut writes = site.clone();
        writes.outs[0] = site.outs[0].as_mma_fragment(dtype);
        sites.extend([reads, writes].into_iter().filter(|_| language == Language::Cuda));
    }
    for site in sites {
        match node.op.lower(&site) {
            Lowering::Steps { rejected, .. } => {
                seen.extend(rejected.iter().map(|r| (node.op.name(), language, r.kernel, r.reason)));
            }
            Lowering::Gap(why) => _ = gaps.insert(why),
        }
    }
}

/// Op sites that no case has, since they are too large to run or of a shape that no rule makes.
fn further_cases() -> Vec<Case> {
    let x = |width| Sig::slot(Expr::T, width);
    let weight = |rows, k, dtype| Sig::weight(rows, k, dtype);
    let matmul = |products, outputs, ins: Vec<Sig>, t| {
        Case::new("a matmul", Matmul { products, outputs, norm: None }, ins, (t, 1, t))
    };
    let mut all = vec![];
    for t in [1, 4, 33, 70] {
        let q4 = || weight(64, 64, DType::Q4_0);
        // One product that two outputs use.
        all.push(matmul(1, vec![Tree::In(0), Tree::In(0)], vec![x(64), q4()], t));
        // Products of several formats, and many products, of one output.
        let sum = |n: usize| (1..n).fold(Tree::In(0), |sum, p| Tree::sum(sum, Tree::In(p)));
        all.push(matmul(2, vec![sum(2)], vec![x(64), q4(), weight(64, 64, DType::Q8_0)], t));
        let five = [vec![x(64)], (0..5).map(|_| q4()).collect()].concat();
        all.push(matmul(5, vec![sum(5)], five, t));
        // Weights that are too large for a case, and long rows.
        let large = weight(1 << 18, 1 << 15, DType::Q4_0);
        all.push(matmul(1, vec![Tree::In(0)], vec![x(1 << 15), large], t));
        all.push(matmul(1, vec![Tree::In(0)], vec![x(1 << 15), weight(8, 1 << 15, DType::F32)], t));
        all.push(matmul(1, vec![Tree::In(0)], vec![x(1 << 13), weight(8, 1 << 13, DType::Q4_0)], t));
    }
    // One token of each of many sequences over caches that are not of f16, and heads of an odd size.
    for (dim, t) in [(64, 16), (12, 1)] {
        let state = || Sig::state(Cache { heads: 2, dim }, DType::F32);
        let attention = Attention::plain(4, 2, dim, 0.125);
        all.push(Case::new("attention", attention, vec![x(4 * dim), state(), state()], (t, t, 40)));
    }
    let (k_heads, v_heads, k_dim, v_dim) = (1, 1, 132, 16);
    let rule = DeltaNet { k_heads, v_heads, k_dim, v_dim, scale: 1.0, front: Front::Separate, norm: None };
    let state = Sig::recurrent(k_dim * v_dim);
    all.push(Case::new("a delta net", rule, vec![x(k_dim), x(k_dim), x(v_dim), x(1), x(1), state], (100, 1, 100)));
    all
}

fn every_reason_occurs() -> Result<(), Failed> {
    let (mut seen, mut gaps) = (BTreeSet::new(), BTreeSet::new());
    let all = Op::all_cases().into_iter().flat_map(|(_, cases)| cases).chain(further_cases());
    for case in all {
        for target in targets() {
            for compute in [Compute::Int8, Compute::F16, Compute::F32] {
                rejections(&Case { compute, ..case.clone() }, target, &mut seen, &mut gaps);
            }
        }
    }
    let mut missing = vec![];
    let mut known: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for c in candidates() {
        for reason in c.reasons {
            known.entry((c.op, c.language, c.kernel)).or_default().insert(reason);
            if !seen.contains(&(c.op, c.language, c.kernel, reason)) && !gaps.contains(reason) {
                missing.push(format!("{} in {:?}, {}: {reason}", c.op, c.language, c.kernel));
            }
        }
    }
    let of_rows = |reason: &str| reason.starts_with("it serves ");
    let is_known = |(op, language, kernel, reason): &Rejection| {
        of_rows(reason) || known.get(&(*op, *language, *kernel)).is_some_and(|all| all.contains(reason))
    };
    if let Some(unknown) = seen.iter().find(|s| !is_known(s)) {
        return Err(format!("no table names the rejection {unknown:?}").into());
    }
    if !missing.is_empty() {
        return Err(format!("no plan of a case has these rejections:\n{}", missing.join("\n")).into());
    }
    Ok(())
}

/// On wgpu every launch of matmul and of attention has a kernel id with the sizes from `tune.rs`.
fn wgsl_names_its_sizes() -> Result<(), Failed> {
    let mut seen = BTreeSet::new();
    let all = Op::all_cases().into_iter().flat_map(|(_, cases)| cases).chain(further_cases());
    let targets: Vec<Target> = targets().into_iter().filter(|target| matches!(target, Target::Wgsl(_))).collect();
    for case in all {
        for (target, compute) in targets.iter().flat_map(|t| [(*t, Compute::Int8), (*t, Compute::F32)]) {
            let Ok((graph, ctx)) = case_graph(&Case { compute, ..case.clone() }, target) else { continue };
            let node = &graph.nodes[0];
            let Lowering::Steps { launches, .. } = node.op.lower(&graph.site(&ctx, &node.ins, &node.outs)) else {
                continue;
            };
            for id in launches.iter().map(|launch| &launch.kernel).filter(|id| matches!(id.op, "matmul" | "attention"))
            {
                if id.tuning.is_empty() {
                    return Err(format!("{id} of {} does not name the sizes that it was built with", case.name).into());
                }
                seen.insert((id.op, id.name));
            }
        }
    }
    let want = ["prologue", "gemv", "gemv_multi", "gemm_f16_mma", "gemm_f32_simt"].map(|name| ("matmul", name));
    let of_attention = ["decode_split_kv", "decode_no_subgroups", "prefill_mma"].map(|name| ("attention", name));
    match want.iter().chain(&of_attention).find(|id| !seen.contains(*id)) {
        Some((op, name)) => Err(format!("no case has a launch of {op}/{name}").into()),
        None => Ok(()),
    }
}

/// The tests.
pub fn tests() -> Vec<Trial> {
    vec![
        Trial::test(
            "selection/every reason to reject a kernel occurs in a plan, and every rejection has one",
            every_reason_occurs,
        ),
        Trial::test(
            "selection/every matmul and attention kernel on wgpu names the sizes that it was built with",
            wgsl_names_its_sizes,
        ),
    ]
}
