# SPDX-License-Identifier: Apache-2.0
"""The laboratory pair for tests of verl: a rollout as verl's agents hand it over, engines, and the objective in plain
PyTorch on logits of the whole vocabulary.

Shapes: B sequences, P tokens of a prompt, R of a response, V rows of the head, J values of the teacher per state.
"""

from __future__ import annotations

import functools
import os
import pathlib
import types

os.environ.setdefault("VERL_PLATFORM", "cpu")
os.environ.setdefault("VERL_ENGINE_VENDOR", "routeopd")
# verl loads it before the plug-ins of installed packages, of which ours asks for the platform.
os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "verl_cpu")

import torch
import transformers
import verl  # noqa: F401
import verl_cpu  # noqa: F401
from verl import DataProto
from verl.trainer.config import CheckpointConfig
from verl.trainer.distillation import distillation_ppo_loss
from verl.utils import tensordict_utils as tu
from verl.utils.model import compute_position_id_with_mask
from verl.workers.config import (
    ActorConfig,
    DistillationLossConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
)
from verl.workers.engine import EngineRegistry
from verl.workers.utils.padding import left_right_2_no_padding

import routeopd.verl  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[3]
STUDENT, TEACHER = str(ROOT / "lab/base"), str(ROOT / "lab/teacher")
VOCABULARY = 493
FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}


def model(path):
    return transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()


def rollout(B=8, P=20, R=14, seed=0, pad=0):
    """Left-padded prompts, right-padded responses: ids of random words, which both models have something to say of."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY - 1, (B, P + R), generator=generator)
    mask = torch.ones_like(ids)
    for b in range(B):
        mask[b, : int(torch.randint(0, P - 2, (), generator=generator))] = 0
        mask[b, P + int(torch.randint(3, R + 1, (), generator=generator)) :] = 0
    ids = ids.where(mask.bool(), pad)
    response_mask = mask[:, P:].clone()
    response_mask[0, 1:3] = 0  # what a tool said
    return ids, mask, response_mask


@torch.no_grad()
def scored(teacher, ids, mask, J):
    """What a teacher's server answers: the J best of every row, or the token taken where J is 0."""
    positions = compute_position_id_with_mask(mask)
    logits = teacher(input_ids=ids, attention_mask=mask, position_ids=positions).logits.float()
    values = logits.log_softmax(-1)
    if J == 0:
        taken = ids.roll(-1, 1)[..., None]
        return taken, values.gather(-1, taken)
    values, top = values.sort(dim=-1, descending=True, stable=True)
    return top[..., :J], values[..., :J]


def batch(ids, mask, response_mask, teacher_ids, teacher_values, P, temperature=1.0, **fields):
    """As verl's trainer hands a batch to its actor."""
    tensors = {
        "input_ids": ids, "prompts": ids[:, :P], "attention_mask": mask, "responses": ids[:, P:],
        "position_ids": compute_position_id_with_mask(mask), "response_mask": response_mask,
        "teacher_ids": teacher_ids.int(), "teacher_logprobs": teacher_values,
    }  # fmt: skip
    meta = {"temperature": temperature, "global_token_num": mask.sum(-1).tolist()}
    data = left_right_2_no_padding(DataProto.from_single_dict(tensors, meta_info=meta).to_tensordict())
    for name, value in fields.items():
        data[name] = value
    return data


def ready(data, micro=4, dynamic=False, tokens=200, remove_padding=False, topk=True, **more):
    """What verl's worker adds for its engine."""
    data = data.copy()
    tu.assign_non_tensor(
        data, global_batch_size=data.shape[0], mini_batch_size=data.shape[0], distillation_use_topk=topk,
        distillation_only=topk, use_remove_padding=remove_padding, use_dynamic_bsz=dynamic,
        max_token_len_per_gpu=tokens, micro_batch_size_per_gpu=micro, use_fused_kernels=False, **more,
    )  # fmt: skip
    return data


def loss_of(mode, J=VOCABULARY, agg="token-mean", **settings):
    """verl's loss function of an actor."""
    settings = {"use_task_rewards": False, "use_policy_gradient": False, "loss_max_clamp": None} | settings
    actor = ActorConfig(strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=2, loss_agg_mode=agg)
    loss = DistillationLossConfig(loss_mode=mode, topk=J, log_prob_min_clamp=None, **settings)
    return functools.partial(
        distillation_ppo_loss, config=actor, distillation_config=types.SimpleNamespace(distillation_loss=loss)
    )


def configs(
    path=STUDENT,
    strategy="fsdp2",
    remove_padding=False,
    checkpointing=False,
    lr=1e-3,
    size=1,
    micro=4,
    dtype="fp32",
    **more,
):
    return {
        "model_config": HFModelConfig(
            path=path, use_remove_padding=remove_padding, override_config={"attn_implementation": "sdpa"},
            enable_gradient_checkpointing=checkpointing, **more.pop("model", {}),
        ),
        "engine_config": FSDPEngineConfig(
            forward_only=False, fsdp_size=size, strategy=strategy, param_offload=False, optimizer_offload=False,
            use_dynamic_bsz=False, use_remove_padding=remove_padding, micro_batch_size_per_gpu=micro,
            infer_micro_batch_size_per_gpu=micro, max_token_len_per_gpu=500, infer_max_token_len_per_gpu=1000,
            use_torch_compile=False, mixed_precision=FP32 | {"param_dtype": dtype}, **more,
        ),
        "optimizer_config": FSDPOptimizerConfig(lr=lr, total_training_steps=10, clip_grad=1e9),
        "checkpoint_config": CheckpointConfig(),
    }  # fmt: skip


def engine_of(**settings):
    """An engine in this process, one rank."""
    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    made = configs(**settings)
    engine = EngineRegistry.new(model_type="language_model", backend=made["engine_config"].strategy, **made)
    engine.initialize()
    return engine


def gradients(engine):
    """Of every parameter, whole."""
    full = lambda tensor: tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return {name: full(p.grad).clone() for name, p in engine.module.named_parameters() if p.grad is not None}


def one_batch(engine, data, loss):
    """Loss, gradients and metrics of a batch, without an update."""
    with engine.train_mode():
        engine.optimizer_zero_grad()
        found = engine.forward_backward_batch(data, loss)
        grads = gradients(engine)
    metrics = {name: value.aggregate() for name, value in found["metrics"].items() if hasattr(value, "aggregate")}
    return sum(found["loss"]), grads, metrics
