#!/usr/bin/env python3
"""`routeopd train` with student and teacher on servers in vLLM's and SGLang's shapes (vllm_stand_in.py): runs end, a teacher there
says what the local one says, and every fault leaves a sentence or a count. On the laboratory's pair.

    remote_vllm_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from serving import Server
from vllm_stand_in import StandIn

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
SMALL = ["train.steps=2", "rollout.prompts_per_step=2", "rollout.n=2", "rollout.max_new_tokens=12", "checkpoint.every=1",
         "checkpoint.keep=0", "train.rollouts=true"]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path = pathlib.Path(directory.name)
        cls.student = Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", cls.path)
        cls.teacher = Server(PROGRAM, SOURCE / "lab" / "teacher")

    @classmethod
    def train(cls, name, *values, code=0):
        words = [word for value in [*SMALL, *values] for word in ("--set", value)]
        answer = subprocess.run([PROGRAM, "train", SOURCE / "recipes" / "lab.toml", "--out", cls.path / name, "--quiet", *words],
                                text=True, capture_output=True, timeout=300, cwd=SOURCE)
        assert answer.returncode == code, f"{name}: exit code {answer.returncode}: {answer.stderr}"
        return answer.stderr

    def stand_in(self, server, **options):
        stand_in = StandIn(server.port, **options)
        self.addCleanup(stand_in.end)
        return stand_in

    def at(self, section, server, **options):
        """Settings that put the section on a stand-in."""
        stand_in = self.stand_in(server, **options)
        return [f"{section}.engine={stand_in.shape}", f'{section}.urls=["{stand_in.url}"]'], stand_in

    def metrics(self, name):
        return [json.loads(line) for line in (self.path / name / "metrics.jsonl").read_text().splitlines()]

    def counts(self, name):
        counts = {}
        for line in self.metrics(name):
            for key, value in line["servers"].items():
                counts[key] = counts.get(key, 0) + value
        return counts

    def validity(self, name):
        """States by what became of them, of all steps, without those that there are none of."""
        states = {}
        for line in self.metrics(name):
            for key, value in line["validity"].items():
                states[key] = states.get(key, 0) + value
        return {key: value for key, value in states.items() if value}


class Runs(Case):
    def test_student_and_teacher_on_servers(self):
        for shape in ("vllm", "sglang"):
            with self.subTest(shape):
                student, at_student = self.at("rollout", self.student, shape=shape)
                teacher, at_teacher = self.at("teacher", self.teacher, shape=shape)
                self.train(shape, *student, *teacher)
                self.assertEqual([line["step"] for line in self.metrics(shape)], [1, 2])
                self.assertEqual(set(self.validity(shape)), {"valid"})
                self.assertEqual(at_student.reloads, 2, "before each step")
                self.assertEqual(at_teacher.reloads, 0)
                looked_up = "ids_in_wider_top_k" if shape == "vllm" else "ids_of_request"
                counts = self.counts(shape)
                states = self.validity(shape)["valid"]
                self.assertEqual((counts[f"rollout_{looked_up}"], counts[f"teacher_{looked_up}"]), (states, states))
                self.assertEqual("rollout_not_known" in counts, shape == "vllm")
                self.assertIn(f"servers: rollout_{looked_up}", (self.path / shape / "log.txt").read_text())
                self.assertFalse((self.path / shape / "weights").exists(), "the weights of the servers are removed at the end")

    def test_a_run_again_writes_the_same(self):
        for name in ("once", "again"):
            self.train(name, *self.at("rollout", self.student)[0])
        once, again = ((self.path / name / "rollouts.jsonl").read_bytes() for name in ("once", "again"))
        self.assertEqual(once, again)

    def test_a_teacher_there_says_what_the_local_one_says(self):
        """By each way in which values at given ids are had; float32 goes through JSON, so up to its rounding."""
        self.train("local", "train.steps=1")
        local = self.metrics("local")[0]
        ways = {"all": {"widest": -1}, "per_position": {"per_position": True}, "set": {"shape": "sglang"},
                "completions": {"widest": -1, "scale_out": False}}
        for name, options in ways.items():
            with self.subTest(name):
                self.train(name, "train.steps=1", *self.at("teacher", self.teacher, **options)[0])
                self.assertEqual(*((self.path / run / "rollouts.jsonl").read_bytes() for run in ("local", name)))
                there = self.metrics(name)[0]
                for key in ("loss", "grad_norm", "mass", "budget", "coverage", "teacher_mass", "concentration"):
                    self.assertAlmostEqual(there[key], local[key], delta=1e-4 * abs(local[key]) + 1e-6, msg=key)
                self.assertNotIn("teacher_not_known", there["servers"])
        self.train("wider", "train.steps=1", *self.at("teacher", self.teacher, widest=17)[0])
        wider = self.metrics("wider")[0]
        self.assertGreater(wider["servers"]["teacher_not_known"], 0)
        self.assertEqual(wider["validity"]["valid"], local["validity"]["valid"])
        self.assertLessEqual(wider["student_mass"], local["student_mass"])  # the ids without values left U


class Faults(Case):
    def faulty_teacher(self, shape, fault, *values, answers=None, code=0):
        """One step with a teacher whose `answers` have the fault; the first is about a fixed text. What it said."""
        self.name = f"{shape}-{fault}-{answers}"
        settings, _ = self.at("teacher", self.teacher, shape=shape, faults={fault: answers})
        return self.train(self.name, "train.steps=1", *settings, *values, code=code)

    def test_values_that_cannot_be_used_are_reasons_of_their_states(self):
        # A response that was read otherwise from its third-last token on is about another text from there on.
        cases = {"nan": ("non_finite", 1), "short": ("truncated_scores", 2), "misaligned": ("misaligned", 3)}
        for shape in ("vllm", "sglang"):
            for fault, (reason, count) in cases.items():
                with self.subTest(shape=shape, fault=fault):
                    self.faulty_teacher(shape, fault, answers=[1])
                    validity = self.validity(self.name)
                    self.assertEqual(set(validity), {"valid", reason})
                    self.assertEqual(validity[reason], count)

    def test_a_sentinel_is_minus_infinity_and_counted(self):
        for shape in ("vllm", "sglang"):
            with self.subTest(shape):
                self.faulty_teacher(shape, "minus_inf", answers=[1])
                self.assertEqual(self.counts(self.name)["teacher_minus_inf"], 1)
                self.assertNotIn("non_finite", self.validity(self.name))

    def test_a_bad_answer_is_asked_again(self):
        for shape in ("vllm", "sglang"):
            for fault, at, number in (("logits", "teacher", 2), ("cut", "rollout", 1)):
                with self.subTest(shape=shape, fault=fault):
                    name = f"{shape}-{fault}"
                    server = self.teacher if at == "teacher" else self.student
                    self.train(name, *self.at(at, server, shape=shape, faults={fault: [number]})[0])
                    self.assertEqual(self.counts(name)[f"{at}_bad_answers"], 1)
                    self.assertEqual(set(self.validity(name)), {"valid"})

    def test_a_first_answer_that_cannot_be_used_does_not_make_a_server_another_model(self):
        """The fixed text's answer, with which those of other servers and of later starts are compared: a bad row is not compared,
        and an answer that is cut later has the server asked again."""
        for fault in ("nan", "short", "misaligned"):
            with self.subTest(fault):
                settings, stand_in = self.at("teacher", self.teacher, faults={fault: [0], "logits": [2]})
                self.train(f"first-{fault}", *settings)
                self.assertEqual(set(self.validity(f"first-{fault}")), {"valid"})
                self.assertEqual(self.counts(f"first-{fault}")["teacher_bad_answers"], 1)
                self.assertEqual(stand_in.asked.count("/version"), 2)

    def test_servers_of_one_teacher_are_one_model(self):
        for shape in ("vllm", "sglang"):
            with self.subTest(shape):
                urls = [self.stand_in(server, shape=shape).url for server in (self.teacher, self.student)]
                said = self.train(f"{shape}-other", f"teacher.engine={shape}", f"teacher.urls={json.dumps(urls)}", code=1)
                self.assertIn(f"[teacher] urls: {urls[1]} answers as another model than the first server did", said)

    def test_a_bad_answer_that_stays_stops_the_run_with_a_sentence(self):
        said = self.faulty_teacher("vllm", "logits", "rollout.prompts_per_step=1", "rollout.n=1", code=1)
        self.assertIn("is no log-probability", said)
        self.assertEqual(len(said.strip().splitlines()), 1, said)

    def test_stale_weights_are_given_again(self):
        for shape in ("vllm", "sglang"):
            with self.subTest(shape):
                name = f"{shape}-stale"
                settings, stand_in = self.at("rollout", self.student, shape=shape, faults={"stale": [1]})
                self.train(name, *settings)
                self.assertEqual(self.counts(name)["rollout_stale_weights"], 1)
                self.assertEqual(set(self.validity(name)), {"valid"})

    def test_a_reload_that_fails_half_way_is_made_again(self):
        settings, stand_in = self.at("rollout", self.student, faults={"reload": [1]})
        self.train("reload", *settings)
        self.assertEqual(self.counts("reload")["rollout_server_errors"], 1)
        self.assertEqual(stand_in.reloads, 3)
        self.assertFalse(stand_in.paused)


class Refusals(Case):
    def refused(self, section, server, **options):
        said = self.train("refused", *self.at(section, server, **options)[0], code=1)
        self.assertFalse((self.path / "refused").exists(), "refused before the run directory is made")
        self.assertEqual(len(said.strip().splitlines()), 1, said)
        return said

    def test_servers_that_cannot_be_used(self):
        cases = [
            ("rollout", {"faults": {"no_dev_mode": None}}, "start it with VLLM_SERVER_DEV_MODE=1"),
            ("rollout", {"scale_out": False}, "--enable-scale-out"),
            ("rollout", {"widest": 16}, "and 17 are needed"),
            ("rollout", {"faults": {"scaled": None}}, "--logprobs-mode raw_logprobs"),
            ("rollout", {"shape": "sglang", "faults": {"scaled": None}}, "SGLANG_RETURN_ORIGINAL_LOGPROB=1"),
            ("teacher", {"faults": {"old": None}}, "it is vLLM 0.31.2; 0.32.0 and newer are supported"),
            ("teacher", {"shape": "sglang", "faults": {"old": None}}, "it is SGLang 0.5.9; 0.5.23 and newer are supported"),
            ("teacher", {"widest": 15}, "--max-logprobs 64"),
            ("teacher", {"positions": 30}, "--max-model-len"),
            ("teacher", {"positions": 30, "shape": "sglang"}, "--context-length"),
        ]
        for section, options, words in cases:
            with self.subTest(section=section, **options):
                self.assertIn(words, self.refused(section, self.student if section == "rollout" else self.teacher, **options))

    def test_a_server_of_another_kind(self):
        for shape, other in (("vllm", "sglang"), ("sglang", "vllm")):
            stand_in = self.stand_in(self.teacher, shape=other)
            said = self.train("refused", f"teacher.engine={shape}", f'teacher.urls=["{stand_in.url}"]', code=1)
            self.assertIn("does not answer", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
