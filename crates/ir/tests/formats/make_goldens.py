#!/usr/bin/env python3
"""Makes the golden files of the format tests: what the PyPI package `gguf` says about stored blocks.

    pip install gguf==0.19.0 numpy==2.4.6
    python3 make_goldens.py [--blocks N] [--out DIR]

One file a format, little endian: u32 N, u32 Q, N stored blocks, their values as f32, then Q blocks of f32 to quantize
and the stored blocks that `gguf` makes of them (Q = 0 where it cannot quantize). For the float formats a "block" is one
element. Blocks are random bytes from a fixed seed plus edge cases; a larger N than the committed files have is good for
an occasional long check, because the tests read the counts from the files.
"""

import argparse
import pathlib
import warnings

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

# Byte offsets of the f16 fields of a block, and whether `gguf` can quantize to the format.
FORMATS = {
    "f32": ([], True), "f16": ([0], True), "bf16": ([], True),
    "q4_0": ([0], True), "q4_1": ([0, 2], True), "q5_0": ([0], True), "q5_1": ([0, 2], True), "q8_0": ([0], True),
    "q2_k": ([80, 82], False), "q3_k": ([108], False), "q4_k": ([0, 2], False), "q5_k": ([0, 2], False),
    "q6_k": ([208], False), "iq4_nl": ([0], False), "iq4_xs": ([0], False),
    "mxfp4": ([], True),
}
# Byte offset of the exponent of a block whose scale is a power of two.
EXPONENTS = {"mxfp4": 0}
FLOATS = ("f32", "f16", "bf16")
# 1, -1, -0, largest, -largest, smallest normal, smallest subnormal, largest subnormal, infinities, NaN.
HALVES = [0x3C00, 0xBC00, 0x8000, 0x7BFF, 0xFBFF, 0x0400, 0x0001, 0x03FF, 0x7C00, 0xFC00, 0x7E00]


def stored_blocks(rng, name, fields, count):
    size = GGML_QUANT_SIZES[T[name.upper()]][1]
    if name in FLOATS:
        # Every exponent, both signs; the count is in elements.
        bits = rng.integers(0, 1 << 16, count * 8, dtype=np.uint16)
        edges = np.array(HALVES + [0, 0x7F80, 0xFF80, 0x7F81, 0x7FC0, 0x0080, 0x007F], dtype=np.uint16)
        if size == 2:
            return np.concatenate([edges, bits]).view(np.uint8).reshape(-1, 2)
        low = rng.integers(0, 1 << 16, count * 8, dtype=np.uint32)
        return ((bits.astype(np.uint32) << 16) | low).view(np.uint8).reshape(-1, 4)
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    # Most scales of ordinary size; the rest keep random ones, with infinities and NaNs among them.
    usual = rng.normal(0, 0.02, (count, len(fields))).astype(np.float16).view(np.uint8).reshape(count, -1, 2)
    for block, halves in zip(blocks[: count * 3 // 4], usual):
        for at, half in zip(fields, halves):
            block[at:at + 2] = half
    edge = 0
    # Constant codes and sub-scales with ordinary scales: all zero, all one, both alternating patterns.
    for fill in (0x00, 0xFF, 0x55, 0xAA):
        saved = [blocks[edge, at:at + 2].copy() for at in fields]
        blocks[edge] = fill
        for at, half in zip(fields, saved):
            blocks[edge, at:at + 2] = half
        edge += 1
    # Random codes with special scales.
    for i, half in enumerate(HALVES):
        for j, at in enumerate(fields):
            value = HALVES[(i + 2 * j) % len(HALVES)]
            blocks[edge, at:at + 2] = np.array([value], dtype=np.uint16).view(np.uint8)
        edge += 1
    if name in EXPONENTS:
        # Random codes with the ends of the exponents: subnormal scales, 1, and products that are infinite.
        for exponent in (0, 1, 2, 127, 128, 251, 252, 253, 254, 255):
            blocks[edge, EXPONENTS[name]] = exponent
            edge += 1
    assert edge <= count
    return blocks


def values_to_quantize(rng, name, count):
    if name in FLOATS:
        bits = rng.integers(0, 1 << 32, count * 8, dtype=np.uint32)
        ties = (rng.integers(0, 1 << 16, 64, dtype=np.uint32) << 16) | 0x8000
        halfway = (rng.integers(0x33000000 >> 13, 0x47800000 >> 13, 64, dtype=np.uint32) << 13) | 0x1000
        edges = np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FFFFFFF, 0x477FE000, 0x477FF000, 0x477FEFFF,
                          0x33000000, 0x33000001, 0x387FC000, 0x7F7FFFFF, 0x00000001], dtype=np.uint32)
        return np.concatenate([edges, ties, halfway, bits]).view(np.float32)
    x = rng.normal(0, 1, (count, 32)).astype(np.float32)
    x *= np.float32(10.0) ** rng.integers(-4, 4, (count, 1)).astype(np.float32)
    step = np.arange(32, dtype=np.float32)
    edges = [
        np.zeros(32), np.full(32, 3.5), np.full(32, -0.1), np.eye(32)[5], -np.eye(32)[31] * 7,
        step, -step, step - 15.5, (step - 16) / 2, (step % 2) * 2 - 1, 1 - (step % 2) * 2,  # ties of the largest size
        (step - 16) * 0.5 + 0.25, step * 4 + 2, np.where(step == 0, 127, step - 15.5), np.where(step == 0, -8, step / 2 - 7.5),
        step * 1e-7, step * 1e-9, step * 3e4, step * 1e6, step * 1e30,  # scales below and above the range of f16
    ]
    if name in EXPONENTS:
        # Largest sizes at powers of two and next to them, where the logarithm decides, and the ends of the exponents.
        for power in (-125, -100, -3, 1, 2, 8, 100, 127):
            top = np.float32(2.0) ** np.float32(power)
            for most in (np.nextafter(top, np.float32(0)), top, np.nextafter(top, np.float32(np.inf))):
                if power > -125 or most >= top:  # below that `gguf` wraps the exponent round
                    edges.append((step - 16) / 16 * most)
    for i, edge in enumerate(edges):
        x[i] = edge.astype(np.float32)
    return x


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--blocks", type=int, default=0, help="blocks a format (default: 64 small or 28 large ones)")
    args.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    args = args.parse_args()
    warnings.simplefilter("ignore")  # overflows and NaNs are wanted
    for i, (name, (fields, quantizes)) in enumerate(FORMATS.items()):
        kind = T[name.upper()]
        rng = np.random.default_rng(1000 + i)
        stored = stored_blocks(rng, name, fields, args.blocks or (28 if GGML_QUANT_SIZES[kind][0] == 256 else 64))
        values = quants.dequantize(stored, kind).astype("<f4")
        x, packed = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.uint8)
        if quantizes:
            x = values_to_quantize(rng, name, args.blocks or 64)
            packed = np.ascontiguousarray(quants.quantize(x, kind)).view(np.uint8)
        head = np.array([len(stored), len(x)], dtype="<u4")
        data = b"".join(part.tobytes() for part in (head, stored, values, x.astype("<f4"), packed))
        (args.out / f"{name}.bin").write_bytes(data)
        print(f"{name}: {len(stored)} blocks, {len(x)} to quantize, {len(data)} bytes")


if __name__ == "__main__":
    main()
