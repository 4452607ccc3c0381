# SPDX-License-Identifier: Apache-2.0
"""What one call costs at T = 1, and what routing a rollout batch costs on the host.

python python/bench/overhead.py
"""

from __future__ import annotations

import statistics
import timeit

import torch

from routeopd import Options, TopK, gather_logits, pair_log_odds, route


def microseconds(call, number=2000):
    return statistics.median(timeit.repeat(call, number=number, repeat=7)) / number * 1e6


def main():
    hidden, weight = torch.randn(1, 64), torch.randn(1000, 64)
    a, b = (torch.randint(0, 1000, (1, 2), dtype=torch.int32) for _ in range(2))
    with torch.no_grad():
        print(f"pair_log_odds, T = 1: {microseconds(lambda: pair_log_odds(hidden, weight, a, b)):.1f} us (target 50)")
        print(f"gather_logits, T = 1: {microseconds(lambda: gather_logits(hidden, weight, a)):.1f} us")
    states, k = 16384, 32
    generator = torch.Generator().manual_seed(0)
    ids = torch.stack([torch.randperm(5000, generator=generator)[: 2 * k] for _ in range(256)]).int()
    ids = ids.repeat(states // 256, 1)
    logits = torch.randn((states, 2 * k), generator=generator) * 2
    other = logits + torch.randn((states, 2 * k), generator=generator)
    mine, theirs = ids[:, :k].contiguous(), ids[:, k // 2 : k + k // 2].contiguous()
    total = torch.zeros(states)
    student = TopK(mine, logits[:, :k], total, 5000, theirs, logits[:, k // 2 : k + k // 2])
    teacher = TopK(theirs, other[:, k // 2 : k + k // 2], total, 5000, mine, other[:, :k])
    moved = sum(t.numel() * t.element_size() for t in (mine, theirs)) * 3
    for threads in (1, 2):
        torch.set_num_threads(threads)
        took = microseconds(lambda: route(student, teacher, Options()), number=3) / 1e3
        print(f"route, {states} states, k = {k}, {threads} thread(s): {took:.1f} ms, {moved / 2**20:.1f} MB copied in")


if __name__ == "__main__":
    main()
