#!/usr/bin/env python3
"""A model directory that we saved, read by transformers and tokenizers, against the one that it came from.

    python load_saved.py DIR_ORIGINAL DIR_SAVED

Exits 1 with a sentence when a tensor is missing or unknown, when any tensor or the logits on three fixed random
sequences are not bitwise equal, or when the tokenizers give other ids. Both models are loaded in float32, whatever the
files hold. Tensors are compared as well because one weight off by its last bit can leave all logits as they were.
Written for transformers 5.22.2 and tokenizers 0.23.3.
"""
import pathlib
import random
import sys

import tokenizers
import torch
import transformers

from results import report

LENGTHS = (1, 7, 33)
TEXTS = ("", " ", "\n\n  x", "Hello, world!", "What is 12345 + 67.89?\n\nAnswer within \\boxed{}.", "naïve café",
         "你好，世界", "e\u0301 🙂👩‍👩‍👧", "it's I'LL we've", "<|im_start|>user\nhi<|im_end|>\n", "<think>\n</think>",
         "\t\u00a0\u200b end ")


def same_bits(one, other):
    return one.shape == other.shape and torch.equal(one.view(torch.int32), other.view(torch.int32))


def load(directory):
    model, found = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", local_files_only=True, output_loading_info=True)
    wrong = {kind: sorted(map(str, names)) for kind, names in found.items() if names}
    if wrong:
        sys.exit(f"{directory}: transformers did not load every tensor as it stands: {wrong}.")
    return model.eval()


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: load_saved.py DIR_ORIGINAL DIR_SAVED")
    directories = [pathlib.Path(name) for name in sys.argv[1:]]
    for directory in directories:
        if not (directory / "config.json").is_file():
            sys.exit(f"{directory}: no config.json there; give two model directories.")
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    original, saved = map(load, directories)
    vocabulary = original.config.vocab_size
    if saved.config.vocab_size != vocabulary:
        sys.exit(f"{directories[1]}: vocab_size is {saved.config.vocab_size}, that of the original {vocabulary}.")
    rng = random.Random(0)
    for length in LENGTHS:
        ids = torch.tensor([[rng.randrange(vocabulary) for _ in range(length)]])
        with torch.no_grad():
            wanted, got = original(ids).logits, saved(ids).logits
        if not same_bits(wanted, got):
            sys.exit(f"{directories[1]}: logits on {length} ids differ from the original's by up to "
                     f"{float((wanted - got).abs().max()):.3g}; they must be bitwise equal.")
    tensors = saved.state_dict()
    for name, tensor in original.state_dict().items():
        if not same_bits(tensor, tensors[name]):
            sys.exit(f"{directories[1]}: {name} is not bitwise equal to the original's, though these logits are.")

    files = [directory / "tokenizer.json" for directory in directories]
    present = [file.is_file() for file in files]
    if present[0] != present[1]:
        sys.exit(f"{files[present.index(False)]}: not there, though the other directory has one.")
    if all(present):
        first, second = (tokenizers.Tokenizer.from_file(str(file)) for file in files)
        for text in TEXTS:
            if first.encode(text).ids != second.encode(text).ids:
                sys.exit(f"{files[1]}: other ids than the original's for {text!r}.")
    print(f"equal: {len(tensors)} tensors, logits on {sum(LENGTHS)} ids of {len(LENGTHS)} sequences, "
          + (f"token ids of {len(TEXTS)} texts" if all(present) else "no tokenizer.json in either"))
    report("a checkpoint that we saved: tensors, logits, token ids", "transformers", "bitwise equal",
           f"{len(tensors)} tensors, {sum(LENGTHS)} rows of logits equal", True)


if __name__ == "__main__":
    main()
