#!/usr/bin/env python3
"""`routeopd serve` from outside: the bits of `generate` and `score` under many clients, limits, bad requests. On the
laboratory pair.

    serve_test.py PROGRAM SOURCE_DIRECTORY
"""
import array
import concurrent.futures
import json
import pathlib
import random
import socket
import subprocess
import sys
import time
import unittest

from serving import PROMPTS, Reference, Server, events, pack

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"


def float32(values):
    """As the tensors have them: commands print float32 as the double that equals it."""
    return array.array("f", values)


def setUpModule():
    global server, reference
    server = Server(PROGRAM, LAB / "teacher", "--kv-memory", "2MB", "--access-log")
    reference = Reference(PROGRAM, LAB)


def expect_choice(case, choice, row):
    case.assertEqual(choice["token_ids"], row["ids"])
    case.assertEqual(choice["text"], row["text"])
    case.assertEqual(choice["finish_reason"], row["finish"])
    if choice["logprobs"] is not None:
        case.assertEqual(choice["logprobs"]["token_logprobs"], row["logprobs"])


class Bits(unittest.TestCase):
    """Every way to ask for the same thing gives the same bits, whatever else is asked meanwhile."""

    def completions(self, where):
        answer = where.json("/v1/completions", {"prompt": reference.texts, "n": 3, "seed": 5, "max_tokens": 40, "logprobs": 4,
                                                "return_token_ids": True})
        self.assertEqual(len(answer["choices"]), 3 * PROMPTS)
        for choice, row in zip(answer["choices"], reference.written):
            expect_choice(self, choice, row)
            self.assertEqual(choice["prompt_token_ids"], row["prompt_ids"])
            for got, own, tops in zip(choice["logprobs"]["top_logprobs"], row["logprobs"], row["top"]["logprobs"]):
                self.assertLessEqual(set(got.values()), {*tops, own})
        self.assertEqual(answer["usage"]["completion_tokens"], sum(len(row["ids"]) for row in reference.written))

    def ids_as_prompt(self, where):
        ids = [row["prompt_ids"] for row in reference.written[::3]]
        answer = where.json("/v1/completions", {"prompt": ids, "seed": 5, "max_tokens": 40, "return_token_ids": True, "temperature": 0.7,
                                                "top_p": 0.9, "top_k": 20, "add_special_tokens": False})
        for choice, row in zip(answer["choices"], reference.cooled):
            expect_choice(self, choice, row)

    def stops(self, where):
        answer = where.json("/v1/completions", {"prompt": reference.texts, "seed": 5, "max_tokens": 40, "stop": [" plus", "answer"],
                                                "return_token_ids": True, "logprobs": 0})
        for choice, row in zip(answer["choices"], reference.stopped):
            expect_choice(self, choice, row)
            self.assertIn(choice["stop_reason"], (None, " plus", "answer"))

    def stream(self, where):
        status, headers, body = where.ask("POST", "/v1/completions", json.dumps({
            "prompt": reference.texts[:5], "temperature": 0, "max_tokens": 40, "stream": True, "ignore_eos": True, "return_token_ids": True,
            "stream_options": {"include_usage": True}}))
        self.assertEqual(status, 200, body)
        self.assertIn("text/event-stream", headers["content-type"])
        texts, ids = [""] * 5, [[] for _ in range(5)]
        pieces = events(body)
        for piece in pieces[:-1]:
            for choice in piece["choices"]:
                texts[choice["index"]] += choice["text"]
                ids[choice["index"]] += choice["token_ids"]
        self.assertEqual(texts, [row["text"] for row in reference.greedy[:5]])
        self.assertEqual(ids, [row["ids"] for row in reference.greedy[:5]])
        self.assertEqual(pieces[-1]["usage"]["completion_tokens"], 200)

    def prompt_logprobs(self, where):
        answer = where.json("/v1/completions", {"prompt": reference.wholes, "max_tokens": 1, "prompt_logprobs": 4})
        for choice, ids, scores in zip(answer["choices"], reference.wholes, reference.scored):
            self.assertEqual(len(choice["prompt_logprobs"]), len(ids))
            self.assertIsNone(choice["prompt_logprobs"][0])
            for t in range(1, len(ids)):
                got = choice["prompt_logprobs"][t]
                self.assertEqual(got[str(ids[t])]["logprob"], scores["logprobs"][t])
                for rank, (top, value) in enumerate(zip(scores["top_ids"][t], scores["top_logprobs"][t])):
                    self.assertEqual((got[str(top)]["logprob"], got[str(top)]["rank"]), (value, rank + 1))
                if ids[t] not in scores["top_ids"][t]:
                    self.assertGreater(got[str(ids[t])]["rank"], 4)

    def score(self, where):
        rows = sum(len(ids) - 1 for ids in reference.wholes)
        tensors, metadata = where.tensors("/v1/score", {
            "ids": ("I32", [rows + PROMPTS], [id for ids in reference.wholes for id in ids]),
            "lengths": ("I64", [PROMPTS], [len(ids) for ids in reference.wholes]),
            "gather_ids": ("I32", [rows, 2], [7, 9] * rows)}, k=4)
        self.assertEqual(metadata["weights_version"], "0")
        self.assertEqual(tensors["logprobs"], float32(v for row in reference.scored for v in row["logprobs"][1:]))
        self.assertEqual(tensors["logsumexp"], float32(v for row in reference.scored for v in row["lse"][1:]))
        self.assertEqual(tensors["top_ids"].tolist(), [v for row in reference.scored for ids in row["top_ids"][1:] for v in ids])
        gathered = [v for row in reference.scored for values in row["gather_logprobs"][1:] for v in values]
        minus = [value - tensors["logsumexp"][i // 2] for i, value in enumerate(tensors["gathered_logits"])]
        self.assertEqual(float32(minus), float32(gathered))

    def shared_prompts(self, where):
        """Three responses to each prompt, scored after it: the values that were captured while they were written."""
        rows = reference.written
        wholes = [row["prompt_ids"] + row["ids"] for row in rows]
        tensors, _ = where.tensors("/v1/score", {
            "ids": ("I32", [sum(map(len, wholes))], [id for ids in wholes for id in ids]),
            "lengths": ("I32", [len(rows)], [len(ids) for ids in wholes]),
            "prompt_lengths": ("I32", [len(rows)], [len(row["prompt_ids"]) for row in rows])}, k=4)
        self.assertEqual(tensors["logprobs"], float32(v for row in rows for v in row["logprobs"]))
        self.assertEqual(tensors["top_ids"].tolist(), [v for row in rows for ids in row["top"]["ids"] for v in ids])

    def generate(self, where):
        prompts = [row["prompt_ids"] for row in reference.written[::3]]
        tensors, metadata = where.tensors("/v1/generate", {
            "ids": ("I32", [sum(map(len, prompts))], [id for ids in prompts for id in ids]),
            "lengths": ("I32", [PROMPTS], [len(ids) for ids in prompts])}, seed=5, n=3, max_new_tokens=40, k=4, entropy=True)
        self.assertEqual(tensors["ids"].tolist(), [id for row in reference.written for id in row["ids"]])
        self.assertEqual(tensors["logprobs"], float32(v for row in reference.written for v in row["logprobs"]))
        self.assertEqual(tensors["finish"].tolist(), [int(row["finish"] == "length") for row in reference.written])
        self.assertEqual(tensors["samples"].tolist(), [0, 1, 2] * PROMPTS)
        self.assertEqual(len(tensors["entropy"]), len(tensors["ids"]))

    def some_samples(self, where):
        """One sample of one prompt, by its address."""
        row = reference.written[3 * 7 + 2]
        tensors, _ = where.tensors("/v1/generate", {
            "ids": ("I32", [len(row["prompt_ids"])], row["prompt_ids"]), "lengths": ("I32", [1], [len(row["prompt_ids"])]),
            "prompts": ("I32", [1], [7]), "samples": ("I32", [1], [2]), "sample_counts": ("I32", [1], [1])},
            seed=5, n=3, max_new_tokens=40)
        self.assertEqual(tensors["ids"].tolist(), row["ids"])
        self.assertEqual(tensors["logprobs"], float32(row["logprobs"]))

    def vanish(self, where):
        """A client that goes away in the middle."""
        connection = where.connect()
        connection.request("POST", "/v1/completions", json.dumps({"prompt": reference.texts * 4, "n": 2, "max_tokens": 100, "ignore_eos": True,
                                                                  "stream": True}))
        connection.sock.recv(random.choice((1, 300)))
        connection.sock.close()

    WAYS = (completions, ids_as_prompt, stops, stream, prompt_logprobs, score, shared_prompts, generate, some_samples)

    def test_each_way_alone(self):
        for way in self.WAYS:
            with self.subTest(way.__name__):
                way(self, server)

    def test_sixteen_clients_at_once(self):
        def client(number):
            order = random.Random(number)
            for _ in range(4):
                order.choice(self.WAYS + (Bits.vanish, Bits.vanish))(self, server)

        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            for done in [clients.submit(client, number) for number in range(16)]:
                done.result(300)
        self.wait_until_free()

    def test_a_client_that_goes_away_frees_its_blocks(self):
        self.vanish(server)
        self.wait_until_free()
        # Also one whose answer is not a stream.
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps({"prompt": reference.texts * 8, "n": 3, "max_tokens": 100, "ignore_eos": True}))
        deadline = time.monotonic() + 30
        while server.metrics()["routeopd_requests_running"] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        cancelled = server.metrics()["routeopd_cancelled_total"]
        connection.sock.close()
        self.wait_until_free()
        self.assertEqual(server.metrics()["routeopd_cancelled_total"], cancelled + 1)

    def wait_until_free(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            now = server.metrics()
            if now["routeopd_kv_blocks_used"] == 0 and now["routeopd_requests_running"] == 0 and now["routeopd_requests_waiting"] == 0:
                return
            time.sleep(0.02)
        self.fail(f"blocks are still in use: {now}")

    def test_no_prompt_in_the_access_log(self):
        server.json("/v1/completions", {"prompt": "Seventeen zebras", "max_tokens": 1})
        deadline = time.monotonic() + 10
        while "/v1/completions" not in server.text() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertIn("/v1/completions", server.text())
        self.assertNotIn("zebras", server.text())


class Refusals(unittest.TestCase):
    def refuses(self, path, body, words, status=400):
        answer = server.json(path, body, expect=status)
        self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
        self.assertEqual(answer["error"]["code"], status)
        self.assertIn(words, answer["error"]["message"])
        return answer["error"]["param"]

    def test_bad_json(self):
        for body in ("", "{", "[]", "7", '{"prompt": "a"} x', "[" * 100000, b"\xff\xfe", '{"prompt": "a", "max_tokens": 1e999}'):
            with self.subTest(body=body[:20]):
                status, _, answer = server.ask("POST", "/v1/completions", body)
                self.assertEqual(status, 400, answer)

    def test_wrong_parameters_are_named(self):
        good = {"prompt": "Problem:", "max_tokens": 2}
        for name, value in (("n", 0), ("n", "3"), ("n", 10**6), ("temperature", -1), ("temperature", "hot"), ("top_p", 0), ("top_p", 2),
                            ("top_k", -7), ("max_tokens", -1), ("max_tokens", 10**9), ("stop", 7), ("stop", [""]), ("seed", "x"), ("logprobs", -2),
                            ("logprobs", 10**6), ("prompt_logprobs", 10**6), ("echo", "yes"), ("stream", 1), ("best_of", 5), ("logit_bias", {"5": 1}),
                            ("presence_penalty", 1), ("suffix", "x"), ("min_p", 0.1), ("repetition_penalty", 1.2), ("response_format", {"type": "json_object"}),
                            ("guided_json", {}), ("use_beam_search", True), ("prompt", [[]]), ("prompt", [None]), ("prompt", {}), ("no_such_parameter", 1)):
            with self.subTest(name=name, value=value):
                self.assertEqual(self.refuses("/v1/completions", {**good, name: value}, name), name)

    def test_ids_out_of_range(self):
        for bad in (-1, 10**6, 2**40):
            self.refuses("/v1/completions", {"prompt": [1, bad], "max_tokens": 2}, "out of vocabulary")
        self.refuses("/v1/completions", {"prompt": [1, 1.5], "max_tokens": 2}, "prompt")

    def test_other_paths_models_and_methods(self):
        self.assertEqual(server.json("/v1/models/m"), server.json("/v1/models")["data"][0])
        self.refuses("/v1/models/other", {}, "other", status=404)
        self.refuses("/v1/nothing", {}, "/v1/nothing", status=404)
        self.refuses("/v1/completions", {"prompt": "a", "model": "other"}, "other", status=404)
        self.assertEqual(server.ask("GET", "/v1/completions")[0], 405)
        self.assertEqual(server.ask("GET", "/v1/completions")[1]["allow"], "POST")

    def test_web_pages_are_not_served(self):
        body = json.dumps({"prompt": "a", "max_tokens": 1})
        self.assertEqual(server.ask("POST", "/v1/completions", body, {"Content-Type": "text/plain"})[0], 200)
        self.assertEqual(server.ask("POST", "/v1/completions", body, {"Origin": "http://example.org"})[0], 403)

    def test_bad_tensors(self):
        ids = {"ids": ("I32", [3], [1, 2, 3])}
        cases = {
            "lengths": {**ids},
            "more ids": {**ids, "lengths": ("I32", [1], [4])},
            "3 were sent": {**ids, "lengths": ("I32", [1], [2])},
            "numbers from 0": {"ids": ("I32", [1], [10**6]), "lengths": ("I32", [1], [1])},
            "gather_ids": {**ids, "lengths": ("I32", [1], [3]), "gather_ids": ("I32", [3, 1], [1, 2, 3])},
            "numbers from -1": {**ids, "lengths": ("I32", [1], [3]), "gather_ids": ("I32", [2, 1], [1, 10**6])},
            "prompt_lengths": {**ids, "lengths": ("I32", [1], [3]), "prompt_lengths": ("I32", [1], [4])},
            "I32 or I64": {"ids": ("F32", [3], [1, 2, 3]), "lengths": ("I32", [1], [3])},
            "not known": {**ids, "lengths": ("I32", [1], [3]), "lenghts": ("I32", [1], [3])},
        }
        for words, tensors in cases.items():
            with self.subTest(words):
                self.assertIn(words, server.tensors("/v1/score", tensors, expect=400)["error"]["message"])
        for name, value in (("k", -1), ("k", 10**7), ("hidden", 7), ("kk", 1)):
            answer = server.tensors("/v1/score", {**ids, "lengths": ("I32", [1], [3])}, expect=400, **{name: value})
            self.assertIn(name, answer["error"]["message"])
        for body in (b"", b"x" * 7, b"\xff" * 64, pack(ids)[:-4], pack(ids) + b"xxxx"):
            for path in ("/v1/score", "/v1/generate", "/v1/gather"):
                self.assertEqual(server.ask("POST", path, body)[0], 400)
        self.assertEqual(server.ask("POST", "/v1/reload", '{"path": "x", "version": 1}')[0], 403)

    def test_what_one_client_could_take_from_others(self):
        """Names, stop strings and columns that are far too long; many jobs that are given up at once."""
        start = time.monotonic()
        answer = server.json("/v1/completions", {"a" * 5_000_000: 1, "prompt": "a"}, expect=400)
        self.assertLess(len(answer["error"]["message"]), 1100)
        self.assertLess(time.monotonic() - start, 20)
        ids = {"ids": ("I32", [2], [1, 2]), "lengths": ("I32", [1], [2])}
        self.assertIn("stop", server.tensors("/v1/generate", ids, expect=400, stop=["x" * 5000])["error"]["message"])
        self.refuses("/v1/completions", {"prompt": "a", "stop": ["x" * 1000] * 5}, "bytes in all")
        wide = {**ids, "gather_ids": ("I32", [1, 100_000], [5] * 100_000)}
        self.assertIn("columns", server.tensors("/v1/score", wide, expect=400)["error"]["message"])
        many = pack({"ids": ("I32", [4096], [5] * 4096), "lengths": ("I32", [4096], [1] * 4096)}, {"max_new_tokens": 200, "ignore_eos": True})
        clients = [server.connect() for _ in range(12)]
        for one in clients:
            one.request("POST", "/v1/generate", many)
        for one in clients:
            one.sock.close()
        start = time.monotonic()
        server.json("/v1/completions", {"prompt": [5], "max_tokens": 1})
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(server.ask("POST", "/tokenize", json.dumps({"prompt": "a" * 2_000_000}))[0], 400)

    def test_more_than_memory_holds(self):
        tensors = {"ids": ("I32", [1], [1]), "lengths": ("I32", [1], [1])}
        self.assertIn("in all", server.tensors("/v1/generate", tensors, expect=400, n=256, max_new_tokens=10**6, k=4000)["error"]["message"])
        small = Server(PROGRAM, LAB / "teacher", "--kv-memory", "100KB")
        self.assertIn("kv_memory", small.json("/v1/completions", {"prompt": "a b c", "max_tokens": 200}, expect=400)["error"]["message"])
        small.json("/v1/completions", {"prompt": "a b c", "max_tokens": 5})


class Limits(unittest.TestCase):
    def test_bodies(self):
        narrow = Server(PROGRAM, LAB / "teacher", "--max-body", "1MB", "--read-seconds", "1")
        status, headers, answer = narrow.ask("POST", "/v1/completions", b" " * 10_000_000)
        self.assertEqual(status, 413, answer)
        self.assertIn("error", json.loads(answer))
        # Half a body and a body that trickles: 408, while others are served.
        slow = [socket.create_connection(("127.0.0.1", narrow.port)) for _ in range(2)]
        for one in slow:
            one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        start = time.monotonic()
        while time.monotonic() < start + 3:
            try:
                slow[1].sendall(b" ")
            except OSError:
                break
            narrow.json("/v1/completions", {"prompt": "a", "max_tokens": 1})
            time.sleep(0.1)
        for one in slow:
            one.settimeout(10)
            answer = one.recv(4096)
            self.assertIn(b" 408 ", answer.split(b"\r\n")[0])
            self.assertIn(b"\r\nx-weights-version: 0\r\n", answer)
            one.close()
        counts = narrow.metrics()
        self.assertEqual(counts['routeopd_requests_total{path="other",status="408"}'], 2)
        self.assertEqual(counts['routeopd_requests_total{path="other",status="413"}'], 1)

    def test_a_thousand_connections_that_say_nothing(self):
        silent = []
        try:
            for _ in range(1000):
                silent.append(socket.create_connection(("127.0.0.1", server.port)))
            start = time.monotonic()
            for _ in range(5):
                server.json("/v1/completions", {"prompt": "Problem:", "max_tokens": 2})
            self.assertLess(time.monotonic() - start, 20)
        finally:
            for one in silent:
                one.close()

    def test_requests_in_flight_and_their_time(self):
        narrow = Server(PROGRAM, LAB / "teacher", "--max-requests", "2", "--max-seconds", "1.5", "--kv-memory", "1MB")
        long = json.dumps({"prompt": reference.texts * 20, "n": 4, "max_tokens": 120, "ignore_eos": True})
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            answers = [asked.result() for asked in [clients.submit(narrow.ask, "POST", "/v1/completions", long) for _ in range(8)]]
        statuses = [status for status, _, _ in answers]
        self.assertIn(429, statuses)
        self.assertIn(504, statuses)
        self.assertLessEqual(set(statuses), {429, 504})
        for status, headers, _ in answers:
            self.assertEqual(status == 429, "retry-after" in headers)
        narrow.json("/v1/completions", {"prompt": "a", "max_tokens": 1})

    def test_keys(self):
        guarded = Server(PROGRAM, LAB / "teacher", "--api-key-env", "ROUTEOPD_TEST_KEY", environment={"ROUTEOPD_TEST_KEY": "s3cret"})
        for headers in ({}, {"Authorization": "Bearer s3cre"}, {"Authorization": "Bearer s3cret2"}, {"Authorization": "s3cret"}):
            self.assertEqual(guarded.ask("GET", "/v1/models", headers=headers)[0], 401)
            self.assertEqual(guarded.ask("POST", "/v1/reload", "{}", headers)[0], 401)
        self.assertEqual(guarded.ask("GET", "/v1/models", headers={"Authorization": "Bearer s3cret"})[0], 200)
        self.assertEqual(guarded.ask("GET", "/health")[0], 200)
        self.assertNotIn("s3cret", guarded.text())
        missing = subprocess.run([PROGRAM, "serve", LAB / "teacher", "--api-key-env", "ROUTEOPD_NO_SUCH"], capture_output=True, text=True)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("ROUTEOPD_NO_SUCH", missing.stderr)

    def test_a_port_that_is_taken(self):
        taken = subprocess.run([PROGRAM, "serve", LAB / "teacher", "--port", str(server.port)], capture_output=True, text=True, timeout=60)
        self.assertEqual(taken.returncode, 1)
        self.assertEqual(taken.stderr.count("\n"), 1)
        self.assertIn(str(server.port), taken.stderr)


if __name__ == "__main__":
    unittest.main()
