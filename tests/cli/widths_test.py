#!/usr/bin/env python3
"""The same answers on every vector width: the program is shown an older processor (tests/tools/narrow_vectors.cpp), and what
docs/engine.md and docs/python.md promise of bits is compared.

    widths_test.py PROGRAM NARROW_VECTORS SOURCE_DIRECTORY
"""
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

PROGRAM, NARROW, SOURCE = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(3))
PLAIN, FUSED = ["SSSE3", "SSE4"], ["AVX2", "AVX3", "AVX3_DL", "AVX3_ZEN4"]  # without and with fused multiply-add
# What chooses instructions in LibTorch and the libraries that it brings.
OTHERS = [{"ATEN_CPU_CAPABILITY": "default"}, {"ATEN_CPU_CAPABILITY": "avx2"}, {"ONEDNN_MAX_CPU_ISA": "AVX2"},
          {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}]
TEMPLATE = "Problem: {problem}\nSolution:"


def run(target, *arguments, stdin="", **environment):
    preload = " ".join(filter(None, (os.environ.get("LD_PRELOAD"), str(NARROW))))
    settings = {**os.environ, "LD_PRELOAD": preload, "ROUTEOPD_TEST_TARGET": target, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, text=True, capture_output=True, cwd=SOURCE, env=settings,
                          timeout=120)


def at_hand(targets):
    """Those of the instruction sets that this machine has: for others the library ends the program with 77."""
    codes = {target: run(target, "--version").returncode for target in targets}
    assert set(codes.values()) <= {0, 77}, codes
    return [target for target, code in codes.items() if code == 0]


def random_states(count, vocabulary):
    """States for `routeopd route`, peaked and flat, with equal logits among them."""
    source = random.Random(20)
    lines = []
    for number in range(count):
        scale = source.choice([0.3, 2.0, 8.0])
        student = [round(source.gauss(0, scale), 3) for _ in range(vocabulary)]
        teacher = [round(value + source.gauss(0, scale / 2), 3) for value in student]
        lines.append(json.dumps({"student_logits": student, "teacher_logits": teacher, "action": number % vocabulary}))
    return "\n".join(lines) + "\n"


def sequences():
    return "".join(json.dumps({"ids": [(7 * i + j * j) % 300 for j in range(40 + i)]}) + "\n" for i in range(8))


class Widths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain, cls.fused = at_hand(PLAIN), at_hand(FUSED)
        cls.states = random_states(300, 60)
        cls.problems = "".join((SOURCE / "lab/validation.jsonl").read_text().splitlines(keepends=True)[:4])

    def says(self, target, *arguments, **more):
        answer = run(target, *arguments, **more)
        self.assertEqual(answer.returncode, 0, f"{target}: {answer.stderr}")
        return answer.stdout

    def same(self, targets, *arguments, settings=({},), **more):
        """One answer, to the last bit, on all of these instruction sets and under all of these settings."""
        answers = {f"{target} {each}": self.says(target, *arguments, **more, **each) for target in targets for each in settings}
        self.assertEqual(len(set(answers.values())), 1, {name: len(answer) for name, answer in answers.items()})
        return next(iter(answers.values()))

    def routes(self, *arguments):
        return ["route", "--precision", "float", "--k", 12, "--m", 3, *arguments]

    def score(self, target, **settings):
        lines = self.says(target, "score", "--model", "lab/teacher", "--k", 8, "--quiet", stdin=sequences(), **settings).splitlines()
        return [json.loads(line) for line in lines]

    def routes(self, target, *arguments, **settings):
        return self.says(target, "route", "--k", 12, "--m", 3, *arguments, stdin=self.states, **settings)

    def test_the_narrowing_is_real(self):
        seen = {target: self.says(target, "bench", "--only", "R", "--rounds", 1, "--json") for target in self.plain + self.fused}
        for target in set(seen) - {"AVX3_DL", "AVX3_ZEN4"}:  # kernels are not compiled for these: AVX3's run
            self.assertEqual(json.loads(seen[target])["kernels"], target)

    def test_the_decoder_takes_no_product_of_libtorch(self):
        for target in (self.plain + self.fused)[-3::2]:  # the widest and an older one
            self.same([target], "score", "--model", "lab/teacher", "--k", 8, "--quiet", stdin=sequences(), settings=({}, *OTHERS))
            self.same([target], "generate", "--model", "lab/base", "--template", TEMPLATE, "--max-new", 24, "--quiet",
                      stdin=self.problems, settings=({}, *OTHERS))

    def test_logits_have_the_same_bits_with_avx2_and_avx512(self):
        """Printed are log-probabilities, z - lse: those at positions whose lse has the same bits in both must have them, too."""
        for other in self.fused[1:]:
            equal = 0
            for one, two in zip(self.score(self.fused[0]), self.score(other)):
                self.assertEqual(one["top_ids"], two["top_ids"])
                for at, (a, b) in enumerate(zip(one["lse"], two["lse"])):
                    if a is not None:
                        self.assertLessEqual(abs(a - b), 2 * math.ulp(a) * 2**29, "an lse differs by more than two units of float32")
                    if a is not None and a == b:
                        equal += 1
                        self.assertEqual(one["top_logprobs"][at], two["top_logprobs"][at])
                        self.assertEqual(one["logprobs"][at], two["logprobs"][at])
            self.assertGreater(equal, 200)

    def test_widths_agree_as_float32_does(self):
        """Log-probabilities of a model of four layers to 2e-5: some hundred roundings of values near 8, whose unit is 1e-6."""
        best = (self.plain + self.fused)[-1]
        for target in self.plain + self.fused:
            for one, two in zip(self.score(best), self.score(target)):
                self.assertEqual(one["top_ids"], two["top_ids"])
                for a, b in zip(one["logprobs"][1:], two["logprobs"][1:]):
                    self.assertLessEqual(abs(a - b), 2e-5)

    def test_which_pairs_are_drawn_depends_on_no_width(self):
        """Of states whose probabilities are no nearer to a threshold than float32 rounds."""
        def drawn(target):
            return [[(pair["source"], pair["destination"]) for pair in json.loads(line)["pairs"]]
                    for line in self.routes(target, "--precision", "float").splitlines()]

        answers = {target: drawn(target) for target in self.plain + self.fused}
        for target, answer in answers.items():
            self.assertEqual(answer, drawn(target))
            self.assertEqual(answer, answers[(self.plain + self.fused)[-1]], target)

    def test_the_reference_knows_no_width(self):
        self.assertEqual(len({self.routes(target) for target in self.plain + self.fused}), 1)


if __name__ == "__main__":
    unittest.main()
