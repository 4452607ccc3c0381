#!/usr/bin/env python3
"""`routeopd decontaminate` against plain Python on real data, and against the figures that are known of it.

    python decontamination.py PROGRAM [DATA_DIR]

DATA_DIR (else $SHARED/data, else ../shared/data) holds dapo_math_17k.jsonl and four benchmarks. Compared: every figure of
--json, the normal form of every row and of every code point (in a chain of hashes), every hit, every line that stays. Then
the time of the program on one core. Standard library only; reports a skip where the data is missing.
"""
from __future__ import annotations

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from decontamination_reference import reference, without_hashes  # noqa: E402
from results import report  # noqa: E402

TRAIN, TESTS = "dapo_math_17k.jsonl", ("math500.jsonl", "amc23.jsonl", "aime24.jsonl", "aime25.jsonl")
# Known of these files: rows, unique raw, unique normalised, conflicting groups, raw ones among them; then by benchmark equal
# raw and normalised, 8-grams of words any and half, 13-grams any and half. None: nobody has said it.
KNOWN_TRAIN = (17917, 17290, 16743, 25, 11)
KNOWN_TESTS = {"math500.jsonl": (None, 5, 130, 22, 33, 15), "amc23.jsonl": (8, 13, 64, 46, 53, 37),
               "aime24.jsonl": (None, 0, 15, 0, 6, 0), "aime25.jsonl": (None, 0, 22, 0, 9, 0)}
MOST_SECONDS = 20


def run(*arguments) -> tuple[dict, float]:
    """The program's figures, and the processor's seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run([*map(str, arguments), "--json", "--quiet"], text=True, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(answer.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check(what: str, ours, theirs) -> None:
    if ours != theirs:
        sys.exit(f"decontamination: {what} differ\n  ours   {str(ours)[:2000]}\n  theirs {str(theirs)[:2000]}")


def check_code_points(program: str, work: pathlib.Path) -> None:
    if unicodedata.unidata_version != "14.0.0":
        print(f"decontamination: skipped the comparison of all code points: this Python has Unicode {unicodedata.unidata_version}, not 14.0.0")
        report("normal forms of all code points", "plain Python", "equal", f"skipped: its Unicode is {unicodedata.unidata_version}", None)
        return
    path = work / "points.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for first in range(0, 0x110000, 64):
            points = [chr(code) for code in range(first, first + 64) if not 0xD800 <= code < 0xE000]
            file.write(json.dumps({"problem": "".join(f"{p}Σ{p} a{p}b " for p in points)}, ensure_ascii=False) + "\n")
    test = work / "test.jsonl"
    test.write_text('{"problem":"in no row"}\n')
    figures, _ = run(program, "decontaminate", "--train", path, "--test", test, "--ngram", 0, "--chars", 0)
    check("normal forms of all code points", without_hashes(figures), reference(path, [test], (), ())[0])
    print(f"decontamination: {0x110000 - 0x800:,} code points normalised alike")
    report("normal forms of all code points", "plain Python", "equal", f"{0x110000 - 0x800:,} equal", True)


def main() -> None:
    program = sys.argv[1]
    shared = pathlib.Path(os.environ.get("SHARED", pathlib.Path(__file__).parents[3] / "shared"))
    data = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else shared / "data"
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        check_code_points(program, work)
        if not (data / TRAIN).is_file():
            print(f"decontamination: skipped the real data: no {data / TRAIN} (set SHARED)")
            report("decontamination of real data", "plain Python", "equal", "skipped: no ../shared", None)
            return
        train, tests = data / TRAIN, [data / name for name in TESTS]
        figures, seconds = run("taskset", "-c", "0", program, "decontaminate", "--train", train, "--test", *tests, "--out",
                               work / "clean.jsonl", "--report", work / "hits.jsonl")
        expected, hits, kept = reference(train, tests)
        check("figures", without_hashes(figures), expected)
        names = ("test_file", "test_id", "train_id", "kind", "coverage")
        ours = [tuple(json.loads(line)[name] for name in names) for line in open(work / "hits.jsonl", encoding="utf-8")]
        check("hits", sorted(ours), sorted(hits))
        check("lines that stay", (work / "clean.jsonl").read_text(encoding="utf-8"), "".join(line + "\n" for line in kept))
        known = figures["train"]
        check("known figures", tuple(known[name] for name in ("rows", "unique_raw", "unique_normalised", "conflicts_normalised",
                                                              "conflicts_raw")), KNOWN_TRAIN)
        for test in figures["tests"]:
            words = [test["ngrams"][name] for name in ("words_8", "words_13")]
            found = (test["raw"], test["normalised"], *(words[i][name] for i in (0, 1) for name in ("any", "covered")))
            known_here = KNOWN_TESTS[pathlib.Path(test["file"]).name]
            check(test["file"], tuple(o if k is not None else None for o, k in zip(found, known_here)), known_here)
        print(f"decontamination: {known['rows']:,} rows, {len(hits)} hits, {figures['kept']:,} rows stay, as plain Python finds; "
              f"{seconds:.1f} s on one core")
        report("decontamination of DAPO-Math: figures, hits, lines that stay", "plain Python", "equal",
               f"{known['rows']:,} rows, {len(hits)} hits equal", True)
        report("decontamination of DAPO-Math, one core", "–", f"< {MOST_SECONDS}", f"{seconds:.1f}", seconds < MOST_SECONDS, "s")
        check(f"seconds (at most {MOST_SECONDS}), {seconds:.1f}: they", seconds < MOST_SECONDS, True)


if __name__ == "__main__":
    main()
