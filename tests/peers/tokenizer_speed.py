#!/usr/bin/env python3
"""How fast our tokenizer loads and encodes beside Hugging Face's `tokenizers`, in turns on one machine and one thread.

    python tokenizer_speed.py TOKENIZER_BENCH TOKENIZER_DIR FILE.jsonl [ROUNDS]

TOKENIZER_BENCH is the program of bench/tokenizer_bench.cpp. A round is one of each: Tokenizer.from_file, encode of each
text, encode_batch_fast of all, and our load and encode. Both sides keep what they learnt of words: the library in its cache,
which the rounds share, ours within a process. Prints the best and the median times and their ratios (theirs over ours; of
the library's two ways to encode the faster one counts), the memory of loading, and how much longer texts of ten problems take
than those of one. Exits 1 when a ratio is below 1 or the numbers of ids differ.
Written for tokenizers 0.23.3.
"""
from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from results import report, spread  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

LONGER = 10
# A process that loads a tokenizer, and its peak in kB. Not getrusage, which begins with the peak of the process that started it.
THEIR_MEMORY = ("import re, sys; from tokenizers import Tokenizer; Tokenizer.from_file(sys.argv[1]); "
                "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])")


def ask(bench: str, directory: str, data: str | pathlib.Path) -> dict[str, float]:
    run = subprocess.run([bench, directory, data], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{bench} failed: {run.stderr.strip()}")
    answer: dict[str, float] = json.loads(run.stdout)
    return answer


def main() -> None:
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: tokenizer_speed.py TOKENIZER_BENCH TOKENIZER_DIR FILE.jsonl [ROUNDS]")
    bench, directory, data = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) == 5 else 5
    texts = [json.loads(line)["problem"] for line in pathlib.Path(data).open()]
    path = str(pathlib.Path(directory) / "tokenizer.json")
    theirs = Tokenizer.from_file(path)
    times: dict[str, list[float]] = {}
    counts = set()

    def timed(name: str, work):  # type: ignore[no-untyped-def]
        start = time.perf_counter()
        result = work()
        times.setdefault(name, []).append(time.perf_counter() - start)
        return result

    scratch = tempfile.TemporaryDirectory()
    longer = pathlib.Path(scratch.name) / "longer.jsonl"
    joined = ["\n\n".join(texts[i:i + LONGER]) for i in range(0, len(texts) - LONGER + 1, LONGER)]
    longer.write_text("".join(json.dumps({"problem": text}) + "\n" for text in joined))
    growth: list[float] = []
    for _ in range(rounds):
        timed("their load", lambda: Tokenizer.from_file(path))
        counts.add(timed("their encode", lambda: sum(len(theirs.encode(text, add_special_tokens=False)) for text in texts)))
        timed("their batch", lambda: theirs.encode_batch_fast(texts, add_special_tokens=False))
        ours, long = ask(bench, directory, data), ask(bench, directory, longer)
        growth.append(long["encode_seconds"] / len(joined) / (ours["encode_seconds"] / len(texts)))
        times.setdefault("our load", []).append(ours["load_seconds"])
        times.setdefault("our encode", []).append(ours["encode_seconds"])
        counts.add(ours["ids"])
    for name, values in times.items():
        print(f"{name:13} best {min(values):8.4f} s   median {statistics.median(values):8.4f} s")
    slow = False
    for way, pick in (("best", min), ("median", statistics.median)):
        load = pick(times["their load"]) / pick(times["our load"])
        encode = min(pick(times["their encode"]), pick(times["their batch"])) / pick(times["our encode"])
        slow = slow or load < 1 or encode < 1
        print(f"{way:6} ratios: encode {encode:.1f}, load {load:.2f}")
        for what, ratio in (("encoding", encode), ("loading", load)):
            report(f"{pathlib.Path(directory).name}: {what}, theirs ÷ ours, {way}", "tokenizers", ">= 1", f"{ratio:.2f}", ratio >= 1, "÷")
    theirs_mb = float(subprocess.run([sys.executable, "-c", THEIR_MEMORY, path], capture_output=True, text=True, check=True).stdout) / 1024
    print(f"peak memory after our load: {ours['load_peak_mb']:.0f} MB, after theirs {theirs_mb:.0f} MB, of whole processes")
    print(f"a text of {LONGER} problems takes {spread(growth, 1)} times as long as one")
    report("loading: peak of our process, of theirs", "tokenizers", "", f"{ours['load_peak_mb']:.0f}, {theirs_mb:.0f}", None, "MB")
    report(f"encoding {LONGER} problems as one text ÷ one problem", "–", "", spread(growth, 1), None, "÷")
    if len(counts) != 1:
        sys.exit(f"the numbers of ids differ: {sorted(counts)}.")
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
