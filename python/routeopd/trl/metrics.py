# SPDX-License-Identifier: Apache-2.0
"""Sums over the states of several micro-batches and ranks, and the means of ``metrics.jsonl`` that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..routes import Routes

if TYPE_CHECKING:
    from torch import Tensor

    from .objective import Result

__all__ = ["Sums"]


class Sums:
    """Adds up what the routes of micro-batches say; a mean of means would weigh short responses more."""

    def __init__(self) -> None:
        self._total: Tensor | None = None

    def add(self, result: Result) -> None:
        """Counts the states of one micro-batch at the first update of their rollout."""
        if result.routes is None:
            return
        entropy = torch.zeros(()) if result.teacher_entropy is None else result.teacher_entropy
        sums = result.routes.sums()
        found = torch.cat([entropy.to(sums).reshape(1), sums])
        self._total = found if self._total is None else self._total + found

    def take(self) -> Tensor | None:
        """The sums so far, which are then zero again; None where nothing was added."""
        total, self._total = self._total, None
        return total

    def means(self, total: Tensor) -> dict[str, float]:
        """Means over the states of a total; those over nothing are left out."""
        entropy, states, valid = total[:3].tolist()
        found = {"validity/invalid": states - valid, **Routes.means(total[1:])}
        if valid and entropy:
            found["teacher_entropy"] = entropy / valid
        return found
