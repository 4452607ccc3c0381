#!/usr/bin/env python3
"""`routeopd serve` changing and ending: new weights under load, and signals. On the laboratory's teacher.

    serve_reload_test.py PROGRAM SOURCE_DIRECTORY
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import unittest

from serving import Reference, Server, run

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"


def setUpModule():
    global reference
    reference = Reference(PROGRAM, LAB)


def exchange_rows(path, name):
    """Other weights of the same shape: each row of a matrix becomes the next one."""
    data = bytearray(path.read_bytes())
    length, = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8:8 + length])[name]
    first, end = (8 + length + offset for offset in entry["data_offsets"])
    row = (end - first) // entry["shape"][0]
    data[first:end] = data[first + row:end] + data[first:first + row]
    path.write_bytes(data)


class Reload(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = pathlib.Path(self.directory.name) / "weights"
        self.root.mkdir()
        for name in ("a", "b"):
            shutil.copytree(LAB / "teacher", self.root / name)
        exchange_rows(self.root / "b/model.safetensors", "model.embed_tokens.weight")
        self.server = Server(PROGRAM, LAB / "teacher", "--reload-root", self.root, "--weights-version", "1")

    def ids(self):
        status, headers, body = self.server.ask("POST", "/v1/completions", json.dumps(
            {"prompt": reference.texts[:4], "temperature": 0, "max_tokens": 40, "ignore_eos": True, "return_token_ids": True}))
        assert status == 200, body
        answer = json.loads(body)
        version = int(headers["x-weights-version"])
        assert answer["system_fingerprint"].endswith(f"-w{version}"), answer["system_fingerprint"]
        return version, [choice["token_ids"] for choice in answer["choices"]]

    def test_no_answer_mixes_two_versions(self):
        old = [row["ids"] for row in reference.greedy[:4]]
        stdin = "".join(json.dumps({"prompt": text}) + "\n" for text in reference.texts[:4])
        new = [row["ids"] for row in run(PROGRAM, "generate", "--model", self.root / "b", "--max-new", 40, "--temperature", 0, "--ignore-eos", "--quiet", stdin=stdin)]
        self.assertNotEqual(old, new)
        self.assertEqual(self.ids(), (1, old))
        over, seen = threading.Event(), set()

        def client():
            while not over.is_set():
                version, ids = self.ids()
                self.assertEqual(ids, old if version % 2 else new)
                seen.add(version)

        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            running = [clients.submit(client) for _ in range(8)]
            try:
                for version in range(2, 12):
                    self.server.json("/v1/reload", {"path": "a" if version % 2 else str(self.root / "b"), "version": version})
                    self.assertEqual(self.ids()[0], version)
            finally:
                over.set()
            for one in running:
                one.result(120)
        self.assertGreater(len(seen), 2)

    def test_gathers_of_other_weights_are_refused(self):
        tensors, metadata = self.server.tensors("/v1/generate", {"ids": ("I32", [2], [1, 2]), "lengths": ("I32", [1], [2])}, hidden=True, max_new_tokens=3)
        rows, width = tensors["hidden.shape"]
        ask = {"hidden": ("F32", [rows, width], tensors["hidden"]), "gather_ids": ("I32", [rows, 1], tensors["ids"])}
        got, _ = self.server.tensors("/v1/gather", ask, weights_version=int(metadata["weights_version"]))
        for value, lse, logprob in zip(got["gathered_logits"], tensors["logsumexp"], tensors["logprobs"]):
            self.assertAlmostEqual(value - lse, logprob, delta=1e-5)
        self.server.json("/v1/reload", {"path": "b", "version": 2})
        self.assertIn("version 1", self.server.tensors("/v1/gather", ask, expect=409, weights_version=1)["error"]["message"])

    def test_only_from_below_the_root_and_of_the_same_shape(self):
        before = self.ids()
        outside = pathlib.Path(self.directory.name) / "outside"
        shutil.copytree(LAB / "teacher", outside)
        (self.root / "link").symlink_to(outside)
        for path in ("../outside", str(outside), "link", "/", "no/such/place", "..", str(self.root) + "/../outside"):
            with self.subTest(path):
                self.assertEqual(self.server.ask("POST", "/v1/reload", json.dumps({"path": path, "version": 3}))[0], 403)
        shutil.copytree(SOURCE / "tests/goldens/tiny/student", self.root / "other")
        shutil.copytree(LAB / "teacher", self.root / "cut")
        with open(self.root / "cut/model.safetensors", "r+b") as file:
            file.truncate(5000)
        shutil.copytree(LAB / "teacher", self.root / "rope")
        config = json.loads((self.root / "rope/config.json").read_text())
        config["rope_theta"] = 500.0
        config.pop("rope_parameters", None)
        (self.root / "rope/config.json").write_text(json.dumps(config))
        for path in ("other", "cut", "rope", "."):
            with self.subTest(path):
                self.assertEqual(self.server.ask("POST", "/v1/reload", json.dumps({"path": path, "version": 3}))[0], 400)
        for body in ("{}", '{"path": 7, "version": 1}', '{"path": "b", "version": -1}', '{"path": "b", "version": 1.5}', '{"path": "b\\u0000", "version": 1}', "x"):
            self.assertEqual(self.server.ask("POST", "/v1/reload", body)[0], 400)
        self.assertEqual(self.ids(), before)


class Signals(unittest.TestCase):
    LONG = json.dumps({"prompt": "Problem:", "n": 64, "max_tokens": 200, "ignore_eos": True})

    def begin(self, *more):
        one = Server(PROGRAM, LAB / "teacher", *more)
        connection = one.connect()
        connection.request("POST", "/v1/completions", self.LONG)
        deadline = time.monotonic() + 60
        while one.metrics()["routeopd_requests_running"] == 0:
            self.assertLess(time.monotonic(), deadline)
        return one, connection

    def test_what_is_under_way_is_finished(self):
        one, connection = self.begin("--drain", "60")
        one.process.send_signal(signal.SIGTERM)
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.assertEqual(len(json.loads(answer.read())["choices"]), 64)
        self.assertEqual(one.process.wait(60), 0)
        with self.assertRaises(OSError):
            one.connect(5).connect()

    def test_what_takes_too_long_is_told_so(self):
        one, connection = self.begin("--drain", "0")
        one.process.send_signal(signal.SIGTERM)
        self.assertEqual(connection.getresponse().status, 503)
        self.assertEqual(one.process.wait(60), 0)

    def test_a_second_signal_ends_at_once(self):
        one, connection = self.begin("--drain", "600")
        os.kill(one.process.pid, signal.SIGSTOP)  # so that both wait for it
        one.process.send_signal(signal.SIGTERM)
        one.process.send_signal(signal.SIGINT)
        os.kill(one.process.pid, signal.SIGCONT)
        self.assertIn(one.process.wait(60), (128 + signal.SIGTERM, 128 + signal.SIGINT))


if __name__ == "__main__":
    unittest.main()
