// One element of row r of the windows, which stand one after the other. A sequence's window has OLD earlier rows, then its
// rows of this step. old_at: the earlier rows, indexed by sequence or, IN_PLACE, by slot. x_at: this step's rows, CHANNELS
// elements each.
// header: defaults
const OLD: u32 = 3u;
const CHANNELS: u32 = 64u;
const IN_PLACE: bool = true;
fn x_at(i: u32) -> f32 { return 0.0; }
fn old_at(i: u32) -> f32 { return 0.0; }
fn batch_s() -> u32 { return 1u; }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
// header: end

fn value(r: u32, c: u32) -> f32 {
    // The row's sequence is the last one whose window begins at or before r.
    var seq = 0u;
    for (var s = 1u; s < batch_s(); s++) {
        if batch_span(s, 0u) + s * OLD <= r { seq = s; }
    }
    let row = r - batch_span(seq, 0u) - seq * OLD;
    if row >= OLD { return x_at((batch_span(seq, 0u) + row - OLD) * CHANNELS + c); }
    if !IN_PLACE { return old_at((seq * OLD + row) * CHANNELS + c); }
    if batch_span(seq, 4u) != 0u { return 0.0; }
    return old_at((batch_span(seq, 3u) * OLD + row) * CHANNELS + c);
}
