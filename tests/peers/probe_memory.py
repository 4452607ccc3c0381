#!/usr/bin/env python3
"""What a probe of 1,024 states takes above its models, on a real vocabulary: SmolLM2-135M and a copy without four layers.

    probe_memory.py PROGRAM STUDENT TEACHER PROMPTS [--states 1024] [--arm ARM …]

Prints the peak of `probe make` and `probe run`, and what is left of it without both models' weights in float32. Fails where
that is over 2 GB.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

from results import report

LIMIT = 2e9  # bytes


def weights(directory):
    """Bytes of a model's parameters in float32."""
    total = 0
    for path in pathlib.Path(directory).glob("*.safetensors"):
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        total += sum(4 * math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return total


def peak_of(command):
    """(peak resident bytes, seconds, standard output) of a command that succeeds."""
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[1]} {command[2]} ended with {process.returncode}")
    return usage.ru_maxrss * 1024, time.monotonic() - start, output


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("student")
    parser.add_argument("teacher")
    parser.add_argument("prompts")
    parser.add_argument("--states", type=int, default=1024)
    parser.add_argument("--arm", action="append", default=[])
    arguments = parser.parse_args()
    models = weights(arguments.student) + weights(arguments.teacher)
    pair = ["--student", arguments.student, "--teacher", arguments.teacher, "--quiet"]
    short = False
    with tempfile.TemporaryDirectory() as work:
        bank = pathlib.Path(work) / "bank.safetensors"
        make = [arguments.program, "probe", "make", *pair, "--prompts", arguments.prompts, "--states", arguments.states,
                "--most-prompts", 32, "--max-new", 96, "--out", bank]
        # A step set by hand, and updates of a routed and of a dense objective: the kinds of work that hold memory.
        words = [word for arm in arguments.arm or ["routeopd", "full_rkl"] for word in ("--arm", arm)]
        words += [word for name in ("potential_wide", "fresh_adamw") for word in ("--intervention", name)]
        run = [arguments.program, "probe", "run", *pair, "--bank", bank, *words, "--lr", "1e-5", "--out", pathlib.Path(work) / "probe"]
        for name, command in (("probe make", make), ("probe run", run)):
            peak, seconds, output = peak_of(command)
            above = peak - models
            print(f"{name}: {seconds:.0f} s, peak {peak / 1e9:.2f} GB, {above / 1e9:.2f} GB above the models' {models / 1e9:.2f} GB"
                  f" (limit {LIMIT / 1e9:.0f} GB)")
            report(f"{name} on {arguments.states} states of SmolLM2: memory above both models", "–", f"<= {LIMIT / 1e9:g}",
                   f"{above / 1e9:.2f}", above <= LIMIT, "GB")
            short = short or above > LIMIT
        print(output, end="")
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
