# SPDX-License-Identifier: Apache-2.0
"""The operators inside what trainers do around them: autocast, checkpoints, accumulation, copies, head_mode.

Shapes: T tokens, H hidden size, V rows of the head, K ids of a top-k.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import tiny_decoder
import torch
from tiny_decoder import decoder, sequence
from torch import Tensor, nn
from torch.distributed.utils import _apply_to_tensors
from torch.utils.checkpoint import checkpoint
from training_case import (
    Case,
    H,
    K,
    V,
    assert_same,
    each_function,
    gradients,
    run_exact,
    run_full_kl,
    run_gather,
    run_log_probs,
    run_lora,
    run_pairs,
    run_route_loss,
    run_union_rkl,
)

from routeopd import (
    Options,
    Routes,
    _composite,
    exact_loss,
    head_mode,
    pair_log_odds,
    route_loss,
    top_k,
    union_kl,
)

pytest_plugins = ["training_case"]
pytestmark = pytest.mark.usefixtures("one_thread")

# ---- autocast ---------------------------------------------------------------------------------------------------


@each_function
@pytest.mark.parametrize("backward_too", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_changes_nothing(case: Case, function: Any, dtype: torch.dtype, backward_too: bool) -> None:
    """Sums stay in float32, and so do the values."""
    if backward_too and function is run_lora:
        pytest.skip("torch's own backward of a product rounds where it runs under autocast")
    leaves = case.leaves(dtype)
    expected = function(case, *leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = function(case, *leaves)
    assert found.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=backward_too):
        slopes = gradients(found, *leaves)
    assert_same((found, *slopes), (expected, *gradients(expected, *leaves)))
    assert [slope.dtype for slope in slopes] == [dtype, dtype]


def test_autocast_of_top_k(case: Case) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = top_k(case.hidden, case.weight, K, gather=case.tokens)
    expected = top_k(case.hidden, case.weight, K, gather=case.tokens)
    for name in ("ids", "logits", "logsumexp", "gathered"):
        assert_same([getattr(found, name)], [getattr(expected, name)])
    arguments = (case.hidden, case.weight, None, case.tokens.int(), K, V, 1.0, 0.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        elsewhere = _composite.top_k(*arguments)  # as on other devices
    assert_same(elsewhere, _composite.top_k(*arguments))


def test_autocast_of_a_model() -> None:
    """Blocks that autocast rounds before a head in float32."""
    one, whole, model = sequence(9, seed=3), decoder(), decoder()
    whole(one, "pairs").backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(one, "pairs")
    loss.backward()
    assert loss.dtype == torch.float32
    for found, expected in zip(model.parameters(), whole.parameters(), strict=True):
        assert found.grad is not None
        assert expected.grad is not None
        assert found.grad.dtype == torch.float32
        error = (found.grad - expected.grad).norm() / expected.grad.norm()
        assert error < 12 * 2**-9  # a dozen roundings to bfloat16


def test_routes_that_were_rounded_are_refused(case: Case) -> None:
    """FSDP2's mixed precision casts the tensors of dataclasses that a forward is given."""
    routes = _apply_to_tensors(lambda one: one.bfloat16() if one.is_floating_point() else one, case.routes)
    assert routes.target.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="^routes: expected float32.*got bfloat16"):
        route_loss(run_pairs(case, case.hidden, case.weight), routes)
    for loss in (exact_loss, lambda *given: union_kl(*given, reverse=True)):
        with pytest.raises(ValueError, match="^routes: expected float32.*got bfloat16"):
            loss(run_gather(case, case.hidden, case.weight), routes)


# ---- checkpoints, accumulation, modes of autograd ---------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("loss", tiny_decoder.LOSSES)
def test_activation_checkpointing(loss: str, reentrant: bool) -> None:
    one = sequence(9, seed=4)
    answers = []
    for through in (False, True):
        model = decoder(bias=True)
        hidden = model.embed(one.tokens)

        def rest(hidden: Tensor, model: tiny_decoder.Decoder = model) -> Tensor:
            for block in model.blocks:
                hidden = block(hidden)
            with head_mode(model.lm_head) as head:
                return tiny_decoder.LOSSES[loss](head, model.norm(hidden), one)

        value = checkpoint(rest, hidden, use_reentrant=reentrant) if through else rest(hidden)
        value.backward()
        answers.append([value, *(parameter.grad for parameter in model.parameters())])
    assert_same(answers[1], answers[0])


@pytest.mark.parametrize("loss", ["pairs", "union", "log_probs"])
def test_micro_batches_add_up_to_the_batch(loss: str) -> None:
    sequences = [sequence(length, seed=length) for length in (9, 5, 2)]
    tokens = sum(len(one.tokens) for one in sequences)
    micro, batch, means = decoder(), decoder(), decoder()
    for one in sequences:
        (micro(one, loss) / tokens).backward()
        (means(one, loss) / len(one.tokens) / len(sequences)).backward()
    # One call of the head for all sequences, as a trainer that packs them makes it.
    hidden = torch.cat([batch.hidden(one.tokens) for one in sequences])
    routes = Routes.cat([one.routes for one in sequences])
    packed = tiny_decoder.Sequence(
        torch.cat([one.tokens for one in sequences]),
        hidden,
        hidden,
        torch.cat([one.teacher_log_probs for one in sequences]),
        routes,
    )
    with head_mode(batch.lm_head) as head:
        (tiny_decoder.LOSSES[loss](head, hidden, packed) / tokens).backward()
    apart = 0.0
    for found, expected, wrong in zip(micro.parameters(), batch.parameters(), means.parameters(), strict=True):
        assert found.grad is not None
        assert expected.grad is not None
        assert wrong.grad is not None
        assert (found.grad - expected.grad).norm() <= 1e-6 * expected.grad.norm()
        apart = max(apart, float((wrong.grad - expected.grad).norm() / expected.grad.norm()))
    assert apart > 0.01, "a mean of means would pass too"


@each_function
def test_without_gradients(case: Case, function: Any) -> None:
    leaves = case.leaves()
    expected = function(case, *leaves)
    assert expected.requires_grad
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            found = function(case, *leaves)
        assert not found.requires_grad
        assert_same([found], [expected])


def test_top_k_has_no_gradient(case: Case) -> None:
    found = top_k(*case.leaves(), K, gather=case.tokens)
    assert found.gathered is not None
    assert not (found.logits.requires_grad or found.gathered.requires_grad)


def test_what_inference_mode_made_can_be_trained_on() -> None:
    """Rollouts are often scored there."""
    with torch.inference_mode():
        case = Case()
    hidden, weight = Case().leaves()
    loss = route_loss(pair_log_odds(hidden, weight, case.routes.source, case.routes.destination), case.routes)
    assert_same(gradients(loss, hidden, weight), gradients(run_route_loss(Case(), hidden, weight), hidden, weight))


@each_function
@pytest.mark.parametrize("wanted", [0, 1], ids=["hidden", "weight"])
def test_gradient_of_one_side_alone(case: Case, function: Any, wanted: int) -> None:
    leaves = case.leaves()
    expected = gradients(function(case, *leaves), *leaves)
    alone = [leaf.detach().clone().requires_grad_(side == wanted) for side, leaf in enumerate(leaves)]
    value = function(case, *alone)
    assert_same(gradients(value, alone[wanted]), [expected[wanted]])
    assert alone[1 - wanted].grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "function",
    [run_pairs, run_gather, run_route_loss, run_union_rkl, run_exact],
    ids=lambda one: one.__name__.removeprefix("run_"),
)
def test_any_number_of_threads_gives_the_same_bits(function: Any, dtype: torch.dtype) -> None:
    case = Case(tokens=700, width=40, rows=300, seed=2)  # rows that many tokens visit
    threads = torch.get_num_threads()
    answers = []
    try:
        for count in (1, 2, 3, 1):
            torch.set_num_threads(count)
            leaves = case.leaves(dtype)
            value = function(case, *leaves)
            answers.append((value, *gradients(value, *leaves)))
    finally:
        torch.set_num_threads(threads)
    for answer in answers[1:]:
        assert_same(answer, answers[0])


# ---- copies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))],
    ids=["deepcopy", "copy", "pickle"],
)
def test_copies(case: Case, copied: Any) -> None:
    options = Options.arm("fixed_mid", m=3, k=16, kappa=0.25)
    assert copied(options) == options
    assert copied(options).as_dict() == options.as_dict()
    assert hash(copied(options)) == hash(options)
    routes = copied(case.routes)
    assert routes.options == case.routes.options
    for name in ("source", "destination", "target", "old", "statistics", "n_deficit", "validity", "routed"):
        assert torch.equal(getattr(routes, name).nan_to_num(7), getattr(case.routes, name).nan_to_num(7))
    assert torch.equal(routes.support.values, case.routes.support.values)
    hidden, weight = case.leaves()
    assert torch.equal(route_loss(run_pairs(case, hidden, weight), routes), run_route_loss(case, hidden, weight))


# ---- head_mode --------------------------------------------------------------------------------------------------


@pytest.fixture
def lm_head(case: Case) -> nn.Linear:
    module = nn.Linear(H, V, bias=False)
    module.weight = nn.Parameter(case.weight.clone())
    return module


def test_head_mode_is_the_functions(case: Case, lm_head: nn.Linear) -> None:
    with head_mode(lm_head) as head:
        assert_same(
            [head.pair_log_odds(case.hidden, case.routes.source, case.routes.destination)],
            [run_pairs(case, case.hidden, case.weight)],
        )
        assert_same([head.gather_logits(case.hidden, case.support_ids)], [run_gather(case, case.hidden, case.weight)])
        assert_same([head.log_probs(case.hidden, case.tokens)], [run_log_probs(case, case.hidden, case.weight)])
        found = head.top_k(case.hidden, K, gather=case.teacher.ids)
    expected = top_k(case.hidden, case.weight, K, gather=case.teacher.ids)
    for name in ("ids", "logits", "logsumexp", "gathered", "gathered_ids"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
    assert found.real_ids == expected.real_ids == V


def test_head_mode_takes_the_bias_and_the_other_arguments(case: Case) -> None:
    module = nn.Linear(H, V)
    arguments: Any = {"logit_scale": 0.5, "softcap": 4.0, "real_ids": V}
    with head_mode(module, **arguments) as head:
        found = head.gather_logits(case.hidden, case.tokens)
    wanted = 4 * torch.tanh(module(case.hidden) * 0.5 / 4)
    assert torch.allclose(found, wanted.gather(1, case.tokens), atol=1e-6)


def test_head_mode_puts_the_forward_back(case: Case, lm_head: nn.Linear) -> None:
    plain = lm_head(case.hidden)
    with head_mode(lm_head):
        pass
    assert "forward" not in lm_head.__dict__
    with pytest.raises(KeyError, match="broken"), head_mode(lm_head):
        raise KeyError("broken")
    assert "forward" not in lm_head.__dict__
    with pytest.raises(ValueError, match="expected ids below"), head_mode(lm_head) as head:
        head.gather_logits(case.hidden, case.tokens.int() + V)
    assert "forward" not in lm_head.__dict__
    assert torch.equal(lm_head(case.hidden), plain)


def test_head_mode_puts_back_a_forward_that_was_replaced(case: Case, lm_head: nn.Linear) -> None:
    plain = lm_head.forward
    mine = lambda hidden: 2 * plain(hidden)
    lm_head.forward = mine  # type: ignore[method-assign]
    with head_mode(lm_head) as head:
        assert_same([head.log_probs(case.hidden, case.tokens)], [run_log_probs(case, case.hidden, case.weight)])
    assert lm_head.__dict__["forward"] is mine
    assert torch.equal(lm_head(case.hidden), 2 * plain(case.hidden))


def test_head_mode_within_head_mode(case: Case, lm_head: nn.Linear) -> None:
    with head_mode(lm_head) as outer:
        before = outer.gather_logits(case.hidden, case.tokens)
        with head_mode(lm_head, logit_scale=2.0) as inner:
            assert_same([inner.gather_logits(case.hidden, case.tokens)], [2 * before])
        assert_same([outer.gather_logits(case.hidden, case.tokens)], [before])
    assert "forward" not in lm_head.__dict__


def test_head_mode_says_that_it_gives_no_logits(case: Case, lm_head: nn.Linear) -> None:
    with head_mode(lm_head), pytest.raises(ValueError, match="head_mode: .*leave it for plain logits") as raised:
        lm_head(case.hidden)
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="expected a module with a weight, got ReLU"), head_mode(nn.ReLU()):
        pass


def test_head_mode_runs_the_hooks_of_the_module(case: Case, lm_head: nn.Linear) -> None:
    """That is what makes a sharded weight whole."""
    seen: list[str] = []
    lm_head.register_forward_pre_hook(lambda *_: seen.append("before"))
    lm_head.register_forward_hook(lambda *_: seen.append("after"))
    with head_mode(lm_head) as head:
        head.top_k(case.hidden, K)
        head.pair_log_odds(case.hidden, case.routes.source, case.routes.destination)
    assert seen == ["before", "after"] * 2


def test_a_sharded_tensor_is_refused(case: Case, tmp_path: Any) -> None:
    if not torch.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        sharded = distribute_tensor(case.weight.clone().requires_grad_(), mesh, [Shard(0)])
        # Made whole by hand: the values are right, the gradient is not.
        for weight in (sharded, sharded.full_tensor()):
            for function in (run_pairs, run_gather, run_log_probs, run_full_kl):
                with pytest.raises(ValueError, match=r"^weight: .*head_mode") as raised:
                    function(case, case.hidden, weight)
                assert "\n" not in str(raised.value)
        with pytest.raises(ValueError, match=r"^weight: .*head_mode"):
            top_k(case.hidden, sharded, K)
        with torch.no_grad():
            assert torch.equal(
                run_pairs(case, case.hidden, sharded.full_tensor()), run_pairs(case, case.hidden, case.weight)
            )
    finally:
        torch.distributed.destroy_process_group()
