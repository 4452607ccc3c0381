#!/usr/bin/env python3
"""TRL's side of train_speed.py: on-policy distillation steps of DistillationTrainer in float32 on a CPU, timed and checked.

    python train_trl.py toy DIR TOKENIZER_DIR               writes DIR/student and DIR/teacher, small Qwen3 models
    python train_trl.py prompts MODEL COUNT LENGTH OUT      writes {"text", "ids"} lines that tokenize to exactly LENGTH ids
    python train_trl.py train STUDENT TEACHER PROMPTS OUT   trains, writes what was measured to OUT
    python train_trl.py divergence STUDENT TEACHER PROMPTS ROLLOUTS OUT    TRL's loss on responses that we wrote
    python train_trl.py change STUDENT CHECKPOINT OUT       how far the weights of a checkpoint moved

Written for trl 1.16.0, transformers 5.22.2 and torch 2.13.0: parts of a step are timed around methods of the trainer that
have these names there.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

# Frequent words: one id each in most vocabularies.
WORDS = ("the of and to in is that it was for on are as with they be at one have this from by hot word but what some you had "
         "we can out other were all there when up use your how said an each she which do their time if will way about many "
         "then them write would like so these her long make thing see him two has look more day could go come did number "
         "sound no most people my over know water than call first who may down side been now find").split()


def read_lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def write_json(path: str, value: Any) -> None:
    pathlib.Path(path).write_text(json.dumps(value) + "\n")


def load(directory: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def toy(args: argparse.Namespace) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(vocab_size=151936, hidden_size=128, intermediate_size=384, num_hidden_layers=2, num_attention_heads=2,
                         num_key_value_heads=1, head_dim=64, tie_word_embeddings=True, max_position_embeddings=2048,
                         bos_token_id=None, eos_token_id=None, pad_token_id=None)
    for seed, name in enumerate(("student", "teacher")):
        torch.manual_seed(seed)
        directory = pathlib.Path(args.directory) / name
        Qwen3ForCausalLM(config).float().save_pretrained(directory)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(pathlib.Path(args.tokenizer) / file, directory / file)


def prompts(args: argparse.Namespace) -> None:
    """Text that is encoded, cut and decoded may be encoded otherwise: such prompts are not taken."""
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    words = random.Random(args.seed)
    found: list[dict[str, Any]] = []
    for _ in range(20 * args.count):
        ids = tokenizer(" ".join(words.choices(WORDS, k=2 * args.length)))["input_ids"][:args.length]
        text = tokenizer.decode(ids)
        if len(ids) == args.length and tokenizer(text)["input_ids"] == ids:
            found.append({"text": text, "ids": ids})
        if len(found) == args.count:
            break
    else:
        sys.exit(f"{args.model}: only {len(found)} of {args.count} prompts of {args.length} ids were found.")
    pathlib.Path(args.out).write_text("".join(json.dumps(line) + "\n" for line in found))


def largest_change(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> float:
    """Of the weights below 0.1, where float32 is finer than 1e-8: an update of AdamW moves a weight by about the learning rate."""
    names = before.keys() & after.keys()
    if not names or {*before, *after} - names - {"lm_head.weight"}:  # a tied head may be stored or not
        sys.exit(f"The weights before and after have other names: {sorted({*before, *after} - names)[:4]}.")
    return max(float(((after[name] - before[name]).abs() * (before[name].abs() < 0.1)).max()) for name in names)


def stored(directory: str) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return {name: tensor for file in sorted(pathlib.Path(directory).glob("*.safetensors")) for name, tensor in load_file(file).items()}


def change(args: argparse.Namespace) -> None:
    write_json(args.out, {"largest_change": largest_change(stored(args.student), stored(args.checkpoint))})


def divergence(args: argparse.Namespace) -> None:
    from trl.trainer.distillation_trainer import _chunked_divergence_loss

    given = {f"{number}": line["ids"] for number, line in enumerate(read_lines(args.prompts))}
    rows = [(given[line["id"]], line["ids"]) for line in read_lines(args.rollouts)]
    ids = torch.tensor([prompt + response for prompt, response in rows])
    length = len(rows[0][1])
    real = len(AutoTokenizer.from_pretrained(args.student))  # rows of the head beyond the tokenizer's ids are never ours
    hidden, heads = [], []
    with torch.no_grad():
        for directory in (args.student, args.teacher):
            model = load(directory).eval()
            hidden.append(model.base_model(ids, use_cache=False).last_hidden_state[:, -length - 1:-1])
            heads.append(model.get_output_embeddings().weight[:real])
        loss, _, count = _chunked_divergence_loss(*hidden, *heads, torch.ones(len(rows), length), beta=1.0)
    write_json(args.out, {"loss": float(loss), "tokens": int(count)})


class Steps(TrainerCallback):
    """Begin and end of each step, and what happened in between as (part, begin, end)."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.parts: list[tuple[str, float, float]] = []

    def around(self, owner: Any, name: str, part: str | Callable[..., str]) -> None:
        inner = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            result = inner(*args, **kwargs)
            self.parts.append((part if isinstance(part, str) else part(*args), begin, time.perf_counter()))
            return result

        setattr(owner, name, timed)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.begin = time.perf_counter()

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.optimizer_begin = time.perf_counter()

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.parts.append(("optimizer", self.optimizer_begin, time.perf_counter()))

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.steps.append({"begin": self.begin, "end": time.perf_counter(), "parts": self.parts})
        self.parts = []


ONCE = ("generation", "student forward", "teacher forward", "divergence", "backward", "optimizer")
LENGTH_KEEPER = "min_new_tokens"


def step_report(number: int, step: dict[str, Any], log: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a step and its parts, after a check that all of its work lies between its begin and its end."""
    for part in ONCE:
        times = [(begin, end) for name, begin, end in step["parts"] if name == part]
        if len(times) != 1:
            sys.exit(f"TRL, step {number}: {part} was done {len(times)} times; once was expected.")
        if not step["begin"] <= times[0][0] <= times[0][1] <= step["end"]:
            sys.exit(f"TRL, step {number}: {part} was done outside of the step that is timed.")
    seconds: dict[str, float] = {}
    for name, begin, end in step["parts"]:
        seconds[name] = seconds.get(name, 0.0) + end - begin
    total = step["end"] - step["begin"]
    kept = seconds.pop(LENGTH_KEEPER, 0.0)
    seconds["generation"] -= kept
    seconds["rest"] = total - kept - sum(seconds.values())
    return {"seconds": total - kept, LENGTH_KEEPER: kept, "parts": seconds, "loss": log["loss"], "lr": log["learning_rate"],
            "grad_norm": log["grad_norm"], "num_tokens": log["num_tokens"], "shortest": log["completions/min_length"],
            "longest": log["completions/max_length"]}


def check_batches(batches: list[dict[str, torch.Tensor]], wanted: list[list[list[int]]], new: int) -> None:
    """What the trainer computed the loss of: the prompts that were given, and responses of full length."""
    for number, (batch, ids) in enumerate(zip(batches, wanted, strict=True), 1):
        if sorted(batch["prompt_ids"].tolist()) != sorted(ids):  # it shuffles within a step
            sys.exit(f"TRL, step {number}: the prompts' ids are not those that were given.")
        if batch["completion_mask"].shape != (len(ids), new) or not bool((batch["completion_mask"] == 1).all()):
            sys.exit(f"TRL, step {number}: {len(ids)} responses of {new} tokens were asked for; "
                     f"{batch['completion_mask'].sum(1).tolist()} came.")
        if not bool((batch["prompt_mask"] == 1).all()):
            sys.exit(f"TRL, step {number}: prompts were padded.")


def train(args: argparse.Namespace) -> None:
    import accelerate
    import datasets
    import transformers
    import trl
    import trl.trainer.distillation_trainer as module
    from transformers.generation.logits_process import MinNewTokensLengthLogitsProcessor

    student, teacher = load(args.student), load(args.teacher).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.student, padding_side="left")
    lines = read_lines(args.prompts)
    rows = [line for line in lines for _ in range(args.n)]
    batch = args.prompts_per_step * args.n
    steps = len(rows) // batch
    clock = Steps()
    with tempfile.TemporaryDirectory() as out:
        config = trl.DistillationConfig(
            output_dir=out, per_device_train_batch_size=batch, gradient_accumulation_steps=1, max_steps=steps, beta=1.0,
            temperature=1.0, max_completion_length=args.new, generation_kwargs={"min_new_tokens": args.new}, shuffle_dataset=False,
            learning_rate=args.lr, lr_scheduler_type="constant", weight_decay=0.01, max_grad_norm=1.0, bf16=False, use_cpu=True,
            gradient_checkpointing=False, report_to=[], save_strategy="no", logging_steps=1, disable_tqdm=True, seed=args.seed)
        trainer = trl.DistillationTrainer(
            model=student, teacher_model=teacher, args=config, processing_class=tokenizer, callbacks=[clock],
            train_dataset=datasets.Dataset.from_dict({"prompt": [row["text"] for row in rows]}))
        batches: list[dict[str, torch.Tensor]] = []
        compute_loss = trainer._compute_loss

        def keep_batch(model: Any, inputs: dict[str, Any], *more: Any) -> Any:
            batches.append({name: inputs[name] for name in ("prompt_ids", "prompt_mask", "completion_mask")})
            return compute_loss(model, inputs, *more)

        trainer._compute_loss = keep_batch
        clock.around(trainer, "_generate_and_score_completions", "generation")
        clock.around(trainer, "_get_last_hidden_state",
                     lambda model, *_: "teacher forward" if model is trainer.teacher_model else "student forward")
        clock.around(module, "_chunked_divergence_loss", "divergence")
        clock.around(trainer.accelerator, "backward", "backward")
        clock.around(MinNewTokensLengthLogitsProcessor, "__call__", LENGTH_KEEPER)
        trainer.train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    logs = [log for log in trainer.state.log_history if "loss" in log]
    if not len(clock.steps) == len(logs) == len(batches) == steps:
        sys.exit(f"TRL: {steps} steps of one batch were asked for; {len(clock.steps)} were timed, {len(logs)} logged, "
                 f"{len(batches)} batches computed.")
    check_batches(batches, [[row["ids"] for row in rows[at:at + batch]] for at in range(0, len(rows), batch)], args.new)
    for model in (student, teacher):
        if {parameter.dtype for parameter in model.parameters()} != {torch.float32}:
            sys.exit("TRL: a model is not in float32.")
    optimizer = trainer.optimizer.optimizer
    write_json(args.out, {
        "versions": {library.__name__: library.__version__ for library in (trl, transformers, torch, accelerate, datasets)},
        "threads": torch.get_num_threads(), "capability": torch.backends.cpu.get_cpu_capability(),
        "optimizer": f"{type(optimizer).__name__}, fused {bool(optimizer.defaults['fused'])}",
        "attention": student.config._attn_implementation, "peak_bytes": peak,
        "parameters": [sum(parameter.numel() for parameter in model.parameters()) for model in (student, teacher)],
        "largest_change": largest_change(stored(args.student), student.state_dict()),
        "steps": [step_report(number, step, log) for number, (step, log) in enumerate(zip(clock.steps, logs), 1)]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for work, names in ((toy, ("directory", "tokenizer")), (prompts, ("model", "count", "length", "out")),
                        (train, ("student", "teacher", "prompts", "out")),
                        (divergence, ("student", "teacher", "prompts", "rollouts", "out")),
                        (change, ("student", "checkpoint", "out"))):
        command = commands.add_parser(work.__name__)
        command.set_defaults(work=work)
        for name in names:
            command.add_argument(name, type=int if name in ("count", "length") else str)
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--seed", type=int, default=0)
        if work is train:
            command.add_argument("--prompts-per-step", type=int, default=4)
            command.add_argument("--n", type=int, default=4, help="completions a prompt")
            command.add_argument("--new", type=int, default=64, help="tokens a completion")
            command.add_argument("--lr", type=float, default=1e-6)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.work(args)


if __name__ == "__main__":
    main()
