# SPDX-License-Identifier: Apache-2.0
"""The TRL plug-in in TRL's loop: responses of its own, evaluation, checkpoints, command lines, padding, bfloat16."""

from __future__ import annotations

import copy
import math

import pytest
import torch

pytest.importorskip("trl", reason="TRL is not installed")
pytest.importorskip("datasets", reason="datasets is not installed")

import trl_cases as cases
from transformers import HfArgumentParser
from trl_cases import Case, gap, model

from routeopd import Options
from routeopd.trl import RouteOPDConfig, RouteOPDTrainer

torch.set_num_threads(1)


def pair():
    return model(), model("Llama", 1, hidden=48, rows=520)


def test_evaluation_has_its_own_names():
    case = Case(*pair())
    found = case.trainer.evaluate(case.trainer.train_dataset.select(range(8)))
    assert math.isfinite(found["eval_loss"])
    logged = case.trainer.state.log_history[-1]
    assert 0 < logged["eval_mass"] <= 1 and 0 <= logged["eval_routed_share"] <= 1


def test_it_writes_its_own_responses():
    case = Case(*pair(), steps=2, micro=4, accumulation=2)
    del case.trainer._generate
    case.train()
    assert all(math.isfinite(loss) and loss > 0 for loss in case.losses)
    steps = [batch["routeopd_address"][:, :, 0].unique().tolist() for batch in case.batches]
    assert steps == [[0], [1]]


def test_directories_checkpoints_and_resumption(tmp_path):
    def made(steps):
        args = RouteOPDConfig(
            output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to=[], max_steps=steps, save_steps=1, seed=3,
            per_device_train_batch_size=2, gradient_accumulation_steps=2, max_completion_length=5, logging_steps=1,
            disable_tqdm=True, lr_scheduler_type="constant",
        )  # fmt: skip
        rows = cases.Dataset.from_list([{"prompt": f"{i} + 1 ="} for i in range(32)])
        folders = {"model": str(cases.TOKENIZER), "teacher_model": str(cases.ROOT / "lab/teacher")}
        trainer = RouteOPDTrainer(**folders, args=args, train_dataset=rows)
        seen = []
        score = trainer.score
        trainer.score = lambda batch: seen.append(int(batch["routeopd_address"][0, 0, 0])) or score(batch)
        return trainer, seen

    trainer, seen = made(2)
    trainer.train()
    assert seen == [0, 1]
    assert "routeopd" in (tmp_path / "README.md").read_text().lower()
    trainer, seen = made(3)
    trainer.train(resume_from_checkpoint=True)
    assert seen == [2]  # the addresses go on where they stopped
    assert math.isfinite(trainer.state.log_history[-2]["loss"])


def test_settings_from_a_command_line(tmp_path):
    words = ["--output_dir", str(tmp_path), "--arm", "fixed_mid", "--k", "16", "--budget", "0.3", "--m", "4"]
    words += ["--use_cpu", "true", "--bf16", "false"]
    (config,) = HfArgumentParser(RouteOPDConfig).parse_args_into_dataclasses(words)
    assert config.objective() == Options(arm="fixed_mid", k=16, budget=0.3, m=4)
    (config,) = HfArgumentParser(RouteOPDConfig).parse_args_into_dataclasses([*words, "--k", "full"])
    assert config.objective().k == "full"


@pytest.mark.parametrize("arm", ["routeopd", "sampled_rkl", "source_only"])
def test_padding_changes_nothing(arm):
    student, teacher = pair()
    tight = Case(copy.deepcopy(student), teacher, arm=arm).train()
    padded = Case(copy.deepcopy(student), teacher, arm=arm, pad_to_multiple_of=16).train()
    assert padded.batches[0]["completion_ids"].shape[1] == 16 > tight.batches[0]["completion_ids"].shape[1]
    assert abs(padded.losses[0] - tight.losses[0]) < 1e-6 * abs(tight.losses[0])
    assert gap(padded.gradients[0], tight.gradients[0]) < 2e-6


def test_bfloat16_of_the_body_leaves_the_objective_in_float32():
    student, teacher = pair()
    exact = Case(copy.deepcopy(student), teacher, arm="sampled_rkl").train()
    rounded = Case(copy.deepcopy(student), teacher, arm="sampled_rkl", bf16=True).train()
    assert rounded.batches[0]["routeopd_log_prob"].dtype == torch.float32
    assert rounded.losses[0] == pytest.approx(exact.losses[0], rel=0.05)
    assert gap(rounded.gradients[0], exact.gradients[0]) < 0.1
