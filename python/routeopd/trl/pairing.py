# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped"
"""What is read of a student and its teacher before the first step: whether they fit."""

from __future__ import annotations

import copy
import logging
from typing import Any

from .._compatible import compatible

__all__ = ["check_pair", "rows_of", "teacher_tokenizer"]

_log = logging.getLogger(__name__)


def rows_of(model: Any) -> int:
    """Rows of a model's head, its padding included."""
    return int(model.config.get_text_config().vocab_size)


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
        ours, theirs = rows_of(student), rows_of(teacher)
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
