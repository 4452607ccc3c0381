# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped"
"""Which parts of TRL the plug-in relies on, and the refusal where one of them is not there."""

from __future__ import annotations

import inspect

TESTED = ("1.16.0",)
"""Versions of TRL that the tests ran with."""

try:
    import trl
    from trl.models import prepare_deepspeed
    from trl.trainer.utils import create_model_from_path, get_config_model_id
except ImportError as error:
    raise ImportError(f"routeopd.trl: {error}; install TRL, `pip install trl=={TESTED[-1]}`") from error

__all__ = ["TESTED", "check_instance", "create_model_from_path", "get_config_model_id", "prepare_deepspeed", "trl"]

# Methods that are overridden or called, with the names of the arguments that are given to them.
_METHODS = {
    "_generate_and_score_completions": ("inputs",),
    "_prepare_inputs": ("generation_batch",),
    "_get_train_sampler": ("dataset",),
    "_get_last_hidden_state": ("unwrapped_model", "input_ids", "attention_mask", "logits_to_keep"),
    "compute_loss": ("model", "inputs", "return_outputs", "num_items_in_batch"),
    "_compute_loss": ("unwrapped_student", "inputs", "num_items_in_batch"),
    "log": ("logs", "start_time"),
}
_ATTRIBUTES = ("_forward_redirection", "_metrics", "_step", "_buffered_inputs", "_tokenizer", "_is_vlm")


def _refusal(hook: str) -> str:
    return (
        f"routeopd.trl: TRL {trl.__version__} has no {hook}, which the plug-in relies on; versions known to work: "
        f"{', '.join(TESTED)}"
    )


def check_class(trainer: type) -> None:
    """Raises ImportError with the name of the first method that is missing, or takes other arguments."""
    for name, arguments in _METHODS.items():
        method = getattr(trainer, name, None)
        if method is None:
            raise ImportError(_refusal(f"{trainer.__name__}.{name}"))
        known = list(inspect.signature(method).parameters)[1:]
        if known[: len(arguments)] != list(arguments):
            raise ImportError(_refusal(f"{trainer.__name__}.{name}(self, {', '.join(arguments)})"))


def check_instance(trainer: object) -> None:
    """Raises ImportError with the name of the first attribute that TRL's constructor did not set."""
    for name in _ATTRIBUTES:
        if not hasattr(trainer, name):
            raise ImportError(_refusal(f"DistillationTrainer.{name}"))


def base_classes() -> tuple[type, type]:
    """TRL's configuration and trainer; ImportError where a hook is missing."""
    for name in ("DistillationConfig", "DistillationTrainer"):
        if not hasattr(trl, name):
            raise ImportError(_refusal(name))
    check_class(trl.DistillationTrainer)
    return trl.DistillationConfig, trl.DistillationTrainer
