# SPDX-License-Identifier: Apache-2.0
"""One update of verl's actor with RouteOPD beside one with verl's own forward_kl_topk: the same engine, batch and
optimizer, interleaved; a body of 2 layers and d = 128 under a head of 151,936 rows.

    PYTHONPATH=python:python/tests/integrations python python/bench/verl_update.py

Both take the teacher's top 32 as its server sends them; ours makes its routes anew in every update, as on a first one.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

os.environ["ROUTEOPD_OPTIONS"] = json.dumps({"k": 32, "m": 2})

import torch
import transformers
from verl_lab import STUDENT, batch, engine_of, loss_of, ready

V, K = 151_936, 32


def small_model(folder):
    config = transformers.Qwen3Config(
        vocab_size=V, hidden_size=128, intermediate_size=320, num_hidden_layers=2, num_attention_heads=4, head_dim=32,
        num_key_value_heads=2, max_position_embeddings=4096, tie_word_embeddings=True, eos_token_id=0,
    )  # fmt: skip
    transformers.Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(STUDENT)
    tokenizer.add_tokens([f"<{i}>" for i in range(V - len(tokenizer))])  # every row of the head is a token
    tokenizer.save_pretrained(folder)
    return str(folder)


def the_batch(B, P, R):
    ids = torch.randint(0, V, (B, P + R))
    mask = torch.ones_like(ids)
    values, top = torch.randn(B, P + R, 4096).log_softmax(-1).topk(K, -1)
    top = (top * 37 + torch.randint(0, 37, top.shape)).clamp(max=V - 1)
    return batch(ids, mask, mask[:, P:], top, values, P)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--response", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        engine = engine_of(path=small_model(pathlib.Path(folder) / "model"), micro=2)
    data = ready(the_batch(given.sequences, given.prompt, given.response), micro=2)
    modes = {"ours": loss_of("routeopd", K), "forward_kl_topk": loss_of("forward_kl_topk", K)}
    walls, cpus = {name: [] for name in modes}, {name: [] for name in modes}
    for turn in range(given.rounds + 1):
        for name, loss in modes.items():
            wall, cpu = time.perf_counter(), time.process_time()
            with engine.train_mode():
                engine.train_batch(data.copy(), loss)
            if turn:
                walls[name].append(time.perf_counter() - wall)
                cpus[name].append(time.process_time() - cpu)
    for what, seconds in (("wall", walls), ("cpu", cpus)):
        median = {name: statistics.median(values) for name, values in seconds.items()}
        ratios = [a / b for a, b in zip(seconds["ours"], seconds["forward_kl_topk"], strict=True)]
        print(
            f"{what:4}  ours {median['ours']:.3f} s  forward_kl_topk {median['forward_kl_topk']:.3f} s  "
            f"ratio {statistics.median(ratios):.3f} (of pairs {min(ratios):.3f} to {max(ratios):.3f})"
        )


if __name__ == "__main__":
    main()
