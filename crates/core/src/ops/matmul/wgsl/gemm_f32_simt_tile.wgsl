// Accumulates a tile of 64 rows of activations times 64 rows of weight w0, in k-tiles of 32 columns in workgroup memory. Each
// thread has 4 x 4 elements of the tile.
// header: defaults
const K: u32 = 64u;
const w0_ROWS: u32 = 64u;
var<workgroup> tile_x: array<f32, 2048>;
var<workgroup> tile_w: array<f32, 2048>;
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn rows() -> u32 { return 1u; }
fn w0_x_eight(t: u32, i: u32) -> Eight { return Eight(); }
fn w0_eight(row: u32, i: u32) -> Eight { return Eight(); }
// header: end

fn tile_w0(m: u32, n: u32, lid: u32, acc: ptr<function, array<vec4<f32>, 4>>) {
    let x_row = min(m * 64u + lid / 4u, rows() - 1u);
    let w_row = min(n * 64u + lid / 4u, w0_ROWS - 1u);
    for (var k = 0u; k < (K + 31u) / 32u; k++) {
        let i = 4u * k + lid % 4u;
        var x: Eight;
        var w: Eight;
        if K % 32u == 0u || i < (K + 7u) / 8u {
            x = w0_x_eight(x_row, i);
            w = w0_eight(w_row, i);
        }
        workgroupBarrier();
        for (var j = 0u; j < 4u; j++) {
            let at = (8u * (lid % 4u) + j) * 64u + lid / 4u;
            tile_x[at] = x.a[j];
            tile_x[at + 256u] = x.b[j];
            tile_w[at] = w.a[j];
            tile_w[at + 256u] = w.b[j];
        }
        workgroupBarrier();
        for (var j = 0u; j < 32u; j++) {
            let xa = j * 64u + (lid / 16u) * 4u;
            let wa = j * 64u + (lid % 16u) * 4u;
            let w = vec4<f32>(tile_w[wa], tile_w[wa + 1u], tile_w[wa + 2u], tile_w[wa + 3u]);
            for (var r = 0u; r < 4u; r++) { (*acc)[r] += tile_x[xa + r] * w; }
        }
    }
}
