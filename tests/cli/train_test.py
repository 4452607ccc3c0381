#!/usr/bin/env python3
"""train, generate, eval, compare and lab as a user meets them, on the laboratory pair.

    train_test.py PROGRAM SOURCE_DIRECTORY
"""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB, RECIPE = SOURCE / "lab", SOURCE / "recipes" / "lab.toml"
TEMPLATE = "Problem: {problem}\nSolution:"
SMALL = ["--set", "train.steps=2", "--set", "rollout.prompts_per_step=4", "--set", "rollout.n=2"]


def run(*arguments, stdin="", timeout=300):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, text=True, capture_output=True, timeout=timeout,
                          cwd=SOURCE)


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def succeeds(self, *arguments, **more):
        answer = run(*arguments, **more)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer

    def refuses(self, sentence, *arguments, code=1):
        answer = run(*arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)


class Help(Case):
    def test_every_command_has_help_with_an_example(self):
        for command in (["train"], ["generate"], ["eval"], ["compare"], ["lab"], ["lab", "make"], ["study"],
                        ["study", "main"]):
            text = self.succeeds(*command, "--help").stdout
            self.assertIn("Example", text)
            self.assertIn("routeopd " + " ".join(command), text)


class Device(Case):
    def test_one_that_is_not_there_is_refused_and_can_be_planned(self):
        def on(name):
            return ("train", RECIPE, "--out", self.path / "run", *SMALL, "--set", f"student.device={name}")

        self.refuses('[student] device: "cuda:99" is not there', *on("cuda:99"))
        self.refuses('[student] device: expected "cpu", "cuda" or "cuda:N", got "gpu"', *on("gpu"))
        self.assertFalse((self.path / "run").exists())
        shown = self.succeeds(*on("cuda:99"), "--dry-run").stdout
        host, device = shown.split("Memory of the host\n")[1].split("Memory of cuda:99\n")
        for part in ("student", "keys and values, rollout", "teacher", "together"):
            self.assertIn(f"\n  {part} ", "\n" + host)
        for part in ("student", "gradients", "AdamW", "activations", "rows of the head", "together"):
            self.assertIn(f"\n  {part} ", "\n" + device)
        plan = json.loads(self.succeeds(*on("cuda:99"), "--dry-run", "--json").stdout)
        self.assertEqual(sum(plan["device_memory"].values()), plan["device_total_bytes"])
        self.assertEqual(plan["device_memory"]["AdamW"], 8 * plan["student_parameters"])
        alone = json.loads(self.succeeds(*on("cpu"), "--dry-run", "--json").stdout)
        self.assertEqual(alone["device_memory"], {})


class Train(Case):
    def train(self, name, *more):
        return self.succeeds("train", RECIPE, "--out", self.path / name, *SMALL, *more)

    def test_a_run_leaves_its_files_and_a_checkpoint_that_runs(self):
        answer = self.train("run", "--set", "train.rollouts=true", "--json")
        result = json.loads(answer.stdout)
        checkpoint = pathlib.Path(result["checkpoint"])
        for name in ("recipe.toml", "metrics.jsonl", "rollouts.jsonl", "log.txt"):
            self.assertTrue((self.path / "run" / name).is_file(), name)
        metrics = [json.loads(line) for line in open(self.path / "run" / "metrics.jsonl")]
        self.assertEqual([m["step"] for m in metrics], [1, 2])
        for name in ("config.json", "tokenizer.json"):
            self.assertEqual((checkpoint / name).read_bytes(), (LAB / "base" / name).read_bytes())
        shown = self.succeeds("generate", "--model", checkpoint, "--in", "-", "--show", "--template", TEMPLATE, "--max-new",
                              80, stdin=json.dumps({"problem": "Mia has 3 eggs. Then Mia buys 2 and loses 1. "
                                                               "How many eggs are left?"}))
        self.assertIn("Solution:", shown.stdout)
        # The resolved recipe is a recipe, and gives the same run.
        self.succeeds("train", self.path / "run" / "recipe.toml", "--out", self.path / "again")
        same = "checkpoints/step_2/model.safetensors"
        self.assertEqual((self.path / "run" / same).read_bytes(), (self.path / "again" / same).read_bytes())

    def test_evaluations_on_the_way_can_be_compared(self):
        self.train("run", "--set", "eval.every=1", "--set", "eval.n=1")
        steps = [self.path / "run" / "eval" / f"step_{n}" for n in (1, 2)]
        answer = json.loads(self.succeeds("compare", *steps, "--json").stdout)
        self.assertEqual(answer["suites"]["heldout"]["n"], 200)

    def test_refusals_overwrite_nothing(self):
        self.train("run")
        before = (self.path / "run" / "metrics.jsonl").read_bytes()
        self.refuses("exists already", "train", RECIPE, "--out", self.path / "run")
        self.assertEqual((self.path / "run" / "metrics.jsonl").read_bytes(), before)
        fresh = ("--out", self.path / "fresh")
        for sentence, setting in (("did you mean temperature", "rollout.temprature=1"),
                                  ("did you mean [optimizer]", "optimiser.lr=1"),
                                  ("did you mean routeopd", "objective.arm=routeop"),
                                  ("expected a whole number from 1", "rollout.n=0"),
                                  ("the same weights", "teacher.path=lab/base"),
                                  ("config.json", "teacher.path=lab/none"),
                                  ("cannot be read", "data.prompts=lab/none.jsonl"),
                                  ("rollout_correction: arm routeopd", "rollout.rollout_correction=truncate"),
                                  ("expected chat, raw, or a text with {problem}", "data.template=hello"),
                                  ("has no response", "objective.arm=sft")):
            misspelt = ("rollout.temprature=1", "optimiser.lr=1", "objective.arm=routeop", "rollout.n=0")
            self.refuses(sentence, "train", RECIPE, *fresh, "--set", setting, code=2 if setting in misspelt else 1)
            self.assertFalse((self.path / "fresh").exists(), setting)
        self.refuses("expected section.key=value", "train", RECIPE, *fresh, "--set", "steps", code=2)
        self.refuses("is a section", "train", RECIPE, *fresh, "--set", "train=5", "--set", "train.steps=3", code=2)
        self.refuses("seed", "train", RECIPE, *fresh, "--set", f"seed={2**53 + 1}", code=2)
        self.refuses("nest of lists", "train", RECIPE, *fresh, "--set", "optimizer.betas=" + "[" * 50000, code=2)
        self.refuses("nothing to train on", "train", RECIPE, *fresh, *SMALL, "--set", "objective.arm=random_background",
                     "--set", "objective.k=100000")
        self.assertFalse((self.path / "fresh").exists())
        self.refuses("recipe", "train", code=2)

    def test_broken_checkpoints_are_named(self):
        broken = self.path / "broken"
        shutil.copytree(LAB / "teacher", broken)
        weights = broken / "model.safetensors"
        whole = weights.read_bytes()
        for bytes_left in (0, 4, 100, len(whole) // 2, len(whole) - 1):
            weights.write_bytes(whole[:bytes_left])
            self.refuses("model.safetensors", "train", RECIPE, "--out", self.path / "fresh", "--set",
                         f"teacher.path={broken}")
        weights.write_bytes(whole)
        config = json.loads((broken / "config.json").read_text())
        config["num_hidden_layers"] = 4
        config.pop("layer_types", None)
        (broken / "config.json").write_text(json.dumps(config))
        self.refuses("model.layers.3.input_layernorm.weight is missing", "train", RECIPE, "--out", self.path / "fresh",
                     "--set", f"teacher.path={broken}")
        tokenizer = json.loads((LAB / "teacher" / "tokenizer.json").read_text())
        words = tokenizer["model"]["vocab"]
        words["Ġeggs"], words["Ġcakes"] = words["Ġcakes"], words["Ġeggs"]
        shutil.copy(LAB / "teacher" / "config.json", broken / "config.json")
        (broken / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.refuses("the pair is not compatible (vocabulary: id", "train", RECIPE, "--out", self.path / "fresh", "--set", f"teacher.path={broken}")
        self.assertFalse((self.path / "fresh").exists())

    def interrupted(self, sign):
        process = subprocess.Popen([PROGRAM, "train", RECIPE, "--out", self.path / "run", *SMALL, "--set",
                                    "train.steps=100000", "--set", "checkpoint.every=2"], stderr=subprocess.DEVNULL,
                                   cwd=SOURCE)
        metrics = self.path / "run" / "metrics.jsonl"
        for _ in range(600):
            if metrics.exists() and metrics.read_bytes().count(b"\n") >= 5:
                break
            time.sleep(0.1)
        process.send_signal(sign)
        return process.wait(60), metrics.read_bytes().count(b"\n")

    def test_ctrl_c_saves_the_last_step(self):
        code, steps = self.interrupted(signal.SIGINT)
        self.assertEqual(code, 130)
        self.assertTrue((self.path / "run" / "checkpoints" / f"step_{steps}" / "model.safetensors").is_file())

    def test_kill_leaves_whole_checkpoints_alone(self):
        self.interrupted(signal.SIGKILL)
        whole = [d for d in (self.path / "run" / "checkpoints").iterdir() if ".partial" not in d.name]
        self.assertTrue(whole)
        for directory in whole:
            self.succeeds("generate", "--model", directory, "--out", self.path / f"{directory.name}.jsonl", "--quiet",
                          "--max-new", 4, stdin='{"prompt":"Problem:"}')


class Generate(Case):
    def test_files_streams_and_seeds(self):
        out = self.path / "out.jsonl"
        arguments = ("generate", "--model", LAB / "teacher", "--template", TEMPLATE, "--n", 2, "--max-new", 80, "--k", 3,
                     "--quiet")
        problems = "".join(open(LAB / "heldout.jsonl").readlines()[:3])
        self.succeeds(*arguments, "--out", out, stdin=problems)
        streamed = self.succeeds(*arguments, stdin=problems)
        # A stream has the responses as they end, a finished file in the order of the prompts.
        self.assertEqual(sorted(out.read_text().splitlines()), sorted(streamed.stdout.splitlines()))
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual([(r["id"], r["sample"]) for r in rows],
                         [(f"heldout-{i}", s) for i in range(3) for s in range(2)])
        for row in rows:
            self.assertEqual(len(row["ids"]), len(row["logprobs"]))
            self.assertEqual(row["finish"], "stop")
            self.assertEqual(len(row["top"]["ids"][0]), 3)
            self.assertTrue(all(p <= 0 for p in row["logprobs"]))
        answer = run(*arguments, "--in", out, "--out", out)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("is what is read", answer.stderr)
        other = self.succeeds(*arguments, "--seed", 1, stdin=problems)
        self.assertNotEqual(other.stdout, streamed.stdout)

    def test_ids_need_no_tokenizer(self):
        bare = self.path / "bare"
        bare.mkdir()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(LAB / "teacher" / name, bare / name)
        answer = self.succeeds("generate", "--model", bare, "--max-new", 3, "--quiet", stdin='{"prompt_ids":[256, 257]}')
        self.assertNotIn("text", json.loads(answer.stdout))
        bad = run("generate", "--model", bare, stdin='{"prompt":"Hello"}')
        self.assertEqual(bad.returncode, 1)
        self.assertIn("tokenizer", bad.stderr)

    def test_bad_prompts_name_their_line(self):
        for line, sentence in (('{"problem":3}', "expected text"), ('{"id":"a"}', "expected problem, messages, prompt or prompt_ids"),
                               ('{"prompt_ids":[99999]}', "outside the vocabulary"), ('{"prompt":""}', "no tokens"),
                               ('{"messages":[]}', "the model's directory has no chat template"), ("[]", "object"),
                               ('{"id":' + "[" * 100000 + "]" * 100000 + "}", "nested levels")):
            answer = run("generate", "--model", LAB / "teacher", "--quiet", stdin=line + "\n")
            self.assertEqual(answer.returncode, 1, line)
            self.assertIn(sentence, answer.stderr)
            self.assertEqual(answer.stderr.count("\n"), 1)


class Eval(Case):
    def test_two_models_compared(self):
        suite = self.path / "some.jsonl"
        suite.write_text("".join(open(LAB / "heldout.jsonl").readlines()[:20]))
        for model in ("base", "teacher"):
            self.succeeds("eval", "--model", LAB / model, "--suite", f"lab={suite}", "--out", self.path / model,
                          "--template", TEMPLATE, "--n", 4, "--max-new", 80, "--quiet")
        summary = json.loads((self.path / "teacher" / "summary.json").read_text())
        self.assertGreater(summary["suites"]["lab"]["avg"], 0.9)
        self.assertEqual(summary["suites"]["lab"]["clip_rate"], 0)
        self.assertEqual(summary["suites"]["lab"]["sha256"], hashlib.sha256(suite.read_bytes()).hexdigest())
        self.assertEqual(len((self.path / "teacher" / "responses.jsonl").read_text().splitlines()), 80)
        answer = json.loads(self.succeeds("compare", self.path / "base", self.path / "teacher", "--json").stdout)
        self.assertGreater(answer["contrast"]["low"], 0)
        averages = [json.loads((self.path / m / "summary.json").read_text())["suites"]["lab"]["avg"]
                    for m in ("base", "teacher")]
        self.assertAlmostEqual(answer["contrast"]["mean"], averages[1] - averages[0])
        self.refuses("exists already, an evaluation with another decoding.n", "eval", "--model", LAB / "base", "--suite", suite,
                     "--out", self.path / "base", "--template", TEMPLATE, "--max-new", 80)
        self.succeeds("eval", "--model", LAB / "base", "--suite", f"lab={suite}", "--out", self.path / "other",
                      "--template", TEMPLATE, "--n", 4, "--max-new", 80, "--temperature", 0.9, "--quiet")
        self.refuses("decoding.temperature", "compare", self.path / "base", self.path / "other")


class Contamination(Case):
    """A run says when nobody looked whether its prompts stand in a test set."""

    def test_the_laboratory_was_checked(self):
        answer = self.succeeds("train", RECIPE, "--out", self.path / "run", *SMALL)
        self.assertNotIn("warning", answer.stderr)
        self.assertNotIn("warning", (self.path / "run" / "log.txt").read_text())
        self.assertEqual(json.loads(self.succeeds("train", RECIPE, "--dry-run", "--json").stdout)["warnings"], [])

    def test_prompts_that_were_never_checked_or_changed_since(self):
        prompts, clean = self.path / "prompts.jsonl", self.path / "clean.jsonl"
        shutil.copy(LAB / "train.jsonl", prompts)

        def says(name, path):
            answer = self.succeeds("train", RECIPE, "--out", self.path / name, *SMALL, "--set", f"data.prompts={path}")
            plan = ("train", RECIPE, "--dry-run", "--set", f"data.prompts={path}")
            warnings = json.loads(self.succeeds(*plan, "--json").stdout)["warnings"]
            shown = self.succeeds(*plan).stdout
            log = (self.path / name / "log.txt").read_text()
            for warning in warnings:
                self.assertIn(f"warning: {warning}\n", answer.stderr)
                self.assertIn(f"warning: {warning}\n", log)
                self.assertIn(f"Warning: {warning}\n", shown)
            if not warnings:
                self.assertNotIn("warning", (answer.stderr + log + shown).lower())
            return "".join(warnings)

        never = says("never", prompts)
        self.assertIn("never checked", never)
        self.assertIn(f"routeopd decontaminate --train {prompts} --test", never)
        self.succeeds("decontaminate", "--train", prompts, "--test", LAB / "heldout.jsonl", "--out", clean, "--quiet")
        self.assertEqual(says("checked", clean), "")
        clean.write_text("".join(clean.read_text().splitlines(keepends=True)[1:]))
        self.assertIn("changed since it was checked", says("changed", clean))
        quiet = self.succeeds("train", RECIPE, "--out", self.path / "quiet", *SMALL, "--quiet", "--set", f"data.prompts={prompts}")
        self.assertEqual(quiet.stderr, "")


class Lab(Case):
    def test_made_twice_with_the_same_bytes(self):
        few = ("--teacher-steps", 3, "--mild-steps", 2, "--student-steps", 3, "--base-steps", 2, "--quiet")
        for family, committed in (("sums", LAB), ("lists", LAB / "lists")):
            one, two = self.path / f"{family}-1", self.path / f"{family}-2"
            for path in (one, two):
                self.succeeds("lab", "make", "--family", family, "--out", path, *few)
            files = sorted(p.relative_to(one) for p in one.rglob("*") if p.is_file())
            self.assertIn(pathlib.Path("base/model.safetensors"), files)
            for name in files:
                self.assertEqual((one / name).read_bytes(), (two / name).read_bytes(), name)
            self.assertEqual(sorted(p.name for p in one.iterdir()),
                             ["base", "heldout.jsonl", "lab.json", "teacher", "train.jsonl", "train.jsonl.decontaminated.json",
                              "validation.jsonl"])
            self.assertEqual(json.loads((one / "lab.json").read_text())["family"], family)
            record = json.loads((one / "train.jsonl.decontaminated.json").read_text())
            self.assertEqual({test["file"]: test["problems"] for test in record["tests"]},
                             {"heldout.jsonl": 200, "validation.jsonl": 64})
            # What is committed differs in its weights alone: problems, tokenizer and shapes are the program's.
            for name in ("train.jsonl", "validation.jsonl", "heldout.jsonl", "base/tokenizer.json", "base/config.json",
                         "teacher/config.json"):
                self.assertEqual((one / name).read_bytes(), (committed / name).read_bytes(), name)
            self.refuses("exists already", "lab", "make", "--out", one, *few)
            self.assertLess(sum(p.stat().st_size for place in ("base", "teacher") for p in (committed / place).iterdir())
                            + sum(p.stat().st_size for p in committed.iterdir() if p.is_file()), 4e6)
        self.refuses("expected sums | lists, got sets", "lab", "make", "--family", "sets", "--out", self.path / "x")


if __name__ == "__main__":
    unittest.main()
