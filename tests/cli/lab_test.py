#!/usr/bin/env python3
"""`routeopd lab` as a user meets it: a tiny study whole, killed and gone on with, in parts, on any pair, and refused.

    lab_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
TEMPLATE = "Problem: {problem}\nSolution:"
LABELS = {"correct", "reasoning", "arithmetic", "premature_stop", "format"}
SIZE = ["--steps", "2", "--problems", "5", "--samples", "2", "--seeds", "1", "--states", "16", "--prompts-per-step", "4",
        "--n", "2", "--every", "1", "--rounds", "2"]
TINY = [*SIZE, "--arms", "sampled_rkl,routeopd"]


def run(*arguments, **more):
    return subprocess.run([PROGRAM, "lab", *map(str, arguments)], text=True, capture_output=True, timeout=300, cwd=SOURCE,
                          **more)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_time(lines):
    return [{name: value for name, value in line.items() if name not in ("time", "memory")} for line in lines]


def setUpModule():
    """One whole study, which all tests look at and none changes."""
    directory = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(directory.cleanup)
    Case.path = pathlib.Path(directory.name)
    Case.whole = Case.path / "whole"
    Case.answer = run("--lab", LAB, "--out", Case.whole, *TINY)


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


class Whole(Case):
    def test_a_study_leaves_what_its_manifest_says(self):
        self.assertEqual(self.answer.returncode, 0, self.answer.stderr)
        study = self.study(self.whole)
        self.assertEqual((study["kind"], study["version"]), ("study", 1))
        self.assertTrue(study["pair"]["laboratory"])
        self.assertEqual(study["options"]["seeds"], [42])
        self.assertFalse(study["options"]["quick"])
        self.assertEqual(set(study["parts"]), {"main", "ablations", "sweeps", "dynamics", "mechanism", "cost", "behaviour"})
        for name, part in study["parts"].items():
            self.assertGreaterEqual(part["seconds"], 0)
            if name != "mechanism":
                self.assertTrue(part["complete"], name)
        self.assertEqual([(r["name"], r["arm"], r["k"], r["m"], r["pairs"], r["seed"], r["complete"]) for r in study["runs"]],
                         [(arm, arm, 16, 2, "sample", 42, True) for arm in ("sampled_rkl", "routeopd")])
        for path in (*study["evals"].values(), *(run["eval"] for run in study["runs"])):
            self.assertEqual(json.loads((self.whole / path / "summary.json").read_text())["decoding"]["n"], 2)
            labels = lines_of(self.whole / path / "labels.jsonl")
            responses = lines_of(self.whole / path / "responses.jsonl")
            self.assertEqual(len(labels), 10)
            for label, response in zip(labels, responses):
                self.assertEqual([label[name] for name in ("suite", "problem", "sample", "clipped")],
                                 [response[name] for name in ("suite", "problem", "sample", "clipped")])
                self.assertIn(label["label"], LABELS)
                self.assertEqual(label["label"] == "correct", response["correct"])
                self.assertEqual(label["label"] == "format", not response["correct"] and not response["format_ok"])
        for entry in study["runs"]:
            path = self.whole / entry["path"]
            self.assertEqual(sorted(p.name for p in (path / "checkpoints").iterdir()), ["step_1", "step_2"])
            self.assertEqual(sorted(p.name for p in (path / "eval").iterdir()), ["step_1", "step_2"])
            probe = lines_of(path / "probe.jsonl")
            self.assertEqual([line["step"] for line in probe], [0, 1, 2])
            self.assertNotEqual(probe[0]["mass"], probe[2]["mass"])
        a, b = (lines_of(self.whole / run["path"] / "probe.jsonl")[0] for run in study["runs"])
        self.assertEqual(a, b, "the start is the same for all")

    def test_concentration_and_cost(self):
        study = self.study(self.whole)
        rows = lines_of(self.whole / study["concentration"])
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertGreater(row["states"], 20)
            self.assertTrue(0 < row["mass"] < 1 and 0 < row["concentration"] < 1, row)
            self.assertTrue(0.18 < row["budget"] < 0.41, row)
        cost = json.loads((self.whole / study["cost"]).read_text())
        self.assertEqual(cost["rounds"], 2)
        arms = {arm["name"]: arm for arm in cost["arms"]}
        self.assertTrue({"sampled_rkl", "full_rkl", "full_fkl", "routeopd", "exact", "union_rkl", "union_fkl",
                         "routeopd-k32-m8", "routeopd-k64-m2", "routeopd-kfull"} <= set(arms), set(arms))
        self.assertEqual(arms["sampled_rkl"]["relative_total"], {"mean": 1, "low": 1, "high": 1})
        for arm in cost["arms"]:
            seconds = arm["seconds"]
            self.assertEqual(set(seconds), {"rollout", "score", "route", "learn", "total"})
            self.assertAlmostEqual(seconds["total"], sum(seconds.values()) - seconds["total"], delta=seconds["total"] / 2)
            self.assertLessEqual(arm["relative_total"]["low"], arm["relative_total"]["mean"])
            self.assertLessEqual(arm["relative_total"]["mean"], arm["relative_total"]["high"])
            self.assertEqual(arm["teacher_calls"], 8)
            self.assertGreater(arm["peak_bytes"], 1e6)
        self.assertEqual([(row["k"], row["m"]) for row in cost["routes"]],
                         [(16, 2), (32, 1), (32, 2), (32, 4), (32, 8), (64, 2)])
        for row in cost["routes"]:
            for name in ("top_k_ms", "routing_ms", "gather_ms"):
                self.assertGreater(row[name], 0, name)

    def test_a_finished_one_says_its_result_again(self):
        before = (self.whole / "study.json").read_bytes()
        # The mechanism part is asked for by nobody here: its probes are another's.
        parts = ("main", "ablations", "sweeps", "dynamics", "cost", "behaviour")
        again = self.succeeds(*parts, "--out", self.whole)
        self.assertIn("sampled_rkl", again.stdout)
        self.assertIn("teacher", again.stdout)
        self.assertEqual((self.whole / "study.json").read_bytes(), before)
        found = json.loads(self.succeeds(*parts, "--out", self.whole, *TINY, "--lab", LAB, "--json").stdout)
        self.assertEqual([arm["name"] for arm in found["arms"]], ["sampled_rkl", "routeopd"])
        self.assertEqual(found["reference"], "sampled_rkl")
        self.assertGreater(found["teacher"], found["base"])

    def test_other_options_are_refused_with_the_field(self):
        for field, word in (("steps", "3"), ("lr", "1e-4"), ("seeds", "2"), ("arms", "sampled_rkl"), ("k", "8"),
                            ("template", "raw")):
            self.refuses(f"another {field} (", "main", "--out", self.whole, f"--{field}", word)
        self.refuses("another quick (", "main", "--out", self.whole, "--quick")
        self.refuses("another pair.laboratory (", "main", "--out", self.whole, "--student", LAB / "base", "--teacher",
                     LAB / "teacher", "--prompts", LAB / "train.jsonl")

    def test_a_broken_manifest_is_refused(self):
        broken = self.path / "broken"
        broken.mkdir()
        for text, sentence in (("{", "study.json"), ("[]", "study.json"), ("{}", "is no study"),
                               ('{"kind": "study", "version": 2}', "is no study of version 1"),
                               ('{"kind": "study", "version": 1}', "cannot be gone on with")):
            (broken / "study.json").write_text(text)
            self.refuses(sentence, "main", "--out", broken)
        good = self.study(self.whole)
        for field, value in (("runs", {}), ("runs", [{"path": 3}]), ("parts", {"main": {}}), ("pair", None),
                             ("options", {**good["options"], "steps": "many"})):
            (broken / "study.json").write_text(json.dumps({**good, field: value}))
            self.refuses("cannot be gone on with", "main", "--out", broken)
        other = self.path / "other"
        other.mkdir()
        (other / "file").write_text("mine")
        self.refuses("exists already", "main", "--lab", LAB, "--out", other, *TINY)

    def test_words_that_are_not_known(self):
        self.refuses("did you mean sweeps", "sweep", "--out", self.path / "typo", code=2)
        self.refuses("did you mean routeopd", "--out", self.path / "typo", "--arms", "routeodp")
        self.refuses("--out", "main", code=2)
        self.refuses("exclude each other", "main", "--out", self.path / "typo", "--lab", LAB, "--student", LAB, code=2)
        self.assertFalse((self.path / "typo").exists())


class Resume(Case):
    """Stopped at different moments, the study goes on to the same files."""

    def stop(self, name, sign, where):
        out = self.path / name
        process = subprocess.Popen([PROGRAM, "lab", "main", "--lab", LAB, "--out", out, *TINY], cwd=SOURCE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(6000):
            if where(out) or process.poll() is not None:
                break
            time.sleep(0.005)
        process.send_signal(sign)
        return process.wait(60)

    def assert_same(self, out):
        study, whole = self.study(out), self.study(self.whole)
        self.assertEqual(study["runs"], whole["runs"])
        self.assertEqual(study["evals"], whole["evals"])
        for entry in whole["runs"]:
            a, b = self.whole / entry["path"], out / entry["path"]
            self.assertEqual(without_time(lines_of(a / "metrics.jsonl")), without_time(lines_of(b / "metrics.jsonl")))
            self.assertEqual((a / "probe.jsonl").read_bytes(), (b / "probe.jsonl").read_bytes())
            for step in ("step_1", "step_2"):
                for name in ("responses.jsonl", "labels.jsonl"):
                    self.assertEqual((a / "eval" / step / name).read_bytes(), (b / "eval" / step / name).read_bytes())
            name = "checkpoints/step_2/model.safetensors"
            self.assertEqual((a / name).read_bytes(), (b / name).read_bytes())
        for path in whole["evals"].values():
            self.assertEqual((self.whole / path / "responses.jsonl").read_bytes(), (out / path / "responses.jsonl").read_bytes())

    def test_killed_anywhere_it_goes_on_to_the_same_files(self):
        first, second = (f"runs/{arm}-seed42" for arm in ("sampled_rkl", "routeopd"))

        def in_the_first_evaluation(out):
            return (out / "base/eval/protocol.json").exists()

        def in_the_first_run(out):
            return (out / first / "metrics.jsonl").exists()

        def in_an_evaluation_on_the_way(out):
            return (out / second / "eval/step_1/protocol.json").exists()

        for where, sign, code in ((in_the_first_evaluation, signal.SIGKILL, -9), (in_the_first_run, signal.SIGKILL, -9),
                                  (in_an_evaluation_on_the_way, signal.SIGKILL, -9),
                                  (in_an_evaluation_on_the_way, signal.SIGINT, 130)):
            name = f"{where.__name__}-{sign.name}"
            with self.subTest(name):
                self.assertEqual(self.stop(name, sign, where), code)
                self.assertFalse(self.study(self.path / name)["parts"].get("main", {}).get("complete", False))
                self.succeeds("main", "--out", self.path / name, "--quiet")
                self.assert_same(self.path / name)

    def test_a_run_that_was_taken_away_is_made_again(self):
        out = self.path / "again"
        self.succeeds("main", "--lab", LAB, "--out", out, *TINY, "--quiet")
        subprocess.run(["rm", "-r", out / "runs" / "routeopd-seed42"], check=True)
        self.succeeds("main", "--out", out, "--quiet")
        self.assert_same(out)


class Parts(Case):
    def test_a_part_alone_makes_what_it_needs(self):
        out = self.path / "sweeps"
        self.succeeds("sweeps", "--lab", LAB, "--out", out, *SIZE, "--arms", "routeopd,routeopd-k4,routeopd-m1,fixed_low",
                      "--quiet")
        study = self.study(out)
        self.assertEqual(set(study["parts"]), {"sweeps"})
        self.assertEqual([(r["name"], r["k"], r["m"], r["settings"]) for r in study["runs"]],
                         [("routeopd", 16, 2, {}), ("routeopd-k4", 4, 2, {"k": 4}), ("routeopd-m1", 16, 1, {"m": 1})])
        for entry in study["runs"]:
            steps = sorted(p.name for p in (out / entry["path"] / "eval").iterdir())
            self.assertEqual(steps, ["step_1", "step_2"] if entry["name"] == "routeopd" else ["step_2"])
            recipe = (out / entry["path"] / "recipe.toml").read_text()
            self.assertIn(f"\nk = {entry['k']}  #", recipe)
            self.assertIn(f"\nm = {entry['m']}  #", recipe)
        self.assertIsNone(study["cost"])

    def test_any_pair(self):
        out = self.path / "pair"
        pair = ("--student", LAB / "base", "--teacher", LAB / "teacher", "--prompts", LAB / "train.jsonl")
        small = (*TINY, "--template", TEMPLATE, "--max-new", "60", "--quiet")
        self.succeeds("main", "--out", out, *pair, *small, "--suite", f"words={LAB / 'heldout.jsonl'}")
        study = self.study(out)
        self.assertFalse(study["pair"]["laboratory"])
        self.assertEqual(study["options"]["lr"], 1e-6)
        self.assertEqual(study["options"]["k"], 32)
        summary = json.loads((out / study["evals"]["base"] / "summary.json").read_text())
        self.assertEqual(list(summary["suites"]), ["words"])
        self.assertFalse((out / study["evals"]["base"] / "labels.jsonl").exists(), "nobody can read these responses")

        out = self.path / "no-suite"
        answer = self.succeeds("main", "mechanism", "--out", out, *pair, *small[:-1])
        self.assertIn("there is no accuracy", answer.stdout)
        study = self.study(out)
        self.assertTrue(study["parts"]["main"]["complete"])
        self.assertEqual(study["evals"], {})
        self.assertIsNone(study["concentration"])
        for entry in study["runs"]:
            self.assertIsNone(entry["eval"])
            self.assertTrue((out / entry["path"] / "checkpoints" / "step_2").is_dir())
        self.refuses("--student, --teacher and --prompts", "main", "--out", self.path / "half", *pair[:4], code=2)


if __name__ == "__main__":
    unittest.main()
