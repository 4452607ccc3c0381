# SPDX-License-Identifier: Apache-2.0
"""The TRL plug-in against plain PyTorch: loss and gradients of TRL's own training loop on given rollouts."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("trl", reason="TRL is not installed")
pytest.importorskip("datasets", reason="datasets is not installed")

import trl_cases as cases
from trl_cases import Case, gap, model, plain

from routeopd import Options

torch.set_num_threads(1)


def pair(family="Qwen3", **settings):
    """A student and a teacher of another width, with more padded rows."""
    return model(family, 0, **settings), model("Llama", 1, hidden=48, rows=520)


def against_plain(settings, student, teacher, *, dtype=torch.float64, **more):
    """Gap of the loss and of the gradients of one optimizer step."""
    before = copy.deepcopy(student)
    case = Case(student, teacher, **settings, **more).train()
    loss, gradients = plain(case.trainer.args.objective(), before, teacher, case.batches[0], dtype=dtype)
    return abs(case.losses[0] - loss) / abs(loss), gap(case.gradients[0], gradients)


SETTINGS = [
    {"arm": "routeopd"},
    {"arm": "routeopd", "m": 4, "budget": 0.3},
    {"arm": "fixed_mid"},
    {"arm": "routeopd", "pairs": "exact"},
    {"arm": "routeopd", "k": "full"},
    {"arm": "union_rkl"},
    {"arm": "union_fkl"},
    {"arm": "sampled_rkl"},
    {"arm": "sampled_rkl", "diagnostics": False},
    {"arm": "full_rkl", "diagnostics": False},
    {"arm": "full_fkl"},
    {"arm": "source_only"},
    {"arm": "destination_only"},
    {"arm": "no_mass"},
    {"arm": "independent_clipping"},
    {"arm": "uniform_deficit"},
    {"arm": "random_background"},
    {"arm": "rank_matched_neutral"},
]
NAMED = lambda settings: "-".join(str(value) for value in settings.values())


@pytest.mark.parametrize("settings", SETTINGS, ids=NAMED)
def test_loss_and_gradients_are_those_of_the_formula(settings):
    of_loss, of_gradients = against_plain(settings, *pair(), micro=2, accumulation=4)
    assert of_loss < 1e-5
    assert of_gradients < 1e-5


@pytest.mark.parametrize("arm", ["routeopd", "union_rkl", "sampled_rkl"])
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("Qwen2", {"tie_word_embeddings": True}),
        ("Llama", {}),
        ("Granite", {"logits_scaling": 3.0}),
        ("Gemma2", {"final_logit_softcapping": 2.0}),
        ("Cohere", {"logit_scale": 0.25}),
        ("Phi", {}),  # a bias
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_heads_of_other_models(family, settings, arm):
    student, teacher = model(family, 0, **settings), model(family, 1, hidden=48, rows=520, **settings)
    # Masked rows of Gemma's attention are NaN in float64.
    dtype = torch.float32 if family == "Gemma2" else torch.float64
    of_loss, of_gradients = against_plain({"arm": arm}, student, teacher, dtype=dtype)
    assert of_loss < 1e-5
    assert of_gradients < 1e-5


@pytest.mark.parametrize("arm", ["routeopd", "sampled_rkl", "union_rkl"])
def test_how_a_batch_is_cut_changes_nothing(arm):
    student, teacher = pair()
    whole = Case(copy.deepcopy(student), teacher, arm=arm, micro=8, accumulation=1).train()
    cut = Case(copy.deepcopy(student), teacher, arm=arm, micro=2, accumulation=4).train()
    assert abs(whole.losses[0] - cut.losses[0]) < 1e-6 * abs(whole.losses[0])
    assert gap(cut.gradients[0], whole.gradients[0]) < 1e-6


def _more_items(trainer, patch):
    given = trainer._compute_loss
    patch.setattr(trainer, "_compute_loss", lambda student, inputs, items: given(student, inputs, items + 1))


def _no_tool_mask(trainer, patch):
    given = trainer._compute_loss
    without = lambda inputs: {name: value for name, value in inputs.items() if name != "tool_mask"}
    patch.setattr(trainer, "_compute_loss", lambda student, inputs, items: given(student, without(inputs), items))


def _next_position(trainer, patch):
    given = trainer._get_last_hidden_state
    patch.setattr(trainer, "_get_last_hidden_state", lambda *a, **k: given(*a, **k).roll(-1, 1))


def _temperature(trainer, patch):
    from routeopd.trl import trainer as module

    given = module.head_arguments_of
    patch.setattr(module, "head_arguments_of", lambda config, real: given(config, real) | {"logit_scale": 1 / 0.9})


def _padded_rows(trainer, patch):
    trainer.objective.real_ids = 512


@pytest.mark.parametrize("arm", ["routeopd", "sampled_rkl", "union_rkl"])
@pytest.mark.parametrize("mutation", [_more_items, _no_tool_mask, _next_position, _temperature, _padded_rows])
def test_a_mutation_is_seen(mutation, arm, monkeypatch):
    student, teacher = pair()
    before = copy.deepcopy(student)
    case = Case(student, teacher, arm=arm)
    mutation(case.trainer, monkeypatch)
    case.train()
    loss, gradients = plain(Options(arm=arm, k=cases.K), before, teacher, case.batches[0])
    assert abs(case.losses[0] - loss) / abs(loss) > 1e-3
    assert gap(case.gradients[0], gradients) > 1e-3


class Widest(TorchDispatchMode):
    """The most rows of a whole vocabulary's width that an operation made."""

    rows = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for value in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(value, torch.Tensor) and value.dim() > 1 and value.shape[-1] >= 493:
                self.rows = max(self.rows, value.numel() // value.shape[-1])
        return found


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({"arm": "routeopd"}, 0),
        ({"arm": "routeopd", "pairs": "exact"}, 0),
        ({"arm": "union_rkl"}, 0),
        ({"arm": "rank_matched"}, 0),
        ({"arm": "full_rkl"}, 53),  # all states that count, since they fit into one chunk: it would be seen
    ],
)
def test_no_logits_of_the_vocabulary_are_made(settings, rows):
    case = Case(*pair(), **settings)
    with Widest() as seen:
        case.train()
    assert seen.rows == rows


def test_the_teacher_reads_a_batch_once_and_the_student_each_row_once():
    student, teacher = pair()
    rows = {"student": 0, "teacher": 0}
    student.model.register_forward_pre_hook(
        lambda m, a, k: rows.update(student=rows["student"] + len(k["input_ids"])), with_kwargs=True
    )
    teacher.model.register_forward_pre_hook(
        lambda m, a, k: rows.update(teacher=rows["teacher"] + len(k["input_ids"])), with_kwargs=True
    )
    Case(student, teacher, micro=2, accumulation=4, num_iterations=2, steps=2).train()
    assert rows == {"student": 16, "teacher": 8}


@pytest.mark.parametrize(
    "settings",
    [s for s in SETTINGS if s.get("k") != "full" and s["arm"] not in ("no_mass", "uniform_deficit")],
    ids=NAMED,
)
def test_a_second_update_keeps_pairs_and_old_values(settings):
    student, teacher = pair()
    first = copy.deepcopy(student)
    case = Case(student, teacher, micro=4, accumulation=2, num_iterations=2, steps=2, learning_rate=0.05, **settings)
    second = []
    given = case.trainer.compute_loss

    def look(model, inputs, *rest, **more):
        if case.trainer.state.global_step == 1 and not second:
            second.append(copy.deepcopy(case.trainer.accelerator.unwrap_model(model)))
        return given(model, inputs, *rest, **more)

    case.trainer.compute_loss = look
    case.train()
    assert case.generations == 1
    loss, gradients = plain(case.trainer.args.objective(), second[0], teacher, case.batches[0], old=first)
    assert abs(case.losses[1] - loss) < 1e-5 * abs(loss)
    assert gap(case.gradients[1], gradients) < 2e-5


def test_gradient_checkpointing_changes_nothing():
    student, teacher = pair()
    off = Case(copy.deepcopy(student), teacher).train()
    on = Case(copy.deepcopy(student), teacher, gradient_checkpointing=True).train()
    assert on.trainer.model.is_gradient_checkpointing
    assert gap(on.gradients[0], off.gradients[0]) < 1e-6


@pytest.mark.parametrize("arm", ["routeopd", "source_only", "union_rkl"])
def test_peft_on_the_body(arm):
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    student, teacher = pair()
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    case = Case(student, teacher, arm=arm, peft=lora)
    before = copy.deepcopy(case.trainer.model)
    case.train()
    loss, gradients = plain(Options(arm=arm, k=cases.K), before, teacher, case.batches[0])
    assert abs(case.losses[0] - loss) < 1e-5 * loss
    assert all("lora" in name for name in gradients)
    assert gap(case.gradients[0], gradients) < 1e-5


def test_a_mask_of_zeros_is_a_loss_of_zero_and_is_said_once(caplog):
    student, teacher = pair()
    case = Case(student, teacher, silent=range(16), steps=2).train()
    assert case.losses == [0, 0]
    assert all(not value.any() for gradients in case.gradients for value in gradients.values())
    assert sum("no token of this batch counts" in line for line in caplog.messages) == 1


def test_metrics_are_those_of_the_routes():
    student, teacher = pair()
    before = copy.deepcopy(student)
    case = Case(student, teacher, micro=2, accumulation=4).train()
    batch, logged = case.batches[0], case.trainer.state.log_history[0]
    with torch.no_grad():
        ours, theirs = cases.logits_of(before, batch), cases.logits_of(teacher, batch)
    routes = cases.routes_of(ours, theirs, Options(k=cases.K), batch["routeopd_address"][cases.states_of(batch)])
    for name, value in routes.metrics().items():
        assert logged[name] == pytest.approx(value, rel=1e-4), name
    assert logged["tokens"] == int(batch["completion_mask"].sum())
    # A lower bound of the entropy over the vocabulary.
    full = (-ours.softmax(-1) * ours.log_softmax(-1)).sum(-1).mean()
    assert 0 < logged["entropy"] <= full + 1e-6
    # The same of arms that read no routes, unless they are told not to.
    other = Case(*pair(), arm="sampled_rkl", micro=2, accumulation=4).train().trainer.state.log_history[0]
    for name in ("mass", "student_mass", "teacher_mass", "routed_share", "entropy"):
        assert other[name] == pytest.approx(logged[name], rel=1e-4), name
    alone = Case(*pair(), arm="sampled_rkl", diagnostics=False).train().trainer.state.log_history[0]
    assert not {"entropy", "mass", "coverage"} & alone.keys()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Gradients of two ranks: TRL's own DDP, and FSDP2 in several layouts."""
    folder = tmp_path_factory.mktemp("ranks")
    worker = os.path.join(os.path.dirname(__file__), "trl_worker.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", worker, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    return folder


@pytest.mark.parametrize("layout", ["ddp", "ddp-silent", "fsdp2-root", "fsdp2-own", "fsdp2-group", "fsdp2-tied"])
@pytest.mark.parametrize("arm", ["routeopd", "sampled_rkl", "union_rkl", "full_rkl"])
def test_two_ranks_equal_one(ranks, layout, arm):
    saved = torch.load(ranks / f"{layout}-{arm}.pt")
    student, teacher = pair(tie_word_embeddings=layout == "fsdp2-tied")
    # No token of the first rank's rows counts in one of them.
    one = Case(student, teacher, arm=arm, micro=8, silent=range(4 if layout == "ddp-silent" else 0)).train()
    assert abs(saved["loss"] - one.losses[0]) < 1e-6 * abs(one.losses[0])
    assert gap(saved["gradients"], one.gradients[0]) < (1e-6 if arm == "routeopd" else 3e-6)
    if "mass" in saved:
        assert saved["mass"] == pytest.approx(one.trainer.state.log_history[0]["mass"], rel=1e-6)
