// The norm as a prologue of the GEMV: every workgroup recomputes the factors of all rows.
// header: defaults
const WG: u32 = 128u;
const K: u32 = 64u;
const ROWS: u32 = 1u;
const EPS: f32 = 1e-5;
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn rows() -> u32 { return 1u; }
fn x_eight(t: u32, i: u32) -> Eight { return Eight(); }
fn norm_eight(row: u32, i: u32) -> Eight { return Eight(); }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

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
