# SPDX-License-Identifier: Apache-2.0
"""What an arm computes at the states of a micro-batch, from hidden states to a loss per state. Knows nothing of TRL.

What is kept of the teacher between its one pass over a generation batch and the updates: its top-k, and its last
hidden states, from which its values at the student's ids are k rows of its head per state. Those ids are known only
in the training forward. A hidden state is 2 H bytes in bfloat16 (8 KiB at H = 4,096) where a row of logits would be
4 V (600 KiB at V = 151,936), and another pass of a model would cost more time than this costs memory.

Shapes: states ``[N]``, K columns of a top-k, M pairs per state, H hidden size, R real ids.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

from .. import _composite
from .._head import Head, HeadArguments, checked_head
from ..dense import full_kl
from ..losses import exact_loss, route_loss, sampled_rkl_loss, union_kl
from ..routes import Routes
from ..routing import background_pool, route
from ..topk import TopK

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import Unpack

    from ..options import Options
    from ..sharded import HeadMode

__all__ = ["Objective", "Result", "Teacher"]


class Teacher(Protocol):
    """The teacher at the states of a micro-batch."""

    kept: dict[str, Tensor]  # what ``Objective.of_teacher`` made, at these states

    def gather(self, ids: Tensor) -> Tensor:
        """Its logits at ids of each state, from its kept hidden states."""

    def head(self) -> tuple[Tensor, HeadArguments]:
        """Its head's whole weight, with what goes with it."""


@dataclasses.dataclass(frozen=True)
class Result:
    """Of one micro-batch: the loss of each state, and what a later update of the same rollout needs."""

    loss: Tensor  # [N]
    entropy: Tensor  # the student's, nats, summed over the states; NaN where an arm does not know it
    routes: Routes | None  # [N]; none for arms that need none
    old: Tensor | None  # the values before the first update: log-odds, log-probabilities or logits
    teacher_entropy: Tensor | None = None

    def kept(self) -> Result:
        """The same without the graph."""
        return dataclasses.replace(self, loss=self.loss.detach())


class Objective:
    """An arm with its settings, at heads of which the first ``real_ids`` rows are tokens."""

    def __init__(self, options: Options, *, seed: int, real_ids: int) -> None:
        self.options, self.seed, self.real_ids = options, seed, real_ids
        self.family: Literal["taken", "dense", "support", "pairs"] = "pairs"
        if options.arm == "sampled_rkl":
            self.family = "taken"
        elif options.arm in ("full_rkl", "full_fkl"):
            self.family = "dense"
        elif options.arm in ("union_rkl", "union_fkl") or options.pairs == "exact":
            self.family = "support"

    @property
    def full(self) -> bool:
        """Whether the support is every real id."""
        return self.options.k == "full" and self.family == "pairs"

    @property
    def keeps_hidden(self) -> bool:
        """Whether the teacher's hidden states are needed at updates after the first."""
        return self.family == "dense"

    @torch.no_grad()
    def of_teacher(self, head: HeadMode, hidden: Tensor, taken: Tensor) -> dict[str, Tensor]:
        """What is kept of the teacher: from its hidden states ``[..., H]`` and the tokens written there ``[...]``."""
        if self.family == "taken":
            ids = self._known(taken).unsqueeze(-1)
            found = head.top_k(hidden, 1, gather=ids)
            if found.gathered is None or found.logsumexp is None:
                raise RuntimeError("top_k gave no values at the ids asked for")
            return {"log_prob": (found.gathered[..., 0] - found.logsumexp).where(ids[..., 0] >= 0, 0)}
        if self.family == "dense" or self.full:
            return {"hidden": hidden}
        found = head.top_k(hidden, int(self.options.k))
        if found.ids is None or found.logsumexp is None:
            raise RuntimeError("top_k gave no ids")
        return {"hidden": hidden, "ids": found.ids, "logits": found.logits, "logsumexp": found.logsumexp}

    def at(
        self,
        head: HeadMode,
        lm_head: nn.Module,
        hidden: Tensor,
        teacher: Teacher,
        *,
        taken: Tensor,
        address: Tensor,
        before: Result | None = None,
    ) -> Result:
        """The loss at states with hidden states ``[N, H]``, and what it was made of.

        ``before``: the answer at the first update of this rollout; None says that this is the first, at which the old
        policy is the current one. Call it in the student's forward, with ``head`` open on its ``lm_head``.
        """
        nothing = hidden.new_full((), math.nan, dtype=torch.float32)
        old = None if before is None else before.old
        if self.family == "taken":
            ids = self._known(taken)
            values = head.log_probs(hidden, ids.unsqueeze(-1))[..., 0]
            clip, floor = self.options.ratio_clip, self.options.delta_p
            loss = sampled_rkl_loss(values, teacher.kept["log_prob"], old, ratio_clip=clip, delta_p=floor)
            return Result(loss.where(ids >= 0, 0), nothing, None, values.detach() if old is None else old)
        if self.family == "dense":
            return Result(self._divergence(lm_head, hidden, teacher), nothing, None, None)
        entropy, teacher_entropy = nothing, None
        if before is not None and before.routes is not None:
            routes, entropy = before.routes, before.entropy
        elif self.full:
            routes = self._full_routes(lm_head, hidden, teacher, address)
        else:
            student, other = self._sides(head, hidden, teacher)
            pool = None
            if self.options.needs_pool:
                ids = background_pool(student, seed=self.seed, address=address)
                with torch.no_grad():
                    pool = (ids, head.gather_logits(hidden, ids))
            routes = route(student, other, self.options, seed=self.seed, address=address, pool=pool)
            entropy, teacher_entropy = top_entropy(student, routes), top_entropy(other, routes)
        loss, values = self._routed(head, hidden, routes, old)
        return Result(loss, entropy, routes, values.detach() if old is None else old, teacher_entropy)

    def _routed(self, head: HeadMode, hidden: Tensor, routes: Routes, old: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.family == "support":
            if routes.support is None:
                raise RuntimeError("the routes hold no support")
            values = head.gather_logits(hidden, routes.support.ids)
            if self.options.arm in ("union_rkl", "union_fkl"):
                return union_kl(values, routes), values
            return exact_loss(values, routes, old), values
        if self.options.side == "pair":
            values = head.pair_log_odds(hidden, routes.source, routes.destination)
        else:
            end = routes.source if self.options.side == "source" else routes.destination
            values = head.log_probs(hidden, end.where(routes.source >= 0, -1))
        return route_loss(values, routes, old), values

    def _sides(self, head: HeadMode, hidden: Tensor, teacher: Teacher) -> tuple[TopK, TopK]:
        """Both models' top-k, each with its values at the other's ids."""
        ids = teacher.kept["ids"]
        student = head.top_k(hidden.detach(), int(self.options.k), gather=ids)
        if student.ids is None:
            raise RuntimeError("top_k gave no ids")
        kept = (teacher.kept["logits"], teacher.kept["logsumexp"])
        return student, TopK(ids, *kept, self.real_ids, student.ids, teacher.gather(student.ids))

    @torch.no_grad()
    def _full_routes(self, lm_head: nn.Module, hidden: Tensor, teacher: Teacher, address: Tensor) -> Routes:
        """Routes on every real id, some states at a time: logits of all states are never held."""
        theirs = checked_head(teacher.kept["hidden"], *teacher.head())
        size = _composite.chunk_rows(8 * self.real_ids)
        made: list[Routes] = []

        def walk(states: Tensor, weight: Tensor, **arguments: Unpack[HeadArguments]) -> Tensor:
            ours = checked_head(states, weight, arguments)
            for first in range(0, max(1, states.shape[0]), size):
                rows = slice(first, first + size)
                student, other = (TopK.full(_logits(of, rows, self.real_ids)) for of in (ours, theirs))
                made.append(route(student, other, self.options, seed=self.seed, address=address[rows]))
            return states

        lm_head(hidden.detach(), walk)
        return joined(made)

    def _divergence(self, lm_head: nn.Module, hidden: Tensor, teacher: Teacher) -> Tensor:
        reverse, floor = self.options.arm == "full_rkl", self.options.delta_p
        states, (weight, rest) = teacher.kept["hidden"], teacher.head()

        def walk(hidden: Tensor, own: Tensor, **arguments: Unpack[HeadArguments]) -> Tensor:
            return full_kl(hidden, own, states, weight, reverse=reverse, delta_p=floor, teacher_head=rest, **arguments)

        loss: Tensor = lm_head(hidden, walk)
        return loss

    def _known(self, taken: Tensor) -> Tensor:
        """Ids, -1 for those of padded rows, which are no tokens."""
        return taken.where(taken < self.real_ids, -1).int()


def _logits(of: Head, rows: slice, real_ids: int) -> Tensor:
    bias = None if of.bias is None else of.bias[:real_ids]
    return _composite.logits_of(of.hidden[rows], of.weight[:real_ids], bias, of.logit_scale, of.softcap)


def joined(parts: list[Routes]) -> Routes:
    """Routes of several lists of states, one after the other; their supports are left out."""

    def cat(name: str, dim: int = 0) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts], dim)

    names = ("source", "destination", "target", "old", "n_deficit", "validity", "routed")
    found = {name: cat(name) for name in names}
    return Routes(**found, statistics=cat("statistics", 1), options=parts[0].options, support=None)


def top_entropy(side: TopK, routes: Routes) -> Tensor:
    """Entropy over a top-k with the rest as one outcome, nats, a lower bound; summed over valid states."""
    if side.logsumexp is None:
        return side.logits.new_full((), math.nan)
    log_p = side.logits - side.logsumexp.unsqueeze(-1)
    p = log_p.exp()
    rest = (1 - p.sum(-1)).clamp(min=0)
    entropy = -(p * log_p).where(p > 0, 0).sum(-1) - torch.xlogy(rest, rest)
    return entropy.where(routes.valid, 0).sum()
