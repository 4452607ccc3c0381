#!/usr/bin/env python3
"""Teachers with prompts of their own, and several of them, as a user meets them, on the laboratory pair.

    teachers_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB, RECIPE = SOURCE / "lab", SOURCE / "recipes" / "lab.toml"
SMALL = ["--set", "train.steps=2", "--set", "rollout.prompts_per_step=4", "--set", "rollout.n=2", "--set",
         "rollout.max_new_tokens=48", "--set", "train.rollouts=true", "--quiet"]
WEIGHTS = "checkpoints/step_2/model.safetensors"


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=300, cwd=SOURCE)

    def succeeds(self, *arguments):
        answer = self.run_program(*arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def refuses(self, sentence, *arguments, code=1):
        answer = self.run_program(*arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)

    def prompts(self, name, change):
        """The first training prompts, each changed by its number."""
        lines = [json.loads(line) for line in (LAB / "train.jsonl").read_text().splitlines()[:12]]
        for number, line in enumerate(lines):
            change(number, line)
        path = self.path / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def recipe(self, teachers):
        """The laboratory's recipe with these teachers."""
        text = RECIPE.read_text().replace('[teacher]\npath = "lab/teacher"\n', teachers)
        assert teachers in text
        path = self.path / "recipe.toml"
        path.write_text(text)
        return path

    def lines(self, *parts):
        return [json.loads(line) for line in self.path.joinpath(*parts).read_text().splitlines()]


TWO = '[teachers]\ndefault = "a"\n[teachers.a]\npath = "lab/teacher"\n[teachers.b]\npath = "lab/teacher"\n'


def hint(number, line):
    line["teacher_prompt"] = f"Problem: {line['problem']} The answer is {line['answer']}.\nSolution:"


class OwnPrompt(Case):
    def test_a_student_learns_from_itself_with_a_hint(self):
        itself = ["train", RECIPE, *SMALL, "--set", "teacher.path=lab/base"]
        plain = self.prompts("plain.jsonl", lambda number, line: None)
        self.refuses("give this one a prompt of its own", *itself, "--set", f"data.prompts={plain}", "--out",
                     self.path / "none")
        self.assertFalse((self.path / "none").exists())
        hints = self.prompts("hints.jsonl", hint)
        self.succeeds(*itself, "--set", f"data.prompts={hints}", "--set", "probe.every=1", "--set", "probe.states=16",
                      "--out", self.path / "run")
        metrics = self.lines("run", "metrics.jsonl")
        self.assertGreater(metrics[0]["mass"], 1e-3)
        self.assertIsNone(metrics[0]["teachers"])
        self.assertGreater(self.lines("run", "probe.jsonl")[0]["mass"], 1e-3, "the probe's teacher reads the hint")
        self.assertNotEqual((self.path / "run" / WEIGHTS).read_bytes(), (LAB / "base/model.safetensors").read_bytes())
        by_id = {line["id"]: line for line in self.lines("hints.jsonl")}
        for line in self.lines("run", "rollouts.jsonl"):
            self.assertEqual(line["teacher_prompt"], by_id[line["id"]]["teacher_prompt"])
            self.assertTrue(line["teacher_prompt_ids"])

    def test_a_hint_that_is_too_long_is_counted_in_the_plan(self):
        def long_hints(number, line):
            if number < 2:
                line["teacher_prompt_ids"] = [5] * 5000
        prompts = self.prompts("long.jsonl", long_hints)
        plan = json.loads(self.succeeds("train", RECIPE, "--set", f"data.prompts={prompts}", "--set",
                                        "rollout.prompts_per_step=4", "--dry-run", "--json"))
        self.assertEqual((plan["prompts"], plan["prompts_too_long"]), (10, 2))

    def test_a_wrong_line_is_named(self):
        def wrong(number, line):
            if number == 3:
                line["teacher_prompt_ids"] = [1, 100000]
        self.refuses("the teacher's prompt of train-3 has id 100000, outside the tokenizer's", "train", RECIPE, *SMALL,
                     "--set", f"data.prompts={self.prompts('wrong.jsonl', wrong)}", "--out", self.path / "run")

        def chat(number, line):
            if number == 3:
                line["teacher_messages"] = [{"role": "user", "content": "x"}]
        path = self.prompts("chat.jsonl", chat)
        self.refuses(f"{path}:4: teacher_messages: no model's directory has a chat template", "train", RECIPE, *SMALL,
                     "--set", f"data.prompts={path}", "--out", self.path / "run")


class Several(Case):
    def train(self, name, *arguments):
        self.succeeds("train", *arguments, *SMALL, "--out", self.path / name)

    def test_two_names_of_one_teacher_train_as_one_and_resume(self):
        prompts = self.prompts("both.jsonl", lambda number, line: line.update({"teacher": "b"} if number % 2 else {}))
        # [teacher] refuses a line that names one, so the plain run has the same prompts without names.
        plain = self.prompts("plain.jsonl", lambda number, line: None)
        recipe = self.recipe(TWO)
        self.train("one", RECIPE, "--set", f"data.prompts={plain}")
        self.train("two", recipe, "--set", f"data.prompts={prompts}")
        self.assertEqual((self.path / "one" / WEIGHTS).read_bytes(), (self.path / "two" / WEIGHTS).read_bytes())
        for line in self.lines("two", "metrics.jsonl"):
            self.assertEqual(set(line["teachers"]), {"a", "b"})
            self.assertEqual(sum(t["states"] for t in line["teachers"].values()), line["tokens"])
        names = {line["teacher"] for line in self.lines("two", "rollouts.jsonl")}
        self.assertEqual(names, {"a", "b"})
        shutil.rmtree(self.path / "two" / "checkpoints" / "step_2")
        self.succeeds("train", recipe, "--set", f"data.prompts={prompts}", *SMALL, "--out", self.path / "two", "--resume")
        self.assertEqual((self.path / "one" / WEIGHTS).read_bytes(), (self.path / "two" / WEIGHTS).read_bytes())
        # The run's own recipe is one.
        self.train("again", self.path / "two" / "recipe.toml")
        self.assertEqual((self.path / "one" / WEIGHTS).read_bytes(), (self.path / "again" / WEIGHTS).read_bytes())

    def test_what_cannot_be_is_said_before_anything_runs(self):
        out = ["--out", self.path / "run"]
        recipe = self.recipe(TWO)
        for sentence, settings in (
                ("[teacher]: the recipe has [teachers.a] too", ["teacher.path=lab/teacher"]),
                ("[objective] arm: full_rkl reads one teacher's whole vocabulary", ["objective.arm=full_rkl"]),
                ("[objective] k: \"full\" reads one teacher's", ["objective.k=full"]),
                ("[probe] bank: a bank is of one teacher", ["probe.every=1", "probe.bank=x"]),
                ("there is no [teachers.c]; did you mean", ["teachers.default=c"]),
                ("[teachers.a] unknown option pth; did you mean path?", ["teachers.a.pth=x"]),
                ("[teachers.b] path: the pair is not compatible", ["teachers.b.path=lab/lists/teacher"])):
            self.refuses(sentence, "train", recipe, *out, *[w for s in settings for w in ("--set", s)],
                         code=2 if "unknown option" in sentence else 1)
            self.assertFalse((self.path / "run").exists())
        path = self.prompts("some.jsonl", lambda number, line: line.update({"teacher": "a"} if number < 5 else {}))
        self.refuses(f"{path}:6: teacher: missing; expected one of a, b", "train", recipe, *out, "--set",
                     "teachers.default=", "--set", f"data.prompts={path}")
        path = self.prompts("other.jsonl", lambda number, line: line.update({"teacher": "c"} if number == 1 else {}))
        self.refuses(f"{path}:2: teacher: expected one of a, b, got c", "train", recipe, *out, "--set",
                     f"data.prompts={path}")
        self.refuses("[teachers]: a study compares arms with one teacher", "study", "main", recipe, "--dry-run")

    def test_the_plan_counts_every_teacher(self):
        one = json.loads(self.succeeds("train", RECIPE, "--dry-run", "--json"))
        two = json.loads(self.succeeds("train", self.recipe(TWO), "--dry-run", "--json"))
        self.assertEqual(two["teacher_parameters"], 2 * one["teacher_parameters"])
        for name in ("a", "b"):
            self.assertEqual(two["memory"][f"teacher {name}"], one["memory"]["teacher"])
            self.assertEqual(two["memory"][f"teacher {name}, for the engine"], one["memory"]["teacher, for the engine"])
        self.assertIn("teachers.b", self.succeeds("train", self.recipe(TWO), "--dry-run"))


class Explain(Case):
    ASKED = ("explain", "--student", LAB / "base", "--template", "Problem: {problem}\nSolution:", "--prompt",
             "Mia has 3 eggs. Then Mia buys 2 and loses 1. How many eggs are left?", "--max-new", 24)
    HINT = "Mia has 3 eggs. Then Mia buys 2 and loses 1. How many eggs are left? It is 4 <b>."

    def test_both_prompts_are_shown(self):
        # The student as its own teacher: all that differs is the hint.
        same = json.loads(self.succeeds(*self.ASKED, "--teacher", LAB / "base", "--json"))
        self.assertNotIn("teacher_prompt", same)
        self.assertLess(max(token["mass"] for token in same["tokens"]), 1e-5)
        told = json.loads(self.succeeds(*self.ASKED, "--teacher", LAB / "base", "--teacher-prompt", self.HINT, "--json"))
        self.assertEqual(told["prompt"], same["prompt"])
        self.assertEqual([t["id"] for t in told["tokens"]], [t["id"] for t in same["tokens"]])
        self.assertEqual(told["teacher_prompt"], f"Problem: {self.HINT}\nSolution:")
        self.assertEqual(told["teacher_prompt_tokens"], len(told["teacher_prompt_ids"]))
        self.assertGreater(max(token["mass"] for token in told["tokens"]), 1e-3)
        text = self.succeeds(*self.ASKED, "--teacher", LAB / "base", "--teacher-prompt", self.HINT)
        for words in ("The student reads:\nProblem: Mia", "The teacher reads:\nProblem: Mia", "It is 4 <b>.", "the teacher's of"):
            self.assertIn(words, text)
        page = self.path / "page.html"
        self.succeeds(*self.ASKED, "--teacher", LAB / "base", "--teacher-prompt", self.HINT, "--html", page, "--quiet")
        self.assertIn("The teacher&#39;s prompt</summary>", page.read_text())
        self.assertIn("It is 4 &lt;b&gt;.", page.read_text())

    def test_a_prompt_without_tokens_is_refused(self):
        self.refuses("--teacher-prompt: has no tokens", "explain", "--student", LAB / "base", "--teacher", LAB / "teacher",
                     "--prompt", "x", "--teacher-prompt", "")


if __name__ == "__main__":
    unittest.main()
