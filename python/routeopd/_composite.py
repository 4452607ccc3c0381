# SPDX-License-Identifier: Apache-2.0
"""The operators in torch operations, for tensors that are not on the CPU, in chunks that bound their memory.

Also the plain specification of the C++ kernels: float64 tensors are computed in float64 here, all others are
summed in float32.

Shapes: T tokens, M pairs per token, G ids per token, H hidden size, V rows of the weight, R real ids, C tokens of a
chunk, W columns of the support.
"""

from __future__ import annotations

import json
import math
from typing import Any

import torch
from torch import Tensor

# What gathered rows, or a chunk of logits, may take.
CHUNK_BYTES = 64 << 20


def sum_dtype(*tensors: Tensor) -> torch.dtype:
    """float64 where an argument is, else float32."""
    return torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32


def chunk_rows(values_per_token: int) -> int:
    """Tokens whose values fit into a chunk."""
    return max(1, CHUNK_BYTES // (4 * max(1, values_per_token)))


def pair_log_odds(hidden: Tensor, weight: Tensor, source: Tensor, destination: Tensor) -> Tensor:
    """z_b - z_a = h . (W_b - W_a); 0 where the source is negative."""
    dtype = sum_dtype(hidden, weight)
    chunks = []
    size = chunk_rows(2 * source.shape[1] * hidden.shape[1])
    for first in range(0, hidden.shape[0], size):
        rows = slice(first, first + size)
        a, b = source[rows], destination[rows]
        present = a >= 0
        difference = weight[b.where(present, 0).long()].to(dtype) - weight[a.where(present, 0).long()].to(dtype)
        # Not a matrix product: those may be told to round their inputs (TF32).
        odds = (difference * hidden[rows, None].to(dtype)).sum(-1)
        chunks.append(odds.where(present, 0))
    return torch.cat(chunks) if chunks else hidden.new_zeros(source.shape, dtype=dtype)


def gather_logits(hidden: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """z_i = h . W_i; 0 where the id is negative."""
    dtype = sum_dtype(hidden, weight)
    chunks = []
    size = chunk_rows(ids.shape[1] * hidden.shape[1])
    for first in range(0, hidden.shape[0], size):
        rows = slice(first, first + size)
        present = ids[rows] >= 0
        gathered = weight[ids[rows].where(present, 0).long()].to(dtype)
        chunks.append((gathered * hidden[rows, None].to(dtype)).sum(-1).where(present, 0))
    return torch.cat(chunks) if chunks else hidden.new_zeros(ids.shape, dtype=dtype)


def _visit_gradients(
    coefficients: Tensor, hidden: Tensor, weight: Tensor, ids: Tensor, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor]:
    """The sums over visits: to each token coefficient * W_id, and to each row coefficient * h; id -1 is none."""
    dtype = sum_dtype(hidden, weight)
    tokens, width = hidden.shape
    grad_hidden = hidden.new_zeros((tokens if of_hidden else 0, width), dtype=dtype)
    # Rows are summed in float32, on the rows that are touched alone, and rounded once.
    grad_weight = weight.new_zeros((weight.shape[0] if of_weight else 0, width))
    # A visit that carries nothing reads nothing: 0 times a NaN elsewhere would not be 0.
    present = (ids >= 0) & (coefficients != 0)
    coefficients = coefficients.to(dtype)
    safe = ids.where(present, 0).long()
    if tokens == 0:
        return grad_hidden, grad_weight
    exact = weight.dtype == dtype
    touched, place = (safe, safe) if exact else torch.unique(safe, return_inverse=True)
    sums = grad_weight if exact else weight.new_zeros((touched.numel() if of_weight else 0, width), dtype=dtype)
    size = chunk_rows(ids.shape[1] * width)
    for first in range(0, tokens, size):
        rows = slice(first, first + size)
        here, factors = present[rows].unsqueeze(2), coefficients[rows].unsqueeze(2)
        if of_hidden:
            grad_hidden[rows] = (factors * weight[safe[rows]].to(dtype)).where(here, 0).sum(1)
        if of_weight:
            parts = (factors * hidden[rows].to(dtype).unsqueeze(1)).where(here, 0)
            sums.index_add_(0, place[rows].flatten(), parts.flatten(0, 1))
    if of_weight and not exact:
        grad_weight[touched] = sums.to(weight.dtype)
    return grad_hidden, grad_weight


def pair_log_odds_backward(
    grad: Tensor, hidden: Tensor, weight: Tensor, source: Tensor, destination: Tensor, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor]:
    """A pair visits its source with -g and its destination with g."""
    ids = torch.cat([source, destination.where(source >= 0, -1)], 1)
    return _visit_gradients(torch.cat([-grad, grad], 1), hidden, weight, ids, of_hidden, of_weight)


def gather_logits_backward(
    grad: Tensor, hidden: Tensor, weight: Tensor, ids: Tensor, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor]:
    """An id is visited with its g."""
    return _visit_gradients(grad, hidden, weight, ids, of_hidden, of_weight)


def logits_of(hidden: Tensor, weight: Tensor, bias: Tensor | None, logit_scale: float, softcap: float) -> Tensor:
    """Logits of a chunk over all rows of the weight, not rounded to 16 bits: cap(scale * (h W^T + bias))."""
    dtype = sum_dtype(hidden, weight)
    with without_autocast(hidden):
        if hidden.is_cuda and hidden.dtype == weight.dtype != dtype:  # tensor cores, with their sums as they are
            logits = torch.mm(hidden, weight.T, out_dtype=dtype)
        else:
            logits = hidden.to(dtype) @ weight.to(dtype).T
        return transformed(logits, bias, logit_scale, softcap)


def without_autocast(tensor: Tensor) -> torch.autocast:
    """Autocast would round what is summed here to 16 bits, forward and backward."""
    return torch.autocast(tensor.device.type, enabled=False)


def transformed(logits: Tensor, bias: Tensor | None, logit_scale: float, softcap: float) -> Tensor:
    """cap(scale * (logits + bias)); 0 is no cap."""
    if bias is not None:
        logits = logits + bias.to(logits.dtype)
    if logit_scale != 1:
        logits = logits * logit_scale
    return logits if softcap == 0 else softcap * torch.tanh(logits / softcap)


def _best(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row with their columns (int32): values descending, equal ones by ascending column.

    topk promises no order of equal values, so it is given keys of which no two are equal: the value's bits, turned
    so that integers have the order of the floats, over the complement of the column.
    """
    k = min(k, logits.shape[1])
    if logits.dtype == torch.float64:
        values, columns = logits.sort(dim=1, descending=True, stable=True)
        return values[:, :k], columns[:, :k].int()
    last = (1 << 31) - 1
    bits = (logits + 0.0).view(torch.int32)  # -0 becomes +0, its equal
    ordered = bits ^ ((bits >> 31) & last)
    keys = (ordered.long() << 31) + (last - torch.arange(logits.shape[1], device=logits.device))
    columns = last - (keys.topk(k, 1).values & last)
    return logits.gather(1, columns), columns.int()


def top_k(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    gather: Tensor | None,
    k: int,
    real_ids: int,
    logit_scale: float,
    softcap: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The k largest logits of each token, equal ones by ascending id; log-sum-exp; logits at given ids.

    Tiles of the vocabulary inside chunks of tokens: neither [T, V] nor a widened copy of the weight is held.
    """
    dtype = sum_dtype(hidden, weight)
    k = min(k, real_ids)
    tokens, width = hidden.shape
    tile = max(k, min(real_ids, CHUNK_BYTES // (4 * width)))
    size = chunk_rows(3 * tile)  # the logits, and keys of twice their size
    ids_out = hidden.new_empty((tokens, k), dtype=torch.int32)
    logits_out = hidden.new_empty((tokens, k), dtype=dtype)
    sum_out = hidden.new_empty((tokens,), dtype=dtype)
    gathered_out = hidden.new_full((tokens, 0 if gather is None else gather.shape[1]), math.nan, dtype=dtype)
    for first in range(0, tokens, size):
        rows = slice(first, first + size)
        best, best_ids, total = (torch.empty(0) for _ in range(3))
        for start in range(0, real_ids, tile):
            columns = slice(start, min(start + tile, real_ids))
            logits = logits_of(
                hidden[rows], weight[columns], None if bias is None else bias[columns], logit_scale, softcap
            )
            here, at = _best(logits, k)
            at += start
            part = logits.logsumexp(1)
            if start == 0:
                best, best_ids, total = here, at, part
            else:
                # The lower ids come first, and a stable sort keeps them first among equals.
                both, order = torch.cat([best, here], 1).sort(dim=1, descending=True, stable=True)
                best, best_ids = both[:, :k], torch.cat([best_ids, at], 1).gather(1, order[:, :k])
                total = torch.logaddexp(total, part)
            if gather is not None:
                wanted = gather[rows].long() - start
                inside = (wanted >= 0) & (wanted < logits.shape[1])
                found = logits.gather(1, wanted.where(inside, 0))
                gathered_out[rows] = found.where(inside, gathered_out[rows])
        ids_out[rows], logits_out[rows], sum_out[rows] = best_ids, best, total
    return ids_out, logits_out, sum_out, gathered_out


def support_loss(
    logits: Tensor, ids: Tensor, old: Tensor, values: Tensor, weight: Tensor, options: str
) -> tuple[Tensor, Tensor]:
    """The loss of each state on its support, and the gradient on its logits, by autograd of the plain formula."""
    settings = json.loads(options)
    losses, slopes = [], []
    size = chunk_rows(4 * ids.shape[1] ** 2)
    for first in range(0, logits.shape[0], size):
        rows = slice(first, first + size)
        with torch.enable_grad():
            now = logits[rows].detach().requires_grad_()
            loss = _support_formula(now, ids[rows] >= 0, old[rows], values[:, rows], weight[rows], settings)
            (slope,) = torch.autograd.grad(loss.sum(), now)
        losses.append(loss.detach())
        slopes.append(slope)
    if not losses:
        return logits.new_zeros(0), torch.zeros_like(logits)
    return torch.cat(losses), torch.cat(slopes)


def _support_formula(
    now: Tensor, present: Tensor, old: Tensor, values: Tensor, weight: Tensor, settings: dict[str, Any]
) -> Tensor:
    _, log_p_teacher, p_student, p_teacher, _, bounded = values
    if settings["arm"] in ("union_rkl", "union_fkl"):
        log_p = now.masked_fill(~present, -math.inf).log_softmax(1).masked_fill(~present, 0)
        if settings["arm"] == "union_rkl":
            floored = log_p_teacher.where(log_p_teacher > -math.inf, math.log(settings["delta_p"]))
            terms = log_p.exp() * (log_p - floored)
            return torch.where(present, terms, 0).sum(1)
        terms = p_teacher * (log_p_teacher.where(p_teacher > 0, 0) - log_p)
        return torch.where(present, terms, 0).sum(1)
    # w E[h(u_b - u_a)], a ~ q-, b ~ q+: every pair of the coupling.
    kappa = settings["kappa"]
    excess, deficit = (p_student - p_teacher).clamp(min=0), (p_teacher - p_student).clamp(min=0)
    q_minus = excess / excess.sum(1, keepdim=True).clamp(min=1e-38)
    q_plus = deficit / deficit.sum(1, keepdim=True).clamp(min=1e-38)
    u = now - old - bounded
    residual = u[:, None, :] - u[:, :, None]
    size = residual.abs()
    huber = torch.where(size <= kappa, residual.square() / 2, kappa * (size - kappa / 2))
    expected: Tensor = (q_minus[:, :, None] * q_plus[:, None, :] * huber).sum((1, 2))
    return weight * expected
