#!/usr/bin/env python3
"""Runs the fuzz targets that scripts/fuzz.sh has built, some at a time, and prints what was run.

    scripts/fuzz.sh [TARGET...] [--seconds 900] [--runs 5000000] [--jobs 2] [--for S] [--again]
    scripts/fuzz.sh [TARGET...] --merge

A target ends with --seconds of the processor's time or with --runs executions, whichever comes first, or with a
finding, which is left in build-fuzz/findings. It runs in pieces, and what each piece did is added up in build-fuzz/runs/TARGET.json: a call that
was stopped goes on where it was, and a target that ended for this build is not run again unless --again. With --for,
no piece begins or lasts beyond that many seconds; exit code 3 says that there is more to do. Inputs are held to 2 s of
the processor's time (fuzz/fuzz_one.cpp), 20 s of any time and 1 GB.

--merge adds to fuzz/corpus, smallest first, what was found and reaches code that no input there reaches, up to 300 kB
and 100 inputs a target.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

PIECE_SECONDS = 120
CORPUS_BYTES, CORPUS_FILES = 300_000, 100
INTERRUPTED = 72  # libFuzzer's own exit code
STATISTIC = r"stat::{}:\s+(\d+)"

root = pathlib.Path(__file__).resolve().parent.parent
build = root / "build-fuzz"
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("targets", nargs="*", metavar="TARGET")
parser.add_argument("--seconds", type=float, default=900)
parser.add_argument("--runs", type=int, default=5_000_000)
parser.add_argument("--jobs", type=int, default=2)
parser.add_argument("--for", type=float, default=float("inf"), dest="budget")
parser.add_argument("--again", action="store_true")
parser.add_argument("--merge", action="store_true")
arguments = parser.parse_args()


class Target:
    def __init__(self, name):
        self.name = name
        self.program = build / f"fuzz_{name}"
        if not self.program.is_file():
            sys.exit(f"fuzz: there is no target {name}; expected one of {', '.join(all_targets())}")
        self.record = build / "runs" / f"{name}.json"
        self.now = dict(build=hashlib.sha256(self.program.read_bytes()).hexdigest(), executions=0, seconds=0.0,
                        cpu=0.0, peak_mb=0, finding="")
        if self.record.exists() and not arguments.again:
            before = json.loads(self.record.read_text())
            if before["build"] == self.now["build"]:
                self.now = before

    def ended(self):
        now = self.now
        return bool(now["finding"]) or now["executions"] >= arguments.runs or now["cpu"] >= arguments.seconds - 1

    def begin(self, most_seconds):
        self.log = build / "runs" / f"{self.name}.log"
        corpus = build / "corpus" / self.name
        corpus.mkdir(parents=True, exist_ok=True)
        left = min(PIECE_SECONDS, arguments.seconds - self.now["cpu"], most_seconds)
        command = [str(self.program), f"-max_total_time={max(1, round(left))}",
                   f"-runs={arguments.runs - self.now['executions']}", "-timeout=20", "-rss_limit_mb=1024",
                   "-print_final_stats=1", f"-artifact_prefix={build}/findings/{self.name}-", str(corpus)]
        seeds, words = root / "fuzz/corpus" / self.name, root / "fuzz/dictionaries" / f"{self.name}.dict"
        if seeds.is_dir():
            command.append(str(seeds))
        if words.is_file():
            command.insert(1, f"-dict={words}")
        self.start = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            out = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.nice(10)
            os.execv(command[0], command)

    def end(self, status, usage):
        text = self.log.read_text(errors="replace")
        now = self.now
        executed = re.search(STATISTIC.format("number_of_executed_units"), text)
        at_least = re.findall(r"^#(\d+)", text, re.M)  # where it was cut short
        now["executions"] += int(executed[1] if executed else at_least[-1] if at_least else 0)
        now["seconds"] += time.monotonic() - self.start
        now["cpu"] += usage.ru_utime + usage.ru_stime
        now["peak_mb"] = max(now["peak_mb"], usage.ru_maxrss // 1024)
        if os.waitstatus_to_exitcode(status) not in (0, INTERRUPTED):
            artifact = re.search(r"Test unit written to (\S+)", text)
            now["finding"] = os.path.relpath(artifact[1], root) if artifact else "see the log"
            print(f"fuzz: {self.name}: a finding ({now['finding']}); the log is {os.path.relpath(self.log, root)}",
                  flush=True)
        self.record.write_text(json.dumps(now) + "\n")


def all_targets():
    return sorted(path.stem.removeprefix("fuzz_") for path in (root / "fuzz").glob("fuzz_*.cpp")
                  if path.stem != "fuzz_one")


def merge(target):
    kept = root / "fuzz/corpus" / target.name
    kept.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        new = pathlib.Path(temporary)
        for path in kept.iterdir():
            shutil.copy(path, new)
        subprocess.run([target.program, "-set_cover_merge=1", "-timeout=20", "-rss_limit_mb=1024", new, build / "corpus" / target.name],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        size = sum(path.stat().st_size for path in kept.iterdir())
        files = len(list(kept.iterdir()))
        for path in sorted(new.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
            if not (kept / path.name).exists() and files < CORPUS_FILES and size + path.stat().st_size <= CORPUS_BYTES:
                shutil.copy(path, kept)
                size += path.stat().st_size
                files += 1
    print(f"{target.name:<12} {len(list(kept.iterdir())):>6} inputs {size:>8,} bytes", flush=True)


for folder in ("runs", "findings", "corpus"):
    (build / folder).mkdir(parents=True, exist_ok=True)
targets = [Target(name) for name in arguments.targets or all_targets()]
if arguments.merge:
    for target in targets:
        merge(target)
    sys.exit(0)
waiting = [target for target in targets if not target.ended()]
running = {}
stop = time.monotonic() + arguments.budget
while True:
    waiting.sort(key=lambda target: target.now["cpu"])
    while waiting and len(running) < arguments.jobs and stop - time.monotonic() > 2:
        target = waiting.pop(0)
        target.begin(stop - time.monotonic())
        running[target.pid] = target
    if not running:
        break
    pid, status, usage = os.wait4(-1, 0)
    target = running.pop(pid)
    target.end(status, usage)
    if not target.ended():
        waiting.append(target)

print(f"{'target':<12} {'executions':>11} {'seconds':>8} {'CPU s':>8} {'peak MB':>8}  finding")
for target in targets:
    now = target.now
    print(f"{target.name:<12} {now['executions']:>11,} {now['seconds']:>8.0f} {now['cpu']:>8.0f} {now['peak_mb']:>8}  "
          f"{now['finding'] or '-'}{'' if target.ended() else ' (to be continued)'}")
sys.exit(1 if any(target.now["finding"] for target in targets) else 0 if all(t.ended() for t in targets) else 3)
