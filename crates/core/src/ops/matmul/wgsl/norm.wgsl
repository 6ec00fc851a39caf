// The norm as a prologue of the GEMV: every workgroup recomputes the factors of all rows.
var<private> norm_factor: array<f32, ROWS>;

fn norm_factors(lid: u32) {
    for (var t = 0u; t < ROWS; t++) {
        if ROWS > 1u && t >= rows() { break; }
        var sum = 0.0;
        for (var i = lid; i < (K + 7u) / 8u; i += WG) {
            let x = x_eight(t, i);
            sum += dot(x.a, x.a) + dot(x.b, x.b);
        }
        norm_factor[t] = inverseSqrt(workgroup_sum(sum, lid) / f32(K) + EPS);
    }
}

fn floats_eight(t: u32, i: u32) -> Eight {
    let x = x_eight(t, i);
    let w = norm_eight(0u, i);
    return Eight(x.a * norm_factor[t] * w.a, x.b * norm_factor[t] * w.b);
}
