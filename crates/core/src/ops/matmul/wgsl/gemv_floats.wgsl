// This lane's partial sums of one row of weight w0 times each row of f32 activations.
// header: defaults
const K: u32 = 64u;
const LANES: u32 = 32u;
const ROWS: u32 = 1u;
alias Sums = array<f32, ROWS>;
struct Eight { a: vec4<f32>, b: vec4<f32> }
fn rows() -> u32 { return 1u; }
fn w0_eight(row: u32, i: u32) -> Eight { return Eight(); }
fn floats_eight(t: u32, i: u32) -> Eight { return Eight(); }
// header: end

fn dot_w0(row: u32, lane: u32) -> Sums {
    var sums: Sums;
    for (var i = lane; i < (K + 7u) / 8u; i += LANES) {
        let w = w0_eight(row, i);
        for (var t = 0u; t < ROWS; t++) {
            if ROWS == 1u || t < rows() {
                let x = floats_eight(t, i);
                sums[t] += dot(w.a, x.a) + dot(w.b, x.b);
            }
        }
    }
    return sums;
}
