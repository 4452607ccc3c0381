#!/usr/bin/env python3
"""Changes an operator or a constant of the code at a time, and sees whether a test fails (docs/mutation.md).

    scripts/mutate.py                           # 200 mutants, drawn with seed 24, where they were left off
    scripts/mutate.py --for 3600                # an hour of it; exit code 3 says that there is more to do
    scripts/mutate.py --only routing --jobs 1   # some folders', building and testing in turn
    scripts/mutate.py --retry                   # those that survived, by the tests of today
    scripts/mutate.py --summary                 # what has been found, by folder
    scripts/mutate.py --show src/routeopd/routing/controls.cpp:20:48:-:+

Works on a copy of the sources in build-mutate/source. Every verdict is a line of docs/mutation/results.jsonl, written as
it comes; a call that was stopped or killed begins with the sources as they are and goes on. Exit code 1: a survivor that
docs/mutation.md does not explain.
"""
import argparse
import collections
import difflib
import fcntl
import json
import os
import pathlib
import queue
import re
import signal
import sys
import threading
import time

import mutation_bench
import mutation_layout
import mutations

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs/mutation/results.jsonl"
PAGE = ROOT / "docs/mutation.md"
NOT_COUNTED = ("uncompilable", "too long to build")  # another is drawn instead
LOCK_SECONDS = 60  # what a killed call leaves behind ends sooner
OPEN = "passed"  # its folder's tests; the others have not run


class Record:
    """What is known of each mutant: the last line about it."""

    def __init__(self, path):
        self.path, self.of = path, {}
        if path.exists():
            text = path.read_text()
            if text and not text.endswith("\n"):  # killed while it wrote
                path.write_text(text[:text.rfind("\n") + 1])
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self.of[entry["key"]] = entry

    def add(self, mutant, group, verdict, by, seconds):
        self.of[mutant.key] = dict(key=mutant.key, id=mutant.id(), group=group, verdict=verdict, by=by,
                                   seconds=round(seconds, 1))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(self.of[mutant.key]) + "\n")

    def killers(self, file):
        """The tests that killed mutants of a file."""
        return sorted({each["by"] for each in self.of.values()
                       if each["id"].startswith(file + ":") and re.fullmatch(r"[\w/]+\.[\w/]+", each["by"])})

    def verdict(self, mutant):
        return self.of[mutant.key]["verdict"] if mutant.key in self.of else None


class Draw:
    """The mutants of a seed: each group's share, in an order in which every beginning is spread over the groups."""

    def __init__(self, root, groups, count, seed, record):
        self.record = record
        candidates = {}
        for group, pattern in groups.items():
            files = sorted(str(path.relative_to(root)) for path in (root / "src").rglob("*")
                           if path.suffix in (".h", ".cpp") and pattern.search(str(path.relative_to(root))))
            candidates[group] = [mutant for file in files for mutant in mutations.mutants(file, (root / file).read_text())]
        self.candidates = {group: len(each) for group, each in candidates.items()}
        self.shares = mutations.shares(candidates, count)
        self.ordered = {group: mutations.order(each, seed) for group, each in candidates.items()}

    def drawn(self):
        """[(group, mutant)], without those that could not be built."""
        found = []
        for group, ordered in self.ordered.items():
            share = self.shares[group]
            kept = [mutant for mutant in ordered if self.record.verdict(mutant) not in NOT_COUNTED][:share]
            found += [((at + 0.5) / share, group, mutant) for at, mutant in enumerate(kept)]
        return [(group, mutant) for _, group, mutant in sorted(found, key=lambda each: each[:2])]

    def named(self, name):
        for ordered in self.ordered.values():
            for mutant in ordered:
                if name in (mutant.id(), mutant.key):
                    return mutant
        sys.exit(f"mutate: there is no mutant {name}; expected FILE:LINE:COLUMN:FROM:TO of the sources as they are, or a key "
                 f"of {RECORD.relative_to(ROOT)}")


def show(mutant, root):
    text = (root / mutant.file).read_text()
    for line in difflib.unified_diff(text.splitlines(), mutant.applied(text).splitlines(), mutant.file, mutant.file,
                                     n=2, lineterm=""):
        print(line)


def summary(draw):
    """Prints the counts by folder and the survivors; returns those that the page does not name."""
    columns = ("killed", "time-out", "survived", "equivalent")
    print(f"{'folder':<12} {'candidates':>10} {'share':>6} " + " ".join(f"{name:>10}" for name in columns)
          + f" {'not run':>8} {'redrawn':>8}")
    drawn, total = draw.drawn(), collections.Counter()
    for group in draw.ordered:
        count = collections.Counter(draw.record.verdict(mutant) for each, mutant in drawn if each == group)
        count["survived"] += count.pop(OPEN, 0)
        redrawn = sum(draw.record.verdict(mutant) in NOT_COUNTED for mutant in draw.ordered[group])
        row = [draw.candidates[group], draw.shares[group], *(count[name] for name in columns), count[None], redrawn]
        total.update(dict(enumerate(row)))
        print("{:<12} {:>10} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}".format(group, *row))
    print("{:<12} {:>10} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}".format("all", *(total[n] for n in range(8))))
    page = PAGE.read_text() if PAGE.exists() else ""
    unexplained = []
    for _, mutant in drawn:
        if draw.record.verdict(mutant) in ("survived", OPEN):
            explained = mutant.key in page
            unexplained += [] if explained else [mutant]
            note = "" if explained else " (not in docs/mutation.md)"
            print(f"{mutant.key} {draw.record.verdict(mutant)} {mutant.id()}{note}")
    return unexplained


class Run:
    """Builds one mutant while the one before is tested."""

    def __init__(self, bench, record, todo, jobs, stop):
        self.bench, self.record, self.jobs, self.stop = bench, record, jobs, stop
        self.todo, self.all, self.done, self.begun = todo, 0, 0, time.monotonic()
        self.lock, self.waiting, self.failure = threading.Lock(), queue.Queue(maxsize=1), None

    def note(self, group, mutant, verdict, by, seconds):
        with self.lock:
            self.record.add(mutant, group, verdict, by, seconds)
            self.done += 1
            left = (time.monotonic() - self.begun) / self.done * max(0, self.all - self.done) / 60
            print(f"[{self.done}/{self.all}] {verdict:<10} {mutant.id()} {f'by {by}' if by else ''} {seconds:.0f} s; "
                  f"{left:.0f} min left", flush=True)

    def test(self, group, mutant, deep, built, seconds):
        begin = time.monotonic()
        verdict, by = self.bench.test(group, deep, built, mutant.file, self.record.killers(mutant.file))
        if verdict == "survived" and not deep:
            verdict = OPEN
        self.note(group, mutant, verdict, by, seconds + time.monotonic() - begin)

    def testing(self):
        while (work := self.waiting.get()) is not None:
            try:
                self.test(*work)
            except BaseException as error:  # to be raised where it can be seen
                self.failure = error
            finally:
                self.waiting.task_done()

    def pending(self):
        with self.lock:
            pending = self.todo()
            self.all = max(self.all, self.done + len(pending))
            return pending

    def go(self):
        thread = threading.Thread(target=self.testing, daemon=True)
        if self.jobs > 1:
            thread.start()
        while time.monotonic() < self.stop and not self.failure:
            pending = self.pending()
            if not pending:
                self.waiting.join()  # what is being tested may pass, and be for the second round
                pending = self.pending()
            if not pending:
                break
            group, mutant, deep = pending[0]
            begin = time.monotonic()
            verdict, built = self.bench.build(group, mutant, deep)
            seconds = time.monotonic() - begin
            if verdict != "built":
                self.note(group, mutant, verdict, "", seconds)
            elif self.jobs > 1:
                self.waiting.put((group, mutant, deep, built, seconds))
            else:
                self.test(group, mutant, deep, built, seconds)
        if self.jobs > 1:
            self.waiting.put(None)
            thread.join()
        if self.failure:
            raise self.failure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2, choices=(1, 2), help="2: builds a mutant while another is tested")
    parser.add_argument("--for", type=float, default=float("inf"), dest="budget", metavar="SECONDS")
    parser.add_argument("--only", metavar="FOLDER", nargs="+", choices=list(mutation_layout.GROUPS))
    parser.add_argument("--folders-tests", action="store_true", help="leave out the second round: other folders' tests")
    parser.add_argument("--retry", action="store_true", help="run those again that survived")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--show", metavar="ID")
    arguments = parser.parse_args()
    record = Record(RECORD)
    draw = Draw(ROOT, mutation_layout.GROUPS, arguments.count, arguments.seed, record)
    if arguments.show:
        return show(draw.named(arguments.show), ROOT)
    if arguments.summary:
        return 1 if summary(draw) else 0

    work = ROOT / "build-mutate"
    work.mkdir(exist_ok=True)
    with (work / "lock").open("w") as lock:
        for patience in reversed(range(LOCK_SECONDS)):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if patience == 0:
                    sys.exit(f"mutate: another call works in {work}; wait for it, or end it")
                time.sleep(1)
        return run(arguments, draw, work, lock)


def run(arguments, draw, work, lock):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    record, groups = draw.record, arguments.only or list(draw.ordered)
    os.nice(10)
    stop = time.monotonic() + arguments.budget
    retried = {each.key for _, each in draw.drawn() if record.verdict(each) in ("survived", OPEN)} if arguments.retry else set()
    begun = set()

    def todo():
        """First what has no verdict, by its folder's tests; then what these let pass, by the others."""
        fresh, passed = [], []
        for group, mutant in draw.drawn():
            if group in groups:
                verdict = record.verdict(mutant)
                first = verdict is None or mutant.key in retried
                if first and (mutant.key, False) not in begun:
                    fresh.append((group, mutant, False))
                elif verdict == OPEN and (mutant.key, True) not in begun and not arguments.folders_tests:
                    passed.append((group, mutant, True))
        pending = fresh + passed
        if pending:
            begun.add((pending[0][1].key, pending[0][2]))
        return pending

    bench = mutation_bench.Bench(ROOT, work, lock=lock)
    bench.prepare(deep=not arguments.folders_tests, groups=groups)
    Run(bench, record, todo, arguments.jobs, stop).go()
    unexplained = summary(draw)
    if any(record.verdict(mutant) in (None, OPEN) for group, mutant in draw.drawn() if group in groups):
        return 3
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
