"""A `routeopd serve` for a test, requests to it, and bodies in safetensors. Servers listen at 127.0.0.1 on a free port and end
with the tests of their module."""
import array
import http.client
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

CODES = {"F32": "f", "I32": "i", "I64": "q"}
PROMPTS = 12


class Server:
    """`more`: options of serve. Ready when it is made; `text()` is what it has said so far."""

    def __init__(self, program, model, *more, environment=None, port=0):
        self.log = tempfile.NamedTemporaryFile("r")
        with open(self.log.name, "wb") as log:
            self.process = subprocess.Popen([program, "serve", str(model), "--port", str(port), "--name", "m", *map(str, more)],
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **(environment or {})})
        unittest.addModuleCleanup(self.end)
        deadline = time.monotonic() + 300
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not come up: {self.text()}")
            if found := re.search(r"http://127\.0\.0\.1:(\d+)(?=\D)", self.text()):
                self.url, self.port = found[0], int(found[1])
                return
            time.sleep(0.02)

    def text(self):
        with open(self.log.name) as log:
            return log.read()

    def end(self, how=signal.SIGTERM):
        """Its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, timeout=120):
        """Status, headers in lower case, bytes."""
        connection = self.connect(timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path, value=None, expect=200, **more):
        """The answer to a JSON body, or to a GET."""
        body = None if value is None else value if isinstance(value, (bytes, str)) else json.dumps(value)
        status, headers, answer = self.ask("GET" if value is None else "POST", path, body, {"Content-Type": "application/json"}, **more)
        assert status == expect, f"{path}: {status} {answer[:2000]}"
        return json.loads(answer) if answer else None

    def tensors(self, path, tensors, expect=200, **settings):
        """The tensors of the answer, and its metadata."""
        status, headers, answer = self.ask("POST", path, pack(tensors, settings))
        assert status == expect, f"{path}: {status} {answer[:2000]}"
        return unpack(answer) if status == 200 else json.loads(answer)

    def metrics(self):
        """Every sample of /metrics by its name and labels."""
        status, _, answer = self.ask("GET", "/metrics")
        assert status == 200
        samples = (line.rsplit(" ", 1) for line in answer.decode().splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}


def pack(tensors, settings=None):
    """safetensors of {name: (dtype, shape, flat values)}; settings are JSON in its metadata."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        part = array.array(CODES[dtype], values).tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    if settings:
        header["__metadata__"] = {name: json.dumps(value) for name, value in settings.items()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def unpack(body):
    """{name: array}, metadata."""
    length, = struct.unpack("<Q", body[:8])
    header = json.loads(body[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        tensors[name] = array.array(CODES[entry["dtype"]], body[8 + length + first:8 + length + end])
        tensors[name + ".shape"] = entry["shape"]
    return tensors, metadata


def events(body):
    """The objects of a stream of server-sent events, which must end as such a stream ends."""
    parts = body.decode().split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""], parts[-3:]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def run(program, *arguments, stdin=""):
    """The lines that a command prints, in the order of its input."""
    answer = subprocess.run([program, *map(str, arguments)], input=stdin, text=True, capture_output=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    return sorted(lines, key=lambda line: (int(line["id"]), line["sample"])) if "sample" in lines[0] else lines


class Reference:
    """What the commands give: `written` by generate --n 3 --seed 5 --k 4, `scored` by score --k 4 of each whole text."""

    def __init__(self, program, lab):
        model = lab / "teacher"
        with open(lab / "heldout.jsonl") as file:
            problems = [json.loads(next(file)) for _ in range(PROMPTS)]
        self.texts = [f"Problem: {row['problem']}\nSolution:" for row in problems]
        stdin = "".join(json.dumps({"prompt": text}) + "\n" for text in self.texts)
        how = ("--model", model, "--max-new", 40, "--seed", 5, "--quiet")
        self.written = run(program, "generate", *how, "--n", 3, "--k", 4, stdin=stdin)
        self.stopped = run(program, "generate", *how, "--stop", " plus", "--stop", "answer", stdin=stdin)
        self.greedy = run(program, "generate", *how, "--temperature", 0, "--ignore-eos", stdin=stdin)
        self.cooled = run(program, "generate", *how, "--temperature", 0.7, "--top-p", 0.9, "--top-k", 20, stdin=stdin)
        wholes = [row["prompt_ids"] + row["ids"] for row in self.written[::3]]
        self.scored = run(program, "score", "--model", model, "--k", 4, "--quiet",
                          stdin="".join(json.dumps({"ids": ids, "gather": [[7, 9]] * len(ids)}) + "\n" for ids in wholes))
        self.wholes = wholes
