# SPDX-License-Identifier: Apache-2.0
"""The laboratory's recipe by TRL's trainer: 30 steps of 32 prompts x 4 responses, then the mass on fixed states.

    python python/bench/trl_lab.py LAB OUT [--steps 30] [--micro 64] [--seed 42] [--against CHECKPOINT]

OUT is a model directory for `routeopd eval`. The mass is the mean over the states that the base student visits on the
first 64 validation problems, each model's own union there; `--against` names a checkpoint of the C++ trainer to read
beside it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile
import time

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

import routeopd
from routeopd.trl import RouteOPDConfig, RouteOPDTrainer


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab", type=pathlib.Path)
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--micro", type=int, default=64)
    parser.add_argument("--arm", default="routeopd")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--against")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def prompts(file, count):
    problems = [json.loads(line)["problem"] for line in file.read_text().splitlines()[:count]]
    return [f"Problem: {problem}\nSolution:" for problem in problems]


def train(args):
    rows = [text for text in prompts(args.lab / "train.jsonl", 32 * args.steps) for _ in range(4)]
    config = RouteOPDConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
        per_device_train_batch_size=args.micro, gradient_accumulation_steps=128 // args.micro, max_steps=args.steps,
        max_completion_length=128, shuffle_dataset=False, learning_rate=1e-3, lr_scheduler_type="cosine",
        warmup_steps=0, weight_decay=0.01, max_grad_norm=1.0, save_strategy="no", logging_steps=1, disable_tqdm=True,
        arm=args.arm, k=16, m=2, seed=args.seed, objective_seed=args.seed,
    )  # fmt: skip
    data = Dataset.from_dict({"prompt": rows})
    folders = {"model": str(args.lab / "base"), "teacher_model": str(args.lab / "teacher")}
    trainer = RouteOPDTrainer(**folders, args=config, train_dataset=data)
    start = time.perf_counter()
    trainer.train()
    trainer.save_model(args.out)
    trainer.processing_class.save_pretrained(args.out)
    last = next(line for line in reversed(trainer.state.log_history) if "mass" in line)
    return {"seconds": round(time.perf_counter() - start, 1), "last": {n: last[n] for n in ("loss", "mass", "budget")}}


@torch.no_grad()
def masses(args, folders):
    """Mean mass of each model on the base student's own states."""
    tokenizer = AutoTokenizer.from_pretrained(args.lab / "base", padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    load = lambda folder: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    base, teacher = load(args.lab / "base"), load(args.lab / "teacher")
    texts = tokenizer(prompts(args.lab / "validation.jsonl", 64), return_tensors="pt", padding=True)
    torch.manual_seed(0)
    ids = base.generate(**texts, do_sample=True, top_k=0, max_new_tokens=96, pad_token_id=tokenizer.pad_token_id)
    given = texts["input_ids"].shape[1]
    written = ids[:, given:]
    ends = (written == tokenizer.eos_token_id).int().cumsum(1)
    states = (ends - (written == tokenizer.eos_token_id).int()) == 0
    mask = torch.cat([texts["attention_mask"], states.long()], 1)

    def side(model):
        hidden = model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state[:, given - 1 : -1][states]
        return hidden, model.get_output_embeddings().weight

    theirs = side(teacher)
    found = {}
    for folder in folders:
        ours = side(load(folder))
        student = routeopd.top_k(*ours, 16)
        other = routeopd.top_k(*theirs, 16, gather=student.ids)
        routes = routeopd.route(student.gathered_at(*ours, other.ids), other, routeopd.Options(k=16))
        found[str(folder)] = round(routes.metrics()["mass"], 5)
    return found | {"states": int(states.sum())}


if __name__ == "__main__":
    given = arguments()
    torch.set_num_threads(given.threads)
    result = train(given)
    folders = [given.lab / "base", given.out, *([given.against] if given.against else [])]
    print(json.dumps(result | {"mass": masses(given, folders)}), flush=True)
