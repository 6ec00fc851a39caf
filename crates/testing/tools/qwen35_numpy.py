#!/usr/bin/env python3
"""The architecture `qwen35` in float32 numpy, token by token: what the tests of its page compare with.

    qwen35_numpy.py small OUT            the reference of the small model (raw float32, little endian)
    qwen35_numpy.py gguf FILE IDS OUT    logits after each of the comma-separated ids, of a GGUF file of this
                                         architecture with F32, F16, Q4_0 or Q8_0 tensors

The small model's numbers come from a hash of their tensor's name and their index, so that a test can make the same ones.
The reference holds, for each text in turn (CASES), the logits after the text and after each token of "then".
Needs numpy only. Written from the papers: Gated Delta Networks (Yang et al., 2024), RoFormer, GLU variants.
"""
import struct
import sys

import numpy as np

F = np.float32
CASES = ["text.1", "text.7", "text.64", "text.300", "batch.3", "batch.40", "batch.131"]
THEN = 20
SMALL = {
    "block_count": 8, "embedding_length": 256, "feed_forward_length": 384, "attention.head_count": 4,
    "attention.head_count_kv": 2, "attention.key_length": 32, "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1e4, "rope.dimension_count": 16, "ssm.conv_kernel": 4, "ssm.inner_size": 96,
    "ssm.state_size": 16, "ssm.time_step_rank": 6, "ssm.group_count": 2, "full_attention_interval": 4,
    "vocab_size": 128,
}


def hashed(name, n):
    """n whole numbers below 2^24 that depend on the name and their index: FNV-1a, then SplitMix64."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z >> np.uint64(40)


def ids_of(name, n, vocab):
    return (hashed(name, n) % np.uint64(vocab)).astype(np.int64)


def small_shape(name):
    c = SMALL
    width, ffn, hd = c["embedding_length"], c["feed_forward_length"], c["attention.key_length"]
    q, kv = c["attention.head_count"] * hd, c["attention.head_count_kv"] * hd
    inner, state, vh = c["ssm.inner_size"], c["ssm.state_size"], c["ssm.time_step_rank"]
    packed = 2 * c["ssm.group_count"] * state + inner
    return {
        "token_embd": (c["vocab_size"], width), "output": (c["vocab_size"], width), "output_norm": (width,),
        "attn_norm": (width,), "post_attention_norm": (width,), "attn_q": (2 * q, width), "attn_k": (kv, width),
        "attn_v": (kv, width), "attn_output": (width, q), "attn_q_norm": (hd,), "attn_k_norm": (hd,),
        "attn_qkv": (packed, width), "attn_gate": (inner, width), "ssm_conv1d": (packed, c["ssm.conv_kernel"]),
        "ssm_dt": (vh,), "ssm_a": (vh,), "ssm_beta": (vh, width), "ssm_alpha": (vh, width), "ssm_norm": (state,),
        "ssm_out": (width, inner), "ffn_gate": (ffn, width), "ffn_up": (ffn, width), "ffn_down": (width, ffn),
    }[name]


def small_tensor(name):
    """A tensor of the small model: offset + scale * (a hashed number between -1 and 1)."""
    part = [p for p in name.split(".") if p not in ("blk", "weight", "bias") and not p.isdigit()][0]
    shape = small_shape(part)
    scale, offset = {"token_embd": (1, 0), "ssm_conv1d": (0.5, 0), "ssm_dt": (1, 0), "ssm_a": (1.9, -2)}.get(part, (0, 0))
    if part.endswith("norm"):
        scale, offset = 0.2, 1
    elif scale == 0:
        scale = np.sqrt(3 / shape[-1]) * (4 if part == "output" else 1)
    unit = hashed(name, int(np.prod(shape))).astype(F) / F(2**23) - F(1)
    return (unit * F(scale) + F(offset)).reshape(shape)


class Gguf:
    """Metadata and tensors of a GGUF v3 file, read on demand."""

    def __init__(self, path):
        self.map = np.memmap(path, np.uint8, "r")
        self.at = 4
        version, tensors, entries = self.read("<IQQ")
        assert version == 3, version
        self.meta = {}
        for _ in range(entries):
            key = self.text()
            self.meta[key] = self.value(self.read("<I")[0])
        self.infos = {}
        for _ in range(tensors):
            name = self.text()
            dims = self.read("<%dQ" % self.read("<I")[0])
            self.infos[name] = (dims, *self.read("<IQ"))
        align = self.meta.get("general.alignment", 32)
        self.start = (self.at + align - 1) // align * align

    def read(self, fmt):
        n = struct.calcsize(fmt)
        self.at += n
        return struct.unpack(fmt, self.map[self.at - n:self.at].tobytes())

    def text(self):
        n = self.read("<Q")[0]
        self.at += n
        return self.map[self.at - n:self.at].tobytes().decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, n = self.read("<IQ")
            return [self.value(inner) for _ in range(n)]
        return self.read("<" + {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])[0]

    def tensor(self, name, rows=slice(None)):
        dims, kind, offset = self.infos[name]
        width, n = dims[0], int(np.prod(dims[1:], dtype=np.int64))
        size = {0: 4 * width, 1: 2 * width, 2: width // 32 * 18, 8: width // 32 * 34}[kind]
        raw = self.map[self.start + offset:][:n * size].reshape(n, size)[rows]
        n = len(raw)
        raw = np.ascontiguousarray(raw)
        if kind in (0, 1):
            out = raw.view("<f4" if kind == 0 else "<f2").astype(F)
        else:
            blocks = raw.reshape(n, width // 32, -1)
            d = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(F)
            q = blocks[..., 2:]
            q = np.concatenate([q & 15, q >> 4], -1).astype(F) - F(8) if kind == 2 else q.view(np.int8).astype(F)
            out = (d * q).reshape(n, width)
        return out if len(dims) > 1 else out[0]


def rms(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True, dtype=F) + F(eps)) * weight


def sigmoid(x):
    return F(1) / (F(1) + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def delta_net(c, w, h):
    """h [T, width]; `w(name)` gives a layer's tensor."""
    state, kh, vh = c["ssm.state_size"], c["ssm.group_count"], c["ssm.time_step_rank"]
    taps, n = c["ssm.conv_kernel"], len(h)
    qkv = h @ w("attn_qkv.weight").T
    padded = np.concatenate([np.zeros((taps - 1, qkv.shape[1]), F), qkv])
    filt = w("ssm_conv1d.weight")
    qkv = silu(sum(padded[i:i + n] * filt[:, i] for i in range(taps)))
    q, k, v = np.split(qkv, [kh * state, 2 * kh * state], -1)
    q, k, v = q.reshape(n, kh, state), k.reshape(n, kh, state), v.reshape(n, vh, state)
    eps = F(c["attention.layer_norm_rms_epsilon"])
    q = q / np.sqrt((q * q).sum(-1, keepdims=True) + eps) / F(np.sqrt(state))
    k = k / np.sqrt((k * k).sum(-1, keepdims=True) + eps)
    # Value head h reads key head h mod key heads.
    of = np.arange(vh) % kh
    q, k = q[:, of], k[:, of]
    a = h @ w("ssm_alpha.weight").T + w("ssm_dt.bias")
    g = w("ssm_a") * (np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a))))
    beta = sigmoid(h @ w("ssm_beta.weight").T)
    s = np.zeros((vh, state, state), F)
    o = np.empty((n, vh, state), F)
    for t in range(n):
        s *= np.exp(g[t])[:, None, None]
        d = beta[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", s, k[t]))
        s += k[t][:, :, None] * d[:, None, :]
        o[t] = np.einsum("hkv,hk->hv", s, q[t])
    z = (h @ w("attn_gate.weight").T).reshape(n, vh, state)
    o = rms(o, w("ssm_norm.weight"), eps) * silu(z)
    return o.reshape(n, vh * state) @ w("ssm_out.weight").T


def rotate(c, x):
    pairs, n = c["rope.dimension_count"] // 2, len(x)
    freq = np.float64(c["rope.freq_base"]) ** (-np.arange(pairs) / pairs)
    angle = np.arange(n)[:, None] * freq
    cos, sin = np.cos(angle).astype(F)[:, None], np.sin(angle).astype(F)[:, None]
    a, b = x[..., :pairs], x[..., pairs:2 * pairs]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos, x[..., 2 * pairs:]], -1)


def attention(c, w, h):
    heads, kv, dim, n = c["attention.head_count"], c["attention.head_count_kv"], c["attention.key_length"], len(h)
    eps = c["attention.layer_norm_rms_epsilon"]
    packed = (h @ w("attn_q.weight").T).reshape(n, heads, 2, dim)
    q, gate = packed[:, :, 0], packed[:, :, 1]
    k = (h @ w("attn_k.weight").T).reshape(n, kv, dim)
    v = (h @ w("attn_v.weight").T).reshape(n, kv, dim)
    q, k = rotate(c, rms(q, w("attn_q_norm.weight"), eps)), rotate(c, rms(k, w("attn_k_norm.weight"), eps))
    out = np.empty((n, heads, dim), F)
    hidden = np.triu(np.full((n, n), -np.inf, F), 1)
    for i in range(heads):
        j = i // (heads // kv)
        s = q[:, i] @ k[:, j].T / F(np.sqrt(dim)) + hidden
        p = np.exp(s - s.max(-1, keepdims=True))
        out[:, i] = p / p.sum(-1, keepdims=True) @ v[:, j]
    return (out * sigmoid(gate)).reshape(n, heads * dim) @ w("attn_output.weight").T


def logits(c, tensor, ids, first):
    """Logits after each token from index `first` on; `tensor(name, rows)` gives a tensor."""
    eps = c["attention.layer_norm_rms_epsilon"]
    x = tensor("token_embd.weight", ids)
    for layer in range(c["block_count"]):
        def w(name):
            return tensor(f"blk.{layer}.{name}", slice(None))
        h = rms(x, w("attn_norm.weight"), eps)
        x = x + ((attention if (layer + 1) % c["full_attention_interval"] == 0 else delta_net)(c, w, h))
        h = rms(x, w("post_attention_norm.weight"), eps)
        f = silu(h @ w("ffn_gate.weight").T) * (h @ w("ffn_up.weight").T)
        x = x + f @ w("ffn_down.weight").T
    x = rms(x[first:], tensor("output_norm.weight", slice(None)), eps)
    step = 16384
    parts = [x @ tensor("output.weight", slice(i, i + step)).T for i in range(0, c["vocab_size"], step)]
    return np.concatenate(parts, -1)


def main():
    if sys.argv[1:2] == ["small"] and len(sys.argv) == 3:
        kept = {}

        def tensor(name, rows):
            if name not in kept:
                kept[name] = small_tensor(name)
            return kept[name][rows]
        vocab = SMALL["vocab_size"]
        then = ids_of("then", THEN, vocab)
        out = []
        for case in CASES:
            n = int(case.split(".")[1])
            out.append(logits(SMALL, tensor, np.concatenate([ids_of(case, n, vocab), then]), n - 1))
        np.concatenate(out).astype("<f4").tofile(sys.argv[2])
    elif sys.argv[1:2] == ["gguf"] and len(sys.argv) == 5:
        file = Gguf(sys.argv[2])
        c = {key.removeprefix("qwen35."): value for key, value in file.meta.items() if key.startswith("qwen35.")}
        ids = np.array([int(i) for i in sys.argv[3].split(",")])
        logits(c, file.tensor, ids, 0).astype("<f4").tofile(sys.argv[4])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
