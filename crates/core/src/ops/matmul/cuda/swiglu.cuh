// The problem of a kernel's file that is compiled by itself: one output, SwiGLU of a gate and an up projection in Q4_0. The file
// defines PRODUCT_X, what the weights are multiplied with.
#include "problems.cuh"
#define OUTPUTS 1
#define WIDTH_0 4864
typedef Planes<4, 32, 8, false, ScaleF16, false> Q4_0;
template <> struct Problem<0, 0> {
    DEVICE static Q4_0 weight(const Args& A) { return Q4_0{(const u8*)A.a10, (const u8*)A.a11, (const u8*)A.a11}; }
    DEVICE static auto x(const Args& A) { return PRODUCT_X; }
};
template <> struct Problem<0, 1> {
    DEVICE static Q4_0 weight(const Args& A) { return Q4_0{(const u8*)A.a12, (const u8*)A.a13, (const u8*)A.a13}; }
    DEVICE static auto x(const Args& A) { return PRODUCT_X; }
};
template <> struct Epilogue<0> {
    static constexpr int PRODUCTS = 2;
    static constexpr u32 WIDTH = WIDTH_0;
    DEVICE static float* out(const Args& A) { return (float*)A.a14; }
    DEVICE static float value(const Args& A, u32 t, u32 row, const float* product) { return silu(product[0]) * product[1]; }
};
