// For the case "norm, three formats, biases, few".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size2;
    uint size3;
    uint size5;
    uint size6;
    uint size7;
    uint size8;
    uint size9;
    uint size10;
    uint size11;
    uint size12;
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
struct Sums {
    float inner[8];
};
struct type_5 {
    float inner[4];
};
typedef metal::float4 type_6[1];
struct type_7 {
    float inner[8];
};
typedef metal::uint4 type_10[1];
typedef float type_11[1];
constant uint WG = 128u;
constant uint K = 96u;
constant uint TURNS = 1u;
constant uint ROWS = 8u;
constant uint LANES = 32u;
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

Eight x_eight(
    uint row_5,
    uint i_6,
    device type_6 const& x_9,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_2 = (row_5 * 24u) + (2u * i_6);
    metal::float4 _e9 = x_9[at_2];
    metal::float4 _e14 = x_9[at_2 + 1u];
    return Eight {_e9, _e14};
}

Eight norm_eight(
    uint row_6,
    uint i_7,
    device type_6 const& norm,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_3 = (row_6 * 24u) + (2u * i_7);
    metal::float4 _e9 = norm[at_3];
    metal::float4 _e14 = norm[at_3 + 1u];
    return Eight {_e9, _e14};
}

void norm_factors(
    uint lid_4,
    device type_1 const& batch,
    threadgroup type_5& reduce_part,
    device type_6 const& x_9,
    thread type_7& norm_factor,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint t = 0u;
    bool local = {};
    float sum_2 = {};
    uint i_8 = {};
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e46 = t;
            t = _e46 + 1u;
        }
        loop_init_4 = false;
        uint _e3 = t;
        if (_e3 < ROWS) {
        } else {
            break;
        }
        {
            if (true) {
                uint _e9 = t;
                uint _e10 = rows(batch, _buffer_sizes);
                local = _e9 >= _e10;
            } else {
                local = false;
            }
            bool _e13 = local;
            if (_e13) {
                break;
            }
            sum_2 = 0.0;
            i_8 = lid_4;
            uint2 loop_bound_5 = uint2(4294967295u);
            bool loop_init_5 = true;
            while(true) {
                if (metal::all(loop_bound_5 == uint2(0u))) { break; }
                loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
                if (!loop_init_5) {
                    uint _e32 = i_8;
                    i_8 = _e32 + WG;
                }
                loop_init_5 = false;
                uint _e17 = i_8;
                if (_e17 < 12u) {
                } else {
                    break;
                }
                {
                    uint _e20 = t;
                    uint _e21 = i_8;
                    Eight _e22 = x_eight(_e20, _e21, x_9, _buffer_sizes);
                    float _e23 = sum_2;
                    sum_2 = _e23 + (metal::dot(_e22.a, _e22.a) + metal::dot(_e22.b, _e22.b));
                }
            }
            uint _e36 = t;
            float _e38 = sum_2;
            float _e39 = workgroup_sum(_e38, lid_4, reduce_part);
            norm_factor.inner[_e36] = metal::rsqrt((_e39 / 96.0) + EPS);
        }
    }
    return;
}

Eight floats_eight(
    uint t_1,
    uint i_9,
    device type_6 const& x_9,
    device type_6 const& norm,
    thread type_7& norm_factor,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight _e2 = x_eight(t_1, i_9, x_9, _buffer_sizes);
    Eight _e4 = norm_eight(0u, i_9, norm, _buffer_sizes);
    float _e8 = norm_factor.inner[t_1];
    float _e15 = norm_factor.inner[t_1];
    return Eight {(_e2.a * _e8) * _e4.a, (_e2.b * _e15) * _e4.b};
}

float w0_half(
    uint at,
    uint i_10,
    device type_10 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = at + (i_10 >> 1u);
    uint _e12 = w0_[word >> 2u][word & 3u];
    return float2(as_type<half2>(_e12))[i_10 & 1u];
}

Eight w0_eight(
    uint row_7,
    uint i_11,
    device type_10 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight e = {};
    uint group_3 = naga_div((row_7 * K) + (i_11 * 8u), w0_GROUP);
    float _e10 = w0_half(w0_AT_SCALES, group_3, w0_, _buffer_sizes);
    if (false) {
        uint at_4 = (row_7 * 12u) + i_11;
        uint word_1 = w0_[at_4 >> 2u][at_4 & 3u];
        metal::float4 low = static_cast<metal::float4>(uint4(as_type<packed_uchar4>(word_1 & 252645135u))) - metal::float4(0.0);
        metal::float4 high = static_cast<metal::float4>(uint4(as_type<packed_uchar4>((word_1 >> 4u) & 252645135u))) - metal::float4(0.0);
        e = Eight {metal::float4(low.x, high.x, low.y, high.y) * _e10, metal::float4(low.z, high.z, low.w, high.w) * _e10};
    } else {
        uint at_5 = (row_7 * 24u) + (2u * i_11);
        metal::uint4 four = w0_[at_5 >> 2u];
        metal::uint2 words = ((at_5 & 3u) == 0u) ? four.xy : four.zw;
        e = Eight {static_cast<metal::float4>(int4(as_type<packed_char4>(words.x))) * _e10, static_cast<metal::float4>(int4(as_type<packed_char4>(words.y))) * _e10};
    }
    if (w0_OFFSET) {
        float _e81 = w0_half(w0_AT_OFFSETS, group_3, w0_, _buffer_sizes);
        metal::float4 _e83 = e.a;
        metal::float4 _e87 = e.b;
        e = Eight {_e83 + metal::float4(_e81), _e87 + metal::float4(_e81)};
    }
    Eight _e91 = e;
    return _e91;
}

float w0_number(
    uint row_8,
    uint c,
    device type_10 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float code = {};
    uint i_20 = (row_8 * K) + c;
    if (false) {
        uint _e16 = w0_[i_20 >> 5u][(i_20 >> 3u) & 3u];
        code = static_cast<float>((_e16 >> (4u * (i_20 & 7u))) & 15u) - w0_ZERO;
    } else {
        uint _e36 = w0_[i_20 >> 4u][(i_20 >> 2u) & 3u];
        uint _e41 = 8u * (i_20 & 3u);
        code = static_cast<float>(metal::extract_bits(static_cast<int>(_e36), metal::min(_e41, 32u), metal::min(8u, 32u - metal::min(_e41, 32u))));
    }
    float _e48 = w0_half(w0_AT_SCALES, naga_div(i_20, w0_GROUP), w0_, _buffer_sizes);
    float _e49 = code;
    float x_10 = _e48 * _e49;
    if (w0_OFFSET) {
        float _e55 = w0_half(w0_AT_OFFSETS, naga_div(i_20, w0_GROUP), w0_, _buffer_sizes);
        return x_10 + _e55;
    }
    return x_10;
}

Sums dot_w0_(
    uint row_9,
    uint lane,
    device type_1 const& batch,
    device type_6 const& x_9,
    device type_6 const& norm,
    thread type_7& norm_factor,
    device type_10 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Sums sums = {};
    uint i_12 = {};
    uint t_2 = {};
    bool local_1 = {};
    i_12 = lane;
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e39 = i_12;
            i_12 = _e39 + LANES;
        }
        loop_init_6 = false;
        uint _e4 = i_12;
        if (_e4 < 12u) {
        } else {
            break;
        }
        {
            uint _e7 = i_12;
            Eight _e8 = w0_eight(row_9, _e7, w0_, _buffer_sizes);
            t_2 = 0u;
            uint2 loop_bound_7 = uint2(4294967295u);
            bool loop_init_7 = true;
            while(true) {
                if (metal::all(loop_bound_7 == uint2(0u))) { break; }
                loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
                if (!loop_init_7) {
                    uint _e37 = t_2;
                    t_2 = _e37 + 1u;
                }
                loop_init_7 = false;
                uint _e11 = t_2;
                if (_e11 < ROWS) {
                } else {
                    break;
                }
                {
                    if (true) {
                        uint _e17 = t_2;
                        uint _e18 = rows(batch, _buffer_sizes);
                        local_1 = _e17 < _e18;
                    } else {
                        local_1 = true;
                    }
                    bool _e21 = local_1;
                    if (_e21) {
                        uint _e22 = t_2;
                        uint _e23 = i_12;
                        Eight _e24 = floats_eight(_e22, _e23, x_9, norm, norm_factor, _buffer_sizes);
                        uint _e25 = t_2;
                        float _e27 = sums.inner[_e25];
                        sums.inner[_e25] = _e27 + (metal::dot(_e8.a, _e24.a) + metal::dot(_e8.b, _e24.b));
                    }
                }
            }
        }
    }
    Sums _e42 = sums;
    return _e42;
}

float w1_half(
    uint at_1,
    uint i_13,
    device type_10 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_2 = at_1 + (i_13 >> 1u);
    uint _e12 = w1_[word_2 >> 2u][word_2 & 3u];
    return float2(as_type<half2>(_e12))[i_13 & 1u];
}

Eight w1_eight(
    uint row_10,
    uint i_14,
    device type_10 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight e_1 = {};
    uint group_4 = naga_div((row_10 * K) + (i_14 * 8u), w1_GROUP);
    float _e10 = w1_half(w1_AT_SCALES, group_4, w1_, _buffer_sizes);
    if (false) {
        uint at_6 = (row_10 * 12u) + i_14;
        uint word_3 = w1_[at_6 >> 2u][at_6 & 3u];
        metal::float4 low_1 = static_cast<metal::float4>(uint4(as_type<packed_uchar4>(word_3 & 252645135u))) - metal::float4(0.0);
        metal::float4 high_1 = static_cast<metal::float4>(uint4(as_type<packed_uchar4>((word_3 >> 4u) & 252645135u))) - metal::float4(0.0);
        e_1 = Eight {metal::float4(low_1.x, high_1.x, low_1.y, high_1.y) * _e10, metal::float4(low_1.z, high_1.z, low_1.w, high_1.w) * _e10};
    } else {
        uint at_7 = (row_10 * 24u) + (2u * i_14);
        metal::uint4 four_1 = w1_[at_7 >> 2u];
        metal::uint2 words_1 = ((at_7 & 3u) == 0u) ? four_1.xy : four_1.zw;
        e_1 = Eight {static_cast<metal::float4>(int4(as_type<packed_char4>(words_1.x))) * _e10, static_cast<metal::float4>(int4(as_type<packed_char4>(words_1.y))) * _e10};
    }
    if (w1_OFFSET) {
        float _e81 = w1_half(w1_AT_OFFSETS, group_4, w1_, _buffer_sizes);
        metal::float4 _e83 = e_1.a;
        metal::float4 _e87 = e_1.b;
        e_1 = Eight {_e83 + metal::float4(_e81), _e87 + metal::float4(_e81)};
    }
    Eight _e91 = e_1;
    return _e91;
}

float w1_number(
    uint row_11,
    uint c_1,
    device type_10 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float code_1 = {};
    uint i_21 = (row_11 * K) + c_1;
    if (false) {
        uint _e16 = w1_[i_21 >> 5u][(i_21 >> 3u) & 3u];
        code_1 = static_cast<float>((_e16 >> (4u * (i_21 & 7u))) & 15u) - w1_ZERO;
    } else {
        uint _e36 = w1_[i_21 >> 4u][(i_21 >> 2u) & 3u];
        uint _e41 = 8u * (i_21 & 3u);
        code_1 = static_cast<float>(metal::extract_bits(static_cast<int>(_e36), metal::min(_e41, 32u), metal::min(8u, 32u - metal::min(_e41, 32u))));
    }
    float _e48 = w1_half(w1_AT_SCALES, naga_div(i_21, w1_GROUP), w1_, _buffer_sizes);
    float _e49 = code_1;
    float x_11 = _e48 * _e49;
    if (w1_OFFSET) {
        float _e55 = w1_half(w1_AT_OFFSETS, naga_div(i_21, w1_GROUP), w1_, _buffer_sizes);
        return x_11 + _e55;
    }
    return x_11;
}

Sums dot_w1_(
    uint row_12,
    uint lane_1,
    device type_1 const& batch,
    device type_6 const& x_9,
    device type_6 const& norm,
    thread type_7& norm_factor,
    device type_10 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Sums sums_1 = {};
    uint i_15 = {};
    uint t_3 = {};
    bool local_2 = {};
    i_15 = lane_1;
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e39 = i_15;
            i_15 = _e39 + LANES;
        }
        loop_init_8 = false;
        uint _e4 = i_15;
        if (_e4 < 12u) {
        } else {
            break;
        }
        {
            uint _e7 = i_15;
            Eight _e8 = w1_eight(row_12, _e7, w1_, _buffer_sizes);
            t_3 = 0u;
            uint2 loop_bound_9 = uint2(4294967295u);
            bool loop_init_9 = true;
            while(true) {
                if (metal::all(loop_bound_9 == uint2(0u))) { break; }
                loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
                if (!loop_init_9) {
                    uint _e37 = t_3;
                    t_3 = _e37 + 1u;
                }
                loop_init_9 = false;
                uint _e11 = t_3;
                if (_e11 < ROWS) {
                } else {
                    break;
                }
                {
                    if (true) {
                        uint _e17 = t_3;
                        uint _e18 = rows(batch, _buffer_sizes);
                        local_2 = _e17 < _e18;
                    } else {
                        local_2 = true;
                    }
                    bool _e21 = local_2;
                    if (_e21) {
                        uint _e22 = t_3;
                        uint _e23 = i_15;
                        Eight _e24 = floats_eight(_e22, _e23, x_9, norm, norm_factor, _buffer_sizes);
                        uint _e25 = t_3;
                        float _e27 = sums_1.inner[_e25];
                        sums_1.inner[_e25] = _e27 + (metal::dot(_e8.a, _e24.a) + metal::dot(_e8.b, _e24.b));
                    }
                }
            }
        }
    }
    Sums _e42 = sums_1;
    return _e42;
}

Eight w2_eight(
    uint row_13,
    uint i_16,
    device type_10 const& w2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 v = w2_[(row_13 * 12u) + i_16];
    return Eight {metal::float4(float2(as_type<half2>(v.x)), float2(as_type<half2>(v.y))), metal::float4(float2(as_type<half2>(v.z)), float2(as_type<half2>(v.w)))};
}

Sums dot_w2_(
    uint row_14,
    uint lane_2,
    device type_1 const& batch,
    device type_6 const& x_9,
    device type_6 const& norm,
    thread type_7& norm_factor,
    device type_10 const& w2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Sums sums_2 = {};
    uint i_17 = {};
    uint t_4 = {};
    bool local_3 = {};
    i_17 = lane_2;
    uint2 loop_bound_10 = uint2(4294967295u);
    bool loop_init_10 = true;
    while(true) {
        if (metal::all(loop_bound_10 == uint2(0u))) { break; }
        loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
        if (!loop_init_10) {
            uint _e39 = i_17;
            i_17 = _e39 + LANES;
        }
        loop_init_10 = false;
        uint _e4 = i_17;
        if (_e4 < 12u) {
        } else {
            break;
        }
        {
            uint _e7 = i_17;
            Eight _e8 = w2_eight(row_14, _e7, w2_, _buffer_sizes);
            t_4 = 0u;
            uint2 loop_bound_11 = uint2(4294967295u);
            bool loop_init_11 = true;
            while(true) {
                if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                if (!loop_init_11) {
                    uint _e37 = t_4;
                    t_4 = _e37 + 1u;
                }
                loop_init_11 = false;
                uint _e11 = t_4;
                if (_e11 < ROWS) {
                } else {
                    break;
                }
                {
                    if (true) {
                        uint _e17 = t_4;
                        uint _e18 = rows(batch, _buffer_sizes);
                        local_3 = _e17 < _e18;
                    } else {
                        local_3 = true;
                    }
                    bool _e21 = local_3;
                    if (_e21) {
                        uint _e22 = t_4;
                        uint _e23 = i_17;
                        Eight _e24 = floats_eight(_e22, _e23, x_9, norm, norm_factor, _buffer_sizes);
                        uint _e25 = t_4;
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
    device type_11 const& o0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = o0_[i_18];
    return _e3;
}

float o1_at(
    uint i_19,
    device type_11 const& o1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = o1_[i_19];
    return _e3;
}

void out_0_(
    uint m,
    uint group,
    uint lid_5,
    device type_1 const& batch,
    device type_6 const& x_9,
    device type_6 const& norm,
    thread type_7& norm_factor,
    device type_10 const& w0_,
    device type_11 const& o0_,
    device type_11& y0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint turn = 0u;
    Sums sums0_ = {};
    uint t_5 = {};
    bool local_4 = {};
    bool local_5 = {};
    uint2 loop_bound_12 = uint2(4294967295u);
    bool loop_init_12 = true;
    while(true) {
        if (metal::all(loop_bound_12 == uint2(0u))) { break; }
        loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
        if (!loop_init_12) {
            uint _e62 = turn;
            turn = _e62 + 1u;
        }
        loop_init_12 = false;
        uint _e5 = turn;
        if (_e5 < TURNS) {
        } else {
            break;
        }
        {
            uint _e10 = turn;
            uint n_2 = (((group * TURNS) + _e10) * 4u) + naga_div(lid_5, LANES);
            Sums _e21 = dot_w0_(metal::min(n_2, 79u), naga_mod(lid_5, LANES), batch, x_9, norm, norm_factor, w0_, _buffer_sizes);
            sums0_ = _e21;
            t_5 = 0u;
            uint2 loop_bound_13 = uint2(4294967295u);
            bool loop_init_13 = true;
            while(true) {
                if (metal::all(loop_bound_13 == uint2(0u))) { break; }
                loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
                if (!loop_init_13) {
                    uint _e59 = t_5;
                    t_5 = _e59 + 1u;
                }
                loop_init_13 = false;
                uint _e25 = t_5;
                if (_e25 < ROWS) {
                } else {
                    break;
                }
                {
                    if (true) {
                        uint _e31 = t_5;
                        uint _e32 = rows(batch, _buffer_sizes);
                        local_4 = _e31 >= _e32;
                    } else {
                        local_4 = false;
                    }
                    bool _e35 = local_4;
                    if (_e35) {
                        break;
                    }
                    uint _e36 = t_5;
                    float _e38 = sums0_.inner[_e36];
                    float _e39 = lanes_sum(_e38, lid_5);
                    if (naga_mod(lid_5, LANES) == 0u) {
                        local_5 = n_2 < Y0_WIDTH;
                    } else {
                        local_5 = false;
                    }
                    bool _e49 = local_5;
                    if (_e49) {
                        uint _e51 = t_5;
                        float _e56 = o0_at(n_2, o0_, _buffer_sizes);
                        y0_[(_e51 * Y0_WIDTH) + n_2] = _e39 + _e56;
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
    uint lid_6,
    device type_1 const& batch,
    device type_6 const& x_9,
    device type_6 const& norm,
    thread type_7& norm_factor,
    device type_10 const& w1_,
    device type_11 const& o1_,
    device type_11& y1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint turn_1 = 0u;
    Sums sums1_ = {};
    uint t_6 = {};
    bool local_6 = {};
    bool local_7 = {};
    uint2 loop_bound_14 = uint2(4294967295u);
    bool loop_init_14 = true;
    while(true) {
        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
        if (!loop_init_14) {
            uint _e62 = turn_1;
            turn_1 = _e62 + 1u;
        }
        loop_init_14 = false;
        uint _e5 = turn_1;
        if (_e5 < TURNS) {
        } else {
            break;
        }
        {
            uint _e10 = turn_1;
            uint n_3 = (((group_1 * TURNS) + _e10) * 4u) + naga_div(lid_6, LANES);
            Sums _e21 = dot_w1_(metal::min(n_3, 31u), naga_mod(lid_6, LANES), batch, x_9, norm, norm_factor, w1_, _buffer_sizes);
            sums1_ = _e21;
            t_6 = 0u;
            uint2 loop_bound_15 = uint2(4294967295u);
            bool loop_init_15 = true;
            while(true) {
                if (metal::all(loop_bound_15 == uint2(0u))) { break; }
                loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
                if (!loop_init_15) {
                    uint _e59 = t_6;
                    t_6 = _e59 + 1u;
                }
                loop_init_15 = false;
                uint _e25 = t_6;
                if (_e25 < ROWS) {
                } else {
                    break;
                }
                {
                    if (true) {
                        uint _e31 = t_6;
                        uint _e32 = rows(batch, _buffer_sizes);
                        local_6 = _e31 >= _e32;
                    } else {
                        local_6 = false;
                    }
                    bool _e35 = local_6;
                    if (_e35) {
                        break;
                    }
                    uint _e36 = t_6;
                    float _e38 = sums1_.inner[_e36];
                    float _e39 = lanes_sum(_e38, lid_6);
                    if (naga_mod(lid_6, LANES) == 0u) {
                        local_7 = n_3 < Y1_WIDTH;
                    } else {
                        local_7 = false;
                    }
                    bool _e49 = local_7;
                    if (_e49) {
                        uint _e51 = t_6;
                        float _e56 = o1_at(n_3, o1_, _buffer_sizes);
                        y1_[(_e51 * Y1_WIDTH) + n_3] = _e39 + _e56;
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
    uint lid_7,
    device type_1 const& batch,
    device type_6 const& x_9,
    device type_6 const& norm,
    thread type_7& norm_factor,
    device type_10 const& w2_,
    device type_11& y2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint turn_2 = 0u;
    Sums sums2_ = {};
    uint t_7 = {};
    bool local_8 = {};
    bool local_9 = {};
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e60 = turn_2;
            turn_2 = _e60 + 1u;
        }
        loop_init_16 = false;
        uint _e5 = turn_2;
        if (_e5 < TURNS) {
        } else {
            break;
        }
        {
            uint _e10 = turn_2;
            uint n_4 = (((group_2 * TURNS) + _e10) * 4u) + naga_div(lid_7, LANES);
            Sums _e21 = dot_w2_(metal::min(n_4, 31u), naga_mod(lid_7, LANES), batch, x_9, norm, norm_factor, w2_, _buffer_sizes);
            sums2_ = _e21;
            t_7 = 0u;
            uint2 loop_bound_17 = uint2(4294967295u);
            bool loop_init_17 = true;
            while(true) {
                if (metal::all(loop_bound_17 == uint2(0u))) { break; }
                loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
                if (!loop_init_17) {
                    uint _e57 = t_7;
                    t_7 = _e57 + 1u;
                }
                loop_init_17 = false;
                uint _e25 = t_7;
                if (_e25 < ROWS) {
                } else {
                    break;
                }
                {
                    if (true) {
                        uint _e31 = t_7;
                        uint _e32 = rows(batch, _buffer_sizes);
                        local_8 = _e31 >= _e32;
                    } else {
                        local_8 = false;
                    }
                    bool _e35 = local_8;
                    if (_e35) {
                        break;
                    }
                    uint _e36 = t_7;
                    float _e38 = sums2_.inner[_e36];
                    float _e39 = lanes_sum(_e38, lid_7);
                    if (naga_mod(lid_7, LANES) == 0u) {
                        local_9 = n_4 < Y2_WIDTH;
                    } else {
                        local_9 = false;
                    }
                    bool _e49 = local_9;
                    if (_e49) {
                        uint _e51 = t_7;
                        y2_[(_e51 * Y2_WIDTH) + n_4] = _e39;
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
, device type_6 const& x_9 [[user(fake0)]]
, device type_6 const& norm [[user(fake0)]]
, device type_10 const& w0_ [[user(fake0)]]
, device type_10 const& w1_ [[user(fake0)]]
, device type_10 const& w2_ [[user(fake0)]]
, device type_11 const& o0_ [[user(fake0)]]
, device type_11 const& o1_ [[user(fake0)]]
, device type_11& y0_ [[user(fake0)]]
, device type_11& y1_ [[user(fake0)]]
, device type_11& y2_ [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    type_7 norm_factor = {};
    if (lid == 0u) {
        reduce_part = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint n_5 = wid.x + (wid.y * nwg.x);
    norm_factors(lid, batch, reduce_part, x_9, norm_factor, _buffer_sizes);
    if (n_5 < 20u) {
        out_0_(0u, n_5 - 0u, lid, batch, x_9, norm, norm_factor, w0_, o0_, y0_, _buffer_sizes);
        return;
    } else {
        if (n_5 < 28u) {
            out_1_(0u, n_5 - 20u, lid, batch, x_9, norm, norm_factor, w1_, o1_, y1_, _buffer_sizes);
            return;
        } else {
            if (n_5 < 36u) {
                out_2_(0u, n_5 - 28u, lid, batch, x_9, norm, norm_factor, w2_, y2_, _buffer_sizes);
                return;
            } else {
                return;
            }
        }
    }
}
