#!/usr/bin/env python3
"""explain as a user meets it, on the laboratory pair.

    explain_test.py PROGRAM SOURCE_DIRECTORY
"""
import base64
import hashlib
import html.parser
import json
import math
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB = SOURCE / "lab"
PROBLEM = "Sofia has 14 boxes. Then Sofia finds 7, loses 9 and collects 5. How many boxes are left?"
ASKED = ("explain", "--student", LAB / "base", "--teacher", LAB / "teacher", "--prompt", PROBLEM,
         "--template", "Problem: {problem}\nSolution:")
ESCAPE = "\x1b["


class Page(html.parser.HTMLParser):
    """Elements with their attributes, and the text of each panel."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.panels, self.panel = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if tag == "section":
            self.panel = attributes["id"]
            self.panels[self.panel] = ""

    def handle_endtag(self, tag):
        if tag == "section":
            self.panel = None

    def handle_data(self, data):
        if self.panel is not None:
            self.panels[self.panel] += data + "\n"

    def tokens(self):
        return [a for tag, a in self.elements if tag == "a" and a.get("class", "").startswith("t ")]


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def run_program(self, *arguments, **options):
        return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=300, **options)

    def succeeds(self, *arguments, **options):
        answer = self.run_program(*arguments, **options)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def refuses(self, sentence, *arguments, code=1):
        answer = self.run_program(*arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)
        self.assertEqual(answer.stdout, "")

    def on_a_terminal(self, *arguments, **environment):
        """What a terminal receives."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=theirs, stderr=subprocess.PIPE,
                                   env={**os.environ, "TERM": "xterm-256color", **environment})
        os.close(theirs)
        received = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            received += piece
        os.close(ours)
        errors = process.stderr.read().decode()
        process.stderr.close()
        self.assertEqual(process.wait(300), 0, errors)
        return received.decode()


class Explain(Case):
    def test_help_has_an_example(self):
        text = self.succeeds("explain", "--help")
        for words in ("Example", "routeopd explain", "--html", "--token", "--budget", "--k"):
            self.assertIn(words, text)

    def test_json_says_what_generate_writes_and_route_answers(self):
        result = json.loads(self.succeeds(*ASKED, "--json", "--k", 16, "--m", 4, "--max-new", 40, "--seed", 3))
        (self.path / "prompt.jsonl").write_text(json.dumps({"problem": PROBLEM}) + "\n")
        written = json.loads(self.succeeds("generate", "--model", LAB / "base", "--in", self.path / "prompt.jsonl", "--template",
                                           "Problem: {problem}\nSolution:", "--max-new", 40, "--seed", 3))
        self.assertEqual([token["id"] for token in result["tokens"]], written["ids"])
        self.assertEqual(result["finish"], written["finish"])
        self.assertEqual("".join(token["text"] for token in result["tokens"]), result["response"])
        self.assertEqual(result["prompt_tokens"], len(written["prompt_ids"]))
        self.assertEqual(result["objective"]["k"], 16)
        self.assertEqual(result["chosen"], max(range(len(result["tokens"])), key=lambda n: result["tokens"][n]["mass"]))

        # Both models' whole distributions at every state, through the operator alone.
        ids = written["prompt_ids"] + written["ids"]
        size = json.loads(self.succeeds("inspect", LAB / "base", "--json"))["tokenizer"]["ids"]
        line = json.dumps({"ids": ids, "gather": [list(range(size))] * len(ids)})
        logits = {}
        for name in ("base", "teacher"):
            answer = self.succeeds("score", "--model", LAB / name, "--k", 1, input=line + "\n")
            logits[name] = json.loads(answer)["gather_logprobs"][len(written["prompt_ids"]):]
        states = "".join(json.dumps({"student_logits": s, "teacher_logits": t}) + "\n"
                         for s, t in zip(logits["base"], logits["teacher"], strict=True))
        routes = self.succeeds("route", "--k", 16, "--m", 4, "--seed", 3, input=states)
        for token, route in zip(result["tokens"], map(json.loads, routes.splitlines()), strict=True):
            self.assertEqual(token["routed"], route["routed"])
            self.assertEqual(sorted(row["id"] for row in token["ids"]), route["ids"])
            for name in ("mass", "concentration", "budget", "student_mass", "teacher_mass"):
                self.assertAlmostEqual(token[name], route[name], delta=1e-3, msg=name)
            self.assertEqual([(pair["source"], pair["destination"]) for pair in token["drawn"]],
                             [(pair["source"], pair["destination"]) for pair in route["pairs"]])

    def test_pipes_get_plain_tables_and_terminals_colours(self):
        plain = self.succeeds(*ASKED, "--max-new", 30)
        self.assertNotIn("\x1b", plain)
        tokens = len(json.loads(self.succeeds(*ASKED, "--max-new", 30, "--json"))["tokens"])
        self.assertEqual(len(re.findall(r"^ *\d+  \S.*  (?:yes|no)\b", plain, re.M)), tokens)
        self.assertIn("From → to", plain)
        self.assertIn(ESCAPE + "48;5;", self.on_a_terminal(*ASKED, "--max-new", 30, NO_COLOR=""))
        self.assertNotIn("\x1b", self.on_a_terminal(*ASKED, "--max-new", 30, NO_COLOR="1"))
        self.assertNotIn("\x1b", self.on_a_terminal(*ASKED, "--max-new", 30, NO_COLOR="", TERM="dumb"))

    def test_a_page_has_every_token_with_its_panel(self):
        page = self.path / "page.html"
        out = self.succeeds(*ASKED, "--max-new", 30, "--html", page, "--json", "--token", 2)
        result = json.loads(out)
        parsed = Page(page.read_text())
        self.assertEqual([a["href"] for a in parsed.tokens()], [f"#t{n}" for n in range(len(result["tokens"]))])
        self.assertEqual(set(parsed.panels), {f"t{n}" for n in range(len(result["tokens"]))})
        self.assertEqual(list(parsed.panels)[-1], "t2", "the chosen one stands last")
        for n, token in enumerate(result["tokens"]):
            self.assertIn(f"{token['mass']:.4f}", parsed.panels[f"t{n}"])
            self.assertEqual("From → to" in parsed.panels[f"t{n}"], token["routed"])
        for tag, attributes in parsed.elements:
            self.assertNotIn("src", attributes)
            self.assertTrue(attributes.get("href", "#").startswith("#"))
        script = re.search(r"<script>(.*?)</script>", page.read_text(), re.S)[1]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = next(a["content"] for tag, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
        self.assertIn(f"script-src 'sha256-{digest}'", policy, "a browser runs the script by its digest")
        answer = self.run_program(*ASKED, "--max-new", 5, "--html", page, "--overwrite", "--quiet")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (0, "", ""))

    def test_a_given_response_is_shown_safely(self):
        attack = " 14</script><script>alert(1)</script>\x1b[2J\n\u202e é 😀"
        page = self.path / "page.html"
        result = json.loads(self.succeeds(*ASKED, "--response", attack, "--html", page, "--json"))
        self.assertEqual(result["finish"], "given")
        self.assertEqual(result["response"], attack)
        text = page.read_text()
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\u202e", text)
        self.assertEqual(len([tag for tag, _ in Page(text).elements if tag == "script"]), 1)
        plain = self.succeeds(*ASKED, "--response", attack)
        self.assertFalse(set(map(chr, range(32))) - {"\n"} & set(plain))
        self.assertNotIn("\x1b", plain)
        self.assertIn("\\x1b", plain)
        self.assertTrue(all(math.isfinite(token["mass"]) for token in result["tokens"]))

    def test_the_same_seed_gives_the_same_bytes(self):
        first, second = (self.succeeds(*ASKED, "--max-new", 20, "--json") for _ in range(2))
        self.assertEqual(first, second)
        self.assertNotEqual(first, self.succeeds(*ASKED, "--max-new", 20, "--json", "--seed", 43))

    def test_refuses_in_one_sentence(self):
        self.refuses("--token: expected 0 to 4, as the response has 5 tokens, got 9", *ASKED, "--max-new", 5, "--token", 9)
        self.refuses("full_rkl moves no pairs", *ASKED, "--arm", "full_rkl")
        self.refuses("one side alone", *ASKED, "--arm", "source_only")
        self.refuses("budget", *ASKED, "--budget", "large", code=2)
        self.refuses("no chat template", *ASKED[:-2], "--template", "chat")
        self.refuses("--response: text: expected UTF-8", *ASKED, "--response", os.fsdecode(b"a\xff"))
        self.refuses("--prompt: text: expected UTF-8", *ASKED[:5], "--prompt", os.fsdecode(b"a\xff"))
        self.refuses("--response: has no tokens", *ASKED, "--response", "")
        self.refuses("nowhere", *ASKED, "--html", self.path / "nowhere" / "page.html")
        self.refuses("--prompt is required", *ASKED[:5], code=2)
        shutil.copytree(LAB / "teacher", self.path / "teacher")
        (self.path / "teacher" / "chat_template.jinja").write_text("{{ messages }}")
        self.refuses("the pair is not compatible (template: the teacher alone has a chat template)", "explain", "--student",
                     LAB / "base", "--teacher", self.path / "teacher", "--prompt", PROBLEM)

    def test_a_refused_page_leaves_no_file(self):
        page = self.path / "page.html"
        self.refuses("--token", *ASKED, "--max-new", 5, "--token", 9, "--html", page)
        self.assertEqual(list(self.path.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
