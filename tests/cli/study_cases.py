"""What the tests of `routeopd study` share: how small studies are called, and what is read of them.

A test is called as TEST.py PROGRAM SOURCE_DIRECTORY.
"""
import json
import pathlib
import subprocess
import sys
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
TEMPLATE = "Problem: {problem}\nSolution:"


def sized(**other):
    """Options of a study that takes a second or two, but for the ones that are said."""
    sizes = {"steps": 2, "problems": 5, "samples": 2, "seeds": 1, "states": 16, "prompts_per_step": 4, "n": 2, "every": 1,
             "rounds": 2, **other}
    return [word for name, value in sizes.items() for word in (f"--{name.replace('_', '-')}", str(value))]


SIZE = sized()
ONE_RATE = ["--lr", "5e-5"]
TINY = [*SIZE, *ONE_RATE, "--arms", "sampled_rkl,routeopd"]


def run(*arguments, **more):
    return subprocess.run([PROGRAM, "study", *map(str, arguments)], text=True, capture_output=True, timeout=300, cwd=SOURCE,
                          **more)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_time(lines):
    return [{name: value for name, value in line.items() if name not in ("time", "memory")} for line in lines]


class Case(unittest.TestCase):
    def succeeds(self, *arguments, **more):
        answer = run(*arguments, **more)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer

    def refuses(self, sentence, *arguments, code=1):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)

    def study(self, path):
        return json.loads((path / "study.json").read_text())

    def probe(self, path, name):
        return json.loads((path / "probes" / name / "probe.json").read_text())
