"""Write trained weights as GGUF (Q8_0), then measure the written file.

    python assets/train/export.py --data DIR --npz RESULTS/NAME.npz [--log RESULTS/log.json] [--to assets/tiny.gguf]

DIR is the output folder of `prepare.py`. Every number is measured on the file as read back and dequantized, in float32:
bits per byte on the held-out chapters, and the longest verbatim run that samples share with the training text. All
facts go to a JSON file beside the GGUF, together with reference ids and logits for an engine to be compared with.
"""

import argparse
import hashlib
import json
import math
import pathlib
import sys

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer

from model import Llama, Shape, total_nats
from prepare import END

COPY = 50  # characters in a row that would be a copy
SAMPLE = 400  # characters of a sample
PROMPTS = ["", "It is a truth", "Mr. Darcy", "She was", "\"My dear", "The next morning", "Elizabeth", "Captain",
           "He had", "It was", "They"]
LICENCE_NOTE = "Trained on public domain text (six novels by Jane Austen); weights under MIT OR Apache-2.0"


def write(path: pathlib.Path, shape: Shape, weights: dict, tokenizer: Tokenizer) -> None:
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("onetrip tiny")
    w.add_description("A small llama that writes in the manner of Jane Austen. " + LICENCE_NOTE + ".")
    w.add_license("MIT OR Apache-2.0")
    w.add_float32("general.sampling.temp", 0.8)  # greedy text of a model this small goes round in circles
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_block_count(shape.layers)
    w.add_context_length(shape.context)
    w.add_embedding_length(shape.width)
    w.add_feed_forward_length(shape.ffn)
    w.add_head_count(shape.heads)
    w.add_head_count_kv(shape.kv_heads)
    w.add_layer_norm_rms_eps(shape.eps)
    w.add_rope_dimension_count(shape.head_dim)
    w.add_rope_freq_base(shape.rope_base)
    w.add_vocab_size(shape.vocab)

    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.CONTROL if t == END else gguf.TokenType.NORMAL for t in tokens])
    w.add_token_merges([" ".join(m) for m in model["merges"]])
    w.add_bos_token_id(0)
    w.add_eos_token_id(0)
    w.add_add_bos_token(True)

    q8 = gguf.GGMLQuantizationType.Q8_0
    for name in [*shape.matrices(), *shape.norms()]:
        value = weights[name].astype(np.float32)
        if value.ndim == 2:
            w.add_tensor(name, gguf.quants.quantize(value, q8), raw_dtype=q8)
        else:
            w.add_tensor(name, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def read_back(path: pathlib.Path, shape: Shape) -> Llama:
    model = Llama(shape).eval().requires_grad_(False)
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    assert set(tensors) == set(model.names)
    for name, t in tensors.items():
        value = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        model.names[name].data.copy_(torch.from_numpy(value.reshape(tuple(model.names[name].shape))))
    return model


@torch.no_grad()
def generate(model, start: list[int], count: int, tokens: int, temperature: float, seed: int) -> list[list[int]]:
    """`count` continuations of `start`, of `tokens` tokens each; temperature 0 is greedy."""
    rng = torch.Generator().manual_seed(seed)
    ids = new = torch.tensor([start] * count)
    cache = []
    for _ in range(tokens):
        logits = model(new, cache)[:, -1]
        if temperature == 0:
            new = logits.argmax(-1, keepdim=True)
        else:
            new = torch.multinomial((logits / temperature).softmax(-1), 1, generator=rng)
        ids = torch.cat((ids, new), 1)
    return ids.tolist()


def longest_copies(samples: list[str], text: str, seed: int = 16) -> list[str]:
    """For each sample the longest substring that stands in `text` word for word (white space taken as one space).

    Runs shorter than `seed` characters are not looked for.
    """
    samples = [" ".join(s.split()) for s in samples]
    wanted = {s[i : i + seed] for s in samples for i in range(len(s) - seed + 1)}
    places: dict[str, list[int]] = {}
    for at in range(len(text) - seed + 1):
        if text[at : at + seed] in wanted:
            places.setdefault(text[at : at + seed], []).append(at)
    found = []
    for s in samples:
        best = ""
        for begin in range(len(s) - seed + 1):
            for at in places.get(s[begin : begin + seed], ()):
                n = seed
                while begin + n < len(s) and at + n < len(text) and s[begin + n] == text[at + n]:
                    n += 1
                if n > len(best):
                    best = s[begin : begin + n]
        found.append(best)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--npz", required=True, type=pathlib.Path)
    parser.add_argument("--log", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "tiny.gguf")
    args = parser.parse_args()

    weights = dict(np.load(args.npz))
    job = json.loads(str(weights.pop("config")))
    shape = Shape(**job["shape"])
    tokenizer = Tokenizer.from_file(str(args.data / f"tokenizer-{shape.vocab}.json"))
    data = np.load(args.data / f"tokens-{shape.vocab}.npz")
    parts = json.loads((args.data / "parts.json").read_text())
    write(args.to, shape, weights, tokenizer)
    size = args.to.stat().st_size
    print(f"{args.to}: {size} bytes")
    model = read_back(args.to, shape)

    facts = {
        "name": job["name"],
        "file_bytes": size,
        "sha256": hashlib.sha256(args.to.read_bytes()).hexdigest(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "shape": job["shape"],
        "training_bytes": int(data["train_bytes"]),
        "training_tokens": len(data["train"]) - 1,
        "held_out_bytes": int(data["test_bytes"]),
        "held_out_tokens": len(data["test"]) - 1,
        "held_out_share": int(data["test_bytes"]) / sum(int(data[f"{p}_bytes"]) for p in ("train", "val", "test")),
    }
    measured = (("held_out", "test", 512), ("held_out_no_overlap", "test", 1024), ("validation", "val", 512))
    for name, part, stride in measured:
        nats = total_nats(model, data[part], "cpu", shape.context, min(stride, shape.context), batch=4)
        facts[f"{name}_bits_per_byte"] = round(nats / math.log(2) / int(data[f"{part}_bytes"]), 4)
        print(f"{name}: {facts[f'{name}_bits_per_byte']} bits/byte (Q8_0 weights, float32 arithmetic)", flush=True)

    text = " ".join(" ".join(parts["train"]).split())
    groups = {"no prompt": [("", 20)], PROMPTS[1]: [(PROMPTS[1], 20)], "ten prompts": [(p, 2) for p in PROMPTS[1:]]}
    facts["copies"], facts["samples"], facts["greedy"] = {}, [], []
    tokens = math.ceil(1.4 * SAMPLE * facts["held_out_tokens"] / facts["held_out_bytes"])
    for number, (group, wanted) in enumerate(groups.items()):
        samples = []
        for prompt, count in wanted:
            start = [0, *tokenizer.encode(prompt).ids]
            made = generate(model, start, count, tokens, 0.8, 1000 * number + len(samples))
            texts = [tokenizer.decode(ids)[: SAMPLE + len(prompt)] for ids in made]
            assert all(len(t) > 0.9 * SAMPLE for t in texts)
            samples += texts
        facts["samples"] += samples[:2]
        runs = longest_copies(samples, text)
        longest = max(runs, key=len)
        facts["copies"][group] = {
            "samples": len(runs), "with_copy": sum(len(r) >= COPY for r in runs), "longest": len(longest),
            "text": longest,
        }
        print(f"{group}: {facts['copies'][group]}", flush=True)
    greedy = [tokenizer.decode(generate(model, [0, *tokenizer.encode(p).ids], 1, tokens, 0, 0)[0]) for p in PROMPTS]
    for prompt, made, copy in zip(PROMPTS, greedy, longest_copies(greedy, text)):
        facts["greedy"].append({"prompt": prompt, "longest_copy": len(copy), "text": made})
        print(f"greedy {prompt!r}: longest copy {len(copy)} characters: {made[:160]!r}", flush=True)

    start = [0, *tokenizer.encode(PROMPTS[1]).ids]
    with torch.no_grad():
        top = model(torch.tensor([start]))[0, -1].topk(5)
    facts["reference"] = {
        "prompt": PROMPTS[1],
        "prompt_tokens": start,
        "top_ids": top.indices.tolist(),
        "top_logits": [round(v, 4) for v in top.values.tolist()],
        "greedy_tokens": generate(model, start, 1, 32, 0, 0)[0][len(start) :],
    }
    if args.log:
        records = json.loads(args.log.read_text())
        facts["training"] = next(r for r in records if r["name"] == job["name"])
        facts["tried"] = {r["name"]: {k: r[k] for k in ("parameters", "val", "test")} for r in records}
    args.to.with_suffix(".json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    for sample in facts["samples"]:
        print(f"---\n{sample}")
    wrong = [f"{size} bytes"] * (size > 4_000_000) + ["bits/byte"] * (facts["held_out_bits_per_byte"] > 2.2)
    wrong += [f"copies ({g})" for g, c in facts["copies"].items() if c["with_copy"]]
    if wrong:
        sys.exit("not within bounds: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
