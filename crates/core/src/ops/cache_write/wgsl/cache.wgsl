// A paged cache kc in f32, f16 or q8_0: kc_HEADS heads of kc_DIM elements, each vector in kc_BYTES bytes. kc_word(i) reads a
// 32-bit word of its memory.
// header: defaults
const kc_HEADS: u32 = 1u;
const kc_BYTES: u32 = 128u;
@group(0) @binding(0) var<storage, read> batch: array<u32>;
// header: end

// Byte offset of the vector of a head.
fn kc_at(page: u32, head: u32, offset: u32) -> u32 {
    return ((page * kc_HEADS + head) * batch[3] + offset) * kc_BYTES;
}
