// One head of $H in workgroup memory, after its norm; $H_rotated reads an element after the rotation.
// The host declares $H_x_at (elements), $H_norm_at (the norm's weight), $H_DIM, $H_NORM, $H_EPS, $H_PAIRS (0: no rotation),
// $H_NEOX and $H_TABLE.
var<workgroup> $H_head: array<f32, $H_DIM>;

// All threads call it, with a barrier before any of them reads the head.
fn $H_take(from_: u32, lid: u32) {
    var sum = 0.0;
    for (var d = lid; d < $H_DIM; d += WG) {
        let x = $H_x_at(from_ + d);
        $H_head[d] = x;
        sum += x * x;
    }
    if $H_NORM {
        let factor = inverseSqrt(workgroup_sum(sum, lid) / f32($H_DIM) + $H_EPS);
        for (var d = lid; d < $H_DIM; d += WG) { $H_head[d] *= factor * $H_norm_at(d); }
    }
}

fn $H_load(from_: u32, lid: u32) {
    $H_take(from_, lid);
    workgroupBarrier();
}

fn $H_rotated(row: u32, d: u32) -> f32 {
    if d >= 2u * $H_PAIRS { return $H_head[d]; }
    let second = select(d % 2u == 1u, d >= $H_PAIRS, $H_NEOX);
    let pair = select(d / 2u, d % max($H_PAIRS, 1u), $H_NEOX);
    let cos = batch_cos($H_TABLE, row, $H_PAIRS, pair);
    let sin = batch_sin($H_TABLE, row, $H_PAIRS, pair);
    let a = $H_head[select(2u * pair, pair, $H_NEOX)];
    let b = $H_head[select(2u * pair + 1u, pair + $H_PAIRS, $H_NEOX)];
    return select(a * cos - b * sin, a * sin + b * cos, second);
}
