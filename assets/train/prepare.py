"""Turn Jane Austen's six novels into token arrays for `train.py`, and train the byte-level BPE.

    python assets/train/prepare.py TEXT_DIR OUT_DIR

TEXT_DIR holds `austen-*.txt` (plain text, hard-wrapped lines). Written to OUT_DIR, for each vocabulary size V:

- `tokenizer-V.json`   the tokenizer (PyPI `tokenizers`), trained on the training chapters only;
- `tokens-V.npz`       `train`, `val`, `test` (uint16 token streams), `*_bytes` (UTF-8 bytes of each part's text),
                       `children` (the two tokens that BPE merged into each token, or -1, -1);
- `parts.json`         the text of the three parts, chapter by chapter, for `export.py`.

A stream is `<|endoftext|>` chapter `<|endoftext|>` chapter ... `<|endoftext|>`: the same token opens and closes a
chapter.

Split, by the number of the chapter within its novel, so that every part has whole contiguous chapters of every novel:

- test (the held-out tenth): every ninth chapter: 5, 14, 23, ...;
- val (picks the configuration and the moment to stop): chapters 10, 40;
- train: all others.
"""

import json
import pathlib
import re
import sys

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"
VOCABULARIES = (1024, 2048)
CHAPTER = re.compile(r"^\s*(?:CHAPTER|Chapter)\s+(?:[IVXL]+|\d+)\s*$", re.MULTILINE)
# Lines that the printed editions and their transcribers added around the author's text.
EDITION = re.compile(
    r"^\s*(?:VOLUME\b.*|FINIS|Finis|THE END|\*[* ]+|\[(?:End volume|At this point).*)\s*$", re.MULTILINE
)
AFTERWORD = re.compile(r"^\*Vide a letter.*|^A NOTE ON THE TEXT", re.MULTILINE)


def chapters(raw: str) -> list[str]:
    """The chapters of one novel: headings dropped, paragraphs unwrapped to one line each, an empty line between."""
    end = AFTERWORD.search(raw)
    bodies = CHAPTER.split(raw[: end.start()] if end else raw)[1:]  # [0] is the title page
    clean = []
    for body in bodies:
        body = EDITION.sub("", body).replace("_", "")  # underscores marked italics
        body = re.sub(r"(?<=\w)\*", "", body)  # the one footnote mark
        paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", body))
        clean.append("\n\n".join(p for p in paragraphs if p))
    return clean


def part_of(number: int) -> str:
    """Which part the chapter with this number (from 1) belongs to."""
    if number % 9 == 5:
        return "test"
    return "val" if number % 30 == 10 else "train"


def main() -> None:
    text_dir, out = map(pathlib.Path, sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    parts: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for path in sorted(text_dir.glob("austen-*.txt")):
        found = chapters(path.read_text(encoding="utf-8"))
        for number, body in enumerate(found, 1):
            parts[part_of(number)].append(body)
        print(f"{path.name}: {len(found)} chapters, {sum(len(c.encode()) for c in found)} bytes")
    sizes = {name: sum(len(c.encode()) for c in cs) for name, cs in parts.items()}
    total = sum(sizes.values())
    for name, size in sizes.items():
        print(f"{name}: {len(parts[name])} chapters, {size} bytes, {100 * size / total:.2f} %")
    (out / "parts.json").write_text(json.dumps(parts))

    for size in VOCABULARIES:
        tok = Tokenizer(models.BPE())
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        tok.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, min_frequency=8, show_progress=False
        )
        tok.train_from_iterator(parts["train"], trainer)
        assert tok.get_vocab_size() == size and tok.token_to_id(END) == 0
        tok.save(str(out / f"tokenizer-{size}.json"))

        vocab = tok.get_vocab()
        children = np.full((size, 2), -1, np.int32)
        for left, right in json.loads(tok.to_str())["model"]["merges"]:
            children[vocab[left + right]] = vocab[left], vocab[right]
        arrays = {"children": children}
        for name, bodies in parts.items():
            stream = [0]
            for body, enc in zip(bodies, tok.encode_batch(bodies)):
                assert tok.decode(enc.ids) == body
                stream += [*enc.ids, 0]
            arrays[name] = np.array(stream, np.uint16)
            arrays[f"{name}_bytes"] = np.int64(sizes[name])
        np.savez_compressed(out / f"tokens-{size}.npz", **arrays)
        print(f"vocabulary {size}: {len(arrays['train'])} training tokens, "
              f"{sizes['test'] / len(arrays['test']):.3f} bytes/token held out")


if __name__ == "__main__":
    main()
