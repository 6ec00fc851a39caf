// GEMM with f32 factors: a workgroup computes a tile of 64 rows of activations times 64 columns, each of its 256 threads 4 x 4
// of them. `s0` is a slice of columns of an output, `w0` a weight that it reads: `tile_w0` (gemm_f32_simt_tile.wgsl) computes
// the products of the tile, and `s0_put` is the epilogue. TILES: tiles along all outputs.
// header: defaults
const WG: u32 = 256u;
const TILES: u32 = 1u;
const s0_WIDTH: u32 = 64u;
const s0_FROM: u32 = 0u;
const s0_END: u32 = 1u;
struct s0_Products { of_w0: f32 }
fn s0_put(t: u32, n: u32, p: s0_Products) {}
fn rows() -> u32 { return 1u; }
fn tile_w0(m: u32, n: u32, lid: u32, acc: ptr<function, array<vec4<f32>, 4>>) {}
// header: end

// each s0
fn s0_out(m: u32, tile: u32, lid: u32) {
    var acc_w0: array<vec4<f32>, 4>;
    tile_w0(m, tile, lid, &acc_w0);
    for (var r = 0u; r < 4u; r++) {
        for (var c = 0u; c < 4u; c++) {
            let t = m * 64u + (lid / 16u) * 4u + r;
            let n = tile * 64u + (lid % 16u) * 4u + c;
            if t < rows() && n < s0_WIDTH {
                var p: s0_Products;
                p.of_w0 = acc_w0[r][c];
                s0_put(t, n, p);
            }
        }
    }
}

// end s0
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let g = wid.x + wid.y * nwg.x;
    let m = g / TILES;
    let n = g % TILES;
    if m * 64u >= rows() { return; }
    if n >= s0_FROM && n < s0_END { s0_out(m, n - s0_FROM, lid); }
}
