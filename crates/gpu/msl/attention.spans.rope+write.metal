// For the case "all with a gate apart and a mask, one, f16".
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
    uint size9;
    uint size12;
    uint size13;
    uint size15;
    uint size18;
    uint size19;
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
struct type_6 {
    float inner[8];
};
typedef float type_7[1];
struct type_8 {
    float inner[64];
};
typedef metal::uint4 type_10[1];
struct type_11 {
    float inner[2];
};
struct type_12 {
    uint inner[32];
};
typedef metal::atomic_uint type_14[1];
struct type_15 {
    float inner[1056];
};
struct type_16 {
    metal::float4 inner[128];
};
struct type_18 {
    metal::float4 inner[16];
};
struct type_19 {
    Eight inner[1];
};
struct Mix {
    float largest;
    float sum;
    char _pad2[8];
    type_19 mix;
};
struct Vectors {
    type_19 k;
    type_19 v;
};
constant uint WG = 256u;
constant uint SPAN = 8u;
constant uint EIGHTS = 1u;
constant uint SPLITS = 16u;
constant uint HEADS = 4u;
constant uint GROUP = 2u;
constant uint Q_STRIDE = 64u;
constant uint WINDOW = 0u;
constant uint OWN = 1u;
constant float SCALE = 0.125;
constant float SOFTCAP = 0.0;
constant bool GATE = true;
constant uint LANES = 32u;
constant uint q_DIM = 64u;
constant bool q_NORM = true;
constant float q_EPS = 0.000001;
constant uint q_PAIRS = 32u;
constant bool q_NEOX = true;
constant uint q_TABLE = 0u;
constant uint kc_DIM = 64u;
constant uint kc_HEADS = 2u;
constant uint kc_BYTES = 128u;
constant uint kc_KIND = 1u;
constant uint vc_DIM = 64u;
constant uint vc_HEADS = 2u;
constant uint vc_BYTES = 128u;
constant uint vc_KIND = 1u;
constant uint k_DIM = 64u;
constant bool k_NORM = true;
constant float k_EPS = 0.000001;
constant uint k_PAIRS = 32u;
constant bool k_NEOX = true;
constant uint k_TABLE = 0u;
constant uint PIECE = 66u;
constant uint PARTS = 8u;
constant uint FOURS = 16u;
constant uint KEYS = 32u;
constant float NONE = -300000000000000000000000000000000000000.0;
constant uint CHUNK = 512u;

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
    uint i_1,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = batch[10];
    uint _e7 = batch[_e4 + i_1];
    return _e7;
}

uint batch_history(
    uint seq_3,
    uint i_2,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = batch[11];
    uint _e7 = batch_span(seq_3, 13u, batch, _buffer_sizes);
    uint _e11 = batch[(_e5 + _e7) + i_2];
    return _e11;
}

float batch_cos(
    uint table,
    uint row_3,
    uint pairs,
    uint i_3,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table];
    uint _e16 = batch[(_e9 + ((row_3 * 2u) * pairs)) + i_3];
    return as_type<float>(_e16);
}

float batch_sin(
    uint table_1,
    uint row_4,
    uint pairs_1,
    uint i_4,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table_1];
    uint _e17 = batch[((_e9 + ((row_4 * 2u) * pairs_1)) + pairs_1) + i_4];
    return as_type<float>(_e17);
}

float sigmoid(
    float x_1
) {
    return 1.0 / (1.0 + metal::exp(metal::min(-(x_1), 80.0)));
}

float silu(
    float x_2
) {
    return x_2 / (1.0 + metal::exp(metal::min(-(x_2), 80.0)));
}

float tanh_clamped(
    float x_3
) {
    return 1.0 - (2.0 / (metal::exp(2.0 * metal::clamp(x_3, -15.0, 15.0)) + 1.0));
}

float gelu_tanh(
    float x_4
) {
    float _e10 = tanh_clamped(0.7978846 * (x_4 + (((0.044715 * x_4) * x_4) * x_4)));
    return (0.5 * x_4) * (1.0 + _e10);
}

float softplus(
    float x_5
) {
    return metal::max(x_5, 0.0) + metal::log(1.0 + metal::exp(-(metal::abs(x_5))));
}

float divide(
    float a_1,
    float b_1
) {
    float q_1 = a_1 / b_1;
    return metal::fma(metal::fma(-(q_1), b_1, a_1), 1.0 / b_1, q_1);
}

uint f16_bits(
    float x_6
) {
    uint u_1 = as_type<uint>(x_6);
    uint sign = (u_1 >> 16u) & 32768u;
    uint m_1 = u_1 & 2147483647u;
    if (m_1 >= 2139095040u) {
        return sign | ((m_1 > 2139095040u) ? 32256u : 31744u);
    }
    if (m_1 >= 1199566848u) {
        return sign | 31744u;
    }
    if (m_1 < 947912704u) {
        return sign | (as_type<uint>(as_type<float>(m_1) + 0.5) - 1056964608u);
    }
    return sign | ((((m_1 + 4095u) + ((m_1 >> 13u) & 1u)) - 939524096u) >> 13u);
}

metal::float2 unpack_bf16_(
    uint u
) {
    return metal::float2(as_type<float>(u << 16u), as_type<float>(u & 4294901760u));
}

float lanes_sum(
    float x_7,
    uint lid_1
) {
    float sum = {};
    uint n_3 = 16u;
    sum = x_7;
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e13 = n_3;
            n_3 = naga_div(_e13, 2u);
        }
        loop_init = false;
        uint _e5 = n_3;
        if (_e5 > 0u) {
        } else {
            break;
        }
        {
            float _e8 = sum;
            float _e9 = sum;
            uint _e10 = n_3;
            float unnamed = metal::simd_shuffle_xor(_e9, _e10);
            sum = _e8 + unnamed;
        }
    }
    float _e16 = sum;
    return _e16;
}

float workgroup_sum(
    float x_8,
    uint lid_2,
    threadgroup type_6& reduce_part
) {
    float sum_1 = 0.0;
    uint i_5 = 0u;
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
            uint _e25 = i_5;
            i_5 = _e25 + 1u;
        }
        loop_init_1 = false;
        uint _e15 = i_5;
        if (_e15 < 8u) {
        } else {
            break;
        }
        {
            float _e18 = sum_1;
            uint _e20 = i_5;
            float _e22 = reduce_part.inner[_e20];
            sum_1 = _e18 + _e22;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e27 = sum_1;
    return _e27;
}

float workgroup_max(
    float x_9,
    uint lid_3,
    threadgroup type_6& reduce_part
) {
    float part = {};
    uint n_4 = 16u;
    float largest = {};
    uint i_6 = 1u;
    part = x_9;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e13 = n_4;
            n_4 = naga_div(_e13, 2u);
        }
        loop_init_2 = false;
        uint _e5 = n_4;
        if (_e5 > 0u) {
        } else {
            break;
        }
        {
            float _e8 = part;
            float _e9 = part;
            uint _e10 = n_4;
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
            uint _e41 = i_6;
            i_6 = _e41 + 1u;
        }
        loop_init_3 = false;
        uint _e31 = i_6;
        if (_e31 < 8u) {
        } else {
            break;
        }
        {
            float _e34 = largest;
            uint _e36 = i_6;
            float _e38 = reduce_part.inner[_e36];
            largest = metal::max(_e34, _e38);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e43 = largest;
    return _e43;
}

float q_x_at(
    uint i_7,
    device type_7 const& q_x,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = q_x[i_7];
    return _e3;
}

float q_norm_at(
    uint i_8,
    device type_7 const& q_norm,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = q_norm[i_8];
    return _e3;
}

void q_load(
    uint from_2,
    uint lid_4,
    threadgroup type_6& reduce_part,
    device type_7 const& q_x,
    device type_7 const& q_norm,
    threadgroup type_8& q_head,
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
        if (_e5 < q_DIM) {
        } else {
            break;
        }
        {
            uint _e8 = d_2;
            float _e10 = q_x_at(from_2 + _e8, q_x, _buffer_sizes);
            uint _e12 = d_2;
            q_head.inner[_e12] = _e10;
            float _e14 = sum_2;
            sum_2 = _e14 + (_e10 * _e10);
        }
    }
    if (q_NORM) {
        float _e21 = sum_2;
        float _e22 = workgroup_sum(_e21, lid_4, reduce_part);
        float factor = metal::rsqrt((_e22 / 64.0) + q_EPS);
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
            if (_e29 < q_DIM) {
            } else {
                break;
            }
            {
                uint _e33 = d_3;
                float _e35 = q_head.inner[_e33];
                uint _e36 = d_3;
                float _e37 = q_norm_at(_e36, q_norm, _buffer_sizes);
                q_head.inner[_e33] = _e35 * (factor * _e37);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

float q_rotated(
    uint row_5,
    uint d_4,
    device type_1 const& batch,
    threadgroup type_8& q_head,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (d_4 >= 64u) {
        float _e6 = q_head.inner[d_4];
        return _e6;
    }
    bool second = q_NEOX ? (d_4 >= q_PAIRS) : (naga_mod(d_4, 2u) == 1u);
    uint pair = q_NEOX ? naga_mod(d_4, 32u) : naga_div(d_4, 2u);
    float _e23 = batch_cos(q_TABLE, row_5, q_PAIRS, pair, batch, _buffer_sizes);
    float _e26 = batch_sin(q_TABLE, row_5, q_PAIRS, pair, batch, _buffer_sizes);
    float a_3 = q_head.inner[q_NEOX ? pair : (2u * pair)];
    float b_5 = q_head.inner[q_NEOX ? (pair + q_PAIRS) : ((2u * pair) + 1u)];
    return second ? ((a_3 * _e26) + (b_5 * _e23)) : ((a_3 * _e23) - (b_5 * _e26));
}

float joint_at(
    uint i_9,
    device type_7 const& joint,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = joint[i_9];
    return _e3;
}

uint kc_word(
    uint i_10,
    device type_10 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = kc[i_10 >> 2u][i_10 & 3u];
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
    uint i_11,
    device type_10 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = {};
    if (false) {
        uint word_9 = naga_div(at, 4u) + (4u * i_11);
        uint _e8 = kc_word(word_9, kc, _buffer_sizes);
        uint _e11 = kc_word(word_9 + 1u, kc, _buffer_sizes);
        uint _e14 = kc_word(word_9 + 2u, kc, _buffer_sizes);
        uint _e17 = kc_word(word_9 + 3u, kc, _buffer_sizes);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (true) {
        uint word_10 = naga_div(at, 4u) + (2u * i_11);
        uint _e26 = kc_word(word_10, kc, _buffer_sizes);
        uint _e30 = kc_word(word_10 + 1u, kc, _buffer_sizes);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block_2 = at + (naga_div(i_11, 8u) * 34u);
    uint _e40 = kc_word(block_2 >> 2u, kc, _buffer_sizes);
    float scale = float2(as_type<half2>((_e40 >> (8u * (block_2 & 2u))))).x;
    uint code_2 = (block_2 + 2u) + (4u * naga_mod(i_11, 8u));
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
    uint i_12,
    device type_10 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 v_1 = kc[naga_div(at_1, 16u) + i_12];
    return Eight {metal::float4(float2(as_type<half2>(v_1.x)), float2(as_type<half2>(v_1.y))), metal::float4(float2(as_type<half2>(v_1.z)), float2(as_type<half2>(v_1.w)))};
}

void kc_put(
    uint i_13,
    uint word_1,
    uint mask,
    device type_10& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    kc[i_13 >> 2u][i_13 & 3u] = word_1;
    return;
}

void kc_prepare(
    uint lid_5,
    threadgroup type_8& kc_numbers,
    threadgroup type_11& kc_scale
) {
    uint block = {};
    float largest_1 = {};
    uint i_14 = {};
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
                i_14 = 0u;
                uint2 loop_bound_7 = uint2(4294967295u);
                bool loop_init_7 = true;
                while(true) {
                    if (metal::all(loop_bound_7 == uint2(0u))) { break; }
                    loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
                    if (!loop_init_7) {
                        uint _e25 = i_14;
                        i_14 = _e25 + 1u;
                    }
                    loop_init_7 = false;
                    uint _e10 = i_14;
                    if (_e10 < 32u) {
                    } else {
                        break;
                    }
                    {
                        float _e13 = largest_1;
                        uint _e15 = block;
                        uint _e18 = i_14;
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
    uint i_15,
    threadgroup type_8& kc_numbers,
    threadgroup type_11& kc_scale
) {
    float code = {};
    float scale_1 = kc_scale.inner[naga_div(i_15, 34u)];
    if (naga_mod(i_15, 34u) < 2u) {
        uint _e10 = f16_bits(scale_1);
        return (_e10 >> (8u * naga_mod(i_15, 34u))) & 255u;
    }
    if (scale_1 == 0.0) {
        return 0u;
    }
    float _e32 = kc_numbers.inner[((naga_div(i_15, 34u) * 32u) + naga_mod(i_15, 34u)) - 2u];
    float _e34 = divide(1.0, scale_1);
    float y_1 = _e32 * _e34;
    code = metal::rint(y_1);
    float _e38 = code;
    if (metal::abs(y_1 - _e38) == 0.5) {
        code = y_1 + (0.5 * metal::sign(y_1));
    }
    float _e47 = code;
    return static_cast<uint>(naga_f2i32(metal::clamp(_e47, -127.0, 127.0))) & 255u;
}

uint kc_encoded(
    uint i_16,
    threadgroup type_8& kc_numbers,
    threadgroup type_11& kc_scale
) {
    uint word_2 = 0u;
    uint b_2 = 0u;
    if (false) {
        float _e4 = kc_numbers.inner[i_16];
        return as_type<uint>(_e4);
    }
    if (true) {
        float _e11 = kc_numbers.inner[2u * i_16];
        uint _e12 = f16_bits(_e11);
        float _e19 = kc_numbers.inner[(2u * i_16) + 1u];
        uint _e20 = f16_bits(_e19);
        return _e12 | (_e20 << 16u);
    }
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e49 = b_2;
            b_2 = _e49 + 1u;
        }
        loop_init_8 = false;
        uint _e28 = b_2;
        if (_e28 < 4u) {
        } else {
            break;
        }
        {
            uint _e33 = b_2;
            if (((4u * i_16) + _e33) < kc_BYTES) {
                uint _e37 = word_2;
                uint _e40 = b_2;
                uint _e42 = kc_byte((4u * i_16) + _e40, kc_numbers, kc_scale);
                uint _e44 = b_2;
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
    threadgroup type_11& kc_scale,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_17 = {};
    i_17 = lid_6;
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e46 = i_17;
            i_17 = _e46 + WG;
        }
        loop_init_9 = false;
        uint _e3 = i_17;
        if (_e3 < 32u) {
        } else {
            break;
        }
        {
            uint _e6 = i_17;
            uint _e7 = kc_encoded(_e6, kc_numbers, kc_scale);
            uint _e11 = i_17;
            uint bytes = metal::min(4u, kc_BYTES - (4u * _e11));
            if ((at_2 & 2u) == 0u) {
                uint _e21 = i_17;
                kc_put(naga_div(at_2, 4u) + _e21, _e7, (bytes == 2u) ? 65535u : 4294967295u, kc, _buffer_sizes);
            } else {
                uint _e30 = i_17;
                kc_put(naga_div(at_2, 4u) + _e30, _e7 << 16u, 4294901760u, kc, _buffer_sizes);
                if (bytes == 4u) {
                    uint _e39 = i_17;
                    kc_put((naga_div(at_2, 4u) + _e39) + 1u, _e7 >> 16u, 65535u, kc, _buffer_sizes);
                }
            }
        }
    }
    return;
}

uint vc_word(
    uint i_18,
    device type_10 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = vc[i_18 >> 2u][i_18 & 3u];
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
    uint i_19,
    device type_10 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_3 = {};
    if (false) {
        uint word_11 = naga_div(at_3, 4u) + (4u * i_19);
        uint _e8 = vc_word(word_11, vc, _buffer_sizes);
        uint _e11 = vc_word(word_11 + 1u, vc, _buffer_sizes);
        uint _e14 = vc_word(word_11 + 2u, vc, _buffer_sizes);
        uint _e17 = vc_word(word_11 + 3u, vc, _buffer_sizes);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (true) {
        uint word_12 = naga_div(at_3, 4u) + (2u * i_19);
        uint _e26 = vc_word(word_12, vc, _buffer_sizes);
        uint _e30 = vc_word(word_12 + 1u, vc, _buffer_sizes);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block_3 = at_3 + (naga_div(i_19, 8u) * 34u);
    uint _e40 = vc_word(block_3 >> 2u, vc, _buffer_sizes);
    float scale_2 = float2(as_type<half2>((_e40 >> (8u * (block_3 & 2u))))).x;
    uint code_3 = (block_3 + 2u) + (4u * naga_mod(i_19, 8u));
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
    uint i_20,
    device type_10 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 v_2 = vc[naga_div(at_4, 16u) + i_20];
    return Eight {metal::float4(float2(as_type<half2>(v_2.x)), float2(as_type<half2>(v_2.y))), metal::float4(float2(as_type<half2>(v_2.z)), float2(as_type<half2>(v_2.w)))};
}

void vc_put(
    uint i_21,
    uint word_4,
    uint mask_1,
    device type_10& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    vc[i_21 >> 2u][i_21 & 3u] = word_4;
    return;
}

void vc_prepare(
    uint lid_7,
    threadgroup type_8& vc_numbers,
    threadgroup type_11& vc_scale
) {
    uint block_1 = {};
    float largest_2 = {};
    uint i_22 = {};
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
                i_22 = 0u;
                uint2 loop_bound_11 = uint2(4294967295u);
                bool loop_init_11 = true;
                while(true) {
                    if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                    loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                    if (!loop_init_11) {
                        uint _e25 = i_22;
                        i_22 = _e25 + 1u;
                    }
                    loop_init_11 = false;
                    uint _e10 = i_22;
                    if (_e10 < 32u) {
                    } else {
                        break;
                    }
                    {
                        float _e13 = largest_2;
                        uint _e15 = block_1;
                        uint _e18 = i_22;
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
    uint i_23,
    threadgroup type_8& vc_numbers,
    threadgroup type_11& vc_scale
) {
    float code_1 = {};
    float scale_3 = vc_scale.inner[naga_div(i_23, 34u)];
    if (naga_mod(i_23, 34u) < 2u) {
        uint _e10 = f16_bits(scale_3);
        return (_e10 >> (8u * naga_mod(i_23, 34u))) & 255u;
    }
    if (scale_3 == 0.0) {
        return 0u;
    }
    float _e32 = vc_numbers.inner[((naga_div(i_23, 34u) * 32u) + naga_mod(i_23, 34u)) - 2u];
    float _e34 = divide(1.0, scale_3);
    float y_2 = _e32 * _e34;
    code_1 = metal::rint(y_2);
    float _e38 = code_1;
    if (metal::abs(y_2 - _e38) == 0.5) {
        code_1 = y_2 + (0.5 * metal::sign(y_2));
    }
    float _e47 = code_1;
    return static_cast<uint>(naga_f2i32(metal::clamp(_e47, -127.0, 127.0))) & 255u;
}

uint vc_encoded(
    uint i_24,
    threadgroup type_8& vc_numbers,
    threadgroup type_11& vc_scale
) {
    uint word_5 = 0u;
    uint b_3 = 0u;
    if (false) {
        float _e4 = vc_numbers.inner[i_24];
        return as_type<uint>(_e4);
    }
    if (true) {
        float _e11 = vc_numbers.inner[2u * i_24];
        uint _e12 = f16_bits(_e11);
        float _e19 = vc_numbers.inner[(2u * i_24) + 1u];
        uint _e20 = f16_bits(_e19);
        return _e12 | (_e20 << 16u);
    }
    uint2 loop_bound_12 = uint2(4294967295u);
    bool loop_init_12 = true;
    while(true) {
        if (metal::all(loop_bound_12 == uint2(0u))) { break; }
        loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
        if (!loop_init_12) {
            uint _e49 = b_3;
            b_3 = _e49 + 1u;
        }
        loop_init_12 = false;
        uint _e28 = b_3;
        if (_e28 < 4u) {
        } else {
            break;
        }
        {
            uint _e33 = b_3;
            if (((4u * i_24) + _e33) < vc_BYTES) {
                uint _e37 = word_5;
                uint _e40 = b_3;
                uint _e42 = vc_byte((4u * i_24) + _e40, vc_numbers, vc_scale);
                uint _e44 = b_3;
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
    threadgroup type_11& vc_scale,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_25 = {};
    i_25 = lid_8;
    uint2 loop_bound_13 = uint2(4294967295u);
    bool loop_init_13 = true;
    while(true) {
        if (metal::all(loop_bound_13 == uint2(0u))) { break; }
        loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
        if (!loop_init_13) {
            uint _e46 = i_25;
            i_25 = _e46 + WG;
        }
        loop_init_13 = false;
        uint _e3 = i_25;
        if (_e3 < 32u) {
        } else {
            break;
        }
        {
            uint _e6 = i_25;
            uint _e7 = vc_encoded(_e6, vc_numbers, vc_scale);
            uint _e11 = i_25;
            uint bytes_1 = metal::min(4u, vc_BYTES - (4u * _e11));
            if ((at_5 & 2u) == 0u) {
                uint _e21 = i_25;
                vc_put(naga_div(at_5, 4u) + _e21, _e7, (bytes_1 == 2u) ? 65535u : 4294967295u, vc, _buffer_sizes);
            } else {
                uint _e30 = i_25;
                vc_put(naga_div(at_5, 4u) + _e30, _e7 << 16u, 4294901760u, vc, _buffer_sizes);
                if (bytes_1 == 4u) {
                    uint _e39 = i_25;
                    vc_put((naga_div(at_5, 4u) + _e39) + 1u, _e7 >> 16u, 65535u, vc, _buffer_sizes);
                }
            }
        }
    }
    return;
}

float k_x_at(
    uint i_26,
    device type_7 const& k_x,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = k_x[i_26];
    return _e3;
}

float k_norm_at(
    uint i_27,
    device type_7 const& k_norm,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = k_norm[i_27];
    return _e3;
}

void k_load(
    uint from_3,
    uint lid_9,
    threadgroup type_6& reduce_part,
    device type_7 const& k_x,
    device type_7 const& k_norm,
    threadgroup type_8& k_head,
    constant _mslBufferSizes& _buffer_sizes
) {
    float sum_3 = 0.0;
    uint d_5 = {};
    uint d_6 = {};
    d_5 = lid_9;
    uint2 loop_bound_14 = uint2(4294967295u);
    bool loop_init_14 = true;
    while(true) {
        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
        if (!loop_init_14) {
            uint _e17 = d_5;
            d_5 = _e17 + WG;
        }
        loop_init_14 = false;
        uint _e5 = d_5;
        if (_e5 < k_DIM) {
        } else {
            break;
        }
        {
            uint _e8 = d_5;
            float _e10 = k_x_at(from_3 + _e8, k_x, _buffer_sizes);
            uint _e12 = d_5;
            k_head.inner[_e12] = _e10;
            float _e14 = sum_3;
            sum_3 = _e14 + (_e10 * _e10);
        }
    }
    if (k_NORM) {
        float _e21 = sum_3;
        float _e22 = workgroup_sum(_e21, lid_9, reduce_part);
        float factor_1 = metal::rsqrt((_e22 / 64.0) + k_EPS);
        d_6 = lid_9;
        uint2 loop_bound_15 = uint2(4294967295u);
        bool loop_init_15 = true;
        while(true) {
            if (metal::all(loop_bound_15 == uint2(0u))) { break; }
            loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
            if (!loop_init_15) {
                uint _e40 = d_6;
                d_6 = _e40 + WG;
            }
            loop_init_15 = false;
            uint _e29 = d_6;
            if (_e29 < k_DIM) {
            } else {
                break;
            }
            {
                uint _e33 = d_6;
                float _e35 = k_head.inner[_e33];
                uint _e36 = d_6;
                float _e37 = k_norm_at(_e36, k_norm, _buffer_sizes);
                k_head.inner[_e33] = _e35 * (factor_1 * _e37);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

float k_rotated(
    uint row_6,
    uint d_7,
    device type_1 const& batch,
    threadgroup type_8& k_head,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (d_7 >= 64u) {
        float _e6 = k_head.inner[d_7];
        return _e6;
    }
    bool second_1 = k_NEOX ? (d_7 >= k_PAIRS) : (naga_mod(d_7, 2u) == 1u);
    uint pair_1 = k_NEOX ? naga_mod(d_7, 32u) : naga_div(d_7, 2u);
    float _e23 = batch_cos(k_TABLE, row_6, k_PAIRS, pair_1, batch, _buffer_sizes);
    float _e26 = batch_sin(k_TABLE, row_6, k_PAIRS, pair_1, batch, _buffer_sizes);
    float a_4 = k_head.inner[k_NEOX ? pair_1 : (2u * pair_1)];
    float b_6 = k_head.inner[k_NEOX ? (pair_1 + k_PAIRS) : ((2u * pair_1) + 1u)];
    return second_1 ? ((a_4 * _e26) + (b_6 * _e23)) : ((a_4 * _e23) - (b_6 * _e26));
}

float v_at(
    uint i_28,
    device type_7 const& v,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = v[i_28];
    return _e3;
}

uint own_k_word(
    uint i_29,
    threadgroup type_12& own_k_words
) {
    uint _e3 = own_k_words.inner[i_29];
    return _e3;
}

metal::float4 own_k_four(
    uint at_6,
    uint i_30,
    threadgroup type_12& own_k_words
) {
    uint word_6 = {};
    if (false) {
        uint word_13 = naga_div(at_6, 4u) + (4u * i_30);
        uint _e8 = own_k_word(word_13, own_k_words);
        uint _e11 = own_k_word(word_13 + 1u, own_k_words);
        uint _e14 = own_k_word(word_13 + 2u, own_k_words);
        uint _e17 = own_k_word(word_13 + 3u, own_k_words);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (true) {
        uint word_14 = naga_div(at_6, 4u) + (2u * i_30);
        uint _e26 = own_k_word(word_14, own_k_words);
        uint _e30 = own_k_word(word_14 + 1u, own_k_words);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block_4 = at_6 + (naga_div(i_30, 8u) * 34u);
    uint _e40 = own_k_word(block_4 >> 2u, own_k_words);
    float scale_4 = float2(as_type<half2>((_e40 >> (8u * (block_4 & 2u))))).x;
    uint code_4 = (block_4 + 2u) + (4u * naga_mod(i_30, 8u));
    uint _e57 = own_k_word(code_4 >> 2u, own_k_words);
    word_6 = _e57;
    if ((code_4 & 2u) != 0u) {
        uint _e63 = word_6;
        uint _e70 = own_k_word((code_4 >> 2u) + 1u, own_k_words);
        word_6 = (_e63 >> 16u) | (_e70 << 16u);
    }
    uint _e74 = word_6;
    return static_cast<metal::float4>(int4(as_type<packed_char4>(_e74))) * scale_4;
}

Eight own_k_eight(
    uint at_7,
    uint i_31,
    threadgroup type_12& own_k_words
) {
    metal::float4 _e4 = own_k_four(at_7, 2u * i_31, own_k_words);
    metal::float4 _e9 = own_k_four(at_7, (2u * i_31) + 1u, own_k_words);
    return Eight {_e4, _e9};
}

uint own_v_word(
    uint i_32,
    threadgroup type_12& own_v_words
) {
    uint _e3 = own_v_words.inner[i_32];
    return _e3;
}

metal::float4 own_v_four(
    uint at_8,
    uint i_33,
    threadgroup type_12& own_v_words
) {
    uint word_7 = {};
    if (false) {
        uint word_15 = naga_div(at_8, 4u) + (4u * i_33);
        uint _e8 = own_v_word(word_15, own_v_words);
        uint _e11 = own_v_word(word_15 + 1u, own_v_words);
        uint _e14 = own_v_word(word_15 + 2u, own_v_words);
        uint _e17 = own_v_word(word_15 + 3u, own_v_words);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (true) {
        uint word_16 = naga_div(at_8, 4u) + (2u * i_33);
        uint _e26 = own_v_word(word_16, own_v_words);
        uint _e30 = own_v_word(word_16 + 1u, own_v_words);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block_5 = at_8 + (naga_div(i_33, 8u) * 34u);
    uint _e40 = own_v_word(block_5 >> 2u, own_v_words);
    float scale_5 = float2(as_type<half2>((_e40 >> (8u * (block_5 & 2u))))).x;
    uint code_5 = (block_5 + 2u) + (4u * naga_mod(i_33, 8u));
    uint _e57 = own_v_word(code_5 >> 2u, own_v_words);
    word_7 = _e57;
    if ((code_5 & 2u) != 0u) {
        uint _e63 = word_7;
        uint _e70 = own_v_word((code_5 >> 2u) + 1u, own_v_words);
        word_7 = (_e63 >> 16u) | (_e70 << 16u);
    }
    uint _e74 = word_7;
    return static_cast<metal::float4>(int4(as_type<packed_char4>(_e74))) * scale_5;
}

Eight own_v_eight(
    uint at_9,
    uint i_34,
    threadgroup type_12& own_v_words
) {
    metal::float4 _e4 = own_v_four(at_9, 2u * i_34, own_v_words);
    metal::float4 _e9 = own_v_four(at_9, (2u * i_34) + 1u, own_v_words);
    return Eight {_e4, _e9};
}

void own(
    uint row_7,
    uint head_2,
    uint kv,
    uint seq_4,
    uint position_2,
    uint new_,
    uint lid_10,
    device type_1 const& batch,
    threadgroup type_6& reduce_part,
    device type_10& kc,
    threadgroup type_8& kc_numbers,
    threadgroup type_11& kc_scale,
    device type_10& vc,
    threadgroup type_8& vc_numbers,
    threadgroup type_11& vc_scale,
    device type_7 const& k_x,
    device type_7 const& k_norm,
    threadgroup type_8& k_head,
    device type_7 const& v,
    threadgroup type_12& own_k_words,
    threadgroup type_12& own_v_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_35 = 0u;
    uint d_8 = {};
    uint w = {};
    uint w_1 = {};
    bool local_3 = {};
    uint _e8 = batch_span(seq_4, 0u, batch, _buffer_sizes);
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e89 = i_35;
            i_35 = _e89 + 1u;
        }
        loop_init_16 = false;
        uint _e11 = i_35;
        if (_e11 <= (position_2 - new_)) {
        } else {
            break;
        }
        {
            uint _e14 = i_35;
            uint from_4 = (((_e8 + _e14) * kc_HEADS) * kc_DIM) + (kv * kc_DIM);
            k_load(from_4, lid_10, reduce_part, k_x, k_norm, k_head, _buffer_sizes);
            d_8 = lid_10;
            uint2 loop_bound_17 = uint2(4294967295u);
            bool loop_init_17 = true;
            while(true) {
                if (metal::all(loop_bound_17 == uint2(0u))) { break; }
                loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
                if (!loop_init_17) {
                    uint _e40 = d_8;
                    d_8 = _e40 + WG;
                }
                loop_init_17 = false;
                uint _e24 = d_8;
                if (_e24 < kc_DIM) {
                } else {
                    break;
                }
                {
                    uint _e28 = d_8;
                    uint _e30 = i_35;
                    uint _e32 = d_8;
                    float _e33 = k_rotated(_e8 + _e30, _e32, batch, k_head, _buffer_sizes);
                    kc_numbers.inner[_e28] = _e33;
                    uint _e35 = d_8;
                    uint _e37 = d_8;
                    float _e39 = v_at(from_4 + _e37, v, _buffer_sizes);
                    vc_numbers.inner[_e35] = _e39;
                }
            }
            kc_prepare(lid_10, kc_numbers, kc_scale);
            vc_prepare(lid_10, vc_numbers, vc_scale);
            w = lid_10;
            uint2 loop_bound_18 = uint2(4294967295u);
            bool loop_init_18 = true;
            while(true) {
                if (metal::all(loop_bound_18 == uint2(0u))) { break; }
                loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
                if (!loop_init_18) {
                    uint _e55 = w;
                    w = _e55 + WG;
                }
                loop_init_18 = false;
                uint _e45 = w;
                if (_e45 < 32u) {
                } else {
                    break;
                }
                {
                    uint _e48 = i_35;
                    uint _e50 = w;
                    uint _e53 = w;
                    uint _e54 = kc_encoded(_e53, kc_numbers, kc_scale);
                    own_k_words.inner[(_e48 * 32u) + _e50] = _e54;
                }
            }
            w_1 = lid_10;
            uint2 loop_bound_19 = uint2(4294967295u);
            bool loop_init_19 = true;
            while(true) {
                if (metal::all(loop_bound_19 == uint2(0u))) { break; }
                loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
                if (!loop_init_19) {
                    uint _e70 = w_1;
                    w_1 = _e70 + WG;
                }
                loop_init_19 = false;
                uint _e60 = w_1;
                if (_e60 < 32u) {
                } else {
                    break;
                }
                {
                    uint _e63 = i_35;
                    uint _e65 = w_1;
                    uint _e68 = w_1;
                    uint _e69 = vc_encoded(_e68, vc_numbers, vc_scale);
                    own_v_words.inner[(_e63 * 32u) + _e65] = _e69;
                }
            }
            uint _e73 = i_35;
            if ((_e8 + _e73) == row_7) {
                local_3 = naga_mod(head_2, GROUP) == 0u;
            } else {
                local_3 = false;
            }
            bool _e83 = local_3;
            if (_e83) {
                uint _e84 = batch_page(seq_4, position_2, batch, _buffer_sizes);
                uint _e85 = batch_page_offset(position_2, batch, _buffer_sizes);
                uint _e86 = kc_at(_e84, kv, _e85, batch, _buffer_sizes);
                kc_store(_e86, lid_10, kc, kc_numbers, kc_scale, _buffer_sizes);
                uint _e87 = vc_at(_e84, kv, _e85, batch, _buffer_sizes);
                vc_store(_e87, lid_10, vc, vc_numbers, vc_scale, _buffer_sizes);
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    return;
}

metal::float4 own_key(
    uint i_36,
    uint four,
    threadgroup type_12& own_k_words
) {
    metal::float4 _e6 = own_k_four((i_36 * 32u) * 4u, four, own_k_words);
    return _e6;
}

metal::float4 own_value(
    uint i_37,
    uint four_1,
    threadgroup type_12& own_v_words
) {
    metal::float4 _e6 = own_v_four((i_37 * 32u) * 4u, four_1, own_v_words);
    return _e6;
}

Eight own_key_eight(
    uint i_38,
    uint eight,
    threadgroup type_12& own_k_words
) {
    Eight _e6 = own_k_eight((i_38 * 32u) * 4u, eight, own_k_words);
    return _e6;
}

Eight own_value_eight(
    uint i_39,
    uint eight_1,
    threadgroup type_12& own_v_words
) {
    Eight _e6 = own_v_eight((i_39 * 32u) * 4u, eight_1, own_v_words);
    return _e6;
}

void hand_over(
    uint at_10,
    uint bits,
    device type_14& zeros,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::atomic_store_explicit(&zeros[at_10], bits, metal::memory_order_relaxed);
    return;
}

void hand_over_float(
    uint at_11,
    float x_10,
    device type_14& zeros,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint bits_1 = as_type<uint>(x_10);
    hand_over(at_11, (bits_1 == 0u) ? 2147483648u : bits_1, zeros, _buffer_sizes);
    return;
}

uint taken(
    uint at_12,
    device type_14& zeros,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_8 = 0u;
    uint2 loop_bound_20 = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound_20 == uint2(0u))) { break; }
        loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
        uint _e6 = metal::atomic_exchange_explicit(&zeros[at_12], 0u, metal::memory_order_relaxed);
        word_8 = _e6;
        uint _e7 = word_8;
        if (_e7 != 0u) {
            break;
        }
    }
    uint _e10 = word_8;
    return _e10;
}

bool is_last(
    uint counter,
    uint n_5,
    uint lid_11,
    device type_14& zeros,
    threadgroup uint& meet_is_last,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    if (lid_11 == 0u) {
        uint _e8 = metal::atomic_fetch_add_explicit(&zeros[counter], 1u, metal::memory_order_relaxed);
        if (_e8 == (n_5 - 1u)) {
            metal::atomic_store_explicit(&zeros[counter], 0u, metal::memory_order_relaxed);
        }
        meet_is_last = (_e8 == (n_5 - 1u)) ? 1u : 0u;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e23 = meet_is_last;
    return _e23 == 1u;
}

metal::float3 merged(
    uint d_9,
    threadgroup type_6& part_largest,
    threadgroup type_6& part_sum,
    threadgroup type_16& part_mix
) {
    float largest_3 = {};
    uint i_40 = 1u;
    float x_11 = 0.0;
    float sum_4 = 0.0;
    uint i_41 = 0u;
    float _e3 = part_largest.inner[0];
    largest_3 = _e3;
    uint2 loop_bound_21 = uint2(4294967295u);
    bool loop_init_20 = true;
    while(true) {
        if (metal::all(loop_bound_21 == uint2(0u))) { break; }
        loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
        if (!loop_init_20) {
            uint _e17 = i_40;
            i_40 = _e17 + 1u;
        }
        loop_init_20 = false;
        uint _e7 = i_40;
        if (_e7 < PARTS) {
        } else {
            break;
        }
        {
            float _e10 = largest_3;
            uint _e12 = i_40;
            float _e14 = part_largest.inner[_e12];
            largest_3 = metal::max(_e10, _e14);
        }
    }
    uint2 loop_bound_22 = uint2(4294967295u);
    bool loop_init_21 = true;
    while(true) {
        if (metal::all(loop_bound_22 == uint2(0u))) { break; }
        loop_bound_22 -= uint2(loop_bound_22.y == 0u, 1u);
        if (!loop_init_21) {
            uint _e58 = i_41;
            i_41 = _e58 + 1u;
        }
        loop_init_21 = false;
        uint _e25 = i_41;
        if (_e25 < PARTS) {
        } else {
            break;
        }
        {
            uint _e29 = i_41;
            float _e31 = part_largest.inner[_e29];
            float _e32 = largest_3;
            float fade = metal::exp(_e31 - _e32);
            float _e35 = sum_4;
            uint _e37 = i_41;
            float _e39 = part_sum.inner[_e37];
            sum_4 = _e35 + (_e39 * fade);
            float _e42 = x_11;
            uint _e44 = i_41;
            float _e54 = part_mix.inner[(_e44 * FOURS) + naga_div(d_9, 4u)][naga_mod(d_9, 4u)];
            x_11 = _e42 + (_e54 * fade);
        }
    }
    float _e60 = x_11;
    float _e61 = sum_4;
    float _e62 = largest_3;
    return metal::float3(_e60, _e61, _e62);
}

bool meet(
    uint which,
    uint split,
    uint n_6,
    uint lid_12,
    device type_14& zeros,
    threadgroup uint& meet_is_last,
    threadgroup type_15& pieces,
    threadgroup type_6& part_largest,
    threadgroup type_6& part_sum,
    threadgroup type_16& part_mix,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint d_10 = {};
    uint i_42 = {};
    uint at_13 = which * 1057u;
    d_10 = lid_12;
    uint2 loop_bound_23 = uint2(4294967295u);
    bool loop_init_22 = true;
    while(true) {
        if (metal::all(loop_bound_23 == uint2(0u))) { break; }
        loop_bound_23 -= uint2(loop_bound_23.y == 0u, 1u);
        if (!loop_init_22) {
            uint _e41 = d_10;
            d_10 = _e41 + WG;
        }
        loop_init_22 = false;
        uint _e7 = d_10;
        if (_e7 < q_DIM) {
        } else {
            break;
        }
        {
            uint _e10 = d_10;
            metal::float3 _e11 = merged(_e10, part_largest, part_sum, part_mix);
            uint _e17 = d_10;
            hand_over_float(((at_13 + 1u) + (split * PIECE)) + _e17, _e11.x, zeros, _buffer_sizes);
            uint _e20 = d_10;
            if (_e20 == 0u) {
                hand_over_float(((at_13 + 1u) + (split * PIECE)) + q_DIM, _e11.y, zeros, _buffer_sizes);
                hand_over_float((((at_13 + 1u) + (split * PIECE)) + q_DIM) + 1u, _e11.z, zeros, _buffer_sizes);
            }
        }
    }
    bool _e44 = is_last(at_13, n_6, lid_12, zeros, meet_is_last, _buffer_sizes);
    if (!(_e44)) {
        return false;
    }
    i_42 = lid_12;
    uint2 loop_bound_24 = uint2(4294967295u);
    bool loop_init_23 = true;
    while(true) {
        if (metal::all(loop_bound_24 == uint2(0u))) { break; }
        loop_bound_24 -= uint2(loop_bound_24.y == 0u, 1u);
        if (!loop_init_23) {
            uint _e61 = i_42;
            i_42 = _e61 + WG;
        }
        loop_init_23 = false;
        uint _e48 = i_42;
        if (_e48 < (n_6 * PIECE)) {
        } else {
            break;
        }
        {
            uint _e53 = i_42;
            uint _e57 = i_42;
            uint _e59 = taken((at_13 + 1u) + _e57, zeros, _buffer_sizes);
            pieces.inner[_e53] = as_type<float>(_e59);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return true;
}

float met(
    uint d_11,
    uint n_7,
    threadgroup type_15& pieces
) {
    float largest_4 = {};
    uint i_43 = 1u;
    float x_12 = 0.0;
    float sum_5 = 0.0;
    uint i_44 = 0u;
    float _e4 = pieces.inner[65];
    largest_4 = _e4;
    uint2 loop_bound_25 = uint2(4294967295u);
    bool loop_init_24 = true;
    while(true) {
        if (metal::all(loop_bound_25 == uint2(0u))) { break; }
        loop_bound_25 -= uint2(loop_bound_25.y == 0u, 1u);
        if (!loop_init_24) {
            uint _e23 = i_43;
            i_43 = _e23 + 1u;
        }
        loop_init_24 = false;
        uint _e8 = i_43;
        if (_e8 < n_7) {
        } else {
            break;
        }
        {
            float _e10 = largest_4;
            uint _e12 = i_43;
            float _e20 = pieces.inner[((_e12 * PIECE) + q_DIM) + 1u];
            largest_4 = metal::max(_e10, _e20);
        }
    }
    uint2 loop_bound_26 = uint2(4294967295u);
    bool loop_init_25 = true;
    while(true) {
        if (metal::all(loop_bound_26 == uint2(0u))) { break; }
        loop_bound_26 -= uint2(loop_bound_26.y == 0u, 1u);
        if (!loop_init_25) {
            uint _e68 = i_44;
            i_44 = _e68 + 1u;
        }
        loop_init_25 = false;
        uint _e31 = i_44;
        if (_e31 < n_7) {
        } else {
            break;
        }
        {
            uint _e34 = i_44;
            float _e42 = pieces.inner[((_e34 * PIECE) + q_DIM) + 1u];
            float _e43 = largest_4;
            float fade_1 = metal::exp(_e42 - _e43);
            float _e46 = x_12;
            uint _e48 = i_44;
            float _e53 = pieces.inner[(_e48 * PIECE) + d_11];
            x_12 = _e46 + (_e53 * fade_1);
            float _e56 = sum_5;
            uint _e58 = i_44;
            float _e64 = pieces.inner[(_e58 * PIECE) + q_DIM];
            sum_5 = _e56 + (_e64 * fade_1);
        }
    }
    float _e70 = x_12;
    float _e71 = sum_5;
    return _e70 / _e71;
}

Vectors vectors(
    uint seq_5,
    uint kv_1,
    uint p,
    uint lane,
    device type_1 const& batch,
    device type_10 const& kc,
    device type_10 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    Vectors both = {};
    uint e_7 = 0u;
    uint _e4 = batch_page(seq_5, p, batch, _buffer_sizes);
    uint _e5 = batch_page_offset(p, batch, _buffer_sizes);
    uint _e6 = kc_at(_e4, kv_1, _e5, batch, _buffer_sizes);
    uint _e7 = vc_at(_e4, kv_1, _e5, batch, _buffer_sizes);
    uint2 loop_bound_27 = uint2(4294967295u);
    bool loop_init_26 = true;
    while(true) {
        if (metal::all(loop_bound_27 == uint2(0u))) { break; }
        loop_bound_27 -= uint2(loop_bound_27.y == 0u, 1u);
        if (!loop_init_26) {
            uint _e31 = e_7;
            e_7 = _e31 + 1u;
        }
        loop_init_26 = false;
        uint _e11 = e_7;
        if (_e11 < EIGHTS) {
        } else {
            break;
        }
        {
            uint _e15 = e_7;
            uint _e17 = e_7;
            Eight _e21 = kc_eight(_e6, lane + (_e17 * SPAN), kc, _buffer_sizes);
            both.k.inner[_e15] = _e21;
            uint _e23 = e_7;
            uint _e25 = e_7;
            Eight _e29 = vc_eight(_e7, lane + (_e25 * SPAN), vc, _buffer_sizes);
            both.v.inner[_e23] = _e29;
        }
    }
    Vectors _e33 = both;
    return _e33;
}

float dot8_(
    Eight a_2,
    Eight b_4
) {
    return metal::dot(a_2.a, b_4.a) + metal::dot(a_2.b, b_4.b);
}

float bend(
    float score_2
) {
    if (false) {
        float _e5 = tanh_clamped(score_2 / SOFTCAP);
        return SOFTCAP * _e5;
    }
    return score_2;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, device type_1 const& batch [[user(fake0)]]
, threadgroup type_6& reduce_part
, device type_7 const& q_x [[user(fake0)]]
, device type_7 const& q_norm [[user(fake0)]]
, threadgroup type_8& q_head
, device type_7 const& joint [[user(fake0)]]
, device type_10& kc [[user(fake0)]]
, threadgroup type_8& kc_numbers
, threadgroup type_11& kc_scale
, device type_10& vc [[user(fake0)]]
, threadgroup type_8& vc_numbers
, threadgroup type_11& vc_scale
, device type_7 const& k_x [[user(fake0)]]
, device type_7 const& k_norm [[user(fake0)]]
, threadgroup type_8& k_head
, device type_7 const& v [[user(fake0)]]
, threadgroup type_12& own_k_words
, threadgroup type_12& own_v_words
, device type_7& y [[user(fake0)]]
, device type_14& zeros [[user(fake0)]]
, threadgroup uint& meet_is_last
, threadgroup type_15& pieces
, threadgroup type_6& part_largest
, threadgroup type_6& part_sum
, threadgroup type_16& part_mix
, threadgroup type_18& query
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        reduce_part = {};
        q_head = {};
        kc_numbers = {};
        kc_scale = {};
        vc_numbers = {};
        vc_scale = {};
        k_head = {};
        own_k_words = {};
        own_v_words = {};
        meet_is_last = {};
        pieces = {};
        part_largest = {};
        part_sum = {};
        part_mix = {};
        query = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool local = {};
    uint i = {};
    type_19 q = {};
    uint e = 0u;
    Mix m = {};
    uint from = {};
    Vectors a = {};
    Vectors b = {};
    Vectors c = {};
    Vectors d = {};
    metal::float4 score = {};
    uint e_1 = {};
    uint n = {};
    uint e_2 = {};
    bool local_1 = {};
    uint from_1 = {};
    float score_1 = {};
    uint e_3 = {};
    uint n_1 = {};
    uint e_4 = {};
    uint n_2 = SPAN;
    uint e_5 = {};
    uint e_6 = 0u;
    bool local_2 = {};
    uint d_1 = {};
    float x = {};
    uint g = wid.x + (wid.y * nwg.x);
    uint _e8 = batch_t(batch, _buffer_sizes);
    if (g >= ((_e8 * HEADS) * SPLITS)) {
        return;
    }
    uint _e14 = batch_t(batch, _buffer_sizes);
    uint split_1 = naga_div(g, _e14 * HEADS);
    uint _e18 = batch_t(batch, _buffer_sizes);
    uint row_8 = naga_div(naga_mod(g, _e18 * HEADS), HEADS);
    uint head_3 = naga_mod(g, HEADS);
    uint kv_2 = naga_div(head_3, GROUP);
    uint _e28 = batch_seq(row_8, batch, _buffer_sizes);
    uint _e29 = batch_position(row_8, batch, _buffer_sizes);
    uint _e31 = batch_span(_e28, 2u, batch, _buffer_sizes);
    uint _e33 = batch_span(_e28, 1u, batch, _buffer_sizes);
    uint new_1 = _e31 - _e33;
    if (false) {
        local = (_e29 + 1u) > WINDOW;
    } else {
        local = false;
    }
    bool _e48 = local;
    uint first = _e48 ? ((_e29 + 1u) - WINDOW) : 0u;
    uint cached = metal::max(true ? new_1 : (_e29 + 1u), first);
    uint splits = metal::clamp(naga_div(((cached - first) + CHUNK) - 1u, CHUNK), 1u, SPLITS);
    if (split_1 >= splits) {
        return;
    }
    uint per = naga_div(((cached - first) + splits) - 1u, splits);
    uint begin = first + (split_1 * per);
    uint end = metal::min(cached, begin + per);
    if (split_1 == 0u) {
        own(row_8, head_3, kv_2, _e28, _e29, new_1, lid, batch, reduce_part, kc, kc_numbers, kc_scale, vc, vc_numbers, vc_scale, k_x, k_norm, k_head, v, own_k_words, own_v_words, _buffer_sizes);
    }
    q_load(((row_8 * HEADS) * Q_STRIDE) + (head_3 * Q_STRIDE), lid, reduce_part, q_x, q_norm, q_head, _buffer_sizes);
    i = lid;
    uint2 loop_bound_28 = uint2(4294967295u);
    bool loop_init_27 = true;
    while(true) {
        if (metal::all(loop_bound_28 == uint2(0u))) { break; }
        loop_bound_28 -= uint2(loop_bound_28.y == 0u, 1u);
        if (!loop_init_27) {
            uint _e107 = i;
            i = _e107 + WG;
        }
        loop_init_27 = false;
        uint _e85 = i;
        if (_e85 < FOURS) {
        } else {
            break;
        }
        {
            uint _e89 = i;
            uint d_12 = 4u * _e89;
            uint _e92 = i;
            float _e95 = q_rotated(row_8, d_12, batch, q_head, _buffer_sizes);
            float _e98 = q_rotated(row_8, d_12 + 1u, batch, q_head, _buffer_sizes);
            float _e101 = q_rotated(row_8, d_12 + 2u, batch, q_head, _buffer_sizes);
            float _e104 = q_rotated(row_8, d_12 + 3u, batch, q_head, _buffer_sizes);
            query.inner[_e92] = SCALE * metal::float4(_e95, _e98, _e101, _e104);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint lane_1 = naga_mod(lid, SPAN);
    uint mine = naga_div(lid, SPAN);
    uint2 loop_bound_29 = uint2(4294967295u);
    bool loop_init_28 = true;
    while(true) {
        if (metal::all(loop_bound_29 == uint2(0u))) { break; }
        loop_bound_29 -= uint2(loop_bound_29.y == 0u, 1u);
        if (!loop_init_28) {
            uint _e140 = e;
            e = _e140 + 1u;
        }
        loop_init_28 = false;
        uint _e117 = e;
        if (_e117 < EIGHTS) {
        } else {
            break;
        }
        {
            uint _e120 = e;
            uint i_45 = lane_1 + (_e120 * SPAN);
            uint _e124 = e;
            metal::float4 _e130 = query.inner[2u * i_45];
            metal::float4 _e137 = query.inner[(2u * i_45) + 1u];
            q.inner[_e124] = Eight {_e130, _e137};
        }
    }
    m.largest = NONE;
    from = begin;
    uint2 loop_bound_30 = uint2(4294967295u);
    bool loop_init_29 = true;
    while(true) {
        if (metal::all(loop_bound_30 == uint2(0u))) { break; }
        loop_bound_30 -= uint2(loop_bound_30.y == 0u, 1u);
        if (!loop_init_29) {
            uint _e380 = from;
            from = _e380 + 128u;
        }
        loop_init_29 = false;
        uint _e146 = from;
        if (_e146 < end) {
        } else {
            break;
        }
        {
            uint _e148 = from;
            metal::uint4 p_1 = metal::uint4(_e148 + mine) + metal::uint4(0u, 32u, 64u, 96u);
            metal::uint4 near = metal::min(p_1, metal::uint4(end - 1u));
            Vectors _e162 = vectors(_e28, kv_2, near.x, lane_1, batch, kc, vc, _buffer_sizes);
            a = _e162;
            Vectors _e165 = vectors(_e28, kv_2, near.y, lane_1, batch, kc, vc, _buffer_sizes);
            b = _e165;
            Vectors _e168 = vectors(_e28, kv_2, near.z, lane_1, batch, kc, vc, _buffer_sizes);
            c = _e168;
            Vectors _e171 = vectors(_e28, kv_2, near.w, lane_1, batch, kc, vc, _buffer_sizes);
            d = _e171;
            score = metal::float4(0.0);
            e_1 = 0u;
            uint2 loop_bound_31 = uint2(4294967295u);
            bool loop_init_30 = true;
            while(true) {
                if (metal::all(loop_bound_31 == uint2(0u))) { break; }
                loop_bound_31 -= uint2(loop_bound_31.y == 0u, 1u);
                if (!loop_init_30) {
                    uint _e217 = e_1;
                    e_1 = _e217 + 1u;
                }
                loop_init_30 = false;
                uint _e178 = e_1;
                if (_e178 < EIGHTS) {
                } else {
                    break;
                }
                {
                    metal::float4 _e181 = score;
                    uint _e182 = e_1;
                    Eight _e184 = q.inner[_e182];
                    uint _e186 = e_1;
                    Eight _e188 = a.k.inner[_e186];
                    float _e189 = dot8_(_e184, _e188);
                    uint _e190 = e_1;
                    Eight _e192 = q.inner[_e190];
                    uint _e194 = e_1;
                    Eight _e196 = b.k.inner[_e194];
                    float _e197 = dot8_(_e192, _e196);
                    uint _e198 = e_1;
                    Eight _e200 = q.inner[_e198];
                    uint _e202 = e_1;
                    Eight _e204 = c.k.inner[_e202];
                    float _e205 = dot8_(_e200, _e204);
                    uint _e206 = e_1;
                    Eight _e208 = q.inner[_e206];
                    uint _e210 = e_1;
                    Eight _e212 = d.k.inner[_e210];
                    float _e213 = dot8_(_e208, _e212);
                    score = _e181 + metal::float4(_e189, _e197, _e205, _e213);
                }
            }
            n = 4u;
            uint2 loop_bound_32 = uint2(4294967295u);
            bool loop_init_31 = true;
            while(true) {
                if (metal::all(loop_bound_32 == uint2(0u))) { break; }
                loop_bound_32 -= uint2(loop_bound_32.y == 0u, 1u);
                if (!loop_init_31) {
                    uint _e229 = n;
                    n = naga_div(_e229, 2u);
                }
                loop_init_31 = false;
                uint _e221 = n;
                if (_e221 > 0u) {
                } else {
                    break;
                }
                {
                    metal::float4 _e224 = score;
                    metal::float4 _e225 = score;
                    uint _e226 = n;
                    metal::float4 unnamed_2 = metal::simd_shuffle_xor(_e225, _e226);
                    score = _e224 + unnamed_2;
                }
            }
            metal::bool4 is_there = p_1 < metal::uint4(end);
            float _e237 = score.x;
            float _e238 = bend(_e237);
            float _e240 = score.y;
            float _e241 = bend(_e240);
            float _e243 = score.z;
            float _e244 = bend(_e243);
            float _e246 = score.w;
            float _e247 = bend(_e246);
            score = metal::select(metal::float4(-300000000000000000000000000000000000000.0), metal::float4(_e238, _e241, _e244, _e247), is_there);
            float _e251 = m.largest;
            float _e253 = score.x;
            float _e255 = score.y;
            float _e258 = score.z;
            float _e260 = score.w;
            float now = metal::max(_e251, metal::max(metal::max(_e253, _e255), metal::max(_e258, _e260)));
            float _e265 = m.largest;
            float fade_2 = metal::exp(_e265 - now);
            metal::float4 _e270 = score;
            metal::float4 w_2 = metal::select(metal::float4(0.0), metal::exp(_e270 - metal::float4(now)), is_there);
            m.largest = now;
            float _e278 = m.sum;
            m.sum = ((((_e278 * fade_2) + w_2.x) + w_2.y) + w_2.z) + w_2.w;
            e_2 = 0u;
            uint2 loop_bound_33 = uint2(4294967295u);
            bool loop_init_32 = true;
            while(true) {
                if (metal::all(loop_bound_33 == uint2(0u))) { break; }
                loop_bound_33 -= uint2(loop_bound_33.y == 0u, 1u);
                if (!loop_init_32) {
                    uint _e378 = e_2;
                    e_2 = _e378 + 1u;
                }
                loop_init_32 = false;
                uint _e290 = e_2;
                if (_e290 < EIGHTS) {
                } else {
                    break;
                }
                {
                    uint _e294 = e_2;
                    uint _e298 = e_2;
                    metal::float4 _e301 = m.mix.inner[_e298].a;
                    uint _e305 = e_2;
                    metal::float4 _e308 = a.v.inner[_e305].a;
                    uint _e313 = e_2;
                    metal::float4 _e316 = b.v.inner[_e313].a;
                    uint _e321 = e_2;
                    metal::float4 _e324 = c.v.inner[_e321].a;
                    uint _e329 = e_2;
                    metal::float4 _e332 = d.v.inner[_e329].a;
                    m.mix.inner[_e294].a = ((((_e301 * fade_2) + (w_2.x * _e308)) + (w_2.y * _e316)) + (w_2.z * _e324)) + (w_2.w * _e332);
                    uint _e336 = e_2;
                    uint _e340 = e_2;
                    metal::float4 _e343 = m.mix.inner[_e340].b;
                    uint _e347 = e_2;
                    metal::float4 _e350 = a.v.inner[_e347].b;
                    uint _e355 = e_2;
                    metal::float4 _e358 = b.v.inner[_e355].b;
                    uint _e363 = e_2;
                    metal::float4 _e366 = c.v.inner[_e363].b;
                    uint _e371 = e_2;
                    metal::float4 _e374 = d.v.inner[_e371].b;
                    m.mix.inner[_e336].b = ((((_e343 * fade_2) + (w_2.x * _e350)) + (w_2.y * _e358)) + (w_2.z * _e366)) + (w_2.w * _e374);
                }
            }
        }
    }
    if (true) {
        local_1 = split_1 == 0u;
    } else {
        local_1 = false;
    }
    bool _e389 = local_1;
    if (_e389) {
        from_1 = metal::max(first, new_1);
        uint2 loop_bound_34 = uint2(4294967295u);
        bool loop_init_33 = true;
        while(true) {
            if (metal::all(loop_bound_34 == uint2(0u))) { break; }
            loop_bound_34 -= uint2(loop_bound_34.y == 0u, 1u);
            if (!loop_init_33) {
                uint _e492 = from_1;
                from_1 = _e492 + KEYS;
            }
            loop_init_33 = false;
            uint _e392 = from_1;
            if (_e392 <= _e29) {
            } else {
                break;
            }
            {
                uint _e394 = from_1;
                uint p_2 = _e394 + mine;
                uint at_14 = metal::min(p_2, _e29) - new_1;
                score_1 = 0.0;
                e_3 = 0u;
                uint2 loop_bound_35 = uint2(4294967295u);
                bool loop_init_34 = true;
                while(true) {
                    if (metal::all(loop_bound_35 == uint2(0u))) { break; }
                    loop_bound_35 -= uint2(loop_bound_35.y == 0u, 1u);
                    if (!loop_init_34) {
                        uint _e417 = e_3;
                        e_3 = _e417 + 1u;
                    }
                    loop_init_34 = false;
                    uint _e402 = e_3;
                    if (_e402 < EIGHTS) {
                    } else {
                        break;
                    }
                    {
                        float _e405 = score_1;
                        uint _e406 = e_3;
                        Eight _e408 = q.inner[_e406];
                        uint _e409 = e_3;
                        Eight _e413 = own_key_eight(at_14, lane_1 + (_e409 * SPAN), own_k_words);
                        float _e414 = dot8_(_e408, _e413);
                        score_1 = _e405 + _e414;
                    }
                }
                n_1 = 4u;
                uint2 loop_bound_36 = uint2(4294967295u);
                bool loop_init_35 = true;
                while(true) {
                    if (metal::all(loop_bound_36 == uint2(0u))) { break; }
                    loop_bound_36 -= uint2(loop_bound_36.y == 0u, 1u);
                    if (!loop_init_35) {
                        uint _e429 = n_1;
                        n_1 = naga_div(_e429, 2u);
                    }
                    loop_init_35 = false;
                    uint _e421 = n_1;
                    if (_e421 > 0u) {
                    } else {
                        break;
                    }
                    {
                        float _e424 = score_1;
                        float _e425 = score_1;
                        uint _e426 = n_1;
                        float unnamed_3 = metal::simd_shuffle_xor(_e425, _e426);
                        score_1 = _e424 + unnamed_3;
                    }
                }
                float _e433 = score_1;
                float _e434 = bend(_e433);
                score_1 = (p_2 <= _e29) ? _e434 : NONE;
                float _e438 = m.largest;
                float _e439 = score_1;
                float now_1 = metal::max(_e438, _e439);
                float _e442 = m.largest;
                float fade_3 = metal::exp(_e442 - now_1);
                float _e445 = score_1;
                float w_3 = (p_2 <= _e29) ? metal::exp(_e445 - now_1) : 0.0;
                m.largest = now_1;
                float _e454 = m.sum;
                m.sum = (_e454 * fade_3) + w_3;
                e_4 = 0u;
                uint2 loop_bound_37 = uint2(4294967295u);
                bool loop_init_36 = true;
                while(true) {
                    if (metal::all(loop_bound_37 == uint2(0u))) { break; }
                    loop_bound_37 -= uint2(loop_bound_37.y == 0u, 1u);
                    if (!loop_init_36) {
                        uint _e490 = e_4;
                        e_4 = _e490 + 1u;
                    }
                    loop_init_36 = false;
                    uint _e459 = e_4;
                    if (_e459 < EIGHTS) {
                    } else {
                        break;
                    }
                    {
                        uint _e462 = e_4;
                        Eight _e466 = own_value_eight(at_14, lane_1 + (_e462 * SPAN), own_v_words);
                        uint _e468 = e_4;
                        uint _e471 = e_4;
                        metal::float4 _e474 = m.mix.inner[_e471].a;
                        uint _e480 = e_4;
                        metal::float4 _e483 = m.mix.inner[_e480].b;
                        m.mix.inner[_e468] = Eight {(_e474 * fade_3) + (w_3 * _e466.a), (_e483 * fade_3) + (w_3 * _e466.b)};
                    }
                }
            }
        }
    }
    uint2 loop_bound_38 = uint2(4294967295u);
    bool loop_init_37 = true;
    while(true) {
        if (metal::all(loop_bound_38 == uint2(0u))) { break; }
        loop_bound_38 -= uint2(loop_bound_38.y == 0u, 1u);
        if (!loop_init_37) {
            uint _e552 = n_2;
            n_2 = _e552 * 2u;
        }
        loop_init_37 = false;
        uint _e497 = n_2;
        if (_e497 < LANES) {
        } else {
            break;
        }
        {
            float _e501 = m.largest;
            float _e503 = m.largest;
            uint _e504 = n_2;
            float unnamed_4 = metal::simd_shuffle_xor(_e503, _e504);
            float now_2 = metal::max(_e501, unnamed_4);
            float _e508 = m.largest;
            float fade_4 = metal::exp(_e508 - now_2);
            m.largest = now_2;
            float _e513 = m.sum;
            m.sum = _e513 * fade_4;
            float _e516 = m.sum;
            float _e518 = m.sum;
            uint _e519 = n_2;
            float unnamed_5 = metal::simd_shuffle_xor(_e518, _e519);
            m.sum = _e516 + unnamed_5;
            e_5 = 0u;
            uint2 loop_bound_39 = uint2(4294967295u);
            bool loop_init_38 = true;
            while(true) {
                if (metal::all(loop_bound_39 == uint2(0u))) { break; }
                loop_bound_39 -= uint2(loop_bound_39.y == 0u, 1u);
                if (!loop_init_38) {
                    uint _e550 = e_5;
                    e_5 = _e550 + 1u;
                }
                loop_init_38 = false;
                uint _e524 = e_5;
                if (_e524 < EIGHTS) {
                } else {
                    break;
                }
                {
                    uint _e528 = e_5;
                    metal::float4 _e531 = m.mix.inner[_e528].a;
                    metal::float4 a_5 = _e531 * fade_4;
                    uint _e534 = e_5;
                    metal::float4 _e537 = m.mix.inner[_e534].b;
                    metal::float4 b_7 = _e537 * fade_4;
                    uint _e540 = e_5;
                    uint _e542 = n_2;
                    metal::float4 unnamed_6 = metal::simd_shuffle_xor(a_5, _e542);
                    uint _e545 = n_2;
                    metal::float4 unnamed_7 = metal::simd_shuffle_xor(b_7, _e545);
                    m.mix.inner[_e540] = Eight {a_5 + unnamed_6, b_7 + unnamed_7};
                }
            }
        }
    }
    uint part_1 = naga_div(lid, LANES);
    if (naga_mod(lid, LANES) == 0u) {
        float _e564 = m.largest;
        part_largest.inner[part_1] = _e564;
        float _e568 = m.sum;
        part_sum.inner[part_1] = _e568;
    }
    if (naga_mod(lid, LANES) < SPAN) {
        uint2 loop_bound_40 = uint2(4294967295u);
        bool loop_init_39 = true;
        while(true) {
            if (metal::all(loop_bound_40 == uint2(0u))) { break; }
            loop_bound_40 -= uint2(loop_bound_40.y == 0u, 1u);
            if (!loop_init_39) {
                uint _e604 = e_6;
                e_6 = _e604 + 1u;
            }
            loop_init_39 = false;
            uint _e575 = e_6;
            if (_e575 < EIGHTS) {
            } else {
                break;
            }
            {
                uint _e581 = e_6;
                uint i_46 = (part_1 * FOURS) + (2u * (lane_1 + (_e581 * SPAN)));
                uint _e590 = e_6;
                metal::float4 _e593 = m.mix.inner[_e590].a;
                part_mix.inner[i_46] = _e593;
                uint _e599 = e_6;
                metal::float4 _e602 = m.mix.inner[_e599].b;
                part_mix.inner[i_46 + 1u] = _e602;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool is_shared = splits > 1u;
    if (is_shared) {
        bool _e613 = meet((row_8 * HEADS) + head_3, split_1, splits, lid, zeros, meet_is_last, pieces, part_largest, part_sum, part_mix, _buffer_sizes);
        local_2 = !(_e613);
    } else {
        local_2 = false;
    }
    bool _e616 = local_2;
    if (_e616) {
        return;
    }
    d_1 = lid;
    uint2 loop_bound_41 = uint2(4294967295u);
    bool loop_init_40 = true;
    while(true) {
        if (metal::all(loop_bound_41 == uint2(0u))) { break; }
        loop_bound_41 -= uint2(loop_bound_41.y == 0u, 1u);
        if (!loop_init_40) {
            uint _e655 = d_1;
            d_1 = _e655 + WG;
        }
        loop_init_40 = false;
        uint _e618 = d_1;
        if (_e618 < q_DIM) {
        } else {
            break;
        }
        {
            uint _e621 = d_1;
            metal::float3 _e622 = merged(_e621, part_largest, part_sum, part_mix);
            x = _e622.x / _e622.y;
            if (is_shared) {
                uint _e627 = d_1;
                float _e628 = met(_e627, splits, pieces);
                x = _e628;
            }
            if (GATE) {
                float _e630 = x;
                uint _e640 = d_1;
                float _e642 = joint_at((((((row_8 * HEADS) + head_3) * 2u) * q_DIM) + q_DIM) + _e640, joint, _buffer_sizes);
                float _e643 = sigmoid(_e642);
                x = _e630 * _e643;
            }
            uint _e651 = d_1;
            float _e654 = x;
            y[(((row_8 * HEADS) + head_3) * q_DIM) + _e651] = _e654;
        }
    }
    return;
}
