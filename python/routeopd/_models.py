# SPDX-License-Identifier: Apache-2.0
"""What is read of a Hugging Face model and tokenizer: how its logits are made, and which of its rows are tokens."""

from __future__ import annotations

from typing import Any

from ._head import HeadArguments

__all__ = ["head_arguments_of", "real_ids_of"]


def head_arguments_of(config: Any, real_ids: int) -> HeadArguments:
    """How a model's own forward makes logits of its head's products, as its configuration says.

    The bias is not among them: it belongs to the head's module.
    """
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    scale = None
    for name in ("logit_scale", "output_multiplier", "lm_head_multiplier"):  # each model has at most one of them
        scale = getattr(config, name, None) if scale is None else scale
    divided = getattr(config, "logits_scaling", None)
    if scale is None and divided is not None:  # Granite and MiniCPM3 divide by it, HyperCLOVA X multiplies
        scale = divided if config.model_type == "hyperclovax" else 1 / divided
    return HeadArguments(
        logit_scale=1.0 if scale is None else float(scale),
        softcap=getattr(config, "final_logit_softcapping", None),
        real_ids=real_ids,
    )


def real_ids_of(tokenizer: Any, *rows: int) -> int:
    """Ids that are tokens: the tokenizer's. Rows of a head beyond them are padding."""
    tokens: dict[str, int] = tokenizer.get_vocab()
    return min(1 + max(tokens.values()), *rows)
