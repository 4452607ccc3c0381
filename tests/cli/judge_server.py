"""A chat server in this process for the tests of `judge`: it answers well, badly, late or not at all, and remembers what it was
asked. The program is the first argument of the script that imports this."""
import hashlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

PROGRAM = sys.argv.pop(1)
KEY = "sk-Xq7.very-secret/9vT"
LABELS = ("reasoning_error", "arithmetic_error", "premature_stop")
MIB = 1 << 20


def text_of(body):
    return body["messages"][1]["content"]


def completion(content, finish="stop"):
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 3}}


def verdict(label, rationale="because of it"):
    return completion(json.dumps({"label": label, "rationale": rationale}))


class Judge:
    """A chat endpoint. `answer(body, number)` gives a status and a JSON object or bytes, or acts on the handler itself
    and gives None."""

    def __init__(self, answer):
        self.answer, self.lock = answer, threading.Lock()
        self.requests, self.headers, self.paths = [], [], []
        self.running = self.most_running = 0
        judge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                with judge.lock:
                    judge.running += 1
                    judge.most_running = max(judge.running, judge.most_running)
                    number = len(judge.requests)
                    judge.requests.append(raw.decode())
                    judge.headers.append(dict(self.headers))
                    judge.paths.append(self.path)
                try:
                    given = judge.answer(json.loads(raw), number, self)
                    if given is not None:
                        self.reply(*given)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    with judge.lock:
                        judge.running -= 1

            def reply(self, status, value, headers=()):
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in headers:
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def bodies(self):
        return [json.loads(request) for request in self.requests]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def cut(handler):
    """Promises 1000 bytes, sends a few and hangs up."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def stable(body, number, _=None):
    """The same label for the same case in both passes."""
    return 200, verdict(LABELS[hashlib.sha256(text_of(body).encode()).digest()[0] % 3])


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)
        self.suite = self.path / "problems-of-aime.jsonl"
        self.suite.write_text("".join(json.dumps({"id": f"p{p}", "problem": f"What is {p} + {p}?", "answer": str(2 * p)}) + "\n"
                                      for p in range(8)))

    def serve(self, answer):
        judge = Judge(answer)
        self.addCleanup(judge.close)
        return judge

    def make_run(self, name, kinds, suite="aime", named=True):
        """kinds[p][s]: c correct, f no answer, w wrong; W wrong in words that this run alone uses."""
        run = self.path / name
        run.mkdir()
        lines = []
        for p, row in enumerate(kinds):
            for s, kind in enumerate(row):
                words = {"c": f"It is \\boxed{{{2 * p}}}", "f": "I do not know",
                         "w": f"Sum {p} sample {s}: \\boxed{{99}}", "W": f"Other words {p} {s} {len(name)} \\boxed{{98}}"}[kind]
                extracted = {"c": str(2 * p), "f": "", "w": "99", "W": "98"}[kind]
                lines.append({"suite": suite, "problem": f"p{p}", "sample": s, "response": words, "extracted": extracted,
                              "correct": kind == "c", "format_ok": kind != "f", "clipped": s == 1, "tokens": 10 * p + s})
        (run / "responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        about = {"sha256": hashlib.sha256(self.suite.read_bytes()).hexdigest(), "n": len(kinds), "samples": len(kinds[0])}
        if named:
            about["file"] = str(self.suite)
        (run / "summary.json").write_text(json.dumps({
            "model": {"path": f"checkpoints/{name}/step_77", "step": 77}, "decoding": {"n": len(kinds[0])}, "seed": 42,
            "template": "chat", "extractor": "final-answer-1", "suites": {suite: about}}))
        return run

    def command(self, judge, *arguments, runs=None, out="judged"):
        runs = runs or [self.path / "method-A"]
        url = judge if isinstance(judge, str) else judge.url
        model = () if "--model" in arguments else ("--model", "the-judge")
        return [PROGRAM, "judge", *map(str, runs), "--endpoint", url, *model, "--out", str(self.path / out), *map(str, arguments)]

    def run_judge(self, judge, *arguments, environment=(), timeout=60, **kept):
        clean = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
        return subprocess.run(self.command(judge, *arguments, **kept), text=True, capture_output=True, timeout=timeout,
                              env=clean | dict(environment))

    def labels(self, out="judged"):
        return [json.loads(line) for line in (self.path / out / "labels.jsonl").read_text().splitlines()]

    def summary(self, out="judged"):
        return json.loads((self.path / out / "summary.json").read_text())

    def assert_fails(self, answer, *words, code=1):
        self.assertEqual(answer.returncode, code, answer.stderr)
        said = [line for line in answer.stderr.splitlines() if not line.startswith("judge ")]  # progress, after a second
        self.assertEqual(len(said), 1, answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)
