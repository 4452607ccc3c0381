#!/usr/bin/env python3
"""Log-probabilities and ids of `routeopd generate`, against transformers and tokenizers.

    logprobs.py MODEL_DIR RESPONSES.jsonl

RESPONSES.jsonl is what `routeopd generate --model MODEL_DIR --k K` wrote. transformers loads the same directory in float32
and reads each sequence once; every log-probability of a token taken and of its top-k must agree to 1e-4, and tokenizers
must give back the same text and ids. Prints the largest difference; exits 1 with a sentence where one is too large.
"""
import json
import pathlib
import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from results import report

TOLERANCE = 1e-4


def main() -> None:
    directory, responses = pathlib.Path(sys.argv[1]), sys.argv[2]
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    worst, tokens = 0.0, 0
    with open(responses) as lines, torch.no_grad():
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            prompt, ids = row["prompt_ids"], row["ids"]
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1:-1].double()
            expected = logits.log_softmax(-1)
            taken = expected.gather(1, torch.tensor(ids)[:, None])[:, 0]
            top = expected.gather(1, torch.tensor(row["top"]["ids"]))
            here = max(float((taken - torch.tensor(row["logprobs"])).abs().max()),
                       float((top - torch.tensor(row["top"]["logprobs"])).abs().max()))
            worst, tokens = max(worst, here), tokens + len(ids)
            if here > TOLERANCE:
                sys.exit(f"{responses}:{number}: log-probabilities differ from transformers by {here:.2e}")
            text = tokenizer.decode(ids, skip_special_tokens=True)
            if text != row["text"]:
                sys.exit(f"{responses}:{number}: tokenizers decode {text!r}, we {row['text']!r}")
            whole = tokenizer.decode(prompt, skip_special_tokens=False)
            if tokenizer.encode(whole).ids != prompt:
                sys.exit(f"{responses}:{number}: tokenizers encode the prompt as {tokenizer.encode(whole).ids}, we {prompt}")
    if tokens == 0:
        sys.exit(f"{responses}: no responses")
    print(f"{tokens} tokens of {directory}: log-probabilities within {worst:.1e} of transformers, ids and text equal")
    report(f"log-probabilities of {directory.name}, generated, {tokens} tokens", "transformers", f"<= {TOLERANCE:g}", f"{worst:.1e}", True)


main()
