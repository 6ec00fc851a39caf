// Tiles through cooperative matrices. Rows of f16 lie in workgroup memory STRIDE apart, DEPTH numbers each: activations in
// `tile_x`, weights in `tile_w`. `part`: which part of the tile is this subgroup's.
//
// On an H200 through Vulkan, 2048 rows, with the step that rounds: 148 TFLOP/s at 4096 x 14336 in f16, 141 in Q4_0, 124 in Q8_0;
// Qwen2.5-0.5B's down 105 with tiles of 128 x 128 and 65 with 64 x 64, though there are only 112 of the larger. Tried and not
// faster: four subgroups of 64 x 64 (126), single numbers instead of fours in the workgroup's memory (130).
struct Halves { a: vec4<f16>, b: vec4<f16> }
var<private> part: u32;

// What is too large for f16 becomes the largest one.
fn rounded(e: Eight) -> Halves {
    let most = vec4<f32>(65504.0);
    return Halves(vec4<f16>(clamp(e.a, -most, most)), vec4<f16>(clamp(e.b, -most, most)));
}

fn halves(e: Eight) -> Halves { return Halves(vec4<f16>(e.a), vec4<f16>(e.b)); }
