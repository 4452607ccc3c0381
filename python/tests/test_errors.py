# SPDX-License-Identifier: Apache-2.0
"""Bad input is a ValueError of one sentence, never a crash; nothing at all is an empty answer."""

from __future__ import annotations

import math

import pytest
import torch
from conftest import sides_of

from routeopd import (
    LoRA,
    Options,
    TopK,
    exact_loss,
    full_kl,
    gather_logits,
    head_mode,
    log_probs,
    pair_log_odds,
    route,
    route_loss,
    sampled_rkl_loss,
    top_k,
    union_kl,
)

H = torch.randn(4, 6)
W = torch.randn(10, 6)
A = torch.tensor([[1, 2], [3, 4], [5, 6], [-1, 7]])
B = torch.tensor([[2, 1], [0, 9], [1, 2], [3, 4]])
STUDENT, TEACHER = sides_of(torch.randn(4, 10), torch.randn(4, 10), 4)
ROUTES = route(STUDENT, TEACHER, with_support=True)

ADAPTED = torch.nn.Linear(3, 3)
ADAPTED.base_layer = torch.nn.Linear(3, 3)
LORA = LoRA(torch.zeros(2, 6), torch.zeros(10, 2))

BAD = {
    "a weight without rows": (lambda: gather_logits(H, W[:0], A), "weight: expected at least a row"),
    "hidden states without columns": (
        lambda: top_k(H[:, :0], W[:, :0]),
        "weight: expected at least a row and a column",
    ),
    "a teacher's LoRA": (lambda: full_kl(H, W, H, W, teacher_head={"lora": LORA}), "teacher_head: lora is not taken"),
    "a teacher of fewer real ids": (
        lambda: full_kl(H, W, H, W, teacher_head={"real_ids": 9}),
        "teacher_head: expected at least 10 real ids",
    ),
    "LoRA as a tuple": (
        lambda: gather_logits(H, W, A, lora=(W, W)),
        r"lora: expected a LoRA\(A, B, scale\), got tuple",
    ),
    "a learned scale": (lambda: gather_logits(H, W, A, logit_scale=torch.ones(())), "logit_scale: expected a number"),
    "a missing destination under a cap": (
        lambda: pair_log_odds(H, W, A.abs(), -B - 1, softcap=3.0),
        "destination: expected ids from 0",
    ),
    "values at the wrong ids": (
        lambda: route(TopK(STUDENT.ids, STUDENT.logits, None, 10, (TEACHER.ids + 1) % 10, STUDENT.gathered), TEACHER),
        "student: expected its values at the other model's ids, got values at other ids",
    ),
    "an int32 id past log_probs' weight": (lambda: log_probs(H, W, (A + 5).int()), "ids: expected ids below 10"),
    "options that are a dict": (lambda: route(STUDENT, TEACHER, {}), "options: expected Options, got dict"),
    "a head with an adapter": (lambda: head_mode(ADAPTED).__enter__(), "lm_head: Linear adds an adapter"),
    "ids of a server that are floats": (
        lambda: TopK.from_log_probs(torch.zeros(4, 2), torch.zeros(4, 2), real_ids=10),
        "ids: expected a tensor of int32",
    ),
    "a floor of 0": (lambda: full_kl(H, W, H, W, delta_p=0.0), "delta_p: expected a number in"),
    "an id past the weight": (lambda: pair_log_odds(H, W, A + 5, B), "source: expected ids below 10"),
    "an int32 id past the weight": (
        lambda: pair_log_odds(H, W, (A + 5).int(), B.int()),
        "source: expected ids below 10",
    ),
    "an id past int32": (lambda: gather_logits(H, W, A + 2**32), "ids: expected ids below 10"),
    "an id in the padding": (lambda: gather_logits(H, W, A, real_ids=7), "ids: expected ids below 7, got 7"),
    "a destination that is missing": (lambda: pair_log_odds(H, W, A.abs(), -B - 1), "destination: expected ids from 0"),
    "ids that are floats": (
        lambda: gather_logits(H, W, A.float()),
        "ids: expected a tensor of int32 or int64, got float32",
    ),
    "ids that are a list": (lambda: gather_logits(H, W, [[1]]), "ids: expected a tensor"),
    "ids of other states": (lambda: gather_logits(H, W, A[:3]), r"ids: expected shape \[4, ids\], got \[3, 2\]"),
    "ids of one dimension": (lambda: gather_logits(H, W, A[:, 0]), r"ids: expected shape \[4, ids\]"),
    "pairs of other shapes": (lambda: pair_log_odds(H, W, A, B[:, :1]), "destination: expected shape"),
    "whole numbers as hidden states": (lambda: top_k(H.int(), W), "hidden: expected a tensor of float32"),
    "a weight of other width": (lambda: top_k(H, W[:, :5]), "hidden and weight: expected shapes"),
    "a weight of three dimensions": (lambda: top_k(H, W[None]), "hidden and weight: expected shapes"),
    "k = 0": (lambda: top_k(H, W, 0), "k: expected a whole number from 1, got 0"),
    "k = 2.5": (lambda: top_k(H, W, 2.5), "k: expected a whole number from 1"),
    "another device": (lambda: pair_log_odds(H, W.to("meta"), A, B), "weight: expected cpu, as hidden, got meta"),
    "ids on another device": (lambda: gather_logits(H, W, A.to("meta")), "ids: expected cpu, as hidden, got meta"),
    "a float64 weight in the kernel": (
        lambda: pair_log_odds(H, W.double(), A, B),
        "weight: expected float32, bfloat16",
    ),
    "too many real ids": (lambda: top_k(H, W, real_ids=11), "real_ids: expected 1 to 10"),
    "no real ids": (lambda: top_k(H, W, real_ids=0), "real_ids: expected 1 to 10"),
    "a bias of other length": (lambda: top_k(H, W, bias=torch.zeros(9)), r"bias: expected shape \[10\]"),
    "a negative cap": (lambda: top_k(H, W, softcap=-1.0), "softcap: expected a number over 0"),
    "a cap that is not a number": (lambda: top_k(H, W, softcap=math.nan), "softcap: expected a number over 0"),
    "a scale of 0": (lambda: top_k(H, W, logit_scale=0.0), "logit_scale: expected a number other than 0"),
    "an unknown argument": (lambda: top_k(H, W, temperature=1.0), "temperature: unknown argument"),
    "LoRA of other shape": (lambda: gather_logits(H, W, A, lora=LoRA(W, W)), "lora: expected A"),
    "LoRA where all rows are read": (
        lambda: top_k(H, W, lora=LoRA(torch.zeros(2, 6), torch.zeros(10, 2))),
        "lora: top_k",
    ),
    "an unknown arm": (lambda: Options.arm("routopd"), "arm: unknown arm routopd; did you mean routeopd"),
    "an unknown setting": (lambda: Options(budgets=1), "unknown option budgets; did you mean budget"),
    "m = 0": (lambda: Options(m=0), "m: expected a whole number from 1, got 0"),
    "budgets in the wrong order": (lambda: Options(b_min=1.0), "b_min: expected at most b_max"),
    "a tensor as a setting": (lambda: Options(m=torch.tensor(2)), "Options: expected numbers and words"),
    "not a number": (lambda: Options(kappa=math.nan), "kappa: expected"),
    "a contradiction": (lambda: Options.arm("source_only", pairs="exact"), "pairs: the exact coupling is defined for"),
    "a seed below 0": (lambda: route(STUDENT, TEACHER, seed=-1), "seed: expected a whole number from 0"),
    "a seed past 64 bits": (lambda: route(STUDENT, TEACHER, seed=2**64), "seed: expected a whole number"),
    "no values at the other's ids": (
        lambda: route(TopK(STUDENT.ids, STUDENT.logits, None, 10), TEACHER),
        "student: expected its values at",
    ),
    "values at other ids": (
        lambda: route(STUDENT, TopK(TEACHER.ids[:, :3], TEACHER.logits[:, :3], None, 10, STUDENT.ids, STUDENT.logits)),
        "student: expected values at ids",
    ),
    "other states": (lambda: route(STUDENT, TEACHER[:3]), "teacher: expected states of shape"),
    "another vocabulary": (lambda: route(STUDENT, top_k(H, W[:9], 3)), "teacher: expected 10 real ids"),
    "not a TopK": (lambda: route(STUDENT, H), "teacher: expected a TopK, got Tensor"),
    "an address of three": (
        lambda: route(STUDENT, TEACHER, address=torch.zeros(4, 3, dtype=torch.int64)),
        "address: expected",
    ),
    "a negative address": (
        lambda: route(STUDENT, TEACHER, address=torch.full((4, 4), -1)),
        "address: expected numbers from 0",
    ),
    "a prompt past 2^24": (
        lambda: route(STUDENT, TEACHER, address=torch.tensor([[0, 2**24, 0, 0]] * 4)),
        "random address",
    ),
    "a mask of other states": (
        lambda: route(STUDENT, TEACHER, valid=torch.ones(3, dtype=torch.bool)),
        "valid: expected",
    ),
    "a pool that is missing": (
        lambda: route(STUDENT, TEACHER, Options.arm("random_background")),
        "destination: random_background",
    ),
    "a one-sided arm without log-partitions": (
        lambda: route(
            TopK(STUDENT.ids, STUDENT.logits, None, 10, STUDENT.gathered_ids, STUDENT.gathered),
            TEACHER,
            Options.arm("source_only"),
        ),
        "routing: side = source needs the student's log-partitions",
    ),
    "odds of other shape": (lambda: route_loss(torch.zeros(4, 3), ROUTES), "odds: expected shape"),
    "old values of other shape": (lambda: route_loss(ROUTES.target, ROUTES, torch.zeros(4, 3)), "old: expected shape"),
    "pairs where there are none": (
        lambda: route_loss(torch.zeros(4, 0), route(STUDENT, TEACHER, Options.arm("union_rkl"))),
        "routes: arm union_rkl",
    ),
    "a support where there is none": (
        lambda: exact_loss(torch.zeros(4, 8), route(STUDENT, TEACHER)),
        "keeps no support",
    ),
    "logits of other shape": (lambda: union_kl(torch.zeros(4, 3), ROUTES, reverse=True), "logits: expected shape"),
    "a direction that nobody says": (
        lambda: union_kl(ROUTES.support.old_logits, ROUTES),
        "reverse: expected True or False",
    ),
    "teacher values of other shape": (
        lambda: sampled_rkl_loss(torch.zeros(4), torch.zeros(3)),
        "teacher_log_prob: expected",
    ),
    "a teacher of other states": (lambda: full_kl(H, W, H[:3], W), "teacher_hidden: expected states"),
    "a teacher of fewer ids": (lambda: full_kl(H, W, H, W[:5]), "teacher_weight: expected at least 10 rows"),
    "no ids of log-probabilities": (lambda: log_probs(H, W, A + 100), "ids: expected ids below 10"),
    "a module without a weight": (
        lambda: head_mode(torch.nn.ReLU()).__enter__(),
        "lm_head: expected a module with a weight",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    act, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence) as told:
        act()
    assert "\n" not in str(told.value)
    assert not str(told.value).startswith("routeopd: ")


def test_values_that_are_not_finite_leave_their_state_alone():
    for bad in (math.nan, math.inf):
        logits = STUDENT.logits.clone()
        logits[1, 2] = bad
        broken = TopK(STUDENT.ids, logits, STUDENT.logsumexp, 10, STUDENT.gathered_ids, STUDENT.gathered)
        routes = route(broken, TEACHER)
        assert routes.validity.tolist() == [0, 5, 0, 0]
        assert routes.weight[1] == 0
        odds = torch.randn(4, 2, requires_grad=True)
        loss = route_loss(odds, routes)
        loss.sum().backward()
        assert loss.isfinite().all()
        assert odds.grad.isfinite().all()
        assert odds.grad[1].abs().sum() == 0


def test_masked_states_are_not_routed():
    mask = torch.tensor([True, False, True, False])
    routes = route(STUDENT, TEACHER, valid=mask)
    assert routes.valid.tolist() == mask.tolist()
    assert (routes.source[~mask] == -1).all()
    whole = route(STUDENT, TEACHER)
    assert torch.equal(routes.source[mask], whole.source[mask])


@pytest.mark.parametrize("lead", [(0,), (2, 0), (0, 3)])
def test_empty_batches(lead):
    hidden = torch.zeros((*lead, 6), requires_grad=True)
    weight = W.clone().requires_grad_()
    student = top_k(hidden, weight, 3)
    teacher = top_k(hidden, weight, 3, gather=student.ids)
    student = student.gathered_at(hidden, weight, teacher.ids)
    for arm in ("routeopd", "union_rkl", "source_only"):
        routes = route(student, teacher, Options.arm(arm))
        if arm == "union_rkl":
            loss = union_kl(gather_logits(hidden, weight, routes.support.ids), routes)
        elif arm == "source_only":
            loss = route_loss(log_probs(hidden, weight, routes.source), routes)
        else:
            loss = route_loss(pair_log_odds(hidden, weight, routes.source, routes.destination), routes)
        assert loss.shape == lead
        loss.sum().backward()
    assert full_kl(hidden, weight, hidden, weight).shape == lead
    assert weight.grad.abs().sum() == 0


def test_no_pairs_at_all():
    nothing = torch.full((4, 2), -1)
    hidden, weight = H.clone().requires_grad_(), W.clone().requires_grad_()
    odds = pair_log_odds(hidden, weight, nothing, nothing)
    odds.sum().backward()
    assert odds.abs().sum() == 0
    assert hidden.grad.abs().sum() == 0
    assert weight.grad.abs().sum() == 0
    assert pair_log_odds(hidden, weight, nothing[:, :0], nothing[:, :0]).shape == (4, 0)


def test_lists_without_columns_are_an_empty_support():
    nothing = torch.zeros(4, 0)
    none = TopK.from_log_probs(nothing.int(), nothing, real_ids=10, gathered_ids=nothing.int(), gathered=nothing)
    assert route(none, none).validity.tolist() == [6] * 4
    with_teacher = TopK.from_log_probs(
        nothing.int(), nothing, real_ids=10, gathered_ids=TEACHER.ids, gathered=STUDENT.gathered
    )
    alone = TopK(TEACHER.ids, TEACHER.logits, TEACHER.logsumexp, 10, nothing.int(), nothing)
    assert route(with_teacher, alone).valid.all()


def test_ids_past_int32_are_no_other_ids():
    far = TopK(STUDENT.ids.long() + 2**32, STUDENT.logits, None, 10, STUDENT.gathered_ids, STUDENT.gathered)
    teacher = TopK(TEACHER.ids, TEACHER.logits, None, 10, STUDENT.ids.long() + 2**32, TEACHER.gathered)
    assert route(far, teacher).validity.tolist() == [4] * 4, "misaligned"


def test_operators_without_rows_do_not_crash():
    ids = torch.full((1, 1), -1, dtype=torch.int32)
    for name in ("pair_log_odds_backward", "gather_logits_backward"):
        given = (ids, ids) if name.startswith("pair") else (ids,)
        with pytest.raises(RuntimeError, match="weight: expected at least a row"):
            getattr(torch.ops.routeopd, name)(torch.ones(1, 1), torch.ones(1, 4), torch.ones(0, 4), *given, True, True)


def test_a_teacher_s_nan_is_not_minus_infinity():
    assert sampled_rkl_loss(torch.tensor([-1.0]), torch.tensor([math.nan])).isnan().all()
    assert sampled_rkl_loss(torch.tensor([-1.0]), torch.tensor([-math.inf])).isfinite().all()


def test_another_default_device_does_not_matter():
    with torch.device("meta"):
        routes = route(STUDENT, TEACHER)
    assert torch.equal(routes.source, route(STUDENT, TEACHER).source)
