// For the case "norm, three formats, biases, some".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size2;
    uint size3;
    uint size4;
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
typedef float type_5[1];
struct type_7 {
    float inner[4];
};
struct type_8 {
    uint inner[8];
};
struct Block {
    type_8 codes;
    float scale;
    char _pad2[4];
    metal::int2 sums;
};
struct type_10 {
    metal::float4 inner[8];
};
constant uint WG = 128u;
constant uint K = 96u;
constant bool NORM = true;
constant float EPS = 0.000001;
constant bool ROUNDED = true;
constant bool FLOATS = true;
constant bool HALVES = false;
constant bool NATURAL = true;
constant bool PERMUTED = false;
constant uint AT_PERMUTED = 24u;
constant uint AT_SCALES = 24u;
constant uint AT_SUMS = 28u;
constant uint ROUNDED_ROW = 36u;
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
    uint i_3,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = batch[10];
    uint _e7 = batch[_e4 + i_3];
    return _e7;
}

uint batch_history(
    uint seq_3,
    uint i_4,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = batch[11];
    uint _e7 = batch_span(seq_3, 13u, batch, _buffer_sizes);
    uint _e11 = batch[(_e5 + _e7) + i_4];
    return _e11;
}

float batch_cos(
    uint table,
    uint row_3,
    uint pairs,
    uint i_5,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table];
    uint _e16 = batch[(_e9 + ((row_3 * 2u) * pairs)) + i_5];
    return as_type<float>(_e16);
}

float batch_sin(
    uint table_1,
    uint row_4,
    uint pairs_1,
    uint i_6,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table_1];
    uint _e17 = batch[((_e9 + ((row_4 * 2u) * pairs_1)) + pairs_1) + i_6];
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
    uint i_7,
    device type_5 const& x_13,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = x_13[i_7];
    return _e3;
}

float norm_at(
    uint i_8,
    device type_5 const& norm,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = norm[i_8];
    return _e3;
}

void put_rounded(
    uint i_9,
    uint x_6,
    device type_1& rounded,
    constant _mslBufferSizes& _buffer_sizes
) {
    rounded[i_9] = x_6;
    return;
}

void put_floats(
    uint i_10,
    float x_7,
    device type_5& floats,
    constant _mslBufferSizes& _buffer_sizes
) {
    floats[i_10] = x_7;
    return;
}

void put_halves(
    uint i_11,
    uint x_8
) {
    return;
}

float lanes_sum(
    float x_9,
    uint lid_1
) {
    float sum_1 = {};
    uint n = 16u;
    sum_1 = x_9;
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
    float x_10,
    uint lid_2,
    threadgroup type_7& reduce_part
) {
    float sum_2 = 0.0;
    uint i_12 = 0u;
    float _e2 = lanes_sum(x_10, lid_2);
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
            uint _e25 = i_12;
            i_12 = _e25 + 1u;
        }
        loop_init_1 = false;
        uint _e15 = i_12;
        if (_e15 < 4u) {
        } else {
            break;
        }
        {
            float _e18 = sum_2;
            uint _e20 = i_12;
            float _e22 = reduce_part.inner[_e20];
            sum_2 = _e18 + _e22;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e27 = sum_2;
    return _e27;
}

float workgroup_max(
    float x_11,
    uint lid_3,
    threadgroup type_7& reduce_part
) {
    float part = {};
    uint n_1 = 16u;
    float largest = {};
    uint i_13 = 1u;
    part = x_11;
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
            uint _e41 = i_13;
            i_13 = _e41 + 1u;
        }
        loop_init_3 = false;
        uint _e31 = i_13;
        if (_e31 < 4u) {
        } else {
            break;
        }
        {
            float _e34 = largest;
            uint _e36 = i_13;
            float _e38 = reduce_part.inner[_e36];
            largest = metal::max(_e34, _e38);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e43 = largest;
    return _e43;
}

metal::int4 naga_f2i32(metal::float4 value) {
    return static_cast<metal::int4>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

Block rounded_block(
    uint row_5,
    uint block_1,
    float factor_1,
    device type_5 const& x_13,
    device type_5 const& norm,
    constant _mslBufferSizes& _buffer_sizes
) {
    float largest_1 = 0.0;
    type_10 x_12 = {};
    uint i_14 = 0u;
    uint j = {};
    Block b_1 = {};
    float inverse = 0.0;
    metal::int2 sums = metal::int2(0);
    uint i_15 = 0u;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e52 = i_14;
            i_14 = _e52 + 1u;
        }
        loop_init_4 = false;
        uint _e8 = i_14;
        if (_e8 < 8u) {
        } else {
            break;
        }
        {
            j = 0u;
            uint2 loop_bound_5 = uint2(4294967295u);
            bool loop_init_5 = true;
            while(true) {
                if (metal::all(loop_bound_5 == uint2(0u))) { break; }
                loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
                if (!loop_init_5) {
                    uint _e36 = j;
                    j = _e36 + 1u;
                }
                loop_init_5 = false;
                uint _e13 = j;
                if (_e13 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e19 = i_14;
                    uint _e22 = j;
                    uint at = ((block_1 * 32u) + (4u * _e19)) + _e22;
                    uint _e24 = i_14;
                    uint _e26 = j;
                    float _e31 = x_at((row_5 * K) + at, x_13, _buffer_sizes);
                    float _e33 = norm_at(at, norm, _buffer_sizes);
                    x_12.inner[_e24][_e26] = (_e31 * factor_1) * _e33;
                }
            }
            uint _e38 = i_14;
            metal::float4 _e40 = x_12.inner[_e38];
            metal::float4 size = metal::abs(_e40);
            float _e42 = largest_1;
            largest_1 = metal::max(_e42, metal::max(metal::max(size.x, size.y), metal::max(size.z, size.w)));
        }
    }
    b_1.scale = 0.0;
    float _e59 = largest_1;
    if (_e59 >= 0.000000000000000000000000000001) {
        float _e63 = largest_1;
        float _e65 = divide(_e63, 127.0);
        b_1.scale = _e65;
        float _e67 = largest_1;
        float _e68 = divide(127.0, _e67);
        inverse = _e68;
    }
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e106 = i_15;
            i_15 = _e106 + 1u;
        }
        loop_init_6 = false;
        uint _e74 = i_15;
        if (_e74 < 8u) {
        } else {
            break;
        }
        {
            uint _e77 = i_15;
            metal::float4 _e79 = x_12.inner[_e77];
            float _e80 = inverse;
            metal::int4 code = naga_f2i32(metal::rint(_e79 * _e80));
            int sum_3 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(code.x) + as_type<uint>(code.y))) + as_type<uint>(code.z))) + as_type<uint>(code.w));
            metal::int2 _e91 = sums;
            uint _e96 = i_15;
            sums = as_type<metal::int2>(as_type<metal::uint2>(_e91) + as_type<metal::uint2>((_e96 < 4u) ? metal::int2(sum_3, 0) : metal::int2(0, sum_3)));
            uint _e102 = i_15;
            b_1.codes.inner[_e102] = as_type<uint>(packed_char4(code));
        }
    }
    metal::int2 _e109 = sums;
    b_1.sums = _e109;
    Block _e110 = b_1;
    return _e110;
}

uint permuted_word(
    Block r,
    uint i_16
) {
    type_8 codes = {};
    codes = r.codes;
    uint _e7 = codes.inner[i_16 & 6u];
    uint a_1 = _e7 >> (8u * (i_16 & 1u));
    uint _e18 = codes.inner[(i_16 & 6u) + 1u];
    uint c = _e18 >> (8u * (i_16 & 1u));
    return (((a_1 & 255u) | ((a_1 >> 8u) & 65280u)) | ((c & 255u) << 16u)) | ((c << 8u) & 4278190080u);
}

void round_block(
    uint row_6,
    uint block_2,
    float factor_2,
    device type_5 const& x_13,
    device type_5 const& norm,
    device type_1& rounded,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_17 = 0u;
    Block _e3 = rounded_block(row_6, block_2, factor_2, x_13, norm, _buffer_sizes);
    uint at_1 = (row_6 * ROUNDED_ROW) + (block_2 * 8u);
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e28 = i_17;
            i_17 = _e28 + 1u;
        }
        loop_init_7 = false;
        uint _e11 = i_17;
        if (_e11 < 8u) {
        } else {
            break;
        }
        {
            if (NATURAL) {
                uint _e15 = i_17;
                uint _e18 = i_17;
                put_rounded(at_1 + _e15, _e3.codes.inner[_e18], rounded, _buffer_sizes);
            }
            if (PERMUTED) {
                uint _e23 = i_17;
                uint _e25 = i_17;
                uint _e26 = permuted_word(_e3, _e25);
                put_rounded((at_1 + AT_PERMUTED) + _e23, _e26, rounded, _buffer_sizes);
            }
        }
    }
    put_rounded(((row_6 * ROUNDED_ROW) + AT_SCALES) + block_2, as_type<uint>(_e3.scale), rounded, _buffer_sizes);
    put_rounded(((row_6 * ROUNDED_ROW) + AT_SUMS) + (block_2 * 2u), as_type<uint>(_e3.sums.x), rounded, _buffer_sizes);
    put_rounded((((row_6 * ROUNDED_ROW) + AT_SUMS) + (block_2 * 2u)) + 1u, as_type<uint>(_e3.sums.y), rounded, _buffer_sizes);
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, device type_1 const& batch [[user(fake0)]]
, device type_5 const& x_13 [[user(fake0)]]
, device type_5 const& norm [[user(fake0)]]
, device type_1& rounded [[user(fake0)]]
, device type_5& floats [[user(fake0)]]
, threadgroup type_7& reduce_part
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        reduce_part = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float factor = 1.0;
    float sum = 0.0;
    uint i = {};
    uint i_1 = {};
    uint i_2 = {};
    uint block = {};
    uint row_7 = wid.x + (wid.y * nwg.x);
    uint _e8 = rows(batch, _buffer_sizes);
    if (row_7 >= _e8) {
        return;
    }
    if (NORM) {
        i = lid;
        uint2 loop_bound_8 = uint2(4294967295u);
        bool loop_init_8 = true;
        while(true) {
            if (metal::all(loop_bound_8 == uint2(0u))) { break; }
            loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
            if (!loop_init_8) {
                uint _e27 = i;
                i = _e27 + WG;
            }
            loop_init_8 = false;
            uint _e16 = i;
            if (_e16 < K) {
            } else {
                break;
            }
            {
                uint _e21 = i;
                float _e23 = x_at((row_7 * K) + _e21, x_13, _buffer_sizes);
                float _e24 = sum;
                sum = _e24 + (_e23 * _e23);
            }
        }
        float _e31 = sum;
        float _e32 = workgroup_sum(_e31, lid, reduce_part);
        float _e38 = divide(1.0, metal::sqrt((_e32 / 96.0) + EPS));
        factor = _e38;
    }
    if (FLOATS) {
        i_1 = lid;
        uint2 loop_bound_9 = uint2(4294967295u);
        bool loop_init_9 = true;
        while(true) {
            if (metal::all(loop_bound_9 == uint2(0u))) { break; }
            loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
            if (!loop_init_9) {
                uint _e58 = i_1;
                i_1 = _e58 + WG;
            }
            loop_init_9 = false;
            uint _e41 = i_1;
            if (_e41 < K) {
            } else {
                break;
            }
            {
                uint _e46 = i_1;
                uint _e50 = i_1;
                float _e52 = x_at((row_7 * K) + _e50, x_13, _buffer_sizes);
                float _e53 = factor;
                uint _e55 = i_1;
                float _e56 = norm_at(_e55, norm, _buffer_sizes);
                put_floats((row_7 * K) + _e46, (_e52 * _e53) * _e56, floats, _buffer_sizes);
            }
        }
    }
    if (HALVES) {
        i_2 = lid;
        uint2 loop_bound_10 = uint2(4294967295u);
        bool loop_init_10 = true;
        while(true) {
            if (metal::all(loop_bound_10 == uint2(0u))) { break; }
            loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
            if (!loop_init_10) {
                uint _e110 = i_2;
                i_2 = _e110 + WG;
            }
            loop_init_10 = false;
            uint _e63 = i_2;
            if (_e63 < 48u) {
            } else {
                break;
            }
            {
                uint _e67 = i_2;
                uint _e70 = i_2;
                metal::uint2 at_2 = metal::uint2(2u * _e67, (2u * _e70) + 1u);
                float _e79 = x_at((row_7 * K) + at_2.x, x_13, _buffer_sizes);
                float _e81 = norm_at(at_2.x, norm, _buffer_sizes);
                float _e87 = x_at((row_7 * K) + at_2.y, x_13, _buffer_sizes);
                float _e89 = norm_at(at_2.y, norm, _buffer_sizes);
                float _e92 = factor;
                metal::float2 x_14 = metal::float2(_e79 * _e81, _e87 * _e89) * _e92;
                metal::float2 near = metal::clamp(x_14, metal::float2(-65504.0), metal::float2(65504.0));
                uint _e101 = i_2;
                uint _e104 = f16_bits(near.x);
                uint _e106 = f16_bits(near.y);
                put_halves((row_7 * 48u) + _e101, _e104 | (_e106 << 16u));
            }
        }
    }
    if (ROUNDED) {
        block = lid;
        uint2 loop_bound_11 = uint2(4294967295u);
        bool loop_init_11 = true;
        while(true) {
            if (metal::all(loop_bound_11 == uint2(0u))) { break; }
            loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
            if (!loop_init_11) {
                uint _e120 = block;
                block = _e120 + WG;
            }
            loop_init_11 = false;
            uint _e115 = block;
            if (_e115 < 3u) {
            } else {
                break;
            }
            {
                uint _e118 = block;
                float _e119 = factor;
                round_block(row_7, _e118, _e119, x_13, norm, rounded, _buffer_sizes);
            }
        }
        return;
    } else {
        return;
    }
}
