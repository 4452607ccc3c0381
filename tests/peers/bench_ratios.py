#!/usr/bin/env python3
"""Runs `routeopd bench` and reports each of its ratios: us beside plain torch, oneDNN and ourselves (docs/performance.md).

    python3 tests/peers/bench_ratios.py PROGRAM IDS [--rounds N] [--tokens N] …

IDS are those of `routeopd bench --only`; what follows is passed on. Exits 1 when a ratio misses its target. The targets of a step
are for 2,048 tokens: with another number (--tokens, --quick) its ratios are told without a verdict. Standard library only.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from results import report

PEERS = {"R": "double-precision reference", "1": "dense heads, autograd", "1b": "dense heads, autograd", "2": "sampled RKL", "2m": "sampled RKL",
         "3": "[T, V] in float32", "4": "bfloat16 logits", "5": "torch", "6": "MKL, oneDNN", "6b": "MKL, oneDNN", "10": "padded batch",
         "11": "sampled RKL", "L": "read()"}


TOKENS = 2048  # that the targets of a step are for


def shown(value: float) -> str:
    return f"1/{1 / value:,.0f}" if 0 < value < 0.02 else f"{value:.3f}"


def has_verdict(ratio: dict[str, Any], tokens: int) -> bool:
    return tokens == TOKENS or f"T={tokens}" not in ratio["shape"].split()


def tell(ratio: dict[str, Any], tokens: int) -> None:
    judged = has_verdict(ratio, tokens)
    target = f"{'>=' if ratio['at_least'] else '<='} {shown(ratio['target'])}" if judged else f"for {TOKENS:,} tokens alone"
    threads = f"{ratio['threads']} thread{'s' * (ratio['threads'] > 1)}"
    report(f"{ratio['id']}: {ratio['what']}; {ratio['shape']}, {threads}", PEERS.get(ratio["id"], "–"), target,
           f"{shown(ratio['ratio'])} ({ratio['ours']:.3g} ÷ {ratio['other']:.3g} {ratio['unit']})",
           ratio["met"] if judged else None, "÷")


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, ids, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "bench.json"
        done = subprocess.run([program, "bench", "--only", ids, "--out", out, *more])
        if done.returncode != 0:
            sys.exit(f"{program} bench ended with {done.returncode}")
        result = json.loads(out.read_text())
    for ratio in result["ratios"]:
        tell(ratio, result["tokens"])
    missing = set(ids.split(",")) - {ratio["id"] for ratio in result["ratios"]}
    if missing:
        sys.exit(f"{program} bench has no ratio of {', '.join(sorted(missing))}")
    short = [f"{ratio['id']} ({ratio['what']}, {ratio['shape']}) {shown(ratio['ratio'])}" for ratio in result["ratios"]
             if not ratio["met"] and has_verdict(ratio, result["tokens"])]
    if short:
        sys.exit(f"Short of the target: {'; '.join(short)}.")


if __name__ == "__main__":
    main()
