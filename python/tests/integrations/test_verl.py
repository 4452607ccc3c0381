# SPDX-License-Identifier: Apache-2.0
"""The plug-in of verl on the laboratory pair: losses and gradients against plain PyTorch, cuts and ranks that change
nothing, and what is refused. Needs an environment with verl (requirements_verl.txt); two workers under Ray are one test.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

for _name in ("verl", "ray"):
    pytest.importorskip(_name, reason=f"{_name} is not installed: make integrations makes an environment with it")

import torch
from verl_lab import (
    ROOT, STUDENT, TEACHER, VOCABULARY, batch, compute_position_id_with_mask, configs, engine_of, loss_of, model,
    one_batch, ready, rollout, scored, tu,
)  # fmt: skip

import routeopd.verl.engine
import routeopd.verl.head
import routeopd.verl.states
from routeopd import Options, TopK, route
from routeopd.verl import ENVIRONMENT, Objective, loss_modes

P = 20
ARMS = {
    "routeopd": {},
    "fixed_mid": {},
    "exact": {"arm": "routeopd", "pairs": "exact"},
    "union_rkl": {},
    "union_fkl": {},
    "sampled_rkl": {},
    "source_only": {},
    "destination_only": {},
    "rank_matched": {},
}


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


def mode_of(name):
    arm = ARMS[name].get("arm", name)
    settings = {key: value for key, value in ARMS[name].items() if key != "arm"}
    return f"routeopd:{arm}", settings


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


@pytest.mark.parametrize("name", list(ARMS))
def test_equals_plain_pytorch(name, engine, teacher, tokens, options):
    mode, settings = mode_of(name)
    settings |= {"k": 16}
    options(**settings)
    sampled = name == "sampled_rkl"
    data = the_batch(teacher, tokens, J=0 if sampled else VOCABULARY)
    found = one_batch(engine, ready(data, topk=not sampled), loss_of(mode))
    want = expected(teacher, tokens, settings | {"arm": mode.split(":")[1]})
    assert abs(found[0] - want[0]) <= 1e-6 * max(1, abs(want[0]))
    assert gap(found[1], want[1]) <= 1e-5
    if want[2] is not None:
        for key, value in want[2].metrics().items():
            if math.isfinite(value) and (value or "distillation/" + key in found[2]):
                assert found[2]["distillation/" + key] == pytest.approx(value, rel=1e-5), key


@pytest.mark.parametrize("J", [16, 64])
def test_what_the_teacher_did_not_say_leaves_the_union(J, engine, teacher, tokens, options):
    found = one_batch(engine, ready(the_batch(teacher, tokens, J)), loss_of("routeopd", J))
    want = expected(teacher, tokens, {"k": 16}, J=J)
    assert agrees(found, want)
    assert found[2]["distillation/unknown"] > 0
    assert found[2]["distillation/student_mass"] == pytest.approx(want[2].metrics()["student_mass"], rel=1e-5)
    whole = expected(teacher, tokens, {"k": 16})[2].metrics()
    assert found[2]["distillation/student_mass"] < whole["student_mass"]


def _shifted(states, by):
    def changed(data, step):
        found = states(data, step)
        found.rows = found.rows + by
        return found

    return changed


def _no_mask(states):
    def changed(data, step):
        data = data.copy()
        data["response_mask"] = torch.ones_like(data["response_mask"])
        return states(data, step)

    return changed


def _scaled(compute, by):
    return lambda hidden, weight, work, **head: compute(hidden, weight, work, **{**head, "logit_scale": by})


MUTATIONS = {
    "none": lambda patch: None,
    "shift": lambda patch: patch.setattr(routeopd.verl.engine, "states_of", _shifted(routeopd.verl.engine.states_of, -1)),
    "temperature": lambda patch: patch.setattr(routeopd.verl.engine, "compute", _scaled(routeopd.verl.engine.compute, 1 / 0.9)),
}  # fmt: skip


@pytest.mark.parametrize("what", ["none", "shift", "temperature", "mask", "denominator", "seed", "address"])
def test_mutations_are_seen(what, teacher, tokens, options, monkeypatch):
    """The comparison with plain PyTorch fails for each change of the plug-in or of what it is given."""
    MUTATIONS.get(what, MUTATIONS["none"])(monkeypatch)
    data = the_batch(teacher, tokens)
    if what == "mask":
        data["response_mask"] = data["loss_mask"] = tokens[1][:, P:].clone()  # counts what the tool said
    if what == "denominator":
        data["loss_mask"] = tokens[1][:, P:].clone()
    if what == "address":
        data["routeopd_address"] = data["routeopd_address"] + 1
    options(k=16, **({"seed": 43} if what == "seed" else {}))
    found = one_batch(engine_of(), ready(data), loss_of("routeopd"))
    assert agrees(found, expected(teacher, tokens, {"k": 16})) == (what == "none")


def test_the_rollouts_temperature_changes_nothing(engine, teacher, tokens, options):
    one = one_batch(engine, ready(the_batch(teacher, tokens)), loss_of("routeopd"))
    other = one_batch(engine, ready(the_batch(teacher, tokens, temperature=0.7)), loss_of("routeopd"))
    assert one[0] == other[0]


@pytest.mark.parametrize("cut", [{"micro": 2}, {"micro": 8}, {"dynamic": True, "tokens": 90}])
def test_cuts_change_nothing(cut, engine, teacher, tokens, options):
    """Without addresses in the batch too: those of the plug-in are made of the sequences themselves."""
    data = the_batch(teacher, tokens)
    del data["routeopd_address"]
    one = one_batch(engine, ready(data), loss_of("routeopd"))
    other = one_batch(engine, ready(data, **cut), loss_of("routeopd"))
    assert agrees(other, one)
    for name, value in one[2].items():
        assert other[2][name] == pytest.approx(value, rel=1e-5), name


@pytest.mark.parametrize("settings", [{"checkpointing": True}, {"remove_padding": True}])
def test_engines_agree(settings, engine, teacher, tokens, options):
    """Packed sequences too: transformers masks them by their positions where there is no flash-attn."""
    data = the_batch(teacher, tokens)
    one = one_batch(engine, ready(data), loss_of("routeopd"))
    packed = settings.get("remove_padding", False)
    assert agrees(one_batch(engine_of(**settings), ready(data, remove_padding=packed), loss_of("routeopd")), one)


def test_fsdp_1(engine, teacher, tokens, options, monkeypatch):
    """One rank. Its states are not synchronised: torch does that on GPUs alone."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from verl.workers.engine.fsdp import transformer_impl

    def unsynchronised(module, **settings):
        return FullyShardedDataParallel(module, **{**settings, "sync_module_states": False})

    data = the_batch(teacher, tokens)
    one = one_batch(engine, ready(data), loss_of("routeopd"))
    with monkeypatch.context() as patch:
        patch.setattr(transformer_impl, "FSDP", unsynchronised)
        patch.setattr(unsynchronised, "set_state_dict_type", FullyShardedDataParallel.set_state_dict_type, raising=False)
        other_engine = engine_of(strategy="fsdp")
    other = one_batch(other_engine, ready(data), loss_of("routeopd"))
    assert abs(one[0] - other[0]) <= 1e-6
    norm = lambda grads: math.sqrt(sum(float(grad.double().square().sum()) for grad in grads.values()))
    assert norm(other[1]) == pytest.approx(norm(one[1]), rel=1e-5)  # one flat parameter for each unit


def test_the_heads_output_is_narrow(engine, teacher, tokens, options):
    """Nothing that a module gives is V wide, nor any tensor that autograd keeps of a micro-batch."""
    widths, kept = [], []
    handles = [
        module.register_forward_hook(
            lambda _m, _i, out: widths.extend(
                value.shape[-1] for value in (out.values() if isinstance(out, dict) else [out]) if torch.is_tensor(value)
            )
        )
        for module in (engine.module, engine.module.get_output_embeddings())
    ]
    pack = lambda tensor: kept.append(tuple(tensor.shape)) or tensor
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            one_batch(engine, ready(the_batch(teacher, tokens)), loss_of("routeopd"))
    finally:
        for handle in handles:
            handle.remove()
    assert widths
    assert VOCABULARY not in widths
    weight = (VOCABULARY, 64)
    assert not [shape for shape in kept if VOCABULARY in shape and shape != weight]


def test_later_updates_use_values_from_before_the_first(teacher, tokens, options):
    engine = engine_of(lr=3e-2)
    loss = loss_of("routeopd")
    with engine.eval_mode():
        data = engine.keep(ready(the_batch(teacher, tokens)), loss)
    first = one_batch(engine, data, loss)
    assert agrees(first, expected(teacher, tokens, {"k": 16}))
    with engine.train_mode():
        engine.train_batch(data, loss)
    second = one_batch(engine, data, loss)
    moved = model(STUDENT)
    moved.load_state_dict({name: value.full_tensor() for name, value in engine.module.state_dict().items()})
    want = expected(teacher, tokens, {"k": 16}, student=moved, old=model(STUDENT))
    assert abs(second[0] - first[0]) > 1e-4
    assert agrees(second, want)


def test_states_without_an_answer_leave_the_mean(engine, teacher, tokens, options):
    data = the_batch(teacher, tokens)
    whole = one_batch(engine, ready(data), loss_of("routeopd"))
    ids, mask, response_mask = tokens
    response_mask = response_mask.clone()
    values = data["teacher_logprobs"].values().clone()
    row = int(mask[0, :P].sum()) - 1  # the first state of the first response
    values[row] = math.nan
    data["teacher_logprobs"] = torch.nested.nested_tensor_from_jagged(values, data["input_ids"].offsets())
    found = one_batch(engine, ready(data), loss_of("routeopd"))
    response_mask[0, 0] = 0
    assert agrees(found, expected(teacher, (ids, mask, response_mask), {"k": 16}))
    assert found[2]["distillation/unanswered"] == 1
    assert found[2]["distillation/states"] == whole[2]["distillation/states"] - 1


def test_a_micro_batch_of_padding(engine, teacher, tokens, options):
    ids, mask, response_mask = tokens
    response_mask = response_mask.clone()
    response_mask[:2] = 0
    data = batch(ids, mask, response_mask, *scored(teacher, ids, mask, VOCABULARY), P)
    one = one_batch(engine, ready(data, micro=8), loss_of("routeopd"))
    assert agrees(one_batch(engine, ready(data, micro=2), loss_of("routeopd")), one)


def test_task_rewards_get_their_log_probabilities(engine, teacher, tokens, options):
    """verl's policy loss beside ours, at the rollout's temperature."""
    ids, mask, response_mask = tokens
    zeros = torch.zeros(response_mask.shape)
    data = the_batch(teacher, tokens, temperature=0.8, advantages=zeros + 1, old_log_probs=zeros)
    data = ready(data)
    tu.assign_non_tensor(data, distillation_only=False)
    found = one_batch(engine, data, loss_of("routeopd", use_task_rewards=True))
    with torch.no_grad():
        logits = model(STUDENT)(
            input_ids=ids, attention_mask=mask, position_ids=compute_position_id_with_mask(mask)
        ).logits
    log_p = (logits / 0.8).log_softmax(-1)[:, P - 1 : -1].gather(-1, ids[:, P:, None])[..., 0]
    counted = response_mask.bool()
    ratio = log_p[counted].exp().clamp(0.8, 1.2).maximum(torch.zeros(())).minimum(log_p[counted].exp())
    want = -ratio.mean() + expected(teacher, tokens, {"k": 16})[0]
    assert found[0] == pytest.approx(float(want), abs=1e-5)


BAD = {
    "text": ('{"k": 16', {}, "expected JSON"),
    "unknown": ('{"kk": 16}', {}, "kk"),
    "arm": ('{"arm": "full_rkl"}', {}, "full_rkl is not supported"),
    "full": ('{"k": "full"}', {}, "k = full is not supported"),
    "two arms": ('{"arm": "fixed_mid"}', {"mode": "routeopd:union_rkl"}, "name two arms"),
    "topk": ('{"k": 32}', {"J": 16}, "distillation_loss.topk: expected at least k = 32"),
    "sampled": ('{"arm": "sampled_rkl"}', {}, "expected loss_mode = routeopd:sampled_rkl"),
    "policy gradient": ("", {"use_policy_gradient": True}, "use_policy_gradient: expected False"),
    "clamp": ("", {"mode": "routeopd:union_rkl", "loss_max_clamp": 10.0}, "loss_max_clamp: expected null"),
    "mean": ("", {"agg": "seq-mean-token-mean"}, "loss_agg_mode: expected token-mean"),
    "seed": ('{"seed": -1}', {}, "seed: expected a whole number"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_settings(name, monkeypatch):
    text, settings, sentence = BAD[name]
    monkeypatch.setenv(ENVIRONMENT, text)
    settings = dict(settings)
    with pytest.raises(ValueError, match=sentence) as caught:
        Objective.of(loss_of(settings.pop("mode", "routeopd"), **settings))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ulysses_sequence_parallel_size": 2, "remove_padding": True}, "sequence parallelism"),
        ({"model": {"use_fused_kernels": True}}, "use_fused_kernels"),
        ({"model": {"lora_rank": 2, "target_modules": ["q_proj", "lm_head"]}}, "LoRA on the head"),
    ],
)
def test_what_is_not_supported_is_named(settings, sentence, engine):
    with pytest.raises(ValueError, match=f"{sentence}.* is not supported"):
        engine_of(**settings)


def test_other_backends_are_named(engine):
    from verl.workers.engine import EngineRegistry

    made = configs()
    made["engine_config"] = type("Config", (), {"strategy": "megatron"})()
    with pytest.raises(ValueError, match="backend megatron is not supported"):
        EngineRegistry.new(model_type="language_model", backend="megatron", **made)


def test_batches_that_cannot_be_learned_from(engine, teacher, tokens, options):
    data = the_batch(teacher, tokens)
    empty = data.copy()
    empty["response_mask"] = empty["loss_mask"] = torch.zeros_like(data["response_mask"])
    with pytest.raises(ValueError, match="no state of the batch counts"):
        one_batch(engine, ready(empty), loss_of("routeopd"))
    with pytest.raises(ValueError, match="teacher_logprobs: expected 64 values"):
        one_batch(engine, ready(data), loss_of("routeopd", J=64))
    del data["teacher_ids"]
    with pytest.raises(ValueError, match="teacher_ids: the batch has none"):
        one_batch(engine, ready(data), loss_of("routeopd"))


def test_lora_on_the_body(teacher, tokens, options):
    engine = engine_of(model={"lora_rank": 2})
    loss, grads, _ = one_batch(engine, ready(the_batch(teacher, tokens)), loss_of("routeopd"))
    assert loss == pytest.approx(expected(teacher, tokens, {"k": 16})[0], abs=1e-6)
    assert grads and all("lora" in name for name in grads)


def test_names_of_the_loss_are_words_of_verls_command_line():
    from hydra.core.override_parser.overrides_parser import OverridesParser

    modes = loss_modes(sampled=False) + loss_modes(sampled=True)
    assert "routeopd" in modes and "routeopd:fixed_mid" in modes and "routeopd:full_rkl" not in modes
    for override in OverridesParser.create().parse_overrides([f"loss_mode={mode}" for mode in modes]):
        assert override.value() in modes


def test_a_plug_in_that_cannot_load_is_loud():
    """verl swallows errors of entry points: with our engine asked for, the process ends with the reason."""
    code = "import sys; sys.modules['verl.workers.engine'] = None\ntry:\n import routeopd.verl\nexcept Exception: pass"
    for vendor, status in (("routeopd", 1), ("nvidia", 0)):
        run = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"VERL_ENGINE_VENDOR": vendor, "PYTHONWARNINGS": "ignore"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == status
        assert "routeopd.verl: the plug-in cannot be loaded" in run.stderr


def test_verls_own_engine_is_refused(engine, teacher, tokens, options):
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    stock = FSDPEngineWithLMHead(**configs())
    stock.initialize()
    with pytest.raises(ValueError, match="set VERL_ENGINE_VENDOR=routeopd"):
        one_batch(stock, ready(the_batch(teacher, tokens)), loss_of("routeopd"))


def run_example(folder, *arguments):
    out = pathlib.Path(folder) / "out.pt"
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples/verl/train_lab.py"), "--out", str(out), *arguments],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return torch.load(out)


def test_two_workers_under_ray_equal_one(tmp_path):
    """The example's driver: FSDP2 workers, two updates of one rollout and one of the next."""
    found = {}
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        folder.mkdir()
        found[workers] = run_example(folder, "--workers", str(workers), "--steps", "2", "--frozen", "--prompts", "8")
    for one, two in zip(found[1]["metrics"], found[2]["metrics"], strict=True):
        assert two["loss"] == pytest.approx(one["loss"], abs=1e-6)
        assert two["distillation/mass"] == pytest.approx(one["distillation/mass"], rel=1e-5)
    assert found[1]["metrics"][1]["loss"] != found[1]["metrics"][0]["loss"]
    for name, weight in found[1]["weights"].items():
        other = found[2]["weights"][name]
        assert float((weight - other).norm() / weight.norm()) <= 1e-6, name


def test_the_example_learns(tmp_path):
    """Ten steps on the laboratory pair with two workers: the mass that is on wrong tokens falls."""
    found = run_example(tmp_path, "--workers", "2", "--steps", "10", "--updates", "2")["metrics"]
    mass = [step["distillation/mass"] for step in found]
    assert sum(mass[-3:]) < 0.9 * sum(mass[:3])
