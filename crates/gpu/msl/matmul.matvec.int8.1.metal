// For the case "norm, three formats, biases, one".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size2;
    uint size3;
    uint size8;
    uint size9;
    uint size10;
    uint size11;
    uint size12;
    uint size13;
    uint size14;
    uint size15;
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
struct Sums {
    float inner[1];
};
struct type_5 {
    float inner[4];
};
typedef float type_7[1];
typedef metal::float4 type_8[1];
struct type_10 {
    metal::uint4 inner[6];
};
struct type_11 {
    float inner[3];
};
struct type_14 {
    metal::int2 inner[3];
};
struct type_15 {
    float inner[8];
};
typedef metal::uint4 type_16[1];
struct type_17 {
    metal::uint4 inner[2];
};
struct type_18 {
    float inner[2];
};
struct type_19 {
    int inner[2];
};
constant uint WG = 128u;
constant uint K = 96u;
constant uint TURNS = 1u;
constant uint ROWS = 1u;
constant uint LANES = 32u;
constant bool NATURAL = true;
constant bool PERMUTED = false;
constant uint AT_PERMUTED = 24u;
constant uint AT_SCALES = 24u;
constant uint AT_SUMS = 28u;
constant uint ROUNDED_ROW = 36u;
constant bool NORM = true;
constant float EPS = 0.000001;
constant uint w0_ROWS = 80u;
constant uint w0_BITS = 8u;
constant uint w0_GROUP = 32u;
constant float w0_ZERO = 0.0;
constant bool w0_OFFSET = false;
constant uint w0_AT_SCALES = 1920u;
constant uint w0_AT_OFFSETS = 2048u;
constant uint w1_ROWS = 32u;
constant uint w1_BITS = 8u;
constant uint w1_GROUP = 32u;
constant float w1_ZERO = 0.0;
constant bool w1_OFFSET = false;
constant uint w1_AT_SCALES = 768u;
constant uint w1_AT_OFFSETS = 832u;
constant uint w2_ROWS = 32u;
constant uint Y0_WIDTH = 80u;
constant uint Y1_WIDTH = 32u;
constant uint Y2_WIDTH = 32u;

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
    uint m_3 = u_1 & 2147483647u;
    if (m_3 >= 2139095040u) {
        return sign | ((m_3 > 2139095040u) ? 32256u : 31744u);
    }
    if (m_3 >= 1199566848u) {
        return sign | 31744u;
    }
    if (m_3 < 947912704u) {
        return sign | (as_type<uint>(as_type<float>(m_3) + 0.5) - 1056964608u);
    }
    return sign | ((((m_3 + 4095u) + ((m_3 >> 13u) & 1u)) - 939524096u) >> 13u);
}

metal::float2 unpack_bf16_(
    uint u
) {
    return metal::float2(as_type<float>(u << 16u), as_type<float>(u & 4294901760u));
}

uint rows(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e0 = batch_t(batch, _buffer_sizes);
    return _e0;
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
        if (_e15 < 4u) {
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
        if (_e31 < 4u) {
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

float norm_at(
    uint i_6,
    device type_7 const& norm,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = norm[i_6];
    return _e3;
}

float x_at(
    uint i_7,
    device type_8 const& x_9,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e8 = x_9[i_7 >> 2u][i_7 & 3u];
    return _e8;
}

metal::int4 naga_f2i32(metal::float4 value) {
    return static_cast<metal::int4>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

void stage(
    uint lid_4,
    threadgroup type_5& reduce_part,
    device type_7 const& norm,
    device type_8 const& x_9,
    threadgroup type_10& staged_codes,
    threadgroup type_11& staged_scale,
    threadgroup type_14& staged_sums,
    constant _mslBufferSizes& _buffer_sizes
) {
    float factor = 1.0;
    float sum_2 = 0.0;
    uint i_8 = {};
    uint from = 0u;
    float largest_1 = {};
    uint n_2 = {};
    float scale = {};
    float inverse = {};
    int sum_3 = {};
    if (NORM) {
        i_8 = lid_4;
        uint2 loop_bound_4 = uint2(4294967295u);
        bool loop_init_4 = true;
        while(true) {
            if (metal::all(loop_bound_4 == uint2(0u))) { break; }
            loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
            if (!loop_init_4) {
                uint _e21 = i_8;
                i_8 = _e21 + WG;
            }
            loop_init_4 = false;
            uint _e7 = i_8;
            if (_e7 < 24u) {
            } else {
                break;
            }
            {
                float _e10 = sum_2;
                uint _e12 = i_8;
                metal::float4 _e14 = x_9[_e12];
                uint _e16 = i_8;
                metal::float4 _e18 = x_9[_e16];
                sum_2 = _e10 + metal::dot(_e14, _e18);
            }
        }
        float _e25 = sum_2;
        float _e26 = workgroup_sum(_e25, lid_4, reduce_part);
        float _e32 = divide(1.0, metal::sqrt((_e26 / 96.0) + EPS));
        factor = _e32;
    }
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e205 = from;
            from = _e205 + WG;
        }
        loop_init_5 = false;
        uint _e35 = from;
        if (_e35 < 24u) {
        } else {
            break;
        }
        {
            uint _e38 = from;
            uint i_20 = metal::min(_e38 + lid_4, 23u);
            float _e44 = norm_at(4u * i_20, norm, _buffer_sizes);
            float _e49 = norm_at((4u * i_20) + 1u, norm, _buffer_sizes);
            float _e54 = norm_at((4u * i_20) + 2u, norm, _buffer_sizes);
            float _e59 = norm_at((4u * i_20) + 3u, norm, _buffer_sizes);
            metal::float4 norm_1 = metal::float4(_e44, _e49, _e54, _e59);
            metal::float4 _e63 = x_9[i_20];
            float _e64 = factor;
            metal::float4 four = (_e63 * _e64) * norm_1;
            metal::float4 size = metal::abs(four);
            largest_1 = metal::max(metal::max(size.x, size.y), metal::max(size.z, size.w));
            n_2 = 1u;
            uint2 loop_bound_6 = uint2(4294967295u);
            bool loop_init_6 = true;
            while(true) {
                if (metal::all(loop_bound_6 == uint2(0u))) { break; }
                loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
                if (!loop_init_6) {
                    uint _e86 = n_2;
                    n_2 = _e86 * 2u;
                }
                loop_init_6 = false;
                uint _e78 = n_2;
                if (_e78 < 8u) {
                } else {
                    break;
                }
                {
                    float _e81 = largest_1;
                    float _e82 = largest_1;
                    uint _e83 = n_2;
                    float unnamed_2 = metal::simd_shuffle_xor(_e82, _e83);
                    largest_1 = metal::max(_e81, unnamed_2);
                }
            }
            scale = 0.0;
            inverse = 0.0;
            float _e93 = largest_1;
            if (_e93 >= 0.000000000000000000000000000001) {
                float _e96 = largest_1;
                float _e98 = divide(_e96, 127.0);
                scale = _e98;
                float _e100 = largest_1;
                float _e101 = divide(127.0, _e100);
                inverse = _e101;
            }
            float _e102 = inverse;
            metal::int4 code_2 = naga_f2i32(metal::rint(four * _e102));
            sum_3 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(code_2.x) + as_type<uint>(code_2.y))) + as_type<uint>(code_2.z))) + as_type<uint>(code_2.w));
            int _e114 = sum_3;
            int _e115 = sum_3;
            int unnamed_3 = metal::simd_shuffle_xor(_e115, 1u);
            sum_3 = as_type<int>(as_type<uint>(_e114) + as_type<uint>(unnamed_3));
            int _e119 = sum_3;
            int _e120 = sum_3;
            int unnamed_4 = metal::simd_shuffle_xor(_e120, 2u);
            sum_3 = as_type<int>(as_type<uint>(_e119) + as_type<uint>(unnamed_4));
            uint word = as_type<uint>(packed_char4(code_2));
            uint unnamed_5 = metal::simd_shuffle_xor(word, 1u);
            uint _e127 = from;
            if ((_e127 + lid_4) < 24u) {
                if (NATURAL) {
                    staged_codes.inner[i_20 >> 2u][i_20 & 3u] = word;
                }
                if (PERMUTED) {
                    bool is_even = (i_20 & 1u) == 0u;
                    uint a_1 = (is_even ? word : unnamed_5) >> (8u * (i_20 & 1u));
                    uint b_1 = (is_even ? unnamed_5 : word) >> (8u * (i_20 & 1u));
                    uint at_2 = AT_PERMUTED + i_20;
                    staged_codes.inner[at_2 >> 2u][at_2 & 3u] = (((a_1 & 255u) | ((a_1 >> 8u) & 65280u)) | ((b_1 & 255u) << 16u)) | ((b_1 << 8u) & 4278190080u);
                }
                if (naga_mod(i_20, 8u) == 0u) {
                    float _e190 = scale;
                    staged_scale.inner[naga_div(i_20, 8u)] = _e190;
                }
                if (naga_mod(i_20, 4u) == 0u) {
                    int _e204 = sum_3;
                    staged_sums.inner[naga_div(i_20, 8u)][naga_div(i_20, 4u) & 1u] = _e204;
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

metal::uint4 rounded_four(
    uint i_9,
    threadgroup type_10& staged_codes
) {
    metal::uint4 _e3 = staged_codes.inner[i_9];
    return _e3;
}

float rounded_scale(
    uint t,
    uint block,
    threadgroup type_11& staged_scale
) {
    float _e4 = staged_scale.inner[block];
    return _e4;
}

metal::int2 rounded_sums(
    uint t_1,
    uint block_1,
    threadgroup type_14& staged_sums
) {
    metal::int2 _e4 = staged_sums.inner[block_1];
    return _e4;
}

void row_factor(
    uint lid_5,
    threadgroup type_5& reduce_part,
    device type_8 const& x_9,
    thread float& factor_of_row,
    constant _mslBufferSizes& _buffer_sizes
) {
    float sum_4 = 0.0;
    uint i_10 = {};
    i_10 = lid_5;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e12 = i_10;
            i_10 = _e12 + WG;
        }
        loop_init_7 = false;
        uint _e4 = i_10;
        if (_e4 < K) {
        } else {
            break;
        }
        {
            uint _e7 = i_10;
            float _e8 = x_at(_e7, x_9, _buffer_sizes);
            float _e9 = sum_4;
            sum_4 = _e9 + (_e8 * _e8);
        }
    }
    float _e16 = sum_4;
    float _e17 = workgroup_sum(_e16, lid_5, reduce_part);
    factor_of_row = metal::rsqrt((_e17 / 96.0) + EPS);
    return;
}

Eight floats_eight(
    uint t_2,
    uint i_11,
    device type_7 const& norm,
    device type_8 const& x_9,
    thread float& factor_of_row,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_15 e = {};
    uint j = 0u;
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e25 = j;
            j = _e25 + 1u;
        }
        loop_init_8 = false;
        uint _e5 = j;
        if (_e5 < 8u) {
        } else {
            break;
        }
        {
            uint _e8 = j;
            uint _e12 = j;
            float _e14 = x_at((8u * i_11) + _e12, x_9, _buffer_sizes);
            float _e16 = factor_of_row;
            uint _e20 = j;
            float _e22 = norm_at((8u * i_11) + _e20, norm, _buffer_sizes);
            e.inner[_e8] = (_e14 * _e16) * _e22;
        }
    }
    float _e28 = e.inner[0];
    float _e30 = e.inner[1];
    float _e32 = e.inner[2];
    float _e34 = e.inner[3];
    float _e37 = e.inner[4];
    float _e39 = e.inner[5];
    float _e41 = e.inner[6];
    float _e43 = e.inner[7];
    return Eight {metal::float4(_e28, _e30, _e32, _e34), metal::float4(_e37, _e39, _e41, _e43)};
}

float w0_half(
    uint at,
    uint i_12,
    device type_16 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_1 = at + (i_12 >> 1u);
    uint _e12 = w0_[word_1 >> 2u][word_1 & 3u];
    return float2(as_type<half2>(_e12))[i_12 & 1u];
}

Eight w0_eight(
    uint row_5,
    uint i_13,
    device type_16 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight e_1 = {};
    uint group_3 = naga_div((row_5 * K) + (i_13 * 8u), w0_GROUP);
    float _e10 = w0_half(w0_AT_SCALES, group_3, w0_, _buffer_sizes);
    if (false) {
        uint at_3 = (row_5 * 12u) + i_13;
        uint word_2 = w0_[at_3 >> 2u][at_3 & 3u];
        metal::float4 low = static_cast<metal::float4>(uint4(as_type<packed_uchar4>(word_2 & 252645135u))) - metal::float4(0.0);
        metal::float4 high = static_cast<metal::float4>(uint4(as_type<packed_uchar4>((word_2 >> 4u) & 252645135u))) - metal::float4(0.0);
        e_1 = Eight {metal::float4(low.x, high.x, low.y, high.y) * _e10, metal::float4(low.z, high.z, low.w, high.w) * _e10};
    } else {
        uint at_4 = (row_5 * 24u) + (2u * i_13);
        metal::uint4 four_1 = w0_[at_4 >> 2u];
        metal::uint2 words = ((at_4 & 3u) == 0u) ? four_1.xy : four_1.zw;
        e_1 = Eight {static_cast<metal::float4>(int4(as_type<packed_char4>(words.x))) * _e10, static_cast<metal::float4>(int4(as_type<packed_char4>(words.y))) * _e10};
    }
    if (w0_OFFSET) {
        float _e81 = w0_half(w0_AT_OFFSETS, group_3, w0_, _buffer_sizes);
        metal::float4 _e83 = e_1.a;
        metal::float4 _e87 = e_1.b;
        e_1 = Eight {_e83 + metal::float4(_e81), _e87 + metal::float4(_e81)};
    }
    Eight _e91 = e_1;
    return _e91;
}

float w0_number(
    uint row_6,
    uint c,
    device type_16 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float code = {};
    uint i_21 = (row_6 * K) + c;
    if (false) {
        uint _e16 = w0_[i_21 >> 5u][(i_21 >> 3u) & 3u];
        code = static_cast<float>((_e16 >> (4u * (i_21 & 7u))) & 15u) - w0_ZERO;
    } else {
        uint _e36 = w0_[i_21 >> 4u][(i_21 >> 2u) & 3u];
        uint _e41 = 8u * (i_21 & 3u);
        code = static_cast<float>(metal::extract_bits(static_cast<int>(_e36), metal::min(_e41, 32u), metal::min(8u, 32u - metal::min(_e41, 32u))));
    }
    float _e48 = w0_half(w0_AT_SCALES, naga_div(i_21, w0_GROUP), w0_, _buffer_sizes);
    float _e49 = code;
    float x_10 = _e48 * _e49;
    if (w0_OFFSET) {
        float _e55 = w0_half(w0_AT_OFFSETS, naga_div(i_21, w0_GROUP), w0_, _buffer_sizes);
        return x_10 + _e55;
    }
    return x_10;
}

Sums dot_w0_(
    uint row_7,
    uint lane,
    device type_1 const& batch,
    threadgroup type_10& staged_codes,
    threadgroup type_11& staged_scale,
    threadgroup type_14& staged_sums,
    device type_16 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Sums sums = {};
    uint turn = 0u;
    bool local = {};
    type_17 c_1 = {};
    type_18 scale_1 = {};
    type_18 offset = {};
    uint g = {};
    uint t_3 = {};
    bool local_1 = {};
    type_19 half_ = {};
    uint h = {};
    metal::int2 sum_5 = {};
    bool local_2 = {};
    float y = {};
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e291 = turn;
            turn = _e291 + 1u;
        }
        loop_init_9 = false;
        uint _e5 = turn;
        if (_e5 < 1u) {
        } else {
            break;
        }
        {
            uint _e8 = turn;
            uint block_2 = (_e8 * LANES) + lane;
            if (true) {
                local = block_2 >= 3u;
            } else {
                local = false;
            }
            bool _e18 = local;
            if (_e18) {
                break;
            }
            c_1 = type_17 {};
            if (false) {
                metal::uint4 _e28 = w0_[(row_7 * 3u) + block_2];
                c_1.inner[0] = _e28;
            } else {
                metal::uint4 _e37 = w0_[(row_7 * 6u) + (2u * block_2)];
                c_1.inner[0] = _e37;
                metal::uint4 _e48 = w0_[((row_7 * 6u) + (2u * block_2)) + 1u];
                c_1.inner[1] = _e48;
            }
            scale_1 = type_18 {};
            offset = type_18 {};
            g = 0u;
            uint2 loop_bound_10 = uint2(4294967295u);
            bool loop_init_10 = true;
            while(true) {
                if (metal::all(loop_bound_10 == uint2(0u))) { break; }
                loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
                if (!loop_init_10) {
                    uint _e77 = g;
                    g = _e77 + 1u;
                }
                loop_init_10 = false;
                uint _e55 = g;
                if (_e55 < 1u) {
                } else {
                    break;
                }
                {
                    uint _e65 = g;
                    uint group_4 = naga_div((row_7 * K) + (32u * block_2), w0_GROUP) + _e65;
                    uint _e67 = g;
                    float _e70 = w0_half(w0_AT_SCALES, group_4, w0_, _buffer_sizes);
                    scale_1.inner[_e67] = _e70;
                    if (w0_OFFSET) {
                        uint _e72 = g;
                        float _e75 = w0_half(w0_AT_OFFSETS, group_4, w0_, _buffer_sizes);
                        offset.inner[_e72] = _e75;
                    }
                }
            }
            t_3 = 0u;
            uint2 loop_bound_11 = uint2(4294967295u);
            bool loop_init_11 = true;
            while(true) {
                if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                if (!loop_init_11) {
                    uint _e288 = t_3;
                    t_3 = _e288 + 1u;
                }
                loop_init_11 = false;
                uint _e81 = t_3;
                if (_e81 < ROWS) {
                } else {
                    break;
                }
                {
                    if (false) {
                        uint _e87 = t_3;
                        uint _e88 = rows(batch, _buffer_sizes);
                        local_1 = _e87 < _e88;
                    } else {
                        local_1 = true;
                    }
                    bool _e91 = local_1;
                    if (_e91) {
                        uint _e92 = t_3;
                        uint at_5 = (_e92 * 9u) + (2u * block_2);
                        half_ = type_19 {};
                        if (false) {
                            metal::uint4 _e103 = rounded_four(at_5 + 6u, staged_codes);
                            metal::uint4 _e108 = rounded_four((at_5 + 6u) + 1u, staged_codes);
                            metal::uint4 _e110 = c_1.inner[0];
                            metal::uint4 low_1 = _e110 & metal::uint4(252645135u);
                            metal::uint4 _e115 = c_1.inner[0];
                            metal::uint4 high_1 = (_e115 >> metal::uint4(4u)) & metal::uint4(252645135u);
                            uint _e123 = low_1.x;
                            uint _e124 = _e103.x;
                            packed_char4 reinterpreted_packed_char4_e123 = as_type<packed_char4>(_e123);
                            packed_char4 reinterpreted_packed_char4_e124 = as_type<packed_char4>(_e124);
                            uint _e126 = high_1.x;
                            uint _e127 = _e103.y;
                            packed_char4 reinterpreted_packed_char4_e126 = as_type<packed_char4>(_e126);
                            packed_char4 reinterpreted_packed_char4_e127 = as_type<packed_char4>(_e127);
                            uint _e130 = low_1.y;
                            uint _e131 = _e103.z;
                            packed_char4 reinterpreted_packed_char4_e130 = as_type<packed_char4>(_e130);
                            packed_char4 reinterpreted_packed_char4_e131 = as_type<packed_char4>(_e131);
                            uint _e134 = high_1.y;
                            uint _e135 = _e103.w;
                            packed_char4 reinterpreted_packed_char4_e134 = as_type<packed_char4>(_e134);
                            packed_char4 reinterpreted_packed_char4_e135 = as_type<packed_char4>(_e135);
                            half_.inner[0] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e123[0] * reinterpreted_packed_char4_e124[0] + reinterpreted_packed_char4_e123[1] * reinterpreted_packed_char4_e124[1] + reinterpreted_packed_char4_e123[2] * reinterpreted_packed_char4_e124[2] + reinterpreted_packed_char4_e123[3] * reinterpreted_packed_char4_e124[3])) + as_type<uint>(( + reinterpreted_packed_char4_e126[0] * reinterpreted_packed_char4_e127[0] + reinterpreted_packed_char4_e126[1] * reinterpreted_packed_char4_e127[1] + reinterpreted_packed_char4_e126[2] * reinterpreted_packed_char4_e127[2] + reinterpreted_packed_char4_e126[3] * reinterpreted_packed_char4_e127[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e130[0] * reinterpreted_packed_char4_e131[0] + reinterpreted_packed_char4_e130[1] * reinterpreted_packed_char4_e131[1] + reinterpreted_packed_char4_e130[2] * reinterpreted_packed_char4_e131[2] + reinterpreted_packed_char4_e130[3] * reinterpreted_packed_char4_e131[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e134[0] * reinterpreted_packed_char4_e135[0] + reinterpreted_packed_char4_e134[1] * reinterpreted_packed_char4_e135[1] + reinterpreted_packed_char4_e134[2] * reinterpreted_packed_char4_e135[2] + reinterpreted_packed_char4_e134[3] * reinterpreted_packed_char4_e135[3])));
                            uint _e139 = low_1.z;
                            uint _e140 = _e108.x;
                            packed_char4 reinterpreted_packed_char4_e139 = as_type<packed_char4>(_e139);
                            packed_char4 reinterpreted_packed_char4_e140 = as_type<packed_char4>(_e140);
                            uint _e142 = high_1.z;
                            uint _e143 = _e108.y;
                            packed_char4 reinterpreted_packed_char4_e142 = as_type<packed_char4>(_e142);
                            packed_char4 reinterpreted_packed_char4_e143 = as_type<packed_char4>(_e143);
                            uint _e146 = low_1.w;
                            uint _e147 = _e108.z;
                            packed_char4 reinterpreted_packed_char4_e146 = as_type<packed_char4>(_e146);
                            packed_char4 reinterpreted_packed_char4_e147 = as_type<packed_char4>(_e147);
                            uint _e150 = high_1.w;
                            uint _e151 = _e108.w;
                            packed_char4 reinterpreted_packed_char4_e150 = as_type<packed_char4>(_e150);
                            packed_char4 reinterpreted_packed_char4_e151 = as_type<packed_char4>(_e151);
                            half_.inner[1] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e139[0] * reinterpreted_packed_char4_e140[0] + reinterpreted_packed_char4_e139[1] * reinterpreted_packed_char4_e140[1] + reinterpreted_packed_char4_e139[2] * reinterpreted_packed_char4_e140[2] + reinterpreted_packed_char4_e139[3] * reinterpreted_packed_char4_e140[3])) + as_type<uint>(( + reinterpreted_packed_char4_e142[0] * reinterpreted_packed_char4_e143[0] + reinterpreted_packed_char4_e142[1] * reinterpreted_packed_char4_e143[1] + reinterpreted_packed_char4_e142[2] * reinterpreted_packed_char4_e143[2] + reinterpreted_packed_char4_e142[3] * reinterpreted_packed_char4_e143[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e146[0] * reinterpreted_packed_char4_e147[0] + reinterpreted_packed_char4_e146[1] * reinterpreted_packed_char4_e147[1] + reinterpreted_packed_char4_e146[2] * reinterpreted_packed_char4_e147[2] + reinterpreted_packed_char4_e146[3] * reinterpreted_packed_char4_e147[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e150[0] * reinterpreted_packed_char4_e151[0] + reinterpreted_packed_char4_e150[1] * reinterpreted_packed_char4_e151[1] + reinterpreted_packed_char4_e150[2] * reinterpreted_packed_char4_e151[2] + reinterpreted_packed_char4_e150[3] * reinterpreted_packed_char4_e151[3])));
                        } else {
                            h = 0u;
                            uint2 loop_bound_12 = uint2(4294967295u);
                            bool loop_init_12 = true;
                            while(true) {
                                if (metal::all(loop_bound_12 == uint2(0u))) { break; }
                                loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
                                if (!loop_init_12) {
                                    uint _e192 = h;
                                    h = _e192 + 1u;
                                }
                                loop_init_12 = false;
                                uint _e156 = h;
                                if (_e156 < 2u) {
                                } else {
                                    break;
                                }
                                {
                                    uint _e159 = h;
                                    metal::uint4 _e161 = rounded_four(at_5 + _e159, staged_codes);
                                    uint _e162 = h;
                                    uint _e164 = h;
                                    uint _e167 = c_1.inner[_e164].x;
                                    uint _e168 = _e161.x;
                                    packed_char4 reinterpreted_packed_char4_e167 = as_type<packed_char4>(_e167);
                                    packed_char4 reinterpreted_packed_char4_e168 = as_type<packed_char4>(_e168);
                                    uint _e170 = h;
                                    uint _e173 = c_1.inner[_e170].y;
                                    uint _e174 = _e161.y;
                                    packed_char4 reinterpreted_packed_char4_e173 = as_type<packed_char4>(_e173);
                                    packed_char4 reinterpreted_packed_char4_e174 = as_type<packed_char4>(_e174);
                                    uint _e177 = h;
                                    uint _e180 = c_1.inner[_e177].z;
                                    uint _e181 = _e161.z;
                                    packed_char4 reinterpreted_packed_char4_e180 = as_type<packed_char4>(_e180);
                                    packed_char4 reinterpreted_packed_char4_e181 = as_type<packed_char4>(_e181);
                                    uint _e184 = h;
                                    uint _e187 = c_1.inner[_e184].w;
                                    uint _e188 = _e161.w;
                                    packed_char4 reinterpreted_packed_char4_e187 = as_type<packed_char4>(_e187);
                                    packed_char4 reinterpreted_packed_char4_e188 = as_type<packed_char4>(_e188);
                                    half_.inner[_e162] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e167[0] * reinterpreted_packed_char4_e168[0] + reinterpreted_packed_char4_e167[1] * reinterpreted_packed_char4_e168[1] + reinterpreted_packed_char4_e167[2] * reinterpreted_packed_char4_e168[2] + reinterpreted_packed_char4_e167[3] * reinterpreted_packed_char4_e168[3])) + as_type<uint>(( + reinterpreted_packed_char4_e173[0] * reinterpreted_packed_char4_e174[0] + reinterpreted_packed_char4_e173[1] * reinterpreted_packed_char4_e174[1] + reinterpreted_packed_char4_e173[2] * reinterpreted_packed_char4_e174[2] + reinterpreted_packed_char4_e173[3] * reinterpreted_packed_char4_e174[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e180[0] * reinterpreted_packed_char4_e181[0] + reinterpreted_packed_char4_e180[1] * reinterpreted_packed_char4_e181[1] + reinterpreted_packed_char4_e180[2] * reinterpreted_packed_char4_e181[2] + reinterpreted_packed_char4_e180[3] * reinterpreted_packed_char4_e181[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e187[0] * reinterpreted_packed_char4_e188[0] + reinterpreted_packed_char4_e187[1] * reinterpreted_packed_char4_e188[1] + reinterpreted_packed_char4_e187[2] * reinterpreted_packed_char4_e188[2] + reinterpreted_packed_char4_e187[3] * reinterpreted_packed_char4_e188[3])));
                                }
                            }
                        }
                        sum_5 = metal::int2(0);
                        if (true) {
                            local_2 = w0_OFFSET;
                        } else {
                            local_2 = true;
                        }
                        bool _e202 = local_2;
                        if (_e202) {
                            uint _e203 = t_3;
                            metal::int2 _e204 = rounded_sums(_e203, block_2, staged_sums);
                            sum_5 = _e204;
                        }
                        y = float {};
                        if (true) {
                            float _e209 = scale_1.inner[0];
                            int _e211 = half_.inner[0];
                            int _e213 = half_.inner[1];
                            int _e218 = sum_5.x;
                            int _e220 = sum_5.y;
                            y = _e209 * (static_cast<float>(as_type<int>(as_type<uint>(_e211) + as_type<uint>(_e213))) - (w0_ZERO * static_cast<float>(as_type<int>(as_type<uint>(_e218) + as_type<uint>(_e220)))));
                            if (w0_OFFSET) {
                                float _e227 = y;
                                float _e229 = offset.inner[0];
                                int _e231 = sum_5.x;
                                int _e233 = sum_5.y;
                                y = _e227 + (_e229 * static_cast<float>(as_type<int>(as_type<uint>(_e231) + as_type<uint>(_e233))));
                            }
                        } else {
                            float _e239 = scale_1.inner[0];
                            int _e241 = half_.inner[0];
                            int _e245 = sum_5.x;
                            float _e251 = scale_1.inner[1];
                            int _e253 = half_.inner[1];
                            int _e257 = sum_5.y;
                            y = (_e239 * (static_cast<float>(_e241) - (w0_ZERO * static_cast<float>(_e245)))) + (_e251 * (static_cast<float>(_e253) - (w0_ZERO * static_cast<float>(_e257))));
                            if (w0_OFFSET) {
                                float _e264 = y;
                                float _e266 = offset.inner[0];
                                int _e268 = sum_5.x;
                                float _e272 = offset.inner[1];
                                int _e274 = sum_5.y;
                                y = _e264 + ((_e266 * static_cast<float>(_e268)) + (_e272 * static_cast<float>(_e274)));
                            }
                        }
                        uint _e279 = t_3;
                        float _e281 = sums.inner[_e279];
                        float _e282 = y;
                        uint _e283 = t_3;
                        float _e284 = rounded_scale(_e283, block_2, staged_scale);
                        sums.inner[_e279] = _e281 + (_e282 * _e284);
                    }
                }
            }
        }
    }
    Sums _e293 = sums;
    return _e293;
}

float w1_half(
    uint at_1,
    uint i_14,
    device type_16 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_3 = at_1 + (i_14 >> 1u);
    uint _e12 = w1_[word_3 >> 2u][word_3 & 3u];
    return float2(as_type<half2>(_e12))[i_14 & 1u];
}

Eight w1_eight(
    uint row_8,
    uint i_15,
    device type_16 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight e_2 = {};
    uint group_5 = naga_div((row_8 * K) + (i_15 * 8u), w1_GROUP);
    float _e10 = w1_half(w1_AT_SCALES, group_5, w1_, _buffer_sizes);
    if (false) {
        uint at_6 = (row_8 * 12u) + i_15;
        uint word_4 = w1_[at_6 >> 2u][at_6 & 3u];
        metal::float4 low_2 = static_cast<metal::float4>(uint4(as_type<packed_uchar4>(word_4 & 252645135u))) - metal::float4(0.0);
        metal::float4 high_2 = static_cast<metal::float4>(uint4(as_type<packed_uchar4>((word_4 >> 4u) & 252645135u))) - metal::float4(0.0);
        e_2 = Eight {metal::float4(low_2.x, high_2.x, low_2.y, high_2.y) * _e10, metal::float4(low_2.z, high_2.z, low_2.w, high_2.w) * _e10};
    } else {
        uint at_7 = (row_8 * 24u) + (2u * i_15);
        metal::uint4 four_2 = w1_[at_7 >> 2u];
        metal::uint2 words_1 = ((at_7 & 3u) == 0u) ? four_2.xy : four_2.zw;
        e_2 = Eight {static_cast<metal::float4>(int4(as_type<packed_char4>(words_1.x))) * _e10, static_cast<metal::float4>(int4(as_type<packed_char4>(words_1.y))) * _e10};
    }
    if (w1_OFFSET) {
        float _e81 = w1_half(w1_AT_OFFSETS, group_5, w1_, _buffer_sizes);
        metal::float4 _e83 = e_2.a;
        metal::float4 _e87 = e_2.b;
        e_2 = Eight {_e83 + metal::float4(_e81), _e87 + metal::float4(_e81)};
    }
    Eight _e91 = e_2;
    return _e91;
}

float w1_number(
    uint row_9,
    uint c_2,
    device type_16 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float code_1 = {};
    uint i_22 = (row_9 * K) + c_2;
    if (false) {
        uint _e16 = w1_[i_22 >> 5u][(i_22 >> 3u) & 3u];
        code_1 = static_cast<float>((_e16 >> (4u * (i_22 & 7u))) & 15u) - w1_ZERO;
    } else {
        uint _e36 = w1_[i_22 >> 4u][(i_22 >> 2u) & 3u];
        uint _e41 = 8u * (i_22 & 3u);
        code_1 = static_cast<float>(metal::extract_bits(static_cast<int>(_e36), metal::min(_e41, 32u), metal::min(8u, 32u - metal::min(_e41, 32u))));
    }
    float _e48 = w1_half(w1_AT_SCALES, naga_div(i_22, w1_GROUP), w1_, _buffer_sizes);
    float _e49 = code_1;
    float x_11 = _e48 * _e49;
    if (w1_OFFSET) {
        float _e55 = w1_half(w1_AT_OFFSETS, naga_div(i_22, w1_GROUP), w1_, _buffer_sizes);
        return x_11 + _e55;
    }
    return x_11;
}

Sums dot_w1_(
    uint row_10,
    uint lane_1,
    device type_1 const& batch,
    threadgroup type_10& staged_codes,
    threadgroup type_11& staged_scale,
    threadgroup type_14& staged_sums,
    device type_16 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Sums sums_1 = {};
    uint turn_1 = 0u;
    bool local_3 = {};
    type_17 c_3 = {};
    type_18 scale_2 = {};
    type_18 offset_1 = {};
    uint g_1 = {};
    uint t_4 = {};
    bool local_4 = {};
    type_19 half_1 = {};
    uint h_1 = {};
    metal::int2 sum_6 = {};
    bool local_5 = {};
    float y_1 = {};
    uint2 loop_bound_13 = uint2(4294967295u);
    bool loop_init_13 = true;
    while(true) {
        if (metal::all(loop_bound_13 == uint2(0u))) { break; }
        loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
        if (!loop_init_13) {
            uint _e291 = turn_1;
            turn_1 = _e291 + 1u;
        }
        loop_init_13 = false;
        uint _e5 = turn_1;
        if (_e5 < 1u) {
        } else {
            break;
        }
        {
            uint _e8 = turn_1;
            uint block_3 = (_e8 * LANES) + lane_1;
            if (true) {
                local_3 = block_3 >= 3u;
            } else {
                local_3 = false;
            }
            bool _e18 = local_3;
            if (_e18) {
                break;
            }
            c_3 = type_17 {};
            if (false) {
                metal::uint4 _e28 = w1_[(row_10 * 3u) + block_3];
                c_3.inner[0] = _e28;
            } else {
                metal::uint4 _e37 = w1_[(row_10 * 6u) + (2u * block_3)];
                c_3.inner[0] = _e37;
                metal::uint4 _e48 = w1_[((row_10 * 6u) + (2u * block_3)) + 1u];
                c_3.inner[1] = _e48;
            }
            scale_2 = type_18 {};
            offset_1 = type_18 {};
            g_1 = 0u;
            uint2 loop_bound_14 = uint2(4294967295u);
            bool loop_init_14 = true;
            while(true) {
                if (metal::all(loop_bound_14 == uint2(0u))) { break; }
                loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
                if (!loop_init_14) {
                    uint _e77 = g_1;
                    g_1 = _e77 + 1u;
                }
                loop_init_14 = false;
                uint _e55 = g_1;
                if (_e55 < 1u) {
                } else {
                    break;
                }
                {
                    uint _e65 = g_1;
                    uint group_6 = naga_div((row_10 * K) + (32u * block_3), w1_GROUP) + _e65;
                    uint _e67 = g_1;
                    float _e70 = w1_half(w1_AT_SCALES, group_6, w1_, _buffer_sizes);
                    scale_2.inner[_e67] = _e70;
                    if (w1_OFFSET) {
                        uint _e72 = g_1;
                        float _e75 = w1_half(w1_AT_OFFSETS, group_6, w1_, _buffer_sizes);
                        offset_1.inner[_e72] = _e75;
                    }
                }
            }
            t_4 = 0u;
            uint2 loop_bound_15 = uint2(4294967295u);
            bool loop_init_15 = true;
            while(true) {
                if (metal::all(loop_bound_15 == uint2(0u))) { break; }
                loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
                if (!loop_init_15) {
                    uint _e288 = t_4;
                    t_4 = _e288 + 1u;
                }
                loop_init_15 = false;
                uint _e81 = t_4;
                if (_e81 < ROWS) {
                } else {
                    break;
                }
                {
                    if (false) {
                        uint _e87 = t_4;
                        uint _e88 = rows(batch, _buffer_sizes);
                        local_4 = _e87 < _e88;
                    } else {
                        local_4 = true;
                    }
                    bool _e91 = local_4;
                    if (_e91) {
                        uint _e92 = t_4;
                        uint at_8 = (_e92 * 9u) + (2u * block_3);
                        half_1 = type_19 {};
                        if (false) {
                            metal::uint4 _e103 = rounded_four(at_8 + 6u, staged_codes);
                            metal::uint4 _e108 = rounded_four((at_8 + 6u) + 1u, staged_codes);
                            metal::uint4 _e110 = c_3.inner[0];
                            metal::uint4 low_3 = _e110 & metal::uint4(252645135u);
                            metal::uint4 _e115 = c_3.inner[0];
                            metal::uint4 high_3 = (_e115 >> metal::uint4(4u)) & metal::uint4(252645135u);
                            uint _e123 = low_3.x;
                            uint _e124 = _e103.x;
                            packed_char4 reinterpreted_packed_char4_e123 = as_type<packed_char4>(_e123);
                            packed_char4 reinterpreted_packed_char4_e124 = as_type<packed_char4>(_e124);
                            uint _e126 = high_3.x;
                            uint _e127 = _e103.y;
                            packed_char4 reinterpreted_packed_char4_e126 = as_type<packed_char4>(_e126);
                            packed_char4 reinterpreted_packed_char4_e127 = as_type<packed_char4>(_e127);
                            uint _e130 = low_3.y;
                            uint _e131 = _e103.z;
                            packed_char4 reinterpreted_packed_char4_e130 = as_type<packed_char4>(_e130);
                            packed_char4 reinterpreted_packed_char4_e131 = as_type<packed_char4>(_e131);
                            uint _e134 = high_3.y;
                            uint _e135 = _e103.w;
                            packed_char4 reinterpreted_packed_char4_e134 = as_type<packed_char4>(_e134);
                            packed_char4 reinterpreted_packed_char4_e135 = as_type<packed_char4>(_e135);
                            half_1.inner[0] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e123[0] * reinterpreted_packed_char4_e124[0] + reinterpreted_packed_char4_e123[1] * reinterpreted_packed_char4_e124[1] + reinterpreted_packed_char4_e123[2] * reinterpreted_packed_char4_e124[2] + reinterpreted_packed_char4_e123[3] * reinterpreted_packed_char4_e124[3])) + as_type<uint>(( + reinterpreted_packed_char4_e126[0] * reinterpreted_packed_char4_e127[0] + reinterpreted_packed_char4_e126[1] * reinterpreted_packed_char4_e127[1] + reinterpreted_packed_char4_e126[2] * reinterpreted_packed_char4_e127[2] + reinterpreted_packed_char4_e126[3] * reinterpreted_packed_char4_e127[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e130[0] * reinterpreted_packed_char4_e131[0] + reinterpreted_packed_char4_e130[1] * reinterpreted_packed_char4_e131[1] + reinterpreted_packed_char4_e130[2] * reinterpreted_packed_char4_e131[2] + reinterpreted_packed_char4_e130[3] * reinterpreted_packed_char4_e131[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e134[0] * reinterpreted_packed_char4_e135[0] + reinterpreted_packed_char4_e134[1] * reinterpreted_packed_char4_e135[1] + reinterpreted_packed_char4_e134[2] * reinterpreted_packed_char4_e135[2] + reinterpreted_packed_char4_e134[3] * reinterpreted_packed_char4_e135[3])));
                            uint _e139 = low_3.z;
                            uint _e140 = _e108.x;
                            packed_char4 reinterpreted_packed_char4_e139 = as_type<packed_char4>(_e139);
                            packed_char4 reinterpreted_packed_char4_e140 = as_type<packed_char4>(_e140);
                            uint _e142 = high_3.z;
                            uint _e143 = _e108.y;
                            packed_char4 reinterpreted_packed_char4_e142 = as_type<packed_char4>(_e142);
                            packed_char4 reinterpreted_packed_char4_e143 = as_type<packed_char4>(_e143);
                            uint _e146 = low_3.w;
                            uint _e147 = _e108.z;
                            packed_char4 reinterpreted_packed_char4_e146 = as_type<packed_char4>(_e146);
                            packed_char4 reinterpreted_packed_char4_e147 = as_type<packed_char4>(_e147);
                            uint _e150 = high_3.w;
                            uint _e151 = _e108.w;
                            packed_char4 reinterpreted_packed_char4_e150 = as_type<packed_char4>(_e150);
                            packed_char4 reinterpreted_packed_char4_e151 = as_type<packed_char4>(_e151);
                            half_1.inner[1] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e139[0] * reinterpreted_packed_char4_e140[0] + reinterpreted_packed_char4_e139[1] * reinterpreted_packed_char4_e140[1] + reinterpreted_packed_char4_e139[2] * reinterpreted_packed_char4_e140[2] + reinterpreted_packed_char4_e139[3] * reinterpreted_packed_char4_e140[3])) + as_type<uint>(( + reinterpreted_packed_char4_e142[0] * reinterpreted_packed_char4_e143[0] + reinterpreted_packed_char4_e142[1] * reinterpreted_packed_char4_e143[1] + reinterpreted_packed_char4_e142[2] * reinterpreted_packed_char4_e143[2] + reinterpreted_packed_char4_e142[3] * reinterpreted_packed_char4_e143[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e146[0] * reinterpreted_packed_char4_e147[0] + reinterpreted_packed_char4_e146[1] * reinterpreted_packed_char4_e147[1] + reinterpreted_packed_char4_e146[2] * reinterpreted_packed_char4_e147[2] + reinterpreted_packed_char4_e146[3] * reinterpreted_packed_char4_e147[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e150[0] * reinterpreted_packed_char4_e151[0] + reinterpreted_packed_char4_e150[1] * reinterpreted_packed_char4_e151[1] + reinterpreted_packed_char4_e150[2] * reinterpreted_packed_char4_e151[2] + reinterpreted_packed_char4_e150[3] * reinterpreted_packed_char4_e151[3])));
                        } else {
                            h_1 = 0u;
                            uint2 loop_bound_16 = uint2(4294967295u);
                            bool loop_init_16 = true;
                            while(true) {
                                if (metal::all(loop_bound_16 == uint2(0u))) { break; }
                                loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
                                if (!loop_init_16) {
                                    uint _e192 = h_1;
                                    h_1 = _e192 + 1u;
                                }
                                loop_init_16 = false;
                                uint _e156 = h_1;
                                if (_e156 < 2u) {
                                } else {
                                    break;
                                }
                                {
                                    uint _e159 = h_1;
                                    metal::uint4 _e161 = rounded_four(at_8 + _e159, staged_codes);
                                    uint _e162 = h_1;
                                    uint _e164 = h_1;
                                    uint _e167 = c_3.inner[_e164].x;
                                    uint _e168 = _e161.x;
                                    packed_char4 reinterpreted_packed_char4_e167 = as_type<packed_char4>(_e167);
                                    packed_char4 reinterpreted_packed_char4_e168 = as_type<packed_char4>(_e168);
                                    uint _e170 = h_1;
                                    uint _e173 = c_3.inner[_e170].y;
                                    uint _e174 = _e161.y;
                                    packed_char4 reinterpreted_packed_char4_e173 = as_type<packed_char4>(_e173);
                                    packed_char4 reinterpreted_packed_char4_e174 = as_type<packed_char4>(_e174);
                                    uint _e177 = h_1;
                                    uint _e180 = c_3.inner[_e177].z;
                                    uint _e181 = _e161.z;
                                    packed_char4 reinterpreted_packed_char4_e180 = as_type<packed_char4>(_e180);
                                    packed_char4 reinterpreted_packed_char4_e181 = as_type<packed_char4>(_e181);
                                    uint _e184 = h_1;
                                    uint _e187 = c_3.inner[_e184].w;
                                    uint _e188 = _e161.w;
                                    packed_char4 reinterpreted_packed_char4_e187 = as_type<packed_char4>(_e187);
                                    packed_char4 reinterpreted_packed_char4_e188 = as_type<packed_char4>(_e188);
                                    half_1.inner[_e162] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e167[0] * reinterpreted_packed_char4_e168[0] + reinterpreted_packed_char4_e167[1] * reinterpreted_packed_char4_e168[1] + reinterpreted_packed_char4_e167[2] * reinterpreted_packed_char4_e168[2] + reinterpreted_packed_char4_e167[3] * reinterpreted_packed_char4_e168[3])) + as_type<uint>(( + reinterpreted_packed_char4_e173[0] * reinterpreted_packed_char4_e174[0] + reinterpreted_packed_char4_e173[1] * reinterpreted_packed_char4_e174[1] + reinterpreted_packed_char4_e173[2] * reinterpreted_packed_char4_e174[2] + reinterpreted_packed_char4_e173[3] * reinterpreted_packed_char4_e174[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e180[0] * reinterpreted_packed_char4_e181[0] + reinterpreted_packed_char4_e180[1] * reinterpreted_packed_char4_e181[1] + reinterpreted_packed_char4_e180[2] * reinterpreted_packed_char4_e181[2] + reinterpreted_packed_char4_e180[3] * reinterpreted_packed_char4_e181[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e187[0] * reinterpreted_packed_char4_e188[0] + reinterpreted_packed_char4_e187[1] * reinterpreted_packed_char4_e188[1] + reinterpreted_packed_char4_e187[2] * reinterpreted_packed_char4_e188[2] + reinterpreted_packed_char4_e187[3] * reinterpreted_packed_char4_e188[3])));
                                }
                            }
                        }
                        sum_6 = metal::int2(0);
                        if (true) {
                            local_5 = w1_OFFSET;
                        } else {
                            local_5 = true;
                        }
                        bool _e202 = local_5;
                        if (_e202) {
                            uint _e203 = t_4;
                            metal::int2 _e204 = rounded_sums(_e203, block_3, staged_sums);
                            sum_6 = _e204;
                        }
                        y_1 = float {};
                        if (true) {
                            float _e209 = scale_2.inner[0];
                            int _e211 = half_1.inner[0];
                            int _e213 = half_1.inner[1];
                            int _e218 = sum_6.x;
                            int _e220 = sum_6.y;
                            y_1 = _e209 * (static_cast<float>(as_type<int>(as_type<uint>(_e211) + as_type<uint>(_e213))) - (w1_ZERO * static_cast<float>(as_type<int>(as_type<uint>(_e218) + as_type<uint>(_e220)))));
                            if (w1_OFFSET) {
                                float _e227 = y_1;
                                float _e229 = offset_1.inner[0];
                                int _e231 = sum_6.x;
                                int _e233 = sum_6.y;
                                y_1 = _e227 + (_e229 * static_cast<float>(as_type<int>(as_type<uint>(_e231) + as_type<uint>(_e233))));
                            }
                        } else {
                            float _e239 = scale_2.inner[0];
                            int _e241 = half_1.inner[0];
                            int _e245 = sum_6.x;
                            float _e251 = scale_2.inner[1];
                            int _e253 = half_1.inner[1];
                            int _e257 = sum_6.y;
                            y_1 = (_e239 * (static_cast<float>(_e241) - (w1_ZERO * static_cast<float>(_e245)))) + (_e251 * (static_cast<float>(_e253) - (w1_ZERO * static_cast<float>(_e257))));
                            if (w1_OFFSET) {
                                float _e264 = y_1;
                                float _e266 = offset_1.inner[0];
                                int _e268 = sum_6.x;
                                float _e272 = offset_1.inner[1];
                                int _e274 = sum_6.y;
                                y_1 = _e264 + ((_e266 * static_cast<float>(_e268)) + (_e272 * static_cast<float>(_e274)));
                            }
                        }
                        uint _e279 = t_4;
                        float _e281 = sums_1.inner[_e279];
                        float _e282 = y_1;
                        uint _e283 = t_4;
                        float _e284 = rounded_scale(_e283, block_3, staged_scale);
                        sums_1.inner[_e279] = _e281 + (_e282 * _e284);
                    }
                }
            }
        }
    }
    Sums _e293 = sums_1;
    return _e293;
}

Eight w2_eight(
    uint row_11,
    uint i_16,
    device type_16 const& w2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 v = w2_[(row_11 * 12u) + i_16];
    return Eight {metal::float4(float2(as_type<half2>(v.x)), float2(as_type<half2>(v.y))), metal::float4(float2(as_type<half2>(v.z)), float2(as_type<half2>(v.w)))};
}

Sums dot_w2_(
    uint row_12,
    uint lane_2,
    device type_1 const& batch,
    device type_7 const& norm,
    device type_8 const& x_9,
    thread float& factor_of_row,
    device type_16 const& w2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Sums sums_2 = {};
    uint i_17 = {};
    uint t_5 = {};
    bool local_6 = {};
    i_17 = lane_2;
    uint2 loop_bound_17 = uint2(4294967295u);
    bool loop_init_17 = true;
    while(true) {
        if (metal::all(loop_bound_17 == uint2(0u))) { break; }
        loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
        if (!loop_init_17) {
            uint _e39 = i_17;
            i_17 = _e39 + LANES;
        }
        loop_init_17 = false;
        uint _e4 = i_17;
        if (_e4 < 12u) {
        } else {
            break;
        }
        {
            uint _e7 = i_17;
            Eight _e8 = w2_eight(row_12, _e7, w2_, _buffer_sizes);
            t_5 = 0u;
            uint2 loop_bound_18 = uint2(4294967295u);
            bool loop_init_18 = true;
            while(true) {
                if (metal::all(loop_bound_18 == uint2(0u))) { break; }
                loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
                if (!loop_init_18) {
                    uint _e37 = t_5;
                    t_5 = _e37 + 1u;
                }
                loop_init_18 = false;
                uint _e11 = t_5;
                if (_e11 < ROWS) {
                } else {
                    break;
                }
                {
                    if (false) {
                        uint _e17 = t_5;
                        uint _e18 = rows(batch, _buffer_sizes);
                        local_6 = _e17 < _e18;
                    } else {
                        local_6 = true;
                    }
                    bool _e21 = local_6;
                    if (_e21) {
                        uint _e22 = t_5;
                        uint _e23 = i_17;
                        Eight _e24 = floats_eight(_e22, _e23, norm, x_9, factor_of_row, _buffer_sizes);
                        uint _e25 = t_5;
                        float _e27 = sums_2.inner[_e25];
                        sums_2.inner[_e25] = _e27 + (metal::dot(_e8.a, _e24.a) + metal::dot(_e8.b, _e24.b));
                    }
                }
            }
        }
    }
    Sums _e42 = sums_2;
    return _e42;
}

float o0_at(
    uint i_18,
    device type_7 const& o0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = o0_[i_18];
    return _e3;
}

float o1_at(
    uint i_19,
    device type_7 const& o1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = o1_[i_19];
    return _e3;
}

void out_0_(
    uint m,
    uint group,
    uint lid_6,
    device type_1 const& batch,
    threadgroup type_10& staged_codes,
    threadgroup type_11& staged_scale,
    threadgroup type_14& staged_sums,
    device type_16 const& w0_,
    device type_7 const& o0_,
    device type_7& y0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint turn_2 = 0u;
    Sums sums0_ = {};
    uint t_6 = {};
    bool local_7 = {};
    bool local_8 = {};
    uint2 loop_bound_19 = uint2(4294967295u);
    bool loop_init_19 = true;
    while(true) {
        if (metal::all(loop_bound_19 == uint2(0u))) { break; }
        loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
        if (!loop_init_19) {
            uint _e62 = turn_2;
            turn_2 = _e62 + 1u;
        }
        loop_init_19 = false;
        uint _e5 = turn_2;
        if (_e5 < TURNS) {
        } else {
            break;
        }
        {
            uint _e10 = turn_2;
            uint n_3 = (((group * TURNS) + _e10) * 4u) + naga_div(lid_6, LANES);
            Sums _e21 = dot_w0_(metal::min(n_3, 79u), naga_mod(lid_6, LANES), batch, staged_codes, staged_scale, staged_sums, w0_, _buffer_sizes);
            sums0_ = _e21;
            t_6 = 0u;
            uint2 loop_bound_20 = uint2(4294967295u);
            bool loop_init_20 = true;
            while(true) {
                if (metal::all(loop_bound_20 == uint2(0u))) { break; }
                loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
                if (!loop_init_20) {
                    uint _e59 = t_6;
                    t_6 = _e59 + 1u;
                }
                loop_init_20 = false;
                uint _e25 = t_6;
                if (_e25 < ROWS) {
                } else {
                    break;
                }
                {
                    if (false) {
                        uint _e31 = t_6;
                        uint _e32 = rows(batch, _buffer_sizes);
                        local_7 = _e31 >= _e32;
                    } else {
                        local_7 = false;
                    }
                    bool _e35 = local_7;
                    if (_e35) {
                        break;
                    }
                    uint _e36 = t_6;
                    float _e38 = sums0_.inner[_e36];
                    float _e39 = lanes_sum(_e38, lid_6);
                    if (naga_mod(lid_6, LANES) == 0u) {
                        local_8 = n_3 < Y0_WIDTH;
                    } else {
                        local_8 = false;
                    }
                    bool _e49 = local_8;
                    if (_e49) {
                        uint _e51 = t_6;
                        float _e56 = o0_at(n_3, o0_, _buffer_sizes);
                        y0_[(_e51 * Y0_WIDTH) + n_3] = _e39 + _e56;
                    }
                }
            }
        }
    }
    return;
}

void out_1_(
    uint m_1,
    uint group_1,
    uint lid_7,
    device type_1 const& batch,
    threadgroup type_10& staged_codes,
    threadgroup type_11& staged_scale,
    threadgroup type_14& staged_sums,
    device type_16 const& w1_,
    device type_7 const& o1_,
    device type_7& y1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint turn_3 = 0u;
    Sums sums1_ = {};
    uint t_7 = {};
    bool local_9 = {};
    bool local_10 = {};
    uint2 loop_bound_21 = uint2(4294967295u);
    bool loop_init_21 = true;
    while(true) {
        if (metal::all(loop_bound_21 == uint2(0u))) { break; }
        loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
        if (!loop_init_21) {
            uint _e62 = turn_3;
            turn_3 = _e62 + 1u;
        }
        loop_init_21 = false;
        uint _e5 = turn_3;
        if (_e5 < TURNS) {
        } else {
            break;
        }
        {
            uint _e10 = turn_3;
            uint n_4 = (((group_1 * TURNS) + _e10) * 4u) + naga_div(lid_7, LANES);
            Sums _e21 = dot_w1_(metal::min(n_4, 31u), naga_mod(lid_7, LANES), batch, staged_codes, staged_scale, staged_sums, w1_, _buffer_sizes);
            sums1_ = _e21;
            t_7 = 0u;
            uint2 loop_bound_22 = uint2(4294967295u);
            bool loop_init_22 = true;
            while(true) {
                if (metal::all(loop_bound_22 == uint2(0u))) { break; }
                loop_bound_22 -= uint2(loop_bound_22.y == 0u, 1u);
                if (!loop_init_22) {
                    uint _e59 = t_7;
                    t_7 = _e59 + 1u;
                }
                loop_init_22 = false;
                uint _e25 = t_7;
                if (_e25 < ROWS) {
                } else {
                    break;
                }
                {
                    if (false) {
                        uint _e31 = t_7;
                        uint _e32 = rows(batch, _buffer_sizes);
                        local_9 = _e31 >= _e32;
                    } else {
                        local_9 = false;
                    }
                    bool _e35 = local_9;
                    if (_e35) {
                        break;
                    }
                    uint _e36 = t_7;
                    float _e38 = sums1_.inner[_e36];
                    float _e39 = lanes_sum(_e38, lid_7);
                    if (naga_mod(lid_7, LANES) == 0u) {
                        local_10 = n_4 < Y1_WIDTH;
                    } else {
                        local_10 = false;
                    }
                    bool _e49 = local_10;
                    if (_e49) {
                        uint _e51 = t_7;
                        float _e56 = o1_at(n_4, o1_, _buffer_sizes);
                        y1_[(_e51 * Y1_WIDTH) + n_4] = _e39 + _e56;
                    }
                }
            }
        }
    }
    return;
}

void out_2_(
    uint m_2,
    uint group_2,
    uint lid_8,
    device type_1 const& batch,
    device type_7 const& norm,
    device type_8 const& x_9,
    thread float& factor_of_row,
    device type_16 const& w2_,
    device type_7& y2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint turn_4 = 0u;
    Sums sums2_ = {};
    uint t_8 = {};
    bool local_11 = {};
    bool local_12 = {};
    uint2 loop_bound_23 = uint2(4294967295u);
    bool loop_init_23 = true;
    while(true) {
        if (metal::all(loop_bound_23 == uint2(0u))) { break; }
        loop_bound_23 -= uint2(loop_bound_23.y == 0u, 1u);
        if (!loop_init_23) {
            uint _e60 = turn_4;
            turn_4 = _e60 + 1u;
        }
        loop_init_23 = false;
        uint _e5 = turn_4;
        if (_e5 < TURNS) {
        } else {
            break;
        }
        {
            uint _e10 = turn_4;
            uint n_5 = (((group_2 * TURNS) + _e10) * 4u) + naga_div(lid_8, LANES);
            Sums _e21 = dot_w2_(metal::min(n_5, 31u), naga_mod(lid_8, LANES), batch, norm, x_9, factor_of_row, w2_, _buffer_sizes);
            sums2_ = _e21;
            t_8 = 0u;
            uint2 loop_bound_24 = uint2(4294967295u);
            bool loop_init_24 = true;
            while(true) {
                if (metal::all(loop_bound_24 == uint2(0u))) { break; }
                loop_bound_24 -= uint2(loop_bound_24.y == 0u, 1u);
                if (!loop_init_24) {
                    uint _e57 = t_8;
                    t_8 = _e57 + 1u;
                }
                loop_init_24 = false;
                uint _e25 = t_8;
                if (_e25 < ROWS) {
                } else {
                    break;
                }
                {
                    if (false) {
                        uint _e31 = t_8;
                        uint _e32 = rows(batch, _buffer_sizes);
                        local_11 = _e31 >= _e32;
                    } else {
                        local_11 = false;
                    }
                    bool _e35 = local_11;
                    if (_e35) {
                        break;
                    }
                    uint _e36 = t_8;
                    float _e38 = sums2_.inner[_e36];
                    float _e39 = lanes_sum(_e38, lid_8);
                    if (naga_mod(lid_8, LANES) == 0u) {
                        local_12 = n_5 < Y2_WIDTH;
                    } else {
                        local_12 = false;
                    }
                    bool _e49 = local_12;
                    if (_e49) {
                        uint _e51 = t_8;
                        y2_[(_e51 * Y2_WIDTH) + n_5] = _e39;
                    }
                }
            }
        }
    }
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, device type_1 const& batch [[user(fake0)]]
, threadgroup type_5& reduce_part
, device type_7 const& norm [[user(fake0)]]
, device type_8 const& x_9 [[user(fake0)]]
, threadgroup type_10& staged_codes
, threadgroup type_11& staged_scale
, threadgroup type_14& staged_sums
, device type_16 const& w0_ [[user(fake0)]]
, device type_16 const& w1_ [[user(fake0)]]
, device type_16 const& w2_ [[user(fake0)]]
, device type_7 const& o0_ [[user(fake0)]]
, device type_7 const& o1_ [[user(fake0)]]
, device type_7& y0_ [[user(fake0)]]
, device type_7& y1_ [[user(fake0)]]
, device type_7& y2_ [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    float factor_of_row = 1.0;
    if (lid == 0u) {
        reduce_part = {};
        staged_codes = {};
        staged_scale = {};
        staged_sums = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint n_6 = wid.x + (wid.y * nwg.x);
    stage(lid, reduce_part, norm, x_9, staged_codes, staged_scale, staged_sums, _buffer_sizes);
    row_factor(lid, reduce_part, x_9, factor_of_row, _buffer_sizes);
    if (n_6 < 20u) {
        out_0_(0u, n_6 - 0u, lid, batch, staged_codes, staged_scale, staged_sums, w0_, o0_, y0_, _buffer_sizes);
        return;
    } else {
        if (n_6 < 28u) {
            out_1_(0u, n_6 - 20u, lid, batch, staged_codes, staged_scale, staged_sums, w1_, o1_, y1_, _buffer_sizes);
            return;
        } else {
            if (n_6 < 36u) {
                out_2_(0u, n_6 - 28u, lid, batch, norm, x_9, factor_of_row, w2_, y2_, _buffer_sizes);
                return;
            } else {
                return;
            }
        }
    }
}
