#!/usr/bin/env python3
"""report as a user meets it, on directories with made-up numbers.

    report_test.py PROGRAM CHART_PYTHON

CHART_PYTHON is the interpreter that the program was built with; drawings are looked at where it has vl-convert-python.
"""
import csv
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import report_directories as directories

PROGRAM, BUILT_WITH = sys.argv.pop(1), sys.argv.pop(1)
CHART_PYTHON = os.environ.get("ROUTEOPD_CHART_PYTHON") or BUILT_WITH
RENDERS = subprocess.run([CHART_PYTHON, "-c", "import vl_convert"], capture_output=True).returncode == 0
NO_RENDERER = {"ROUTEOPD_CHART_PYTHON": "/bin/false"}
FIGURES = ["main-contrasts", "cost-tradeoff", "component-contrasts", "phase-portrait", "dynamics", "composition", "route-records", "scalar-credit", "operator"]


class Page(html.parser.HTMLParser):
    """Elements with their attributes, headings, and whether every element is closed in turn."""
    VOID = {"meta", "br", "input", "path", "line", "rect", "circle"}

    def __init__(self, text):
        super().__init__()
        self.elements, self.headings, self.open, self.words = [], [], [], ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append([int(tag[1]), ""])

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open and self.open[-1] == tag, (tag, self.open)
            self.open.pop()

    def handle_data(self, data):
        self.words += data
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            self.headings[-1][1] += data

    def count(self, tag):
        return sum(name == tag for name, _ in self.elements)


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name)

    def run_program(self, *arguments, **environment):
        return subprocess.run([PROGRAM, "report", *map(str, arguments)], text=True, capture_output=True, timeout=300, cwd=self.path,
                              env={**os.environ, "ROUTEOPD_CHART_PYTHON": CHART_PYTHON, **environment})

    def page(self, *arguments, **environment):
        answer = self.run_program(*arguments, "--out", "page.html", "--overwrite", **environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        text = (self.path / "page.html").read_text()
        self.assertSound(text)
        return text

    def assertSound(self, text):
        """What holds for every page, whatever it was made from."""
        page = Page(text)
        self.assertEqual(page.count("script"), 0)
        self.assertIn("default-src 'none'", text)
        self.assertNotRegex(text, r"https?://|//[a-z]|url\(|@import|javascript:")
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        self.assertEqual(len(ids), len(set(ids)), "ids come twice")
        for tag, attributes in page.elements:
            self.assertFalse([name for name in attributes if name.startswith("on")], attributes)
            if tag == "a":
                self.assertIn(attributes["href"].removeprefix("#"), ids)
        levels = [level for level, _ in page.headings]
        self.assertEqual(levels[0], 1)
        self.assertEqual(levels.count(1), 1)
        for before, after in zip(levels, levels[1:]):
            self.assertLessEqual(after, before + 1, page.headings)
        self.assertEqual(dict(page.elements[0][1]), {"lang": "en"})
        return page

    def refuses(self, sentence, *arguments, code=1):
        answer = self.run_program(*arguments)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)


class Command(Case):
    def test_help_has_an_example(self):
        text = self.run_program("--help").stdout
        for words in ("Example", "routeopd report", "--out", "--figures", "--tables", "--suite", "--title"):
            self.assertIn(words, text)

    def test_wrong_arguments(self):
        self.refuses("none: is no directory", "none", "--out", "page.html")
        (self.path / "empty").mkdir()
        self.refuses("empty: holds none of study.json", "empty", "--out", "page.html")
        self.refuses("--out", "empty", code=2)
        self.refuses("directories", "--out", "page.html", code=2)
        directories.write_run(self.path / "run", evals=())
        answer = self.run_program("run", "--out", "no/such/place.html", **NO_RENDERER)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("no/such/place.html", answer.stderr)
        self.refuses("./run: is named twice", "run", "./run", "--out", "page.html")

    def test_json_and_quiet(self):
        directories.write_run(self.path / "run", evals=())
        answer = json.loads(self.run_program("run", "--out", "page.html", "--overwrite", "--json", **NO_RENDERER).stdout)
        self.assertEqual(answer["bytes"], (self.path / "page.html").stat().st_size)
        self.assertEqual(answer["drawn"], 0)
        self.assertEqual(answer["charts"], 2)
        self.assertIn("20 of 20 steps", answer["verdict"])
        self.assertEqual(self.run_program("run", "--out", "page.html", "--overwrite", "--quiet", **NO_RENDERER).stdout, "")


class Pages(Case):
    def test_without_a_renderer_the_data_are_tables_and_the_page_says_why(self):
        directories.write_probe(self.path / "probe")
        text = self.page("probe", ROUTEOPD_CHART_PYTHON="/no/such/python")
        page = Page(text)
        self.assertEqual(page.count("svg"), 0)
        self.assertEqual(page.count("table"), 6)  # inputs and five figures
        self.assertIn("/no/such/python cannot be started", page.words)
        self.assertIn("ended with code 1", Page(self.page("probe", **NO_RENDERER)).words)
        bare = subprocess.run(["python3", "-I", "-c", "import vl_convert"], capture_output=True)
        if bare.returncode:
            self.assertIn("has no vl-convert-python: `make setup` installs it", Page(self.page("probe", ROUTEOPD_CHART_PYTHON="python3")).words)

    def test_a_run(self):
        directories.write_run(self.path / "run")
        page = Page(self.page("run", "--tables", "tables", **NO_RENDERER))
        last = json.loads((self.path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
        accuracy = json.loads((self.path / "run" / "eval" / "step_20" / "summary.json").read_text())["avg"]
        row = [line for line in csv.reader((self.path / "tables" / "runs.csv").read_text().splitlines()) if line[0] == "run"][-1]
        self.assertEqual(row, ["run", "routeopd", "42", "20", f"{last['loss']:.5f}", f"{last['mass']:.4f}", f"{last['entropy']:.3f}",
                               f"{last['response_tokens']:.1f}", f"{100 * last['routed_share']:.1f}", f"{100 * accuracy:.2f}", "4.60"])
        for words in ("run: 20 of 20 steps", "lab/base", "lab/teacher", "routeopd, k = 16, m = 2", "Loss", "Mismatch mass on fixed states",
                      "rollout", "Accuracy, Avg@n (%)"):
            self.assertIn(words, page.words)

    def test_runs_side_by_side(self):
        for name, arm, level in (("a", "routeopd", 70), ("b", "sampled_rkl", 50)):
            directories.write_run(self.path / name, arm, level=level)
        page = Page(self.page("a", "b", **NO_RENDERER))
        self.assertIn("Paired differences", page.words)
        self.assertRegex(page.words, r"b/eval/step_20\s*a/eval/step_20")

    def test_evaluations_and_a_judge_that_wins(self):
        for name, level in (("one", 60), ("two", 50)):
            directories.write_eval(self.path / name, level, name, suites=("easy", "hard"))
        page = Page(self.page("one", "two", **NO_RENDERER))
        self.assertIn("arithmetic", page.words)
        self.assertIn("one: Avg@n", page.words)
        directories.write_judge(self.path / "judged", [self.path / "one", self.path / "two"])
        page = Page(self.page("one", "two", "judged", **NO_RENDERER))
        self.assertNotIn("arithmetic", page.words)
        self.assertIn("a judge", page.words)

    def test_a_study_has_its_tables_and_all_figures(self):
        directories.write_study(self.path / "study")
        directories.settle(self.path)
        text = self.page("study", "--tables", "tables", "--title", "The <study>", **NO_RENDERER)
        page = Page(text)
        self.assertEqual(page.headings[0], [1, "The <study>"])
        for identifier in FIGURES:
            self.assertIn(f'id="{identifier}"', text)
        self.assertIn("2026-09-21", page.words)
        names = sorted(path.name for path in (self.path / "tables").iterdir())
        for kind in (".md", ".csv", ".tex"):
            self.assertGreater(sum(name.endswith(kind) for name in names), 20, names)
        self.assertIn("inputs.csv", names)

    def test_two_studies_have_a_table_together(self):
        for name in ("a", "b"):
            directories.write_study(self.path / name, seeds=(42,))
        page = Page(self.page("a", "b", "--tables", "tables", **NO_RENDERER))
        self.assertIn("in the mean over 2 studies?", page.words)
        self.assertEqual(page.headings[1], [2, "In short"])
        titles = [title for level, title in page.headings if level == 2]
        for name in ("a", "b"):
            self.assertIn(f"In short, {name}", titles)
            self.assertIn(f"Accuracy, {name}", titles)
        with open(self.path / "tables" / "macro-table.csv", newline="") as file:
            rows = [row for row in csv.reader(file) if len(row) > 1]
        settings = [row[0] for row in rows[1:]]
        self.assertEqual(sorted(set(settings)), ["a", "b", "mean over studies"])
        own = [row for row in rows if row[1] == "routeopd"]
        # The same study twice: its mean is its own, interval and all.
        self.assertEqual(own[0][3:5], own[2][3:5])
        self.assertEqual(own[0][6], own[2][6])

    def test_suites_are_chosen_by_name(self):
        directories.write_study(self.path / "study", seeds=(42,))
        self.refuses("--suite AIME24: expected a suite of the studies (heldout)", "study", "--suite", "AIME24", "--out", "page.html")
        self.page("study", "--suite", "heldout", **NO_RENDERER)

    def test_names_are_no_links_and_no_formulas_in_tables(self):
        picture, formula = "![x](http://host/p.png)", "=HYPERLINK('http://host','x')"
        for name, arm in (("a", picture), ("b", formula)):
            directories.write_run(self.path / name, arm, evals=())
        answer = self.run_program("a", "b", "--out", "page.html", "--tables", "tables", **NO_RENDERER)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        with open(self.path / "tables" / "runs.csv", newline="") as file:
            rows = {row[0]: row for row in csv.reader(file) if row}
        self.assertEqual(rows["a"][1], picture)
        self.assertEqual(rows["b"][1], "'" + formula)
        notes = [name for name in rows if name.startswith("# ")]
        self.assertTrue(notes)
        self.assertEqual({len(rows[name]) for name in notes}, {1}, "words beside the table are one field")
        text = (self.path / "tables" / "runs.md").read_text()
        self.assertIn("\\!\\[x\\](http://host/p.png)", text)
        self.assertNotIn(picture, text)

    def test_a_figure_that_is_not_written_is_said_and_leaves_no_old_one(self):
        directories.write_run(self.path / "run", evals=())
        python = self.path / "python"
        python.write_text(f"#!{sys.executable}\n" + """import json, sys
asked = json.load(sys.stdin)
for _ in asked["charts"]:
    print(json.dumps({"error": "no picture"} if asked["png"] else {"svg": '<svg width="9" height="9"><path d="M0,0"/></svg>'}))
""")
        python.chmod(0o700)
        figures = self.path / "figures"
        figures.mkdir()
        for name in ("run-time.svg", "run-time.png"):
            (figures / name).write_text("old")
        answer = self.run_program("run", "--out", "page.html", "--overwrite", "--figures", "figures", "--json", ROUTEOPD_CHART_PYTHON=str(python))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        said = json.loads(answer.stdout)
        self.assertEqual((said["charts"], said["drawn"]), (2, 2))
        self.assertIn("Figure run-curves is not written whole", said["trouble"])
        self.assertIn("no picture", said["trouble"])
        self.assertEqual(sorted(path.name for path in figures.iterdir()), ["run-curves.vl.json", "run-time.vl.json"])

    def test_the_same_files_give_the_same_bytes(self):
        directories.write_run(self.path / "run")
        directories.settle(self.path)
        first = self.page("run")
        self.assertEqual(first, self.page("run"))

    def test_a_page_inside_the_directory_does_not_change_the_next(self):
        directories.write_run(self.path / "run", evals=())
        directories.settle(self.path)
        first = self.page("run", **NO_RENDERER)
        (self.path / "run" / "report.html").write_text("x")
        (self.path / "run" / "tables").mkdir()
        (self.path / "run" / "tables" / "a.csv").write_text("x")
        self.assertEqual(first, self.page("run", **NO_RENDERER))


@unittest.skipUnless(RENDERS, f"{CHART_PYTHON} has no vl-convert-python")
class Drawings(Case):
    def test_every_figure_of_a_study_is_drawn(self):
        directories.write_study(self.path / "study", seeds=(42,))
        text = self.page("study", "--figures", "figures")
        page = Page(text)
        self.assertEqual(page.count("svg"), len(FIGURES))
        self.assertEqual(page.count("figure"), len(FIGURES))
        for name, attributes in page.elements:
            if name == "svg":
                self.assertGreater(len(attributes["aria-label"]), 40)
        for identifier in FIGURES:
            spec = json.loads((self.path / "figures" / f"{identifier}.vl.json").read_text())
            self.assertIn("vega-lite", spec["$schema"])
            self.assertIn("<svg", (self.path / "figures" / f"{identifier}.svg").read_text())
            self.assertEqual((self.path / "figures" / f"{identifier}.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertIn("var(--blue)", text)

    def test_runs_evaluations_and_probes_are_drawn(self):
        directories.write_run(self.path / "run", evals=(10, 20))
        directories.write_eval(self.path / "eval", 60)
        directories.write_probe(self.path / "probe", ["routeopd", "sampled_rkl"], ("fresh_adamw", "sgd"))
        self.assertEqual(Page(self.page("run", "eval", "probe")).count("svg"), 10)

    def test_words_of_files_stay_words(self):
        hostile = '</text></svg><script>alert(1)</script><img src="https://example.org/x" onerror="alert(2)">'
        run = self.path / "<script>run"
        directories.write_run(run, arm=hostile.replace('"', "'"), evals=())
        directories.write_eval(self.path / "eval", 60, suites=(hostile,))
        directories.write_probe(self.path / "probe", ["routeopd"])
        example = json.loads((self.path / "probe" / "example.json").read_text())
        example["prefix"] = hostile
        example["ids"][0]["text"] = hostile
        directories.write_json(self.path / "probe" / "example.json", example)
        answer = self.run_program(run, "eval", "probe", "--out", "page.html", "--title", hostile)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        page = Page((self.path / "page.html").read_text())
        self.assertEqual(page.count("script"), 0)
        self.assertEqual(page.count("img"), 0)
        self.assertEqual(page.count("svg"), 10)
        self.assertIn("alert(1)", page.words)


class Broken(Case):
    def test_cut_missing_and_wrong_files_give_a_page_that_says_so(self):
        """Every file of a run, an evaluation and a probe in turn: cut in the middle, gone, of another kind."""
        directories.write_run(self.path / "run", evals=(20,))
        directories.write_eval(self.path / "eval", 60)
        directories.write_probe(self.path / "probe", ["routeopd", "sampled_rkl"], states=8)
        files = [path for name in ("run", "eval", "probe") for path in sorted((self.path / name).rglob("*")) if path.is_file()]
        optional = {"labels.jsonl", "probe.jsonl"}
        for path in files:
            whole = path.read_bytes()
            for kind, spoilt in (("cut", whole[:len(whole) * 2 // 3]), ("gone", None), ("list", b"[1, 2]\n"), ("empty", b""),
                                 ("bytes", b"\xff\xfe\x00" * 50)):
                with self.subTest(file=str(path.relative_to(self.path)), how=kind):
                    if spoilt is None:
                        path.unlink()
                    else:
                        path.write_bytes(spoilt)
                    answer = self.run_program("run", "eval", "probe", "--out", "page.html", "--overwrite", "--json", **NO_RENDERER)
                    self.assertEqual(answer.returncode, 0, answer.stderr)
                    text = (self.path / "page.html").read_text()
                    self.assertSound(text)
                    missing = json.loads(answer.stdout)["missing"]
                    if kind in ("cut", "bytes") and not (path.name == "recipe.toml" and kind == "cut"):
                        self.assertTrue(any(path.name in sentence for sentence in missing), missing)
                    if not (path.name in optional and kind in ("gone", "empty")) and not (path.name == "recipe.toml" and kind in ("empty", "cut")):
                        self.assertIn(path.name, Page(text).words)
                    for sentence in missing:
                        self.assertIn(sentence, Page(text).words)
            path.write_bytes(whole)

    def test_a_study_that_has_just_begun(self):
        directories.write_study(self.path / "study", seeds=(42,))
        manifest = json.loads((self.path / "study" / "study.json").read_text())
        manifest.update(runs=manifest["runs"][:1], probes=[], cost=None, concentration=None, evals={})
        directories.write_json(self.path / "study" / "study.json", manifest)
        page = Page(self.page("study", **NO_RENDERER))
        self.assertIn("No arm has both its cost and its accuracy", page.words)
        self.assertIn("No arm was probed", page.words)
        manifest["parts"] = {"main": {"complete": False, "seconds": 1}}
        directories.write_json(self.path / "study" / "study.json", manifest)
        page = Page(self.page("study", **NO_RENDERER))
        self.assertIn("part main is not complete", page.words)
        for words in ("No arm has both", "No arm was probed", "Mechanism", "Cost", "Behaviour", "Ablations"):
            self.assertNotIn(words, page.words)

    def test_a_probe_of_another_arm_misses_no_routes(self):
        directories.write_probe(self.path / "probe", ["sampled_rkl"], states=8)
        (self.path / "probe" / "routes.jsonl").unlink()
        (self.path / "probe" / "example.json").unlink()
        words = Page(self.page("probe", **NO_RENDERER)).words
        self.assertIn("probe: fresh_adamw of sampled_rkl has", words)
        self.assertNotIn("routes.jsonl", words)
        self.assertNotIn("example.json", words)

    def test_a_manifest_that_names_one_directory_again_and_again(self):
        directories.write_study(self.path / "study", seeds=(42,))
        manifest = json.loads((self.path / "study" / "study.json").read_text())
        manifest["probes"] += [{"name": f"again{i}", "path": "probes/arms", "at": "base"} for i in range(10_000)]
        directories.write_json(self.path / "study" / "study.json", manifest)
        words = Page(self.page("study", **NO_RENDERER)).words
        self.assertIn("names probes/arms once more; it is not shown", words)
        self.assertIn('"probes" has more than 64 entries', words)

    def test_numbers_without_measure(self):
        """Sums of them would overflow, and what is not a number has no place in an order."""
        directories.write_run(self.path / "run", evals=(20,))
        directories.write_probe(self.path / "probe", ["routeopd", "sampled_rkl"], states=8)
        for path in (self.path / "run" / "metrics.jsonl", self.path / "probe" / "probe.json", self.path / "probe" / "states.jsonl",
                     self.path / "probe" / "routes.jsonl", self.path / "probe" / "example.json"):
            whole = path.read_text()
            for huge in ("1e308", "-1e308", "9223372036854775807", "18446744073709551615"):
                with self.subTest(file=path.name, number=huge):
                    path.write_text(re.sub(r'(?<=": )-?\d[\d.e+-]*', huge, whole))
                    page = Page(self.page("run", "probe", **NO_RENDERER))
                    self.assertNotRegex(page.words, r"\b(nan|inf)\b")
            path.write_text(whole)

    def test_a_manifest_that_leads_elsewhere(self):
        directories.write_study(self.path / "study", seeds=(42,))
        manifest = json.loads((self.path / "study" / "study.json").read_text())
        manifest["runs"][0]["path"] = "../../etc"
        manifest["probes"] = "x"
        directories.write_json(self.path / "study" / "study.json", manifest)
        self.assertIn("leads out of the study", Page(self.page("study", **NO_RENDERER)).words)


if __name__ == "__main__":
    unittest.main()
