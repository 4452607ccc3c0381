#!/usr/bin/env python3
"""A clock of the day that leaps by years at every reading: runs keep their bits, servers and their clients their deadlines.

    clock_test.py PROGRAM JUMPING_CLOCK SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from judge_server import PROGRAM, Case, stable
from serving import Server

CLOCK, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
SMALL = ["train.steps=2", "rollout.prompts_per_step=2", "rollout.n=2", "rollout.max_new_tokens=8", "checkpoint.every=1"]
LEAPING = {"LD_PRELOAD": CLOCK}


def run(*arguments, leaping=True, **process):
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=120, cwd=SOURCE,
                          env=os.environ | (LEAPING if leaping else {}), **process)


class Clock(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def train(self, name, *settings, **process):
        words = [word for value in (*SMALL, *settings) for word in ("--set", value)]
        answer = run("train", "recipes/lab.toml", "--out", self.path / name, "--quiet", *words, **process)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def trained(self, name):
        """What a run made, but for times."""
        lines = [json.loads(line) for line in (self.path / name / "metrics.jsonl").read_text().splitlines()]
        files = [(self.path / name / "checkpoints" / "step_2" / file).read_bytes()
                 for file in ("model.safetensors", "state/optimizer.safetensors")]
        return [{key: value for key, value in line.items() if key not in ("time", "memory", "servers")} for line in lines], files

    def test_a_run_has_the_same_bits(self):
        self.train("still", leaping=False)
        self.train("leaping")
        self.assertEqual(self.trained("leaping"), self.trained("still"))
        for line in (self.path / "leaping" / "metrics.jsonl").read_text().splitlines():
            for stage, seconds in json.loads(line)["time"].items():
                self.assertTrue(0 <= seconds < 100, f"{stage}: {seconds} s")
        stamps = re.findall(r"^(\d{4})-", (self.path / "leaping" / "log.txt").read_text(), re.M)
        self.assertGreater(len(set(stamps)), 1, "the clock did not leap")

    def test_servers_and_clients_keep_their_deadlines(self):
        servers = [Server(PROGRAM, LAB / model, "--reload-root", self.path, environment=LEAPING) for model in ("base", "teacher")]
        urls = [json.dumps([server.url]) for server in servers]
        self.train("local", leaping=False)
        start = time.monotonic()
        self.train("remote", "rollout.engine=serve", f"rollout.urls={urls[0]}", "teacher.engine=serve", f"teacher.urls={urls[1]}")
        self.assertLess(time.monotonic() - start, 60)
        self.assertEqual(self.trained("remote"), self.trained("local"))
        self.assertEqual([server.end() for server in servers], [0, 0])


class Judged(Case):
    def test_a_pause_before_a_second_try_is_neither_skipped_nor_endless(self):
        """A judge that asks for one second's patience gets it."""
        self.make_run("method-A", ["w"])
        times = []

        def impatient(body, number, handler):
            times.append(time.monotonic())
            return (429, {}, [("Retry-After", "1")]) if number == 0 else stable(body, number)

        answer = self.run_judge(self.serve(impatient), "--parallel", 1, environment=LEAPING)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(len(times), 3)  # the refused one, and two passes
        self.assertGreaterEqual(times[1] - times[0], 1.0)
        self.assertLess(times[1] - times[0], 10.0)


if __name__ == "__main__":
    unittest.main()
