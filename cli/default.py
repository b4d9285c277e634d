#!/usr/bin/env python3
"""Trains the built-in model, or one like it, on a GPU:

    cli/default.py --ids ids wrapped-55 wrapped-68 wrapped-80 --held-out held-out-ids --characters 357280 \\
        --n-token 4096 -o novels --minutes 12

default.md has the commands that make the ids.  The first file of --ids is the text as it is, the others are the same
text with wrapped lines.  `txl convert novels --vocab VOCABULARY.model` reads the result.  --state FILE keeps what a later
run needs to go on, with the order of the text; --minutes is then the length of this run, --total that of all.
Needs PyTorch (2.0 or later for speed) and numpy.

The network is that of Dai et al. (2019), the matrices of its layers follow Muon (Jordan et al. 2024), the rest AdamW.
"""
import argparse
import json
import math
import os
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

PART = 4700  # ids that stay together in every pass


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--ids", nargs="+", required=True)
    p.add_argument("--held-out", required=True)
    p.add_argument("--characters", type=int, required=True, help="of the held-out text")
    p.add_argument("--n-token", type=int, required=True)
    p.add_argument("-o", "--output", required=True)
    p.add_argument("--minutes", type=float, default=12)
    p.add_argument("--total", type=float, help="minutes of all runs together")
    p.add_argument("--steps", type=int, help="end after so many steps instead")
    p.add_argument("--state")
    p.add_argument("--seed", type=int, default=1)
    for name, value in {"n-layer": 6, "n-head": 5, "d-model": 320, "d-inner": 1280, "tgt-len": 192, "mem-len": 192, "batch": 160,
                        "warm-up": 400, "evaluate-every": 2000}.items():
        p.add_argument("--" + name, type=int, default=value)
    for name, value in {"lr": 0.002, "muon-lr": 0.02, "muon-decay": 0.1, "decay": 0.01, "clip": 1.0, "dropout": 0.0, "forget": 0.125,
                        "wrapped": 1 / 3}.items():
        p.add_argument("--" + name, type=float, default=value)
    return p.parse_args()


# ---- Text --------------------------------------------------------------------------------------------------------------


def read_ids(path, n_token):
    ids = numpy.fromfile(path, dtype=numpy.int32, sep=" ")  # as txl tokenize --ids prints them
    if len(ids) < 2 or ids.min() < 0 or ids.max() >= n_token:
        raise SystemExit(f"{path}: is to have at least two ids below {n_token}")
    return ids


class Passes:
    """The text in parts, each pass in another order, and some parts with wrapped lines."""

    def __init__(self, files, a, device):
        self.files, self.a, self.device = files, a, device
        self.passes, self.at, self.data = 0, 0, None

    def start(self):
        rng = numpy.random.default_rng([self.a.seed, self.passes])
        n = max(1, len(self.files[0]) // PART)
        which = numpy.where(rng.random(n) < self.a.wrapped, 1 + rng.integers(max(1, len(self.files) - 1), size=n), 0) % len(self.files)
        parts = []
        for i in rng.permutation(n):
            ids = self.files[which[i]]
            parts.append(ids[i * len(ids) // n:(i + 1) * len(ids) // n])
        ids = numpy.concatenate(parts)
        length = len(ids) // self.a.batch
        if length <= self.a.tgt_len:
            raise SystemExit(f"{self.a.ids[0]}: is too short for {self.a.batch} streams of {self.a.tgt_len} ids")
        self.data = torch.from_numpy(ids[:self.a.batch * length].reshape(self.a.batch, length)).to(self.device)

    def next(self):
        """[batch, tgt_len + 1]; and whether a pass begins, so that no memory fits."""
        if self.data is None:
            self.start()
        begins = self.at == 0
        ids = self.data[:, self.at:self.at + self.a.tgt_len + 1].long()
        self.at += self.a.tgt_len
        if self.at + self.a.tgt_len >= self.data.shape[1]:
            self.passes, self.at, self.data = self.passes + 1, 0, None
        return ids, begins


# ---- Network -----------------------------------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        d = a.d_model
        self.heads, self.d_head, self.dropout = a.n_head, d // a.n_head, a.dropout
        self.qkv, self.r, self.o = (nn.Linear(d, n, bias=False) for n in (3 * d, d, d))
        self.inner, self.outer = nn.Linear(d, a.d_inner), nn.Linear(a.d_inner, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, memory, positions, u, v, hidden):
        """x[B, T, d], memory[B, M, d], positions[M + T, d] of the distances M + T - 1 .. 0, hidden[B, 1, T, M + T]."""
        batch, t, d = x.shape
        keys = torch.cat([memory, x], 1)
        k = keys.shape[1]
        q, key, value = self.qkv(keys).chunk(3, -1)
        q, key, value = (z.reshape(batch, -1, self.heads, self.d_head).transpose(1, 2) for z in (q[:, -t:], key, value))
        r = self.r(positions).view(k, self.heads, self.d_head).permute(1, 2, 0)
        by_distance = (q + v[:, None]) @ r
        # Row i of T moves left by T - 1 - i: its key j has the distance M + i - j.
        by_distance = F.pad(by_distance, (1, 0)).reshape(batch, self.heads, k + 1, t)[:, :, 1:].reshape(batch, self.heads, t, k)
        score = ((q + u[:, None]) @ key.transpose(2, 3) + by_distance) / math.sqrt(self.d_head)
        share = score.float().masked_fill(hidden, float("-inf")).softmax(-1).to(value.dtype)
        y = (share @ value).transpose(1, 2).reshape(batch, t, d)
        x = self.norm1(x + self.drop(self.o(y)))
        return self.norm2(x + self.drop(self.outer(self.drop(F.relu(self.inner(x))))))

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)


class Network(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.a = a
        self.embedding, self.bias = nn.Embedding(a.n_token, a.d_model), nn.Parameter(torch.zeros(a.n_token))
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.n_layer))
        self.u, self.v = (nn.Parameter(torch.zeros(a.n_head, a.d_model // a.n_head)) for _ in range(2))
        self.register_buffer("frequency", 10000 ** (-torch.arange(0.0, a.d_model, 2) / a.d_model), persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def empty(self, batch):
        device = self.bias.device
        return [torch.zeros(batch, self.a.mem_len, self.a.d_model, device=device) for _ in self.layers], \
            torch.zeros(batch, dtype=torch.long, device=device)

    def forward(self, ids, memory, known):
        """ids[B, T], the memory[B, M, d] of each layer, of which the last known[B] positions are of the text."""
        t, m = ids.shape[1], self.a.mem_len
        angle = torch.arange(m + t - 1, -1, -1.0, device=ids.device)[:, None] * self.frequency
        positions = torch.cat([angle.sin(), angle.cos()], 1)
        place = torch.arange(m + t, device=ids.device)
        hidden = (place > m + torch.arange(t, device=ids.device)[:, None]) | (place < m - known[:, None, None])
        x, after = self.drop(self.embedding(ids) * math.sqrt(self.a.d_model)), []
        positions = self.drop(positions)
        for layer, before in zip(self.layers, memory):
            after.append(torch.cat([before, x.detach().float()], 1)[:, t:])
            x = layer(x, before.to(x.dtype), positions.to(x.dtype), self.u, self.v, hidden[:, None])
        return F.linear(self.drop(x), self.embedding.weight, self.bias), after, (known + t).clamp(max=m)

    def drop(self, x):
        return F.dropout(x, self.a.dropout, self.training)


# ---- Optimizers --------------------------------------------------------------------------------------------------------


def orthogonal(x):
    x = x.bfloat16() if x.is_cuda else x
    x = x / (x.norm() + 1e-7)
    turned = x.shape[0] > x.shape[1]
    x = x.T if turned else x
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return (x.T if turned else x).float()


class Muon:
    """Momentum whose direction is made orthogonal; queries, keys and values each by itself."""

    def __init__(self, named, a):
        self.a, self.named = a, named
        self.momentum = [torch.zeros_like(p) for _, p in named]

    @torch.no_grad()
    def step(self, factor, steps):
        beta = min(0.95, 0.85 + 0.1 * steps / 300)
        for (name, p), m in zip(self.named, self.momentum):
            m.mul_(beta).add_(p.grad)
            parts = (p.grad + beta * m).chunk(3 if "qkv" in name else 1)
            update = torch.cat([math.sqrt(max(1, x.shape[0] / x.shape[1])) * orthogonal(x) for x in parts])
            p.mul_(1 - self.a.muon_lr * factor * self.a.muon_decay).sub_(self.a.muon_lr * factor * update)


def optimizers(network, a):
    named = [(n, p) for n, p in network.named_parameters() if n.startswith("layers.") and p.dim() == 2]
    matrices = {id(p) for _, p in named}
    rest = [p for p in network.parameters() if id(p) not in matrices and p is not network.embedding.weight]
    adam = torch.optim.AdamW([{"params": [network.embedding.weight], "weight_decay": a.decay}, {"params": rest, "weight_decay": 0}],
                             lr=a.lr, betas=(0.9, 0.95))
    return Muon(named, a), adam


# ---- Results -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def evaluate(network, ids):
    """Nats of each id but the first, in one stream, as txl ppl scores it."""
    network.eval()
    memory, known = network.empty(1)
    sum_, t = 0.0, network.a.tgt_len
    for i in range(0, len(ids) - 1, t):
        part = ids[None, i:i + t + 1]
        logits, memory, known = network(part[:, :-1], memory, known)
        sum_ += F.cross_entropy(logits[0].float(), part[0, 1:], reduction="sum").item()
    network.train()
    return sum_ / (len(ids) - 1)


NAMES = {"qkv.": "dec_attn.qkv_net.", "r.": "dec_attn.r_net.", "o.": "dec_attn.o_net.", "norm1.": "dec_attn.layer_norm.",
         "inner.": "pos_ff.CoreNet.0.", "outer.": "pos_ff.CoreNet.3.", "norm2.": "pos_ff.layer_norm."}


def save(network, a):
    """The names are those of the published code, the settings Hugging Face's."""
    tensors = {}
    for name, x in network.state_dict().items():
        if name.startswith("layers."):
            _, i, rest = name.split(".", 2)
            mine = next(m for m in NAMES if rest.startswith(m))
            name = f"layers.{i}.{NAMES[mine]}{rest[len(mine):]}"
        else:
            name = {"embedding.weight": "word_emb.emb_layers.0.weight", "bias": "crit.out_layers.0.bias", "u": "r_w_bias", "v": "r_r_bias"}[name]
        tensors[name] = x.float().cpu().clone()
    settings = {"model_type": "transfo-xl", "vocab_size": a.n_token, "n_layer": a.n_layer, "n_head": a.n_head, "d_head": a.d_model // a.n_head,
                "d_model": a.d_model, "d_embed": a.d_model, "d_inner": a.d_inner, "attn_type": 0, "pre_lnorm": False, "div_val": 1,
                "cutoffs": [], "tie_weight": True, "tie_projs": [False], "untie_r": False, "tgt_len": a.tgt_len, "mem_len": a.mem_len,
                "clamp_len": -1, "same_length": False, "sample_softmax": -1, "ext_len": 0, "layer_norm_epsilon": 1e-5}
    os.makedirs(a.output, exist_ok=True)
    torch.save(tensors, os.path.join(a.output, "pytorch_model.bin"))
    with open(os.path.join(a.output, "config.json"), "w") as file:
        json.dump(settings, file, indent=1)


# ---- Training ----------------------------------------------------------------------------------------------------------


def main():
    a = arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(a.seed)
    passes = Passes([read_ids(path, a.n_token) for path in a.ids], a, device)
    held_out = torch.from_numpy(read_ids(a.held_out, a.n_token)).long().to(device)
    network = Network(a).to(device)
    muon, adam = optimizers(network, a)
    done, before = 0, 0.0
    if a.state and os.path.exists(a.state):
        old = torch.load(a.state, map_location=device)
        network.load_state_dict(old["network"])
        adam.load_state_dict(old["adam"])
        muon.momentum, passes.passes, passes.at, done, before = old["momentum"], old["passes"], old["at"], old["done"], old["seconds"]
        if passes.at > 0:
            passes.start()
    step = torch.compile(network) if device == "cuda" and hasattr(torch, "compile") else network
    total, start, losses = 60 * (a.total or a.minutes), time.time(), []
    memory, known = network.empty(a.batch)
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters, {len(passes.files[0]):,} ids, on {device}", flush=True)
    first = done
    while (done < a.steps) if a.steps else (time.time() - start < 60 * a.minutes):
        share = done / a.steps if a.steps else min(1, (before + time.time() - start) / total)
        factor = min(1, (done + 1) / a.warm_up) * (1 - share)
        ids, begins = passes.next()
        forget = torch.rand(a.batch, device=device) < (1 if begins else a.forget)
        known = known.masked_fill(forget, 0)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits, memory, known = step(ids[:, :-1], memory, known)
            loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        network.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), a.clip)
        for group in adam.param_groups:
            group["lr"] = a.lr * factor
        adam.step()
        muon.step(factor, done)
        losses.append(loss.detach())
        done += 1
        if done % 200 == 0:
            speed = (done - first) * a.batch * a.tgt_len / (time.time() - start)
            print(f"step {done}, pass {passes.passes + 1}: {torch.stack(losses).mean().item():.3f} nats, {speed:,.0f} ids/s", flush=True)
            losses = []
        if done % a.evaluate_every == 0:
            tell(network, held_out, a, done)
    tell(network, held_out, a, done)
    save(network, a)
    if a.state:
        torch.save({"network": network.state_dict(), "adam": adam.state_dict(), "momentum": muon.momentum, "passes": passes.passes,
                    "at": passes.at, "done": done, "seconds": before + time.time() - start}, a.state)


def tell(network, held_out, a, done):
    nats = evaluate(network, held_out)
    print(f"step {done}: held out {nats:.4f} nats per id, {nats / math.log(2) * (len(held_out) - 1) / a.characters:.4f} bits per character", flush=True)


if __name__ == "__main__":
    main()
