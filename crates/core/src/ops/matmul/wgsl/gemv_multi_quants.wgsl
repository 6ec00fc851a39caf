// This lane's partial sums of four rows of weight $W in planes from row `first`, times each row of quantized activations, in
// blocks of 32 quants as in `gemv_quants.wgsl`. Beyond the last row of the weight, the last row is used again.
//
// Llama-8B's gate and up in Q4_0 on an H200 through Vulkan, 4 rows: 73 us with one row of the weight at a time, 54 us with
// four; 8 rows: 118 and 77.
struct $W_Block { a: vec4<u32>, b: vec4<u32>, scale: vec2<f32>, group_min: vec2<f32> }

fn $W_block(row: u32, block: u32) -> $W_Block {
    var x: $W_Block;
    if $W_BITS == 4u {
        x.a = $W[row * (K / 32u) + block];
    } else {
        x.a = $W[row * (K / 16u) + 2u * block];
        x.b = $W[row * (K / 16u) + 2u * block + 1u];
    }
    let group = (row * K + 32u * block) / $W_GROUP;
    x.scale.x = $W_scale(group);
    if $W_GROUP == 16u { x.scale.y = $W_scale(group + 1u); }
    if $W_HAS_MIN {
        x.group_min.x = $W_min(group);
        if $W_GROUP == 16u { x.group_min.y = $W_min(group + 1u); }
    }
    return x;
}

fn $W_four(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

// The weight's scale comes last, as in `gemv_quants.wgsl`; `d` is that of the activations.
fn $W_times(x: $W_Block, q0: vec4<u32>, q1: vec4<u32>, sum: vec2<i32>, d: f32) -> f32 {
    var half: vec2<i32>;
    if $W_BITS == 4u {
        let low = x.a & vec4<u32>(0x0f0f0f0fu);
        let high = (x.a >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
        half = vec2<i32>(
            $W_four(vec4<u32>(low.x, high.x, low.y, high.y), q0), $W_four(vec4<u32>(low.z, high.z, low.w, high.w), q1));
    } else {
        half = vec2<i32>($W_four(x.a, q0), $W_four(x.b, q1));
    }
    if $W_GROUP == 32u {
        let all = f32(sum.x + sum.y);
        return x.scale.x * (d * (f32(half.x + half.y) - $W_ZERO * all)) + x.group_min.x * (d * all);
    }
    let parts = x.scale * (vec2<f32>(half) - $W_ZERO * vec2<f32>(sum)) + x.group_min * vec2<f32>(sum);
    return d * (parts.x + parts.y);
}

fn dot4_$W(first: u32, lane: u32) -> Sums {
    let row = min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>($W_ROWS - 1u));
    var sums: Sums;
    for (var block = lane; block < K / 32u; block += LANES) {
        let a = $W_block(row.x, block);
        let b = $W_block(row.y, block);
        let c = $W_block(row.z, block);
        let d = $W_block(row.w, block);
        for (var t = 0u; t < ROWS; t++) {
            if t < rows() {
                let at = t * (ROUNDED_ROW / 4u) + select(0u, AT_PERMUTED / 4u, $W_BITS == 4u) + 2u * block;
                let q0 = rounded_four(at);
                let q1 = rounded_four(at + 1u);
                var sum = vec2<i32>(0);
                if $W_ZERO != 0.0 || $W_HAS_MIN { sum = rounded_sums(t, block); }
                let y = rounded_scale(t, block);
                sums[t] += vec4<f32>(
                    $W_times(a, q0, q1, sum, y), $W_times(b, q0, q1, sum, y),
                    $W_times(c, q0, q1, sum, y), $W_times(d, q0, q1, sum, y));
            }
        }
    }
    return sums;
}
