// What `unit`, `half_unit` and `set_norm` (matmul/cuda/mod.rs, half.rs) set for the kernels of a matmul: rows of K elements with
// an RMS norm, and f16 as the type of 16-bit factors.
#define K 896
#define ROWS (Batch{BATCH}.t())
#define X_IN ((const float*)A.a1)
#define NORM 1
#define NORM_EPS 1e-6f
#define NORM_WEIGHT ((const float*)A.a2)
#define HALF_BF16 0
