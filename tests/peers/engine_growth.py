#!/usr/bin/env python3
"""How the engine's time and memory grow with the length of a sequence and the number of sequences.

    engine_growth.py ENGINE_BENCH MODEL_DIR [--lengths 128,512,2048,8192] [--batches 1,8,32] [--memory-gb 8]

For each length L and batch B: B prompts of L - 16 random ids and 16 new tokens. Decoding: seconds of a step that reads one
token of every sequence. Reading: all other seconds, a token of the prompts. Medians of the rounds. Cells whose keys and values would not fit into --memory-gb are left out. Prints a Markdown table.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys

from results import report

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("model")
parser.add_argument("--lengths", default="128,256,512,1024,2048,4096,8192")
parser.add_argument("--batches", default="1,8,32")
parser.add_argument("--memory-gb", type=float, default=8)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()
NEW = 16

engine = subprocess.Popen([args.program, args.model, "--threads", str(args.threads)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)


def ask(**request):
    engine.stdin.write(json.dumps(request) + "\n")
    engine.stdin.flush()
    answer = json.loads(engine.stdout.readline())
    if "error" in answer:
        sys.exit(f"engine_growth: {answer['error']}")
    return answer


random_ids = random.Random(5)


def prompts(count, length):
    return [[random_ids.randrange(100, 1000) for _ in range(length)] for _ in range(count)]


ask(do="generate", prompts=prompts(1, 64), new=4)  # lays out the weights
block = ask(do="generate", prompts=prompts(1, 1), new=1)
token_bytes = block["kv_peak_bytes"] / 16
print(f"one token's keys and values: {token_bytes / 1e3:.1f} kB\n")
print("| length | sequences | reading, ms a token | decoding, ms a step | a token | keys and values, MB | resident, MB |")
print("|---|---|---|---|---|---|---|")
for length in map(int, args.lengths.split(",")):
    for batch in map(int, args.batches.split(",")):
        if batch * length * token_bytes > args.memory_gb * 1e9:
            continue
        reads, steps = [], []
        new = NEW if length >= 2 * NEW else length // 2
        for _ in range(args.rounds):
            whole = ask(do="generate", prompts=prompts(batch, length - new), new=new)
            reads.append((whole["seconds"] - whole["decode_seconds"]) / batch / (length - new))
            steps.append(whole["decode_seconds"] / whole["decode_steps"])
        step = statistics.median(steps)
        print(f"| {length:,} | {batch} | {1e3 * statistics.median(reads):.2f} | {1e3 * step:.1f} | {1e3 * step / batch:.2f} "
              f"| {whole['kv_peak_bytes'] / 1e6:.0f} | {whole['rss_bytes'] / 1e6:.0f} |", flush=True)
        report(f"{batch} × {length:,} tokens: reading a token, a decoding step", "–", "",
               f"{1e3 * statistics.median(reads):.2f}, {1e3 * step:.1f}", None, "ms")
engine.stdin.close()
engine.wait()
