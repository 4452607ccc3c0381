#!/usr/bin/env python3
"""`routeopd train` with its student, its teacher, or both on `routeopd serve`: the bits of the local run, also after kills and
restarts of either side; and what sick servers do. On the laboratory's pair.

    remote_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import signal
import socket
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
    def train(cls, name, *values, code=0, more=(), recipe=RECIPE, **process):
        answer = subprocess.run([PROGRAM, "train", recipe, "--out", cls.path / name, "--quiet", *settings([*SMALL, *values]), *more],
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

    def log(self, name):
        return (self.path / name / "log.txt").read_text()

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

    def test_a_server_that_is_restarted_in_the_middle_changes_nothing(self):
        """The student's gets the weights again."""
        for section, model, path in (("rollout", "base", "/v1/generate"), ("teacher", "teacher", "/v1/score")):
            with self.subTest(section):
                def serve(port=0):
                    return Server(PROGRAM, SOURCE / "lab" / model, "--reload-root", self.path, port=port)
                first = serve()

                def restart(asked, number, status, body):
                    if asked == path and number == 6:  # in the second step
                        first.end(signal.SIGKILL)
                        serve(first.port)
                        return 200, body[:100], {"length": len(body)}
                    return status, body
                proxy, name = SpoilingProxy(first.port, restart), f"restarted-{section}"
                self.addCleanup(proxy.end)
                self.train(name, *(student_at(proxy) if section == "rollout" else teacher_at(proxy)))
                self.assert_as_local(name)
                self.assertGreaterEqual(self.servers(name)[f"{section}_cut_answers"], 1)
                for words in (f"servers: {section}_cut_answers", f"{section}: {proxy.url}{path}", f"{section}: {proxy.url} answers again"):
                    self.assertIn(words, self.log(name))

    def test_runs_that_share_a_directory_of_weights_leave_each_others_alone(self):
        shared = self.path / "shared-weights"
        values = [*student_at(Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", self.path)), f"rollout.weights={shared}"]
        process = self.begin("first", *values, "train.steps=1000", "checkpoint.every=1000")
        self.wait_for_line("first", 2)
        self.train("second", *student_at(self.student), f"rollout.weights={shared}")
        self.assert_as_local("second")
        lines = len(self.metrics("first"))
        self.wait_for_line("first", lines + 2)
        self.assertEqual(set(self.servers("first")), set())
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertTrue(list(shared.iterdir()), "what a killed run leaves")
        self.train("second", *student_at(self.student), f"rollout.weights={shared}", "train.steps=4", more=["--resume"])
        self.assertTrue(list(shared.iterdir()), "is for the run itself to remove")
        self.train("first", *values, f"train.steps={len(self.metrics('first')) + 2}", "checkpoint.every=1000", more=["--resume"])
        self.assertEqual(list(shared.iterdir()), [])


def changed(body, change):
    """An answer whose header of safetensors, and whose data, `change` has changed."""
    length, = struct.unpack("<Q", body[:8])
    header, data = json.loads(body[8:8 + length]), bytearray(body[8 + length:])
    change(header, data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def without_version(header, data):
    del header["__metadata__"]["weights_version"]


def with_length(tokens):
    def change(header, data):
        struct.pack_into("<i", data, header["lengths"]["data_offsets"][0], tokens)
    return change


def of_other_weights(header, data):
    header["__metadata__"]["weights_version"] = "7"


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
            "server_errors of a proxy": lambda status, body: (502, b"<h1>Bad Gateway</h1>"),
            "bad_answers": lambda status, body: (200, b"<html>not what you think</html>"),
            "bad_answers of 1 GB": lambda status, body: (200, bytes(1 << 30)),
            "bad_answers of no weights": lambda status, body: (200, changed(body, without_version)),
            "bad_answers too long": lambda status, body: (200, changed(body, with_length(25))),
            "bad_answers past all bounds": lambda status, body: (200, changed(body, with_length((1 << 31) - 1))),
            "bad_answers below zero": lambda status, body: (200, changed(body, with_length(-1))),
        }
        for fault, spoil in cases.items():
            with self.subTest(fault):
                name, count = f"once-{fault.replace(' ', '-')}", fault.split()[0]
                proxy, _ = self.spoiled(name, once(spoil))
                self.assert_as_local(name)
                self.assertEqual(self.servers(name), {f"rollout_{count}": 1})
                self.assertEqual(proxy.asked["/v1/generate"], 3 * 4 + 1, "four prompts a step, and one again")
                self.assertRegex(self.log(name), rf"rollout: {proxy.url}.*: .*\n(.*\n)*.* rollout: {proxy.url} answers again\n")

    def test_a_proxy_without_its_server_is_waited_for(self):
        """A request that a server fails five times ends the run; one that no server has seen does not."""
        answer = 504, b"no server", {"headers": {"Retry-After": "1"}}
        self.spoiled("gateway", lambda path, number, status, body:
                     answer if path == "/v1/generate" and 2 <= number < 12 else (status, body), "rollout.requests=1")
        self.assert_as_local("gateway")
        self.assertEqual(self.servers("gateway"), {"rollout_server_errors": 10})
        log = self.log("gateway")
        self.assertEqual(log.count("status 504: no server"), 1, log)
        self.assertEqual(log.count("no server answers; the step waits for up to 600 s"), 1, log)
        self.assertEqual(log.count("answers again"), 1, log)

    def test_values_that_cannot_be_used_are_reasons_of_their_states(self):
        def with_value(name, code, value):
            return lambda header, data: struct.pack_into(code, data, header[name]["data_offsets"][0], value)
        cases = {"nan": ("non_finite", with_value("logsumexp", "<f", float("nan"))),
                 "infinite": ("non_finite", with_value("top_logits", "<f", float("inf"))),
                 "no-id": ("misaligned", with_value("top_ids", "<i", 1 << 20))}
        for name, (reason, change) in cases.items():
            with self.subTest(name):
                proxy = SpoilingProxy(self.teacher.port, lambda path, number, status, body: (
                    status, changed(body, change) if path == "/v1/score" and number == 1 else body))
                self.addCleanup(proxy.end)
                self.train(name, *teacher_at(proxy), "train.steps=1")
                line, = self.metrics(name)
                self.assertEqual((line["validity"][reason], line["validity"]["valid"]), (1, line["tokens"] - 1))

    def test_slow_answers_run_into_the_deadline(self):
        _, _ = self.spoiled("slow", lambda path, number, status, body:
                            (status, body, {"pause": 3 if path == "/v1/generate" and number == 1 else 0}), "rollout.request_seconds=1.5")
        self.assert_as_local("slow")
        self.assertEqual(self.servers("slow"), {"rollout_timeouts": 1})

    def test_stale_weights_are_refused(self):
        def stale(path, number, status, body):
            return status, changed(body, of_other_weights) if path == "/v1/generate" and number in (1, 2) else body
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

    def test_a_server_that_takes_requests_and_says_nothing_is_no_answer(self):
        server = Server(PROGRAM, SOURCE / "lab" / "base", "--reload-root", self.path)
        mute = socket.socket()
        self.addCleanup(mute.close)

        def silence(path, number, status, body):
            if path == "/v1/generate" and number == 5:
                server.end(signal.SIGKILL)
                mute.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                mute.bind(("127.0.0.1", server.port))
                mute.listen(64)
                return 200, body[:10], {"length": len(body)}
            return status, body
        _, said = self.spoiled("mute", silence, "rollout.patience=2", "rollout.requests=1", port=server.port, code=1)
        self.assertIn("no server answered for 2 s", said)
        self.assertIn("no server answers", self.log("mute"))

    def test_a_request_under_way_is_not_silence(self):
        """One request takes longer than patience, while all others are refused."""
        began = []

        def busy(path, number, status, body):
            if path != "/v1/generate":
                return status, body
            if number == 0:
                began.append(time.monotonic())
                return status, body, {"pause": 4}
            refused = not began or time.monotonic() < began[0] + 3.5
            return (429, b"busy", {"headers": {"Retry-After": "1"}}) if refused else (status, body)
        self.spoiled("patient", busy, "rollout.patience=1")
        self.assert_as_local("patient")
        self.assertGreater(self.servers("patient")["rollout_too_many_requests"], 1)

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

    def test_a_teacher_that_comes_back_as_another_model_is_refused(self):
        teacher = Server(PROGRAM, SOURCE / "lab" / "teacher")

        def restart(path, number, status, body):
            if path == "/v1/score" and number == 6:
                teacher.end(signal.SIGKILL)
                Server(PROGRAM, SOURCE / "lab" / "base", port=teacher.port)
                return 200, body[:10], {"length": len(body)}
            return status, body
        proxy = SpoilingProxy(teacher.port, restart)
        self.addCleanup(proxy.end)
        self.assertIn(f"[teacher] urls: {proxy.url} answers as another model", self.train("changed", *teacher_at(proxy), code=1))

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
        log = self.log("survivor")
        self.assertIn(f"rollout: {proxy.url}", log)
        self.assertNotIn("answers again", log)
        self.assertNotIn("no server answers", log)


class SeveralTeachers(Case):
    def test_each_has_its_own_engine_key_and_counts(self):
        """One is local, one on a server that wants a key and fails once."""
        recipe, prompts = self.path / "two.toml", self.path / "two.jsonl"
        teachers = '[teachers]\ndefault = "a"\n[teachers.a]\npath = "lab/teacher"\n[teachers.b]\npath = "lab/teacher"\n'
        recipe.write_text(RECIPE.read_text().replace('[teacher]\npath = "lab/teacher"\n', teachers))
        lines = [json.loads(line) for line in (SOURCE / "lab" / "train.jsonl").read_text().splitlines()[:12]]
        prompts.write_text("".join(json.dumps({**line, "teacher": "ab"[i % 2]}) + "\n" for i, line in enumerate(lines)))
        environment = {**os.environ, "TEACHERS_KEY": "opened"}
        server = Server(PROGRAM, SOURCE / "lab" / "teacher", "--api-key-env", "TEACHERS_KEY", environment=environment)
        proxy = SpoilingProxy(server.port, lambda path, number, status, body:
                              (500, b"oh") if path == "/v1/score" and number == 2 else (status, body))
        self.addCleanup(proxy.end)
        self.train("two-local", f"data.prompts={prompts}", recipe=recipe)
        on_server = ["teachers.b.engine=serve", f'teachers.b.urls=["{proxy.url}"]']
        self.train("two", f"data.prompts={prompts}", *on_server, "teachers.b.api_key_env=TEACHERS_KEY", recipe=recipe, env=environment)
        self.assert_as_local("two", "two-local")
        self.assertEqual(self.servers("two"), {"teacher_b_server_errors": 1})
        self.assertIn(f"teachers.b: {proxy.url}/v1/score: status 500", self.log("two"))
        for line in self.metrics("two"):
            self.assertEqual(sum(line["teachers"][name]["states"] for name in "ab"), line["tokens"])
        said = self.train("keyless", f"data.prompts={prompts}", *on_server, recipe=recipe, code=1)
        self.assertIn("401", said)


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
            ([*student_at(self.student), f"rollout.weights={RECIPE}/weights"], "[rollout] weights: "),
            (["teacher.engine=vllm", f"teacher.urls={urls(plain)}"], "this is `routeopd serve`; choose engine"),
            (teacher_at(self.teacher, plain), f"[teacher] urls: {plain.url} answers as another model than the first server did"),
            ([*student_at(self.student), "teacher.engine=serve", f'teacher.urls=["{self.student.url}/v1"]'],
             f"[teacher] urls: {self.student.url} is in [rollout] too"),
            (["rollout.engine=serve", 'rollout.urls=["http://10.0.0.1:8000"]', "rollout.api_key_env=HOME"], "unencrypted"),
        ]
        for values, words in cases:
            with self.subTest(values):
                self.assertIn(words, self.refused(*values, code=2 if "teacher.engine=slow" in values else 1))

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
