// This lane's partial sums of one row of weight $W times each row of f32 activations.
fn dot_$W(row: u32, lane: u32) -> Sums {
    var sums: Sums;
    for (var i = lane; i < (K + 7u) / 8u; i += LANES) {
        let w = $W_eight(row, i);
        for (var t = 0u; t < ROWS; t++) {
            if ROWS == 1u || t < rows() {
                let x = floats_eight(t, i);
                sums[t] += dot(w.a, x.a) + dot(w.b, x.b);
            }
        }
    }
    return sums;
}
