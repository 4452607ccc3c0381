# SPDX-License-Identifier: Apache-2.0
"""A head with what real heads have beside a weight, and the checks of all that is given with it.

Shapes: T tokens, H hidden size, V rows of the weight, R <= V real ids.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from . import _composite

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclasses.dataclass(frozen=True)
class LoRA:
    """A low-rank change of a head: W + scale * B A."""

    A: Tensor  # [rank, H]
    B: Tensor  # [V, rank]
    scale: float = 1.0


class HeadArguments(TypedDict, total=False):
    """What real heads have beside a weight: z = cap(logit_scale * (h . W + bias))."""

    bias: Tensor | None  # [V]
    logit_scale: float
    softcap: float | None  # z -> softcap * tanh(z / softcap)
    real_ids: int | None  # rows [0, real_ids) are tokens; the padding after them never takes part
    lora: LoRA | None


@dataclasses.dataclass(frozen=True)
class Head:
    """A head with its arguments, checked against hidden states of shape [T, H]."""

    hidden: Tensor
    weight: Tensor
    lead: torch.Size
    bias: Tensor | None = None
    logit_scale: float = 1.0
    softcap: float = 0.0
    real_ids: int = 0
    lora: LoRA | None = None

    def kernel_checks(self, ids: Tensor) -> bool:
        """Whether the kernels look at all of these ids themselves, and a negative source hides its destination."""
        plain = self.bias is None and not self.softcap and self.real_ids == self.weight.shape[0]
        return plain and ids.device.type == "cpu" and ids.dtype == torch.int32

    def ids(self, ids: Tensor, name: str, *, kernel: bool = True) -> Tensor:
        """Ids of each token as int32 [T, columns], on the device of the hidden states; ``kernel`` will look at them."""
        if not isinstance(ids, Tensor) or ids.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name}: expected a tensor of int32 or int64, got {_said(ids)}")
        if ids.device != self.hidden.device:
            raise ValueError(f"{name}: expected {self.hidden.device}, as hidden, got {ids.device}")
        if ids.shape[:-1] != self.lead or ids.dim() != len(self.lead) + 1:
            raise ValueError(f"{name}: expected shape {shape_text((*self.lead, 'ids'))}, got {shape_text(ids.shape)}")
        flat = ids.reshape(self.hidden.shape[0], ids.shape[-1])
        if not (kernel and self.kernel_checks(flat)) and flat.numel() and can_look(flat):
            # Both bounds in one answer of the device; ids past int32 would wrap.
            low, high = torch.stack(flat.aminmax()).tolist()
            if high >= self.real_ids:
                raise ValueError(f"{name}: expected ids below {self.real_ids}, got {high}")
            if low < -(1 << 31):
                raise ValueError(f"{name}: expected ids from -2^31, got {low}")
        return flat.to(torch.int32).contiguous()

    def projected(self) -> tuple[Tensor, Tensor, float] | None:
        """LoRA's part of a logit: scale * B_i . (A h)."""
        if self.lora is None:
            return None
        dtype = _composite.sum_dtype(self.hidden, self.lora.A)
        with _composite.without_autocast(self.hidden):
            return self.hidden.to(dtype) @ self.lora.A.to(dtype).T, self.lora.B, self.lora.scale

    def capped(self, logits: Tensor) -> Tensor:
        logits = logits if self.logit_scale == 1 else logits * self.logit_scale
        return logits if self.softcap == 0 else self.softcap * torch.tanh(logits / self.softcap)


def int32_ids(ids: Tensor, name: str) -> Tensor:
    """Ids as int32. One that does not fit becomes the largest, which no vocabulary has, and not another id."""
    if not isinstance(ids, Tensor) or ids.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name}: expected a tensor of int32 or int64, got {_said(ids)}")
    return ids if ids.dtype == torch.int32 else ids.clamp(-2, (1 << 31) - 1).int()


def can_look(tensor: Tensor) -> bool:
    """Whether there are values that may be read: not while a graph is traced or captured."""
    return not (
        torch.compiler.is_compiling()
        or tensor.device.type == "meta"
        or isinstance(tensor, FakeTensor)
        or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def shape_text(shape: Any) -> str:
    return "[" + ", ".join(str(size) for size in shape) + "]"


def _said(value: object) -> str:
    return str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else type(value).__name__


def _check_floats(tensor: Tensor, name: str) -> None:
    if not isinstance(tensor, Tensor) or tensor.dtype not in _FLOATS:
        raise ValueError(f"{name}: expected a tensor of float32, bfloat16 or float16, got {_said(tensor)}")


def checked_head(hidden: Tensor, weight: Tensor, arguments: HeadArguments) -> Head:
    """Checks what all heads are given; hidden states are flattened to [T, H]."""
    _check_floats(hidden, "hidden")
    _check_floats(weight, "weight")
    for tensor, name in ((hidden, "hidden"), (weight, "weight")):
        # A DTensor, or what its full_tensor() gave without grad_placements; told without importing torch.distributed.
        made_by = tensor.grad_fn
        gathered = type(made_by).__name__ == "_ToTorchTensorBackward" and not getattr(made_by, "grad_placements", None)
        if hasattr(tensor, "full_tensor") or gathered:
            raise ValueError(
                f"{name}: it is sharded (a DTensor, or full_tensor() of one), and its gradient would be wrong here; "
                f"compute inside the module's own forward, with routeopd.head_mode(lm_head)"
            )
    if weight.numel() == 0 and hasattr(weight, "ds_id"):
        raise ValueError(
            "weight: DeepSpeed has it in parts here; compute inside the module's own forward, with "
            "routeopd.head_mode(lm_head)"
        )
    known = HeadArguments.__annotations__
    for name in arguments:
        if name not in known:
            raise ValueError(f"{name}: unknown argument of a head; expected one of {', '.join(known)}")
    if hidden.dim() < 1 or weight.dim() != 2 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"hidden and weight: expected shapes [..., H] and [V, H], got {shape_text(hidden.shape)} and "
            f"{shape_text(weight.shape)}"
        )
    if weight.device != hidden.device:
        raise ValueError(f"weight: expected {hidden.device}, as hidden, got {weight.device}")
    rows = weight.shape[0]
    if rows < 1 or weight.shape[1] < 1:
        raise ValueError(f"weight: expected at least a row and a column, got {shape_text(weight.shape)}")
    real_ids = arguments.get("real_ids")
    real_ids = rows if real_ids is None else real_ids
    if not 1 <= real_ids <= rows:
        raise ValueError(f"real_ids: expected 1 to {rows}, the rows of the weight, got {real_ids}")
    bias = arguments.get("bias")
    if bias is not None:
        _check_floats(bias, "bias")
        if bias.shape != (rows,) or bias.device != hidden.device:
            raise ValueError(
                f"bias: expected shape [{rows}] on {hidden.device}, got {shape_text(bias.shape)} on {bias.device}"
            )
    softcap = arguments.get("softcap") or 0.0
    logit_scale = arguments.get("logit_scale", 1.0)
    if not (math.isfinite(softcap) and softcap >= 0):
        raise ValueError(f"softcap: expected a number over 0, or None, got {softcap}")
    if not isinstance(logit_scale, (int, float)) or not math.isfinite(logit_scale) or logit_scale == 0:
        raise ValueError(f"logit_scale: expected a number other than 0, got {logit_scale}")
    lora = arguments.get("lora")
    if lora is not None:
        if not isinstance(lora, LoRA):
            raise ValueError(f"lora: expected a LoRA(A, B, scale), got {type(lora).__name__}")
        _check_floats(lora.A, "lora.A")
        _check_floats(lora.B, "lora.B")
        if lora.A.dim() != 2 or lora.A.shape[1] != weight.shape[1] or lora.B.shape != (rows, lora.A.shape[0]):
            raise ValueError(
                f"lora: expected A [rank, {weight.shape[1]}] and B [{rows}, rank], got {shape_text(lora.A.shape)} and "
                f"{shape_text(lora.B.shape)}"
            )
    flat = hidden.reshape(math.prod(hidden.shape[:-1]), weight.shape[1])
    if flat.stride(-1) != 1:
        flat = flat.contiguous()
    if weight.stride(-1) != 1:
        weight = weight.contiguous()
    return Head(flat, weight, hidden.shape[:-1], bias, logit_scale, softcap, real_ids, lora)
