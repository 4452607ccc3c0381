# SPDX-License-Identifier: Apache-2.0
"""Run by test_trl.py on two ranks: gradients of one optimizer step by TRL's DDP, and under FSDP2, written to a folder.

accelerate has no FSDP on the CPU, so `fully_shard` is applied here and TRL's loop is left for its methods.
"""

import copy
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from trl_cases import Case, model

torch.set_num_threads(1)
folder = pathlib.Path(sys.argv[1])


def shard(made, mesh, layout):
    for layer in made.model.layers:
        fully_shard(layer, mesh=mesh)
    if layout == "fsdp2-own":
        fully_shard(made.lm_head, mesh=mesh)
    if layout == "fsdp2-group":
        fully_shard([made.model.norm, made.lm_head], mesh=mesh)
    fully_shard(made, mesh=mesh)


def under_fsdp2(layout, arm):
    student = model("Qwen3", 0, tie_word_embeddings=layout == "fsdp2-tied")
    case = Case(student, model("Llama", 1, hidden=48, rows=520), arm=arm, micro=2, accumulation=2)
    trainer = case.trainer
    mesh = init_device_mesh("cpu", (2,))
    shard(trainer.model, mesh, layout)
    shard(trainer.teacher_model, mesh, layout)
    trainer.model.train()
    # TRL's sampler gives rank r the r-th part of a generation batch.
    rank = dist.get_rank()
    rows = [{"prompt": str(i)} for i in range(4 * rank, 4 * rank + 4)]
    total = 0.0
    for step in range(2):
        trainer._step = step
        inputs = trainer._prepare_inputs(rows)
        loss = trainer.compute_loss(trainer.model, inputs)
        trainer.model.set_requires_gradient_sync(step == 1)
        loss.backward()
        total += loss.detach() / 2  # the mean over ranks, as DDP's
    total = torch.as_tensor(total)
    dist.all_reduce(total)
    gradients = {name: p.grad.full_tensor() for name, p in trainer.model.named_parameters() if p.grad is not None}
    return {"loss": float(total), "gradients": gradients}


def under_ddp(arm, silent):
    student, teacher = model("Qwen3", 0), model("Llama", 1, hidden=48, rows=520)
    case = Case(student, teacher, arm=arm, micro=2, accumulation=2, silent=silent).train()
    logged = case.trainer.state.log_history[0]
    found = {"loss": case.losses[0], "gradients": copy.deepcopy(case.gradients[0])}
    return found | ({"mass": logged["mass"]} if "mass" in logged else {})


for arm in ("routeopd", "sampled_rkl", "union_rkl", "full_rkl"):
    for layout in ("ddp", "ddp-silent", "fsdp2-root", "fsdp2-own", "fsdp2-group", "fsdp2-tied"):
        if layout.startswith("ddp"):
            found = under_ddp(arm, range(4 if layout == "ddp-silent" else 0))
        else:
            found = under_fsdp2(layout, arm)
        if dist.get_rank() == 0:
            torch.save(found, folder / f"{layout}-{arm}.pt")
dist.barrier()
dist.destroy_process_group()
