// GEMM by cooperative matrices with f16 factors. A k-tile in workgroup memory has rows of DEPTH elements at a stride of STRIDE:
// activations in `tile_x`, weights in `tile_w`. `part` is the index of this subgroup's sub-tile.
//
// On an H200 through Vulkan, 2048 rows, including the prologue launch: 148 TFLOP/s at 4096 x 14336 in f16, 141 in Q4_0, 124 in
// Q8_0; Qwen2.5-0.5B's down 105 with tiles of 128 x 128 and 65 with 64 x 64, although there are only 112 tiles of the larger
// size. Tried and not faster: four subgroups with sub-tiles of 64 x 64 (126), workgroup memory of single elements instead of
// vectors of four (130).
//
// `s0` is a slice of columns of an output, `w0` a weight that it reads, and `s0_put` the epilogue. Number 0 of what a thread
// has several of: `x0` and `v0` are loads of the next k-tile, `i0` and `j0` matrices down and across a sub-tile, `k0` matrices
// along a k-tile. All loops over matrices are unrolled, since an indexed array of matrices would not stay in registers.
// `w0_raw` loads elements 8i .. 8i + 8 of a row as stored, and `w0_halves` converts them to f16.
// header: defaults
enable f16;
enable wgpu_cooperative_matrix;
alias MatA = coop_mat16x16<f16, A>;
alias MatB = coop_mat16x16<f16, B>;
alias MatC = coop_mat16x16<f32, C>;
const WG: u32 = 128u;
const K: u32 = 64u;
const ROWS: u32 = 64u;
const SUBGROUPS: u32 = 4u;
const ACROSS: u32 = 2u;
const SUB_ROWS: u32 = 32u;
const SIDE: u32 = 16u;
const UNIT: u32 = 4u;
const DEPTH: u32 = 32u;
const EIGHTS: u32 = 4u;
const PITCH: u32 = 40u;
const STRIDE: u32 = 10u;
const w0_ROWS: u32 = 64u;
const s0_PART: u32 = 32u;
const s0_COLUMNS: u32 = 64u;
const s0_BLOCK: u32 = 512u;
const s0_STRIP: u32 = 512u;
const s0_w0_PLACE: u32 = 0u;
const x0: u32 = 0u;
const v0: u32 = 0u;
const i0: u32 = 0u;
const j0: u32 = 0u;
const k0: u32 = 0u;
const s0_WIDTH: u32 = 64u;
const s0_FROM: u32 = 0u;
const s0_END: u32 = 1u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f16>>;
var<workgroup> tile_x: array<vec4<f16>, ROWS * STRIDE>;
var<workgroup> tile_w: array<vec4<f16>, s0_COLUMNS * STRIDE>;
var<workgroup> strips: array<f32, s0_STRIP * SUBGROUPS>;
struct Eight { a: vec4<f32>, b: vec4<f32> }
struct Halves { a: vec4<f16>, b: vec4<f16> }
alias w0_Raw = vec4<u32>;
struct s0_Products { of_w0: f32 }
fn rows() -> u32 { return 1u; }
fn put_tile_x(at: u32, h: Halves) {}
fn put_tile_w(at: u32, h: Halves) {}
fn w0_raw(row: u32, i: u32) -> w0_Raw { return w0_Raw(); }
fn w0_halves(raw: w0_Raw, row: u32, i: u32) -> Halves { return Halves(); }
fn s0_put(t: u32, n: u32, p: s0_Products) {}
// header: end

var<private> part: u32;

// Converts to f16; values beyond its range are clamped to the largest f16.
fn rounded(e: Eight) -> Halves {
    let most = vec4<f32>(65504.0);
    return Halves(vec4<f16>(clamp(e.a, -most, most)), vec4<f16>(clamp(e.b, -most, most)));
}

fn halves(e: Eight) -> Halves { return Halves(vec4<f16>(e.a), vec4<f16>(e.b)); }

// The index of the vector of eight elements that a thread loads in a turn, of `count` vectors in all.
fn place(lid: u32, turn: u32, count: u32) -> u32 {
    if count % WG == 0u { return lid + turn * WG; }
    return min(lid + turn * WG, count - 1u);
}

// each s0
fn s0_out(m: u32, tile: u32, lid: u32) {
    // each x0
    let xe_x0 = place(lid, x0, ROWS * EIGHTS);
    let xa_x0 = (m * ROWS + xe_x0 / EIGHTS) * (K / 4u) + xe_x0 % EIGHTS * 2u;
    var x_x0 = Halves(x[xa_x0], x[xa_x0 + 1u]);
    // end x0
    // each w0
    // each v0
    let we_w0_v0 = place(lid, v0, s0_COLUMNS * EIGHTS);
    let wr_w0_v0 = min(tile * s0_COLUMNS + we_w0_v0 / EIGHTS, w0_ROWS - 1u);
    let wi_w0_v0 = we_w0_v0 % EIGHTS;
    var raw_w0_v0 = w0_raw(wr_w0_v0, wi_w0_v0);
    // end v0
    // end w0
    var c_w0_i0_j0: MatC;
    let part_row = part / ACROSS * SUB_ROWS;
    let part_column = part % ACROSS * s0_PART;
    for (var k = 0u; k < K / DEPTH; k++) {
        workgroupBarrier();
        put_tile_x(xe_x0 / EIGHTS * PITCH + xe_x0 % EIGHTS * 8u, x_x0);
        // each w0
        // each v0
        put_tile_w(
            s0_w0_PLACE * s0_COLUMNS * PITCH + we_w0_v0 / EIGHTS * PITCH + we_w0_v0 % EIGHTS * 8u,
            w0_halves(raw_w0_v0, wr_w0_v0, wi_w0_v0 + k * EIGHTS));
        // end v0
        // end w0
        workgroupBarrier();
        if k + 1u < K / DEPTH {
            let next = (k + 1u) * (DEPTH / 4u);
            x_x0 = Halves(x[xa_x0 + next], x[xa_x0 + next + 1u]);
            raw_w0_v0 = w0_raw(wr_w0_v0, wi_w0_v0 + (k + 1u) * EIGHTS);
        }
        // each k0
        let a_k0_i0 = coopLoadT<MatA>(&tile_x[(part_row + i0 * SIDE) * STRIDE + k0 * SIDE / UNIT], STRIDE);
        // each w0
        // each j0
        let b_k0_w0_j0 = coopLoad<MatB>(
            &tile_w[(part_column + (s0_w0_PLACE * s0_COLUMNS + j0 * SIDE)) * STRIDE + k0 * SIDE / UNIT], STRIDE);
        c_w0_i0_j0 = coopMultiplyAdd(a_k0_i0, b_k0_w0_j0, c_w0_i0_j0);
        // end j0
        // end w0
        // end k0
    }
    // each i0
    workgroupBarrier();
    coopStoreT(c_w0_i0_j0, &strips[part * s0_STRIP + (s0_w0_PLACE * s0_BLOCK + j0 * SIDE)], s0_PART);
    workgroupBarrier();
    for (var e = lid; e < s0_BLOCK * SUBGROUPS; e += WG) {
        let of_part = e / s0_BLOCK;
        let i = e % s0_BLOCK;
        let t = m * ROWS + (of_part / ACROSS * SUB_ROWS + i0 * SIDE + i / s0_PART);
        let n = tile * s0_COLUMNS + of_part % ACROSS * s0_PART + i % s0_PART;
        if t < rows() && n < s0_WIDTH {
            var p: s0_Products;
            p.of_w0 = strips[of_part * s0_STRIP + s0_w0_PLACE * s0_BLOCK + i];
            s0_put(t, n, p);
        }
    }
    // end i0
}

// end s0
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,
        @builtin(local_invocation_index) lid: u32, @builtin(subgroup_id) subgroup: u32) {
    part = subgroup % SUBGROUPS;
    // Adjacent workgroups share a tile of weights, the larger factor, and can find it in a cache.
    let downs = (rows() + ROWS - 1u) / ROWS;
    let g = wid.x + wid.y * nwg.x;
    let m = g % downs;
    let n = g / downs;
    if n >= s0_FROM && n < s0_END { s0_out(m, n - s0_FROM, lid); }
}
