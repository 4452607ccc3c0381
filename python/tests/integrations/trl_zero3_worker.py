# SPDX-License-Identifier: Apache-2.0
"""Run by test_trl_zero3.py on two ranks: parameters after a step of TRL's loop under ZeRO-3, written to a folder."""

import pathlib
import sys

import deepspeed
import torch
import torch.distributed as dist
from trl_cases import ZERO3_CASES as CASES
from trl_cases import Case, model

torch.set_num_threads(1)
folder = pathlib.Path(sys.argv[1])
CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": 0.0,
    "zero_optimization": {
        "stage": 3,
        "stage3_param_persistence_threshold": 0,  # all parameters are sharded, however small
        "stage3_max_live_parameters": 0,
        "stage3_prefetch_bucket_size": 0,
    },
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}

for arm, tied in CASES:
    student = model("Qwen3", 0, tie_word_embeddings=tied)
    teacher = model("Llama", 1, hidden=48, rows=520)
    case = Case(student, teacher, arm=arm, micro=2, accumulation=2, deepspeed=CONFIG).train()
    trained = case.trainer.accelerator.unwrap_model(case.trainer.model_wrapped)
    for each in (trained, case.trainer.teacher_model):
        assert all(p.numel() == 0 for p in each.parameters()), "not everything is sharded"
    values = {}
    for name, parameter in trained.named_parameters():
        with deepspeed.zero.GatheredParameters([parameter]):
            values[name] = parameter.detach().clone()
    if dist.get_rank() == 0:
        torch.save({"loss": case.losses[0], "values": values}, folder / f"{arm}-{tied}.pt")
dist.barrier()
dist.destroy_process_group()
