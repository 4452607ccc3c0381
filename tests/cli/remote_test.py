#!/usr/bin/env python3
"""`routeopd train` with its student, its teacher, or both on `routeopd serve`: the bits of the local run, also after kills and
restarts of either side; and what sick servers do. On the laboratory's pair.

    remote_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from serving import Server
from spoiling_proxy import SpoilingProxy

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
RECIPE = SOURCE / "recipes" / "lab.toml"
SMALL = ["train.steps=3", "rollout.prompts_per_step=4", "rollout.n=2", "rollout.max_new_tokens=24", "checkpoint.every=1",
         "checkpoint.keep=0", "train.rollouts=true"]


def settings(values):
    return [word for value in values for word in ("--set", value)]


def urls(*servers):
    return json.dumps([server.url for server in servers])


def student_at(*servers):
    return ["rollout.engine=serve", f"rollout.urls={urls(*servers)}"]


def teacher_at(*servers):
    return ["teacher.engine=serve", f"teacher.urls={urls(*servers)}"]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path = pathlib.Path(directory.name)
        cls.student = Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", cls.path)
        cls.teacher = Server(PROGRAM, SOURCE / "lab" / "teacher")
        cls.train("local")

    @classmethod
    def train(cls, name, *values, code=0, more=(), **process):
        answer = subprocess.run([PROGRAM, "train", RECIPE, "--out", cls.path / name, "--quiet", *settings([*SMALL, *values]), *more],
                                text=True, capture_output=True, timeout=300, cwd=SOURCE, **process)
        assert answer.returncode == code, f"{name}: exit code {answer.returncode}: {answer.stderr}"
        return answer.stderr

    def metrics(self, name):
        return [json.loads(line) for line in (self.path / name / "metrics.jsonl").read_text().splitlines()]

    def servers(self, name):
        """Counts of all steps."""
        counts = {}
        for line in self.metrics(name):
            for key, value in line["servers"].items():
                counts[key] = counts.get(key, 0) + value
        return counts

    def assert_as_local(self, name, local="local", last=3):
        lines = [[{key: value for key, value in line.items() if key not in ("time", "memory", "servers")}
                  for line in self.metrics(run)] for run in (local, name)]
        self.assertEqual(*lines)
        for file in ("rollouts.jsonl", f"checkpoints/step_{last}/model.safetensors",
                     f"checkpoints/step_{last}/state/optimizer.safetensors"):
            a, b = (self.path / run / file for run in (local, name))
            self.assertEqual(a.read_bytes(), b.read_bytes(), file)
        self.assertFalse((self.path / name / "weights").exists(), "the weights of the servers are removed at the end")

    def wait_for_line(self, name, lines):
        metrics = self.path / name / "metrics.jsonl"
        for _ in range(6000):
            if metrics.exists() and metrics.read_bytes().count(b"\n") >= lines:
                return
            time.sleep(0.01)
        self.fail(f"{name} made no {lines} steps")

    def begin(self, name, *values):
        process = subprocess.Popen([PROGRAM, "train", RECIPE, "--out", self.path / name, *settings([*SMALL, *values])],
                                   stderr=subprocess.PIPE, text=True, cwd=SOURCE)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait(), process.stderr.close()))
        return process


class Bits(Case):
    def test_student_teacher_or_both_on_servers_are_the_local_run(self):
        for name, values in (("student", student_at(self.student)), ("teacher", teacher_at(self.teacher)),
                             ("both", student_at(self.student) + teacher_at(self.teacher))):
            with self.subTest(name):
                self.train(name, *values)
                self.assert_as_local(name)
                self.assertEqual(self.servers(name), {})
                times = self.metrics(name)[0]["time"]
                self.assertEqual("refresh" in times and times["refresh"] > 0.001, name != "teacher")

    def test_other_arms_too(self):
        for arm in ("union_rkl", "sampled_rkl", "random_background"):
            with self.subTest(arm):
                self.train(f"local-{arm}", f"objective.arm={arm}", "train.steps=2")
                self.train(f"remote-{arm}", f"objective.arm={arm}", "train.steps=2", *student_at(self.student), *teacher_at(self.teacher))
                self.assert_as_local(f"remote-{arm}", f"local-{arm}", last=2)

    def test_two_servers_share_the_work(self):
        second = Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", self.path)
        slow = SpoilingProxy(second.port, lambda path, number, status, body: (status, body, {"pause": 0.4}))
        fast = SpoilingProxy(self.student.port)
        self.addCleanup(slow.end)
        self.addCleanup(fast.end)
        self.train("shared", *student_at(fast, slow), "rollout.requests=1")
        self.assert_as_local("shared")
        self.assertGreater(fast.asked["/v1/generate"], slow.asked["/v1/generate"])
        self.assertGreater(slow.asked["/v1/generate"], 0)

    def test_after_kill_9_of_the_trainer_resume_ends_in_the_same_bits(self):
        values = student_at(self.student) + teacher_at(self.teacher)
        process = self.begin("killed", *values)
        self.wait_for_line("killed", 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.train("killed", *values, more=["--resume"])
        self.assert_as_local("killed")

    def test_a_server_that_is_restarted_in_the_middle_gets_the_weights_again(self):
        def serve(port=0):
            return Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", self.path, port=port)
        first = serve()
        state = {}

        def restart(path, number, status, body):
            if path == "/v1/generate" and number == 6:  # in the second step
                first.end(signal.SIGKILL)
                state["second"] = serve(first.port)
                return 200, body[:100], {"length": len(body)}
            return status, body
        proxy = SpoilingProxy(first.port, restart)
        self.addCleanup(proxy.end)
        self.train("restarted", *student_at(proxy))
        self.assert_as_local("restarted")
        self.assertGreaterEqual(self.servers("restarted")["rollout_cut_answers"], 1)
        self.assertIn("servers: rollout_cut_answers", (self.path / "restarted" / "log.txt").read_text())


class Faults(Case):
    """Each fault leaves a count, or a sentence, and nothing lost."""

    def spoiled(self, name, spoil, *values, port=None, **more):
        proxy = SpoilingProxy(port or self.student.port, spoil)
        self.addCleanup(proxy.end)
        said = self.train(name, *student_at(proxy), *values, **more)
        return proxy, said

    def test_what_passes_is_asked_again_and_nothing_that_was_answered(self):
        def once(fault):
            return lambda path, number, status, body: fault(status, body) if path == "/v1/generate" and number == 2 else (status, body)
        cases = {
            "too_many_requests": lambda status, body: (429, b'{"error": {"message": "busy"}}', {"headers": {"Retry-After": "1"}}),
            "server_errors": lambda status, body: (500, b"oh"),
            "cut_answers": lambda status, body: (200, body[:200], {"length": len(body)}),
            "bad_answers": lambda status, body: (200, b"<html>not what you think</html>"),
        }
        for count, fault in cases.items():
            with self.subTest(count):
                proxy, _ = self.spoiled(f"once-{count}", once(fault))
                self.assert_as_local(f"once-{count}")
                self.assertEqual(self.servers(f"once-{count}"), {f"rollout_{count}": 1})
                self.assertEqual(proxy.asked["/v1/generate"], 3 * 4 + 1, "four prompts a step, and one again")

    def test_slow_answers_run_into_the_deadline(self):
        _, _ = self.spoiled("slow", lambda path, number, status, body:
                            (status, body, {"pause": 3 if path == "/v1/generate" and number == 1 else 0}), "rollout.request_seconds=1.5")
        self.assert_as_local("slow")
        self.assertEqual(self.servers("slow"), {"rollout_timeouts": 1})

    def test_stale_weights_are_refused(self):
        def stale(path, number, status, body):
            if path != "/v1/generate" or number not in (1, 2):
                return status, body
            length, = struct.unpack("<Q", body[:8])
            header = json.loads(body[8:8 + length])
            header["__metadata__"]["weights_version"] = "7"
            text = json.dumps(header).encode()
            return 200, struct.pack("<Q", len(text)) + text + body[8 + length:]
        self.spoiled("stale", stale)
        self.assert_as_local("stale")
        self.assertEqual(self.servers("stale"), {"rollout_stale_weights": 2})

    def test_what_does_not_pass_stops_the_run_with_a_sentence_and_the_last_whole_step(self):
        def from_second_step(fault):
            return lambda path, number, status, body: fault(body) if path == "/v1/generate" and number >= 4 else (status, body)
        cases = {
            "always500": (lambda body: (500, b"oh"), "status 500: oh"),
            "huge": (lambda body: (200, b"x" * (1 << 28)), "longer than"),
            "refused": (lambda body: (400, b'{"error": {"message": "no such thing"}}'), "no such thing"),
            "garbage": (lambda body: (200, b"{}" * 50), "not safetensors"),
        }
        for name, (fault, words) in cases.items():
            with self.subTest(name):
                _, said = self.spoiled(name, from_second_step(fault), code=1)
                self.assertIn(words, said)
                self.assertEqual(len(said.strip().splitlines()), 1, said)
                self.assertTrue((self.path / name / "checkpoints" / "step_1").exists())
                self.train(name, *student_at(self.student), more=["--resume"])
                self.assert_as_local(name)

    def test_no_server_left_waits_for_patience_then_stops_and_goes_on_later(self):
        server = Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", self.path)

        def kill(path, number, status, body):
            if path == "/v1/generate" and number == 5:
                server.end(signal.SIGKILL)
            return status, body
        begin = time.monotonic()
        proxy, said = self.spoiled("gone", kill, "rollout.patience=2", port=server.port, code=1)
        self.assertGreater(time.monotonic() - begin, 2)
        self.assertIn("no server answered for 2 s", said)
        self.assertTrue((self.path / "gone" / "checkpoints" / "step_1").exists())
        self.train("gone", *student_at(self.student), more=["--resume"])
        self.assert_as_local("gone")

    def test_ctrl_c_while_no_server_answers_saves_the_last_step(self):
        server = Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", self.path)
        process = self.begin("interrupted", *student_at(server), "train.steps=200")
        self.wait_for_line("interrupted", 1)
        server.end(signal.SIGKILL)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        self.assertTrue(list((self.path / "interrupted" / "checkpoints").glob("step_*")))

    def test_a_teacher_whose_weights_change_is_refused(self):
        teacher = Server(PROGRAM, SOURCE / "lab" / "teacher", "--reload-root", SOURCE / "lab")

        def change(path, number, status, body):
            if path == "/v1/score" and number == 5:
                teacher.ask("POST", "/v1/reload", json.dumps({"path": "teacher", "version": 3}))
            return status, body
        proxy = SpoilingProxy(teacher.port, change)
        self.addCleanup(proxy.end)
        self.assertIn("keeps its weights", self.train("moved", *teacher_at(proxy), code=1))

    def test_a_dead_one_of_two_leaves_its_work_to_the_other(self):
        second = Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", self.path)

        def kill(path, number, status, body):
            if path == "/v1/generate" and number == 1:
                second.end(signal.SIGKILL)
                return 200, body[:10], {"length": len(body)}
            return status, body
        proxy = SpoilingProxy(second.port, kill)
        self.addCleanup(proxy.end)
        self.train("survivor", *student_at(self.student, proxy), "rollout.requests=2")
        self.assert_as_local("survivor")
        self.assertGreaterEqual(self.servers("survivor")["rollout_cut_answers"], 1)


class Refusals(Case):
    def refused(self, *values, code=1, **more):
        said = self.train("refused", *values, code=code, **more)
        self.assertFalse((self.path / "refused").exists(), "refused before the run directory is made")
        self.assertEqual(len(said.strip().splitlines()), 1, said)
        return said

    def test_set_ups_that_cannot_work(self):
        plain = Server(PROGRAM, SOURCE / "lab" / "base")
        cases = [
            (["rollout.engine=serve"], "[rollout] urls: missing"),
            (["rollout.engine=serve", 'rollout.urls=["ftp://127.0.0.1"]'], "only http and https"),
            (["rollout.engine=serve", 'rollout.urls=["http://127.0.0.1:9"]'], "is the server started?"),
            (['rollout.urls=["http://127.0.0.1:9"]'], "the local engine has no servers"),
            (student_at(plain), "--reload-root"),
            ([*student_at(self.student), "rollout.api_key_env=NO_SUCH_KEY"], "NO_SUCH_KEY"),
            ([*student_at(self.student), "rollout.max_new_tokens=100000"], "positions"),
            ([*teacher_at(self.teacher), "objective.arm=full_rkl"], "needs the teacher's hidden states"),
            (["rollout.engine=serve", f'rollout.urls=["{self.student.url}", "{self.student.url}/"]'], "twice"),
            (["teacher.engine=slow"], "engine"),
            (["rollout.engine=serve", 'rollout.urls=["http://10.0.0.1:8000"]', "rollout.api_key_env=HOME"], "unencrypted"),
        ]
        for values, words in cases:
            with self.subTest(values):
                self.assertIn(words, self.refused(*values))

    def test_another_version_is_refused_with_ours(self):
        import http.server

        class Old(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                body = b'{"version": "0.0.1", "weights_version": 0}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
        old = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Old)
        threading.Thread(target=old.serve_forever, daemon=True).start()
        self.addCleanup(lambda: (old.shutdown(), old.server_close()))
        said = self.refused("rollout.engine=serve", f'rollout.urls=["http://127.0.0.1:{old.server_address[1]}"]')
        version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True).stdout.split()[-1]
        self.assertIn(f"it is routeopd 0.0.1, and this is {version}", said)

    def test_a_key_is_sent_and_shown_nowhere(self):
        secret = "not-for-your-eyes-4711"
        environment = {**os.environ, "SERVERS_KEY": secret}
        server = Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", self.path, "--api-key-env", "SERVERS_KEY", environment=environment)
        self.assertIn("401", self.refused(*student_at(server)))
        self.train("keyed", *student_at(server), "rollout.api_key_env=SERVERS_KEY", env=environment)
        self.assert_as_local("keyed")
        for file in (self.path / "keyed").rglob("*"):
            self.assertNotIn(secret.encode(), file.read_bytes() if file.is_file() else b"")


if __name__ == "__main__":
    unittest.main(verbosity=2)
