# SPDX-License-Identifier: Apache-2.0
"""The plug-in of verl on the laboratory pair: losses and gradients against plain PyTorch, cuts and ranks that change
nothing. Needs an environment with verl (requirements_verl.txt); one test starts two workers under Ray.
"""

from __future__ import annotations

import math

import pytest
import torch
from verl_lab import (
    STUDENT,
    VOCABULARY,
    batch,
    compute_position_id_with_mask,
    engine_of,
    loss_of,
    model,
    one_batch,
    ready,
    scored,
    tu,
)  # fmt: skip
from verl_plain import P, agrees, expected, gap, the_batch

import routeopd.verl.engine

pytest_plugins = ["verl_plain"]
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


def mode_of(name):
    arm = ARMS[name].get("arm", name)
    settings = {key: value for key, value in ARMS[name].items() if key != "arm"}
    return f"routeopd:{arm}", settings


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


def _scaled(compute, by):
    return lambda hidden, weight, work, **head: compute(hidden, weight, work, **{**head, "logit_scale": by})


@pytest.mark.parametrize("what", ["none", "shift", "temperature", "mask", "denominator", "seed", "address"])
def test_mutations_are_seen(what, teacher, tokens, options, monkeypatch):
    """The comparison with plain PyTorch fails for each change of the plug-in or of what it is given."""
    module = routeopd.verl.engine
    if what == "shift":
        monkeypatch.setattr(module, "states_of", _shifted(module.states_of, -1))
    if what == "temperature":
        monkeypatch.setattr(module, "compute", _scaled(module.compute, 1 / 0.9))
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
    if "dynamic" in cut:  # as verl's newer trainer says it, for each sequence
        data["global_steps"] = tu.NonTensorStack(*[5] * len(data))
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


def test_bfloat16(engine, teacher, tokens, options):
    """Weights and hidden states in bfloat16 under verl's autocast: what the objective makes of them stays float32."""
    data = the_batch(teacher, tokens)
    options(k=16, arm="union_rkl")
    one = one_batch(engine, ready(data), loss_of("routeopd:union_rkl"))
    other = one_batch(engine_of(dtype="bf16"), ready(data), loss_of("routeopd:union_rkl"))
    assert other[0] == pytest.approx(one[0], rel=0.01)
    assert gap(other[1], one[1]) < 0.1


def test_sequences_without_any_padding(engine, teacher, tokens, options):
    """verl's newer trainer hands over nested tensors alone."""
    data = the_batch(teacher, tokens)
    one = one_batch(engine, ready(data), loss_of("routeopd"))
    mask = tokens[1][:, P:].bool()
    nested = lambda values: torch.nested.as_nested_tensor(
        [v[m] for v, m in zip(values, mask, strict=True)], layout=torch.jagged
    )
    prompts = [ids[m.bool()] for ids, m in zip(tokens[0][:, :P], tokens[1][:, :P], strict=True)]
    other = data.copy()
    other["prompts"] = torch.nested.as_nested_tensor(prompts, layout=torch.jagged)
    other["responses"] = nested(tokens[0][:, P:])
    other["response_mask"] = other["loss_mask"] = nested(tokens[2])
    for name in ("attention_mask", "max_response_len"):
        del other[name]
    assert agrees(one_batch(engine, ready(other), loss_of("routeopd")), one)


def test_a_teachers_values_at_the_students_ids_may_be_given(engine, teacher, tokens, options):
    loss = loss_of("routeopd", 16)
    data = the_batch(teacher, tokens, J=16)
    with engine.eval_mode():
        kept = engine.keep(ready(data), loss)
    whole = the_batch(teacher, tokens)
    values = torch.zeros(len(whole["input_ids"].values()), VOCABULARY)
    values.scatter_(1, whole["teacher_ids"].values().long(), whole["teacher_logprobs"].values())
    at_student = values.gather(1, kept["routeopd_ids"].values().long())
    data["routeopd_at_student"] = torch.nested.nested_tensor_from_jagged(at_student, data["input_ids"].offsets())
    found = one_batch(engine, ready(data), loss)
    assert agrees(found, expected(teacher, tokens, {"k": 16}))
    assert found[2]["distillation/unknown"] == 0


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
        patch.setattr(
            unsynchronised, "set_state_dict_type", FullyShardedDataParallel.set_state_dict_type, raising=False
        )
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
                value.shape[-1]
                for value in (out.values() if isinstance(out, dict) else [out])
                if torch.is_tensor(value)
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


def test_lora_on_the_body(teacher, tokens, options):
    engine = engine_of(model={"lora_rank": 2})
    loss, grads, _ = one_batch(engine, ready(the_batch(teacher, tokens)), loss_of("routeopd"))
    assert loss == pytest.approx(expected(teacher, tokens, {"k": 16})[0], abs=1e-6)
    assert grads and all("lora" in name for name in grads)
