// For the case "8 of q8_0, 200 rows, F32".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size3;
    uint size4;
    uint size5;
};

typedef uint type_1[1];
struct Eight {
    metal::float4 a;
    metal::float4 b;
};
struct type_4 {
    float inner[2048];
};
typedef metal::uint4 type_7[1];
struct type_9 {
    metal::float4 inner[4];
};
typedef float type_11[1];
constant uint WG = 256u;
constant uint K = 96u;
constant bool NATURAL = true;
constant bool PERMUTED = false;
constant uint AT_PERMUTED = 24u;
constant uint AT_SCALES = 24u;
constant uint AT_SUMS = 28u;
constant uint ROUNDED_ROW = 36u;
constant uint w0_ROWS = 8u;
constant uint w0_BITS = 8u;
constant uint w0_GROUP = 32u;
constant float w0_ZERO = 0.0;
constant bool w0_OFFSET = false;
constant uint w0_AT_SCALES = 192u;
constant uint w0_AT_OFFSETS = 256u;
constant uint Y0_WIDTH = 8u;

uint batch_t(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = batch[0];
    return _e2;
}

uint rows(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e0 = batch_t(batch, _buffer_sizes);
    return _e0;
}

float rounded_scale(
    uint t,
    uint block,
    device type_7 const& rounded,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e14 = rounded[((t * 9u) + 6u) + (block >> 2u)][block & 3u];
    return as_type<float>(_e14);
}

metal::uint2 rounded_words(
    uint t_1,
    uint i,
    device type_7 const& rounded,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 _e13 = rounded[((t_1 * 9u) + 0u) + ((2u * i) >> 2u)];
    metal::uint4 _e26 = rounded[((t_1 * 9u) + 0u) + ((2u * i) >> 2u)];
    return ((i & 1u) == 1u) ? _e26.zw : _e13.xy;
}

Eight rounded_eight(
    uint t_2,
    uint i_1,
    device type_7 const& rounded,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint2 _e2 = rounded_words(t_2, i_1, rounded, _buffer_sizes);
    float _e5 = rounded_scale(t_2, i_1 >> 2u, rounded, _buffer_sizes);
    return Eight {static_cast<metal::float4>(int4(as_type<packed_char4>(_e2.x))) * _e5, static_cast<metal::float4>(int4(as_type<packed_char4>(_e2.y))) * _e5};
}

float w0_half(
    uint at,
    uint i_2,
    device type_7 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = at + (i_2 >> 1u);
    uint _e12 = w0_[word >> 2u][word & 3u];
    return float2(as_type<half2>(_e12))[i_2 & 1u];
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

Eight w0_eight(
    uint row,
    uint i_3,
    device type_7 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Eight e = {};
    uint group = naga_div((row * K) + (i_3 * 8u), w0_GROUP);
    float _e10 = w0_half(w0_AT_SCALES, group, w0_, _buffer_sizes);
    if (false) {
        uint at_1 = (row * 12u) + i_3;
        uint word_1 = w0_[at_1 >> 2u][at_1 & 3u];
        metal::float4 low = static_cast<metal::float4>(uint4(as_type<packed_uchar4>(word_1 & 252645135u))) - metal::float4(0.0);
        metal::float4 high = static_cast<metal::float4>(uint4(as_type<packed_uchar4>((word_1 >> 4u) & 252645135u))) - metal::float4(0.0);
        e = Eight {metal::float4(low.x, high.x, low.y, high.y) * _e10, metal::float4(low.z, high.z, low.w, high.w) * _e10};
    } else {
        uint at_2 = (row * 24u) + (2u * i_3);
        metal::uint4 four = w0_[at_2 >> 2u];
        metal::uint2 words = ((at_2 & 3u) == 0u) ? four.xy : four.zw;
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

void tile_w0_(
    uint m,
    uint n,
    uint lid_1,
    thread type_9& acc,
    device type_1 const& batch,
    threadgroup type_4& tile_x,
    threadgroup type_4& tile_w,
    device type_7 const& rounded,
    device type_7 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint k = 0u;
    Eight x = {};
    Eight w = {};
    bool local = {};
    uint j = {};
    uint j_1 = {};
    uint r = {};
    uint _e9 = rows(batch, _buffer_sizes);
    uint x_row = metal::min((m * 64u) + naga_div(lid_1, 4u), _e9 - 1u);
    uint w_row = metal::min((n * 64u) + naga_div(lid_1, 4u), 7u);
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
            uint i_4 = (4u * _e26) + naga_mod(lid_1, 4u);
            x = Eight {};
            w = Eight {};
            if (false) {
                local = i_4 < 12u;
            } else {
                local = true;
            }
            bool _e41 = local;
            if (_e41) {
                Eight _e42 = rounded_eight(x_row, i_4, rounded, _buffer_sizes);
                x = _e42;
                Eight _e43 = w0_eight(w_row, i_4, w0_, _buffer_sizes);
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
                    uint at_3 = (((8u * naga_mod(lid_1, 4u)) + _e53) * 64u) + naga_div(lid_1, 4u);
                    uint _e63 = j;
                    float _e65 = x.a[_e63];
                    tile_x.inner[at_3] = _e65;
                    uint _e71 = j;
                    float _e73 = x.b[_e71];
                    tile_x.inner[at_3 + 256u] = _e73;
                    uint _e77 = j;
                    float _e79 = w.a[_e77];
                    tile_w.inner[at_3] = _e79;
                    uint _e85 = j;
                    float _e87 = w.b[_e85];
                    tile_w.inner[at_3 + 256u] = _e87;
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
                    metal::float4 w_1 = metal::float4(_e114, _e119, _e124, _e129);
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
                            acc.inner[_e136] = _e138 + (_e143 * w_1);
                        }
                    }
                }
            }
        }
    }
    return;
}

void out_0_(
    uint m_1,
    uint tile,
    uint lid_2,
    device type_1 const& batch,
    threadgroup type_4& tile_x,
    threadgroup type_4& tile_w,
    device type_7 const& rounded,
    device type_7 const& w0_,
    device type_11& y0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_9 acc0_ = {};
    uint r_1 = 0u;
    uint c = {};
    bool local_1 = {};
    tile_w0_(m_1, tile, lid_2, acc0_, batch, tile_x, tile_w, rounded, w0_, _buffer_sizes);
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e54 = r_1;
            r_1 = _e54 + 1u;
        }
        loop_init_4 = false;
        uint _e6 = r_1;
        if (_e6 < 4u) {
        } else {
            break;
        }
        {
            c = 0u;
            uint2 loop_bound_5 = uint2(4294967295u);
            bool loop_init_5 = true;
            while(true) {
                if (metal::all(loop_bound_5 == uint2(0u))) { break; }
                loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
                if (!loop_init_5) {
                    uint _e51 = c;
                    c = _e51 + 1u;
                }
                loop_init_5 = false;
                uint _e11 = c;
                if (_e11 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e21 = r_1;
                    uint t_3 = ((m_1 * 64u) + (naga_div(lid_2, 16u) * 4u)) + _e21;
                    uint _e30 = c;
                    uint n_1 = ((tile * 64u) + (naga_mod(lid_2, 16u) * 4u)) + _e30;
                    uint _e32 = rows(batch, _buffer_sizes);
                    if (t_3 < _e32) {
                        local_1 = n_1 < 8u;
                    } else {
                        local_1 = false;
                    }
                    bool _e39 = local_1;
                    if (_e39) {
                        uint _e40 = r_1;
                        uint _e42 = c;
                        float p0_ = acc0_.inner[_e40][_e42];
                        y0_[(t_3 * Y0_WIDTH) + n_1] = p0_;
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
, threadgroup type_4& tile_x
, threadgroup type_4& tile_w
, device type_7 const& rounded [[user(fake0)]]
, device type_7 const& w0_ [[user(fake0)]]
, device type_11& y0_ [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        tile_x = {};
        tile_w = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint g = wid.x + (wid.y * nwg.x);
    uint m_2 = naga_div(g, 1u);
    uint n_2 = naga_mod(g, 1u);
    uint _e14 = rows(batch, _buffer_sizes);
    if ((m_2 * 64u) >= _e14) {
        return;
    }
    if (n_2 < 1u) {
        out_0_(m_2, n_2 - 0u, lid, batch, tile_x, tile_w, rounded, w0_, y0_, _buffer_sizes);
        return;
    } else {
        return;
    }
}
