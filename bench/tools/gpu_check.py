#!/usr/bin/env python3
"""Checks everything that holds on a GPU and prints one table; the exit code is 1 if anything fails.

    bench/tools/gpu-check.sh ONETRIP [--models DIR] [--devices cuda,wgpu] [--replays 10000] [--only PART,…] [--log DIR]

ONETRIP is the binary; no Rust is needed where it runs. Parts:

  selftest      every op × case × format on the device against its meaning, also with other activations than each case's own
                and, on CUDA, without its library of matrix products
  memcheck      compute-sanitizer over the selftest, a process for each op, side by side: no bad access
  racecheck     the same for shared memory
  replays       steps of a model again and again, each warp delayed by random short whiles: no bit of the logits may differ
  logits        every .gguf file of --models (random weights will do) against the CPU device, teacher-forced
  faults        a kernel that fails is found by row and name, a damaged cache mends itself, what does not fit is said before
                anything runs, two programs share a GPU
  transformers  random models saved by transformers (see transformers_check.py) against its logits

Kernels are compiled once, by the selftest, and kept for all parts (ONETRIP_CACHE, else a folder beside the logs), which then
run side by side. A part that cannot run (no such device, no compute-sanitizer, no files) is a line `not run` with the reason,
and no failure; --strict makes it one. Needs Python 3.10, and for `transformers` the reference that transformers_check.py makes.
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ["selftest", "memcheck", "racecheck", "replays", "logits", "faults", "transformers"]
# Tokens of a step: each of these has kernels of its own.
ROWS = [1, 5, 16, 128]
# Ops whose kernels take the longest to watch: they begin first.
LONGEST = ["attention", "delta_net", "matmul"]
# Mean difference of the logits that are looked at, as a share of the best one's size: without rounding of activations, when
# sums come in another order, and with it, for files. In models that make more of what they read a difference in a last bit
# rounds some code another way, and the layers behind make the most of that: there devices may be as far apart as rounding
# takes the CPU from f32.
MEAN_OFF = {"f32": 1e-5, "rounded": 2e-3}
# Formats that the random models of transformers are quantized to. Of some, groups have scales of their own within a block:
# GPUs keep the products as f16, which is a rounding even where activations have none.
FORMATS = ["q4_0", "q8_0", "q4_k", "q6_k"]
ROUNDED_SCALES = ("q4_k", "q6_k")


class Table:
    def __init__(self, strict):
        self.rows, self.failed, self.strict = [], 0, strict

    def add(self, part, what, verdict, detail, seconds=None):
        if verdict == "FAIL" or (self.strict and verdict == "not run"):
            self.failed += 1
        took = "" if seconds is None else f"{seconds:.0f} s"
        self.rows.append((part, what, verdict, took, detail))
        print(f"  {part:<13}{what:<34}{verdict:<9}{took:>6}  {detail}", flush=True)


class Checks:
    def __init__(self, args):
        self.args, self.table = args, Table(args.strict)
        self.binary = str(pathlib.Path(args.binary).resolve())
        self.log = pathlib.Path(args.log)
        self.log.mkdir(parents=True, exist_ok=True)
        self.env = {"ONETRIP_CACHE": os.environ.get("ONETRIP_CACHE") or str((self.log / "kernels").resolve())}

    def run(self, name, command, env=None, limit=1800):
        """Runs a command, keeps its output in the log folder; gives exit code, stdout, stderr and seconds."""
        start = time.time()
        try:
            done = subprocess.run(
                command, env={**os.environ, **self.env, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                errors="replace", timeout=limit, check=False,
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            code, out, err = -1, "", f"ran longer than {limit} s"
        except OSError as e:
            code, out, err = -1, "", str(e)
        (self.log / f"{name}.txt").write_text(f"{' '.join(command)}\n{out}\n{err}\n")
        return code, out, err, time.time() - start

    def onetrip(self, name, args, env=None, limit=1800):
        """The one JSON object that the binary prints, or why there is none."""
        code, out, err, took = self.run(name, [self.binary, *args, "--json"], env, limit)
        try:
            return json.loads(out), code, took, err
        except ValueError:
            return None, code, took, (err.strip() or f"exit code {code}").splitlines()[-1]

    def missing(self, device):
        """Why a device cannot be used, or nothing."""
        found, _, _, why = self.onetrip("devices", ["devices"])
        if found is None:
            return why
        kind = device.split(":")[0]
        there = [d for d in found["devices"] if d["name"].split(":")[0] == kind]
        if any(d["available"] for d in there):
            return None
        return there[0].get("reason", "not there") if there else "not there"

    def selftest(self, device):
        own = {"ONETRIP_CUDA_LAUNCH": "own"}
        runs = [("", [], {})] + [(f" {c}", ["--compute", c], {}) for c in ("f16", "bf16", "f32")]
        runs += [(" own", [], own), (" own f16", ["--compute", "f16"], own)] if device.startswith("cuda") else []
        for name, args, env in runs:
            found, _, took, why = self.onetrip(f"selftest-{device}{name}", ["selftest", "--device", device, *args], env)
            if found is None:
                self.table.add("selftest", device + name, "FAIL", why, took)
                continue
            bad = [f"{r['op']}/{r['case']}" for r in found["results"] if r["verdict"] == "fail"]
            detail = f"{found['passed']} passed, {found['failed']} failed, {found['gaps']} gaps {', '.join(bad[:3])}".rstrip()
            self.table.add("selftest", device + name, "FAIL" if bad or not found["passed"] else "pass", detail, took)

    def ops(self):
        """Names of the ops, as the refusal of a wrong one lists them."""
        _, _, err, _ = self.run("ops", [self.binary, "selftest", "--op", "?"])
        return [w.strip(" .)`'\"") for w in err.split("ops:")[-1].split("(")[0].split(",")] if "ops:" in err else []

    def watched(self, tool, device, program, op):
        """Cases of an op under a tool, seconds, and what is wrong if anything is."""
        # In order: the tool looks at each kernel by itself anyway.
        env = {"ONETRIP_CUDA_LAUNCH": self.args.launch}
        command = [program, "--tool", tool, "--error-exitcode", "9", self.binary, "selftest", "--device", device, "--op", op]
        code, out, err, took = self.run(f"{tool}-{op}", command, env)
        lines = (out + err).splitlines()
        summary = [line for line in lines if "SUMMARY" in line]
        passed = [int(line.split(" passed")[0].split()[-1]) for line in lines if " passed, 0 failed" in line]
        clean = summary and any(f" {z}" in summary[-1] for z in ("0 errors", "0 hazards"))
        if code == 0 and clean and passed:
            return passed[-1], took, None
        said = summary[-1].strip("= ") if summary else (err.strip() or out.strip())[-80:]
        return 0, took, f"{op}: {said}"

    def sanitizers(self, tools, device):
        program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not pathlib.Path(program).exists():
            return [self.table.add(tool, device, "not run", "compute-sanitizer is not installed") for tool in tools]
        ops = self.args.ops.split(",") if self.args.ops else self.ops()
        order = sorted(ops, key=lambda op: LONGEST.index(op) if op in LONGEST else len(LONGEST))
        with ThreadPoolExecutor(self.args.jobs) as pool:
            # Of both tools what takes longest begins first.
            asked = {(op, tool): pool.submit(self.watched, tool, device, program, op) for op in order for tool in reversed(tools)}
        for tool in tools:
            found = {op: asked[op, tool].result() for op in ops}
            bad = [wrong for _, _, wrong in found.values() if wrong]
            cases = sum(cases for cases, _, _ in found.values())
            slowest = max(found, key=lambda op: found[op][1], default=None)
            detail = "; ".join(bad[:3]) or f"{len(ops)} ops, {cases} cases, 0 errors; {slowest} took longest"
            took = max((seconds for _, seconds, _ in found.values()), default=0)
            self.table.add(tool, device, "FAIL" if bad or not cases else "pass", detail, took)

    def replay(self, device, model):
        name = pathlib.Path(model).stem
        args = ["selftest", "--replays", str(self.args.replays), "--model", str(model), "--device", device]
        env = {"ONETRIP_CUDA_DELAYS": str(self.args.seed)} if device.startswith("cuda") else {}
        return name, *self.onetrip(f"replays-{device}-{name}", args, env)

    def replays(self, device, models):
        # Side by side: several programs on one GPU delay each other at random, too.
        with ThreadPoolExecutor(self.args.jobs) as pool:
            done = list(pool.map(lambda model: self.replay(device, model), models or ["tiny"]))
        for name, found, code, took, why in done:
            if found is None:
                self.table.add("replays", f"{device} {name}", "FAIL", why, took)
                continue
            bad = [s for s in found["steps"] if not s["holds"]]
            detail = ", ".join(f"{s['different']} of {s['times']} differ, counted {s['counted']} planned {s['planned']}: {s['step']}" for s in bad)
            runs = sum(s["times"] for s in found["steps"])
            delays = "with delays" if found.get("delays") else "without delays"
            ok = code == 0 and not bad
            self.table.add("replays", f"{device} {name}", "pass" if ok else "FAIL", detail or f"{runs} equal in every bit, {delays}, counted as planned", took)

    def reference(self):
        """Why there are no models of transformers, or nothing."""
        folder = pathlib.Path(self.args.reference)
        if not (folder / "reference.json").exists():
            command = [sys.executable, str(HERE / "transformers_check.py"), "make", str(folder)]
            code, _, err, _ = self.run("transformers-make", command)
            if code != 0:
                return (err.strip() or "no transformers").splitlines()[-1] + ": make it with transformers_check.py elsewhere"
        return None

    def steps(self, device, name, model, args, rows):
        """Teacher-forced steps of a model, so many tokens a step: the logits of the given token and of the five best."""
        # Ids that any vocabulary of these has.
        ids, more = ",".join(str(i) for i in range(11, 300, 7)), ",".join(str(i) for i in range(5, 400, 11))
        threads = ["--threads", str(max(self.args.jobs // 4, 1))]
        args = ["ppl", "-m", *model, *args, "--device", device, "--tokens", ids, "--teacher", more, "--rows", str(rows), *threads]
        found, _, took, why = self.onetrip("-".join(["logits", device, *name.split(), str(rows)]), args)
        return found and found["steps"], took, f"{device}: {why}"

    def logits(self, device, models):
        cases = [(pathlib.Path(model).stem, [str(model)]) for model in models]
        if not models:
            self.table.add("logits", f"{device} of files", "not run", "no .gguf files: give --models DIR")
        if why := self.reference():
            self.table.add("logits", f"{device} of transformers", "not run", why)
        else:
            kinds = [path for path in sorted(pathlib.Path(self.args.reference).iterdir()) if path.is_dir()]
            cases += [(f"{path.name} {form}", [str(path), "--weights", form]) for path in kinds for form in FORMATS]
        f32 = ["--compute", "f32", "--cache", "f32"]
        with ThreadPoolExecutor(4) as pool:
            def ask(on, name, model, args, rows):
                return pool.submit(self.steps, on, name, model, args, rows)

            asked = []
            for name, model in cases:
                # Some devices round activations of many rows to 16-bit numbers, which are nearer to f32 than to int8.
                half = ask("cpu", f"{name} half", model, ["--compute", "f32"], 128)
                cpu = {"f32": [ask("cpu", f"{name} f32", model, f32, 128)], "rounded": [ask("cpu", f"{name} int8", model, [], 128), half]}
                have = {
                    "f32": [ask(device, f"{name} f32", model, f32, rows) for rows in ROWS],
                    "rounded": [ask(device, f"{name} rounded", model, [], rows) for rows in ROWS],
                }
                asked.append((name, model, cpu, have))
            for name, model, cpu, have in asked:
                for kind, allowed in MEAN_OFF.items():
                    if model[-1] in ROUNDED_SCALES:
                        allowed = MEAN_OFF["rounded"]
                    runs = [run.result() for run in cpu[kind] + have[kind]]
                    took = sum(run[1] for run in runs)
                    if wrong := [why for steps, _, why in runs if not steps]:
                        self.table.add("logits", f"{device} {name} {kind}", "FAIL", wrong[0], took)
                        continue
                    want, got = [run[0] for run in runs[: len(cpu[kind])]], [run[0] for run in runs[len(cpu[kind]) :]]
                    bound = allowed * max(size(want[0]), 1.0)
                    if kind == "rounded" and "--weights" in model:
                        bound = away(*want)[0]
                    ok, detail = compared(want, got, bound, kind == "f32")
                    self.table.add("logits", f"{device} {name} {kind}", "pass" if ok else "FAIL", detail, took)

    def faults(self, device):
        if not device.startswith("cuda"):
            return
        cache, cache_of_case = [(self.log / f"kernels-{what}").resolve() for what in ("faults", "case")]
        for folder in (cache, cache_of_case):
            shutil.rmtree(folder, ignore_errors=True)
        env, env_of_case = {"ONETRIP_CACHE": str(cache)}, {"ONETRIP_CACHE": str(cache_of_case)}
        args = ["run", "-m", "tiny", "--device", device, "--tokens", "5,6,7", "-n", "9", "--temperature", "0"]
        good, _, took, why = self.onetrip("faults-good", args, env)
        if good is None:
            return self.table.add("faults", device, "FAIL", why, took)

        def ends(what, args, code, words, env=env):
            """A command must end so, and say that."""
            have, out, err, took = self.run(f"faults-{what.replace(' ', '-')}", [self.binary, *args], env)
            missing = [word for word in words if not re.search(word, out + err)]
            said = (err.strip() or out.strip() or "nothing").splitlines()[-1]
            ok = have == code and not missing
            self.table.add("faults", f"{device} {what}", "pass" if ok else "FAIL", said[:160] if ok else f"exit code {have}: {said}", took)

        # The kernel that chooses tokens is in every tick; and that of a case of the selftest.
        of_case = ["selftest", "--device", device, "--op", "slice"]
        ends("a case", of_case, 0, [], env_of_case)
        (path, entry), (other, other_entry) = kernel(cache, "sample"), kernel(cache_of_case, "slice")
        if path is None or other is None:
            self.table.add("faults", device, "not run", "the cache has no machine code of `sample` or `slice`")
        else:
            (bad, why), (bad_copy, _) = [machine_code(f'extern "C" __global__ void {name}() {{ *(volatile int*)16 = 1; }}') for name in (entry, other_entry)]
            if bad is None or bad_copy is None:
                self.table.add("faults", f"{device} a kernel that fails", "not run", why)
            else:
                other.write_bytes(bad_copy)
                ends("a case fails", of_case, 1, ["ILLEGAL_ADDRESS"], env_of_case)
                path.write_bytes(bad)
                words = ["failed", "run again one launch at a time", r"at dispatch \d+ \(.*sample"]
                for how in (["--commit", "replay"], ["--commit", "each"], ["--ticks-per-launch", "4"]):
                    ends(f"a kernel fails {how[0][2:]} {how[1]}", args + how, 1, words)
            path.write_bytes(b"nonsense")
            ends("damaged cache", args, 0, [])
            if path.read_bytes() == b"nonsense":
                self.table.add("faults", f"{device} damaged cache", "FAIL", "it is not mended")
        # 340 GB of caches: the largest context there may be.
        large = ["--context", str(2**27), "--cache", "f32"]
        ends("no memory", ["run", "-m", "tiny", "--device", device, *large, "--tokens", "5"], 2, ["MB that the device", "--context [0-9]+ fits"])
        ends("no such GPU", ["run", "-m", "tiny", "--device", "cuda:99", "--tokens", "5"], 2, ["there is no GPU 99"])
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(self.onetrip, f"faults-both-{i}", args, env) for i in range(2)]
            same = [run.result()[0] is not None and run.result()[0]["tokens"] == good["tokens"] for run in both]
            took = max(run.result()[2] for run in both)
        self.table.add("faults", f"{device} two programs", "pass" if all(same) else "FAIL", "the same tokens as alone" if all(same) else f"as alone: {same}", took)

    def transformers(self, device):
        if why := self.reference():
            return self.table.add("transformers", device, "not run", why)
        for on in ("cpu", device):
            command = [sys.executable, str(HERE / "transformers_check.py"), "check", self.args.reference, self.binary, on]
            code, out, err, took = self.run(f"transformers-{on}", command)
            lines = out.strip().splitlines() or (err.strip() or "no answer").splitlines()[-1:]
            for line in lines:
                what, _, detail = line.partition(": ")
                bad = code != 0 and ("FAIL" in line or len(lines) == 1)
                detail, seconds = detail.replace("FAIL ", ""), took / len(lines)
                self.table.add("transformers", f"{on} {what}"[:33], "FAIL" if bad else "pass", detail, seconds)


def kernel(cache, name):
    """A file of the cache with machine code of a kernel that is called so, and its whole name."""
    found = ((path, re.search(rb"\.text\.(\w*" + name.encode() + rb"\w*)\0", path.read_bytes())) for path in sorted(cache.glob("*.cubin")))
    return next(((path, match[1].decode()) for path, match in found if match), (None, None))


def machine_code(text):
    """Machine code of a CUDA text for the first GPU, by NVRTC; or why not."""
    folders = [pathlib.Path(f) for f in os.environ.get("ONETRIP_CUDA_LIBS", "").split(os.pathsep) if f]
    folders += [pathlib.Path("/usr/local/cuda/lib64"), pathlib.Path("/opt/cuda/lib64")]
    found = [str(path) for folder in folders if folder.is_dir() for path in sorted(folder.glob("libnvrtc.so*"))]
    for name in found + ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            lib = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        return None, "NVRTC is not found"
    try:
        query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        sm = subprocess.run(query, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0].replace(".", "")
    except (OSError, subprocess.CalledProcessError, IndexError) as e:
        return None, f"nvidia-smi: {e}"
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{sm}".encode())
    lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"bad.cu", 0, None, None)
    if code := lib.nvrtcCompileProgram(program, 1, options):
        return None, f"NVRTC gives {code}"
    lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
    made = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetCUBIN(program, made)
    return made.raw, None


def away(want, have):
    """Mean and largest difference of the given token's logit and those of the best five, of two lists of steps."""
    off = [abs(a["logit"] - b["logit"]) for a, b in zip(want, have)]
    for a, b in zip(want, have):
        other = dict(map(tuple, b["top5"]))
        off += [abs(x - other[i]) for i, x in a["top5"] if i in other]
    return sum(off) / len(off), max(off)


def size(steps):
    """Of the best logits, on average."""
    return sum(abs(step["top5"][0][1]) for step in steps) / len(steps)


def moved(steps):
    """How far a token's logit goes from its mean over the steps that it is among the best of, on average."""
    logits = {}
    for step in steps:
        for i, x in step["top5"]:
            logits.setdefault(i, []).append(x)
    off = [abs(x - sum(of) / len(of)) for of in logits.values() if len(of) > 1 for x in of]
    return sum(off) / len(off) if off else float("inf")


def compared(wants, haves, bound, tight):
    """Steps of a device, a list for each number of rows, with those of the CPU, of which the nearest counts: near in their
    logits, and the best token the same where the two best differ by more than any logit is off. `tight`: what the tokens
    change must be far more than that, or the check would not see that attention is wrong."""
    ok, worst, largest, same, clear = True, 0.0, 0.0, 0, 0
    for have in haves:
        mean, most, want = min(((*away(want, have), want) for want in wants), key=lambda found: found[0])
        pairs = [(a, b) for a, b in zip(want, have) if a["top5"][0][1] - a["top5"][1][1] > 2 * most]
        equal = sum(a["top5"][0][0] == b["top5"][0][0] for a, b in pairs)
        ok &= len(want) == len(have) and mean <= bound and equal == len(pairs)
        worst, largest, same, clear = max(worst, mean), max(largest, most), same + equal, clear + len(pairs)
    change = moved(wants[0])
    ok &= clear > 0 and (not tight or 10 * worst < change)
    return ok, (
        f"{len(haves)} times {len(wants[0])} steps, mean difference {worst:.1e} of {size(wants[0]):.1f} (allowed {bound:.1e}),"
        f" largest {largest:.1e}, tokens change {change:.1e}, best token equal {same}/{clear}"
    )


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("--models", help="folder of .gguf files")
    p.add_argument("--largest", type=float, default=3.0, help="leave out files of more GB [3]")
    p.add_argument("--devices", default="cuda,wgpu")
    p.add_argument("--only", default=",".join(PARTS))
    p.add_argument("--ops", help="ops of the sanitizer [all]")
    p.add_argument("--launch", default="serial", help="ONETRIP_CUDA_LAUNCH of the sanitizer")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="programs side by side [all processors]")
    p.add_argument("--replays", type=int, default=10000)
    p.add_argument("--seed", type=int, default=1, help="of the delays")
    p.add_argument("--reference", default="transformers-reference", help="folder of transformers_check.py")
    p.add_argument("--log", default="gpu-check-log")
    p.add_argument("--strict", action="store_true", help="what is not run counts as failed")
    args = p.parse_args()
    parts = args.only.split(",")
    if wrong := [part for part in parts if part not in PARTS]:
        p.error(f"no such part: {', '.join(wrong)}; parts: {', '.join(PARTS)}")
    checks = Checks(args)
    files = sorted(pathlib.Path(args.models).glob("*.gguf")) if args.models else []
    models = [f for f in files if f.stat().st_size <= args.largest * 1e9]
    for device in args.devices.split(","):
        if why := checks.missing(device):
            checks.table.add("all", device, "not run", why)
            continue
        is_cuda = device.startswith("cuda")
        tools = [part for part in parts if part in ("memcheck", "racecheck")] if is_cuda else []
        # The selftest compiles what the others need; these run side by side.
        if "selftest" in parts:
            checks.selftest(device)
        if "logits" in parts or "transformers" in parts:
            checks.reference()
        with ThreadPoolExecutor(len(PARTS)) as pool:
            asked = [pool.submit(checks.sanitizers, tools, device)] if tools else []
            asked += [pool.submit(getattr(checks, part), device, models) for part in parts if part in ("replays", "logits")]
            asked += [pool.submit(getattr(checks, part), device) for part in parts if part in ("faults", "transformers")]
            for one in asked:
                one.result()
    ran = sum(row[2] != "not run" for row in checks.table.rows)
    print(f"\n{ran} checks ran, {checks.table.failed} failed; output of each in {checks.log}")
    return 1 if checks.table.failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
