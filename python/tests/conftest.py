# SPDX-License-Identifier: Apache-2.0
"""What the tests share: the program, which the package must agree with, and plain formulas in float64."""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess

import pytest
import torch

from routeopd import TopK

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def program() -> str:
    """The C++ program; ROUTEOPD_PROGRAM names another than the clone's own build."""
    path = os.environ.get("ROUTEOPD_PROGRAM", str(ROOT / "build/routeopd"))
    if not os.access(path, os.X_OK):
        pytest.skip(f"no program at {path}: run `make build`, or set ROUTEOPD_PROGRAM")
    return path


def run_route(program: str, states: list[dict], *arguments: str) -> list[dict]:
    """What `routeopd route` says of these states."""

    def plain(value):
        if isinstance(value, torch.Tensor):
            return [("-inf" if v == -math.inf else v) for v in value.tolist()]
        return value

    lines = "".join(json.dumps({key: plain(value) for key, value in state.items()}) + "\n" for state in states)
    run = subprocess.run([program, "route", *arguments], input=lines, text=True, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def top_of(logits: torch.Tensor, k: int) -> TopK:
    """The top-k of given logits: descending, equal ones by ascending id."""
    values, ids = logits.sort(dim=-1, descending=True, stable=True)
    k = min(k, logits.shape[-1])
    return TopK(
        ids[..., :k].int().contiguous(),
        values[..., :k].float().contiguous(),
        logits.double().logsumexp(-1).float(),
        logits.shape[-1],
    )


def sides_of(student: torch.Tensor, teacher: torch.Tensor, k) -> tuple[TopK, TopK]:
    """Both models' sides of states whose logits over the whole vocabulary are known."""
    if k == "full":
        return TopK.full(student), TopK.full(teacher)
    s, t = top_of(student, k), top_of(teacher, k)
    at = lambda logits, ids: logits.float().gather(-1, ids.long())
    return (
        TopK(s.ids, s.logits, s.logsumexp, s.real_ids, t.ids, at(student, t.ids)),
        TopK(t.ids, t.logits, t.logsumexp, t.real_ids, s.ids, at(teacher, s.ids)),
    )
