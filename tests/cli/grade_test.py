#!/usr/bin/env python3
"""grade as a user meets it.

    grade_test.py PROGRAM
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
RESPONSES = [
    {"id": "a", "response": "So it is $\\boxed{\\frac{1}{2}}$.", "answer": "0.5", "more": [1, None]},
    {"id": 7, "response": "\\boxed{3}", "answer": "4"},
    {"id": "c", "response": "I do not know; perhaps 12.", "answer": "12"},
]
VERDICTS = [("\\frac{1}{2}", True, True), ("3", False, True), ("", False, False)]


def text_of(objects):
    return "".join(json.dumps(one) + "\n" for one in objects)


class Grade(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def run_program(self, *arguments, stdin=""):
        return subprocess.run([PROGRAM, "grade", *map(str, arguments)], input=stdin, text=True, capture_output=True,
                              timeout=60)

    def check_lines(self, text):
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([(line.pop("extracted"), line.pop("correct"), line.pop("format_ok")) for line in lines],
                         VERDICTS)
        self.assertEqual(lines, RESPONSES)  # all else is passed on

    def test_streams(self):
        answer = self.run_program(stdin=text_of(RESPONSES))
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.check_lines(answer.stdout)

    def test_files_and_summary(self):
        source, target = self.path / "in.jsonl", self.path / "out.jsonl"
        source.write_text(text_of(RESPONSES) + "\n")
        answer = self.run_program("--in", source, "--out", target)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.check_lines(target.read_text())
        self.assertEqual(answer.stdout, f"3 responses: 1 correct, 1 without an answer that can be read; written to {target}\n")
        self.assertEqual(self.run_program("--in", source, "--out", target, "--overwrite", "--quiet").stdout, "")
        self.assertEqual(json.loads(self.run_program("--in", source, "--out", target, "--overwrite", "--json").stdout),
                         {"n": 3, "correct": 1, "format": 1, "failed": 0})

    def test_broken_lines_are_named_and_the_rest_goes_on(self):
        broken = ['{"response": "x"', '{"response": "\\\\boxed{1}"}', '{"response": 1, "answer": "1"}', "[1]"]
        answer = self.run_program(stdin=text_of(RESPONSES[:1]) + "\n".join(broken) + "\n" + text_of(RESPONSES[1:2]))
        lines = [json.loads(line) for line in answer.stdout.splitlines()]
        self.assertEqual(answer.returncode, 1)
        self.assertEqual([line.get("correct") for line in lines], [True, None, None, None, None, False])
        for number, said in enumerate(["", "answer: expected a text", "response: expected a text", ""], start=2):
            self.assertIn(f":{number}:", lines[number - 1]["error"])
            self.assertIn(said, lines[number - 1]["error"])
        self.assertIn("4 of 6 lines could not be graded, the first:", answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1)

    def test_a_file_that_cannot_be_read_ends_it(self):
        for command in (["grade"], ["tokenize", pathlib.Path(__file__).parents[2] / "lab" / "base"]):
            answer = subprocess.run([PROGRAM, *command, "--in", "/proc/self/mem"], text=True, capture_output=True, timeout=20)
            self.assertEqual((answer.returncode, answer.stdout), (1, ""), command)
            self.assertRegex(answer.stderr, "/proc/self/mem:.*reading failed")

    def test_a_number_is_an_answer_too(self):
        for number, right in (("42", True), ("42.0", True), ("41", False)):
            answer = self.run_program(stdin='{"response": "\\\\boxed{42}", "answer": %s}\n' % number)
            self.assertEqual(json.loads(answer.stdout)["correct"], right, number)

    def test_a_thought_that_the_prompt_left_open_holds_no_answer(self):
        thinks = {"response": "So \\boxed{1}", "answer": "1"}
        says = {"response": "So \\boxed{2}</think> \\boxed{1}", "answer": "1"}
        lines = [thinks, thinks | {"in_thought": False}, thinks | {"in_thought": True}, says | {"in_thought": True},
                 thinks | {"in_thought": 1}]
        answer = self.run_program(stdin=text_of(lines))
        graded = [json.loads(line) for line in answer.stdout.splitlines()]
        self.assertEqual([(line.get("correct"), line.get("format_ok")) for line in graded],
                         [(True, True), (True, True), (False, False), (True, True), (None, None)])
        self.assertIn("in_thought: expected true or false, got 1", graded[4]["error"])

    def test_words_that_are_no_answer_are_a_format_error(self):
        for words in ("The answer is unclear to me at this point.", "the answer is not an integer, which contradicts",
                      "<think>\\boxed{7}"):
            answer = json.loads(self.run_program(stdin=text_of([{"response": words, "answer": "7"}])).stdout)
            self.assertEqual((answer["extracted"], answer["correct"], answer["format_ok"]), ("", False, False), words)

    def test_refusals(self):
        source = self.path / "in.jsonl"
        source.write_text(text_of(RESPONSES))
        self.assertEqual(self.run_program("--in", source, "--out", source).returncode, 1)
        self.assertEqual(source.read_text(), text_of(RESPONSES))
        missing = self.run_program("--in", self.path / "nowhere.jsonl")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("nowhere.jsonl", missing.stderr)
        self.assertEqual(self.run_program("--gold", "x").returncode, 2)

    def test_help_has_an_example_that_works(self):
        help_text = self.run_program("--help").stdout
        example = help_text.split("Example:\n")[1].strip()
        command, end = "printf '%s\\n' '", "' | routeopd grade"
        self.assertTrue(example.startswith(command) and example.endswith(end), example)
        answer = self.run_program(stdin=example[len(command):-len(end)] + "\n")
        self.assertEqual(json.loads(answer.stdout)["correct"], True)


if __name__ == "__main__":
    unittest.main()
