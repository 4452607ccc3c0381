"""Starts the inference engines that engine_speed.py compares, and speaks with them. Standard library only.

Every engine answers `ask(request)`; requests and answers are those of bench/engine_bench.cpp, one JSON object each:

    {"do": "generate", "prompts": [[ids], ...], "new": 64}  ->  {"seconds": s, "ids": [[ids], ...]}
    {"do": "score", "sequences": [[ids], ...], "k": 32}     ->  {"seconds": s, "logprobs": [[...], ...], "top_ids": ...}
    {"do": "info"}                                          ->  what it is

Entry t of a sequence's scores is of its token t + 1: the first one is not predicted. Generation is greedy and goes on after
an end-of-sequence token. An engine that knows when its first token was there answers `first_seconds` as well. A LineEngine
is a program that reads requests from standard input; Vllm and Ours are servers on 127.0.0.1, told through HTTP. All end
with this process, however that ends: vLLM by a shell that waits for the end of its standard input, the others by the
parent-death signal.
"""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import Any

PATIENCE = 900.0  # seconds for one answer
STARTING = 600.0  # seconds until a server is up
PR_SET_PDEATHSIG = 1
TICKS = os.sysconf("SC_CLK_TCK")


class EngineError(RuntimeError):
    """An engine did not start, gave up, or answered with an error."""


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def machine_seconds() -> float:
    """Processor seconds that the whole machine has worked, those taken by other virtual machines included."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


class Engine:
    """A process in a session of its own, with all that it started."""

    under_shell = False  # the process is a shell that ends the engine

    def __init__(self, name: str, command: list[str], log: pathlib.Path, environment: dict[str, str], stdout: int | None = None,
                 **popen: Any) -> None:
        self.name = name
        self.log = log
        self.paused = False
        with log.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout or errors, stderr=errors,
                                            start_new_session=True, env={**os.environ, **environment}, **popen)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def members(self) -> dict[int, float]:
        """Process ids of the session and the processor seconds of each."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):  # it may end while we look
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid:
                    found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / TICKS
        return found

    def cpu_seconds(self) -> float:
        return sum(self.members().values())

    def idle_share(self, seconds: float) -> float:
        """Share of one core used while nothing is asked."""
        before, start = self.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_seconds() - before) / (time.monotonic() - start)

    def pause(self, paused: bool) -> None:
        if paused == self.paused:
            return
        for process in self.members():
            if process != self.process.pid or not self.under_shell:  # a shell stays awake, to end the engine
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGSTOP if paused else signal.SIGCONT)
        self.paused = paused

    def failure(self, what: str) -> EngineError:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return EngineError(f"{self.name}: {what}" + "".join(f"\n    {line}" for line in lines[-12:]))

    def end(self) -> None:
        self.pause(False)
        assert self.process.stdin
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # asks it to end
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        for process in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()


class LineEngine(Engine):
    def __init__(self, name: str, command: list[str], log: pathlib.Path, environment: dict[str, str] | None = None) -> None:
        super().__init__(name, command, log, environment or {}, stdout=subprocess.PIPE, preexec_fn=die_with_parent)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failure("ended before it was asked") from None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise self.failure(f"no answer within {PATIENCE:.0f} s")
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self.failure("ended without an answer")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            raise self.failure(f"not JSON: {line[:200]!r}") from None
        if "error" in answer:
            raise self.failure(str(answer["error"]))
        return answer


class Server(Engine):
    """An OpenAI-compatible server that calls its model `m`. Its seconds run from the request to the last byte of the answer."""

    port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def find_port(self) -> None:
        """Sets `port` once it is known."""

    def wait_until_up(self) -> None:
        start = time.monotonic()
        while time.monotonic() - start < STARTING:
            if self.process.poll() is not None:
                raise self.failure("the server ended while it started")
            self.find_port()
            if self.port:
                with contextlib.suppress(OSError), urllib.request.urlopen(self.url + "/health", timeout=5):
                    return
            time.sleep(0.1)
        raise self.failure(f"not up after {STARTING:.0f} s")

    def post(self, path: str, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        start = time.perf_counter()
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            raise self.failure(f"{error}: {error.read().decode()[:300]}") from None
        except OSError as error:
            raise self.failure(str(error)) from None
        return time.perf_counter() - start, json.loads(text)

    def complete(self, prompts: list[list[int]], new: int, **more: Any) -> tuple[float, list[dict[str, Any]]]:
        seconds, answer = self.post("/v1/completions", {"model": "m", "prompt": prompts, "max_tokens": new, "temperature": 0,
                                                        "ignore_eos": True, "return_token_ids": True, **more})
        return seconds, sorted(answer["choices"], key=lambda choice: int(choice["index"]))

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "info":
            with urllib.request.urlopen(self.url + "/version", timeout=PATIENCE) as response:
                return {"version": json.load(response)["version"], "weights": "float32"}
        if request["do"] == "generate":
            seconds, choices = self.complete(request["prompts"], request["new"])
            return {"seconds": seconds, "ids": [choice["token_ids"] for choice in choices]}
        seconds, choices = self.complete(request["sequences"], 1, prompt_logprobs=request["k"])
        logprobs: list[list[float]] = []
        top: list[list[list[int]]] = []
        for ids, choice in zip(request["sequences"], choices):
            entries = choice["prompt_logprobs"][1:]  # the first token is not predicted
            logprobs.append([entry[str(token)]["logprob"] for token, entry in zip(ids[1:], entries)])
            ranked = [sorted(entry, key=lambda token, entry=entry: entry[token]["rank"]) for entry in entries]
            top.append([[int(token) for token in tokens[:request["k"]]] for tokens in ranked])
        return {"seconds": seconds, "logprobs": logprobs, "top_ids": top}


class Vllm(Server):
    """vLLM's server."""

    under_shell = True
    # Ends the whole process group when the server ends, or when our end of the pipe closes.
    SHELL = '{ "$@" </dev/null; kill -KILL 0; } & read -r _; trap "" TERM; kill -TERM 0; sleep 3; kill -KILL 0'

    def __init__(self, python: str, model: str, cores: list[int], longest: int, log: pathlib.Path, more: tuple[str, ...] = ()) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        server = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "m",
                  "--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32", "--max-model-len", str(longest),
                  "--max-logprobs", "64", "--enforce-eager", *more]
        environment = {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)), "VLLM_CPU_KVCACHE_SPACE": "1",
                       "VLLM_HOST_IP": "127.0.0.1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
        super().__init__("vLLM", ["sh", "-c", self.SHELL, "sh", *server], log, environment)


class Ours(Server):
    """`routeopd serve`, on a port that it finds and prints."""

    def __init__(self, program: str, model: str, log: pathlib.Path, more: tuple[str, ...] = ()) -> None:
        command = [program, "serve", model, "--host", "127.0.0.1", "--port", "0", "--name", "m", *more]
        super().__init__("ours", command, log, {}, preexec_fn=die_with_parent)

    def find_port(self) -> None:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)\D", self.log.read_text(errors="replace")):
            self.port = int(found[1])

    def end(self) -> None:
        self.pause(False)
        self.process.terminate()
        super().end()
