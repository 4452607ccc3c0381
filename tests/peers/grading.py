#!/usr/bin/env python3
"""Grades the same pairs of gold and response with Math-Verify and `routeopd grade`: verdicts and speed, side by side.

    SHARED=../shared python3 tests/peers/grading.py --python PYTHON [--program build/routeopd] [--rounds 3] [--out DIR]

PYTHON is an interpreter with math-verify 0.9; SHARED (../shared) has the data whose golds are rewritten, rightly and
wrongly, by grading_pairs.py. With --out, DIR keeps pairs.jsonl (with Math-Verify's verdicts) and, where a program is given,
graded.jsonl. Without --program the pairs are made and Math-Verify is judged by what each pair expects.

The rounds alternate: each lets both graders grade every pair, by turns the first and the second. Math-Verify works in one
process that has imported it and warmed up on the pairs before it is timed. Ours is timed as a whole, its start, reading and
writing included, on a file that has the pairs REPEATS times. The ratio of a round is Math-Verify's seconds a pair divided
by ours, and the result is the median of the rounds' ratios.

Pairs that run into a known slip of Math-Verify are counted apart, by name. Of the others, both must agree on 99.5 %, and we
must be 50 times as fast. Exits 1 when either is missed. Standard library only.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from engines import die_with_parent
from grading_pairs import make_pairs, read_lines
from results import report
from train_speed import processor

HERE = pathlib.Path(__file__).parent
SEED = 8
LEAST_PAIRS = 2500
LEAST_AGREEMENT = 0.995
LEAST_SPEED = 50.0
REPEATS = 20
VERSION = "0.9."
PATIENCE = 1800.0  # seconds for one run of our program


class Failure(RuntimeError):
    """A grader failed, or what it answered is not an answer to what was asked."""


def write_lines(path: pathlib.Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


class Cost(NamedTuple):
    """Of one pair: seconds that passed, and seconds of processors."""

    seconds: float
    processor: float


class MathVerify:
    """A process that has imported Math-Verify and waits for the word to grade the pairs once."""

    def __init__(self, python: str, pairs: pathlib.Path, count: int) -> None:
        self.count = count
        try:
            self.process = subprocess.Popen([python, HERE / "grading_math_verify.py", pairs], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            text=True, preexec_fn=die_with_parent)
        except OSError as error:
            raise Failure(f"{python}: {error.strerror}") from None
        # It ends with the end of its standard input, or with this process.
        self.versions: dict[str, str] = self.answer()["versions"]
        if not self.versions["math-verify"].startswith(VERSION):
            raise Failure(f"{python} has math-verify {self.versions['math-verify']}; the comparison is with {VERSION}x.")

    def answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"Math-Verify ended with {self.process.wait()}; does the interpreter have it?")
        return json.loads(line)

    def grade(self) -> tuple[Cost, list[bool]]:
        """What a pair cost, and the verdicts."""
        self.process.stdin.write("grade\n")
        self.process.stdin.flush()
        answer = self.answer()
        if len(answer["verdicts"]) != self.count:
            raise Failure(f"Math-Verify gave {len(answer['verdicts'])} verdicts on {self.count} pairs.")
        return Cost(answer["seconds"] / self.count, answer["processor"] / self.count), answer["verdicts"]


class Ours:
    """`routeopd grade` on files of the pairs, once and repeated."""

    def __init__(self, program: str, pairs: list[dict[str, Any]], directory: pathlib.Path) -> None:
        self.program, self.directory, self.count = program, directory, len(pairs)
        asked = [{key: pair[key] for key in ("id", "response", "answer")} for pair in pairs]
        write_lines(directory / "once.jsonl", asked)
        write_lines(directory / "repeated.jsonl", [{**line, "id": f"{line['id']}.{copy}"} for copy in range(REPEATS) for line in asked])
        write_lines(directory / "one.jsonl", asked[:1])

    def run(self, name: str, count: int) -> tuple[float, list[dict[str, Any]]]:
        """Seconds that the process took, and what it wrote."""
        out = self.directory / f"{name}_graded.jsonl"
        command = [self.program, "grade", "--quiet", "--in", str(self.directory / f"{name}.jsonl"), "--out", str(out)]
        out.unlink(missing_ok=True)
        start = time.perf_counter()
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                                  preexec_fn=die_with_parent)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.program} grade: not done after {PATIENCE:.0f} s") from None
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            raise Failure(f"{self.program} grade ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
        graded = read_lines(out)
        if len(graded) != count:
            raise Failure(f"{self.program} grade wrote {len(graded)} lines for {count}.")
        return seconds, graded

    def graded(self, pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The graded lines, in the order of the pairs."""
        _, graded = self.run("once", self.count)
        for pair, line in zip(pairs, graded):
            if line.get("id") != pair["id"] or not isinstance(line.get("correct"), bool) or not isinstance(line.get("extracted"), str):
                raise Failure(f"{self.program} grade: the line for {pair['id']} is {json.dumps(line)[:200]}")
        return graded

    def grade(self, verdicts: list[bool]) -> Cost:
        """What a pair cost, after a check that a repeated pair gets the verdict that it got alone."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds, graded = self.run("repeated", self.count * REPEATS)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor_seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        if [line["correct"] for line in graded] != verdicts * REPEATS:
            raise Failure(f"{self.program} grade: verdicts change when the pairs are repeated.")
        return Cost(seconds / len(graded), processor_seconds / len(graded))

    def start(self) -> float:
        """Seconds of a run that grades one pair."""
        return min(self.run("one", 1)[0] for _ in range(3))


# What is said.

def share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {part / max(whole, 1):.2%}"


def yes(verdict: bool) -> str:
    return "right" if verdict else "wrong"


def written(pair: dict[str, Any]) -> str:
    """The end of the response, on one line."""
    text = " ".join(pair["response"].split())
    return text if len(text) <= 110 else "…" + text[-110:]


def tell_pairs(pairs: list[dict[str, Any]]) -> None:
    suites = collections.Counter(pair["suite"] for pair in pairs)
    right = sum(pair["expected"] for pair in pairs)
    print(f"{len(pairs)} pairs of {len({pair['gold'] for pair in pairs})} golds ({', '.join(f'{name} {n}' for name, n in suites.items())}): "
          f"{right} right, {len(pairs) - right} wrong; {len({pair['rewrite'] for pair in pairs})} rewrites; "
          f"{sum(pair['slip'] is not None for pair in pairs)} counted apart")


def tell_expected(who: str, key: str, pairs: list[dict[str, Any]]) -> None:
    """Where a grader differs from what the pairs expect, outside of slips."""
    counted = [pair for pair in pairs if pair["slip"] is None]
    against = [pair for pair in counted if pair[key] != pair["expected"]]
    print(f"\n{who} as expected outside of slips: {share(len(counted) - len(against), len(counted))}")
    for pair in against:
        print(f"  {pair['rewrite']}: gold {pair['gold']} | {written(pair)} | {yes(pair[key])}, expected {yes(pair['expected'])}")


def tell_slips(pairs: list[dict[str, Any]], ours: bool) -> None:
    print("\nslips of Math-Verify and the rule for percent, counted apart (as expected / pairs):")
    for slip in sorted({pair["slip"] for pair in pairs} - {None}):
        of = [pair for pair in pairs if pair["slip"] == slip]
        counts = [f"{who} {sum(pair[key] == pair['expected'] for pair in of)}/{len(of)}"
                  for who, key in (("Math-Verify", "math_verify"), ("ours", "ours"))[:1 + ours]]
        print(f"  {slip:16} expected {yes(of[0]['expected'])}: {', '.join(counts)}")


def tell_agreement(pairs: list[dict[str, Any]]) -> tuple[int, int]:
    """Agreed, and counted: the pairs outside of slips."""
    counted = [pair for pair in pairs if pair["slip"] is None]
    differing = [pair for pair in counted if pair["ours"] != pair["math_verify"]]
    print("\nagreement by rewrite:")
    for rewrite in sorted({pair["rewrite"] for pair in counted}):
        of = [pair for pair in counted if pair["rewrite"] == rewrite]
        agreed = sum(pair["ours"] == pair["math_verify"] for pair in of)
        print(f"  {rewrite:30} {agreed}/{len(of)}{'' if agreed == len(of) else '  <'}")
    print(f"\nevery difference outside of slips ({len(differing)}):")
    for pair in differing:
        print(f"  {pair['rewrite']}: gold {pair['gold']} | {written(pair)} | read as {pair['extracted']!r} | ours {yes(pair['ours'])}, "
              f"Math-Verify {yes(pair['math_verify'])}, expected {yes(pair['expected'])}")
    return len(counted) - len(differing), len(counted)


def tell_result(what: str, shown: str, value: float, least: float, target: str) -> list[str]:
    """Says whether a target is met; what falls short."""
    met = value >= least
    report(f"grading: {what}", "Math-Verify", f">= {target}", shown, met)
    print(f"{what}: {shown}, target >= {target}: {'ok' if met else 'SHORT'}")
    return [] if met else [f"{what} {shown}, less than {target}"]


# The comparison.

def timed_rounds(peer: MathVerify, mine: Ours, pairs: list[dict[str, Any]], rounds: int) -> tuple[list[Cost], list[Cost]]:
    """What a pair cost in every round, ours and theirs."""
    ours: list[Cost] = []
    theirs: list[Cost] = []
    for number in range(rounds):
        for side in (("ours", "theirs"), ("theirs", "ours"))[number % 2]:
            if side == "ours":
                ours.append(mine.grade([pair["ours"] for pair in pairs]))
            else:
                cost, again = peer.grade()
                theirs.append(cost)
                if changed := sum(verdict != pair["math_verify"] for verdict, pair in zip(again, pairs)):
                    print(f"round {number + 1}: Math-Verify changed {changed} verdicts (its limits of time)", file=sys.stderr)
    return ours, theirs


def compare(args: argparse.Namespace, pairs: list[dict[str, Any]], scratch: pathlib.Path) -> list[str]:
    """What falls short."""
    write_lines(scratch / "pairs.jsonl", pairs)
    peer = MathVerify(args.python, scratch / "pairs.jsonl", len(pairs))
    print(f"{processor()}; {', '.join(f'{name} {version}' for name, version in peer.versions.items())}", flush=True)
    tell_pairs(pairs)
    first, verdicts = peer.grade()
    order = ("id", "suite", "rewrite", "gold", "response", "answer", "expected", "math_verify", "slip")
    pairs = [{key: {**pair, "math_verify": verdict}[key] for key in order} for pair, verdict in zip(pairs, verdicts)]
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        write_lines(args.out / "pairs.jsonl", pairs)
    if not args.program:
        tell_slips(pairs, ours=False)
        tell_expected("Math-Verify", "math_verify", pairs)
        print(f"\nMath-Verify: {first.seconds * 1e3:.2f} ms a pair ({first.processor * 1e3:.2f} of a processor), all {len(pairs)} in "
              f"{first.seconds * len(pairs):.1f} s")
        return []

    mine = Ours(args.program, pairs, scratch)
    graded = mine.graded(pairs)
    if args.out:
        write_lines(args.out / "graded.jsonl", graded)
    pairs = [{**pair, "ours": line["correct"], "extracted": line["extracted"]} for pair, line in zip(pairs, graded)]
    ours, theirs = timed_rounds(peer, mine, pairs, args.rounds)

    agreed, counted = tell_agreement(pairs)
    tell_slips(pairs, ours=True)
    tell_expected("Math-Verify", "math_verify", pairs)
    tell_expected("ours", "ours", pairs)
    for who, costs in (("ours", ours), ("Math-Verify", theirs)):
        print(f"{who:12} {statistics.median(cost.seconds for cost in costs) * 1e6:.2f} us a pair, "
              f"{statistics.median(cost.processor for cost in costs) * 1e6:.2f} of a processor")
    print(f"ours graded {len(pairs) * REPEATS} pairs a run; to start and grade one takes {mine.start() * 1e3:.0f} ms, which is included")
    ratios = [their.seconds / our.seconds for our, their in zip(ours, theirs)]
    speed = statistics.median(ratios)
    short = tell_result("agreement outside of slips", share(agreed, counted), agreed / counted, LEAST_AGREEMENT, f"{LEAST_AGREEMENT:.1%}")
    decided = [pair for pair in pairs if pair["slip"] == "percent_rule"]
    also = sum(pair["ours"] == pair["math_verify"] for pair in decided)
    print(f"the same with the pairs of the percent rule: {share(agreed + also, counted + len(decided))}")
    short += tell_result("Math-Verify ÷ ours", f"{speed:.1f} [{min(ratios):.1f}, {max(ratios):.1f}] in {args.rounds} rounds", speed,
                         LEAST_SPEED, f"{LEAST_SPEED:.0f}")
    return short


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.environ.get("PEERS_PYTHON"), help="an interpreter with math-verify (PEERS_PYTHON)")
    parser.add_argument("--program", help="routeopd; without it only Math-Verify grades")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=SEED, help="of the rewrites that are drawn")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="keeps pairs.jsonl and graded.jsonl")
    args = parser.parse_args()
    args.shared = pathlib.Path(os.environ.get("SHARED", "../shared"))
    if args.rounds < 1:
        parser.error("--rounds is 1 or more")
    if not args.python:
        parser.error("--python (or PEERS_PYTHON) must name an interpreter that has math-verify")
    if args.program and not os.access(args.program, os.X_OK):
        parser.error(f"{args.program}: no program there")
    if args.program:
        args.program = str(pathlib.Path(args.program).resolve())
    return args


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    args = arguments()
    if not (args.shared / "data" / "math500.jsonl").exists():
        print(f"grading: skipped, no data in {args.shared} (set SHARED)")
        return
    pairs = make_pairs(args.shared / "data", args.seed)
    distinct = len({(pair["gold"], pair["response"]) for pair in pairs})
    if distinct != len(pairs) or distinct < LEAST_PAIRS:
        raise Failure(f"{distinct} distinct pairs of {len(pairs)}; at least {LEAST_PAIRS}, all distinct, were expected.")
    with tempfile.TemporaryDirectory(prefix="grading.") as scratch:
        short = compare(args, pairs, pathlib.Path(scratch))
    if short:
        sys.exit(f"Short of the target: {'; '.join(short)}.")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"failed: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
