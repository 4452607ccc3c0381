#!/usr/bin/env python3
"""What a run of ctest ran: GoogleTest cases, script checks and skips, and every entry that took longer than 10 s.

    scripts/test_summary.py BUILD [--at-least N]

reads BUILD/Testing/Temporary/LastTest.log, where ctest keeps what each entry printed. A GoogleTest case is one that its
program counts as passed, a script check a test method of a Python script (or one that a script counts by itself, as
"N checks", or pytest). With --at-least, exits with 1 when fewer ran.
"""
import argparse
import pathlib
import re
import sys

SLOW_SECONDS = 10

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--at-least", type=int, default=0)
arguments = parser.parse_args()

log = (arguments.build / "Testing/Temporary/LastTest.log").read_text(errors="replace")
entries = re.split(r"^\d+/\d+ Testing: ", log, flags=re.M)[1:]
cases = checks = skipped = 0
slow = []
for entry in entries:
    name = entry.split("\n", 1)[0]
    cases += sum(map(int, re.findall(r"^\[  PASSED  \] (\d+) tests?\.$", entry, re.M)))
    checks += sum(map(int, re.findall(r"^Ran (\d+) tests? in ", entry, re.M)))
    checks += sum(map(int, re.findall(r"^(\d+) checks$", entry, re.M)))
    checks += sum(map(int, re.findall(r"^(?:\d+ failed, )?(\d+) passed\b.* in [\d.]+s", entry, re.M)))
    skipped += sum(map(int, re.findall(r"^(?:\d+ \w+, )*(\d+) skipped\b.* in [\d.]+s", entry, re.M)))
    skipped += sum(map(int, re.findall(r"^\[  SKIPPED \] (\d+) tests?, listed below:$", entry, re.M)))
    not_run = sum(map(int, re.findall(r"^OK \(skipped=(\d+)\)$", entry, re.M)))
    skipped, checks = skipped + not_run, checks - not_run
    seconds = re.search(r"^Test time = +([\d.]+) sec$", entry, re.M)
    if seconds and float(seconds[1]) > SLOW_SECONDS:
        slow.append((float(seconds[1]), name))

print(f"\n{cases} GoogleTest cases and {checks} script checks ran in {len(entries)} entries; {skipped} skipped.")
print(f"Longer than {SLOW_SECONDS} s:" if slow else f"Nothing took longer than {SLOW_SECONDS} s.")
for seconds, name in sorted(slow, reverse=True):
    print(f"  {seconds:6.1f} s  {name}")
if cases + checks < arguments.at_least:
    print(f"test_summary: expected at least {arguments.at_least} cases and checks, got {cases + checks}", file=sys.stderr)
    sys.exit(1)
