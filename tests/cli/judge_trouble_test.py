#!/usr/bin/env python3
"""A judge that answers late, badly or not at all; runs that are killed, interrupted and repeated.

    judge_trouble_test.py PROGRAM
"""
import collections
import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

from judge_server import LABELS, MIB, Case, PROGRAM, completion, cut, stable, text_of, verdict


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
            self.assert_fails(answer, "the judge labelled none of 1 responses (no label in the judge's answer)")
            line, = self.labels("labels")
            self.assertEqual((line["label"], line["reason"]), ("unjudged", "no label in the judge's answer"))
            self.assertEqual(sorted(body["seed"] for body in judge.bodies()), [42, 43, 44, 45, 46, 47])
            (self.path / "labels" / "cache.jsonl").unlink()

    def test_labels_of_another_model_stay(self):
        self.make_run("method-A", ["w"])
        self.assertEqual(self.run_judge(self.serve(stable)).returncode, 0)
        files = {path: path.read_bytes() for path in (self.path / "judged").iterdir()}
        other = self.serve(stable)
        self.assert_fails(self.run_judge(other, "--model", "another"), "labels of another judge, the-judge", "name another directory for another")
        self.assertEqual(other.requests, [])
        self.assertEqual({path: path.read_bytes() for path in (self.path / "judged").iterdir()}, files)
        self.assertEqual(self.run_judge(other, "--seed", "7").returncode, 0)  # the same model anew

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

    def test_a_file_that_is_no_cache_stays_as_it_is(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        for text in ('{"precious": 1}', '{"key":"x"}\n', "notes\nwithout an end", "one\ntwo\n"):
            other = self.path / "other"
            other.write_text(text)
            answer = self.run_judge(judge, "--cache", other)
            self.assertEqual(answer.returncode, 1, text)
            self.assertEqual(other.read_text(), text)
        answer = self.run_judge(judge, "--cache", self.path / "judged" / "labels.jsonl")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("written by judge itself", answer.stderr)
        self.assertEqual(judge.requests, [])

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


if __name__ == "__main__":
    unittest.main()
