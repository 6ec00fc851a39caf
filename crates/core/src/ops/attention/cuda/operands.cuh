// What `unit` and `set_write` (attention/cuda/mod.rs) set for every attention kernel: 8 query heads of 64 elements that share 2
// key heads, queries and keys normed and rotated, the cache in f16 and written by the kernel.
#define HEADS 8
#define KV_HEADS 2
#define DIM 64
// Elements from one head's query to the next: 2 * DIM where the gate stands between them.
#define Q_STRIDE DIM
#define KEY_TYPE CACHE_F16
#define VALUE_TYPE CACHE_F16
#define SCALE 0.125f
#define WINDOW 4294967295u
#define HAS_SOFTCAP 0
#define SOFTCAP 1.0f
#define GATE 0

#define ROTATE_Q 1
#define Q_PAIRS 32
#define Q_NEOX true
#define Q_TABLE 0
#define Q_NORM_EPS 1e-6f
#define WRITE 1
#define ROTATE_K 1
#define K_PAIRS 32
#define K_NEOX true
#define K_TABLE 0
#define K_NORM_EPS 1e-6f

#define X_IN ((const float*)A.a1)
#define GATE_IN X_IN
#define Q_NORM_WEIGHT ((const float*)A.a2)
#define KEYS ((u8*)A.a3)
#define VALUES ((u8*)A.a4)
#define K_NORM_WEIGHT ((const float*)A.a5)
#define K_IN ((const float*)A.a6)
#define V_IN ((const float*)A.a7)
#define OUT ((float*)A.a8)
// Kernels that split the cache: [row][group of heads][split][head] partials, and a semaphore for each row and group.
#define KV_PARTIALS ((float*)A.a9)
#define SEMAPHORES ((u32*)A.a10)
