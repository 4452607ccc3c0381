"""The sparse heads as Triton kernels, for CUDA tensors: the operators of ``_composite``, under its signatures.

These kernels have been run in Triton's interpreter only, on CPU tensors, and compiled for NVIDIA's capabilities 8.0
and 9.0. They have never been run on a GPU, and their block sizes have not been tuned.

They read the rows that are asked for and hold nothing of size [T, M, H]. Sums are float32. No atomics: the same
arguments give the same bits. Nothing waits for the device, so that a graph can be captured. An id that is not a row
of the weight makes its logit NaN and no gradient: nothing is read or written outside of the tensors.

What they do not take is computed by ``_composite``: float64, columns that do not lie side by side, nothing to
compute, a device that Triton does not support, or no Triton at all, which is imported at the first call.

Shapes: T tokens, M pairs per token, G ids per token, N visits of rows per token (2 M, or G), H hidden size, V rows
of the weight.
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from . import _composite

if TYPE_CHECKING:  # _kernels() imports it
    import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: TC004

# Block sizes: columns of H that a program holds, and visits that it reads at once. Powers of 2.
COLUMNS = 512
VISITS = 4

_Kernels: TypeAlias = tuple[Any, Any, Any]
_FLOATS = frozenset({torch.float32, torch.bfloat16, torch.float16})
_MOST_PROGRAMS = (1 << 31) - 1  # on a grid's first axis, and what int32 can number
_MOST_BLOCKS = (1 << 16) - 1  # on its second


# ---- kernels ----------------------------------------------------------------------------------------------------
#
# Tensors come as pointers. A row's number is int64 before it meets a stride: V * H may pass 2^31.


def _dots(
    hidden: tl.tensor,  # [T, H]
    weight: tl.tensor,  # [V, H]
    source: tl.tensor,  # [T, M]; not read unless PAIRS
    destination: tl.tensor,  # [T, M]
    out: tl.tensor,  # float32 [T, M]
    hidden_stride: tl.tensor,
    weight_stride: tl.tensor,
    rows: tl.tensor,  # V
    per_token: tl.tensor,  # M
    width: tl.tensor,  # H
    PAIRS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One program for each token and id: h . W_b, or with PAIRS h . (W_b - W_a)."""
    place = tl.program_id(0)
    token = (place // per_token).to(tl.int64)
    b = tl.load(destination + place).to(tl.int64)
    a = tl.load(source + place).to(tl.int64) if PAIRS else b
    present = a >= 0
    known = present & (a < rows) & (b >= 0) & (b < rows)
    width = tl.where(known, width, 0)
    sums = tl.zeros([BLOCK], tl.float32)
    for first in range(0, width, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        inside = columns < width
        row = tl.load(weight + b * weight_stride + columns, mask=inside, other=0.0).to(tl.float32)
        if PAIRS:
            row -= tl.load(weight + a * weight_stride + columns, mask=inside, other=0.0).to(tl.float32)
        sums += row * tl.load(hidden + token * hidden_stride + columns, mask=inside, other=0.0).to(tl.float32)
    missing = tl.where(present, float("nan"), 0.0)
    tl.store(out + place, tl.where(known, tl.sum(sums, 0), missing))


def _hidden_gradient(
    weight: tl.tensor,  # [V, H]
    ids: tl.tensor,  # [T, N]
    coefficients: tl.tensor,  # float32 [T, N]
    out: tl.tensor,  # float32 [T, H]
    weight_stride: tl.tensor,
    rows: tl.tensor,  # V
    per_token: tl.tensor,  # N
    width: tl.tensor,  # H
    BATCH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One program for each token and block of columns: the sum of coefficient * W_id over the token's visits."""
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    sums = tl.zeros([BATCH, BLOCK], tl.float32)
    for first in range(0, per_token, BATCH):
        visits = first + tl.arange(0, BATCH)
        at = token * per_token + visits
        row = tl.load(ids + at, mask=visits < per_token, other=-1).to(tl.int64)
        known = (row >= 0) & (row < rows)
        coefficient = tl.load(coefficients + at, mask=known, other=0.0)
        mask = known[:, None] & inside[None, :]
        tile = tl.load(weight + row[:, None] * weight_stride + columns[None, :], mask=mask, other=0.0)
        sums += coefficient[:, None] * tile.to(tl.float32)
    tl.store(out + token * width + columns, tl.sum(sums, 0), mask=inside)


def _weight_gradient(
    hidden: tl.tensor,  # [T, H]
    sorted_ids: tl.tensor,  # [T * N], ascending
    ends: tl.tensor,  # int32 [T * N]: where the run of equal ids ends
    order: tl.tensor,  # int64 [T * N]: the visit that each of the sorted ids was, ascending in a run
    coefficients: tl.tensor,  # float32 [T, N]
    out: tl.tensor,  # [V, H], zeros, in the weight's type
    hidden_stride: tl.tensor,
    rows: tl.tensor,  # V
    per_token: tl.tensor,  # N
    width: tl.tensor,  # H
    BATCH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One program for each visit and block of columns; the first of a row's run sums the run, the others nothing.

    How many rows are touched is not known without waiting for the device, hence the idle programs. A row that is
    visited very often is one long loop.
    """
    place = tl.program_id(0)
    row = tl.load(sorted_ids + place).to(tl.int64)
    before = tl.load(sorted_ids + place - 1, mask=place > 0, other=-1)
    leads = (row >= 0) & (row < rows) & (row != before)
    end = tl.where(leads, tl.load(ends + place), place)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < tl.where(leads, width, 0)
    sums = tl.zeros([BATCH, BLOCK], tl.float32)
    for first in range(place, end, BATCH):
        at = first + tl.arange(0, BATCH)
        visit = tl.load(order + at, mask=at < end, other=0)
        coefficient = tl.load(coefficients + visit, mask=at < end, other=0.0)
        token = visit // per_token
        mask = (at < end)[:, None] & inside[None, :]
        tile = tl.load(hidden + token[:, None] * hidden_stride + columns[None, :], mask=mask, other=0.0)
        sums += coefficient[:, None] * tile.to(tl.float32)
    total = tl.sum(sums, 0).to(out.dtype.element_ty)
    tl.store(out + row * width + columns, total, mask=inside)


@functools.cache
def _kernels() -> _Kernels | None:
    """The kernels above for Triton, or None without it."""
    try:
        triton = importlib.import_module("triton")
        globals()["tl"] = importlib.import_module("triton.language")  # where the kernels' code looks for it
    except ImportError:
        return None
    return triton.jit(_dots), triton.jit(_hidden_gradient), triton.jit(_weight_gradient)


@functools.cache
def _runs_on(device: torch.device) -> bool:
    """Whether Triton supports the device; the CPU is its interpreter's."""
    if device.type != "cuda":
        return os.environ.get("TRITON_INTERPRET") == "1"
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)


def _kernels_for(hidden: Tensor, weight: Tensor, *lists: Tensor) -> _Kernels | None:
    """The kernels, if they take these arguments; ``lists`` have a row for each token, all of the same shape."""
    width = hidden.shape[1]
    takes = (
        {hidden.dtype, weight.dtype} <= _FLOATS
        and weight.shape[1] == width
        and (width == 1 or (hidden.stride(1) == 1 and weight.stride(1) == 1))
        and all(one.shape == lists[0].shape and one.shape[0] == hidden.shape[0] for one in lists)
        and 0 < lists[0].numel() <= _MOST_PROGRAMS // 2  # a pair is two visits
        and 0 < width <= _MOST_BLOCKS * COLUMNS
        and _runs_on(hidden.device)
    )
    return _kernels() if takes else None


# ---- operators --------------------------------------------------------------------------------------------------


def pair_log_odds(hidden: Tensor, weight: Tensor, source: Tensor, destination: Tensor) -> Tensor:
    """z_b - z_a = h . (W_b - W_a), the difference first; 0 where the source is negative."""
    kernels = _kernels_for(hidden, weight, source, destination)
    if kernels is None:
        return _composite.pair_log_odds(hidden, weight, source, destination)
    return _logits(kernels, hidden, weight, source, destination)


def gather_logits(hidden: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """z_i = h . W_i; 0 where the id is negative."""
    kernels = _kernels_for(hidden, weight, ids)
    if kernels is None:
        return _composite.gather_logits(hidden, weight, ids)
    return _logits(kernels, hidden, weight, None, ids)


def _logits(kernels: _Kernels, hidden: Tensor, weight: Tensor, source: Tensor | None, destination: Tensor) -> Tensor:
    b = destination.contiguous()
    a = b if source is None else source.contiguous()
    out = torch.empty(b.shape, dtype=torch.float32, device=hidden.device)
    with torch.cuda.device_of(hidden):
        kernels[0][(b.numel(),)](
            hidden,
            weight,
            a,
            b,
            out,
            hidden.stride(0),
            weight.stride(0),
            weight.shape[0],
            b.shape[1],
            hidden.shape[1],
            PAIRS=source is not None,
            BLOCK=COLUMNS,
            enable_fp_fusion=True,
        )
    return out


def pair_log_odds_backward(
    grad: Tensor, hidden: Tensor, weight: Tensor, source: Tensor, destination: Tensor, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor]:
    """A pair visits its source with -g and its destination with g."""
    kernels = _kernels_for(hidden, weight, source, destination, grad)
    if kernels is None:
        return _composite.pair_log_odds_backward(grad, hidden, weight, source, destination, of_hidden, of_weight)
    ids = torch.cat([source, destination.where(source >= 0, -1)], 1)
    return _visit_gradients(kernels, torch.cat([-grad, grad], 1), hidden, weight, ids, of_hidden, of_weight)


def gather_logits_backward(
    grad: Tensor, hidden: Tensor, weight: Tensor, ids: Tensor, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor]:
    """An id is visited with its g."""
    kernels = _kernels_for(hidden, weight, ids, grad)
    if kernels is None:
        return _composite.gather_logits_backward(grad, hidden, weight, ids, of_hidden, of_weight)
    return _visit_gradients(kernels, grad, hidden, weight, ids.contiguous(), of_hidden, of_weight)


def _visit_gradients(
    kernels: _Kernels, grad: Tensor, hidden: Tensor, weight: Tensor, ids: Tensor, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor]:
    """The sums over visits: to each token coefficient * W_id, and to each row coefficient * h; id -1 is none."""
    (tokens, width), rows, per_token = hidden.shape, weight.shape[0], ids.shape[1]
    coefficients = grad.float().contiguous()
    grad_hidden = torch.empty((tokens if of_hidden else 0, width), dtype=torch.float32, device=hidden.device)
    grad_weight = weight.new_zeros((rows if of_weight else 0, width))
    blocks = -(-width // COLUMNS)
    with torch.cuda.device_of(hidden):
        if of_hidden:
            kernels[1][tokens, blocks](
                weight,
                ids,
                coefficients,
                grad_hidden,
                weight.stride(0),
                rows,
                per_token,
                width,
                BATCH=VISITS,
                BLOCK=COLUMNS,
                enable_fp_fusion=True,
            )
        if of_weight:
            sorted_ids, order = ids.flatten().sort(stable=True)  # a row's visits stay in order
            ends = torch.searchsorted(sorted_ids, sorted_ids, right=True, out_int32=True)
            kernels[2][ids.numel(), blocks](
                hidden,
                sorted_ids,
                ends,
                order,
                coefficients,
                grad_weight,
                hidden.stride(0),
                rows,
                per_token,
                width,
                BATCH=VISITS,
                BLOCK=COLUMNS,
                enable_fp_fusion=True,
            )
    return grad_hidden, grad_weight
