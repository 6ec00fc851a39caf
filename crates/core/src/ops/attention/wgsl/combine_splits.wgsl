// Combine of KV splits: each workgroup publishes the partial of its split, and the one that finishes last combines them.
// Words of a partial: the output before division by the sum, the sum of the softmax weights, and the maximum score.
// header: defaults
const WG: u32 = 128u;
const TOGETHER: u32 = 1u;
const SPLITS: u32 = 8u;
const q_DIM: u32 = 64u;
@group(0) @binding(0) var<storage, read_write> workspace: array<atomic<u32>>;
fn merged(h: u32, d: u32) -> vec3<f32> { return vec3<f32>(0.0); }
fn publish_float(at: u32, x: f32) {}
fn taken(at: u32) -> u32 { return 1u; }
fn is_last(counter: u32, n: u32, lid: u32) -> bool { return true; }
// header: end

const PARTIAL: u32 = q_DIM + 2u;
// Of each head and split: the sum of its softmax weights, and the maximum that they are relative to.
var<workgroup> partials: array<vec2<f32>, TOGETHER * SPLITS>;

fn words_of(which: u32) -> u32 { return which * (1u + SPLITS * PARTIAL); }

// Publishes the partials of this workgroup's split. Returns true in the workgroup that finishes last, which then has the sums
// and maxima of all `n` splits in `partials`. `which`: the index of the first head's words in the zeroed workspace.
fn combine_splits(which: u32, split: u32, n: u32, lid: u32) -> bool {
    for (var i = lid; i < TOGETHER * q_DIM; i += WG) {
        let d = i % q_DIM;
        let m = merged(i / q_DIM, d);
        let at = words_of(which + i / q_DIM) + 1u + split * PARTIAL;
        publish_float(at + d, m.x);
        if d == 0u {
            publish_float(at + q_DIM, m.y);
            publish_float(at + q_DIM + 1u, m.z);
        }
    }
    if !is_last(words_of(which), n, lid) { return false; }
    for (var i = lid; i < TOGETHER * n; i += WG) {
        let at = words_of(which + i / n) + 1u + i % n * PARTIAL + q_DIM;
        partials[i / n * SPLITS + i % n] = vec2<f32>(bitcast<f32>(taken(at)), bitcast<f32>(taken(at + 1u)));
    }
    workgroupBarrier();
    return true;
}

// Element `d` of head `h`'s output, combined from `n` splits in their order; leaves the words it reads zero again.
fn combined(which: u32, h: u32, d: u32, n: u32) -> f32 {
    let first = h * SPLITS;
    var largest = partials[first].y;
    for (var i = 1u; i < n; i++) { largest = max(largest, partials[first + i].y); }
    let at = words_of(which + h) + 1u + d;
    var x = 0.0;
    var sum = 0.0;
    for (var i = 0u; i < n; i += 4u) {
        // Four exchanges in flight at once. A word that is not published yet reads as zero; `taken` then waits for it.
        var words = vec4<u32>(1u);
        words.x = atomicExchange(&workspace[at + i * PARTIAL], 0u);
        if i + 1u < n { words.y = atomicExchange(&workspace[at + (i + 1u) * PARTIAL], 0u); }
        if i + 2u < n { words.z = atomicExchange(&workspace[at + (i + 2u) * PARTIAL], 0u); }
        if i + 3u < n { words.w = atomicExchange(&workspace[at + (i + 3u) * PARTIAL], 0u); }
        for (var j = 0u; j < min(4u, n - i); j++) {
            var word = words[j];
            if word == 0u { word = taken(at + (i + j) * PARTIAL); }
            let partial = partials[first + i + j];
            let fade = exp(partial.y - largest);
            x += bitcast<f32>(word) * fade;
            sum += partial.x * fade;
        }
    }
    return x / sum;
}
