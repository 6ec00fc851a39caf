// Split-K reduction without ordering between workgroups. Each workgroup publishes its partial sums as atomic words in the zeroed
// workspace; a published word is never zero, so the workgroup that arrives last can spin on each word until it is there, and
// needs no order between words. A workgroup counts its arrival only after it has published, so the last one waits for no
// workgroup that has not started: there is no deadlock on devices that run few workgroups at once.
// header: defaults
@group(0) @binding(0) var<storage, read_write> workspace: array<atomic<u32>>;
// header: end

var<workgroup> is_last_workgroup: u32;

fn publish(at: u32, bits: u32) { atomicStore(&workspace[at], bits); }

// Publishes a float; zero is published as minus zero, which has a bit set.
fn publish_float(at: u32, x: f32) {
    let bits = bitcast<u32>(x);
    publish(at, select(bits, 0x80000000u, bits == 0u));
}

// Waits for a word, takes it, and leaves zero in its place.
fn taken(at: u32) -> u32 {
    var word = 0u;
    loop {
        word = atomicExchange(&workspace[at], 0u);
        if word != 0u { break; }
    }
    return word;
}

// True in the last of the `n` workgroups that arrive here; they count in the semaphore `counter`, which is left zero. Every
// thread of the workgroup calls it.
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
