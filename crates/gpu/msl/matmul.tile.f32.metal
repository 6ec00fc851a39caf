// For the case "norm, three formats, biases, some".
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
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
struct type_5 {
    float inner[2048];
};
typedef metal::float4 type_6[1];
typedef metal::uint4 type_8[1];
struct type_10 {
    metal::float4 inner[4];
};
typedef float type_12[1];
constant uint WG = 256u;
constant uint K = 96u;
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
    uint m_6 = u_1 & 2147483647u;
    if (m_6 >= 2139095040u) {
        return sign | ((m_6 > 2139095040u) ? 32256u : 31744u);
    }
    if (m_6 >= 1199566848u) {
        return sign | 31744u;
    }
    if (m_6 < 947912704u) {
        return sign | (as_type<uint>(as_type<float>(m_6) + 0.5) - 1056964608u);
    }
    return sign | ((((m_6 + 4095u) + ((m_6 >> 13u) & 1u)) - 939524096u) >> 13u);
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

Eight floats_eight(
    uint row_5,
    uint i_4,
    device type_6 const& floats,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_2 = (row_5 * 24u) + (2u * i_4);
    metal::float4 _e9 = floats[at_2];
    metal::float4 _e14 = floats[at_2 + 1u];
    return Eight {_e9, _e14};
}

float w0_half(
    uint at,
    uint i_5,
    device type_8 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = at + (i_5 >> 1u);
    uint _e12 = w0_[word >> 2u][word & 3u];
    return float2(as_type<half2>(_e12))[i_5 & 1u];
}

Eight w0_eight(
    uint row_6,
    uint i_6,
    device type_8 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight e = {};
    uint group = naga_div((row_6 * K) + (i_6 * 8u), w0_GROUP);
    float _e10 = w0_half(w0_AT_SCALES, group, w0_, _buffer_sizes);
    if (false) {
        uint at_3 = (row_6 * 12u) + i_6;
        uint word_1 = w0_[at_3 >> 2u][at_3 & 3u];
        metal::float4 low = static_cast<metal::float4>(uint4(as_type<packed_uchar4>(word_1 & 252645135u))) - metal::float4(0.0);
        metal::float4 high = static_cast<metal::float4>(uint4(as_type<packed_uchar4>((word_1 >> 4u) & 252645135u))) - metal::float4(0.0);
        e = Eight {metal::float4(low.x, high.x, low.y, high.y) * _e10, metal::float4(low.z, high.z, low.w, high.w) * _e10};
    } else {
        uint at_4 = (row_6 * 24u) + (2u * i_6);
        metal::uint4 four = w0_[at_4 >> 2u];
        metal::uint2 words = ((at_4 & 3u) == 0u) ? four.xy : four.zw;
        e = Eight {static_cast<metal::float4>(int4(as_type<packed_char4>(words.x))) * _e10, static_cast<metal::float4>(int4(as_type<packed_char4>(words.y))) * _e10};
    }
    if (w0_OFFSET) {
        float _e81 = w0_half(w0_AT_OFFSETS, group, w0_, _buffer_sizes);
        metal::float4 _e83 = e.a;
        metal::float4 _e87 = e.b;
        e = Eight {_e83 + metal::float4(_e81), _e87 + metal::float4(_e81)};
    }
    Eight _e91 = e;
    return _e91;
}

float w0_number(
    uint row_7,
    uint c,
    device type_8 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float code = {};
    uint i_12 = (row_7 * K) + c;
    if (false) {
        uint _e16 = w0_[i_12 >> 5u][(i_12 >> 3u) & 3u];
        code = static_cast<float>((_e16 >> (4u * (i_12 & 7u))) & 15u) - w0_ZERO;
    } else {
        uint _e36 = w0_[i_12 >> 4u][(i_12 >> 2u) & 3u];
        uint _e41 = 8u * (i_12 & 3u);
        code = static_cast<float>(metal::extract_bits(static_cast<int>(_e36), metal::min(_e41, 32u), metal::min(8u, 32u - metal::min(_e41, 32u))));
    }
    float _e48 = w0_half(w0_AT_SCALES, naga_div(i_12, w0_GROUP), w0_, _buffer_sizes);
    float _e49 = code;
    float x_9 = _e48 * _e49;
    if (w0_OFFSET) {
        float _e55 = w0_half(w0_AT_OFFSETS, naga_div(i_12, w0_GROUP), w0_, _buffer_sizes);
        return x_9 + _e55;
    }
    return x_9;
}

void tile_w0_(
    uint m,
    uint n,
    uint lid_1,
    thread type_10& acc,
    device type_1 const& batch,
    threadgroup type_5& tile_x,
    threadgroup type_5& tile_w,
    device type_6 const& floats,
    device type_8 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint k = 0u;
    Eight x_6 = {};
    Eight w = {};
    bool local = {};
    uint j = {};
    uint j_1 = {};
    uint r = {};
    uint _e9 = rows(batch, _buffer_sizes);
    uint x_row = metal::min((m * 64u) + naga_div(lid_1, 4u), _e9 - 1u);
    uint w_row = metal::min((n * 64u) + naga_div(lid_1, 4u), 79u);
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            uint _e153 = k;
            k = _e153 + 1u;
        }
        loop_init = false;
        uint _e22 = k;
        if (_e22 < 3u) {
        } else {
            break;
        }
        {
            uint _e26 = k;
            uint i_13 = (4u * _e26) + naga_mod(lid_1, 4u);
            x_6 = Eight {};
            w = Eight {};
            if (false) {
                local = i_13 < 12u;
            } else {
                local = true;
            }
            bool _e41 = local;
            if (_e41) {
                Eight _e42 = floats_eight(x_row, i_13, floats, _buffer_sizes);
                x_6 = _e42;
                Eight _e43 = w0_eight(w_row, i_13, w0_, _buffer_sizes);
                w = _e43;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            j = 0u;
            uint2 loop_bound_1 = uint2(4294967295u);
            bool loop_init_1 = true;
            while(true) {
                if (metal::all(loop_bound_1 == uint2(0u))) { break; }
                loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
                if (!loop_init_1) {
                    uint _e89 = j;
                    j = _e89 + 1u;
                }
                loop_init_1 = false;
                uint _e46 = j;
                if (_e46 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e53 = j;
                    uint at_5 = (((8u * naga_mod(lid_1, 4u)) + _e53) * 64u) + naga_div(lid_1, 4u);
                    uint _e63 = j;
                    float _e65 = x_6.a[_e63];
                    tile_x.inner[at_5] = _e65;
                    uint _e71 = j;
                    float _e73 = x_6.b[_e71];
                    tile_x.inner[at_5 + 256u] = _e73;
                    uint _e77 = j;
                    float _e79 = w.a[_e77];
                    tile_w.inner[at_5] = _e79;
                    uint _e85 = j;
                    float _e87 = w.b[_e85];
                    tile_w.inner[at_5 + 256u] = _e87;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            j_1 = 0u;
            uint2 loop_bound_2 = uint2(4294967295u);
            bool loop_init_2 = true;
            while(true) {
                if (metal::all(loop_bound_2 == uint2(0u))) { break; }
                loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
                if (!loop_init_2) {
                    uint _e150 = j_1;
                    j_1 = _e150 + 1u;
                }
                loop_init_2 = false;
                uint _e93 = j_1;
                if (_e93 < 32u) {
                } else {
                    break;
                }
                {
                    uint _e96 = j_1;
                    uint xa = (_e96 * 64u) + (naga_div(lid_1, 16u) * 4u);
                    uint _e104 = j_1;
                    uint wa = (_e104 * 64u) + (naga_mod(lid_1, 16u) * 4u);
                    float _e114 = tile_w.inner[wa];
                    float _e119 = tile_w.inner[wa + 1u];
                    float _e124 = tile_w.inner[wa + 2u];
                    float _e129 = tile_w.inner[wa + 3u];
                    metal::float4 w_3 = metal::float4(_e114, _e119, _e124, _e129);
                    r = 0u;
                    uint2 loop_bound_3 = uint2(4294967295u);
                    bool loop_init_3 = true;
                    while(true) {
                        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
                        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
                        if (!loop_init_3) {
                            uint _e147 = r;
                            r = _e147 + 1u;
                        }
                        loop_init_3 = false;
                        uint _e133 = r;
                        if (_e133 < 4u) {
                        } else {
                            break;
                        }
                        {
                            uint _e136 = r;
                            metal::float4 _e138 = acc.inner[_e136];
                            uint _e140 = r;
                            float _e143 = tile_x.inner[xa + _e140];
                            acc.inner[_e136] = _e138 + (_e143 * w_3);
                        }
                    }
                }
            }
        }
    }
    return;
}

float w1_half(
    uint at_1,
    uint i_7,
    device type_8 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_2 = at_1 + (i_7 >> 1u);
    uint _e12 = w1_[word_2 >> 2u][word_2 & 3u];
    return float2(as_type<half2>(_e12))[i_7 & 1u];
}

Eight w1_eight(
    uint row_8,
    uint i_8,
    device type_8 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight e_1 = {};
    uint group_1 = naga_div((row_8 * K) + (i_8 * 8u), w1_GROUP);
    float _e10 = w1_half(w1_AT_SCALES, group_1, w1_, _buffer_sizes);
    if (false) {
        uint at_6 = (row_8 * 12u) + i_8;
        uint word_3 = w1_[at_6 >> 2u][at_6 & 3u];
        metal::float4 low_1 = static_cast<metal::float4>(uint4(as_type<packed_uchar4>(word_3 & 252645135u))) - metal::float4(0.0);
        metal::float4 high_1 = static_cast<metal::float4>(uint4(as_type<packed_uchar4>((word_3 >> 4u) & 252645135u))) - metal::float4(0.0);
        e_1 = Eight {metal::float4(low_1.x, high_1.x, low_1.y, high_1.y) * _e10, metal::float4(low_1.z, high_1.z, low_1.w, high_1.w) * _e10};
    } else {
        uint at_7 = (row_8 * 24u) + (2u * i_8);
        metal::uint4 four_1 = w1_[at_7 >> 2u];
        metal::uint2 words_1 = ((at_7 & 3u) == 0u) ? four_1.xy : four_1.zw;
        e_1 = Eight {static_cast<metal::float4>(int4(as_type<packed_char4>(words_1.x))) * _e10, static_cast<metal::float4>(int4(as_type<packed_char4>(words_1.y))) * _e10};
    }
    if (w1_OFFSET) {
        float _e81 = w1_half(w1_AT_OFFSETS, group_1, w1_, _buffer_sizes);
        metal::float4 _e83 = e_1.a;
        metal::float4 _e87 = e_1.b;
        e_1 = Eight {_e83 + metal::float4(_e81), _e87 + metal::float4(_e81)};
    }
    Eight _e91 = e_1;
    return _e91;
}

float w1_number(
    uint row_9,
    uint c_1,
    device type_8 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float code_1 = {};
    uint i_14 = (row_9 * K) + c_1;
    if (false) {
        uint _e16 = w1_[i_14 >> 5u][(i_14 >> 3u) & 3u];
        code_1 = static_cast<float>((_e16 >> (4u * (i_14 & 7u))) & 15u) - w1_ZERO;
    } else {
        uint _e36 = w1_[i_14 >> 4u][(i_14 >> 2u) & 3u];
        uint _e41 = 8u * (i_14 & 3u);
        code_1 = static_cast<float>(metal::extract_bits(static_cast<int>(_e36), metal::min(_e41, 32u), metal::min(8u, 32u - metal::min(_e41, 32u))));
    }
    float _e48 = w1_half(w1_AT_SCALES, naga_div(i_14, w1_GROUP), w1_, _buffer_sizes);
    float _e49 = code_1;
    float x_10 = _e48 * _e49;
    if (w1_OFFSET) {
        float _e55 = w1_half(w1_AT_OFFSETS, naga_div(i_14, w1_GROUP), w1_, _buffer_sizes);
        return x_10 + _e55;
    }
    return x_10;
}

void tile_w1_(
    uint m_1,
    uint n_1,
    uint lid_2,
    thread type_10& acc_1,
    device type_1 const& batch,
    threadgroup type_5& tile_x,
    threadgroup type_5& tile_w,
    device type_6 const& floats,
    device type_8 const& w1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint k_1 = 0u;
    Eight x_7 = {};
    Eight w_1 = {};
    bool local_1 = {};
    uint j_2 = {};
    uint j_3 = {};
    uint r_1 = {};
    uint _e9 = rows(batch, _buffer_sizes);
    uint x_row_1 = metal::min((m_1 * 64u) + naga_div(lid_2, 4u), _e9 - 1u);
    uint w_row_1 = metal::min((n_1 * 64u) + naga_div(lid_2, 4u), 31u);
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e153 = k_1;
            k_1 = _e153 + 1u;
        }
        loop_init_4 = false;
        uint _e22 = k_1;
        if (_e22 < 3u) {
        } else {
            break;
        }
        {
            uint _e26 = k_1;
            uint i_15 = (4u * _e26) + naga_mod(lid_2, 4u);
            x_7 = Eight {};
            w_1 = Eight {};
            if (false) {
                local_1 = i_15 < 12u;
            } else {
                local_1 = true;
            }
            bool _e41 = local_1;
            if (_e41) {
                Eight _e42 = floats_eight(x_row_1, i_15, floats, _buffer_sizes);
                x_7 = _e42;
                Eight _e43 = w1_eight(w_row_1, i_15, w1_, _buffer_sizes);
                w_1 = _e43;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            j_2 = 0u;
            uint2 loop_bound_5 = uint2(4294967295u);
            bool loop_init_5 = true;
            while(true) {
                if (metal::all(loop_bound_5 == uint2(0u))) { break; }
                loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
                if (!loop_init_5) {
                    uint _e89 = j_2;
                    j_2 = _e89 + 1u;
                }
                loop_init_5 = false;
                uint _e46 = j_2;
                if (_e46 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e53 = j_2;
                    uint at_8 = (((8u * naga_mod(lid_2, 4u)) + _e53) * 64u) + naga_div(lid_2, 4u);
                    uint _e63 = j_2;
                    float _e65 = x_7.a[_e63];
                    tile_x.inner[at_8] = _e65;
                    uint _e71 = j_2;
                    float _e73 = x_7.b[_e71];
                    tile_x.inner[at_8 + 256u] = _e73;
                    uint _e77 = j_2;
                    float _e79 = w_1.a[_e77];
                    tile_w.inner[at_8] = _e79;
                    uint _e85 = j_2;
                    float _e87 = w_1.b[_e85];
                    tile_w.inner[at_8 + 256u] = _e87;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            j_3 = 0u;
            uint2 loop_bound_6 = uint2(4294967295u);
            bool loop_init_6 = true;
            while(true) {
                if (metal::all(loop_bound_6 == uint2(0u))) { break; }
                loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
                if (!loop_init_6) {
                    uint _e150 = j_3;
                    j_3 = _e150 + 1u;
                }
                loop_init_6 = false;
                uint _e93 = j_3;
                if (_e93 < 32u) {
                } else {
                    break;
                }
                {
                    uint _e96 = j_3;
                    uint xa_1 = (_e96 * 64u) + (naga_div(lid_2, 16u) * 4u);
                    uint _e104 = j_3;
                    uint wa_1 = (_e104 * 64u) + (naga_mod(lid_2, 16u) * 4u);
                    float _e114 = tile_w.inner[wa_1];
                    float _e119 = tile_w.inner[wa_1 + 1u];
                    float _e124 = tile_w.inner[wa_1 + 2u];
                    float _e129 = tile_w.inner[wa_1 + 3u];
                    metal::float4 w_4 = metal::float4(_e114, _e119, _e124, _e129);
                    r_1 = 0u;
                    uint2 loop_bound_7 = uint2(4294967295u);
                    bool loop_init_7 = true;
                    while(true) {
                        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
                        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
                        if (!loop_init_7) {
                            uint _e147 = r_1;
                            r_1 = _e147 + 1u;
                        }
                        loop_init_7 = false;
                        uint _e133 = r_1;
                        if (_e133 < 4u) {
                        } else {
                            break;
                        }
                        {
                            uint _e136 = r_1;
                            metal::float4 _e138 = acc_1.inner[_e136];
                            uint _e140 = r_1;
                            float _e143 = tile_x.inner[xa_1 + _e140];
                            acc_1.inner[_e136] = _e138 + (_e143 * w_4);
                        }
                    }
                }
            }
        }
    }
    return;
}

Eight w2_eight(
    uint row_10,
    uint i_9,
    device type_8 const& w2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 v = w2_[(row_10 * 12u) + i_9];
    return Eight {metal::float4(float2(as_type<half2>(v.x)), float2(as_type<half2>(v.y))), metal::float4(float2(as_type<half2>(v.z)), float2(as_type<half2>(v.w)))};
}

void tile_w2_(
    uint m_2,
    uint n_2,
    uint lid_3,
    thread type_10& acc_2,
    device type_1 const& batch,
    threadgroup type_5& tile_x,
    threadgroup type_5& tile_w,
    device type_6 const& floats,
    device type_8 const& w2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint k_2 = 0u;
    Eight x_8 = {};
    Eight w_2 = {};
    bool local_2 = {};
    uint j_4 = {};
    uint j_5 = {};
    uint r_2 = {};
    uint _e9 = rows(batch, _buffer_sizes);
    uint x_row_2 = metal::min((m_2 * 64u) + naga_div(lid_3, 4u), _e9 - 1u);
    uint w_row_2 = metal::min((n_2 * 64u) + naga_div(lid_3, 4u), 31u);
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e153 = k_2;
            k_2 = _e153 + 1u;
        }
        loop_init_8 = false;
        uint _e22 = k_2;
        if (_e22 < 3u) {
        } else {
            break;
        }
        {
            uint _e26 = k_2;
            uint i_16 = (4u * _e26) + naga_mod(lid_3, 4u);
            x_8 = Eight {};
            w_2 = Eight {};
            if (false) {
                local_2 = i_16 < 12u;
            } else {
                local_2 = true;
            }
            bool _e41 = local_2;
            if (_e41) {
                Eight _e42 = floats_eight(x_row_2, i_16, floats, _buffer_sizes);
                x_8 = _e42;
                Eight _e43 = w2_eight(w_row_2, i_16, w2_, _buffer_sizes);
                w_2 = _e43;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            j_4 = 0u;
            uint2 loop_bound_9 = uint2(4294967295u);
            bool loop_init_9 = true;
            while(true) {
                if (metal::all(loop_bound_9 == uint2(0u))) { break; }
                loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
                if (!loop_init_9) {
                    uint _e89 = j_4;
                    j_4 = _e89 + 1u;
                }
                loop_init_9 = false;
                uint _e46 = j_4;
                if (_e46 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e53 = j_4;
                    uint at_9 = (((8u * naga_mod(lid_3, 4u)) + _e53) * 64u) + naga_div(lid_3, 4u);
                    uint _e63 = j_4;
                    float _e65 = x_8.a[_e63];
                    tile_x.inner[at_9] = _e65;
                    uint _e71 = j_4;
                    float _e73 = x_8.b[_e71];
                    tile_x.inner[at_9 + 256u] = _e73;
                    uint _e77 = j_4;
                    float _e79 = w_2.a[_e77];
                    tile_w.inner[at_9] = _e79;
                    uint _e85 = j_4;
                    float _e87 = w_2.b[_e85];
                    tile_w.inner[at_9 + 256u] = _e87;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            j_5 = 0u;
            uint2 loop_bound_10 = uint2(4294967295u);
            bool loop_init_10 = true;
            while(true) {
                if (metal::all(loop_bound_10 == uint2(0u))) { break; }
                loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
                if (!loop_init_10) {
                    uint _e150 = j_5;
                    j_5 = _e150 + 1u;
                }
                loop_init_10 = false;
                uint _e93 = j_5;
                if (_e93 < 32u) {
                } else {
                    break;
                }
                {
                    uint _e96 = j_5;
                    uint xa_2 = (_e96 * 64u) + (naga_div(lid_3, 16u) * 4u);
                    uint _e104 = j_5;
                    uint wa_2 = (_e104 * 64u) + (naga_mod(lid_3, 16u) * 4u);
                    float _e114 = tile_w.inner[wa_2];
                    float _e119 = tile_w.inner[wa_2 + 1u];
                    float _e124 = tile_w.inner[wa_2 + 2u];
                    float _e129 = tile_w.inner[wa_2 + 3u];
                    metal::float4 w_5 = metal::float4(_e114, _e119, _e124, _e129);
                    r_2 = 0u;
                    uint2 loop_bound_11 = uint2(4294967295u);
                    bool loop_init_11 = true;
                    while(true) {
                        if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                        loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                        if (!loop_init_11) {
                            uint _e147 = r_2;
                            r_2 = _e147 + 1u;
                        }
                        loop_init_11 = false;
                        uint _e133 = r_2;
                        if (_e133 < 4u) {
                        } else {
                            break;
                        }
                        {
                            uint _e136 = r_2;
                            metal::float4 _e138 = acc_2.inner[_e136];
                            uint _e140 = r_2;
                            float _e143 = tile_x.inner[xa_2 + _e140];
                            acc_2.inner[_e136] = _e138 + (_e143 * w_5);
                        }
                    }
                }
            }
        }
    }
    return;
}

float o0_at(
    uint i_10,
    device type_12 const& o0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = o0_[i_10];
    return _e3;
}

float o1_at(
    uint i_11,
    device type_12 const& o1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = o1_[i_11];
    return _e3;
}

void out_0_(
    uint m_3,
    uint tile,
    uint lid_4,
    device type_1 const& batch,
    threadgroup type_5& tile_x,
    threadgroup type_5& tile_w,
    device type_6 const& floats,
    device type_8 const& w0_,
    device type_12 const& o0_,
    device type_12& y0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_10 acc0_ = {};
    uint r_3 = 0u;
    uint c_2 = {};
    bool local_3 = {};
    tile_w0_(m_3, tile, lid_4, acc0_, batch, tile_x, tile_w, floats, w0_, _buffer_sizes);
    uint2 loop_bound_12 = uint2(4294967295u);
    bool loop_init_12 = true;
    while(true) {
        if (metal::all(loop_bound_12 == uint2(0u))) { break; }
        loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
        if (!loop_init_12) {
            uint _e56 = r_3;
            r_3 = _e56 + 1u;
        }
        loop_init_12 = false;
        uint _e6 = r_3;
        if (_e6 < 4u) {
        } else {
            break;
        }
        {
            c_2 = 0u;
            uint2 loop_bound_13 = uint2(4294967295u);
            bool loop_init_13 = true;
            while(true) {
                if (metal::all(loop_bound_13 == uint2(0u))) { break; }
                loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
                if (!loop_init_13) {
                    uint _e53 = c_2;
                    c_2 = _e53 + 1u;
                }
                loop_init_13 = false;
                uint _e11 = c_2;
                if (_e11 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e21 = r_3;
                    uint t = ((m_3 * 64u) + (naga_div(lid_4, 16u) * 4u)) + _e21;
                    uint _e30 = c_2;
                    uint n_3 = ((tile * 64u) + (naga_mod(lid_4, 16u) * 4u)) + _e30;
                    uint _e32 = rows(batch, _buffer_sizes);
                    if (t < _e32) {
                        local_3 = n_3 < Y0_WIDTH;
                    } else {
                        local_3 = false;
                    }
                    bool _e39 = local_3;
                    if (_e39) {
                        uint _e40 = r_3;
                        uint _e42 = c_2;
                        float p0_ = acc0_.inner[_e40][_e42];
                        float _e50 = o0_at(n_3, o0_, _buffer_sizes);
                        y0_[(t * Y0_WIDTH) + n_3] = p0_ + _e50;
                    }
                }
            }
        }
    }
    return;
}

void out_1_(
    uint m_4,
    uint tile_1,
    uint lid_5,
    device type_1 const& batch,
    threadgroup type_5& tile_x,
    threadgroup type_5& tile_w,
    device type_6 const& floats,
    device type_8 const& w1_,
    device type_12 const& o1_,
    device type_12& y1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_10 acc1_ = {};
    uint r_4 = 0u;
    uint c_3 = {};
    bool local_4 = {};
    tile_w1_(m_4, tile_1, lid_5, acc1_, batch, tile_x, tile_w, floats, w1_, _buffer_sizes);
    uint2 loop_bound_14 = uint2(4294967295u);
    bool loop_init_14 = true;
    while(true) {
        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
        if (!loop_init_14) {
            uint _e56 = r_4;
            r_4 = _e56 + 1u;
        }
        loop_init_14 = false;
        uint _e6 = r_4;
        if (_e6 < 4u) {
        } else {
            break;
        }
        {
            c_3 = 0u;
            uint2 loop_bound_15 = uint2(4294967295u);
            bool loop_init_15 = true;
            while(true) {
                if (metal::all(loop_bound_15 == uint2(0u))) { break; }
                loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
                if (!loop_init_15) {
                    uint _e53 = c_3;
                    c_3 = _e53 + 1u;
                }
                loop_init_15 = false;
                uint _e11 = c_3;
                if (_e11 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e21 = r_4;
                    uint t_1 = ((m_4 * 64u) + (naga_div(lid_5, 16u) * 4u)) + _e21;
                    uint _e30 = c_3;
                    uint n_4 = ((tile_1 * 64u) + (naga_mod(lid_5, 16u) * 4u)) + _e30;
                    uint _e32 = rows(batch, _buffer_sizes);
                    if (t_1 < _e32) {
                        local_4 = n_4 < Y1_WIDTH;
                    } else {
                        local_4 = false;
                    }
                    bool _e39 = local_4;
                    if (_e39) {
                        uint _e40 = r_4;
                        uint _e42 = c_3;
                        float p1_ = acc1_.inner[_e40][_e42];
                        float _e50 = o1_at(n_4, o1_, _buffer_sizes);
                        y1_[(t_1 * Y1_WIDTH) + n_4] = p1_ + _e50;
                    }
                }
            }
        }
    }
    return;
}

void out_2_(
    uint m_5,
    uint tile_2,
    uint lid_6,
    device type_1 const& batch,
    threadgroup type_5& tile_x,
    threadgroup type_5& tile_w,
    device type_6 const& floats,
    device type_8 const& w2_,
    device type_12& y2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_10 acc2_ = {};
    uint r_5 = 0u;
    uint c_4 = {};
    bool local_5 = {};
    tile_w2_(m_5, tile_2, lid_6, acc2_, batch, tile_x, tile_w, floats, w2_, _buffer_sizes);
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e54 = r_5;
            r_5 = _e54 + 1u;
        }
        loop_init_16 = false;
        uint _e6 = r_5;
        if (_e6 < 4u) {
        } else {
            break;
        }
        {
            c_4 = 0u;
            uint2 loop_bound_17 = uint2(4294967295u);
            bool loop_init_17 = true;
            while(true) {
                if (metal::all(loop_bound_17 == uint2(0u))) { break; }
                loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
                if (!loop_init_17) {
                    uint _e51 = c_4;
                    c_4 = _e51 + 1u;
                }
                loop_init_17 = false;
                uint _e11 = c_4;
                if (_e11 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e21 = r_5;
                    uint t_2 = ((m_5 * 64u) + (naga_div(lid_6, 16u) * 4u)) + _e21;
                    uint _e30 = c_4;
                    uint n_5 = ((tile_2 * 64u) + (naga_mod(lid_6, 16u) * 4u)) + _e30;
                    uint _e32 = rows(batch, _buffer_sizes);
                    if (t_2 < _e32) {
                        local_5 = n_5 < Y2_WIDTH;
                    } else {
                        local_5 = false;
                    }
                    bool _e39 = local_5;
                    if (_e39) {
                        uint _e40 = r_5;
                        uint _e42 = c_4;
                        float p2_ = acc2_.inner[_e40][_e42];
                        y2_[(t_2 * Y2_WIDTH) + n_5] = p2_;
                    }
                }
            }
        }
    }
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, device type_1 const& batch [[user(fake0)]]
, threadgroup type_5& tile_x
, threadgroup type_5& tile_w
, device type_6 const& floats [[user(fake0)]]
, device type_8 const& w0_ [[user(fake0)]]
, device type_8 const& w1_ [[user(fake0)]]
, device type_8 const& w2_ [[user(fake0)]]
, device type_12 const& o0_ [[user(fake0)]]
, device type_12 const& o1_ [[user(fake0)]]
, device type_12& y0_ [[user(fake0)]]
, device type_12& y1_ [[user(fake0)]]
, device type_12& y2_ [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        tile_x = {};
        tile_w = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint g = wid.x + (wid.y * nwg.x);
    uint m_7 = naga_div(g, 4u);
    uint n_6 = naga_mod(g, 4u);
    uint _e14 = rows(batch, _buffer_sizes);
    if ((m_7 * 64u) >= _e14) {
        return;
    }
    if (n_6 < 2u) {
        out_0_(m_7, n_6 - 0u, lid, batch, tile_x, tile_w, floats, w0_, o0_, y0_, _buffer_sizes);
        return;
    } else {
        if (n_6 < 3u) {
            out_1_(m_7, n_6 - 2u, lid, batch, tile_x, tile_w, floats, w1_, o1_, y1_, _buffer_sizes);
            return;
        } else {
            if (n_6 < 4u) {
                out_2_(m_7, n_6 - 3u, lid, batch, tile_x, tile_w, floats, w2_, y2_, _buffer_sizes);
                return;
            } else {
                return;
            }
        }
    }
}
