"""Runs one part of `make peers`: what it needs is made, its commands run with a log, what they found is kept."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import time
from typing import Any, TextIO

from peers_environments import QUIET, ROOT, EnvironmentFailure, is_there, make, make_model, pins
from peers_parts import Part, Setting

ROWS = "ROUTEOPD_PEERS_ROWS"  # as in tests/peers/results.py
PR_SET_PDEATHSIG = 1
LEAST_MINUTES = 30.0  # and six times what a part should take: longer ones hang


class PartFailure(RuntimeError):
    """A command of a part failed, or what it needs is not there."""


@dataclasses.dataclass
class Outcome:
    part: str
    peer: str
    key: str  # what it was run with: equal keys, equal work
    status: str  # passed, failed or skipped
    reason: str
    seconds: float
    rows: list[dict[str, Any]]

    def line(self) -> str:
        missed = sum(row["met"] is False for row in self.rows)
        about = [f"{self.seconds:.0f} s", f"{len(self.rows)} row{'s' * (len(self.rows) != 1)}"] + ([f"{missed} not met"] if missed else [])
        return f"{self.status}, {', '.join(about)}" + (f": {self.reason}" if self.reason else "")


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def digest(paths: list[pathlib.Path]) -> str:
    """Of the files that are there."""
    total = hashlib.sha256()
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def with_companions(scripts: set[pathlib.Path]) -> list[pathlib.Path]:
    """Scripts, with those of their folder that they import or start."""
    found, waiting = set(scripts), list(scripts)
    while waiting:
        script = waiting.pop()
        named = re.findall(r"^(?:from|import) (\w+)|\b(\w+)\.py\b", script.read_text(encoding="utf-8"), re.MULTILINE) if script.is_file() else []
        new = {path for pair in named for path in [script.with_name(f"{pair[0] or pair[1]}.py")] if path.is_file()} - found
        found |= new
        waiting += new
    return sorted(found)


class Runner:
    def __init__(self, program: pathlib.Path, out: pathlib.Path, quick: bool, skipped: frozenset[str]) -> None:
        self.program, self.out, self.quick, self.skipped = program, out, quick, skipped
        self.shared = pathlib.Path(os.environ.get("SHARED") or ROOT.parent / "shared").resolve()
        self.builds: dict[tuple[str, ...], str] = {}
        self.unmade: dict[str, str] = {}  # environments that could not be made, and why

    def setting(self, work: pathlib.Path) -> Setting:
        return Setting(self.program, self.shared, work, self.quick, self.skipped)

    def key(self, part: Part) -> str:
        """Of the program, its companions, the scripts that the commands run, the environments and the commands."""
        if part.programs not in self.builds:
            self.builds[part.programs] = digest([self.program, *(self.program.parent / name for name in part.programs)])
        commands = [[str(word) for word in command] for command in part.commands(self.setting(pathlib.Path("WORK")))]
        scripts = with_companions({pathlib.Path(word) for command in commands for word in command if word.endswith(".py")})
        environments = [pins(name) for name in (*part.environments, *part.optional)]
        return hashlib.sha256("\n".join([self.builds[part.programs], digest(scripts), *environments, repr(commands)]).encode()).hexdigest()

    def passed_before(self, part: Part) -> Outcome | None:
        try:
            before = Outcome(**json.loads((self.out / f"{part.name}.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return before if before.status == "passed" and before.key == self.key(part) else None

    def missing(self, part: Part) -> str:
        """Why a part is skipped."""
        for name in part.environments:
            if name in self.skipped:
                return f"--skip {name}"
        gone = [name for name in part.shared if not (self.shared / name).exists()]
        return f"no {self.shared / gone[0]} (set SHARED)" if gone else ""

    def prepare(self, part: Part, log: TextIO) -> None:
        for name in part.programs:
            if not os.access(self.program.parent / name, os.X_OK):
                raise PartFailure(f"no {self.program.parent / name}; `make tests` builds it")
        for name in (*part.environments, *(name for name in part.optional if name not in self.skipped)):
            if name not in self.unmade and not is_there(name):
                try:
                    make(name)
                except EnvironmentFailure as error:
                    self.unmade[name] = str(error)
            if name in self.unmade:
                raise PartFailure(f"its environment {name} could not be made: {self.unmade[name]}")
        for name in part.models:
            try:
                make_model(name)
            except EnvironmentFailure as error:
                raise PartFailure(str(error)) from None
        log.flush()

    def run(self, part: Part) -> Outcome:
        """Runs a part to its end, and keeps what came of it."""
        rows, record = self.out / f"{part.name}.rows", self.out / f"{part.name}.json"
        for old in (rows, record):
            old.unlink(missing_ok=True)
        start, status, reason = time.monotonic(), "passed", ""
        if skip := self.missing(part):
            status, reason = "skipped", skip
        else:
            (self.out / f"{part.name}.log").unlink(missing_ok=True)
            with open(self.out / f"{part.name}.log", "a", encoding="utf-8") as log:
                try:
                    self.prepare(part, log)
                    start = time.monotonic()  # making environments is not the part's time
                    self.commands(part, rows, log)
                except PartFailure as error:
                    status, reason = "failed", str(error)
        found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()] if rows.exists() else []
        if status == "passed" and not found:
            status, reason = "failed", "it reported no row"
        if status == "passed" and any(row["met"] is False for row in found):
            status, reason = "failed", "a target is not met"
        outcome = Outcome(part.name, part.peer, self.key(part), status, reason, time.monotonic() - start, found)
        partial = record.with_suffix(".partial")
        partial.write_text(json.dumps(dataclasses.asdict(outcome), ensure_ascii=False) + "\n", encoding="utf-8")
        partial.rename(record)
        rows.unlink(missing_ok=True)
        return outcome

    def commands(self, part: Part, rows: pathlib.Path, log: TextIO) -> None:
        """Runs all of them, also where one fails; raises with what was said last by the first that failed."""
        failures = []
        minutes = part.quick if self.quick and part.quick is not None else part.minutes
        deadline = time.monotonic() + 60 * max(LEAST_MINUTES, 6 * minutes)
        with tempfile.TemporaryDirectory(prefix="peers.") as work:
            for command in part.commands(self.setting(pathlib.Path(work))):
                words = [str(word) for word in command]
                log.write(f"$ {shlex.join(words)}\n")
                log.flush()
                begin = os.fstat(log.fileno()).st_size
                code = self.command(words, rows, log, deadline)
                if code != 0:
                    said = pathlib.Path(log.name).read_bytes()[begin:].decode(errors="replace").strip().splitlines()
                    ended = "was stopped: it took too long" if code is None else f"ended with {code}"
                    name = next((pathlib.Path(word).name for word in words if word.endswith(".py")), pathlib.Path(words[0]).name)
                    failures.append(f"{name} {ended}" + (f": {said[-1][:300]}" if said else ""))
        if failures:
            raise PartFailure("; ".join(failures))

    def command(self, words: list[str], rows: pathlib.Path, log: TextIO, deadline: float) -> int | None:
        """The exit code; None where it was stopped at the deadline. Whatever it leaves running ends with it."""
        surroundings = {**os.environ, **dict(QUIET), "PYTHONUNBUFFERED": "1", "SHARED": str(self.shared), ROWS: str(rows)}
        try:
            process = subprocess.Popen(words, cwd=ROOT, env=surroundings, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       start_new_session=True, preexec_fn=die_with_parent)
        except OSError as error:
            log.write(f"{words[0]}: {error.strerror}\n")
            log.flush()
            return 127
        try:
            return process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)  # so that it ends what it started
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
