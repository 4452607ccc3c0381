#!/usr/bin/env python3
"""scripts/mutate.py: what its lexer takes for code, what it makes of a source, and its verdicts on a tiny program.

    mutate_test.py SOURCE_DIRECTORY
"""
import contextlib
import fcntl
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(SOURCE / "scripts"))
import mutate  # noqa: E402
import mutation_bench  # noqa: E402
import mutation_layout  # noqa: E402
import mutations  # noqa: E402


def changed(text):
    """{what it becomes} of every mutant of a line of code, as FROM:TO."""
    return sorted(each.id().split(":", 3)[3] for each in mutations.mutants("a.cpp", text))


class Lexer(unittest.TestCase):
    def test_code_is_told_from_comments_strings_and_directives(self):
        text = ("#include <a/1.h>\n#define X(a) \\\n  (a + 1)\n// 1 + 1\n/* 2 + 2\n# 3 */ f(\"4 + \\\"4\", '5', u8\"6\");"
                "  // 7 #\n  # pragma 8\nx = 1'000 + 0x1p-20F;\n")
        self.assertEqual([each.text for each in mutations.tokens(text)],
                         ["f", "(", '"4 + \\"4"', ",", "'5'", ",", 'u8"6"', ")", ";", "x", "=", "1'000", "+", "0x1p-20F", ";"])

    def test_raw_strings_end_at_their_own_mark(self):
        self.assertEqual([each.text for each in mutations.tokens('R"x(1 )" 2 )x" + 3')], ['R"x(1 )" 2 )x"', "+", "3"])

    def test_a_directive_within_a_comment_or_a_string_is_none(self):
        self.assertEqual([each.text for each in mutations.tokens('/*\n#if 1\n*/ a\n#if 2\n  b\n')], ["a", "b"])

    def test_longest_tokens(self):
        self.assertEqual([each.text for each in mutations.tokens("a<=>b <<= c->d ... 1.5e-3F.e")],
                         ["a", "<=>", "b", "<<=", "c", "->", "d", "...", "1.5e-3F.e"])


class Mutations(unittest.TestCase):
    def test_operators(self):
        self.assertEqual(changed("a < b;"), ["<:<=", "<:>="])
        self.assertEqual(changed("a + b - c;"), ["+:-", "-:+"])
        self.assertEqual(changed("a += b && !c;"), ["!:", "&&:||", "+=:-="])
        self.assertEqual(changed("x = -y;"), ["-:"])
        self.assertEqual(changed("f(a, -y)[b - 1];"), ["-:", "-:+", "1:0", "1:2"])

    def test_constants(self):
        self.assertEqual(changed("0; 1; 7U; 0x1F; 1'000; true;"),
                         sorted(["0:1", "1:0", "1:2", "7U:8U", "0x1F:0x20", "1'000:1001", "true:false"]))
        self.assertEqual(changed("0.0F; 1.0; 2.5F; 0x1p20F;"),
                         sorted(["0.0F:1.0F", "1.0:0.0", "1.0:(2 * 1.0)", "2.5F:(2 * 2.5F)", "0x1p20F:(2 * 0x1p20F)"]))

    def test_minima_and_vectors(self):
        self.assertEqual(changed("std::min(a, b); min(a); numeric_limits<int>::max(); hn::Add(d);"), ["Add:Sub", "min:max"])

    def test_conditions(self):
        self.assertEqual(changed("if (a(b)) return;"), ["if:if not", "if:never"])
        self.assertEqual(changed("if (a) b(); if (auto c = d()) e(); if constexpr (f) g();"), ["if:if not"])
        mutant = mutations.mutants("a.cpp", "if (a(b)) return;")[0]
        self.assertEqual(mutant.applied("if (a(b)) return;"), "if (!(a(b))) return;")

    def test_what_is_left_alone(self):
        for text in ("std::vector<std::array<int, 3>> a;", "template <int N, bool B>", "int* a; int& b; T&& c;", "++i;",
                     "static_assert(1 + 1 == 2);", "throw Error(\"{}\", a + 1);", "[[nodiscard]] int f() const = default;",
                     "virtual int f() = 0;", "ROUTEOPD_INVARIANT(a > 0 && b);", "bool operator<(A) const;", "hn::ShiftLeft<23>(a);",
                     "std::cout << a >> b;", '#define A 1\n// 1 + 1\n"1 + 1";'):
            self.assertEqual(changed(text), [], text)

    def test_a_key_stays_when_lines_move(self):
        before, after = mutations.mutants("a.cpp", "a + b;\n"), mutations.mutants("a.cpp", "\n\na + b;\na + b;\n")
        self.assertEqual(before[0].key, after[0].key)
        self.assertEqual([each.line for each in after], [3, 4])
        self.assertNotEqual(after[0].key, after[1].key)

    def test_shares(self):
        self.assertEqual(mutations.shares({"a": range(700), "b": range(300), "c": range(30)}, 100), {"a": 56, "b": 24, "c": 20})
        self.assertEqual(mutations.shares({"a": range(5), "b": range(300)}, 100), {"a": 5, "b": 95})

    def test_the_seed_decides(self):
        made = mutations.mutants("a.cpp", "a + 1;\nb + 1;\nc + 1;\n")
        names = [[each.id() for each in mutations.order(made, seed)] for seed in (1, 1, 2)]
        self.assertEqual(names[0], names[1])
        self.assertNotEqual(names[0], names[2])
        self.assertCountEqual(names[0], names[2])

    def test_every_source_of_the_project_can_be_read(self):
        draw = mutate.Draw(SOURCE, mutation_layout.GROUPS, 200, 24, mutate.Record(pathlib.Path("/nonexistent")))
        self.assertEqual(sum(draw.shares.values()), 200)
        self.assertGreaterEqual(min(draw.shares.values()), mutations.LEAST_SHARE)
        keys = [mutant.key for each in draw.ordered.values() for mutant in each]
        self.assertEqual(len(keys), len(set(keys)))


CODE = """// a sum, and a loop that a mutant never ends
#include <cstdio>
#include "unit.h"
int sum(int n) {
  int total = 0;
  for (int i = 0; i != n; i += step()) total += i;
  return total;
}
int unused(int a) { return a + kOne; }
int same(int a) { return a + 0 * a; }
"""
HEADER = "constexpr int kOne = 1;\nint sum(int n);\nint unused(int a);\ninline int step() { return kOne; }\n"
# The parts of GoogleTest's output that are read.
SUITE = """#include <cstdio>
#include "unit.h"
int main() {
  std::printf("[ RUN      ] Sum.OfFour\\n");
  std::fflush(stdout);
  if (sum(4) != 6) { std::printf("[  FAILED  ] Sum.OfFour (0 ms)\\n"); return 1; }
}
"""
NINJA = """rule cc
  command = c++ -O1 -I{source} -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule link
  command = c++ $in -o $out
build unit.o: cc {source}/src/unit.cpp
build suite.o: cc {source}/tests/suite.cpp
build suite: link unit.o suite.o
"""


class TinyLayout:
    groups = {"unit": re.compile(r"^src/unit\.")}

    def __init__(self, source, build):
        self.source, self.build = source, build

    def configure(self):
        self.build.mkdir(parents=True, exist_ok=True)
        (self.build / "build.ninja").write_text(NINJA.format(source=self.source))
        return ["true"]

    def program(self, name):
        return self.build / name

    def namesakes(self, group, file):
        return []

    def steps(self, group, deep):
        return [] if deep else [mutation_layout.Step("suite of unit", ("suite",), [self.build / "suite"])]


def tiny_project(root):
    for name, text in {"src/unit.cpp": CODE, "src/unit.h": HEADER, "unit.h": '#include "src/unit.h"\n',
                       "tests/suite.cpp": SUITE, "build/unit.o": "not a source"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


class Verdicts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.root = tiny_project(pathlib.Path(cls.directory.name))
        cls.work = cls.root / "build-mutate"
        cls.work.mkdir()
        cls.bench = cls.make_bench()
        spare = unittest.mock.patch.object(mutation_bench, "SPARE_SECONDS", 1)
        spare.start()
        cls.addClassCleanup(spare.stop)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def make_bench(cls):
        bench = mutation_bench.Bench(cls.root, cls.work, TinyLayout)
        with contextlib.redirect_stdout(io.StringIO()):
            bench.prepare(deep=False, groups=["unit"])
        return bench

    def mutant(self, end, file="src/unit.cpp"):
        made = mutations.mutants(file, (self.root / file).read_text())
        return next(each for each in made if each.id().endswith(end))

    def verdict(self, mutant):
        verdict, built = self.bench.build("unit", mutant, False)
        if verdict == "built":
            verdict = self.bench.test("unit", False, built)
        self.assertEqual((self.work / "source" / mutant.file).read_text(), (self.root / mutant.file).read_text())
        return verdict

    def test_killed_by_the_test_that_failed(self):
        self.assertEqual(self.verdict(self.mutant_of_line(6, ":+=:-=")), ("killed", "Sum.OfFour"))
        self.assertEqual(self.verdict(self.mutant(":5:15:0:1")), ("killed", "Sum.OfFour"))

    def test_survived(self):
        self.assertEqual(self.verdict(self.mutant_of_line(9, ":+:-")), ("survived", ""))

    def test_a_loop_that_does_not_end(self):
        self.assertEqual(self.verdict(self.mutant(":1:0", "src/unit.h")), ("time-out", "Sum.OfFour"))

    def mutant_of_line(self, line, change):
        made = mutations.mutants("src/unit.cpp", CODE)
        return [each for each in made if each.line == line and each.id().endswith(change)][-1]

    def test_the_same_object_is_equivalent(self):
        self.assertEqual(self.verdict(self.mutant_of_line(10, ":*:/")), "equivalent")

    def test_a_header(self):
        self.assertEqual(self.verdict(self.mutant(":1:2", "src/unit.h"))[0], "killed")

    def test_uncompilable(self):
        mutant = self.mutant_of_line(6, ":+=:-=")
        mutant.new = "-*/"
        self.assertEqual(self.verdict(mutant), "uncompilable")
        self.assertEqual(self.verdict(self.mutant_of_line(6, ":+=:-="))[0], "killed")


class WholeRuns(unittest.TestCase):
    """The command on the tiny program: what it leaves, and how it goes on."""
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = tiny_project(pathlib.Path(directory.name))
        bench = mutation_bench.Bench
        for module, name, value in ((mutate, "ROOT", self.root), (mutate, "RECORD", self.root / "docs/results.jsonl"),
                                    (mutate, "PAGE", self.root / "docs/page.md"), (mutation_layout, "GROUPS", TinyLayout.groups),
                                    (mutation_bench, "Bench", lambda root, work, lock: bench(root, work, TinyLayout, lock)),
                                    (mutation_bench, "SPARE_SECONDS", 1)):
            patch = unittest.mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_with(self, *arguments):
        with unittest.mock.patch.object(sys, "argv", ["mutate.py", "--count", "9", *arguments]), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            return mutate.main(), out.getvalue()

    def record(self):
        return [json.loads(line) for line in (self.root / "docs/results.jsonl").read_text().splitlines()]

    def test_resumed_after_a_kill_in_the_midst_of_a_line_and_of_a_mutant(self):
        self.assertEqual(self.run_with("--for", "0")[0], 3)
        code, _ = self.run_with("--jobs", "1")
        self.assertEqual(code, 1)  # survivors that no page explains
        whole = self.record()
        lines = (self.root / "docs/results.jsonl").read_text().splitlines(keepends=True)
        (self.root / "docs/results.jsonl").write_text("".join(lines[:3]) + lines[3][:20])
        (self.root / "build-mutate/source/src/unit.cpp").write_text("no code at all")
        self.run_with("--jobs", "2")
        without_times = [{**each, "seconds": 0} for each in whole], [{**each, "seconds": 0} for each in self.record()]
        self.assertCountEqual(*({json.dumps(each) for each in lines} for lines in without_times))
        self.assertEqual({each["verdict"] for each in whole}, {"killed", "passed", "survived", "equivalent", "time-out"})

    def test_survivors_are_explained_on_the_page_or_run_again(self):
        self.run_with()
        survivors = [each["key"] for each in self.record() if each["verdict"] == "survived"]
        code, out = self.run_with("--summary")
        self.assertEqual((code, out.count("(not in docs/mutation.md)")), (1, len(survivors)))
        (self.root / "docs/page.md").write_text(" ".join(survivors))
        self.assertEqual(self.run_with("--summary")[0], 0)
        before = len(self.record())
        self.run_with("--retry")
        self.assertEqual([each["key"] for each in self.record()[before:] if each["verdict"] == "survived"], survivors)

    def test_one_call_at_a_time(self):
        (self.root / "build-mutate").mkdir()
        with (self.root / "build-mutate/lock").open("w") as lock, unittest.mock.patch.object(mutate, "LOCK_SECONDS", 1):
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self.assertRaisesRegex(SystemExit, "another call works in"):
                self.run_with()

    def test_show(self):
        mutant = mutations.mutants("src/unit.cpp", CODE)[0]
        self.assertIn("+  int total = 1;", self.run_with("--show", mutant.id())[1])
        with self.assertRaisesRegex(SystemExit, "there is no mutant nothing"):
            self.run_with("--show", "nothing")


if __name__ == "__main__":
    unittest.main()
