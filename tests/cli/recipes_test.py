#!/usr/bin/env python3
"""Every recipe that we ship resolves to what it says; those of the paper say everything, with the paper's numbers.

    recipes_test.py PROGRAM SOURCE_DIRECTORY

No model is read: `train --show-recipe` prints the resolved recipe and stops.
"""
import functools
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
RECIPES = sorted((SOURCE / "recipes").glob("*.toml"))
PAPER = [path for path in RECIPES if path.name.startswith("paper_")]
COMPLETE = [*PAPER, SOURCE / "recipes" / "smollm2.toml"]

OF_SERVERS = ("urls", "api_key_env", "patience", "requests", "request_seconds", "weights")

# The paper's numbers. Left out is what it does not give: what is ours may change without a lie.
OF_THE_PAPER = {
    "seed": 42,
    # "Training Data, Budgets, and Optimization"
    "data.shuffle": True,
    "rollout.n": 4,
    "rollout.temperature": 1.0,
    "rollout.top_p": 1.0,
    "rollout.max_new_tokens": 16384,
    "optimizer.lr": 1e-6,
    "optimizer.betas": [0.9, 0.999],
    "optimizer.weight_decay": 0.01,
    "optimizer.clip": 1.0,
    "optimizer.schedule": "cosine",
    "optimizer.warmup": 0.03,
    "train.epochs": 1,
    # "Implementation and Numerical Conventions"
    "objective.arm": "routeopd",
    "objective.k": 32,
    "objective.m": 2,
    "objective.pairs": "sample",
    "objective.budget": "adaptive",
    "objective.destination": "teacher_deficit",
    "objective.side": "pair",
    "objective.weight": "mass",
    "objective.target": "shared",
    "objective.b_min": math.log(1.2),
    "objective.b_max": math.log(1.5),
    "objective.kappa": 1.0,
    "objective.delta_p": 1e-8,
    "objective.delta_m": 1e-6,
    "objective.delta_diag": 1e-12,
    "objective.delta_target": 0.01,
    # "Evaluation and Uncertainty"
    "eval.n": 16,
    "eval.temperature": 0.7,
    "eval.top_p": 0.95,
    "eval.max_new_tokens": 16384,
}
SUITES = {"math500", "amc23", "aime24", "aime25"}
PASS = 17917  # rows of DAPO-Math-17K


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=60, cwd=SOURCE)


@functools.cache
def show(path, *settings):
    return run("train", path, "--show-recipe", *(word for setting in settings for word in ("--set", setting)))


def fields(recipe):
    """{"section.key": value}, top-level keys by themselves. A table inside a section (eval.suites) is one value."""
    flat = {}
    for name, value in recipe.items():
        if isinstance(value, dict):
            flat.update({f"{name}.{key}": inner for key, inner in value.items()})
        else:
            flat[name] = value
    return flat


def said(path):
    return fields(tomllib.loads(path.read_text()))


class Case(unittest.TestCase):
    def resolved(self, path, *settings):
        answer = show(path, *settings)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return fields(tomllib.loads(answer.stdout))

    def refuses(self, sentence, path, *settings, code=1):
        answer = show(path, *settings)
        self.assertEqual(answer.returncode, code, f"{path.name} {settings}: {answer.stderr}")
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertRegex(answer.stderr, sentence)
        self.assertEqual(answer.stdout, "")


class Recipes(Case):
    def test_all_are_found(self):
        self.assertEqual([path.name[: len("paper_1")] for path in PAPER], [f"paper_{i}" for i in (1, 2, 3, 4)])
        self.assertIn("lab.toml", [path.name for path in RECIPES])
        self.assertTrue(all(path in RECIPES for path in COMPLETE))

    def test_what_a_file_says_is_what_runs(self):
        for path in RECIPES:
            with self.subTest(path.name):
                resolved = self.resolved(path)
                for name, value in said(path).items():
                    self.assertEqual(resolved[name], value, name)

    def test_a_resolved_recipe_resolves_to_itself(self):
        with tempfile.TemporaryDirectory() as directory:
            for path in RECIPES:
                again = pathlib.Path(directory) / path.name
                again.write_text(show(path).stdout)
                self.assertEqual(self.resolved(again), self.resolved(path), path.name)

    def test_complete_ones_leave_nothing_to_a_default(self):
        for path in COMPLETE:
            with self.subTest(path.name):
                resolved = self.resolved(path)
                # What concerns servers is left out where there are none.
                local = [part for part in ("rollout", "teacher") if resolved[f"{part}.engine"] == "local"]
                unused = {f"{part}.{name}" for part in local for name in OF_SERVERS}
                self.assertEqual(sorted(said(path)), sorted(set(resolved) - unused))

    def test_paths_are_relative(self):
        for path in RECIPES:
            for name, value in said(path).items():
                for word in value.values() if isinstance(value, dict) else [value]:
                    self.assertFalse(str(word).startswith(("/", "~")), f"{path.name}: {name}")


class Paper(Case):
    def test_numbers(self):
        for path in PAPER:
            resolved = self.resolved(path)
            for name, value in OF_THE_PAPER.items():
                with self.subTest(path.name, field=name):
                    if isinstance(value, float):  # log 1.2 is written with 16 digits
                        self.assertTrue(math.isclose(resolved[name], value, rel_tol=1e-15), resolved[name])
                    else:
                        self.assertEqual(resolved[name], value)
            self.assertEqual(set(resolved["eval.suites"]), SUITES)

    def test_the_bank_is_made_of_the_recipes_own_models_and_data(self):
        for path in PAPER:
            with self.subTest(path.name):
                resolved, text = self.resolved(path), path.read_text()
                command = re.search(r"^#   (routeopd probe make .*\\)\n#     (.*)$", text, re.M)
                words = " ".join(command.groups()).replace("\\", "").split()
                options = dict(zip(words[3::2], words[4::2]))
                for option, field in (("--student", "student.path"), ("--teacher", "teacher.path"), ("--prompts", "data.prompts"),
                                      ("--max-new", "rollout.max_new_tokens"), ("--k", "objective.k"), ("--m", "objective.m")):
                    self.assertEqual(options[option], str(resolved[field]), option)
                self.assertEqual(options["--states"], "1024")
                known = run("probe", "make", "--help").stdout
                for option in options:
                    self.assertIn(option, known)
                # The line that is to be used when the bank is there names it, and keeps the recipe valid.
                bank = re.search(r'^# bank = "(.*)"$', text, re.M).group(1)
                self.assertEqual(bank, options["--out"])
                self.assertEqual(self.resolved(path, f"probe.bank={bank}")["probe.bank"], bank)

    def test_one_pass_over_the_data(self):
        for path in PAPER:
            resolved = self.resolved(path)
            self.assertEqual(resolved["train.steps"], math.ceil(PASS / resolved["rollout.prompts_per_step"]))

    def test_every_checkpoint_is_evaluated_and_stays(self):
        for path in PAPER:
            resolved = self.resolved(path)
            self.assertEqual(resolved["eval.every"], resolved["checkpoint.every"])
            self.assertEqual(resolved["train.steps"] % resolved["checkpoint.every"], 0)
            self.assertEqual(resolved["checkpoint.keep"], 0)

    def test_settings_differ_in_their_models_alone(self):
        own = {"out", "student.path", "teacher.path"}
        recipes = [said(path) for path in PAPER]
        for path, recipe in zip(PAPER, recipes):
            differing = {name for name in recipe if recipe[name] != recipes[0][name]}
            self.assertLessEqual(differing, own, path.name)
            self.assertEqual(recipe["out"], f"runs/{path.stem}")
        self.assertEqual(len({(recipe["student.path"], recipe["teacher.path"]) for recipe in recipes}), 4)
        self.assertEqual(recipes[1]["student.path"], recipes[3]["student.path"])  # one student, two teachers

    def test_another_arm_takes_its_settings_along(self):
        resolved = self.resolved(PAPER[0], "objective.arm=no_mass")
        self.assertEqual((resolved["objective.weight"], resolved["objective.budget"]), ("one", "fixed_mid"))


class Refusals(Case):
    def with_line(self, line, after):
        """A copy of the first recipe with a line more."""
        text = PAPER[0].read_text()
        self.assertEqual(len(re.findall(f"(?m)^{re.escape(after)}", text)), 1)
        copy = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "copy.toml"
        copy.write_text(re.sub(f"(?m)^({re.escape(after)}.*)$", lambda found: f"{found[1]}\n{line}", text))
        return copy

    def test_unknown_names_are_answered_with_the_nearest(self):
        for line, after, nearest in (("temprature = 1.0", "[rollout]", "temperature"),
                                     ("max_bad_step = 3", "[train]", "max_bad_steps"),
                                     ("delta = 1e-6", "[objective]", "delta_[mp]"),
                                     ("sed = 1", "seed = 42", "seed"),
                                     ("[optimiser]", "[optimizer]", r"\[optimizer\]")):
            with self.subTest(line):
                self.refuses(f"copy.toml: .*did you mean {nearest}", self.with_line(line, after))

    def test_a_setting_that_says_nothing_known(self):
        self.refuses(r"\[probe\].*did you mean states", PAPER[0], "probe.state=8", code=2)

    def test_recipes_that_could_not_learn(self):
        for sentence, setting in ((r"\bm: expected a whole number from 1", "objective.m=0"),
                                  # no step is asked for: a zero budget bounds every target to 0
                                  (r"budget.*(gradient|over 0)", "objective.budget=0"),
                                  # M is half an L1 distance of distributions: no state exceeds 1
                                  (r"delta_m", "objective.delta_m=1"),
                                  (r"b_min", "objective.b_min=0.5"),
                                  (r"lr: expected a number over 0", "optimizer.lr=0")):
            for path in (PAPER[0], SOURCE / "recipes" / "lab.toml"):
                with self.subTest(path.name, setting=setting):
                    self.refuses(sentence, path, setting, code=1 if sentence == "delta_m" else 2)

    def test_captured_scores_are_those_of_plain_sampling(self):
        for setting in ("rollout.top_p=0.9", "rollout.temperature=0.7"):
            self.refuses("captured scores are those of sampling at temperature 1 and top_p 1", PAPER[0], setting,
                         "rollout.old_scores=capture")
            resolved = self.resolved(PAPER[0], setting, "rollout.old_scores=rescore")
            self.assertEqual(resolved["rollout.old_scores"], "rescore")

    def test_auto_old_values_are_those_that_fit_the_learner(self):
        lab = SOURCE / "recipes" / "lab.toml"
        auto = "rollout.old_scores=auto"
        for wanted, *settings in (("capture",),
                                  ("capture", "rollout.engine=serve", 'rollout.urls=["http://127.0.0.1:1"]'),
                                  ("learner", "rollout.engine=vllm", 'rollout.urls=["http://127.0.0.1:1"]'),
                                  ("learner", "student.dtype=bfloat16"),
                                  ("learner", "rollout.top_p=0.9"),
                                  ("learner", "rollout.temperature=0.7"),
                                  ("learner", "rollout.student_values=learner")):
            self.assertEqual(self.resolved(lab, auto, *settings)["rollout.old_scores"], wanted, settings)

    def test_contradictions_about_old_values_are_refused(self):
        lab = SOURCE / "recipes" / "lab.toml"
        for old in ("capture", "rescore"):
            self.refuses("neither captured nor computed again", lab, "rollout.student_values=learner",
                         f"rollout.old_scores={old}")
        self.refuses("arm routeopd does not weigh the tokens that were drawn", lab,
                     "rollout.rollout_correction=truncate")
        sampled = ("objective.arm=sampled_rkl", "rollout.rollout_correction=truncate")
        self.refuses("the old values here are the engine's", lab, *sampled)
        self.assertEqual(self.resolved(lab, *sampled, "rollout.old_scores=learner")["rollout.old_scores"], "learner")


if __name__ == "__main__":
    unittest.main()
