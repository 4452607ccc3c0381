# SPDX-License-Identifier: Apache-2.0
"""One of two ranks: gradients under DeepSpeed's ZeRO-3 against those of one process, for ``test_zero3``.

    DS_ACCELERATOR=cpu RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=… \\
        python zero3_worker.py answer.json

As ``fsdp2_worker``: unequal sequences, the tokens of both ranks as denominator, and ZeRO-3 averages over the ranks too.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import deepspeed
import tiny_decoder
import torch
import torch.distributed as dist
from deepspeed.utils import safe_get_full_grad
from tiny_decoder import Decoder, Sequence, decoder, sequence
from torch import Tensor

import routeopd

LENGTHS = (9, 5)
STEPS = 2
RATE = 0.1
CASES = [(tied, loss) for tied in (False, True) for loss in tiny_decoder.LOSSES]
CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 1,
    "gradient_clipping": 0.0,  # else the updates differ: the default is a norm of 1
    "zero_optimization": {
        "stage": 3,
        "stage3_param_persistence_threshold": 0,  # all parameters are sharded, however small
        "stage3_max_live_parameters": 0,
        "stage3_prefetch_bucket_size": 0,
    },
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}


def name_of(tied: bool, loss: str) -> str:
    return f"{'tied' if tied else 'untied'}-{loss}"


def one_process(model: Decoder, sequences: list[Sequence], loss: str) -> list[dict[str, Tensor]]:
    """Gradients of each step, all sequences in this process."""
    answers = []
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (sum(model(one, loss) for one in sequences) / sum(LENGTHS)).backward()
        answers.append({name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None})
        optimizer.step()
    return answers


def engine_of(model: Decoder) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG, dist_init_required=False)
    return engine


def apart(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    assert found.keys() == expected.keys(), set(found) ^ set(expected)
    return {name: ((found[name] - expected[name]).norm() / expected[name].norm()).item() for name in expected}


def tokens_of_all(mine: int) -> float:
    count = torch.tensor(float(mine))
    dist.all_reduce(count)
    return count.item()


def check(
    tied: bool, loss: str, sequences: list[Sequence], *, steps: int = STEPS, own: bool = False
) -> dict[str, float]:
    """The largest error of each parameter over the steps. ``own``: wrongly with the tokens of this rank alone."""
    mine = sequences[dist.get_rank()]
    expected = one_process(decoder(tied=tied), sequences, loss)
    engine = engine_of(decoder(tied=tied))
    assert all(parameter.numel() == 0 for parameter in engine.module.parameters()), "not everything is sharded"
    errors = []
    for step in range(steps):
        share = 1 / len(mine.tokens) if own else dist.get_world_size() / tokens_of_all(len(mine.tokens))
        engine.backward(engine(mine, loss) * share)
        grads = {name: safe_get_full_grad(one) for name, one in engine.module.named_parameters()}
        errors.append(apart(grads, expected[step]))
        engine.step()
    engine.destroy()
    return {name: max(one[name] for one in errors) for name in errors[0]}


def check_outside(sequences: list[Sequence]) -> str:
    """What the functions say of a weight that is not whole."""
    mine = sequences[dist.get_rank()]
    engine = engine_of(decoder())
    try:
        routeopd.pair_log_odds(
            torch.zeros(len(mine.tokens), tiny_decoder.HIDDEN),
            engine.module.lm_head.weight,
            mine.routes.source,
            mine.routes.destination,
        )
    except ValueError as error:
        return str(error)
    finally:
        engine.destroy()
    return ""


def main(answer: str) -> None:
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    sequences = [sequence(length, seed=20 + rank) for rank, length in enumerate(LENGTHS)]
    found = {
        "cases": {name_of(tied, loss): check(tied, loss, sequences) for tied, loss in CASES},
        "own_denominator": check(False, "pairs", sequences, steps=1, own=True),
        "outside": check_outside(sequences),
    }
    if dist.get_rank() == 0:
        pathlib.Path(answer).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
