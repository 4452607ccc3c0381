# SPDX-License-Identifier: Apache-2.0
"""The objective in plain PyTorch on logits of the whole vocabulary, and what the tests of verl share."""

from __future__ import annotations

import json
import math

import pytest
import torch
from verl_lab import (
    STUDENT,
    TEACHER,
    VOCABULARY,
    batch,
    compute_position_id_with_mask,
    engine_of,
    model,
    rollout,
    scored,
)  # fmt: skip

import routeopd
from routeopd import Options, TopK, route
from routeopd.verl import ENVIRONMENT

P = 20


@pytest.fixture(scope="session")
def tokens():
    return rollout(P=P)


@pytest.fixture(scope="session")
def teacher():
    return model(TEACHER)


@pytest.fixture(scope="session")
def engine():
    return engine_of()


@pytest.fixture
def options(monkeypatch):
    def set_to(**settings):
        monkeypatch.setenv(ENVIRONMENT, json.dumps(settings))

    set_to(k=16)
    return set_to


def the_batch(teacher, tokens, J=VOCABULARY, **more):
    ids, mask, response_mask = tokens
    numbers = torch.stack([torch.full((len(ids),), 3), torch.arange(len(ids)) // 2, torch.arange(len(ids)) % 2], -1)
    return batch(ids, mask, response_mask, *scored(teacher, ids, mask, J), P, routeopd_address=numbers, **more)


def plain(teacher, tokens, settings, J=VOCABULARY, seed=42, student=None, old=None):
    """The objective on whole logits by autograd: routes are the package's, every loss is its formula."""
    ids, mask, response_mask = tokens
    student = student or model(STUDENT)
    positions = compute_position_id_with_mask(mask)

    def at_states(network):
        logits = network(input_ids=ids, attention_mask=mask, position_ids=positions).logits
        return logits[:, P - 1 : -1][response_mask.bool()]

    z = at_states(student)
    with torch.no_grad():
        zt = at_states(teacher).log_softmax(-1)
        z0 = z.detach() if old is None else at_states(old)
    options = Options(**settings)
    taken = ids[:, P:][response_mask.bool()]
    rows = torch.nonzero(response_mask.bool())
    address = torch.stack([torch.full_like(rows[:, 0], 3), rows[:, 0] // 2, rows[:, 0] % 2, rows[:, 1]], -1)
    log_p, log_old = z.log_softmax(-1), z0.log_softmax(-1)
    if options.arm == "sampled_rkl":
        at = lambda values: values.gather(1, taken[:, None])[:, 0]
        losses = -(at(log_p) - at(log_old)).exp() * (at(zt) - at(log_old))
        return losses.sum() / len(losses), student, None
    k = options.k
    s_top, t_top = z0.sort(dim=-1, descending=True, stable=True), zt.sort(dim=-1, descending=True, stable=True)
    s_ids, t_ids = s_top.indices[:, :k], t_top.indices[:, :k]
    known = torch.zeros_like(zt, dtype=torch.bool).scatter_(1, t_top.indices[:, :J], True)
    at_student = zt.where(known, math.nan).gather(1, s_ids)
    lse = z0.logsumexp(-1)
    s = TopK(s_ids.int(), s_top.values[:, :k], lse, VOCABULARY, t_ids.int(), z0.gather(1, t_ids))
    t = TopK(t_ids.int(), t_top.values[:, :k], torch.zeros_like(lse), VOCABULARY, s_ids.int(), at_student)
    pool = None
    if options.needs_pool:
        pool = routeopd.background_pool(s, seed=seed, address=address)
        pool = (pool, z0.gather(1, pool.clamp(min=0).long()))
    routes = route(s, t, options, seed=seed, address=address, pool=pool, with_support=True)
    U = routes.support.ids.clamp(min=0).long()
    inside = routes.support.ids >= 0
    if options.arm in ("union_rkl", "union_fkl"):
        lp = z.gather(1, U).where(inside, -1e30).log_softmax(-1)
        lt = zt.gather(1, U).where(inside, -1e30).log_softmax(-1)
        one, other = (lp, lt) if options.arm == "union_rkl" else (lt, lp)
        losses = (one.exp() * (one - other)).where(inside, 0).sum(-1)
    elif options.pairs == "exact":
        u = (log_p - log_old).gather(1, U) - routes.support.bounded
        excess = (routes.support.p_student - routes.support.p_teacher).clamp(min=0).where(inside, 0)
        deficit = (routes.support.p_teacher - routes.support.p_student).clamp(min=0).where(inside, 0)
        q = excess[:, :, None] / excess.sum(-1)[:, None, None] * (deficit / deficit.sum(-1, keepdim=True))[:, None, :]
        r = u[:, None, :] - u[:, :, None]
        huber = torch.where(r.abs() <= options.kappa, r * r / 2, options.kappa * (r.abs() - options.kappa / 2))
        losses = routes.weight * (q * huber).sum((1, 2))
    else:
        a, b = routes.source.long(), routes.destination.long()
        change = log_p - log_old
        moved = {"pair": change.gather(1, b) - change.gather(1, a), "source": change.gather(1, a),
                 "destination": change.gather(1, b)}[options.side]  # fmt: skip
        r = moved - routes.target
        huber = torch.where(r.abs() <= options.kappa, r * r / 2, options.kappa * (r.abs() - options.kappa / 2))
        losses = routes.weight * huber.mean(-1)
    return losses.sum() / len(losses), student, routes


def expected(*arguments, **named):
    loss, student, routes = plain(*arguments, **named)
    loss.backward()
    return loss.item(), {n: p.grad for n, p in student.named_parameters() if p.grad is not None}, routes


def gap(got, want):
    """The largest error of a tensor, relative to the largest entry of what is wanted."""
    assert set(got) == set(want)
    return max(float((got[n] - want[n]).abs().max() / want[n].abs().max().clamp(min=1e-12)) for n in want)


def agrees(found, want):
    return abs(found[0] - want[0]) <= 1e-6 * max(1, abs(want[0])) and gap(found[1], want[1]) <= 1e-5
