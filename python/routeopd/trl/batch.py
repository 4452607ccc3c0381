# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped"
"""What the plug-in adds to a batch of TRL's: addresses of its states, and the teacher there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import DistributedType

if TYPE_CHECKING:
    from torch import Tensor

    from .._head import HeadArguments

__all__ = ["OWN", "TeacherAt", "addresses"]

OWN = "routeopd_"
"""How the names of what is ours in a batch begin."""

_SHARDED = (DistributedType.FSDP, DistributedType.DEEPSPEED)


class TeacherAt:
    """The teacher at the states of the micro-batch at hand, through its own wrapper."""

    def __init__(self, trainer: Any, states: Tensor) -> None:
        self._trainer = trainer
        self._model = trainer.accelerator.unwrap_model(trainer.teacher_model)
        known = ("hidden", "ids", "logits", "logsumexp", "log_prob")
        self.kept = {name: value[states] for name, value in trainer._own.items() if name in known}

    @torch.no_grad()
    def gather(self, ids: Tensor) -> Tensor:
        """Its logits at ids of each state, from its kept hidden states."""
        found: Tensor = self._call(self._trainer._gather, self.kept["hidden"], ids)
        return found

    @torch.no_grad()
    def head(self) -> tuple[Tensor, HeadArguments]:
        """Its head's whole weight, with what goes with it."""
        sharded = hasattr(self._model.get_output_embeddings().weight, "full_tensor")
        sharded = sharded or self._trainer.accelerator.distributed_type in _SHARDED
        found: tuple[Tensor, HeadArguments] = self._call(self._trainer._whole_head, self.kept["hidden"], sharded)
        return found

    def _call(self, method: Any, *arguments: Any) -> Any:
        trainer = self._trainer
        return trainer._forward_redirection(trainer.teacher_model, self._model, method, self._model, *arguments)


def addresses(completion_ids: Tensor, step: int, first: int) -> Tensor:
    """Step, prompt, response and position of each column: int64 ``[B, C, 4]``.

    A prompt is its number in the generation batch of all ranks, of which ``first`` is that of the first row here. They
    go with the rows through TRL's shuffle, so that routes do not depend on how a batch is cut.
    """
    rows, columns = completion_ids.shape
    found = torch.zeros((rows, columns, 4), dtype=torch.int64, device=completion_ids.device)
    found[..., 0] = step
    found[..., 1] = torch.arange(first, first + rows, device=found.device)[:, None]
    found[..., 3] = torch.arange(columns, device=found.device)
    return found
