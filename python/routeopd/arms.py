# SPDX-License-Identifier: Apache-2.0
"""What the arm of given routes reads of the student's head, and its loss: every arm that is routed, by two calls.

values = arm_values(hidden, lm_head.weight, routes)
loss = arm_loss(values, routes).sum() / denominator
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dense import log_probs
from .heads import gather_logits, pair_log_odds
from .losses import exact_loss, route_loss, union_kl

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Unpack

    from ._head import HeadArguments
    from .routes import Routes

__all__ = ["arm_loss", "arm_values"]

_UNIONS = ("union_rkl", "union_fkl")


def arm_values(hidden: Tensor, weight: Tensor, routes: Routes, **head: Unpack[HeadArguments]) -> Tensor:
    """Log-odds of the pairs, log-probabilities of one end of them, or logits on the support: differentiable."""
    options = routes.options
    if options.arm in _UNIONS or options.pairs == "exact":
        if routes.support is None:
            raise ValueError(f"routes: arm {options.arm} reads the support, and these have none")
        return gather_logits(hidden, weight, routes.support.ids, **head)
    if options.side == "pair":
        return pair_log_odds(hidden, weight, routes.source, routes.destination, **head)
    return log_probs(hidden, weight, routes.source if options.side == "source" else routes.destination, **head)


def arm_loss(values: Tensor, routes: Routes, old: Tensor | None = None) -> Tensor:
    """The loss of each state from those values; ``old``: theirs from before the first update, None at that update."""
    if routes.options.arm in _UNIONS:
        return union_kl(values, routes)
    return exact_loss(values, routes, old) if routes.options.pairs == "exact" else route_loss(values, routes, old)
