#!/usr/bin/env python3
"""Greedy output of `routeopd generate --temperature 0` against transformers' generate, on real prompts.

    python greedy.py PROGRAM MODEL_DIR [--new 128]

A model with a chat template is asked 10 questions as chats, another one continues 50 beginnings of stories. Ids of the
prompts, of the responses and the end-of-sequence token must be the same. Where a response parts from transformers', the two
candidates' logits, computed by transformers, must be less than 1e-4 apart: a tie that rounding decides. From there on each
of our ids must be transformers' best for the text that we wrote, or such a tie. Ties are counted apart. Exits 1 with a
sentence where something differs. Written for transformers 5.22.2.
"""
from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from results import report

TIE = 1e-4
WHO = ("Once upon a time, there was a little girl", "One day, a big brown dog", "Tom and his sister Lily", "In a small house, an old man",
       "The happy bird", "A boy named Ben", "Mom said that the cat", "There was a tree that", "Sara had a red ball and she", "Deep in the forest, a bear")
THEN = ("", " wanted to go to the park because", " saw something very strange in the garden.\n", " was sad. \"Why", " and 3 friends")
QUESTIONS = ("What is the capital of France?", "Tom has 3 apples and buys 4 more. How many apples does he have?", "Write a short poem about the sea.",
             "Name three colours.", "Explain in one sentence why the sky is blue.", "Translate 'good morning' into Spanish.",
             "What is 12 times 12?", "List the days of the week.", "Who wrote Romeo and Juliet?", "Write a Python function that adds two numbers.")


def compare(model: Any, prompt: list[int], ours: list[int], theirs: list[int]) -> int:
    """The number of ties; raises ValueError with a sentence where our response is not a greedy one."""
    if ours == theirs:
        return 0
    at = next((t for t, (a, b) in enumerate(zip(ours, theirs)) if a != b), None)
    if at is None:
        raise ValueError(f"{len(ours)} ids, transformers {len(theirs)}; the shorter one begins the longer")
    logits = model(torch.tensor([prompt + ours])).logits[0, len(prompt) - 1:-1]
    ties = 0
    for step in range(at, len(ours)):
        best = theirs[at] if step == at else int(logits[step].argmax())
        gap = float(logits[step, best] - logits[step, ours[step]])
        if abs(gap) >= TIE:
            raise ValueError(f"token {step} is {ours[step]}, transformers' {best}, whose logit is {gap:.2e} larger")
        ties += ours[step] != best
    return ties


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--new", type=int, default=128)
    args = parser.parse_args()
    torch.set_num_threads(1)  # two that wait for each other collapse when anything else runs
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    if tokenizer.chat_template:
        rows: list[dict[str, Any]] = [{"messages": [{"role": "user", "content": question}]} for question in QUESTIONS]
        wanted = [tokenizer.apply_chat_template(row["messages"], add_generation_prompt=True, return_dict=False) for row in rows]
    else:
        rows = [{"prompt": who + then} for who, then in itertools.product(WHO, THEN)]
        wanted = [tokenizer(row["prompt"]).input_ids for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        prompts, out = pathlib.Path(folder) / "prompts.jsonl", pathlib.Path(folder) / "responses.jsonl"
        prompts.write_text("".join(json.dumps({"id": str(i), **row}) + "\n" for i, row in enumerate(rows)))
        subprocess.run([args.program, "generate", "--quiet", "--model", args.model, "--in", prompts, "--out", out, "--temperature", "0",
                        "--max-new", str(args.new)], check=True)
        responses = {row["id"]: row for row in map(json.loads, out.read_text().splitlines())}
    if sorted(responses) != sorted(str(i) for i in range(len(rows))):
        sys.exit(f"{args.model}: {len(rows)} prompts went in, the responses are {sorted(responses)}")

    wrong, same, tied, ties, tokens, stopped = 0, 0, 0, 0, 0, 0
    with torch.inference_mode():
        for i, prompt in enumerate(wanted):
            ours = responses[str(i)]
            if ours["prompt_ids"] != prompt:
                sys.exit(f"{args.model}: the ids of prompt {i} are {ours['prompt_ids']}, transformers' {prompt}")
            given = torch.tensor([prompt])
            theirs = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=args.new)[0, len(prompt):]
            try:
                here = compare(model, prompt, ours["ids"], theirs.tolist())
            except ValueError as error:
                print(f"{args.model}: prompt {i} ({rows[i]}): {error}")
                wrong += 1
                continue
            same, tied, ties = same + (here == 0), tied + (here > 0), ties + here
            tokens, stopped = tokens + len(ours["ids"]), stopped + (ours["finish"] == "stop")
    print(f"{args.model}: {same} of {len(rows)} greedy responses are transformers', {tied} part at a tie ({ties} ties), {wrong} differ; "
          f"{tokens} tokens, {stopped} ended by themselves")
    report(f"{args.model.name}: greedy responses", "transformers", "equal but for ties",
           f"{same} of {len(rows)} equal, {tied} part at a tie, {wrong} differ", wrong == 0)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
