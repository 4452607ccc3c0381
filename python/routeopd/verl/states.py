# SPDX-License-Identifier: Apache-2.0
"""The response states of a packed batch: which they are, their addresses, and what the teacher said of them.

verl packs the tokens of all sequences one after another. The state of row i is the prefix that ends with token i, its
taken token is that of row i + 1; the teacher's answers have the same rows. A response of R tokens has R states, from
the last row of its prompt to the last but one of its own.

Shapes: B sequences, L packed rows, N response states, J values of the teacher per state.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import TopK

if TYPE_CHECKING:
    from .objective import Objective

ADDRESS = "routeopd_address"
AT_STUDENT = "routeopd_at_student"
SENTINEL = -9999.0  # how vLLM writes minus infinity


class States:
    """The states of a micro-batch that count. Not a dataclass: sharded modules look into those, and cast them."""

    def __init__(self, rows: Tensor, address: Tensor, taken: Tensor) -> None:
        self.rows = rows  # [N], of L
        self.address = address  # [N, 4]
        self.taken = taken  # int32 [N]


@dataclasses.dataclass(frozen=True)
class Places:
    """All response states of a batch, in its order."""

    rows: Tensor  # [N], of L
    sequence: Tensor  # [N], of B
    position: Tensor  # [N], in the response
    entry: Tensor  # [N], of the flat response mask


def places_of(data: Any) -> Places:
    """Where the response states of a batch are."""
    offsets = data["input_ids"].offsets().long()
    responses, mask = data["responses"], data["response_mask"]
    if responses.is_nested:
        lengths = responses.offsets().diff().long()
    else:
        lengths = data["attention_mask"][:, data["prompts"].shape[1] :].sum(1).long()
    lengths = lengths.to(offsets.device)
    sequence = torch.repeat_interleave(torch.arange(len(lengths), device=offsets.device), lengths)
    starts = lengths.cumsum(0) - lengths
    position = torch.arange(len(sequence), device=offsets.device) - starts[sequence]
    rows = (offsets[1:] - lengths - 1)[sequence] + position
    if mask.is_nested:
        entry = mask.offsets().long().to(offsets.device)[:-1][sequence] + position
    else:
        entry = sequence * mask.shape[1] + position
    return Places(rows, sequence, position, entry)


def flat_mask(mask: Tensor) -> Tensor:
    """A response mask, nested or [B, R], as one row."""
    return mask.values() if mask.is_nested else mask.reshape(-1)


def shaped_mask(entries: Tensor, mask: Any) -> Tensor:
    """One row of entries in the shape of a response mask."""
    return torch.nested.nested_tensor_from_jagged(entries, mask.offsets()) if mask.is_nested else entries.view_as(mask)


def states_of(data: Any, steps: Tensor) -> States:
    """The states that the response mask counts."""
    places = places_of(data)
    counted = flat_mask(data["response_mask"])[places.entry].bool()
    kept = Places(places.rows[counted], places.sequence[counted], places.position[counted], places.entry[counted])
    ids = data["input_ids"].values()
    return States(kept.rows, addresses_of(data, kept, steps), ids[kept.rows + 1].int())


def only_answered(data: Any, objective: Objective) -> tuple[Any, int]:
    """The batch without the states at which the teacher has no usable answer, and their number.

    They leave the masks before verl counts the tokens of the whole batch, so that its mean is over the rest.
    """
    for name in ("teacher_ids", "teacher_logprobs"):
        if name not in data.keys():  # noqa: SIM118
            raise ValueError(f"{name}: the batch has none; expected distillation.enabled and a teacher's server")
    values = data["teacher_logprobs"].values()
    width = 1 if objective.sampled else objective.topk
    if values.shape[-1] != width:
        raise ValueError(f"teacher_logprobs: expected {width} values per state, got {values.shape[-1]}")
    answered = ~(values.isnan() | (values == math.inf)).any(-1) & (values > SENTINEL).any(-1)
    places = places_of(data)
    mask = data["response_mask"]
    counted = flat_mask(mask)
    bad = places.entry[counted[places.entry].bool() & ~answered[places.rows]]
    if len(bad) == 0:
        return data, 0
    counted = counted.clone()
    counted[bad] = 0
    data = data.copy()
    data["response_mask"] = data["loss_mask"] = shaped_mask(counted, mask)
    return data, len(bad)


def teacher_of(data: Any, states: States, objective: Objective, real_ids: int) -> TopK:
    """All that the teacher's server sent at these states, best first, equal values by ascending id."""
    ids = data["teacher_ids"].values()[states.rows].long()
    values = data["teacher_logprobs"].values()[states.rows].float()
    known = (ids >= 0) & (ids < real_ids)
    ids = ids.where(known, -1)
    if values.shape[-1] > objective.k:
        ids, order = ids.sort(-1)
        values, known = values.gather(-1, order), known.gather(-1, order)
        values, order = values.where(known, -math.inf).sort(dim=-1, descending=True, stable=True)
        ids, known = ids.gather(-1, order), known.gather(-1, order)
    return TopK.from_log_probs(ids, values.where(known, math.nan), real_ids=real_ids, sentinel=SENTINEL)


def addresses_of(data: Any, places: Places, steps: Tensor) -> Tensor:
    """Step, prompt, response and position of each state, int64 [N, 4].

    Given in the batch as ``routeopd_address``, [B, 3] or [B, R, 4]. Else 32 bits of all the sequence's tokens stand for
    prompt and response: the same in every micro-batch and on every rank.
    """
    if ADDRESS in data.keys():  # noqa: SIM118
        given: Tensor = data[ADDRESS].to(places.rows.device).long()
        if given.dim() == 3 and given.shape[-1] == 4:
            return given[places.sequence, places.position]
        if given.dim() == 2 and given.shape[-1] == 3:
            return torch.cat([given[places.sequence], places.position[:, None]], -1)
        raise ValueError(f"{ADDRESS}: expected shape [sequences, 3] or [sequences, tokens, 4], got {list(given.shape)}")
    marks = _marks(data["input_ids"])[places.sequence]
    return torch.stack([steps[places.sequence], marks >> 8, marks & 0xFF, places.position], -1)


def _mixed(x: Tensor) -> Tensor:
    """Bits spread over the word; products wrap."""
    x = (x ^ ((x >> 31) & 0x1FFFFFFFF)) * 0x4BE98134A5976FD3
    x = (x ^ ((x >> 29) & 0x7FFFFFFFF)) * 0x3BC0993A5AD19A13
    return x ^ ((x >> 32) & 0xFFFFFFFF)


def _marks(input_ids: Any) -> Tensor:
    """32 bits that depend on all tokens of a sequence and their order, [B]."""
    offsets, ids = input_ids.offsets().long(), input_ids.values().long()
    lengths = offsets.diff()
    sequence = torch.repeat_interleave(torch.arange(len(lengths), device=ids.device), lengths)
    position = torch.arange(len(ids), device=ids.device) - offsets[:-1][sequence]
    sums = torch.zeros_like(lengths).index_add_(0, sequence, _mixed((position << 32) + ids + 1))
    return _mixed(sums + lengths) & 0xFFFFFFFF
