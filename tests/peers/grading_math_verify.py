#!/usr/bin/env python3
"""Math-Verify's side of grading.py: grades the pairs of a file once for every line of standard input.

    python grading_math_verify.py PAIRS.jsonl

The first line out names the versions; each further one is {"seconds": s, "processor": p, "verdicts": [true, ...]}, the seconds
that passed and those of the processor, without imports.
Gold and response are parsed as its documentation says for mathematics: the gold as LaTeX, the response as LaTeX or a plain
expression, boxes first; both with its own limits of time, in one process.
"""
from __future__ import annotations

import importlib.metadata
import json
import logging
import sys
import time

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

GOLD = [LatexExtractionConfig()]
RESPONSE = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]


def verdict(gold: str, response: str) -> bool:
    return bool(verify(parse(f"${gold}$", extraction_config=GOLD), parse(response, extraction_config=RESPONSE)))


def main() -> None:
    logging.disable(logging.CRITICAL)  # it warns of every answer that it cannot compare
    with open(sys.argv[1], encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    versions = {name: importlib.metadata.version(name) for name in ("math-verify", "latex2sympy2_extended", "sympy")}
    print(json.dumps({"versions": versions}), flush=True)
    for _ in sys.stdin:
        start, processor = time.perf_counter(), time.process_time()
        verdicts = [verdict(pair["gold"], pair["response"]) for pair in pairs]
        times = {"seconds": time.perf_counter() - start, "processor": time.process_time() - processor}
        print(json.dumps({**times, "verdicts": verdicts}), flush=True)


if __name__ == "__main__":
    main()
