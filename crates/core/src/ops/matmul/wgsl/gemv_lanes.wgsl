// GEMV of one row of f32 activations through subgroups. LANES_PER_ROW lanes compute AT_ONCE rows of a weight at once (`r0`),
// with UNROLL vectors of eight elements of each in flight (`u0`). Where these lanes are several subgroups, each of them puts
// its partial sums in workgroup memory. With NORM, the sum of squares is reduced beside the products.
// `s0` is a slice of columns of an output, `w0` a weight that it reads, and `s0_put` the epilogue.
// header: defaults
const WG: u32 = 128u;
const K: u32 = 64u;
const LANES: u32 = 32u;
const LANES_PER_ROW: u32 = 32u;
const PARTIALS: u32 = 1u;
const AT_ONCE: u32 = 1u;
const UNROLL: u32 = 1u;
const TURNS: u32 = 1u;
const s0_w0_AT: u32 = 0u;
const s0_SUMS: u32 = 1u;
const r0: u32 = 0u;
const u0: u32 = 0u;
const NORM: bool = true;
const EPS: f32 = 1e-5;
var<workgroup> row_partials: array<f32, 2u * (WG / LANES)>;
struct Eight { a: vec4<f32>, b: vec4<f32> }
const s0_WIDTH: u32 = 64u;
const s0_FROM: u32 = 0u;
const s0_END: u32 = 1u;
struct s0_Products { of_w0: f32 }
fn s0_put(t: u32, n: u32, p: s0_Products) {}
fn w0_eight(row: u32, i: u32) -> Eight { return Eight(); }
fn x_eight(t: u32, i: u32) -> Eight { return Eight(); }
fn normed(x: Eight, i: u32) -> Eight { return x; }
fn lanes_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

fn dot_eight(a: Eight, b: Eight) -> f32 { return dot(a.a, b.a) + dot(a.b, b.b); }
fn times(a: Eight, b: Eight) -> Eight { return Eight(a.a * b.a, a.b * b.b); }
fn scaled(a: Eight, counts: bool) -> Eight {
    let zero = vec4<f32>(0.0);
    return Eight(select(zero, a.a, counts), select(zero, a.b, counts));
}

fn put_partial(i: u32, x: f32, lid: u32) { if lid % LANES == 0u { row_partials[i * (WG / LANES) + lid / LANES] = x; } }
fn reduce_partials(i: u32, lid: u32) -> f32 {
    let from_ = i * (WG / LANES) + lid / LANES_PER_ROW * PARTIALS;
    var sum = 0.0;
    for (var partial = 0u; partial < PARTIALS; partial++) { sum += row_partials[from_ + partial]; }
    return sum;
}

// each s0
fn s0_out(group: u32, lid: u32) {
    let first = (group * (WG / LANES_PER_ROW) + lid / LANES_PER_ROW) * AT_ONCE;
    let n_r0 = min(first + r0, s0_WIDTH - 1u);
    var squares = 0.0;
    var sum_w0_r0 = 0.0;
    for (var turn = 0u; turn < TURNS; turn++) {
        let i = lid % LANES_PER_ROW + turn * UNROLL * LANES_PER_ROW;
        // each u0
        let i_u0 = min(i + u0 * LANES_PER_ROW, K / 8u - 1u);
        let e_w0_r0_u0 = w0_eight(n_r0, i_u0);
        // end u0
        // Beyond the end of the row the last vector is read again, with activations set to zero.
        // each u0
        let x_u0 = scaled(x_eight(0u, i_u0), i + u0 * LANES_PER_ROW < K / 8u);
        if NORM { squares += dot_eight(x_u0, x_u0); }
        let m_u0 = normed(x_u0, i_u0);
        sum_w0_r0 += dot_eight(e_w0_r0_u0, m_u0);
        // end u0
    }
    sum_w0_r0 = lanes_sum(sum_w0_r0, lid);
    if NORM { squares = lanes_sum(squares, lid); }
    if PARTIALS > 1u {
        put_partial(s0_w0_AT + r0, sum_w0_r0, lid);
        if NORM { put_partial(s0_SUMS, squares, lid); }
        workgroupBarrier();
        sum_w0_r0 = reduce_partials(s0_w0_AT + r0, lid);
        if NORM { squares = reduce_partials(s0_SUMS, lid); }
    }
    if lid % LANES_PER_ROW != 0u { return; }
    var factor = 1.0;
    if NORM { factor = inverseSqrt(squares / f32(K) + EPS); }
    // each r0
    if first + r0 < s0_WIDTH {
        var p: s0_Products;
        p.of_w0 = sum_w0_r0;
        if NORM { p.of_w0 *= factor; }
        s0_put(0u, n_r0, p);
    }
    // end r0
}

// end s0
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    if g >= s0_FROM && g < s0_END { s0_out(g - s0_FROM, lid); }
}
