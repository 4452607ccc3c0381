# SPDX-License-Identifier: Apache-2.0
"""What the heads cost beside plain torch: time and memory, in turns, checked equal before they are timed.

    python python/bench/heads.py [--tokens 2048] [--hidden 1536] [--vocabulary 151936] [--rounds 3] [--threads 2]

Times are medians over the rounds; each round runs every candidate once, one after the other. Memory is what the peak of
the process's resident size grows by during a candidate, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pathlib
import statistics
import sys
import time

import torch

import routeopd
from routeopd import _composite

SOURCE_SEED = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--k", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


class Data:
    """The same tensors in every process."""

    def __init__(self, args):
        torch.set_num_threads(args.threads)
        generator = torch.Generator().manual_seed(SOURCE_SEED)
        self.args = args
        self.hidden = torch.randn((args.tokens, args.hidden), generator=generator)
        self.weight = torch.randn((args.vocabulary, args.hidden), generator=generator) * args.hidden**-0.5
        shape = (args.tokens, args.pairs)
        self.source = torch.randint(0, args.vocabulary, shape, generator=generator, dtype=torch.int32)
        self.destination = torch.randint(0, args.vocabulary, shape, generator=generator, dtype=torch.int32)
        self.slope = torch.randn(shape, generator=generator) / args.tokens
        self.kept = torch.zeros_like(self.weight)

    def leaves(self):
        return self.hidden.detach().requires_grad_(), self.weight.detach().requires_grad_()


def plain_pairs(data):
    """lm_head, log-softmax, gather, as a trainer would write it."""
    hidden, weight = data.leaves()
    log_p = torch.nn.functional.linear(hidden, weight).log_softmax(-1)
    odds = log_p.gather(1, data.destination.long()) - log_p.gather(1, data.source.long())
    odds.backward(data.slope)
    return odds.detach(), hidden.grad, weight.grad


def our_pairs(data):
    hidden, weight = data.leaves()
    odds = routeopd.pair_log_odds(hidden, weight, data.source, data.destination)
    odds.backward(data.slope)
    return odds.detach(), hidden.grad, weight.grad


def composite_pairs(data):
    """The torch operations that other devices run."""
    odds = _composite.pair_log_odds(data.hidden, data.weight, data.source, data.destination)
    return odds, *_composite.pair_log_odds_backward(
        data.slope, data.hidden, data.weight, data.source, data.destination, True, True
    )


def dense_zeros(data):
    """What autograd must hand back: the weight's gradient, allocated and zeroed."""
    return (torch.zeros_like(data.weight),)


def rows_alone(data):
    """Ours without that tensor: forward, and gradients added to one that is there."""
    pairs = (data.source, data.destination)
    odds = routeopd.pair_log_odds(data.hidden, data.weight, *pairs)
    grad_hidden = torch.ops.routeopd.add_pair_gradients(data.slope, data.hidden, data.weight, *pairs, data.kept)
    return odds, grad_hidden


def plain_top_k(data):
    logits = torch.nn.functional.linear(data.hidden, data.weight)
    values, ids = torch.topk(logits, data.args.k)
    return ids, values, torch.logsumexp(logits, -1)


def our_top_k(data):
    found = routeopd.top_k(data.hidden, data.weight, data.args.k)
    return found.ids, found.logits, found.logsumexp


def composite_top_k(data):
    return _composite.top_k(data.hidden, data.weight, None, None, data.args.k, data.args.vocabulary, 1.0, 0.0)[:3]


CANDIDATES = {
    "pairs, plain torch": plain_pairs,
    "pairs": our_pairs,
    "pairs, torch operations": composite_pairs,
    "pairs without the dense gradient": rows_alone,
    "the dense gradient alone": dense_zeros,
    "top-k, plain torch": plain_top_k,
    "top-k": our_top_k,
    "top-k, torch operations": composite_top_k,
}


def resident():
    status = pathlib.Path("/proc/self/status").read_text()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("Vm")}


def grown(args, name, queue):
    """Bytes by which the peak grows; a small call first, so that libraries and threads are there."""
    data = Data(args)
    small = Data(argparse.Namespace(**{**vars(args), "tokens": 64, "vocabulary": 2048}))
    CANDIDATES[name](small)
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = resident()["VmRSS"]
    kept = CANDIDATES[name](data)
    queue.put(resident()["VmHWM"] - before)
    del kept


def check(data):
    """Candidates give the same numbers."""

    def error(got, want):
        return float((got.double() - want.double()).norm() / want.double().norm())

    want = plain_pairs(data)
    rows_alone(data)
    if error(data.kept, want[2]) > 1e-5:
        sys.exit(f"heads: the gradient that was added to differs from plain torch's by {error(data.kept, want[2]):.2g}")
    for other in (our_pairs, composite_pairs):
        for got, expected in zip(other(data), want, strict=True):
            if error(got, expected) > 1e-5:
                sys.exit(f"heads: {other.__name__} differs from plain torch by {error(got, expected):.2g}")
    want = plain_top_k(data)
    for other in (our_top_k, composite_top_k):
        got = other(data)
        same = float((got[0].long() == want[0]).float().mean())
        if same < 0.999 or error(got[1], want[1]) > 1e-6 or error(got[2], want[2]) > 1e-6:
            sys.exit(f"heads: {other.__name__} differs from plain torch: {same:.4f} of the ids are equal")


def main():
    args = arguments()
    context = multiprocessing.get_context("spawn")
    memory = {}
    for name in CANDIDATES:
        queue = context.Queue()
        process = context.Process(target=grown, args=(args, name, queue))
        process.start()
        memory[name] = queue.get()
        process.join()
    data = Data(args)
    check(data)
    times = {name: [] for name in CANDIDATES}
    for _ in range(args.rounds):
        for name, candidate in CANDIDATES.items():
            start = time.perf_counter()
            kept = candidate(data)
            times[name].append(time.perf_counter() - start)
            del kept
    seconds = {name: statistics.median(values) for name, values in times.items()}
    flags = next(
        (line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), ""
    )
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f" {name}" in flags]
    result = {"cpu": features, "arguments": vars(args), "seconds": seconds, "bytes": memory, "all_seconds": times}
    if args.json:
        print(json.dumps(result))
        return
    print(f"T = {args.tokens}, H = {args.hidden}, V = {args.vocabulary}, {args.threads} threads, {', '.join(features)}")
    for base in ("pairs, plain torch", "top-k, plain torch"):
        for name in CANDIDATES:
            if name.split(",")[0].split()[0] in base or (name == "the dense gradient alone" and "pairs" in base):
                print(
                    f"  {name:34} {seconds[name]:9.4f} s {seconds[name] / seconds[base]:10.5f}   "
                    f"{memory[name] / 2**20:8.1f} MB {memory[name] / memory[base]:9.5f}"
                )
    over = seconds["pairs without the dense gradient"] / seconds["pairs, plain torch"]
    print(f"pair head beyond the dense gradient: 1/{1 / over:.0f} in time (target 1/1000)")


if __name__ == "__main__":
    main()
