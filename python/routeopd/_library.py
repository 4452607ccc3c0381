# SPDX-License-Identifier: Apache-2.0
"""Loads the C++ operators and gives them what LibTorch's stable ABI leaves to Python.

That is: shapes for tracing (fake kernels), gradients, and an implementation in torch operations for tensors that
are not on the CPU (``_composite``). After this module is imported, ``torch.ops.routeopd`` is complete.

Shapes: T tokens, M pairs per token, G ids per token, H hidden size, V rows of the weight, W columns of the support.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
from typing import Any

import torch
from torch import Tensor

from . import _composite, _triton

# A build that is not installed, such as the tests', names its library.
_FILE = os.environ.get("ROUTEOPD_OPERATORS") or str(pathlib.Path(__file__).with_name("_operators.so"))
_ERROR_MARK = "routeopd: "

try:
    torch.ops.load_library(_FILE)
except OSError as error:
    raise ImportError(
        f"routeopd: {_FILE} cannot be loaded ({error}); expected torch 2.10 or newer, and here it is "
        f"{torch.__version__}: reinstall the package, or run `pip install ./python` in a clone"
    ) from error

_c = ctypes.CDLL(_FILE)
for _name in ("routeopd_options", "routeopd_option_help"):
    getattr(_c, _name).restype = ctypes.c_char_p
_c.routeopd_options.argtypes = [ctypes.c_char_p]

ops = torch.ops.routeopd


def resolve_options(settings: dict[str, Any]) -> dict[str, Any]:
    """All settings of an objective, those given over the arm's and the defaults; ValueError as the program says."""
    answer: dict[str, Any] = json.loads(_c.routeopd_options(json.dumps(settings).encode()))
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer


def option_help() -> dict[str, Any]:
    """What each setting means (``fields``), and the names of all arms (``arms``)."""
    answer: dict[str, Any] = json.loads(_c.routeopd_option_help())
    return answer


def call(operator: Any, *arguments: Any) -> Any:
    """Calls one of our operators; what it finds wrong with its arguments is a ValueError."""
    if torch.compiler.is_compiling():
        return operator(*arguments)
    try:
        return operator(*arguments)
    except RuntimeError as error:
        sentence = str(error).split("\n", 1)[0]
        if sentence.startswith(_ERROR_MARK):
            raise ValueError(sentence[len(_ERROR_MARK) :]) from None
        raise


# ---- shapes -----------------------------------------------------------------------------------------------------


def _floats(like: Tensor, *shape: Any) -> Tensor:
    return like.new_empty(shape, dtype=torch.float32)


@torch.library.register_fake("routeopd::pair_log_odds")
def _(hidden: Tensor, weight: Tensor, source: Tensor, destination: Tensor) -> Tensor:
    return _floats(hidden, hidden.shape[0], source.shape[1])


@torch.library.register_fake("routeopd::gather_logits")
def _(hidden: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    return _floats(hidden, hidden.shape[0], ids.shape[1])


def _fake_gradients(hidden: Tensor, weight: Tensor, of_hidden: bool, of_weight: bool) -> tuple[Tensor, Tensor]:
    return (
        _floats(hidden, hidden.shape[0] if of_hidden else 0, hidden.shape[1]),
        weight.new_empty((weight.shape[0] if of_weight else 0, weight.shape[1])),
    )


@torch.library.register_fake("routeopd::pair_log_odds_backward")
def _(
    grad: Tensor, hidden: Tensor, weight: Tensor, source: Tensor, destination: Tensor, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor]:
    return _fake_gradients(hidden, weight, of_hidden, of_weight)


@torch.library.register_fake("routeopd::add_pair_gradients")
def _(grad: Tensor, hidden: Tensor, weight: Tensor, source: Tensor, destination: Tensor, grad_weight: Tensor) -> Tensor:
    return _floats(hidden, *hidden.shape)


@torch.library.register_fake("routeopd::gather_logits_backward")
def _(
    grad: Tensor, hidden: Tensor, weight: Tensor, ids: Tensor, of_hidden: bool, of_weight: bool
) -> tuple[Tensor, Tensor]:
    return _fake_gradients(hidden, weight, of_hidden, of_weight)


@torch.library.register_fake("routeopd::top_k")
def _(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    gather: Tensor | None,
    k: int,
    real_ids: int,
    logit_scale: float,
    softcap: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = hidden.shape[0]
    return (
        hidden.new_empty((rows, min(k, real_ids)), dtype=torch.int32),
        _floats(hidden, rows, min(k, real_ids)),
        _floats(hidden, rows),
        _floats(hidden, rows, 0 if gather is None else gather.shape[1]),
    )


@torch.library.register_fake("routeopd::support_loss")
def _(logits: Tensor, ids: Tensor, old: Tensor, values: Tensor, weight: Tensor, options: str) -> tuple[Tensor, Tensor]:
    return _floats(logits, logits.shape[0]), torch.empty_like(logits)


@torch.library.register_fake("routeopd::background_pool")
def _(student_ids: Tensor, address: Tensor, real_ids: int, seed: int) -> Tensor:
    return student_ids.new_empty((student_ids.shape[0], 64))


@torch.library.register_fake("routeopd::route")
def _(
    student_ids: Tensor,
    student_logits: Tensor,
    teacher_at_student: Tensor,
    teacher_ids: Tensor,
    teacher_logits: Tensor,
    student_at_teacher: Tensor,
    pool_ids: Tensor | None,
    student_at_pool: Tensor | None,
    student_lse: Tensor | None,
    teacher_lse: Tensor | None,
    validity: Tensor | None,
    address: Tensor,
    options: str,
    seed: int,
    real_ids: int,
    with_support: bool,
) -> tuple[Tensor, ...]:
    settings = json.loads(options)
    states = student_logits.shape[0]
    routed = settings["arm"] not in _UNROUTED_ARMS
    pairs = settings["m"] if routed and settings["pairs"] == "sample" else 0
    held = with_support or settings["arm"] in ("union_rkl", "union_fkl") or (routed and settings["pairs"] == "exact")
    width = student_logits.shape[1] + teacher_logits.shape[1]
    if student_ids.numel() == 0:
        width = real_ids
    columns = width if held else 0

    def ints(*shape: Any) -> Tensor:
        return student_logits.new_empty(shape, dtype=torch.int32)

    def bytes_(*shape: Any) -> Tensor:
        return student_logits.new_empty(shape, dtype=torch.uint8)

    return (
        ints(states, pairs),
        ints(states, pairs),
        _floats(student_logits, states, pairs),
        _floats(student_logits, states, pairs),
        _floats(student_logits, 8, states),
        ints(states),
        bytes_(states),
        bytes_(states),
        ints(states, columns),
        _floats(student_logits, 6, states, columns),
    )


# Arms whose loss reads no pairs.
_UNROUTED_ARMS = frozenset({"sampled_rkl", "full_rkl", "full_fkl", "union_rkl", "union_fkl", "sft"})


# ---- other devices ----------------------------------------------------------------------------------------------

for _operator in (
    "pair_log_odds",
    "pair_log_odds_backward",
    "gather_logits",
    "gather_logits_backward",
    "top_k",
    "support_loss",
):
    torch.library.register_kernel(f"routeopd::{_operator}", None, getattr(_composite, _operator))

# Triton's kernels go back to the torch operations by themselves where they cannot run.
for _operator in ("pair_log_odds", "pair_log_odds_backward", "gather_logits", "gather_logits_backward"):
    torch.library.register_kernel(f"routeopd::{_operator}", "cuda", getattr(_triton, _operator))


# ---- gradients --------------------------------------------------------------------------------------------------


def _keep_inputs(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _head_backward(ctx: Any, operator: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    hidden, weight, *ids = ctx.saved_tensors
    of_hidden, of_weight = ctx.needs_input_grad[:2]
    grad_hidden, grad_weight = operator(grad.float().contiguous(), hidden, weight, *ids, of_hidden, of_weight)
    return (
        grad_hidden.to(hidden.dtype) if of_hidden else None,
        grad_weight if of_weight else None,
        *(None for _ in ids),
    )


torch.library.register_autograd(
    "routeopd::pair_log_odds",
    lambda ctx, grad: _head_backward(ctx, ops.pair_log_odds_backward, grad),
    setup_context=_keep_inputs,
)
torch.library.register_autograd(
    "routeopd::gather_logits",
    lambda ctx, grad: _head_backward(ctx, ops.gather_logits_backward, grad),
    setup_context=_keep_inputs,
)


def _keep_slopes(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _support_backward(ctx: Any, grad: Tensor, _grad_slopes: Tensor) -> tuple[Tensor | None, ...]:
    (slopes,) = ctx.saved_tensors
    return grad.unsqueeze(1) * slopes, None, None, None, None, None


torch.library.register_autograd("routeopd::support_loss", _support_backward, setup_context=_keep_slopes)
