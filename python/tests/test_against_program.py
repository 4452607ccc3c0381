# SPDX-License-Identifier: Apache-2.0
"""The package against the C++ program and its goldens: routes to the last bit, losses and gradients of every arm.

A head whose weight is the identity makes the hidden states the logits, z = h I, without rounding: gradients on hidden
states are then gradients on logits, which `routeopd route` prints.
"""

from __future__ import annotations

import json
import math

import pytest
import torch
from conftest import ROOT, run_route, sides_of

from routeopd import (
    ARMS,
    Options,
    arm_loss,
    arm_values,
    background_pool,
    exact_loss,
    full_kl,
    gather_logits,
    log_probs,
    pair_log_odds,
    route,
    route_loss,
    sampled_rkl_loss,
    union_kl,
)

V = 40


def random_states(count: int, seed: int, spread: float = 2.0):
    generator = torch.Generator().manual_seed(seed)
    student = torch.randn((count, V), generator=generator) * spread
    teacher = student + torch.randn((count, V), generator=generator) * spread / 2
    current = student + torch.randn((count, V), generator=generator) * 0.3
    action = torch.randint(0, V, (count,), generator=generator)
    return student, teacher, current, action


def pool_for(student, top, seed):
    ids = background_pool(top, seed=seed)
    return ids, student.gather(-1, ids.clamp(min=0).long())


def routed(student, teacher, options, seed, **more):
    s, t = sides_of(student, teacher, options.k)
    pool = pool_for(student, s, seed) if options.needs_pool else None
    return route(s, t, options, seed=seed, pool=pool, **more)


def states_for(options, student, teacher, current=None, action=None):
    lines = []
    for n in range(len(student)):
        line = {"student_logits": student[n], "teacher_logits": teacher[n], "options": options.as_dict()}
        if current is not None:
            line["current_logits"] = current[n]
        if action is not None:
            line["action"] = int(action[n])
        lines.append(line)
    return lines


VARIANTS = [Options.arm(arm, k=8) for arm in ARMS if arm not in ("sft",)] + [
    Options(k=8, pairs="exact"),
    Options(k=8, m=5),
    Options(k="full", m=3),
    Options(k="full", pairs="exact"),
    Options(k=3, m=1, kappa=0.1),
    Options(k=8, budget=0.9, kappa=0.2, pairs="exact"),
    Options(k=64, m=4),
    Options.arm("source_only", k=8, weight="one", budget="adaptive"),
]


@pytest.mark.parametrize("options", VARIANTS, ids=repr)
def test_routes_are_the_program_s_to_the_last_bit(program, options):
    student, teacher, _, _ = random_states(1000, 1)
    told = run_route(program, states_for(options, student, teacher), "--precision", "float", "--seed", "7")
    routes = routed(student, teacher, options, 7)
    pairs = routes.source.shape[1]
    for n, answer in enumerate(told):
        assert answer["mass"] == float(routes.mass[n]), n
        if pairs:
            assert answer["routed"] == bool(routes.routed[n])
            assert [[p["source"], p["destination"]] for p in answer["pairs"]] == [
                list(pair)
                for pair in zip(routes.source[n].tolist(), routes.destination[n].tolist(), strict=True)
                if pair[0] >= 0
            ]
            assert [p["target"] for p in answer["pairs"]] == [
                float(target) for target, a in zip(routes.target[n], routes.source[n], strict=True) if a >= 0
            ]
        if routes.routed[n]:
            assert answer["n_deficit"] == int(routes.n_deficit[n])
            assert abs(answer["concentration"] - float(routes.concentration[n])) < 1e-6
            assert abs(answer["budget"] - float(routes.budget[n])) < 1e-6
        if routes.support is not None:
            ids = routes.support.ids[n]
            assert answer["ids"] == ids[ids >= 0].tolist()
            assert answer["p_student"] == routes.support.p_student[n][ids >= 0].tolist()
        assert abs(answer["student_mass"] - float(routes.student_mass[n])) < 1e-6


def loss_of(options, hidden, routes, teacher, student, action):
    """Each arm's loss, as a user would say it: z = h I."""
    weight = torch.eye(V, dtype=hidden.dtype)
    if options.arm == "sampled_rkl":
        log_prob = log_probs(hidden, weight, action[:, None])[:, 0]
        before = student.log_softmax(-1).gather(1, action[:, None])[:, 0]
        after = teacher.log_softmax(-1).gather(1, action[:, None])[:, 0]
        return sampled_rkl_loss(log_prob, after, before, ratio_clip=options.ratio_clip, delta_p=options.delta_p)
    if options.arm in ("full_rkl", "full_fkl"):
        return full_kl(hidden, weight, teacher, weight, reverse=options.arm == "full_rkl", delta_p=options.delta_p)
    if options.arm in ("union_rkl", "union_fkl"):
        return union_kl(gather_logits(hidden, weight, routes.support.ids), routes)
    if options.pairs == "exact":
        logits = gather_logits(hidden, weight, routes.support.ids)
        return exact_loss(logits, routes, routes.support.old_logits)
    if options.side != "pair":
        ids = routes.source if options.side == "source" else routes.destination
        return route_loss(log_probs(hidden, weight, ids), routes, routes.old)
    return route_loss(pair_log_odds(hidden, weight, routes.source, routes.destination), routes, routes.old)


def told_loss(options, answer):
    """Loss and dense gradient on the logits that the program prints for an arm."""
    if options.arm == "sampled_rkl":
        part = answer["sampled_rkl"]
    elif options.arm in ("full_rkl", "full_fkl") or options.arm in ("union_rkl", "union_fkl"):
        part = answer[options.arm]
    elif options.pairs == "exact":
        part = {"loss": answer["exact_loss"], "grad": answer["exact_grad"]}
    else:
        part = {"loss": answer["loss"], "grad": answer["grad"]}
    grad = part["grad"]
    if isinstance(grad, dict):
        dense = [0.0] * V
        for id_, value in grad.items():
            dense[int(id_)] = value
        grad = dense
    return part["loss"], grad


def compare_losses(options, told, student, teacher, current, action, seed):
    routes = routed(student, teacher, options, seed)
    hidden = current.clone().requires_grad_()
    loss = loss_of(options, hidden, routes, teacher, student, action)
    loss.sum().backward()
    if options.arm not in ("sampled_rkl", "full_rkl", "full_fkl"):  # every routed arm by the same two calls
        old = routes.old if routes.support is None else routes.support.old_logits
        assert torch.equal(arm_loss(arm_values(current, torch.eye(V), routes), routes, old), loss.detach())
    for n, answer in enumerate(told):
        value, grad = told_loss(options, answer)
        grad = torch.tensor(grad, dtype=torch.float64)
        # float32 on logits of size up to 8: 1e-6 of what is there, and rounding of logits of that size.
        assert abs(value - float(loss[n].detach())) <= 2e-6 * max(1.0, abs(value)), (n, value, float(loss[n].detach()))
        assert (hidden.grad[n] - grad).abs().max() <= 2e-6 * max(1.0, float(grad.abs().max())), n


@pytest.mark.parametrize("options", VARIANTS, ids=repr)
def test_losses_and_gradients_are_the_program_s(program, options):
    student, teacher, current, action = random_states(200, 2)
    told = run_route(
        program, states_for(options, student, teacher, current, action), "--precision", "float", "--seed", "7"
    )
    compare_losses(options, told, student, teacher, current, action, 7)


def test_first_update_has_the_current_values_as_old_ones(program):
    student, teacher, _, _ = random_states(100, 3)
    options = Options(k=8)
    told = run_route(program, states_for(options, student, teacher), "--precision", "float")
    routes = routed(student, teacher, options, 42)
    hidden = student.clone().requires_grad_()
    loss = route_loss(pair_log_odds(hidden, torch.eye(V), routes.source, routes.destination), routes)
    loss.sum().backward()
    for n, answer in enumerate(told):
        assert abs(answer["loss"] - float(loss[n])) <= 1e-6
        for id_, slope in answer["grad"].items():
            assert abs(slope - float(hidden.grad[n, int(id_)])) <= 1e-6


def test_goldens():
    """Supports, masses, budgets and union divergences of an independent implementation (tests/goldens)."""
    lines = [json.loads(line) for line in (ROOT / "tests/goldens/route.jsonl").read_text().splitlines()]
    checked = 0
    for case in lines[1:]:
        if case["name"].startswith("mass-just"):  # a mass of 1e-6 is a coin toss in single precision
            continue
        logits = {
            key: torch.tensor([[-math.inf if v == "-inf" else v for v in case["in"][key]]])
            for key in ("student_logits", "teacher_logits", "current_logits")
            if key in case["in"]
        }
        student, teacher = logits["student_logits"], logits["teacher_logits"]
        current = logits.get("current_logits", student)
        options = Options(**{k: v for k, v in case["in"].get("options", {}).items() if k != "seed"})
        seed = case["in"].get("options", {}).get("seed", 42)
        out = case["out"]
        size = max(abs(v) for v in (student, teacher, current) for v in v.flatten().tolist() if v != -math.inf)
        tolerance = 1e-6 + 4 * 2**-24 * size
        routes = routed(student, teacher, options, seed, with_support=True)
        ids = routes.support.ids[0]
        assert ids[ids >= 0].tolist() == out["ids"], case["name"]
        assert abs(float(routes.mass[0]) - out["mass"]) <= tolerance, case["name"]
        for name in ("p_student", "p_teacher"):
            got = getattr(routes.support, name)[0][ids >= 0].double()
            assert (got - torch.tensor(out[name], dtype=torch.float64)).abs().max() <= tolerance, (case["name"], name)
        on_union = current.gather(1, ids.clamp(min=0)[None].long())
        for reverse, name in ((True, "union_rkl"), (False, "union_fkl")):
            leaf = on_union.clone().requires_grad_()
            loss = union_kl(leaf, routes, reverse=reverse)
            loss.sum().backward()
            want = out[name]
            assert abs(float(loss.detach()) - want["loss"]) <= tolerance + 1e-5 * abs(want["loss"]), (
                case["name"],
                name,
            )
            slopes = [want["grad"][str(i)] for i in out["ids"]]
            worst = (leaf.grad[0][ids >= 0].double() - torch.tensor(slopes, dtype=torch.float64)).abs().max()
            assert worst <= tolerance + 1e-5, (case["name"], name, float(worst))
        checked += 1
    assert checked >= 40


def test_addresses_are_those_of_the_program(program):
    """A state's random numbers depend on its address alone: any order, any batch, any threads."""
    student, teacher, _, _ = random_states(600, 4)
    options = Options(k=8, m=3)
    told = run_route(program, states_for(options, student, teacher), "--precision", "float", "--seed", str(2**64 - 1))
    address = torch.zeros((600, 4), dtype=torch.int64)
    address[:, 3] = torch.arange(600)
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    s, t = sides_of(student[order], teacher[order], 8)
    threads = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        routes = route(s, t, options, seed=2**64 - 1, address=address[order])
        for n, at in enumerate(order.tolist()):
            want = [[p["source"], p["destination"]] for p in told[at]["pairs"]]
            assert torch.stack([routes.source[n], routes.destination[n]], 1).tolist() == want
    torch.set_num_threads(threads)
    other = route(s, t, options, seed=2**64 - 1, address=address[order] + torch.tensor([1, 0, 0, 0]))
    assert not torch.equal(other.source, routes.source)
