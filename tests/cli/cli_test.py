#!/usr/bin/env python3
"""The program as a user meets it: help, exit codes, one-sentence errors, files that are whole or absent.

    cli_test.py PROGRAM EXAMPLE_STATES
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, EXAMPLES = sys.argv.pop(1), sys.argv.pop(1)
SOURCE = pathlib.Path(EXAMPLES).parent.parent
STATE = {"student_logits": [2.0, 1.0, 0.0, -1.0], "teacher_logits": [0.0, 1.0, 2.0, -3.0]}


def run(*arguments, stdin="", timeout=60):
    return subprocess.run([PROGRAM, *arguments], input=stdin, text=True, capture_output=True, timeout=timeout)


def route(*states, options=()):
    return run("route", *options, stdin="".join((s if isinstance(s, str) else json.dumps(s)) + "\n" for s in states))


class Help(unittest.TestCase):
    def test_every_command_has_help_with_an_example(self):
        listing = run("--help")
        self.assertEqual(listing.returncode, 0)
        for command in ("route", "bench"):
            self.assertIn(command, listing.stdout)
            text = run(command, "--help")
            self.assertEqual(text.returncode, 0)
            self.assertIn(f"routeopd {command}", text.stdout)
            self.assertIn("Example", text.stdout)

    def test_bad_usage_is_one_line_and_exit_2(self):
        for arguments in ((), ("rout",), ("route", "--no-such-option"), ("route", "--seed", "many")):
            answer = run(*arguments)
            self.assertEqual(answer.returncode, 2, arguments)
            self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
            self.assertEqual(answer.stdout, "")


class Route(unittest.TestCase):
    def test_defaults(self):
        answer = route(STATE)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        out = json.loads(answer.stdout)
        self.assertEqual(out["ids"], [0, 1, 2, 3])
        self.assertTrue(out["routed"])
        self.assertEqual(len(out["pairs"]), 2)
        for pair in out["pairs"]:
            self.assertEqual(pair["source"], 0 if pair["source"] == 0 else 3)
            self.assertEqual(pair["destination"], 2)
            self.assertTrue(0 <= pair["target"] <= out["budget"])

    def test_files_and_standard_streams_agree(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "routes.jsonl")
            answer = run("route", "--in", EXAMPLES, "--out", out)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("states", answer.stderr)
            self.assertEqual(answer.stdout, "")
            self.assertEqual(os.listdir(folder), ["routes.jsonl"])
            piped = run("route", stdin=pathlib.Path(EXAMPLES).read_text())
            self.assertEqual(piped.stdout, pathlib.Path(out).read_text())

    def test_line_options_win_over_the_command_line_and_an_arm_under_them(self):
        out = json.loads(route(STATE | {"options": {"m": 5}}, options=("--m", "3")).stdout)
        self.assertEqual(len(out["pairs"]), 5)
        said = json.loads(route(STATE, options=("--arm", "no_mass", "--budget", "0.25")).stdout)
        self.assertEqual(said["budget"], 0.25)
        line = json.loads(route(STATE | {"options": {"arm": "no_mass", "budget": 0.25}}).stdout)
        self.assertEqual(said, line)
        self.assertNotEqual(said["loss"], json.loads(route(STATE, options=("--budget", "0.25")).stdout)["loss"])

    def test_recipe_sets_the_objective(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as recipe:
            recipe.write('seed = 1\n[objective]\narm = "fixed_high"\nm = 3\n')
            recipe.flush()
            out = json.loads(route(STATE, options=("--recipe", recipe.name)).stdout)
            self.assertEqual(len(out["pairs"]), 3)
            self.assertAlmostEqual(out["budget"], 0.4054651081081644, places=14)

    def test_seed_and_line_number_address_the_draws(self):
        student, teacher = [0.1 * i for i in range(30)], [0.1 * (29 - i) for i in range(30)]
        state = {"student_logits": student, "teacher_logits": teacher, "options": {"m": 16}}
        pairs = [json.loads(line)["pairs"] for line in route(state, state).stdout.splitlines()]
        self.assertNotEqual(pairs[0], pairs[1])
        again = [json.loads(line)["pairs"] for line in route(state, state).stdout.splitlines()]
        self.assertEqual(pairs, again)
        self.assertNotEqual(pairs[0], json.loads(route(state, options=("--seed", "7")).stdout)["pairs"])
        kernel = [json.loads(line)["pairs"] for line in route(state, state, options=("--precision", "float")).stdout.splitlines()]
        for left, right in zip(sum(pairs, []), sum(kernel, [])):
            self.assertEqual((left["source"], left["destination"]), (right["source"], right["destination"]))

    def test_identical_models_are_not_routed(self):
        out = json.loads(route({"student_logits": [1, 2, 3], "teacher_logits": [1, 2, 3], "action": 1}).stdout)
        self.assertFalse(out["routed"])
        self.assertEqual((out["mass"], out["loss"], out["pairs"], out["grad"]), (0, 0, [], {}))

    def test_summary_json_and_table(self):
        summary = json.loads(run("route", "--in", EXAMPLES, "--json").stdout)
        self.assertEqual(summary["states"], len(pathlib.Path(EXAMPLES).read_text().splitlines()))
        table = run("route", "--in", EXAMPLES, "--table").stdout
        self.assertIn("target", table.splitlines()[0])
        self.assertGreater(len(table.splitlines()), summary["states"])

    def test_every_arm_runs(self):
        arms = [word.strip("| ") for word in run("route", "--help").stdout.split("settings below:")[1].split("--k")[0].split()]
        arms = [word for word in arms if word and word.replace("_", "").isalpha()]
        self.assertIn("routeopd", arms)
        self.assertIn("rank_matched", arms)
        wide = {"student_logits": [0.05 * i for i in range(200)], "teacher_logits": [0.05 * (199 - i) for i in range(200)]}
        for arm in arms:
            for precision in ("double", "float"):
                answer = route(wide, options=("--arm", arm, "--k", "8", "--precision", precision))
                self.assertEqual(answer.returncode, 0, (arm, precision, answer.stderr))


class BadInput(unittest.TestCase):
    def refused(self, *states, options=(), says):
        """The last state is wrong: exit 1, one sentence that names its line and `says`, and no output file."""
        with tempfile.TemporaryDirectory() as folder:
            source, out = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
            with open(source, "w") as file:
                file.write("".join((s if isinstance(s, str) else json.dumps(s)) + "\n" for s in states))
            answer = run("route", "--in", source, "--out", out, *options)
            self.assertEqual(answer.returncode, 1, (says, answer.stdout, answer.stderr))
            self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
            self.assertTrue(answer.stderr.startswith("routeopd: "), answer.stderr)
            for word in (says,) if isinstance(says, str) else says:
                self.assertIn(word, answer.stderr)
            if not options:
                self.assertIn(f"in.jsonl:{len(states)}: ", answer.stderr)
            self.assertEqual(os.listdir(folder), ["in.jsonl"])

    def test_wrong_lengths(self):
        self.refused(STATE, {"student_logits": [1, 2], "teacher_logits": [1, 2, 3]}, says=("teacher_logits", "expected 2", "got 3"))
        self.refused(STATE | {"current_logits": [1, 2, 3]}, says=("current_logits", "expected 4", "got 3"))
        self.refused({"student_logits": [], "teacher_logits": []}, says="student_logits")

    def test_not_numbers(self):
        self.refused('{"student_logits":[1,NaN],"teacher_logits":[1,2]}', says="JSON")
        self.refused({"student_logits": [1, "nan"], "teacher_logits": [1, 2]}, says=("student_logits[1]", "nan"))
        self.refused({"student_logits": [1, "inf"], "teacher_logits": [1, 2]}, says="student_logits[1]")
        self.refused({"student_logits": [1, None], "teacher_logits": [1, 2]}, says="student_logits[1]")
        self.refused({"student_logits": [1, 1e300], "teacher_logits": [1, 2]}, says=("student_logits[1]", "1e+30"))
        self.refused({"student_logits": [1, "a\nb" * 5000], "teacher_logits": [1, 2]}, says="student_logits[1]")
        self.refused('{"student_logits":[1,1e999],"teacher_logits":[1,2]}', says="number")
        self.refused({"student_logits": ["-inf", "-inf"], "teacher_logits": [1, 2]}, says="every value is -inf")

    def test_nothing_in_common(self):
        for precision in ("double", "float"):
            self.refused({"student_logits": [1, "-inf"], "teacher_logits": ["-inf", 1]},
                         options=("--precision", precision), says="non_finite")

    def test_settings(self):
        for options, says in (({"k": 0}, "k: "), ({"k": "all"}, "full"), ({"k": 1.5}, "whole"), ({"m": 0}, "m: "),
                              ({"b_min": 0.5, "b_max": 0.2}, "b_max"), ({"b_min": -1}, "b_min"), ({"kappa": 0}, "kappa"),
                              ({"kappa": -1}, "kappa"), ({"budget": "medium"}, "adaptive"), ({"budget": 0}, "budget"),
                              ({"kapa": 1}, "did you mean kappa"), ({"arm": "route_opd"}, "did you mean routeopd"),
                              ({"delta_p": 0}, "delta_p"), ({"seed": -1}, "seed"), ({"seed": "x"}, "seed"),
                              ({"pairs": "exact", "side": "source"}, "exact coupling"),
                              ({"target": "independent", "side": "source"}, "independent")):
            self.refused(STATE | {"options": options}, says=says)
        self.refused(STATE | {"options": [1]}, says="options")

    def test_settings_on_the_command_line(self):
        for option, value, says in (("--b_min", "0.9", "b_max"), ("--b-min", "0.9", "b_max"), ("--precision", "half", "double | float")):
            self.refused(STATE, options=(option, value), says=says)
        for option, value, says in (("--k", "0", "--k: "), ("--kappa", "0", "--kappa"), ("--m", "-3", "--m: "), ("--kappa", "nan", "--kappa"),
                                    ("--arm", "sampled", "did you mean sampled_rkl")):
            answer = route(STATE, options=(option, value))
            self.assertEqual((answer.returncode, answer.stdout), (2, ""), (option, value))
            self.assertIn(says, answer.stderr)

    def test_a_zero_byte_ends_no_path(self):
        with tempfile.TemporaryDirectory() as folder:
            recipe = os.path.join(folder, "recipe.toml")
            for text, name in (('out = "run\\u0000s"', "out: "), ('[eval]\nsuites = { a = "file\\u0000.jsonl" }', "eval.suites.a: "),
                               ('[rollout]\nurls = ["http://127.0.0.1:1\\u0000"]', "rollout.urls.0: "), ('[student]\n"pa\\u0000th" = "a"', "\\u0000")):
                with open(recipe, "w") as file:
                    file.write(text)
                answer = run("train", recipe, "--show-recipe")
                self.assertEqual((answer.returncode, answer.stdout), (1, ""), answer.stderr)
                self.assertIn("without a zero byte", answer.stderr)
                self.assertIn(name, answer.stderr)
            pathlib.Path(recipe).write_text("")
            answer = run("train", recipe, "--show-recipe", "--set", 'eval.suites={"a": "b\\u0000c"}')
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn("eval.suites.a: expected text without a zero byte", answer.stderr)
            self.assertEqual(os.listdir(folder), ["recipe.toml"])

    def test_ids(self):
        self.refused(STATE | {"pairs": [[0, 4]]}, says=("pairs", "3"))
        self.refused(STATE | {"pairs": [[-1, 2]]}, says="pairs")
        self.refused(STATE | {"pairs": [[0]]}, says="pairs")
        self.refused(STATE | {"pairs": [[2, 2]]}, says="pairs")
        self.refused(STATE | {"pairs": []}, says="empty")
        self.refused(STATE | {"pairs": [[1, 3]], "options": {"k": 1}}, says="not in the support")
        self.refused(STATE | {"action": 9}, says=("action", "3"))
        self.refused(STATE | {"action": 1.5}, says="action")
        self.refused({"student_logits": ["-inf", 1, 2], "teacher_logits": [1, 1, 2], "action": 0}, says="probability 0")

    def test_lines_that_are_not_json_objects(self):
        self.refused(STATE, json.dumps(STATE)[:-5], says=("in.jsonl:2", "JSON"))
        self.refused(STATE, "hello", says="JSON")
        self.refused("[1, 2]", says="array")
        self.refused("{" * 100000, says="JSON")
        self.refused(STATE | {"curent_logits": [1]}, says="did you mean current_logits")
        self.refused({"student_logits": [1, 2]}, says="teacher_logits: missing")

    def test_files(self):
        answer = run("route", "--in", "no/such/file.jsonl")
        self.assertEqual((answer.returncode, answer.stderr.count("\n")), (1, 1))
        with tempfile.TemporaryDirectory() as folder:
            answer = run("route", "--in", EXAMPLES, "--out", os.path.join(folder, "no", "such", "out.jsonl"))
            self.assertEqual((answer.returncode, answer.stderr.count("\n")), (1, 1))
            self.assertEqual(run("route", "--in", folder).returncode, 1)
            self.assertEqual(run("route", "--in", EXAMPLES, "--out", folder).returncode, 1)
            empty = os.path.join(folder, "empty.jsonl")
            pathlib.Path(empty).touch()
            self.assertEqual(run("route", "--in", empty).returncode, 1)

    def test_a_full_disk_is_an_error(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "w") as full:
            answer = subprocess.run([PROGRAM, "route", "--in", EXAMPLES], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("standard output", answer.stderr)
        for words in (["--help"], ["--version"], ["route", "--help"], ["probe", "make", "--help"]):
            with open("/dev/full", "w") as full:
                answer = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(answer.returncode, 1, words)
            self.assertEqual(answer.stderr, "routeopd: standard output: cannot be written; is the disk full?\n")

    def test_an_error_is_text_that_can_be_seen(self):
        answer = run("route", "--in", "no\x1b[31m/\u009b31m\u202e" + "\u00e4" * 1000)
        self.assertEqual((answer.returncode, answer.stderr.count("\n")), (1, 1))
        self.assertNotRegex(answer.stderr, "[\x1b\u009b\u202e\ufffd]")
        self.assertIn("\\u{9b}", answer.stderr)


class Interrupt(unittest.TestCase):
    def test_a_signal_leaves_nothing_half_written(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.jsonl")
            process = subprocess.Popen([PROGRAM, "route", "--out", out], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            process.stdin.write(json.dumps(STATE) + "\n")
            process.stdin.flush()
            deadline = time.time() + 20
            while not os.listdir(folder) and time.time() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            process.stdin.write(json.dumps(STATE) + "\n")
            _, errors = process.communicate(timeout=20)
            self.assertEqual(process.returncode, 130, errors)
            self.assertEqual(os.listdir(folder), [])

    def test_a_stream_that_is_waited_for_does_not_end_by_a_signal(self):
        """What was read so far would be taken for all of it."""
        base = str(SOURCE / "lab" / "base")
        for command, line in ((["tokenize", base], {"text": "a"}), (["score", "--model", base, "--k", "2"], {"ids": [5, 6]}),
                              (["grade"], {"response": "4", "answer": "4"}), (["generate", "--model", base], {"problem": "a"})):
            with self.subTest(command[0]), tempfile.TemporaryDirectory() as folder:
                process = subprocess.Popen([PROGRAM, *command, "--in", "-", "--out", os.path.join(folder, "out.jsonl")],
                                           stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                process.stdin.write(json.dumps(line) + "\n")
                process.stdin.flush()
                wait_until_it_waits(process.pid)
                process.send_signal(signal.SIGINT)
                errors = process.stderr.read()
                self.assertEqual(process.wait(20), 130, errors)
                process.stdin.close()
                process.stderr.close()
                self.assertIn("interrupted", errors)
                self.assertNotIn("out.jsonl", os.listdir(folder))


def wait_until_it_waits(pid):
    """Until the process sleeps in read() of its standard input; call 0 of x86-64."""
    for _ in range(2000):
        with open(f"/proc/{pid}/syscall") as file:
            if file.read().split()[:2] == ["0", "0x0"]:
                return
        time.sleep(0.01)
    raise AssertionError("it never read its standard input")


class Out(unittest.TestCase):
    def test_an_empty_name_is_refused_before_the_work(self):
        def commands(*above):
            for name in re.findall(r"^  ([a-z]+) {2,}", run(*above, "--help").stdout.partition("Subcommands:")[2], re.M):
                yield (*above, name)
                yield from commands(*above, name)

        having = [name for name in commands() if re.search("^  --out ", run(*name, "--help").stdout, re.M)]
        self.assertGreater(len(having), 10)
        for name in having:
            answer = run(*name, "--out", "")
            self.assertEqual(answer.returncode, 2, name)
            self.assertIn("--out: expected a name, got an empty one", answer.stderr, name)


if __name__ == "__main__":
    unittest.main()
