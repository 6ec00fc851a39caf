// Tiles through cooperative matrices. Rows of f16 lie in workgroup memory STRIDE apart, DEPTH numbers each: activations in
// `tile_x`, weights in `tile_w`. `part`: which part of the tile is this subgroup's.
struct Halves { a: vec4<f16>, b: vec4<f16> }
var<private> part: u32;

// What is too large for f16 becomes the largest one.
fn rounded(e: Eight) -> Halves {
    let most = vec4<f32>(65504.0);
    return Halves(vec4<f16>(clamp(e.a, -most, most)), vec4<f16>(clamp(e.b, -most, most)));
}

fn halves(e: Eight) -> Halves { return Halves(vec4<f16>(e.a), vec4<f16>(e.b)); }
