# SPDX-License-Identifier: Apache-2.0
"""Two processes under FSDP2 have one process's gradients, wherever the head is."""

from __future__ import annotations

from typing import Any

import pytest
import two_ranks
from fsdp2_worker import CASES, MIXED, name_of

EXACT = 1e-6  # float32 sums in another order
# Of bfloat16 against float32: a dozen roundings in a row, each of at most 2^-9, and their products.
BFLOAT16 = 12 * 2**-9


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return two_ranks.run("fsdp2_worker.py", tmp_path_factory.mktemp("fsdp2"), seconds=240)


def assert_near(errors: dict[str, float], most: float) -> None:
    wrong = {name: error for name, error in errors.items() if not error <= most}
    assert errors
    assert not wrong, f"errors over {most}: {wrong}"


@pytest.mark.parametrize("case", [name_of(*case) for case in CASES])
def test_gradients_are_those_of_one_process(answer: Any, case: str) -> None:
    assert_near(answer["cases"][case], EXACT)


def test_every_case_was_run(answer: Any) -> None:
    assert len(answer["cases"]) == len(CASES) >= 25
    tied = {case: errors for case, errors in answer["cases"].items() if "-tied-" in case}
    assert all("lm_head.weight" not in errors for errors in tied.values())
    assert all("lm_head.weight" in errors for case, errors in answer["cases"].items() if case not in tied)


@pytest.mark.parametrize(("layout", "loss"), MIXED)
def test_mixed_precision(answer: Any, layout: str, loss: str) -> None:
    errors = answer["mixed"][f"{layout}-{loss}"]
    assert_near(errors["same"], EXACT)  # against one process that rounds where FSDP2 does
    assert_near(errors["float32"], BFLOAT16)
    assert max(errors["float32"].values()) > EXACT, "nothing was rounded"


def test_a_sharded_weight_outside_the_head_is_refused(answer: Any) -> None:
    sentence = answer["wrong"]["sentences"]["weight"]
    assert "sharded" in sentence
    assert "head_mode" in sentence
    assert "\n" not in sentence


def test_a_weight_made_whole_outside_the_head_is_refused(answer: Any) -> None:
    sentence = answer["wrong"]["sentences"].get("full_tensor", "")
    assert "head_mode" in sentence, "full_tensor() was taken, and the head's gradient is wrong by " + str(
        answer["wrong"]["errors"]["full_tensor"]["lm_head.weight"]
    )


def test_the_comparison_sees_a_wrong_gradient(answer: Any) -> None:
    """The operator itself takes what ``full_tensor`` gives: right values, and half of the head's gradient is lost."""
    errors = answer["wrong"]["errors"]["bypassed"]
    assert errors["lm_head.weight"] > 0.5
    assert_near({name: error for name, error in errors.items() if name != "lm_head.weight"}, EXACT)


@pytest.mark.parametrize("tied", ["tied=False", "tied=True"])
def test_a_second_call_of_a_grouped_head_is_never_silently_wrong(answer: Any, tied: str) -> None:
    said = answer["second"][tied]
    if isinstance(said, str):
        assert "not allocated" in said
    else:
        assert_near(said, EXACT)


def test_no_warnings_of_fsdp(answer: Any) -> None:
    assert not answer["warnings"]
