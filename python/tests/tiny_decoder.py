# SPDX-License-Identifier: Apache-2.0
"""A decoder small enough for a test, with the losses of the package inside its forward, and sequences to train it on.

Shapes: L tokens of a sequence, H hidden size, V rows of the head, K ids of a top-k.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from routeopd import (
    HeadMode,
    Options,
    Routes,
    TopK,
    head_mode,
    pair_log_odds,
    route,
    route_loss,
    sampled_rkl_loss,
    top_k,
    union_kl,
)

if TYPE_CHECKING:
    from collections.abc import Callable

HIDDEN, ROWS, K = 16, 97, 6  # an odd number of rows: two ranks hold different shares of the head
TEACHER_HIDDEN = 10


class Block(nn.Module):
    """One head of causal attention and a small MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.mix = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.up = nn.Linear(HIDDEN, 2 * HIDDEN)
        self.down = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, hidden: Tensor) -> Tensor:
        query, key, value = self.mix(self.norm(hidden)).chunk(3, -1)
        later = torch.ones(hidden.shape[0], hidden.shape[0], dtype=torch.bool, device=hidden.device).triu(1)
        scores = (query @ key.T / HIDDEN**0.5).masked_fill(later, -torch.inf)
        hidden = hidden + scores.softmax(-1) @ value
        return hidden + self.down(torch.nn.functional.silu(self.up(hidden)))


class Decoder(nn.Module):
    """Its forward answers a loss summed over one sequence, as a function of the LM head says."""

    def __init__(self, *, tied: bool = False, bias: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(ROWS, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(HIDDEN)
        self.lm_head = nn.Linear(HIDDEN, ROWS, bias=bias)
        if tied:
            self.lm_head.weight = self.embed.weight

    def hidden(self, tokens: Tensor) -> Tensor:
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.norm(hidden)

    def forward(self, sequence: Sequence, loss: str) -> Tensor:
        hidden = self.hidden(sequence.tokens)
        with head_mode(self.lm_head) as head:
            return LOSSES[loss](head, hidden, sequence)

    def loss_of(self, sequence: Sequence, loss: str) -> Tensor:
        """The same under another name, for ``register_fsdp_forward_method``."""
        return self.forward(sequence, loss)


def decoder(*, tied: bool = False, bias: bool = False) -> Decoder:
    """The same parameters at every call."""
    torch.manual_seed(0)
    return Decoder(tied=tied, bias=bias)


class Sequence:
    """One sequence, what the teacher says of it, and routes that were made before the update.

    Not a dataclass: FSDP2's mixed precision would round the float32 tensors of one that a forward is given.
    """

    def __init__(
        self, tokens: Tensor, teacher_hidden: Tensor, teacher_weight: Tensor, teacher_log_probs: Tensor, routes: Routes
    ) -> None:
        self.tokens = tokens  # int64 [L]
        self.teacher_hidden = teacher_hidden  # [L, TEACHER_HIDDEN]
        self.teacher_weight = teacher_weight  # [V, TEACHER_HIDDEN]
        self.teacher_log_probs = teacher_log_probs  # [L, 1], of tokens
        self.routes = routes

    def but(self, routes: Routes) -> Sequence:
        return Sequence(self.tokens, self.teacher_hidden, self.teacher_weight, self.teacher_log_probs, routes)


def sequence(length: int, seed: int) -> Sequence:
    draw = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(shape, generator=draw)
    tokens = torch.randint(0, ROWS, (length,), generator=draw)
    teacher_hidden, teacher_weight = normal(length, TEACHER_HIDDEN), normal(ROWS, TEACHER_HIDDEN)
    said = (teacher_hidden @ teacher_weight.T).log_softmax(-1).gather(-1, tokens[:, None])
    student_hidden, student_weight = normal(length, HIDDEN), normal(ROWS, HIDDEN)
    student = top_k(student_hidden, student_weight, K)
    teacher = top_k(teacher_hidden, teacher_weight, K, gather=student.ids)
    assert teacher.ids is not None
    student = student.gathered_at(student_hidden, student_weight, teacher.ids)
    routes = route(student, teacher, Options(m=2, k=K), seed=seed, with_support=True)
    return Sequence(tokens, teacher_hidden, teacher_weight, said, routes)


def routes_of(student: TopK, sequence: Sequence, teacher_ids: Tensor) -> Routes:
    """Routes from the student's top-k, which already has its values at the teacher's ids."""
    teacher = top_k(sequence.teacher_hidden, sequence.teacher_weight, K, gather=student.ids)
    assert teacher.ids is not None
    assert torch.equal(teacher.ids, teacher_ids)
    return route(student, teacher, Options(m=2, k=K), seed=7, with_support=True)


def student_routes(head: HeadMode, hidden: Tensor, sequence: Sequence) -> Routes:
    """Routes from this very forward's hidden states: one more call of the head, without gradients."""
    teacher_ids = top_k(sequence.teacher_hidden, sequence.teacher_weight, K).ids
    assert teacher_ids is not None
    with torch.no_grad():
        student = head.top_k(hidden, K, gather=teacher_ids)
    return routes_of(student, sequence, teacher_ids)


def pairs(head: HeadMode, hidden: Tensor, sequence: Sequence) -> Tensor:
    routes = sequence.routes
    return route_loss(head.pair_log_odds(hidden, routes.source, routes.destination), routes).sum()


def union(head: HeadMode, hidden: Tensor, sequence: Sequence) -> Tensor:
    support = sequence.routes.support
    assert support is not None
    return union_kl(head.gather_logits(hidden, support.ids), sequence.routes, reverse=True).sum()


def sampled(head: HeadMode, hidden: Tensor, sequence: Sequence) -> Tensor:
    return sampled_rkl_loss(head.log_probs(hidden, sequence.tokens[:, None]), sequence.teacher_log_probs).sum()


def fresh_pairs(head: HeadMode, hidden: Tensor, sequence: Sequence) -> Tensor:
    return pairs(head, hidden, sequence.but(student_routes(head, hidden, sequence)))


def fresh_union(head: HeadMode, hidden: Tensor, sequence: Sequence) -> Tensor:
    return union(head, hidden, sequence.but(student_routes(head, hidden, sequence)))


def two_calls(head: HeadMode, hidden: Tensor, sequence: Sequence) -> Tensor:
    """Two calls of the head with gradients in one forward."""
    return pairs(head, hidden, sequence) + 0.5 * sampled(head, hidden, sequence)


def _all_in_one(hidden: Tensor, weight: Tensor, sequence: Sequence, **arguments: Any) -> Tensor:
    teacher_ids = top_k(sequence.teacher_hidden, sequence.teacher_weight, K).ids
    assert teacher_ids is not None
    student = top_k(hidden, weight, K, gather=teacher_ids, **arguments)
    routes = routes_of(student, sequence, teacher_ids)
    odds = pair_log_odds(hidden, weight, routes.source, routes.destination, **arguments)
    return route_loss(odds, routes).sum()


def one_call(head: HeadMode, hidden: Tensor, sequence: Sequence) -> Tensor:
    """The student's top-k, routes and their loss in a single call of the head: one gathering of its weight."""
    loss: Tensor = head.call(_all_in_one, hidden, sequence)
    return loss


LOSSES: dict[str, Callable[[HeadMode, Tensor, Sequence], Tensor]] = {
    "pairs": pairs,
    "union": union,
    "log_probs": sampled,
    "fresh_pairs": fresh_pairs,
    "fresh_union": fresh_union,
    "two_calls": two_calls,
    "one_call": one_call,
}
