# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped,misc,valid-type"
"""TRL's DistillationTrainer with RouteOPD's objective: generation, data, ranks and logs stay as they are.

The teacher reads a generation batch once. At the first update of a batch the student's top-k is taken from the hidden
states of the training forward itself, so that no second pass of the student is paid and routes are made there; later
updates keep them. All products with a head run inside that head's own forward (``routeopd.head_mode``), within the
forward of its model, where a sharded weight is whole.

Shapes: B rows of a batch, C columns of its completions, N states of a micro-batch that count.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import torch
from accelerate.logging import get_logger
from datasets import IterableDataset

from .._models import head_arguments_of, real_ids_of
from ..sharded import HeadMode, head_mode
from . import hooks
from .batch import OWN, TeacherAt, addresses
from .config import RouteOPDConfig
from .metrics import Sums
from .objective import Objective, Result
from .pairing import check_pair, rows_of, teacher_tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor
    from trl import DistillationTrainer
    from typing_extensions import Unpack

    from .._head import HeadArguments
else:
    _, DistillationTrainer = hooks.base_classes()

__all__ = ["RouteOPDTrainer"]

_log = get_logger(__name__)


class RouteOPDTrainer(DistillationTrainer):
    """``DistillationTrainer`` with the arms of RouteOPD: the same constructor, and the same data.

    ``teacher_processing_class``: the teacher's tokenizer, where it does not lie beside its weights. It is compared with
    the student's before anything is generated (``routeopd.compatible``). The teacher's head may have more or fewer
    padded rows than the student's, and its hidden size may be another.
    """

    _tag_names = ("trl", "distillation", "routeopd")
    _name = "RouteOPD"
    _paper: dict[str, str] = {}  # noqa: RUF012

    def __init__(
        self,
        model: Any,
        teacher_model: Any = None,
        args: RouteOPDConfig | None = None,
        train_dataset: Any = None,
        *rest: Any,
        teacher_processing_class: Any = None,
        **named: Any,
    ) -> None:
        if args is None:
            name = model if isinstance(model, str) else hooks.get_config_model_id(model.config)
            args = RouteOPDConfig(f"{name.split('/')[-1]}-RouteOPD")
        if not isinstance(args, RouteOPDConfig):
            raise ValueError(f"args: expected a RouteOPDConfig, got {type(args).__name__}")
        teacher_model = args.teacher_model_name_or_path if teacher_model is None else teacher_model
        if teacher_model is None:
            raise ValueError("teacher_model: expected a model or its name, got None")
        if args.num_iterations > 1 and isinstance(train_dataset, IterableDataset):
            raise ValueError("num_iterations: more than 1 needs a dataset with a length, and this one is a stream")
        # TRL is not told of the teacher: it refuses heads that differ in their padding alone.
        super().__init__(model, None, args, train_dataset, *rest, **named)
        hooks.check_instance(self)
        if self._is_vlm:
            raise ValueError("processing_class: images are not supported; expected a tokenizer, got a processor")
        self._take_teacher(teacher_model, teacher_processing_class)
        self._own: dict[str, Any] = {}  # of the micro-batch at hand
        self._result: Result | None = None
        self._sums = {"train": Sums(), "eval": Sums()}
        self._eval_rows = 0
        self._said_empty = False

    def _take_teacher(self, teacher: Any, tokenizer: Any) -> None:
        """Loads the teacher as TRL does, holds it against the student, and hands it to the engine."""
        args, settings = self.args, dict(self.args.teacher_model_init_kwargs or {})
        name = teacher if isinstance(teacher, str) else hooks.get_config_model_id(teacher.config)
        if tokenizer is None:
            tokenizer = teacher_tokenizer(name, args.trust_remote_code, args.teacher_model_revision)
        if isinstance(teacher, str):
            if args.teacher_model_revision is not None:
                settings.setdefault("revision", args.teacher_model_revision)
            if args.distributed_state.distributed_type in ("MULTI_GPU", "DEEPSPEED"):
                settings["device_map"] = None
            settings.setdefault("trust_remote_code", args.trust_remote_code)
            teacher = hooks.create_model_from_path(teacher, **settings)
        elif settings:
            raise ValueError("teacher_model_init_kwargs: the teacher is a model already, expected its name")
        student = self.accelerator.unwrap_model(self.model)
        check_pair(self._tokenizer, student, tokenizer, teacher)
        real_ids = real_ids_of(self._tokenizer, rows_of(student), rows_of(teacher))
        self.objective = Objective(
            args.objective(), seed=args.objective_seed, real_ids=real_ids, diagnostics=args.diagnostics
        )
        if self.is_deepspeed_enabled:
            self.teacher_model = hooks.prepare_deepspeed(teacher, self.accelerator)
        else:
            self.teacher_model = self.accelerator.prepare_model(teacher, evaluation_mode=True)

    # ---- once per generation batch ----------------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        rows, ranks = batch["completion_ids"].shape[0], self.accelerator.num_processes
        first = self.accelerator.process_index * rows
        if self.model.training:
            self._eval_rows = 0
        else:
            first += self._eval_rows
            self._eval_rows += rows * ranks
        batch[OWN + "address"] = addresses(batch["completion_ids"], self.state.global_step, first)
        mode = "train" if self.model.training else "eval"
        tokens = self.accelerator.gather(batch["completion_mask"].sum()).sum()
        self._metrics[mode]["tokens"].append(float(tokens))
        if not self._said_empty and int(batch["num_items_in_batch"]) == 0:
            self._said_empty = True
            _log.warning("routeopd: no token of this batch counts, since its masks are zero; the loss is 0 there")
        return self.score(batch)

    @torch.no_grad()
    def score(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch with what is kept of the teacher, a micro-batch of rows at a time."""
        self.teacher_model.eval()
        teacher = self.accelerator.unwrap_model(self.teacher_model)
        found: list[dict[str, Tensor]] = []
        size = self.args.per_device_train_batch_size
        with self.compute_loss_context_manager():
            for first in range(0, batch["completion_ids"].shape[0], size):
                part = {
                    name: value[first : first + size]
                    for name, value in batch.items()
                    if name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
                }
                found.append(self._forward_redirection(self.teacher_model, teacher, self._read, teacher, part))
        return batch | {OWN + name: torch.cat([part[name] for part in found]) for name in found[0]}

    def _read(self, teacher: Any, part: dict[str, Tensor]) -> dict[str, Tensor]:
        """In the teacher's forward: what is kept of it at every column of these completions."""
        hidden = self._states(teacher, part)
        with self._head(teacher) as head:
            return self.objective.of_teacher(head, hidden, part["completion_ids"].to(hidden.device))

    def _states(self, model: Any, part: dict[str, Tensor]) -> Tensor:
        ids = torch.cat([part["prompt_ids"], part["completion_ids"]], 1)
        mask = torch.cat([part["prompt_mask"], part["completion_mask"]], 1)
        hidden: Tensor = self._get_last_hidden_state(model, ids, mask, part["completion_ids"].shape[1])
        return hidden.to(model.get_output_embeddings().weight.device)  # of a model spread over devices

    @contextlib.contextmanager
    def _head(self, model: Any) -> Iterator[HeadMode]:
        arguments = head_arguments_of(model.config, self.objective.real_ids)
        with head_mode(model.get_output_embeddings(), **arguments) as head:
            yield head

    # ---- every update -----------------------------------------------------------------------------------------------

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        steps = self.args.gradient_accumulation_steps
        again = self._step // steps % self.args.num_iterations > 0
        if again and self.model.training and self._buffered_inputs is not None:
            return self._buffered_inputs[self._step % steps]
        return super()._prepare_inputs(generation_batch)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        sampler = super()._get_train_sampler(dataset)
        sampler.repeat_count *= self.args.num_iterations
        return sampler

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """TRL's, with what is ours kept beside it: wrappers of a model copy their inputs, and may round them."""
        self._own = {name.removeprefix(OWN): value for name, value in inputs.items() if name.startswith(OWN)}
        plain = {name: value for name, value in inputs.items() if not name.startswith(OWN)}
        answer = super().compute_loss(model, plain, return_outputs, num_items_in_batch)
        result, self._result = self._result, None
        mode = "train" if self.model.training else "eval"
        if result is None:
            raise RuntimeError("routeopd: TRL did not call _compute_loss")
        if result.entropy is None and self._metrics[mode]["entropy"]:
            self._metrics[mode]["entropy"].pop()  # it is not known here
        if not self._metrics[mode]["entropy"]:
            del self._metrics[mode]["entropy"]
        if self._own.get("before") is None:
            self._sums[mode].add(result)
            if self.model.training and self.args.num_iterations > 1:
                inputs[OWN + "before"] = result.kept()
            if self.model.training and not self.objective.keeps_hidden:
                inputs.pop(OWN + "hidden", None)  # the routes are made
        self._own = {}
        return answer

    def _compute_loss(self, unwrapped_student: Any, inputs: Any, num_items_in_batch: Any) -> tuple[Tensor, ...]:
        hidden = self._states(unwrapped_student, inputs)
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        states = mask.to(hidden.device).bool()
        teacher = TeacherAt(self, states)
        with self._head(unwrapped_student) as head:
            self._result = self.objective.at(
                head,
                hidden[states],
                teacher,
                taken=inputs["completion_ids"].to(hidden.device)[states],
                address=self._own["address"].to(hidden.device)[states],
                before=self._own.get("before"),
            )
        count = states.sum()
        denominator = count.clamp(min=1) if num_items_in_batch is None else num_items_in_batch
        entropy = self._result.entropy
        entropy = count.new_full((), math.nan, dtype=torch.float32) if entropy is None else entropy
        return self._result.loss.sum() / denominator, entropy, count

    def _gather(self, teacher: Any, hidden: Tensor, ids: Tensor) -> Tensor:
        with self._head(teacher) as head:
            return head.gather_logits(hidden, ids)

    def _whole_head(self, teacher: Any, like: Tensor, sharded: bool) -> tuple[Tensor, HeadArguments]:
        """In the teacher's forward: its head, copied where it is whole for the time of a forward alone."""
        whole: list[tuple[Tensor, HeadArguments]] = []

        def take(hidden: Tensor, weight: Tensor, **arguments: Unpack[HeadArguments]) -> Tensor:
            bias = arguments.get("bias")
            if bias is not None:
                arguments["bias"] = bias.detach().clone()
            whole.append((weight.detach().clone() if sharded else weight.detach(), arguments))
            return hidden

        with self._head(teacher) as head:
            head.call(take, like[:0])
        return whole[0]

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's, with the means of ``metrics.jsonl`` over the states of all ranks since the last line."""
        sums = self._sums["train" if self.model.training else "eval"]
        total = sums.take()
        if total is not None:
            prefix = "" if self.model.training else "eval_"
            means = sums.means(self.accelerator.reduce(total, reduction="sum"))
            logs.update({prefix + name: value for name, value in means.items()})
        super().log(logs, start_time)
