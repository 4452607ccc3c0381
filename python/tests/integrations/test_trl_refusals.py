# SPDX-License-Identifier: Apache-2.0
"""What the TRL plug-in refuses, with a sentence and before a step is spent."""

from __future__ import annotations

import pytest

pytest.importorskip("trl", reason="TRL is not installed")
pytest.importorskip("datasets", reason="datasets is not installed")

import trl_cases as cases
from trl_cases import model

from routeopd import ARMS, Options
from routeopd.trl import RouteOPDConfig, RouteOPDTrainer, hooks


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"arm": "routed"}, "arm: unknown arm routed"),
        ({"m": 0}, "m: expected a whole number from 1, got 0"),
        ({"pairs": "exact", "side": "source"}, "pairs: the exact coupling is defined for"),
        ({"beta": 0.5}, "beta: the arm says what is compared"),
        ({"arm": "sft"}, "arm: sft learns from given answers"),
        ({"k": "full", "pairs": "exact"}, "k: a loss on a full support"),
        ({"k": "full", "arm": "rank_matched"}, "k: a full support leaves no ids"),
        ({"num_iterations": 0}, "num_iterations: expected a whole number from 1, got 0"),
        ({"objective_seed": -1}, "objective_seed: expected a whole number from 0"),
    ],
)
def test_settings_are_refused_at_once(settings, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        RouteOPDConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **settings)


def test_every_setting_of_an_objective_can_be_said(tmp_path):
    fields = RouteOPDConfig.__dataclass_fields__
    assert set(Options.help()) <= set(fields)
    for arm in ARMS:
        if arm != "sft":
            config = RouteOPDConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, arm=arm, k="16", budget="0.25")
            assert config.objective() == Options(arm=arm, k=16, budget=0.25)


def test_teachers_that_do_not_fit_are_refused(tmp_path):
    student, teacher = model(), model("Llama", 1, hidden=48, rows=520)
    args = RouteOPDConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)
    given = {"args": args, "processing_class": cases.tokenizer()}
    rows = cases.Dataset.from_list([{"prompt": "1"}] * 8)
    other = cases.tokenizer()
    other.add_tokens(["<another>"])
    with pytest.raises(ValueError, match="the pair is not compatible: vocabulary: .*<another>"):
        RouteOPDTrainer(student, teacher, train_dataset=rows, teacher_processing_class=other, **given)
    with pytest.raises(ValueError, match="its vocabulary has 520 rows and the student's 512, and no tokenizer"):
        RouteOPDTrainer(student, teacher, train_dataset=rows, **given)
    small = model("Llama", 1, rows=400)
    with pytest.raises(ValueError, match="the pair is not compatible: widths|expected"):
        RouteOPDTrainer(student, small, train_dataset=rows, teacher_processing_class=cases.tokenizer(), **given)
    with pytest.raises(ValueError, match="teacher_model: expected a model or its name, got None"):
        RouteOPDTrainer(student, train_dataset=rows, **given)
    with pytest.raises((OSError, ValueError), match="nothing-here"):
        RouteOPDTrainer(student, str(tmp_path / "nothing-here"), train_dataset=rows, **given)


def test_a_server_that_is_not_there_is_refused(tmp_path):
    """By TRL itself, in its constructor: vLLM's package is looked for first, then its server at the address given."""
    address = {"vllm_mode": "server", "vllm_server_base_url": "http://127.0.0.1:9", "vllm_server_timeout": 1.0}
    args = RouteOPDConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, use_vllm=True, **address)
    rows = cases.Dataset.from_list([{"prompt": "1"}] * 8)
    with pytest.raises((ImportError, ConnectionError), match="vLLM|127.0.0.1:9"):
        RouteOPDTrainer(model(), model(seed=1), args, rows, processing_class=cases.tokenizer())


def test_a_version_without_a_hook_is_refused_by_its_name(monkeypatch):
    import trl

    class Without(trl.DistillationTrainer):
        _compute_loss = None

    class Renamed(trl.DistillationTrainer):
        def _get_last_hidden_state(self, model, batch): ...

    hooks.check_class(trl.DistillationTrainer)
    with pytest.raises(ImportError, match=r"has no Without._compute_loss, .*versions known to work: 1.16.0"):
        hooks.check_class(Without)
    with pytest.raises(ImportError, match=r"Renamed._get_last_hidden_state\(self, unwrapped_model, input_ids"):
        hooks.check_class(Renamed)
    with pytest.raises(ImportError, match="DistillationTrainer._forward_redirection"):
        hooks.check_instance(object())
