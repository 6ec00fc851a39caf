// For the case "plain, some, q8_0".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size2;
    uint size4;
    uint size5;
    uint size6;
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
struct type_5 {
    float inner[8];
};
typedef float type_6[1];
struct type_7 {
    float inner[64];
};
struct type_9 {
    metal::float4 inner[16];
};
struct type_10 {
    metal::float4 inner[128];
};
struct type_11 {
    Eight inner[1];
};
struct Mix {
    float largest;
    float sum;
    char _pad2[8];
    type_11 mix;
};
struct Vectors {
    type_11 k;
    type_11 v;
};
constant uint WG = 256u;
constant uint SPAN = 8u;
constant uint EIGHTS = 1u;
constant uint SPLITS = 1u;
constant uint HEADS = 9u;
constant uint GROUP = 3u;
constant uint Q_STRIDE = 64u;
constant uint WINDOW = 0u;
constant uint OWN = 0u;
constant float SCALE = 0.125;
constant float SOFTCAP = 0.0;
constant bool GATE = false;
constant uint LANES = 32u;
constant uint q_DIM = 64u;
constant bool q_NORM = false;
constant float q_EPS = 0.0;
constant uint q_PAIRS = 0u;
constant bool q_NEOX = false;
constant uint q_TABLE = 0u;
constant uint kc_DIM = 64u;
constant uint kc_HEADS = 3u;
constant uint kc_BYTES = 68u;
constant uint kc_KIND = 2u;
constant uint vc_DIM = 64u;
constant uint vc_HEADS = 3u;
constant uint vc_BYTES = 68u;
constant uint vc_KIND = 2u;
constant uint FOURS = 16u;
constant uint KEYS = 32u;
constant uint PARTS = 8u;
constant float NONE = -300000000000000000000000000000000000000.0;
constant uint CHUNK = 512u;

uint batch_t(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = batch[0];
    return _e2;
}

uint batch_position(
    uint row,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = batch[5];
    uint _e7 = batch[_e4 + row];
    return _e7;
}

uint batch_seq(
    uint row_1,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = batch[6];
    uint _e7 = batch[_e4 + row_1];
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

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint batch_page(
    uint seq_1,
    uint position,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = batch[8];
    uint _e8 = batch[9];
    uint _e13 = batch[3];
    uint _e17 = batch[(_e5 + (seq_1 * _e8)) + naga_div(position, _e13)];
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

float batch_cos(
    uint table,
    uint row_2,
    uint pairs,
    uint i_1,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table];
    uint _e16 = batch[(_e9 + ((row_2 * 2u) * pairs)) + i_1];
    return as_type<float>(_e16);
}

float batch_sin(
    uint table_1,
    uint row_3,
    uint pairs_1,
    uint i_2,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table_1];
    uint _e17 = batch[((_e9 + ((row_3 * 2u) * pairs_1)) + pairs_1) + i_2];
    return as_type<float>(_e17);
}

float sigmoid(
    float x_1
) {
    return 1.0 / (1.0 + metal::exp(metal::min(-(x_1), 80.0)));
}

float tanh_clamped(
    float x_2
) {
    return 1.0 - (2.0 / (metal::exp(2.0 * metal::clamp(x_2, -15.0, 15.0)) + 1.0));
}

float lanes_sum(
    float x_3,
    uint lid_1
) {
    float sum = {};
    uint n_3 = 16u;
    sum = x_3;
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
    float x_4,
    uint lid_2,
    threadgroup type_5& reduce_part
) {
    float sum_1 = 0.0;
    uint i_3 = 0u;
    float _e2 = lanes_sum(x_4, lid_2);
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
            uint _e25 = i_3;
            i_3 = _e25 + 1u;
        }
        loop_init_1 = false;
        uint _e15 = i_3;
        if (_e15 < 8u) {
        } else {
            break;
        }
        {
            float _e18 = sum_1;
            uint _e20 = i_3;
            float _e22 = reduce_part.inner[_e20];
            sum_1 = _e18 + _e22;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e27 = sum_1;
    return _e27;
}

float q_x_at(
    uint i_4,
    device type_6 const& q_x,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = q_x[i_4];
    return _e3;
}

float q_norm_at(
    uint i_5
) {
    return 1.0;
}

void q_load(
    uint from_2,
    uint lid_3,
    threadgroup type_5& reduce_part,
    device type_6 const& q_x,
    threadgroup type_7& q_head,
    constant _mslBufferSizes& _buffer_sizes
) {
    float sum_2 = 0.0;
    uint d_2 = {};
    uint d_3 = {};
    d_2 = lid_3;
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e17 = d_2;
            d_2 = _e17 + WG;
        }
        loop_init_2 = false;
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
        float _e22 = workgroup_sum(_e21, lid_3, reduce_part);
        float factor = metal::rsqrt((_e22 / 64.0) + q_EPS);
        d_3 = lid_3;
        uint2 loop_bound_3 = uint2(4294967295u);
        bool loop_init_3 = true;
        while(true) {
            if (metal::all(loop_bound_3 == uint2(0u))) { break; }
            loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
            if (!loop_init_3) {
                uint _e40 = d_3;
                d_3 = _e40 + WG;
            }
            loop_init_3 = false;
            uint _e29 = d_3;
            if (_e29 < q_DIM) {
            } else {
                break;
            }
            {
                uint _e33 = d_3;
                float _e35 = q_head.inner[_e33];
                uint _e36 = d_3;
                float _e37 = q_norm_at(_e36);
                q_head.inner[_e33] = _e35 * (factor * _e37);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

float q_rotated(
    uint row_4,
    uint d_4,
    device type_1 const& batch,
    threadgroup type_7& q_head,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (d_4 >= 0u) {
        float _e6 = q_head.inner[d_4];
        return _e6;
    }
    bool second = q_NEOX ? (d_4 >= q_PAIRS) : (naga_mod(d_4, 2u) == 1u);
    uint pair = q_NEOX ? naga_mod(d_4, 1u) : naga_div(d_4, 2u);
    float _e23 = batch_cos(q_TABLE, row_4, q_PAIRS, pair, batch, _buffer_sizes);
    float _e26 = batch_sin(q_TABLE, row_4, q_PAIRS, pair, batch, _buffer_sizes);
    float a_2 = q_head.inner[q_NEOX ? pair : (2u * pair)];
    float b_2 = q_head.inner[q_NEOX ? (pair + q_PAIRS) : ((2u * pair) + 1u)];
    return second ? ((a_2 * _e26) + (b_2 * _e23)) : ((a_2 * _e23) - (b_2 * _e26));
}

float joint_at(
    uint i_6,
    device type_6 const& q_x,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e1 = q_x_at(i_6, q_x, _buffer_sizes);
    return _e1;
}

uint kc_word(
    uint i_7,
    device type_1 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = kc[i_7];
    return _e3;
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
    uint i_8,
    device type_1 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = {};
    if (false) {
        uint word_2 = naga_div(at, 4u) + (4u * i_8);
        uint _e8 = kc_word(word_2, kc, _buffer_sizes);
        uint _e11 = kc_word(word_2 + 1u, kc, _buffer_sizes);
        uint _e14 = kc_word(word_2 + 2u, kc, _buffer_sizes);
        uint _e17 = kc_word(word_2 + 3u, kc, _buffer_sizes);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (false) {
        uint word_3 = naga_div(at, 4u) + (2u * i_8);
        uint _e26 = kc_word(word_3, kc, _buffer_sizes);
        uint _e30 = kc_word(word_3 + 1u, kc, _buffer_sizes);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block = at + (naga_div(i_8, 8u) * 34u);
    uint _e40 = kc_word(block >> 2u, kc, _buffer_sizes);
    float scale = float2(as_type<half2>((_e40 >> (8u * (block & 2u))))).x;
    uint code = (block + 2u) + (4u * naga_mod(i_8, 8u));
    uint _e57 = kc_word(code >> 2u, kc, _buffer_sizes);
    word = _e57;
    if ((code & 2u) != 0u) {
        uint _e63 = word;
        uint _e70 = kc_word((code >> 2u) + 1u, kc, _buffer_sizes);
        word = (_e63 >> 16u) | (_e70 << 16u);
    }
    uint _e74 = word;
    return static_cast<metal::float4>(int4(as_type<packed_char4>(_e74))) * scale;
}

Eight kc_eight(
    uint at_1,
    uint i_9,
    device type_1 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 _e4 = kc_four(at_1, 2u * i_9, kc, _buffer_sizes);
    metal::float4 _e9 = kc_four(at_1, (2u * i_9) + 1u, kc, _buffer_sizes);
    return Eight {_e4, _e9};
}

uint vc_word(
    uint i_10,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = vc[i_10];
    return _e3;
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
    uint at_2,
    uint i_11,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_1 = {};
    if (false) {
        uint word_4 = naga_div(at_2, 4u) + (4u * i_11);
        uint _e8 = vc_word(word_4, vc, _buffer_sizes);
        uint _e11 = vc_word(word_4 + 1u, vc, _buffer_sizes);
        uint _e14 = vc_word(word_4 + 2u, vc, _buffer_sizes);
        uint _e17 = vc_word(word_4 + 3u, vc, _buffer_sizes);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (false) {
        uint word_5 = naga_div(at_2, 4u) + (2u * i_11);
        uint _e26 = vc_word(word_5, vc, _buffer_sizes);
        uint _e30 = vc_word(word_5 + 1u, vc, _buffer_sizes);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block_1 = at_2 + (naga_div(i_11, 8u) * 34u);
    uint _e40 = vc_word(block_1 >> 2u, vc, _buffer_sizes);
    float scale_1 = float2(as_type<half2>((_e40 >> (8u * (block_1 & 2u))))).x;
    uint code_1 = (block_1 + 2u) + (4u * naga_mod(i_11, 8u));
    uint _e57 = vc_word(code_1 >> 2u, vc, _buffer_sizes);
    word_1 = _e57;
    if ((code_1 & 2u) != 0u) {
        uint _e63 = word_1;
        uint _e70 = vc_word((code_1 >> 2u) + 1u, vc, _buffer_sizes);
        word_1 = (_e63 >> 16u) | (_e70 << 16u);
    }
    uint _e74 = word_1;
    return static_cast<metal::float4>(int4(as_type<packed_char4>(_e74))) * scale_1;
}

Eight vc_eight(
    uint at_3,
    uint i_12,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 _e4 = vc_four(at_3, 2u * i_12, vc, _buffer_sizes);
    metal::float4 _e9 = vc_four(at_3, (2u * i_12) + 1u, vc, _buffer_sizes);
    return Eight {_e4, _e9};
}

void own(
    uint row_5,
    uint head_2,
    uint kv,
    uint seq_2,
    uint position_2,
    uint new_,
    uint lid_4
) {
    return;
}

Eight own_key_eight(
    uint i_13,
    uint eight
) {
    return Eight {};
}

Eight own_value_eight(
    uint i_14,
    uint eight_1
) {
    return Eight {};
}

bool meet(
    uint which,
    uint split,
    uint n_4,
    uint lid_5
) {
    return true;
}

float met(
    uint d_5,
    uint n_5
) {
    return 0.0;
}

Vectors vectors(
    uint seq_3,
    uint kv_1,
    uint p,
    uint lane,
    device type_1 const& batch,
    device type_1 const& kc,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    Vectors both = {};
    uint e_7 = 0u;
    uint _e4 = batch_page(seq_3, p, batch, _buffer_sizes);
    uint _e5 = batch_page_offset(p, batch, _buffer_sizes);
    uint _e6 = kc_at(_e4, kv_1, _e5, batch, _buffer_sizes);
    uint _e7 = vc_at(_e4, kv_1, _e5, batch, _buffer_sizes);
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e31 = e_7;
            e_7 = _e31 + 1u;
        }
        loop_init_4 = false;
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
    Eight a_1,
    Eight b_1
) {
    return metal::dot(a_1.a, b_1.a) + metal::dot(a_1.b, b_1.b);
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

metal::float3 merged(
    uint d_6,
    threadgroup type_5& part_largest,
    threadgroup type_5& part_sum,
    threadgroup type_10& part_mix
) {
    float largest = {};
    uint i_15 = 1u;
    float x_5 = 0.0;
    float sum_3 = 0.0;
    uint i_16 = 0u;
    float _e3 = part_largest.inner[0];
    largest = _e3;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e17 = i_15;
            i_15 = _e17 + 1u;
        }
        loop_init_5 = false;
        uint _e7 = i_15;
        if (_e7 < PARTS) {
        } else {
            break;
        }
        {
            float _e10 = largest;
            uint _e12 = i_15;
            float _e14 = part_largest.inner[_e12];
            largest = metal::max(_e10, _e14);
        }
    }
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e58 = i_16;
            i_16 = _e58 + 1u;
        }
        loop_init_6 = false;
        uint _e25 = i_16;
        if (_e25 < PARTS) {
        } else {
            break;
        }
        {
            uint _e29 = i_16;
            float _e31 = part_largest.inner[_e29];
            float _e32 = largest;
            float fade = metal::exp(_e31 - _e32);
            float _e35 = sum_3;
            uint _e37 = i_16;
            float _e39 = part_sum.inner[_e37];
            sum_3 = _e35 + (_e39 * fade);
            float _e42 = x_5;
            uint _e44 = i_16;
            float _e54 = part_mix.inner[(_e44 * FOURS) + naga_div(d_6, 4u)][naga_mod(d_6, 4u)];
            x_5 = _e42 + (_e54 * fade);
        }
    }
    float _e60 = x_5;
    float _e61 = sum_3;
    float _e62 = largest;
    return metal::float3(_e60, _e61, _e62);
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, device type_1 const& batch [[user(fake0)]]
, threadgroup type_5& reduce_part
, device type_6 const& q_x [[user(fake0)]]
, threadgroup type_7& q_head
, device type_1 const& kc [[user(fake0)]]
, device type_1 const& vc [[user(fake0)]]
, device type_6& y [[user(fake0)]]
, threadgroup type_9& query
, threadgroup type_5& part_largest
, threadgroup type_5& part_sum
, threadgroup type_10& part_mix
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        reduce_part = {};
        q_head = {};
        query = {};
        part_largest = {};
        part_sum = {};
        part_mix = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool local = {};
    uint i = {};
    type_11 q = {};
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
    uint row_6 = naga_div(naga_mod(g, _e18 * HEADS), HEADS);
    uint head_3 = naga_mod(g, HEADS);
    uint kv_2 = naga_div(head_3, GROUP);
    uint _e28 = batch_seq(row_6, batch, _buffer_sizes);
    uint _e29 = batch_position(row_6, batch, _buffer_sizes);
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
    uint cached = metal::max(false ? new_1 : (_e29 + 1u), first);
    uint splits = metal::clamp(naga_div(((cached - first) + CHUNK) - 1u, CHUNK), 1u, SPLITS);
    if (split_1 >= splits) {
        return;
    }
    uint per = naga_div(((cached - first) + splits) - 1u, splits);
    uint begin = first + (split_1 * per);
    uint end = metal::min(cached, begin + per);
    if (split_1 == 0u) {
        own(row_6, head_3, kv_2, _e28, _e29, new_1, lid);
    }
    q_load(((row_6 * HEADS) * Q_STRIDE) + (head_3 * Q_STRIDE), lid, reduce_part, q_x, q_head, _buffer_sizes);
    i = lid;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e107 = i;
            i = _e107 + WG;
        }
        loop_init_7 = false;
        uint _e85 = i;
        if (_e85 < FOURS) {
        } else {
            break;
        }
        {
            uint _e89 = i;
            uint d_7 = 4u * _e89;
            uint _e92 = i;
            float _e95 = q_rotated(row_6, d_7, batch, q_head, _buffer_sizes);
            float _e98 = q_rotated(row_6, d_7 + 1u, batch, q_head, _buffer_sizes);
            float _e101 = q_rotated(row_6, d_7 + 2u, batch, q_head, _buffer_sizes);
            float _e104 = q_rotated(row_6, d_7 + 3u, batch, q_head, _buffer_sizes);
            query.inner[_e92] = SCALE * metal::float4(_e95, _e98, _e101, _e104);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint lane_1 = naga_mod(lid, SPAN);
    uint mine = naga_div(lid, SPAN);
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e140 = e;
            e = _e140 + 1u;
        }
        loop_init_8 = false;
        uint _e117 = e;
        if (_e117 < EIGHTS) {
        } else {
            break;
        }
        {
            uint _e120 = e;
            uint i_17 = lane_1 + (_e120 * SPAN);
            uint _e124 = e;
            metal::float4 _e130 = query.inner[2u * i_17];
            metal::float4 _e137 = query.inner[(2u * i_17) + 1u];
            q.inner[_e124] = Eight {_e130, _e137};
        }
    }
    m.largest = NONE;
    from = begin;
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e380 = from;
            from = _e380 + 128u;
        }
        loop_init_9 = false;
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
            uint2 loop_bound_10 = uint2(4294967295u);
            bool loop_init_10 = true;
            while(true) {
                if (metal::all(loop_bound_10 == uint2(0u))) { break; }
                loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
                if (!loop_init_10) {
                    uint _e217 = e_1;
                    e_1 = _e217 + 1u;
                }
                loop_init_10 = false;
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
            uint2 loop_bound_11 = uint2(4294967295u);
            bool loop_init_11 = true;
            while(true) {
                if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                if (!loop_init_11) {
                    uint _e229 = n;
                    n = naga_div(_e229, 2u);
                }
                loop_init_11 = false;
                uint _e221 = n;
                if (_e221 > 0u) {
                } else {
                    break;
                }
                {
                    metal::float4 _e224 = score;
                    metal::float4 _e225 = score;
                    uint _e226 = n;
                    metal::float4 unnamed_1 = metal::simd_shuffle_xor(_e225, _e226);
                    score = _e224 + unnamed_1;
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
            float fade_1 = metal::exp(_e265 - now);
            metal::float4 _e270 = score;
            metal::float4 w = metal::select(metal::float4(0.0), metal::exp(_e270 - metal::float4(now)), is_there);
            m.largest = now;
            float _e278 = m.sum;
            m.sum = ((((_e278 * fade_1) + w.x) + w.y) + w.z) + w.w;
            e_2 = 0u;
            uint2 loop_bound_12 = uint2(4294967295u);
            bool loop_init_12 = true;
            while(true) {
                if (metal::all(loop_bound_12 == uint2(0u))) { break; }
                loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
                if (!loop_init_12) {
                    uint _e378 = e_2;
                    e_2 = _e378 + 1u;
                }
                loop_init_12 = false;
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
                    m.mix.inner[_e294].a = ((((_e301 * fade_1) + (w.x * _e308)) + (w.y * _e316)) + (w.z * _e324)) + (w.w * _e332);
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
                    m.mix.inner[_e336].b = ((((_e343 * fade_1) + (w.x * _e350)) + (w.y * _e358)) + (w.z * _e366)) + (w.w * _e374);
                }
            }
        }
    }
    if (false) {
        local_1 = split_1 == 0u;
    } else {
        local_1 = false;
    }
    bool _e389 = local_1;
    if (_e389) {
        from_1 = metal::max(first, new_1);
        uint2 loop_bound_13 = uint2(4294967295u);
        bool loop_init_13 = true;
        while(true) {
            if (metal::all(loop_bound_13 == uint2(0u))) { break; }
            loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
            if (!loop_init_13) {
                uint _e492 = from_1;
                from_1 = _e492 + KEYS;
            }
            loop_init_13 = false;
            uint _e392 = from_1;
            if (_e392 <= _e29) {
            } else {
                break;
            }
            {
                uint _e394 = from_1;
                uint p_2 = _e394 + mine;
                uint at_4 = metal::min(p_2, _e29) - new_1;
                score_1 = 0.0;
                e_3 = 0u;
                uint2 loop_bound_14 = uint2(4294967295u);
                bool loop_init_14 = true;
                while(true) {
                    if (metal::all(loop_bound_14 == uint2(0u))) { break; }
                    loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
                    if (!loop_init_14) {
                        uint _e417 = e_3;
                        e_3 = _e417 + 1u;
                    }
                    loop_init_14 = false;
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
                        Eight _e413 = own_key_eight(at_4, lane_1 + (_e409 * SPAN));
                        float _e414 = dot8_(_e408, _e413);
                        score_1 = _e405 + _e414;
                    }
                }
                n_1 = 4u;
                uint2 loop_bound_15 = uint2(4294967295u);
                bool loop_init_15 = true;
                while(true) {
                    if (metal::all(loop_bound_15 == uint2(0u))) { break; }
                    loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
                    if (!loop_init_15) {
                        uint _e429 = n_1;
                        n_1 = naga_div(_e429, 2u);
                    }
                    loop_init_15 = false;
                    uint _e421 = n_1;
                    if (_e421 > 0u) {
                    } else {
                        break;
                    }
                    {
                        float _e424 = score_1;
                        float _e425 = score_1;
                        uint _e426 = n_1;
                        float unnamed_2 = metal::simd_shuffle_xor(_e425, _e426);
                        score_1 = _e424 + unnamed_2;
                    }
                }
                float _e433 = score_1;
                float _e434 = bend(_e433);
                score_1 = (p_2 <= _e29) ? _e434 : NONE;
                float _e438 = m.largest;
                float _e439 = score_1;
                float now_1 = metal::max(_e438, _e439);
                float _e442 = m.largest;
                float fade_2 = metal::exp(_e442 - now_1);
                float _e445 = score_1;
                float w_1 = (p_2 <= _e29) ? metal::exp(_e445 - now_1) : 0.0;
                m.largest = now_1;
                float _e454 = m.sum;
                m.sum = (_e454 * fade_2) + w_1;
                e_4 = 0u;
                uint2 loop_bound_16 = uint2(4294967295u);
                bool loop_init_16 = true;
                while(true) {
                    if (metal::all(loop_bound_16 == uint2(0u))) { break; }
                    loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
                    if (!loop_init_16) {
                        uint _e490 = e_4;
                        e_4 = _e490 + 1u;
                    }
                    loop_init_16 = false;
                    uint _e459 = e_4;
                    if (_e459 < EIGHTS) {
                    } else {
                        break;
                    }
                    {
                        uint _e462 = e_4;
                        Eight _e466 = own_value_eight(at_4, lane_1 + (_e462 * SPAN));
                        uint _e468 = e_4;
                        uint _e471 = e_4;
                        metal::float4 _e474 = m.mix.inner[_e471].a;
                        uint _e480 = e_4;
                        metal::float4 _e483 = m.mix.inner[_e480].b;
                        m.mix.inner[_e468] = Eight {(_e474 * fade_2) + (w_1 * _e466.a), (_e483 * fade_2) + (w_1 * _e466.b)};
                    }
                }
            }
        }
    }
    uint2 loop_bound_17 = uint2(4294967295u);
    bool loop_init_17 = true;
    while(true) {
        if (metal::all(loop_bound_17 == uint2(0u))) { break; }
        loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
        if (!loop_init_17) {
            uint _e552 = n_2;
            n_2 = _e552 * 2u;
        }
        loop_init_17 = false;
        uint _e497 = n_2;
        if (_e497 < LANES) {
        } else {
            break;
        }
        {
            float _e501 = m.largest;
            float _e503 = m.largest;
            uint _e504 = n_2;
            float unnamed_3 = metal::simd_shuffle_xor(_e503, _e504);
            float now_2 = metal::max(_e501, unnamed_3);
            float _e508 = m.largest;
            float fade_3 = metal::exp(_e508 - now_2);
            m.largest = now_2;
            float _e513 = m.sum;
            m.sum = _e513 * fade_3;
            float _e516 = m.sum;
            float _e518 = m.sum;
            uint _e519 = n_2;
            float unnamed_4 = metal::simd_shuffle_xor(_e518, _e519);
            m.sum = _e516 + unnamed_4;
            e_5 = 0u;
            uint2 loop_bound_18 = uint2(4294967295u);
            bool loop_init_18 = true;
            while(true) {
                if (metal::all(loop_bound_18 == uint2(0u))) { break; }
                loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
                if (!loop_init_18) {
                    uint _e550 = e_5;
                    e_5 = _e550 + 1u;
                }
                loop_init_18 = false;
                uint _e524 = e_5;
                if (_e524 < EIGHTS) {
                } else {
                    break;
                }
                {
                    uint _e528 = e_5;
                    metal::float4 _e531 = m.mix.inner[_e528].a;
                    metal::float4 a_3 = _e531 * fade_3;
                    uint _e534 = e_5;
                    metal::float4 _e537 = m.mix.inner[_e534].b;
                    metal::float4 b_3 = _e537 * fade_3;
                    uint _e540 = e_5;
                    uint _e542 = n_2;
                    metal::float4 unnamed_5 = metal::simd_shuffle_xor(a_3, _e542);
                    uint _e545 = n_2;
                    metal::float4 unnamed_6 = metal::simd_shuffle_xor(b_3, _e545);
                    m.mix.inner[_e540] = Eight {a_3 + unnamed_5, b_3 + unnamed_6};
                }
            }
        }
    }
    uint part = naga_div(lid, LANES);
    if (naga_mod(lid, LANES) == 0u) {
        float _e564 = m.largest;
        part_largest.inner[part] = _e564;
        float _e568 = m.sum;
        part_sum.inner[part] = _e568;
    }
    if (naga_mod(lid, LANES) < SPAN) {
        uint2 loop_bound_19 = uint2(4294967295u);
        bool loop_init_19 = true;
        while(true) {
            if (metal::all(loop_bound_19 == uint2(0u))) { break; }
            loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
            if (!loop_init_19) {
                uint _e604 = e_6;
                e_6 = _e604 + 1u;
            }
            loop_init_19 = false;
            uint _e575 = e_6;
            if (_e575 < EIGHTS) {
            } else {
                break;
            }
            {
                uint _e581 = e_6;
                uint i_18 = (part * FOURS) + (2u * (lane_1 + (_e581 * SPAN)));
                uint _e590 = e_6;
                metal::float4 _e593 = m.mix.inner[_e590].a;
                part_mix.inner[i_18] = _e593;
                uint _e599 = e_6;
                metal::float4 _e602 = m.mix.inner[_e599].b;
                part_mix.inner[i_18 + 1u] = _e602;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool is_shared = splits > 1u;
    if (is_shared) {
        bool _e613 = meet((row_6 * HEADS) + head_3, split_1, splits, lid);
        local_2 = !(_e613);
    } else {
        local_2 = false;
    }
    bool _e616 = local_2;
    if (_e616) {
        return;
    }
    d_1 = lid;
    uint2 loop_bound_20 = uint2(4294967295u);
    bool loop_init_20 = true;
    while(true) {
        if (metal::all(loop_bound_20 == uint2(0u))) { break; }
        loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
        if (!loop_init_20) {
            uint _e655 = d_1;
            d_1 = _e655 + WG;
        }
        loop_init_20 = false;
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
                float _e628 = met(_e627, splits);
                x = _e628;
            }
            if (GATE) {
                float _e630 = x;
                uint _e640 = d_1;
                float _e642 = joint_at((((((row_6 * HEADS) + head_3) * 2u) * q_DIM) + q_DIM) + _e640, q_x, _buffer_sizes);
                float _e643 = sigmoid(_e642);
                x = _e630 * _e643;
            }
            uint _e651 = d_1;
            float _e654 = x;
            y[(((row_6 * HEADS) + head_3) * q_DIM) + _e651] = _e654;
        }
    }
    return;
}
