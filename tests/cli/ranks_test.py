#!/usr/bin/env python3
"""Runs on several processes, as torchrun starts them, on the laboratory pair.

    ranks_test.py PROGRAM LIBRARY PYTHON SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, LIBRARY, PYTHON, SOURCE = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAUNCHER = SOURCE / "scripts" / "ranks.py"
RECIPE = SOURCE / "recipes" / "lab.toml"
SMALL = ["--set", "train.steps=4", "--set", "rollout.prompts_per_step=6", "--set", "rollout.n=2", "--set",
         "checkpoint.every=2", "--set", "train.rollouts=true"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "ROUTEOPD_LIBRARY": LIBRARY, "GLOO_SOCKET_IFNAME": "lo"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def metrics_of(directory):
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["exchange"].pop("seconds", None)
    return [{name: value for name, value in line.items() if name not in ("time", "memory")} for line in lines]


def wait_for_lines(directory, count):
    metrics = directory / "metrics.jsonl"
    for _ in range(12000):
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"{metrics} never had {count} lines")


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def start(self, ranks, *arguments, per_rank=(), places=(), **more):
        """Processes of one group; per_rank[r] are arguments of rank r alone, places[r] is where it starts."""
        port, processes = free_port(), []
        for rank in range(ranks):
            environment = {**ENVIRONMENT, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
                           "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **more}
            own = per_rank[rank] if per_rank else []
            processes.append(subprocess.Popen([PYTHON, LAUNCHER, *map(str, [*arguments, *own])], text=True,
                                              cwd=places[rank] if places else SOURCE, env=environment,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        self.addCleanup(lambda: [(process.kill(), process.communicate()) for process in processes])
        return processes

    def finish(self, processes, timeout=240):
        """Exit codes, and what each rank said on standard error, its library's own warnings apart."""
        said = [process.communicate(timeout=timeout)[1] for process in processes]
        own = ["\n".join(line for line in text.splitlines() if line.startswith("routeopd:")) for text in said]
        return [process.returncode for process in processes], own, said

    def train(self, ranks, name, *more, codes=None, **keywords):
        codes_found, own, said = self.finish(
            self.start(ranks, "train", RECIPE, "--out", self.path / name, *SMALL, *more, **keywords))
        self.assertEqual(codes_found, codes or [0] * ranks, said)
        return own

    def train_alone(self, name, *more):
        answer = subprocess.run([PROGRAM, "train", RECIPE, "--out", self.path / name, *SMALL, "--quiet", *more],
                                text=True, capture_output=True, cwd=SOURCE, env=ENVIRONMENT)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def assert_same_bits(self, one, other, step=4):
        for name in ("model.safetensors", "state/optimizer.safetensors"):
            a, b = (self.path / run / "checkpoints" / f"step_{step}" / name for run in (one, other))
            self.assertEqual(a.read_bytes(), b.read_bytes(), name)
        self.assertEqual(metrics_of(self.path / one), metrics_of(self.path / other))


class Ranks(Case):
    def test_two_ranks_against_one_process(self):
        self.train_alone("one", "--set", "probe.every=2")
        self.train(2, "two", "--set", "probe.every=2")
        self.train(2, "again", "--set", "probe.every=2", "--quiet")
        self.assert_same_bits("two", "again")
        one, two = metrics_of(self.path / "one"), metrics_of(self.path / "two")
        for name in ("loss", "mass", "budget", "entropy", "grad_norm", "tokens", "teacher_tokens", "response_tokens"):
            self.assertAlmostEqual(two[0][name], one[0][name], delta=1e-5 * abs(one[0][name]), msg=name)
        self.assertEqual(two[0]["validity"], one[0]["validity"])
        self.assertLess(two[0]["exchange"]["bytes"], two[0]["exchange"]["dense_bytes"])
        first = [[line for line in (self.path / run / "rollouts.jsonl").read_text().splitlines()
                  if json.loads(line)["step"] == 1] for run in ("one", "two")]
        self.assertEqual(len(first[0]), 12)
        self.assertEqual(first[0], first[1])
        starts = [json.loads((self.path / run / "probe.jsonl").read_text().splitlines()[0]) for run in ("one", "two")]
        self.assertEqual(starts[0], starts[1], "fixed states, chosen and scored on two ranks")
        self.train_alone("two", "--resume", "--set", "probe.every=2", "--set", "train.steps=5")
        self.assertEqual(len(metrics_of(self.path / "two")), 5, "one process goes on")

    def test_a_killed_rank_is_restarted_by_torchrun_and_ends_in_the_same_bits(self):
        self.train(2, "whole", "--quiet")
        # A restarted rank 1 that is late: rank 0 must not take the address that its predecessor left in torchrun's store.
        late = "import os, time\nif os.environ.get('RANK') == '1' and os.environ['TORCHELASTIC_RESTART_COUNT'] != '0':\n"
        (self.path / "sitecustomize.py").write_text(late + "    time.sleep(3)\n")
        environment = {**ENVIRONMENT, "PYTHONPATH": str(self.path), "ROUTEOPD_TIMEOUT": "30"}
        for victim in (0, -1):
            name = f"killed{victim}"
            process = subprocess.Popen(
                [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1",
                 str(LAUNCHER), "train", str(RECIPE), "--out", str(self.path / name), *SMALL, "--quiet"],
                text=True, cwd=SOURCE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(process.kill)
            wait_for_lines(self.path / name, 3)
            children = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "ranks.py"], text=True, capture_output=True)
            os.kill(int(children.stdout.split()[victim]), signal.SIGKILL)
            said = process.communicate(timeout=300)[1]
            self.assertEqual(process.returncode, 0, said)
            self.assert_same_bits("whole", name)
            self.assertRegex((self.path / name / "log.txt").read_text(), "from step [23]", "it was resumed")

    def test_others_stop_when_a_rank_is_killed_or_hangs(self):
        for sign, seconds in ((signal.SIGKILL, "60"), (signal.SIGSTOP, "4")):
            name = sign.name
            ranks = self.start(2, "train", RECIPE, "--out", self.path / name, *SMALL, "--quiet", "--set",
                               "train.steps=400", ROUTEOPD_TIMEOUT=seconds)
            wait_for_lines(self.path / name, 3)
            ranks[1].send_signal(sign)
            code = ranks[0].wait(timeout=60)
            said = ranks[0].stderr.read()
            ranks[1].kill()
            self.assertEqual(code, 1, said)
            mine = [line for line in said.splitlines() if line.startswith("routeopd:")]
            self.assertEqual(len(mine), 1, said)
            self.assertIn("another rank stopped, or did not answer", mine[0])
            newest = max((self.path / name / "checkpoints").iterdir(), key=lambda path: int(path.name.split("_")[1]))
            answer = subprocess.run([PROGRAM, "inspect", newest], text=True, capture_output=True)
            self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_an_interrupt_saves_the_step_once(self):
        ranks = self.start(2, "train", RECIPE, "--out", self.path / "run", *SMALL, "--set", "train.steps=400",
                           "--set", "checkpoint.every=0")
        wait_for_lines(self.path / "run", 3)
        ranks[1].send_signal(signal.SIGINT)  # one of them alone
        codes, own, said = self.finish(ranks)
        self.assertEqual(codes, [130, 130], said)
        self.assertEqual(own[1], "")
        self.assertIn("interrupted", own[0])
        self.assertEqual(len(list((self.path / "run" / "checkpoints").iterdir())), 1)

    def test_more_ranks_than_prompts(self):
        self.train(3, "run", "--quiet", "--set", "rollout.prompts_per_step=2")
        self.assertEqual([line["exchange"]["ranks"] for line in metrics_of(self.path / "run")], [3, 3, 3, 3])

    def test_what_ranks_disagree_on_is_refused_by_every_one(self):
        own = self.train(2, "run", "--quiet", codes=[1, 1],
                         per_rank=[["--set", "optimizer.lr=0.001"], ["--set", "optimizer.lr=0.002"]])
        for said in own:
            self.assertIn("disagree on the recipe's [optimizer] lr: rank 0 has 0.001, rank 1 has 0.002", said)
            self.assertEqual(said.count("\n"), 0)
        other = self.path / "other"
        subprocess.run(["cp", "-r", SOURCE / "lab" / "base", other], check=True)
        weights = bytearray((other / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (other / "model.safetensors").write_bytes(weights)
        own = self.train(2, "run", "--quiet", "--allow-overcommit", codes=[1, 1],
                         per_rank=[[], ["--set", f"student.path={other}"]])
        self.assertTrue(all("disagree on the recipe's [student] path" in said for said in own), own)
        own = self.train(2, "run", "--quiet", codes=[1, 1], per_rank=[[], ["--set", "student.path=nowhere"]])
        self.assertIn("nowhere", own[1])
        self.assertIn("rank 0: stops with rank 1, which said:", own[0])
        self.assertFalse((self.path / "run").exists())

    def test_other_files_under_the_same_path_are_refused_by_every_rank(self):
        other = self.path / "other"
        other.mkdir()
        subprocess.run(["cp", "-r", SOURCE / "lab", other / "lab"], check=True)
        config = other / "lab" / "base" / "config.json"
        written = config.read_text()
        config.write_text(json.dumps({**json.loads(written), "rms_norm_eps": 0.001}))
        own = self.train(2, "run", "--quiet", codes=[1, 1], places=(SOURCE, other))
        self.assertTrue(all("disagree on the config.json of [student]" in said for said in own), own)
        config.write_text(written)
        weights = bytearray((other / "lab" / "teacher" / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (other / "lab" / "teacher" / "model.safetensors").write_bytes(weights)
        own = self.train(2, "run", "--quiet", codes=[1, 1], places=(SOURCE, other))
        self.assertTrue(all("disagree on the weights of [teacher]" in said for said in own), own)
        self.assertFalse((self.path / "run").exists())

    def test_evaluation_is_that_of_one_process(self):
        arguments = ["eval", "--model", "lab/base", "--suite", "held=lab/heldout.jsonl", "--n", "2", "--max-new", "40",
                     "--template", "Problem: {problem}\nSolution:"]
        answer = subprocess.run([PROGRAM, *arguments, "--out", self.path / "one", "--quiet"], cwd=SOURCE, text=True,
                                capture_output=True, env=ENVIRONMENT)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        codes, _, said = self.finish(self.start(3, *arguments, "--out", self.path / "three", "--quiet"))
        self.assertEqual(codes, [0, 0, 0], said)
        for name in ("summary.json", "problems.jsonl"):
            self.assertEqual((self.path / "one" / name).read_bytes(), (self.path / "three" / name).read_bytes(), name)
        lines = [sorted((self.path / run / "responses.jsonl").read_text().splitlines()) for run in ("one", "three")]
        self.assertEqual(lines[0], lines[1])

    def test_bad_beginnings_are_told_in_one_sentence(self):
        answer = subprocess.run([PYTHON, LAUNCHER, "train", RECIPE], text=True, capture_output=True, env=os.environ)
        self.assertEqual((answer.returncode, answer.stderr.count("\n")), (1, 1))
        self.assertIn("torchrun --nproc-per-node", answer.stderr)
        there = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        answer = subprocess.run([PYTHON, LAUNCHER, "train", RECIPE], text=True, capture_output=True,
                                env={**os.environ, **there, "ROUTEOPD_LIBRARY": "nowhere.so"})
        self.assertEqual((answer.returncode, answer.stderr.count("\n")), (1, 1), answer.stderr)
        self.assertIn("librouteopd.so is not there", answer.stderr)
        codes, own, said = self.finish(self.start(2, "train", RECIPE, ROUTEOPD_TIMEOUT="soon"))
        self.assertEqual(codes, [1, 1], said)
        self.assertEqual(own, [f"routeopd: rank {rank}: could not convert string to float: 'soon'" for rank in (0, 1)])
        self.assertNotIn("Traceback", said[0])
        codes, own, said = self.finish(self.start(2, "lab", "--help"))
        self.assertEqual(codes, [2, 2], said)
        self.assertIn("lab: runs in one process", own[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
