#!/usr/bin/env python3
"""Every command of README.md, CONTRIBUTING.md and docs/*.md, and every example of a --help, is run as it stands and gives
what the page shows; what takes too long for that is in docs_elsewhere.py, with who runs it.

    docs_test.py PROGRAM SOURCE_DIRECTORY
"""
import functools
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

from docs_elsewhere import COMMANDS, OUTPUTS, is_there, row_of
from docs_pages import Command, blocks_of, commands_of, difference, examples_of
from docs_scratch import make_scratch

PROGRAM, SOURCE = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
# Pages whose every block another test runs.
WHOLE = {"docs/serve.md": "serve_docs_cli"}

EVALUATED = "--set probe.every=0 --set checkpoint.every=1 --quiet"
A_RUN = f"routeopd train recipes/smollm2.toml --out runs/one {EVALUATED} && cp -r runs/one/checkpoints/step_2 runs/one/checkpoints/step_100"
TWO_EVALS = "\n".join(f"routeopd eval --model {model} --suite math500=math500.jsonl --out runs/{out} --max-new 8 --n 2 --quiet"
                      for model, out in (("A", "eval-base"), ("B", "eval-student")))
ARMS = "mkdir a b && for seed in a b; do cp -r runs/eval-base $seed/sampled_rkl && cp -r runs/eval-student $seed/routeopd; done"
# What a page takes for granted, made before its commands.
GIVEN = {
    "docs/evaluation.md": f"{A_RUN}\nrouteopd eval --model A --suite math500=math500.jsonl --suite aime24=aime24.jsonl "
                          f"--out eval/base --quiet\n{TWO_EVALS}\n{ARMS}",
    "routeopd compare --help": f"{TWO_EVALS}\n{ARMS}",
    "routeopd convert --help": f"{A_RUN}\nmv runs/one runs/demo",
    "routeopd eval --help": A_RUN,
    "routeopd probe run --help": "routeopd probe make --student lab/base --teacher lab/teacher --prompts lab/heldout.jsonl "
                                 "--template $'Problem: {problem}\\nSolution:' --max-new 80 --k 16 --out bank.safetensors --quiet",
    "routeopd report --help": "mkdir runs && for name in routeopd sampled_rkl chains lists study; do routeopd train recipes/smollm2.toml "
                              f"--out runs/$name {EVALUATED}; done",
}


A_BANK, A_PAPER = {"held_out": 200}, {"papers": True}
NEEDS = {"routeopd probe --help": A_BANK, "routeopd probe make --help": A_BANK, "routeopd probe run --help": A_BANK,
         "docs/study.md": A_PAPER, "routeopd study --help": A_PAPER}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def pages():
    return ["README.md", "CONTRIBUTING.md", *sorted(str(file.relative_to(SOURCE)) for file in SOURCE.glob("docs/**/*.md"))]


@functools.cache
def commands_on(page):
    return [command for language, block in blocks_of((SOURCE / page).read_text()) if language == "console"
            for command in commands_of(page, block)]


def together(commands):
    """With what runs in the background the command after it, which speaks to it."""
    joined = []
    for command in commands:
        if joined and joined[-1].text.endswith("&"):
            joined[-1] = Command(command.page, f"{joined[-1].text}\n{command.text}", command.shown)
        else:
            joined.append(command)
    return joined


def help_of(*words):
    return subprocess.run([PROGRAM, *words, "--help"], text=True, capture_output=True, check=True).stdout


def commands_with_help(words=()):
    """Every command of the program and of a command, as words."""
    found = [list(words)] if words else []
    listed = re.split(r"^Subcommands:\n", help_of(*words), flags=re.M)
    for line in listed[1].splitlines() if len(listed) > 1 else []:
        if not line.strip():
            break
        if name := re.match(r"  (\w\S*)", line):
            found += commands_with_help((*words, name[1]))
    return found


@functools.cache
def examples():
    """{page: commands} of every --help."""
    return {page: [Command(page, text, []) for text in examples_of(help_of(*words))]
            for words in commands_with_help() for page in [f"routeopd {' '.join(words)} --help"]}


class Documentation(unittest.TestCase):
    def shell(self, place, text):
        environment = {**os.environ, "PATH": f"{place}/build:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        return subprocess.run(["bash", "-euc", "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n" + text], cwd=place,
                              env=environment, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)

    def runs(self, page, commands):
        """These commands, one after the other, where what the page says is there lies there."""
        wanted = [command for command in commands if row_of(COMMANDS, command) is None]
        if not wanted:
            return
        with tempfile.TemporaryDirectory(prefix="routeopd-docs-") as directory:
            place = pathlib.Path(directory)
            make_scratch(SOURCE, PROGRAM, place, **NEEDS.get(page, {}))
            with self.subTest(given=page):
                given = self.shell(place, GIVEN.get(page, "true"))
                self.assertEqual(given.returncode, 0, given.stderr)
            port = str(free_port())
            for command in together(wanted):
                with self.subTest(command=str(command)):
                    answer = self.shell(place, command.text.replace("8000", port))
                    self.assertEqual(answer.returncode, 0, answer.stderr[-2000:])
                    if "routeopd " in command.text:
                        self.assertTrue(answer.stdout + answer.stderr, "it said nothing")
                    if command.shown and row_of(OUTPUTS, command) is None:
                        self.assertIsNone(difference(command.shown, answer.stdout.splitlines()), answer.stdout)


class Pages(Documentation):
    def test_every_command_on_a_page_runs_and_gives_what_is_shown(self):
        for page in pages():
            self.runs(page, commands_on(page))

    def test_commands_stand_in_console_blocks(self):
        """Where the tests above look for them. A synopsis is no command."""
        for page in pages():
            for language, block in blocks_of((SOURCE / page).read_text()):
                if language == "console":
                    self.assertTrue(block.startswith("$ "), f"{page}: a console block begins with a command, after '$ '\n{block}")
                elif page not in WHOLE and "…" not in block:
                    self.assertNotRegex(block, r"(?m)^(\$ )?(build/|\./)?(routeopd|make|scripts/\S+|pip|torchrun) ", page)


class Help(Documentation):
    def test_every_example_runs(self):
        for page, commands in examples().items():
            self.assertTrue(commands, f"{page} has no example")
            self.runs(page, commands)


class Tables(unittest.TestCase):
    def test_each_line_has_its_command_and_who_runs_it(self):
        shown = [command for page in pages() for command in commands_on(page)] + [each for some in examples().values() for each in some]
        for table in (COMMANDS, OUTPUTS):
            met = {id(row_of(table, command)) for command in shown}
            for row in table:
                self.assertTrue(id(row) in met, f"{row[0]} has no '{row[1]}' any more: the line is too many")
                self.assertTrue(is_there(SOURCE, row[2]), f"{row[2]} is not there: who runs '{row[1]}' of {row[0]}?")
        for command in shown:
            if row_of(COMMANDS, command) is None:
                self.assertNotRegex(command.text, r"^(make|pip|torchrun|python3?) ", f"{command}: who runs it?")
        for page, name in WHOLE.items():
            self.assertTrue((SOURCE / page).exists() and is_there(SOURCE, name))
        for page in (*GIVEN, *NEEDS):
            self.assertTrue(any(command.page == page and row_of(COMMANDS, command) is None for command in shown), page)


class Compare(unittest.TestCase):
    """The comparison sees what it should."""

    def test_numbers_may_differ_in_their_last_digit_and_words_not_at_all(self):
        self.assertIsNone(difference(["M 0.9960 → 0.9952"], ["M 0.9961  →  0.9952"]))
        for shown, real in ((["M 0.9960"], ["M 0.9962"]), (["M 0.9960"], ["N 0.9960"]), (["1,024 rows"], ["1,026 rows"]),
                            (["a", "b"], ["a"]), (["a"], ["a", "b"]), (["a", "…", "c"], ["a", "b"]), (["-1.0"], ["1.0"])):
            self.assertIsNotNone(difference(shown, real), (shown, real))
        self.assertIsNone(difference(["a", "…", "c"], ["a", "b", "b", "c"]))
        self.assertIsNone(difference(["a", "…"], ["a", "b"]))


if __name__ == "__main__":
    unittest.main()
