# SPDX-License-Identifier: Apache-2.0
"""What needs the log-partition: log-probabilities and full-vocabulary divergences.

They multiply by the whole vocabulary, in chunks of tokens that bound memory, forward and once more in the backward.

Shapes: G ids per token, H hidden size, V rows of the weight, R <= V real ids.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import _composite
from ._head import HeadArguments, checked_head

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["full_kl", "log_probs"]


class _LogProbs(torch.autograd.Function):
    """log pi at a few ids of each token, in chunks of tokens; the backward computes a chunk's logits again."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor, scale: float, softcap: float
    ) -> Tensor:
        ctx.save_for_backward(hidden, weight, bias, ids)
        ctx.scale, ctx.softcap = scale, softcap
        values = []
        size = _composite.chunk_rows(2 * weight.shape[0])
        for first in range(0, hidden.shape[0], size):
            rows = slice(first, first + size)
            logits = _composite.logits_of(hidden[rows], weight, bias, scale, softcap)
            at = ids[rows].clamp(min=0).long()
            found = logits.gather(1, at) - logits.logsumexp(1, keepdim=True)
            values.append(found.where(ids[rows] >= 0, 0))
        return torch.cat(values) if values else hidden.new_zeros(ids.shape, dtype=_composite.sum_dtype(hidden, weight))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, ids = ctx.saved_tensors
        grad = grad.where(ids >= 0, 0)

        def slopes(rows: slice, logits: Tensor) -> Tensor:
            # d log pi(i) = e_i - p
            p = logits.softmax(1)
            p *= -grad[rows].sum(1, keepdim=True)
            return p.scatter_add_(1, ids[rows].clamp(min=0).long(), grad[rows].to(p.dtype))

        with _composite.without_autocast(hidden):
            return (*dense_backward(ctx, hidden, weight, bias, ctx.scale, ctx.softcap, slopes), None, None, None)


def dense_backward(
    ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, scale: float, softcap: float, slopes: Any
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of hidden states, weight and bias, chunk by chunk, from ``slopes(rows, logits)`` on the logits."""
    dtype = _composite.sum_dtype(hidden, weight)
    of_hidden, of_weight, of_bias = ctx.needs_input_grad[:3]
    grad_hidden = torch.empty_like(hidden) if of_hidden else None
    grad_weight = torch.zeros_like(weight, dtype=dtype) if of_weight else None
    grad_bias = torch.zeros_like(bias, dtype=dtype) if of_bias and bias is not None else None
    size = _composite.chunk_rows(2 * weight.shape[0])
    for first in range(0, hidden.shape[0], size):
        rows = slice(first, first + size)
        logits = _composite.logits_of(hidden[rows], weight, bias, scale, softcap)
        part = slopes(rows, logits)
        if softcap:
            part = part * (1 - (logits / softcap).square())
        if scale != 1:
            part = part * scale
        if grad_hidden is not None:
            grad_hidden[rows] = (part @ weight.to(dtype)).to(hidden.dtype)
        if grad_weight is not None:
            grad_weight.addmm_(part.T, hidden[rows].to(dtype))
        if grad_bias is not None:
            grad_bias += part.sum(0)
    return (
        grad_hidden,
        None if grad_weight is None else grad_weight.to(weight.dtype),
        None if grad_bias is None or bias is None else grad_bias.to(bias.dtype),
    )


def log_probs(hidden: Tensor, weight: Tensor, ids: Tensor, **head: Unpack[HeadArguments]) -> Tensor:
    """Log-probabilities at ids of each token's own: float32 ``[..., G]``, differentiable; 0 where an id is negative.

    For the arms that need the log-partition. It multiplies by the whole vocabulary, in chunks of tokens that bound
    memory, once forward and once more in the backward.
    """
    of = checked_head(hidden, weight, head)
    if of.lora is not None:
        raise ValueError("lora: log_probs reads all of a head's rows; give it the merged weight, W + scale * B A")
    at = of.ids(ids, "ids", kernel=False)
    real = slice(0, of.real_ids)
    values: Tensor = _LogProbs.apply(  # type: ignore[no-untyped-call]
        of.hidden, of.weight[real], None if of.bias is None else of.bias[real], at, of.logit_scale, of.softcap
    )
    return values.reshape((*of.lead, at.shape[1]))


class _FullKl(torch.autograd.Function):
    """A KL divergence over the whole vocabulary, chunk by chunk, with the gradient's factors computed again."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        teacher: _Teacher,
        reverse: bool,
        log_delta_p: float,
        scale: float,
        softcap: float,
    ) -> Tensor:
        ctx.save_for_backward(hidden, weight, bias)
        ctx.rest = (teacher, reverse, log_delta_p, scale, softcap)
        losses = []
        size = _composite.chunk_rows(4 * weight.shape[0])
        for first in range(0, hidden.shape[0], size):
            rows = slice(first, first + size)
            logits = _composite.logits_of(hidden[rows], weight, bias, scale, softcap)
            losses.append(_divergence(logits, teacher.logits(rows), reverse, log_delta_p)[0])
        return torch.cat(losses) if losses else hidden.new_zeros(0, dtype=_composite.sum_dtype(hidden, weight))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        teacher, reverse, log_delta_p, scale, softcap = ctx.rest

        def slopes(rows: slice, logits: Tensor) -> Tensor:
            return grad[rows, None] * _divergence(logits, teacher.logits(rows), reverse, log_delta_p)[1]

        with _composite.without_autocast(hidden):
            return (*dense_backward(ctx, hidden, weight, bias, scale, softcap, slopes), *(None,) * 5)


class _Teacher:
    """The teacher's head at the same states, without gradients."""

    def __init__(self, hidden: Tensor, weight: Tensor, arguments: HeadArguments, real_ids: int) -> None:
        if arguments.get("lora") is not None:
            raise ValueError("teacher_head: lora is not taken here; give the merged weight, W + scale * B A")
        given = arguments.get("real_ids")
        if given is not None and given < real_ids:
            raise ValueError(f"teacher_head: expected at least {real_ids} real ids, as the student's, got {given}")
        self._head = checked_head(hidden.detach(), weight.detach(), arguments)
        self._real = slice(0, real_ids)

    def logits(self, rows: slice) -> Tensor:
        of = self._head
        bias = None if of.bias is None else of.bias[self._real]
        return _composite.logits_of(of.hidden[rows], of.weight[self._real], bias, of.logit_scale, of.softcap)


def _divergence(logits: Tensor, teacher: Tensor, reverse: bool, log_delta_p: float) -> tuple[Tensor, Tensor]:
    """The divergence of each row and its gradient on the student's logits; ids at -inf in the student take no part."""
    here = logits > -math.inf
    log_p, log_t = logits.log_softmax(1), teacher.log_softmax(1)
    p = log_p.exp()
    if reverse:
        ratio = (log_p - log_t.where(teacher > -math.inf, log_delta_p)).where(here, 0)
        loss = (p * ratio).sum(1)
        return loss, p * (ratio - loss[:, None])
    p_teacher = log_t.exp().where(here, 0)
    loss = (p_teacher * (log_t - log_p)).where(p_teacher > 0, 0).sum(1)
    return loss, (p_teacher.sum(1, keepdim=True) * p - p_teacher).where(here, 0)


def full_kl(
    hidden: Tensor,
    weight: Tensor,
    teacher_hidden: Tensor,
    teacher_weight: Tensor,
    *,
    reverse: bool = True,
    delta_p: float = 1e-8,
    teacher_head: HeadArguments | None = None,
    **head: Unpack[HeadArguments],
) -> Tensor:
    """KL divergence over the whole vocabulary, KL(student || teacher), or else KL(teacher || student): ``[...]``.

    Both models' hidden states at the same tokens; their hidden sizes may differ, the first ``real_ids`` rows of both
    heads are the same tokens. Memory is bounded by chunks of tokens; each multiplies by both heads, forward and again
    in the backward. In reverse KL a teacher value of -inf counts as log ``delta_p``.
    """
    of = checked_head(hidden, weight, head)
    if of.lora is not None:
        raise ValueError("lora: full_kl reads all of a head's rows; give it the merged weight, W + scale * B A")
    if teacher_hidden.shape[:-1] != hidden.shape[:-1]:
        raise ValueError(
            f"teacher_hidden: expected states of shape {list(hidden.shape[:-1])}, got {list(teacher_hidden.shape[:-1])}"
        )
    if not 0 < delta_p <= 1:
        raise ValueError(f"delta_p: expected a number in (0, 1], got {delta_p}")
    if teacher_weight.shape[0] < of.real_ids:
        raise ValueError(f"teacher_weight: expected at least {of.real_ids} rows, got {teacher_weight.shape[0]}")
    teacher = _Teacher(teacher_hidden, teacher_weight, teacher_head or {}, of.real_ids)
    real = slice(0, of.real_ids)
    bias = None if of.bias is None else of.bias[real]
    loss: Tensor = _FullKl.apply(  # type: ignore[no-untyped-call]
        of.hidden, of.weight[real], bias, teacher, reverse, math.log(delta_p), of.logit_scale, of.softcap
    )
    return loss.reshape(of.lead)
