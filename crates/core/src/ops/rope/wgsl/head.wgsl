// One head of q in workgroup memory, after its norm; q_rotated reads an element after the rotation.
// The host declares q_x_at (elements), q_norm_at (the norm's weight), q_DIM, q_NORM, q_EPS, q_PAIRS (0: no rotation),
// q_NEOX and q_TABLE.
// header: defaults
const WG: u32 = 64u;
const q_DIM: u32 = 64u;
const q_PAIRS: u32 = 32u;
const q_TABLE: u32 = 0u;
const q_NORM: bool = false;
const q_NEOX: bool = true;
const q_EPS: f32 = 1e-5;
fn q_x_at(i: u32) -> f32 { return 0.0; }
fn q_norm_at(i: u32) -> f32 { return 1.0; }
fn batch_cos(table: u32, row: u32, pairs: u32, i: u32) -> f32 { return 1.0; }
fn batch_sin(table: u32, row: u32, pairs: u32, i: u32) -> f32 { return 0.0; }
fn workgroup_sum(x: f32, lid: u32) -> f32 { return x; }
// header: end

var<workgroup> q_head: array<f32, q_DIM>;

// All threads call it, with a barrier before any of them reads the head.
fn q_take(from_: u32, lid: u32) {
    var sum = 0.0;
    for (var d = lid; d < q_DIM; d += WG) {
        let x = q_x_at(from_ + d);
        q_head[d] = x;
        sum += x * x;
    }
    if q_NORM {
        let factor = inverseSqrt(workgroup_sum(sum, lid) / f32(q_DIM) + q_EPS);
        for (var d = lid; d < q_DIM; d += WG) { q_head[d] *= factor * q_norm_at(d); }
    }
}

fn q_load(from_: u32, lid: u32) {
    q_take(from_, lid);
    workgroupBarrier();
}

fn q_rotated(row: u32, d: u32) -> f32 {
    if d >= 2u * q_PAIRS { return q_head[d]; }
    let second = select(d % 2u == 1u, d >= q_PAIRS, q_NEOX);
    let pair = select(d / 2u, d % max(q_PAIRS, 1u), q_NEOX);
    let cos = batch_cos(q_TABLE, row, q_PAIRS, pair);
    let sin = batch_sin(q_TABLE, row, q_PAIRS, pair);
    let a = q_head[select(2u * pair, pair, q_NEOX)];
    let b = q_head[select(2u * pair + 1u, pair + q_PAIRS, q_NEOX)];
    return select(a * cos - b * sin, a * sin + b * cos, second);
}
