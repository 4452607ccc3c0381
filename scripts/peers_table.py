"""The table at the end of `make peers`: what, peer, target, measured, met."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from peers_run import Outcome

HEAD = ("what", "peer", "target", "measured", "met")


def processor() -> dict[str, Any]:
    """Name, cores, and the instructions on which times depend."""
    told: dict[str, str] = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        told[key.strip()] = value.strip()
    features = [flag for flag in told.get("flags", "").split() if flag.startswith(("avx", "fma", "amx", "f16c"))]
    return {"cpu": told.get("model name", "unknown"), "features": features, "cores": len(os.sched_getaffinity(0))}


def with_unit(value: str, unit: str) -> str:
    return f"{value} {unit}" if value and unit not in ("", "÷") else value


def rows_of(outcome: Outcome) -> list[tuple[str, ...]]:
    """The rows of a part, and one for the part itself where it has something to say that they do not."""
    met = {True: "yes", False: "NO", None: "–"}
    rows: list[tuple[str, ...]] = [(row["what"], row["peer"], with_unit(row["target"], row["unit"]), with_unit(row["measured"], row["unit"]),
             "skipped" if row["met"] is None and row["measured"].startswith("skipped") else met[row["met"]]) for row in outcome.rows]
    if outcome.status == "skipped":
        rows.append((outcome.part, outcome.peer, "", outcome.reason, "skipped"))
    elif outcome.status == "failed" and outcome.reason != "a target is not met":
        rows.append((outcome.part, outcome.peer, "ends with 0", outcome.reason, "FAILED"))
    return rows


def text(outcomes: list[Outcome]) -> str:
    rows = [HEAD, *(row for outcome in outcomes for row in rows_of(outcome))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    widths[3] = min(widths[3], 60)  # a reason may be long
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def markdown(outcomes: list[Outcome], quick: bool) -> str:
    about = processor()
    lines = [f"{about['cpu']}, {about['cores']} cores ({' '.join(about['features'])})" + ("; --quick: its times prove nothing" if quick else ""), "",
             f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for outcome in outcomes:
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows_of(outcome)]
    return "\n".join(lines) + "\n"


def save_rows(path: pathlib.Path, outcomes: list[Outcome], quick: bool) -> None:
    """JSON lines: the machine, then each row with its part."""
    lines: list[dict[str, Any]] = [{**processor(), "quick": quick}]
    for outcome in outcomes:
        lines += [{"part": outcome.part, **row} for row in outcome.rows]
        if outcome.status != "passed":
            lines.append({"part": outcome.part, "status": outcome.status, "reason": outcome.reason})
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def totals(outcomes: list[Outcome], wanted: int, seconds: float, code: int) -> str:
    count = {status: [outcome.part for outcome in outcomes if outcome.status == status] for status in ("passed", "failed", "skipped")}
    parts = [f"{len(names)} {status}" + (f" ({', '.join(names)})" if names and status != "passed" else "") for status, names in count.items()]
    verdicts = [row["met"] for outcome in outcomes for row in outcome.rows]
    not_run = f", {wanted - len(outcomes)} not run" if len(outcomes) < wanted else ""
    return (f"{wanted} parts: {', '.join(parts)}{not_run}; {len(verdicts)} rows: {verdicts.count(True)} met, {verdicts.count(False)} not met, "
            f"{verdicts.count(None)} without a verdict; {seconds / 60:.1f} minutes; exit code {code}")
