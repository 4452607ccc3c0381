# SPDX-License-Identifier: Apache-2.0
"""verl's FSDP engine with a head that computes the objective: FSDP and FSDP2, with and without padding.

Where the loss is not one of ours (log-probabilities of old and reference policies, other losses), it is verl's engine.

Shapes: B sequences, S tokens of the longest, L packed rows, N response states.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine import EngineRegistry
from verl.workers.engine.base import BaseEngine
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from .. import head_mode
from .._models import head_arguments_of, real_ids_of
from .head import IDS, VALUES, Tally, Work, compute
from .loss import MARK
from .objective import Objective
from .states import AT_STUDENT, only_answered, states_of, teacher_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

VENDOR = "routeopd"
_DEVICES = ["cuda", "npu", "cpu"]
_HOOKS = (
    "_build_module",
    "_build_lora_module",
    "prepare_model_inputs",
    "prepare_model_outputs",
    "forward_backward_batch",
)

for _hook in _HOOKS:
    if not hasattr(FSDPEngineWithLMHead, _hook):
        raise ImportError(f"verl's FSDPEngineWithLMHead has no {_hook}")


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device=_DEVICES, vendor=VENDOR)
class RouteEngine(FSDPEngineWithLMHead):
    """The engine for ``VERL_ENGINE_VENDOR=routeopd``."""

    def __init__(self, model_config: Any, engine_config: Any, *arguments: Any, **named: Any) -> None:
        refused = {
            "sequence parallelism (ulysses_sequence_parallel_size)": engine_config.ulysses_sequence_parallel_size > 1,
            "use_fused_kernels": model_config.use_fused_kernels,
            "quantisation-aware training (qat)": getattr(getattr(engine_config, "qat", None), "enable", False),
            "multi-token prediction (mtp)": getattr(getattr(model_config, "mtp", None), "enable", False),
            "a model with images": hasattr(model_config.hf_config, "vision_config"),
            "fp16": (engine_config.mixed_precision or {}).get("param_dtype") in ("fp16", "float16"),
        }
        for name, found in refused.items():
            if found:
                raise ValueError(f"routeopd.verl: {name} is not supported")
        super().__init__(model_config, engine_config, *arguments, **named)
        self._objective: Objective | None = None
        self._tally: Tally | None = None
        self._keeping = False
        self._between_updates = False

    # ---- the model --------------------------------------------------------------------------------------------------

    def _build_module(self) -> Any:
        module = super()._build_module()
        lm_head = module.get_output_embeddings()
        if lm_head is None or getattr(lm_head, "weight", None) is None:
            raise ValueError(f"routeopd.verl: {type(module).__name__} has no output embedding with a weight")
        tokenizer = getattr(self.model_config, "tokenizer", None)
        rows = lm_head.weight.shape[0]
        self._real_ids = real_ids_of(tokenizer, rows) if tokenizer else rows
        arguments = head_arguments_of(module.config, self._real_ids)
        plain = module.forward

        @functools.wraps(plain)
        def forward(*given: Any, routeopd: Work | None = None, **named: Any) -> Any:
            if routeopd is None:
                return plain(*given, **named)
            hidden = module.get_decoder()(*given, **named).last_hidden_state
            hidden = hidden.flatten(0, 1).index_select(0, routeopd.rows)
            lm_head = module.get_output_embeddings()
            with head_mode(lm_head, **arguments):
                return lm_head(hidden, compute, routeopd)  # a dict: hooks of FSDP2 see no other objects

        module.forward = forward
        return module

    def _build_lora_module(self, module: Any) -> Any:
        module = super()._build_lora_module(module)
        lm_head = module.get_output_embeddings()
        if hasattr(lm_head, "base_layer"):
            raise ValueError("routeopd.verl: LoRA on the head is not supported; leave lm_head out of target_modules")
        return module

    # ---- a batch ----------------------------------------------------------------------------------------------------

    def forward_backward_batch(
        self, data: Any, loss_function: Callable[..., Any] | None, forward_only: bool = False
    ) -> Any:
        """One optimizer batch, in micro-batches. Routes and means do not depend on how it is cut."""
        objective = Objective.of(loss_function)
        if objective is None:
            return super().forward_backward_batch(data, loss_function, forward_only=forward_only)
        self._check_update(data, forward_only)
        data, unanswered = only_answered(data, objective)
        pair = (int(data["loss_mask"].sum()), unanswered)
        counts = torch.tensor(pair, dtype=torch.float64, device=get_device_id())
        if not self._sum(counts)[0]:
            raise ValueError("response_mask: no state of the batch counts, or the teacher answered at none")
        with self._at_work(objective):
            outputs = super().forward_backward_batch(data, loss_function, forward_only=forward_only)
            assert self._tally is not None
            self._tally.sums = self._sum(self._tally.sums)
            found = self._tally.metrics()
        found["unanswered"] = float(counts[1])
        for name, value in found.items():
            outputs["metrics"][f"distillation/{name}"] = Metric(AggregationType.MEAN, value)
        return outputs

    def keep(self, data: Any, loss_function: Callable[..., Any]) -> Any:
        """The batch with the student's values beside it, by a pass without gradients, before its first update."""
        objective = Objective.of(loss_function)
        if objective is None:
            return data
        answered, _ = only_answered(data, objective)
        with self._at_work(objective, keeping=True), torch.no_grad():
            kept = super().forward_backward_batch(answered.copy(), None, forward_only=True)["model_output"]
        data = data.copy()
        for name in (IDS, VALUES):
            data[name] = kept[name].to(data["input_ids"].device)
        return data

    def _at_work(self, objective: Objective, keeping: bool = False) -> Any:
        return _AtWork(self, objective, keeping)

    def _sum(self, values: Tensor) -> Tensor:
        torch.distributed.all_reduce(values, group=self.get_data_parallel_group())
        return values

    def _check_update(self, data: Any, forward_only: bool) -> None:
        """Updates after a rollout's first need values from before it. verl marks the last update of each."""
        last = tu.get_non_tensor_data(data, key="update_lr_scheduler", default=None)
        if forward_only or last is None:
            return
        if self._between_updates and IDS not in data.keys():  # noqa: SIM118
            raise ValueError(
                "several updates of one rollout need routeopd.verl.RouteWorker, which keeps the student's values from "
                "before the first"
            )
        self._between_updates = not last

    # ---- a micro-batch ----------------------------------------------------------------------------------------------

    def prepare_model_inputs(self, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """verl's inputs, with the work of the head beside them."""
        inputs, arguments = super().prepare_model_inputs(micro_batch)
        objective = self._objective
        if objective is None:
            return inputs, arguments
        if tu.get_non_tensor_data(micro_batch, key="calculate_entropy", default=False):
            raise ValueError("routeopd.verl: actor.calculate_entropy and entropy_coeff are not supported")
        states = states_of(micro_batch, self._steps(micro_batch))
        rows = states.rows
        if inputs["attention_mask"] is not None:  # [B, S] in place of packed rows
            offsets = micro_batch["input_ids"].offsets().long()
            sequence = torch.searchsorted(offsets, rows, right=True) - 1
            rows = sequence * inputs["input_ids"].shape[1] + rows - offsets[sequence]
        work = Work(objective, states, rows)
        work.keep = self._keeping
        if objective.sampled:
            work.teacher_taken = self._teacher_at_taken(micro_batch, work)
        else:
            work.teacher = teacher_of(micro_batch, states, objective, self._real_ids)
        if AT_STUDENT in micro_batch.keys():  # noqa: SIM118
            work.at_student = micro_batch[AT_STUDENT].values()[states.rows]
        if IDS in micro_batch.keys():  # noqa: SIM118
            work.kept = (micro_batch[IDS].values()[states.rows], micro_batch[VALUES].values()[states.rows])
        if objective.task_rewards and not self._keeping:
            work.temperature = _one_temperature(micro_batch["temperature"])
        inputs["routeopd"] = arguments["routeopd"] = work
        return inputs, arguments

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> Any:
        """Losses at the packed rows of their states, 0 elsewhere; verl's own outputs where the loss is not ours."""
        work = output_args.get("routeopd")
        if work is None:
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        offsets = micro_batch["input_ids"].offsets()

        def packed(values: Tensor) -> Tensor:
            rows = values.new_zeros((int(offsets[-1]), *values.shape[1:])).index_copy(0, work.states.rows, values)
            return torch.nested.nested_tensor_from_jagged(rows, offsets)

        if work.keep:
            return {name: packed(output[name]) for name in (IDS, VALUES)}
        assert self._tally is not None
        self._tally.add(work)
        losses = packed(output["losses"])
        found = {"distillation_losses": losses, MARK: losses.detach()}
        if "log_probs" in output:
            found["log_probs"] = packed(output["log_probs"])
        return found

    def _steps(self, data: Any) -> Tensor:
        """Of the run, [B]: as the batch says, else those of the learning rate's schedule, which checkpoints keep."""
        step = tu.get_non_tensor_data(data, key="global_steps", default=None)
        if step is None:
            step = 0 if self.lr_scheduler is None else self.lr_scheduler.last_epoch
        steps = torch.as_tensor(step.tolist() if hasattr(step, "tolist") else step, device=data["input_ids"].device)
        return steps.long().expand(data.shape[0])

    def _teacher_at_taken(self, data: Any, work: Work) -> Tensor:
        ids = data["teacher_ids"].values()[work.states.rows, 0]
        if bool((ids != work.states.taken).any()):
            raise ValueError(
                "teacher_ids: expected the tokens of the response, so that the teacher's values are theirs"
            )
        values: Tensor = data["teacher_logprobs"].values()[work.states.rows, 0]
        return values.float()


class _AtWork:
    """While it is entered, an engine computes an objective."""

    def __init__(self, engine: RouteEngine, objective: Objective, keeping: bool) -> None:
        self._engine, self._objective, self._keeping = engine, objective, keeping

    def __enter__(self) -> None:
        engine = self._engine
        engine._objective, engine._keeping, engine._tally = self._objective, self._keeping, Tally(get_device_id())

    def __exit__(self, *_: object) -> None:
        self._engine._objective, self._engine._keeping = None, False


def _one_temperature(temperature: Any) -> float:
    values = temperature.unique().tolist() if isinstance(temperature, torch.Tensor) else [float(temperature)]
    if len(values) != 1:
        raise ValueError(f"temperature: expected one for the batch with use_task_rewards, got {len(values)}")
    return float(values[0])


class _Refused(BaseEngine):
    """What verl builds for another backend under our vendor: a sentence."""

    def __init__(self, *_: Any, engine_config: Any = None, **_named: Any) -> None:
        name = getattr(engine_config, "strategy", "this backend")
        raise ValueError(f"routeopd.verl: backend {name} is not supported; use fsdp or fsdp2")


EngineRegistry.register(
    model_type="language_model",
    backend=["megatron", "veomni", "torchtitan", "automodel", "mindspeed"],
    device=_DEVICES,
    vendor=VENDOR,
)(_Refused)
