"""Pairs of a gold answer and a response that grading.py gives to two graders. Standard library only.

A gold of the data is rewritten in named ways. A rewrite knows by its construction whether the answer is still right:
numbers are computed as fractions, all else is rearranged by its structure. What a rewrite cannot read it leaves out.

A pair is {"id", "suite", "rewrite", "gold", "response", "answer", "expected", "slip"}: `answer` is the gold, `expected`
whether the response is right, `slip` the name of a known slip of Math-Verify that the pair runs into, or null:

    dot_in_box       refuses a dot before the end of the box
    control_space    refuses `\\ ` before the end of the box
    thin_space       refuses 1\\,251
    big_delimiters   refuses \\big(
    degree_sign      refuses ° for ^\\circ
    spaced_i         refuses 12 i for 12i
    wrong_base       takes 52_7 for 52_8

or percent_rule, where we decided otherwise: it takes 10\\% for 10 whatever was asked; to us it is 0.1 unless the gold has the sign.
"""
from __future__ import annotations

import json
import pathlib
import random
import re
from collections.abc import Iterator
from typing import Any

from grading_numbers import ASKED, altered, asked_for, bases, canonical, marked_numbers, number, rationals, whole_numbers, words
from grading_structures import brackets, equations, lists, matrices, products, roots_and_pi, sums, unions

SUITES = ("math500", "amc23", "aime24", "aime25")
DAPO = "dapo_math_17k"
DAPO_ANY, DAPO_ASKED = 240, 25  # rows of DAPO: any, and of each unit that problems ask for; all rows of the others are used
# Rewrites drawn for a whole number and for another rational, of which there are many and which many suit; other golds take all
# that fit. PLACES is how many places of a response are drawn for a gold.
SHAPES_OF_INTEGER, SHAPES_OF_RATIONAL, PLACES = 3, 12, 2
SHAPES = (whole_numbers, rationals, marked_numbers, words, bases, brackets, unions, lists, matrices, roots_and_pi, sums, products,
          equations)

# Responses.

OPENINGS = ("Let me work through this step by step.", "We start by writing down what is known.", "Okay, let's see.",
            "First, I set up the quantities in the problem.", "To solve this, consider a smaller case before the general one.")
STEPS = ("We have ${a} + {b} = {c}$, so the first condition holds.", "Note that \\({a} \\cdot {b} = {d}\\).",
         "Substituting gives\n\\[\n{d} = {a} \\times {b},\n\\]\nwhich is consistent.", "The case $k = {a}$ leaves {b} possibilities.",
         "By symmetry the remaining {b} terms cancel, because ${c} - {a} = {b}$.",
         "Checking {a} and {b} by hand confirms the pattern.", "This simplifies since $\\frac{{{d}}}{{{a}}} = {b}$.")
CLOSINGS = ("Therefore, the answer is $\\boxed{{{answer}}}$.", "Thus we obtain\n\\[\n\\boxed{{{answer}}}\n\\]",
            "So the result is \\(\\boxed{{{answer}}}\\).", "### Answer\n\n$$\\boxed{{{answer}}}$$", "\\boxed{{{answer}}}",
            "Hence, the final answer is: $\\boxed{{{answer}}}$", "**Final Answer**\n\n\\[ \\boxed{{{answer}}} \\]\n",
            "This gives us $\\boxed{{{answer}}}$, as required.")
GIVING_UP = ("Now I need to count the cases in which both conditions hold, and for this",
             "I could not find a way to finish this, so I stop here.", "Wait, that contradicts the condition, let me try again.")


def argument(gold: str, rng: random.Random) -> str:
    """Some sentences of working, in which no number of the gold occurs."""
    taken = set(re.findall(r"\d+", gold))
    while True:
        sentences = [rng.choice(OPENINGS)]
        for step in rng.sample(STEPS, rng.randrange(1, 4)):
            a, b = rng.randrange(2, 60), rng.randrange(2, 60)
            sentences.append(step.format(a=a, b=b, c=a + b, d=a * b))
        text = rng.choice((" ", "\n\n")).join(sentences)
        if not taken & set(re.findall(r"\d+", text)):
            return text


def settings(gold: str, rng: random.Random) -> Iterator[tuple[str, str, bool]]:
    """The gold, or a wrong answer, at another place of a response: the name, the response's end, whether it is right."""
    right, wrong = gold, altered(gold)
    yield "same", f"The answer is $\\boxed{{{right}}}$.", True
    yield "wrong", f"The answer is $\\boxed{{{wrong}}}$.", False
    yield "same_display", f"\\[\\boxed{{{right}}}\\]", True
    yield "dot_after_box", f"Thus, $\\boxed{{{right}}}.$", True
    yield "box_after_equals", f"so that $S = \\boxed{{{right}}}$.", True
    yield "fbox", f"The answer is $\\fbox{{{right}}}$.", True
    yield "fbox_wrong", f"The answer is $\\fbox{{{wrong}}}$.", False
    yield "final_answer_is", f"The final answer is ${right}$.", True
    yield "final_answer_is_hope", f"Final Answer: The final answer is ${right}$. I hope it is correct.", True
    yield "final_answer_is_wrong", f"The final answer is ${wrong}$.", False
    yield "final_answer_box", f"The final answer is $\\boxed{{{right}}}$.", True
    yield "two_boxes", f"It seems to be $\\boxed{{{wrong}}}$. But that misses a case; it is $\\boxed{{{right}}}$.", True
    yield "two_boxes_wrong_last", f"It seems to be $\\boxed{{{right}}}$. But that misses a case; it is $\\boxed{{{wrong}}}$.", False
    yield "same_box_twice", f"We find $\\boxed{{{right}}}$.\n\n**Final Answer**\n\n$\\boxed{{{right}}}$", True
    yield "after_think", f"Perhaps \\boxed{{{wrong}}}?\n</think>\n\nThe answer is $\\boxed{{{right}}}$.", True
    yield "after_think_wrong", f"So it is \\boxed{{{right}}}.\n</think>\n\nThe answer is $\\boxed{{{wrong}}}$.", False
    yield "text_after_box", f"The answer is $\\boxed{{{right}}}$.\n\nThis agrees with the check above, so we are done.", True
    yield "answer_colon", f"Answer: ${right}$", True
    yield "answer_colon_wrong", f"Answer: ${wrong}$", False
    yield "empty_box", "The answer is $\\boxed{}$.", False
    yield "no_answer", rng.choice(GIVING_UP), False


def pairs_of(suite: str, row: dict[str, Any], rng: random.Random, seen: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Of one gold. What was made of an equal one before is not made again."""
    gold = row["answer"]
    asked = [rewrite for rewrite in asked_for(gold, row["problem"]) if (gold, rewrite.text) not in seen]
    by_shape = [rewrite for shape in SHAPES for rewrite in shape(gold, rng) if (gold, rewrite.text) not in seen]
    placed = [(name, end, expected) for name, end, expected in settings(gold, rng) if (gold, end) not in seen]
    if (value := number(canonical(gold))) is not None:
        most = SHAPES_OF_INTEGER if value.denominator == 1 else SHAPES_OF_RATIONAL
        by_shape = rng.sample(by_shape, min(most, len(by_shape)))
    placed = rng.sample(placed, min(PLACES, len(placed)))
    common = {"gold": gold, "answer": gold}
    for rewrite in asked + by_shape:
        if (gold, rewrite.text) not in seen:  # two rewrites may write the same
            seen.add((gold, rewrite.text))
            response = f"{argument(gold, rng)}\n\n{rng.choice(CLOSINGS).format(answer=rewrite.text)}"
            yield {"suite": suite, "rewrite": rewrite.name, **common, "response": response, "expected": rewrite.expected, "slip": rewrite.slip}
    for name, end, expected in placed:
        seen.add((gold, end))
        response = f"{'<think>' if '</think>' in end else ''}{argument(gold, rng)}\n\n{end}"
        yield {"suite": suite, "rewrite": name, **common, "response": response, "expected": expected, "slip": None}


def drawn(rows: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """Rows of DAPO: any, and those whose problems ask for something in a unit."""
    chosen = rng.sample(rows, DAPO_ANY)
    for pattern in ASKED.values():
        chosen += rng.sample([row for row in rows if re.search(pattern, row["problem"], re.IGNORECASE)], DAPO_ASKED)
    return chosen


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def make_pairs(data: pathlib.Path, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    seen: set[tuple[str, str]] = set()
    pairs: list[dict[str, Any]] = []
    for suite in (*SUITES, DAPO):
        rows = read_lines(data / f"{suite}.jsonl")
        for row in drawn(rows, rng) if suite == DAPO else rows:
            pairs += pairs_of(suite, row, rng, seen)
    return [{"id": f"pair-{at}", **pair} for at, pair in enumerate(pairs)]
