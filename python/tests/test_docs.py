# SPDX-License-Identifier: Apache-2.0
"""Every block of Python on the pages that show the package runs as it stands, and prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
import torch
from conftest import ROOT

STATES, HIDDEN, VOCABULARY = 6, 8, 40


def blocks(page):
    """Each block of Python, with the block of text that follows it at once, if one does."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```\n(\s*)(?=(```text\n)?)", (ROOT / page).read_text(), re.M | re.S)
    return [
        (code, fences[i + 1][1] if followed else None)
        for i, (language, code, _, followed) in enumerate(fences)
        if language == "python" and "routeopd.trl" not in code  # integrations/test_trl.py has those
    ]


def given():
    """What a trainer has at hand: the names that the pages take for granted."""
    torch.manual_seed(0)

    def hidden_states():
        return torch.randn(STATES, HIDDEN)

    address = torch.zeros(STATES, 4, dtype=torch.int64)
    address[:, 3] = torch.arange(STATES)
    heads = {name: torch.nn.Linear(HIDDEN, VOCABULARY, bias=False) for name in ("lm_head", "lm_head_S", "lm_head_T")}
    names = {"hidden_S": hidden_states(), "hidden_T": hidden_states(), "hidden": hidden_states().requires_grad_()}
    return {"torch": torch, "address": address, "denominator": STATES, **heads, **names}


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "python/README.md"])
def test_every_block_of_a_page_runs(page):
    found = blocks(page)
    assert found
    names = given()
    for code, shown in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if shown is not None:
            assert printed.getvalue() == shown
        if ".backward()" in code:
            assert names["hidden"].grad.abs().sum() > 0


def test_an_output_is_found_below_its_block():
    assert [shown for _, shown in blocks("docs/python.md") if shown]
