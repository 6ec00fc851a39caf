"""The llama architecture in PyTorch, as small as it goes: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Parameter names are the GGUF tensor names, so that the export writes them as they are. The rotary pairs are neighbours
(2i, 2i+1), as GGUF's `llama` has them. The output matrix is the embedding (tied).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    vocab: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    context: int = 1024
    rope_base: float = 10000.0
    eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Every matrix: name to (rows, columns)."""
        w, kv, f = self.width, self.kv_heads * self.head_dim, self.ffn
        out = {"token_embd.weight": (self.vocab, w)}
        for n in range(self.layers):
            for name, rows, cols in (
                ("attn_q", w, w), ("attn_k", kv, w), ("attn_v", kv, w), ("attn_output", w, w),
                ("ffn_gate", f, w), ("ffn_up", f, w), ("ffn_down", w, f),
            ):
                out[f"blk.{n}.{name}.weight"] = (rows, cols)
        return out

    def norms(self) -> list[str]:
        blocks = [f"blk.{n}.{k}_norm.weight" for n in range(self.layers) for k in ("attn", "ffn")]
        return [*blocks, "output_norm.weight"]


class Llama(nn.Module):
    def __init__(self, shape: Shape, dropout: float = 0.0):
        super().__init__()
        self.shape, self.dropout = shape, dropout
        self.names: dict[str, nn.Parameter] = {}
        for name, (rows, cols) in shape.matrices().items():
            std = 0.02 if name.startswith("token") else cols**-0.5
            if "output" in name or "down" in name:
                std /= (2 * shape.layers) ** 0.5
            self._add(name, torch.randn(rows, cols) * std)
        for name in shape.norms():
            self._add(name, torch.ones(shape.width))
        angle = torch.arange(shape.context)[:, None] * shape.rope_base ** (
            -torch.arange(0, shape.head_dim, 2) / shape.head_dim
        )
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def _add(self, name: str, value: torch.Tensor) -> None:
        self.names[name] = nn.Parameter(value)
        self.register_parameter(name.replace(".", "__"), self.names[name])

    def weight(self, name: str) -> torch.Tensor:
        return getattr(self, name.replace(".", "__"))

    def rope(self, x: torch.Tensor, at: int) -> torch.Tensor:
        """x: [batch, heads, time, head_dim], the first at position `at`"""
        even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        c, s = self.cos[at : at + x.shape[2]], self.sin[at : at + x.shape[2]]
        return torch.stack((even * c - odd * s, even * s + odd * c), -1).flatten(-2).to(x.dtype)

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(x.float(), (self.shape.width,), self.weight(name), self.shape.eps)

    def drop(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.dropout, self.training)

    def forward(self, ids: torch.Tensor, cache: list | None = None) -> torch.Tensor:
        """ids: [batch, time] to logits [batch, time, vocab].

        `cache` starts as [] and is filled with every layer's keys and values; a later call then takes one new token
        each.
        """
        s = self.shape
        b, t = ids.shape
        first = cache[0][0].shape[2] if cache else 0
        x = self.drop(F.embedding(ids, self.weight("token_embd.weight")))
        for n in range(s.layers):
            p = f"blk.{n}."
            h = self.norm(x, p + "attn_norm.weight")
            q = F.linear(h, self.weight(p + "attn_q.weight")).view(b, t, s.heads, -1).transpose(1, 2)
            k = F.linear(h, self.weight(p + "attn_k.weight")).view(b, t, s.kv_heads, -1).transpose(1, 2)
            v = F.linear(h, self.weight(p + "attn_v.weight")).view(b, t, s.kv_heads, -1).transpose(1, 2)
            group = s.heads // s.kv_heads  # query head h reads key/value head h // group
            q, k = self.rope(q, first), self.rope(k, first)
            if cache is not None:
                if first:
                    k, v = torch.cat((cache[n][0], k), 2), torch.cat((cache[n][1], v), 2)
                cache[n : n + 1] = [(k, v)]
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=first == 0)
            a = a.transpose(1, 2).reshape(b, t, -1)
            x = x + self.drop(F.linear(a, self.weight(p + "attn_output.weight")))
            h = self.norm(x, p + "ffn_norm.weight")
            gate = F.silu(F.linear(h, self.weight(p + "ffn_gate.weight")))
            up = F.linear(h, self.weight(p + "ffn_up.weight"))
            x = x + self.drop(F.linear(self.drop(gate * up), self.weight(p + "ffn_down.weight")))
        return F.linear(self.norm(x, "output_norm.weight"), self.weight("token_embd.weight"))


def windows(tokens, context: int, stride: int):
    """Cuts a token stream into overlapping windows so that each token after the first is scored once.

    Yields (first input, end, first scored target): inputs are tokens[first:end-1], targets tokens[first+1:end], of
    which those from position `first scored` (an index into tokens) on count.
    """
    scored = 1
    while scored < len(tokens):
        end = min(len(tokens), scored + (stride if scored > 1 else context))
        yield max(0, end - 1 - context), end, scored
        scored = end


@torch.no_grad()
def total_nats(model: nn.Module, tokens, device, context: int, stride: int, batch: int = 16) -> float:
    """Sum of -ln p over every token of the stream but the first, in windows of `context` tokens every `stride`."""
    was = model.training
    model.eval()
    plan = list(windows(tokens, context, stride))
    stream = torch.as_tensor(tokens.astype("int64"), device=device)
    total = 0.0
    for i in range(0, len(plan), batch):
        group = plan[i : i + batch]
        while group:  # windows of equal length go through together (the first and the last may be shorter)
            length = group[0][1] - group[0][0]
            same = [w for w in group if w[1] - w[0] == length]
            group = [w for w in group if w[1] - w[0] != length]
            block = torch.stack([stream[a:e] for a, e, _ in same])
            logits = model(block[:, :-1]).float()
            nll = F.cross_entropy(logits.flatten(0, 1), block[:, 1:].flatten(), reduction="none").view(len(same), -1)
            for row, (a, _, scored) in zip(nll, same):
                total += row[scored - a - 1 :].double().sum().item()
    model.train(was)
    return total
