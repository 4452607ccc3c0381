#!/usr/bin/env python3
"""How fast our engine generates and scores beside vLLM, llama.cpp and transformers, in turns on one machine.

    python engine_speed.py ENGINE_BENCH MODEL_DIR [--rounds 5] [--only NAME...] [--skip ENGINE,...] [--json FILE]

ENGINE_BENCH is the program of bench/engine_bench.cpp. The others run in environments of their own, whose interpreters
--vllm, --llama and --transformers (or PEERS_VLLM, PEERS_LLAMA, PEERS_PYTHON) name; an engine without one is skipped. All
compute with the same float32 weights on the same number of threads.

All engines are started first, and asked for the same greedy continuations and scores: where one differs from transformers
by more than rounding explains, nothing is timed. Then each round asks one engine after the other, in an order that moves by
one from round to round, never two at a time; an engine that works while nothing is asked is stopped meanwhile. Every timed
request has new random prompts. A ratio is the median of those of the rounds, its range stands beside it.

Decoding is counted without the prompt: B * (new - 1) tokens in the time between the first and the last token, or, where an
engine tells only the whole time, in t(new tokens) - t(1 token).

Exits 1 when answers differ, when a ratio misses its target, and when the machine was too busy to tell. Standard library only.
"""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import operator
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from engines import Engine, EngineError, LineEngine, Vllm, machine_seconds
from results import report, spread

HERE = pathlib.Path(__file__).parent
PROMPT, NEW = 64, 64
TOP = 32
SCORE_SEQUENCES, SCORE_LENGTH = 8, 256
CAPTURE_SEQUENCES = 16
SHARE_PROMPTS, SHARE_N, SHARE_LENGTH, SHARE_NEW = 8, 4, 512, 128
STAGE_PROMPTS, STAGE_N, STAGE_NEW = 8, 4, 128
DECODE_TARGETS = {"vllm": {1: 2.0, 4: 1.5, 16: 1.4, 32: 1.25}, "llama": {1: 0.95, 4: 1.5, 16: 1.3, 32: 1.25}}
NAMES = ("decode-vllm", "decode-llama", "decode-transformers", "capture", "score-transformers", "score-vllm", "sharing", "stage")
# Greedy ids may part where transformers' log-probabilities of the two candidates are this close; a KV cache in half precision
# moves logits by hundredths.
TIES = {"ours": 1e-4, "vllm": 1e-3, "llama": 0.1, "transformers": 1e-4}
SCORE_TOLERANCE = {"ours": 1e-4, "vllm": 1e-3}
IDLE_SHARE = 0.01  # of one core; vLLM uses 0.02
BUSY = 0.2  # cores used by anything else; threads that wait for each other then lose far more than that
SETTLE = 0.4  # seconds between engines: OpenMP's threads spin for up to 0.2 s after their work


@dataclasses.dataclass
class Row:
    name: str
    what: str
    ours: float
    peer: float
    unit: str
    ratios: list[float]
    target: str  # ">= 1.5", "<= 0.8" or ""
    others: float = 0.0  # cores that anything else used meanwhile

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def met(self) -> bool | None:
        if not self.target:
            return None
        relation, bound = self.target.split()
        return {">=": operator.ge, "<=": operator.le}[relation](self.ratio, float(bound))

    @property
    def busy(self) -> bool:
        return self.others > BUSY

    def line(self) -> str:
        verdict = {True: "ok", False: "SHORT", None: ""}[self.met] + (" (busy)" if self.busy else "")
        spread = f"{self.ratio:.3f} [{min(self.ratios):.3f}, {max(self.ratios):.3f}]"
        return (f"{self.what:52} {self.ours:9.2f} {self.peer:9.2f} {self.unit:9} {spread:24} {self.target:8} {verdict}").rstrip()


class Session:
    """The engines that run, one of them asked at a time."""

    def __init__(self, engines: dict[str, Engine], vocabulary: int) -> None:
        self.engines = engines
        self.ids = range(100, min(40000, vocabulary))  # neither special nor the rarest ones
        self.random = random.Random(random.SystemRandom().randrange(1 << 30))
        self.busy: set[str] = set()
        self.idle: dict[str, float] = {}
        self.current = ""
        self.clear_load()

    def clear_load(self) -> None:
        self.asked_seconds = self.other_seconds = 0.0

    def load(self) -> float:
        """Cores that anything else used during the requests since clear_load."""
        return max(0.0, self.other_seconds / self.asked_seconds) if self.asked_seconds else 0.0

    def find_busy(self) -> None:
        time.sleep(1.0)
        for name, engine in self.engines.items():
            self.idle[name] = engine.idle_share(2.0)
            if self.idle[name] > IDLE_SHARE:
                self.busy.add(name)
        shares = ", ".join(f"{name} {share:.1%}" for name, share in self.idle.items())
        print(f"idle, of one core: {shares}" + (f"; stopped while others are asked: {', '.join(sorted(self.busy))}" if self.busy else ""))

    def prompts(self, count: int, length: int) -> list[list[int]]:
        return [[self.random.choice(self.ids) for _ in range(length)] for _ in range(count)]

    def ask(self, name: str, **request: Any) -> dict[str, Any]:
        engine = self.engines[name]
        if name != self.current:
            for other in self.busy - {name}:
                self.engines[other].pause(True)
            engine.pause(False)
            time.sleep(SETTLE)
            self.current = name
        machine, own, start = machine_seconds(), engine.cpu_seconds(), time.monotonic()
        answer = engine.ask(request)
        # Summed over many requests, because the kernel counts hundredths of a second.
        self.other_seconds += machine_seconds() - machine - (engine.cpu_seconds() - own)
        self.asked_seconds += time.monotonic() - start
        return answer

    def generate(self, name: str, prompts: list[list[int]], new: int, **more: Any) -> dict[str, Any]:
        answer = self.ask(name, do="generate", prompts=prompts, new=new, **more)
        wanted = len(prompts) * more.get("n", 1)
        if [len(ids) for ids in answer["ids"]] != [new] * wanted:
            raise EngineError(f"{name}: {wanted} responses of {new} ids were asked for; "
                              f"the lengths that came are {[len(ids) for ids in answer['ids']]}.")
        return answer

    def decode_rate(self, name: str, batch: int) -> float:
        """Tokens a second after the first one."""
        if name in ("ours", "vllm"):
            first = self.generate(name, self.prompts(batch, PROMPT), 1)["seconds"]
            whole = self.generate(name, self.prompts(batch, PROMPT), NEW)["seconds"]
        else:
            answer = self.generate(name, self.prompts(batch, PROMPT), NEW)
            first, whole = answer["first_seconds"], answer["seconds"]
        return batch * (NEW - 1) / (whole - first)

    def in_turns(self, what: str, rounds: int, asks: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
        """Values of each ask in each round."""
        values: dict[str, list[float]] = {name: [] for name in asks}
        names = list(asks)
        for number in range(rounds):
            for name in names[number % len(names):] + names[:number % len(names)]:
                values[name].append(asks[name]())
            shown = ", ".join(f"{name} {values[name][-1]:.2f}" for name in names)
            print(f"  {what}, round {number + 1}: {shown}", file=sys.stderr, flush=True)
        return values


def divide(one: list[float], other: list[float]) -> list[float]:
    return [a / b for a, b in zip(one, other)]


# Agreement, before anything is timed.

def check_greedy(session: Session) -> bool:
    """The same prompts to every engine; where ids part, the reference says how close the two candidates are."""
    reference = "transformers" if "transformers" in session.engines else "ours"
    prompts = session.prompts(4, PROMPT)
    wanted = session.generate(reference, prompts, NEW)["ids"]
    agree = True
    for name in session.engines:
        if name == reference:
            continue
        got = session.generate(name, prompts, NEW)["ids"]
        notes = []
        for prompt, ours, theirs in zip(prompts, wanted, got):
            at = next((t for t in range(NEW) if ours[t] != theirs[t]), NEW)
            if at == NEW:
                continue
            ends = [prompt + ours[:at] + [ids[at]] for ids in (ours, theirs)]
            best, other = (row[-1] for row in session.ask(reference, do="score", sequences=ends, k=1)["logprobs"])
            gap = abs(best - other)
            limit = max(TIES[name], TIES[reference])
            agree = agree and gap < limit
            notes.append(f"token {at}, {gap:.1e} apart" + ("" if gap < limit else f", more than {limit:g}"))
        same = len(prompts) - len(notes)
        print(f"greedy: {name} and {reference} give the same {NEW} ids to {same} of {len(prompts)} prompts"
              + (f"; first differences: {'; '.join(notes)}" if notes else ""))
    return agree


def check_scores(session: Session) -> bool:
    """Log-probabilities and top ids of the same sequences."""
    sequences = session.prompts(2, SCORE_LENGTH)
    named = [name for name in ("transformers", "ours", "vllm") if name in session.engines]
    answers = {name: session.ask(name, do="score", sequences=sequences, k=TOP) for name in named}
    reference, *rest = named
    agree = True
    for name in rest:
        limit = max(SCORE_TOLERANCE[name], SCORE_TOLERANCE.get(reference, 0.0))
        worst, outside, positions = 0.0, 0, 0
        for engine in (reference, name):
            if [len(row) for row in answers[engine]["logprobs"]] != [SCORE_LENGTH - 1] * len(sequences):
                raise EngineError(f"{engine}: a sequence of {SCORE_LENGTH} tokens must have {SCORE_LENGTH - 1} scores.")
        for row, token in itertools.product(range(len(sequences)), range(SCORE_LENGTH - 1)):
            one, two = (answers[engine]["logprobs"][row][token] for engine in (reference, name))
            worst = max(worst, abs(one - two))
            ours, theirs = (answers[engine]["top_ids"][row][token] for engine in (reference, name))
            if len(theirs) != TOP:
                raise EngineError(f"{name}: {len(theirs)} top ids instead of {TOP}.")
            outside += len(set(ours) - set(theirs))
            positions += 1
        # At the edge of the top ids rounding decides; one in a hundred positions is far more than it explains.
        here = worst < limit and outside <= positions // 100
        agree = agree and here
        print(f"scores: {name} within {worst:.1e} of {reference} on {positions} tokens; {outside} of {positions * TOP} top ids differ"
              + ("" if here else ", too many or too far"))
    return agree


# What is measured. Each function gives its rows, for the engines that run.

def decode_rows(session: Session, names: list[str], rounds: int, batches: list[int]) -> list[Row]:
    peers = [peer for peer in ("vllm", "llama", "transformers") if f"decode-{peer}" in names and peer in session.engines]
    rows: list[Row] = []
    for batch in batches if peers else []:
        engines = ["ours", *peers]
        for name in engines:
            session.generate(name, session.prompts(batch, PROMPT), 4)  # buffers of this size
        rates = session.in_turns(f"decode {batch}", rounds,
                                 {name: lambda name=name: session.decode_rate(name, batch) for name in engines})
        for peer in peers:
            target = DECODE_TARGETS.get(peer, {}).get(batch)
            rows.append(Row(f"decode-{peer}", f"decode, {batch} sequence{'s' * (batch > 1)} ÷ {LABELS[peer]}",
                            statistics.median(rates["ours"]), statistics.median(rates[peer]), "tokens/s",
                            divide(rates["ours"], rates[peer]), f">= {target:g}" if target else ""))
    return sorted(rows, key=lambda row: NAMES.index(row.name))


def capture_row(session: Session, rounds: int) -> Row:
    """The same prompts with and without capture, so that the ids can be compared."""
    with_top: list[float] = []
    without: list[float] = []
    session.generate("ours", session.prompts(CAPTURE_SEQUENCES, PROMPT), 4, k=TOP)
    for number in range(rounds):
        prompts = session.prompts(CAPTURE_SEQUENCES, PROMPT)
        ids = {}
        for k, seconds in ((0, without), (TOP, with_top)) if number % 2 == 0 else ((TOP, with_top), (0, without)):
            answer = session.generate("ours", prompts, NEW, k=k)
            seconds.append(answer["seconds"])
            ids[k] = answer["ids"]
        if ids[0] != ids[TOP]:
            raise EngineError("ours: generation with capture gave other ids than without.")
    return Row("capture", f"generate with top-{TOP} ÷ without, {CAPTURE_SEQUENCES} sequences", statistics.median(with_top),
               statistics.median(without), "s", divide(with_top, without), "<= 1.05")


def score_rows(session: Session, names: list[str], rounds: int) -> list[Row]:
    def seconds(name: str, **more: Any) -> float:
        return float(session.ask(name, do="score", sequences=session.prompts(SCORE_SEQUENCES, SCORE_LENGTH), k=TOP, **more)["seconds"])

    asks: dict[str, Callable[[], float]] = {"ours": lambda: seconds("ours")}
    if "score-transformers" in names and "transformers" in session.engines:
        asks["transformers, one by one"] = lambda: seconds("transformers", together=False)
        asks["transformers, together"] = lambda: seconds("transformers", together=True)
    if "score-vllm" in names and "vllm" in session.engines:
        asks["vllm"] = lambda: seconds("vllm")
    if len(asks) == 1:
        return []
    for ask in asks.values():
        ask()
    values = session.in_turns("score", rounds, asks)
    rows = []
    ways = [values.pop(way) for way in list(values) if way.startswith("transformers")]
    if ways:
        rows.append(("transformers", list(map(min, *ways)), 0.80))
    if "vllm" in values:
        rows.append(("vllm", values["vllm"], 0.85))
    return [Row(f"score-{peer}", f"score {SCORE_SEQUENCES} x {SCORE_LENGTH} tokens, top-{TOP} ÷ {LABELS[peer]}",
                statistics.median(values["ours"]), statistics.median(theirs), "s", divide(values["ours"], theirs),
                f"<= {target:g}") for peer, theirs, target in rows]


def sharing_row(session: Session, rounds: int) -> Row:
    """Seconds that a shared prompt saves, beside the prefill of what was not computed."""
    saved: list[float] = []
    prefill: list[float] = []
    for number in range(rounds + 1):  # the first one warms up
        prompts = session.prompts(SHARE_PROMPTS, SHARE_LENGTH)
        apart_prompts = [prompt for prompt in prompts for _ in range(SHARE_N)]
        fresh = session.prompts(SHARE_PROMPTS * (SHARE_N - 1), SHARE_LENGTH)
        new = SHARE_NEW if number else 4
        asks = [lambda: session.generate("ours", prompts, new, n=SHARE_N), lambda: session.generate("ours", apart_prompts, new, n=1),
                lambda: session.generate("ours", fresh, 1, n=1)]
        answers: dict[int, dict[str, Any]] = {}
        for i in ((0, 1, 2), (2, 1, 0))[number % 2]:
            answers[i] = asks[i]()
        if [ids[0] for ids in answers[0]["ids"]] != [ids[0] for ids in answers[1]["ids"]]:
            raise EngineError("ours: shared prompts gave other first tokens than prompts apart.")
        if number:
            saved.append(answers[1]["seconds"] - answers[0]["seconds"])
            prefill.append(answers[2]["seconds"])
            print(f"  sharing, round {number}: shared {answers[0]['seconds']:.2f}, apart {answers[1]['seconds']:.2f}, "
                  f"prefill {prefill[-1]:.2f}", file=sys.stderr, flush=True)
    return Row("sharing", f"saved by sharing {SHARE_PROMPTS} x {SHARE_N} prompts of {SHARE_LENGTH} ÷ prefill",
               statistics.median(saved), statistics.median(prefill), "s", divide(saved, prefill), ">= 0.9")


def stage_row(session: Session, rounds: int) -> Row:
    states: set[int] = set()

    def seconds(rescore: bool) -> float:
        answer = session.ask("ours", do="stage", prompts=session.prompts(STAGE_PROMPTS, PROMPT), n=STAGE_N, new=STAGE_NEW, k=TOP,
                             rescore=rescore)
        states.add(answer["states"])
        return float(answer["seconds"])

    values = session.in_turns("stage", rounds, {"capture": lambda: seconds(False), "rescore": lambda: seconds(True)})
    if len(states) != 1 or not all(states):
        raise EngineError(f"ours: the scoring stages had {sorted(states)} states; they must be equal, and some.")
    return Row("stage", f"scoring stage with capture ÷ rescoring, {STAGE_PROMPTS * STAGE_N} x {STAGE_NEW}",
               statistics.median(values["capture"]), statistics.median(values["rescore"]), "s",
               divide(values["capture"], values["rescore"]), "<= 0.55")


LABELS = {"vllm": "vLLM", "llama": "llama.cpp", "transformers": "transformers"}
MODULES = {"vllm": "vllm", "llama": "llama_cpp", "transformers": "transformers"}


def start_engines(args: argparse.Namespace, wanted: list[str], config: dict[str, Any], work: pathlib.Path,
                  stack: contextlib.ExitStack) -> dict[str, Engine]:
    """Ours and the peers that are wanted and there."""
    cores = sorted(os.sched_getaffinity(0))[:args.threads]
    if len(cores) < args.threads:
        sys.exit(f"--threads {args.threads}: this process may use {len(cores)} cores only.")
    engines: dict[str, Engine] = {}

    def add(name: str, engine: Engine) -> None:
        stack.callback(engine.end)
        engines[name] = engine

    add("ours", LineEngine("ours", [args.engine_bench, args.model, "--threads", str(args.threads)], work / "ours.log"))
    for name in wanted:
        python = getattr(args, name)
        if not python:
            print(f"{LABELS[name]} is skipped: no interpreter is named for it (--{name}).")
            continue
        probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{MODULES[name]}') is None)"
        try:
            there = subprocess.run([python, "-c", probe], capture_output=True).returncode == 0
        except OSError:
            there = False
        if not there:
            print(f"{LABELS[name]} is skipped: {python} has no {MODULES[name]}.")
            continue
        if name == "vllm":
            add(name, Vllm(python, args.model, cores, min(2048, config["max_position_embeddings"]), work / "vllm.log"))
        elif name == "llama":
            gguf = work / "model.gguf"
            subprocess.run([python, HERE / "write_gguf.py", args.model, gguf], check=True, stdout=subprocess.DEVNULL)
            add(name, LineEngine("llama.cpp", [python, str(HERE / "engine_llama.py"), str(gguf), str(args.threads)], work / "llama.log"))
        else:
            add(name, LineEngine("transformers", [python, str(HERE / "engine_transformers.py"), args.model, str(args.threads)],
                                 work / "transformers.log", {"HF_HUB_OFFLINE": "1"}))
    for engine in engines.values():
        if isinstance(engine, Vllm):
            engine.wait_until_up()
    return engines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine_bench")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", default="1,4,16,32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=list(NAMES), metavar="NAME", help=f"of {', '.join(NAMES)}; a beginning will do")
    parser.add_argument("--skip", default="", metavar="ENGINE,...", help="of vllm, llama, transformers")
    parser.add_argument("--vllm", default=os.environ.get("PEERS_VLLM"), metavar="PYTHON")
    parser.add_argument("--llama", default=os.environ.get("PEERS_LLAMA"), metavar="PYTHON")
    parser.add_argument("--transformers", default=os.environ.get("PEERS_PYTHON"), metavar="PYTHON")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    args.batches = [int(size) for size in args.batches.split(",")]
    args.skip = [name for name in args.skip.split(",") if name]
    for name in args.skip:
        if name not in LABELS:
            parser.error(f"--skip {name}: not one of {', '.join(LABELS)}")
    for name in args.only:
        if not any(known.startswith(name) for known in NAMES):
            parser.error(f"--only {name}: not one of {', '.join(NAMES)}")
    if args.rounds < 1 or min(args.batches) < 1:
        parser.error("rounds and batches are 1 or more")
    if not os.access(args.engine_bench, os.X_OK):
        parser.error(f"{args.engine_bench}: no program there")
    args.names = [known for known in NAMES if known.startswith(tuple(args.only))]
    return args


def measure(session: Session, args: argparse.Namespace) -> list[Row]:
    parts: dict[str, Callable[[], list[Row]]] = {
        "decode": lambda: decode_rows(session, args.names, args.rounds, args.batches),
        "capture": lambda: [capture_row(session, args.rounds)],
        "score": lambda: score_rows(session, args.names, args.rounds),
        "sharing": lambda: [sharing_row(session, args.rounds)],
        "stage": lambda: [stage_row(session, args.rounds)]}
    rows: list[Row] = []
    for part, work in parts.items():
        if any(name.startswith(part) for name in args.names):
            session.clear_load()
            rows += [dataclasses.replace(row, others=session.load()) for row in work()]
    return rows


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    args = arguments()
    # transformers is the reference of what is computed, whatever is timed.
    peers = [peer for peer in LABELS if peer not in args.skip
             and (peer == "transformers" or any(name.endswith(peer) for name in args.names))]
    with contextlib.ExitStack() as stack:
        work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = json.loads((pathlib.Path(args.model) / "config.json").read_text())
        session = Session(start_engines(args, peers, config, work, stack), config["vocab_size"])
        about = {name: engine.ask({"do": "info"}) for name, engine in session.engines.items()}
        print(f"{args.threads} threads, {args.rounds} rounds; " + "; ".join(
            f"{name} {info.get('version', info.get('cpu', ''))}".strip() for name, info in about.items()))
        session.find_busy()
        if not (check_greedy(session) & check_scores(session)):
            sys.exit("The engines do not compute the same: nothing was timed.")
        rows = measure(session, args)
        if not rows:
            sys.exit("Nothing was measured: every peer that it needs is skipped.")

    print(f"\n{'what':52} {'ours':>9} {'peer':>9} {'':9} {'ratio [range]':24} target")
    for row in rows:
        print(row.line())
        report(row.what, LABELS.get(row.name.rpartition("-")[2], "ourselves"), row.target,
               spread(row.ratios) + " (busy)" * row.busy, row.met, "÷")
    busiest = max(row.others for row in rows)
    print(f"\nWhat else ran used up to {busiest:.2f} cores." + (
        f" More than {BUSY:g} is too much: rows marked busy prove nothing." if busiest > BUSY else ""))
    if args.json:
        summary = {"model": pathlib.Path(args.model).name, "threads": args.threads, "rounds": args.rounds, "engines": about,
                  "idle_share": session.idle, "load_average": os.getloadavg(),
                  "rows": [{**dataclasses.asdict(row), "ratio": row.ratio, "met": row.met, "busy": row.busy} for row in rows]}
        pathlib.Path(args.json).write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    short = [row.what for row in rows if row.met is False]
    if busiest > BUSY:
        sys.exit("The machine was busy; measure again when it is not.")
    if short:
        sys.exit(f"Short of the target: {'; '.join(short)}.")


if __name__ == "__main__":
    try:
        main()
    except EngineError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
