# SPDX-License-Identifier: Apache-2.0
"""Routes: which token's probability should go to which other token, and how much, at every visited state.

Shapes: states ``[...]`` (any leading dimensions), M pairs per state, W columns of the support.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar

import torch

if TYPE_CHECKING:
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

# Statistics whose means are metrics, and the states over which: coverage is of sampled pairs alone.
_MEANS = {
    "mass": "valid",
    "student_mass": "valid",
    "teacher_mass": "valid",
    "concentration": "routed",
    "budget": "routed",
    "saturated": "routed",
    "coverage": "paired",
}


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

    SUMS: ClassVar[int] = 4 + len(_MEANS)  # numbers of sums()

    def sums(self) -> Tensor:
        """Counts and totals of these states, float64, for ``means``; those of micro-batches and ranks add up."""
        routed = self.routed
        paired = routed if self.source.shape[-1] else torch.zeros_like(routed)
        among = {"valid": self.valid, "routed": routed, "paired": paired}
        totals = [getattr(self, name).double().where(among[which], 0).sum() for name, which in _MEANS.items()]
        counts = [torch.ones_like(routed), *among.values()]
        return torch.stack([count.sum().double() for count in counts] + totals)

    @staticmethod
    def means(sums: Tensor) -> dict[str, float]:
        """Means of states, under the names and as the means of ``metrics.jsonl``; what is not known is left out."""
        _, valid, routed, paired, *totals = sums.tolist()
        counts = {"valid": valid, "routed": routed, "paired": paired}
        found = {"routed_share": routed / valid} if valid else {}
        for (name, which), total in zip(_MEANS.items(), totals, strict=True):
            if counts[which] and math.isfinite(total):
                found[name] = total / counts[which]
        return found

    def metrics(self) -> dict[str, float]:
        """The means of these states."""
        return self.means(self.sums())

    @staticmethod
    def cat(parts: list[Routes]) -> Routes:
        """Routes of several lists of states, one after the other."""

        def joined(name: str, dim: int = 0) -> Tensor:
            return torch.cat([getattr(part, name) for part in parts], dim)

        supports = [part.support for part in parts if part.support is not None]
        support = None
        if len(supports) == len(parts):
            support = Support(torch.cat([one.ids for one in supports]), torch.cat([one.values for one in supports], 1))
        return Routes(
            joined("source"),
            joined("destination"),
            joined("target"),
            joined("old"),
            joined("statistics", 1),
            joined("n_deficit"),
            joined("validity"),
            joined("routed"),
            parts[0].options,
            support,
        )
