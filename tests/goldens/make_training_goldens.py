"""Writes tiny/training.json and tiny/training_ARM.safetensors: twenty optimizer updates of two arms, in float64.

    training.json                   versions, settings, prompts and responses of each step, figures of each arm
    training_ARM.safetensors        delta.NAME, float32, of every parameter: theta after the last update - theta before

Ten steps on the student and the teacher of make_model_goldens.py, with its decoder, routing and losses. A step's
responses are given: drawn here from the student as saved (prompts uniformly), and the same for both arms. At its start
the current student is frozen as pi_old; supports, targets and pairs come from there, pairs at the address (routing
seed, purpose 2, step, prompt index, response index, position). Two updates follow, the first on responses [0, B / 2),
the second on [B / 2, B) with B / 2 rounded down, each divided by its own number of states: at the second one Delta is
not 0 and rho not 1. Each update clips the global norm (torch.nn.utils.clip_grad_norm_), which binds in some and not in
others of both arms, and takes one step of one torch.optim.AdamW with a constant rate.

Distances are |delta - delta of the reference| / |delta of the reference| of a tensor, the largest of all tensors.
`float32` is that of the same run with float32 weights, activations and optimizer. `mutants` are those of wrong runs,
each more than MUTANT away: the loss negated; old values replaced by the current ones at each minibatch (Delta = 0,
rho = 1); each minibatch's loss divided by the whole step's number of states; no clip. A step's data are drawn again
until no draw, top-k edge or sign of p_S - p_T of the routeopd run lies within TRAINING_MARGIN of turning. The float32
run stays within a fifth of that (`strayed`: logits, potentials, cumulative distributions) and draws the same pairs.

Written with torch 2.13.0+cpu, transformers 5.22.2, safetensors 0.8.0 and Python 3.11.7 by:
python tests/goldens/make_training_goldens.py
"""
from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from make_model_goldens import (ADAMW, BUDGETS, K, M, MAX_NORM, OUT, REAL_IDS, ROUTING_SEED, TINY, VERSIONS, Batch,
                                Weights, decode, lines)
from make_route_goldens import statistics

STEPS, MINIBATCHES, DATA_SEED = 10, 2, 1
ARMS = ("routeopd", "sampled_rkl")
# (prompt's length, its responses' lengths): the cut falls within a prompt's responses, and the shorter part comes first
# in every other step, so that the two minibatches' numbers of states differ both ways.
SHAPES = (((2, (8, 5)), (3, (9, 8)), (4, (2, 1, 1))), ((2, (1,)), (3, (2, 8)), (4, (9,))))
MUTANTS = ("sign", "delta", "denominator", "clip")
TRAINING_MARGIN = 2e-4
TOLERANCE, MUTANT = 1e-2, 2e-2  # of the test, and how far a mutant must be
VERSIONS = VERSIONS | {"made_by": "make_training_goldens.py",
                       "command": "python tests/goldens/make_training_goldens.py"}
Data = tuple[list[list[int]], list[list[list[int]]]]  # prompts, and each one's responses


def draw_data(student: Weights, step: int, attempt: int) -> Data:
    rng = random.Random(f"{DATA_SEED} {step} {attempt}")
    prompts, responses = [], []
    for prompt_length, lengths in SHAPES[step % len(SHAPES)]:
        prompt = [rng.randrange(REAL_IDS) for _ in range(prompt_length)]
        group: list[list[int]] = []
        for length in lengths:
            ids: list[int] = []
            while len(ids) < length:
                p = decode(TINY, student, prompt + ids)[-1, :REAL_IDS].softmax(0)
                ids += rng.choices(range(REAL_IDS), p.tolist())
            group.append(ids)
        prompts.append(prompt)
        responses.append(group)
    return prompts, responses


def draw_steady_data(saved: Weights, current: Weights, teacher: Weights, step: int) -> Data:
    for attempt in range(100):
        data = draw_data(saved, step, attempt)
        if Batch(current, teacher, *data, step).nearest > TRAINING_MARGIN:
            return data
    raise SystemExit(f"step {step}: no data with a margin of {TRAINING_MARGIN}")


@dataclass
class Run:
    deltas: Weights
    updates: list[dict[str, float]] = field(default_factory=list)  # loss, grad_norm, states
    batches: list[Batch] = field(default_factory=list)


def minibatch_loss(batch: Batch, arm: str, weights: Weights, part: int, mutant: str) -> tuple[Tensor, int]:
    """The loss of one of a step's minibatches, and its number of states."""
    sequences = [(prompt, ids) for prompt, group in zip(batch.prompts, batch.responses) for ids in group]
    first, end = (len(sequences) * i // MINIBATCHES for i in (part, part + 1))
    state = sum(len(ids) for _, ids in sequences[:first])
    losses = []
    for prompt, ids in sequences[first:end]:
        for z in decode(TINY, weights, prompt + ids)[len(prompt) - 1:-1, :REAL_IDS]:
            losses.append(batch.token_loss(arm, state, z, z.detach() if mutant == "delta" else None))
            state += 1
    count = sum(len(ids) for _, ids in sequences) if mutant == "denominator" else len(losses)
    return (-1 if mutant == "sign" else 1) * torch.stack(losses).sum() / count, len(losses)


def train(arm: str, start: Weights, teacher: Weights, steps: list[Data], mutant: str = "") -> Run:
    """Twenty updates in the precision of `start`. Steps that `steps` does not hold yet are drawn and added to it."""
    weights = {name: w.clone().requires_grad_() for name, w in start.items()}
    optimizer = torch.optim.AdamW(weights.values(), **ADAMW)
    run = Run({})
    for step in range(STEPS):
        if step == len(steps):
            steps.append(draw_steady_data(start, weights, teacher, step))
        batch = Batch(weights, teacher, *steps[step], step)
        run.batches.append(batch)
        for part in range(MINIBATCHES):
            optimizer.zero_grad()
            loss, states = minibatch_loss(batch, arm, weights, part, mutant)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(weights.values(), math.inf if mutant == "clip" else MAX_NORM)
            optimizer.step()
            run.updates.append({"loss": float(loss.detach()), "grad_norm": float(norm), "states": states})
    run.deltas = {name: (w.detach().double() - start[name].double()) for name, w in weights.items()}
    return run


def distances(run: Run, reference: Run) -> dict[str, float]:
    return {name: float((run.deltas[name] - delta).norm() / delta.norm()) for name, delta in reference.deltas.items()}


def strayed(run: Run, reference: Run) -> float:
    """The most that logits, potentials or cumulative distributions of any frozen state differ; supports must not."""
    most = 0.0
    for ours, right in zip(run.batches, reference.batches):
        most = max(most, float((ours.old - right.old).abs().max()), float((ours.teacher - right.teacher).abs().max()))
        for n in range(len(right.states)):
            assert ours.states[n]["pairs"] == right.states[n]["pairs"], "a draw turned"
            a, b = (statistics(batch.old[n], batch.teacher[n], {"k": K, "budget": BUDGETS["routeopd"]})
                    for batch in (ours, right))
            assert a["ids"] == b["ids"], "a support turned"
            for of in (lambda s: s["potential"], lambda s: s["q_minus"].cumsum(0), lambda s: s["q_plus"].cumsum(0)):
                most = max(most, float((of(a) - of(b)).abs().max()))
    return most


def write_arm(arm: str, student: Weights, teacher: Weights, steps: list[Data]) -> dict[str, Any]:
    wide, wide_teacher = ({name: w.double() for name, w in weights.items()} for weights in (student, teacher))
    reference = train(arm, wide, wide_teacher, steps)
    norms = [update["grad_norm"] for update in reference.updates]
    assert min(norms) < 0.9 * MAX_NORM and max(norms) > 1.1 * MAX_NORM, "the clip must bind in some updates only"
    assert len(norms) == STEPS * MINIBATCHES and not any(abs(norm / MAX_NORM - 1) < 1e-3 for norm in norms)
    single = train(arm, student, teacher, steps)
    row: dict[str, Any] = {"float32": max(distances(single, reference).values())}
    row["float32_loss"] = max(abs(a["loss"] - b["loss"]) for a, b in zip(single.updates, reference.updates))
    row["float32_grad_norm"] = max(abs(a["grad_norm"] / b["grad_norm"] - 1)
                                   for a, b in zip(single.updates, reference.updates))
    assert row["float32"] < TOLERANCE / 5
    if arm == "routeopd":
        row["nearest"] = min(batch.nearest for batch in reference.batches)
        row["strayed"] = strayed(single, reference)
        assert row["strayed"] < TRAINING_MARGIN / 5 and row["nearest"] > TRAINING_MARGIN
    row["mutants"] = {}
    for mutant in MUTANTS:
        far = distances(train(arm, wide, wide_teacher, steps, mutant), reference)
        row["mutants"][mutant] = max(far.values())
        print(f"{arm:12} {mutant:12} largest {max(far.values()):.3f}  smallest {min(far.values()):.3f}")
        assert max(far.values()) > MUTANT, (arm, mutant)
    print(f"{arm:12} clip binds in {sum(norm > MAX_NORM for norm in norms)} of {len(norms)} updates; "
          + "  ".join(f"{key} {value:.1e}" for key, value in row.items() if key != "mutants"))
    tensors = {f"delta.{name}": delta.float().contiguous() for name, delta in reference.deltas.items()}
    save_file(tensors, OUT / f"training_{arm}.safetensors", metadata={"made_by": json.dumps(VERSIONS)})
    return row | {"updates": reference.updates}


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    student, teacher = (load_file(OUT / name / "model.safetensors") for name in ("student", "teacher"))
    steps: list[Data] = []
    arms = {arm: write_arm(arm, student, teacher, steps) for arm in ARMS}
    settings = {"real_ids": REAL_IDS, "k": K, "m": M, "seed": ROUTING_SEED, "steps": STEPS, "minibatches": MINIBATCHES,
                "kappa": 1.0, "delta_p": 1e-8, "max_norm": MAX_NORM, "adamw": ADAMW}
    figures = {arm: {key: value for key, value in row.items() if key != "updates"} for arm, row in arms.items()}
    parts = {**{key: json.dumps(value) for key, value in VERSIONS.items()}, "settings": json.dumps(settings),
             "figures": json.dumps(figures),
             "steps": lines([dict(zip(("prompts", "responses"), data)) for data in steps]),
             **{arm: lines(row["updates"]) for arm, row in arms.items()}}
    text = "{\n " + ",\n ".join(f'"{key}": {value}' for key, value in parts.items()) + "\n}\n"
    assert list(json.loads(text)) == list(parts)
    (OUT / "training.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
