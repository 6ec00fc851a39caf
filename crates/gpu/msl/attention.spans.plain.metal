// For the case "gate, some, q8_0".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size2;
    uint size3;
    uint size4;
    uint size5;
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
struct type_8 {
    metal::float4 inner[32];
};
struct type_9 {
    float inner[2];
};
struct type_10 {
    float inner[16];
};
struct type_11 {
    metal::float4 inner[256];
};
struct Vector {
    Eight inner[1];
};
struct Mix {
    float largest;
    float sum;
    char _pad2[8];
    Vector mix;
};
struct Vectors {
    Vector k;
    Vector v;
};
struct Fours {
    Vectors a;
    Vectors b;
    Vectors c;
    Vectors d;
};
constant uint WG = 256u;
constant uint TOGETHER = 2u;
constant uint SETS = 1u;
constant uint SPAN = 8u;
constant uint EIGHTS = 1u;
constant uint SPLITS = 1u;
constant uint HEADS = 4u;
constant uint GROUP = 2u;
constant uint Q_STRIDE = 128u;
constant uint WINDOW = 0u;
constant uint OWN = 0u;
constant float SCALE = 0.125;
constant float SOFTCAP = 0.0;
constant bool GATE = true;
constant uint LANES = 32u;
constant uint q_DIM = 64u;
constant bool q_NORM = false;
constant float q_EPS = 0.0;
constant uint q_PAIRS = 0u;
constant bool q_NEOX = false;
constant uint q_TABLE = 0u;
constant uint kc_DIM = 64u;
constant uint kc_HEADS = 2u;
constant uint kc_BYTES = 68u;
constant uint kc_KIND = 2u;
constant uint vc_DIM = 64u;
constant uint vc_HEADS = 2u;
constant uint vc_BYTES = 68u;
constant uint vc_KIND = 2u;
constant uint FOURS = 16u;
constant uint KEYS = 32u;
constant uint PARTS = 8u;
constant float NONE = -300000000000000000000000000000000000000.0;
constant uint CHUNK = 256u;

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
    uint i_2,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table];
    uint _e16 = batch[(_e9 + ((row_2 * 2u) * pairs)) + i_2];
    return as_type<float>(_e16);
}

float batch_sin(
    uint table_1,
    uint row_3,
    uint pairs_1,
    uint i_3,
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e9 = batch[16u + table_1];
    uint _e17 = batch[((_e9 + ((row_3 * 2u) * pairs_1)) + pairs_1) + i_3];
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
    float sum_1 = {};
    uint n = 16u;
    sum_1 = x_3;
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
    float x_4,
    uint lid_2,
    threadgroup type_5& reduce_part
) {
    float sum_2 = 0.0;
    uint i_4 = 0u;
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
            uint _e25 = i_4;
            i_4 = _e25 + 1u;
        }
        loop_init_1 = false;
        uint _e15 = i_4;
        if (_e15 < 8u) {
        } else {
            break;
        }
        {
            float _e18 = sum_2;
            uint _e20 = i_4;
            float _e22 = reduce_part.inner[_e20];
            sum_2 = _e18 + _e22;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e27 = sum_2;
    return _e27;
}

float q_x_at(
    uint i_5,
    device type_6 const& q_x,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = q_x[i_5];
    return _e3;
}

float q_norm_at(
    uint i_6
) {
    return 1.0;
}

float joint_at(
    uint i_7,
    device type_6 const& q_x,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e1 = q_x_at(i_7, q_x, _buffer_sizes);
    return _e1;
}

uint kc_word(
    uint i_8,
    device type_1 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = kc[i_8];
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
    uint i_9,
    device type_1 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = {};
    if (false) {
        uint word_2 = naga_div(at, 4u) + (4u * i_9);
        uint _e8 = kc_word(word_2, kc, _buffer_sizes);
        uint _e11 = kc_word(word_2 + 1u, kc, _buffer_sizes);
        uint _e14 = kc_word(word_2 + 2u, kc, _buffer_sizes);
        uint _e17 = kc_word(word_2 + 3u, kc, _buffer_sizes);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (false) {
        uint word_3 = naga_div(at, 4u) + (2u * i_9);
        uint _e26 = kc_word(word_3, kc, _buffer_sizes);
        uint _e30 = kc_word(word_3 + 1u, kc, _buffer_sizes);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block = at + (naga_div(i_9, 8u) * 34u);
    uint _e40 = kc_word(block >> 2u, kc, _buffer_sizes);
    float scale = float2(as_type<half2>((_e40 >> (8u * (block & 2u))))).x;
    uint code = (block + 2u) + (4u * naga_mod(i_9, 8u));
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
    uint i_10,
    device type_1 const& kc,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 _e4 = kc_four(at_1, 2u * i_10, kc, _buffer_sizes);
    metal::float4 _e9 = kc_four(at_1, (2u * i_10) + 1u, kc, _buffer_sizes);
    return Eight {_e4, _e9};
}

uint vc_word(
    uint i_11,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = vc[i_11];
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
    uint i_12,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_1 = {};
    if (false) {
        uint word_4 = naga_div(at_2, 4u) + (4u * i_12);
        uint _e8 = vc_word(word_4, vc, _buffer_sizes);
        uint _e11 = vc_word(word_4 + 1u, vc, _buffer_sizes);
        uint _e14 = vc_word(word_4 + 2u, vc, _buffer_sizes);
        uint _e17 = vc_word(word_4 + 3u, vc, _buffer_sizes);
        return as_type<metal::float4>(metal::uint4(_e8, _e11, _e14, _e17));
    }
    if (false) {
        uint word_5 = naga_div(at_2, 4u) + (2u * i_12);
        uint _e26 = vc_word(word_5, vc, _buffer_sizes);
        uint _e30 = vc_word(word_5 + 1u, vc, _buffer_sizes);
        return metal::float4(float2(as_type<half2>(_e26)), float2(as_type<half2>(_e30)));
    }
    uint block_1 = at_2 + (naga_div(i_12, 8u) * 34u);
    uint _e40 = vc_word(block_1 >> 2u, vc, _buffer_sizes);
    float scale_1 = float2(as_type<half2>((_e40 >> (8u * (block_1 & 2u))))).x;
    uint code_1 = (block_1 + 2u) + (4u * naga_mod(i_12, 8u));
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
    uint i_13,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 _e4 = vc_four(at_3, 2u * i_13, vc, _buffer_sizes);
    metal::float4 _e9 = vc_four(at_3, (2u * i_13) + 1u, vc, _buffer_sizes);
    return Eight {_e4, _e9};
}

uint own_start(
    uint row_4,
    uint seq_2
) {
    return row_4;
}

void own_take(
    uint row_5,
    uint kv,
    uint lid_3
) {
    return;
}

void own(
    uint row_6,
    uint head_2,
    uint kv_1,
    uint seq_3,
    uint position_2,
    uint new_,
    uint lid_4
) {
    return;
}

Eight own_key_eight(
    uint i_14,
    uint eight
) {
    return Eight {};
}

Eight own_value_eight(
    uint i_15,
    uint eight_1
) {
    return Eight {};
}

float rotated(
    uint row_7,
    uint from_2,
    uint d_1,
    device type_1 const& batch,
    device type_6 const& q_x,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (d_1 >= 0u) {
        float _e6 = q_x_at(from_2 + d_1, q_x, _buffer_sizes);
        float _e7 = q_norm_at(d_1);
        return _e6 * _e7;
    }
    bool second = q_NEOX ? (d_1 >= q_PAIRS) : (naga_mod(d_1, 2u) == 1u);
    uint pair = q_NEOX ? naga_mod(d_1, 1u) : naga_div(d_1, 2u);
    uint i_18 = q_NEOX ? pair : (2u * pair);
    uint j = q_NEOX ? (pair + q_PAIRS) : ((2u * pair) + 1u);
    float _e36 = q_x_at(from_2 + i_18, q_x, _buffer_sizes);
    float _e37 = q_norm_at(i_18);
    float a_1 = _e36 * _e37;
    float _e40 = q_x_at(from_2 + j, q_x, _buffer_sizes);
    float _e41 = q_norm_at(j);
    float b_1 = _e40 * _e41;
    float _e45 = batch_cos(q_TABLE, row_7, q_PAIRS, pair, batch, _buffer_sizes);
    float _e48 = batch_sin(q_TABLE, row_7, q_PAIRS, pair, batch, _buffer_sizes);
    return second ? ((a_1 * _e48) + (b_1 * _e45)) : ((a_1 * _e45) - (b_1 * _e48));
}

bool meet(
    uint which,
    uint split,
    uint n_1,
    uint lid_5
) {
    return true;
}

float met(
    uint which_1,
    uint h_1,
    uint d_2,
    uint n_2
) {
    return 0.0;
}

Vectors vectors(
    uint seq_4,
    uint kv_2,
    uint p,
    uint lane,
    device type_1 const& batch,
    device type_1 const& kc,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    Vectors both = {};
    uint e_1 = 0u;
    uint _e4 = batch_page(seq_4, p, batch, _buffer_sizes);
    uint _e5 = batch_page_offset(p, batch, _buffer_sizes);
    uint _e6 = kc_at(_e4, kv_2, _e5, batch, _buffer_sizes);
    uint _e7 = vc_at(_e4, kv_2, _e5, batch, _buffer_sizes);
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e31 = e_1;
            e_1 = _e31 + 1u;
        }
        loop_init_2 = false;
        uint _e11 = e_1;
        if (_e11 < EIGHTS) {
        } else {
            break;
        }
        {
            uint _e15 = e_1;
            uint _e17 = e_1;
            Eight _e21 = kc_eight(_e6, lane + (_e17 * SPAN), kc, _buffer_sizes);
            both.k.inner[_e15] = _e21;
            uint _e23 = e_1;
            uint _e25 = e_1;
            Eight _e29 = vc_eight(_e7, lane + (_e25 * SPAN), vc, _buffer_sizes);
            both.v.inner[_e23] = _e29;
        }
    }
    Vectors _e33 = both;
    return _e33;
}

Fours fours(
    uint seq_5,
    uint kv_3,
    uint p_1,
    uint end,
    uint lane_1,
    device type_1 const& batch,
    device type_1 const& kc,
    device type_1 const& vc,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint last = metal::max(end, 1u) - 1u;
    Vectors _e10 = vectors(seq_5, kv_3, metal::min(p_1, last), lane_1, batch, kc, vc, _buffer_sizes);
    Vectors _e14 = vectors(seq_5, kv_3, metal::min(p_1 + KEYS, last), lane_1, batch, kc, vc, _buffer_sizes);
    Vectors _e18 = vectors(seq_5, kv_3, metal::min(p_1 + 64u, last), lane_1, batch, kc, vc, _buffer_sizes);
    Vectors _e22 = vectors(seq_5, kv_3, metal::min(p_1 + 96u, last), lane_1, batch, kc, vc, _buffer_sizes);
    return Fours {_e10, _e14, _e18, _e22};
}

Vector query_of(
    uint h_2,
    uint lane_2,
    threadgroup type_8& query
) {
    Vector q = {};
    uint e_2 = 0u;
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e29 = e_2;
            e_2 = _e29 + 1u;
        }
        loop_init_3 = false;
        uint _e5 = e_2;
        if (_e5 < EIGHTS) {
        } else {
            break;
        }
        {
            uint _e11 = e_2;
            uint i_19 = (h_2 * FOURS) + (2u * (lane_2 + (_e11 * SPAN)));
            uint _e17 = e_2;
            metal::float4 _e21 = query.inner[i_19];
            metal::float4 _e26 = query.inner[i_19 + 1u];
            q.inner[_e17] = Eight {_e21, _e26};
        }
    }
    Vector _e31 = q;
    return _e31;
}

float dot8_(
    Eight a,
    Eight b
) {
    return metal::dot(a.a, b.a) + metal::dot(a.b, b.b);
}

float bend(
    float score
) {
    if (false) {
        float _e5 = tanh_clamped(score / SOFTCAP);
        return SOFTCAP * _e5;
    }
    return score;
}

Mix with_four(
    Mix before,
    Vector q_1,
    Fours x_5,
    metal::bool4 is_there
) {
    Mix m = {};
    Vector q_2 = {};
    Fours x_6 = {};
    metal::float4 score_1 = metal::float4(0.0);
    uint e_3 = 0u;
    uint n_3 = 4u;
    uint e_4 = 0u;
    m = before;
    q_2 = q_1;
    x_6 = x_5;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e55 = e_3;
            e_3 = _e55 + 1u;
        }
        loop_init_4 = false;
        uint _e12 = e_3;
        if (_e12 < EIGHTS) {
        } else {
            break;
        }
        {
            metal::float4 _e15 = score_1;
            uint _e16 = e_3;
            Eight _e18 = q_2.inner[_e16];
            uint _e21 = e_3;
            Eight _e23 = x_6.a.k.inner[_e21];
            float _e24 = dot8_(_e18, _e23);
            uint _e25 = e_3;
            Eight _e27 = q_2.inner[_e25];
            uint _e30 = e_3;
            Eight _e32 = x_6.b.k.inner[_e30];
            float _e33 = dot8_(_e27, _e32);
            uint _e34 = e_3;
            Eight _e36 = q_2.inner[_e34];
            uint _e39 = e_3;
            Eight _e41 = x_6.c.k.inner[_e39];
            float _e42 = dot8_(_e36, _e41);
            uint _e43 = e_3;
            Eight _e45 = q_2.inner[_e43];
            uint _e48 = e_3;
            Eight _e50 = x_6.d.k.inner[_e48];
            float _e51 = dot8_(_e45, _e50);
            score_1 = _e15 + metal::float4(_e24, _e33, _e42, _e51);
        }
    }
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e67 = n_3;
            n_3 = naga_div(_e67, 2u);
        }
        loop_init_5 = false;
        uint _e59 = n_3;
        if (_e59 > 0u) {
        } else {
            break;
        }
        {
            metal::float4 _e62 = score_1;
            metal::float4 _e63 = score_1;
            uint _e64 = n_3;
            metal::float4 unnamed_1 = metal::simd_shuffle_xor(_e63, _e64);
            score_1 = _e62 + unnamed_1;
        }
    }
    float _e73 = score_1.x;
    float _e74 = bend(_e73);
    float _e76 = score_1.y;
    float _e77 = bend(_e76);
    float _e79 = score_1.z;
    float _e80 = bend(_e79);
    float _e82 = score_1.w;
    float _e83 = bend(_e82);
    score_1 = metal::select(metal::float4(-300000000000000000000000000000000000000.0), metal::float4(_e74, _e77, _e80, _e83), is_there);
    float _e87 = m.largest;
    float _e89 = score_1.x;
    float _e91 = score_1.y;
    float _e94 = score_1.z;
    float _e96 = score_1.w;
    float now = metal::max(_e87, metal::max(metal::max(_e89, _e91), metal::max(_e94, _e96)));
    float _e101 = m.largest;
    float fade = metal::exp(_e101 - now);
    metal::float4 _e106 = score_1;
    metal::float4 w = metal::select(metal::float4(0.0), metal::exp(_e106 - metal::float4(now)), is_there);
    m.largest = now;
    float _e114 = m.sum;
    m.sum = ((((_e114 * fade) + w.x) + w.y) + w.z) + w.w;
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            uint _e222 = e_4;
            e_4 = _e222 + 1u;
        }
        loop_init_6 = false;
        uint _e126 = e_4;
        if (_e126 < EIGHTS) {
        } else {
            break;
        }
        {
            uint _e130 = e_4;
            uint _e134 = e_4;
            metal::float4 _e137 = m.mix.inner[_e134].a;
            uint _e142 = e_4;
            metal::float4 _e145 = x_6.a.v.inner[_e142].a;
            uint _e151 = e_4;
            metal::float4 _e154 = x_6.b.v.inner[_e151].a;
            uint _e160 = e_4;
            metal::float4 _e163 = x_6.c.v.inner[_e160].a;
            uint _e169 = e_4;
            metal::float4 _e172 = x_6.d.v.inner[_e169].a;
            m.mix.inner[_e130].a = ((((_e137 * fade) + (w.x * _e145)) + (w.y * _e154)) + (w.z * _e163)) + (w.w * _e172);
            uint _e176 = e_4;
            uint _e180 = e_4;
            metal::float4 _e183 = m.mix.inner[_e180].b;
            uint _e188 = e_4;
            metal::float4 _e191 = x_6.a.v.inner[_e188].b;
            uint _e197 = e_4;
            metal::float4 _e200 = x_6.b.v.inner[_e197].b;
            uint _e206 = e_4;
            metal::float4 _e209 = x_6.c.v.inner[_e206].b;
            uint _e215 = e_4;
            metal::float4 _e218 = x_6.d.v.inner[_e215].b;
            m.mix.inner[_e176].b = ((((_e183 * fade) + (w.x * _e191)) + (w.y * _e200)) + (w.z * _e209)) + (w.w * _e218);
        }
    }
    Mix _e224 = m;
    return _e224;
}

Mix with_one(
    Mix before_1,
    Vector q_3,
    Vector k_1,
    Vector v_1,
    bool is_there_1
) {
    Mix m_1 = {};
    Vector q_4 = {};
    Vector k_2 = {};
    Vector v_2 = {};
    float score_2 = 0.0;
    uint e_5 = 0u;
    uint n_4 = 4u;
    uint e_6 = 0u;
    m_1 = before_1;
    q_4 = q_3;
    k_2 = k_1;
    v_2 = v_1;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e26 = e_5;
            e_5 = _e26 + 1u;
        }
        loop_init_7 = false;
        uint _e13 = e_5;
        if (_e13 < EIGHTS) {
        } else {
            break;
        }
        {
            float _e16 = score_2;
            uint _e17 = e_5;
            Eight _e19 = q_4.inner[_e17];
            uint _e20 = e_5;
            Eight _e22 = k_2.inner[_e20];
            float _e23 = dot8_(_e19, _e22);
            score_2 = _e16 + _e23;
        }
    }
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e38 = n_4;
            n_4 = naga_div(_e38, 2u);
        }
        loop_init_8 = false;
        uint _e30 = n_4;
        if (_e30 > 0u) {
        } else {
            break;
        }
        {
            float _e33 = score_2;
            float _e34 = score_2;
            uint _e35 = n_4;
            float unnamed_2 = metal::simd_shuffle_xor(_e34, _e35);
            score_2 = _e33 + unnamed_2;
        }
    }
    float _e42 = score_2;
    float _e43 = bend(_e42);
    score_2 = is_there_1 ? _e43 : NONE;
    float _e46 = m_1.largest;
    float _e47 = score_2;
    float now_1 = metal::max(_e46, _e47);
    float _e50 = m_1.largest;
    float fade_1 = metal::exp(_e50 - now_1);
    float _e53 = score_2;
    float w_1 = is_there_1 ? metal::exp(_e53 - now_1) : 0.0;
    m_1.largest = now_1;
    float _e61 = m_1.sum;
    m_1.sum = (_e61 * fade_1) + w_1;
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e98 = e_6;
            e_6 = _e98 + 1u;
        }
        loop_init_9 = false;
        uint _e66 = e_6;
        if (_e66 < EIGHTS) {
        } else {
            break;
        }
        {
            uint _e70 = e_6;
            uint _e73 = e_6;
            metal::float4 _e76 = m_1.mix.inner[_e73].a;
            uint _e78 = e_6;
            metal::float4 _e81 = v_2.inner[_e78].a;
            uint _e85 = e_6;
            metal::float4 _e88 = m_1.mix.inner[_e85].b;
            uint _e90 = e_6;
            metal::float4 _e93 = v_2.inner[_e90].b;
            m_1.mix.inner[_e70] = Eight {(_e76 * fade_1) + (w_1 * _e81), (_e88 * fade_1) + (w_1 * _e93)};
        }
    }
    Mix _e100 = m_1;
    return _e100;
}

void keep(
    uint h_3,
    Mix m_2,
    uint lane_3,
    uint lid_6,
    threadgroup type_10& part_largest,
    threadgroup type_10& part_sum,
    threadgroup type_11& part_mix
) {
    Mix m_3 = {};
    uint e_7 = 0u;
    m_3 = m_2;
    uint part = (h_3 * PARTS) + naga_div(lid_6, LANES);
    if (naga_mod(lid_6, LANES) == 0u) {
        float _e17 = m_3.largest;
        part_largest.inner[part] = _e17;
        float _e21 = m_3.sum;
        part_sum.inner[part] = _e21;
    }
    if (naga_mod(lid_6, LANES) < SPAN) {
        uint2 loop_bound_10 = uint2(4294967295u);
        bool loop_init_10 = true;
        while(true) {
            if (metal::all(loop_bound_10 == uint2(0u))) { break; }
            loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
            if (!loop_init_10) {
                uint _e57 = e_7;
                e_7 = _e57 + 1u;
            }
            loop_init_10 = false;
            uint _e28 = e_7;
            if (_e28 < EIGHTS) {
            } else {
                break;
            }
            {
                uint _e34 = e_7;
                uint i_20 = (part * FOURS) + (2u * (lane_3 + (_e34 * SPAN)));
                uint _e43 = e_7;
                metal::float4 _e46 = m_3.mix.inner[_e43].a;
                part_mix.inner[i_20] = _e46;
                uint _e52 = e_7;
                metal::float4 _e55 = m_3.mix.inner[_e52].b;
                part_mix.inner[i_20 + 1u] = _e55;
            }
        }
        return;
    } else {
        return;
    }
}

Mix joined(
    Mix before_2
) {
    Mix m_4 = {};
    uint n_5 = SPAN;
    uint e_8 = {};
    m_4 = before_2;
    uint2 loop_bound_11 = uint2(4294967295u);
    bool loop_init_11 = true;
    while(true) {
        if (metal::all(loop_bound_11 == uint2(0u))) { break; }
        loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
        if (!loop_init_11) {
            uint _e59 = n_5;
            n_5 = _e59 * 2u;
        }
        loop_init_11 = false;
        uint _e4 = n_5;
        if (_e4 < LANES) {
        } else {
            break;
        }
        {
            float _e8 = m_4.largest;
            float _e10 = m_4.largest;
            uint _e11 = n_5;
            float unnamed_3 = metal::simd_shuffle_xor(_e10, _e11);
            float now_2 = metal::max(_e8, unnamed_3);
            float _e15 = m_4.largest;
            float fade_2 = metal::exp(_e15 - now_2);
            m_4.largest = now_2;
            float _e20 = m_4.sum;
            m_4.sum = _e20 * fade_2;
            float _e23 = m_4.sum;
            float _e25 = m_4.sum;
            uint _e26 = n_5;
            float unnamed_4 = metal::simd_shuffle_xor(_e25, _e26);
            m_4.sum = _e23 + unnamed_4;
            e_8 = 0u;
            uint2 loop_bound_12 = uint2(4294967295u);
            bool loop_init_12 = true;
            while(true) {
                if (metal::all(loop_bound_12 == uint2(0u))) { break; }
                loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
                if (!loop_init_12) {
                    uint _e57 = e_8;
                    e_8 = _e57 + 1u;
                }
                loop_init_12 = false;
                uint _e31 = e_8;
                if (_e31 < EIGHTS) {
                } else {
                    break;
                }
                {
                    uint _e35 = e_8;
                    metal::float4 _e38 = m_4.mix.inner[_e35].a;
                    metal::float4 a_2 = _e38 * fade_2;
                    uint _e41 = e_8;
                    metal::float4 _e44 = m_4.mix.inner[_e41].b;
                    metal::float4 b_2 = _e44 * fade_2;
                    uint _e47 = e_8;
                    uint _e49 = n_5;
                    metal::float4 unnamed_5 = metal::simd_shuffle_xor(a_2, _e49);
                    uint _e52 = n_5;
                    metal::float4 unnamed_6 = metal::simd_shuffle_xor(b_2, _e52);
                    m_4.mix.inner[_e47] = Eight {a_2 + unnamed_5, b_2 + unnamed_6};
                }
            }
        }
    }
    Mix _e62 = m_4;
    return _e62;
}

metal::float3 merged(
    uint h_4,
    uint d_3,
    threadgroup type_10& part_largest,
    threadgroup type_10& part_sum,
    threadgroup type_11& part_mix
) {
    float largest = {};
    uint i_16 = 1u;
    float x_7 = 0.0;
    float sum_3 = 0.0;
    uint i_17 = {};
    uint first = h_4 * PARTS;
    float _e6 = part_largest.inner[first];
    largest = _e6;
    uint2 loop_bound_13 = uint2(4294967295u);
    bool loop_init_13 = true;
    while(true) {
        if (metal::all(loop_bound_13 == uint2(0u))) { break; }
        loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
        if (!loop_init_13) {
            uint _e21 = i_16;
            i_16 = _e21 + 1u;
        }
        loop_init_13 = false;
        uint _e10 = i_16;
        if (_e10 < PARTS) {
        } else {
            break;
        }
        {
            float _e13 = largest;
            uint _e15 = i_16;
            float _e18 = part_largest.inner[first + _e15];
            largest = metal::max(_e13, _e18);
        }
    }
    i_17 = first;
    uint2 loop_bound_14 = uint2(4294967295u);
    bool loop_init_14 = true;
    while(true) {
        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
        if (!loop_init_14) {
            uint _e62 = i_17;
            i_17 = _e62 + 1u;
        }
        loop_init_14 = false;
        uint _e28 = i_17;
        if (_e28 < (first + PARTS)) {
        } else {
            break;
        }
        {
            uint _e33 = i_17;
            float _e35 = part_largest.inner[_e33];
            float _e36 = largest;
            float fade_3 = metal::exp(_e35 - _e36);
            float _e39 = sum_3;
            uint _e41 = i_17;
            float _e43 = part_sum.inner[_e41];
            sum_3 = _e39 + (_e43 * fade_3);
            float _e46 = x_7;
            uint _e48 = i_17;
            float _e58 = part_mix.inner[(_e48 * FOURS) + naga_div(d_3, 4u)][naga_mod(d_3, 4u)];
            x_7 = _e46 + (_e58 * fade_3);
        }
    }
    float _e64 = x_7;
    float _e65 = sum_3;
    float _e66 = largest;
    return metal::float3(_e64, _e65, _e66);
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
, device type_1 const& kc [[user(fake0)]]
, device type_1 const& vc [[user(fake0)]]
, device type_6& y [[user(fake0)]]
, threadgroup type_8& query
, threadgroup type_9& query_factor
, threadgroup type_10& part_largest
, threadgroup type_10& part_sum
, threadgroup type_11& part_mix
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        reduce_part = {};
        query = {};
        query_factor = {};
        part_largest = {};
        part_sum = {};
        part_mix = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool local = {};
    Fours ahead = {};
    uint h = 0u;
    float sum = {};
    uint d = {};
    uint i = {};
    float factor = {};
    Mix m_0_ = {};
    Mix m_1_ = {};
    uint from = {};
    bool local_1 = {};
    uint from_1 = {};
    Vector k = {};
    Vector v = {};
    uint e = {};
    bool local_2 = {};
    uint i_1 = {};
    float x = {};
    uint g = wid.x + (wid.y * nwg.x);
    uint _e9 = batch_t(batch, _buffer_sizes);
    uint groups = _e9 * 2u;
    if (g >= (groups * SPLITS)) {
        return;
    }
    uint split_1 = naga_div(g, groups);
    uint row_8 = naga_div(naga_mod(g, groups), 2u);
    uint kv_4 = naga_div(naga_mod(g, 2u), SETS);
    uint start = naga_mod(g, SETS) * TOGETHER;
    uint head_3 = (kv_4 * GROUP) + metal::min(start, 0u);
    uint made_before = ((kv_4 * GROUP) + start) - head_3;
    uint _e33 = batch_seq(row_8, batch, _buffer_sizes);
    uint _e34 = batch_position(row_8, batch, _buffer_sizes);
    uint _e36 = batch_span(_e33, 2u, batch, _buffer_sizes);
    uint _e38 = batch_span(_e33, 1u, batch, _buffer_sizes);
    uint new_1 = _e36 - _e38;
    if (false) {
        local = (_e34 + 1u) > WINDOW;
    } else {
        local = false;
    }
    bool _e53 = local;
    uint first_1 = _e53 ? ((_e34 + 1u) - WINDOW) : 0u;
    uint cached = metal::max(false ? new_1 : (_e34 + 1u), first_1);
    uint splits = metal::clamp(naga_div(((cached - first_1) + CHUNK) - 1u, CHUNK), 1u, SPLITS);
    if (split_1 >= splits) {
        return;
    }
    uint per = naga_div(((cached - first_1) + splits) - 1u, splits);
    uint begin = first_1 + (split_1 * per);
    uint end_1 = metal::min(cached, begin + per);
    uint lane_4 = naga_mod(lid, SPAN);
    uint mine = naga_div(lid, SPAN);
    Fours _e85 = fours(_e33, kv_4, begin + mine, end_1, lane_4, batch, kc, vc, _buffer_sizes);
    ahead = _e85;
    if (split_1 == 0u) {
        uint _e89 = own_start(row_8, _e33);
        own_take(_e89, kv_4, lid);
    }
    uint queries = ((row_8 * HEADS) + head_3) * Q_STRIDE;
    if (q_NORM) {
        uint2 loop_bound_15 = uint2(4294967295u);
        bool loop_init_15 = true;
        while(true) {
            if (metal::all(loop_bound_15 == uint2(0u))) { break; }
            loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
            if (!loop_init_15) {
                uint _e133 = h;
                h = _e133 + 1u;
            }
            loop_init_15 = false;
            uint _e98 = h;
            if (_e98 < TOGETHER) {
            } else {
                break;
            }
            {
                sum = 0.0;
                d = lid;
                uint2 loop_bound_16 = uint2(4294967295u);
                bool loop_init_16 = true;
                while(true) {
                    if (metal::all(loop_bound_16 == uint2(0u))) { break; }
                    loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
                    if (!loop_init_16) {
                        uint _e117 = d;
                        d = _e117 + WG;
                    }
                    loop_init_16 = false;
                    uint _e104 = d;
                    if (_e104 < q_DIM) {
                    } else {
                        break;
                    }
                    {
                        uint _e107 = h;
                        uint _e111 = d;
                        float _e113 = q_x_at((queries + (_e107 * Q_STRIDE)) + _e111, q_x, _buffer_sizes);
                        float _e114 = sum;
                        sum = _e114 + (_e113 * _e113);
                    }
                }
                float _e120 = sum;
                float _e121 = workgroup_sum(_e120, lid, reduce_part);
                float factor_1 = metal::rsqrt((_e121 / 64.0) + q_EPS);
                if (lid == 0u) {
                    uint _e130 = h;
                    query_factor.inner[_e130] = factor_1;
                }
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
    i = lid;
    uint2 loop_bound_17 = uint2(4294967295u);
    bool loop_init_17 = true;
    while(true) {
        if (metal::all(loop_bound_17 == uint2(0u))) { break; }
        loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
        if (!loop_init_17) {
            uint _e177 = i;
            i = _e177 + WG;
        }
        loop_init_17 = false;
        uint _e136 = i;
        if (_e136 < 32u) {
        } else {
            break;
        }
        {
            uint _e139 = i;
            uint from_3 = queries + (naga_div(_e139, FOURS) * Q_STRIDE);
            uint _e145 = i;
            uint d_4 = naga_mod(_e145, FOURS) * 4u;
            factor = SCALE;
            if (q_NORM) {
                float _e153 = factor;
                uint _e155 = i;
                float _e159 = query_factor.inner[naga_div(_e155, FOURS)];
                factor = _e153 * _e159;
            }
            uint _e162 = i;
            float _e164 = factor;
            float _e165 = rotated(row_8, from_3, d_4, batch, q_x, _buffer_sizes);
            float _e168 = rotated(row_8, from_3, d_4 + 1u, batch, q_x, _buffer_sizes);
            float _e171 = rotated(row_8, from_3, d_4 + 2u, batch, q_x, _buffer_sizes);
            float _e174 = rotated(row_8, from_3, d_4 + 3u, batch, q_x, _buffer_sizes);
            query.inner[_e162] = _e164 * metal::float4(_e165, _e168, _e171, _e174);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (split_1 == 0u) {
        own(row_8, head_3, kv_4, _e33, _e34, new_1, lid);
    }
    Vector _e183 = query_of(0u, lane_4, query);
    Vector _e185 = query_of(1u, lane_4, query);
    m_0_.largest = NONE;
    m_1_.largest = NONE;
    from = begin;
    uint2 loop_bound_18 = uint2(4294967295u);
    bool loop_init_18 = true;
    while(true) {
        if (metal::all(loop_bound_18 == uint2(0u))) { break; }
        loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
        if (!loop_init_18) {
            uint _e220 = from;
            from = _e220 + 128u;
        }
        loop_init_18 = false;
        uint _e193 = from;
        if (_e193 < end_1) {
        } else {
            break;
        }
        {
            uint _e195 = from;
            metal::uint4 p_2 = metal::uint4(_e195 + mine) + metal::uint4(0u, 32u, 64u, 96u);
            metal::bool4 is_there_2 = p_2 < metal::uint4(end_1);
            Fours now_3 = ahead;
            uint _e207 = from;
            if ((_e207 + 128u) < end_1) {
                uint _e211 = from;
                Fours _e215 = fours(_e33, kv_4, (_e211 + 128u) + mine, end_1, lane_4, batch, kc, vc, _buffer_sizes);
                ahead = _e215;
            }
            Mix _e216 = m_0_;
            Mix _e217 = with_four(_e216, _e183, now_3, is_there_2);
            m_0_ = _e217;
            Mix _e218 = m_1_;
            Mix _e219 = with_four(_e218, _e185, now_3, is_there_2);
            m_1_ = _e219;
        }
    }
    if (false) {
        local_1 = split_1 == 0u;
    } else {
        local_1 = false;
    }
    bool _e229 = local_1;
    if (_e229) {
        from_1 = metal::max(first_1, new_1);
        uint2 loop_bound_19 = uint2(4294967295u);
        bool loop_init_19 = true;
        while(true) {
            if (metal::all(loop_bound_19 == uint2(0u))) { break; }
            loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
            if (!loop_init_19) {
                uint _e274 = from_1;
                from_1 = _e274 + KEYS;
            }
            loop_init_19 = false;
            uint _e232 = from_1;
            if (_e232 <= _e34) {
            } else {
                break;
            }
            {
                uint _e234 = from_1;
                uint p_3 = _e234 + mine;
                uint at_4 = metal::min(p_3, _e34) - new_1;
                k = Vector {};
                v = Vector {};
                e = 0u;
                uint2 loop_bound_20 = uint2(4294967295u);
                bool loop_init_20 = true;
                while(true) {
                    if (metal::all(loop_bound_20 == uint2(0u))) { break; }
                    loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
                    if (!loop_init_20) {
                        uint _e262 = e;
                        e = _e262 + 1u;
                    }
                    loop_init_20 = false;
                    uint _e244 = e;
                    if (_e244 < EIGHTS) {
                    } else {
                        break;
                    }
                    {
                        uint _e247 = e;
                        uint _e249 = e;
                        Eight _e253 = own_key_eight(at_4, lane_4 + (_e249 * SPAN));
                        k.inner[_e247] = _e253;
                        uint _e254 = e;
                        uint _e256 = e;
                        Eight _e260 = own_value_eight(at_4, lane_4 + (_e256 * SPAN));
                        v.inner[_e254] = _e260;
                    }
                }
                Mix _e264 = m_0_;
                Vector _e265 = k;
                Vector _e266 = v;
                Mix _e268 = with_one(_e264, _e183, _e265, _e266, p_3 <= _e34);
                m_0_ = _e268;
                Mix _e269 = m_1_;
                Vector _e270 = k;
                Vector _e271 = v;
                Mix _e273 = with_one(_e269, _e185, _e270, _e271, p_3 <= _e34);
                m_1_ = _e273;
            }
        }
    }
    Mix _e278 = m_0_;
    Mix _e279 = joined(_e278);
    keep(0u, _e279, lane_4, lid, part_largest, part_sum, part_mix);
    Mix _e281 = m_1_;
    Mix _e282 = joined(_e281);
    keep(1u, _e282, lane_4, lid, part_largest, part_sum, part_mix);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool is_shared = splits > 1u;
    uint which_2 = (row_8 * HEADS) + head_3;
    uint place = naga_mod(g, groups) * TOGETHER;
    if (is_shared) {
        bool _e293 = meet(place, split_1, splits, lid);
        local_2 = !(_e293);
    } else {
        local_2 = false;
    }
    bool _e296 = local_2;
    if (_e296) {
        return;
    }
    i_1 = lid;
    uint2 loop_bound_21 = uint2(4294967295u);
    bool loop_init_21 = true;
    while(true) {
        if (metal::all(loop_bound_21 == uint2(0u))) { break; }
        loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
        if (!loop_init_21) {
            uint _e334 = i_1;
            i_1 = _e334 + WG;
        }
        loop_init_21 = false;
        uint _e298 = i_1;
        if (_e298 < 128u) {
        } else {
            break;
        }
        {
            uint _e301 = i_1;
            uint h_5 = naga_div(_e301, q_DIM);
            uint _e304 = i_1;
            uint d_5 = naga_mod(_e304, q_DIM);
            metal::float3 _e307 = merged(h_5, d_5, part_largest, part_sum, part_mix);
            x = _e307.x / _e307.y;
            if (is_shared) {
                float _e312 = met(place, h_5, d_5, splits);
                x = _e312;
            }
            if (h_5 < made_before) {
                continue;
            }
            if (GATE) {
                float _e315 = x;
                float _e324 = joint_at(((((which_2 + h_5) * 2u) * q_DIM) + q_DIM) + d_5, q_x, _buffer_sizes);
                float _e325 = sigmoid(_e324);
                x = _e315 * _e325;
            }
            uint _e330 = i_1;
            float _e333 = x;
            y[(which_2 * q_DIM) + _e330] = _e333;
        }
    }
    return;
}
