// For the case "norm, three formats, biases, one".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size3;
    uint size4;
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
struct type_5 {
    float inner[4];
};
struct type_6 {
    float inner[8];
};
typedef metal::float4 type_7[1];
typedef metal::uint4 type_10[1];
typedef float type_11[1];
constant uint WG = 128u;
constant uint K = 96u;
constant uint SPAN = 32u;
constant uint LANES = 32u;
constant uint PARTS = 1u;
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
    device type_7 const& x_10,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_2 = (row_5 * 24u) + (2u * i_6);
    metal::float4 _e9 = x_10[at_2];
    metal::float4 _e14 = x_10[at_2 + 1u];
    return Eight {_e9, _e14};
}

Eight norm_eight(
    uint row_6,
    uint i_7,
    device type_7 const& norm,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_3 = (row_6 * 24u) + (2u * i_7);
    metal::float4 _e9 = norm[at_3];
    metal::float4 _e14 = norm[at_3 + 1u];
    return Eight {_e9, _e14};
}

float dot_eight(
    Eight a_1,
    Eight b_1
) {
    return metal::dot(a_1.a, b_1.a) + metal::dot(a_1.b, b_1.b);
}

Eight times(
    Eight a_2,
    Eight b_2
) {
    return Eight {a_2.a * b_2.a, a_2.b * b_2.b};
}

Eight scaled(
    Eight a_3,
    bool counts
) {
    metal::float4 zero = metal::float4(0.0);
    return Eight {counts ? a_3.a : zero, counts ? a_3.b : zero};
}

void put_part(
    uint i_8,
    float x_9,
    uint lid_4,
    threadgroup type_6& span_part
) {
    if (naga_mod(lid_4, LANES) == 0u) {
        span_part.inner[(i_8 * 4u) + naga_div(lid_4, LANES)] = x_9;
        return;
    } else {
        return;
    }
}

float of_parts(
    uint i_9,
    uint lid_5,
    threadgroup type_6& span_part
) {
    float sum_2 = 0.0;
    uint part_1 = 0u;
    uint from = (i_9 * 4u) + (naga_div(lid_5, SPAN) * PARTS);
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e24 = part_1;
            part_1 = _e24 + 1u;
        }
        loop_init_4 = false;
        uint _e13 = part_1;
        if (_e13 < PARTS) {
        } else {
            break;
        }
        {
            float _e16 = sum_2;
            uint _e18 = part_1;
            float _e21 = span_part.inner[from + _e18];
            sum_2 = _e16 + _e21;
        }
    }
    float _e26 = sum_2;
    return _e26;
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
    uint i_17 = (row_8 * K) + c;
    if (false) {
        uint _e16 = w0_[i_17 >> 5u][(i_17 >> 3u) & 3u];
        code = static_cast<float>((_e16 >> (4u * (i_17 & 7u))) & 15u) - w0_ZERO;
    } else {
        uint _e36 = w0_[i_17 >> 4u][(i_17 >> 2u) & 3u];
        uint _e41 = 8u * (i_17 & 3u);
        code = static_cast<float>(metal::extract_bits(static_cast<int>(_e36), metal::min(_e41, 32u), metal::min(8u, 32u - metal::min(_e41, 32u))));
    }
    float _e48 = w0_half(w0_AT_SCALES, naga_div(i_17, w0_GROUP), w0_, _buffer_sizes);
    float _e49 = code;
    float x_11 = _e48 * _e49;
    if (w0_OFFSET) {
        float _e55 = w0_half(w0_AT_OFFSETS, naga_div(i_17, w0_GROUP), w0_, _buffer_sizes);
        return x_11 + _e55;
    }
    return x_11;
}

float w1_half(
    uint at_1,
    uint i_12,
    device type_10 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_2 = at_1 + (i_12 >> 1u);
    uint _e12 = w1_[word_2 >> 2u][word_2 & 3u];
    return float2(as_type<half2>(_e12))[i_12 & 1u];
}

Eight w1_eight(
    uint row_9,
    uint i_13,
    device type_10 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight e_1 = {};
    uint group_4 = naga_div((row_9 * K) + (i_13 * 8u), w1_GROUP);
    float _e10 = w1_half(w1_AT_SCALES, group_4, w1_, _buffer_sizes);
    if (false) {
        uint at_6 = (row_9 * 12u) + i_13;
        uint word_3 = w1_[at_6 >> 2u][at_6 & 3u];
        metal::float4 low_1 = static_cast<metal::float4>(uint4(as_type<packed_uchar4>(word_3 & 252645135u))) - metal::float4(0.0);
        metal::float4 high_1 = static_cast<metal::float4>(uint4(as_type<packed_uchar4>((word_3 >> 4u) & 252645135u))) - metal::float4(0.0);
        e_1 = Eight {metal::float4(low_1.x, high_1.x, low_1.y, high_1.y) * _e10, metal::float4(low_1.z, high_1.z, low_1.w, high_1.w) * _e10};
    } else {
        uint at_7 = (row_9 * 24u) + (2u * i_13);
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
    uint row_10,
    uint c_1,
    device type_10 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float code_1 = {};
    uint i_18 = (row_10 * K) + c_1;
    if (false) {
        uint _e16 = w1_[i_18 >> 5u][(i_18 >> 3u) & 3u];
        code_1 = static_cast<float>((_e16 >> (4u * (i_18 & 7u))) & 15u) - w1_ZERO;
    } else {
        uint _e36 = w1_[i_18 >> 4u][(i_18 >> 2u) & 3u];
        uint _e41 = 8u * (i_18 & 3u);
        code_1 = static_cast<float>(metal::extract_bits(static_cast<int>(_e36), metal::min(_e41, 32u), metal::min(8u, 32u - metal::min(_e41, 32u))));
    }
    float _e48 = w1_half(w1_AT_SCALES, naga_div(i_18, w1_GROUP), w1_, _buffer_sizes);
    float _e49 = code_1;
    float x_12 = _e48 * _e49;
    if (w1_OFFSET) {
        float _e55 = w1_half(w1_AT_OFFSETS, naga_div(i_18, w1_GROUP), w1_, _buffer_sizes);
        return x_12 + _e55;
    }
    return x_12;
}

Eight w2_eight(
    uint row_11,
    uint i_14,
    device type_10 const& w2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 v = w2_[(row_11 * 12u) + i_14];
    return Eight {metal::float4(float2(as_type<half2>(v.x)), float2(as_type<half2>(v.y))), metal::float4(float2(as_type<half2>(v.z)), float2(as_type<half2>(v.w)))};
}

float o0_at(
    uint i_15,
    device type_11 const& o0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = o0_[i_15];
    return _e3;
}

float o1_at(
    uint i_16,
    device type_11 const& o1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = o1_[i_16];
    return _e3;
}

void out_0_(
    uint m,
    uint group,
    uint lid_6,
    threadgroup type_6& span_part,
    device type_7 const& x_10,
    device type_7 const& norm,
    device type_10 const& w0_,
    device type_11 const& o0_,
    device type_11& y0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float squares = 0.0;
    float s0_0_ = 0.0;
    uint turn = 0u;
    uint first = ((group * 4u) + naga_div(lid_6, SPAN)) * 1u;
    uint n_2 = metal::min(first + 0u, 79u);
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e53 = turn;
            turn = _e53 + 1u;
        }
        loop_init_5 = false;
        uint _e20 = turn;
        if (_e20 < 1u) {
        } else {
            break;
        }
        {
            uint _e25 = turn;
            uint i_19 = naga_mod(lid_6, SPAN) + ((_e25 * 1u) * SPAN);
            uint i0_ = metal::min(i_19 + 0u, 11u);
            Eight _e35 = w0_eight(n_2, i0_, w0_, _buffer_sizes);
            Eight _e37 = x_eight(0u, i0_, x_10, _buffer_sizes);
            Eight _e42 = scaled(_e37, (i_19 + 0u) < 12u);
            float _e43 = squares;
            float _e44 = dot_eight(_e42, _e42);
            squares = _e43 + _e44;
            Eight _e47 = norm_eight(0u, i0_, norm, _buffer_sizes);
            Eight _e48 = times(_e42, _e47);
            float _e49 = s0_0_;
            float _e50 = dot_eight(_e35, _e48);
            s0_0_ = _e49 + _e50;
        }
    }
    float _e55 = s0_0_;
    float _e56 = lanes_sum(_e55, lid_6);
    s0_0_ = _e56;
    float _e57 = squares;
    float _e58 = lanes_sum(_e57, lid_6);
    squares = _e58;
    if (false) {
        float _e61 = s0_0_;
        put_part(0u, _e61, lid_6, span_part);
        float _e63 = squares;
        put_part(1u, _e63, lid_6, span_part);
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        float _e65 = of_parts(0u, lid_6, span_part);
        s0_0_ = _e65;
        float _e67 = of_parts(1u, lid_6, span_part);
        squares = _e67;
    }
    if (naga_mod(lid_6, SPAN) != 0u) {
        return;
    }
    float _e72 = squares;
    float factor = metal::rsqrt((_e72 / 96.0) + EPS);
    if ((first + 0u) < Y0_WIDTH) {
        float _e83 = s0_0_;
        float p0_ = _e83 * factor;
        float _e87 = o0_at(n_2, o0_, _buffer_sizes);
        y0_[n_2] = p0_ + _e87;
        return;
    } else {
        return;
    }
}

void out_1_(
    uint m_1,
    uint group_1,
    uint lid_7,
    threadgroup type_6& span_part,
    device type_7 const& x_10,
    device type_7 const& norm,
    device type_10 const& w1_,
    device type_11 const& o1_,
    device type_11& y1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float squares_1 = 0.0;
    float s1_0_ = 0.0;
    uint turn_1 = 0u;
    uint first_1 = ((group_1 * 4u) + naga_div(lid_7, SPAN)) * 1u;
    uint n_3 = metal::min(first_1 + 0u, 31u);
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e53 = turn_1;
            turn_1 = _e53 + 1u;
        }
        loop_init_6 = false;
        uint _e20 = turn_1;
        if (_e20 < 1u) {
        } else {
            break;
        }
        {
            uint _e25 = turn_1;
            uint i_20 = naga_mod(lid_7, SPAN) + ((_e25 * 1u) * SPAN);
            uint i0_1 = metal::min(i_20 + 0u, 11u);
            Eight _e35 = w1_eight(n_3, i0_1, w1_, _buffer_sizes);
            Eight _e37 = x_eight(0u, i0_1, x_10, _buffer_sizes);
            Eight _e42 = scaled(_e37, (i_20 + 0u) < 12u);
            float _e43 = squares_1;
            float _e44 = dot_eight(_e42, _e42);
            squares_1 = _e43 + _e44;
            Eight _e47 = norm_eight(0u, i0_1, norm, _buffer_sizes);
            Eight _e48 = times(_e42, _e47);
            float _e49 = s1_0_;
            float _e50 = dot_eight(_e35, _e48);
            s1_0_ = _e49 + _e50;
        }
    }
    float _e55 = s1_0_;
    float _e56 = lanes_sum(_e55, lid_7);
    s1_0_ = _e56;
    float _e57 = squares_1;
    float _e58 = lanes_sum(_e57, lid_7);
    squares_1 = _e58;
    if (false) {
        float _e61 = s1_0_;
        put_part(0u, _e61, lid_7, span_part);
        float _e63 = squares_1;
        put_part(1u, _e63, lid_7, span_part);
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        float _e65 = of_parts(0u, lid_7, span_part);
        s1_0_ = _e65;
        float _e67 = of_parts(1u, lid_7, span_part);
        squares_1 = _e67;
    }
    if (naga_mod(lid_7, SPAN) != 0u) {
        return;
    }
    float _e72 = squares_1;
    float factor_1 = metal::rsqrt((_e72 / 96.0) + EPS);
    if ((first_1 + 0u) < Y1_WIDTH) {
        float _e83 = s1_0_;
        float p1_ = _e83 * factor_1;
        float _e87 = o1_at(n_3, o1_, _buffer_sizes);
        y1_[n_3] = p1_ + _e87;
        return;
    } else {
        return;
    }
}

void out_2_(
    uint m_2,
    uint group_2,
    uint lid_8,
    threadgroup type_6& span_part,
    device type_7 const& x_10,
    device type_7 const& norm,
    device type_10 const& w2_,
    device type_11& y2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float squares_2 = 0.0;
    float s2_0_ = 0.0;
    uint turn_2 = 0u;
    uint first_2 = ((group_2 * 4u) + naga_div(lid_8, SPAN)) * 1u;
    uint n_4 = metal::min(first_2 + 0u, 31u);
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e53 = turn_2;
            turn_2 = _e53 + 1u;
        }
        loop_init_7 = false;
        uint _e20 = turn_2;
        if (_e20 < 1u) {
        } else {
            break;
        }
        {
            uint _e25 = turn_2;
            uint i_21 = naga_mod(lid_8, SPAN) + ((_e25 * 1u) * SPAN);
            uint i0_2 = metal::min(i_21 + 0u, 11u);
            Eight _e35 = w2_eight(n_4, i0_2, w2_, _buffer_sizes);
            Eight _e37 = x_eight(0u, i0_2, x_10, _buffer_sizes);
            Eight _e42 = scaled(_e37, (i_21 + 0u) < 12u);
            float _e43 = squares_2;
            float _e44 = dot_eight(_e42, _e42);
            squares_2 = _e43 + _e44;
            Eight _e47 = norm_eight(0u, i0_2, norm, _buffer_sizes);
            Eight _e48 = times(_e42, _e47);
            float _e49 = s2_0_;
            float _e50 = dot_eight(_e35, _e48);
            s2_0_ = _e49 + _e50;
        }
    }
    float _e55 = s2_0_;
    float _e56 = lanes_sum(_e55, lid_8);
    s2_0_ = _e56;
    float _e57 = squares_2;
    float _e58 = lanes_sum(_e57, lid_8);
    squares_2 = _e58;
    if (false) {
        float _e61 = s2_0_;
        put_part(0u, _e61, lid_8, span_part);
        float _e63 = squares_2;
        put_part(1u, _e63, lid_8, span_part);
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        float _e65 = of_parts(0u, lid_8, span_part);
        s2_0_ = _e65;
        float _e67 = of_parts(1u, lid_8, span_part);
        squares_2 = _e67;
    }
    if (naga_mod(lid_8, SPAN) != 0u) {
        return;
    }
    float _e72 = squares_2;
    float factor_2 = metal::rsqrt((_e72 / 96.0) + EPS);
    if ((first_2 + 0u) < Y2_WIDTH) {
        float _e83 = s2_0_;
        float p2_ = _e83 * factor_2;
        y2_[n_4] = p2_;
        return;
    } else {
        return;
    }
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, threadgroup type_6& span_part
, device type_7 const& x_10 [[user(fake0)]]
, device type_7 const& norm [[user(fake0)]]
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
    if (lid == 0u) {
        span_part = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint n_5 = wid.x + (wid.y * nwg.x);
    if (n_5 < 20u) {
        out_0_(0u, n_5 - 0u, lid, span_part, x_10, norm, w0_, o0_, y0_, _buffer_sizes);
        return;
    } else {
        if (n_5 < 28u) {
            out_1_(0u, n_5 - 20u, lid, span_part, x_10, norm, w1_, o1_, y1_, _buffer_sizes);
            return;
        } else {
            if (n_5 < 36u) {
                out_2_(0u, n_5 - 28u, lid, span_part, x_10, norm, w2_, y2_, _buffer_sizes);
                return;
            } else {
                return;
            }
        }
    }
}
