#!/usr/bin/env python3
"""Word problems that a language model of 135 million parameters can do, for a study of SmolLM2 (docs/smollm2.md).

    scripts/make_word_problems.py DIRECTORY

Writes train.jsonl, validation.jsonl and heldout.jsonl: additions of one-digit numbers in three wordings. Which file a pair of
numbers belongs to is decided by a hash of the pair, so that no sum of one file is asked in another; template.txt is how a
problem is asked, four solved ones before it, each a turn of the chat. The same arguments give the same bytes.
"""
import argparse
import hashlib
import itertools
import json
import pathlib
import random

NAMES = "Tom Anna Ben Lily Sam Mia Jack Emma Nora Paul Rosa Carl Vera Hugo Ella Finn".split()
THINGS = "apples books coins pens balls eggs cards shells cups keys hats stamps".split()
WORDINGS = ("{name} has {a} {things} and gets {b} more. How many {things}?",
            "{name} has {a} {things} and finds {b} more. How many {things}?",
            "{name} has {a} {things} and buys {b} more. How many {things}?")
SHOTS = ((0, "Ivan", 4, 2, "pens"), (1, "Irene", 3, 5, "coins"), (2, "Otto", 7, 1, "eggs"), (0, "Clara", 2, 9, "books"))
FILES = {"train": 10, "validation": 2, "heldout": 4}  # sixteenths of the pairs of numbers


def problem(wording, name, a, b, things):
    return WORDINGS[wording].format(name=name, a=a, b=b, things=things)


def file_of(a, b):
    place = hashlib.sha256(f"{a}+{b}".encode()).digest()[0] % sum(FILES.values())
    for name, share in FILES.items():
        if place < share:
            return name
        place -= share
    raise AssertionError


def template():
    turns = "".join(f"<|im_start|>user\n{problem(*shot)}<|im_end|>\n<|im_start|>assistant\n"
                    f"{shot[2]} + {shot[3]} = {shot[2] + shot[3]}. The answer is {shot[2] + shot[3]}.<|im_end|>\n" for shot in SHOTS)
    return turns + "<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n"


def rows(name, count, seed):
    shown = {(shot[2], shot[3]) for shot in SHOTS}
    pairs = [pair for pair in itertools.product(range(1, 10), repeat=2) if file_of(*pair) == name and pair not in shown]
    draw = random.Random(f"{seed}/{name}")
    seen = set()
    while len(seen) < count:
        (a, b), wording = draw.choice(pairs), draw.randrange(len(WORDINGS))
        text = problem(wording, draw.choice(NAMES), a, b, draw.choice(THINGS))
        if text in seen:
            continue
        seen.add(text)
        yield {"id": f"{name}-{len(seen) - 1}", "problem": text, "answer": str(a + b)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path, help="where to write; made if it is not there")
    parser.add_argument("--seed", type=int, default=42)
    for name, count in (("train", 1024), ("validation", 64), ("heldout", 128)):
        parser.add_argument(f"--{name}", type=int, default=count, help=f"problems of {name}.jsonl [{count}]")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        lines = [json.dumps(row) + "\n" for row in rows(name, getattr(arguments, name), arguments.seed)]
        (arguments.directory / f"{name}.jsonl").write_text("".join(lines))
    (arguments.directory / "template.txt").write_text(template())


if __name__ == "__main__":
    main()
