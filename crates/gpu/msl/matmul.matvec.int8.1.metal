// For the case "q4_1 of 96, 1 rows".
// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size2;
    uint size6;
    uint size7;
};

typedef uint type_1[1];
struct Sums {
    float inner[1];
};
struct type_4 {
    float inner[4];
};
typedef metal::float4 type_6[1];
struct type_8 {
    metal::uint4 inner[6];
};
struct type_9 {
    float inner[3];
};
struct type_12 {
    metal::int2 inner[3];
};
typedef metal::uint4 type_13[1];
struct type_14 {
    metal::uint4 inner[2];
};
struct type_15 {
    float inner[2];
};
struct type_16 {
    int inner[2];
};
typedef float type_17[1];
constant uint WG = 128u;
constant uint K = 96u;
constant uint TURNS = 1u;
constant uint ROWS = 1u;
constant uint LANES = 32u;
constant bool NATURAL = false;
constant bool PERMUTED = true;
constant uint AT_PERMUTED = 0u;
constant uint AT_SCALES = 24u;
constant uint AT_SUMS = 28u;
constant uint ROUNDED_ROW = 36u;
constant bool NORM = false;
constant float EPS = 0.0;
constant uint w0_ROWS = 37u;
constant uint w0_BITS = 4u;
constant uint w0_GROUP = 32u;
constant float w0_ZERO = 0.0;
constant bool w0_OFFSET = true;
constant uint w0_AT_SCALES = 448u;
constant uint w0_AT_OFFSETS = 512u;
constant uint Y0_WIDTH = 37u;

uint batch_t(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = batch[0];
    return _e2;
}

float divide(
    float a,
    float b
) {
    float q = a / b;
    return metal::fma(metal::fma(-(q), b, a), 1.0 / b, q);
}

uint rows(
    device type_1 const& batch,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e0 = batch_t(batch, _buffer_sizes);
    return _e0;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float lanes_sum(
    float x,
    uint lid_1
) {
    float sum = {};
    uint n = 16u;
    sum = x;
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

float workgroup_sum(
    float x_1,
    uint lid_2,
    threadgroup type_4& reduce_part
) {
    float sum_1 = 0.0;
    uint i = 0u;
    float _e2 = lanes_sum(x_1, lid_2);
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
            uint _e25 = i;
            i = _e25 + 1u;
        }
        loop_init_1 = false;
        uint _e15 = i;
        if (_e15 < 4u) {
        } else {
            break;
        }
        {
            float _e18 = sum_1;
            uint _e20 = i;
            float _e22 = reduce_part.inner[_e20];
            sum_1 = _e18 + _e22;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e27 = sum_1;
    return _e27;
}

float norm_at(
    uint i_1
) {
    return 1.0;
}

metal::int4 naga_f2i32(metal::float4 value) {
    return static_cast<metal::int4>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

void stage(
    uint lid_3,
    threadgroup type_4& reduce_part,
    device type_6 const& x_2,
    threadgroup type_8& staged_codes,
    threadgroup type_9& staged_scale,
    threadgroup type_12& staged_sums,
    constant _mslBufferSizes& _buffer_sizes
) {
    float factor = 1.0;
    float sum_2 = 0.0;
    uint i_2 = {};
    uint from = 0u;
    float largest = {};
    uint n_1 = {};
    float scale = {};
    float inverse = {};
    int sum_3 = {};
    if (NORM) {
        i_2 = lid_3;
        uint2 loop_bound_2 = uint2(4294967295u);
        bool loop_init_2 = true;
        while(true) {
            if (metal::all(loop_bound_2 == uint2(0u))) { break; }
            loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
            if (!loop_init_2) {
                uint _e21 = i_2;
                i_2 = _e21 + WG;
            }
            loop_init_2 = false;
            uint _e7 = i_2;
            if (_e7 < 24u) {
            } else {
                break;
            }
            {
                float _e10 = sum_2;
                uint _e12 = i_2;
                metal::float4 _e14 = x_2[_e12];
                uint _e16 = i_2;
                metal::float4 _e18 = x_2[_e16];
                sum_2 = _e10 + metal::dot(_e14, _e18);
            }
        }
        float _e25 = sum_2;
        float _e26 = workgroup_sum(_e25, lid_3, reduce_part);
        float _e32 = divide(1.0, metal::sqrt((_e26 / 96.0) + EPS));
        factor = _e32;
    }
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e205 = from;
            from = _e205 + WG;
        }
        loop_init_3 = false;
        uint _e35 = from;
        if (_e35 < 24u) {
        } else {
            break;
        }
        {
            uint _e38 = from;
            uint i_5 = metal::min(_e38 + lid_3, 23u);
            float _e44 = norm_at(4u * i_5);
            float _e49 = norm_at((4u * i_5) + 1u);
            float _e54 = norm_at((4u * i_5) + 2u);
            float _e59 = norm_at((4u * i_5) + 3u);
            metal::float4 norm = metal::float4(_e44, _e49, _e54, _e59);
            metal::float4 _e63 = x_2[i_5];
            float _e64 = factor;
            metal::float4 four = (_e63 * _e64) * norm;
            metal::float4 size = metal::abs(four);
            largest = metal::max(metal::max(size.x, size.y), metal::max(size.z, size.w));
            n_1 = 1u;
            uint2 loop_bound_4 = uint2(4294967295u);
            bool loop_init_4 = true;
            while(true) {
                if (metal::all(loop_bound_4 == uint2(0u))) { break; }
                loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
                if (!loop_init_4) {
                    uint _e86 = n_1;
                    n_1 = _e86 * 2u;
                }
                loop_init_4 = false;
                uint _e78 = n_1;
                if (_e78 < 8u) {
                } else {
                    break;
                }
                {
                    float _e81 = largest;
                    float _e82 = largest;
                    uint _e83 = n_1;
                    float unnamed_1 = metal::simd_shuffle_xor(_e82, _e83);
                    largest = metal::max(_e81, unnamed_1);
                }
            }
            scale = 0.0;
            inverse = 0.0;
            float _e93 = largest;
            if (_e93 >= 0.000000000000000000000000000001) {
                float _e96 = largest;
                float _e98 = divide(_e96, 127.0);
                scale = _e98;
                float _e100 = largest;
                float _e101 = divide(127.0, _e100);
                inverse = _e101;
            }
            float _e102 = inverse;
            metal::int4 code = naga_f2i32(metal::rint(four * _e102));
            sum_3 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(code.x) + as_type<uint>(code.y))) + as_type<uint>(code.z))) + as_type<uint>(code.w));
            int _e114 = sum_3;
            int _e115 = sum_3;
            int unnamed_2 = metal::simd_shuffle_xor(_e115, 1u);
            sum_3 = as_type<int>(as_type<uint>(_e114) + as_type<uint>(unnamed_2));
            int _e119 = sum_3;
            int _e120 = sum_3;
            int unnamed_3 = metal::simd_shuffle_xor(_e120, 2u);
            sum_3 = as_type<int>(as_type<uint>(_e119) + as_type<uint>(unnamed_3));
            uint word = as_type<uint>(packed_char4(code));
            uint unnamed_4 = metal::simd_shuffle_xor(word, 1u);
            uint _e127 = from;
            if ((_e127 + lid_3) < 24u) {
                if (NATURAL) {
                    staged_codes.inner[i_5 >> 2u][i_5 & 3u] = word;
                }
                if (PERMUTED) {
                    bool is_even = (i_5 & 1u) == 0u;
                    uint a_1 = (is_even ? word : unnamed_4) >> (8u * (i_5 & 1u));
                    uint b_1 = (is_even ? unnamed_4 : word) >> (8u * (i_5 & 1u));
                    uint at_1 = AT_PERMUTED + i_5;
                    staged_codes.inner[at_1 >> 2u][at_1 & 3u] = (((a_1 & 255u) | ((a_1 >> 8u) & 65280u)) | ((b_1 & 255u) << 16u)) | ((b_1 << 8u) & 4278190080u);
                }
                if (naga_mod(i_5, 8u) == 0u) {
                    float _e190 = scale;
                    staged_scale.inner[naga_div(i_5, 8u)] = _e190;
                }
                if (naga_mod(i_5, 4u) == 0u) {
                    int _e204 = sum_3;
                    staged_sums.inner[naga_div(i_5, 8u)][naga_div(i_5, 4u) & 1u] = _e204;
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

metal::uint4 rounded_four(
    uint i_3,
    threadgroup type_8& staged_codes
) {
    metal::uint4 _e3 = staged_codes.inner[i_3];
    return _e3;
}

float rounded_scale(
    uint t,
    uint block,
    threadgroup type_9& staged_scale
) {
    float _e4 = staged_scale.inner[block];
    return _e4;
}

metal::int2 rounded_sums(
    uint t_1,
    uint block_1,
    threadgroup type_12& staged_sums
) {
    metal::int2 _e4 = staged_sums.inner[block_1];
    return _e4;
}

float w0_half(
    uint at,
    uint i_4,
    device type_13 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_1 = at + (i_4 >> 1u);
    uint _e12 = w0_[word_1 >> 2u][word_1 & 3u];
    return float2(as_type<half2>(_e12))[i_4 & 1u];
}

Sums dot_w0_(
    uint row,
    uint lane,
    device type_1 const& batch,
    threadgroup type_8& staged_codes,
    threadgroup type_9& staged_scale,
    threadgroup type_12& staged_sums,
    device type_13 const& w0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    Sums sums = {};
    uint turn = 0u;
    bool local = {};
    type_14 c = {};
    type_15 scale_1 = {};
    type_15 offset = {};
    uint g = {};
    uint t_2 = {};
    bool local_1 = {};
    type_16 half_ = {};
    uint h = {};
    metal::int2 sum_4 = {};
    bool local_2 = {};
    float y = {};
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            uint _e291 = turn;
            turn = _e291 + 1u;
        }
        loop_init_5 = false;
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
            c = type_14 {};
            if (true) {
                metal::uint4 _e28 = w0_[(row * 3u) + block_2];
                c.inner[0] = _e28;
            } else {
                metal::uint4 _e37 = w0_[(row * 6u) + (2u * block_2)];
                c.inner[0] = _e37;
                metal::uint4 _e48 = w0_[((row * 6u) + (2u * block_2)) + 1u];
                c.inner[1] = _e48;
            }
            scale_1 = type_15 {};
            offset = type_15 {};
            g = 0u;
            uint2 loop_bound_6 = uint2(4294967295u);
            bool loop_init_6 = true;
            while(true) {
                if (metal::all(loop_bound_6 == uint2(0u))) { break; }
                loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
                if (!loop_init_6) {
                    uint _e77 = g;
                    g = _e77 + 1u;
                }
                loop_init_6 = false;
                uint _e55 = g;
                if (_e55 < 1u) {
                } else {
                    break;
                }
                {
                    uint _e65 = g;
                    uint group_1 = naga_div((row * K) + (32u * block_2), w0_GROUP) + _e65;
                    uint _e67 = g;
                    float _e70 = w0_half(w0_AT_SCALES, group_1, w0_, _buffer_sizes);
                    scale_1.inner[_e67] = _e70;
                    if (w0_OFFSET) {
                        uint _e72 = g;
                        float _e75 = w0_half(w0_AT_OFFSETS, group_1, w0_, _buffer_sizes);
                        offset.inner[_e72] = _e75;
                    }
                }
            }
            t_2 = 0u;
            uint2 loop_bound_7 = uint2(4294967295u);
            bool loop_init_7 = true;
            while(true) {
                if (metal::all(loop_bound_7 == uint2(0u))) { break; }
                loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
                if (!loop_init_7) {
                    uint _e288 = t_2;
                    t_2 = _e288 + 1u;
                }
                loop_init_7 = false;
                uint _e81 = t_2;
                if (_e81 < ROWS) {
                } else {
                    break;
                }
                {
                    if (false) {
                        uint _e87 = t_2;
                        uint _e88 = rows(batch, _buffer_sizes);
                        local_1 = _e87 < _e88;
                    } else {
                        local_1 = true;
                    }
                    bool _e91 = local_1;
                    if (_e91) {
                        uint _e92 = t_2;
                        uint at_2 = (_e92 * 9u) + (2u * block_2);
                        half_ = type_16 {};
                        if (true) {
                            metal::uint4 _e103 = rounded_four(at_2 + 0u, staged_codes);
                            metal::uint4 _e108 = rounded_four((at_2 + 0u) + 1u, staged_codes);
                            metal::uint4 _e110 = c.inner[0];
                            metal::uint4 low = _e110 & metal::uint4(252645135u);
                            metal::uint4 _e115 = c.inner[0];
                            metal::uint4 high = (_e115 >> metal::uint4(4u)) & metal::uint4(252645135u);
                            uint _e123 = low.x;
                            uint _e124 = _e103.x;
                            packed_char4 reinterpreted_packed_char4_e123 = as_type<packed_char4>(_e123);
                            packed_char4 reinterpreted_packed_char4_e124 = as_type<packed_char4>(_e124);
                            uint _e126 = high.x;
                            uint _e127 = _e103.y;
                            packed_char4 reinterpreted_packed_char4_e126 = as_type<packed_char4>(_e126);
                            packed_char4 reinterpreted_packed_char4_e127 = as_type<packed_char4>(_e127);
                            uint _e130 = low.y;
                            uint _e131 = _e103.z;
                            packed_char4 reinterpreted_packed_char4_e130 = as_type<packed_char4>(_e130);
                            packed_char4 reinterpreted_packed_char4_e131 = as_type<packed_char4>(_e131);
                            uint _e134 = high.y;
                            uint _e135 = _e103.w;
                            packed_char4 reinterpreted_packed_char4_e134 = as_type<packed_char4>(_e134);
                            packed_char4 reinterpreted_packed_char4_e135 = as_type<packed_char4>(_e135);
                            half_.inner[0] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e123[0] * reinterpreted_packed_char4_e124[0] + reinterpreted_packed_char4_e123[1] * reinterpreted_packed_char4_e124[1] + reinterpreted_packed_char4_e123[2] * reinterpreted_packed_char4_e124[2] + reinterpreted_packed_char4_e123[3] * reinterpreted_packed_char4_e124[3])) + as_type<uint>(( + reinterpreted_packed_char4_e126[0] * reinterpreted_packed_char4_e127[0] + reinterpreted_packed_char4_e126[1] * reinterpreted_packed_char4_e127[1] + reinterpreted_packed_char4_e126[2] * reinterpreted_packed_char4_e127[2] + reinterpreted_packed_char4_e126[3] * reinterpreted_packed_char4_e127[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e130[0] * reinterpreted_packed_char4_e131[0] + reinterpreted_packed_char4_e130[1] * reinterpreted_packed_char4_e131[1] + reinterpreted_packed_char4_e130[2] * reinterpreted_packed_char4_e131[2] + reinterpreted_packed_char4_e130[3] * reinterpreted_packed_char4_e131[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e134[0] * reinterpreted_packed_char4_e135[0] + reinterpreted_packed_char4_e134[1] * reinterpreted_packed_char4_e135[1] + reinterpreted_packed_char4_e134[2] * reinterpreted_packed_char4_e135[2] + reinterpreted_packed_char4_e134[3] * reinterpreted_packed_char4_e135[3])));
                            uint _e139 = low.z;
                            uint _e140 = _e108.x;
                            packed_char4 reinterpreted_packed_char4_e139 = as_type<packed_char4>(_e139);
                            packed_char4 reinterpreted_packed_char4_e140 = as_type<packed_char4>(_e140);
                            uint _e142 = high.z;
                            uint _e143 = _e108.y;
                            packed_char4 reinterpreted_packed_char4_e142 = as_type<packed_char4>(_e142);
                            packed_char4 reinterpreted_packed_char4_e143 = as_type<packed_char4>(_e143);
                            uint _e146 = low.w;
                            uint _e147 = _e108.z;
                            packed_char4 reinterpreted_packed_char4_e146 = as_type<packed_char4>(_e146);
                            packed_char4 reinterpreted_packed_char4_e147 = as_type<packed_char4>(_e147);
                            uint _e150 = high.w;
                            uint _e151 = _e108.w;
                            packed_char4 reinterpreted_packed_char4_e150 = as_type<packed_char4>(_e150);
                            packed_char4 reinterpreted_packed_char4_e151 = as_type<packed_char4>(_e151);
                            half_.inner[1] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e139[0] * reinterpreted_packed_char4_e140[0] + reinterpreted_packed_char4_e139[1] * reinterpreted_packed_char4_e140[1] + reinterpreted_packed_char4_e139[2] * reinterpreted_packed_char4_e140[2] + reinterpreted_packed_char4_e139[3] * reinterpreted_packed_char4_e140[3])) + as_type<uint>(( + reinterpreted_packed_char4_e142[0] * reinterpreted_packed_char4_e143[0] + reinterpreted_packed_char4_e142[1] * reinterpreted_packed_char4_e143[1] + reinterpreted_packed_char4_e142[2] * reinterpreted_packed_char4_e143[2] + reinterpreted_packed_char4_e142[3] * reinterpreted_packed_char4_e143[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e146[0] * reinterpreted_packed_char4_e147[0] + reinterpreted_packed_char4_e146[1] * reinterpreted_packed_char4_e147[1] + reinterpreted_packed_char4_e146[2] * reinterpreted_packed_char4_e147[2] + reinterpreted_packed_char4_e146[3] * reinterpreted_packed_char4_e147[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e150[0] * reinterpreted_packed_char4_e151[0] + reinterpreted_packed_char4_e150[1] * reinterpreted_packed_char4_e151[1] + reinterpreted_packed_char4_e150[2] * reinterpreted_packed_char4_e151[2] + reinterpreted_packed_char4_e150[3] * reinterpreted_packed_char4_e151[3])));
                        } else {
                            h = 0u;
                            uint2 loop_bound_8 = uint2(4294967295u);
                            bool loop_init_8 = true;
                            while(true) {
                                if (metal::all(loop_bound_8 == uint2(0u))) { break; }
                                loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
                                if (!loop_init_8) {
                                    uint _e192 = h;
                                    h = _e192 + 1u;
                                }
                                loop_init_8 = false;
                                uint _e156 = h;
                                if (_e156 < 2u) {
                                } else {
                                    break;
                                }
                                {
                                    uint _e159 = h;
                                    metal::uint4 _e161 = rounded_four(at_2 + _e159, staged_codes);
                                    uint _e162 = h;
                                    uint _e164 = h;
                                    uint _e167 = c.inner[_e164].x;
                                    uint _e168 = _e161.x;
                                    packed_char4 reinterpreted_packed_char4_e167 = as_type<packed_char4>(_e167);
                                    packed_char4 reinterpreted_packed_char4_e168 = as_type<packed_char4>(_e168);
                                    uint _e170 = h;
                                    uint _e173 = c.inner[_e170].y;
                                    uint _e174 = _e161.y;
                                    packed_char4 reinterpreted_packed_char4_e173 = as_type<packed_char4>(_e173);
                                    packed_char4 reinterpreted_packed_char4_e174 = as_type<packed_char4>(_e174);
                                    uint _e177 = h;
                                    uint _e180 = c.inner[_e177].z;
                                    uint _e181 = _e161.z;
                                    packed_char4 reinterpreted_packed_char4_e180 = as_type<packed_char4>(_e180);
                                    packed_char4 reinterpreted_packed_char4_e181 = as_type<packed_char4>(_e181);
                                    uint _e184 = h;
                                    uint _e187 = c.inner[_e184].w;
                                    uint _e188 = _e161.w;
                                    packed_char4 reinterpreted_packed_char4_e187 = as_type<packed_char4>(_e187);
                                    packed_char4 reinterpreted_packed_char4_e188 = as_type<packed_char4>(_e188);
                                    half_.inner[_e162] = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(( + reinterpreted_packed_char4_e167[0] * reinterpreted_packed_char4_e168[0] + reinterpreted_packed_char4_e167[1] * reinterpreted_packed_char4_e168[1] + reinterpreted_packed_char4_e167[2] * reinterpreted_packed_char4_e168[2] + reinterpreted_packed_char4_e167[3] * reinterpreted_packed_char4_e168[3])) + as_type<uint>(( + reinterpreted_packed_char4_e173[0] * reinterpreted_packed_char4_e174[0] + reinterpreted_packed_char4_e173[1] * reinterpreted_packed_char4_e174[1] + reinterpreted_packed_char4_e173[2] * reinterpreted_packed_char4_e174[2] + reinterpreted_packed_char4_e173[3] * reinterpreted_packed_char4_e174[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e180[0] * reinterpreted_packed_char4_e181[0] + reinterpreted_packed_char4_e180[1] * reinterpreted_packed_char4_e181[1] + reinterpreted_packed_char4_e180[2] * reinterpreted_packed_char4_e181[2] + reinterpreted_packed_char4_e180[3] * reinterpreted_packed_char4_e181[3])))) + as_type<uint>(( + reinterpreted_packed_char4_e187[0] * reinterpreted_packed_char4_e188[0] + reinterpreted_packed_char4_e187[1] * reinterpreted_packed_char4_e188[1] + reinterpreted_packed_char4_e187[2] * reinterpreted_packed_char4_e188[2] + reinterpreted_packed_char4_e187[3] * reinterpreted_packed_char4_e188[3])));
                                }
                            }
                        }
                        sum_4 = metal::int2(0);
                        if (true) {
                            local_2 = w0_OFFSET;
                        } else {
                            local_2 = true;
                        }
                        bool _e202 = local_2;
                        if (_e202) {
                            uint _e203 = t_2;
                            metal::int2 _e204 = rounded_sums(_e203, block_2, staged_sums);
                            sum_4 = _e204;
                        }
                        y = float {};
                        if (true) {
                            float _e209 = scale_1.inner[0];
                            int _e211 = half_.inner[0];
                            int _e213 = half_.inner[1];
                            int _e218 = sum_4.x;
                            int _e220 = sum_4.y;
                            y = _e209 * (static_cast<float>(as_type<int>(as_type<uint>(_e211) + as_type<uint>(_e213))) - (w0_ZERO * static_cast<float>(as_type<int>(as_type<uint>(_e218) + as_type<uint>(_e220)))));
                            if (w0_OFFSET) {
                                float _e227 = y;
                                float _e229 = offset.inner[0];
                                int _e231 = sum_4.x;
                                int _e233 = sum_4.y;
                                y = _e227 + (_e229 * static_cast<float>(as_type<int>(as_type<uint>(_e231) + as_type<uint>(_e233))));
                            }
                        } else {
                            float _e239 = scale_1.inner[0];
                            int _e241 = half_.inner[0];
                            int _e245 = sum_4.x;
                            float _e251 = scale_1.inner[1];
                            int _e253 = half_.inner[1];
                            int _e257 = sum_4.y;
                            y = (_e239 * (static_cast<float>(_e241) - (w0_ZERO * static_cast<float>(_e245)))) + (_e251 * (static_cast<float>(_e253) - (w0_ZERO * static_cast<float>(_e257))));
                            if (w0_OFFSET) {
                                float _e264 = y;
                                float _e266 = offset.inner[0];
                                int _e268 = sum_4.x;
                                float _e272 = offset.inner[1];
                                int _e274 = sum_4.y;
                                y = _e264 + ((_e266 * static_cast<float>(_e268)) + (_e272 * static_cast<float>(_e274)));
                            }
                        }
                        uint _e279 = t_2;
                        float _e281 = sums.inner[_e279];
                        float _e282 = y;
                        uint _e283 = t_2;
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

void out_0_(
    uint m,
    uint group,
    uint lid_4,
    device type_1 const& batch,
    threadgroup type_8& staged_codes,
    threadgroup type_9& staged_scale,
    threadgroup type_12& staged_sums,
    device type_13 const& w0_,
    device type_17& y0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint turn_1 = 0u;
    Sums sums0_ = {};
    uint t_3 = {};
    bool local_3 = {};
    bool local_4 = {};
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e60 = turn_1;
            turn_1 = _e60 + 1u;
        }
        loop_init_9 = false;
        uint _e5 = turn_1;
        if (_e5 < TURNS) {
        } else {
            break;
        }
        {
            uint _e10 = turn_1;
            uint n_2 = (((group * TURNS) + _e10) * 4u) + naga_div(lid_4, LANES);
            Sums _e21 = dot_w0_(metal::min(n_2, 36u), naga_mod(lid_4, LANES), batch, staged_codes, staged_scale, staged_sums, w0_, _buffer_sizes);
            sums0_ = _e21;
            t_3 = 0u;
            uint2 loop_bound_10 = uint2(4294967295u);
            bool loop_init_10 = true;
            while(true) {
                if (metal::all(loop_bound_10 == uint2(0u))) { break; }
                loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
                if (!loop_init_10) {
                    uint _e57 = t_3;
                    t_3 = _e57 + 1u;
                }
                loop_init_10 = false;
                uint _e25 = t_3;
                if (_e25 < ROWS) {
                } else {
                    break;
                }
                {
                    if (false) {
                        uint _e31 = t_3;
                        uint _e32 = rows(batch, _buffer_sizes);
                        local_3 = _e31 >= _e32;
                    } else {
                        local_3 = false;
                    }
                    bool _e35 = local_3;
                    if (_e35) {
                        break;
                    }
                    uint _e36 = t_3;
                    float _e38 = sums0_.inner[_e36];
                    float _e39 = lanes_sum(_e38, lid_4);
                    if (naga_mod(lid_4, LANES) == 0u) {
                        local_4 = n_2 < 37u;
                    } else {
                        local_4 = false;
                    }
                    bool _e49 = local_4;
                    if (_e49) {
                        uint _e51 = t_3;
                        y0_[(_e51 * Y0_WIDTH) + n_2] = _e39;
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
, threadgroup type_4& reduce_part
, device type_6 const& x_2 [[user(fake0)]]
, threadgroup type_8& staged_codes
, threadgroup type_9& staged_scale
, threadgroup type_12& staged_sums
, device type_13 const& w0_ [[user(fake0)]]
, device type_17& y0_ [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (lid == 0u) {
        reduce_part = {};
        staged_codes = {};
        staged_scale = {};
        staged_sums = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint n_3 = wid.x + (wid.y * nwg.x);
    stage(lid, reduce_part, x_2, staged_codes, staged_scale, staged_sums, _buffer_sizes);
    if (n_3 < 10u) {
        out_0_(0u, n_3 - 0u, lid, batch, staged_codes, staged_scale, staged_sums, w0_, y0_, _buffer_sizes);
        return;
    } else {
        return;
    }
}
