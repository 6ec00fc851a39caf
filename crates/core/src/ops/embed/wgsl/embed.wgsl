// The token id of a row. The id of a pending token, which the host does not know yet, is the one that its sequence sampled
// last. An id outside the vocabulary reads the table's last row.
fn token(row: u32) -> u32 {
    var id = batch_id(row);
    if id == 0xffffffffu { id = pending_tokens[batch_seq(row)]; }
    return min(id, VOCABULARY - 1u);
}
