#!/usr/bin/env python3
"""llama.cpp behind the requests of engines.py, one JSON object a line.

    python engine_llama.py MODEL.gguf THREADS

Uses llama-cpp-python's low-level interface: all sequences of a request are decoded together, one llama_batch a step, each
with a KV cache of its own in llama.cpp's default type (F16). Only `generate` and `info`. Written for llama-cpp-python 0.3.36.
"""
from __future__ import annotations

import ctypes
import json
import sys
import time
from importlib.metadata import version
from typing import Any

import llama_cpp as llama
import numpy as np

MAX_BATCH = 2048  # tokens in one llama_decode
ERROR = 4  # GGML_LOG_LEVEL_ERROR


@llama.llama_log_callback
def only_errors(level: int, text: bytes, _data: Any) -> None:
    if level == ERROR:
        sys.stderr.write(text.decode(errors="replace"))


class Model:
    def __init__(self, path: str, threads: int) -> None:
        self.threads = threads
        self.handle = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        if not self.handle:
            sys.exit(f"{path}: llama.cpp cannot load it.")
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.handle))
        self.batch = llama.llama_batch_init(MAX_BATCH, 0, 1)
        self.context: Any = None
        self.shape = (0, 0)

    def prepare(self, sequences: int, length: int) -> None:
        """An empty context; one of the same shape is used again."""
        length = (length + 255) // 256 * 256
        if self.shape != (sequences, length):
            if self.context:
                llama.llama_free(self.context)
            params = llama.llama_context_default_params()
            params.n_seq_max = sequences
            params.n_ctx = sequences * length
            params.n_batch = params.n_ubatch = MAX_BATCH
            params.n_threads = params.n_threads_batch = self.threads
            params.kv_unified = False
            self.context = llama.llama_init_from_model(self.handle, params)
            if not self.context:
                raise RuntimeError(f"no context for {sequences} sequences of {length}")
            self.shape = (sequences, length)
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def greedy(self, rows: list[tuple[int, int, int, bool]]) -> list[int]:
        """Computes rows of (token, position, sequence, wanted); the best next id of each wanted row, in order."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, wanted
            batch.seq_id[i][0] = sequence
        status = llama.llama_decode(self.context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode answered {status}")
        wanted_rows = sum(row[3] for row in rows)
        logits = np.ctypeslib.as_array(llama.llama_get_logits(self.context), (wanted_rows, self.vocabulary))
        return [int(i) for i in logits.argmax(-1)]

    def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        prompts, new = request["prompts"], request["new"]
        count, length = len(prompts), len(prompts[0])
        self.prepare(count, length + new)
        start = time.perf_counter()
        last: list[int] = []
        group = max(1, MAX_BATCH // length)
        for at in range(0, count, group):
            last += self.greedy([(token, position, at + s, position == length - 1)
                                 for s, prompt in enumerate(prompts[at:at + group]) for position, token in enumerate(prompt)])
        first = time.perf_counter()
        steps = [last]
        for position in range(length, length + new - 1):
            steps.append(self.greedy([(token, position, s, True) for s, token in enumerate(steps[-1])]))
        end = time.perf_counter()
        return {"seconds": end - start, "first_seconds": first - start, "ids": [list(ids) for ids in zip(*steps)]}


def main() -> None:
    path, threads = sys.argv[1], int(sys.argv[2])
    llama.llama_log_set(only_errors, ctypes.c_void_p(0))
    llama.llama_backend_init()
    model = Model(path, threads)
    info = {"version": version("llama-cpp-python"), "threads": threads, "weights": "float32", "kv": "float16",
            "system": llama.llama_print_system_info().decode()}
    answers = {"generate": model.generate, "info": lambda _: info}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = answers[request["do"]](request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
