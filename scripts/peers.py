#!/usr/bin/env python3
"""Our answers and times beside those of others: the parts of scripts/peers_parts.py one after the other, with one table at the end.

    python3 scripts/peers.py [PROGRAM] [--quick] [--only NAME,…] [--skip NAME,…] [--resume] [--list]

Each part keeps its log in build/peers/NAME.log and what it found in build/peers/NAME.json; the table is build/peers/results.md,
its rows are build/peers/results.jsonl. A part that fails does not keep the others from running. docs/peers.md describes it all.
Exits 1 where a part failed or a target was missed, 130 when it was interrupted: what was done until then is told.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import fcntl
import os
import pathlib
import signal
import sys
import time
from collections.abc import Sequence

from peers_environments import ENVIRONMENTS, ROOT
from peers_parts import PARTS, Part
from peers_run import Outcome, Runner
from peers_table import markdown, save_rows, text, totals

OUT = ROOT / "build/peers"


def fits(part: Part, name: str) -> bool:
    """Whether a name of --only or --skip means this part: its own name, or a beginning of it before a hyphen."""
    return part.name == name or part.name.startswith(f"{name}-")


def list_of(parts: Sequence[Part]) -> str:
    lines = []
    for part in parts:
        quick = "-" if part.quick is None else f"{part.quick:g}"
        needs = [*part.environments, *(f"({name})" for name in part.optional), *(f"../shared/{name}" for name in part.shared)]
        lines.append(f"{part.name:24} {part.minutes:5g} {quick:>5}  {part.peer}: {part.what}" + (f"; needs {', '.join(needs)}" if needs else ""))
    minutes = (sum(part.minutes for part in parts), sum(part.quick or 0 for part in parts))
    return "\n".join([f"{'part':24} {'min':>5} {'quick':>5}  what", *lines, f"{'all':24} {minutes[0]:5.0f} {minutes[1]:5.0f}"])


def arguments(words: Sequence[str] | None, parts: Sequence[Part]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=pathlib.Path, default=ROOT / "build/routeopd")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller sizes, no soak: to see all of it work")
    parser.add_argument("--only", default="", metavar="NAME,…", help="these parts; a beginning such as `bench` means all that begin so")
    parser.add_argument("--skip", default="", metavar="NAME,…", help="not these parts, nor what needs these environments")
    parser.add_argument("--resume", action="store_true", help="what passed with this build is not run again, and stands in the table")
    parser.add_argument("--list", action="store_true", help="the parts with their minutes")
    parser.add_argument("--out", type=pathlib.Path, default=OUT, metavar="DIR", help="where logs and results go")
    args = parser.parse_args(words)
    args.only, args.skip = ([name for name in value.split(",") if name] for value in (args.only, args.skip))
    for name in args.only + args.skip:
        if not any(fits(part, name) for part in parts) and (name in args.only or name not in ENVIRONMENTS):
            parser.error(f"no part {name}; --list has their names")
    if os.environ.get("PEERS_SKIP"):
        parser.error("PEERS_SKIP is not read any more; --skip NAME,… (or `make peers SKIP=NAME,…`) leaves parts out")
    if not args.list and not os.access(args.program, os.X_OK):
        parser.error(f"{args.program}: no program there; `make tests` builds it")
    return args


def chosen(parts: Sequence[Part], args: argparse.Namespace) -> list[Part]:
    return [part for part in parts if (not args.only or any(fits(part, name) for name in args.only))
            and not any(fits(part, name) for name in args.skip) and not (args.quick and part.quick is None)]


def run_all(parts: Sequence[Part], runner: Runner, resume: bool) -> tuple[list[Outcome], bool]:
    """What came of the parts, and whether all of them had their turn."""
    outcomes: list[Outcome] = []
    try:
        for number, part in enumerate(parts, 1):
            where = f"peers: {number}/{len(parts)} {part.name}"
            if resume and (before := runner.passed_before(part)):
                outcomes.append(before)
                print(f"{where}: passed before", flush=True)
                continue
            print(f"{where} ({part.peer}) …", flush=True)
            outcomes.append(runner.run(part))
            print(f"{where}: {outcomes[-1].line()}", flush=True)
    except KeyboardInterrupt:
        print("peers: interrupted; --resume goes on", flush=True)
        return outcomes, False
    return outcomes, True


def main(words: Sequence[str] | None = None, parts: Sequence[Part] = PARTS) -> int:
    args = arguments(words, parts)
    parts = chosen(parts, args)
    if args.list:
        print(list_of(parts))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"peers: another one writes to {args.out}; wait for its end, or name another directory with --out", file=sys.stderr)
            return 1
        for name in ("SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.default_int_handler)
        start = time.monotonic()
        runner = Runner(args.program.resolve(), args.out.resolve(), args.quick, frozenset(args.skip))
        outcomes, whole = run_all(parts, runner, args.resume)
        failed = any(outcome.status == "failed" for outcome in outcomes)
        code = 130 if not whole else 1 if failed else 0
        end = totals(outcomes, len(parts), time.monotonic() - start, code)
        save_rows(args.out / "results.jsonl", outcomes, args.quick)
        (args.out / "results.md").write_text(markdown(outcomes, args.quick) + f"\n{end}\n", encoding="utf-8")
        print(f"\n{text(outcomes)}\n\n{end}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
