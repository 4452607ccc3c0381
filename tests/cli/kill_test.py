#!/usr/bin/env python3
"""Every command that writes, killed at each of its writes, and begun again: the files are those of a command that ran
to its end. ROUTEOPD_DIE_AT_WRITE (CONTRIBUTING.md) says at which.

    kill_test.py PROGRAM SOURCE_DIRECTORY [--exhaustive]

Without --exhaustive a command with many writes dies at some of them, drawn with a seed.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

EXHAUSTIVE = "--exhaustive" in sys.argv and not sys.argv.remove("--exhaustive")
HERE = pathlib.Path(__file__).resolve().parent
PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
TINY = SOURCE / "tests" / "goldens" / "tiny"
TEMPLATE = "Problem: {problem}\nSolution:"
SEED = 20
TIMES = {"time", "memory", "seconds", "machine", "requests"}  # what two runs need not have alike
MEASURED = re.compile("cost.*|report|inputs|route-construction|verdicts")  # what a study has of its measured times
SLOW = {"OMP_NUM_THREADS": "1"}  # two commands at a time


def run(command, **environment):
    return subprocess.run([PROGRAM, *map(str, command)], text=True, capture_output=True, timeout=300, cwd=SOURCE,
                          env={**os.environ, **SLOW, **environment})


def without_times(value):
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if name not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def contents(directory, name):
    """Every file below by its name: its bytes, or what JSON says but for times. A directory's own name does not count."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_dir() or path.name == "log.txt" or path.name.startswith("events.out.tfevents"):
            continue
        if name == "study" and MEASURED.fullmatch(path.stem):
            continue
        if name == "bench":
            found[path.name] = sorted(json.loads(path.read_text()))  # all of it is measured
            continue
        data = path.read_bytes()
        if path.suffix in (".json", ".jsonl", ".toml", ".html", ".md", ".csv", ".tex"):
            text = data.decode().replace(str(directory), "DIRECTORY")
            if path.suffix == ".jsonl":
                data = [without_times(json.loads(line)) for line in text.splitlines()]
            else:
                data = without_times(json.loads(text)) if path.suffix == ".json" and name != "route" else text
        found[str(path.relative_to(directory))] = data
    return found


def half_checkpoints(directory):
    """Checkpoints under their names that lack a file of their manifest."""
    return [str(step) for step in directory.rglob("step_*") if step.parent.name == "checkpoints" and ".partial" not in step.name and not (
        (step / "state" / "manifest.json").exists()
        and all((step / file).exists() for file in json.loads((step / "state" / "manifest.json").read_text())["files"]))]


class Kill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path = pathlib.Path(directory.name)
        cls.problems = cls.path / "problems.jsonl"
        lines = (LAB / "heldout.jsonl").read_text().splitlines(keepends=True)
        cls.problems.write_text("".join(lines[:3]))
        cls.train = cls.path / "train.jsonl"
        cls.train.write_text("".join(lines[1:6]))
        cls.sequences = cls.path / "sequences.jsonl"  # more than is scored together
        cls.sequences.write_text("".join(json.dumps({"id": i, "ids": [5 + i] * 250}) + "\n" for i in range(12)))
        cls.prompts = cls.path / "prompts.jsonl"
        cls.prompts.write_text("".join(json.dumps({"prompt_ids": [5 + i, 6]}) + "\n" for i in range(3)))
        cls.texts = cls.path / "texts.jsonl"
        cls.texts.write_text('{"text": "a"}\n{"text": "b"}\n')
        cls.responses = cls.path / "responses.jsonl"
        cls.responses.write_text('{"response": "\\\\boxed{4}", "answer": "4"}\n{"response": "5", "answer": 5}\n')

    def tries(self, make, name, files, again, before, most):
        """One whole run, and one for each write to die at."""
        def whole():
            place = self.path / f"{name}-whole"
            place.mkdir()
            if before:
                before(place)
            answer = run(make(place), ROUTEOPD_DIE_AT_WRITE="0")
            self.assertEqual(answer.returncode, 0, f"{name}: {answer.stderr}")
            said = re.search(r"^routeopd: (\d+) writes$", answer.stderr, re.M)
            return int(said[1]), contents(place, name)

        def killed(n):
            place = self.path / f"{name}-{n}"
            place.mkdir()
            if before:
                before(place)
            answer = run(make(place), ROUTEOPD_DIE_AT_WRITE=str(n))
            if answer.returncode != -9:
                return n, f"did not die: {answer.stderr}"
            if half := half_checkpoints(place):
                return n, f"half there under its name: {half}"
            answer = run([*make(place), *again])
            if answer.returncode == 1 and "exists already" in answer.stderr and files > 0:
                # Killed after the file had its name. Of two files the second may be missing: then they are made again.
                if files > 1:
                    answer = run([*make(place), "--overwrite"])
                else:
                    answer.returncode = 0
            if answer.returncode != 0:
                return n, answer.stderr
            found = contents(place, name)
            if found != expected:
                odd = [file for file in {*found, *expected} if found.get(file) != expected.get(file)]
                return n, f"differs in {sorted(odd)}"
            shutil.rmtree(place)
            return n, ""

        count, expected = whole()
        self.assertGreater(count, 0)
        self.assertFalse([file for file in expected if ".partial" in file], "something was left")
        numbers = list(range(1, count + 1))
        if most and not EXHAUSTIVE:
            numbers = sorted(random.Random(SEED).sample(numbers, min(most, count)))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            failures = [(n, why) for n, why in pool.map(killed, numbers) if why]
        self.assertFalse(failures, f"{name}: of {count} writes, killed at {len(numbers)}")

    def dies_everywhere(self, name, command, files=1, again=(), before=None, most=0):
        """`files`: how many files the command makes that it refuses to overwrite; 0: a directory that it goes on with."""
        self.tries(command, name, files, again, before, most)

    def test_generate(self):
        self.dies_everywhere("generate", lambda place: [
            "generate", "--model", TINY / "student", "--in", self.prompts, "--n", 2, "--max-new", 4, "--out", place / "out.jsonl"])

    def test_score(self):
        self.dies_everywhere("score", lambda place: [
            "score", "--model", LAB / "base", "--in", self.sequences, "--k", 2, "--out", place / "out.jsonl"])

    def test_tokenize(self):
        self.dies_everywhere("tokenize", lambda place: ["tokenize", LAB / "base", "--in", self.texts, "--out", place / "out.jsonl"])

    def test_grade(self):
        self.dies_everywhere("grade", lambda place: ["grade", "--in", self.responses, "--out", place / "out.jsonl"])

    def test_route(self):
        self.dies_everywhere("route", lambda place: [
            "route", "--in", SOURCE / "examples" / "states.jsonl", "--out", place / "out.jsonl"])

    def test_convert(self):
        self.dies_everywhere("convert", lambda place: ["convert", TINY / "student", place / "out"])

    def test_decontaminate(self):
        self.dies_everywhere("decontaminate", lambda place: [
            "decontaminate", "--train", self.train, "--test", self.problems, "--out", place / "out.jsonl", "--report",
            place / "hits.jsonl"], files=2)

    def test_explain(self):
        self.dies_everywhere("explain", lambda place: [
            "explain", "--student", LAB / "base", "--teacher", LAB / "teacher", "--prompt", "Problem:", "--max-new", 2, "--html",
            place / "page.html"])

    def test_report(self):
        # One run directory's worth of files, and tables beside the page.
        self.dies_everywhere("report", lambda place: [
            "report", self.evaluation(), "--out", place / "page.html", "--tables", place / "tables"], most=12)

    def test_plan(self):
        self.dies_everywhere("plan", lambda place: [
            "plan", SOURCE / "recipes" / "lab.toml", "--gpu", "H100", "--figure", place / "growth.json"])

    def test_bench(self):
        self.dies_everywhere("bench", lambda place: ["bench", "--only", "R", "--rounds", 1, "--quiet", "--out", place / "out.json"])

    def evaluation(self):
        place = self.path / "evaluation"
        if not place.exists():
            answer = run(self.evaluate(place))
            self.assertEqual(answer.returncode, 0, answer.stderr)
        return place

    def evaluate(self, place):
        return ["eval", "--model", LAB / "base", "--suite", f"heldout={self.problems}", "--out", place, "--template", TEMPLATE,
                "--n", 2, "--max-new", 8]

    def test_eval(self):
        self.dies_everywhere("eval", lambda place: self.evaluate(place / "out"), files=0)

    def test_judge(self):
        import judge_server  # reads sys.argv
        judge = judge_server.Judge(judge_server.stable)
        self.addCleanup(judge.close)
        self.dies_everywhere("judge", lambda place: [
            "judge", self.evaluation(), "--endpoint", judge.url, "--model", "m", "--key-env", "", "--parallel", 1, "--out",
            place / "out"], files=0, most=12)

    def test_probe_make(self):
        self.dies_everywhere("probe make", lambda place: [
            "probe", "make", "--student", LAB / "base", "--teacher", LAB / "teacher", "--prompts", self.problems, "--template",
            TEMPLATE, "--states", 4, "--max-new", 4, "--out", place / "bank.safetensors"])

    def test_probe_run(self):
        bank = self.path / "bank.safetensors"
        answer = run(["probe", "make", "--student", LAB / "base", "--teacher", LAB / "teacher", "--prompts", self.problems,
                      "--template", TEMPLATE, "--states", 4, "--max-new", 4, "--out", bank])
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.dies_everywhere("probe run", lambda place: [
            "probe", "run", "--bank", bank, "--student", LAB / "base", "--teacher", LAB / "teacher", "--intervention",
            "fresh_adamw", "--out", place / "out"])

    def test_lab_make(self):
        self.dies_everywhere("lab make", lambda place: [
            "lab", "make", "--out", place / "out", "--teacher-steps", 1, "--mild-steps", 1, "--student-steps", 1, "--base-steps", 1,
            "--train-prompts", 8, "--validation-problems", 4, "--heldout-problems", 4, "--teacher-hidden", 64, "--student-hidden",
            64, "--teacher-layers", 1, "--student-layers", 1], most=4)

    def test_train(self):
        self.dies_everywhere("train", lambda place: [
            "train", SOURCE / "recipes" / "lab.toml", "--out", place / "out", "--set", "train.steps=2", "--set",
            "rollout.prompts_per_step=2", "--set", "rollout.n=1", "--set", "rollout.max_new_tokens=4", "--set",
            "checkpoint.every=1", "--set", "checkpoint.keep=1", "--set", "train.rollouts=true"], files=0, again=["--resume"],
            most=24)

    def test_study(self):
        self.dies_everywhere("study", lambda place: [
            "study", "--lab", LAB, "--out", place / "out", "--steps", 1, "--problems", 2, "--samples", 1, "--seeds", 1, "--states",
            4, "--prompts-per-step", 2, "--n", 1, "--every", 1, "--rounds", 2, "--lr", "5e-5", "--arms", "sampled_rkl,routeopd",
            "--max-new", 4], files=0, most=4)


if __name__ == "__main__":
    sys.argv.insert(1, PROGRAM)  # judge_server takes it
    sys.path.insert(0, str(HERE))
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
