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
from ..arms import arm_loss, arm_values
from ..dense import full_kl, log_probs
from ..heads import gather_logits
from ..losses import sampled_rkl_loss
from ..routes import Routes
from ..routing import background_pool, route
from ..topk import TopK, top_k

if TYPE_CHECKING:
    from collections.abc import Callable

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
    old: Tensor | None = None  # the values before the first update: log-odds, log-probabilities or logits
    routes: Routes | None = None  # [N]; for arms that need none, at the first update and with diagnostics alone
    entropy: Tensor | None = None  # the student's, nats, summed over the states; None where an arm does not know it
    teacher_entropy: Tensor | None = None

    def kept(self) -> Result:
        """The same without the graph."""
        return dataclasses.replace(self, loss=self.loss.detach())


@dataclasses.dataclass(frozen=True)
class _Student:
    """The student's head inside its own forward, where its weight is whole."""

    hidden: Tensor
    weight: Tensor
    arguments: HeadArguments

    def __call__(self, function: Callable[..., Tensor], *ids: Tensor) -> Tensor:
        return function(self.hidden, self.weight, *ids, **self.arguments)


class Objective:
    """An arm with its settings, at heads of which the first ``real_ids`` rows are tokens."""

    def __init__(self, options: Options, *, seed: int, real_ids: int, diagnostics: bool = True) -> None:
        self.options, self.seed, self.real_ids = options, seed, real_ids
        # Routes for the metrics of arms that read none.
        self.diagnostics = diagnostics and options.k != "full"
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
        if self.full or (self.family == "dense" and not self.diagnostics):
            return {"hidden": hidden}
        ids = self._known(taken).unsqueeze(-1) if self.family == "taken" else None
        alone = ids is not None and not self.diagnostics
        found = head.top_k(hidden, 1 if alone else int(self.options.k), gather=ids)
        if found.ids is None or found.logsumexp is None:
            raise RuntimeError("top_k gave no ids")
        kept = {"hidden": hidden, "ids": found.ids, "logits": found.logits, "logsumexp": found.logsumexp}
        if ids is None or found.gathered is None:
            return kept
        log_prob = (found.gathered[..., 0] - found.logsumexp).where(ids[..., 0] >= 0, 0)
        return {"log_prob": log_prob} | ({} if alone else kept)

    def at(
        self,
        head: HeadMode,
        hidden: Tensor,
        teacher: Teacher,
        *,
        taken: Tensor,
        address: Tensor,
        before: Result | None = None,
    ) -> Result:
        """The loss at states with hidden states ``[N, H]``, and what it was made of.

        ``before``: the answer at the first update of this rollout; None says that this is the first, at which the old
        policy is the current one. Call it in the student's forward, with ``head`` open on its head: all is computed in
        one call of that head, since some layouts of FSDP2 allow no more.
        """
        made: list[Result] = []

        def inside(hidden: Tensor, weight: Tensor, **arguments: Unpack[HeadArguments]) -> Tensor:
            student = _Student(hidden, weight, arguments)
            if self.family == "taken":
                result = self._at_taken(student, teacher, self._known(taken), before)
            elif self.family == "dense":
                result = self._divergence(student, teacher)
            else:
                result = self._at_routes(student, teacher, address, before)
            if result.routes is None and self.diagnostics and before is None:
                seen = self._routes(student, teacher, address)
                result = dataclasses.replace(seen, loss=result.loss, old=result.old)
            made.append(result)
            return result.loss

        loss = head.call(inside, hidden)
        return dataclasses.replace(made[0], loss=loss)

    def _at_taken(self, student: _Student, teacher: Teacher, ids: Tensor, before: Result | None) -> Result:
        values = student(log_probs, ids.unsqueeze(-1))[..., 0]
        old = None if before is None else before.old
        clip, floor = self.options.ratio_clip, self.options.delta_p
        loss = sampled_rkl_loss(values, teacher.kept["log_prob"], old, ratio_clip=clip, delta_p=floor)
        return Result(loss.where(ids >= 0, 0), values.detach() if old is None else old)

    def _divergence(self, student: _Student, teacher: Teacher) -> Result:
        weight, theirs = teacher.head()
        reverse, floor = self.options.arm == "full_rkl", self.options.delta_p
        given = (student.hidden, student.weight, teacher.kept["hidden"], weight)
        return Result(full_kl(*given, reverse=reverse, delta_p=floor, teacher_head=theirs, **student.arguments))

    def _at_routes(self, student: _Student, teacher: Teacher, address: Tensor, before: Result | None) -> Result:
        made = self._routes(student, teacher, address) if before is None or before.routes is None else before
        routes, old = made.routes, made.old
        if routes is None:
            raise RuntimeError("no routes were made")
        values = arm_values(student.hidden, student.weight, routes, **student.arguments)
        loss = arm_loss(values, routes, old)
        return dataclasses.replace(made, loss=loss, old=values.detach() if old is None else old)

    @torch.no_grad()
    def _routes(self, student: _Student, teacher: Teacher, address: Tensor) -> Result:
        """Routes of a first update; the loss is not known yet."""
        if self.full:
            routes = self._full_routes(student, teacher, address)
            return Result(routes.weight, routes=routes)
        ids = teacher.kept["ids"]
        ours = top_k(student.hidden, student.weight, int(self.options.k), gather=ids, **student.arguments)
        if ours.ids is None:
            raise RuntimeError("top_k gave no ids")
        kept = (teacher.kept["logits"], teacher.kept["logsumexp"])
        theirs = TopK(ids, *kept, self.real_ids, ours.ids, teacher.gather(ours.ids))
        pool = None
        if self.options.needs_pool:
            background = background_pool(ours, seed=self.seed, address=address)
            pool = (background, student(gather_logits, background))
        routes = route(ours, theirs, self.options, seed=self.seed, address=address, pool=pool)
        entropies = (top_entropy(side, routes) for side in (ours, theirs))
        return Result(routes.weight, None, routes, *entropies)

    def _full_routes(self, student: _Student, teacher: Teacher, address: Tensor) -> Routes:
        """Routes on every real id, some states at a time: logits of all states are never held."""
        ours = checked_head(student.hidden, student.weight, student.arguments)
        theirs = checked_head(teacher.kept["hidden"], *teacher.head())
        size = _composite.chunk_rows(8 * self.real_ids)
        made: list[Routes] = []
        for first in range(0, max(1, address.shape[0]), size):
            rows = slice(first, first + size)
            one, other = (TopK.full(_logits(of, rows, self.real_ids)) for of in (ours, theirs))
            made.append(route(one, other, self.options, seed=self.seed, address=address[rows]))
        return Routes.cat(made)

    def _known(self, taken: Tensor) -> Tensor:
        """Ids, -1 for those of padded rows, which are no tokens."""
        return taken.where(taken < self.real_ids, -1).int()


def _logits(of: Head, rows: slice, real_ids: int) -> Tensor:
    bias = None if of.bias is None else of.bias[:real_ids]
    return _composite.logits_of(of.hidden[rows], of.weight[:real_ids], bias, of.logit_scale, of.softcap)


def top_entropy(side: TopK, routes: Routes) -> Tensor:
    """Entropy over a top-k with the rest as one outcome, nats, a lower bound; summed over valid states."""
    if side.logsumexp is None:
        return side.logits.new_full((), math.nan)
    log_p = side.logits - side.logsumexp.unsqueeze(-1)
    p = log_p.exp()
    rest = (1 - p.sum(-1)).clamp(min=0)
    entropy = -(p * log_p).where(p > 0, 0).sum(-1) - torch.xlogy(rest, rest)
    return entropy.where(routes.valid, 0).sum()
