#!/usr/bin/env python3
"""Evaluations that are stopped, killed and gone on with, checkpoints of a run, and comparisons, as a user meets them.

    eval_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
PROTOCOL = ["--template", "Problem: {problem}\nSolution:", "--max-new", "80"]
FILES = ("responses.jsonl", "problems.jsonl", "summary.json")


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=300, cwd=SOURCE)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        problems = (LAB / "heldout.jsonl").read_text().splitlines(keepends=True)
        self.suite("one", problems[:12])
        self.suite("two", problems[12:17])

    def suite(self, name, lines):
        (self.path / f"{name}.jsonl").write_text("".join(lines))

    def arguments(self, out, *more, model="base", n=6):
        return ["eval", "--model", LAB / model, "--suite", self.path / "one.jsonl", "--suite",
                f"second={self.path / 'two.jsonl'}", "--out", self.path / out, "--n", n, *PROTOCOL, *more]

    def evaluate(self, out, *more, **how):
        return self.succeeds(*self.arguments(out, *more, **how))

    def succeeds(self, *arguments):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer

    def refuses(self, sentence, *arguments, code=1):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)

    def refuses_at_last(self, sentence, *arguments):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn(sentence, answer.stderr.splitlines()[-1])

    def assert_same(self, one, other):
        for name in FILES:
            self.assertEqual((self.path / one / name).read_bytes(), (self.path / other / name).read_bytes(), name)
        self.assertEqual(sorted(p.name for p in (self.path / one).iterdir()), sorted(FILES))


class Stopped(Case):
    def stop(self, out, sign, lines, n=200):
        """Lets it write some lines, then sends the signal."""
        process = subprocess.Popen([PROGRAM, *map(str, self.arguments(out, n=n))], stderr=subprocess.PIPE, text=True, cwd=SOURCE)
        responses = self.path / out / "responses.jsonl"
        for _ in range(6000):
            if responses.exists() and responses.read_bytes().count(b"\n") >= lines:
                break
            time.sleep(0.002)
        process.send_signal(sign)
        process.communicate(timeout=60)
        self.assertTrue((self.path / out / "protocol.json").exists(), "it was done before it could be stopped")
        return process.returncode

    def test_goes_on_to_the_same_bytes(self):
        self.evaluate("whole", "--quiet", n=200)
        self.assertEqual(self.stop("stopped", signal.SIGINT, 1), 130)
        self.assertEqual(self.stop("stopped", signal.SIGKILL, 900), -signal.SIGKILL)
        with open(self.path / "stopped" / "responses.jsonl", "a") as file:
            file.write('{"suite":"one","problem":"')  # a line that a killed process did not finish
        there = (self.path / "stopped" / "responses.jsonl").read_bytes().count(b"\n")
        answer = self.evaluate("stopped", n=200)
        self.assertIn(f"resumes with the {there} of 3400 responses", answer.stderr)
        self.assert_same("stopped", "whole")

    def test_another_protocol_is_refused_by_name(self):
        self.stop("stopped", signal.SIGKILL, 1)
        before = (self.path / "stopped" / "responses.jsonl").read_bytes()
        self.refuses("another decoding.temperature", *self.arguments("stopped", "--temperature", 0.5, n=200))
        self.refuses("another model.weights", *self.arguments("stopped", model="teacher", n=200))
        self.suite("one", (LAB / "heldout.jsonl").read_text().splitlines(keepends=True)[:11])
        self.refuses("another suites.one.sha256", *self.arguments("stopped", n=200))
        self.assertEqual((self.path / "stopped" / "responses.jsonl").read_bytes(), before)

    def test_a_file_that_is_not_ours_is_refused(self):
        self.stop("stopped", signal.SIGKILL, 1)
        responses = self.path / "stopped" / "responses.jsonl"
        first = responses.read_text().splitlines(keepends=True)[0]
        responses.write_text(first + first)
        self.refuses("responses.jsonl:2", *self.arguments("stopped", n=200))
        responses.write_text(first.replace('"sample":', '"sample":999'))
        self.refuses("is not in the suite", *self.arguments("stopped", n=200))


    def test_killed_while_the_first_file_was_written(self):
        (self.path / "out").mkdir()
        (self.path / "out" / "protocol.json.partial-77").write_text("{")
        self.evaluate("out", "--quiet")
        self.assertEqual(sorted(p.name for p in (self.path / "out").iterdir()), sorted(FILES))

    def test_a_complete_one_is_shown_in_any_form_and_in_any_order(self):
        first = self.evaluate("out").stdout
        other = ["eval", "--model", LAB / "base", "--suite", f"second={self.path / 'two.jsonl'}", "--suite",
                 self.path / "one.jsonl", "--out", self.path / "out", "--n", 6, *PROTOCOL]
        self.assertEqual(self.succeeds(*other).stdout, first)
        self.assertIn("\\toprule", self.evaluate("out", "--latex").stdout)

    def test_what_cannot_be_printed_is_no_success(self):
        self.evaluate("out", "--quiet")
        with open("/dev/full", "w") as full:
            for command in (self.arguments("out"), ["compare", self.path / "out", self.path / "out"]):
                answer = subprocess.run([PROGRAM, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True, cwd=SOURCE)
                self.assertEqual(answer.returncode, 1, command)
                self.assertIn("standard output: cannot be written", answer.stderr)


class Figures(Case):
    def test_summary_and_problems_say_what_the_responses_say(self):
        self.evaluate("out", "--quiet", n=5)
        responses, problems = lines_of(self.path / "out" / "responses.jsonl"), lines_of(self.path / "out" / "problems.jsonl")
        summary = json.loads((self.path / "out" / "summary.json").read_text())
        self.assertEqual([(r["suite"], r["sample"]) for r in responses], [("one", s % 5) for s in range(60)] +
                         [("second", s % 5) for s in range(25)])
        self.assertEqual(len(problems), 17)
        for problem in problems:
            own = [r for r in responses if (r["suite"], r["problem"]) == (problem["suite"], problem["problem"])]
            right = sum(r["correct"] for r in own)
            self.assertEqual((problem["samples"], problem["right"], problem["avg"]), (5, right, right / 5))
            self.assertEqual(problem["pass@k"]["5"], float(right > 0))
            self.assertAlmostEqual(problem["pass@k"]["1"], right / 5)
            self.assertAlmostEqual(problem["tokens"], statistics.mean(r["tokens"] for r in own))
        for name in ("one", "second"):
            suite, own = summary["suites"][name], [r for r in responses if r["suite"] == name]
            self.assertAlmostEqual(suite["avg"], statistics.mean(r["correct"] for r in own))
            self.assertAlmostEqual(suite["format_rate"], statistics.mean(r["format_ok"] for r in own))
            self.assertAlmostEqual(suite["clip_rate"], statistics.mean(r["clipped"] for r in own))
            self.assertEqual(suite["length"]["p50"], statistics.median(r["tokens"] for r in own))
            self.assertEqual(sorted(suite["maj@k"]), ["1", "2", "4", "5"])
        for field in ("avg", "clip_rate", "format_rate"):
            self.assertAlmostEqual(summary["average"][field],
                                   statistics.mean(s[field] for s in summary["suites"].values()))
        self.assertEqual(summary["avg"], summary["average"]["avg"])

    def test_tables_for_pages_and_papers(self):
        self.assertIn("| one | 12 |", self.evaluate("a", "--markdown").stdout)
        self.assertIn("\\midrule\none & 12 & ", self.evaluate("b", "--latex", model="teacher").stdout)
        self.assertIn("\\toprule\nsuite & problems & samples & A & B & B-A & 95 \\% interval",
                      self.succeeds("compare", self.path / "a", self.path / "b", "--latex").stdout)
        self.refuses("--markdown", *self.arguments("c", "--latex", "--markdown"), code=2)

    def test_bad_suites_are_refused_before_anything_is_written(self):
        line = (LAB / "heldout.jsonl").read_text().splitlines(keepends=True)[0]
        self.suite("one", [line, line])
        self.refuses("expected each id once", *self.arguments("out"))
        self.suite("one", [])
        self.refuses("no prompts", *self.arguments("out"))
        self.suite("one", ['{"id":"x","problem":"1+1"}\n'])
        self.refuses("problem x has no answer", *self.arguments("out"))
        self.refuses("either --model DIR or --checkpoints RUN", "eval", "--suite", "x", "--out", self.path / "out", code=2)
        self.assertFalse((self.path / "out").exists())


class GradedAgain(Case):
    def make_older(self, out, stopped=False):
        """The directory as an older extractor would have left it: other grades, another name, and all else alike."""
        directory = self.path / out
        lines = lines_of(directory / "responses.jsonl")
        for line in lines:
            line.update(extracted="x", correct=False, format_ok=True)
        (directory / "responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        summary = json.loads((directory / "summary.json").read_text())
        self.assertEqual(summary["extractor"], "math-3")
        summary["extractor"] = "math-2"
        summary["avg"] = 0.0
        for suite in summary["suites"].values():
            suite["avg"] = 0.0
        (directory / "summary.json").write_text(json.dumps(summary))
        if stopped:
            (directory / "summary.json").rename(directory / "protocol.json")
            with open(directory / "responses.jsonl", "a") as file:
                file.write('{"suite":"one","prob')

    def test_the_same_command_grades_again_and_samples_nothing(self):
        self.evaluate("whole", "--quiet")
        for stopped in (False, True):
            out = f"older-{stopped}"
            self.evaluate(out, "--quiet")
            self.make_older(out, stopped)
            if not stopped:
                self.refuses(f'extractor is "math-2" in the first and "math-3" in the second; run the `routeopd eval` '
                             f'command of {self.path / out} again', "compare", self.path / out, self.path / "whole")
            self.refuses("another decoding.temperature", *self.arguments(out, "--temperature", 0.5))
            answer = self.evaluate(out)
            self.assertIn("its responses are graded again, by math-3", answer.stderr)
            self.assert_same(out, "whole")
        self.succeeds("compare", self.path / "older-False", self.path / "whole")

    def test_a_prompt_that_ends_in_a_thought(self):
        arguments = self.arguments("out", "--quiet")
        arguments[arguments.index("--template") + 1] = "Problem: {problem}\nSolution:<think>\n"
        self.succeeds(*arguments)
        responses = lines_of(self.path / "out" / "responses.jsonl")
        self.assertEqual({(r["extracted"], r["correct"], r["format_ok"]) for r in responses}, {("", False, False)})
        # They do give answers, if one takes thoughts for them.
        lines = "".join(json.dumps({"response": r["response"], "answer": "1"}) + "\n" for r in responses)
        graded = subprocess.run([PROGRAM, "grade"], input=lines, text=True, capture_output=True, timeout=60).stdout
        self.assertIn('"format_ok":true', graded)

    def test_what_closes_a_thought_need_not_stand_in_its_text(self):
        """Where </think> is a special token, the text is without it."""
        arguments = self.arguments("out", "--quiet")
        arguments[arguments.index("--template") + 1] = "Problem: {problem}\nSolution:<think>\n"
        self.succeeds(*arguments)
        path = self.path / "out" / "responses.jsonl"
        lines = lines_of(path)
        self.assertEqual({line["in_thought"] for line in lines}, {True})
        closed = {(line["suite"], line["problem"], line["sample"]) for line in lines[::2]}
        for line in lines[::2]:
            line["in_thought"] = False
        for line in lines:
            line["response"] = "\\boxed{1}"
        del lines[1]["in_thought"]  # as older builds wrote it: the prompt decides
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.make_older("out")
        self.succeeds(*arguments)
        self.assertEqual({(line["suite"], line["problem"], line["sample"]) for line in lines_of(path) if line["format_ok"]},
                         closed)


class Checkpoints(Case):
    def test_every_checkpoint_under_one_protocol(self):
        self.succeeds("train", SOURCE / "recipes" / "lab.toml", "--out", self.path / "run", "--set", "train.steps=3",
                      "--set", "rollout.prompts_per_step=4", "--set", "rollout.n=2", "--set", "checkpoint.every=1",
                      "--set", "checkpoint.keep=2", "--quiet")
        arguments = ["eval", "--checkpoints", self.path / "run", "--suite", self.path / "one.jsonl", "--out",
                     self.path / "out", "--n", 4, *PROTOCOL]
        answer = self.succeeds(*arguments)
        self.assertIn("1 planned checkpoint is not there: 1", answer.stderr)
        trajectory = json.loads((self.path / "out" / "trajectory.json").read_text())
        self.assertEqual([point["step"] for point in trajectory["points"]], [2, 3])
        self.assertEqual(trajectory["not_there"], [1])
        for point in trajectory["points"]:
            directory = self.path / "out" / f"step_{point['step']}"
            summary = json.loads((directory / "summary.json").read_text())
            self.assertEqual(point["avg"], summary["avg"])
            self.assertEqual(summary["model"]["step"], point["step"])
        self.succeeds("compare", self.path / "out" / "step_2", self.path / "out" / "step_3")
        again = self.succeeds(*arguments)
        self.assertEqual(again.stdout, answer.stdout)
        self.assertEqual(again.stderr.count("nothing is sampled"), 2)
        self.refuses_at_last("another decoding.n", *[a if a != 4 else 2 for a in arguments])
        self.refuses_at_last("another suites.other", *[a if a != self.path / "one.jsonl" else f"other={a}" for a in arguments])
        self.refuses("has no checkpoints/step_N", "eval", "--checkpoints", self.path, "--suite", self.path / "one.jsonl",
                     "--out", self.path / "none", *PROTOCOL)


class Pairs(Case):
    def test_the_mean_over_pairs(self):
        for name, model in (("a", "base"), ("b", "teacher")):
            self.evaluate(name, "--quiet", model=model)
            self.evaluate(f"{name}7", "--quiet", "--seed", 7, model=model)
        pairs = ["--pair", self.path / "a", self.path / "b", "--pair", self.path / "a7", self.path / "b7"]
        answer = json.loads(self.succeeds("compare", *pairs, "--json").stdout)
        means = [pair["contrast"]["mean"] for pair in answer["pairs"]]
        self.assertAlmostEqual(answer["macro"]["contrast"]["mean"], statistics.mean(means))
        self.assertEqual(answer["macro"]["pairs"], 2)
        single = json.loads(self.succeeds("compare", self.path / "a", self.path / "b", "--json").stdout)
        self.assertEqual(answer["pairs"][0], single)
        self.assertIn("macro average", self.succeeds("compare", *pairs).stdout)
        # A run beside itself: the mean is the pair's own, and so is the interval, for the draws are the same.
        twice = json.loads(self.succeeds("compare", *(2 * pairs[:3]), "--json").stdout)
        self.assertEqual(twice["macro"]["contrast"], single["contrast"])
        self.refuses("seed", "compare", self.path / "a", self.path / "a7")
        self.refuses("two or more eval directories", "compare", self.path / "a", code=2)
        three = json.loads(self.succeeds("compare", self.path / "a", self.path / "b", self.path / "a", "--json").stdout)
        self.assertEqual(three["comparisons"][0], single)
        self.assertEqual(single["bootstrap"], {"seed": 42, "draws": 10000, "level": 0.95})
        responses = self.path / "a" / "responses.jsonl"
        responses.write_text(responses.read_text().replace('"correct":false', '"correct":true', 1))
        self.refuses("was one of them edited?", "compare", self.path / "a", self.path / "b")


if __name__ == "__main__":
    unittest.main()
