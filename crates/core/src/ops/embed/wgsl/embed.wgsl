// The token of a row; ids that the host does not know yet are the ones last sampled. A broken one takes the last row.
fn token(row: u32) -> u32 {
    var id = batch_id(row);
    if id == 0xffffffffu { id = pending_tokens[batch_seq(row)]; }
    return min(id, VOCABULARY - 1u);
}
