"""What a comparison found, told to `make peers`: rows of the table at its end. Standard library only.

    report("decode, 4 sequences", "vLLM", ">= 1.5", "2.9 [2.6, 3.7]", True, "÷")

A row is one JSON line in the file that ROUTEOPD_PEERS_ROWS names; where it names none, nothing is written.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import statistics

VARIABLE = "ROUTEOPD_PEERS_ROWS"


def report(what: str, peer: str, target: str, measured: str, met: bool | None, unit: str = "") -> None:
    """One row. `met` is None where there is no target, `unit` that of the figures ("÷": a ratio of times or rates)."""
    if path := os.environ.get(VARIABLE):
        row = {"what": what, "peer": peer, "target": target, "measured": measured, "met": met, "unit": unit}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def spread(values: list[float], digits: int = 3) -> str:
    """The median and, where there are several values, their range."""
    median = f"{statistics.median(values):.{digits}f}"
    return median if len(values) == 1 else f"{median} [{min(values):.{digits}f}, {max(values):.{digits}f}]"
