// A paged cache $C in f32, f16 or q8_0: $C_HEADS heads of $C_DIM elements, each vector in $C_BYTES bytes. $C_word(i) reads a
// 32-bit word of its memory.

// Byte offset of the vector of a head.
fn $C_at(page: u32, head: u32, offset: u32) -> u32 {
    return ((page * $C_HEADS + head) * batch[3] + offset) * $C_BYTES;
}
