#!/usr/bin/env python3
"""Hostile surroundings: a full disk, a directory that cannot be written or is gone, closed streams, no environment, endless lines.
Everywhere a sentence and an exit code, and nothing that was there is lost.

    surroundings_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
STATE = json.dumps({"student_logits": [2.0, 1.0, 0.0], "teacher_logits": [0.0, 1.0, 2.0]}) + "\n"
GRADE = json.dumps({"id": 1, "response": "\\boxed{2}", "answer": "2"}) + "\n"
PROMPT = json.dumps({"prompt": "1 + 1"}) + "\n"
SMALL = ["train.steps=2", "rollout.prompts_per_step=2", "rollout.n=2", "rollout.max_new_tokens=8", "checkpoint.every=1"]
MIB = 1 << 20


def mounts_work():
    """Whether this user may mount in a namespace of their own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True).returncode == 0


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def run_program(self, *arguments, stdin="", **process):
        return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, text=True, stdout=process.pop("stdout", subprocess.PIPE),
                              stderr=process.pop("stderr", subprocess.PIPE), timeout=120, **process)

    def assert_a_sentence(self, answer, *words):
        self.assertEqual(answer.returncode, 1, answer.stderr)
        said = [line for line in answer.stderr.splitlines() if line.startswith("routeopd: ")]
        self.assertEqual(len(said), 1, answer.stderr)
        for word in words:
            self.assertIn(word, said[0])


class Streams(Case):
    def closing(self, *streams):
        return {"preexec_fn": lambda: [os.close(stream) for stream in streams]}

    def test_what_is_printed_goes_into_no_file(self):
        out = self.path / "out.jsonl"
        for streams in ((1,), (1, 2)):
            answer = self.run_program("generate", "--model", LAB / "base", "--max-new", 2, "--out", out, stdin=PROMPT, **self.closing(*streams))
            self.assertEqual(answer.returncode, 1)  # the summary could not be printed
            if 2 not in streams:
                self.assert_a_sentence(answer, "standard output: cannot be written")
            self.assertEqual(len([json.loads(line) for line in out.read_text().splitlines()]), 1)
            out.unlink()
        answer = self.run_program("generate", "--model", LAB / "base", "--max-new", 2, "--out", out, "--quiet", stdin=PROMPT, **self.closing(1))
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))

    def test_a_closed_output_is_an_error(self):
        for words, stdin in ((["route"], STATE), (["grade"], GRADE), (["--version"], ""), (["inspect", LAB / "base"], "")):
            self.assert_a_sentence(self.run_program(*words, stdin=stdin, **self.closing(1)), "standard output: cannot be written")

    def test_a_closed_input_is_an_empty_one(self):
        answer = subprocess.run([PROGRAM, "route"], text=True, capture_output=True, timeout=60, preexec_fn=lambda: os.close(0))
        self.assert_a_sentence(answer, "no states")

    def test_closed_errors_change_no_result(self):
        answer = self.run_program("route", stdin=STATE, **self.closing(2))
        self.assertEqual((answer.returncode, answer.stdout.count("\n")), (0, 1))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_a_full_output_is_an_error(self):
        score = json.dumps({"ids": [1, 2, 3]}) + "\n"
        for words, stdin in ((["grade"], GRADE), (["generate", "--model", LAB / "base", "--max-new", 1], PROMPT),
                             (["score", "--model", LAB / "base", "--k", 1], score), (["inspect", LAB / "base"], ""),
                             (["tokenize", LAB / "base"], '{"text": "1"}\n'), (["check", "--student", LAB / "base", "--teacher", LAB / "teacher"], "")):
            with open("/dev/full", "w") as full:
                self.assert_a_sentence(self.run_program(*words, stdin=stdin, stdout=full), "standard output: cannot be written")


class Environment(Case):
    def test_none_is_needed(self):
        for words, stdin in ((["route"], STATE), (["inspect", LAB / "base"], ""), (["generate", "--model", LAB / "base", "--max-new", 1], PROMPT),
                             (["compare", "--help"], "")):
            answer = self.run_program(*words, stdin=stdin, env={})
            self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_a_directory_that_vanishes(self):
        """The one that a command starts in, and the one that it writes to."""
        here = self.path / "here"
        for words in (["route"], ["--version"], ["generate", "--model", LAB / "base", "--max-new", 1, "--out", "out.jsonl"]):
            here.mkdir()
            answer = self.run_program(*words, stdin=STATE, cwd=here, preexec_fn=here.rmdir)
            self.assert_a_sentence(answer, "the working directory has been removed")
        there = self.path / "run"
        words = [word for setting in [*SMALL[1:], "train.steps=100000"] for word in ("--set", setting)]
        process = subprocess.Popen([PROGRAM, "train", "recipes/lab.toml", "--out", there, *map(str, words)], cwd=SOURCE,
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait()))
        while not (there / "checkpoints" / "step_1").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        there.rename(self.path / "moved")
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1)
        self.assertRegex(said, r"(?m)^routeopd: .*run.*No such file or directory")
        self.assertFalse(there.exists(), "nothing is made where the directory was")
        steps = [json.loads(line)["step"] for line in (self.path / "moved" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_lines_of_ten_megabytes(self):
        words = "1 + 1 = 2, " * (MIB * 10 // 11)
        file = self.path / "long.jsonl"
        cases = ((["route"], {"name": words, **json.loads(STATE)}), (["grade"], {"response": words, "answer": "2"}),
                 (["tokenize", LAB / "base"], {"text": words}), (["generate", "--model", LAB / "base", "--max-new", 1], {"prompt": words}),
                 (["score", "--model", LAB / "base", "--k", 1], {"ids": [1, 2, 3], "words": words}),
                 (["score", "--model", LAB / "base", "--k", 1], {"ids": [1] * (5 * MIB)}), (["grade"], {"x" * 10 * MIB: 1}),
                 (["route"], "[" * 10 * MIB), (["grade"], "9" * 10 * MIB))
        for command, line in cases:
            file.write_text((line if isinstance(line, str) else json.dumps(line)) + "\n")
            answer = self.run_program(*command, "--in", file)
            self.assertIn(answer.returncode, (0, 1), (command, answer.stderr[:500]))
            self.assertLessEqual(len(answer.stderr), 2000, command)
            if answer.returncode == 1:
                self.assert_a_sentence(answer)
                self.assertRegex(answer.stderr, "long.jsonl:1: |prompt 0: ")
        problems = self.path / "problems.jsonl"
        problems.write_text(json.dumps({"problem": words, "answer": "2"}) + "\n")
        answer = self.run_program("decontaminate", "--train", problems, "--test", problems, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr[:500])


@unittest.skipUnless(mounts_work(), "no mounts in a namespace here")
class Disks(Case):
    def on(self, mount, script):
        """`script` with "$PROGRAM" while self.path/disk is mounted by `mount`, whose contents are copied to self.path/kept afterwards."""
        disk, kept = self.path / "disk", self.path / "kept"
        disk.mkdir(exist_ok=True)
        shutil.rmtree(kept, ignore_errors=True)
        words = f'{mount} && {{ {script}; code=$?; cp -r "$DISK" "$KEPT"; exit $code; }}'
        return subprocess.run(["unshare", "-m", "sh", "-c", words], text=True, capture_output=True, timeout=120, cwd=SOURCE,
                              env=os.environ | {"PROGRAM": PROGRAM, "DISK": str(disk), "KEPT": str(kept), "LAB": str(LAB)})

    def kept(self):
        return sorted(str(path.relative_to(self.path / "kept")) for path in (self.path / "kept").rglob("*") if path.is_file())

    def test_a_full_disk(self):
        small = 'mount -t tmpfs -o size=64k none "$DISK"'
        (self.path / "states").write_text(STATE * 2000)
        answer = self.on(small, f'"$PROGRAM" route --in {self.path}/states --out "$DISK/out.jsonl"')
        self.assert_a_sentence(answer, "out.jsonl", "No space left")
        self.assertEqual(self.kept(), [])
        (self.path / "prompts").write_text(PROMPT)
        answer = self.on(small, f'"$PROGRAM" generate --model "$LAB/base" --n 256 --max-new 64 --k 8 --in {self.path}/prompts --out "$DISK/out.jsonl"')
        self.assert_a_sentence(answer, "out.jsonl", "No space left")
        for line in (self.path / "kept" / "out.jsonl.partial").read_text().splitlines(keepends=True):
            self.assertTrue(json.loads(line) and line.endswith("\n"))
        answer = self.on('mount -t tmpfs -o size=400k none "$DISK"', '"$PROGRAM" train recipes/lab.toml --out "$DISK/run" --quiet ' +
                         " ".join(f"--set {word}" for word in SMALL))
        self.assert_a_sentence(answer, "No space left")
        self.assertFalse([name for name in self.kept() if "step_1/" in name or "step_2/" in name])
        answer = self.on(small, '"$PROGRAM" convert "$LAB/base" "$DISK/out"')
        self.assert_a_sentence(answer, "No space left")
        self.assertEqual(self.kept(), [])

    def test_a_directory_that_cannot_be_written(self):
        (self.path / "disk").mkdir()
        (self.path / "disk" / "there.jsonl").write_text("as it was\n")
        read_only = 'mount --bind "$DISK" "$DISK" && mount -o remount,ro,bind "$DISK"'
        (self.path / "states").write_text(STATE)
        for name in ("new.jsonl", "there.jsonl"):
            answer = self.on(read_only, f'"$PROGRAM" route --in {self.path}/states --out "$DISK/{name}"')
            self.assert_a_sentence(answer, name, "Read-only file system")
        for script in ('generate --model "$LAB/base" --max-new 1 --in /dev/null --out "$DISK/g.jsonl"', 'convert "$LAB/base" "$DISK/c"',
                       'train recipes/lab.toml --out "$DISK/run"', 'lab make --out "$DISK/lab"', 'report "$DISK" --out "$DISK/report.html"',
                       'eval --model "$LAB/base" --suite "$LAB/heldout.jsonl" --out "$DISK/eval" --template raw --max-new 1 --n 1',
                       'study --quick --out "$DISK/study"'):
            answer = self.on(read_only, '"$PROGRAM" ' + script)
            self.assert_a_sentence(answer)
        self.assertEqual(self.kept(), ["there.jsonl"])
        self.assertEqual((self.path / "kept" / "there.jsonl").read_text(), "as it was\n")


if __name__ == "__main__":
    unittest.main()
