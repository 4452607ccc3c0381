"""Writes bootstrap.json: paired contrasts and average intervals computed independently of the C++ code.

Philox4x32-10 is written from Salmon et al. (SC 2011) and checked here against Random123's known answers; the rule of
the draws is the one at the top of src/routeopd/grade/statistics.h, the quantile numpy's default. Fractions are exact
until the last step, so a golden holds to the last bits of a double. The data come from random.Random, whose numbers
are the same in every Python 3.

Written with Python 3.11.7, without packages, by: python tests/goldens/make_bootstrap_goldens.py
"""
from __future__ import annotations

import json
import math
import platform
import random
from fractions import Fraction
from pathlib import Path

BOOTSTRAP = 4  # Purpose::kBootstrap
MASK = 0xFFFFFFFF
Suite = list[list[int]]  # rows are problems, columns samples


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        low, high = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (high >> 32) ^ c1 ^ k0, high & MASK, (low >> 32) ^ c3 ^ k1, low & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
assert philox((MASK,) * 4, (MASK,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


def taken_problem(seed: int, suite: int, draw: int, i: int, problems: int) -> int:
    words = philox((BOOTSTRAP << 24, suite, draw << 8, i // 4), (seed & MASK, seed >> 32))
    return math.floor(Fraction(words[i % 4] >> 8, 1 << 24) * problems)


def quantile(ascending: list[Fraction], share: float) -> float:
    at = share * (len(ascending) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ascending) - 1)
    return float(ascending[below] + Fraction(at - below) * (ascending[above] - ascending[below]))


def interval(suites: list[list[Fraction]], seed: int, draws: int, level: float, first: int) -> dict[str, float]:
    """`suites`: for each suite, each problem's mean score."""
    def over_suites(means: list[Fraction]) -> Fraction:
        return sum(means, Fraction(0)) / len(means)

    resampled = sorted(
        over_suites([sum((scores[taken_problem(seed, first + s, d, i, len(scores))] for i in range(len(scores))),
                         Fraction(0)) / len(scores) for s, scores in enumerate(suites)])
        for d in range(draws))
    return {"mean": float(over_suites([sum(scores, Fraction(0)) / len(scores) for scores in suites])),
            "low": quantile(resampled, (1 - level) / 2), "high": quantile(resampled, (1 + level) / 2)}


def case(name: str, shapes: list[tuple[int, int]], seed: int, draws: int, level: float, first: int) -> dict:
    chance = random.Random(name)
    a: list[Suite] = []
    b: list[Suite] = []
    for problems, samples in shapes:
        ease = [chance.random() for _ in range(problems)]
        a.append([[int(chance.random() < e) for _ in range(samples)] for e in ease])
        b.append([[int(chance.random() < e ** 0.7) for _ in range(samples)] for e in ease])

    def means(suite: Suite) -> list[Fraction]:
        return [Fraction(sum(row), len(row)) for row in suite]

    difference = [[y - x for x, y in zip(means(p), means(q))] for p, q in zip(a, b)]
    text = [["".join(str(sample) for row in suite for sample in row) for suite in side] for side in (a, b)]
    return {"name": name, "shapes": shapes, "a": text[0], "b": text[1], "seed": seed, "draws": draws,
            "level": level, "first_suite": first, "contrast": interval(difference, seed, draws, level, first),
            "average_a": interval([means(suite) for suite in a], seed, draws, level, first)}


cases = [case("one suite", [(30, 4)], 42, 1000, 0.95, 0),
         case("suites of several shapes, a seed of 64 bits", [(30, 8), (13, 3), (6, 16)], 0x0123456789ABCDEF, 500, 0.9, 0),
         case("a suite by its number", [(13, 3)], 7, 333, 0.95, 1),
         case("two problems", [(2, 1)], 1, 64, 0.5, 0),
         case("one draw", [(5, 2)], 3, 1, 0.95, 0)]
how = f"python tests/goldens/make_bootstrap_goldens.py with Python {platform.python_version()}"
path = Path(__file__).with_name("bootstrap.json")
lines = ",\n".join("  " + json.dumps(one) for one in cases)
path.write_text(f'{{"made_by": {json.dumps(how)}, "cases": [\n{lines}\n]}}\n')
