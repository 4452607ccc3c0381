#!/usr/bin/env python3
"""generate and score as long work: stop strings, limits, interruption, bad input. On the laboratory pair.

    engine_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
TEMPLATE = "Problem: {problem}\nSolution:"


def lines_of(path):
    text = path.read_text()
    assert text == "" or text.endswith("\n"), "the last line is not whole"
    return [json.loads(line) for line in text.split("\n") if line]


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)
        with open(LAB / "heldout.jsonl") as file:
            self.problems = file.readlines()

    def run_program(self, *arguments, stdin=""):
        return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, text=True, capture_output=True, timeout=300)

    def generate(self, name, *more, problems=3):
        out = self.path / name
        answer = self.run_program("generate", "--model", LAB / "teacher", "--template", TEMPLATE, "--out", out, *more,
                                  stdin="".join(self.problems[:problems]))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.said = answer.stdout
        return lines_of(out)

    def refuses(self, sentence, *arguments, stdin="", code=1):
        answer = self.run_program(*arguments, stdin=stdin)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)


class Generate(Case):
    def test_a_stop_string_ends_a_response_and_its_text(self):
        plain = self.generate("plain.jsonl", "--temperature", 0, "--quiet")
        text = plain[0]["text"]
        self.assertGreater(len(text), 20)
        for stop in (text[10:13], text[5:14]):  # across tokens
            rows = self.generate("stopped.jsonl", "--temperature", 0, "--stop", stop, "--stop", "not in any response", "--quiet",
                                 "--overwrite")
            self.assertEqual(rows[0]["text"], text[:text.index(stop)])
            self.assertEqual(rows[0]["finish"], "stop")
            count = len(rows[0]["ids"])
            self.assertEqual(rows[0]["ids"], plain[0]["ids"][:count])
            self.assertLess(count, len(plain[0]["ids"]))

    def test_ids_come_back_as_they_were_written(self):
        ids = ["9223372036854775807", "9223372036854775808", "18446744073709551615", "-9223372036854775808", '"18446744073709551616"', "1.5"]
        rows = [f'{{"id": {id}, "prompt": "1"}}\n' for id in ids]
        answer = self.run_program("generate", "--model", LAB / "teacher", "--max-new", 1, stdin="".join(rows))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for id in ids:
            self.assertIn(f'"id":{id},', answer.stdout)
        for id in ("18446744073709551616", "-9223372036854775809", "1e20"):
            self.refuses("standard input:2: id: expected a whole number below 2^64 or text", "generate", "--model", LAB / "teacher",
                         "--max-new", 1, stdin=rows[0] + f'{{"id": {id}, "prompt": "1"}}\n')
        self.refuses("standard input:1: id: ", "score", "--model", LAB / "teacher", stdin='{"id": 18446744073709551616, "ids": [1, 2]}\n')
        self.refuses("standard input:1: id: ", "grade", stdin='{"id": 18446744073709551616, "response": "1", "answer": "1"}\n')

    def test_what_is_shown_acts_on_no_terminal(self):
        words = "\x1b]0;title\x07\x9b31m\u202e one\ntwo"
        shown = self.run_program("generate", "--model", LAB / "teacher", "--max-new", 4, "--show", stdin=json.dumps({"prompt": words}) + "\n")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertTrue(shown.stdout.startswith("\\x1b]0;title\\x07\\u{9b}31m\\u{202e} one\ntwo"), shown.stdout)

    def test_limits_change_nothing(self):
        more = ("--n", 3, "--max-new", 60, "--k", 4)
        whole = self.generate("whole.jsonl", *more, "--json", problems=6)
        summary = json.loads(self.said)
        self.assertEqual(summary["responses"], 18)
        self.assertEqual(summary["tokens"], sum(len(row["ids"]) for row in whole))
        self.assertLessEqual(summary["kv_peak_bytes"], summary["kv_limit_bytes"])
        # Room for little more than one response: the rest waits, or is evicted and read again.
        evictions = 0
        for limit in ("200KB", "400KB"):
            self.assertEqual(self.generate("small.jsonl", *more, "--json", "--kv-memory", limit, "--overwrite", problems=6),
                             whole)
            small = json.loads(self.said)
            self.assertLess(small["kv_limit_bytes"], summary["kv_limit_bytes"])
            self.assertLessEqual(small["kv_peak_bytes"], small["kv_limit_bytes"])
            evictions += small["evictions"]
        self.assertGreater(evictions, 0)
        self.refuses("kv_memory is 10.0 kB; try a smaller max_new_tokens (--max-new) or a larger kv_memory (--kv-memory)",
                     "generate", "--model", LAB / "teacher", "--template", TEMPLATE, "--kv-memory", "10KB",
                     stdin=self.problems[0])

    def test_going_on_behind_the_end(self):
        for row in self.generate("on.jsonl", "--ignore-eos", "--max-new", 40, "--quiet"):
            self.assertEqual(len(row["ids"]), 40)
            self.assertEqual(row["finish"], "length")

    def command(self, problems, n):
        (self.path / "many.jsonl").write_text("".join(self.problems[:problems]))
        return ("generate", "--model", LAB / "teacher", "--template", TEMPLATE, "--n", n, "--max-new", 80, "--in",
                self.path / "many.jsonl", "--out", self.path / "cut.jsonl")

    def interrupted(self, how, bytes_first, problems, n):
        """The exit code of a run that was stopped in its middle, what it said, and the lines that it left."""
        process = subprocess.Popen([PROGRAM, *map(str, self.command(problems, n))], stderr=subprocess.PIPE, text=True)
        kept = self.path / "cut.jsonl.partial"
        deadline = time.time() + 120
        while time.time() < deadline and (not kept.exists() or kept.stat().st_size < bytes_first):
            time.sleep(0.005)
        process.send_signal(how)
        said = process.communicate(timeout=60)[1]
        self.assertFalse((self.path / "cut.jsonl").exists())
        return process.returncode, said, kept.read_bytes().count(b"\n")

    def test_ctrl_c_and_a_kill_keep_what_is_done_and_the_same_command_goes_on(self):
        self.assertEqual(self.run_program(*self.command(12, 8)).returncode, 0)
        whole = (self.path / "cut.jsonl").read_bytes()
        for how, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            (self.path / "cut.jsonl").unlink()
            got, said, rows = self.interrupted(how, 3000, 12, 8)
            self.assertEqual(got, code)
            self.assertGreater(rows, 0)
            self.assertLess(rows, 96)
            if how == signal.SIGINT:
                self.assertIn(f"{rows} lines are in {self.path}/cut.jsonl.partial; the same command goes on from them", said)
            other = self.run_program(*self.command(12, 8), "--seed", 43)
            self.assertEqual(other.returncode, 1)
            self.assertIn("whose seed is another; run that command to its end, remove the file and", other.stderr)
            answer = self.run_program(*self.command(12, 8), "--kv-memory", "1MB")  # decides no row
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("96 responses are there already", answer.stderr)
            self.assertEqual((self.path / "cut.jsonl").read_bytes(), whole)
            self.assertEqual([path.name for path in self.path.iterdir() if "partial" in path.name], [])

    def test_a_second_writer_is_refused_and_the_first_is_not_disturbed(self):
        process = subprocess.Popen([PROGRAM, *map(str, self.command(12, 8))], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        kept = self.path / "cut.jsonl.partial"
        while process.poll() is None and (not kept.exists() or kept.stat().st_size == 0):
            time.sleep(0.005)
        process.send_signal(signal.SIGSTOP)  # in its middle for as long as the second takes
        try:
            self.refuses("another process is writing it", *self.command(12, 8))
            self.refuses("another process is writing it", *self.command(12, 8), "--overwrite")
        finally:
            process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(120), 0)
        self.assertEqual(len(lines_of(self.path / "cut.jsonl")), 96)

    def test_bad_input_is_one_sentence(self):
        (self.path / "ids.jsonl").write_text('{"prompt_ids":[1,2]}\n')
        arguments = ("generate", "--model", LAB / "teacher", "--in", self.path / "ids.jsonl")
        self.refuses("its folder cannot be written", *arguments, "--out", self.path / "no" / "such" / "folder.jsonl")
        self.refuses("is not a regular file", *arguments, "--out", self.path)
        (self.path / "ids.jsonl").write_text('{"prompt_ids":[]}\n')
        self.refuses("no tokens", *arguments)
        (self.path / "ids.jsonl").write_text('{"prompt_ids":[1,999999]}\n')
        self.refuses("999999", *arguments)
        (self.path / "ids.jsonl").write_text(json.dumps({"prompt_ids": [5] * 5000}) + "\n")
        self.refuses("positions", *arguments)
        self.refuses("leave no room for a response", *arguments, "--out", self.path / "none.jsonl")
        self.assertFalse((self.path / "none.jsonl").exists(), "a refused run left an empty file")
        self.refuses("--stop: expected some text", "generate", "--model", LAB / "teacher", "--stop", "", code=2)
        self.refuses("--kv-memory", "generate", "--model", LAB / "teacher", "--kv-memory", "-5", code=2)

    def broken_copy(self, change):
        """The teacher with its tensors' bytes changed by change(name, bytes)."""
        directory = self.path / "broken"
        shutil.copytree(LAB / "teacher", directory)
        data = (directory / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        body = bytearray(data[8 + size:])
        for name, tensor in header.items():
            if name != "__metadata__":
                first, end = tensor["data_offsets"]
                body[first:end] = change(name, bytes(body[first:end]))
        (directory / "model.safetensors").write_bytes(data[:8 + size] + bytes(body))
        return directory

    def test_weights_without_a_distribution_are_named(self):
        nan = struct.pack("<f", float("nan"))
        directory = self.broken_copy(lambda name, old: nan * (len(old) // 4) if name == "model.norm.weight" else old)
        self.refuses("NaN or infinite logits", "generate", "--model", directory, stdin='{"prompt":"Problem:"}')
        self.refuses("NaN or infinite logits", "score", "--model", directory, stdin='{"ids":[1,2,3]}')

    def test_a_head_with_one_row_too_few_is_refused(self):
        directory = self.path / "short"
        shutil.copytree(LAB / "teacher", directory)
        data = (directory / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header, body = json.loads(data[8:8 + size]), data[8 + size:]
        config = json.loads((directory / "config.json").read_text())
        tokens = json.loads((directory / "tokenizer.json").read_text())
        real = max([*tokens["model"]["vocab"].values(), *(t["id"] for t in tokens["added_tokens"])]) + 1
        new_header, new_body = {}, b""
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            first, end = tensor["data_offsets"]
            part, shape = body[first:end], list(tensor["shape"])
            if shape[0] == config["vocab_size"]:
                shape[0] = real - 1
                part = part[:len(part) // config["vocab_size"] * shape[0]]
            new_header[name] = {"dtype": tensor["dtype"], "shape": shape,
                                "data_offsets": [len(new_body), len(new_body) + len(part)]}
            new_body += part
        config.update(vocab_size=real - 1, eos_token_id=0, bos_token_id=0, pad_token_id=0)
        (directory / "generation_config.json").unlink(missing_ok=True)
        (directory / "config.json").write_text(json.dumps(config))
        text = json.dumps(new_header).encode()
        (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + new_body)
        self.refuses(f"the tokenizer has {real} ids, but the model's embedding has {real - 1} rows", "generate", "--model",
                     directory, stdin='{"prompt":"Problem:"}')


    def test_ids_come_back_as_they_were(self):
        (self.path / "ids.jsonl").write_text('{"id":7,"prompt":"Problem:"}\n{"id":"7a","prompt":"Problem:"}\n{"prompt":"a"}\n')
        answer = self.run_program("generate", "--model", LAB / "teacher", "--in", self.path / "ids.jsonl", "--out",
                                  self.path / "out.jsonl", "--max-new", 3, "--json", "--quiet")
        self.assertEqual([row["id"] for row in lines_of(self.path / "out.jsonl")], [7, "7a", "2"])
        self.assertEqual(json.loads(answer.stdout)["responses"], 3)


class Score(Case):
    def test_a_bad_line_does_not_take_back_those_before_it(self):
        (self.path / "in.jsonl").write_text('{"ids":[1,5],"id":3}\n{"ids":[1,999999]}\n')
        self.refuses("in.jsonl:2", "score", "--model", LAB / "teacher", "--in", self.path / "in.jsonl", "--out",
                     self.path / "out.jsonl", "--quiet")
        self.assertEqual([row["id"] for row in lines_of(self.path / "out.jsonl.partial")], [3])
        self.assertFalse((self.path / "out.jsonl").exists())

    def test_a_redirected_input_is_not_written_over(self):
        path = self.path / "same.jsonl"
        path.write_text('{"ids":[1,2,3]}\n')
        with open(path) as file:
            answer = subprocess.run([PROGRAM, "score", "--model", LAB / "teacher", "--out", path], stdin=file, text=True,
                                    capture_output=True, timeout=100)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("is what is read", answer.stderr)
        self.assertEqual(path.read_text(), '{"ids":[1,2,3]}\n')

    def test_scores_are_those_of_generation_to_the_last_bit(self):
        rows = self.generate("written.jsonl", "--n", 2, "--k", 5, "--quiet")
        given = "".join(json.dumps({"ids": row["prompt_ids"] + row["ids"]}) + "\n" for row in rows)
        (self.path / "given.jsonl").write_text(given)
        answer = self.run_program("score", "--model", LAB / "teacher", "--in", self.path / "given.jsonl", "--k", 5, "--out",
                                  self.path / "scores.jsonl", "--quiet")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for row, score in zip(rows, lines_of(self.path / "scores.jsonl"), strict=True):
            first = len(row["prompt_ids"])
            self.assertEqual(score["logprobs"][first:], row["logprobs"])
            self.assertEqual(score["top_ids"][first:], row["top"]["ids"])
            self.assertEqual(score["top_logprobs"][first:], row["top"]["logprobs"])

    def test_what_was_scored_before_a_bad_line_is_there(self):
        lines = [json.dumps({"ids": [1, 2, 3] * 80})] * 100 + ['{"ids":[1,999999]}']
        (self.path / "in.jsonl").write_text("\n".join(lines) + "\n")
        self.refuses("999999", "score", "--model", LAB / "teacher", "--in", self.path / "in.jsonl", "--out",
                     self.path / "out.jsonl", "--quiet")
        self.assertGreater(len(lines_of(self.path / "out.jsonl.partial")), 0)

    def test_a_full_disk_is_one_sentence(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "w") as full:
            answer = subprocess.run([PROGRAM, "score", "--model", LAB / "teacher"], input='{"ids":[1,2,3]}\n', text=True,
                                    stdout=full, stderr=subprocess.PIPE, timeout=100)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("standard output: cannot be written", answer.stderr)


if __name__ == "__main__":
    unittest.main()
