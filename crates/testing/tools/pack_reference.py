#!/usr/bin/env python3
"""Packs the numbers of a recorded result into raw float32 and leaves a summary that people can read.

    pack_reference.py NAME.json...

Of each file, every array with more than LONG numbers in it goes to NAME.f32 beside it (little endian, in the order of the
file, ids of tokens as numbers, too). In its place the summary says how it was nested ("shape"), where it begins, in numbers
("at"), and its first numbers. Nothing is lost but what a float32 does not hold: ids must come back equal, every other number
within half a unit of the last place of a float32, or the file is left as it is.
"""

import hashlib
import json
import pathlib
import struct
import sys

LONG = 18
FIRST = 4


def shape(value):
    """How an array of numbers is nested; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return []
    if not isinstance(value, list) or not value:
        return None
    inner = shape(value[0])
    if inner is None or any(shape(v) != inner for v in value):
        return None
    return [len(value), *inner]


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


def pack(value, numbers):
    """The value with its long arrays moved to `numbers`."""
    if isinstance(value, dict):
        return {key: pack(v, numbers) for key, v in value.items()}
    nested = shape(value) if isinstance(value, list) else None
    if nested is None:
        return [pack(v, numbers) for v in value] if isinstance(value, list) else value
    values = flat(value)
    if len(values) <= LONG:
        return value
    at = len(numbers)
    numbers += values
    return {"shape": nested, "at": at, "first": values[:FIRST]}


def text(value, indent=0):
    """JSON with an array of numbers, and what stands for one, on one line."""
    pad = " " * (indent + 1)
    is_short = isinstance(value, list) and shape(value) is not None
    if is_short or isinstance(value, dict) and "shape" in value or not isinstance(value, (list, dict)) or not value:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        lines, (begin, end) = [text(v, indent + 1) for v in value], "[]"
    else:
        lines, (begin, end) = [f"{json.dumps(k)}: {text(v, indent + 1)}" for k, v in value.items()], "{}"
    return begin + "\n" + ",\n".join(pad + line for line in lines) + "\n" + " " * indent + end


for name in sys.argv[1:]:
    path = pathlib.Path(name)
    numbers = []
    summary = pack(json.loads(path.read_text()), numbers)
    packed = struct.pack(f"<{len(numbers)}f", *numbers)
    for x, y in zip(numbers, struct.unpack(f"<{len(numbers)}f", packed)):
        if abs(x - y) > (0 if isinstance(x, int) else abs(x) * 2**-24):
            sys.exit(f"{name}: {x} comes back as {y}")
    out = path.with_suffix(".f32")
    digest = hashlib.sha256(packed).hexdigest()
    summary = {"numbers": {"file": out.name, "count": len(numbers), "sha256": digest}, **summary}
    out.write_bytes(packed)
    path.write_text(text(summary) + "\n")
