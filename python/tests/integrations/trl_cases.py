# SPDX-License-Identifier: Apache-2.0
"""Small models, given rollouts and plain formulas from logits in float64: what the tests of the TRL plug-in share."""

from __future__ import annotations

import copy
import math
import os
import pathlib
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback

from routeopd import Options, TopK, background_pool, route
from routeopd.trl import RouteOPDConfig, RouteOPDTrainer

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOKENIZER = ROOT / "lab/base"
ROWS, K, SEED = 8, 8, 42
ZERO3_CASES = [
    ("routeopd", False),
    ("routeopd", True),
    ("sampled_rkl", False),
    ("union_rkl", True),
    ("full_rkl", False),
]


def tokenizer():
    return AutoTokenizer.from_pretrained(TOKENIZER, padding_side="left")


def model(family="Qwen3", seed=0, hidden=32, rows=512, spread=0.3, **settings):
    """A random model; its head's rows beyond the tokenizer's ids are padding, larger than all others."""
    config = getattr(transformers, f"{family}Config")(
        vocab_size=rows, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=hidden // 4, max_position_embeddings=128, bos_token_id=None, eos_token_id=492,
        pad_token_id=None, **settings,
    )  # fmt: skip
    torch.manual_seed(seed)
    made = getattr(transformers, f"{family}ForCausalLM")(config).float()
    head = made.get_output_embeddings()
    with torch.no_grad():
        head.weight.normal_(0, spread)
        if getattr(head, "bias", None) is not None:
            head.bias.normal_(0, 1)
        if rows > 493:
            head.weight[493:] = 3 * spread
    return made


class Case:
    """A trainer whose rollouts are given: prompt "7" is always answered in the same way; `silent` prompts count not."""

    def __init__(
        self, student, teacher, *, micro=ROWS, accumulation=1, steps=1, tools=True, silent=(), peft=None, **more
    ):
        self.tools, self.silent, self.generations, self.gradients, self.batches = tools, silent, 0, [], []
        more = {"k": K, "learning_rate": 0.5, "gradient_checkpointing": False, "bf16": False} | more
        args = RouteOPDConfig(
            output_dir=tempfile.mkdtemp(), use_cpu=True, per_device_train_batch_size=micro, max_steps=steps,
            gradient_accumulation_steps=accumulation, max_completion_length=16, report_to=[], optim="sgd",
            lr_scheduler_type="constant", save_strategy="no", logging_steps=1, max_grad_norm=0.0, disable_tqdm=True,
            shuffle_dataset=False, objective_seed=SEED, **more,
        )  # fmt: skip
        rows = Dataset.from_list([{"prompt": str(i)} for i in range(ROWS * max(1, steps))])
        self.trainer = RouteOPDTrainer(
            model=student, teacher_model=teacher, args=args, train_dataset=rows, processing_class=tokenizer(),
            teacher_processing_class=tokenizer(), callbacks=[_Gradients(self)], peft_config=peft,
        )  # fmt: skip
        self.trainer._generate = self._generate
        scored = self.trainer.score

        def score(batch):
            found = scored(batch)
            self.batches.append({name: value.clone() for name, value in found.items()})
            return found

        self.trainer.score = score

    def _generate(self, prompts):
        self.generations += 1
        answers = [rollout(int(prompt)) for prompt in prompts]
        masks = [[0] * len(a[2]) if int(p) in self.silent else a[2] for p, a in zip(prompts, answers, strict=True)]
        return [a[0] for a in answers], [a[1] for a in answers], masks if self.tools else None, None, None

    def train(self):
        self.trainer.train()
        self.losses = [line["loss"] for line in self.trainer.state.log_history if "loss" in line]
        return self


class _Gradients(TrainerCallback):
    def __init__(self, case):
        self.case = case

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        found = {n: p.grad.detach().clone() for n, p in model.named_parameters() if p.grad is not None}
        self.case.gradients.append({name.removeprefix("module."): value for name, value in found.items()})


def rollout(number):
    """A prompt of one to five ids, a response of three to twelve, and a mask with a call of a tool inside."""
    generator = torch.Generator().manual_seed(100 + number)
    draw = lambda low, high, size: torch.randint(low, high, size, generator=generator)
    prompt = draw(0, 492, (1 + int(draw(0, 5, ()).item()),)).tolist()
    response = draw(0, 492, (3 + int(draw(0, 10, ()).item()),)).tolist()
    mask = [0 if number % 3 == 0 and i in (1, 2) else 1 for i in range(len(response))]
    return prompt, response, mask


# ---- the same, from logits ------------------------------------------------------------------------------------------


def logits_of(model, batch):
    """Logits at the states that count, over the real ids, float64, by the model's own forward."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    columns = batch["completion_ids"].shape[1]
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, -columns - 1 : -1, :493]
    return logits.double()[states_of(batch)]


def states_of(batch):
    mask = batch["completion_mask"]
    return (mask * batch["tool_mask"] if "tool_mask" in batch else mask).bool()


def side_of(logits, others):
    values, ids = logits.sort(dim=-1, descending=True, stable=True)
    top = ids[:, :K].int()
    at = None if others is None else logits.float().gather(1, others.long())
    return TopK(top, values[:, :K].float(), logits.logsumexp(-1).float(), 493, others, at)


def routes_of(student, teacher, options, address):
    """Routes from both models' logits."""
    student, teacher = student.detach(), teacher.detach()
    if options.k == "full":
        return route(TopK.full(student), TopK.full(teacher), options, seed=SEED, address=address)
    s, t = side_of(student, None).ids, side_of(teacher, None).ids
    ours, theirs = side_of(student, t), side_of(teacher, s)
    pool = None
    if options.needs_pool:
        ids = background_pool(ours, seed=SEED, address=address)
        pool = (ids, student.float().gather(1, ids.clamp(min=0).long()))
    return route(ours, theirs, options, seed=SEED, address=address, pool=pool)


def huber(x, kappa=1.0):
    return torch.where(x.abs() <= kappa, x**2 / 2, kappa * (x.abs() - kappa / 2))


def union_of(student, teacher):
    inside = torch.zeros_like(student, dtype=torch.bool)
    for side in (student, teacher):
        inside.scatter_(1, side.sort(dim=-1, descending=True, stable=True).indices[:, :K], True)
    return inside


def plain_loss(options, now, old, teacher, taken, routes):
    """The loss summed over states: `now` with a gradient, `old` the student before the first update."""
    log_now, log_old, log_teacher = (x.log_softmax(-1) for x in (now, old.detach(), teacher.detach()))
    at = lambda values, ids: values.gather(1, ids.long())
    if options.arm == "sampled_rkl":
        a = taken[:, None]
        ratio = (at(log_now, a) - at(log_old, a)).exp()
        return -(ratio * (at(log_teacher, a) - at(log_old, a))).sum()
    if options.arm == "full_rkl":
        return (log_now.exp() * (log_now - log_teacher)).sum()
    if options.arm == "full_fkl":
        return (log_teacher.exp() * (log_teacher - log_now)).sum()
    inside = union_of(old.detach(), teacher.detach())
    on_union = lambda logits: logits.masked_fill(~inside, -math.inf).log_softmax(-1)
    if options.arm == "union_rkl":
        log_p, log_t = on_union(now).masked_fill(~inside, 0), on_union(teacher).masked_fill(~inside, 0)
        return (log_p.exp() * (log_p - log_t))[inside].sum()
    if options.arm == "union_fkl":
        log_p, log_t = on_union(now).masked_fill(~inside, 0), on_union(teacher).masked_fill(~inside, 0)
        return (log_t.exp() * (log_t - log_p))[inside].sum()
    if options.pairs == "exact":
        p, t = on_union(old.detach()).exp(), on_union(teacher.detach()).exp()
        potential = (on_union(teacher.detach()) - on_union(old.detach())).masked_fill(~inside, 0)
        half = routes.budget.double()[:, None] / 2
        u = log_now - log_old - half * torch.tanh(potential / half)
        excess, deficit = (p - t).clamp(min=0), (t - p).clamp(min=0)
        mass = (excess.sum(1) + deficit.sum(1)) / 2
        coupling = (excess / excess.sum(1, True))[:, :, None] * (deficit / deficit.sum(1, True))[:, None, :]
        return (mass[:, None, None] * coupling * huber(u[:, None, :] - u[:, :, None])).sum()
    a, b = routes.source, routes.destination
    there = a >= 0
    change = log_now - log_old
    if options.side == "pair":
        moved = at(change, b.clamp(min=0)) - at(change, a.clamp(min=0))
    else:
        moved = at(change, (a if options.side == "source" else b).clamp(min=0))
    each = huber(moved - routes.target.double()).where(there, 0).sum(1) / options.m
    return (routes.weight.double() * each).sum()


def plain(options: Options, student, teacher, batch, *, old=None, dtype=torch.float64):
    """Loss and gradients of one optimizer batch, from logits; `old`: the student at the first update."""
    now_model, teacher = copy.deepcopy(student).to(dtype), copy.deepcopy(teacher).to(dtype).eval()
    now_model.zero_grad()
    now = logits_of(now_model, batch)
    with torch.no_grad():
        theirs = logits_of(teacher, batch)
        before = now.detach() if old is None else logits_of(copy.deepcopy(old).to(dtype), batch)
    states = states_of(batch)
    unrouted = options.arm in ("sampled_rkl", "full_rkl", "full_fkl")
    routes = None if unrouted else routes_of(before, theirs, options, batch["routeopd_address"][states])
    loss = plain_loss(options, now, before, theirs, batch["completion_ids"][states], routes)
    loss = loss / int(states.sum())
    loss.backward()
    found = {n: p.grad for n, p in now_model.named_parameters() if p.grad is not None}
    return float(loss.detach()), found


def gap(got, expected):
    """The largest difference of a tensor of gradients, in units of that tensor's largest."""
    assert expected.keys() == got.keys(), expected.keys() ^ got.keys()
    gaps = {}
    for name, value in expected.items():
        size = value.abs().max().item()
        gaps[name] = (got[name].double() - value.double()).abs().max().item() / (size or 1.0)
    return max(gaps.values())
