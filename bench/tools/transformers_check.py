#!/usr/bin/env python3
"""Random models saved by transformers, and whether onetrip gives transformers' logits for them.

    transformers_check.py make DIR                    where torch and transformers are: models and DIR/reference.json
    transformers_check.py check DIR ONETRIP DEVICE    anywhere: compares; prints a line a model; exit code 1 if one is off

Qwen2 and Llama with 4 layers of width 512, grouped heads, weights in float16, saved by `save_pretrained` beside a tokenizer.json
made here; transformers computes in float32 with the same numbers. The reference holds, for each step of a given text, the logits of all tokens that are looked at: the given one and the
five best. onetrip runs with float32 caches and activations, so that only the order of sums differs.
"""

import json
import pathlib
import subprocess
import sys

# Largest difference of a logit, as a share of the largest logit.
ALLOWED = 2e-4
VOCABULARY, WIDTH, LAYERS = 512, 512, 4
PROMPT, STEPS = 24, 60
# Tokens of a step: one, a few, and many have kernels of their own.
ROWS = [1, 5, 16, 128]


def ids(n, seed):
    return [(seed * 97 + i * i * 31 + i * 7) % VOCABULARY for i in range(n)]


def tokenizer(folder):
    """A byte-level tokenizer of single bytes and some pairs: that there is one, not what it does, matters here."""
    from tokenizers import Tokenizer, models, pre_tokenizers, decoders

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate(alphabet)}
    merges = []
    for a in alphabet[64:80]:
        for b in alphabet[64:80]:
            if len(vocabulary) < VOCABULARY:
                vocabulary[a + b] = len(vocabulary)
                merges.append((a, b))
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))


def make(folder):
    import torch
    import transformers

    torch.manual_seed(7)
    common = dict(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=1344, num_hidden_layers=LAYERS, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=1024, initializer_range=0.06, rms_norm_eps=1e-6,
    )
    kinds = {
        "qwen2": (transformers.Qwen2Config(**common, rope_theta=1e6, tie_word_embeddings=True), transformers.Qwen2ForCausalLM),
        "llama": (transformers.LlamaConfig(**common, rope_theta=5e5, tie_word_embeddings=False), transformers.LlamaForCausalLM),
    }
    models = []
    for seed, (name, (config, kind)) in enumerate(kinds.items()):
        model = kind(config).eval()
        with torch.no_grad():
            # Norms and biases as training leaves them: not all ones and zeros.
            for key, value in model.named_parameters():
                if key.endswith("norm.weight"):
                    value.add_(0.1 * torch.randn_like(value))
                elif key.endswith(".bias"):
                    value.add_(0.1 * torch.randn_like(value))
        at = folder / name
        model.half().save_pretrained(at, safe_serialization=True)
        # Read again, as its rotations were rounded with it.
        model = kind.from_pretrained(at, torch_dtype=torch.float32).eval()
        tokenizer(at)
        prompt, then = ids(PROMPT, seed + 1), ids(STEPS, seed + 5)
        with torch.no_grad():
            logits = model(torch.tensor([prompt + then])).logits[0].double()
        steps = []
        for i, token in enumerate(then):
            row = logits[PROMPT - 1 + i]
            best = torch.topk(row, 5)
            steps.append({"id": token, "logits": [round(float(x), 6) for x in row], "best": best.indices.tolist()})
        models.append({"name": name, "prompt": prompt, "then": then, "steps": steps})
    reference = {"transformers": transformers.__version__, "torch": torch.__version__, "models": models}
    (folder / "reference.json").write_text(json.dumps(reference))
    print(f"{len(models)} models in {folder}")


def check(folder, binary, device):
    reference = json.loads((folder / "reference.json").read_text())
    listed = lambda numbers: ",".join(map(str, numbers))
    failed = False
    for model, rows in [(model, rows) for model in reference["models"] for rows in ROWS]:
        name = f"{model['name']}, {rows} a step"
        command = [
            binary, "ppl", "-m", str(folder / model["name"]), "--device", device, "--compute", "f32", "--cache", "f32",
            "--tokens", listed(model["prompt"]), "--teacher", listed(model["then"]), "--rows", str(rows), "--json",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            print(f"{name}: FAIL {done.stderr.strip()[-200:]}")
            failed = True
            continue
        steps = json.loads(done.stdout)["steps"]
        largest = max(abs(x) for s in model["steps"] for x in s["logits"])
        off, same, clear = 0.0, 0, 0
        for have, want in zip(steps, model["steps"]):
            row = want["logits"]
            off = max(off, abs(have["logit"] - row[have["id"]]), *(abs(x - row[i]) for i, x in have["top5"]))
            if row[want["best"][0]] - row[want["best"][1]] > 2 * ALLOWED * largest:
                clear += 1
                same += have["top5"][0][0] == want["best"][0]
        ok = len(steps) == len(model["steps"]) and off <= ALLOWED * largest and same == clear
        failed |= not ok
        print(
            f"{name}: {'' if ok else 'FAIL '}{len(steps)} steps of 6 logits, largest difference {off:.1e} of"
            f" {largest:.1f}, best token equal {same}/{clear}"
        )
    return 1 if failed else 0


def main():
    match sys.argv[1:]:
        case ["make", folder]:
            at = pathlib.Path(folder)
            at.mkdir(parents=True, exist_ok=True)
            make(at)
            return 0
        case ["check", folder, binary, device]:
            return check(pathlib.Path(folder), binary, device)
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main())
