// Workgroups of one dispatch that publish words for the last of them. The words are zero between dispatches and never zero when
// published: who takes one waits until it is there, so no order between one word and another is needed, only that words
// are atomic. Everybody who publishes has done so before the last one is known, so nobody waits for who has not begun.
var<workgroup> is_last_workgroup: u32;

fn publish(at: u32, bits: u32) { atomicStore(&workspace[at], bits); }

// Zero is published as minus zero.
fn publish_float(at: u32, x: f32) {
    let bits = bitcast<u32>(x);
    publish(at, select(bits, 0x80000000u, bits == 0u));
}

// Takes a word and leaves zero.
fn taken(at: u32) -> u32 {
    var word = 0u;
    loop {
        word = atomicExchange(&workspace[at], 0u);
        if word != 0u { break; }
    }
    return word;
}

// Whether this is the last of `n` workgroups that come here, which all count in the word `counter`. All threads call it.
fn is_last(counter: u32, n: u32, lid: u32) -> bool {
    storageBarrier();
    if lid == 0u {
        let before = atomicAdd(&workspace[counter], 1u);
        if before == n - 1u { atomicStore(&workspace[counter], 0u); }
        is_last_workgroup = select(0u, 1u, before == n - 1u);
    }
    workgroupBarrier();
    return is_last_workgroup == 1u;
}
