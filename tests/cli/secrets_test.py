#!/usr/bin/env python3
"""Keys: sent to the address they are for, and in no log, file or error, also where that address redirects or repeats them.

    secrets_test.py PROGRAM SOURCE_DIRECTORY
"""
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
KEY = "sk-a/secret-that-nobody-sees"


class Listener:
    """Answers every request with answer(handler) -> (status, headers, body), and remembers what came."""

    def __init__(self, answer):
        self.keys, self.paths = [], []
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                listener.keys.append(self.headers.get("Authorization"))
                listener.paths.append(self.path)
                status, headers, body = answer(self)
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def repeats(status):
    def answer(handler):
        key = handler.headers.get("Authorization", "")
        escaped = json.dumps({"error": {"message": f"wrong: {key}"}}).replace("/", "\\/")
        return status, [("X-Key", key), ("Content-Type", "application/json")], escaped.encode()
    return answer


def repeats_in_prose(status):
    return lambda handler: (status, [], ("x" * 290 + handler.headers.get("Authorization", "") * 3).encode())


class Secrets(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def listen(self, answer):
        listener = Listener(answer)
        self.addCleanup(listener.close)
        return listener

    def assert_hidden(self, answer):
        self.assertEqual(answer.returncode, 1, answer.stderr)
        for said in (answer.stdout, answer.stderr):
            self.assertNotIn(KEY, said)
            self.assertNotIn(KEY[:12], said)
        for file in self.path.rglob("*"):
            if file.is_file():
                self.assertNotIn(KEY.encode(), file.read_bytes(), file)

    def train(self, url, engine, side):
        values = {f"{side}.engine": engine, f"{side}.urls": json.dumps([url]), f"{side}.api_key_env": "OUR_KEY", "train.steps": 1,
                  "rollout.prompts_per_step": 1, "rollout.n": 1, "rollout.patience": 0.2, "rollout.max_new_tokens": 4}
        if side == "teacher":
            values["teacher.patience"] = 0.2
        words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        return subprocess.run([PROGRAM, "train", SOURCE / "recipes" / "lab.toml", "--out", self.path / "trained", *words], text=True,
                              capture_output=True, timeout=120, cwd=SOURCE, env=os.environ | {"OUR_KEY": KEY})

    def judge(self, url):
        run = self.path / "run"
        run.mkdir(exist_ok=True)
        suite = self.path / "suite.jsonl"
        suite.write_text('{"id": "a", "problem": "1 + 1?", "answer": "2"}\n')
        (run / "responses.jsonl").write_text(json.dumps({
            "suite": "s", "problem": "a", "sample": 0, "response": "\\boxed{3}", "extracted": "3", "correct": False, "format_ok": True,
            "clipped": False, "tokens": 3}) + "\n")
        (run / "summary.json").write_text(json.dumps({
            "model": {"path": "m", "step": 1}, "decoding": {"n": 1}, "seed": 1, "template": "chat", "extractor": "final-answer-1",
            "suites": {"s": {"sha256": hashlib.sha256(suite.read_bytes()).hexdigest(), "n": 1, "samples": 1, "file": str(suite)}}}))
        return subprocess.run([PROGRAM, "judge", run, "--endpoint", url, "--model", "j", "--out", self.path / "judged", "--key-env",
                               "OUR_KEY", "--retries", "0"], text=True, capture_output=True, timeout=120,
                              env=os.environ | {"OUR_KEY": KEY})

    def test_a_redirect_takes_no_key_anywhere(self):
        other = self.listen(lambda handler: (200, [], b"{}"))
        for status in (301, 302, 307, 308):
            first = self.listen(lambda handler: (status, [("Location", other.url + handler.path)], b"moved"))
            self.assert_hidden(self.judge(first.url + "/v1"))
            self.assertEqual(set(first.keys), {f"Bearer {KEY}"})
        for engine, side in (("serve", "teacher"), ("vllm", "rollout"), ("sglang", "teacher")):
            first = self.listen(lambda handler: (307, [("Location", other.url + handler.path)], b"moved"))
            self.assert_hidden(self.train(first.url, engine, side))
            self.assertIn(f"Bearer {KEY}", first.keys)
        self.assertEqual(other.paths, [])

    def test_a_key_that_is_repeated_is_not_shown(self):
        for answer in (repeats(400), repeats(401), repeats_in_prose(403), repeats(200)):
            self.assert_hidden(self.judge(self.listen(answer).url))
        for engine, side, answer in (("serve", "teacher", repeats(401)), ("vllm", "teacher", repeats(400)),
                                     ("sglang", "rollout", repeats_in_prose(403)), ("serve", "rollout", repeats(200)),
                                     ("vllm", "teacher", repeats_in_prose(500))):
            listener = self.listen(answer)
            self.assert_hidden(self.train(listener.url, engine, side))
            self.assertIn(f"Bearer {KEY}", listener.keys)

    def test_the_key_of_serve_is_in_no_log(self):
        log = self.path / "log"
        with open(log, "w") as errors:
            process = subprocess.Popen([PROGRAM, "serve", SOURCE / "lab" / "base", "--port", "0", "--api-key-env", "OUR_KEY", "--access-log",
                                        "--log-prompts"], text=True, stdout=subprocess.PIPE, stderr=errors,
                                       env=os.environ | {"OUR_KEY": KEY})
        try:
            port = int(process.stdout.readline().split("127.0.0.1:")[1].split(":")[0])
            statuses = []
            for path, key, body in (("/v1/completions", KEY, {"prompt": "1\x9b31m", "max_tokens": 1}), ("/v1/completions", KEY + "x", {}),
                                    ("/v1/completions", KEY, {"prompt": 7}), ("/metrics", KEY, None), ("/no/such", KEY, None)):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body),
                                   {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
                answer = connection.getresponse()
                statuses.append(answer.status)
                self.assertNotIn(KEY.encode(), answer.read())
                connection.close()
            self.assertEqual(statuses[:3], [200, 401, 400])
        finally:
            process.terminate()
            self.assertNotIn(KEY, process.stdout.read())
            process.stdout.close()
            process.wait(timeout=60)
        self.assertIn("/v1/completions", log.read_text())
        self.assertNotIn(KEY, log.read_text())
        self.assertNotIn("\x9b", log.read_text())  # a prompt acts on no terminal
        self.assertIn("1\\u{9b}31m", log.read_text())


if __name__ == "__main__":
    unittest.main()
