#!/usr/bin/env python3
"""widen_heads.py FROM TO: a Qwen3 directory with heads of 32 that computes what one with heads of 16 does.

vLLM 0.32 for CPUs has no attention for heads of 16, which the laboratory's base model has. Dimension i of a head goes to
2i and i + 8 to 2i + 16, where rotary embeddings have the same frequencies; the other dimensions are zero. The norms of
queries and keys then divide by a root mean square that is smaller by sqrt(2), so their weights are, too; queries are
scaled up by sqrt(2) for attention's own 1/sqrt(32). The norms' epsilon counts twice: 5e-7 of a value.
SPDX-License-Identifier: Apache-2.0
"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

source, target = map(Path, sys.argv[1:3])
config = json.loads((source / "config.json").read_text())
assert config["model_type"] == "qwen3" and config["head_dim"] == 16, "expected Qwen3 with heads of 16"
places = np.concatenate([np.arange(0, 16, 2), np.arange(0, 16, 2) + 16])
target.mkdir(parents=True, exist_ok=True)
for file in source.iterdir():
    if file.suffix == ".json" or file.suffix == ".jinja":
        shutil.copy(file, target)


def widen(matrix):  # [heads * 16, n] to [heads * 32, n]
    heads = matrix.reshape(-1, 16, matrix.shape[1])
    wide = np.zeros((heads.shape[0], 32, heads.shape[2]), matrix.dtype)
    wide[:, places] = heads
    return wide.reshape(-1, matrix.shape[1])


weights = load_file(source / "model.safetensors")
for name, value in weights.items():
    if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
        weights[name] = widen(value)
    elif name.endswith("o_proj.weight"):
        weights[name] = np.ascontiguousarray(widen(np.ascontiguousarray(value.T)).T)
    elif name.endswith(("q_norm.weight", "k_norm.weight")):
        wide = np.zeros(32, value.dtype)
        wide[places] = value / np.sqrt(2) * (np.sqrt(2) if "q_norm" in name else 1)
        weights[name] = wide
save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
config["head_dim"] = 32
(target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
