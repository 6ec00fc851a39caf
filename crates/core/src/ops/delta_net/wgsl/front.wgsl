// One element of query, key or value: the causal convolution of a channel of the packed projection x [T, CHANNELS], whose rows
// are [q, k, v], then SiLU. The caller applies the L2 norm. w_at(i) reads the filter [CHANNELS, TAPS]; conv_state holds the
// last TAPS - 1 rows of every sequence.
// header: defaults
const WG: u32 = 64u;
const TAPS: u32 = 4u;
const CHANNELS: u32 = 192u;
const K_HEADS: u32 = 1u;
const K_DIM: u32 = 64u;
const V_DIM: u32 = 64u;
const HEADS_EACH: u32 = 1u;
@group(0) @binding(0) var<storage, read_write> conv_state: array<f32>;
fn x_at(i: u32) -> f32 { return 0.0; }
fn w_at(i: u32) -> f32 { return 0.0; }
fn batch_span(seq: u32, field: u32) -> u32 { return 0u; }
fn silu(x: f32) -> f32 { return x; }
// header: end

fn front(seq: u32, t: u32, c: u32) -> f32 {
    var sum = 0.0;
    let start = batch_span(seq, 0u);
    for (var i = 0u; i < TAPS; i++) {
        // The input's row, counted from the oldest row in the state.
        let row = t + i;
        if row >= TAPS - 1u {
            sum += w_at(c * TAPS + i) * x_at((start + row - (TAPS - 1u)) * CHANNELS + c);
        } else if batch_span(seq, 4u) == 0u {
            sum += w_at(c * TAPS + i) * conv_state[(batch_span(seq, 3u) * (TAPS - 1u) + row) * CHANNELS + c];
        }
    }
    return silu(sum);
}

fn front_query(seq: u32, t: u32, i: u32) -> f32 { return front(seq, t, i); }
fn front_key(seq: u32, t: u32, i: u32) -> f32 { return front(seq, t, K_HEADS * K_DIM + i); }
fn front_value(seq: u32, t: u32, i: u32) -> f32 { return front(seq, t, 2u * K_HEADS * K_DIM + i); }

// Stores the last TAPS - 1 input rows of the channels of this workgroup's heads in the state, each channel by one thread.
fn keep(seq: u32, kh: u32, start: u32, count: u32, slot: u32, first_chunk: bool, lid: u32) {
    storageBarrier();
    workgroupBarrier();
    let all = 2u * K_DIM + HEADS_EACH * V_DIM;
    for (var n = lid; n < all; n += WG) {
        var c = kh * K_DIM + n;
        if n >= 2u * K_DIM {
            let i = n - 2u * K_DIM;
            c = 2u * K_HEADS * K_DIM + (i / V_DIM * K_HEADS + kh) * V_DIM + i % V_DIM;
        } else if n >= K_DIM {
            c = (K_HEADS + kh) * K_DIM + n - K_DIM;
        }
        // In ascending order, so that a row that moves towards the oldest is read before it is overwritten.
        for (var i = 0u; i < TAPS - 1u; i++) {
            let row = i + count;
            var x = 0.0;
            if row >= TAPS - 1u {
                x = x_at((start + row - (TAPS - 1u)) * CHANNELS + c);
            } else if !first_chunk {
                x = conv_state[(slot * (TAPS - 1u) + row) * CHANNELS + c];
            }
            conv_state[(slot * (TAPS - 1u) + i) * CHANNELS + c] = x;
        }
    }
}
