#!/usr/bin/env python3
"""Times of top-k and log-sum-exp of one row by instruction set, number of ids and k: the second table of docs/performance.md.

    python3 tests/peers/kernel_times.py KERNELS_BENCH [--repetitions 3] [--seconds 0.2]

KERNELS_BENCH is the program of bench/kernels_bench.cpp; of the repetitions the fastest counts. One row is reported for each of
SSE4, AVX2 and AVX-512 ("AVX3") that this machine has, and each number of ids. Standard library only.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import json
import subprocess

from results import report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels_bench")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one repetition")
    args = parser.parse_args()
    done = subprocess.run([args.kernels_bench, "--benchmark_filter=TopkLogsumexp/(AVX|SSE4)", "--benchmark_format=json", f"--benchmark_min_time={args.seconds}",
                           f"--benchmark_repetitions={args.repetitions}"], check=True, stdout=subprocess.PIPE, text=True)
    best: dict[tuple[str, int], dict[int, float]] = {}  # microseconds a row by instruction set, ids and k
    for run in json.loads(done.stdout)["benchmarks"]:
        if run["run_type"] == "iteration":
            _, kernels, ids, k = run["name"].split("/")
            times = best.setdefault((kernels, int(ids)), {})
            times[int(k)] = min(times.get(int(k), float("inf")), 1e6 * run["row"])
    if not best:
        raise SystemExit(f"{args.kernels_bench}: no times of TopkLogsumexp")
    for (kernels, ids), times in sorted(best.items()):
        line = ", ".join(f"{k}: {time:.3g}" for k, time in sorted(times.items()))
        print(f"{kernels:10} V = {ids:7,}: {line}")
        report(f"top-k and log-sum-exp of {ids:,} ids, kernels for {kernels}: k = 8, 32, 64", "–", "",
               ", ".join(f"{times[k]:.3g}" for k in (8, 32, 64)), None, "µs/row")


if __name__ == "__main__":
    main()
