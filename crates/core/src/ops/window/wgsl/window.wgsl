// Row r of all sequences' windows: which sequence it is of, and whether it is one of its OLD earlier rows.
// old_at: those rows, by sequence, or IN_PLACE by its slot; x_at: the step's rows of CHANNELS.
fn value(r: u32, c: u32) -> f32 {
    // Sequences lie one after the other: the last that begins at or before r.
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
