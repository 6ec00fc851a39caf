// Element `d` of the head that begins at `from_`, rotated.
// header: defaults
const q_PAIRS: u32 = 32u;
const q_TABLE: u32 = 0u;
const q_NEOX: bool = true;
fn q_x_at(i: u32) -> f32 { return 0.0; }
fn q_norm_at(i: u32) -> f32 { return 1.0; }
fn batch_cos(table: u32, row: u32, pairs: u32, i: u32) -> f32 { return 1.0; }
fn batch_sin(table: u32, row: u32, pairs: u32, i: u32) -> f32 { return 0.0; }
// header: end

fn rotated(row: u32, from_: u32, d: u32) -> f32 {
    if d >= 2u * q_PAIRS { return q_x_at(from_ + d) * q_norm_at(d); }
    let second = select(d % 2u == 1u, d >= q_PAIRS, q_NEOX);
    let pair = select(d / 2u, d % max(q_PAIRS, 1u), q_NEOX);
    let i = select(2u * pair, pair, q_NEOX);
    let j = select(2u * pair + 1u, pair + q_PAIRS, q_NEOX);
    let a = q_x_at(from_ + i) * q_norm_at(i);
    let b = q_x_at(from_ + j) * q_norm_at(j);
    let cos = batch_cos(q_TABLE, row, q_PAIRS, pair);
    let sin = batch_sin(q_TABLE, row, q_PAIRS, pair);
    return select(a * cos - b * sin, a * sin + b * cos, second);
}
