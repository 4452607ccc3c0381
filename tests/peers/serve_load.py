#!/usr/bin/env python3
"""`routeopd serve` under load beside vLLM's server, in turns on one machine; and what HTTP costs beside `generate`.

    python serve_load.py PROGRAM MODEL_DIR --vllm PYTHON [--rounds 3] [--quick] [--json FILE]

Both servers hold the same float32 weights and use the same number of threads. Clients stream: each sends its next request
when the last one has ended. A request is a prompt of 64 random ids that no request before had, and 64 new tokens, greedy,
going on after an end of sequence. Both servers run all the time, only one is loaded at a time, in an order that changes
from round to round; one that works while nothing is asked is stopped meanwhile. The same prompts go to both in a round.

First both must give the same tokens: where they part, vLLM's log-probabilities of the two candidates must be as close as
rounding explains. Then, for 1, 8 and 32 clients: tokens per second from the first request to the last byte, the ratio (the
median of those of the rounds, its range beside it), and the times to the first token and to the end of a request.

Then 8 prompts at a time through our server, 8 clients, answered whole and streamed, beside the same prompts through `routeopd
generate` with its own seconds (without start and loading): the tokens must be the same, the ratios are what HTTP and streaming cost.

Exits 1 when a target is missed, when tokens differ, and when the machine was too busy to tell. Standard library only.
"""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
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
from typing import Any

import streams
from engines import EngineError, Ours, Server, Vllm, machine_seconds
from results import report, spread

PROMPT, NEW = 64, 64
TARGETS = {1: 1.5, 8: 1.5, 32: 1.25}
REQUESTS = {1: 4, 8: 3, 32: 2}  # of each client in a round
OVERHEAD, OVERHEAD_CLIENTS = 1.05, 8
TIE = 1e-3  # nats between two candidates that rounding may exchange
IDLE_SHARE = 0.01  # of one core; vLLM uses 0.02
BUSY = 0.2  # cores used by anything else
SETTLE = 0.4  # seconds between servers: OpenMP's threads spin for up to 0.2 s after their work


@dataclasses.dataclass
class Load:
    """One round of one server."""
    seconds: float
    tokens: int
    first: list[float]  # seconds to the first token, per request
    whole: list[float]
    ids: list[list[int]]
    clients_share: float  # cores that the clients used
    others: float  # cores that neither the clients nor the server used

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


@dataclasses.dataclass
class Row:
    what: str
    ours: float
    peer: float
    unit: str
    ratios: list[float]
    target: str
    others: float

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def met(self) -> bool:
        relation, bound = self.target.split()
        return bool({">=": operator.ge, "<=": operator.le}[relation](self.ratio, float(bound)))

    def line(self) -> str:
        spread = f"{self.ratio:.3f} [{min(self.ratios):.3f}, {max(self.ratios):.3f}]"
        verdict = ("ok" if self.met else "SHORT") + (" (busy)" if self.others > BUSY else "")
        return f"{self.what:42} {self.ours:9.2f} {self.peer:9.2f} {self.unit:9} {spread:24} {self.target:8} {verdict}"


class Session:
    def __init__(self, servers: dict[str, Server], vocabulary: int) -> None:
        self.servers = servers
        self.ids = range(min(100, vocabulary // 4), min(40000, vocabulary))  # neither special nor the rarest ones
        self.random = random.Random(random.SystemRandom().randrange(1 << 30))
        self.idle: dict[str, float] = {}
        self.current = ""

    def find_idle(self) -> None:
        time.sleep(1.0)
        for name, server in self.servers.items():
            self.idle[name] = server.idle_share(2.0)
        print("idle: " + ", ".join(f"{name} uses {share:.3f} of a core" + (
            " and is stopped while the other works" if share > IDLE_SHARE else "") for name, share in self.idle.items()))

    def turn(self, name: str) -> None:
        """Whose turn it is; "" is nobody's."""
        if name == self.current:
            return
        for other, server in self.servers.items():
            server.pause(other != name and self.idle.get(other, 0.0) > IDLE_SHARE)
        self.current = name
        time.sleep(SETTLE)

    def prompts(self, count: int) -> list[list[int]]:
        return [[self.random.choice(self.ids) for _ in range(PROMPT)] for _ in range(count)]

    def load(self, name: str, prompts: list[list[int]], clients: int, new: int = NEW, stream: bool = True) -> Load:
        self.turn(name)
        server = self.servers[name]
        bodies = [json.dumps({"model": "m", "prompt": prompt, "max_tokens": new, "temperature": 0, "ignore_eos": True,
                              "stream": stream, "return_token_ids": True}).encode() for prompt in prompts]
        machine, theirs, mine = machine_seconds(), server.cpu_seconds(), time.process_time()
        try:
            answers = streams.run(server.port, [bodies[client::clients] for client in range(clients)])
        except OSError as error:
            raise server.failure(str(error)) from None
        mine = time.process_time() - mine
        others = machine_seconds() - machine - (server.cpu_seconds() - theirs) - mine
        inorder = [answers[i % clients][i // clients] for i in range(len(prompts))]
        try:
            ids = [answer.ids() for answer in inorder]
        except (ValueError, KeyError) as error:
            raise server.failure(str(error)) from None
        if any(len(row) != new for row in ids):
            raise server.failure(f"{new} tokens were asked for; the lengths that came are {[len(row) for row in ids]}")
        seconds = max(answer.last for answer in inorder) - min(answer.sent for answer in inorder)
        return Load(seconds, sum(map(len, ids)), [answer.first - answer.sent for answer in inorder],
                    [answer.last - answer.sent for answer in inorder], ids, mine / seconds, max(0.0, others / seconds))


def check_greedy(session: Session) -> bool:
    """The same prompts to both; where ids part, vLLM says how close the two candidates are."""
    prompts = session.prompts(8)
    ours, theirs = (session.load(name, prompts, 4).ids for name in ("ours", "vllm"))
    agree, notes = True, []
    for prompt, one, other in zip(prompts, ours, theirs):
        at = next((t for t in range(NEW) if one[t] != other[t]), NEW)
        if at == NEW:
            continue
        ends = [prompt + one[:at] + [ids[at]] for ids in (one, other)]
        values = [row[-1] for row in session.servers["vllm"].ask({"do": "score", "sequences": ends, "k": 1})["logprobs"]]
        gap = abs(values[0] - values[1])
        agree = agree and gap < TIE
        notes.append(f"token {at}, {gap:.1e} apart" + ("" if gap < TIE else f", more than {TIE:g}"))
    print(f"greedy: both give the same {NEW} ids to {len(prompts) - len(notes)} of {len(prompts)} prompts"
          + (f"; first differences: {'; '.join(notes)}" if notes else ""))
    return agree


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def under_load(session: Session, clients: int, rounds: int, each: int) -> tuple[Row, dict[str, dict[str, Any]]]:
    for name in ("ours", "vllm"):
        session.load(name, session.prompts(clients), clients, 4)  # buffers of this size
    loads: dict[str, list[Load]] = {"ours": [], "vllm": []}
    same = 0
    for number in range(rounds):
        prompts = session.prompts(clients * each)
        for name in ("ours", "vllm") if number % 2 == 0 else ("vllm", "ours"):
            loads[name].append(session.load(name, prompts, clients))
        one, other = loads["ours"][-1], loads["vllm"][-1]
        same += sum(a == b for a, b in zip(one.ids, other.ids))
        print(f"  {clients} clients, round {number + 1}: ours {one.rate:.1f}, vLLM {other.rate:.1f} tokens/s", file=sys.stderr, flush=True)
    row = Row(f"{clients} client{'s' * (clients > 1)}, streaming", statistics.median(load.rate for load in loads["ours"]),
              statistics.median(load.rate for load in loads["vllm"]), "tokens/s",
              [a.rate / b.rate for a, b in zip(loads["ours"], loads["vllm"])], f">= {TARGETS[clients]:g}",
              max(load.others for both in loads.values() for load in both))
    about: dict[str, dict[str, Any]] = {}
    for name, both in loads.items():
        first, whole = ([value for load in both for value in getattr(load, kind)] for kind in ("first", "whole"))
        about[name] = {"clients": clients, "requests": len(whole), "same_ids": same,
                       "first_p50": percentile(first, 0.5), "first_p99": percentile(first, 0.99),
                       "whole_p50": percentile(whole, 0.5), "whole_p99": percentile(whole, 0.99),
                       "rates": [load.rate for load in both], "clients_share": max(load.clients_share for load in both)}
    return row, about


def generate(program: str, model: str, prompts: list[list[int]], work: pathlib.Path) -> tuple[float, list[list[int]], float]:
    """Seconds of `routeopd generate`, its ids, and the cores that anything else used."""
    (work / "prompts.jsonl").write_text("".join(json.dumps({"prompt_ids": prompt}) + "\n" for prompt in prompts))
    machine, own, start = machine_seconds(), os.times(), time.monotonic()
    answer = subprocess.run([program, "generate", "--model", model, "--in", work / "prompts.jsonl", "--out", work / "responses.jsonl",
                             "--temperature", "0", "--max-new", str(NEW), "--ignore-eos", "--weights", "float32", "--json", "--overwrite"],
                            text=True, capture_output=True)
    if answer.returncode != 0:
        raise EngineError(f"generate: {answer.stderr}")
    now = os.times()
    others = machine_seconds() - machine - sum(now[:4]) + sum(own[:4])  # ours and that of children that have ended
    rows = [json.loads(line) for line in (work / "responses.jsonl").read_text().splitlines()]
    return float(json.loads(answer.stdout)["seconds"]), [row["ids"] for row in rows], max(0.0, others / (time.monotonic() - start))


def overhead(session: Session, args: argparse.Namespace, work: pathlib.Path, rounds: int) -> list[Row]:
    seconds: dict[str, list[float]] = {"whole": [], "streamed": [], "generate": []}
    others = dict.fromkeys(seconds, 0.0)
    for number in range(rounds + 1):  # the first one warms up
        prompts = session.prompts(OVERHEAD_CLIENTS)
        ids: dict[str, list[list[int]]] = {}
        for way in list(seconds)[number % 3:] + list(seconds)[:number % 3]:
            if way == "generate":
                session.turn("")
                time.sleep(SETTLE)
                took, ids[way], busy = generate(args.program, args.model, prompts, work)
            else:
                load = session.load("ours", prompts, OVERHEAD_CLIENTS, stream=way == "streamed")
                took, ids[way], busy = load.seconds, load.ids, load.others
            if number:
                others[way] = max(others[way], busy)
                seconds[way].append(took)
        if any(ids[way] != ids["generate"] for way in seconds):
            raise EngineError("ours: the server gave other ids than generate.")
        if number:
            print(f"  overhead, round {number}: " + ", ".join(f"{way} {took[-1]:.2f} s" for way, took in seconds.items()),
                  file=sys.stderr, flush=True)
    return [Row(f"{OVERHEAD_CLIENTS} requests, {way} ÷ generate", statistics.median(seconds[way]), statistics.median(seconds["generate"]), "s",
                [a / b for a, b in zip(seconds[way], seconds["generate"])], f"<= {OVERHEAD:g}", max(others[way], others["generate"]))
            for way in ("whole", "streamed")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--vllm", default=os.environ.get("PEERS_VLLM"), metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", default="1,8,32", help="of 1, 8 and 32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one round, one request of each client: to try the script, not to measure")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not args.vllm:
        parser.error("no interpreter is named for vLLM (--vllm)")
    args.clients = [int(count) for count in args.clients.split(",") if count]
    if not set(args.clients) <= set(TARGETS):
        parser.error(f"--clients: expected some of {', '.join(map(str, TARGETS))}")
    if args.rounds < 1:
        parser.error("rounds are 1 or more")
    return args


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    args = arguments()
    cores = sorted(os.sched_getaffinity(0))[:args.threads]
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    rows: list[Row] = []
    latencies: list[dict[str, dict[str, Any]]] = []
    with contextlib.ExitStack() as stack:
        work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = json.loads((pathlib.Path(args.model) / "config.json").read_text())
        servers: dict[str, Server] = {
            "ours": Ours(args.program, args.model, work / "ours.log", ("--weights", "float32")),
            "vllm": Vllm(args.vllm, args.model, cores, min(2048, config["max_position_embeddings"]), work / "vllm.log")}
        for server in servers.values():
            stack.callback(server.end)
        for server in servers.values():
            server.wait_until_up()
        about = {name: server.ask({"do": "info"}) for name, server in servers.items()}
        rounds = 1 if args.quick else args.rounds
        print(f"{args.threads} threads, {rounds} rounds; " + "; ".join(f"{name} {info['version']}" for name, info in about.items()))
        session = Session(servers, config["vocab_size"])
        session.find_idle()
        if not check_greedy(session):
            sys.exit("The servers do not compute the same: nothing was timed.")
        for clients in args.clients:
            row, latency = under_load(session, clients, rounds, 1 if args.quick else REQUESTS[clients])
            rows.append(row)
            latencies.append(latency)
        rows += overhead(session, args, work, rounds if args.quick else max(7, rounds))

    print(f"\n{'what':42} {'ours':>9} {'peer':>9} {'':9} {'ratio [range]':24} target")
    for row in rows:
        print(row.line())
        report(f"server: {row.what}", "vLLM" if "clients" in row.what or "client," in row.what else "routeopd generate", row.target,
               spread(row.ratios) + " (busy)" * (row.others > BUSY), row.met, "÷")
    print(f"\n{'seconds':42} {'first p50':>10} {'p99':>8} {'whole p50':>10} {'p99':>8}")
    for latency in latencies:
        for name, label in (("ours", "ours"), ("vllm", "vLLM")):
            values = latency[name]
            print(f"{values['clients']:3} clients, {label}, {values['requests']:4} requests".ljust(42) + " " + " ".join(
                f"{values[key]:{width}.3f}" for key, width in (("first_p50", 10), ("first_p99", 8), ("whole_p50", 10), ("whole_p99", 8))))
    shares = [latency[name]["clients_share"] for latency in latencies for name in latency]
    same = [f"{latency['ours']['same_ids']} of {latency['ours']['requests']}" for latency in latencies]
    busiest = max(row.others for row in rows)
    print(f"\nThe clients took up to {max(shares, default=0.0):.3f} of a core; the same ids under load: {', '.join(same)}. "
          f"What else ran used up to {busiest:.2f} cores." + (f" More than {BUSY:g} is too much: rows marked busy prove nothing."
                                                           if busiest > BUSY else ""))
    if args.json:
        summary = {"model": pathlib.Path(args.model).name, "threads": args.threads, "rounds": rounds, "servers": about,
                  "idle_share": session.idle, "latencies": latencies,
                  "rows": [{**dataclasses.asdict(row), "ratio": row.ratio, "met": row.met} for row in rows]}
        pathlib.Path(args.json).write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    short = [row.what for row in rows if not row.met]
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
