# SPDX-License-Identifier: Apache-2.0
"""The same numbers everywhere: one rollout of the laboratory pair through the C++ trainer, plain PyTorch, TRL and verl.

A road that this environment lacks is skipped. ROUTEOPD_SAME_NUMBERS names a folder in which answers stay, so that an
environment compares its own with those of another one too.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

import same_numbers as same
import same_numbers_plain as plain
from safetensors.torch import load_file, save_file
from same_numbers import ARMS, FED, OWN, Answer, differences
from transformers import AutoTokenizer

torch.set_num_threads(1)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
MUTATIONS = ("denominator", "mask", "shift", "temperature")
ROADS = ("trainer", "trl", "verl")


def road(name):
    """The module of a road; skips where its library is missing."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return importlib.import_module(f"same_numbers_{name}")


@pytest.fixture(scope="session")
def folder(program, tmp_path_factory):
    """With the batch and both models' values at its states."""
    named = os.environ.get("ROUTEOPD_SAME_NUMBERS")
    found = pathlib.Path(named) if named else tmp_path_factory.mktemp("same_numbers")
    found.mkdir(parents=True, exist_ok=True)
    if not (found / "given.safetensors").exists():
        same.make_batch(program, AutoTokenizer.from_pretrained(same.STUDENT), found)
        plain.write_given(found, same.read_batch(found))
    return found


@pytest.fixture(scope="session")
def rows(folder):
    return same.read_batch(folder)


@pytest.fixture(scope="session")
def answers(folder, rows):
    """Answers of roads, computed once each."""
    known = {}

    def answer(name, scoring, arm):
        key = (name, scoring, arm)
        path = folder / f"{name}-{scoring}-{arm}.safetensors"
        if key not in known and name == "trainer":
            known[key] = same.trainer_answer(folder, scoring, arm, path)
        elif key not in known:
            made = plain if name == "plain" else road(name)
            known[key] = made.answer(folder, rows, scoring, arm)
            known[key].save(path)
        return known[key]

    return answer


def test_the_batch_is_telling(rows, answers):
    """Prompts and responses of several lengths, masked tokens, states with something to move."""
    assert len({len(row.prompt) for row in rows}) > 1
    assert len({len(row.response) for row in rows}) > 1
    assert 0 < sum(row.mask.count(0) for row in rows) < 10
    routes = answers("plain", FED, "routeopd").routes
    assert len(routes["source"]) > 100
    assert float(routes["weight"].mean()) > 0.05


@pytest.mark.parametrize("arm", list(ARMS))
@pytest.mark.parametrize("scoring", [FED, OWN])
@pytest.mark.parametrize("name", ROADS)
def test_equals_plain_pytorch(name, scoring, arm, answers):
    got, want = answers(name, scoring, arm), answers("plain", scoring, arm)
    assert differences(got, want, scoring, edges=want.routes.get("edge")) == []


@pytest.mark.parametrize("arm", list(ARMS))
@pytest.mark.parametrize("scoring", [FED, OWN])
@pytest.mark.parametrize("name", ["trl", "verl"])
def test_equals_the_trainer(name, scoring, arm, answers):
    """Fed the same values, routes have the same bits: they come of the same kernel."""
    got, want = answers(name, scoring, arm), answers("trainer", scoring, arm)
    if scoring == OWN:
        assert differences(got, want, scoring, edges=answers("plain", scoring, arm).routes.get("edge")) == []
        return
    assert differences(got, want, scoring) == []
    if arm != "sampled_rkl":
        assert got.routes.keys() == want.routes.keys()
        assert all(torch.equal(got.routes[key], want.routes[key]) for key in want.routes)


@pytest.mark.parametrize("arm", list(ARMS))
@pytest.mark.parametrize("scoring", [FED, OWN])
def test_equals_what_another_environment_found(scoring, arm, folder, answers):
    """TRL's answer beside verl's, where either lies in the folder already."""
    paths = {name: folder / f"{name}-{scoring}-{arm}.safetensors" for name in ("trl", "verl")}
    if not all(path.exists() for path in paths.values()):
        pytest.skip("answers of one environment alone; ROUTEOPD_SAME_NUMBERS names a folder for both")
    one, other = (Answer.load(path) for path in paths.values())
    edges = answers("plain", scoring, arm).routes.get("edge") if scoring == OWN else None
    assert differences(one, other, scoring, edges=edges) == []


# ---- mutations ------------------------------------------------------------------------------------------------------


def _scaled_head(target):
    """A copy of the student at another temperature: its logits are those of a head whose rows are longer."""
    shutil.copytree(same.STUDENT, target)
    weights = load_file(target / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"] / 0.9
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return target


def _with_an_agreed_state(rows, given):
    """One more response, of one state at which both models agree: it adds nothing but itself to the denominator."""
    more = same.Row(rows[0].prompt, rows[0].response[:1], [1], [[3, len(rows), 0, 0]])
    added = {name: torch.cat([value, value[:1]]) for name, value in given.items()}
    for teacher, student in (("ids", "ids"), ("logits", "logits"), ("logsumexp", "logsumexp"), ("taken", "taken")):
        added[f"teacher_{teacher}"][-1] = added[f"student_{student}"][-1]
    for at in ("student_at_teacher", "teacher_at_student"):
        added[at][-1] = added["student_logits"][-1]
    return [*rows, more], added


def _mutated_trainer(mutation, scoring, arm, folder, rows, out):
    """The trainer on inputs that are changed as its own code would be wrong."""
    more, given = {}, load_file(folder / "given.safetensors")
    if mutation == "denominator":
        rows, given = _with_an_agreed_state(rows, given)
    elif mutation == "mask":
        rows = [same.Row(row.prompt, row.response, [1] * len(row.mask), row.address) for row in rows]
    elif mutation == "shift":
        rows = [row.shifted() for row in rows]
    else:
        more["student"] = _scaled_head(out / "student")
    same.write_batch(rows, out / "batch.jsonl")
    save_file(given, out / "given.safetensors")
    return same.trainer_answer(out, scoring, arm, out / "answer.safetensors", **more)


@pytest.mark.parametrize("arm", list(ARMS))
@pytest.mark.parametrize("scoring", [FED, OWN])
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("name", ROADS)
def test_a_mutation_is_seen(name, mutation, scoring, arm, folder, rows, answers, tmp_path):
    """Loss or gradients alone give it away, by ten times what is allowed."""
    if (name, mutation, scoring) == ("trainer", "denominator", OWN):
        pytest.skip("no input changes the trainer's denominator alone where it scores by itself")
    if name == "trainer":
        found = _mutated_trainer(mutation, scoring, arm, folder, rows, tmp_path)
    else:
        module = road(name)
        found = module.answer(folder, rows, scoring, arm, module.MUTATIONS[mutation])
    want = answers("plain", scoring, arm)
    of_loss, of_gradient = (10 * tolerance for tolerance in same.TOLERANCES[scoring])
    gap, _ = same.gradient_gap(found.gradients, want.gradients)
    assert abs(found.loss - want.loss) > of_loss or gap > of_gradient
