#!/usr/bin/env python3
"""The driver of `make peers` on parts that stand in for the real ones; and the real ones against the sources and the documents.

    peers_test.py SOURCE_DIRECTORY
"""
import contextlib
import dataclasses
import io
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
from unittest import mock

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "tests/peers")]
import peers  # noqa: E402
import peers_environments  # noqa: E402
import peers_run  # noqa: E402
import peers_table  # noqa: E402
from peers_parts import PARTS, Part, Setting  # noqa: E402
from results import report  # noqa: E402

# What the commands of the stand-ins do, each in a Python of its own that begins with this.
BEGIN = f"import os, pathlib, signal, sys, time; sys.path.insert(0, {str(SOURCE / 'tests/peers')!r}); from results import report\n"


def part(name, code, **changes):
    command = [sys.executable, "-c", BEGIN + code]
    return dataclasses.replace(Part(name, f"what {name} compares", "someone", 1, 1, lambda _: [command]), **changes)


def good(name, **changes):
    return part(name, f"print('{name} runs'); report('{name} is fast', 'someone', '>= 2', '3.0 [2.9, 3.1]', True, '÷')", **changes)


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.out, self.program = self.path / "out", self.path / "routeopd"
        self.program.write_text("one build")
        self.program.chmod(0o755)
        self.enterContext(mock.patch.dict(os.environ))
        for variable in ("PEERS_SKIP", "PEERS_VLLM", "SHARED"):
            os.environ.pop(variable, None)
        for name in ("SIGTERM", "SIGHUP"):  # the driver sets them
            self.addCleanup(signal.signal, getattr(signal, name), signal.getsignal(getattr(signal, name)))

    def drive(self, parts, *words):
        """The exit code and what was said."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = peers.main([str(self.program), "--out", str(self.out), *words], parts)
            except SystemExit as error:
                code = error.code
        return code, said.getvalue()

    def table(self):
        """The rows of results.md, cell by cell."""
        lines = (self.out / "results.md").read_text().splitlines()
        rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines if line.startswith("| ")]
        self.assertEqual(rows[0], ("what", "peer", "target", "measured", "met"))
        return rows[1:]


class Driver(Case):
    def test_rows_logs_and_the_total(self):
        code, said = self.drive([good("a"), good("b")])
        self.assertEqual(code, 0, said)
        row = ("is fast", "someone", ">= 2", "3.0 [2.9, 3.1]", "yes")
        self.assertEqual(self.table(), [(f"{name} {row[0]}", *row[1:]) for name in "ab"])
        self.assertIn("2 parts: 2 passed, 0 failed, 0 skipped; 2 rows: 2 met, 0 not met", said)
        self.assertTrue(said.rstrip().endswith("exit code 0"))
        self.assertIn(said.rstrip().splitlines()[-1], (self.out / "results.md").read_text())
        log = (self.out / "a.log").read_text()
        self.assertTrue(log.startswith(f"$ {sys.executable}"))
        self.assertTrue(log.endswith("a runs\n"))
        machine, *rows = map(json.loads, (self.out / "results.jsonl").read_text().splitlines())
        self.assertEqual(machine.keys(), {"cpu", "features", "cores", "quick"})
        self.assertEqual(rows[1], {"part": "b", "what": "b is fast", "peer": "someone", "target": ">= 2", "measured": "3.0 [2.9, 3.1]",
                                   "met": True, "unit": "÷"})

    def test_a_part_that_fails_does_not_keep_others_from_running(self):
        code, said = self.drive([part("bad", "report('x', 'y', '', '1', None); print('first'); sys.exit('naïve: it broke')"), good("b")])
        self.assertEqual(code, 1)
        self.assertEqual([row[0] for row in self.table()], ["x", "bad", "b is fast"])
        self.assertEqual(self.table()[1][4], "FAILED")
        self.assertIn("ended with 1: naïve: it broke", self.table()[1][3])
        self.assertIn("2 parts: 1 passed, 1 failed (bad), 0 skipped; 2 rows: 1 met, 0 not met, 1 without a verdict", said)

    def test_each_command_of_a_part_runs_and_each_failure_is_told(self):
        commands = [[sys.executable, "-c", BEGIN + code] for code in ("sys.exit('one')", "report('x', 'y', '', '1', None)", "sys.exit('two')", "sys.exit(3)")]
        code, _ = self.drive([dataclasses.replace(good("a"), commands=lambda _: [*commands, ["/nowhere/at_all"]])])
        self.assertEqual(code, 1)
        self.assertEqual(self.table()[0][0], "x")
        for sentence in ("ended with 1: one", "ended with 1: two", f"{pathlib.Path(sys.executable).name} ended with 3; at_all ended with 127: /nowhere/at_all: No such file"):
            self.assertIn(sentence, self.table()[1][3])

    def test_a_missed_target_counts_whatever_the_command_ends_with(self):
        code, said = self.drive([part("slow", "report('x', 'y', '>= 2', '1.9', False, '÷')")])
        self.assertEqual((code, [row[4] for row in self.table()]), (1, ["NO"]))
        self.assertIn("1 failed (slow)", said)

    def test_a_part_that_reports_nothing_fails(self):
        code, _ = self.drive([part("silent", "pass")])
        self.assertEqual(code, 1)
        self.assertEqual(self.table()[0][3:], ("it reported no row", "FAILED"))

    def test_skips_are_told_and_are_no_failures(self):
        os.environ["SHARED"] = str(self.path)
        os.environ["PEERS_VLLM"] = sys.executable
        parts = [good("data", shared=("models/story",)), good("server", environments=("vllm",)), good("b", optional=("vllm",))]
        code, said = self.drive(parts, "--skip", "vllm")
        self.assertEqual(code, 0, said)
        self.assertEqual([(row[0], row[4]) for row in self.table()], [("data", "skipped"), ("server", "skipped"), ("b is fast", "yes")])
        self.assertIn(f"no {self.path}/models/story", self.table()[0][3])
        self.assertEqual(self.table()[1][3], "--skip vllm")
        self.assertEqual(self.drive(parts)[0], 0)
        self.assertEqual([row[0] for row in self.table()], ["data", "server is fast", "b is fast"])

    def test_an_environment_that_cannot_be_made_fails_its_parts_alone(self):
        with mock.patch("peers_run.make", side_effect=peers_environments.EnvironmentFailure("pip ended with 1")) as make, \
                mock.patch("peers_run.is_there", return_value=False):
            code, _ = self.drive([good("a", environments=("vllm",)), good("b", environments=("vllm",)), good("c")])
        self.assertEqual((code, make.call_count), (1, 1))
        self.assertEqual([row[4] for row in self.table()], ["FAILED", "FAILED", "yes"])
        self.assertIn("vllm could not be made: pip ended with 1", self.table()[1][3])

    def test_a_program_that_was_not_built(self):
        code, _ = self.drive([good("a", programs=("bench/none",))])
        self.assertEqual(code, 1)
        self.assertIn("`make tests` builds it", self.table()[0][3])

    def test_what_hangs_is_stopped(self):
        with mock.patch("peers_run.LEAST_MINUTES", 1 / 60):
            code, _ = self.drive([part("hang", "time.sleep(600)", minutes=0.0), good("b")])
        self.assertEqual(code, 1)
        self.assertIn("was stopped: it took too long", self.table()[0][3])
        self.assertEqual(self.table()[1][4], "yes")


class Choice(Case):
    parts = (good("serve-load"), good("serve-soak", quick=None), good("server"), good("b"))

    def ran(self, *words):
        self.assertEqual(self.drive(self.parts, *words)[0], 0)
        return [row[0].removesuffix(" is fast") for row in self.table()]

    def test_names_and_their_beginnings(self):
        self.assertEqual(self.ran("--only", "serve"), ["serve-load", "serve-soak"])
        self.assertEqual(self.ran("--only", "b,server"), ["server", "b"])
        self.assertEqual(self.ran("--skip", "serve,b"), ["server"])
        self.assertEqual(self.ran("--quick"), ["serve-load", "server", "b"])

    def test_refusals(self):
        code, said = self.drive(self.parts, "--only", "serv")
        self.assertEqual(code, 2)
        self.assertIn("no part serv", said)
        self.assertEqual(self.drive(self.parts, "--only", "vllm")[0], 2)
        os.environ["PEERS_SKIP"] = "soak"
        code, said = self.drive(self.parts)
        self.assertEqual(code, 2)
        self.assertIn("--skip", said)
        os.environ.pop("PEERS_SKIP")
        self.program.unlink()
        self.assertEqual(self.drive(self.parts)[0], 2)
        code, said = self.drive(self.parts, "--list")  # it needs no program
        self.assertEqual(code, 0)
        self.assertFalse(self.out.exists())
        self.assertIn("serve-soak                   1     -  someone: what serve-soak compares", said)


# As a process of its own that can be killed: peers_test.py SOURCE_DIRECTORY --drive ARGUMENT…
MARKS = pathlib.Path(os.environ.get("PEERS_TEST_MARKS", "/nowhere"))
COUNTED = (
    part("first", f"open({str(MARKS)!r} + '/first', 'a').write('x'); report('first', '-', '', '1', None)"),
    part("second", f"mark = pathlib.Path({str(MARKS)!r}, 'second')\nfirst = not mark.exists()\nmark.write_text(str(os.getpid()))\n"
         "report('half', '-', '', '1', None) if first else report('whole', '-', '', '1', True)\n"
         f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path({str(MARKS)!r}, 'told').write_text('it ends what it started')))\n"
         "time.sleep(600 if first else 0)"),
    part("third", f"open({str(MARKS)!r} + '/third', 'a').write('x'); report('third', '-', '', '1', None)"))


class Interrupted(Case):
    def begin(self):
        """The driver in the middle of its second part, whose process is the second that is returned."""
        process = subprocess.Popen([sys.executable, __file__, SOURCE, "--drive", self.program, "--out", self.out],
                                   env={**os.environ, "PEERS_TEST_MARKS": str(self.path)}, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (self.path / "second").exists() or not (self.path / "second").read_text():
            time.sleep(0.02)
        return process, int((self.path / "second").read_text())

    def again(self, *words):
        done = subprocess.run([sys.executable, __file__, SOURCE, "--drive", self.program, "--out", self.out, *words],
                              env={**os.environ, "PEERS_TEST_MARKS": str(self.path)}, stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        return [row[0] for row in self.table()]

    def times(self, name):
        return len((self.path / name).read_text())

    def assert_gone(self, number):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    time.sleep(0.02)
                    continue
            return
        self.fail("the part's process lives on")

    def test_resume_after_a_kill(self):
        process, second = self.begin()
        process.kill()
        process.wait()
        self.assert_gone(second)
        self.assertEqual(self.again("--resume"), ["first", "whole", "third"])  # half of a part counts for nothing
        self.assertEqual((self.times("first"), self.times("third")), (1, 1))
        self.again("--resume")
        self.assertEqual((self.times("first"), self.times("third")), (1, 1))
        self.program.write_text("another build")
        self.assertEqual(self.again("--resume"), ["first", "whole", "third"])
        self.assertEqual((self.times("first"), self.times("third")), (2, 2))
        self.again()
        self.assertEqual((self.times("first"), self.times("third")), (3, 3))

    def test_what_failed_is_run_again(self):
        failing = part("bad", "report('x', 'y', '', '1', None); sys.exit(1)")
        for _ in range(2):
            code, said = self.drive([failing], "--resume")
            self.assertEqual(code, 1)
            self.assertNotIn("passed before", said)

    def test_a_signal_ends_the_part_and_tells_what_was_done(self):
        process, second = self.begin()
        process.send_signal(signal.SIGTERM)
        said = process.stdout.read()
        self.assertEqual(process.wait(), 130)
        self.assert_gone(second)
        self.assertTrue((self.path / "told").exists())
        self.assertEqual([row[0] for row in self.table()], ["first"])
        self.assertIn("3 parts: 1 passed, 0 failed, 0 skipped, 2 not run; 1 rows", said)
        self.assertTrue(said.rstrip().endswith("exit code 130"))

    def test_only_one_at_a_time(self):
        process, _ = self.begin()
        code, said = self.drive([good("a")])
        self.assertEqual(code, 1)
        self.assertIn("another one writes", said)
        process.terminate()
        process.wait()

    def test_what_passed_is_run_again_when_its_script_or_environment_changes(self):
        script, helper = self.path / "script.py", self.path / "helper.py"
        script.write_text("import helper\n")
        helper.write_text("")
        one = good("a", environments=("vllm",))
        one = dataclasses.replace(one, commands=lambda _, own=one.commands: [*own(_), [sys.executable, script]])
        os.environ["PEERS_VLLM"] = sys.executable

        def resumed():
            return "passed before" in self.drive([one], "--resume")[1]
        self.assertFalse(resumed())
        self.assertTrue(resumed())
        helper.write_text("# another check\n")
        self.assertFalse(resumed())
        self.assertTrue(resumed())
        os.environ["PEERS_VLLM"] = f"{sys.executable} "
        self.assertFalse(resumed())


class Rows(Case):
    def test_nothing_is_written_where_nobody_asks(self):
        with mock.patch.dict(os.environ):
            os.environ.pop(peers_run.ROWS, None)
            report("a", "b", "", "1", None)
            os.environ[peers_run.ROWS] = str(self.path / "rows")
            report("a", "b", "<= 1", "0.5", True, "s")
        row = {"what": "a", "peer": "b", "target": "<= 1", "measured": "0.5", "met": True, "unit": "s"}
        self.assertEqual(list(map(json.loads, (self.path / "rows").read_text().splitlines())), [row])
        outcome = peers_run.Outcome("p", "b", "", "passed", "", 1.0, [row])
        self.assertEqual(peers_table.rows_of(outcome), [("a", "b", "<= 1 s", "0.5 s", "yes")])
        self.assertIn("a\\|b", peers_table.markdown([dataclasses.replace(outcome, rows=[{**row, "what": "a|b"}])], False))


class Environments(Case):
    """Made where a module believes its root: nothing is installed."""

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch("peers_environments.ROOT", self.path))
        self.enterContext(mock.patch.object(peers_environments, "print", lambda *_, **__: None, create=True))
        self.installed = self.enterContext(mock.patch("peers_environments.run", side_effect=self.run_pip))
        self.fails = False

    def run_pip(self, *words, variables=()):
        if "venv" in words:
            words[-1].mkdir(parents=True)
        elif self.fails:
            raise peers_environments.EnvironmentFailure("no network")
        return "torchless==1\n"

    def test_made_once_and_again_when_pins_change(self):
        python = peers_environments.make("vllm")
        self.assertEqual(python, str(self.path / ".venv-vllm/bin/python"))
        count = self.installed.call_count
        self.assertEqual(peers_environments.make("vllm"), python)
        self.assertEqual(self.installed.call_count, count)
        changed = dataclasses.replace(peers_environments.ENVIRONMENTS["vllm"], installs=(("other==1",),))
        with mock.patch.dict(peers_environments.ENVIRONMENTS, vllm=changed):
            self.assertFalse(peers_environments.is_there("vllm"))
            peers_environments.make("vllm")
        self.assertGreater(self.installed.call_count, count)
        self.assertFalse(peers_environments.is_there("vllm"))  # there is one of each folder, and the other one is gone

    def test_what_was_not_made_whole_is_not_there(self):
        peers_environments.make("vllm")
        changed = dataclasses.replace(peers_environments.ENVIRONMENTS["vllm"], installs=(("other==1",),))
        with mock.patch.dict(peers_environments.ENVIRONMENTS, vllm=changed):
            self.fails = True
            self.assertRaises(peers_environments.EnvironmentFailure, peers_environments.make, "vllm")
            self.assertFalse(peers_environments.is_there("vllm"))

    def test_killed_while_the_old_one_is_removed(self):
        peers_environments.make("vllm")
        changed = dataclasses.replace(peers_environments.ENVIRONMENTS["vllm"], installs=(("other==1",),))
        with mock.patch.dict(peers_environments.ENVIRONMENTS, vllm=changed), mock.patch("shutil.rmtree", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, peers_environments.make, "vllm")
        self.assertFalse(peers_environments.is_there("vllm"))  # though its pins are as they were

    def test_a_named_interpreter_is_taken_as_it_is(self):
        os.environ["PEERS_VLLM"] = "/somewhere/python"
        self.assertEqual(peers_environments.make("vllm"), "/somewhere/python")
        os.environ["PEERS_PYTHON"] = "/elsewhere/python"
        self.assertEqual(peers_environments.make("trl"), "/elsewhere/python")
        self.assertFalse(self.installed.called)


class Ratios(Case):
    """bench_ratios.py on a program that answers as `routeopd bench` does."""

    def ratios(self, tokens, ids, *found):
        result = {"tokens": tokens, "ratios": [{"id": "2", "what": "ours / other", "shape": shape, "threads": 2, "ours": ours, "other": 2.0,
                                                "unit": "s", "ratio": ours / 2.0, "target": 0.75, "at_least": False, "met": ours / 2.0 <= 0.75}
                                               for shape, ours in found]}
        self.program.write_text(f"#!{sys.executable}\nimport json, sys\n"
                                f"json.dump(json.loads({json.dumps(result)!r}), open(sys.argv[sys.argv.index('--out') + 1], 'w'))\n")
        one = dataclasses.replace(good("ratios"), commands=lambda _: [[sys.executable, SOURCE / "tests/peers/bench_ratios.py", self.program, ids]])
        code, _ = self.drive([one])
        return code, [row[2:] for row in self.table()]

    def test_met_and_missed(self):
        self.assertEqual(self.ratios(2048, "2", ("T=2048", 1.0)), (0, [("<= 0.750", "0.500 (1 ÷ 2 s)", "yes")]))
        code, rows = self.ratios(2048, "2", ("T=2048", 1.0), ("laboratory", 1.8))
        self.assertEqual((code, rows[1]), (1, ("<= 0.750", "0.900 (1.8 ÷ 2 s)", "NO")))

    def test_another_size_has_no_verdict(self):
        self.assertEqual(self.ratios(256, "2", ("H=4 T=256", 1.8)), (0, [("for 2,048 tokens alone", "0.900 (1.8 ÷ 2 s)", "–")]))
        self.assertEqual(self.ratios(256, "2", ("H=4 T=256", 1.0), ("laboratory", 1.8))[0], 1)

    def test_a_ratio_that_is_not_there(self):
        code, rows = self.ratios(2048, "2,7", ("T=2048", 1.0))
        self.assertEqual(code, 1)
        self.assertIn("has no ratio of 7", rows[1][1])


def shown(word):
    """A word of a command as a reader of the documents writes it."""
    if word == sys.executable:
        return "python3"
    return os.path.relpath(word, SOURCE) if word.startswith(str(SOURCE.parent) + os.sep) else word


class RealParts(unittest.TestCase):
    """The parts themselves: nothing is run."""

    def setUp(self):
        self.enterContext(mock.patch.dict(os.environ))
        for environment in peers_environments.ENVIRONMENTS.values():
            os.environ.pop(environment.variable, None)

    def commands(self, one, quick):
        setting = Setting(SOURCE / "build/routeopd", SOURCE / "nowhere", pathlib.Path("WORK"), quick)
        return [[str(word) for word in command] for command in one.commands(setting)]

    def test_all_that_they_name_is_there(self):
        self.assertEqual(len({one.name for one in PARTS}), len(PARTS))
        for one in PARTS:
            with self.subTest(one.name):
                self.assertLessEqual({*one.environments, *one.optional}, peers_environments.ENVIRONMENTS.keys())
                self.assertLessEqual(set(one.models), peers_environments.MODELS.keys())
                for word in (word for quick in (False, True) for command in self.commands(one, quick) for word in command):
                    self.assertNotIn("object at", word)
                    if word.endswith((".py", ".toml")) or word.startswith("lab/"):
                        self.assertTrue((SOURCE / word).exists(), word)
                if one.models:
                    self.assertIn("transformers", one.environments)  # it writes them

    def test_quick_is_quick(self):
        self.assertLess(sum(one.quick or 0 for one in PARTS), 20)
        for one in PARTS:
            if one.quick is not None:
                self.assertLessEqual(one.quick, one.minutes, one.name)

    def test_every_script_that_compares_is_run(self):
        run = {pathlib.Path(word).name for one in PARTS for command in self.commands(one, False) for word in command if word.endswith(".py")}
        compares = {path.name for path in (SOURCE / "tests/peers").glob("*.py")
                    if re.search(r"^from results import", path.read_text(), re.MULTILINE)}
        self.assertEqual(run, compares)

    def test_the_documents_name_parts_that_are_there(self):
        names = {one.name for one in PARTS}
        page = (SOURCE / "docs/peers.md").read_text().partition("## The parts")[2]
        self.assertEqual(set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)), names)
        for path in [*SOURCE.glob("*.md"), *(SOURCE / "docs").rglob("*.md")]:
            for listed in re.findall(r"(?:peers\.py[^`\n]*--only |make peers[^`\n]* ONLY=)([a-z][a-z0-9,-]+)", path.read_text()):
                for name in listed.split(","):
                    self.assertTrue(any(peers.fits(one, name) for one in PARTS), f"{path}: {name}")

    def test_the_commands_of_the_documents_are_those_of_the_parts(self):
        told = set()
        for page in ("performance.md", "engine.md"):
            for name, command in re.findall(r"\| `([\w-]+)` \| `([^`]+)` \|$", (SOURCE / "docs" / page).read_text(), re.MULTILINE):
                one = next(one for one in PARTS if one.name == name)
                setting = Setting(SOURCE / "build/routeopd", SOURCE.parent / "shared", pathlib.Path("WORK"))
                run = [" ".join(shown(str(word)) for word in words) for words in one.commands(setting)]
                self.assertEqual([command], run, page)
                told.add(name)
        self.assertEqual(told, {one.name for one in PARTS if one.name.startswith(("bench", "engine")) or one.name.endswith("speed")})

    def test_every_ratio_of_the_documents_is_measured_by_a_part(self):
        asked = [command for one in PARTS if one.name.startswith("bench-") for command in self.commands(one, False)]
        measured = {ratio for command in asked if "bench_ratios.py" in command[1] for ratio in command[3].split(",")}
        source = (SOURCE / "apps/routeopd/cmd_bench.cpp").read_text()
        ids = re.search(r"the ids are ([^\"]*)\"", source)[1].replace(" and ", ", ").split(", ")
        self.assertEqual(measured, set(ids))
        scripts = {pathlib.Path(word).name for one in PARTS for command in self.commands(one, False) for word in command if word.endswith(".py")}
        for page in ("performance.md", "engine.md"):
            for name in re.findall(r"tests/peers/(\w+\.py)", (SOURCE / "docs" / page).read_text()):
                self.assertIn(name, scripts, page)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        sys.exit(peers.main(sys.argv[2:], COUNTED))
    unittest.main()
