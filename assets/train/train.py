"""Train the embedded model on one GPU: several shapes beside each other, the best moment of each kept.

    python assets/train/train.py --data DIR --out DIR --minutes 7

DIR holds the `tokens-V.npz` of `prepare.py`. Two stages, each job a process of its own on the same GPU:

1. Teachers, too large to ship, and students that learn from the text alone (the controls).
2. Students that learn from the text and from the mean of the teachers' predictions.

Against learning the text by heart (3.5 MB is little): dropout, weight decay, averaged weights (EMA), early stopping on
`val`, and every epoch another segmentation: some tokens are replaced by the two pieces that BPE had merged into them.
Each job stops at its share of the wall clock; the learning rate is a cosine over steps or time, whichever is further
on. Written: `NAME.npz` (float16 weights of the best moment) for each student and `log.json` (configurations, curves,
results).
"""

import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

from model import Llama, Shape, total_nats


@dataclasses.dataclass
class Job:
    name: str
    shape: Shape
    teacher: bool = False  # train in stage 1 and serve the students
    distil: float = 0.0  # share of the teachers' predictions in the loss; 0: stage 1, from the text alone
    steps: int = 4000
    batch: int = 24
    lr: float = 3e-3
    decay: float = 0.1
    dropout: float = 0.1
    split: float = 0.08  # chance that a token is replaced by its two pieces
    seed: int = 1


A = Shape(2048, 192, 8, 6, 2, 512)
B = Shape(2048, 256, 5, 8, 2, 576)
C = Shape(2048, 224, 6, 7, 1, 608)
D = Shape(1024, 192, 8, 6, 2, 544)
JOBS = [
    Job("teacher-a", Shape(2048, 512, 8, 8, 4, 1376), True, 0, 1500, lr=1e-3, decay=0.3, dropout=0.3, seed=11),
    Job("teacher-b", Shape(2048, 640, 6, 10, 5, 1728), True, 0, 2000, lr=1e-3, decay=0.3, dropout=0.4, seed=12),
    Job("control-192x8", A, steps=3000, dropout=0.1),
    Job("control-192x8-v1024", D, steps=3000, dropout=0.1),
    Job("student-192x8", A, False, 0.7, 7000, dropout=0.02, decay=0.1),
    Job("student-256x5", B, False, 0.7, 7000, dropout=0.02, decay=0.1),
    Job("student-224x6", C, False, 0.7, 7000, dropout=0.02, decay=0.1),
]
SMOKE = [
    Job("teacher-a", Shape(1024, 128, 2, 4, 2, 256, 128), True, 0, 12, 4, 3e-3),
    Job("control", Shape(1024, 96, 2, 3, 1, 192, 128), False, 0, 12, 4, 3e-3),
    Job("student", Shape(1024, 96, 2, 3, 1, 192, 128), False, 0.7, 12, 4, 3e-3),
]
STAGE_1 = 0.42  # of the wall clock


class Text:
    """Random training windows, re-segmented every epoch, each opened by the end-of-text token or in the middle."""

    def __init__(self, data, job: Job, device):
        self.tokens, self.children = data["train"].astype(np.int64), data["children"].astype(np.int64)
        twice = self.tokens[1:][self.tokens[1:] == self.tokens[:-1]]
        self.newline = int(np.bincount(twice).argmax())  # two of them part paragraphs: nothing else doubles so often
        self.job, self.device = job, device
        self.rng = np.random.default_rng(job.seed)
        self.left, self.share = 0, 1.0  # share: of the chance to split, taken back to 0 as training goes on
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.coming = self.pool.submit(self.segmented, job.seed + 1000)

    def segmented(self, seed: int) -> np.ndarray:
        """All chapters in another order, some tokens replaced by their two pieces."""
        rng = np.random.default_rng(seed)
        chapters = np.split(self.tokens, np.flatnonzero(self.tokens == 0)[1:])[:-1]  # each from its end-of-text on
        rng.shuffle(chapters)
        pieces = np.concatenate([*chapters, [0]])
        chance = self.share * self.job.split * rng.random()  # some epochs nearly whole, some well broken up
        for _ in range(3):  # a piece may be split again
            cut = (self.children[pieces, 0] >= 0) & (rng.random(len(pieces)) < chance)
            length = 1 + cut
            at = np.cumsum(length) - length
            longer = np.empty(length.sum(), np.int64)
            longer[at] = np.where(cut, self.children[pieces, 0], pieces)
            longer[at[cut] + 1] = self.children[pieces[cut], 1]
            pieces = longer
        return pieces

    def next_epoch(self) -> None:
        self.pieces = self.coming.result()
        self.coming = self.pool.submit(self.segmented, int(self.rng.integers(2**31)))
        self.paragraphs = 2 + np.flatnonzero((self.pieces[:-2] == self.newline) & (self.pieces[1:-1] == self.newline))
        self.left = len(self.pieces)

    def batch(self) -> torch.Tensor:
        """[batch, context + 1] token ids"""
        b, t = self.job.batch, self.job.shape.context
        if self.left <= 0:
            self.next_epoch()
        self.left -= b * t
        last = len(self.pieces) - t - 1
        start = self.rng.integers(0, last, b)
        opened = self.rng.random(b) < 0.5  # half the windows: end-of-text, then a paragraph from its beginning
        start[opened] = np.minimum(self.rng.choice(self.paragraphs, opened.sum()) - 1, last)
        out = self.pieces[start[:, None] + np.arange(t + 1)]
        out[opened & (out[:, 0] == self.newline), 0] = 0
        block = torch.from_numpy(out)
        return block.pin_memory().to(self.device, non_blocking=True) if self.device == "cuda" else block


def load(path: pathlib.Path, shape: Shape, device) -> Llama:
    model = Llama(shape).to(device)
    for name, value in np.load(path).items():
        if name != "config":
            model.names[name].data.copy_(torch.from_numpy(value.astype(np.float32)))
    return model.eval().requires_grad_(False)


def save(path: pathlib.Path, job: Job, weights: dict[str, torch.Tensor]) -> None:
    arrays = {n: w.detach().cpu().numpy().astype(np.float16 if w.ndim == 2 else np.float32) for n, w in weights.items()}
    part = path.with_suffix(".part.npz")
    np.savez(part, config=json.dumps(dataclasses.asdict(job)), **arrays)
    os.replace(part, path)  # never half a file, should the wall clock strike


def train(job: Job, args, jobs) -> None:
    torch.manual_seed(job.seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    start, deadline = time.time(), args.deadline
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    data = np.load(pathlib.Path(args.data) / f"tokens-{job.shape.vocab}.npz")
    text, out = Text(data, job, device), pathlib.Path(args.work)
    model = Llama(job.shape, job.dropout).to(device)
    averaged = Llama(job.shape).to(device).requires_grad_(False)
    averaged.load_state_dict(model.state_dict())
    matrices = [p for p in model.parameters() if p.ndim == 2]
    norms = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": job.decay}, {"params": norms, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=job.lr, betas=(0.9, 0.98), fused=device == "cuda")
    teachers = [load(out / f"{j.name}.npz", j.shape, device) for j in jobs if j.teacher] if job.distil else []
    autocast = torch.autocast(device, dtype=torch.bfloat16)

    def loss_of(block):
        ids, target = block[:, :-1], block[:, 1:]
        with autocast:
            logits = model(ids).flatten(0, 1).float()
            loss = F.cross_entropy(logits, target.flatten())
            plain = loss.detach()
            if teachers:
                with torch.no_grad():
                    q = sum(t(ids).flatten(0, 1).float().softmax(-1) for t in teachers) / len(teachers)
                loss = (1 - job.distil) * loss - job.distil * (q * logits.log_softmax(-1)).sum(-1).mean()
        return loss, plain

    def bits(part, stride=512):
        with autocast:
            nats = total_nats(averaged, data[part], device, job.shape.context, min(stride, job.shape.context))
        return nats / math.log(2) / float(data[f"{part}_bytes"])

    step_loss = torch.compile(loss_of) if args.compile else loss_of
    record = dataclasses.asdict(job) | {"parameters": sum(p.numel() for p in model.parameters()), "curve": []}
    best, step, progress, running = math.inf, 0, 0.0, None
    every = max(10, job.steps // 24)
    while progress < 1 and step < job.steps:
        progress = max(step / job.steps, (time.time() - start) / (deadline - start))
        text.share = max(0.0, 1 - progress / 0.7)  # the last part sees the text as the tokenizer cuts it
        rate = job.lr * min(1, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1, progress))))
        for group in optimizer.param_groups:
            group["lr"] = rate
        block = text.batch()
        optimizer.zero_grad(set_to_none=True)
        try:
            loss, plain = step_loss(block)
            loss.backward()
        except Exception as error:  # a compiler that does not work there must not cost the run
            if step_loss is loss_of:
                raise
            print(f"{job.name}: compile failed ({type(error).__name__}), running eagerly", flush=True)
            step_loss = loss_of
            optimizer.zero_grad(set_to_none=True)
            loss, plain = step_loss(block)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        keep = min(0.998, (1 + step) / (10 + step))
        with torch.no_grad():
            torch._foreach_lerp_(list(averaged.parameters()), list(model.parameters()), 1 - keep)
        running = plain if running is None else running.lerp(plain, 0.02)
        step += 1
        if step % every == 0 or progress >= 1 or step == job.steps:
            now = bits("val")
            train_nats = running.item()
            record["curve"].append([step, round(time.time() - start, 1), round(train_nats, 4), round(now, 5)])
            print(f"{job.name}: step {step} {time.time() - start:.0f} s, train {train_nats:.3f} nats/token, "
                  f"val {now:.4f} bits/byte", flush=True)
            if now < best:
                best = now
                record["best_step"] = step
                save(out / f"{job.name}.npz", job, averaged.names)
            elif now > best + 0.08:
                record["stopped"] = "val rising"
                break
    final = load(out / f"{job.name}.npz", job.shape, device)
    averaged.load_state_dict(final.state_dict())
    record |= {"val": best, "test": bits("test"), "seconds": time.time() - start, "epochs": step * job.batch
               * job.shape.context / len(text.tokens)}
    (out / f"{job.name}.json").write_text(json.dumps(record))
    print(f"{job.name}: best val {best:.4f}, test {record['test']:.4f} bits/byte", flush=True)


def stage(args, jobs, chosen, seconds: float) -> None:
    """Runs the chosen jobs in processes side by side; kills what outlives its time by 25 s."""
    deadline = time.time() + seconds
    command = [sys.executable, __file__, "--data", args.data, "--out", args.out, "--work", args.work,
               "--deadline", str(deadline), *(["--smoke"] if args.smoke else []),
               *(["--compile"] if args.compile else [])]
    running = [subprocess.Popen([*command, "--job", j.name]) for j in chosen]
    for process in running:
        try:
            process.wait(max(1, deadline + 25 - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="tiny shapes, to try the script on a CPU")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    jobs = SMOKE if args.smoke else JOBS
    if args.job:
        return train(next(j for j in jobs if j.name == args.job), args, jobs)
    out, begin, total = pathlib.Path(args.out), time.time(), args.minutes * 60
    args.work = tempfile.mkdtemp()  # teachers stay behind
    out.mkdir(parents=True, exist_ok=True)

    def collect():
        logs = [json.loads(p.read_text()) for p in sorted(pathlib.Path(args.work).glob("*.json"))]
        (out / "log.json").write_text(json.dumps(logs, indent=1))
        for job in jobs:
            found = pathlib.Path(args.work) / f"{job.name}.npz"
            if found.exists() and not job.teacher:
                (out / found.name).write_bytes(found.read_bytes())
        return logs

    stage(args, jobs, [j for j in jobs if not j.distil], STAGE_1 * total)
    collect()
    if all((pathlib.Path(args.work) / f"{j.name}.npz").exists() for j in jobs if j.teacher):
        stage(args, jobs, [j for j in jobs if j.distil], total - (time.time() - begin))
    for log in sorted(collect(), key=lambda r: r["val"]):
        print(f"{log['name']}: {log['parameters']} parameters, best step {log['best_step']}, val {log['val']:.4f}, "
              f"test {log['test']:.4f} bits/byte, {log['epochs']:.0f} epochs, {log['seconds']:.0f} s")


if __name__ == "__main__":
    main()
