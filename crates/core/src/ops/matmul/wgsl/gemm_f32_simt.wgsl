// Accumulates a tile of 64 rows of activations times 64 rows of weight $W, in k-tiles of 32 columns in workgroup memory. Each
// thread has 4 x 4 elements of the tile.
fn tile_$W(m: u32, n: u32, lid: u32, acc: ptr<function, array<vec4<f32>, 4>>) {
    let x_row = min(m * 64u + lid / 4u, rows() - 1u);
    let w_row = min(n * 64u + lid / 4u, $W_ROWS - 1u);
    for (var k = 0u; k < (K + 31u) / 32u; k++) {
        let i = 4u * k + lid % 4u;
        var x: Eight;
        var w: Eight;
        if K % 32u == 0u || i < (K + 7u) / 8u {
            x = $X_eight(x_row, i);
            w = $W_eight(w_row, i);
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
