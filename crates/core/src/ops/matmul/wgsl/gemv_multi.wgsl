// GEMV of 2 to 8 rows of activations for wide outputs: the lanes of a row compute four rows of a weight at once, so that each
// activation they load is multiplied by four weights. `s0` is a slice of columns of an output, `w0` a weight that it reads:
// `dot4_w0` (gemv_multi_quants.wgsl, gemv_multi_floats.wgsl) is this lane's partial sums, and `s0_put` the epilogue. `t0` is
// a row of activations.
// header: defaults
const WG: u32 = 128u;
const LANES: u32 = 32u;
const ROWS: u32 = 8u;
const t0: u32 = 0u;
alias Sums = array<vec4<f32>, ROWS>;
const s0_WIDTH: u32 = 64u;
const s0_FROM: u32 = 0u;
const s0_END: u32 = 1u;
struct s0_Products { of_w0: f32 }
fn s0_put(t: u32, n: u32, p: s0_Products) {}
fn rows() -> u32 { return 1u; }
fn dot4_w0(first: u32, lane: u32) -> Sums { return Sums(); }
fn lanes_sum4(x: vec4<f32>, lid: u32) -> vec4<f32> { return x; }
fn prologue(lid: u32) {}
// header: end

// each s0
fn s0_out(group: u32, lid: u32) {
    let first = (group * (WG / LANES) + lid / LANES) * 4u;
    var sums_w0 = dot4_w0(first, lid % LANES);
    let r = lid % LANES;
    let n = first + r;
    // each t0
    if t0 < rows() {
        let four_w0 = lanes_sum4(sums_w0[t0], lid);
        if r < 4u && n < s0_WIDTH {
            var p: s0_Products;
            p.of_w0 = four_w0[r];
            s0_put(t0, n, p);
        }
    }
    // end t0
}

// end s0
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    prologue(lid);
    if g >= s0_FROM && g < s0_END { s0_out(g - s0_FROM, lid); }
}
