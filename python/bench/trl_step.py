# SPDX-License-Identifier: Apache-2.0
"""RouteOPDTrainer beside TRL's DistillationTrainer: seconds of a whole step, and of the loss alone with its memory.

    python python/bench/trl_step.py STUDENT TEACHER [--steps 6] [--micro 16] [--arm routeopd]
    python python/bench/trl_step.py small small --tokenizer DIR     (2 layers, d = 128, V = 151,936, tied)
    python python/bench/trl_step.py … --loss                       (the loss stage alone)

Both trainers run their own loops in one process and take turns, a step each, on the same prompts with the same number
of new tokens (no response ends early); the first step of each is not counted. The loss stage goes from hidden states
and finished routes to gradients on hidden states and head; its memory is what the peak of the process's resident size
grows by, each in a process of its own. Needs TRL.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import tempfile
import threading
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Two loops share the cores: threads that wait must not spin, or the one that is left at the end is another machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import trl.trainer.distillation_trainer as stock
from datasets import Dataset
from heads import resident
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM, TrainerCallback
from trl import DistillationConfig, DistillationTrainer

import routeopd
from routeopd.trl import RouteOPDConfig, RouteOPDTrainer

NAMES = ("DistillationTrainer", "RouteOPDTrainer")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("student")
    parser.add_argument("teacher")
    parser.add_argument("--tokenizer", help="its directory; needed with small")
    parser.add_argument("--arm", default="routeopd")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--completions", type=int, default=4)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--micro", type=int, default=16, help="rows per backward; the rest is gradient accumulation")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--loss", action="store_true", help="the loss stage alone")
    parser.add_argument("--rounds", type=int, default=5, help="of the loss stage")
    return parser.parse_args()


def load(name, seed):
    if name != "small":
        return AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    config = Qwen3Config(
        vocab_size=151936, hidden_size=128, intermediate_size=384, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=64, tie_word_embeddings=True, max_position_embeddings=2048,
    )  # fmt: skip
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(config).float()


# ---- whole steps ----------------------------------------------------------------------------------------------------


class Turns(TrainerCallback):
    """Lets one trainer make a step while the other waits."""

    def __init__(self, own, lock, turn, marks):
        self.own, self.lock, self.turn, self.marks, self.spent = own, lock, turn, marks, {}

    def on_step_begin(self, *_, **__):
        with self.lock:
            self.lock.wait_for(lambda: self.turn[0] == self.own)
        self.spent.clear()
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.marks[self.own].append({"step": time.perf_counter() - self.start} | self.spent)
        self.pass_on()

    def pass_on(self):
        with self.lock:
            self.turn[0] = 1 - self.own
            self.lock.notify_all()

    def timed(self, owner, name, label):
        inner = getattr(owner, name)

        def wrapper(*given, **named):
            start = time.perf_counter()
            try:
                return inner(*given, **named)
            finally:
                self.spent[label] = self.spent.get(label, 0.0) + time.perf_counter() - start

        setattr(owner, name, wrapper)


def prompts(args, tokenizer):
    """Texts of --prompt-tokens tokens, each --completions times."""
    text = "the quick brown fox jumps over a lazy dog and then asks how many apples are left in the basket"
    words = text.split()
    rows = []
    for p in range(args.prompts * args.steps):
        text = " ".join(words[(p * 7 + i * (p % 5 + 1)) % len(words)] for i in range(4 * args.prompt_tokens))
        ids = tokenizer(text, add_special_tokens=False)["input_ids"][: args.prompt_tokens]
        rows += [tokenizer.decode(ids)] * args.completions
    return rows


def steps(args):
    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer or args.student, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    batch = args.prompts * args.completions
    rows = Dataset.from_dict({"prompt": prompts(args, tokenizer)})
    lock, turn, marks = threading.Condition(), [0], ([], [])
    common = {
        "per_device_train_batch_size": args.micro, "gradient_accumulation_steps": batch // args.micro, "bf16": False,
        "max_steps": args.steps, "learning_rate": 1e-6, "use_cpu": True, "gradient_checkpointing": False,
        "report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "seed": 0,
        "max_completion_length": args.new, "shuffle_dataset": False, "generation_kwargs": {"min_new_tokens": args.new},
    }  # fmt: skip
    trainers = []
    for own, (kind, config, more) in enumerate(
        ((DistillationTrainer, DistillationConfig, {}), (RouteOPDTrainer, RouteOPDConfig, {"arm": args.arm}))
    ):
        turns = Turns(own, lock, turn, marks)
        settings = config(output_dir=tempfile.mkdtemp(), **common, **more)
        given = {"teacher_processing_class": tokenizer} if own else {}
        trainer = kind(
            model=load(args.student, 0), teacher_model=load(args.teacher, 1).eval(), args=settings,
            processing_class=tokenizer, train_dataset=rows, callbacks=[turns], **given,
        )  # fmt: skip
        turns.timed(trainer, "_generate", "generation")
        if own:
            turns.timed(trainer, "score", "teacher")
        turns.timed(trainer, "_compute_loss", "forwards and loss")
        turns.timed(trainer.accelerator, "backward", "backward")
        trainers.append((trainer, turns))

    ended = threading.Barrier(2)

    def run(trainer, turns):
        torch.set_num_threads(args.threads)
        try:
            trainer.train()
        except BaseException:
            ended.abort()
            turns.pass_on()
            raise
        ended.wait()

    threads = [threading.Thread(target=run, args=each) for each in trainers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {}
    for own, name in enumerate(NAMES):
        counted = marks[own][1:]
        found[name] = {part: round(statistics.median(m[part] for m in counted), 4) for part in counted[0]}
        found[name]["all"] = [round(m["step"], 3) for m in counted]
    ratios = [b["step"] / a["step"] for a, b in zip(marks[0][1:], marks[1][1:], strict=True)]
    found["ratio"] = round(found[NAMES[1]]["step"] / found[NAMES[0]]["step"], 4)
    found["ratios"] = [round(value, 3) for value in ratios]
    return found | {"sequences": batch, "new_tokens": batch * args.new}


# ---- the loss alone -------------------------------------------------------------------------------------------------


class Stage:
    """Hidden states and heads of both models, and finished routes."""

    def __init__(self, args, tokens=None):
        torch.set_num_threads(args.threads)
        tokens = tokens or args.prompts * args.completions * args.new
        sides = []
        for name, seed in ((args.student, 0), (args.teacher, 1)):
            head = load(name, seed).get_output_embeddings().weight.detach().clone()
            generator = torch.Generator().manual_seed(seed)
            sides.append((torch.randn((tokens, head.shape[1]), generator=generator), head))
        (self.hidden, self.weight), (self.teacher_hidden, self.teacher_weight) = sides
        student = routeopd.top_k(self.hidden, self.weight)
        teacher = routeopd.top_k(self.teacher_hidden, self.teacher_weight, gather=student.ids)
        self.routes = routeopd.route(student.gathered_at(self.hidden, self.weight, teacher.ids), teacher)

    def stock(self):
        hidden, weight = self.hidden.detach().requires_grad_(), self.weight.detach().requires_grad_()
        mask = torch.ones((1, hidden.shape[0]))
        given = (hidden[None], self.teacher_hidden[None], weight, self.teacher_weight, mask, 1.0)
        stock._chunked_divergence_loss(*given)[0].backward()
        return hidden.grad, weight.grad

    def ours(self):
        hidden, weight = self.hidden.detach().requires_grad_(), self.weight.detach().requires_grad_()
        odds = routeopd.pair_log_odds(hidden, weight, self.routes.source, self.routes.destination)
        (routeopd.route_loss(odds, self.routes).sum() / hidden.shape[0]).backward()
        return hidden.grad, weight.grad

    def dense(self):
        """The gradient that both hand back for the head."""
        return torch.zeros_like(self.weight)


def grown(args, name, queue):
    stage = Stage(args)
    getattr(Stage(args, tokens=8), name)()  # libraries and threads are there
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = resident()["VmRSS"]
    kept = getattr(stage, name)()
    queue.put(resident()["VmHWM"] - before)
    del kept


def loss(args):
    context = multiprocessing.get_context("spawn")
    memory = {}
    for name in ("stock", "ours", "dense"):
        queue = context.Queue()
        process = context.Process(target=grown, args=(args, name, queue))
        process.start()
        memory[name] = queue.get(timeout=900)
        process.join()
    stage, seconds = Stage(args), {"stock": [], "ours": [], "dense": []}
    for _ in range(args.rounds):
        for name, each in seconds.items():
            start = time.perf_counter()
            kept = getattr(stage, name)()
            each.append(time.perf_counter() - start)
            del kept
    time_of = {name: statistics.median(each) for name, each in seconds.items()}
    beyond = max(0, memory["ours"] - memory["dense"]), memory["stock"] - memory["dense"]
    return {
        "seconds": {name: round(value, 5) for name, value in time_of.items()},
        "MB": {name: round(value / 2**20, 1) for name, value in memory.items()},
        "ratio": round(time_of["ours"] / time_of["stock"], 4),
        "memory_ratio": round(memory["ours"] / memory["stock"], 4),
        "memory_ratio_beyond_the_dense_gradient": round(beyond[0] / beyond[1], 4),
        "states": stage.hidden.shape[0],
        "hidden": stage.hidden.shape[1],
        "vocabulary": stage.weight.shape[0],
    }


if __name__ == "__main__":
    given = arguments()
    torch.set_num_threads(given.threads)
    result = loss(given) if given.loss else steps(given)
    result |= {"student": pathlib.Path(given.student).name, "micro": given.micro, "load": os.getloadavg()[0]}
    print(json.dumps(result), flush=True)
