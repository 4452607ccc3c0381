#!/usr/bin/env python3
"""`routeopd score`, greedy `routeopd generate` and `routeopd convert`, against transformers on one model directory.

    scores.py PROGRAM MODEL_DIR [TEXTS.txt]

Sequences: random ids, and where a text file is given its paragraphs, encoded by `tokenizers`. transformers loads the same
directory in float32 with eager attention. Log-probabilities of every token, its top-8, log-partition and gathered ids must
agree to 1e-4; greedy continuations must be equal as long as the two best logits are 1e-3 apart; the directory that convert
writes, in shards, must load with bitwise equal logits. Exits 1 with a sentence where something differs.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from results import report

TOLERANCE = 1e-4
LENGTHS = (1, 2, 17, 128, 400)
TOP = 8


def load(directory):
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    for parameter in model.parameters():  # products of mapped files round by where a tensor happens to begin
        parameter.data = parameter.data.clone()
    return model


def run(*words):
    subprocess.run([str(word) for word in words], check=True)


def main():
    program, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    model = load(directory)
    rng = random.Random(0)
    real_ids = model.config.vocab_size
    if (directory / "tokenizer.json").is_file():
        real_ids = max(Tokenizer.from_file(str(directory / "tokenizer.json")).get_vocab().values()) + 1
    sequences = [[rng.randrange(real_ids) for _ in range(length)] for length in LENGTHS
                 if length <= model.config.max_position_embeddings]
    if len(sys.argv) > 3:
        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        for text in pathlib.Path(sys.argv[3]).read_text().split("\n\n")[:8]:
            sequences.append(tokenizer.encode(text).ids[:300])
    sequences = [ids for ids in sequences if ids]
    gathers = [[[]] + [[rng.randrange(real_ids) for _ in range(rng.randrange(4))] for _ in ids[1:]] for ids in sequences]
    worst = tokens = 0
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        work = pathlib.Path(folder)
        (work / "in.jsonl").write_text("".join(
            json.dumps({"ids": ids, "gather": gather}) + "\n" for ids, gather in zip(sequences, gathers)))
        run(program, "score", "--quiet", "--model", directory, "--in", work / "in.jsonl", "--out", work / "out.jsonl",
            "--k", TOP)
        rows = [json.loads(line) for line in (work / "out.jsonl").read_text().splitlines()]
        assert len(rows) == len(sequences)
        for ids, gather, row in zip(sequences, gathers, rows):
            logits = model(torch.tensor([ids])).logits[0, :, :real_ids].double()
            expected = logits.log_softmax(-1)
            if row["logprobs"][0] is not None or row["top_ids"][0] or row["gather_logprobs"][0]:
                sys.exit("entry 0 predicts nothing, and must be null or empty")
            for t in range(1, len(ids)):
                here = expected[t - 1]
                pairs = [(row["logprobs"][t], here[ids[t]]), (row["lse"][t], logits[t - 1].logsumexp(-1))]
                pairs += zip(row["top_logprobs"][t], here[torch.tensor(row["top_ids"][t])])
                pairs += zip(row["top_logprobs"][t], here.topk(TOP).values)
                pairs += zip(row["gather_logprobs"][t], (here[i] for i in gather[t]))
                assert len(row["top_ids"][t]) == TOP and len(row["gather_logprobs"][t]) == len(gather[t])
                worst = max(worst, max(abs(float(a) - float(b)) for a, b in pairs))
                tokens += 1
        if worst > TOLERANCE:
            sys.exit(f"{directory}: log-probabilities differ from transformers by up to {worst:.2e}")
        print(f"{directory.name}: {tokens} tokens within {worst:.1e} of transformers")

        prompts = [ids[:40] for ids in sequences if len(ids) > 40]
        (work / "prompts.jsonl").write_text("".join(json.dumps({"prompt_ids": ids}) + "\n" for ids in prompts))
        run(program, "generate", "--quiet", "--model", directory, "--in", work / "prompts.jsonl", "--out",
            work / "greedy.jsonl", "--temperature", 0, "--max-new", 32)
        same = 0
        for line in (work / "greedy.jsonl").read_text().splitlines():
            row = json.loads(line)
            whole = row["prompt_ids"] + row["ids"]
            logits = model(torch.tensor([whole])).logits[0, len(row["prompt_ids"]) - 1:-1, :real_ids]
            best = logits.topk(2)
            for step, got in enumerate(row["ids"]):
                if float(best.values[step, 0] - best.values[step, 1]) < 1e-3:
                    break
                if got != int(best.indices[step, 0]):
                    sys.exit(f"{directory}: greedy token {step} is {got}, transformers' {int(best.indices[step, 0])}")
                same += 1
        print(f"{directory.name}: {same} greedy tokens as transformers'")

        run(program, "convert", "--quiet", directory, work / "converted", "--shard-gb",
            max(0.000001, sum(p.numel() for p in model.parameters()) * 4 / 3e9))
        again = load(work / "converted")
        shards = len(list((work / "converted").glob("*.safetensors")))
        for ids in sequences:
            if not torch.equal(model(torch.tensor([ids])).logits, again(torch.tensor([ids])).logits):
                sys.exit(f"{directory}: what convert wrote has other logits")
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json"):
            if (directory / name).exists() and (directory / name).read_bytes() != (work / "converted" / name).read_bytes():
                sys.exit(f"{directory}: {name} was not carried along byte for byte")
        print(f"{directory.name}: saved in {shards} shards, logits bitwise equal")
    report(f"{directory.name}: log-probabilities; greedy ids and converted directory equal", "transformers", f"<= {TOLERANCE:g}",
           f"{worst:.1e} on {tokens} tokens, {same} ids", True)


main()
