# SPDX-License-Identifier: Apache-2.0
"""Losses per state. Sum them and divide by the number of valid states of the whole optimizer batch, so that the
result does not depend on how the batch is cut: ``loss = route_loss(odds, routes).sum() / denominator``.

Shapes: states ``[...]``, M pairs per state, W columns of the support, T tokens.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._library import call, ops

if TYPE_CHECKING:
    from .routes import Routes, Support

__all__ = ["exact_loss", "route_loss", "sampled_rkl_loss", "union_kl"]


def _same_shape(value: Tensor, expected: Tensor, name: str) -> None:
    if not isinstance(value, Tensor) or value.shape != expected.shape:
        raise ValueError(f"{name}: expected shape {list(expected.shape)}, got {list(getattr(value, 'shape', []))}")


def _not_rounded(values: Tensor) -> None:
    if values.dtype != torch.float32:
        raise ValueError(
            f"routes: expected float32 values, got {str(values.dtype).removeprefix('torch.')}; FSDP2's mixed precision "
            f"rounds the tensors that a forward is given: set cast_forward_inputs=False, or hand routes over otherwise"
        )


def route_loss(odds: Tensor, routes: Routes, old: Tensor | None = None) -> Tensor:
    """The routed loss of each state, (weight / M) sum of huber(odds - old - target): float32 ``[...]``.

    ``odds``: ``pair_log_odds`` of the routes' pairs; for one-sided arms the ``log_probs`` at their sources or
    destinations. ``old``: their values before the first update of this rollout; None says that this is the first
    update, where they are the current ones. ``routes.old`` are those of the models that gave the top-k.
    """
    _not_rounded(routes.target)
    _same_shape(odds, routes.target, "odds")
    if old is not None:
        _same_shape(old, routes.target, "old")
    if routes.target.shape[-1] == 0:
        raise ValueError(
            f"routes: arm {routes.options.arm} with pairs = {routes.options.pairs} has no pairs; use its own loss"
        )
    change = odds - (odds if old is None else old).detach()
    residual = change - routes.target
    kappa = routes.options.kappa
    size = residual.abs()
    huber = torch.where(size <= kappa, residual.square() / 2, kappa * (size - kappa / 2))
    huber = huber.where(routes.source >= 0, 0)
    return routes.weight * huber.sum(-1) / routes.target.shape[-1]


def _support_of(routes: Routes, logits: Tensor) -> Support:
    if routes.support is None:
        raise ValueError(
            f"routes: arm {routes.options.arm} keeps no support; make them with route(…, with_support=True)"
        )
    _not_rounded(routes.support.values)
    _same_shape(logits, routes.support.ids, "logits")
    return routes.support


def _support_loss(logits: Tensor, routes: Routes, old: Tensor, options: str) -> Tensor:
    support = _support_of(routes, logits)
    width = logits.shape[-1]
    states = routes.weight.numel()

    def flat(value: Tensor) -> Tensor:
        return value.reshape(states, width).contiguous()

    loss: Tensor
    loss, _slopes = call(
        ops.support_loss,
        flat(logits.float()),
        flat(support.ids),
        flat(old.float()),
        support.values.reshape(6, states, width).contiguous(),
        routes.weight.reshape(states).contiguous(),
        options,
    )
    return loss.reshape(routes.weight.shape)


def exact_loss(logits: Tensor, routes: Routes, old: Tensor | None = None) -> Tensor:
    """The routed loss in expectation over all pairs of the coupling, in place of M sampled ones: ``[...]``.

    ``logits``: ``gather_logits`` at ``routes.support.ids``; ``old`` as in ``route_loss``.
    """
    _support_of(routes, logits)
    if old is not None:
        _same_shape(old, logits, "old")
    options = routes.options
    if options.arm in ("union_rkl", "union_fkl"):
        raise ValueError(f"routes: arm {options.arm} is a divergence on the support; use union_kl")
    return _support_loss(logits, routes, (logits if old is None else old).detach(), options.as_json())


def union_kl(logits: Tensor, routes: Routes, *, reverse: bool | None = None) -> Tensor:
    """KL divergence between the current student and the teacher on the union alone: ``[...]``.

    ``logits``: ``gather_logits`` at ``routes.support.ids``. ``reverse``: KL(student || teacher); by default as the
    routes' arm says, ``union_rkl`` or ``union_fkl``.
    """
    _support_of(routes, logits)
    if reverse is None:
        if routes.options.arm not in ("union_rkl", "union_fkl"):
            raise ValueError(f"reverse: expected True or False, since arm {routes.options.arm} does not say")
        reverse = routes.options.arm == "union_rkl"
    return _support_loss(logits, routes, logits.detach(), routes.options.as_union_json(reverse=reverse))


def sampled_rkl_loss(
    log_prob: Tensor,
    teacher_log_prob: Tensor,
    old: Tensor | None = None,
    *,
    ratio_clip: float = 0.0,
    delta_p: float = 1e-8,
    engine_log_prob: Tensor | None = None,
    importance_cap: float = 2.0,
) -> Tensor:
    """Sampled reverse KL, -rho A with A = log pi_T(a) - log pi_old(a), of the tokens taken: ``[...]``.

    ``old``: the student's log-probabilities before the first update of this rollout; None at that update. A teacher
    value of -inf counts as log ``delta_p``. ``engine_log_prob``: what the engine that wrote the tokens said of them;
    each state is then weighted by min(importance_cap, pi_old / pi_engine).
    """
    _same_shape(teacher_log_prob, log_prob, "teacher_log_prob")
    before = (log_prob if old is None else old).detach()
    _same_shape(before, log_prob, "old")
    if ratio_clip < 0 or not 0 < delta_p <= 1:
        raise ValueError(f"ratio_clip and delta_p: expected at least 0, and in (0, 1], got {ratio_clip} and {delta_p}")
    teacher = teacher_log_prob.detach().float()
    advantage = teacher.where(teacher != -math.inf, math.log(delta_p)) - before
    if engine_log_prob is not None:
        _same_shape(engine_log_prob, log_prob, "engine_log_prob")
        advantage = advantage * (before - engine_log_prob.detach()).exp().clamp(max=importance_cap)
    ratio = (log_prob - before).exp()
    loss = -ratio * advantage
    if ratio_clip > 0:
        loss = torch.maximum(loss, -ratio.clamp(1 - ratio_clip, 1 + ratio_clip) * advantage)
    return loss
