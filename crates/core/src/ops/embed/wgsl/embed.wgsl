// The token id of a row. The id of a pending token, which the host does not know yet, is the one that its sequence sampled
// last. An id outside the vocabulary reads the table's last row.
// header: defaults
const VOCABULARY: u32 = 100u;
@group(0) @binding(0) var<storage, read> pending_tokens: array<u32>;
fn batch_id(row: u32) -> u32 { return 0u; }
fn batch_seq(row: u32) -> u32 { return 0u; }
// header: end

fn token(row: u32) -> u32 {
    var id = batch_id(row);
    if id == 0xffffffffu { id = pending_tokens[batch_seq(row)]; }
    return min(id, VOCABULARY - 1u);
}
