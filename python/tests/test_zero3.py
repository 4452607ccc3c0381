# SPDX-License-Identifier: Apache-2.0
"""Two processes under ZeRO-3 have one process's gradients. Needs deepspeed, which ``make test`` does not install."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import tiny_decoder
import two_ranks

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed: DS_BUILD_OPS=0 pip install deepspeed", allow_module_level=True)

EXACT = 1e-6  # float32 sums in another order
CASES = [f"{tied}-{loss}" for tied in ("untied", "tied") for loss in tiny_decoder.LOSSES]


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    # The first run compiles DeepSpeed's own communication for CPUs.
    return two_ranks.run("zero3_worker.py", tmp_path_factory.mktemp("zero3"), seconds=600, DS_ACCELERATOR="cpu")


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_one_process(answer: Any, case: str) -> None:
    wrong = {name: error for name, error in answer["cases"][case].items() if not error <= EXACT}
    assert answer["cases"][case]
    assert not wrong, f"errors over {EXACT}: {wrong}"


def test_every_case_was_run(answer: Any) -> None:
    assert sorted(answer["cases"]) == sorted(CASES)


def test_a_weight_that_is_not_whole_is_refused(answer: Any) -> None:
    assert "weight: DeepSpeed has it in parts here" in answer["outside"]
    assert "\n" not in answer["outside"]


def test_the_comparison_sees_a_wrong_gradient(answer: Any) -> None:
    """A rank that divides by its own tokens in place of all ranks'."""
    assert max(answer["own_denominator"].values()) > 0.01
