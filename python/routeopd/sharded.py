# SPDX-License-Identifier: Apache-2.0
"""Pairs, gathers and top-k inside an LM head's own forward, where a sharded weight is whole.

Under FSDP2 and ZeRO-3 a weight is complete only between the hooks around its module's forward. Reading it elsewhere,
by ``weight.full_tensor()`` for instance, gives right values and a wrong gradient: every rank backpropagates into its
own copy, and nothing sums them. A call of the module itself runs the hooks, whatever its forward computes.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ._head import HeadArguments
from .dense import log_probs
from .heads import gather_logits, pair_log_odds
from .topk import TopK, top_k

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn
    from typing_extensions import Unpack

__all__ = ["HeadMode", "head_mode"]


class HeadMode:
    """The functions of ``routeopd.heads`` on one module's weight, each as a call of that module."""

    def __init__(self, module: nn.Module, arguments: HeadArguments) -> None:
        self._module = module
        self._arguments = arguments

    def pair_log_odds(self, hidden: Tensor, source: Tensor, destination: Tensor) -> Tensor:
        """See ``routeopd.pair_log_odds``."""
        odds: Tensor = self._module(hidden, pair_log_odds, source, destination)
        return odds

    def gather_logits(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """See ``routeopd.gather_logits``."""
        logits: Tensor = self._module(hidden, gather_logits, ids)
        return logits

    def log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """See ``routeopd.log_probs``."""
        values: Tensor = self._module(hidden, log_probs, ids)
        return values

    def top_k(self, hidden: Tensor, k: int = 32, *, gather: Tensor | None = None) -> TopK:
        """See ``routeopd.top_k``."""
        found = self._module(hidden, _top_k_tensors, k, gather)
        return TopK(
            ids=found["ids"],
            logits=found["logits"],
            logsumexp=found["logsumexp"],
            real_ids=found["real_ids"],
            gathered_ids=gather,
            gathered=found.get("gathered"),
        )

    def call(self, function: Callable[..., Any], hidden: Tensor, *arguments: Any) -> Any:
        """``function(hidden, weight, *arguments, **head)`` inside the module's forward, for several steps in one call.

        A head that shares a unit with other modules (``fully_shard([norm, lm_head])``) is resharded after each call,
        and its backward fails where a call without gradients came before one with them: take the top-k, route and
        compute the pairs in one. It also gathers the head once. Answers are tensors, or tuples and dicts of them.
        """
        return self._module(hidden, function, *arguments)

    def _forward(self, hidden: Tensor, function: Callable[..., Any] | None = None, *ids: Any) -> Any:
        if function is None:
            raise ValueError("head_mode: the module computes pairs, gathers and top-k here; leave it for plain logits")
        arguments = HeadArguments(**self._arguments)
        bias: Tensor | None = getattr(self._module, "bias", None)
        if bias is not None:
            arguments["bias"] = bias
        found = function(hidden, self._module.weight, *ids, **arguments)
        # FSDP2 hangs a hook on the output, which an in-place operation on a view would lose: it warns of views.
        return found.clone() if isinstance(found, Tensor) and found._is_view() else found


# FSDP2's hooks look for tensors in tuples, lists and dicts, not inside other objects.
def _top_k_tensors(hidden: Tensor, weight: Tensor, k: int, gather: Tensor | None, **head: Unpack[HeadArguments]) -> Any:
    found = top_k(hidden, weight, k, gather=gather, **head)
    tensors: dict[str, Any] = {
        "ids": found.ids,
        "logits": found.logits,
        "logsumexp": found.logsumexp,
        "real_ids": found.real_ids,
    }
    return tensors if found.gathered is None else tensors | {"gathered": found.gathered}


@contextlib.contextmanager
def head_mode(lm_head: nn.Module, **head: Unpack[HeadArguments]) -> Iterator[HeadMode]:
    """Within it, the module's forward computes what the methods of the answer ask for.

    >>> with head_mode(model.lm_head) as head:  # doctest: +SKIP
    ...     odds = head.pair_log_odds(hidden, routes.source, routes.destination)

    Call it inside the model's own forward (or a method that ``register_fsdp_forward_method`` knows) where the head is
    tied to the embedding or belongs to the root unit. The module's own bias is taken; ``head`` are the other arguments
    of ``pair_log_odds``.
    """
    if getattr(lm_head, "weight", None) is None:
        raise ValueError(f"lm_head: expected a module with a weight, got {type(lm_head).__name__}")
    if hasattr(lm_head, "base_layer") or hasattr(lm_head, "lora_A"):
        raise ValueError(
            f"lm_head: {type(lm_head).__name__} adds an adapter to its weight; expected a plain head: give its base "
            f"layer, and lora=LoRA(A, B, scale)"
        )
    mode = HeadMode(lm_head, head)
    replaced = lm_head.__dict__.get("forward")
    lm_head.forward = mode._forward
    try:
        yield mode
    finally:
        if replaced is None:
            del lm_head.forward
        else:
            lm_head.forward = replaced
