// GEMM by cooperative matrices with f16 factors. A k-tile in workgroup memory has rows of DEPTH elements at a stride of STRIDE:
// activations in `tile_x`, weights in `tile_w`. `part` is the index of this subgroup's sub-tile.
//
// On an H200 through Vulkan, 2048 rows, including the prologue launch: 148 TFLOP/s at 4096 x 14336 in f16, 141 in Q4_0, 124 in
// Q8_0; Qwen2.5-0.5B's down 105 with tiles of 128 x 128 and 65 with 64 x 64, although there are only 112 tiles of the larger
// size. Tried and not faster: four subgroups with sub-tiles of 64 x 64 (126), workgroup memory of single elements instead of
// vectors of four (130).
struct Halves { a: vec4<f16>, b: vec4<f16> }
var<private> part: u32;

// Converts to f16; values beyond its range are clamped to the largest f16.
fn rounded(e: Eight) -> Halves {
    let most = vec4<f32>(65504.0);
    return Halves(vec4<f16>(clamp(e.a, -most, most)), vec4<f16>(clamp(e.b, -most, most)));
}

fn halves(e: Eight) -> Halves { return Halves(vec4<f16>(e.a), vec4<f16>(e.b)); }
