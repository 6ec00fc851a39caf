// Scalar functions. Arguments of exp are clamped so that it does not overflow.
// header: defaults
// header: end

fn sigmoid(x: f32) -> f32 { return 1.0 / (1.0 + exp(min(-x, 80.0))); }
fn silu(x: f32) -> f32 { return x / (1.0 + exp(min(-x, 80.0))); }
fn tanh_clamped(x: f32) -> f32 { return 1.0 - 2.0 / (exp(2.0 * clamp(x, -15.0, 15.0)) + 1.0); }
fn gelu_tanh(x: f32) -> f32 { return 0.5 * x * (1.0 + tanh_clamped(0.7978846 * (x + 0.044715 * x * x * x))); }
fn softplus(x: f32) -> f32 { return max(x, 0.0) + log(1.0 + exp(-abs(x))); }

// a / b, corrected to the last bit by the fused remainder: a device's division may be off by a few units in the last place, and
// the rounding of quants must be the same on every device.
fn divide(a: f32, b: f32) -> f32 {
    let q = a / b;
    return fma(fma(-q, b, a), 1.0 / b, q);
}

// The bits of the nearest f16, ties to even; WGSL lets `pack2x16float` round either way.
fn f16_bits(x: f32) -> u32 {
    let u = bitcast<u32>(x);
    let sign = (u >> 16u) & 0x8000u;
    let m = u & 0x7fffffffu;
    if m >= 0x7f800000u { return sign | select(0x7c00u, 0x7e00u, m > 0x7f800000u); }
    if m >= 0x477ff000u { return sign | 0x7c00u; }
    if m < 0x38800000u {
        // Below the normal range: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
        return sign | (bitcast<u32>(bitcast<f32>(m) + 0.5) - 0x3f000000u);
    }
    return sign | ((m + 0xfffu + ((m >> 13u) & 1u) - 0x38000000u) >> 13u);
}

fn unpack_bf16(u: u32) -> vec2<f32> { return vec2<f32>(bitcast<f32>(u << 16u), bitcast<f32>(u & 0xffff0000u)); }
