#!/usr/bin/env python3
"""`routeopd serve` under clients that come, stream, vanish in the middle and ask nonsense, for minutes.

    python serve_soak.py PROGRAM MODEL_DIR [--seconds 600] [--clients 24] [--seed 1]

Every answer that comes is checked: greedy texts are those of an idle server, however busy it is, and nonsense is refused with
the status it deserves. What vanished clients asked for is given up. At the end nothing is running, no block of keys and values is held and no connection open; memory did
not grow in the second half; the counters of /metrics are those of the clients: requests by endpoint and status, but for those
whose client vanished, which may have ended in either way. Exits 1 otherwise. Standard library only.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import http.client
import json
import pathlib
import random
import re
import signal
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
import urllib.request
from typing import Any

from engines import EngineError, Ours
from results import report

COMPLETIONS, CHAT, TOKENIZE = "/v1/completions", "/v1/chat/completions", "/tokenize"
PROMPTS = 12
LONG = 150  # tokens that are asked for by clients who vanish
SAVED = 0.3  # share of them, at least, that a server which notices does not write
GROWTH = (0.02, 8 << 20)  # of resident memory over the second half: the larger of a share and bytes
SETTLING = 20.0  # seconds until nothing may be running any more

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse_metrics(text: str) -> Samples:
    """Samples of Prometheus' text format by name and labels."""
    samples: Samples = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        found = re.fullmatch(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)', line)
        if not found:
            raise EngineError(f"/metrics: not a sample: {line!r}")
        labels = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or "")))
        if (found[1], labels) in samples:
            raise EngineError(f"/metrics: twice: {line!r}")
        samples[found[1], labels] = float(found[3])
    return samples


class Watch:
    """The server from outside: its metrics, memory and descriptors."""

    def __init__(self, server: Ours) -> None:
        self.server = server
        self.resident: list[tuple[float, int]] = []
        self.problems: list[str] = []
        self.last: Samples = {}

    def metrics(self) -> Samples:
        with urllib.request.urlopen(self.server.url + "/metrics", timeout=60) as answer:
            samples = parse_metrics(answer.read().decode())
        for key, value in self.last.items():
            if key[0].endswith(("_total", "_count", "_sum", "_bucket")) and samples.get(key, -1.0) < value:
                self.problems.append(f"{key} went from {value} to {samples.get(key)}")
        self.last = samples
        return samples

    def value(self, name: str) -> float:
        samples = self.metrics()
        if (name, ()) not in samples:
            raise EngineError(f"/metrics has no {name}")
        return samples[name, ()]

    def memory(self) -> int:
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10  # type: ignore[index]

    def descriptors(self) -> int:
        return len(list(pathlib.Path(f"/proc/{self.server.process.pid}/fd").iterdir()))

    def until_idle(self) -> bool:
        deadline = time.monotonic() + SETTLING
        while time.monotonic() < deadline:
            samples = self.metrics()
            if not any(samples[name, ()] for name in ("routeopd_requests_running", "routeopd_requests_waiting")):
                return True
            time.sleep(0.2)
        return False


class Client(threading.Thread):
    """One client after another, each of its own kind."""

    def __init__(self, port: int, seed: str, texts: dict[str, str], deadline: float) -> None:
        super().__init__(daemon=True)
        self.port, self.random, self.texts, self.deadline = port, random.Random(seed), texts, deadline
        self.seen: collections.Counter[tuple[str, int]] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()
        self.vanished: collections.Counter[tuple[str, bool]] = collections.Counter()  # by endpoint and whether an answer had begun
        self.tokens = 0
        self.left = 0  # tokens that clients who vanished had asked for
        self.problems: list[str] = []
        self.connection: http.client.HTTPConnection | None = None

    def run(self) -> None:
        kinds = {self.stream: 5, self.leave_stream: 5, self.whole: 3, self.leave_early: 3, self.nonsense: 4, self.cut_short: 1,
                 self.tokenize: 2, self.slow: 1}
        while time.monotonic() < self.deadline and len(self.problems) < 5:
            kind = self.random.choices(list(kinds), list(kinds.values()))[0]
            self.kinds[kind.__name__] += 1
            try:
                kind()
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                self.problems.append(f"{kind.__name__}: {type(error).__name__}: {error}")
                self.drop()
        self.drop()

    def drop(self, reset: bool = False) -> None:
        """Closes the connection, or breaks it."""
        if self.connection and self.connection.sock:
            if reset:
                self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        self.connection = None

    def send(self, path: str, body: bytes) -> None:
        if self.connection and self.random.random() < 0.3:
            self.drop()
        self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        self.connection.request("POST", path, body, {"Content-Type": "application/json"})

    def answer(self, path: str) -> http.client.HTTPResponse:
        assert self.connection
        response = self.connection.getresponse()
        self.seen[path, response.status] += 1
        return response

    def body(self, **more: Any) -> tuple[str, bytes]:
        prompt = self.random.choice(list(self.texts))
        return prompt, json.dumps({"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 60, **more}).encode()

    def check(self, what: str, got: Any, wanted: Any) -> None:
        if got != wanted:
            self.problems.append(f"{what}: {got!r} instead of {wanted!r}")

    def read_stream(self, response: http.client.HTTPResponse, pause: float = 0.0) -> str:
        text, last = "", b""
        for line in response:
            if line.startswith(b"data: {"):
                last = line
                text += json.loads(line[6:])["choices"][0]["text"]
                self.tokens += 1
                time.sleep(pause)
            elif line.strip():
                last = line
        self.check("the end of a stream", last.strip(), b"data: [DONE]")
        return text

    def stream(self) -> None:
        prompt, body = self.body(stream=True)
        self.send(COMPLETIONS, body)
        response = self.answer(COMPLETIONS)
        self.check("a stream", response.status, 200)
        self.check(f"the text after {prompt!r}", self.read_stream(response), self.texts[prompt])

    def slow(self) -> None:
        prompt, body = self.body(stream=True)
        self.send(COMPLETIONS, body)
        self.check(f"the text after {prompt!r}, read slowly", self.read_stream(self.answer(COMPLETIONS), 0.05), self.texts[prompt])

    def leave_stream(self) -> None:
        n = self.random.choice([1, 1, 4, 16])
        _, body = self.body(stream=True, ignore_eos=True, max_tokens=LONG, n=n, temperature=1.0 if n > 1 else 0.0)
        self.send(COMPLETIONS, body)
        assert self.connection
        response = self.connection.getresponse()
        self.check("a stream that is left", response.status, 200)
        for _ in range(self.random.randrange(2 * 12)):
            response.readline()
        self.vanished[COMPLETIONS, True] += 1
        self.left += n * LONG
        response.close()  # it keeps the socket open by itself
        self.drop(self.random.random() < 0.5)

    def leave_early(self) -> None:
        stream = self.random.random() < 0.5
        _, body = self.body(stream=stream, ignore_eos=True, max_tokens=LONG)
        self.send(COMPLETIONS, body)
        time.sleep(self.random.choice([0.0, 0.001, 0.05]))
        self.vanished[COMPLETIONS, False] += 1
        self.left += LONG
        self.drop(self.random.random() < 0.5)

    def whole(self) -> None:
        prompt, body = self.body(logprobs=3, prompt_logprobs=1)
        self.send(COMPLETIONS, body)
        response = self.answer(COMPLETIONS)
        answer = json.loads(response.read())
        self.check("a whole answer", response.status, 200)
        self.tokens += answer["usage"]["completion_tokens"]
        self.check(f"the whole text after {prompt!r}", answer["choices"][0]["text"], self.texts[prompt])

    def nonsense(self) -> None:
        prompt = next(iter(self.texts))
        path, body, status = self.random.choice([
            (COMPLETIONS, b"{not json", 400), (COMPLETIONS, b"", 400), (COMPLETIONS, b'{"model":"another","prompt":"a"}', 404),
            (COMPLETIONS, b'{"model":"m","prompt":[99999999]}', 400), (COMPLETIONS, b'{"model":"m","prompt":"a","temperature":-1}', 400),
            (COMPLETIONS, json.dumps({"model": "m", "prompt": prompt * 200, "stream": True}).encode(), 400),
            (COMPLETIONS, b'{"model":"m","prompt":"a","stream":1', 400), (CHAT, b'{"model":"m","messages":[]}', 400),
            (CHAT, b'{"model":"another","messages":[{"role":"user","content":"a"}]}', 404), (TOKENIZE, b'{"prompt":5}', 400)])
        self.send(path, body)
        response = self.answer(path)
        text = response.read()
        self.check(f"{path} {body[:60]!r}", response.status, status)
        json.loads(text)

    def tokenize(self) -> None:
        prompt = self.random.choice(list(self.texts))
        self.send(TOKENIZE, json.dumps({"model": "m", "prompt": prompt}).encode())
        response = self.answer(TOKENIZE)
        answer = json.loads(response.read())
        self.check("/tokenize", (response.status, answer["count"]), (200, len(answer["tokens"])))

    def cut_short(self) -> None:
        """Part of a request: it never was one."""
        self.drop()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as half:
            half.sendall(self.random.choice([b"POST /v1/comp", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n", b"",
                                             b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{\"model\""]))
            time.sleep(self.random.choice([0.0, 0.2]))


def compare_counters(samples: Samples, before: Samples, clients: list[Client]) -> list[str]:
    """Where the counters of /metrics are not those of the clients."""
    wrong = []
    seen: collections.Counter[tuple[str, int]] = sum((client.seen for client in clients), collections.Counter())
    vanished: collections.Counter[tuple[str, bool]] = sum((client.vanished for client in clients), collections.Counter())

    def since(name: str, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(value - before.get(key, 0.0) for key, value in samples.items() if key[0] == name and wanted <= set(key[1]))

    for path in (COMPLETIONS, CHAT, TOKENIZE):
        statuses = {dict(key[1]).get("status", "") for key in samples if key[0] == "routeopd_requests_total"}
        counted = {status: since("routeopd_requests_total", path=path, status=status) for status in sorted(statuses)}
        ours = {str(status): count for (endpoint, status), count in sorted(seen.items()) if endpoint == path}
        print(f"  {path}: /metrics {({status: int(value) for status, value in counted.items() if value})}, clients saw {ours}, "
              f"vanished {vanished[path, True]} in an answer and {vanished[path, False]} before")
        for status, count in ours.items():
            if status != "200" and counted.get(status, 0.0) != count:
                wrong.append(f"{path}: {count} answers of {status}, /metrics counts {counted.get(status)}")
        if counted.get("200", 0.0) < ours.get("200", 0):
            wrong.append(f"{path}: {ours['200']} answers of 200, /metrics counts {counted.get('200')}")
        all_seen = sum(ours.values())
        least, most = all_seen + vanished[path, True], all_seen + vanished[path, True] + vanished[path, False]
        if not least <= sum(counted.values()) <= most:
            wrong.append(f"{path}: {least} to {most} requests were sent, /metrics counts {sum(counted.values()):.0f}")
    gone = sum(vanished.values())
    cancelled = since("routeopd_requests_total", status="0")
    if not 0 < cancelled <= gone:
        wrong.append(f"{gone} clients vanished, routeopd_requests_total counts {cancelled:.0f} as such")
    tokens = sum(client.tokens for client in clients)
    written = since("routeopd_generation_tokens_total")
    print(f"  {gone} vanished, {cancelled:.0f} counted as gone; {written:.0f} tokens written, {tokens} pieces and tokens came")
    if written < tokens:
        wrong.append(f"{tokens} pieces and tokens came, routeopd_generation_tokens_total counts {written:.0f}")
    left, worked = sum(client.left for client in clients), since("routeopd_engine_tokens_written_total")
    print(f"  the engine wrote {worked:.0f} tokens; those who vanished had asked for {left}")
    if worked > tokens + (1 - SAVED) * left:
        wrong.append(f"the engine wrote {worked:.0f} tokens: what vanished clients asked for is not given up")
    for name in ("routeopd_first_token_seconds", "routeopd_request_seconds", "routeopd_token_seconds"):
        wrong += check_histogram(name, samples)
    return wrong


def check_histogram(name: str, samples: Samples) -> list[str]:
    """Buckets of each set of labels rise, and the last one is the count."""
    groups: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for (key, labels), value in samples.items():
        if key == f"{name}_bucket":
            bound = float(dict(labels)["le"].replace("+Inf", "inf"))
            groups.setdefault(tuple(label for label in labels if label[0] != "le"), []).append((bound, value))
    if not groups:
        return [f"/metrics has no buckets of {name}"]
    wrong = []
    for labels, buckets in groups.items():
        values = [value for _, value in sorted(buckets)]
        if values != sorted(values) or max(buckets)[0] != float("inf") or values[-1] != samples.get((f"{name}_count", labels)):
            wrong.append(f"{name}{dict(labels)}: buckets {values}, count {samples.get((f'{name}_count', labels))}")
    if not sum(samples.get((f"{name}_count", labels), 0.0) for labels in groups):
        wrong.append(f"{name} counted nothing")
    return wrong


def check_memory(resident: list[tuple[float, int]]) -> list[str]:
    """Medians of the third and the last quarter of the time, in bytes."""
    quarter = len(resident) // 4
    if quarter < 3:
        return ["too short to see whether memory grows; try more --seconds"]
    third, last = (statistics.median(size for _, size in part) for part in (resident[2 * quarter:3 * quarter], resident[-quarter:]))
    allowed = max(GROWTH[0] * third, GROWTH[1])
    print(f"  resident: {resident[0][1] / 1e6:.1f} MB at the start, {third / 1e6:.1f} in the third quarter, {last / 1e6:.1f} in the last")
    return [f"resident memory grew by {(last - third) / 1e6:.1f} MB, more than {allowed / 1e6:.1f}"] if last - third > allowed else []


def reference_texts(server: Ours, problems: pathlib.Path) -> dict[str, str]:
    texts = {}
    with problems.open() as file:
        for line in list(file)[:PROMPTS]:
            prompt = f"Problem: {json.loads(line)['problem']}\nSolution:"
            _, answer = server.post(COMPLETIONS, {"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 60})
            texts[prompt] = answer["choices"][0]["text"]
    return texts


def soak(server: Ours, args: argparse.Namespace) -> list[str]:
    texts = reference_texts(server, args.problems)
    watch = Watch(server)
    if not watch.until_idle():
        return ["the server does not become idle before it begins"]
    before, idle_blocks, idle_descriptors = watch.metrics(), watch.value("routeopd_kv_blocks_used"), watch.descriptors()
    deadline = time.monotonic() + args.seconds
    clients = [Client(server.port, f"{args.seed}/{number}", texts, deadline) for number in range(args.clients)]
    for client in clients:
        client.start()
    most_blocks = 0.0
    while time.monotonic() < deadline and any(client.is_alive() for client in clients):
        if server.process.poll() is not None:
            raise server.failure("the server ended")
        watch.resident.append((time.monotonic(), watch.memory()))
        most_blocks = max(most_blocks, watch.value("routeopd_kv_blocks_used"))
        time.sleep(max(0.2, args.seconds / 300))
    for client in clients:
        client.join(300)
    wrong = [problem for client in clients for problem in client.problems] + watch.problems
    wrong += [f"client {number} hangs" for number, client in enumerate(clients) if client.is_alive()]
    kinds: collections.Counter[str] = sum((client.kinds for client in clients), collections.Counter())
    print(f"  {sum(kinds.values())} clients in {args.seconds:g} s: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))

    if not watch.until_idle():
        wrong.append(f"requests are still running {SETTLING:g} s after the last client left")
    samples = watch.metrics()
    used, total = samples["routeopd_kv_blocks_used", ()], samples["routeopd_kv_blocks", ()]
    print(f"  blocks: {used:.0f} of {total:.0f} held at the end, {most_blocks:.0f} at most")
    if used != idle_blocks:
        wrong.append(f"{used:.0f} blocks are held at the end, {idle_blocks:.0f} before")
    if not 0 < most_blocks <= total:
        wrong.append(f"{most_blocks:.0f} blocks were held at most, of {total:.0f}")
    wrong += compare_counters(samples, before, clients)
    deadline = time.monotonic() + SETTLING
    while watch.descriptors() > idle_descriptors + 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    if watch.descriptors() > idle_descriptors + 2:
        wrong.append(f"{watch.descriptors()} descriptors are open at the end, {idle_descriptors} before")
    wrong += check_memory(watch.resident)
    again = reference_texts(server, args.problems)
    if again != texts:
        wrong.append("the idle server answers otherwise than before")
    return wrong


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kv-memory", default="", help="passed on to serve, to make requests wait")
    parser.add_argument("--problems", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "lab/heldout.jsonl")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = Ours(args.program, args.model, work / "server.log", ("--kv-memory", args.kv_memory) if args.kv_memory else ())
        stack.callback(server.end)
        server.wait_until_up()
        print(f"soak: {args.clients} clients, {pathlib.Path(args.model).name}")
        wrong = soak(server, args)
    report(f"server, {args.clients} clients for {args.seconds:g} s", "–", "nothing lost or grown", f"{len(wrong)} things wrong", not wrong)
    for line in wrong[:20]:
        print(f"  wrong: {line}", file=sys.stderr)
    if wrong:
        sys.exit(f"soak: {len(wrong)} things are wrong.")
    print("soak: nothing lost, nothing grown, every request counted")


if __name__ == "__main__":
    try:
        main()
    except EngineError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
