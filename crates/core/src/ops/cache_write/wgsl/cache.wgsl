// A cache $C of heads of $C_DIM numbers, $C_HEADS heads, in rows of $C_BYTES bytes: one of f32, f16 or q8_0.
// $C_word(i) gives a word of its memory.

// Byte where the vector of a head begins.
fn $C_at(page: u32, head: u32, offset: u32) -> u32 {
    return ((page * $C_HEADS + head) * batch[3] + offset) * $C_BYTES;
}
