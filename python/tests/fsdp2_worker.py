# SPDX-License-Identifier: Apache-2.0
"""One of two ranks: gradients under FSDP2 against those of one process, for ``test_fsdp2``.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=… python fsdp2_worker.py answer.json

The ranks have sequences of unequal lengths and divide by the tokens of both. FSDP2 averages gradients over the ranks,
so a rank's loss is ``sum * ranks / tokens``. Every case takes two steps with an update between them: what one forward
leaves behind would be seen in the next one.
"""

from __future__ import annotations

import copy
import datetime
import json
import pathlib
import sys
import warnings
from typing import Any

import tiny_decoder
import torch
import torch.distributed as dist
from tiny_decoder import Decoder, Sequence, decoder, sequence
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

import routeopd
from routeopd._library import ops

LENGTHS = (9, 5)
STEPS = 2
RATE = 0.1

UNTIED, TIED = ("root", "own", "grouped"), ("root", "grouped")
# All losses where the head is a unit of its own, or tied; elsewhere those that differ in how they call it.
CALLS = ("pairs", "fresh_pairs", "two_calls", "one_call")
# A second call of a head that shares its unit with the norm cannot follow one without gradients: FSDP2 then gives the
# unit back before the norm's backward. ``check_second_call`` looks at these.
FRESH = ("fresh_pairs", "fresh_union")
CASES = [
    *(("own", False, loss, "forward") for loss in tiny_decoder.LOSSES),
    *(("root", True, loss, "forward") for loss in tiny_decoder.LOSSES),
    *(("root", False, loss, "forward") for loss in CALLS),
    *(("grouped", tied, loss, "forward") for tied in (False, True) for loss in CALLS if loss not in FRESH),
    *((layout, False, "pairs", "method") for layout in UNTIED),
    *((layout, True, "one_call", "method") for layout in TIED),
]
MIXED = [("own", "pairs"), ("own", "union"), ("own", "log_probs"), ("root", "pairs"), ("grouped", "pairs")]


def name_of(layout: str, tied: bool, loss: str, way: str) -> str:
    return f"{layout}-{'tied' if tied else 'untied'}-{loss}-{way}"


def shard(model: Decoder, layout: str, mesh: DeviceMesh, **settings: Any) -> None:
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **settings)
    if layout == "own":
        fully_shard(model.lm_head, mesh=mesh, **settings)
    elif layout == "grouped":
        tied = model.lm_head.weight is model.embed.weight
        group: list[nn.Module] = [model.embed, model.norm, model.lm_head] if tied else [model.norm, model.lm_head]
        fully_shard(group, mesh=mesh, **settings)
    fully_shard(model, mesh=mesh, **settings)
    register_fsdp_forward_method(model, "loss_of")


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """Of every parameter, whole."""
    found = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        grad = parameter.grad
        found[name] = (grad.full_tensor() if hasattr(grad, "full_tensor") else grad).float().clone()
    return found


def update(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= RATE * parameter.grad
            parameter.grad = None


def apart(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Norm of the difference over the norm, of each parameter."""
    assert found.keys() == expected.keys(), set(found) ^ set(expected)
    return {name: ((found[name] - expected[name]).norm() / expected[name].norm()).item() for name in expected}


def one_process(model: Decoder, sequences: list[Sequence], loss: str) -> list[dict[str, Tensor]]:
    """Gradients of each step, all sequences in this process."""
    answers = []
    for _ in range(STEPS):
        (sum(model(one, loss) for one in sequences) / sum(LENGTHS)).backward()
        answers.append(gradients(model))
        update(model)
    return answers


def tokens_of_all(mine: int) -> float:
    count = torch.tensor(float(mine))
    dist.all_reduce(count)
    return count.item()


def scaled(total: Tensor, mine: Sequence) -> Tensor:
    return total * dist.get_world_size() / tokens_of_all(len(mine.tokens))


def check_cases(sequences: list[Sequence], mesh: DeviceMesh) -> dict[str, dict[str, float]]:
    """The largest error of each parameter over the steps of each case."""
    mine = sequences[dist.get_rank()]
    answers = {}
    for layout, tied, loss, way in CASES:
        expected = one_process(decoder(tied=tied), sequences, loss)
        model = decoder(tied=tied)
        shard(model, layout, mesh)
        errors = []
        for step in range(STEPS):
            total = model(mine, loss) if way == "forward" else model.loss_of(mine, loss)
            scaled(total, mine).backward()
            errors.append(apart(gradients(model), expected[step]))
            update(model)
        answers[name_of(layout, tied, loss, way)] = {name: max(one[name] for one in errors) for name in errors[0]}
    return answers


def check_second_call(sequences: list[Sequence], mesh: DeviceMesh) -> dict[str, str | dict[str, float]]:
    """A call of a grouped head after one without gradients: what torch says, or the errors."""
    mine = sequences[dist.get_rank()]
    answers: dict[str, str | dict[str, float]] = {}
    for tied in (False, True):
        expected = one_process(decoder(tied=tied), sequences, "fresh_pairs")[0]
        model = decoder(tied=tied)
        shard(model, "grouped", mesh)
        try:
            scaled(model(mine, "fresh_pairs"), mine).backward()
            answers[f"tied={tied}"] = apart(gradients(model), expected)
        except RuntimeError as error:
            answers[f"tied={tied}"] = str(error)
    return answers


def check_mixed_precision(sequences: list[Sequence], mesh: DeviceMesh) -> dict[str, dict[str, dict[str, float]]]:
    """Parameters in bfloat16, gradients reduced in float32; one step, with routes that do not depend on rounding."""
    mine = sequences[dist.get_rank()]
    answers = {}
    for layout, loss in MIXED:
        whole = decoder()
        (sum(whole(one, loss) for one in sequences) / sum(LENGTHS)).backward()
        # What FSDP2 does, in one process: backward in bfloat16 for each rank, then the mean in float32.
        ranks = []
        for one in sequences:
            rounded = copy.deepcopy(decoder()).bfloat16()
            (rounded(one, loss) * len(sequences) / sum(LENGTHS)).backward()
            ranks.append(gradients(rounded))
        same = {name: sum(rank[name] for rank in ranks) / len(ranks) for name in ranks[0]}

        model = decoder()
        shard(model, layout, mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
        scaled(model(mine, loss), mine).backward()
        found = gradients(model)
        answers[f"{layout}-{loss}"] = {"same": apart(found, same), "float32": apart(found, gradients(whole))}
    return answers


def check_wrong_ways(sequences: list[Sequence], mesh: DeviceMesh) -> dict[str, Any]:
    """What reaching for the weight outside the head's forward says, and what it would do if nothing stopped it."""
    mine = sequences[dist.get_rank()]
    routes = mine.routes
    expected = one_process(decoder(), sequences, "pairs")[0]
    sentences: dict[str, str] = {}
    errors: dict[str, dict[str, float]] = {}
    for way in ("weight", "full_tensor", "bypassed"):
        model = decoder()
        shard(model, "own", mesh)

        def forward(way: str = way, model: Decoder = model) -> Tensor:
            hidden = model.hidden(mine.tokens)
            weight = model.lm_head.weight if way == "weight" else model.lm_head.weight.full_tensor()
            if way == "bypassed":
                odds = ops.pair_log_odds(hidden, weight, routes.source, routes.destination)
            else:
                odds = routeopd.pair_log_odds(hidden, weight, routes.source, routes.destination)
            return routeopd.route_loss(odds, routes).sum()

        model.forward = forward
        try:
            scaled(model(), mine).backward()
            errors[way] = apart(gradients(model), expected)
        except ValueError as error:
            sentences[way] = str(error)
    return {"sentences": sentences, "errors": errors}


def main(answer: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    sequences = [sequence(length, seed=20 + rank) for rank, length in enumerate(LENGTHS)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found: dict[str, Any] = {"cases": check_cases(sequences, mesh), "mixed": check_mixed_precision(sequences, mesh)}
    found["warnings"] = sorted({str(one.message) for one in warned if "FSDP" in str(one.message)})
    found["second"] = check_second_call(sequences, mesh)
    found["wrong"] = check_wrong_ways(sequences, mesh)
    if dist.get_rank() == 0:
        pathlib.Path(answer).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
