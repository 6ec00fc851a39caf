// For the case "norm, rope and write, some, f16".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size2;
    uint size3;
    uint size5;
    uint size8;
    uint size9;
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
struct type_5 {
    float inner[2];
};
typedef float type_6[1];
struct type_8 {
    float inner[64];
};
typedef metal::uint4 type_10[1];
constant uint WG = 64u;
constant uint LANES = 32u;
constant uint k_DIM = 64u;
constant bool k_NORM = true;
constant float k_EPS = 0.000001;
constant uint k_PAIRS = 32u;
constant bool k_NEOX = true;
constant uint k_TABLE = 0u;
constant uint kc_DIM = 64u;
constant uint kc_HEADS = 2u;
constant uint kc_BYTES = 128u;
constant uint kc_KIND = 1u;
constant uint vc_DIM = 64u;
constant uint vc_HEADS = 2u;
constant uint vc_BYTES = 128u;
constant uint vc_KIND = 1u;

uint batch_t(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = batch[0];
    return _e2;
}

uint batch_s(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = batch[1];
    return _e2;
}

uint batch_id(
    uint row,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = batch[4];
    uint _e7 = batch[_e4 + row];
    return _e7;
}

uint batch_position(
    uint row_1,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = batch[5];
    uint _e7 = batch[_e4 + row_1];
    return _e7;
}

uint batch_seq(
    uint row_2,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = batch[6];
    uint _e7 = batch[_e4 + row_2];
    return _e7;
}

uint batch_span(
    uint seq,
    uint field,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = batch[7];
    uint _e11 = batch[(_e5 + (seq * 16u)) + field];
    return _e11;
}

float batch_span_f32_(
    uint seq_1,
    uint field_1,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = batch_span(seq_1, field_1, batch, _buffer_sizes);
    return as_type<float>(_e2);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint batch_page(
    uint seq_2,
    uint position,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = batch[8];
    uint _e8 = batch[9];
    uint _e13 = batch[3];
    uint _e17 = batch[(_e5 + (seq_2 * _e8)) + naga_div(position, _e13)];
    return _e17;
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint batch_page_offset(
    uint position_1,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = batch[3];
    return naga_mod(position_1, _e3);
}

uint batch_logit_row(
    uint i,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = batch[10];
    uint _e7 = batch[_e4 + i];
    return _e7;
}

uint batch_history(
    uint seq_3,
    uint i_1,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = batch[11];
    uint _e7 = batch_span(seq_3, 13u, batch, _buffer_sizes);
    uint _e11 = batch[(_e5 + _e7) + i_1];
    return _e11;
}

float batch_cos(
    uint table,
    uint row_3,
    uint pairs,
    uint i_2,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table];
    uint _e16 = batch[(_e9 + ((row_3 * 2u) * pairs)) + i_2];
    return as_type<float>(_e16);
}

float batch_sin(
    uint table_1,
    uint row_4,
    uint pairs_1,
    uint i_3,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table_1];
    uint _e17 = batch[((_e9 + ((row_4 * 2u) * pairs_1)) + pairs_1) + i_3];
    return as_type<float>(_e17);
}

float sigmoid(
    float x
) {
    return 1.0 / (1.0 + metal::exp(metal::min(-(x), 80.0)));
}

float silu(
    float x_1
) {
    return x_1 / (1.0 + metal::exp(metal::min(-(x_1), 80.0)));
}

float tanh_clamped(
    float x_2
) {
    return 1.0 - (2.0 / (metal::exp(2.0 * metal::clamp(x_2, -15.0, 15.0)) + 1.0));
}

float gelu_tanh(
    float x_3
) {
    float _e10 = tanh_clamped(0.7978846 * (x_3 + (((0.044715 * x_3) * x_3) * x_3)));
    return (0.5 * x_3) * (1.0 + _e10);
}

float softplus(
    float x_4
) {
    return metal::max(x_4, 0.0) + metal::log(1.0 + metal::exp(-(metal::abs(x_4))));
}

float divide(
    float a,
    float b
) {
    float q = a / b;
    return metal::fma(metal::fma(-(q), b, a), 1.0 / b, q);
}

uint f16_bits(
    float x_5
) {
    uint u_1 = as_type<uint>(x_5);
    uint sign = (u_1 >> 16u) & 32768u;
    uint m = u_1 & 2147483647u;
    if (m >= 2139095040u) {
        return sign | ((m > 2139095040u) ? 32256u : 31744u);
    }
    if (m >= 1199566848u) {
        return sign | 31744u;
    }
    if (m < 947912704u) {
        return sign | (as_type<uint>(as_type<float>(m) + 0.5) - 1056964608u);
    }
    return sign | ((((m + 4095u) + ((m >> 13u) & 1u)) - 939524096u) >> 13u);
}

metal::float2 unpack_bf16_(
    uint u
) {
    return metal::float2(as_type<float>(u << 16u), as_type<float>(u & 4294901760u));
}

float lanes_sum(
    float x_6,
    uint lid_1
) {
    float sum = {};
    uint n = 16u;
    sum = x_6;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e13 = n;
            n = naga_div(_e13, 2u);
        }
        loop_init = false;
        uint _e5 = n;
        if (_e5 > 0u) {
        } else {
            break;
        }
        {
            float _e8 = sum;
            float _e9 = sum;
            uint _e10 = n;
            float unnamed = metal::simd_shuffle_xor(_e9, _e10);
            sum = _e8 + unnamed;
        }
    }
    float _e16 = sum;
    return _e16;
}

float workgroup_sum(
    float x_7,
    uint lid_2,
    threadgroup type_5& reduce_part
) {
    float sum_1 = 0.0;
    uint i_4 = 0u;
    float _e2 = lanes_sum(x_7, lid_2);
    if (naga_mod(lid_2, LANES) == 0u) {
        reduce_part.inner[naga_div(lid_2, LANES)] = _e2;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e25 = i_4;
            i_4 = _e25 + 1u;
        }
        loop_init_1 = false;
        uint _e15 = i_4;
        if (_e15 < 2u) {
        } else {
            break;
        }
        {
            float _e18 = sum_1;
            uint _e20 = i_4;
            float _e22 = reduce_part.inner[_e20];
            sum_1 = _e18 + _e22;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e27 = sum_1;
    return _e27;
}

float workgroup_max(
    float x_8,
    uint lid_3,
    threadgroup type_5& reduce_part
) {
    float part = {};
    uint n_1 = 16u;
    float largest = {};
    uint i_5 = 1u;
    part = x_8;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e13 = n_1;
            n_1 = naga_div(_e13, 2u);
        }
        loop_init_2 = false;
        uint _e5 = n_1;
        if (_e5 > 0u) {
        } else {
            break;
        }
        {
            float _e8 = part;
            float _e9 = part;
            uint _e10 = n_1;
            float unnamed_1 = metal::simd_shuffle_xor(_e9, _e10);
            part = metal::max(_e8, unnamed_1);
        }
    }
    if (naga_mod(lid_3, LANES) == 0u) {
        float _e24 = part;
        reduce_part.inner[naga_div(lid_3, LANES)] = _e24;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e27 = reduce_part.inner[0];
    largest = _e27;
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e41 = i_5;
            i_5 = _e41 + 1u;
        }
        loop_init_3 = false;
        uint _e31 = i_5;
        if (_e31 < 2u) {
        } else {
            break;
        }
        {
            float _e34 = largest;
            uint _e36 = i_5;
            float _e38 = reduce_part.inner[_e36];
            largest = metal::max(_e34, _e38);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e43 = largest;
    return _e43;
}

float k_x_at(
    uint i_6,
    device type_6 const& k_x,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = k_x[i_6];
    return _e3;
}

float k_norm_at(
    uint i_7,
    device type_6 const& k_norm,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = k_norm[i_7];
    return _e3;
}

void k_load(
    uint from,
    uint lid_4,
    threadgroup type_5& reduce_part,
    device type_6 const& k_x,
    device type_6 const& k_norm,
    threadgroup type_8& k_head,
    constant _mslBufferSizes& _buffer_sizes
) {
    float sum_2 = 0.0;
    uint d_2 = {};
    uint d_3 = {};
    d_2 = lid_4;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e17 = d_2;
            d_2 = _e17 + WG;
        }
        loop_init_4 = false;
        uint _e5 = d_2;
        if (_e5 < k_DIM) {
        } else {
            break;
        }
        {
            uint _e8 = d_2;
            float _e10 = k_x_at(from + _e8, k_x, _buffer_sizes);
            uint _e12 = d_2;
            k_head.inner[_e12] = _e10;
            float _e14 = sum_2;
            sum_2 = _e14 + (_e10 * _e10);
        }
    }
    if (k_NORM) {
        float _e21 = sum_2;
        float _e22 = workgroup_sum(_e21, lid_4, reduce_part);
        float factor = metal::rsqrt((_e22 / 64.0) + k_EPS);
        d_3 = lid_4;
        uint2 loop_bound_5 = uint2(4294967295u);
        bool loop_init_5 = true;
        while(true) {
            if (metal::all(loop_bound_5 == uint2(0u))) { break; }
            loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
            if (!loop_init_5) {
                uint _e40 = d_3;
                d_3 = _e40 + WG;
            }
            loop_init_5 = false;
            uint _e29 = d_3;
            if (_e29 < k_DIM) {
            } else {
                break;
            }
            {
                uint _e33 = d_3;
                float _e35 = k_head.inner[_e33];
                uint _e36 = d_3;
                float _e37 = k_norm_at(_e36, k_norm, _buffer_sizes);
                k_head.inner[_e33] = _e35 * (factor * _e37);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

float k_rotated(
    uint row_5,
    uint d_4,
    device type_1 const& batch,
    threadgroup type_8& k_head,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (d_4 >= 64u) {
        float _e6 = k_head.inner[d_4];
        return _e6;
    }
    bool second = k_NEOX ? (d_4 >= k_PAIRS) : (naga_mod(d_4, 2u) == 1u);
    uint pair = k_NEOX ? naga_mod(d_4, 32u) : naga_div(d_4, 2u);
    float _e23 = batch_cos(k_TABLE, row_5, k_PAIRS, pair, batch, _buffer_sizes);
    float _e26 = batch_sin(k_TABLE, row_5, k_PAIRS, pair, batch, _buffer_sizes);
    float a_1 = k_head.inner[k_NEOX ? pair : (2u * pair)];
    float b_3 = k_head.inner[k_NEOX ? (pair + k_PAIRS) : ((2u * pair) + 1u)];
    return second ? ((a_1 * _e26) + (b_3 * _e23)) : ((a_1 * _e23) - (b_3 * _e26));
}

uint kc_word(
    uint i_8,
    device type_10 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = kc[i_8 >> 2u][i_8 & 3u];
    return _e8;
}

uint kc_at(
    uint page,
    uint head,
    uint offset,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = batch[3];
    return ((((page * kc_HEADS) + head) * _e8) + offset) * kc_BYTES;
}

metal::float4 kc_four(
    uint at,
    uint i_9,
    device type_10 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = {};
    if (false) {
        uint word_6 = naga_div(at, 4u) + (4u * i_9);
        uint _e8 = kc_word(word_6, kc, _buffer_sizes);
        uint _e11 = kc_word(word_6 + 1u, kc, _buffer_sizes);
        uint _e14 = kc_word(word_6 + 2u, kc, _buffer_sizes);
        uint _e17 = kc_word(word_6 + 3u, kc, _buffer_sizes);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (true) {
        uint word_7 = naga_div(at, 4u) + (2u * i_9);
        uint _e26 = kc_word(word_7, kc, _buffer_sizes);
        uint _e30 = kc_word(word_7 + 1u, kc, _buffer_sizes);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block_2 = at + (naga_div(i_9, 8u) * 34u);
    uint _e40 = kc_word(block_2 >> 2u, kc, _buffer_sizes);
    float scale = float2(as_type<half2>((_e40 >> (8u * (block_2 & 2u))))).x;
    uint code_2 = (block_2 + 2u) + (4u * naga_mod(i_9, 8u));
    uint _e57 = kc_word(code_2 >> 2u, kc, _buffer_sizes);
    word = _e57;
    if ((code_2 & 2u) != 0u) {
        uint _e63 = word;
        uint _e70 = kc_word((code_2 >> 2u) + 1u, kc, _buffer_sizes);
        word = (_e63 >> 16u) | (_e70 << 16u);
    }
    uint _e74 = word;
    return static_cast<metal::float4>(int4(as_type<packed_char4>(_e74))) * scale;
}

Eight kc_eight(
    uint at_1,
    uint i_10,
    device type_10 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 v_1 = kc[naga_div(at_1, 16u) + i_10];
    return Eight {metal::float4(float2(as_type<half2>(v_1.x)), float2(as_type<half2>(v_1.y))), metal::float4(float2(as_type<half2>(v_1.z)), float2(as_type<half2>(v_1.w)))};
}

void kc_put(
    uint i_11,
    uint word_1,
    uint mask,
    device type_10& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    kc[i_11 >> 2u][i_11 & 3u] = word_1;
    return;
}

void kc_prepare(
    uint lid_5,
    threadgroup type_8& kc_numbers,
    threadgroup type_5& kc_scale
) {
    uint block = {};
    float largest_1 = {};
    uint i_12 = {};
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (false) {
        block = lid_5;
        uint2 loop_bound_6 = uint2(4294967295u);
        bool loop_init_6 = true;
        while(true) {
            if (metal::all(loop_bound_6 == uint2(0u))) { break; }
            loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
            if (!loop_init_6) {
                uint _e33 = block;
                block = _e33 + WG;
            }
            loop_init_6 = false;
            uint _e3 = block;
            if (_e3 < 2u) {
            } else {
                break;
            }
            {
                largest_1 = 0.0;
                i_12 = 0u;
                uint2 loop_bound_7 = uint2(4294967295u);
                bool loop_init_7 = true;
                while(true) {
                    if (metal::all(loop_bound_7 == uint2(0u))) { break; }
                    loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
                    if (!loop_init_7) {
                        uint _e25 = i_12;
                        i_12 = _e25 + 1u;
                    }
                    loop_init_7 = false;
                    uint _e10 = i_12;
                    if (_e10 < 32u) {
                    } else {
                        break;
                    }
                    {
                        float _e13 = largest_1;
                        uint _e15 = block;
                        uint _e18 = i_12;
                        float _e21 = kc_numbers.inner[(_e15 * 32u) + _e18];
                        largest_1 = metal::max(_e13, metal::abs(_e21));
                    }
                }
                uint _e28 = block;
                float _e30 = largest_1;
                float _e32 = divide(_e30, 127.0);
                kc_scale.inner[_e28] = _e32;
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        return;
    } else {
        return;
    }
}

int naga_f2i32(float value) {
    return static_cast<int>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

uint kc_byte(
    uint i_13,
    threadgroup type_8& kc_numbers,
    threadgroup type_5& kc_scale
) {
    float code = {};
    float scale_1 = kc_scale.inner[naga_div(i_13, 34u)];
    if (naga_mod(i_13, 34u) < 2u) {
        uint _e10 = f16_bits(scale_1);
        return (_e10 >> (8u * naga_mod(i_13, 34u))) & 255u;
    }
    if (scale_1 == 0.0) {
        return 0u;
    }
    float _e32 = kc_numbers.inner[((naga_div(i_13, 34u) * 32u) + naga_mod(i_13, 34u)) - 2u];
    float _e34 = divide(1.0, scale_1);
    float y = _e32 * _e34;
    code = metal::rint(y);
    float _e38 = code;
    if (metal::abs(y - _e38) == 0.5) {
        code = y + (0.5 * metal::sign(y));
    }
    float _e47 = code;
    return static_cast<uint>(naga_f2i32(metal::clamp(_e47, -127.0, 127.0))) & 255u;
}

uint kc_encoded(
    uint i_14,
    threadgroup type_8& kc_numbers,
    threadgroup type_5& kc_scale
) {
    uint word_2 = 0u;
    uint b_1 = 0u;
    if (false) {
        float _e4 = kc_numbers.inner[i_14];
        return as_type<uint>(_e4);
    }
    if (true) {
        float _e11 = kc_numbers.inner[2u * i_14];
        uint _e12 = f16_bits(_e11);
        float _e19 = kc_numbers.inner[(2u * i_14) + 1u];
        uint _e20 = f16_bits(_e19);
        return _e12 | (_e20 << 16u);
    }
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e49 = b_1;
            b_1 = _e49 + 1u;
        }
        loop_init_8 = false;
        uint _e28 = b_1;
        if (_e28 < 4u) {
        } else {
            break;
        }
        {
            uint _e33 = b_1;
            if (((4u * i_14) + _e33) < kc_BYTES) {
                uint _e37 = word_2;
                uint _e40 = b_1;
                uint _e42 = kc_byte((4u * i_14) + _e40, kc_numbers, kc_scale);
                uint _e44 = b_1;
                word_2 = _e37 | (_e42 << (8u * _e44));
            }
        }
    }
    uint _e51 = word_2;
    return _e51;
}

void kc_store(
    uint at_2,
    uint lid_6,
    device type_10& kc,
    threadgroup type_8& kc_numbers,
    threadgroup type_5& kc_scale,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_15 = {};
    i_15 = lid_6;
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e46 = i_15;
            i_15 = _e46 + WG;
        }
        loop_init_9 = false;
        uint _e3 = i_15;
        if (_e3 < 32u) {
        } else {
            break;
        }
        {
            uint _e6 = i_15;
            uint _e7 = kc_encoded(_e6, kc_numbers, kc_scale);
            uint _e11 = i_15;
            uint bytes = metal::min(4u, kc_BYTES - (4u * _e11));
            if ((at_2 & 2u) == 0u) {
                uint _e21 = i_15;
                kc_put(naga_div(at_2, 4u) + _e21, _e7, (bytes == 2u) ? 65535u : 4294967295u, kc, _buffer_sizes);
            } else {
                uint _e30 = i_15;
                kc_put(naga_div(at_2, 4u) + _e30, _e7 << 16u, 4294901760u, kc, _buffer_sizes);
                if (bytes == 4u) {
                    uint _e39 = i_15;
                    kc_put((naga_div(at_2, 4u) + _e39) + 1u, _e7 >> 16u, 65535u, kc, _buffer_sizes);
                }
            }
        }
    }
    return;
}

float v_at(
    uint i_16,
    device type_6 const& v,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = v[i_16];
    return _e3;
}

uint vc_word(
    uint i_17,
    device type_10 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = vc[i_17 >> 2u][i_17 & 3u];
    return _e8;
}

uint vc_at(
    uint page_1,
    uint head_1,
    uint offset_1,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = batch[3];
    return ((((page_1 * vc_HEADS) + head_1) * _e8) + offset_1) * vc_BYTES;
}

metal::float4 vc_four(
    uint at_3,
    uint i_18,
    device type_10 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_3 = {};
    if (false) {
        uint word_8 = naga_div(at_3, 4u) + (4u * i_18);
        uint _e8 = vc_word(word_8, vc, _buffer_sizes);
        uint _e11 = vc_word(word_8 + 1u, vc, _buffer_sizes);
        uint _e14 = vc_word(word_8 + 2u, vc, _buffer_sizes);
        uint _e17 = vc_word(word_8 + 3u, vc, _buffer_sizes);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (true) {
        uint word_9 = naga_div(at_3, 4u) + (2u * i_18);
        uint _e26 = vc_word(word_9, vc, _buffer_sizes);
        uint _e30 = vc_word(word_9 + 1u, vc, _buffer_sizes);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block_3 = at_3 + (naga_div(i_18, 8u) * 34u);
    uint _e40 = vc_word(block_3 >> 2u, vc, _buffer_sizes);
    float scale_2 = float2(as_type<half2>((_e40 >> (8u * (block_3 & 2u))))).x;
    uint code_3 = (block_3 + 2u) + (4u * naga_mod(i_18, 8u));
    uint _e57 = vc_word(code_3 >> 2u, vc, _buffer_sizes);
    word_3 = _e57;
    if ((code_3 & 2u) != 0u) {
        uint _e63 = word_3;
        uint _e70 = vc_word((code_3 >> 2u) + 1u, vc, _buffer_sizes);
        word_3 = (_e63 >> 16u) | (_e70 << 16u);
    }
    uint _e74 = word_3;
    return static_cast<metal::float4>(int4(as_type<packed_char4>(_e74))) * scale_2;
}

Eight vc_eight(
    uint at_4,
    uint i_19,
    device type_10 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 v_2 = vc[naga_div(at_4, 16u) + i_19];
    return Eight {metal::float4(float2(as_type<half2>(v_2.x)), float2(as_type<half2>(v_2.y))), metal::float4(float2(as_type<half2>(v_2.z)), float2(as_type<half2>(v_2.w)))};
}

void vc_put(
    uint i_20,
    uint word_4,
    uint mask_1,
    device type_10& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    vc[i_20 >> 2u][i_20 & 3u] = word_4;
    return;
}

void vc_prepare(
    uint lid_7,
    threadgroup type_8& vc_numbers,
    threadgroup type_5& vc_scale
) {
    uint block_1 = {};
    float largest_2 = {};
    uint i_21 = {};
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (false) {
        block_1 = lid_7;
        uint2 loop_bound_10 = uint2(4294967295u);
        bool loop_init_10 = true;
        while(true) {
            if (metal::all(loop_bound_10 == uint2(0u))) { break; }
            loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
            if (!loop_init_10) {
                uint _e33 = block_1;
                block_1 = _e33 + WG;
            }
            loop_init_10 = false;
            uint _e3 = block_1;
            if (_e3 < 2u) {
            } else {
                break;
            }
            {
                largest_2 = 0.0;
                i_21 = 0u;
                uint2 loop_bound_11 = uint2(4294967295u);
                bool loop_init_11 = true;
                while(true) {
                    if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                    loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                    if (!loop_init_11) {
                        uint _e25 = i_21;
                        i_21 = _e25 + 1u;
                    }
                    loop_init_11 = false;
                    uint _e10 = i_21;
                    if (_e10 < 32u) {
                    } else {
                        break;
                    }
                    {
                        float _e13 = largest_2;
                        uint _e15 = block_1;
                        uint _e18 = i_21;
                        float _e21 = vc_numbers.inner[(_e15 * 32u) + _e18];
                        largest_2 = metal::max(_e13, metal::abs(_e21));
                    }
                }
                uint _e28 = block_1;
                float _e30 = largest_2;
                float _e32 = divide(_e30, 127.0);
                vc_scale.inner[_e28] = _e32;
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        return;
    } else {
        return;
    }
}

uint vc_byte(
    uint i_22,
    threadgroup type_8& vc_numbers,
    threadgroup type_5& vc_scale
) {
    float code_1 = {};
    float scale_3 = vc_scale.inner[naga_div(i_22, 34u)];
    if (naga_mod(i_22, 34u) < 2u) {
        uint _e10 = f16_bits(scale_3);
        return (_e10 >> (8u * naga_mod(i_22, 34u))) & 255u;
    }
    if (scale_3 == 0.0) {
        return 0u;
    }
    float _e32 = vc_numbers.inner[((naga_div(i_22, 34u) * 32u) + naga_mod(i_22, 34u)) - 2u];
    float _e34 = divide(1.0, scale_3);
    float y_1 = _e32 * _e34;
    code_1 = metal::rint(y_1);
    float _e38 = code_1;
    if (metal::abs(y_1 - _e38) == 0.5) {
        code_1 = y_1 + (0.5 * metal::sign(y_1));
    }
    float _e47 = code_1;
    return static_cast<uint>(naga_f2i32(metal::clamp(_e47, -127.0, 127.0))) & 255u;
}

uint vc_encoded(
    uint i_23,
    threadgroup type_8& vc_numbers,
    threadgroup type_5& vc_scale
) {
    uint word_5 = 0u;
    uint b_2 = 0u;
    if (false) {
        float _e4 = vc_numbers.inner[i_23];
        return as_type<uint>(_e4);
    }
    if (true) {
        float _e11 = vc_numbers.inner[2u * i_23];
        uint _e12 = f16_bits(_e11);
        float _e19 = vc_numbers.inner[(2u * i_23) + 1u];
        uint _e20 = f16_bits(_e19);
        return _e12 | (_e20 << 16u);
    }
    uint2 loop_bound_12 = uint2(4294967295u);
    bool loop_init_12 = true;
    while(true) {
        if (metal::all(loop_bound_12 == uint2(0u))) { break; }
        loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
        if (!loop_init_12) {
            uint _e49 = b_2;
            b_2 = _e49 + 1u;
        }
        loop_init_12 = false;
        uint _e28 = b_2;
        if (_e28 < 4u) {
        } else {
            break;
        }
        {
            uint _e33 = b_2;
            if (((4u * i_23) + _e33) < vc_BYTES) {
                uint _e37 = word_5;
                uint _e40 = b_2;
                uint _e42 = vc_byte((4u * i_23) + _e40, vc_numbers, vc_scale);
                uint _e44 = b_2;
                word_5 = _e37 | (_e42 << (8u * _e44));
            }
        }
    }
    uint _e51 = word_5;
    return _e51;
}

void vc_store(
    uint at_5,
    uint lid_8,
    device type_10& vc,
    threadgroup type_8& vc_numbers,
    threadgroup type_5& vc_scale,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_24 = {};
    i_24 = lid_8;
    uint2 loop_bound_13 = uint2(4294967295u);
    bool loop_init_13 = true;
    while(true) {
        if (metal::all(loop_bound_13 == uint2(0u))) { break; }
        loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
        if (!loop_init_13) {
            uint _e46 = i_24;
            i_24 = _e46 + WG;
        }
        loop_init_13 = false;
        uint _e3 = i_24;
        if (_e3 < 32u) {
        } else {
            break;
        }
        {
            uint _e6 = i_24;
            uint _e7 = vc_encoded(_e6, vc_numbers, vc_scale);
            uint _e11 = i_24;
            uint bytes_1 = metal::min(4u, vc_BYTES - (4u * _e11));
            if ((at_5 & 2u) == 0u) {
                uint _e21 = i_24;
                vc_put(naga_div(at_5, 4u) + _e21, _e7, (bytes_1 == 2u) ? 65535u : 4294967295u, vc, _buffer_sizes);
            } else {
                uint _e30 = i_24;
                vc_put(naga_div(at_5, 4u) + _e30, _e7 << 16u, 4294901760u, vc, _buffer_sizes);
                if (bytes_1 == 4u) {
                    uint _e39 = i_24;
                    vc_put((naga_div(at_5, 4u) + _e39) + 1u, _e7 >> 16u, 65535u, vc, _buffer_sizes);
                }
            }
        }
    }
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, device type_1 const& batch [[user(fake0)]]
, threadgroup type_5& reduce_part
, device type_6 const& k_x [[user(fake0)]]
, device type_6 const& k_norm [[user(fake0)]]
, threadgroup type_8& k_head
, device type_10& kc [[user(fake0)]]
, threadgroup type_8& kc_numbers
, threadgroup type_5& kc_scale
, device type_6 const& v [[user(fake0)]]
, device type_10& vc [[user(fake0)]]
, threadgroup type_8& vc_numbers
, threadgroup type_5& vc_scale
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        reduce_part = {};
        k_head = {};
        kc_numbers = {};
        kc_scale = {};
        vc_numbers = {};
        vc_scale = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint d = {};
    uint d_1 = {};
    uint g = wid.x + (wid.y * nwg.x);
    uint _e8 = batch_t(batch, _buffer_sizes);
    if (g >= (_e8 * kc_HEADS)) {
        return;
    }
    uint row_6 = naga_div(g, kc_HEADS);
    uint _e14 = batch_position(row_6, batch, _buffer_sizes);
    uint _e15 = batch_seq(row_6, batch, _buffer_sizes);
    uint _e16 = batch_page(_e15, _e14, batch, _buffer_sizes);
    uint _e17 = batch_page_offset(_e14, batch, _buffer_sizes);
    k_load(g * kc_DIM, lid, reduce_part, k_x, k_norm, k_head, _buffer_sizes);
    d = lid;
    uint2 loop_bound_14 = uint2(4294967295u);
    bool loop_init_14 = true;
    while(true) {
        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
        if (!loop_init_14) {
            uint _e29 = d;
            d = _e29 + WG;
        }
        loop_init_14 = false;
        uint _e21 = d;
        if (_e21 < kc_DIM) {
        } else {
            break;
        }
        {
            uint _e25 = d;
            uint _e27 = d;
            float _e28 = k_rotated(row_6, _e27, batch, k_head, _buffer_sizes);
            kc_numbers.inner[_e25] = _e28;
        }
    }
    kc_prepare(lid, kc_numbers, kc_scale);
    uint _e34 = kc_at(_e16, naga_mod(g, kc_HEADS), _e17, batch, _buffer_sizes);
    kc_store(_e34, lid, kc, kc_numbers, kc_scale, _buffer_sizes);
    d_1 = lid;
    uint2 loop_bound_15 = uint2(4294967295u);
    bool loop_init_15 = true;
    while(true) {
        if (metal::all(loop_bound_15 == uint2(0u))) { break; }
        loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
        if (!loop_init_15) {
            uint _e47 = d_1;
            d_1 = _e47 + WG;
        }
        loop_init_15 = false;
        uint _e36 = d_1;
        if (_e36 < vc_DIM) {
        } else {
            break;
        }
        {
            uint _e40 = d_1;
            uint _e44 = d_1;
            float _e46 = v_at((g * vc_DIM) + _e44, v, _buffer_sizes);
            vc_numbers.inner[_e40] = _e46;
        }
    }
    vc_prepare(lid, vc_numbers, vc_scale);
    uint _e52 = vc_at(_e16, naga_mod(g, vc_HEADS), _e17, batch, _buffer_sizes);
    vc_store(_e52, lid, vc, vc_numbers, vc_scale, _buffer_sizes);
    return;
}
