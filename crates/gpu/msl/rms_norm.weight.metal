// For the case "per head".
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
typedef float type_3[1];
struct type_4 {
    float inner[2];
};
constant uint WG = 64u;
constant uint DIM = 64u;
constant uint GROUPS = 9u;
constant float EPS = 0.00001;
constant uint LANES = 32u;

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

float x_at(
    uint i,
    device type_3 const& x_3,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = x_3[i];
    return _e3;
}

float weight_at(
    uint i_1,
    device type_3 const& weight,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = weight[i_1];
    return _e3;
}

float finish(
    float y,
    uint i_2
) {
    return y;
}

void put_sum(
    uint i_3,
    float x
) {
    return;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float lanes_sum(
    float x_1,
    uint lid_1
) {
    float sum_1 = {};
    uint n = 16u;
    sum_1 = x_1;
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

float workgroup_sum(
    float x_2,
    uint lid_2,
    threadgroup type_4& reduce_part
) {
    float sum_2 = 0.0;
    uint i_4 = 0u;
    float _e2 = lanes_sum(x_2, lid_2);
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
        if (_e15 < 2u) {
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

struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 wid [[threadgroup_position_in_grid]]
, metal::uint3 nwg [[threadgroups_per_grid]]
, uint lid [[thread_index_in_threadgroup]]
, device type_1 const& batch [[user(fake0)]]
, device type_3 const& x_3 [[user(fake0)]]
, device type_3 const& weight [[user(fake0)]]
, device type_3& y_1 [[user(fake0)]]
, threadgroup type_4& reduce_part
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
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            uint _e26 = d;
            d = _e26 + WG;
        }
        loop_init_2 = false;
        uint _e15 = d;
        if (_e15 < DIM) {
        } else {
            break;
        }
        {
            uint _e20 = d;
            float _e22 = x_at((g * DIM) + _e20, x_3, _buffer_sizes);
            float _e23 = sum;
            sum = _e23 + (_e22 * _e22);
        }
    }
    float _e29 = sum;
    float _e30 = workgroup_sum(_e29, lid, reduce_part);
    float factor = metal::rsqrt((_e30 / 64.0) + EPS);
    d_1 = lid;
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            uint _e52 = d_1;
            d_1 = _e52 + WG;
        }
        loop_init_3 = false;
        uint _e37 = d_1;
        if (_e37 < DIM) {
        } else {
            break;
        }
        {
            uint _e42 = d_1;
            uint i_5 = (g * DIM) + _e42;
            float _e44 = x_at(i_5, x_3, _buffer_sizes);
            put_sum(i_5, _e44);
            uint _e48 = d_1;
            float _e49 = weight_at(_e48, weight, _buffer_sizes);
            float _e51 = finish((_e44 * factor) * _e49, i_5);
            y_1[i_5] = _e51;
        }
    }
    return;
}
