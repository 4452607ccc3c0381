# SPDX-License-Identifier: Apache-2.0
"""verl's training worker, which here checks the objective before anything runs and keeps the old policy's values.

verl's actor makes its worker from the class attribute ``actor_worker_cls``, which this module sets. With another loss
it does what verl's does.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from .. import compatible
from .engine import RouteEngine
from .objective import Objective

_log = logging.getLogger(__name__)
# Checks that say what an id means. verl renders prompts with the student's tokenizer alone: other differences are told.
_OF_IDS = frozenset({"vocabulary", "added_tokens", "pipeline", "widths"})


class RouteWorker(TrainingWorker):
    """The actor's worker."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_loss_fn(self, loss_fn: Any) -> None:
        """Takes the loss; refuses what cannot run while no step has been spent."""
        objective = Objective.of(loss_fn)
        if objective is not None:
            if not isinstance(self.engine, RouteEngine):
                raise ValueError(
                    f"routeopd.verl: {type(self.engine).__name__} is verl's own engine; set "
                    f"VERL_ENGINE_VENDOR=routeopd in every process"
                )
            _check_ranks(objective)
            for teacher in (getattr(loss_fn.keywords["distillation_config"], "teacher_models", None) or {}).values():
                _check_teacher(self.model_config, teacher.model_path)
        super().set_loss_fn(loss_fn)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def train_mini_batch(self, data: Any) -> Any:
        """verl's updates of one rollout; where there are several, the student's values are kept before the first."""
        size, parts = (tu.get_non_tensor_data(data, key, None) for key in ("mini_batch_size", "num_mini_batch"))
        updates = parts or data.shape[0] * self.engine.get_data_parallel_size() // size
        updates *= tu.get_non_tensor_data(data, "epochs", 1)
        if updates > 1 and Objective.of(self.loss_fn) is not None:
            data = self._with_old_values(data)
        return super().train_mini_batch(data)

    def _with_old_values(self, data: Any) -> Any:
        config = self.engine_config
        given = data.copy()
        sizes = {
            "use_remove_padding": self.model_config.get("use_remove_padding", False),
            "use_dynamic_bsz": config.use_dynamic_bsz,
            "max_token_len_per_gpu": config.infer_max_token_len_per_gpu,
            "micro_batch_size_per_gpu": config.infer_micro_batch_size_per_gpu,
            "use_fused_kernels": config.use_fused_kernels,
        }
        for key, value in sizes.items():
            if key not in given.keys():  # noqa: SIM118  (a TensorDict)
                tu.assign_non_tensor(given, **{key: value})
        with self.engine.eval_mode():
            kept = self.engine.keep(given, self.loss_fn)
        data = data.copy()
        for name in kept.keys():  # noqa: SIM118
            if name not in given.keys():  # noqa: SIM118
                data[name] = kept[name]
        return data


def _check_ranks(objective: Objective) -> None:
    if not torch.distributed.is_initialized():
        return
    found: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, objective.as_json())
    for rank, other in enumerate(found):
        if other != found[0]:
            raise ValueError(f"ROUTEOPD_OPTIONS: rank {rank} has {other}, rank 0 {found[0]}; set it in every process")


def _check_teacher(student: Any, path: str) -> None:
    """Whether the teacher's ids are the student's."""
    from transformers import AutoConfig, AutoTokenizer

    trust = bool(getattr(student, "trust_remote_code", False))
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust)
        config = AutoConfig.from_pretrained(path, trust_remote_code=trust)
    except (OSError, ValueError) as error:
        raise ValueError(f"teacher {path}: its tokenizer cannot be read ({str(error).splitlines()[0]})") from None
    found = compatible(student.tokenizer, tokenizer, student_model=student.hf_config, teacher_model=config)
    for check in found.checks:
        if check.passed:
            continue
        if check.name in _OF_IDS:
            raise ValueError(f"teacher {path}: the pair is not compatible: {check.name}: {check.detail}")
        _log.warning("teacher %s: %s: %s", path, check.name, check.detail)


ActorRolloutRefWorker.actor_worker_cls = RouteWorker
