#!/usr/bin/env python3
"""What a step costs with student and teacher on `routeopd serve` over loopback, beside the local engine: same recipe, in turns.

    remote_overhead.py PROGRAM RECIPE STUDENT TEACHER [--rounds 3] [--steps 4] [--set section.key=value …] [--bound 1.10]

The first step of a run is left out (weights are laid out, connections made), and so are `refresh` and `save`. Weights must be equal
at the end. Prints seconds per stage, the ratio of each round, and their median with its range; exits 1 past the bound.
"""
import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from results import report, spread  # noqa: E402
from serving import Server  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("recipe")
parser.add_argument("student")
parser.add_argument("teacher")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--set", action="append", default=[])
parser.add_argument("--bound", type=float, default=0)
arguments = parser.parse_args()


def train(out, *values):
    words = [word for value in [f"student.path={arguments.student}", f"teacher.path={arguments.teacher}", f"train.steps={arguments.steps}",
                                "probe.every=0", "eval.every=0", "checkpoint.every=0", *arguments.set, *values] for word in ("--set", value)]
    subprocess.run([arguments.program, "train", arguments.recipe, "--out", out, "--quiet", *words], check=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()][1:]
    stages = {stage: statistics.median(line["time"][stage] for line in lines) for stage in ("refresh", "rollout", "score", "route", "learn")}
    weights = (out / "checkpoints" / f"step_{arguments.steps}" / "model.safetensors").read_bytes()
    return stages, sum(value for stage, value in stages.items() if stage != "refresh"), weights


with tempfile.TemporaryDirectory() as directory:
    root = pathlib.Path(directory)
    servers = [Server(arguments.program, arguments.student, "--reload-root", root), Server(arguments.program, arguments.teacher)]
    remote = ["rollout.engine=serve", f'rollout.urls=["{servers[0].url}"]', "teacher.engine=serve", f'teacher.urls=["{servers[1].url}"]']
    ratios = []
    for turn in range(arguments.rounds):
        local_stages, local, ours = train(root / f"local{turn}")
        served_stages, served, theirs = train(root / f"served{turn}", *remote)
        assert ours == theirs, "the weights differ"
        ratios.append(served / local)
        for name, stages, total in (("local", local_stages, local), ("serve", served_stages, served)):
            print(f"{name}: " + ", ".join(f"{stage} {seconds:.3f}" for stage, seconds in stages.items()) + f"; without refresh {total:.3f} s")
        print(f"ratio {ratios[-1]:.3f}", flush=True)
    for server in servers:
        server.end(signal.SIGTERM)
    print(f"serve / local, a step without refresh: {statistics.median(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]; weights equal")
    met = statistics.median(ratios) <= arguments.bound if arguments.bound > 0 else None
    report(f"a step of {pathlib.Path(arguments.recipe).stem} on our servers", "the local engine",
           f"<= {arguments.bound:g}" if arguments.bound > 0 else "", spread(ratios), met, "÷")
    sys.exit(met is False)
