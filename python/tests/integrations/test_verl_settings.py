# SPDX-License-Identifier: Apache-2.0
"""Settings of the plug-in of verl: what is refused, how loudly it fails to load, and the example's command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
import transformers
from omegaconf import OmegaConf
from verl_lab import ROOT, TEACHER, configs, engine_of, loss_of, one_batch, ready
from verl_plain import the_batch

from routeopd.verl import ENVIRONMENT, Objective, loss_modes
from routeopd.verl.worker import _check_teacher

pytest_plugins = ["verl_plain"]
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


@pytest.mark.parametrize("broken", [False, True])
def test_the_entry_point_loads_it(broken, tmp_path):
    """`import verl` alone, as an installed package brings it about; what is wrong ends the process all the same."""
    entry = tmp_path / "routeopd_as_installed-1.dist-info"
    entry.mkdir()
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: routeopd-as-installed\nVersion: 1\n")
    (entry / "entry_points.txt").write_text("[verl.plugins]\nrouteopd = routeopd.verl\n")
    code = (
        "import verl\nfrom verl.trainer.distillation.losses import DISTILLATION_LOSS_REGISTRY as found\nprint(*found)"
    )
    if broken:
        code = "import sys; sys.modules['verl.workers.engine'] = None\n" + code
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VERL_")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "VERL_ENGINE_VENDOR": "routeopd"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode != 0) == broken, run.stderr
    assert broken or "routeopd:fixed_mid" in run.stdout.split()
    assert ("the plug-in cannot be loaded" in run.stderr) == broken


def test_verls_own_engine_is_refused(engine, teacher, tokens, options):
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    stock = FSDPEngineWithLMHead(**configs())
    stock.initialize()
    with pytest.raises(ValueError, match="set VERL_ENGINE_VENDOR=routeopd"):
        one_batch(stock, ready(the_batch(teacher, tokens)), loss_of("routeopd"))


def test_a_teacher_with_other_tokens_is_refused(tmp_path):
    made = configs()["model_config"]
    _check_teacher(made, TEACHER)
    other = tmp_path / "teacher"
    shutil.copytree(TEACHER, other)
    tokenizer = transformers.AutoTokenizer.from_pretrained(TEACHER)
    tokenizer.add_tokens(["<another>"])
    tokenizer.save_pretrained(other)
    with pytest.raises(
        ValueError, match="the pair is not compatible: vocabulary: the student has 493 ids, the teacher 494"
    ):
        _check_teacher(made, str(other))
    with pytest.raises(ValueError, match="its tokenizer cannot be read"):
        _check_teacher(made, str(tmp_path / "nothing"))


def test_a_teacher_with_fewer_rows_is_refused(tmp_path):
    """Its tokenizer is the student's, its head is not wide enough for the ids."""
    other = tmp_path / "teacher"
    shutil.copytree(TEACHER, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"vocab_size": 400, "eos_token_id": None}))
    with pytest.raises(ValueError, match="the pair is not compatible: widths: .*400") as caught:
        _check_teacher(configs()["model_config"], str(other))
    assert "\n" not in str(caught.value)


def test_the_papers_command_resolves():
    """Every name of examples/verl/paper_2.sh is in verl's configuration, and the objective in it can be read."""
    run = subprocess.run(
        [str(ROOT / "examples/verl/paper_2.sh"), "--cfg", "job"],
        env={name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "ROUTEOPD_OPTIONS"))}
        | {"PYTHON": sys.executable, "PYTHONWARNINGS": "ignore"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    config = OmegaConf.create(run.stdout[run.stdout.index("actor_rollout_ref:") :])
    loss = config.distillation.distillation_loss
    assert (loss.loss_mode, loss.topk, loss.loss_max_clamp) == ("routeopd", 128, None)
    assert config.trainer.nnodes * config.trainer.n_gpus_per_node + config.distillation.n_gpus_per_node == 24
    lengths = config.data.max_prompt_length + config.data.max_response_length + 1
    assert config.distillation.teacher_models.teacher_model.inference.max_model_len == lengths
    assert json.loads(config.ray_kwargs.ray_init.runtime_env.env_vars.ROUTEOPD_OPTIONS)["k"] == 32
