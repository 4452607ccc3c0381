#!/usr/bin/env python3
"""decontaminate as a user meets it, held to the plain reference in tests/decontamination_reference.py.

    decontaminate_test.py PROGRAM SOURCE_DIRECTORY
"""
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "tests"))
from decontamination_reference import reference, without_hashes  # noqa: E402

EIGHT = "One two, three four: five six seven EIGHT!"
LONG = "Let $ABC$ be a triangle with sides of length 13, 14 and 15; find the square of the radius of its circle."


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, errors="replace", capture_output=True, timeout=300,
                          cwd=SOURCE)


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def write(self, name, *rows):
        lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
        (self.path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return self.path / name

    def succeeds(self, *arguments):
        answer = run("decontaminate", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer

    def refuses(self, sentence, *arguments, code=1):
        answer = run("decontaminate", *arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)

    def agrees(self, train, tests, flags=(), **settings):
        """Figures, hits and lines are those of the reference, which is returned."""
        out, report = self.path / "clean.jsonl", self.path / "hits.jsonl"
        answer = self.succeeds("--train", train, "--test", *tests, "--out", out, "--report", report, "--overwrite", "--json", *flags)
        figures, hits, kept = reference(train, tests, **settings)
        self.assertEqual(without_hashes(json.loads(answer.stdout)), figures)
        names = ("test_file", "test_id", "train_id", "kind", "coverage")
        found = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(sorted(tuple(hit[name] for name in names) for hit in found), sorted(hits))
        self.assertEqual(out.read_bytes(), "".join(line + "\n" for line in kept).encode())
        return figures, found


class Figures(Case):
    def test_equal_normalised_covered_and_none(self):
        train = self.write("train.jsonl", {"id": "a", "problem": LONG, "answer": "1"},
                           {"id": "b", "problem": LONG.upper().replace("$", ""), "answer": "1"},
                           {"id": "c", "problem": "Before it. " + LONG + " And behind it.", "answer": "2"},
                           {"id": "d", "problem": "Nothing in common with anything"})
        figures, found = self.agrees(train, [self.write("test.jsonl", {"id": "t", "problem": LONG})])
        self.assertEqual({hit["train_id"]: hit["kind"] for hit in found}, {"a": "raw", "b": "normalised", "c": "words_8"})
        self.assertEqual((figures["removed"]["contaminated"], figures["kept"]), (3, 1))
        self.assertEqual(found[0]["test"], LONG)

    def test_halves_in_two_rows_do_not_add_up(self):
        words = [f"w{i}" for i in range(40)]
        halves = [{"problem": " ".join(words[:19])}, {"problem": " ".join(words[21:])}]
        figures, found = self.agrees(self.write("train.jsonl", *halves),
                                     [self.write("test.jsonl", {"problem": " ".join(words)})])
        self.assertEqual(found, [])
        self.assertEqual(figures["tests"][0]["ngrams"]["words_8"], {"any": 1, "covered": 0, "too_short": 0})

    def test_all_rows_that_reach_the_share_go_not_the_best_alone(self):
        words = [f"w{i}" for i in range(30)]
        rows = [{"problem": " ".join(words[:n]) + f" end{n}"} for n in (30, 25, 20, 10)]
        figures, _ = self.agrees(self.write("train.jsonl", *rows), [self.write("test.jsonl", {"problem": " ".join(words)})])
        self.assertEqual(figures["removed"]["contaminated"], 3)

    def test_short_problems_have_no_ngram_and_are_found_when_equal(self):
        train = self.write("train.jsonl", {"problem": "Compute 2+2 please"}, {"problem": "compute 22, please"},
                           {"problem": "Now compute 2+2 please and then rest for a while"})
        figures, _ = self.agrees(train, [self.write("test.jsonl", {"problem": "Compute 2+2 please"}, {"problem": EIGHT})])
        self.assertEqual(figures["tests"][0]["ngrams"]["words_8"]["too_short"], 1)
        self.assertEqual(figures["removed"]["contaminated"], 2)

    def test_texts_without_words_stand_for_themselves(self):
        train = self.write("train.jsonl", {"problem": ""}, {"problem": "$$"}, {"problem": "?!"}, {"problem": "$$"})
        figures, _ = self.agrees(train, [self.write("test.jsonl", {"problem": "..."}, {"problem": "?!"}, {"problem": ""})])
        self.assertEqual(figures["train"]["unique_normalised"], 3)
        self.assertEqual(figures["tests"][0]["normalised"], 2)

    def test_unicode_is_pythons(self):
        texts = ["ΌΔΟΣ ΣΟΦΟΣ Ὀδυσσεύς", "İstanbul ıI ẞ ß straße", "数学の問題を、解く。答えは42です", "x\u00a0y\u2003z\u3000w\u200bq\x1cr", "½ ² Ⅷ ١٢٣ ๓",
                 "e\u0301 é naïve", "हिन्दी में", "𝔘𝔫𝔦 𝟙𝟚 🙂", "a_b __ c", "é_ü ‿ x⁀y _"]
        train = self.write("train.jsonl", *({"problem": text} for text in texts))
        test = self.write("test.jsonl", *({"problem": text.lower() + "!"} for text in texts))
        self.agrees(train, [test], ("--ngram", 2, "--chars", 3), words=(2,), characters=(3,))

    def test_messages_prompts_and_missing_ids(self):
        chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": LONG},
                {"role": "assistant", "content": EIGHT}]
        parts = [{"role": "user", "content": [{"type": "text", "text": LONG[:30]}, {"type": "image"},
                                              {"type": "text", "text": LONG[30:]}]}]
        train = self.write("train.jsonl", {"messages": chat}, {"messages": parts, "id": 7}, {"prompt": "Problem: " + LONG},
                           {"problem": "another"})
        figures, found = self.agrees(train, [self.write("test.jsonl", {"problem": LONG}, {"prompt": EIGHT})])
        self.assertEqual([(hit["train_id"], hit["kind"]) for hit in found], [("0", "raw"), ("7", "raw"), ("2", "words_8")])

    def test_duplicates_and_conflicts(self):
        train = self.write("train.jsonl", {"problem": "What is 1 + 1?", "answer": "2"}, {"problem": "what is 1  1", "answer": 2},
                           {"problem": "Who?", "answer": "I"}, {"problem": "who", "answer": "you"}, {"problem": "Who?"},
                           {"problem": "Same", "answer": "1"}, {"problem": "Same", "answer": "2"},
                           {"problem": "Null", "answer": None}, {"problem": "null", "answer": "3"}, {"problem": LONG})
        test = self.write("test.jsonl", {"problem": LONG})
        figures, _ = self.agrees(train, [test])
        self.assertEqual((figures["train"]["conflicts_normalised"], figures["train"]["conflicts_raw"]), (2, 1))
        self.assertEqual(figures["removed"], {"contaminated": 1, "conflicting": 5, "duplicates": 2})
        for duplicates in (False, True):
            for conflicts in (False, True):
                flags = ["--keep-duplicates"] * duplicates + ["--keep-conflicts"] * conflicts
                self.agrees(train, [test], flags, keep_duplicates=duplicates, keep_conflicts=conflicts)

    def test_random_files(self):
        draw = random.Random(5)
        words = ["Ab", "b.", "c", "É", "ß", "x+y"]

        def text():
            return "".join(draw.choice(words) + draw.choice((" ", "\n", "  ", "\t")) for _ in range(draw.randrange(14)))

        for _ in range(12):
            train = self.write("train.jsonl", *({"problem": text(), "answer": str(draw.randrange(2))} for _ in range(60)))
            tests = [self.write(f"test{i}.jsonl", *({"problem": text()} for _ in range(12))) for i in (0, 1)]
            coverage = draw.choice((0.1, 0.5, 0.75, 1))
            self.agrees(train, tests, ("--ngram", 2, 3, "--chars", 4, 9, "--coverage", coverage), words=(2, 3),
                        characters=(4, 9), coverage=coverage)

    def test_rows_of_one_template(self):
        """Nearly every n-gram is in nearly every problem, so that n-grams are counted by groups, or by those that lack them."""
        draw = random.Random(6)
        template = [f"word{i}" for i in range(40)]

        def text():
            words = list(template)
            for _ in range(draw.randrange(4)):
                words[draw.randrange(len(words))] = str(draw.randrange(5))
            begin = draw.randrange(len(words)) if draw.random() < 0.2 else 0
            return " ".join(words[begin:] * draw.choice((1, 1, 1, 2)))

        for coverage in (0.25, 0.5, 0.9):
            train = self.write("train.jsonl", *({"problem": text(), "answer": str(draw.randrange(2))} for _ in range(60)))
            tests = [self.write(f"test{i}.jsonl", *({"problem": text()} for _ in range(size))) for i, size in enumerate((1, 8, 41))]
            self.agrees(train, tests, ("--ngram", 2, 5, "--chars", 7, 30, "--coverage", coverage), words=(2, 5),
                        characters=(7, 30), coverage=coverage)

    def test_a_file_against_itself_leaves_nothing(self):
        train = self.write("train.jsonl", {"problem": LONG}, {"problem": EIGHT}, {"problem": LONG + " More."})
        figures, _ = self.agrees(train, [train])
        self.assertEqual(figures["kept"], 0)


class Files(Case):
    def test_lines_that_stay_are_as_they_were(self):
        lines = ['{ "problem" :"one",  "z": [1, 2.50] }', "", '{"problem":"\\u0074wo"}\r', '{"problem":"' + LONG + '"}', '{"problem":"three"}']
        (self.path / "train.jsonl").write_bytes("\n".join(lines).encode())  # no line feed at the end
        test = self.write("test.jsonl", {"problem": LONG})
        self.succeeds("--train", self.path / "train.jsonl", "--test", test, "--out", self.path / "out.jsonl", "--quiet")
        self.assertEqual((self.path / "out.jsonl").read_bytes(), "".join(lines[i] + "\n" for i in (0, 2, 4)).encode())

    def test_the_record_names_what_was_checked(self):
        train, test = self.write("train.jsonl", {"problem": "one"}, {"problem": LONG}), self.write("test.jsonl", {"problem": LONG})
        out = self.path / "out.jsonl"
        self.succeeds("--train", train, "--test", test, "--out", out, "--coverage", 0.25)
        record = json.loads((self.path / "out.jsonl.decontaminated.json").read_text())

        def digest(path):
            return hashlib.sha256(path.read_bytes()).hexdigest()

        self.assertEqual(record["sha256"], digest(out))
        self.assertEqual(record["original"], {"file": "train.jsonl", "sha256": digest(train)})
        self.assertEqual(record["tests"], [{"file": "test.jsonl", "sha256": digest(test), "problems": 1}])
        self.assertEqual(record["settings"], {"words": [8, 13], "characters": [50], "coverage": 0.25, "keep_duplicates": False,
                                              "keep_conflicts": False})
        self.assertEqual(record["counts"]["removed"], {"contaminated": 1, "conflicting": 0, "duplicates": 0})
        self.assertNotIn(str(self.path), json.dumps(record))
        self.assertIn(record["version"], run("--version").stdout)

    def test_the_page_escapes_and_marks(self):
        evil = "<script>alert(1)</script> find the area of the \"big\" & small\u202e circle now"
        train, test = self.write("train.jsonl", {"id": "<b>", "problem": evil + " please"}), self.write("test.jsonl", {"problem": evil})
        page = self.path / "hits.html"
        self.succeeds("--train", train, "--test", test, "--report", page, "--quiet")
        html = page.read_text(encoding="utf-8")
        self.assertNotIn("<script>", html)
        self.assertNotIn("<b><", html)
        self.assertNotIn("\u202e", html)
        self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt;", html)
        self.assertIn("<mark>", html)
        self.assertNotIn("please</mark>", html)

    def test_the_table(self):
        train, test = self.write("train.jsonl", {"problem": LONG}, {"problem": "x"}), self.write("test.jsonl", {"problem": LONG})
        shown = self.succeeds("--train", train, "--test", test).stdout
        self.assertIn("2 rows, 2 unique, 2 unique normalised", shown)
        self.assertIn("To be removed: 1 contaminated", shown)
        self.assertIn("| test.jsonl | 1 | 1 | 1 |", self.succeeds("--train", train, "--test", test, "--markdown").stdout)
        self.assertEqual(self.succeeds("--train", train, "--test", test, "--quiet").stdout, "")


class Refusals(Case):
    def test_broken_lines_are_numbered(self):
        good = self.write("good.jsonl", {"problem": "one"})
        for line, says in (("{", "bad.jsonl:2: "), ('{"id":1}', "bad.jsonl:2: expected one of problem"),
                           ('{"problem":1}', "bad.jsonl:2: problem: expected text"), ('{"prompt_ids":[1]}', "bad.jsonl:2: prompt_ids"),
                           ('{"problem":"a","prompt":"b"}', "bad.jsonl:2: "), ('{"messages":[{"role":"system"}]}', "bad.jsonl:2: messages"),
                           ('{"messages":"hello"}', "bad.jsonl:2: messages"), ('{"problem":"\udcff"}', "bad.jsonl:2: ")):
            (self.path / "bad.jsonl").write_bytes(b'{"problem":"one"}\n' + line.encode(errors="surrogateescape") + b"\n")
            for train, test in (("bad.jsonl", good), (good, self.path / "bad.jsonl")):
                self.refuses(says, "--train", self.path / train, "--test", test, "--out", self.path / "out.jsonl")
                self.assertFalse((self.path / "out.jsonl").exists())

    def test_what_is_read_is_not_written(self):
        train, test = self.write("train.jsonl", {"problem": "one"}), self.write("test.jsonl", {"problem": "two"})
        for arguments in (("--out", train), ("--out", test), ("--report", train), ("--report", test)):
            self.refuses(f"{arguments[0]}: {arguments[1]} is what is read", "--train", train, "--test", test, *arguments)
        out = self.path / "out.jsonl"
        self.refuses("--report", "--train", train, "--test", test, "--out", out, "--report", out)
        self.assertEqual(train.read_text(), '{"problem": "one"}\n')

    def test_files_that_are_none(self):
        train = self.write("train.jsonl", {"problem": "one"})
        self.refuses("cannot be read", "--train", self.path / "missing", "--test", train)
        self.refuses("cannot be read", "--train", train, "--test", self.path / "missing")
        self.refuses("no problems", "--train", self.write("empty.jsonl"), "--test", train)
        self.refuses("no problems", "--train", train, "--test", self.write("empty.jsonl"))
        self.refuses("--coverage", "--train", train, "--test", train, "--coverage", 0, code=2)
        self.refuses("--ngram", "--train", train, "--test", train, "--ngram", 1001, code=2)
        self.refuses("--test", "--train", train, code=2)

    def test_help_has_an_example(self):
        self.assertIn("routeopd decontaminate --train", self.succeeds("--help").stdout)


if __name__ == "__main__":
    unittest.main()
