# SPDX-License-Identifier: Apache-2.0
"""A head with routes, and every function of the package on it: what the tests of compilation and training share.

Shapes: T tokens, H hidden size, V rows of the head, K ids of a top-k.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from routeopd import (
    LoRA,
    Options,
    exact_loss,
    full_kl,
    gather_logits,
    log_probs,
    pair_log_odds,
    route,
    route_loss,
    top_k,
    union_kl,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

T, H, V, K = 12, 16, 65, 8


class Case:
    """A head, a teacher's, and the routes between them."""

    def __init__(self, tokens: int = T, width: int = H, rows: int = V, seed: int = 0) -> None:
        draw = torch.Generator().manual_seed(seed)
        normal = lambda *shape: torch.randn(shape, generator=draw)
        self.hidden, self.weight = normal(tokens, width), normal(rows, width)
        self.teacher_hidden, self.teacher_weight = normal(tokens, width - 3), normal(rows, width - 3)
        student = top_k(self.hidden, self.weight, K)
        self.teacher = top_k(self.teacher_hidden, self.teacher_weight, K, gather=student.ids)
        assert student.ids is not None
        assert self.teacher.ids is not None
        self.student = student.gathered_at(self.hidden, self.weight, self.teacher.ids)
        self.routes = route(self.student, self.teacher, Options(m=2, k=K), with_support=True)
        assert self.routes.support is not None
        self.support_ids = self.routes.support.ids
        self.tokens = torch.randint(0, rows, (tokens, 1), generator=draw)
        assert int(self.routes.routed.sum()) > tokens // 2

    def leaves(self, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        return tuple(one.detach().to(dtype).clone().requires_grad_() for one in (self.hidden, self.weight))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def run_pairs(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    return pair_log_odds(hidden, weight, case.routes.source, case.routes.destination)


def run_gather(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    return gather_logits(hidden, weight, case.support_ids)


def run_log_probs(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    return log_probs(hidden, weight, case.tokens)


def run_route_loss(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    return route_loss(run_pairs(case, hidden, weight), case.routes)


def run_union_rkl(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    return union_kl(run_gather(case, hidden, weight), case.routes, reverse=True)


def run_union_fkl(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    return union_kl(run_gather(case, hidden, weight), case.routes, reverse=False)


def run_exact(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    return exact_loss(run_gather(case, hidden, weight), case.routes)


def run_full_kl(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    return full_kl(hidden, weight, case.teacher_hidden, case.teacher_weight)


def run_lora(case: Case, hidden: Tensor, weight: Tensor) -> Tensor:
    low = LoRA(case.weight[:4].clone(), case.weight[:, :4].clone(), 0.5)
    return pair_log_odds(hidden, weight, case.routes.source, case.routes.destination, lora=low)


FUNCTIONS = [
    run_pairs,
    run_gather,
    run_log_probs,
    run_route_loss,
    run_union_rkl,
    run_union_fkl,
    run_exact,
    run_full_kl,
    run_lora,
]
each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__.removeprefix("run_"))


def gradients(value: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    """Of a sum with unequal coefficients, so that no gradient cancels."""
    coefficients = torch.linspace(0.5, 1.5, value.numel()).reshape(value.shape)
    return torch.autograd.grad((value * coefficients).sum(), leaves)


def assert_same(found: Any, expected: Any) -> None:
    """To the bit, dtype included."""
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other), f"apart by {(one - other).abs().max()}"
        assert other.abs().max() > 0
