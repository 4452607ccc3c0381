#!/usr/bin/env python3
"""judge as a user meets it: labels, files, tables, what a judge is told and what not.

    judge_test.py PROGRAM
"""
import collections
import hashlib
import json
import re
import unittest

from judge_server import KEY, LABELS, Case, Judge, stable, text_of, verdict


class Labels(Case):
    def test_the_cascade_and_the_files(self):
        self.make_run("method-A", ["cw", "fw", "ww"])
        judge = self.serve(stable)
        answer = self.run_judge(judge)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        labels = {(line["problem"], line["sample"]): line for line in self.labels()}
        self.assertEqual(len(labels), 6)
        self.assertEqual(labels["p0", 0]["label"], "correct")
        self.assertEqual(labels["p1", 0]["label"], "format")
        for place in (("p0", 0), ("p1", 0)):
            self.assertEqual((labels[place]["pass1"], labels[place]["pass2"]), (None, None))
        self.assertEqual(len(judge.requests), 2 * 4)
        for place in (("p0", 1), ("p1", 1), ("p2", 0), ("p2", 1)):
            line = labels[place]
            self.assertIn(line["label"], ("reasoning", "arithmetic", "premature_stop"))
            self.assertEqual((line["pass1"], line["pass2"], line["adjudicated"]), (line["label"], line["label"], False))
            self.assertEqual(line["rationale"], "because of it")
            self.assertNotIn("run", line)
        self.assertEqual([line["clipped"] for line in labels.values()], [False, True] * 3)
        summary = self.summary()
        counts = summary["suites"]["aime"]["runs"]["method-A"]["labels"]
        self.assertEqual(counts, dict(collections.Counter({name: 0 for name in counts}) |
                                      collections.Counter(line["label"] for line in labels.values())) |
                         {name: 0 for name in counts if name not in {line["label"] for line in labels.values()}})
        self.assertEqual(summary["agreement"]["all"]["n"], 6)
        self.assertEqual(summary["agreement"]["judged"]["n"], 4)
        self.assertEqual(summary["agreement"]["judged"]["agreement"], 1.0)
        self.assertEqual((summary["adjudicated"], summary["unjudged"]), (0, 0))
        self.assertEqual(summary["requests"], {"asked": 8, "cached": 0, "prompt_tokens": 80, "completion_tokens": 24})
        self.assertEqual(set(judge.paths), {"/v1/chat/completions"})

    def test_the_papers_prompt_word_for_word(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        self.run_judge(judge)
        system, user = json.loads(judge.requests[0])["messages"]
        self.assertEqual(system, {"role": "system", "content":
                                  "You are a careful judge of mathematical solutions. Identify the first error that causes the final "
                                  "answer to be wrong. Judge only the response content; do not infer which model or method produced it."})
        self.assertEqual(user, {"role": "user", "content": (
            "Problem: What is 0 + 0?\nReference answer: 0\nModel response: Sum 0 sample 0: \\boxed{99}\nExtracted answer: 99\n\n"
            "Choose exactly one label:\n"
            "reasoning_error: the first decisive error is conceptual or logical, including a wrong method, invalid inference, or "
            "unjustified transformation.\n"
            "arithmetic_error: the approach is otherwise correct and the first decisive error is a local calculation, algebra, sign, "
            "or simplification mistake.\n"
            "premature_stop: the response stops before completing the required reasoning, with no earlier reasoning or arithmetic "
            "error.\n\n"
            'Return only JSON in the form {"label": "<one label>", "rationale": "<one short sentence>"}.')})
        one, two = judge.bodies()
        self.assertEqual(sorted((one.pop("seed"), two.pop("seed"))), [42, 43])
        self.assertEqual(one, two)
        self.assertEqual(one | {"messages": 0}, {"model": "the-judge", "messages": 0, "temperature": 0.7, "max_tokens": 1024})

    def test_disagreement_goes_to_adjudication(self):
        self.make_run("method-A", ["ww", "cf"])

        def answer(body, number, _):
            if "Two judges disagree" in text_of(body):
                return 200, verdict("arithmetic_error", "a slip")
            return 200, (verdict("reasoning_error", "second view") if body["seed"] % 2 else verdict("arithmetic_error", "first view"))

        judge = self.serve(answer)
        self.assertEqual(self.run_judge(judge).returncode, 0)
        wrong = self.labels()[:2]
        for line in wrong:
            self.assertEqual((line["label"], line["pass1"], line["pass2"], line["adjudicated"], line["rationale"]),
                             ("arithmetic", "arithmetic", "reasoning", True, "a slip"))
        asked = [text_of(body) for body in judge.bodies() if "Two judges disagree" in text_of(body)]
        self.assertEqual(len(asked), 2)
        for text in asked:
            self.assertIn("arithmetic_error: first view\nreasoning_error: second view", text)
            self.assertIn("the earlier setup makes it a reasoning_error", text)
        summary = self.summary()
        self.assertEqual(summary["adjudicated"], 2)
        self.assertEqual(summary["agreement"]["judged"], {"n": 2, "agreement": 0.0, "kappa": 0.0})
        # Four responses: correct and format alike in both passes, arithmetic against reasoning twice.
        expected = 2 * 0.25 * 0.25
        self.assertEqual(summary["agreement"]["all"]["agreement"], 0.5)
        self.assertAlmostEqual(summary["agreement"]["all"]["kappa"], (0.5 - expected) / (1 - expected), places=12)

    def test_an_adjudicator_may_not_name_a_third_label(self):
        self.make_run("method-A", ["w"])

        def answer(body, number, _):
            if "Two judges disagree" in text_of(body):
                return 200, verdict("premature_stop")
            return 200, verdict(LABELS[body["seed"] % 2])

        judge = self.serve(answer)
        self.assertEqual(self.run_judge(judge).returncode, 0)
        line, = self.labels()
        self.assertEqual((line["label"], line["adjudicated"]), ("unjudged", False))
        self.assertEqual({line["pass1"], line["pass2"]}, {"reasoning", "arithmetic"})
        self.assertEqual(len(judge.requests), 2 + 3)

    def test_two_runs_share_cases_and_give_transitions(self):
        self.make_run("method-A", ["ccw", "wfw"])
        self.make_run("method-B", ["cfc", "cwW"])
        judge = self.serve(lambda body, number, _: (200, verdict("reasoning_error")))
        runs = [self.path / "method-A", self.path / "method-B"]
        answer = self.run_judge(judge, runs=runs)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # A's wrong: (0,2) (1,0) (1,2); B's: (1,1) and (1,2) in other words: five cases, none shared.
        self.assertEqual(len(judge.requests), 2 * 5)
        self.assertEqual([line["run"] for line in self.labels()], ["method-A"] * 6 + ["method-B"] * 6)
        pair, = self.summary()["suites"]["aime"]["transitions"]
        self.assertEqual((pair["from"], pair["to"]), ("method-A", "method-B"))
        self.assertEqual(pair["into_correct"], {"reasoning": 2, "arithmetic": 0, "premature_stop": 0, "format": 0, "unjudged": 0})
        self.assertEqual(pair["out_of_correct"], {"reasoning": 0, "arithmetic": 0, "premature_stop": 0, "format": 1, "unjudged": 0})
        self.assertRegex(answer.stdout, r"reasoning → correct +2\n")
        self.assertRegex(answer.stdout, r"correct → format +1\n")
        self.make_run("method-C", ["ccw", "wfw"])  # word for word as A
        again = self.serve(stable)
        self.assertEqual(self.run_judge(again, runs=[runs[0], self.path / "method-C"], out="both").returncode, 0)
        self.assertEqual(len(again.requests), 2 * 3)

    def test_tables_in_other_forms(self):
        self.make_run("run_1", ["cw"])
        judge = self.serve(stable)
        runs = [self.path / "run_1"]
        self.assertIn("| run\\_1 | 1 |", self.run_judge(judge, "--markdown", runs=runs).stdout)
        latex = self.run_judge(judge, "--latex", runs=runs).stdout
        self.assertIn("run\\_1 & 1 &", latex)
        self.assertIn("\\toprule", latex)
        self.assertEqual(json.loads(self.run_judge(judge, "--json", runs=runs).stdout), self.summary())
        self.assertEqual(self.run_judge(judge, "--quiet", runs=runs).stdout, "")


class Blinding(Case):
    def test_nothing_tells_where_a_response_comes_from(self):
        self.make_run("method-A", ["wwcw", "wfww"])
        self.make_run("method-B", ["WcWf", "WWcW"])
        judge = self.serve(lambda body, number, _: (200, verdict(LABELS[body["seed"] % 3])))  # passes differ: adjudication too
        self.assertEqual(self.run_judge(judge, runs=[self.path / "method-A", self.path / "method-B"],
                                        environment={"OPENAI_API_KEY": KEY}).returncode, 0)
        self.assertTrue(any("Two judges disagree" in request for request in judge.requests))
        for request, headers in zip(judge.requests, judge.headers):
            self.assertIsNone(re.search(r"method-|step_77|checkpoint|aime|problems-of|\bp\d\b|clipped|run|" + re.escape(str(self.path)),
                                        request), request)
            self.assertEqual(set(json.loads(request)), {"model", "messages", "temperature", "max_tokens", "seed"})
            self.assertEqual({name.lower() for name in headers},
                             {"host", "user-agent", "accept", "content-type", "content-length", "authorization"})

    def test_order_is_that_of_hashes(self):
        self.make_run("method-A", ["wwww"] * 4)
        self.make_run("method-B", ["WWWW"] * 4)
        judge = self.serve(stable)
        runs = [self.path / "method-A", self.path / "method-B"]
        self.assertEqual(self.run_judge(judge, "--parallel", 1, runs=runs).returncode, 0)
        hashes = [hashlib.sha256(request.encode()).hexdigest() for request in judge.requests]
        self.assertEqual(len(hashes), 2 * 32)
        self.assertEqual(hashes, sorted(hashes))
        again = self.serve(stable)
        self.assertEqual(self.run_judge(again, "--parallel", 1, runs=runs[::-1], out="turned").returncode, 0)
        self.assertEqual(again.requests, judge.requests)


class Key(Case):
    def test_goes_into_the_header_and_nowhere_else(self):
        self.make_run("method-A", ["ww"])
        state = {"calls": 0}

        def answer(body, number, handler):
            state["calls"] += 1
            if state["calls"] == 2:
                return 400, {"error": {"message": f"bad request with key {handler.headers['Authorization']}"}}
            return 200, verdict("reasoning_error", f"I saw {handler.headers['Authorization']}")

        judge = self.serve(answer)
        answer = self.run_judge(judge, environment={"MY_KEY": KEY}, *("--key-env", "MY_KEY"))
        self.assert_fails(answer, "answered 400: bad request with key Bearer *")
        self.assertEqual({headers["Authorization"] for headers in judge.headers}, {f"Bearer {KEY}"})
        self.assertTrue(all(KEY not in request for request in judge.requests))
        self.assertNotIn(KEY, answer.stderr + answer.stdout)
        files = [path for path in (self.path / "judged").rglob("*") if path.is_file()]
        self.assertGreaterEqual(len(files), 3)
        for path in files:
            self.assertNotIn(KEY, path.read_text(), path)

    def test_none_is_sent_where_none_is_set(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        self.assertEqual(self.run_judge(judge).returncode, 0)
        self.assertTrue(all("Authorization" not in headers for headers in judge.headers))

    def test_refusals(self):
        self.make_run("method-A", ["w"])
        self.assert_fails(self.run_judge("http://127.0.0.1:9/v1", "--key-env", "NO_SUCH"), "NO_SUCH")
        self.assert_fails(self.run_judge("http://judge.example/v1", environment={"OPENAI_API_KEY": KEY}), "unencrypted")
        self.assert_fails(self.run_judge("http://127.0.0.1:9/v1", environment={"OPENAI_API_KEY": "sk\nX: y"}), "header")
        for url in ("ftp://127.0.0.1/v1", "http://me:pass@127.0.0.1/v1", "http://127.0.0.1/v1?key=1", "no address"):
            answer = self.run_judge(url)
            self.assert_fails(answer, "endpoint")
            self.assertNotIn("pass@", answer.stderr)
        self.assertFalse((self.path / "judged").exists())


class Input(Case):
    def test_where_problems_come_from(self):
        self.make_run("method-A", ["w"], named=False)
        judge = self.serve(stable)
        self.assert_fails(self.run_judge(judge), "suite aime", "--suite aime=FILE")
        self.assertEqual(self.run_judge(judge, "--suite", f"aime={self.suite}").returncode, 0)
        other = self.path / "other.jsonl"
        other.write_text(self.suite.read_text() + "\n")
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.suite, other)]
        self.assert_fails(self.run_judge(judge, "--suite", f"aime={other}"), *digests)
        self.assert_fails(self.run_judge(judge, "--suite", f"aime={self.suite}", "--suite", f"amc={other}"), "amc")

    def test_some_suites_alone(self):
        def two_suites(name, aime, amc):
            run = self.make_run(name, aime)
            more = self.make_run(f"{name}-more", amc, suite="amc", named=False)  # nobody knows where amc's problems are
            with (run / "responses.jsonl").open("a") as lines:
                lines.write((more / "responses.jsonl").read_text())
            summary = json.loads((run / "summary.json").read_text())
            summary["suites"] |= json.loads((more / "summary.json").read_text())["suites"]
            (run / "summary.json").write_text(json.dumps(summary))
            return run

        runs = [two_suites("method-A", ["cw", "wf"], ["WWW", "Wcc", "fWW"]), two_suites("method-B", ["cc", "wW"], ["ccW", "Wcc", "WWc"])]
        judge = self.serve(stable)
        self.assert_fails(self.run_judge(judge, runs=runs), "suite amc", "--suite amc=FILE")
        answer = self.run_judge(judge, "--suite", "aime", runs=runs)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(len(judge.requests), 2 * 3, "(0,1) and (1,0) of both, and B's (1,1) in other words")
        self.assertEqual({line["suite"] for line in self.labels()}, {"aime"})
        self.assertEqual(len(self.labels()), 2 * 4)
        summary = self.summary()
        self.assertEqual(list(summary["suites"]), ["aime"])
        self.assertEqual(summary["responses"], 8)
        self.assertEqual(summary["agreement"]["all"]["n"], 8)

        # Named together with a file, and both at once: what was answered is not asked again.
        self.assertEqual(self.run_judge(judge, "--suite", "amc", "--suite", f"amc={self.suite}", runs=runs, out="amc").returncode, 0)
        self.assertEqual({line["suite"] for line in self.labels("amc")}, {"amc"})
        asked = len(judge.requests)
        both = self.run_judge(judge, "--suite", "amc", "--suite", "aime", "--suite", f"amc={self.suite}", "--cache",
                              self.path / "amc" / "cache.jsonl", runs=runs, out="both")
        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertEqual(len(judge.requests), asked + 2 * 3)
        self.assertEqual(list(self.summary("both")["suites"]), ["aime", "amc"])

        for words in (["--suite", "aime24"], ["--suite", "aime", "--suite", f"aime24={self.suite}"]):
            self.assert_fails(self.run_judge(judge, *words, runs=runs, out="none"), "--suite aime24: no such suite was evaluated; there are aime, amc")
        self.assert_fails(self.run_judge(judge, "--suite", "aime", "--suite", "aime", runs=runs, out="none"), "aime is named twice", code=2)
        for word in ("", "=file", "aime="):
            self.assert_fails(self.run_judge(judge, "--suite", word, runs=runs, out="none"), "expected NAME or NAME=FILE", code=2)
        self.assertFalse((self.path / "none").exists())

    def test_an_eval_directory_is_never_written_over(self):
        run = self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        before = (run / "summary.json").read_bytes()
        self.assert_fails(self.run_judge(judge, out="method-A"), "holds other files")
        self.assertEqual((run / "summary.json").read_bytes(), before)
        (self.path / "full").mkdir()
        (self.path / "full" / "notes.txt").write_text("mine")
        self.assert_fails(self.run_judge(judge, out="full"), "holds other files")
        self.assertEqual(judge.requests, [])

    def test_runs_of_different_protocols_are_refused(self):
        self.make_run("method-A", ["ww"])
        run = self.make_run("method-B", ["ww"])
        summary = json.loads((run / "summary.json").read_text())
        (run / "summary.json").write_text(json.dumps(summary | {"seed": 43}))
        judge = self.serve(stable)
        self.assert_fails(self.run_judge(judge, runs=[self.path / "method-A", run]), "seed is 42 in the first and 43 in the second")

    def test_bad_usage(self):
        self.make_run("method-A", ["w"])
        judge = self.serve(stable)
        for arguments in (("--parallel", 0), ("--temperature", "nan"), ("--markdown", "--latex")):
            answer = self.run_judge(judge, *arguments)
            self.assertEqual((answer.returncode, answer.stderr.count("\n")), (2, 1), answer.stderr)
        for extra in ('{"seed": 1}', '{"messages": []}', '{"stream": true}', "[1]", "{"):
            self.assert_fails(self.run_judge(judge, "--extra", extra), "xtra")
        self.assertEqual(self.run_judge(judge, "--extra", '{"temperature": null, "top_k": 5}').returncode, 0)
        self.assertEqual(set(json.loads(judge.requests[0])), {"model", "messages", "max_tokens", "seed", "top_k"})


if __name__ == "__main__":
    unittest.main()
