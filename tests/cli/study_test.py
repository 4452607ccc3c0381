#!/usr/bin/env python3
"""`routeopd study` as a user meets it: a tiny study whole, killed and resumed, in parts, on any pair, and refused.

    study_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from study_cases import LAB, ONE_RATE, PROGRAM, SIZE, SOURCE, TEMPLATE, TINY, Case, lines_of, run, sized, without_time

LABELS = {"correct", "reasoning", "arithmetic", "premature_stop", "format"}
INTERVENTIONS = ["pair_isolated", "potential_wide", "potential_matched", "fresh_adamw", "saved_adamw", "sgd"]


def setUpModule():
    """One whole study, which all tests read and none changes."""
    directory = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(directory.cleanup)
    Case.path = pathlib.Path(directory.name)
    Case.whole = Case.path / "whole"
    Case.answer = run("--lab", LAB, "--out", Case.whole, *TINY)


class Probed(Case):
    def assert_probes(self, path, ladder_at):
        """The three probes of a study of TINY's arms, as the manifest has them."""
        self.assertEqual([(probe["name"], probe["path"], probe["at"]) for probe in self.study(path)["probes"]],
                         [("arms", "probes/arms", "base"), ("support", "probes/support", "base"),
                          ("ladder", "probes/ladder", ladder_at)])
        rows = {"arms": [("sampled_rkl", "fresh_adamw"), ("routeopd", "fresh_adamw")],
                "support": [("routeopd", "fresh_adamw")],
                "ladder": [("routeopd", intervention) for intervention in INTERVENTIONS]}
        for name, expected in rows.items():
            probe = self.probe(path, name)
            self.assertEqual([(row["name"], row["intervention"]) for row in probe["rows"]], expected)
            self.assertEqual(probe["bank"]["states"], 16)
            self.assertEqual(probe["student"]["frozen"], name != "ladder")
            for line in ("states.jsonl", "routes.jsonl"):
                self.assertTrue(lines_of(path / "probes" / name / line))
        self.assertTrue((path / "bank.safetensors").is_file())


class Whole(Probed):
    def test_a_study_leaves_what_its_manifest_says(self):
        self.assertEqual(self.answer.returncode, 0, self.answer.stderr)
        study = self.study(self.whole)
        self.assertEqual((study["kind"], study["version"]), ("study", 2))
        self.assertEqual(study["pair"]["family"], "sums")
        self.assertEqual(study["options"]["seeds"], [42])
        self.assertFalse(study["options"]["quick"])
        self.assertEqual(set(study["parts"]), {"main", "ablations", "sweeps", "dynamics", "mechanism", "cost", "behaviour"})
        for name, part in study["parts"].items():
            self.assertGreaterEqual(part["seconds"], 0)
            self.assertTrue(part["complete"], name)
            self.assertNotIn("note", part)
        self.assertEqual(study["notes"], [])
        self.assertEqual(study["bank"], "bank.safetensors")
        self.assert_probes(self.whole, "routeopd-seed42 step_1")
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
            # The same masses, state by state: the last student's and the first one's.
            for place, line in ((path, probe[2]), (self.whole / "base", probe[0])):
                states = lines_of(place / "distance.jsonl")
                self.assertEqual(len(states), 16)
                self.assertAlmostEqual(sum(state["mass"] for state in states) / 16, line["mass"], delta=1e-6)
                for state in states:
                    self.assertGreaterEqual(min(state["forward_kl"], state["reverse_kl"]), 0)
        a, b = (lines_of(self.whole / run["path"] / "probe.jsonl")[0] for run in study["runs"])
        self.assertEqual(a["mass"], b["mass"], "the start is the same for all")
        self.assertNotEqual(a["leakage"], b["leakage"], "what an arm would do there is its own")

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
        # The arms of the study, routeopd standing for its own k and m; those that the sweeps train are called as there.
        self.assertEqual(cost["reference"], "sampled_rkl-lean")
        self.assertEqual(list(arms), ["sampled_rkl-lean", "sampled_rkl", "routeopd", "routeopd-k32-m1", "routeopd-k32", "routeopd-k32-m4",
                                      "routeopd-k32-m8", "routeopd-k64", "routeopd-kfull"])
        self.assertEqual(arms["sampled_rkl-lean"]["relative_total"], {"mean": 1, "low": 1, "high": 1})
        self.assertIsNone(arms["sampled_rkl-lean"]["k"])
        for arm in cost["arms"]:
            seconds = arm["seconds"]
            self.assertEqual(set(seconds), {"rollout", "score", "route", "learn", "learner", "total"})
            parts = sum(seconds[stage] for stage in ("rollout", "score", "route", "learn"))
            self.assertAlmostEqual(seconds["total"], parts, delta=seconds["total"] / 2)
            self.assertGreaterEqual(seconds["learner"], seconds["learn"])
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
        again = self.succeeds("--out", self.whole)
        self.assertIn("sampled_rkl", again.stdout)
        self.assertIn("teacher", again.stdout)
        self.assertEqual((self.whole / "study.json").read_bytes(), before)
        found = json.loads(self.succeeds("--out", self.whole, *TINY, "--lab", LAB, "--json").stdout)
        self.assertEqual([arm["name"] for arm in found["arms"]], ["sampled_rkl", "routeopd"])
        self.assertEqual(found["reference"], "sampled_rkl")
        self.assertGreater(found["teacher"], found["base"])

    def test_other_options_are_refused_with_the_field(self):
        for field, word in (("steps", "3"), ("lr", "1e-4"), ("seeds", "2"), ("arms", "sampled_rkl"), ("k", "8"),
                            ("template", "raw")):
            self.refuses(f"another {field} (", "main", "--out", self.whole, f"--{field}", word)
        self.refuses("another quick (", "main", "--out", self.whole, "--quick")
        self.refuses("another pair.family (", "main", "--out", self.whole, "--student", LAB / "base", "--teacher",
                     LAB / "teacher", "--prompts", LAB / "train.jsonl")

    def test_a_broken_manifest_is_refused(self):
        broken = self.path / "broken"
        broken.mkdir()
        for text, sentence in (("{", "study.json"), ("[]", "study.json"), ("{}", "is no study"),
                               ('{"kind": "study", "version": 1}', "is no study of version 2"),
                               ('{"kind": "study", "version": 2}', "cannot be resumed")):
            (broken / "study.json").write_text(text)
            self.refuses(sentence, "main", "--out", broken)
        good = self.study(self.whole)
        for field, value in (("runs", {}), ("runs", [{"path": 3}]), ("parts", {"main": {}}), ("pair", None),
                             ("options", {**good["options"], "steps": "many"})):
            (broken / "study.json").write_text(json.dumps({**good, field: value}))
            self.refuses("cannot be resumed", "main", "--out", broken)
        other = self.path / "other"
        other.mkdir()
        (other / "file").write_text("mine")
        self.refuses("exists already", "main", "--lab", LAB, "--out", other, *TINY)

    def test_what_is_refused_leaves_no_study(self):
        out = self.path / "mended"
        pair = ("--student", LAB / "base", "--teacher", LAB / "teacher", "--prompts", LAB / "train.jsonl")
        self.refuses("chat template", "main", "--out", out, *pair, *TINY)
        self.assertFalse(out.exists())
        self.refuses("positions", "main", "--lab", LAB, "--out", out, *TINY, "--max-new", "400")
        self.assertFalse(out.exists())

    def test_words_that_are_not_known(self):
        self.refuses("did you mean sweeps", "sweep", "--out", self.path / "typo", code=2)
        self.refuses("did you mean routeopd", "--out", self.path / "typo", "--arms", "routeodp")
        self.refuses("--out", "main", code=2)
        self.refuses("exclude each other", "main", "--out", self.path / "typo", "--lab", LAB, "--student", LAB, code=2)
        self.assertFalse((self.path / "typo").exists())

    def test_the_command_of_old_names_the_new_one(self):
        for words in ((), ("main", "--out", "runs/x", "--seeds", "1"), ("--quick",)):
            answer = subprocess.run([PROGRAM, "lab", *words], text=True, capture_output=True, cwd=self.path)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
            self.assertIn(f"`{' '.join(('routeopd', 'study', *words))}`", answer.stderr)
        answer = subprocess.run([PROGRAM, "lab", "make", "--out", self.path / "l", "--nonsense"], text=True,
                                capture_output=True)
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertFalse((self.path / "l").exists())


class Resume(Probed):
    """Stopped at different moments, the study resumes to the same files."""

    def stop(self, name, sign, where, options=TINY, later=0):
        out = self.path / name
        process = subprocess.Popen([PROGRAM, "study", "main", "--lab", LAB, "--out", out, *options], cwd=SOURCE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(6000):
            if where(out) or process.poll() is not None:
                break
            time.sleep(0.005)
        time.sleep(later)
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

    def test_killed_anywhere_it_resumes_to_the_same_files(self):
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

    def test_between_two_checkpoints_the_last_one_is_there(self):
        # fixed_low is no main arm: no checkpoint of its is held for the probes. Steps take long enough to be stopped in.
        options = [*sized(steps=4, prompts_per_step=32, n=4), *ONE_RATE, "--save-every", "2", "--arms", "fixed_low"]
        run = "runs/fixed_low-seed42"

        def in_the_last_step(out):
            metrics = out / run / "metrics.jsonl"
            return metrics.exists() and metrics.read_bytes().count(b"\n") == 3

        self.assertEqual(self.stop("between", signal.SIGKILL, in_the_last_step, options, later=0.03), -9)
        stopped, unstopped = self.path / "between", self.path / "unstopped"
        self.assertEqual(len(lines_of(stopped / run / "metrics.jsonl")), 3, "it was stopped too late to show anything")
        self.assertEqual([p.name for p in (stopped / run / "checkpoints").iterdir()], ["step_2"])
        self.succeeds("main", "--out", stopped, "--quiet")
        self.succeeds("main", "--lab", LAB, "--out", unstopped, *options, "--quiet")
        self.assertIn("from step 2,", (stopped / run / "log.txt").read_text())
        a, b = stopped / run, unstopped / run
        self.assertEqual(without_time(lines_of(a / "metrics.jsonl")), without_time(lines_of(b / "metrics.jsonl")))
        for name in ("checkpoints/step_4/model.safetensors", "eval/step_4/responses.jsonl"):
            self.assertEqual((a / name).read_bytes(), (b / name).read_bytes())
        self.assertEqual([p.name for p in (a / "checkpoints").iterdir()], ["step_4"])

    def test_a_piece_that_was_removed_is_made_again(self):
        out = self.path / "removed"
        shutil.copytree(self.whole, out)
        same = ("base/eval/summary.json", "teacher/eval/labels.jsonl", "concentration.jsonl")
        same += ("base/distance.jsonl", "runs/routeopd-seed42/distance.jsonl")
        other = ("runs/routeopd-seed42/eval/step_2/summary.json", "probes/arms/probe.json", "cost.json")
        for name in (*same, *other):
            (out / name).unlink()
        (out / "probes/arms.partial-1").mkdir()  # of a process that was killed
        self.succeeds("--out", out, "--quiet")
        for name in (*same, "base/eval/responses.jsonl", "runs/routeopd-seed42/eval/step_2/responses.jsonl"):
            self.assertEqual((out / name).read_bytes(), (self.whole / name).read_bytes(), name)
        for name in other:
            self.assertTrue((out / name).is_file(), name)
        self.assertEqual(self.probe(out, "arms")["rows"], self.probe(self.whole, "arms")["rows"])
        self.assertFalse((out / "probes/arms.partial-1").exists())

    def test_a_run_that_was_removed_is_made_again(self):
        out = self.path / "again"
        self.succeeds("main", "--lab", LAB, "--out", out, *TINY, "--quiet")
        subprocess.run(["rm", "-r", out / "runs" / "routeopd-seed42"], check=True)
        self.succeeds("main", "--out", out, "--quiet")
        self.assert_same(out)


class Parts(Probed):
    def test_a_part_alone_makes_what_it_needs(self):
        out = self.path / "sweeps"
        self.succeeds("sweeps", "--lab", LAB, "--out", out, *SIZE, *ONE_RATE, "--arms", "routeopd,routeopd-k4,routeopd-m1,fixed_low",
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
        tiny = [*SIZE, "--arms", "sampled_rkl,routeopd"]
        small = (*tiny, "--template", TEMPLATE, "--max-new", "60", "--quiet")
        self.succeeds("main", "--out", out, *pair, *small, "--suite", f"words={LAB / 'heldout.jsonl'}")
        study = self.study(out)
        self.assertEqual(study["pair"]["family"], "")
        self.assertEqual(study["options"]["lr"], 1e-6)
        self.assertEqual(study["options"]["k"], 32)
        summary = json.loads((out / study["evals"]["base"] / "summary.json").read_text())
        self.assertEqual(list(summary["suites"]), ["words"])
        self.assertFalse((out / study["evals"]["base"] / "labels.jsonl").exists(), "nobody can read these responses")

        out = self.path / "no-suite"
        answer = self.succeeds("main", "mechanism", "--out", out, *pair, *small[:-1], "--lr", "5e-5")
        study = self.study(out)
        for part, note in (("main", "there is no accuracy"), ("mechanism", "there is no accuracy by concentration")):
            self.assertTrue(study["parts"][part]["complete"])
            self.assertTrue(study["parts"][part]["note"].endswith(note), part)
            self.assertIn(f"{part}: {study['parts'][part]['note']}\n", answer.stdout)
        # A checkpoint every 10 steps, of which there are 2: the last one is the only one.
        self.assert_probes(out, "routeopd-seed42 step_2")
        self.assertEqual(study["evals"], {})
        self.assertIsNone(study["concentration"])
        for entry in study["runs"]:
            self.assertIsNone(entry["eval"])
            self.assertTrue((out / entry["path"] / "checkpoints" / "step_2").is_dir())
        self.refuses("--student, --teacher and --prompts", "main", "--out", self.path / "half", *pair[:4], code=2)

    def test_the_bank_has_its_states_however_few_problems_are_graded(self):
        out = self.path / "one-problem"
        # One answer has at most 80 states.
        self.succeeds("mechanism", "--lab", LAB, "--out", out, *sized(problems=1, states=100), *ONE_RATE, "--arms", "routeopd",
                      "--quiet")
        self.assertEqual(self.probe(out, "arms")["bank"]["states"], 100)
        self.assertEqual(self.study(out)["notes"], [])

        out, few = self.path / "few-prompts", self.path / "few.jsonl"
        few.write_text("".join((LAB / "train.jsonl").read_text().splitlines(keepends=True)[:4]))
        answer = self.succeeds("mechanism", "--out", out, "--student", LAB / "base", "--teacher", LAB / "teacher", "--prompts",
                               few, *sized(states=1000), "--arms", "routeopd", "--template", TEMPLATE, "--max-new", "20",
                               "--lr", "5e-5")
        states = self.probe(out, "arms")["bank"]["states"]
        self.assertTrue(4 <= states <= 80, states)
        (note,) = self.study(out)["notes"]
        self.assertIn(f"the bank has {states} states and not the 1000", note)
        self.assertIn(note, answer.stdout)


if __name__ == "__main__":
    unittest.main()
