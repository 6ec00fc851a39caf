// For the case "columns".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size2;
    uint size3;
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
typedef float type_5[1];
struct type_6 {
    float inner[2];
};
constant uint WG = 64u;
constant uint DIM = 64u;
constant uint GROUPS = 4u;
constant float EPS = 0.00001;
constant uint LANES = 32u;

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

uint rows(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e0 = batch_t(batch, _buffer_sizes);
    return _e0;
}

float x_at(
    uint i_4,
    device type_5 const& x_10,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint c = naga_mod(i_4, 256u);
    float _e19 = x_10[(((naga_div(i_4, 256u) * 512u) + (naga_div(c, 64u) * 128u)) + 0u) + naga_mod(c, 64u)];
    return _e19;
}

float weight_at(
    uint i_5,
    device type_5 const& weight,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = weight[i_5];
    return _e3;
}

float finish(
    float y,
    uint i_6
) {
    return y;
}

void put_sum(
    uint i_7,
    float x_6
) {
    return;
}

float lanes_sum(
    float x_7,
    uint lid_1
) {
    float sum_1 = {};
    uint n = 16u;
    sum_1 = x_7;
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
            float _e8 = sum_1;
            float _e9 = sum_1;
            uint _e10 = n;
            float unnamed = metal::simd_shuffle_xor(_e9, _e10);
            sum_1 = _e8 + unnamed;
        }
    }
    float _e16 = sum_1;
    return _e16;
}

float workgroup_sum(
    float x_8,
    uint lid_2,
    threadgroup type_6& reduce_part
) {
    float sum_2 = 0.0;
    uint i_8 = 0u;
    float _e2 = lanes_sum(x_8, lid_2);
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
            uint _e25 = i_8;
            i_8 = _e25 + 1u;
        }
        loop_init_1 = false;
        uint _e15 = i_8;
        if (_e15 < 2u) {
        } else {
            break;
        }
        {
            float _e18 = sum_2;
            uint _e20 = i_8;
            float _e22 = reduce_part.inner[_e20];
            sum_2 = _e18 + _e22;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e27 = sum_2;
    return _e27;
}

float workgroup_max(
    float x_9,
    uint lid_3,
    threadgroup type_6& reduce_part
) {
    float part = {};
    uint n_1 = 16u;
    float largest = {};
    uint i_9 = 1u;
    part = x_9;
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
            uint _e41 = i_9;
            i_9 = _e41 + 1u;
        }
        loop_init_3 = false;
        uint _e31 = i_9;
        if (_e31 < 2u) {
        } else {
            break;
        }
        {
            float _e34 = largest;
            uint _e36 = i_9;
            float _e38 = reduce_part.inner[_e36];
            largest = metal::max(_e34, _e38);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e43 = largest;
    return _e43;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, device type_1 const& batch [[user(fake0)]]
, device type_5 const& x_10 [[user(fake0)]]
, device type_5 const& weight [[user(fake0)]]
, device type_5& y_1 [[user(fake0)]]
, threadgroup type_6& reduce_part
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        reduce_part = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float sum = 0.0;
    uint d = {};
    uint d_1 = {};
    uint g = wid.x + (wid.y * nwg.x);
    uint _e8 = rows(batch, _buffer_sizes);
    if (g >= (_e8 * GROUPS)) {
        return;
    }
    d = lid;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e26 = d;
            d = _e26 + WG;
        }
        loop_init_4 = false;
        uint _e15 = d;
        if (_e15 < DIM) {
        } else {
            break;
        }
        {
            uint _e20 = d;
            float _e22 = x_at((g * DIM) + _e20, x_10, _buffer_sizes);
            float _e23 = sum;
            sum = _e23 + (_e22 * _e22);
        }
    }
    float _e29 = sum;
    float _e30 = workgroup_sum(_e29, lid, reduce_part);
    float factor = metal::rsqrt((_e30 / 64.0) + EPS);
    d_1 = lid;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e52 = d_1;
            d_1 = _e52 + WG;
        }
        loop_init_5 = false;
        uint _e37 = d_1;
        if (_e37 < DIM) {
        } else {
            break;
        }
        {
            uint _e42 = d_1;
            uint i_10 = (g * DIM) + _e42;
            float _e44 = x_at(i_10, x_10, _buffer_sizes);
            put_sum(i_10, _e44);
            uint _e48 = d_1;
            float _e49 = weight_at(_e48, weight, _buffer_sizes);
            float _e51 = finish((_e44 * factor) * _e49, i_10);
            y_1[i_10] = _e51;
        }
    }
    return;
}
