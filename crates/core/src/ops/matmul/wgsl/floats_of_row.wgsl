// A single row of f32 activations for float weights beside quantized ones: the norm is applied again on each read.
// header: defaults
const WG: u32 = 128u;
const K: u32 = 64u;
const EPS: f32 = 1e-5;
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn x_at(i: u32) -> f32 { return 0.0; }
fn norm_at(i: u32) -> f32 { return 1.0; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

var<private> factor_of_row: f32 = 1.0;

fn row_factor(lid: u32) {
    var sum = 0.0;
    for (var i = lid; i < K; i += WG) { let x = x_at(i); sum += x * x; }
    factor_of_row = inverseSqrt(workgroup_sum(sum, lid) / f32(K) + EPS);
}

fn floats_eight(t: u32, i: u32) -> Eight {
    var e: array<f32, 8>;
    for (var j = 0u; j < 8u; j++) { e[j] = x_at(8u * i + j) * factor_of_row * norm_at(8u * i + j); }
    return Eight(vec4<f32>(e[0], e[1], e[2], e[3]), vec4<f32>(e[4], e[5], e[6], e[7]));
}
