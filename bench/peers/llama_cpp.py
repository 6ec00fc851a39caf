#!/usr/bin/env python3
"""Compares onetrip with llama.cpp on this machine: same file, same threads, runs interleaved.

    bench/peers/llama_cpp.py MODEL.gguf [MODEL.gguf …] [--threads 2] [--prompt 512] [--gen 128] [--pairs 8]

llama-bench is built natively from the Python source package `llama-cpp-python` (which carries llama.cpp's source) into a
cache folder, or taken with --llama-bench PATH. --build-only builds it and prints its path.

A pair is one run of each program, each a process of its own with its own warm-up; the order changes from pair to pair, so
that a slow drift of the machine hits both alike. For each figure the program prints one word: `faster`, `slower`, or `coin flip`
(the 99 % interval of the paired ratio contains 1, or the difference is under 1 %). Runs are kept under
bench/runs/<date>-<machine>/<model>-t<threads>.json with a short .md beside it.

Needs Python 3.9 with venv, a C++ compiler, and cargo. Nothing is installed outside the cache folder.
"""

import argparse
import datetime
import hashlib
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tarfile

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_CURL=OFF",
]

# Two-sided 99 % quantiles of Student's t for 1 … 30 degrees of freedom; beyond 30 the last one is a little too wide.
T99 = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
    2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
]  # fmt: skip

FIGURES = {"prefill_tok_s": "prefill", "decode_tok_s": "decode"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    """Standard output of a command; ends the program with its last words when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-12:])
        raise SystemExit(f"error: {' '.join(words)}: exit code {done.returncode}\n{tail}")
    return done.stdout


# ---- building the peer ----------------------------------------------------------------------------------------------------


def default_cache():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "onetrip" / "peers"


def build(cache, version, jobs):
    """Builds llama-bench once; gives its path and a record of how it was built."""
    source = cache / f"{PACKAGE}-{version}"
    binary, stamp = source / "build/bin/llama-bench", source / "onetrip-build.json"
    if binary.is_file() and stamp.is_file():
        return binary, json.loads(stamp.read_text())
    tools = cache / "tools"
    python = tools / "bin/python"
    if not python.is_file():
        say("setting up cmake and ninja …")
        run([sys.executable, "-m", "venv", tools])
    run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "cmake", "ninja"])
    if not (source / "vendor/llama.cpp/CMakeLists.txt").is_file():
        say(f"fetching {PACKAGE} {version} …")
        fetch_source(python, cache, source, version)
    say("building llama-bench (some minutes) …")
    path = f"{tools / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = dict(os.environ, PATH=path)
    configure = ["cmake", "-S", source / "vendor/llama.cpp", "-B", source / "build", "-G", "Ninja", *FLAGS]
    # Named, since an earlier build folder remembers where its ninja was.
    run([*configure, f"-DCMAKE_MAKE_PROGRAM={tools / 'bin/ninja'}"], env=environment)
    run(["cmake", "--build", source / "build", "--target", "llama-bench", "-j", jobs], env=environment)
    record = describe_build(source, version)
    stamp.write_text(json.dumps(record, indent=1) + "\n")
    return binary, record


def fetch_source(python, cache, source, version):
    staging = cache / f".fetch-{os.getpid()}"
    staging.mkdir(parents=True)
    try:
        run([python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", f"--no-binary={PACKAGE}",
             "-d", staging, f"{PACKAGE}=={version}"])  # fmt: skip
        (archive,) = staging.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(staging, **safe)
        (unpacked,) = (entry for entry in staging.iterdir() if entry.is_dir())
        unpacked.rename(source)
    finally:
        for path in sorted(staging.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        staging.rmdir()


def describe_build(source, version):
    head = source / ".git/modules/vendor/llama.cpp/HEAD"
    ggml = (source / "vendor/llama.cpp/ggml/CMakeLists.txt").read_text()
    number = [re.search(rf"GGML_VERSION_{part} (\d+)", ggml) for part in ("MAJOR", "MINOR", "PATCH")]
    cache = (source / "build/CMakeCache.txt").read_text()
    value = lambda key: (re.search(rf"^{key}:\w+=(.*)$", cache, re.M) or ["", ""])[1]
    compiler = value("CMAKE_CXX_COMPILER") or "c++"
    macros = run([compiler, "-march=native", "-dM", "-E", "-x", "c++", os.devnull])
    return {
        "package": f"{PACKAGE} {version}",
        "llama_cpp_commit": head.read_text().strip() if head.is_file() else "unknown",
        "ggml_version": ".".join(found[1] for found in number) if all(number) else "unknown",
        "flags": FLAGS,
        "ggml_options": {key: value(key) for key in ("GGML_NATIVE", "GGML_OPENMP", "GGML_LLAMAFILE", "GGML_CPU_REPACK", "GGML_BLAS")},
        "compiler": run([compiler, "--version"]).splitlines()[0],
        "compiled_for": sorted(re.findall(r"#define __((?:AVX|FMA|F16C|AMX|ARM_FEATURE)\w*?)_*\b 1", macros)),
    }


# ---- what was measured, and on what ---------------------------------------------------------------------------------------


def machine():
    cpu, flags = platform.processor() or platform.machine(), []
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
        cpu = re.search(r"^model name\s*: (.*)$", text, re.M)[1]
        flags = re.search(r"^flags\s*: (.*)$", text, re.M)[1].split()
    except (OSError, TypeError):
        pass
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "features": sorted(flag for flag in flags if re.match(r"(avx|fma|f16c|amx|vnni)", flag)),
        "system": f"{platform.system()} {platform.release()}",
    }


def slug(text):
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def build_onetrip():
    say("building onetrip …")
    command = ["cargo", "build", "--release", "-p", "onetrip", "--bin", "onetrip", "--message-format=json"]
    for line in run(command, cwd=ROOT).splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("target", {}).get("name") == "onetrip":
            return pathlib.Path(message["executable"])
    raise SystemExit("error: cargo built no binary named onetrip")


def describe_onetrip(binary):
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {
        "version": run([binary, "--version"]).strip(),
        "commit": git("rev-parse", "HEAD") or "unknown",
        "uncommitted_changes": bool(git("status", "--porcelain", "--untracked-files=no")),
    }


# ---- one run of each ------------------------------------------------------------------------------------------------------


def llama_command(binary, model, args, prompt, gen, depth):
    return [binary, "-m", model, "-t", args.threads, "-r", 1, "-o", "json", "-p", prompt, "-n", gen, "-d", depth]


def run_llama(binary, model, args):
    # Depth (positions already cached) is for the generation only, but the option holds for a whole call.
    if args.context:
        calls = [(args.prompt, 0, 0), (0, args.gen, args.context)]
    else:
        calls = [(args.prompt, args.gen, 0)]
    result = {}
    for call in calls:
        for test in json.loads(run(llama_command(binary, model, args, *call))):
            key = "prefill_tok_s" if test["n_prompt"] else "decode_tok_s"
            result[key] = statistics.median(test["samples_ts"])
            result.setdefault("settings", {name: test.get(name) for name in (
                "build_commit", "cpu_info", "n_threads", "n_batch", "n_ubatch", "type_k", "type_v", "flash_attn", "repack")})  # fmt: skip
    return result


def onetrip_command(binary, model, args):
    command = [binary, "bench", "--json", "--model", model, "--threads", args.threads, "--prompt", args.prompt]
    command += ["--gen", args.gen, "--batch", 1, "--repeat", 1]
    if args.context:
        command += ["--context", args.context]
    return command + args.onetrip_args.split()


def run_onetrip(binary, model, args):
    answer = json.loads(run(onetrip_command(binary, model, args)))
    return {key: answer[key]["median"] for key in FIGURES}


# ---- statistics -----------------------------------------------------------------------------------------------------------


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def compare(ours, theirs):
    """Ratio ours / theirs over pairs: geometric mean, 99 % interval by Student's t on the logarithms, and one word."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs)]
    n, mean = len(logs), statistics.fmean(logs)
    half = T99[min(n - 1, len(T99)) - 1] * statistics.stdev(logs) / math.sqrt(n)
    ratio, low, high = math.exp(mean), math.exp(mean - half), math.exp(mean + half)
    if low <= 1 <= high or abs(ratio - 1) < 0.01:
        word = "coin flip"
    else:
        word = "faster" if ratio > 1 else "slower"
    return {"ratio": ratio, "low99": low, "high99": high, "pairs": n, "word": word}


def selftest():
    """Cases worked out by hand; run by --selftest."""
    same = compare([100, 101, 99, 100, 102, 98, 100, 100], [100, 99, 101, 100, 98, 102, 100, 100])
    assert same["word"] == "coin flip" and same["low99"] < 1 < same["high99"], same
    twice = compare([200, 202, 198, 201, 199, 200, 203, 197], [100] * 8)
    assert twice["word"] == "faster" and 1.95 < twice["low99"] < 2 < twice["high99"] < 2.05, twice
    assert compare([50] * 7 + [51], [100] * 8)["word"] == "slower"
    # A difference that is certain but under 1 % is no difference.
    assert compare([100.5, 100.51] * 4, [100] * 8)["word"] == "coin flip"
    # One logarithm of 0 and one of ln 4: mean ln 2, deviation ln 4 / sqrt 2, so the half width is 63.657 ln 2.
    wide = compare([1, 4], [1, 1])
    assert abs(wide["ratio"] - 2) < 1e-12 and abs(math.log(wide["high99"]) - 64.657 * math.log(2)) < 1e-9, wide
    assert spread([3, 1, 2]) == {"median": 2, "min": 1, "max": 3}
    print("selftest: ok")


# ---- the comparison -------------------------------------------------------------------------------------------------------


def measure(model, onetrip, llama, args):
    runners = {"onetrip": lambda: run_onetrip(onetrip, model, args), "llama.cpp": lambda: run_llama(llama, model, args)}
    for name, runner in runners.items():
        say(f"  warm-up: {name}")
        runner()
    runs, settings = {name: [] for name in runners}, None
    for pair in range(args.pairs):
        order = list(runners) if pair % 2 == 0 else list(runners)[::-1]
        for name in order:
            result = runners[name]()
            settings = result.pop("settings", settings)
            runs[name].append(result)
        shown = "  ".join(f"{name} {runs[name][-1]['prefill_tok_s']:.1f} / {runs[name][-1]['decode_tok_s']:.1f}" for name in runners)
        say(f"  pair {pair + 1} of {args.pairs}: {shown}")
    figures = {}
    for key in FIGURES:
        ours, theirs = ([run[key] for run in runs[name]] for name in ("onetrip", "llama.cpp"))
        figures[key] = {"onetrip": spread(ours), "llama.cpp": spread(theirs), **compare(ours, theirs)}
    return figures, runs, settings


def page(record):
    """The short .md: what a reader wants to know first."""
    args, host = record["settings"], record["machine"]
    lines = [
        f"# {record['model']['file']}, {args['threads']} thread(s): onetrip beside llama.cpp",
        "",
        f"{record['date']}, {host['cpu']}, {host['cores']} cores. {args['pairs']} interleaved pairs after one warm-up; tok/s as median (min–max).",
        "",
        "| | onetrip | llama.cpp | ratio (99 % interval) | |",
        "|---|---|---|---|---|",
    ]
    for key, name in FIGURES.items():
        figure = record["figures"][key]
        cell = lambda who: "{median:.1f} ({min:.1f}–{max:.1f})".format(**figure[who])
        count = args["prompt"] if key == "prefill_tok_s" else args["gen"]
        ratio = "{ratio:.3f} ({low99:.3f}–{high99:.3f})".format(**figure)
        lines.append(f"| {name} {count} | {cell('onetrip')} | {cell('llama.cpp')} | {ratio} | **{figure['word']}** |")
    peer = record["llama.cpp"]
    built = f"{peer['package']}, ggml {peer['ggml_version']}, commit {peer['llama_cpp_commit'][:10]}, {peer['compiler']}, native"
    lines += [
        "",
        f"onetrip: {record['onetrip']['version']}, commit {record['onetrip']['commit'][:10]}"
        + (" with uncommitted changes" if record["onetrip"]["uncommitted_changes"] else "")
        + f". llama.cpp: {built if 'package' in peer and peer['package'] else 'a binary given by path, commit ' + peer['llama_cpp_commit']}.",
        f"Load of the machine (1 minute) before and after: {record['load_before']:.2f}, {record['load_after']:.2f}.",
        "",
    ]
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description="Compares onetrip with llama.cpp, interleaved.")
    parser.add_argument("models", nargs="*", type=pathlib.Path, metavar="MODEL.gguf")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt (default 512)")
    parser.add_argument("--gen", type=int, default=128, help="tokens to generate (default 128)")
    parser.add_argument("--context", type=int, default=0, help="positions already cached before the generation (default 0)")
    parser.add_argument("--pairs", type=int, default=8, help="at least 8")
    parser.add_argument("--onetrip", type=pathlib.Path, help="the binary; default: built from this checkout")
    parser.add_argument("--onetrip-args", default="", help="further arguments for `onetrip bench`, in one text")
    parser.add_argument("--llama-bench", type=pathlib.Path, help="a llama-bench that is there already")
    parser.add_argument("--version", default=VERSION, help=f"of {PACKAGE} (default {VERSION})")
    parser.add_argument("--cache", type=pathlib.Path, default=default_cache(), help="where llama-bench is built")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="for the build")
    parser.add_argument("--machine", help="name of this machine in the folder of the runs; default: its CPU and cores")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/runs", help="default bench/runs")
    parser.add_argument("--build-only", action="store_true", help="build llama-bench, print its path, and end")
    parser.add_argument("--selftest", action="store_true", help="check the statistics, and end")
    args = parser.parse_args()
    if args.pairs < 8:
        parser.error("--pairs: fewer than 8 pairs decide nothing")
    if not (args.models or args.build_only or args.selftest):
        parser.error("name at least one model file")
    for model in args.models:
        if not model.is_file():
            parser.error(f"{model}: no such file (cargo xtask models fetches some)")
    return args


def main():
    args = arguments()
    if args.selftest:
        return selftest()
    if args.llama_bench:
        llama, peer = args.llama_bench, {"package": None, "llama_cpp_commit": "unknown"}
    else:
        llama, peer = build(args.cache, args.version, args.jobs)
    if args.build_only:
        return print(llama)
    onetrip = args.onetrip or build_onetrip()
    host, today = machine(), datetime.date.today().isoformat()
    folder = args.out / f"{today}-{slug(args.machine or '{cpu} {cores}c'.format(**host))}"
    for model in args.models:
        say(f"{model.name}, {args.threads} thread(s)")
        load_before = os.getloadavg()[0]
        figures, runs, settings = measure(model, onetrip, llama, args)
        if not peer["package"]:
            peer["llama_cpp_commit"] = settings["build_commit"]
        # Commands are kept without folders: those of one machine say nothing elsewhere.
        plain = lambda command: " ".join(word.name if isinstance(word, pathlib.Path) else str(word) for word in command)
        record = {
            "date": today,
            "machine": host,
            "model": {"file": model.name, "bytes": model.stat().st_size, "sha256": sha256(model)},
            "settings": {key: getattr(args, key) for key in ("threads", "prompt", "gen", "context", "pairs")},
            "onetrip": {**describe_onetrip(onetrip), "command": plain(onetrip_command(onetrip, model, args))},
            "llama.cpp": {**peer, "settings": settings, "command": plain(llama_command(llama, model, args, args.prompt, args.gen, 0))},
            "load_before": load_before,
            "load_after": os.getloadavg()[0],
            "figures": figures,
            "runs": runs,
        }
        folder.mkdir(parents=True, exist_ok=True)
        base = folder / f"{slug(model.stem)}-t{args.threads}"
        base.with_name(base.name + ".json").write_text(json.dumps(record, indent=1) + "\n")
        text = page(record)
        base.with_name(base.name + ".md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
