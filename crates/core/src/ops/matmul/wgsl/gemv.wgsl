// GEMV of one row of activations, or of up to 8: LANES threads share a row of a weight, and a workgroup computes TURNS rows for
// each LANES of its threads, one after the other. `s0` is a slice of columns of an output, `w0` a weight that it reads:
// `dot_w0` (gemv_quants.wgsl, gemv_floats.wgsl) is this lane's partial sums, and `s0_put` the epilogue. `prologue` is what
// every workgroup does first for the rows of activations.
// header: defaults
const WG: u32 = 128u;
const LANES: u32 = 32u;
const TURNS: u32 = 1u;
const ROWS: u32 = 1u;
alias Sums = array<f32, ROWS>;
const s0_WIDTH: u32 = 64u;
const s0_FROM: u32 = 0u;
const s0_END: u32 = 1u;
struct s0_Products { of_w0: f32 }
fn s0_put(t: u32, n: u32, p: s0_Products) {}
fn rows() -> u32 { return 1u; }
fn dot_w0(row: u32, lane: u32) -> Sums { return Sums(); }
fn lanes_sum(x: f32, lid: u32) -> f32 { return x; }
fn prologue(lid: u32) {}
// header: end

// each s0
fn s0_out(group: u32, lid: u32) {
    for (var turn = 0u; turn < TURNS; turn++) {
        let n = (group * TURNS + turn) * (WG / LANES) + lid / LANES;
        var sums_w0 = dot_w0(min(n, s0_WIDTH - 1u), lid % LANES);
        for (var t = 0u; t < ROWS; t++) {
            if ROWS > 1u && t >= rows() { break; }
            var p: s0_Products;
            p.of_w0 = lanes_sum(sums_w0[t], lid);
            if lid % LANES == 0u && n < s0_WIDTH { s0_put(t, n, p); }
        }
    }
}

// end s0
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    prologue(lid);
    if g >= s0_FROM && g < s0_END { s0_out(g - s0_FROM, lid); }
}
