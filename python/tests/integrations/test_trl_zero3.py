# SPDX-License-Identifier: Apache-2.0
"""The TRL plug-in on two ranks under DeepSpeed's ZeRO-3, student and teacher sharded, against one process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("trl", reason="TRL is not installed")
pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")

from trl_cases import ZERO3_CASES, Case, model

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    worker = os.path.join(os.path.dirname(__file__), "trl_zero3_worker.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", worker, str(folder)]
    environment = os.environ | {"DS_ACCELERATOR": "cpu"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-4000:]
    return folder


@pytest.mark.parametrize(("arm", "tied"), ZERO3_CASES)
def test_a_step_under_zero3_is_that_of_one_process(ranks, arm, tied):
    saved = torch.load(ranks / f"{arm}-{tied}.pt")
    student, teacher = model("Qwen3", 0, tie_word_embeddings=tied), model("Llama", 1, hidden=48, rows=520)
    before = {name: value.clone() for name, value in student.named_parameters()}
    one = Case(student, teacher, arm=arm, micro=8).train()
    assert abs(saved["loss"] - one.losses[0]) < 1e-6 * abs(one.losses[0])
    moved = dict(one.trainer.model.named_parameters())
    assert saved["values"].keys() == moved.keys()
    for name, value in saved["values"].items():
        step = (moved[name] - before[name]).norm()
        # Plain gradient descent, so that a step is the gradient; both are rounded to the parameter's precision.
        assert (value - moved[name]).norm() < 1e-5 * step + 1e-7 * before[name].norm(), name
        assert step > 0
