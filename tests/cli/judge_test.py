#!/usr/bin/env python3
"""judge as a user meets it, against a server in this process that answers well, badly, late or not at all.

    judge_test.py PROGRAM
"""
import collections
import hashlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
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
        return [PROGRAM, "judge", *map(str, runs), "--endpoint", url, "--model", "the-judge", "--out",
                str(self.path / out), *map(str, arguments)]

    def run_judge(self, judge, *arguments, environment=(), timeout=60, **kept):
        clean = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
        return subprocess.run(self.command(judge, *arguments, **kept), text=True, capture_output=True, timeout=timeout,
                              env=clean | dict(environment))

    def labels(self, out="judged"):
        return [json.loads(line) for line in (self.path / out / "labels.jsonl").read_text().splitlines()]

    def summary(self, out="judged"):
        return json.loads((self.path / out / "summary.json").read_text())

    def assert_fails(self, answer, *words):
        self.assertEqual(answer.returncode, 1, answer.stderr)
        said = [line for line in answer.stderr.splitlines() if not line.startswith("judge ")]  # progress, after a second
        self.assertEqual(len(said), 1, answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)


class Labels(Case):
    def test_the_cascade_and_the_files(self):
        self.make_run("method-A", ["cw", "fw", "ww"])
        judge = self.serve(stable)
        answer = self.run_judge(judge)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        labels = {(line["problem"], line["sample"]): line for line in self.labels()}
        self.assertEqual(len(labels), 6)
        self.assertEqual(labels["p0", 0]["label"], "correct")
        self.assertEqual(labels["p1", 0]["label"], "format")
        for place in (("p0", 0), ("p1", 0)):
            self.assertEqual((labels[place]["pass1"], labels[place]["pass2"]), (None, None))
        self.assertEqual(len(judge.requests), 2 * 4)
        for place in (("p0", 1), ("p1", 1), ("p2", 0), ("p2", 1)):
            line = labels[place]
            self.assertIn(line["label"], ("reasoning", "arithmetic", "premature_stop"))
            self.assertEqual((line["pass1"], line["pass2"], line["adjudicated"]), (line["label"], line["label"], False))
            self.assertEqual(line["rationale"], "because of it")
            self.assertNotIn("run", line)
        self.assertEqual([line["clipped"] for line in labels.values()], [False, True] * 3)
        summary = self.summary()
        counts = summary["suites"]["aime"]["runs"]["method-A"]["labels"]
        self.assertEqual(counts, dict(collections.Counter({name: 0 for name in counts}) |
                                      collections.Counter(line["label"] for line in labels.values())) |
                         {name: 0 for name in counts if name not in {line["label"] for line in labels.values()}})
        self.assertEqual(summary["agreement"]["all"]["n"], 6)
        self.assertEqual(summary["agreement"]["judged"]["n"], 4)
        self.assertEqual(summary["agreement"]["judged"]["agreement"], 1.0)
        self.assertEqual((summary["adjudicated"], summary["unjudged"]), (0, 0))
        self.assertEqual(summary["requests"], {"asked": 8, "cached": 0, "prompt_tokens": 80, "completion_tokens": 24})
        self.assertEqual(set(judge.paths), {"/v1/chat/completions"})

    def test_the_papers_prompt_word_for_word(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        self.run_judge(judge)
        system, user = json.loads(judge.requests[0])["messages"]
        self.assertEqual(system, {"role": "system", "content":
                                  "You are a careful judge of mathematical solutions. Identify the first error that causes the final "
                                  "answer to be wrong. Judge only the response content; do not infer which model or method produced it."})
        self.assertEqual(user, {"role": "user", "content": (
            "Problem: What is 0 + 0?\nReference answer: 0\nModel response: Sum 0 sample 0: \\boxed{99}\nExtracted answer: 99\n\n"
            "Choose exactly one label:\n"
            "reasoning_error: the first decisive error is conceptual or logical, including a wrong method, invalid inference, or "
            "unjustified transformation.\n"
            "arithmetic_error: the approach is otherwise correct and the first decisive error is a local calculation, algebra, sign, "
            "or simplification mistake.\n"
            "premature_stop: the response stops before completing the required reasoning, with no earlier reasoning or arithmetic "
            "error.\n\n"
            'Return only JSON in the form {"label": "<one label>", "rationale": "<one short sentence>"}.')})
        one, two = judge.bodies()
        self.assertEqual(sorted((one.pop("seed"), two.pop("seed"))), [42, 43])
        self.assertEqual(one, two)
        self.assertEqual(one | {"messages": 0}, {"model": "the-judge", "messages": 0, "temperature": 0.7, "max_tokens": 1024})

    def test_disagreement_goes_to_adjudication(self):
        self.make_run("method-A", ["ww", "cf"])

        def answer(body, number, _):
            if "Two judges disagree" in text_of(body):
                return 200, verdict("arithmetic_error", "a slip")
            return 200, (verdict("reasoning_error", "second view") if body["seed"] % 2 else verdict("arithmetic_error", "first view"))

        judge = self.serve(answer)
        self.assertEqual(self.run_judge(judge).returncode, 0)
        wrong = self.labels()[:2]
        for line in wrong:
            self.assertEqual((line["label"], line["pass1"], line["pass2"], line["adjudicated"], line["rationale"]),
                             ("arithmetic", "arithmetic", "reasoning", True, "a slip"))
        asked = [text_of(body) for body in judge.bodies() if "Two judges disagree" in text_of(body)]
        self.assertEqual(len(asked), 2)
        for text in asked:
            self.assertIn("arithmetic_error: first view\nreasoning_error: second view", text)
            self.assertIn("the earlier setup makes it a reasoning_error", text)
        summary = self.summary()
        self.assertEqual(summary["adjudicated"], 2)
        self.assertEqual(summary["agreement"]["judged"], {"n": 2, "agreement": 0.0, "kappa": 0.0})
        # Four responses: correct and format alike in both passes, arithmetic against reasoning twice.
        expected = 2 * 0.25 * 0.25
        self.assertEqual(summary["agreement"]["all"]["agreement"], 0.5)
        self.assertAlmostEqual(summary["agreement"]["all"]["kappa"], (0.5 - expected) / (1 - expected), places=12)

    def test_an_adjudicator_may_not_name_a_third_label(self):
        self.make_run("method-A", ["w"])

        def answer(body, number, _):
            if "Two judges disagree" in text_of(body):
                return 200, verdict("premature_stop")
            return 200, verdict(LABELS[body["seed"] % 2])

        judge = self.serve(answer)
        self.assertEqual(self.run_judge(judge).returncode, 0)
        line, = self.labels()
        self.assertEqual((line["label"], line["adjudicated"]), ("unjudged", False))
        self.assertEqual({line["pass1"], line["pass2"]}, {"reasoning", "arithmetic"})
        self.assertEqual(len(judge.requests), 2 + 3)

    def test_two_runs_share_cases_and_give_transitions(self):
        self.make_run("method-A", ["ccw", "wfw"])
        self.make_run("method-B", ["cfc", "cwW"])
        judge = self.serve(lambda body, number, _: (200, verdict("reasoning_error")))
        runs = [self.path / "method-A", self.path / "method-B"]
        answer = self.run_judge(judge, runs=runs)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # A's wrong: (0,2) (1,0) (1,2); B's: (1,1) and (1,2) in other words: five cases, none shared.
        self.assertEqual(len(judge.requests), 2 * 5)
        self.assertEqual([line["run"] for line in self.labels()], ["method-A"] * 6 + ["method-B"] * 6)
        pair, = self.summary()["suites"]["aime"]["transitions"]
        self.assertEqual((pair["from"], pair["to"]), ("method-A", "method-B"))
        self.assertEqual(pair["into_correct"], {"reasoning": 2, "arithmetic": 0, "premature_stop": 0, "format": 0, "unjudged": 0})
        self.assertEqual(pair["out_of_correct"], {"reasoning": 0, "arithmetic": 0, "premature_stop": 0, "format": 1, "unjudged": 0})
        self.assertRegex(answer.stdout, r"reasoning → correct +2\n")
        self.assertRegex(answer.stdout, r"correct → format +1\n")
        self.make_run("method-C", ["ccw", "wfw"])  # word for word as A
        again = self.serve(stable)
        self.assertEqual(self.run_judge(again, runs=[runs[0], self.path / "method-C"], out="both").returncode, 0)
        self.assertEqual(len(again.requests), 2 * 3)

    def test_tables_in_other_forms(self):
        self.make_run("run_1", ["cw"])
        judge = self.serve(stable)
        runs = [self.path / "run_1"]
        self.assertIn("| run\\_1 | 1 |", self.run_judge(judge, "--markdown", runs=runs).stdout)
        latex = self.run_judge(judge, "--latex", runs=runs).stdout
        self.assertIn("run\\_1 & 1 &", latex)
        self.assertIn("\\toprule", latex)
        self.assertEqual(json.loads(self.run_judge(judge, "--json", runs=runs).stdout), self.summary())
        self.assertEqual(self.run_judge(judge, "--quiet", runs=runs).stdout, "")


class Blinding(Case):
    def test_nothing_tells_where_a_response_comes_from(self):
        self.make_run("method-A", ["wwcw", "wfww"])
        self.make_run("method-B", ["WcWf", "WWcW"])
        judge = self.serve(lambda body, number, _: (200, verdict(LABELS[body["seed"] % 3])))  # passes differ: adjudication too
        self.assertEqual(self.run_judge(judge, runs=[self.path / "method-A", self.path / "method-B"],
                                        environment={"OPENAI_API_KEY": KEY}).returncode, 0)
        self.assertTrue(any("Two judges disagree" in request for request in judge.requests))
        for request, headers in zip(judge.requests, judge.headers):
            self.assertIsNone(re.search(r"method-|step_77|checkpoint|aime|problems-of|\bp\d\b|clipped|run|" + re.escape(str(self.path)),
                                        request), request)
            self.assertEqual(set(json.loads(request)), {"model", "messages", "temperature", "max_tokens", "seed"})
            self.assertEqual({name.lower() for name in headers},
                             {"host", "user-agent", "accept", "content-type", "content-length", "authorization"})

    def test_order_is_that_of_hashes(self):
        self.make_run("method-A", ["wwww"] * 4)
        self.make_run("method-B", ["WWWW"] * 4)
        judge = self.serve(stable)
        runs = [self.path / "method-A", self.path / "method-B"]
        self.assertEqual(self.run_judge(judge, "--parallel", 1, runs=runs).returncode, 0)
        hashes = [hashlib.sha256(request.encode()).hexdigest() for request in judge.requests]
        self.assertEqual(len(hashes), 2 * 32)
        self.assertEqual(hashes, sorted(hashes))
        again = self.serve(stable)
        self.assertEqual(self.run_judge(again, "--parallel", 1, runs=runs[::-1], out="turned").returncode, 0)
        self.assertEqual(again.requests, judge.requests)


class Key(Case):
    def test_goes_into_the_header_and_nowhere_else(self):
        self.make_run("method-A", ["ww"])
        state = {"calls": 0}

        def answer(body, number, handler):
            state["calls"] += 1
            if state["calls"] == 2:
                return 400, {"error": {"message": f"bad request with key {handler.headers['Authorization']}"}}
            return 200, verdict("reasoning_error", f"I saw {handler.headers['Authorization']}")

        judge = self.serve(answer)
        answer = self.run_judge(judge, environment={"MY_KEY": KEY}, *("--key-env", "MY_KEY"))
        self.assert_fails(answer, "answered 400: bad request with key Bearer *")
        self.assertEqual({headers["Authorization"] for headers in judge.headers}, {f"Bearer {KEY}"})
        self.assertTrue(all(KEY not in request for request in judge.requests))
        self.assertNotIn(KEY, answer.stderr + answer.stdout)
        files = [path for path in (self.path / "judged").rglob("*") if path.is_file()]
        self.assertGreaterEqual(len(files), 3)
        for path in files:
            self.assertNotIn(KEY, path.read_text(), path)

    def test_none_is_sent_where_none_is_set(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        self.assertEqual(self.run_judge(judge).returncode, 0)
        self.assertTrue(all("Authorization" not in headers for headers in judge.headers))

    def test_refusals(self):
        self.make_run("method-A", ["w"])
        self.assert_fails(self.run_judge("http://127.0.0.1:9/v1", "--key-env", "NO_SUCH"), "NO_SUCH")
        self.assert_fails(self.run_judge("http://judge.example/v1", environment={"OPENAI_API_KEY": KEY}), "unencrypted")
        self.assert_fails(self.run_judge("http://127.0.0.1:9/v1", environment={"OPENAI_API_KEY": "sk\nX: y"}), "header")
        for url in ("ftp://127.0.0.1/v1", "http://me:pass@127.0.0.1/v1", "http://127.0.0.1/v1?key=1", "no address"):
            answer = self.run_judge(url)
            self.assert_fails(answer, "endpoint")
            self.assertNotIn("pass@", answer.stderr)
        self.assertFalse((self.path / "judged").exists())


class Trouble(Case):
    def test_busy_then_well(self):
        self.make_run("method-A", ["w"])
        seen = collections.Counter()

        def answer(body, number, _):
            seen[body["seed"]] += 1
            if seen[body["seed"]] <= 2:
                return 429, {"error": {"message": "slow down"}}, [("Retry-After", "1")] if seen[body["seed"]] == 2 else []
            return stable(body, number)

        judge = self.serve(answer)
        start = time.monotonic()
        self.assertEqual(self.run_judge(judge).returncode, 0)
        self.assertEqual(len(judge.requests), 2 * 3)
        self.assertGreater(time.monotonic() - start, 1 + 0.375)  # as asked for, and 0.5 s less a quarter

    def test_always_500(self):
        self.make_run("method-A", ["wwwwwwww", "cfcfcfcf"])
        judge = self.serve(lambda body, number, _: (500, {"error": {"message": "out\x1b of\nmemory"}}))
        answer = self.run_judge(judge, "--parallel", 2)
        self.assert_fails(answer, "8 of 16 responses are unjudged", "answered 500: out of memory")
        # Given up after five questions failed, three tries each; a thread may have been at its last one.
        self.assertLessEqual(len(judge.requests), 3 * 6)
        labels = self.labels()
        self.assertEqual(collections.Counter(line["label"] for line in labels), {"unjudged": 8, "correct": 4, "format": 4})
        self.assertTrue(all("500" in line["reason"] for line in labels[:8]))
        self.assertEqual(self.summary()["unanswered"], 8)
        well = self.serve(stable)
        self.assertEqual(self.run_judge(well).returncode, 0)
        self.assertEqual(self.summary()["unjudged"], 0)

    def test_refused_requests_end_nothing_once_some_were_answered(self):
        self.make_run("method-A", ["ww" * 8, "cf" * 8])

        def answer(body, number, _):
            if number >= 1 and "sample 7" not in text_of(body):
                return 400, {"error": {"message": "maximum context length"}}
            return stable(body, number)

        judge = self.serve(answer)
        self.assert_fails(self.run_judge(judge, "--parallel", 1), "maximum context length")
        self.assertEqual(len(judge.requests), 2 * 16)  # each once: a 400 is not tried again, and asking goes on
        self.assertEqual(self.labels()[7]["label"] != "unjudged", True)

    def test_denied_ends_at_once(self):
        self.make_run("method-A", ["wwwwwwww"])
        for status in (401, 404):
            judge = self.serve(lambda body, number, _: (status, {"error": {"message": "no such thing"}}))
            self.assert_fails(self.run_judge(judge, "--parallel", 1), f"answered {status}: no such thing")
            self.assertEqual(len(judge.requests), 1)

    def test_a_redirect_is_not_followed(self):
        self.make_run("method-A", ["w"])
        other = self.serve(stable)
        judge = self.serve(lambda body, number, _: (307, b"", [("Location", other.url + "/chat/completions")]))
        self.assert_fails(self.run_judge(judge), "answered 307")
        self.assertEqual(other.requests, [])

    def test_slow(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(lambda body, number, _: time.sleep(20) or stable(body, number))
        start = time.monotonic()
        self.assert_fails(self.run_judge(judge, "--timeout", 0.3, "--retries", 1), "timed out")
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(len(judge.requests), 2 * 2)

    def test_garbage_for_json_and_for_labels(self):
        self.make_run("method-A", ["w"])
        for garbage in (b"<html>hello</html>", b'{"choices": []}', b"[" * 100000, b'{"choices":[{"message":{"content":7}}]}', b"\x00\xff"):
            judge = self.serve(lambda body, number, _: (200, garbage))
            self.assert_fails(self.run_judge(judge, out=f"garbage-{len(garbage)}"), "no chat completion came")
        for words in ("I think it is wrong.", '{"label": "format"}', '{"label": 3}', "", None,
                      '{"label": "reasoning_error"} or {"label": "arithmetic_error"}'):
            judge = self.serve(lambda body, number, _: (200, completion(words)))
            answer = self.run_judge(judge, out="labels")
            self.assertEqual(answer.returncode, 0, answer.stderr)  # all was answered: asking again is no use
            line, = self.labels("labels")
            self.assertEqual((line["label"], line["reason"]), ("unjudged", "no label in the judge's answer"))
            self.assertEqual(sorted(body["seed"] for body in judge.bodies()), [42, 43, 44, 45, 46, 47])
            (self.path / "labels" / "cache.jsonl").unlink()

    def test_garbage_then_well(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(lambda body, number, _: (200, completion("Hmm.")) if body["seed"] < 44 else stable(body, number))
        self.assertEqual(self.run_judge(judge).returncode, 0)
        self.assertEqual(sorted(body["seed"] for body in judge.bodies()), [42, 43, 44, 45])
        self.assertNotEqual(self.labels()[0]["label"], "unjudged")

    def test_cut_connections(self):
        self.make_run("method-A", ["ww"])
        seen = collections.Counter()

        def answer(body, number, handler):
            seen[json.dumps(body)] += 1
            return cut(handler) if seen[json.dumps(body)] == 1 else stable(body, number)

        judge = self.serve(answer)
        self.assertEqual(self.run_judge(judge).returncode, 0)
        self.assertEqual(len(judge.requests), 2 * 4)

    def test_a_body_of_one_gigabyte(self):
        self.make_run("method-A", ["w"])
        sent = collections.Counter()

        def answer(promised):
            def send(body, number, handler):
                handler.send_response(200)
                if promised:
                    handler.send_header("Content-Length", str(1 << 30))
                handler.end_headers()
                for _ in range(1024):
                    handler.wfile.write(b" " * MIB)
                    sent[promised] += 1
            return send

        for promised in (True, False):
            judge = self.serve(answer(promised))
            program = subprocess.Popen(self.command(judge, "--parallel", 1, "--give-up", 1), text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            message = program.stderr.read()
            program.stdout.read()
            _, status, used = os.wait4(program.pid, 0)
            program.returncode = os.waitstatus_to_exitcode(status)
            program.stdout.close(), program.stderr.close()
            self.assertEqual(program.returncode, 1)
            self.assertIn("longer than 16.8 MB", message)
            self.assertLess(sent[promised], 64)  # MiB, of which the sockets' buffers hold some
            # The same program that merely says its version, plus the limit twice over.
            idle = subprocess.Popen([PROGRAM, "judge", "--help"], stdout=subprocess.DEVNULL)
            self.assertLess(used.ru_maxrss, os.wait4(idle.pid, 0)[2].ru_maxrss + 64 * 1024)
            idle.returncode = 0

    def test_a_judge_that_dies_half_way(self):
        self.make_run("method-A", ["wwwwwwww", "cccccccc"])

        def answer(body, number, handler):
            if number < 6:
                return stable(body, number)
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)

        judge = self.serve(answer)
        self.assert_fails(self.run_judge(judge, "--parallel", 1), "of 16 responses are unjudged")
        cache = (self.path / "judged" / "cache.jsonl").read_text().splitlines()
        self.assertEqual(len(cache), 6)
        self.assertEqual(self.summary()["requests"]["asked"], 6)
        answered = {json.loads(line)["key"] for line in cache}
        well = self.serve(stable)
        self.assertEqual(self.run_judge(well).returncode, 0)
        asked = {hashlib.sha256(request.encode()).hexdigest() for request in well.requests}
        self.assertEqual(len(well.requests), 2 * 8 - 6)
        self.assertFalse(asked & answered)
        self.assertEqual(self.summary()["unjudged"], 0)

    def test_nobody_there(self):
        self.make_run("method-A", ["ww"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
            self.assert_fails(self.run_judge(url, "--retries", 0), "2 of 2 responses are unjudged", url)
        self.assertEqual([line["label"] for line in self.labels()], ["unjudged"] * 2)


    def test_no_proxy_stands_between_us_and_this_machine(self):
        self.make_run("method-A", ["w"])
        judge, proxy = self.serve(stable), self.serve(stable)
        there = proxy.url.removesuffix("/v1")
        self.assertEqual(self.run_judge(judge, environment={"http_proxy": there, "all_proxy": there}).returncode, 0)
        self.assertEqual((len(judge.requests), len(proxy.requests)), (2, 0))


class Restart(Case):
    def test_a_second_run_asks_nothing(self):
        self.make_run("method-A", ["ww", "cf"])
        judge = self.serve(lambda body, number, _: (200, verdict(LABELS[body["seed"] % 2])))
        self.assertEqual(self.run_judge(judge).returncode, 0)
        labels = (self.path / "judged" / "labels.jsonl").read_bytes()
        silent = self.serve(stable)
        self.assertEqual(self.run_judge(silent.url + "/").returncode, 0)
        self.assertEqual(silent.requests, [])
        self.assertEqual((self.path / "judged" / "labels.jsonl").read_bytes(), labels)
        self.assertEqual(self.summary()["requests"]["cached"], len(judge.requests))
        self.assertEqual(self.run_judge(silent, "--cache", self.path / "judged" / "cache.jsonl", out="other").returncode, 0)
        self.assertEqual(silent.requests, [])
        self.assertEqual(self.run_judge(silent, "--seed", 7).returncode, 0)
        self.assertEqual(len(silent.requests), 4)

    def killed(self, sent, *arguments):
        """A run that is sent a signal when it has been answered a few times."""
        self.make_run("method-A", ["wwwwwwww"])
        enough = threading.Event()

        def answer(body, number, _):
            if number >= 5:
                enough.set()
                time.sleep(30)
            return stable(body, number)

        judge = self.serve(answer)
        program = subprocess.Popen(self.command(judge, "--parallel", 1, *arguments), stderr=subprocess.PIPE, text=True)
        self.assertTrue(enough.wait(30))
        start = time.monotonic()
        program.send_signal(sent)
        message = program.communicate(timeout=10)[1]
        return program.returncode, time.monotonic() - start, message

    def test_killed_in_the_middle(self):
        code, _, _ = self.killed(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        cache = self.path / "judged" / "cache.jsonl"
        lines = cache.read_text().splitlines(keepends=True)
        self.assertEqual(len(lines), 5)
        cache.write_text("".join(lines[:4]) + lines[4][:60])  # as if the kill had come in the middle of a write
        well = self.serve(stable)
        answer = self.run_judge(well)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(len(well.requests), 16 - 4)
        self.assertEqual(len(cache.read_text().splitlines()), 16)
        self.assertTrue(all(json.loads(line)["key"] for line in cache.read_text().splitlines()))
        self.assertEqual(self.summary()["unjudged"], 0)

    def test_interrupted_with_a_request_in_flight(self):
        code, seconds, message = self.killed(signal.SIGINT)
        self.assertEqual(code, 130)
        self.assertLess(seconds, 2)
        self.assertIn("interrupted", message)
        self.assertEqual(len((self.path / "judged" / "cache.jsonl").read_text().splitlines()), 5)

    def test_at_most_n_at_once(self):
        self.make_run("method-A", ["ww" * 6])
        for limit in (1, 3):
            judge = self.serve(lambda body, number, _: time.sleep(0.05) or stable(body, number))
            self.assertEqual(self.run_judge(judge, "--parallel", limit, out=f"at-{limit}").returncode, 0)
            self.assertEqual(judge.most_running, limit)


class Input(Case):
    def test_where_problems_come_from(self):
        self.make_run("method-A", ["w"], named=False)
        judge = self.serve(stable)
        self.assert_fails(self.run_judge(judge), "suite aime", "--suite aime=FILE")
        self.assertEqual(self.run_judge(judge, "--suite", f"aime={self.suite}").returncode, 0)
        other = self.path / "other.jsonl"
        other.write_text(self.suite.read_text() + "\n")
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.suite, other)]
        self.assert_fails(self.run_judge(judge, "--suite", f"aime={other}"), *digests)
        self.assert_fails(self.run_judge(judge, "--suite", f"aime={self.suite}", "--suite", f"amc={other}"), "amc")

    def test_an_eval_directory_is_never_written_over(self):
        run = self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        before = (run / "summary.json").read_bytes()
        self.assert_fails(self.run_judge(judge, out="method-A"), "holds other files")
        self.assertEqual((run / "summary.json").read_bytes(), before)
        (self.path / "full").mkdir()
        (self.path / "full" / "notes.txt").write_text("mine")
        self.assert_fails(self.run_judge(judge, out="full"), "holds other files")
        self.assertEqual(judge.requests, [])

    def test_runs_of_different_protocols_are_refused(self):
        self.make_run("method-A", ["ww"])
        run = self.make_run("method-B", ["ww"])
        summary = json.loads((run / "summary.json").read_text())
        (run / "summary.json").write_text(json.dumps(summary | {"seed": 43}))
        judge = self.serve(stable)
        self.assert_fails(self.run_judge(judge, runs=[self.path / "method-A", run]), "seed is 42 in the first and 43 in the second")

    def test_bad_usage(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        for arguments in (("--parallel", 0), ("--temperature", "nan"), ("--markdown", "--latex")):
            answer = self.run_judge(judge, *arguments)
            self.assertEqual((answer.returncode, answer.stderr.count("\n")), (2, 1), answer.stderr)
        for extra in ('{"seed": 1}', '{"messages": []}', '{"stream": true}', "[1]", "{"):
            self.assert_fails(self.run_judge(judge, "--extra", extra), "xtra")
        self.assertEqual(self.run_judge(judge, "--extra", '{"temperature": null, "top_k": 5}').returncode, 0)
        self.assertEqual(set(json.loads(judge.requests[0])), {"model", "messages", "max_tokens", "seed", "top_k"})


if __name__ == "__main__":
    unittest.main()
