#!/usr/bin/env python3
"""transformers on a CPU in float32 behind the requests of engines.py, one JSON object a line.

    python engine_transformers.py MODEL_DIR THREADS

`generate` is model.generate with its KV cache. `score` is forward, log_softmax and topk; `"together": true` puts all
sequences through one forward, otherwise each has its own. Written for torch 2.13.0 and transformers 5.22.2.
"""
from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList


class Clock(StoppingCriteria):
    """Notes when each new token was there; never stops."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self.times.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


def generate(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    prompts = torch.tensor(request["prompts"])
    clock = Clock()
    start = time.perf_counter()
    out = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False, max_new_tokens=request["new"],
                         stopping_criteria=StoppingCriteriaList([clock]))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "first_seconds": clock.times[0] - start, "ids": out[:, prompts.shape[1]:].tolist()}


def score(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    sequences = request["sequences"]
    step = len(sequences) if request.get("together") else 1
    seconds = 0.0
    logprobs: list[list[float]] = []
    top_ids: list[list[list[int]]] = []
    for at in range(0, len(sequences), step):
        ids = torch.tensor(sequences[at:at + step])
        start = time.perf_counter()
        every = torch.log_softmax(model(ids, use_cache=False).logits, -1)
        top = every.topk(request["k"], -1)
        seconds += time.perf_counter() - start
        taken = every[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
        logprobs += taken.tolist()
        top_ids += top.indices[:, :-1].tolist()
        del every, top
    return {"seconds": seconds, "logprobs": logprobs, "top_ids": top_ids}


def main() -> None:
    directory, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None  # goes on after it, as the others do
    model.generation_config.pad_token_id = 0
    info = {"version": transformers.__version__, "torch": torch.__version__, "threads": torch.get_num_threads(),
            "weights": "float32", "attention": model.config._attn_implementation}
    answers = {"generate": generate, "score": score, "info": lambda *_: info}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with torch.inference_mode():
                answer = answers[request["do"]](model, request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
