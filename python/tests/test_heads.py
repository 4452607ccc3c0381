# SPDX-License-Identifier: Apache-2.0
"""The heads against float64 autograd of the plain formula: every dtype, the C++ kernels and torch operations."""

from __future__ import annotations

import math

import pytest
import torch

import routeopd
from routeopd import LoRA, TopK, _composite, full_kl, gather_logits, log_probs, pair_log_odds, top_k

# Sums are float32: an error is a few times 2^-24 of the sum of the terms' sizes, and 16-bit gradients are rounded once.
EPS = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def inputs(tokens=33, width=70, rows=90, dtype=torch.float32, weight_dtype=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn((tokens, width), generator=generator).to(dtype)
    weight = torch.randn((rows, width), generator=generator).to(weight_dtype or dtype)
    return hidden, weight, generator


def error(got, want):
    """Relative to the norm of what is wanted."""
    want = want.double()
    return float((got.double() - want).norm() / want.norm().clamp(min=1e-300))


def plain_logits(hidden, weight, bias=None, logit_scale=1.0, softcap=None, lora=None):
    """Logits of the whole vocabulary, as a model computes them."""
    logits = hidden @ weight.T
    if bias is not None:
        logits = logits + bias
    if lora is not None:
        logits = logits + lora.scale * (hidden @ lora.A.T) @ lora.B.T
    logits = logits * logit_scale
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


def doubles(*tensors):
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


MIXES = [(a, b) for a in EPS for b in EPS]


@pytest.mark.parametrize(("dtype", "weight_dtype"), MIXES)
def test_pairs_forward_and_backward(dtype, weight_dtype):
    hidden, weight, generator = inputs(dtype=dtype, weight_dtype=weight_dtype)
    source = torch.randint(-1, 90, (33, 3), generator=generator)
    destination = torch.randint(0, 90, (33, 3), generator=generator)
    slope = torch.randn((33, 3), generator=generator)
    h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    odds = pair_log_odds(h, w, source, destination)
    assert odds.dtype == torch.float32
    (odds * slope).sum().backward()

    h64, w64 = doubles(hidden, weight)
    z = plain_logits(h64, w64)
    want = (z.gather(1, destination) - z.gather(1, source.clamp(min=0))).where(source >= 0, 0)
    (want * slope).sum().backward()
    assert error(odds.detach(), want.detach()) < 8 * EPS[torch.float32]
    assert h.grad.dtype == dtype
    assert w.grad.dtype == weight_dtype
    assert error(h.grad, h64.grad) < 8 * EPS[torch.float32] + EPS[dtype] / 2
    assert error(w.grad, w64.grad) < 8 * EPS[torch.float32] + EPS[weight_dtype] / 2
    assert torch.equal(odds[source < 0], torch.zeros(int((source < 0).sum())))


@pytest.mark.parametrize(("dtype", "weight_dtype"), MIXES)
def test_gathers_forward_and_backward(dtype, weight_dtype):
    hidden, weight, generator = inputs(dtype=dtype, weight_dtype=weight_dtype, seed=1)
    ids = torch.randint(-1, 90, (33, 7), generator=generator)
    slope = torch.randn((33, 7), generator=generator)
    h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    logits = gather_logits(h, w, ids)
    (logits * slope).sum().backward()
    h64, w64 = doubles(hidden, weight)
    want = plain_logits(h64, w64).gather(1, ids.clamp(min=0)).where(ids >= 0, 0)
    (want * slope).sum().backward()
    assert error(logits.detach(), want.detach()) < 8 * EPS[torch.float32]
    assert error(h.grad, h64.grad) < 8 * EPS[torch.float32] + EPS[dtype] / 2
    assert error(w.grad, w64.grad) < 8 * EPS[torch.float32] + EPS[weight_dtype] / 2


@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize("width", [1, 15, 64, 257])
def test_torch_operations_are_the_same_operators(dtype, width):
    """What other devices run, on the CPU: values and gradients of the kernels, to rounding."""
    hidden, weight, generator = inputs(width=width, dtype=dtype, seed=2)
    a = torch.randint(-1, 90, (33, 4), generator=generator, dtype=torch.int32)
    b = torch.randint(0, 90, (33, 4), generator=generator, dtype=torch.int32)
    grad = torch.randn((33, 4), generator=generator)
    ops = torch.ops.routeopd
    tolerance = 8 * EPS[torch.float32]
    assert error(_composite.pair_log_odds(hidden, weight, a, b), ops.pair_log_odds(hidden, weight, a, b)) < tolerance
    assert error(_composite.gather_logits(hidden, weight, a), ops.gather_logits(hidden, weight, a)) < tolerance
    for name, ids in (("pair_log_odds_backward", (a, b)), ("gather_logits_backward", (a,))):
        for of in ((True, True), (True, False), (False, True)):
            want = getattr(ops, name)(grad, hidden, weight, *ids, *of)
            got = getattr(_composite, name)(grad, hidden, weight, *ids, *of)
            for one, other in zip(got, want, strict=True):
                assert one.shape == other.shape
                assert one.dtype == other.dtype
                if other.numel():
                    assert error(one, other) < tolerance + EPS[dtype] * (other.dtype == dtype)


@pytest.mark.parametrize("head", ["plain", "bias", "softcap", "real_ids", "lora"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_where_there_is_no_source_the_destination_is_ignored(head, dtype):
    hidden, weight, generator = inputs(seed=6)
    settings = {
        "plain": {},
        "bias": {"bias": torch.randn(90, generator=generator)},
        "softcap": {"softcap": 5.0},
        "real_ids": {"real_ids": 80},
        "lora": {"lora": LoRA(torch.randn(2, hidden.shape[1]), torch.randn(90, 2), 0.5)},
    }[head]
    a = torch.randint(0, 80, (33, 3), generator=generator, dtype=dtype)
    b = torch.randint(0, 80, (33, 3), generator=generator, dtype=dtype)
    a[::2, 1] = -1
    want = pair_log_odds(hidden, weight, a, b, **settings)
    for nonsense in (-7, 90, 1 << 20):
        b[::2, 1] = nonsense
        assert torch.equal(pair_log_odds(hidden, weight, a, b, **settings), want)


def test_torch_operations_in_chunks(monkeypatch):
    """Chunks bound memory and change nothing."""
    hidden, weight, generator = inputs(seed=3)
    a = torch.randint(-1, 90, (33, 4), generator=generator, dtype=torch.int32)
    b = torch.randint(0, 90, (33, 4), generator=generator, dtype=torch.int32)
    grad = torch.randn((33, 4), generator=generator)
    whole = [
        _composite.pair_log_odds(hidden, weight, a, b),
        _composite.top_k(hidden, weight, None, a, 5, 90, 1.0, 0.0),
        _composite.pair_log_odds_backward(grad, hidden, weight, a, b, True, True),
    ]
    monkeypatch.setattr(_composite, "CHUNK_BYTES", 8000)
    cut = [
        _composite.pair_log_odds(hidden, weight, a, b),
        _composite.top_k(hidden, weight, None, a, 5, 90, 1.0, 0.0),
        _composite.pair_log_odds_backward(grad, hidden, weight, a, b, True, True),
    ]
    assert torch.allclose(whole[0], cut[0], rtol=1e-6, atol=1e-5)
    assert torch.equal(whole[1][0], cut[1][0])
    for one, other in zip(whole[1][1:] + whole[2], cut[1][1:] + cut[2], strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-5, equal_nan=True)


HEADS = {
    "plain": {},
    "bias": {"bias": True},
    "scale": {"logit_scale": 0.0625},
    "softcap": {"softcap": 30.0},
    "lora": {"lora": True},
    "all": {"bias": True, "logit_scale": 0.5, "softcap": 5.0, "lora": True},
}


def head_of(name, width, rows, generator):
    settings = dict(HEADS[name])
    bias = torch.randn(rows, generator=generator) if settings.pop("bias", None) else None
    lora = None
    if settings.pop("lora", None):
        lora = LoRA(
            torch.randn((4, width), generator=generator) * 0.2, torch.randn((rows, 4), generator=generator), 0.5
        )
    return settings, bias, lora


@pytest.mark.parametrize("name", HEADS)
def test_what_real_heads_have(name):
    hidden, weight, generator = inputs(seed=4)
    settings, bias, lora = head_of(name, 70, 90, generator)
    a = torch.randint(0, 80, (33, 3), generator=generator)
    b = torch.randint(0, 80, (33, 3), generator=generator)
    leaves = [t.clone().requires_grad_() for t in (hidden, weight)]
    more = [t.clone().requires_grad_() for t in (bias, lora and lora.A, lora and lora.B) if t is not None]
    given = dict(settings)
    rest = list(more)
    if bias is not None:
        given["bias"] = rest.pop(0)
    if lora is not None:
        given["lora"] = LoRA(rest[0], rest[1], lora.scale)
    odds = pair_log_odds(*leaves, a, b, real_ids=80, **given)
    logits = gather_logits(*leaves, a, real_ids=80, **given)
    (odds.square().sum() + logits.square().sum()).backward()

    leaves64 = doubles(hidden, weight)
    more64 = doubles(*more)
    rest = list(more64)
    given64 = dict(settings)
    if bias is not None:
        given64["bias"] = rest.pop(0)
    if lora is not None:
        given64["lora"] = LoRA(rest[0], rest[1], lora.scale)
    z = plain_logits(*leaves64, **given64)
    want_odds, want_logits = z.gather(1, b) - z.gather(1, a), z.gather(1, a)
    (want_odds.square().sum() + want_logits.square().sum()).backward()
    assert error(odds.detach(), want_odds.detach()) < 2e-6
    assert error(logits.detach(), want_logits.detach()) < 2e-6
    for got, want in zip(leaves + more, leaves64 + more64, strict=True):
        assert error(got.grad, want.grad) < 4e-6


@pytest.mark.parametrize("name", [name for name in HEADS if name not in ("lora", "all")])
@pytest.mark.parametrize("real_ids", [80, 90])
def test_log_probs_and_full_kl(name, real_ids, monkeypatch):
    monkeypatch.setattr(_composite, "CHUNK_BYTES", 4 * 90 * 10)  # several chunks
    hidden, weight, generator = inputs(seed=5)
    teacher_hidden, teacher_weight, _ = inputs(width=50, rows=85, seed=6)
    settings, bias, _ = head_of(name, 70, 90, generator)
    ids = torch.randint(-1, real_ids, (33, 2), generator=generator)
    teacher_rows = slice(0, min(real_ids, 85))
    real = min(real_ids, 85)
    leaves = [t.clone().requires_grad_() for t in (hidden, weight, bias) if t is not None]
    given = dict(settings, **({"bias": leaves[2]} if bias is not None else {}))
    leaves64 = doubles(*leaves)
    given64 = dict(settings, **({"bias": leaves64[2]} if bias is not None else {}))
    values = log_probs(*leaves[:2], ids, real_ids=real_ids, **given)
    slope = torch.randn((33, 2), generator=generator)
    (values * slope).sum().backward()
    z = plain_logits(*leaves64[:2], **given64)[:, :real_ids]
    want = z.log_softmax(1).gather(1, ids.clamp(min=0)).where(ids >= 0, 0)
    (want * slope).sum().backward()
    assert error(values.detach(), want.detach()) < 2e-6
    for got, wanted in zip(leaves, leaves64, strict=True):
        assert error(got.grad, wanted.grad) < 4e-6
        got.grad = wanted.grad = None
    for reverse in (True, False):
        loss = full_kl(*leaves[:2], teacher_hidden, teacher_weight, reverse=reverse, real_ids=real, **given)
        weights = torch.rand(33, generator=generator)
        (loss * weights).sum().backward()
        log_s = plain_logits(*leaves64[:2], **given64)[:, :real].log_softmax(1)
        log_t = plain_logits(teacher_hidden.double(), teacher_weight.double())[:, teacher_rows].log_softmax(1)
        first, second = (log_s, log_t) if reverse else (log_t, log_s)
        want = (first.exp() * (first - second)).sum(1)
        (want * weights).sum().backward()
        assert error(loss.detach(), want.detach()) < 2e-6
        for got, wanted in zip(leaves, leaves64, strict=True):
            assert error(got.grad, wanted.grad) < 4e-6
            got.grad = wanted.grad = None


@pytest.mark.parametrize("name", [name for name in HEADS if name not in ("lora", "all")])
@pytest.mark.parametrize("composite", [False, True])
@pytest.mark.parametrize(
    ("tokens", "rows", "k"), [(5, 17, 4), (33, 90, 90), (97, 1100, 32), (1, 2049, 200), (0, 20, 3)]
)
def test_top_k(name, composite, tokens, rows, k):
    hidden, weight, generator = inputs(tokens=tokens, rows=rows, seed=7)
    settings, bias, _ = head_of(name, 70, rows, generator)
    real_ids = rows - 2
    gather = torch.randint(-1, real_ids, (tokens, 5), generator=generator, dtype=torch.int32)
    if composite:
        found = _composite.top_k(
            hidden, weight, bias, gather, k, real_ids, settings.get("logit_scale", 1.0), settings.get("softcap", 0.0)
        )
        ids, logits, total, gathered = found
    else:
        top = top_k(hidden, weight, k, gather=gather, bias=bias, real_ids=real_ids, **settings)
        ids, logits, total, gathered = top.ids, top.logits, top.logsumexp, top.gathered
        assert torch.equal(top.gathered_ids, gather)
    z = plain_logits(hidden.double(), weight.double(), None if bias is None else bias.double(), **settings)[
        :, :real_ids
    ]
    k = min(k, real_ids)
    want, order = z.sort(dim=1, descending=True, stable=True)
    assert ids.shape == (tokens, k)
    if tokens == 0:
        return
    size = float(z.abs().max())
    assert (logits - want[:, :k]).abs().max() < 1e-6 * max(1, size)
    assert (z.gather(1, ids.long()) - want[:, :k]).abs().max() < 2e-6 * max(1, size), "other ids than the largest"
    assert (ids.long() == order[:, :k]).float().mean() > 0.999
    assert (total - z.logsumexp(1)).abs().max() < 1e-6 * max(1, size)
    wanted = z.gather(1, gather.clamp(min=0).long())
    assert (gathered - wanted).where(gather >= 0, 0).abs().max() < 1e-6 * max(1, size)
    assert gathered[gather < 0].isnan().all()


@pytest.mark.parametrize("composite", [False, True])
def test_equal_logits_come_by_ascending_id(composite):
    hidden = torch.ones((2, 4))
    weight = torch.zeros((50, 4))
    weight[[3, 7, 30, 49]] = 1.0
    weight[10] = -0.0
    if composite:
        ids = _composite.top_k(hidden, weight, None, None, 8, 50, 1.0, 0.0)[0]
    else:
        ids = top_k(hidden, weight, 8).ids
    assert ids.tolist() == [[3, 7, 30, 49, 0, 1, 2, 4]] * 2


def test_leading_dimensions_and_strides():
    hidden, weight, generator = inputs(tokens=24, seed=8)
    a = torch.randint(-1, 90, (24, 3), generator=generator)
    b = torch.randint(0, 90, (24, 3), generator=generator)
    flat = pair_log_odds(hidden, weight, a, b)
    shaped = pair_log_odds(hidden.reshape(2, 3, 4, 70), weight, a.reshape(2, 3, 4, 3), b.reshape(2, 3, 4, 3))
    assert torch.equal(flat, shaped.reshape(24, 3))
    wide = torch.randn((90, 200))
    wide[:, :70] = weight
    assert torch.equal(pair_log_odds(hidden, wide[:, :70], a, b), flat)
    assert torch.equal(pair_log_odds(hidden.T.contiguous().T, weight.T.contiguous().T, a, b), flat)
    assert torch.equal(top_k(hidden.reshape(4, 6, 70), weight, 5).ids.reshape(24, 5), top_k(hidden, weight, 5).ids)


def test_a_server_s_log_probabilities():
    hidden, weight, _ = inputs(tokens=6, seed=9)
    log_p = (hidden @ weight.T).log_softmax(-1)
    values, ids = log_p.sort(dim=-1, descending=True)
    told = values[:, :20].clone()
    told[0, 19] = -9999.0
    side = TopK.from_log_probs(ids[:, :20], told, real_ids=90)
    assert side.logits[0, 19] == -math.inf
    looked = side.looked_up(ids[:, 15:25])
    assert torch.equal(looked.gathered[:, :4], told[:, 15:19])
    assert looked.gathered[:, 5:].isnan().all()


def test_unknown_values_leave_the_union():
    """An id at which one model is not known takes no part; nothing is put in its place."""
    hidden, weight, _ = inputs(tokens=6, seed=10)
    other, other_weight, _ = inputs(tokens=6, seed=11)
    student = top_k(hidden, weight, 8)
    teacher = top_k(other, other_weight, 8, gather=student.ids)
    student = student.gathered_at(hidden, weight, teacher.ids)
    known = routeopd.route(student, teacher, with_support=True)
    wide = top_k(other, other_weight, 30)
    partial = wide.looked_up(student.ids)
    partial = TopK(wide.ids[:, :8], wide.logits[:, :8], wide.logsumexp, 90, partial.gathered_ids, partial.gathered)
    routes = routeopd.route(student, partial, with_support=True)
    missing = partial.gathered.isnan()
    assert missing.any()
    for n in range(6):
        gone = set(student.ids[n][missing[n]].tolist())
        before, after = set(known.support.ids[n].tolist()), set(routes.support.ids[n].tolist())
        assert gone.isdisjoint(after) or gone & set(teacher.ids[n].tolist())
        assert before - after <= gone
    assert (routes.student_mass <= known.student_mass + 1e-6).all()


def test_gradients_that_are_added_to_a_tensor_of_one_s_own():
    hidden, weight, generator = inputs(seed=12)
    a = torch.randint(-1, 90, (33, 3), generator=generator, dtype=torch.int32)
    b = torch.randint(0, 90, (33, 3), generator=generator, dtype=torch.int32)
    grad = torch.randn((33, 3), generator=generator)
    want_hidden, want_weight = torch.ops.routeopd.pair_log_odds_backward(grad, hidden, weight, a, b, True, True)
    kept = torch.ones_like(weight)
    for _ in range(2):
        got = torch.ops.routeopd.add_pair_gradients(grad, hidden, weight, a, b, kept)
        assert torch.equal(got, want_hidden)
    assert error(kept - 1, 2 * want_weight) < 1e-5


@pytest.mark.parametrize("which", [torch.ops.routeopd, _composite], ids=["kernels", "torch operations"])
def test_a_token_without_pairs_touches_nothing(which):
    """Whatever its hidden state is: a padded position may hold NaN."""
    hidden, weight, generator = inputs(tokens=4, seed=13)
    hidden[2] = math.nan
    a = torch.randint(1, 90, (4, 2), generator=generator, dtype=torch.int32)
    b = torch.randint(1, 90, (4, 2), generator=generator, dtype=torch.int32)
    a[2] = b[2] = -1
    grad_hidden, grad_weight = which.pair_log_odds_backward(torch.ones(4, 2), hidden, weight, a, b, True, True)
    assert which.pair_log_odds(hidden, weight, a, b).isfinite().all()
    assert grad_weight.isfinite().all()
    assert grad_hidden[2].abs().sum() == 0
