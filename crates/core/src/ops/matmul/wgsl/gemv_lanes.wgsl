// Vectors of eight elements, and the reduction over LANES_PER_ROW lanes where these are several subgroups: each subgroup puts
// its partial sum in workgroup memory.
fn dot_eight(a: Eight, b: Eight) -> f32 { return dot(a.a, b.a) + dot(a.b, b.b); }
fn times(a: Eight, b: Eight) -> Eight { return Eight(a.a * b.a, a.b * b.b); }
fn scaled(a: Eight, counts: bool) -> Eight {
    let zero = vec4<f32>(0.0);
    return Eight(select(zero, a.a, counts), select(zero, a.b, counts));
}

fn put_partial(i: u32, x: f32, lid: u32) { if lid % LANES == 0u { row_partials[i * (WG / LANES) + lid / LANES] = x; } }
fn reduce_partials(i: u32, lid: u32) -> f32 {
    let from_ = i * (WG / LANES) + lid / LANES_PER_ROW * PARTIALS;
    var sum = 0.0;
    for (var partial = 0u; partial < PARTIALS; partial++) { sum += row_partials[from_ + partial]; }
    return sum;
}
