# SPDX-License-Identifier: Apache-2.0
"""The operators under torch.compile, and what torch.library.opcheck says of them.

Shapes: K ids of a top-k, V rows of the head.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
import torch
from training_case import Case, K, T, V, assert_same, each_function, gradients, run_gather, run_pairs

from routeopd import (
    Options,
    TopK,
    gather_logits,
    pair_log_odds,
)
from routeopd._library import ops

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = ["training_case"]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@each_function
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_in_one_graph(case: Case, function: Any) -> None:
    leaves = case.leaves()
    expected = function(case, *leaves)
    compiled = torch.compile(lambda *leaves: function(case, *leaves), fullgraph=True, backend="aot_eager")
    found = compiled(*leaves)
    assert_same((found, *gradients(found, *leaves)), (expected, *gradients(expected, *leaves)))


@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler, c++")
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_with_inductor(case: Case) -> None:
    leaves = case.leaves()
    both = lambda *leaves: torch.cat([run_pairs(case, *leaves), run_gather(case, *leaves)], 1)
    expected = both(*leaves)
    found = torch.compile(both, fullgraph=True, backend="inductor")(*leaves)
    assert_same((found, *gradients(found, *leaves)), (expected, *gradients(expected, *leaves)))


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_once_for_any_number_of_tokens(case: Case) -> None:
    graphs = []

    def backend(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(pair_log_odds, fullgraph=True, dynamic=True, backend=backend)
    for tokens in (T, 7, 3):
        hidden, source, destination = (
            one[:tokens].clone() for one in (case.hidden, case.routes.source, case.routes.destination)
        )
        found = compiled(hidden, case.weight, source, destination)
        assert torch.equal(found, pair_log_odds(hidden, case.weight, source, destination))
    assert len(graphs) == 1


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_with_bad_ids_says_so(case: Case) -> None:
    compiled = torch.compile(gather_logits, fullgraph=True, backend="aot_eager")
    with pytest.raises((ValueError, RuntimeError), match="expected ids below 65"):
        compiled(case.hidden, case.weight, case.tokens.int() + V)


HEAD_DTYPES = [
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float16),
]


@pytest.mark.parametrize("dtypes", HEAD_DTYPES, ids=str)
@pytest.mark.parametrize("operator", ["pair_log_odds", "gather_logits"])
def test_opcheck_of_heads(case: Case, operator: str, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    hidden, weight = case.hidden.to(dtypes[0]), case.weight.to(dtypes[1])
    ids = [case.routes.source, case.routes.destination][: 2 if operator == "pair_log_odds" else 1]
    torch.library.opcheck(
        getattr(ops, operator), (hidden.clone().requires_grad_(), weight.clone().requires_grad_(), *ids)
    )
    for needed in ((True, True), (True, False), (False, True)):
        torch.library.opcheck(getattr(ops, f"{operator}_backward"), (case.routes.target, hidden, weight, *ids, *needed))


def test_opcheck_of_top_k(case: Case) -> None:
    torch.library.opcheck(ops.top_k, (case.hidden, case.weight, None, None, K, V, 1.0, 0.0))
    bias, asked = case.weight[:, 0].contiguous(), (case.tokens % (V - 5)).int()
    torch.library.opcheck(ops.top_k, (case.hidden.bfloat16(), case.weight, bias, asked, K, V - 5, 0.5, 3.0))


SETTINGS: list[dict[str, Any]] = [
    {"m": 2},
    {"m": 3, "pairs": "exact"},
    {"arm": "union_fkl"},
    {"arm": "sampled_rkl"},
    {"arm": "source_only"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("with_support", [False, True])
def test_opcheck_of_route(case: Case, settings: dict[str, Any], with_support: bool) -> None:
    student, teacher = case.student, case.teacher
    address = torch.arange(4 * T).reshape(T, 4)
    torch.library.opcheck(
        ops.route,
        (
            student.ids,
            student.logits,
            teacher.gathered,
            teacher.ids,
            teacher.logits,
            student.gathered,
            None,
            None,
            student.logsumexp,
            teacher.logsumexp,
            None,
            address,
            Options(k=K, **settings).as_json(),
            42,
            V,
            with_support,
        ),
    )


def test_opcheck_of_a_full_support_and_of_a_pool(case: Case) -> None:
    student, teacher = (
        TopK.full(hidden @ weight.T)
        for hidden, weight in ((case.hidden, case.weight), (case.teacher_hidden, case.teacher_weight))
    )
    address = torch.arange(4 * T).reshape(T, 4)
    no_ids, nothing = torch.empty((0, 0), dtype=torch.int32), torch.empty((0, 0))
    torch.library.opcheck(
        ops.route,
        (
            no_ids,
            student.logits,
            nothing,
            no_ids,
            teacher.logits,
            nothing,
            None,
            None,
            student.logsumexp,
            teacher.logsumexp,
            None,
            address,
            Options(k="full").as_json(),
            42,
            V,
            True,
        ),
    )
    torch.library.opcheck(ops.background_pool, (case.student.ids, address, V, 42))


@pytest.mark.parametrize("settings", [{}, {"arm": "union_rkl"}, {"arm": "union_fkl"}], ids=str)
def test_opcheck_of_support_loss(case: Case, settings: dict[str, Any]) -> None:
    support = case.routes.support
    assert support is not None
    logits = gather_logits(case.hidden, case.weight, support.ids)
    torch.library.opcheck(
        ops.support_loss,
        (
            logits.clone().requires_grad_(),
            support.ids,
            logits + 0.1,
            support.values,
            case.routes.weight.contiguous(),
            Options(**settings).as_json(),
        ),
    )
