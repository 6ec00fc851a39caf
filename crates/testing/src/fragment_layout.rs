//! Values in MMA fragment layout between two ops: the sites at which the rule makes them, and that results stay bitwise equal.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use onetrip_core::cases::{Rng, on_target, random_batch, random_weight};
use onetrip_core::compile::layout::Layouts;
use onetrip_core::compile::lower::lower;
use onetrip_core::fuse::{FRAGMENT_LAYOUT, Fuse, fuse};
use onetrip_core::graph::{Graph, Source, ValueId};
use onetrip_core::ops::USUAL_SIZE;
use onetrip_core::ops::attention::{Attention, Gate};
use onetrip_core::ops::cache_write::CacheWrite;
use onetrip_core::ops::elementwise::Elementwise;
use onetrip_core::ops::matmul::Matmul;
use onetrip_core::ops::rope::Rope;
use onetrip_core::probe::Silent;
use onetrip_core::record::record;
use onetrip_core::reference::{RefState, RefTensor, eval_graph};
use onetrip_ir::batch::RopeSpec;
use onetrip_ir::context::LoweringContext;
use onetrip_ir::device::{Device, TestDevice, WeightData};
use onetrip_ir::expr::{Bind, Expr};
use onetrip_ir::formats::DType;
use onetrip_ir::plan::{Operand, Plan};
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, CudaCaps, RowBucket, Target, WgslCaps};
use onetrip_ir::tensor::{Cache, Sig};
use onetrip_ir::tree::{Tree, Unary};

use crate::emulated::Emulated;
use crate::random::filled;

/// The tests of this module, named `fragment_layout/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    let ignored = Emulated::new().is_none();
    let same = || {
        let more = |rows| Form { rows, seqs: rows, ..Form::default() };
        let bf16 = Form { compute: Compute::Bf16, dtype: DType::Q8_0, gated: true, ..more(17) };
        [more(9), more(17), more(32), more(33), bf16].into_iter().try_for_each(equal)
    };
    vec![
        Trial::test("fragment_layout/are what one matmul of 9 to 64 rows rounds", where_they_are),
        Trial::test("fragment_layout/is refused, with the kernel's reason, where attention cannot write it", refused),
        Trial::test("fragment_layout/save a dispatch each and change no bit", same).with_ignored_flag(ignored),
    ]
}

/// Other readers of the values between the ops.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Nobody,
    /// The values are outputs of the graph.
    Outside,
    /// Another op reads the values.
    Twice,
    /// The last matmul reads its x as its residual too.
    Residual,
}

/// A layer from queries, keys and values to its end, with the choices that the tests vary.
#[derive(Clone, Copy)]
struct Form {
    rows: u64,
    seqs: u64,
    heads: usize,
    ffn: usize,
    gated: bool,
    dtype: DType,
    cache: DType,
    compute: Compute,
    target: Target,
    seen: Seen,
}

impl Default for Form {
    fn default() -> Form {
        Form {
            rows: 32,
            seqs: 32,
            heads: 4,
            ffn: 384,
            gated: false,
            dtype: DType::Q4_0,
            cache: DType::F16,
            compute: Compute::Int8,
            target: Target::Cuda(CudaCaps::default()),
            seen: Seen::Nobody,
        }
    }
}

const DIM: usize = 64;
const WIDTH: usize = 128;

/// The graph of a layer, with the values that its ops take as inputs.
struct Layer {
    graph: Graph,
    weights: Vec<Sig>,
    states: Vec<Sig>,
}

impl Form {
    fn bind(&self) -> Bind {
        Bind { t: self.rows, s: self.seqs, l: self.rows / self.seqs + 290 }
    }

    fn layer(&self) -> Result<Layer, Failed> {
        let inv_freq = (0..DIM / 2).map(|i| 10000f32.powf(-(i as f32) / 32.0)).collect();
        let graph = Graph { ropes: vec![RopeSpec { inv_freq, factor: 1.0 }], ..Graph::default() };
        let mut l = Layer { graph, weights: vec![], states: vec![] };
        let mut weight = |sig: Sig| {
            let sig = on_target(&sig, self.target, self.compute);
            l.weights.push(sig.clone());
            l.graph.source("weight", sig, Source::Weight(l.weights.len() - 1))
        };
        let rows = |width| Sig::slot(Expr::T, width);
        let matrix = |n, k| Sig::weight(n, k, self.dtype);
        let (heads, kv_heads, q_width) = (self.heads, 1, self.heads * DIM);
        let q = weight(rows(if self.gated { 2 * q_width } else { q_width }));
        let [k, v] = [(); 2].map(|_| weight(rows(DIM)));
        let (residual, norm) = (weight(rows(WIDTH)), weight(Sig::weight(1, WIDTH, DType::F32)));
        let o = weight(matrix(WIDTH, q_width));
        let [gate, up] = [(); 2].map(|_| weight(matrix(self.ffn, WIDTH)));
        let down = weight(matrix(WIDTH, self.ffn));
        let cache = Sig::state(Cache { heads: kv_heads, dim: DIM }, self.cache);
        l.states = vec![cache; 2];
        let [keys, values] = [0, 1].map(|i| l.graph.source("cache", l.states[i].clone(), Source::State(i)));

        let rope = |heads| Rope { heads, dim: DIM, pairs: DIM / 2, neox: true, table: 0, norm: None, view: None };
        let attention = Attention {
            gate: if self.gated { Gate::Packed } else { Gate::None },
            q_rope: Some(rope(heads)),
            write: Some(CacheWrite { pair: true, rope: Some(rope(kv_heads)) }),
            ..Attention::plain(heads, kv_heads, DIM, 0.125)
        };
        let add = Tree::sum(Tree::In(0), Tree::In(1));
        let projection = Matmul { products: 1, outputs: vec![add], norm: None };
        let glu = Tree::product(Tree::unary(Unary::Silu, Tree::In(0)), Tree::In(1));
        let gate_up = Matmul { products: 2, outputs: vec![glu], norm: Some(1e-6) };
        let g = &mut l.graph;
        let y = g.push("attention", attention, &[q, k, v, keys, values])?[0];
        let x = g.push("o", projection.clone(), &[y, o, residual])?[0];
        let h = g.push("gate+up", gate_up, &[x, norm, gate, up])?[0];
        let end = g.push("down", projection, &[h, down, if self.seen == Seen::Residual { h } else { x }])?[0];
        g.outputs = vec![end];
        match self.seen {
            Seen::Nobody | Seen::Residual => {}
            Seen::Outside => g.outputs.extend([y, h]),
            Seen::Twice => {
                let twice = [y, h].map(|v: ValueId| g.push("second reader", Elementwise::scale(2.0), &[v]));
                twice.into_iter().try_for_each(|made| made.map(|v| g.outputs.extend(v)))?;
            }
        }
        Ok(l)
    }

    fn plan(&self, graph: Graph, fuse: &Fuse) -> Result<Plan, Failed> {
        Ok(lower(graph, self.ctx(), fuse, &Layouts::new(), "test")?)
    }

    fn ctx(&self) -> LoweringContext {
        LoweringContext {
            tokens: RowBucket::of(self.rows as usize),
            seqs: RowBucket::of(self.seqs as usize),
            one_each: self.rows == self.seqs,
            compute: self.compute,
            target: self.target,
        }
    }

    /// Who writes values in fragment layout, and who reads them.
    fn fragments(&self) -> Result<[Vec<String>; 2], Failed> {
        let plan = self.plan(self.layer()?.graph, &Fuse::only(FRAGMENT_LAYOUT))?;
        let names = |is_written: bool| {
            let is_one = |o: &Operand| o.is_written == is_written && o.sig.as_ref().is_some_and(Sig::is_mma_fragment);
            plan.dispatches.iter().filter(|d| d.operands.iter().any(is_one)).map(|d| d.name.clone()).collect()
        };
        Ok([names(true), names(false)])
    }
}

fn where_they_are() -> Result<(), Failed> {
    let usual = Form::default();
    let of = |rows, seqs| Form { rows, seqs, ..usual };
    let (both, attention, gate_up): (&[&str], &[&str], &[&str]) =
        (&["attention", "gate+up"], &["attention"], &["gate+up"]);
    let wgsl = WgslCaps { coop: 16, ..WgslCaps::default() };
    let forms = [
        ("9 rows", of(9, 9), both),
        ("32 rows", usual, both),
        ("64 rows", of(64, 64), both),
        ("one row", of(1, 1), &[]),
        ("8 rows", of(8, 8), &[]),
        ("65 rows", of(65, 65), &[]),
        ("32 rows of two sequences", of(32, 2), gate_up),
        ("bf16", Form { compute: Compute::Bf16, ..usual }, both),
        ("f32", Form { compute: Compute::F32, ..usual }, &[]),
        ("weights that are not quantized", Form { dtype: DType::F16, ..usual }, &[]),
        ("heads that do not fill 128 columns", Form { heads: 3, ..usual }, gate_up),
        ("a product that does not fill 128 columns", Form { ffn: 320, ..usual }, attention),
        ("outputs", Form { seen: Seen::Outside, ..usual }, &[]),
        ("other readers", Form { seen: Seen::Twice, ..usual }, &[]),
        ("an x that is its own residual", Form { seen: Seen::Residual, ffn: WIDTH, ..usual }, attention),
        ("a GPU without tensor cores", Form { target: cuda(70), ..usual }, &[]),
        ("a GPU without clusters", Form { target: cuda(80), ..usual }, both),
        ("the CPU", Form { target: Target::Cpu(Isa::Portable), ..usual }, &[]),
        ("wgpu", Form { target: Target::Wgsl(wgsl), ..usual }, &[]),
    ];
    for (what, form, want) in forms {
        let [made, read] = form.fragments()?;
        if made != want {
            return Err(format!("{what}: fragments of {made:?}, should be of {want:?}").into());
        }
        let readers: Vec<&str> = want.iter().map(|name| if *name == "attention" { "o" } else { "down" }).collect();
        if read != readers {
            return Err(format!("{what}: {read:?} read fragments, should be {readers:?}").into());
        }
    }
    Ok(())
}

/// Attention over a cache in f32 has another kernel: the refusal names the kernel and the reason, and the other value is still
/// rewritten.
fn refused() -> Result<(), Failed> {
    let form = Form { cache: DType::F32, ..Form::default() };
    let plan = form.plan(form.layer()?.graph, &Fuse::only(FRAGMENT_LAYOUT))?;
    match &plan.refused[..] {
        [r] if (r.rule, &*r.at) == (FRAGMENT_LAYOUT, "attention") && r.why.contains("a cache is not of f16") => {}
        other => return Err(format!("refused: {other:?}").into()),
    }
    match (plan.fired.iter().find(|(rule, _)| *rule == FRAGMENT_LAYOUT), plan.gaps().count()) {
        (Some((_, 1)), 0) => Ok(()),
        (fired, gaps) => Err(format!("{fired:?}, {gaps} gaps").into()),
    }
}

/// A random layer: with the rule its results are those without, and it has neither more bytes nor more dispatches. Returns how
/// often the rule fired.
pub(crate) fn keeps_results(seed: u64) -> Result<usize, Failed> {
    let mut rng = Rng::new(seed);
    let mut pick = |from: &[usize]| from[rng.below(from.len() as u64) as usize];
    let seqs = pick(&[1, 2, 9, 16, 33]) as u64;
    let form = Form {
        rows: seqs * pick(&[1, 1, 3]) as u64,
        seqs,
        heads: pick(&[2, 3, 4]),
        ffn: pick(&[128, 160, 256]),
        gated: pick(&[0, 1]) == 1,
        dtype: [DType::Q4_0, DType::Q8_0, DType::F16][pick(&[0, 0, 1, 1, 2])],
        compute: [Compute::Int8, Compute::Bf16, Compute::F32][pick(&[0, 0, 1, 2])],
        seen: [Seen::Nobody, Seen::Outside, Seen::Twice, Seen::Residual][pick(&[0, 0, 0, 1, 2, 3])],
        ..Form::default()
    };
    let form = if form.seen == Seen::Residual { Form { ffn: WIDTH, ..form } } else { form };
    let (Layer { graph, weights, states }, bind, ctx) = (form.layer()?, form.bind(), form.ctx());
    let (batch, pages) = random_batch(&mut rng, bind, 8, &graph.ropes);
    let numbers = weights.iter().map(|sig| random_weight(&mut rng, sig, sig.rows.eval(bind) as usize, USUAL_SIZE).1);
    let numbers: Vec<RefTensor> = numbers.collect();
    let states: Vec<RefState> = states.iter().map(|sig| filled(&mut rng, sig, &batch, pages)).collect();
    let mut after = graph.clone();
    let report = fuse(&mut after, &ctx, &Fuse::only(FRAGMENT_LAYOUT));
    after.check_order()?;
    let results = |graph: &Graph| eval_graph(graph, &numbers, &ctx, &batch, &mut states.clone());
    let bits =
        |graph: &Graph| -> Vec<u32> { results(graph).iter().flat_map(|out| &out.data).map(|x| x.to_bits()).collect() };
    if bits(&after) != bits(&graph) {
        return Err("the reference of the rewritten graph has other results".into());
    }
    let size = |fuse: &Fuse| -> Result<(u64, u64), Failed> {
        let ledger = form.plan(graph.clone(), fuse)?.ledger(bind);
        Ok((ledger.bytes_read + ledger.bytes_written, ledger.dispatches))
    };
    let (with, without) = (size(&Fuse::only(FRAGMENT_LAYOUT))?, size(&Fuse::None)?);
    let fired = report.fired.iter().map(|(_, n)| n).sum();
    let saves = with.0 < without.0 && with.1 + fired as u64 == without.1;
    match if fired > 0 { saves } else { with == without } {
        true => Ok(fired),
        false => Err(format!("fired {fired} times; bytes and dispatches {with:?}, by no rule {without:?}").into()),
    }
}

fn cuda(sm: u32) -> Target {
    Target::Cuda(CudaCaps { sm, ..CudaCaps::default() })
}

/// Runs a layer with the rule and without: the results must be bitwise equal.
fn equal(form: Form) -> Result<(), Failed> {
    let mut device = Emulated::new().ok_or("there is no C++ compiler (g++)")?;
    let form = Form { target: device.target(), ..form };
    let mut rng = Rng::new(form.rows);
    let bind = form.bind();
    let Layer { graph, weights, states } = form.layer()?;
    let (batch, pages) = random_batch(&mut rng, bind, 8, &graph.ropes);
    let weights = weights.iter().map(|sig| {
        let (bytes, _) = random_weight(&mut rng, sig, sig.rows.eval(bind) as usize, USUAL_SIZE);
        Arc::new(bytes) as WeightData
    });
    device.set_weights(weights.collect())?;
    let states: Vec<Vec<u8>> = states.iter().map(|sig| filled(&mut rng, sig, &batch, pages).bytes).collect();
    device.set_states(&states.iter().map(|s| s.len() as u64).collect::<Vec<_>>())?;
    let mut run = |fuse: &Fuse| -> Result<(Plan, Vec<u32>), Failed> {
        let plan = Arc::new(form.plan(graph.clone(), fuse)?);
        let recording = record(&plan, &mut device, &mut Silent)?;
        states.iter().enumerate().for_each(|(i, bytes)| device.write_state(i, bytes));
        let ran = device.submit(&recording, &batch)?;
        if !device.guards_intact() {
            return Err(format!("{} rows: a kernel wrote beyond its output", form.rows).into());
        }
        let end = device.output(ran, &plan, 0, form.rows as usize)?;
        Ok(((*plan).clone(), end.iter().map(|x| x.to_bits()).collect()))
    };
    let (with, have) = run(&Fuse::only(FRAGMENT_LAYOUT))?;
    let (without, want) = run(&Fuse::None)?;
    let saved = without.dispatches.len() - with.dispatches.len();
    if saved != 2 {
        return Err(format!("{} rows: {saved} dispatches are saved\n{}", form.rows, with.table(None)).into());
    }
    let is_number = |bits: &u32| f32::from_bits(*bits).is_finite();
    match have.iter().zip(&want).position(|(a, b)| a != b) {
        None if want.iter().all(is_number) => Ok(()),
        None => Err(format!("{} rows: not all are numbers", form.rows).into()),
        Some(i) => {
            let [have, want] = [have[i], want[i]].map(f32::from_bits);
            Err(format!("{} rows: number {i} is {have}, by no rule {want}", form.rows).into())
        }
    }
}
