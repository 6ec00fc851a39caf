#!/usr/bin/env python3
"""Writes docs/cuda.md from what cuda-bench.sh collected:

    bench/tools/cuda-doc.py OUT_DIR > docs/cuda.md

Every figure of the page comes from a JSON file of OUT_DIR; what is missing there is said to be missing. Standard library only.
"""

import json
import pathlib
import sys

# Name of the file, what it is; llama.cpp's decode tok/s on an H200, what must be reached, and what is aimed at.
MODELS = {
    "q05f16": ("Qwen2.5-0.5B F16", 777, 1700, 2800),
    "q05q4": ("Qwen2.5-0.5B Q4_0", 946, 1900, 3500),
    "l8q8": ("Llama-8B Q8_0", 252, 380, 430),
    "l8q4": ("Llama-8B Q4_0", 345, 550, 800),
    "q9q4": ("Qwen3.5-9B Q4_0", 285, 500, 750),
}
# Prefill of 2048 tokens: llama.cpp, and what must be reached.
PREFILL = {"q05f16": (68.1e3, 120e3), "q05q4": (49.5e3, None), "l8q8": (11.0e3, 20e3), "l8q4": (11.5e3, 20e3), "q9q4": (9.3e3, 15e3)}
DATA = {}


def load(name):
    if name not in DATA:
        path = pathlib.Path(sys.argv[1]) / f"{name}.json"
        try:
            DATA[name] = json.loads(path.read_text())
        except (OSError, ValueError):
            DATA[name] = None
    return DATA[name]


def table(head, rows):
    align = ["--:" if h.startswith(">") else "---" for h in head]
    lines = [" | ".join(h.lstrip(">") for h in head), "|".join(align), *(" | ".join(map(str, r)) for r in rows)]
    return "\n".join(f"| {line} |" if "---" not in line and "--:" not in line else f"|{line}|" for line in lines) + "\n"


def spread(s, digits=0):
    """Median with min and max."""
    if not s:
        return "not measured"
    return f"{s['median']:.{digits}f} ({s['min']:.{digits}f}–{s['max']:.{digits}f})"


def median(d, key):
    return d[key]["median"] if d and d.get(key) else None


def ratio(a, b, digits=2):
    return f"{a / b:.{digits}f}" if a and b else "–"


class Profile:
    """What `calibrate` measured, as far as this page needs it."""

    def __init__(self, data):
        self.curves = {c["name"]: c for c in (data or {}).get("curves", [])}

    def rate(self, name, x):
        curve = self.curves.get(name)
        if not curve:
            return None
        at = min(range(len(curve["x"])), key=lambda i: abs(curve["x"][i] - x))
        return curve["y"][at]

    def first(self, name):
        return self.curves[name]["y"][0] if name in self.curves else None


def reason(row, floor, profile):
    """Why a dispatch is above its floor, by what was measured of it."""
    launch = profile.first("launch") or 0.0
    over = row["us"] - floor
    if floor < launch and row["us"] < 2 * launch + floor:
        return f"its bytes take {floor:.1f} µs: the launch and the latency of one pass are the rest"
    if row["predicted_us"] and row["us"] <= 1.25 * row["predicted_us"]:
        return f"as calibrated: this kernel at this size takes {row['predicted_us']:.1f} µs, {row['predicted_us'] - floor:.1f} above the floor"
    if row["op"] in ("attention", "delta_net", "sample"):
        return f"a chain of dependent steps in one kernel: {over:.1f} µs above the floor"
    if row["predicted_us"]:
        return f"{row['us'] / row['predicted_us']:.1f} × what its bytes take in a plain product: prologue, epilogue, or too few rows a group"
    return f"{over:.1f} µs above the floor, not explained"


def furthest(key, profile):
    d = load(f"profile-{key}")
    if not d:
        return None
    total = sum(r["bytes"] for r in d["rows"])
    bandwidth = profile.rate("read", total)
    flops = profile.rate("flops", 1e11)
    if not bandwidth:
        return None
    rows = []
    for kind in d["kinds"]:
        members = []
        for n in kind["rows"]:
            r = d["rows"][n]
            members.append((r, 1e6 * max(r["bytes"] / bandwidth, r["flops"] / flops if flops else 0.0)))
        us, kernel, name = median(kind, "adds_us"), kind["kernel"], kind["name"]
        if us is None:
            continue
        floor = sum(f for _, f in members) / len(members)
        middle = dict(members[len(members) // 2][0], us=us)
        rows.append((len(members) * (us - floor), name, kernel, len(members), us, floor, reason(middle, floor, profile)))
    rows = sorted((r for r in rows if r[0] > 0), key=lambda r: -r[0])
    return [
        (name[:60], f"`{kernel}`", n, f"{us:.1f}", f"{floor:.1f}", f"{over:.0f}", why) for over, name, kernel, n, us, floor, why in rows[:5]
    ]


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    here = {k: v for k, v in MODELS.items() if load(f"bench-{k}")}
    calibrated = load("calibrate")
    profile = Profile(calibrated)
    gpus = [d for d in (load("devices") or {}).get("devices", []) if d["name"].startswith("cuda") and d.get("available")]
    date = next((load(f"bench-{k}")["date"] for k in here), "an unknown day")
    out = print
    out("# CUDA\n")
    if gpus:
        g = gpus[0]
        driver = f"{g['driver'] // 1000}.{g['driver'] % 1000 // 10}"
        out(
            f"Measured on one {g['gpu']} ({g['multiprocessors']} SMs, {g['memory_bytes'] / 1e9:.0f} GB, driver for CUDA {driver}; "
            f"{g['compiler']}) on {date}.\n"
        )
    else:
        out("**No GPU is named in what was collected.**\n")
    out(
        "Weights are random, in the true shapes; greedy, batch 1, 256 positions in the cache before 128 new tokens; medians (min–max) of 5 runs after a\n"
        "warm-up. Made by `bench/tools/cuda-bench.sh` and `bench/tools/cuda-doc.py`: no figure is written by hand. llama.cpp's are of ggml 0.25.3 on\n"
        "another day on the same kind of GPU.\n"
    )
    out("## Decode\n")
    rows = []
    for key, (name, peer, least, aim) in MODELS.items():
        d = load(f"bench-{key}")
        speed = median(d, "decode_tok_s")
        bandwidth = profile.rate("read", d["tick_bytes"]) if d else None
        share = f"{100 * d['tick_bytes_per_s'] / bandwidth:.0f} %" if d and bandwidth and d["tick_bytes_per_s"] else "–"
        verdict = "–" if not speed else "aim reached" if speed >= aim else "reached" if speed >= least else f"{100 * (1 - speed / least):.0f} % short"
        rows.append(
            (name, spread(d and d["decode_tok_s"]), spread(d and d["tick_us"], 1), d["dispatches_per_tick"] if d else "–", share, peer,
             ratio(speed, peer), f"{least:,} / {aim:,}", verdict)
        )
    out(table(["model", ">tok/s", ">tick µs", ">dispatches", ">of the read bandwidth", ">llama.cpp", ">ratio", ">must / aim", ""], rows))
    if bandwidths := [f"{y / 1e12:.2f} TB/s at {x / 1e6:.0f} MB" for c in [profile.curves.get("read")] if c for x, y in zip(c["x"], c["y"])]:
        out(f"Read bandwidth by working set, as `calibrate` measured it: {', '.join(bandwidths)}.\n")
    out("## Prefill of 2048 tokens\n")
    rows = []
    for key, (peer, least) in PREFILL.items():
        d = load(f"bench-{key}")
        speed = median(d, "prefill_tok_s")
        verdict = "–" if not speed or not least else "reached" if speed >= least else f"{100 * (1 - speed / least):.0f} % short"
        rows.append((MODELS[key][0], spread(d and d["prefill_tok_s"]), f"{peer:,.0f}", ratio(speed, peer), f"{least:,.0f}" if least else "–", verdict))
    out(table(["model", ">tok/s", ">llama.cpp", ">ratio", ">must", ""], rows))
    f16, f32 = (median(load(f"compute-{c}"), "prefill_tok_s") for c in ("f16", "f32"))
    if f16 and f32:
        out(f"Qwen2.5-0.5B F16 with `--compute f16` {f16:,.0f} tok/s, with `--compute f32` {f32:,.0f}.\n")
    out("## Contexts and batches, Llama-8B Q4_0\n")
    rows, base = [], load("bench-l8q4")
    for context in (4096, 32000):
        d = load(f"context-{context}")
        if d and base and d["tick_us"] and base["tick_us"]:
            slower = d["tick_us"]["median"] / base["tick_us"]["median"]
            more = d["tick_bytes"] / base["tick_bytes"]
            rows.append((context, spread(d["decode_tok_s"]), f"{slower:.2f}", f"{more:.2f}", f"{slower / more:.2f}"))
    out(table([">positions", ">tok/s", ">slower than at 256", ">more bytes", ">of what the bytes predict"], rows) if rows else "Not measured.\n")
    rows = [(b, spread(load(f"batch-{b}")["decode_tok_s"]), f"{must:,}") for b, must in ((8, 3300), (32, 9900)) if load(f"batch-{b}")]
    out(table([">sequences", ">tok/s in all", ">must"], rows) if rows else "Batches were not measured.\n")
    out("## What holds the rest\n")
    out(
        "The five kinds of dispatch of a tick that are furthest from their floor, by what all of a kind take above it. Floor: bytes over the read\n"
        "bandwidth of the tick's working set, or operations over the measured peak, whichever is larger. A row's time is what it adds: a tick that\n"
        "ends with it, less one that ends with the row before it, so that all rows together are the tick; no clock is in between.\n"
    )
    for key, (name, *_) in MODELS.items():
        rows = furthest(key, profile)
        out(f"### {name}\n")
        head = ["dispatch", "kernel", ">number", ">µs each", ">floor", ">µs above, all", "reason"]
        out(table(head, rows) if rows else "Not measured.\n")
    out("## Predicted and measured\n")
    rows = []
    for key, (name, *_) in MODELS.items():
        d, b = load(f"profile-{key}"), load(f"bench-{key}")
        if d and d.get("predicted") and b and b["tick_us"]:
            predicted, tick = d["predicted"]["tick_us"], b["tick_us"]["median"]
            off = predicted / tick - 1
            rows.append((name, f"{predicted:.0f}", f"{tick:.0f}", f"{100 * off:+.0f} %{' !' if abs(off) > 0.25 else ''}", len(d["predicted"]["findings"]), len(d["rows"])))
    out(table(["model", ">predicted tick µs", ">measured", ">off", ">rows over 25 % off", ">of"], rows) if rows else "Not measured.\n")
    out("The prediction is made before anything runs, of `calibrate`'s curves: no model plan is among what it measures. `!` marks more than 25 %.\n")
    out("By kind of row, µs each; measured is what one adds to the tick (median, min–max):\n")
    rows = []
    for key, (name, *_) in MODELS.items():
        for kind in (load(f"profile-{key}") or {}).get("kinds", []):
            us, off = kind["predicted_us"], kind["predicted_off"]
            if us is not None and off is not None:
                mark = " !" if abs(off) > 0.25 else ""
                rows.append((name, kind["name"][:40], f"`{kind['kernel']}`", len(kind["rows"]), f"{us:.2f}", spread(kind["adds_us"], 2), f"{100 * off:+.0f} %{mark}"))
    out(table(["model", "kind", "kernel", ">number", ">predicted", ">measured", ">off"], rows) if rows else "Not measured.\n")
    out("## Ways to hand a tick over\n")
    rows = []
    for key, (name, *_) in MODELS.items():
        ticks = [median(load(f"{how}-{key}"), "tick_us") for how in ("bench", "serial", "each")]
        if any(ticks):
            shown = [f"{t:.1f}" if t else "–" for t in ticks]
            rows.append((name, *shown, ratio(ticks[1], ticks[0]), ratio(ticks[2], ticks[0])))
    head = ["model", ">replay, dependent launch: tick µs", ">replay without", ">launch by launch", ">without ÷ with", ">launches ÷ replay"]
    out(table(head, rows) if rows else "Not measured.\n")
    rows = [("1", spread(load("bench-q05q4")["decode_tok_s"]))] if load("bench-q05q4") else []
    rows += [(n, spread(load(f"ticks-{n}")["decode_tok_s"])) for n in (2, 4, 8) if load(f"ticks-{n}")]
    if rows:
        out("Several ticks in one submission (`--ticks-per-launch`), Qwen2.5-0.5B Q4_0:\n")
        out(table([">ticks", ">tok/s"], rows))
    if calibrated:
        names = ["launch", "launch.independent", "commit", "commit_wait", "submit"]
        found = [f"{n.replace('_', ' + ')} {profile.first(n):.2f} µs" for n in names if profile.first(n) is not None]
        out(f"Measured by `calibrate`: {', '.join(found)}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
