// The words of the step batch (StepBatch::words), bound as `batch: array<u32>`.
// header: defaults
@group(0) @binding(0) var<storage, read> batch: array<u32>;
// header: end

fn batch_t() -> u32 { return batch[0]; }
fn batch_s() -> u32 { return batch[1]; }
fn batch_id(row: u32) -> u32 { return batch[batch[4] + row]; }
fn batch_position(row: u32) -> u32 { return batch[batch[5] + row]; }
fn batch_seq(row: u32) -> u32 { return batch[batch[6] + row]; }
// Fields of a sequence: 0 start, 1 count, 2 length, 3 slot, 4 first chunk; 5 temperature, 6 top_k, 7 top_p, 8 min_p,
// 9 repeat penalty, 10 and 11 seed, 12 top, 13 start of its history, 14 length of its history.
fn batch_span(seq: u32, field: u32) -> u32 { return batch[batch[7] + seq * 16u + field]; }
fn batch_span_f32(seq: u32, field: u32) -> f32 { return bitcast<f32>(batch_span(seq, field)); }
fn batch_page(seq: u32, position: u32) -> u32 { return batch[batch[8] + seq * batch[9] + position / batch[3]]; }
fn batch_page_offset(position: u32) -> u32 { return position % batch[3]; }
fn batch_logit_row(i: u32) -> u32 { return batch[batch[10] + i]; }
fn batch_history(seq: u32, i: u32) -> u32 { return batch[batch[11] + batch_span(seq, 13u) + i]; }
fn batch_cos(table: u32, row: u32, pairs: u32, i: u32) -> f32 {
    return bitcast<f32>(batch[batch[16u + table] + row * 2u * pairs + i]);
}
fn batch_sin(table: u32, row: u32, pairs: u32, i: u32) -> f32 {
    return bitcast<f32>(batch[batch[16u + table] + row * 2u * pairs + pairs + i]);
}
