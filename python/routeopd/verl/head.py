# SPDX-License-Identifier: Apache-2.0
"""The objective of one micro-batch, computed in one call of the head's own forward, where a sharded weight is whole.

On the first update of a rollout the old policy is the current one: the student's top-k comes from the hidden states
that are being trained, and routes are made there. Later updates read values that were kept before the first
(``worker``). Distributions are those at temperature 1, as the teacher's are, whatever the rollout's temperature.

Shapes: N states, H hidden size, K columns of each top-k, J values of the teacher per state, P ids of a pool.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .. import (
    Routes,
    TopK,
    arm_loss,
    arm_values,
    background_pool,
    gather_logits,
    log_probs,
    route,
    sampled_rkl_loss,
    top_k,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import HeadArguments
    from .objective import Objective
    from .states import States

IDS, VALUES = "routeopd_ids", "routeopd_values"


class Work:
    """What the head is asked for. Plain, so that no hook of a sharded module casts what it holds."""

    def __init__(self, objective: Objective, states: States, rows: Tensor) -> None:
        self.objective = objective
        self.states = states
        self.rows = rows  # [N], of the hidden states as the model gives them, flattened
        self.teacher: TopK | None = None  # all J values
        self.teacher_taken: Tensor | None = None  # [N], sampled_rkl
        self.at_student: Tensor | None = None  # the teacher at the student's ids, where somebody knows them all
        self.kept: tuple[Tensor, Tensor] | None = None  # ids and values from before the first update
        self.keep = False  # only collect what is to be kept
        self.temperature: float | None = None  # of the log-probabilities that verl asks for beside; None: none
        self.routes: Routes | None = None
        self.unknown = 0  # ids of the student's top-k at which the teacher is not known


def compute(hidden: Tensor, weight: Tensor, work: Work, **head: Unpack[HeadArguments]) -> dict[str, Tensor]:
    """Losses [N] of the states, or what is to be kept of them; called by the head's forward."""
    with torch.autocast(hidden.device.type, enabled=False):
        if work.keep:
            with torch.no_grad():
                return _kept(hidden, weight, work, head)
        answer = {"losses": _losses(hidden, weight, work, head)}
        if work.temperature is not None:
            if head.get("softcap") and work.temperature != 1:
                raise ValueError("temperature: expected 1 for a model that caps its logits")
            scaled: HeadArguments = {**head, "logit_scale": head.get("logit_scale", 1.0) / work.temperature}
            answer["log_probs"] = log_probs(hidden, weight, work.states.taken[:, None], **scaled)[:, 0]
        return answer


def _losses(hidden: Tensor, weight: Tensor, work: Work, head: HeadArguments) -> Tensor:
    options = work.objective.options
    if work.objective.sampled:
        assert work.teacher_taken is not None
        log_prob = log_probs(hidden, weight, work.states.taken[:, None], **head)[:, 0]
        old = None if work.kept is None else work.kept[1][:, 0]
        clip, floor = options.ratio_clip, options.delta_p
        return sampled_rkl_loss(log_prob, work.teacher_taken, old, ratio_clip=clip, delta_p=floor)
    student, teacher, pool = _sides(hidden, weight, work, head)
    routes = route(student, teacher, options, seed=work.objective.seed, address=work.states.address, pool=pool)
    work.routes = routes
    values = arm_values(hidden, weight, routes, **head)
    if work.kept is None:
        return arm_loss(values, routes)
    return arm_loss(values, routes, routes.old if routes.support is None else routes.support.old_logits)


def _sides(
    hidden: Tensor, weight: Tensor, work: Work, head: HeadArguments
) -> tuple[TopK, TopK, tuple[Tensor, Tensor] | None]:
    """Both models' sides of the states: the teacher's list is its best K, all J are looked up at the student's ids."""
    sent = work.teacher
    assert sent is not None
    assert sent.ids is not None
    k = work.objective.k
    listed = sent.ids[:, :k]
    if work.kept is None:
        student, pool = _student(hidden.detach(), weight, work, listed, head)
    else:
        student, pool = _unpacked(work, listed, sent.real_ids)
    assert student.ids is not None
    looked = sent.looked_up(student.ids).gathered if work.at_student is None else work.at_student
    assert looked is not None
    work.unknown = int(looked.isnan().sum())
    teacher = dataclasses.replace(
        sent, ids=listed, logits=sent.logits[:, :k], gathered_ids=student.ids, gathered=looked
    )
    return student, teacher, pool


def _student(
    hidden: Tensor, weight: Tensor, work: Work, listed: Tensor, head: HeadArguments
) -> tuple[TopK, tuple[Tensor, Tensor] | None]:
    student = top_k(hidden, weight, work.objective.k, gather=listed, **head)
    if not work.objective.options.needs_pool:
        return student, None
    ids = background_pool(student, seed=work.objective.seed, address=work.states.address)
    with torch.no_grad():
        return student, (ids, gather_logits(hidden, weight, ids, **head))


def _kept(hidden: Tensor, weight: Tensor, work: Work, head: HeadArguments) -> dict[str, Tensor]:
    """The student's ids [N, K], and its values: logits there and at the teacher's ids, log-sum-exp, pool."""
    if work.objective.sampled:
        taken = work.states.taken[:, None]
        return {IDS: taken, VALUES: log_probs(hidden, weight, taken, **head)}
    assert work.teacher is not None
    assert work.teacher.ids is not None
    student, pool = _student(hidden, weight, work, work.teacher.ids[:, : work.objective.k], head)
    assert student.ids is not None
    assert student.gathered is not None
    assert student.logsumexp is not None
    parts = [student.logits, student.gathered, student.logsumexp[:, None]]
    return {IDS: student.ids, VALUES: torch.cat([*parts, *([] if pool is None else pool[1:])], -1)}


def _unpacked(work: Work, listed: Tensor, real_ids: int) -> tuple[TopK, tuple[Tensor, Tensor] | None]:
    assert work.kept is not None
    ids, values = work.kept
    k = ids.shape[1]
    student = TopK(ids, values[:, :k], values[:, 2 * k], real_ids, listed, values[:, k : 2 * k])
    if not work.objective.options.needs_pool:
        return student, None
    pool = background_pool(student, seed=work.objective.seed, address=work.states.address)
    return student, (pool, values[:, 2 * k + 1 :])


class Tally:
    """Sums over states, added over micro-batches and ranks, so that means do not depend on how a batch is cut."""

    def __init__(self, device: torch.device | str) -> None:
        # Ids of the student at which the teacher is not known, ids that were asked for, and those of Routes.sums().
        self.sums = torch.zeros(2 + Routes.SUMS, dtype=torch.float64, device=device)

    def add(self, work: Work) -> None:
        """Counts a micro-batch."""
        states = len(work.states.taken)
        if work.routes is None:
            self.sums[2] += states
            return
        asked = self.sums.new_tensor([work.unknown, work.objective.k * states])
        self.sums += torch.cat([asked, work.routes.sums().to(self.sums.device)])

    def metrics(self) -> dict[str, float]:
        """Under the names of metrics.jsonl; ``unknown`` are ids of the student at which the teacher is not known."""
        unknown, asked, states, valid = self.sums[:4].tolist()
        found = {"states": states}
        if asked:
            found |= {"valid": valid, "unknown": unknown, "unknown_share": unknown / asked}
        return found | Routes.means(self.sums[2:])
