# SPDX-License-Identifier: Apache-2.0
"""One model's side of a state: its largest logits, their log-sum-exp, and its values at ids of the other model.

Shapes: K columns of the top-k, G ids per token, H hidden size, V rows of the weight, R <= V real ids.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._head import checked_head, int32_ids, shape_text
from ._library import call, ops
from .heads import gather_logits

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from ._head import HeadArguments

__all__ = ["TopK", "top_k"]


@dataclasses.dataclass(frozen=True)
class TopK:
    """One model's side of a routed state: its largest logits, and its values at ids that the other model chose.

    Logits need no normalisation; with log-probabilities in their place, ``logsumexp`` is 0. NaN is a value that is
    not known: the id then takes no part. ``ids`` of None is the full support, logits ``[..., R]``.
    """

    ids: Tensor | None  # int32 [..., K], -1 pads
    logits: Tensor  # float32 [..., K], descending
    logsumexp: Tensor | None  # float32 [...], over the real ids; None where it is not known
    real_ids: int  # ids are in [0, real_ids)
    gathered_ids: Tensor | None = None  # int32 [..., G]
    gathered: Tensor | None = None  # float32 [..., G]

    @property
    def k(self) -> int:
        """Columns."""
        return self.logits.shape[-1]

    def gathered_at(self, hidden: Tensor, weight: Tensor, ids: Tensor | None, **head: Unpack[HeadArguments]) -> TopK:
        """The same with this model's values at the other's ids, from its hidden states; no gradient."""
        if ids is None:
            return self
        with torch.no_grad():
            values = gather_logits(hidden, weight, ids, **head)
        return dataclasses.replace(self, gathered_ids=ids, gathered=values)

    def looked_up(self, ids: Tensor) -> TopK:
        """The same with this model's values at ``ids`` where its own list has them, and NaN elsewhere."""
        if self.ids is None:
            raise ValueError("looked_up: a full support has every value already")
        if self.ids.shape[:-1] != ids.shape[:-1]:
            raise ValueError(
                f"ids: expected shape {shape_text((*self.ids.shape[:-1], 'ids'))}, got {shape_text(ids.shape)}"
            )
        found = (self.ids.unsqueeze(-2) == ids.unsqueeze(-1)) & (ids >= 0).unsqueeze(-1)
        at = found.to(torch.uint8).argmax(-1)
        values = self.logits.gather(-1, at).where(found.any(-1), math.nan)
        return dataclasses.replace(self, gathered_ids=int32_ids(ids, "ids"), gathered=values)

    @staticmethod
    def from_log_probs(
        ids: Tensor,
        log_probs: Tensor,
        *,
        real_ids: int,
        gathered_ids: Tensor | None = None,
        gathered: Tensor | None = None,
        sentinel: float = -9999.0,
    ) -> TopK:
        """What a server said: ids with their log-probabilities, in any order, -1 and NaN where nothing was sent.

        Values at or under ``sentinel`` are minus infinity, as vLLM writes it.
        """
        for name, one, other in (("log_probs", ids, log_probs), ("gathered", gathered_ids, gathered)):
            if (one is None) != (other is None) or (one is not None and other is not None and one.shape != other.shape):
                raise ValueError(f"{name}: expected one for each id")

        def read(values: Tensor) -> Tensor:
            values = values.float()
            return values.masked_fill(values <= sentinel, -math.inf)

        return TopK(
            ids=int32_ids(ids, "ids"),
            logits=read(log_probs),
            logsumexp=torch.zeros(ids.shape[:-1], dtype=torch.float32, device=ids.device),
            real_ids=real_ids,
            gathered_ids=None if gathered_ids is None else int32_ids(gathered_ids, "gathered_ids"),
            gathered=None if gathered is None else read(gathered),
        )

    @staticmethod
    def full(logits: Tensor) -> TopK:
        """The full support, from logits over all real ids ``[..., R]``."""
        logits = logits.detach().float()
        return TopK(ids=None, logits=logits, logsumexp=logits.logsumexp(-1), real_ids=logits.shape[-1])

    def __getitem__(self, rows: Any) -> TopK:
        """The same for some states: an index, a slice or a mask over the leading dimensions."""
        return self._with(lambda value: value[rows])

    def to(self, device: torch.device | str) -> TopK:
        """The same on another device."""
        return self._with(lambda value: value.to(device))

    def _with(self, change: Callable[[Tensor], Tensor]) -> TopK:
        def of(value: Tensor | None) -> Tensor | None:
            return None if value is None else change(value)

        return TopK(
            of(self.ids),
            change(self.logits),
            of(self.logsumexp),
            self.real_ids,
            of(self.gathered_ids),
            of(self.gathered),
        )


@torch.no_grad()
def top_k(
    hidden: Tensor, weight: Tensor, k: int = 32, *, gather: Tensor | None = None, **head: Unpack[HeadArguments]
) -> TopK:
    """The k largest logits of each token, equal ones by ascending id, the log-sum-exp, and the logits at given ids.

    One pass over tiles of the vocabulary: no ``[T, V]`` is held, nor a copy of the weight. Without gradients.
    """
    of = checked_head(hidden, weight, head)
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k: expected a whole number from 1, got {k}")
    if of.lora is not None:
        raise ValueError("lora: top_k reads all of a head's rows; give it the merged weight, W + scale * B A")
    asked = None if gather is None else of.ids(gather, "gather")
    bias = None if of.bias is None else of.bias.float().contiguous()
    ids, logits, total, gathered = call(
        ops.top_k, of.hidden, of.weight, bias, asked, min(k, of.real_ids), of.real_ids, of.logit_scale, of.softcap
    )

    def shaped(values: Tensor) -> Tensor:
        return values.reshape((*of.lead, *values.shape[1:]))

    return TopK(
        shaped(ids),
        shaped(logits),
        shaped(total),
        of.real_ids,
        None if asked is None else shaped(asked),
        None if asked is None else shaped(gathered),
    )
