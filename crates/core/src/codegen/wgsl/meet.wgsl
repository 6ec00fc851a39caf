// Workgroups of one dispatch that hand words to the last of them. The words are zero between dispatches and never zero when
// handed over: who takes one waits until it is there, so no order between one word and another is needed, only that words
// are atomic. Everybody who hands over has done so before the last one is known, so nobody waits for who has not begun.
var<workgroup> meet_is_last: u32;

fn hand_over(at: u32, bits: u32) { atomicStore(&zeros[at], bits); }

// Zero is handed over as minus zero.
fn hand_over_float(at: u32, x: f32) {
    let bits = bitcast<u32>(x);
    hand_over(at, select(bits, 0x80000000u, bits == 0u));
}

// Takes a word and leaves zero.
fn taken(at: u32) -> u32 {
    var word = 0u;
    loop {
        word = atomicExchange(&zeros[at], 0u);
        if word != 0u { break; }
    }
    return word;
}

// Whether this is the last of `n` workgroups that come here, which all count in the word `counter`. All threads call it.
fn is_last(counter: u32, n: u32, lid: u32) -> bool {
    storageBarrier();
    if lid == 0u {
        let before = atomicAdd(&zeros[counter], 1u);
        if before == n - 1u { atomicStore(&zeros[counter], 0u); }
        meet_is_last = select(0u, 1u, before == n - 1u);
    }
    workgroupBarrier();
    return meet_is_last == 1u;
}
