# SPDX-License-Identifier: Apache-2.0
"""Starts a worker twice, as two ranks on this host, and reads what the first one answers."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(worker: str, folder: pathlib.Path, seconds: float, **environment: str) -> Any:
    """The answer of ``worker``; both ranks have ended when this returns, or raises what they wrote."""
    answer = folder / "answer.json"
    shared = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    logs = [folder / f"rank{rank}.log" for rank in range(2)]
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for rank, log in enumerate(logs):
            with log.open("wb") as output:
                ranks.append(
                    subprocess.Popen(
                        [sys.executable, str(HERE / worker), str(answer)],
                        env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
        end = time.monotonic() + seconds
        # A rank that fails leaves the other one waiting.
        while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
            if time.monotonic() > end:
                raise AssertionError(f"{worker}: no answer after {seconds} s\n{_tails(logs)}")
            time.sleep(0.05)
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()
    if any(rank.returncode for rank in ranks):
        raise AssertionError(f"{worker} failed\n{_tails(logs)}")
    return json.loads(answer.read_text())


def _tails(logs: list[pathlib.Path]) -> str:
    return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-3000:]}" for log in logs)
