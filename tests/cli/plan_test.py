#!/usr/bin/env python3
"""routeopd plan: a run on paper, from a recipe and configurations alone.

    plan_test.py PROGRAM SOURCE_DIRECTORY CHART_PYTHON
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE, BUILT_WITH = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
CHART_PYTHON = os.environ.get("ROUTEOPD_CHART_PYTHON") or BUILT_WITH
RENDERS = subprocess.run([CHART_PYTHON, "-c", "import vl_convert"], capture_output=True).returncode == 0
LAB = "recipes/lab.toml"
PAPER = "recipes/paper_2_justrl_deepseek_to_deepseek_1_5b.toml"
CONFIG = "tests/scale/configs/deepseek_r1_distill_qwen_1_5b.json"
CONFIGS = ("--student-config", CONFIG, "--teacher-config", CONFIG)
STAGES = ["rollout", "score", "route", "learn", "communication"]


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=120, cwd=SOURCE,
                          env=os.environ | environment)


class Plan(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def plan(self, recipe, *options, **environment):
        answer = run("plan", recipe, *options, **environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def json(self, recipe, *options):
        return json.loads(self.plan(recipe, *options, "--json"))

    def refuses(self, sentence, *options, code=1):
        answer = run("plan", *options)
        self.assertEqual(answer.returncode, code, (options, answer.stdout, answer.stderr))
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)
        self.assertEqual(answer.stdout, "")

    def test_the_answer_as_json(self):
        plan = self.json(PAPER, "--gpu", "h20", "--gpus", 24, "--shard", *CONFIGS, "--assume", "response_tokens=2054.6")
        self.assertEqual(set(plan), {"recipe", "device", "gpus", "sharded", "assumptions", "memory", "step", "run", "head"})
        self.assertEqual((plan["device"]["name"], plan["gpus"], plan["sharded"]), ("H20", 24, True))
        self.assertEqual(plan["assumptions"]["response_tokens"], 2054.6)
        self.assertEqual([stage["name"] for stage in plan["step"]["stages"]], STAGES)
        self.assertAlmostEqual(plan["step"]["seconds"], sum(stage["seconds"] for stage in plan["step"]["stages"]), places=9)
        parts = plan["memory"]["parts"]
        self.assertAlmostEqual(plan["memory"]["device_bytes"], sum(p["bytes"] for p in parts if not p["on_host"]), delta=1)
        self.assertEqual({p["name"] for p in parts if p["on_host"]}, {"states"})
        self.assertAlmostEqual(plan["run"]["tokens"], 35 * 2048 * 2054.6, delta=1)
        self.assertAlmostEqual(plan["run"]["gpu_hours"], 24 * 35 * plan["step"]["seconds"] / 3600, places=9)
        # 1.777 billion parameters over 24 devices, both moments in float32.
        moments = next(p["bytes"] for p in parts if p["name"] == "optimizer")
        self.assertAlmostEqual(moments, 8 * 1777088000 / 24, delta=1)
        # Six operations a weight of the head and token, half the peak; the busiest device has 22 of 512 prompts.
        dense = 6 * 1536 * 151936 * 22 * 4 * 2054.6 / (0.5 * 148e12)
        self.assertAlmostEqual(plan["head"]["saved_seconds"] / dense, 1, delta=0.01)

    def test_the_same_for_people(self):
        text = self.plan(LAB, "--gpu", "H100", "--gpus", 8)
        plan = self.json(LAB, "--gpu", "H100", "--gpus", 8)
        for name, value in plan["assumptions"].items():
            self.assertRegex(text, rf"(?m)^  {name} ")
        for stage in STAGES:
            self.assertRegex(text, rf"(?m)^  {stage} +[\d.e-]+ s")
        for words in ("NVIDIA H100 datasheet", "GPU-hours", "The pair head saves"):
            self.assertIn(words, text)
        self.assertEqual(self.plan(LAB, "--gpu", "H100", "--quiet"), "")
        # Of 493 ids: the gathered rows are more than the table.
        small_head = (LAB, "--gpu", "H100", "--set", "student.dtype=bfloat16")
        self.assertLess(self.json(*small_head)["head"]["saved_seconds"], 0)
        small = self.plan(*small_head)
        self.assertIn("The pair head saves no time a step", small)
        self.assertNotRegex(small, r" 0\.0000 s", "short times keep their digits")
        self.assertIn("and no memory (", self.plan(LAB, "--gpu", "H100", "--assume", "prompt_tokens=1000000"))

    def test_prompts_that_are_here_are_counted(self):
        dry = json.loads(run("train", LAB, "--dry-run", "--json").stdout)
        plan = self.json(LAB, "--gpu", "A100")
        self.assertAlmostEqual(plan["assumptions"]["prompt_tokens"], dry["prompt_tokens"], places=6)
        self.assertEqual(plan["step"]["tokens"], dry["response_tokens"], "every response at its longest")
        self.assertEqual(self.json(LAB, "--gpu", "A100", "--set", "data.prompts=none.jsonl")["assumptions"]["prompt_tokens"], 116)

    # The plan of memory on this machine is that of --dry-run, in fewer parts.
    def test_this_machine_is_measured(self):
        settings = ("--set", "probe.every=0", "--set", "eval.every=0")
        dry = json.loads(run("train", LAB, "--dry-run", "--json", *settings).stdout)["memory"]
        plan = self.json(LAB, "--gpu", "this-cpu", *settings)
        self.assertIn("measured now", plan["device"]["source"])
        self.assertGreater(plan["device"]["float32_flops"], 1e8)
        self.assertGreater(plan["device"]["engine_flops"], 1e8)
        self.assertGreater(plan["device"]["bandwidth"], 1e8)
        parts = {p["name"]: p["bytes"] for p in plan["memory"]["parts"]}
        self.assertEqual(plan["memory"]["host_bytes"], 0)
        self.assertEqual(parts["student"], dry["student"])
        self.assertEqual(parts["gradients"], dry["gradients"])
        self.assertEqual(parts["engine"], dry["student, for the engine"])
        self.assertEqual(parts["teacher"], dry["teacher"] + dry["teacher, for the engine"])
        self.assertEqual(parts["activations"], dry["activations"])
        self.assertEqual(parts["states"], dry["captured states"])
        self.assertEqual(parts["optimizer"], next(value for name, value in dry.items() if "AdamW" in name))

    def test_arms_have_the_head_they_need(self):
        for setting, kind, stages in (("objective.arm=routeopd", "pair", 4), ("objective.arm=sampled_rkl", "dense", 4),
                                      ("objective.arm=full_rkl", "dense", 4), ("objective.arm=union_rkl", "gather", 4),
                                      ("objective.pairs=exact", "gather", 4), ("objective.arm=source_only", "dense", 4)):
            plan = self.json(LAB, "--gpu", "L40S", "--set", setting)
            self.assertEqual((plan["head"]["kind"], len(plan["step"]["stages"])), (kind, stages), setting)
        lean = self.json(LAB, "--gpu", "L40S", "--set", "objective.arm=sampled_rkl", "--set", "train.diagnostics=false")
        self.assertEqual([s["name"] for s in lean["step"]["stages"]], ["rollout", "score", "learn"])
        served = self.json(LAB, "--gpu", "L40S", "--set", "teacher.engine=vllm", "--set", 'teacher.urls=["http://localhost:1"]')
        self.assertEqual([s["name"] for s in served["step"]["stages"]], ["rollout", "route", "learn"])
        self.assertNotIn("teacher", {p["name"] for p in served["memory"]["parts"]})

    def test_sft(self):
        prompts = self.path / "given.jsonl"
        prompts.write_text("".join(json.dumps({"id": str(i), "problem": "1 + 1", "response": " 2" * (i + 1)}) + "\n" for i in range(40)))
        options = ("--gpu", "A100", "--set", "objective.arm=sft", "--set", 'teacher.path=""', "--set", "rollout.prompts_per_step=8")
        plan = self.json(LAB, *options, "--set", f"data.prompts={prompts}")
        self.assertEqual([s["name"] for s in plan["step"]["stages"]], ["learn"])
        self.assertEqual(plan["step"]["tokens"], 8 * plan["assumptions"]["response_tokens"])
        self.assertGreater(plan["assumptions"]["response_tokens"], 1)
        dry = json.loads(run("train", LAB, *options[2:], "--set", f"data.prompts={prompts}", "--dry-run", "--json").stdout)
        activations = next(p["bytes"] for p in plan["memory"]["parts"] if p["name"] == "activations")
        token = dry["memory"]["activations"] / dry["learner_tokens"]
        self.assertLess(abs(activations - dry["memory"]["activations"]), 2 * token, "--dry-run counts whole tokens")
        self.refuses("--assume response_tokens=N", LAB, *options, "--set", "data.prompts=none.jsonl")
        self.refuses("gives no responses here", LAB, *options)

    def test_refusals(self):
        self.refuses("expected H20, H100, A100, L40S, or this-cpu", LAB, "--gpu", "B300")
        for count in ("0", "-3", "1000001", "many", "99999999999999999999"):
            self.refuses("--gpus", LAB, "--gpu", "H20", "--gpus", count, code=2)
        self.refuses("--gpu is required", LAB, code=2)
        self.refuses("has no config.json here; --student-config FILE names one", PAPER, "--gpu", "H20")
        self.refuses("[teacher] path", PAPER, "--gpu", "H20", "--student-config", CONFIG)
        self.refuses("routeopd: none.json: cannot be read", PAPER, "--gpu", "H20", "--student-config", "none.json")
        self.refuses("did you mean bandwidth?", LAB, "--gpu", "H20", "--assume", "bandwith=1", code=2)
        self.refuses("expected a number", LAB, "--gpu", "H20", "--assume", "learner=1.5", code=2)
        self.refuses("ends in .json, .svg, .png or .html", LAB, "--gpu", "H20", "--figure", self.path / "growth.pdf")
        self.refuses("metrics.jsonl", LAB, "--gpu", "H20", "--beside", self.path)
        (self.path / "metrics.jsonl").write_text('{"step": 1}\n')
        self.refuses("two steps or more, got 1", LAB, "--gpu", "H20", "--beside", self.path)
        self.refuses("excludes", LAB, "--gpu", "H20", "--beside", self.path, "--beside-paper", code=2)

    def test_numbers_of_any_size_stay_numbers(self):
        for setting in ("rollout.max_new_tokens=1000000000", "train.micro_tokens=1", "rollout.prompts_per_step=1000000"):
            plan = self.json(LAB, "--gpu", "H20", "--gpus", 1000000, "--set", setting)
            self.assertGreater(plan["step"]["seconds"], 0)
            self.assertLess(plan["step"]["seconds"], float("inf"))
        large = self.json(LAB, "--gpu", "L40S", "--set", "rollout.max_new_tokens=1000000000")
        self.assertFalse(large["memory"]["fits"])

    def test_beside_a_run(self):
        lines = [{"step": i + 1, "tokens": 1280, "response_tokens": 10, "teacher_tokens": 1280 + 32 * 20,
                  "memory": {"peak_bytes": 5e8}, "time": {"rollout": r, "score": 2, "route": 0.5, "learn": 3, "save": 9, "total": 9}}
                 for i, r in enumerate((100, 4, 7, 5))]
        (self.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        plan = self.json(LAB, "--gpu", "H20", "--beside", self.path)
        self.assertEqual((plan["assumptions"]["response_tokens"], plan["assumptions"]["prompt_tokens"]), (10, 20))
        rows = {row["name"]: row for row in plan["beside"]}
        self.assertEqual(rows["rollout"]["measured"], 5, "the median without the first step")
        self.assertEqual(rows["together"]["measured"], 5 + 2 + 0.5 + 3, "saving is not predicted")
        self.assertAlmostEqual(rows["together"]["predicted"], plan["step"]["seconds"])
        self.assertEqual(rows["memory"]["measured"], 0.5)
        self.assertRegex(self.plan(LAB, "--gpu", "H20", "--beside", self.path), r"learn +s +[\d.e-]+ +3 ")

    # What docs/plan.md says of the paper's table, within its digits.
    def test_beside_the_paper(self):
        plan = self.json(PAPER, "--gpu", "H20", "--gpus", 24, "--shard", *CONFIGS, "--assume", "response_tokens=2054.6", "--beside-paper")
        rows = {(row["name"], row["unit"]): row for row in plan["beside"]}
        self.assertEqual(len(rows), 30)
        for name, total, peak in (("Sampled-RKL", 184.6, 64.2), ("RouteOPD, k=32,m=2", 189.2, 66.2)):
            self.assertEqual(rows[name, "s/step"]["measured"], total)
            self.assertEqual(rows[name, "GB"]["measured"], peak)
            for unit in ("s/step", "s learner", "GB"):
                ratio = rows[name, unit]["predicted"] / rows[name, unit]["measured"]
                self.assertTrue(0.75 < ratio < 1.25, (name, unit, ratio))
        words = (SOURCE / "docs" / "plan.md").read_text()
        for row in plan["beside"]:
            self.assertIn(f"{row['predicted']:.4g}", words, row)

    def test_the_figure(self):
        out = self.path / "growth.json"
        self.plan(LAB, "--gpu", "A100", "--gpus", 24, "--figure", out, "--quiet")
        chart = json.loads(out.read_text())
        self.assertIn("vega-lite", chart["$schema"])
        self.assertEqual({row["gpus"] for row in chart["data"]["values"]}, {str(2**i) for i in range(11)} | {"24"})
        page = self.path / "growth.html"
        self.plan(LAB, "--gpu", "A100", "--figure", page, "--quiet")
        self.assertIn("A step over the number of devices", page.read_text())
        missing = run("plan", LAB, "--gpu", "A100", "--figure", self.path / "growth.svg", ROUTEOPD_CHART_PYTHON="/bin/false")
        self.assertEqual(missing.returncode, 1)
        self.assertIn(".json needs no renderer", missing.stderr)
        self.assertFalse((self.path / "growth.svg").exists())

    @unittest.skipUnless(RENDERS, "vl-convert-python is not installed")
    def test_the_renderer_takes_the_figure(self):
        for ending, begin in (("svg", b"<svg"), ("png", b"\x89PNG")):
            out = self.path / f"growth.{ending}"
            self.plan(LAB, "--gpu", "A100", "--figure", out, "--quiet")
            self.assertTrue(out.read_bytes().startswith(begin))
        words = re.sub("<[^>]*>", " ", (self.path / "growth.svg").read_text())
        for name in ("seconds of a step", "memory of one device (GB)", "1024", *STAGES, "optimizer", "keys and values"):
            self.assertIn(name, words)

    def test_the_examples_of_the_help_run(self):
        text = run("plan", "--help").stdout
        examples = re.findall(r"(?m)^  routeopd (plan .*)$", text)
        self.assertEqual(len(examples), 2)
        for example in examples:
            words = [str(self.path / word) if word.startswith("growth") else str(SOURCE / word) if word.startswith("recipes") else word
                     for word in example.split()]
            answer = run(*words)
            self.assertEqual(answer.returncode, 0, (example, answer.stderr))


if __name__ == "__main__":
    unittest.main()
