# SPDX-License-Identifier: Apache-2.0
"""Log-odds of pairs and logits at given ids, without the logits of the whole vocabulary.

The log-odds of a pair of tokens need no log-partition, log pi(b) - log pi(a) = z_b - z_a = h . (W_b - W_a), so a
routed loss reads 2 m rows of the head per token where a KL divergence multiplies by all of them.

Hidden states are ``[..., H]`` and the head's weight ``[V, H]``, each in float32, bfloat16 or float16 (the torch
operations also in float64); sums are made in float32. Leading dimensions of ids are those of the hidden states.

Shapes: M pairs per token, G ids per token, H hidden size, V rows of the weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ._head import can_look, checked_head, shape_text
from ._library import call, ops

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Unpack

    from ._head import HeadArguments

__all__ = ["gather_logits", "pair_log_odds"]


def pair_log_odds(
    hidden: Tensor, weight: Tensor, source: Tensor, destination: Tensor, **head: Unpack[HeadArguments]
) -> Tensor:
    """Log-odds of pairs, log pi(destination) - log pi(source): float32 ``[..., M]``, differentiable.

    A negative source means "no pair": its destination is ignored, its log-odds are 0 and it has no gradient.
    """
    of = checked_head(hidden, weight, head)
    a = of.ids(source, "source")
    alike = isinstance(destination, torch.Tensor) and destination.shape == source.shape
    if alike and destination.device == source.device and not of.kernel_checks(destination):
        destination = destination.where(source >= 0, 0)
    b = of.ids(destination, "destination")
    if a.shape != b.shape:
        raise ValueError(
            f"destination: expected shape {shape_text(source.shape)}, as source, got {shape_text(destination.shape)}"
        )
    if (of.softcap or a.device.type != "cpu") and a.numel() and can_look(a) and bool(((b < 0) & (a >= 0)).any()):
        raise ValueError("destination: expected ids from 0 wherever a source is given")
    if of.softcap:
        ends = gather_logits(hidden, weight, torch.cat([source, destination], -1), **head)
        odds = ends[..., a.shape[1] :] - ends[..., : a.shape[1]]
        return odds.where(source >= 0, 0)
    odds = call(ops.pair_log_odds, of.hidden, of.weight, a, b)
    if of.bias is not None:
        difference = of.bias.float()[b.clamp(min=0).long()] - of.bias.float()[a.clamp(min=0).long()]
        odds = odds + difference.where(a >= 0, 0)
    if (part := of.projected()) is not None:
        odds = odds + part[2] * call(ops.pair_log_odds, part[0], part[1], a, b)
    return of.capped(odds).reshape((*of.lead, a.shape[1]))


def gather_logits(hidden: Tensor, weight: Tensor, ids: Tensor, **head: Unpack[HeadArguments]) -> Tensor:
    """Logits at ids of each token's own: float32 ``[..., G]``, differentiable; 0 where an id is negative."""
    of = checked_head(hidden, weight, head)
    at = of.ids(ids, "ids")
    logits = call(ops.gather_logits, of.hidden, of.weight, at)
    if of.bias is not None:
        logits = logits + of.bias.float()[at.clamp(min=0).long()].where(at >= 0, 0)
    if (part := of.projected()) is not None:
        logits = logits + part[2] * call(ops.gather_logits, part[0], part[1], at)
    return of.capped(logits).reshape((*of.lead, at.shape[1]))
