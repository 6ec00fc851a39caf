#!/usr/bin/env python3
"""Checks everything that holds on a GPU and prints one table; the exit code is 1 if anything fails.

    bench/tools/gpu-check.sh ONETRIP [--models DIR] [--devices cuda,gpu] [--replays 10000] [--only PART,…] [--log DIR]

ONETRIP is the binary; no Rust is needed where it runs. Parts:

  selftest      every op × case × format on the device against its meaning
  memcheck      compute-sanitizer over the selftest, op by op: no bad access
  racecheck     the same for shared memory
  replays       steps of a model again and again, each warp delayed by random short whiles: no bit of the logits may differ
  logits        every .gguf file of --models (random weights will do) against the CPU device, teacher-forced
  transformers  random models saved by transformers (see transformers_check.py) against its logits

A part that cannot run (no such device, no compute-sanitizer, no files) is a line `not run` with the reason, and no failure;
--strict makes it one. Needs Python 3.10, and for `transformers` the reference that transformers_check.py makes.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ["selftest", "memcheck", "racecheck", "replays", "logits", "transformers"]
# Where the best two logits of the CPU are nearer than this, either may come first.
MARGIN = 0.3
# Mean difference of the best logit, as a share of its size: activations are rounded alike, sums come in another order.
MEAN_OFF = 2e-3


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

    def run(self, name, command, env=None, limit=1800):
        """Runs a command, keeps its output in the log folder; gives exit code, stdout, stderr and seconds."""
        start = time.time()
        try:
            done = subprocess.run(
                command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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
        found, _, took, why = self.onetrip(f"selftest-{device}", ["selftest", "--device", device])
        if found is None:
            return self.table.add("selftest", device, "FAIL", why, took)
        bad = [f"{r['op']}/{r['case']}" for r in found["results"] if r["verdict"] == "fail"]
        detail = f"{found['passed']} passed, {found['failed']} failed, {found['gaps']} gaps {', '.join(bad[:3])}".rstrip()
        self.table.add("selftest", device, "FAIL" if bad or not found["passed"] else "pass", detail, took)

    def ops(self):
        """Names of the ops, as the refusal of a wrong one lists them."""
        _, _, err, _ = self.run("ops", [self.binary, "selftest", "--op", "?"])
        return [w.strip(" .)`'\"") for w in err.split("ops:")[-1].split("(")[0].split(",")] if "ops:" in err else []

    def sanitizer(self, tool, device):
        program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not pathlib.Path(program).exists():
            return self.table.add(tool, device, "not run", "compute-sanitizer is not installed")
        start, bad, ran = time.time(), [], 0
        # In order: the tool looks at each kernel by itself anyway.
        env = {"ONETRIP_CUDA_LAUNCH": self.args.launch}
        ops = self.args.ops.split(",") if self.args.ops else self.ops()
        for op in ops:
            command = [program, "--tool", tool, "--error-exitcode", "9", self.binary, "selftest", "--device", device, "--op", op]
            code, out, err, _ = self.run(f"{tool}-{op}", command, env)
            summary = [line for line in (out + err).splitlines() if "SUMMARY" in line]
            ran += 1
            clean = summary and any(f" {z}" in summary[-1] for z in ("0 errors", "0 hazards"))
            if code != 0 or not clean:
                bad.append(f"{op}: {summary[-1].strip('= ') if summary else (err.strip() or out.strip())[-80:]}")
        verdict = "FAIL" if bad or not ran else "pass"
        self.table.add(tool, device, verdict, "; ".join(bad[:3]) or f"{ran} ops, 0 errors", time.time() - start)

    def replays(self, device, models):
        for model in models or ["tiny"]:
            name = pathlib.Path(model).stem
            args = ["selftest", "--replays", str(self.args.replays), "--model", str(model), "--device", device]
            env = {"ONETRIP_CUDA_DELAYS": str(self.args.seed)} if device.startswith("cuda") else {}
            found, code, took, why = self.onetrip(f"replays-{device}-{name}", args, env)
            if found is None:
                self.table.add("replays", f"{device} {name}", "FAIL", why, took)
                continue
            bad = [s for s in found["steps"] if s["different"] or s["states"]]
            detail = ", ".join(f"{s['different']} of {s['times']} differ: {s['step']}" for s in bad)
            runs = sum(s["times"] for s in found["steps"])
            delays = "with delays" if found.get("delays") else "without delays"
            ok = code == 0 and not bad
            self.table.add("replays", f"{device} {name}", "pass" if ok else "FAIL", detail or f"{runs} equal in every bit, {delays}", took)

    def logits(self, device, models):
        if not models:
            return self.table.add("logits", device, "not run", "no .gguf files: give --models DIR")
        # Ids that any vocabulary of these has.
        ids, more = ",".join(str(i) for i in range(11, 300, 7)), ",".join(str(i) for i in range(5, 400, 11))
        for model in models:
            name, both, took = pathlib.Path(model).stem, {}, 0
            for on in ("cpu", device):
                args = ["ppl", "-m", str(model), "--device", on, "--tokens", ids, "--teacher", more]
                both[on], _, seconds, why = self.onetrip(f"logits-{on}-{name}", args)
                took += seconds
                if both[on] is None:
                    self.table.add("logits", f"{device} {name}", "FAIL", f"{on}: {why}", took)
                    break
            else:
                ok, detail = near(both["cpu"]["steps"], both[device]["steps"])
                self.table.add("logits", f"{device} {name}", "pass" if ok else "FAIL", detail, took)

    def transformers(self, device):
        reference = pathlib.Path(self.args.reference)
        script = HERE / "transformers_check.py"
        if not (reference / "reference.json").exists():
            command = [sys.executable, str(script), "make", str(reference)]
            code, _, err, _ = self.run("transformers-make", command)
            if code != 0:
                why = (err.strip() or "no transformers").splitlines()[-1]
                return self.table.add("transformers", device, "not run", f"{why}: make it with transformers_check.py elsewhere")
        for on in ("cpu", device):
            command = [sys.executable, str(script), "check", str(reference), self.binary, on]
            code, out, err, took = self.run(f"transformers-{on}", command)
            lines = out.strip().splitlines() or (err.strip() or "no answer").splitlines()[-1:]
            for line in lines:
                what, _, detail = line.partition(": ")
                bad = code != 0 and ("FAIL" in line or len(lines) == 1)
                self.table.add("transformers", f"{on} {what}"[:33], "FAIL" if bad else "pass", detail.replace("FAIL ", ""), took)


def near(want, have):
    """Teacher-forced steps of two devices: the same best token where the margin says so, and near in its logit."""
    off = [abs(a["logit"] - b["logit"]) for a, b in zip(want, have)]
    size = sum(abs(a["top5"][0][1]) for a in want) / len(want)
    clear = [(a, b) for a, b in zip(want, have) if a["top5"][0][1] - a["top5"][1][1] > MARGIN]
    same = sum(a["top5"][0][0] == b["top5"][0][0] for a, b in clear)
    mean = sum(off) / len(off)
    detail = f"{len(off)} steps, mean difference {mean:.4f} of {size:.1f}, largest {max(off):.4f}, best token equal {same}/{len(clear)}"
    return len(off) == len(want) and same == len(clear) and mean <= MEAN_OFF * max(size, 1.0), detail


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("--models", help="folder of .gguf files")
    p.add_argument("--largest", type=float, default=3.0, help="leave out files of more GB [3]")
    p.add_argument("--devices", default="cuda,gpu")
    p.add_argument("--only", default=",".join(PARTS))
    p.add_argument("--ops", help="ops of the sanitizer [all]")
    p.add_argument("--launch", default="serial", help="ONETRIP_CUDA_LAUNCH of the sanitizer")
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
        for part in parts:
            if part in ("memcheck", "racecheck"):
                if is_cuda:
                    checks.sanitizer(part, device)
            elif part in ("replays", "logits"):
                getattr(checks, part)(device, models)
            else:
                getattr(checks, part)(device)
    ran = sum(row[2] != "not run" for row in checks.table.rows)
    print(f"\n{ran} checks ran, {checks.table.failed} failed; output of each in {checks.log}")
    return 1 if checks.table.failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
