# SPDX-License-Identifier: Apache-2.0
"""Workers of verl under Ray train the laboratory pair, by the driver of examples/verl."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
import torch
from verl_lab import ROOT, STUDENT, model


def run_example(folder, *arguments):
    out = pathlib.Path(folder) / "out.pt"
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples/verl/train_lab.py"), "--out", str(out), *arguments],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return torch.load(out)


@pytest.mark.parametrize("head", ["tied", "untied"])
def test_two_workers_under_ray_equal_one(head, tmp_path):
    """The example's driver: FSDP2 workers, two steps on one rollout. An untied head is a sharded unit of its own."""
    student = tmp_path / "student"
    made = model(STUDENT)
    if head == "untied":
        made.config.tie_word_embeddings = False
        made.lm_head.weight = torch.nn.Parameter(made.lm_head.weight.detach().clone())
    made.save_pretrained(student)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"{STUDENT}/{name}", student)
    more = ["--steps", "2", "--frozen", "--prompts", "8", "--student", str(student)]
    found = {}
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        folder.mkdir()
        found[workers] = run_example(folder, "--workers", str(workers), *more)
    for one, two in zip(found[1]["metrics"], found[2]["metrics"], strict=True):
        assert two["loss"] == pytest.approx(one["loss"], abs=1e-6)
        assert two["distillation/mass"] == pytest.approx(one["distillation/mass"], rel=1e-5)
    assert found[1]["metrics"][1]["loss"] != found[1]["metrics"][0]["loss"]
    ends = [found[1]["weights"][name] for name in ("model.embed_tokens.weight", "lm_head.weight")]
    assert torch.equal(*ends) == (head == "tied")
    for name, weight in found[1]["weights"].items():
        other = found[2]["weights"][name]
        assert float((weight - other).norm() / weight.norm()) <= 1e-6, name


def test_the_example_learns(tmp_path):
    """Ten steps on the laboratory pair with two workers: the mass that is on wrong tokens falls."""
    found = run_example(tmp_path, "--workers", "2", "--steps", "10", "--updates", "2")["metrics"]
    mass = [step["distillation/mass"] for step in found]
    assert sum(mass[-3:]) < 0.9 * sum(mass[:3])
