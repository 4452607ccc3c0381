#!/usr/bin/env python3
"""Runs that are interrupted, killed, or run out of disk, as a user meets them; the plan; prompts that do not fit.

    resume_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from large_vocabulary import with_vocabulary

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
RECIPE = SOURCE / "recipes" / "lab.toml"
SMALL = ["--set", "train.steps=8", "--set", "rollout.prompts_per_step=4", "--set", "rollout.n=2", "--set",
         "checkpoint.every=3"]


def run(*arguments, **more):
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=300, cwd=SOURCE, **more)


def metrics_of(directory):
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("time", "memory")} for line in lines]


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def train(self, name, *more, code=0, **process):
        answer = run("train", RECIPE, "--out", self.path / name, *SMALL, *more, **process)
        self.assertEqual(answer.returncode, code, answer.stderr)
        return answer

    def assert_same_runs(self, one, other):
        self.assertEqual(metrics_of(self.path / one), metrics_of(self.path / other))
        for name in ("model.safetensors", "state/optimizer.safetensors"):
            a, b = (self.path / run / "checkpoints" / "step_8" / name for run in (one, other))
            self.assertEqual(a.read_bytes(), b.read_bytes(), name)

    def stop(self, name, sign, lines):
        process = subprocess.Popen([PROGRAM, "train", RECIPE, "--out", self.path / name, *SMALL],
                                   stderr=subprocess.DEVNULL, cwd=SOURCE)
        metrics = self.path / name / "metrics.jsonl"
        for _ in range(6000):
            if metrics.exists() and metrics.read_bytes().count(b"\n") >= lines:
                break
            time.sleep(0.01)
        process.send_signal(sign)
        return process.wait(60)


class Resume(Case):
    def test_after_signals_and_a_kill_the_run_ends_in_the_same_bits(self):
        self.train("whole", "--quiet")
        for sign, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -signal.SIGKILL)):
            name = sign.name
            self.assertEqual(self.stop(name, sign, 4), code)
            self.train(name, "--resume", "--quiet")
            self.assert_same_runs("whole", name)
        self.assertIn("from step 3", (self.path / "SIGKILL" / "log.txt").read_text())
        answer = self.train("whole", "--resume")
        self.assertIn("were done already", answer.stderr)

    def test_a_full_disk_leaves_the_last_checkpoint_whole(self):
        self.train("whole", "--quiet")
        weights = (self.path / "whole" / "checkpoints" / "step_8" / "model.safetensors").stat().st_size

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (weights // 2, weights // 2))

        run_directory = self.path / "full"
        self.assertEqual(self.stop("full", signal.SIGINT, 4), 130)
        answer = self.train("full", "--resume", code=1, preexec_fn=small_files)
        self.assertIn("File too large", answer.stderr)
        self.assertEqual(answer.stderr.strip().count("\n"), 0, answer.stderr)
        names = sorted(p.name for p in (run_directory / "checkpoints").iterdir())
        self.assertTrue(names and all(".partial" not in name for name in names), names)
        self.train("full", "--resume", "--quiet")
        self.assert_same_runs("whole", "full")

    def test_a_checkpoint_is_never_of_another_step(self):
        """Lines of a step that cannot be written, where a checkpoint could: it would be ahead of them."""
        more = ("--set", "train.rollouts=true", "--quiet")
        self.train("whole", *more)
        weights = (self.path / "whole" / "checkpoints" / "step_8" / "state" / "optimizer.safetensors").stat().st_size
        for name in ("rollouts.jsonl", "metrics.jsonl"):
            self.train(name, *more, "--set", "checkpoint.keep=0")
            directory = self.path / name
            subprocess.run(["rm", "-r", directory / "checkpoints" / "step_8"], check=True)
            lines = [line for line in (directory / name).read_text().splitlines() if json.loads(line)["step"] <= 6]
            padding = json.dumps({"step": 1, "pad": "x" * 1000}) + "\n"
            (directory / name).write_text(padding * (2 * weights // len(padding)) + "\n".join(lines) + "\n")
            limit = (directory / name).stat().st_size + 100

            def no_more():
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            self.train(name, *more, "--set", "checkpoint.keep=0", "--resume", code=1, preexec_fn=no_more)
            steps = sorted(int(p.name[5:]) for p in (directory / "checkpoints").iterdir())
            self.assertEqual(steps, [3, 6], name)

    def test_what_was_watched_is_made_up_for(self):
        more = ("--set", "eval.every=4", "--set", "eval.n=1", "--set", "probe.every=2", "--set", "probe.states=32", "--quiet")
        self.train("run", *more)
        probe, eval_directory = self.path / "run" / "probe.jsonl", self.path / "run" / "eval" / "step_8"
        whole, summary = probe.read_text(), (eval_directory / "summary.json").read_text()
        self.assertEqual([json.loads(line)["step"] for line in whole.splitlines()], [0, 2, 4, 6, 8])
        probe.write_text("".join(whole.splitlines(keepends=True)[:-1]))
        (eval_directory / "summary.json").unlink()
        self.train("run", *more, "--resume")
        self.assertEqual(probe.read_text(), whole)
        self.assertEqual((eval_directory / "summary.json").read_text(), summary)

    def test_an_evaluation_that_was_stopped_is_resumed(self):
        settings = ("--set", "train.steps=2", "--set", "eval.every=2", "--quiet")
        self.train("run", *settings, "--set", "eval.n=1")
        directory = self.path / "run" / "eval" / "step_2"
        summary = (directory / "summary.json").read_text()

        def stop():
            """As a kill in the middle would leave it; the first response is marked."""
            whole = json.loads(summary)
            protocol = {name: whole[name] for name in ("model", "decoding", "seed", "template", "extractor")}
            protocol["suites"] = {name: {key: suite[key] for key in ("file", "sha256")}
                                  for name, suite in whole["suites"].items()}
            (directory / "protocol.json").write_text(json.dumps(protocol))
            (directory / "summary.json").unlink()
            lines = [json.loads(line) for line in (directory / "responses.jsonl").read_text().splitlines()[:50]]
            lines[0]["response"] = "marked " + lines[0]["response"]
            (directory / "responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

        stop()
        self.train("run", *settings, "--set", "eval.n=1", "--resume")
        self.assertEqual((directory / "summary.json").read_text(), summary)
        self.assertTrue("marked " in (directory / "responses.jsonl").read_text())
        # [eval] may change when a run is resumed: what was half-way under other settings is made anew, what is complete stays.
        stop()
        self.train("run", *settings, "--set", "eval.n=2", "--resume")
        self.assertEqual(json.loads((directory / "summary.json").read_text())["decoding"]["n"], 2)
        self.assertFalse("marked " in (directory / "responses.jsonl").read_text())
        self.train("run", *settings, "--set", "eval.n=1", "--resume")
        self.assertEqual(json.loads((directory / "summary.json").read_text())["decoding"]["n"], 2)

    def test_a_moved_run_is_resumed_where_it_lies(self):
        self.train("whole", "--quiet")
        self.assertEqual(self.stop("here", signal.SIGINT, 4), 130)
        (self.path / "here").rename(self.path / "there")
        answer = run("train", self.path / "there" / "recipe.toml", "--resume", "--quiet")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertFalse((self.path / "here").exists())
        self.assert_same_runs("whole", "there")

    def test_a_run_under_way_and_another_recipe_are_refused(self):
        process = subprocess.Popen([PROGRAM, "train", RECIPE, "--out", self.path / "busy", *SMALL, "--set",
                                    "train.steps=100000"], stderr=subprocess.DEVNULL, cwd=SOURCE)
        try:
            while not (self.path / "busy" / "metrics.jsonl").exists():
                time.sleep(0.01)
            answer = self.train("busy", "--resume", code=1)
            self.assertIn("another process works there", answer.stderr)
            self.assertIn("exists already", self.train("busy", code=1).stderr)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
        answer = self.train("busy", "--resume", "--set", "optimizer.lr=1", code=1)
        self.assertIn("optimizer.lr differs from the recipe that the run began with", answer.stderr)


    def student(self):
        shutil.copytree(SOURCE / "lab" / "base", self.path / "student")
        return self.path / "student", ("--set", f"student.path={self.path}/student", "--quiet")

    def test_another_model_of_the_same_weights_is_refused(self):
        """Its shapes fit: nothing else would notice."""
        student, settings = self.student()
        self.train("run", *settings, "--set", "train.steps=3")
        config, tokenizer = student / "config.json", student / "tokenizer.json"
        before = config.read_text()
        words = json.loads(before)
        config.write_text(json.dumps(words | {"rms_norm_eps": 1e-5}))
        answer = self.train("run", *settings, "--resume", code=1)
        self.assertIn("step_3: its config.json is not the one that", answer.stderr)
        config.write_text(before)
        words = tokenizer.read_text()
        tokenizer.write_text(words + " ")
        self.assertIn("its tokenizer.json is not", self.train("run", *settings, "--resume", code=1).stderr)
        tokenizer.write_text(words)
        (student / "special_tokens_map.json").write_text("{}")
        self.assertIn("its special_tokens_map.json is not", self.train("run", *settings, "--resume", code=1).stderr)
        (student / "special_tokens_map.json").unlink()
        self.train("run", *settings, "--resume")

    def test_a_teacher_of_another_configuration_is_refused(self):
        shutil.copytree(SOURCE / "lab" / "teacher", self.path / "teacher")
        settings = ("--set", f"teacher.path={self.path}/teacher", "--quiet")
        self.train("run", *settings, "--set", "train.steps=3")
        config = self.path / "teacher" / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"rms_norm_eps": 1e-5}))
        answer = self.train("run", *settings, "--resume", code=1)
        self.assertIn("was made with other teacher configuration or tokenizer", answer.stderr)

    def test_steps_are_saved_where_the_students_directory_has_moved(self):
        student, settings = self.student()
        process = subprocess.Popen([PROGRAM, "train", RECIPE, "--out", self.path / "run", *SMALL, *settings],
                                   stderr=subprocess.PIPE, text=True, cwd=SOURCE)
        while not (self.path / "run" / "metrics.jsonl").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        student.rename(self.path / "elsewhere")
        self.assertEqual((process.communicate(timeout=60)[1], process.returncode), ("", 0))
        self.train("whole", "--quiet")
        self.assert_same_runs("whole", "run")
        for name in ("config.json", "tokenizer.json"):
            self.assertEqual((self.path / "run" / "checkpoints" / "step_8" / name).read_bytes(),
                             (self.path / "elsewhere" / name).read_bytes())

    def test_a_directory_that_is_taken_is_told_before_models_are_loaded(self):
        student, settings = self.student()
        weights = student / "model.safetensors"
        weights.write_bytes(weights.read_bytes().replace(b"model.norm.weight", b"model.nurm.weight"))  # loading says so
        self.assertIn("model.norm.weight is missing", self.train("free", *settings, code=1).stderr)
        (self.path / "taken").mkdir()
        (self.path / "taken" / "file").touch()
        self.assertIn("taken: exists already", self.train("taken", *settings, code=1).stderr)


class Plan(Case):
    def test_dry_run_tells_what_is_needed_and_makes_nothing(self):
        text = self.train("run", "--dry-run").stdout
        for part in ("AdamW", "keys and values", "activations", "the teacher reads", "together"):
            self.assertIn(part, text)
        plan = json.loads(self.train("run", "--dry-run", "--json").stdout)
        self.assertTrue(plan["fits"])
        self.assertEqual(plan["teacher_calls"], 8)
        self.assertEqual(plan["memory"]["AdamW"], 8 * plan["student_parameters"])
        self.assertEqual(plan["total_bytes"], sum(plan["memory"].values()))
        self.assertFalse((self.path / "run").exists())
        huge = json.loads(self.train("run", "--dry-run", "--json", "--set", "rollout.prompts_per_step=4000", "--set",
                                     "rollout.n=256").stdout)
        self.assertGreater(huge["total_bytes"], 50 * plan["total_bytes"])
        for setting in ("rollout.max_new_tokens=100000", "rollout.prompts_per_step=16777216"):
            refused = run("train", RECIPE, "--dry-run", "--set", setting)
            self.assertEqual(refused.returncode, 1, setting)
        missing = run("train", RECIPE, "--out", self.path / "run", "--dry-run", "--set", "student.path=nowhere")
        self.assertEqual(missing.returncode, 1)
        self.assertEqual(missing.stderr.count("\n"), 1)

    def assert_peak_as_planned(self, *settings):
        plan = json.loads(run("train", RECIPE, "--dry-run", "--json", *settings).stdout)
        self.assertGreater(plan["peak_bytes"], plan["total_bytes"])
        answer = run("train", RECIPE, "--out", self.path / "run", "--set", "train.steps=1", "--quiet", *settings)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        peak = json.loads((self.path / "run" / "metrics.jsonl").read_text())["memory"]["peak_bytes"]
        self.assertLess(peak, 1.1 * plan["peak_bytes"])
        return peak, plan

    def test_the_peak_is_at_most_what_was_planned(self):
        """A whole step of the recipe, whose activations are more than the program itself."""
        peak, plan = self.assert_peak_as_planned()
        self.assertGreater(peak, plan["peak_bytes"] - plan["memory"]["activations"], "the test can see a part that is not planned")

    def test_the_peak_of_a_large_vocabulary_is_too(self):
        """With 151,936 ids; the dense arm holds logits and all that is theirs."""
        with_vocabulary(SOURCE / "lab" / "base", self.path / "student", 151936, seed=1)
        with_vocabulary(SOURCE / "lab" / "teacher", self.path / "teacher", 151936, seed=2)
        pair = ["--set", f"student.path={self.path}/student", "--set", f"teacher.path={self.path}/teacher", "--set",
                "rollout.prompts_per_step=4", "--set", "rollout.max_new_tokens=24"]
        for arm in ("routeopd", "sampled_rkl", "full_rkl"):
            with self.subTest(arm):
                peak, plan = self.assert_peak_as_planned(*pair, "--set", f"objective.arm={arm}")
                if arm == "routeopd":
                    self.assertGreater(peak, plan["peak_bytes"] - plan["memory"]["student"], "the test can see a part not planned")
                shutil.rmtree(self.path / "run")

    def test_what_cannot_fit_is_refused(self):
        """The support of all ids at a million states: a terabyte and more, with the numbers and a way around."""
        huge = ["--set", "objective.arm=union_rkl", "--set", "objective.k=full", "--set", "rollout.prompts_per_step=4000",
                "--set", "rollout.n=256"]
        answer = self.train("run", *huge, code=1)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertRegex(answer.stderr, r"needs [\d.]+ GB of memory .* [\d.]+ GB of it for support, and [\d.]+ .B are free; ")
        self.assertIn("--allow-overcommit", answer.stderr)
        self.assertFalse((self.path / "run").exists())
        plan = json.loads(self.train("run", "--dry-run", "--json", *huge).stdout)
        self.assertFalse(plan["fits"])
        states = 4000 * 256 * 128
        self.assertEqual(plan["memory"]["support"] % states, 0)
        self.assertIn("--allow-overcommit", self.train("run", "--dry-run", *huge).stdout)
        # The override is heeded: the run then fails where it always did, at its first missing piece.
        allowed = self.train("run", *huge, "--allow-overcommit", "--set", "probe.every=1", "--set", "probe.bank=nowhere", code=1)
        self.assertIn("nowhere", allowed.stderr)
        self.assertFalse((self.path / "run").exists())

    def test_a_probe_over_all_ids_is_counted(self):
        more = ("--set", "probe.every=1", "--dry-run", "--json")
        few, full = (json.loads(self.train("run", *more, "--set", f"objective.k={k}").stdout)["memory"] for k in (16, "full"))
        self.assertGreater(full["probe"], 5 * few["probe"])

    def test_show_recipe_is_a_recipe(self):
        shown = self.train("run", "--show-recipe").stdout
        (self.path / "again.toml").write_text(shown)
        again = run("train", self.path / "again.toml", "--show-recipe")
        self.assertEqual(again.stdout, shown)


class Prompts(Case):
    def test_long_ones_are_skipped_and_counted(self):
        lines = (SOURCE / "lab" / "train.jsonl").read_text().splitlines(keepends=True)[:6]
        long = json.dumps({"id": "long", "problem": "Mia has 3 eggs. " * 100})
        (self.path / "prompts.jsonl").write_text("".join(lines[:2]) + long + "\n" + "".join(lines[2:]))
        answer = self.train("run", "--set", f"data.prompts={self.path / 'prompts.jsonl'}", "--set", "train.rollouts=true")
        self.assertIn("1 skipped, 6 stay", answer.stderr)
        self.assertIn("1 prompts skipped", (self.path / "run" / "log.txt").read_text())
        ids = {json.loads(line)["id"] for line in (self.path / "run" / "rollouts.jsonl").read_text().splitlines()}
        self.assertEqual(len(ids), 6)
        self.assertNotIn("long", ids)
        (self.path / "prompts.jsonl").write_text("".join(long.replace('"long"', f'"{i}"') + "\n" for i in range(6)))
        answer = self.train("other", "--set", f"data.prompts={self.path / 'prompts.jsonl'}", code=1)
        self.assertIn("positions of the student", answer.stderr)
        self.assertFalse((self.path / "other").exists())

    def test_a_broken_line_is_numbered(self):
        lines = (SOURCE / "lab" / "train.jsonl").read_text().splitlines(keepends=True)[:6]
        lines[3] = lines[3][:20] + "\n"
        (self.path / "prompts.jsonl").write_text("".join(lines))
        answer = self.train("run", "--set", f"data.prompts={self.path / 'prompts.jsonl'}", code=1)
        self.assertIn("4", answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1)
        self.assertFalse((self.path / "run").exists())


class Telemetry(Case):
    def test_events_hold_the_metrics(self):
        self.train("run", "--quiet")
        (events,) = (self.path / "run").glob("events.out.tfevents.*")
        data = events.read_bytes()
        # Every number of a step is a scalar under its name; steps are told apart by tensorboard (tests/peers).
        names = [name for name, value in metrics_of(self.path / "run")[0].items() if isinstance(value, (int, float))]
        self.assertGreater(len(names), 15)
        for name in names:
            self.assertEqual(data.count(name.encode()) >= 8, name != "step", name)
        for name in ("time/rollout", "memory/peak_bytes", "validity/valid"):
            self.assertEqual(data.count(name.encode()), 8)


if __name__ == "__main__":
    unittest.main()
