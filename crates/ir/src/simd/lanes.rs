//! A vector of f32 lanes: the operations that float kernels need from an instruction set, and their portable version.

/// The f32 vector of one instruction set.
///
/// # Safety (all functions)
/// The processor supports the instruction set, and pointers are valid for [`Lanes::N`] elements, or for `n` elements in
/// the `_part` forms, which access nothing beyond. No alignment is needed.
pub(super) trait Lanes: Copy {
    /// Lanes of a vector.
    const N: usize;
    /// Rows of the register tile of `dot_rows`.
    const ROWS: usize;
    /// True if `fma` is one instruction. Plain loops check this too, since `f32::mul_add` is a library call otherwise.
    const FMA: bool;
    /// The vector type: `N` f32.
    type V: Copy;

    /// Sets all lanes to `x`.
    unsafe fn splat(x: f32) -> Self::V;
    /// Loads `N` elements.
    unsafe fn load(p: *const f32) -> Self::V;
    /// Loads `n < N` elements; the other lanes are 0.
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V;
    /// Stores `N` elements.
    unsafe fn store(p: *mut f32, v: Self::V);
    /// Stores the first `n < N` lanes.
    unsafe fn store_part(p: *mut f32, v: Self::V, n: usize);
    /// Loads `N` f16 and converts them to f32.
    unsafe fn load_f16(p: *const u16) -> Self::V;
    /// Loads `N` bfloat16 and converts them to f32.
    unsafe fn load_bf16(p: *const u16) -> Self::V;
    /// Stores `N` elements as f16, rounded with ties to even.
    unsafe fn store_f16(p: *mut u16, v: Self::V);
    /// `a + b`.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Sum of the lanes.
    unsafe fn sum(v: Self::V) -> f32;
    /// Prefetches the cache line at `p` into L2. Any address is allowed.
    unsafe fn prefetch(p: *const u8);
    /// The sum of the lanes of each of four vectors.
    unsafe fn sum4(v: [Self::V; 4]) -> [f32; 4];
}

/// `a * b + c`, as one fused multiply-add where the instruction set has that instruction.
#[inline(always)]
pub(super) fn fma<L: Lanes>(a: f32, b: f32, c: f32) -> f32 {
    if L::FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Four lanes in plain Rust, which the compiler maps to 128-bit vectors where the target has them.
#[derive(Clone, Copy)]
pub(super) struct Portable;

/// Converts one f16 to f32 without branches: the exponent is shifted into place and rebiased by a multiplication, which is
/// exact for subnormals too; infinities and NaN get the largest exponent.
#[inline(always)]
pub(super) fn f16_to_f32(h: u16) -> f32 {
    let sign = u32::from(h & 0x8000) << 16;
    let magnitude = u32::from(h & 0x7fff);
    let rebias = f32::from_bits(0x7780_0000); // 2^112
    let value = (f32::from_bits(magnitude << 13) * rebias).to_bits();
    let special = if magnitude >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(sign | value | special)
}

/// Converts one bfloat16 to f32.
#[inline(always)]
pub(super) fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits(u32::from(h) << 16)
}

impl Lanes for Portable {
    const N: usize = 4;
    const ROWS: usize = 4;
    const FMA: bool = false;
    type V = [f32; 4];

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> [f32; 4] {
        // SAFETY: good for four elements, see the trait.
        unsafe { p.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> [f32; 4] {
        let mut v = [0.0; 4];
        for (i, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: `i < n`, see the trait.
            *v = unsafe { p.add(i).read_unaligned() };
        }
        v
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: [f32; 4]) {
        // SAFETY: good for four elements, see the trait.
        unsafe { p.cast::<[f32; 4]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: [f32; 4], n: usize) {
        for (i, v) in v.iter().enumerate().take(n) {
            // SAFETY: `i < n`, see the trait.
            unsafe { p.add(i).write_unaligned(*v) };
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> [f32; 4] {
        // SAFETY: good for four elements, see the trait.
        let h = unsafe { p.cast::<[u16; 4]>().read_unaligned() };
        [f16_to_f32(h[0]), f16_to_f32(h[1]), f16_to_f32(h[2]), f16_to_f32(h[3])]
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> [f32; 4] {
        // SAFETY: good for four elements, see the trait.
        let h = unsafe { p.cast::<[u16; 4]>().read_unaligned() };
        [bf16_to_f32(h[0]), bf16_to_f32(h[1]), bf16_to_f32(h[2]), bf16_to_f32(h[3])]
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: [f32; 4]) {
        let h = v.map(|x| half::f16::from_f32(x).to_bits());
        // SAFETY: good for four elements, see the trait.
        unsafe { p.cast::<[u16; 4]>().write_unaligned(h) }
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        [a[0] * b[0] + c[0], a[1] * b[1] + c[1], a[2] * b[2] + c[2], a[3] * b[3] + c[3]]
    }
    #[inline(always)]
    unsafe fn sum(v: [f32; 4]) -> f32 {
        (v[0] + v[2]) + (v[1] + v[3])
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
    #[inline(always)]
    unsafe fn sum4(v: [[f32; 4]; 4]) -> [f32; 4] {
        v.map(|v| (v[0] + v[2]) + (v[1] + v[3]))
    }
}
