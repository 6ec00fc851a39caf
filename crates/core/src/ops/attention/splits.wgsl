// A long cache's positions among workgroups: each hands its part to the last of them.
const PIECE: u32 = q_DIM + 2u;
var<workgroup> pieces: array<f32, SPLITS * PIECE>;

// True in the one that then has all parts. `which`: the head of a token.
fn meet(which: u32, split: u32, n: u32, lid: u32) -> bool {
    let at = which * (1u + SPLITS * PIECE);
    for (var d = lid; d < q_DIM; d += WG) {
        let m = merged(d);
        hand_over_float(at + 1u + split * PIECE + d, m.x);
        if d == 0u {
            hand_over_float(at + 1u + split * PIECE + q_DIM, m.y);
            hand_over_float(at + 1u + split * PIECE + q_DIM + 1u, m.z);
        }
    }
    if !is_last(at, n, lid) { return false; }
    for (var i = lid; i < n * PIECE; i += WG) { pieces[i] = bitcast<f32>(taken(at + 1u + i)); }
    workgroupBarrier();
    return true;
}

// Number d of the whole.
fn met(d: u32, n: u32) -> f32 {
    var largest = pieces[q_DIM + 1u];
    for (var i = 1u; i < n; i++) { largest = max(largest, pieces[i * PIECE + q_DIM + 1u]); }
    var x = 0.0;
    var sum = 0.0;
    for (var i = 0u; i < n; i++) {
        let fade = exp(pieces[i * PIECE + q_DIM + 1u] - largest);
        x += pieces[i * PIECE + d] * fade;
        sum += pieces[i * PIECE + q_DIM] * fade;
    }
    return x / sum;
}
