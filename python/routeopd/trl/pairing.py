# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped"
"""What is read of a student and its teacher before the first step: whether they fit, real ids, how logits are made."""

from __future__ import annotations

import copy
import logging
from typing import Any

from .._compatible import compatible
from .._head import HeadArguments

__all__ = ["check_pair", "head_arguments", "real_ids_of", "teacher_tokenizer"]

_log = logging.getLogger(__name__)


def head_arguments(config: Any, real_ids: int) -> HeadArguments:
    """How a model's own forward makes logits of its head's products, as its configuration says.

    The bias is not among them: it belongs to the head's module.
    """
    config = config.get_text_config()
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


def _rows(model: Any) -> int:
    """Rows of a model's head, its padding included."""
    return int(model.config.get_text_config().vocab_size)


def real_ids_of(tokenizer: Any, student: Any, teacher: Any) -> int:
    """Ids that are tokens: the tokenizer's. Rows of a head beyond them are padding."""
    tokens: dict[str, int] = tokenizer.get_vocab()
    return min(1 + max(tokens.values()), _rows(student), _rows(teacher))


def teacher_tokenizer(name: str, trust_remote_code: bool, revision: str | None) -> Any:
    """The tokenizer that lies beside a teacher's weights; None where there is none."""
    from transformers import AutoTokenizer

    if not name:
        return None
    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code, revision=revision)
    except (OSError, ValueError, KeyError):  # no files, or none that name a tokenizer
        return None


def check_pair(tokenizer: Any, student: Any, other: Any, teacher: Any) -> None:
    """Raises ValueError unless an id means the same to both models; ``other`` is the teacher's tokenizer, or None."""
    if other is None:
        ours, theirs = _rows(student), _rows(teacher)
        if ours != theirs:
            raise ValueError(
                f"teacher_model: its vocabulary has {theirs} rows and the student's {ours}, and no tokenizer was found "
                f"beside it; give it as teacher_processing_class, so that the two can be compared"
            )
        _log.warning("routeopd: no tokenizer was found beside the teacher, so it is taken to be the student's")
        return
    if tokenizer.pad_token in other.get_vocab() and other.pad_token != tokenizer.pad_token:
        # TRL gives the student's tokenizer a padding token where it has none; padding takes no part in the loss.
        other = copy.deepcopy(other)
        other.pad_token = tokenizer.pad_token
    compatible(tokenizer, other, student_model=student, teacher_model=teacher).raise_if_not()
