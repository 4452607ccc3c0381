# SPDX-License-Identifier: Apache-2.0
"""Routes: which token's probability should go to which other token, and how much, at every visited state.

Shapes: states ``[...]`` (any leading dimensions), M pairs per state, W columns of the support.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from .options import Options

__all__ = ["VALIDITY", "Routes", "Support"]

VALIDITY: tuple[str, ...] = (
    "valid",
    "padding",
    "not_generated",
    "truncated_scores",
    "misaligned",
    "non_finite",
    "empty_support",
)
"""Names of the values of ``Routes.validity``."""


@dataclasses.dataclass(frozen=True)
class Support:
    """The union of both models' top-k at each state, ids ascending, -1 pads at the end."""

    ids: Tensor  # int32 [..., W]
    values: Tensor  # float32 [6, ..., W], in the order of the properties below

    @property
    def old_logits(self) -> Tensor:
        """The behaviour student's logits."""
        return self.values[0]

    @property
    def log_p_teacher(self) -> Tensor:
        """Log of ``p_teacher``, -inf where the teacher gives no mass."""
        return self.values[1]

    @property
    def p_student(self) -> Tensor:
        """The behaviour student's softmax on the union."""
        return self.values[2]

    @property
    def p_teacher(self) -> Tensor:
        """The teacher's."""
        return self.values[3]

    @property
    def potential(self) -> Tensor:
        """g = log p_teacher - log p_student."""
        return self.values[4]

    @property
    def bounded(self) -> Tensor:
        """The potential, bounded by half the budget."""
        return self.values[5]


@dataclasses.dataclass(frozen=True)
class Routes:
    """What routing hands to the learner: per state the pairs to move and by how much, or the whole support.

    ``weight`` is 0 at states that are not valid or not routed, so that they add nothing to a loss; valid ones count
    in its denominator all the same.
    """

    source: Tensor  # int32 [..., M]; -1 where there is no pair
    destination: Tensor  # int32 [..., M]
    target: Tensor  # float32 [..., M]: wanted change of the log-odds, or of one log-probability (one-sided arms)
    old: Tensor  # float32 [..., M]: the behaviour student's value of that quantity
    statistics: Tensor  # float32 [8, ...]: the properties below
    n_deficit: Tensor  # int32 [...]: tokens of which the teacher wants more
    validity: Tensor  # uint8 [...]: index into VALIDITY
    routed: Tensor  # bool [...]: valid, more mass than delta_m, and a destination exists
    options: Options
    support: Support | None = None

    @property
    def weight(self) -> Tensor:
        """Of a state: its mass, or 1."""
        return self.statistics[0]

    @property
    def mass(self) -> Tensor:
        """M, the probability on the wrong tokens of the union."""
        return self.statistics[1]

    @property
    def concentration(self) -> Tensor:
        """c in [0, 1]: whether few tokens lack all of the mass."""
        return self.statistics[2]

    @property
    def budget(self) -> Tensor:
        """B, log-odds."""
        return self.statistics[3]

    @property
    def coverage(self) -> Tensor:
        """Share of the wanted mass on the destinations that the pairs use."""
        return self.statistics[4]

    @property
    def saturated(self) -> Tensor:
        """Share of the union with a potential of at least B."""
        return self.statistics[5]

    @property
    def student_mass(self) -> Tensor:
        """The student's probability that the support holds; NaN without its log-partition."""
        return self.statistics[6]

    @property
    def teacher_mass(self) -> Tensor:
        """The teacher's."""
        return self.statistics[7]

    @property
    def valid(self) -> Tensor:
        """States that count in the mean."""
        return self.validity == 0

    def __getitem__(self, rows: Any) -> Routes:
        """The same for some states: an index, a slice or a mask over the leading dimensions."""
        where = (slice(None), *rows) if isinstance(rows, tuple) else (slice(None), rows)
        support = None if self.support is None else Support(self.support.ids[rows], self.support.values[where])
        return Routes(
            self.source[rows],
            self.destination[rows],
            self.target[rows],
            self.old[rows],
            self.statistics[where],
            self.n_deficit[rows],
            self.validity[rows],
            self.routed[rows],
            self.options,
            support,
        )

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Routes:
        """The same on another device."""

        def move(value: Tensor) -> Tensor:
            return value.to(device, non_blocking=non_blocking)

        support = None if self.support is None else Support(move(self.support.ids), move(self.support.values))
        return Routes(
            move(self.source),
            move(self.destination),
            move(self.target),
            move(self.old),
            move(self.statistics),
            move(self.n_deficit),
            move(self.validity),
            move(self.routed),
            self.options,
            support,
        )

    def reshape(self, *lead: int) -> Routes:
        """The same states under other leading dimensions."""

        def flat(value: Tensor) -> Tensor:
            return value.reshape((*lead, *value.shape[self.mass.dim() :]))

        def stacked(value: Tensor) -> Tensor:
            return value.reshape((value.shape[0], *lead, *value.shape[self.mass.dim() + 1 :]))

        support = None if self.support is None else Support(flat(self.support.ids), stacked(self.support.values))
        return Routes(
            flat(self.source),
            flat(self.destination),
            flat(self.target),
            flat(self.old),
            stacked(self.statistics),
            flat(self.n_deficit),
            flat(self.validity),
            flat(self.routed),
            self.options,
            support,
        )

    def metrics(self) -> dict[str, float]:
        """Means over the valid states, or over the routed ones, as ``metrics.jsonl`` has them and under its names."""
        valid, routed = self.valid, self.routed
        count, moved = int(valid.sum()), int(routed.sum())

        def mean(values: Tensor, among: Tensor, n: int) -> float:
            return float(values[among].double().sum()) / n if n else math.nan

        return {
            "mass": mean(self.mass, valid, count),
            "concentration": mean(self.concentration, routed, moved),
            "budget": mean(self.budget, routed, moved),
            "saturated": mean(self.saturated, routed, moved),
            "coverage": mean(self.coverage, routed, moved),
            "routed_share": moved / count if count else math.nan,
            "student_mass": mean(self.student_mass, valid, count),
            "teacher_mass": mean(self.teacher_mass, valid, count),
        }
