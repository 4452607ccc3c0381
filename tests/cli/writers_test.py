#!/usr/bin/env python3
"""Commands that make one file: an earlier one is neither replaced unasked nor lost by a failure; nothing half there is
taken for whole.

    writers_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
TINY = SOURCE / "tests" / "goldens" / "tiny"
TEMPLATE = "Problem: {problem}\nSolution:"


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=300, cwd=SOURCE)


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def file(self, name, *lines):
        (self.path / name).write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return self.path / name

    def succeeds(self, *arguments):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer

    def refuses(self, sentence, *arguments):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)


class OneFile(Case):
    def commands(self):
        """Name, arguments but the file's option, and that option; all take less than a second."""
        problems = self.file("problems.jsonl", {"problem": "What is 2 + 2?", "answer": "4"})
        prompts = self.file("prompts.jsonl", {"prompt_ids": [5, 6]})
        evaluation = self.path / "evaluation"
        evaluation.mkdir()
        (evaluation / "metrics.jsonl").write_text('{"step": 1}\n')
        return [
            (["generate", "--model", TINY / "student", "--in", prompts, "--max-new", 2], "--out"),
            (["score", "--model", TINY / "student", "--in", self.file("ids.jsonl", {"ids": [1, 2, 3]}), "--k", 2], "--out"),
            (["tokenize", LAB / "base", "--in", self.file("texts.jsonl", {"text": "a"})], "--out"),
            (["grade", "--in", self.file("answers.jsonl", {"response": "4", "answer": "4"})], "--out"),
            (["route", "--in", SOURCE / "examples" / "states.jsonl"], "--out"),
            (["decontaminate", "--train", LAB / "validation.jsonl", "--test", problems], "--out"),
            (["decontaminate", "--train", LAB / "validation.jsonl", "--test", problems], "--report"),
            (["explain", "--student", LAB / "base", "--teacher", LAB / "teacher", "--prompt", "a", "--max-new", 1], "--html"),
            (["plan", "recipes/lab.toml", "--gpu", "H100"], "--figure"),
            (["probe", "make", "--student", LAB / "base", "--teacher", LAB / "teacher", "--prompts", problems, "--template",
              TEMPLATE, "--states", 2, "--max-new", 2], "--out"),
            (["report", evaluation], "--out")]

    def test_a_file_that_is_there_is_refused_unless_it_is_to_be_replaced(self):
        for number, (command, option) in enumerate(self.commands()):
            with self.subTest(command=command[0], option=option):
                out = self.path / f"out-{number}.json"
                out.write_text("precious\n")
                self.refuses("exists already; nothing was overwritten, choose another name or say --overwrite", *command, option,
                             out)
                self.assertEqual(out.read_text(), "precious\n")
                self.succeeds(*command, option, out, "--overwrite")
                self.assertNotEqual(out.read_text(errors="replace"), "precious\n")
                self.assertEqual([path.name for path in self.path.iterdir() if "partial" in path.name], [])

    def test_a_command_that_fails_leaves_the_file(self):
        bad = self.file("bad.jsonl", {"ids": [1, 2]}, {"ids": [1, 10**7]})
        for command in (["score", "--model", TINY / "student", "--in", bad, "--quiet"],
                        ["generate", "--model", TINY / "student", "--in", bad, "--quiet"],
                        ["route", "--in", self.file("none.jsonl")],
                        ["tokenize", self.path, "--in", bad],
                        ["report", self.path / "nothing"]):
            with self.subTest(command=command[0]):
                out = self.path / f"{command[0]}.jsonl"
                out.write_text("precious\n")
                self.assertEqual(run(*command, "--out", out, "--overwrite").returncode, 1)
                self.assertEqual(out.read_text(), "precious\n")

    def test_a_page_of_rows_is_not_taken_for_another_commands(self):
        out = self.path / "out.jsonl"
        (self.path / "out.jsonl.partial").write_text('{"id": 1}\n')
        for command in (["route", "--in", SOURCE / "examples" / "states.jsonl"],
                        ["score", "--model", TINY / "student", "--in", self.file("ids.jsonl", {"ids": [1, 2, 3]})]):
            self.refuses("remove the file and out.jsonl.partial.json, or name another file", *command, "--out", out)
        self.assertEqual((self.path / "out.jsonl.partial").read_text(), '{"id": 1}\n')

    def test_scores_go_on_with_the_same_totals(self):
        given = self.file("in.jsonl", *({"id": i, "ids": [5 + i] * 250} for i in range(20)))
        command = ["score", "--model", LAB / "base", "--in", given, "--k", 2, "--json", "--quiet", "--out"]
        said = self.succeeds(*command, self.path / "whole.jsonl").stdout
        whole = (self.path / "whole.jsonl").read_text()
        stopped = subprocess.run([PROGRAM, *map(str, command), str(self.path / "cut.jsonl")], env={"ROUTEOPD_DIE_AT_WRITE": "18"},
                                 capture_output=True, timeout=100)
        self.assertEqual(stopped.returncode, -9)
        kept = (self.path / "cut.jsonl.partial").read_text().count("\n")
        self.assertTrue(0 < kept < 20, kept)
        self.assertEqual(self.succeeds(*command, self.path / "cut.jsonl").stdout, said)
        self.assertEqual((self.path / "cut.jsonl").read_text(), whole)


class Runs(Case):
    TRAIN = ["train", "recipes/lab.toml", "--set", "train.steps=6", "--set", "rollout.prompts_per_step=2", "--set", "rollout.n=1",
             "--set", "rollout.max_new_tokens=8", "--set", "checkpoint.every=3", "--quiet"]

    def test_missing_lines_are_named_and_accepted_when_asked(self):
        out = self.path / "run"
        self.succeeds(*self.TRAIN, "--out", out)
        shutil.rmtree(out / "checkpoints" / "step_6")
        lines = (out / "metrics.jsonl").read_text().splitlines(keepends=True)
        (out / "metrics.jsonl").write_text("".join(lines[2:]))  # of steps 3 to 6
        before = (out / "metrics.jsonl").read_text()
        self.refuses("the lines of steps 1 to 2 are missing, of the 3 that are done; restore the file, or go on without them by "
                     f"`routeopd train {out}/recipe.toml --resume --allow-gaps`", *self.TRAIN, "--out", out, "--resume")
        self.assertEqual((out / "metrics.jsonl").read_text(), before)
        self.succeeds("train", out / "recipe.toml", "--resume", "--allow-gaps", "--quiet")
        self.assertEqual([json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()], [3, 4, 5, 6])
        self.assertIn("metrics.jsonl lacks the lines of steps 1 to 2", (out / "log.txt").read_text())

    def test_what_is_half_there_is_no_checkpoint(self):
        out = self.path / "run"
        self.succeeds(*self.TRAIN, "--out", out)
        half = out / "checkpoints" / "step_4.partial-77"  # of a process that was killed while it removed step 4
        half.mkdir()
        shutil.copy(out / "checkpoints" / "step_3" / "config.json", half)
        problems = self.file("problems.jsonl", *(LAB / "heldout.jsonl").read_text().splitlines()[:1])
        answer = self.succeeds("eval", "--checkpoints", out, "--suite", problems, "--out", self.path / "eval", "--template", TEMPLATE,
                               "--n", 1, "--max-new", 4, "--json", "--quiet")
        self.assertEqual([point["step"] for point in json.loads(answer.stdout)["points"]], [3, 6])
        self.assertTrue(half.exists())  # eval holds another place
        (out / "checkpoints" / "step_3.partial-12345x").mkdir()
        self.succeeds(*self.TRAIN, "--out", out, "--resume")
        self.assertFalse(half.exists())


if __name__ == "__main__":
    unittest.main()
