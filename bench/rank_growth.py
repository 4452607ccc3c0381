#!/usr/bin/env python3
"""How a step's time falls with a second rank: one rank ÷ (2 × two ranks), one thread each, in turns.

    bench/rank_growth.py PYTHON RECIPE [--rounds 3] [--steps 4] [--set …]

PYTHON is the interpreter that the project was built on. The first step of each run is left out; the rest are taken
by their median. Prints the efficiency, its range over rounds, and what the gradients' exchange took of a step. Beside it
stands what the machine allows: one process alone ÷ the same while another one like it runs, which know nothing of each other.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def steps(python, recipe, ranks, count, more):
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "run"
        command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
                   str(ROOT / "scripts" / "ranks.py"), "train", recipe, "--out", str(out), "--quiet", "--set",
                   f"train.steps={count}", "--set", "eval.every=0", "--set", "probe.every=0", "--set", "checkpoint.every=0", *more]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == count and lines[-1]["tokens"] > 0
    return lines[1:]


def seconds_per_token(lines):
    return statistics.median((line["time"]["total"] - line["time"].get("save", 0)) / line["tokens"] for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("recipe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--set", action="append", default=[], help="section.key=value, as train has it")
    arguments = parser.parse_args()
    more = [word for value in arguments.set for word in ("--set", value)]
    # Seconds per token: from the second step on one and two ranks may write responses of other lengths.
    per_token = {1: [], 2: []}
    exchange, sent, dense, waits, efficiencies, allowed, busiest, stages = [], [], [], [], [], [], [], {}
    for number in range(arguments.rounds):
        for ranks in (1, 2):
            lines = steps(arguments.python, arguments.recipe, ranks, arguments.steps, more)
            per_token[ranks].append(seconds_per_token(lines))
            stages[ranks] = {name: statistics.median(1e6 * line["time"][name] / line["tokens"] for line in lines)
                             for name in ("rollout", "score", "learn")}
            if ranks == 2:
                exchange += [line["exchange"]["seconds"] / line["time"]["total"] for line in lines]
                sent += [line["exchange"]["bytes"] for line in lines]
                dense += [line["exchange"]["dense_bytes"] for line in lines]
                busiest += [line["exchange"]["busiest"] for line in lines]
                waits.append(statistics.median(line["time"]["wait"] / line["time"]["total"] for line in lines))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            both = [pool.submit(steps, arguments.python, arguments.recipe, 1, arguments.steps, more) for _ in range(2)]
            apart = statistics.mean(seconds_per_token(one.result()) for one in both)
        allowed.append(per_token[1][-1] / apart)
        efficiencies.append(per_token[1][-1] / (2 * per_token[2][-1]))
        print(f"round {number + 1}: {1e6 * per_token[1][-1]:.1f} µs a token on one rank, {1e6 * per_token[2][-1]:.1f} on two, "
              f"efficiency {efficiencies[-1]:.3f} (" + ", ".join(f"{name} {stages[1][name] / (2 * stages[2][name]):.3f}" for name in stages[1])
              + f"), waited {100 * waits[-1]:.1f} %; the machine allows {allowed[-1]:.3f}", flush=True)
    print(f"efficiency {statistics.median(efficiencies):.3f} [{min(efficiencies):.3f}, {max(efficiencies):.3f}], the machine allows {statistics.median(allowed):.3f} "
          f"[{min(allowed):.3f}, {max(allowed):.3f}]; the busiest rank has {statistics.mean(busiest):.3f} of its share; exchange "
          f"{100 * statistics.median(exchange):.1f} % of a step, {statistics.median(sent) / 1e6:.1f} MB of {statistics.median(dense) / 1e6:.1f} dense")


if __name__ == "__main__":
    main()
