// A matrix w0 of floats whose row width is no multiple of eight: elements 8i .. 8i + 8 of a row, read one by one by `w0_at`.
// header: defaults
const K: u32 = 63u;
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn w0_at(i: u32) -> f32 { return 0.0; }
// header: end

fn w0_eight(row: u32, i: u32) -> Eight {
    var e: array<f32, 8>;
    for (var j = 0u; j < 8u; j++) {
        let at = 8u * i + j;
        if K % 8u == 0u || at < K { e[j] = w0_at(row * K + at); }
    }
    return Eight(vec4<f32>(e[0], e[1], e[2], e[3]), vec4<f32>(e[4], e[5], e[6], e[7]));
}
