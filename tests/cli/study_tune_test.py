#!/usr/bin/env python3
"""`routeopd study`: learning rates that are chosen on validation problems, and studies of a recipe.

    study_tune_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from study_cases import LAB, PROGRAM, SOURCE, TEMPLATE, TINY, Case, lines_of, run, sized


def setUpModule():
    directory = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(directory.cleanup)
    Case.path = pathlib.Path(directory.name)


class Tune(Case):
    """Rates are chosen on validation problems alone, trial by trial, and every arm then trains at its own."""
    SIZES = [*sized(every=0), "--arms", "sampled_rkl,routeopd,exact", "--template", TEMPLATE, "--max-new", "60"]
    OPTIONS = [*SIZES, "--lrs", "1e-4,1e-3,3e-3", "--tune-seeds", "1", "--tune-problems", "6", "--tune-samples", "2"]

    @classmethod
    def setUpClass(cls):
        rows = (LAB / "train.jsonl").read_text().splitlines(keepends=True)
        for name, chosen in (("rest", rows[64:]), ("validation", rows[:8])):
            (cls.path / f"{name}.jsonl").write_text("".join(chosen))
        shutil.copy(LAB / "heldout.jsonl", cls.path / "suite.jsonl")
        cls.tuned = cls.path / "tuned"
        cls.answer = run(*cls.pair(), "--out", cls.tuned, *cls.OPTIONS)

    @classmethod
    def pair(cls, suite="suite.jsonl", validation="validation.jsonl"):
        return ["main", "--student", LAB / "base", "--teacher", LAB / "teacher", "--prompts", cls.path / "rest.jsonl",
                "--suite", f"words={cls.path / suite}", "--validation", cls.path / validation]

    def record(self, out):
        return json.loads((out / "tune.json").read_text())

    def test_each_arm_trains_at_its_own_rate_and_all_at_the_shared_one(self):
        self.assertEqual(self.answer.returncode, 0, self.answer.stderr)
        record, study = self.record(self.tuned), self.study(self.tuned)
        self.assertTrue(record["complete"])
        self.assertEqual(record["judged_problems"], 6)
        self.assertEqual([arm["arm"] for arm in record["arms"]], ["sampled_rkl", "routeopd"])
        for arm in record["arms"]:
            self.assertEqual([point["lr"] for point in arm["rates"] if point["lr"] in record["lrs"]], record["lrs"])
            self.assertEqual(len(arm["rates"]), 3 + arm["extended"])
            sizes = {point["lr"]: point["rms"] for point in arm["rates"]}
            self.assertLess(sizes[1e-4], sizes[1e-3], "a larger rate moves further, until it overthrows everything")
            for point in arm["rates"]:
                self.assertTrue(0 < point["completion"] <= 1 and 0 <= point["overshoot"] <= 1, point)
            best = max(point["mean"] for point in arm["rates"])
            self.assertEqual(arm["lr"], min(p["lr"] for p in arm["rates"] if p["mean"] >= best - 0.003 - 1e-12))
        own = {arm["arm"]: arm["lr"] for arm in record["arms"]}
        own["exact"] = own["routeopd"]
        self.assertEqual(record["shared_lr"], min(own.values()), "the lower median of two")
        self.assertEqual(len(study["runs"]), 6)
        for entry in study["runs"]:
            lr = record["shared_lr"] if entry["shared"] else own[entry["name"]]
            self.assertEqual(entry["lr"], lr)
            self.assertIn(f"\nlr = {lr}", (self.tuned / entry["path"] / "recipe.toml").read_text())
            self.assertEqual("-shared" in entry["path"], entry["shared"] and own[entry["name"]] != lr)
        self.assertEqual(set(study["parts"]), {"tune", "main"})

    def test_trials_see_validation_problems_alone(self):
        validation = {row["id"] for row in lines_of(self.path / "validation.jsonl")}
        for trial in self.record(self.tuned)["trials"]:
            place = self.tuned / "tune" / f"{trial['arm']}-lr{trial['lr']:.15g}-seed{trial['seed']}"
            responses = lines_of(place / "eval/step_2/responses.jsonl")
            self.assertEqual(len(responses), 12)
            self.assertEqual({row["suite"] for row in responses}, {"validation"})
            self.assertLessEqual({row["problem"] for row in responses}, validation)
            self.assertEqual(sum(row["correct"] for row in responses) / 12, trial["avg"])
            self.assertEqual(trial["seed"], 142)
            self.assertFalse((place / "checkpoints").exists())

    def test_another_answer_to_every_held_out_problem_changes_no_choice(self):
        rows = [{**row, "answer": "-1"} for row in lines_of(self.path / "suite.jsonl")]
        (self.path / "wrong.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        out = self.path / "wrong"
        self.succeeds(*self.pair("wrong.jsonl"), "--out", out, *self.OPTIONS, "--quiet")
        self.assertEqual(self.record(out), self.record(self.tuned))
        summary = json.loads((out / self.study(out)["evals"]["teacher"] / "summary.json").read_text())
        self.assertEqual(summary["avg"], 0, "the held-out problems are those with the wrong answers")

    def test_a_validation_problem_that_is_held_out_or_trained_on_is_refused(self):
        own = (self.path / "validation.jsonl").read_text()
        for name, other in (("held", "suite.jsonl"), ("trained", "rest.jsonl")):
            # The last problem of the file, which --problems would leave out of the evaluation, in other letters.
            taken = (self.path / other).read_text().splitlines(keepends=True)[-1].replace("How many", "how  MANY")
            (self.path / f"{name}.jsonl").write_text(own + taken)
            self.refuses("which a learning rate must not be chosen by", *self.pair(validation=f"{name}.jsonl"), "--out",
                         self.path / name, *self.OPTIONS)
            self.assertFalse((self.path / name).exists())

    def test_killed_it_resumes_to_the_same_choice(self):
        out = self.path / "killed"
        process = subprocess.Popen([PROGRAM, "study", *map(str, self.pair()), "--out", out, *self.OPTIONS], cwd=SOURCE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(6000):
            if (out / "tune.json").exists() or process.poll() is not None:
                break
            time.sleep(0.005)
        process.kill()
        self.assertEqual(process.wait(60), -9)
        self.assertFalse(self.record(out)["complete"])
        self.succeeds("main", "--out", out, "--quiet")
        self.assertEqual(self.record(out), self.record(self.tuned))
        self.assertEqual(self.study(out)["runs"], self.study(self.tuned)["runs"])
        for entry in self.study(out)["runs"]:
            name = f"{entry['eval']}/responses.jsonl"
            self.assertEqual((out / name).read_bytes(), (self.tuned / name).read_bytes())

    def test_rates_from_a_record(self):
        out, record = self.path / "taken", self.tuned / "tune.json"
        self.succeeds(*self.pair(), "--out", out, *self.SIZES, "--rates", record, "--quiet")
        self.assertEqual(self.study(out)["runs"], self.study(self.tuned)["runs"])
        self.assertEqual(self.study(out)["notes"], [])
        self.assertFalse((out / "tune").exists())
        (out / "tune.json").unlink()
        self.succeeds("main", "--out", out, "--quiet")
        self.assertEqual(self.record(out), self.record(self.tuned))

    def test_a_record_that_was_chosen_by_problems_of_a_suite_is_refused(self):
        """The same file, or a single problem of it in other letters."""
        record, refused = self.tuned / "tune.json", self.path / "leak"
        self.refuses("the very problems that this study judges by", *self.pair("validation.jsonl", "suite.jsonl"), "--out",
                     refused, *self.SIZES, "--rates", record)
        taken = (self.path / "validation.jsonl").read_text().splitlines(keepends=True)[-1].replace("How many", "how  MANY")
        (self.path / "one-of-them.jsonl").write_text((self.path / "suite.jsonl").read_text() + taken)
        self.refuses("which a learning rate must not be chosen by", *self.pair("one-of-them.jsonl"), "--out", refused,
                     *self.SIZES, "--rates", record)
        # However it is asked.
        asked_otherwise = [TEMPLATE.replace("Problem", "Question") if word == TEMPLATE else word for word in self.SIZES]
        self.refuses("which a learning rate must not be chosen by", *self.pair("one-of-them.jsonl"), "--out", refused,
                     *asked_otherwise, "--rates", record)
        # A record that does not say which problems it was chosen by cannot be compared.
        silent = self.record(self.tuned)
        del silent["content"]["validation_problems"]
        (self.path / "silent.json").write_text(json.dumps(silent))
        self.refuses("does not say by which problems", *self.pair(), "--out", refused, *self.SIZES, "--rates",
                     self.path / "silent.json")
        silent["content"]["validation_problems"] = {"no hash": 5}
        (self.path / "silent.json").write_text(json.dumps(silent))
        self.refuses("does not say by which problems", *self.pair(), "--out", refused, *self.SIZES, "--rates",
                     self.path / "silent.json")
        self.assertFalse(refused.exists())

    def test_a_record_is_held_to_its_trials(self):
        def better(record):
            record["arms"][0]["rates"][0]["per_seed"][0] = 1

        def worse(record):
            record["trials"][0]["avg"] = 1

        def other(record):
            arm = record["arms"][0]
            arm["lr"] = next(point["lr"] for point in arm["rates"] if point["lr"] != arm["lr"])

        def without(record):
            del record["trials"][0]

        def steps(record):
            record["steps"] = "many"

        for sentence, change in (("is not that of its trials", better), ("its trials", worse), ("lower median", other),
                                 ("missing", without), ("many", steps)):
            record = self.record(self.tuned)
            change(record)
            (self.path / "changed.json").write_text(json.dumps(record))
            answer = run(*self.pair(), "--out", self.path / "changed", *self.SIZES, "--rates", self.path / "changed.json")
            self.assertEqual(answer.returncode, 1, change.__name__)
            self.assertIn("is a damaged record of tuning", answer.stderr)
            if change not in (worse, other):
                self.assertIn(sentence, answer.stderr)

    def test_what_leaves_nothing_to_tune_is_refused_as_well_when_it_is_only_told(self):
        record, given = ["--rates", self.tuned / "tune.json"], ("--out", self.path / "given")
        tune, main = ["tune", *self.pair()[1:]], self.pair()
        for sentence, words in (("leave --rates out", [*tune, *self.SIZES, *record]),
                                ("leave --lr out", [*tune, *TINY, "--template", TEMPLATE]),
                                ("--validation FILE", [*tune[:-2], *self.SIZES]),
                                ("lrs: no rate is chosen here, since rates is given", [*main, *self.OPTIONS, *record]),
                                ("tune_steps: no rate is chosen here, since lr is given", [*main, *TINY, "--tune-steps", "3"]),
                                ("nowhere.json", [*main, *self.SIZES, "--rates", "nowhere.json"]),
                                ("sampled_rkl: no learning rate is chosen for it",
                                 [*main, *self.SIZES, "--tune-arms", "routeopd"]),
                                ("expected words with commas between them", [*main, *self.SIZES, "--lrs", ","])):
            for way in (given, ("--dry-run",)):
                self.refuses(sentence, *words, *way, code=2 if "," in words else 1)
        self.refuses("neither a part nor a recipe", "x.jsonl", *given, code=2)
        self.assertFalse(given[1].exists())
        # A record is damaged: which, and what to do.
        broken = self.path / "broken.json"
        broken.write_text((self.tuned / "tune.json").read_text()[:-100])
        self.refuses("name another record of tuning, or tune again", *main, *self.SIZES, "--rates", broken, *given)


class Recipes(Case):
    """What runs share may come from a recipe."""
    PAPER = sorted((SOURCE / "recipes").glob("paper_*.toml"))

    @staticmethod
    def on_the_laboratory(path):
        """The recipe with models and data that are here."""
        places = {"student.path": LAB / "base", "teacher.path": LAB / "teacher", "data.prompts": LAB / "train.jsonl",
                  "data.template": "raw", "rollout.max_new_tokens": 60, "eval.max_new_tokens": 80,
                  "eval.suites": json.dumps({"words": str(LAB / "heldout.jsonl")})}
        return [path, *(word for name, value in places.items() for word in ("--set", f"{name}={value}"))]

    def test_the_papers_settings_tell_what_they_take(self):
        self.assertEqual(len(self.PAPER), 4)
        for path in self.PAPER:
            recipe = self.on_the_laboratory(path)
            told = json.loads(self.succeeds(*recipe, "main", "--dry-run", "--json").stdout)
            self.assertEqual((told["runs"], told["shared_runs"], told["trials"], told["steps"]), (24, 0, 0, 24 * 35))
            self.assertEqual(told["written_tokens"], 24 * 35 * 2048 * 60)
            # Every fifth step of the first seed, the end of the others; the untrained student and the teacher.
            self.assertEqual(told["evaluations"], 8 * 7 + 16 + 2)
            self.assertEqual(told["judged_tokens"], told["evaluations"] * 200 * 16 * 80)
            # Weights and two moments in float32; of the first seed's arms the middle checkpoint as well.
            self.assertEqual(told["checkpoint_bytes"], (8 * 2 + 16) * 12 * told["student_parameters"])
            self.assertAlmostEqual(told["hours"], told["operations"] / told["operations_per_second"] / 3600)
            tuned = json.loads(self.succeeds(*recipe, "main", "--validation", LAB / "heldout.jsonl", "--dry-run", "--json").stdout)
            self.assertEqual((tuned["trials"], tuned["shared_runs"]), (50, 24))
            self.assertGreater(tuned["hours"], 0)
        self.assertIn("24 of 35 steps", self.succeeds(*recipe, "main", "--dry-run").stdout)

    def test_runs_are_what_the_recipe_says(self):
        out = self.path / "from-recipe"
        recipe = [*self.on_the_laboratory(self.PAPER[0]), "--set", "train.minibatches=2", "--set", "objective.b_max=0.3"]
        sizes = ["--steps", "2", "--prompts-per-step", "4", "--n", "2", "--problems", "4", "--samples", "2", "--seeds", "1",
                 "--states", "16", "--every", "0", "--arms", "sampled_rkl,fixed_high"]
        self.succeeds(*recipe, "main", "--out", out, *sizes, "--quiet")
        study = self.study(out)
        self.assertEqual(study["options"]["objective"], {"b_max": 0.3})
        self.assertEqual([(run["name"], run["lr"]) for run in study["runs"]], [("sampled_rkl", 1e-6), ("fixed_high", 1e-6)])
        for entry in study["runs"]:
            text = (out / entry["path"] / "recipe.toml").read_text()
            for line in ("minibatches = 2", "recompute = true", "max_new_tokens = 60", "max_new_tokens = 80", "b_max = 0.3",
                         "lr = 1e-06", "steps = 2"):
                self.assertIn(f"\n{line}  #", text)
        decoding = json.loads((out / study["runs"][0]["eval"] / "summary.json").read_text())["decoding"]
        self.assertEqual(decoding["max_new_tokens"], 80)
        self.succeeds(*recipe, "main", "--out", out, "--quiet")
        for field, value in (("train.minibatches", 1), ("train.steps", 3), ("rollout.n", 3), ("objective.b_min", 0.2),
                             ("objective.k", 5), ("optimizer.lr", 1e-3), ("eval.n", 3)):
            self.refuses(f"another {field} of the recipe", *recipe, "--set", f"{field}={value}", "main", "--out", out)

    def test_what_contradicts_a_recipe_is_refused(self):
        recipe = self.on_the_laboratory(self.PAPER[0])
        out = ("--out", self.path / "refused")
        self.refuses("the recipe names the pair", *recipe, *out, "--lab", LAB, code=2)
        self.refuses("one recipe", *recipe, self.PAPER[1], *out, code=2)
        self.refuses("name one", "main", "--set", "train.steps=1", *out, code=2)
        self.refuses("a number", *recipe, "--set", "objective.k=full", *out)
        self.refuses("what arms differ in", "main", "--objective", "budget=fixed_mid", *out, code=2)
        self.refuses("b_max", "main", "--objective", "b_max=x", *out, code=2)
        self.refuses("nowhere.toml", "nowhere.toml", *out)
        self.assertFalse(out[1].exists())


if __name__ == "__main__":
    unittest.main()
