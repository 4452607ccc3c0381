#!/usr/bin/env python3
"""lm-evaluation-harness against `routeopd serve`, beside its own way of running the same directory with transformers.

    python serve_lm_eval.py PROGRAM MODEL_DIR... --lm-eval PYTHON [--problems lab/heldout.jsonl] [--items 40]

The tasks are those of lm_eval_tasks/, on data made from the problems: which of four numbers a problem begins with (the
log-likelihood of each), how likely whole texts are (rolling log-likelihood), and what is written after a problem (greedy, with
stop strings). The harness asks our server twice through its `local-completions`: several prompts in a request, one request
at a time; and one prompt in a request, several at a time. Its figures, and the log-likelihood and greediness of every single
item, must be those of its `hf` model on the same directory. Nothing is fetched. Standard library only.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any

from engines import EngineError, Ours
from results import report

TASKS = ("routeopd_choice", "routeopd_perplexity", "routeopd_answer")
WAYS = {"4 prompts a request": {"num_concurrent": 1, "batch": 4}, "8 requests at a time": {"num_concurrent": 8, "batch": 1}}
RELATIVE, ABSOLUTE = 1e-3, 1e-4  # of log-likelihoods; the second for those near 0


def write_data(problems: pathlib.Path, items: int, work: pathlib.Path) -> None:
    with problems.open() as file:
        rows = [json.loads(line) for line in file][:items]
    if len(rows) < items:
        raise EngineError(f"{problems}: {items} problems were asked for, it has {len(rows)}.")
    choices, texts = [], []
    for number, row in enumerate(rows):
        question = f"Problem: {row['problem']}\nSolution:"
        first = int(re.findall(r"\d+", row["problem"])[0])
        candidates = [str(value) for value in (first, first + 1, first + 10, abs(first - 3))]
        turn = number % len(candidates)
        choices.append({"question": question, "prompt": f"{question} First there are", "answer": row["answer"],
                        "choices": candidates[turn:] + candidates[:turn], "label": (len(candidates) - turn) % len(candidates)})
        texts.append({"text": f"{question} First there are {first}. The final answer is {row['answer']}."})
    for name, data in (("choice", choices), ("texts", texts)):
        (work / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))


def evaluate(python: str, model: str, options: dict[str, Any], batch: int, work: pathlib.Path, name: str) -> dict[str, Any]:
    """Figures and samples of the tasks."""
    out = work / name
    command = [python, "-m", "lm_eval", "--model", model, "--model_args", ",".join(f"{key}={value}" for key, value in options.items()),
               "--tasks", ",".join(TASKS), "--include_path", str(pathlib.Path(__file__).parent.resolve() / "lm_eval_tasks"),
               "--batch_size", str(batch), "--output_path", str(out), "--log_samples"]
    if model == "hf":
        command += ["--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(work / "hub"),
                   "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}
    environment.pop("OPENAI_API_KEY", None)  # nobody's key is sent to a server under test
    ran = subprocess.run(command, cwd=work, env=environment, text=True, capture_output=True)
    if ran.returncode != 0:
        raise EngineError(f"lm_eval ({model}) ended with {ran.returncode}:\n" + "\n".join((ran.stdout + ran.stderr).splitlines()[-15:]))
    results = json.loads(next(out.glob("*/results_*.json")).read_text())["results"]
    samples = {}
    for task in TASKS:
        lines = next(out.glob(f"*/samples_{task}_*.jsonl")).read_text().splitlines()
        samples[task] = sorted(map(json.loads, lines), key=lambda row: int(row["doc_id"]))
    return {"results": results, "samples": samples}


def figures(results: dict[str, Any]) -> dict[str, float]:
    return {f"{task} {name.split(',')[0]}": value for task, row in results.items() for name, value in row.items()
            if isinstance(value, float) and "stderr" not in name}


def apart(one: float, other: float) -> float:
    """How far two log-likelihoods are from each other; more than 1 is too far."""
    return abs(one - other) / (ABSOLUTE + RELATIVE * max(abs(one), abs(other)))


def compare(label: str, got: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """What differs by more than rounding explains."""
    wrong = []
    one, other = figures(got["results"]), figures(wanted["results"])
    if one.keys() != other.keys() or not one:
        return [f"{label}: figures {sorted(one)} instead of {sorted(other)}"]
    for name, value in one.items():
        equal = abs(value - other[name]) <= RELATIVE * other[name] if "per" in name.split()[1] else value == other[name]
        if not equal:
            wrong.append(f"{label}: {name} is {value}, hf's is {other[name]}")
    worst, count, same = 0.0, 0, 0
    for task in TASKS:
        pairs = list(zip(got["samples"][task], wanted["samples"][task], strict=True))
        for ours, theirs in pairs:
            where = f"{label}: {task}, item {ours['doc_id']}"
            if ours["doc_hash"] != theirs["doc_hash"] or ours["prompt_hash"] != theirs["prompt_hash"]:
                wrong.append(f"{where} is not the same item")
            for a, b in zip(ours["resps"], theirs["resps"], strict=True):
                if task == "routeopd_answer":
                    same += a == b
                    if a != b:
                        wrong.append(f"{where}: wrote {a} instead of {b}")
                    continue
                (a, *greedy), (b, *theirs_greedy) = (value if isinstance(value, list) else [value] for value in (a[0], b[0]))
                distance = apart(float(a), float(b))
                worst, count = max(worst, distance), count + 1
                if distance > 1 or greedy != theirs_greedy:
                    wrong.append(f"{where}: {a} {greedy} instead of {b} {theirs_greedy}")
    print(f"  {label}: {count} log-likelihoods, the farthest {worst:.3f} of what is allowed; {same} texts the same; "
          + ", ".join(f"{name.removeprefix('routeopd_')} {value:.4g}" for name, value in one.items()))
    if not count or not same:
        wrong.append(f"{label}: nothing was compared")
    return wrong


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("models", nargs="+", metavar="MODEL_DIR")
    parser.add_argument("--lm-eval", required=True, metavar="PYTHON")
    parser.add_argument("--problems", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "lab/heldout.jsonl")
    parser.add_argument("--items", type=int, default=40)
    args = parser.parse_args()
    python = args.lm_eval if os.sep not in args.lm_eval else os.path.abspath(args.lm_eval)

    wrong: list[str] = []
    for model in map(os.path.abspath, args.models):
        with tempfile.TemporaryDirectory() as directory:
            work = pathlib.Path(directory)
            write_data(args.problems, args.items, work)
            longest = min(2048, json.loads((pathlib.Path(model) / "config.json").read_text())["max_position_embeddings"])
            answers = {}
            server = Ours(args.program, model, work / "server.log")
            try:
                server.wait_until_up()
                for number, (label, way) in enumerate(WAYS.items()):
                    options = {"model": "m", "base_url": f"{server.url}/v1/completions", "tokenizer": model, "max_length": longest,
                               "num_concurrent": way["num_concurrent"]}
                    answers[label] = evaluate(python, "local-completions", options, way["batch"], work, f"served{number}")
            finally:
                server.end()
            print(f"{pathlib.Path(model).name}: {args.items} items, served and by transformers")
            wanted = evaluate(python, "hf", {"pretrained": model, "dtype": "float32"}, 1, work, "hf")
            for label, got in answers.items():
                differing = compare(label, got, wanted)
                report(f"{pathlib.Path(model).name} served, {label}: log-likelihoods, texts, figures", "lm-evaluation-harness",
                       "0 differ", f"{len(differing)} differ", not differing)
                wrong += differing
    for line in wrong[:20]:
        print(line, file=sys.stderr)
    if wrong:
        sys.exit(f"lm_eval: {len(wrong)} differences.")


if __name__ == "__main__":
    try:
        main()
    except EngineError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
