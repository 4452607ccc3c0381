# SPDX-License-Identifier: Apache-2.0
"""Sums over the states of several micro-batches and ranks, and the means of ``metrics.jsonl`` that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .objective import Result

__all__ = ["Sums"]

_OVER_VALID = ("mass", "student_mass", "teacher_mass")
_OVER_ROUTED = ("concentration", "budget", "saturated", "coverage")


class Sums:
    """Adds up what the routes of micro-batches say; a mean of means would weigh short responses more."""

    def __init__(self) -> None:
        self._total: Tensor | None = None
        self._sampled = True

    def add(self, result: Result) -> None:
        """Counts the states of one micro-batch at the first update of their rollout."""
        routes = result.routes
        if routes is None:
            return
        valid, routed = routes.valid, routes.routed
        self._sampled = routes.source.shape[-1] > 0

        def total(name: str, among: Tensor) -> Tensor:
            values: Tensor = getattr(routes, name)
            return values.double().nan_to_num().where(among, 0).sum()

        unknown = torch.zeros((), dtype=torch.float64, device=routes.mass.device)
        entropy = unknown if result.teacher_entropy is None else result.teacher_entropy.double()
        sums = [
            valid.sum().double(),
            routed.sum().double(),
            torch.as_tensor(float(routes.validity.numel()), dtype=torch.float64, device=routes.mass.device),
            entropy,
            *(total(name, valid) for name in _OVER_VALID),
            *(total(name, routed) for name in _OVER_ROUTED),
        ]
        found = torch.stack(sums)
        self._total = found if self._total is None else self._total + found

    def take(self) -> Tensor | None:
        """The sums so far, which are then zero again; None where nothing was added."""
        total, self._total = self._total, None
        return total

    def means(self, total: Tensor) -> dict[str, float]:
        """Means over valid or routed states, under the names of ``metrics.jsonl``; those over nothing are left out."""
        valid, routed, states, entropy, *rest = total.tolist()
        found = {"validity/invalid": states - valid}
        if valid:
            found["routed_share"] = routed / valid
            found |= {name: rest[i] / valid for i, name in enumerate(_OVER_VALID)}
            if entropy:
                found["teacher_entropy"] = entropy / valid
        if routed:
            of_routed = dict(zip(_OVER_ROUTED, rest[len(_OVER_VALID) :], strict=True))
            if not self._sampled:  # without sampled pairs nothing is covered or missed
                del of_routed["coverage"]
            found |= {name: value / routed for name, value in of_routed.items()}
        return found
