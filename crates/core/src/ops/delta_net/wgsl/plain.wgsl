// Query, key and value without a convolution in front. The values are columns from V_START of rows of V_STRIDE elements.
// header: defaults
const K_HEADS: u32 = 1u;
const K_DIM: u32 = 64u;
const V_STRIDE: u32 = 64u;
const V_START: u32 = 0u;
fn q_at(i: u32) -> f32 { return 0.0; }
fn k_at(i: u32) -> f32 { return 0.0; }
fn v_at(i: u32) -> f32 { return 0.0; }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
// header: end

fn front_query(seq: u32, t: u32, i: u32) -> f32 { return q_at((batch_span(seq, 0u) + t) * K_HEADS * K_DIM + i); }
fn front_key(seq: u32, t: u32, i: u32) -> f32 { return k_at((batch_span(seq, 0u) + t) * K_HEADS * K_DIM + i); }
fn front_value(seq: u32, t: u32, i: u32) -> f32 { return v_at((batch_span(seq, 0u) + t) * V_STRIDE + V_START + i); }
fn keep(seq: u32, kh: u32, start: u32, count: u32, slot: u32, first_chunk: bool, lid: u32) {}
