#!/usr/bin/env python3
"""routeopd probe, as a user runs it, on the laboratory's pair; and [probe] of a run.

    probe_test.py PROGRAM ROOT

Fidelity and leakage are computed again here, in double precision and from the paper's equations alone, from the
distributions that --dump writes.
"""
import decimal
import json
import math
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
LAB = ROOT / "lab"
TEMPLATE = "Problem: {problem}\nSolution:"
DELTA_DIAG, DELTA_TARGET, DELTA_M = 1e-12, 0.01, 1e-6


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, cwd=ROOT)
    assert done.returncode == code, f"exit {done.returncode}: {done.stderr}"
    return done


def safetensors(path):
    """name -> (shape, flat list)."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    codes = {"F32": "f", "F64": "d", "I32": "i", "I64": "q"}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        code = codes[entry["dtype"]]
        count = (last - first) // struct.calcsize(code)
        tensors[name] = (entry["shape"], struct.unpack(f"<{count}{code}", data[8 + length + first : 8 + length + last]))
    return tensors


def softmax(logits):
    top = max(logits)
    weights = [math.exp(z - top) for z in logits]
    total = math.fsum(weights)
    return [w / total for w in weights]


def changes(before, after):
    """What every probability gains, without subtracting two softmaxes."""
    was = softmax(before)
    moved = [a - b for b, a in zip(before, after)]
    shift = math.log1p(math.fsum(p * math.expm1(d) for p, d in zip(was, moved)))
    return [p * math.expm1(d - shift) for p, d in zip(was, moved)]


def exact_changes(before, after):
    """The same with 50 digits, where subtracting is safe."""
    with decimal.localcontext() as context:
        context.prec = 50
        rows = []
        for logits in (before, after):
            weights = [decimal.Decimal(z).exp() for z in logits]
            total = sum(weights)
            rows.append([w / total for w in weights])
        return [float(a - b) for b, a in zip(*rows)]


def fidelity(change, excess, deficit):
    removed = math.fsum(max(-c, 0) for c, e in zip(change, excess) if e)
    gained = math.fsum(max(c, 0) for c, d in zip(change, deficit) if d)
    return min(removed, gained) / removed if removed > 0 else None


def leakage(change, before, teacher):
    gains = [max(c, 0) for c in change]
    outside = math.fsum(g for g, b, t in zip(gains, softmax(before), softmax(teacher)) if not t > b)
    return outside / (math.fsum(gains) + DELTA_DIAG)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.directory.name)
        cls.bank = cls.path / "bank.safetensors"
        cls.made = json.loads(run("probe", "make", *cls.make_options(), "--out", cls.bank, "--json").stdout)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @staticmethod
    def make_options(states=64, prompts=12):
        return ["--student", LAB / "base", "--teacher", LAB / "teacher", "--prompts", LAB / "heldout.jsonl", "--template",
                TEMPLATE, "--max-new", 80, "--k", 16, "--states", states, "--most-prompts", prompts]

    def probe(self, name, *arguments, student=LAB / "base"):
        run("probe", "run", "--bank", self.bank, "--student", student, "--teacher", LAB / "teacher", "--lr", "5e-5",
            "--out", self.path / name, "--quiet", *arguments)
        return json.loads((self.path / name / "probe.json").read_text())

    def refuses(self, words, *arguments, code=1):
        error = run(*arguments, code=code).stderr
        self.assertEqual(error.count("\n"), 1, error)
        self.assertRegex(error, words)


class Kept(Case):
    def test_finished_rows_are_kept_and_the_same_command_goes_on(self):
        options = ["--arm", "routeopd", "--arm", "sampled_rkl", "--arm", "union_rkl"]
        whole = self.probe("whole", *options)
        command = [PROGRAM, "probe", "run", "--bank", self.bank, "--student", LAB / "base", "--teacher", LAB / "teacher", "--lr", "5e-5",
                   "--out", self.path / "stopped", *options]
        kept = self.path / "stopped.unfinished" / "rows.jsonl"
        process = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True, cwd=ROOT)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if kept.exists() and kept.read_bytes().count(b"\n") >= 4:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 130, said)
        self.assertIn("the rows that are finished are in", said)
        self.assertFalse((self.path / "stopped").exists())
        rows = kept.read_text().splitlines()
        self.assertTrue(4 <= len(rows) <= len(whole["rows"]), len(rows))
        self.refuses("rows of another command", *command[1:], "--rms", "targets")
        self.assertEqual(kept.read_text().splitlines(), rows)
        # A row that says otherwise than it was shows that it is taken over, and not made again.
        marked = json.loads(rows[1])
        marked["scale"] = 0.5
        kept.write_text("\n".join([rows[0], json.dumps(marked), *rows[2:]]) + "\n" + rows[1][:50])
        made = self.probe("stopped", *options)
        self.assertEqual(made["rows"][0].pop("scale"), 0.5)
        whole["rows"][0].pop("scale")
        self.assertEqual(made, whole)
        for name in ("states.jsonl", "routes.jsonl", "example.json"):
            self.assertEqual((self.path / "stopped" / name).read_bytes(), (self.path / "whole" / name).read_bytes(), name)
        self.assertFalse(kept.parent.exists())


class Bank(Case):
    def test_the_same_command_gives_the_same_bank(self):
        again = self.path / "again.safetensors"
        run("probe", "make", *self.make_options(), "--out", again, "--quiet")
        self.assertEqual(again.read_bytes(), self.bank.read_bytes())
        self.assertEqual(self.made["states"], 64)
        self.assertGreater(self.made["student_mass"], 0.9)
        self.assertTrue(0 < self.made["mass"] < 1 and 0 < self.made["routed_share"] <= 1)

    def test_refuses(self):
        self.refuses("exists already", "probe", "make", *self.make_options(), "--out", self.bank)
        self.refuses("try more prompts", "probe", "make", *self.make_options(states=100000), "--out", self.path / "x")
        self.refuses("draws pairs", "probe", "make", *self.make_options(), "--arm", "full_rkl", "--out", self.path / "x")
        changed = self.path / "changed.safetensors"
        data = bytearray(self.bank.read_bytes())
        data[-3] ^= 1
        changed.write_bytes(data)
        common = ["--student", LAB / "base", "--out", self.path / "refused"]
        self.refuses("hash", "probe", "run", "--bank", changed, "--teacher", LAB / "teacher", *common)
        self.refuses("no bank", "probe", "run", "--bank", LAB / "base" / "model.safetensors", "--teacher", LAB / "teacher", *common)
        self.refuses("another teacher", "probe", "run", "--bank", self.bank, "--teacher", LAB / "base", *common)
        self.refuses("saved_adamw needs", "probe", "run", "--bank", self.bank, "--teacher", LAB / "teacher", "--intervention",
                     "saved_adamw", *common)
        self.refuses("expected one of", "probe", "run", "--bank", self.bank, "--teacher", LAB / "teacher", "--intervention", "magic",
                     *common, code=2)
        bank = ["--bank", self.bank, "--teacher", LAB / "teacher"]
        self.refuses("knows no teacher", "probe", "run", *bank, "--arm", "routeopd", "--arm", "sft", *common)
        self.refuses("named twice", "probe", "run", *bank, "--arm", "routeopd", "--arm", "routeopd", *common, code=2)
        self.refuses("none of these", "probe", "run", *bank, "--arm", "sampled_rkl", "--intervention", "pair_isolated", *common)
        self.refuses("no checkpoint of a run", "probe", "run", *bank, "--moments", LAB / "base", *common)
        self.assertFalse((self.path / "refused").exists())


class Run(Case):
    def test_equals_a_computation_from_the_distributions(self):
        dump = self.path / "dump.safetensors"
        result = self.probe("ladder", "--arm", "routeopd", "--arm", "sampled_rkl", "--dump", dump)
        tensors = safetensors(dump)
        (states, ids), before = tensors["before"]
        row = lambda values, at: values[at * ids : (at + 1) * ids]
        told = lines_of(self.path / "ladder" / "states.jsonl")
        self.assertEqual(len(told), states)
        for summary in result["rows"]:
            name = f"{summary['name']}.{summary['intervention']}"
            shape, after = tensors["after." + name]
            pairs = shape[1] if len(shape) == 3 else 1
            ours_f, ours_l = [], []
            for s in range(states):
                was, teacher = row(before, s), row(tensors["teacher"][1], s)
                excess, deficit = row(tensors["excess"][1], s), row(tensors["deficit"][1], s)
                values_f, values_l = [], []
                for i in range(pairs):
                    logits = row(after, s * pairs + i)
                    if math.isnan(logits[0]):
                        continue
                    change = (exact_changes if s % 16 == 0 else changes)(was, logits)
                    f = fidelity(change, excess, deficit)
                    values_f += [f] if f is not None else []
                    values_l.append(leakage(change, was, teacher))
                mine = next(v for v in told[s]["values"] if (v["name"], v["intervention"]) == (summary["name"], summary["intervention"]))
                if told[s]["mass"] <= DELTA_M:  # no route: no value in any row
                    self.assertEqual([mine["fidelity"], mine["leakage"], mine["deficit_reduction"]], [None] * 3)
                    continue
                if values_f:
                    ours_f.append(math.fsum(values_f) / len(values_f))
                    self.assertAlmostEqual(mine["fidelity"], ours_f[-1], delta=1e-9)
                else:
                    self.assertIsNone(mine["fidelity"])
                ours_l.append(math.fsum(values_l) / len(values_l))
                self.assertAlmostEqual(mine["leakage"], ours_l[-1], delta=1e-9)
            self.assertAlmostEqual(summary["fidelity"]["mean"], math.fsum(ours_f) / len(ours_f), delta=1e-9)
            self.assertAlmostEqual(summary["leakage"]["mean"], math.fsum(ours_l) / len(ours_l), delta=1e-9)
            self.assertEqual(summary["fidelity"]["states"], len(ours_f))
            self.assertEqual(summary["leakage"]["states"], sum(line["mass"] > DELTA_M for line in told))
        names = [(r["name"], r["intervention"]) for r in result["rows"]]
        self.assertEqual(names, [("routeopd", i) for i in ("pair_isolated", "potential_wide", "potential_matched", "fresh_adamw", "sgd")]
                         + [("sampled_rkl", "fresh_adamw"), ("sampled_rkl", "sgd")])
        for summary in result["rows"][:2]:
            self.assertLess(summary["target_mae"], 1e-6)
            self.assertGreater(summary["completion"], 1 - 1e-6)
        for summary in result["rows"][2:]:
            self.assertAlmostEqual(summary["rms"] / result["rms"], 1, delta=1e-3)
        self.check_routes(result)

    def check_routes(self, result):
        """Realization and strata, from the lines."""
        lines = lines_of(self.path / "ladder" / "routes.jsonl")
        states = lines_of(self.path / "ladder" / "states.jsonl")
        for summary in result["rows"]:
            mine = [r for r in lines if (r["name"], r["intervention"]) == (summary["name"], summary["intervention"])]
            big = [r for r in mine if r["target"] >= DELTA_TARGET]
            self.assertEqual(summary["pairs"], len(big))
            self.assertAlmostEqual(summary["target_mae"], sum(abs(r["achieved"] - r["target"]) for r in big) / len(big), delta=1e-9)
            self.assertAlmostEqual(summary["completion"], sum(min(max(r["achieved"] / r["target"], 0), 1) for r in big) / len(big), delta=1e-9)
            self.assertAlmostEqual(summary["overshoot"], sum(r["achieved"] > r["target"] + DELTA_TARGET for r in big) / len(big), delta=1e-9)
            for r in mine:
                self.assertGreater(r["p_student_source"], r["p_teacher_source"] - 1e-6)
                self.assertGreater(r["p_teacher_destination"], r["p_student_destination"] - 1e-6)
            routed = sorted((s for s in states if s["mass"] > 1e-6), key=lambda s: s["mass"])
            quarter = routed[: len(routed) // 4]
            value = lambda s, key: next(v[key] for v in s["values"] if (v["name"], v["intervention"]) == (summary["name"], summary["intervention"]))
            stratum = summary["strata"]["mismatch"][0]
            self.assertEqual(stratum["states"], len(quarter))
            self.assertAlmostEqual(stratum["leakage"], sum(value(s, "leakage") for s in quarter) / len(quarter), delta=1e-9)
            self.assertAlmostEqual(stratum["mass"], sum(s["mass"] for s in quarter) / len(quarter), delta=1e-9)
            self.assertEqual(sum(s["states"] for s in summary["strata"]["concentration"]), len(routed))
        texts = {r["source_text"] for r in lines}
        self.assertTrue(any(t.strip().isalpha() for t in texts), texts)

    def test_routing_to_the_teachers_deficit_is_the_more_faithful(self):
        """The mechanism, on 1,024 states, at one RMS change of log-odds: the 95 % intervals do not touch those of the permuted
        destinations; those of sampled_rkl may."""
        bank = self.path / "large.safetensors"
        run("probe", "make", *self.make_options(1024, 128), "--out", bank, "--quiet")
        run("probe", "run", "--bank", bank, "--student", LAB / "base", "--teacher", LAB / "teacher", "--lr", "5e-5", "--arm",
            "teacher_deficit", "--arm", "rank_matched", "--arm", "sampled_rkl", "--intervention", "fresh_adamw", "--out",
            self.path / "matched", "--quiet")
        result = json.loads((self.path / "matched" / "probe.json").read_text())
        routed, *others = result["rows"]
        for other in others:
            self.assertAlmostEqual(other["rms"] / routed["rms"], 1, delta=2e-3)
            own, others_own = ("low", "high") if other["name"] == "rank_matched" else ("mean", "mean")
            self.assertGreater(routed["fidelity"][own], other["fidelity"][others_own], other["name"])
            own, others_own = others_own, own
            self.assertLess(routed["leakage"][own], other["leakage"][others_own], other["name"])

    def test_sizes_of_updates(self):
        """--rms: one size for all arms, that of the targets, or each update as it is."""
        common = ["--arm", "routeopd", "--arm", "sampled_rkl", "--arm", "source_only", "--intervention", "fresh_adamw"]
        targets = self.probe("targets", *common, "--rms", "targets")
        # An arm that draws no pairs is judged by the bank's.
        squares = [line["target"] ** 2 for line in lines_of(self.path / "targets" / "routes.jsonl") if line["name"] == "sampled_rkl"]
        self.assertEqual(targets["matched"], "targets")
        self.assertAlmostEqual(targets["rms"], math.sqrt(sum(squares) / len(squares)), delta=1e-6)
        given = self.probe("given", *common, "--rms", "0.05")
        self.assertEqual((given["matched"], given["rms"]), ("given", 0.05))
        for result in (targets, given):
            for row in result["rows"]:
                self.assertAlmostEqual(row["rms"] / result["rms"], 1, delta=1e-3)
        plain = self.probe("plain", *common, "--rms", "none")
        self.assertEqual((plain["matched"], plain["rms"]), ("none", None))
        matched = self.probe("as-routeopd", *common)
        self.assertEqual(matched["matched"], "routeopd")
        self.assertAlmostEqual(plain["rows"][0]["rms"] / matched["rms"], 1, delta=1e-6)
        for row in plain["rows"]:
            self.assertEqual(row["scale"], 1)
        for result in (targets, given, plain):
            for row in result["rows"]:
                for name in ("completion", "overshoot"):
                    low, high = row[f"{name}_interval"]
                    self.assertTrue(0 <= low <= row[name] <= high <= 1, (row["name"], name, row[name], low, high))
        self.assertGreater(targets["rows"][0]["completion"], 2 * given["rows"][0]["completion"])
        for words in ("0", "large"):
            answer = run("probe", "run", "--bank", self.bank, "--student", LAB / "base", "--teacher", LAB / "teacher", "--out",
                         self.path / "no", "--rms", words, code=2)
            self.assertIn("--rms: expected a number over 0 (log-odds), routeopd, targets or none", answer.stderr)

    def test_arms_ask_for_what_can_hold_together(self):
        result = self.probe("arms", "--arm", "routeopd", "--arm", "independent_clipping", "--arm", "routeopd:m=8", "--arm",
                            "exact=routeopd:pairs=exact", "--arm", "routeopd:k=full", "--intervention", "fresh_adamw")
        arms = {arm["name"]: arm for arm in result["arms"]}
        self.assertEqual(arms["routeopd"]["cycle_violations"], 0)
        self.assertGreater(arms["independent_clipping"]["cycle_violations"], 0)
        self.assertAlmostEqual(arms["routeopd-m8"]["loss_variance"] * 4, arms["routeopd"]["loss_variance"], delta=1e-12)
        self.assertGreater(arms["routeopd-m8"]["coverage"], arms["routeopd"]["coverage"])
        self.assertIsNone(arms["exact"]["coverage"])
        self.assertEqual(arms["routeopd-kfull"]["k"], "full")
        example = json.loads((self.path / "arms" / "example.json").read_text())
        self.assertLess(example["advantage"], 0)
        for key in ("change_sampled_rkl", "change_routeopd"):
            self.assertAlmostEqual(sum(i[key] for i in example["ids"]) + example["rest"][key], 0, delta=1e-9)
        action = next(i for i in example["ids"] if i["id"] == example["action"]["id"])
        self.assertLess(action["change_sampled_rkl"], 0)
        others = [i for i in example["ids"] if i["id"] != example["action"]["id"]]
        self.assertTrue(all(i["change_sampled_rkl"] > 0 for i in others), "scalar credit lifts everything else")


class Training(Case):
    """A bank on the way through a run: the lines, and a run that is not changed by being looked at."""

    def recipe(self, out, *more):
        settings = ["train.steps=3", "rollout.prompts_per_step=4", "rollout.n=2", "checkpoint.every=1", "checkpoint.keep=0", *more]
        return ["train", ROOT / "recipes" / "lab.toml", "--out", self.path / out, "--quiet", *(w for s in settings for w in ("--set", s))]

    def test_probes_and_leaves_the_run_alone(self):
        run(*self.recipe("plain"))
        run(*self.recipe("probed", "probe.every=1", f"probe.bank={self.bank}"))
        same = lambda name: [(self.path / run_ / "checkpoints" / "step_3" / name).read_bytes() for run_ in ("plain", "probed")]
        for name in ("model.safetensors", "state/optimizer.safetensors"):
            self.assertEqual(*same(name), name)
        path = self.path / "probed" / "probe.jsonl"
        lines = lines_of(path)
        self.assertEqual([line["step"] for line in lines], [0, 1, 2, 3])
        self.assertAlmostEqual(lines[0]["mass"], self.made["mass"], delta=1e-6)
        self.assertIsNone(lines[0]["since_start"])
        for line in lines[1:]:
            self.assertTrue(0 < line["fidelity"]["mean"] <= 1 and 0 <= line["leakage"]["mean"] <= 1)
            self.assertAlmostEqual(line["mass"], lines[0]["mass"] - line["since_start"]["deficit_reduction"], delta=1e-9)
        # The probe at step 0 is the one that `probe run` makes of the base student.
        alone = self.probe("alone", "--arm", "routeopd", "--intervention", "fresh_adamw")
        self.assertAlmostEqual(lines[0]["fidelity"]["mean"], alone["rows"][0]["fidelity"]["mean"], delta=0.02)
        # Resumed after a cut, the lines are the same.
        whole = path.read_text()
        path.write_text("".join(whole.splitlines(keepends=True)[:-1]))
        run(*self.recipe("probed", "probe.every=1", f"probe.bank={self.bank}"), "--resume")
        self.assertEqual(path.read_text(), whole)
        # A checkpoint is another student, with moments of its own.
        checkpoint = self.path / "probed" / "checkpoints" / "step_2"
        later = self.probe("later", "--moments", checkpoint, student=checkpoint)
        self.assertFalse(later["student"]["frozen"])
        self.assertEqual(later["student"]["step"], 2)
        self.assertIn("saved_adamw", [row["intervention"] for row in later["rows"]])

    def test_refuses_a_bank_of_another_pair(self):
        self.refuses(r"\[probe\] bank", *self.recipe("other", "probe.every=1", f"probe.bank={self.bank}", f"student.path={LAB / 'teacher'}",
                                                     f"teacher.path={LAB / 'base'}"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
