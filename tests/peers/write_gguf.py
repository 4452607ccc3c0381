#!/usr/bin/env python3
"""A Hugging Face Llama directory as an F32 GGUF file, for llama.cpp to compute with the very same weights.

    python write_gguf.py MODEL_DIR OUT.gguf

No tokenizer is written: what reads it here speaks in ids. Weights of F32, BF16 or F16 are widened, never rounded. Needs
numpy and gguf. Refuses what it does not know: other architectures, scaled rotary embeddings, biases.
"""
from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import gguf
import numpy as np

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def read_tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Every tensor of a safetensors file, as float32."""
    data = np.memmap(path, np.uint8, "r")
    size = int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:8 + size].tobytes())
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end].tobytes()
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        elif entry["dtype"] in ("F32", "F16"):
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]).astype(np.float32)
        else:
            sys.exit(f"{path}: {name} is {entry['dtype']}, not F32, BF16 or F16.")
        found[name] = values.reshape(entry["shape"])
    return found


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key projection: from halves that rotate together (transformers) to pairs (llama.cpp)."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def target_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if name.endswith(".weight") and stem in OUTER:
        return OUTER[stem] + ".weight"
    if stem.startswith("model.layers."):
        layer, _, part = stem.removeprefix("model.layers.").partition(".")
        if name.endswith(".weight") and part in NAMES:
            return f"blk.{layer}.{NAMES[part]}.weight"
    sys.exit(f"{name}: not a tensor of a plain Llama.")


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: write_gguf.py MODEL_DIR OUT.gguf")
    directory = pathlib.Path(sys.argv[1])
    config: dict[str, Any] = json.loads((directory / "config.json").read_text())
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if config["architectures"] != ["LlamaForCausalLM"] or rope.get("rope_type", "default") != "default":
        sys.exit(f"{directory}: only Llama with plain rotary embeddings.")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads

    writer = gguf.GGUFWriter(sys.argv[2], "llama")
    writer.add_name(directory.name)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(rope.get("rope_theta") or config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_tokenizer_model("none")

    tensors: dict[str, np.ndarray] = {}
    for file in sorted(directory.glob("*.safetensors")):
        tensors |= read_tensors(file)
    if config.get("tie_word_embeddings") and "lm_head.weight" in tensors:  # either name may hold the one matrix
        tensors.setdefault("model.embed_tokens.weight", tensors.pop("lm_head.weight"))
    for name, values in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            values = interleave(values, heads if name.endswith("q_proj.weight") else kv_heads)
        writer.add_tensor(target_name(name), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{sys.argv[2]}: {len(tensors)} tensors, float32")


if __name__ == "__main__":
    main()
