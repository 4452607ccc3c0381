# SPDX-License-Identifier: Apache-2.0
"""The routing operator: both models' values at each state in, routes out.

Shapes: states ``[...]`` (any leading dimensions), K and J columns of both models' top-k, M pairs per state, W = K + J
columns of the support.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._head import int32_ids
from ._library import call, ops
from .heads import gather_logits
from .options import Options
from .routes import VALIDITY, Routes, Support
from .topk import TopK

if TYPE_CHECKING:
    from ._head import HeadArguments

__all__ = ["background_pool", "pool_of", "route"]


def _host(value: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """[states, columns] on the host."""
    flat = value.detach().reshape(math.prod(value.shape[:-1]), value.shape[-1])
    return flat.to("cpu", dtype).contiguous()


def _host_ids(ids: Tensor, name: str) -> Tensor:
    return _host(int32_ids(ids, name), torch.int32)


def _addresses(address: Tensor | None, lead: torch.Size) -> Tensor:
    """[T, 4] on the host. Without addresses, positions are the numbers of the rows."""
    states = math.prod(lead)
    if address is None:
        rows = torch.zeros((states, 4), dtype=torch.int64, device="cpu")
        rows[:, 3] = torch.arange(states, device="cpu")
        return rows
    if (
        not isinstance(address, Tensor)
        or address.dtype not in (torch.int32, torch.int64)
        or address.shape != (*lead, 4)
    ):
        raise ValueError(
            f"address: expected int32 or int64 of shape {[*lead, 4]}: step, prompt, response, position; got "
            f"{address.dtype if isinstance(address, Tensor) else type(address).__name__} "
            f"{list(getattr(address, 'shape', []))}"
        )
    return _host(address, torch.int64)


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise ValueError(f"seed: expected a whole number from 0 to 2^64 - 1, got {seed}")
    return seed - (1 << 64) if seed >= 1 << 63 else seed  # the same bits, as the operator takes them


def _values_at(side: TopK, ids: Tensor, name: str) -> Tensor:
    """One model's values at the other's ids."""
    if side.gathered is None or side.gathered_ids is None:
        raise ValueError(
            f"{name}: expected its values at the other model's ids; make them with top_k(…, gather=ids), "
            f"gathered_at(hidden, weight, ids) or looked_up(ids)"
        )
    if side.gathered_ids.shape != ids.shape:
        raise ValueError(
            f"{name}: expected values at ids of shape {list(ids.shape)}, got {list(side.gathered_ids.shape)}"
        )
    if not torch.equal(_host_ids(side.gathered_ids, name), _host_ids(ids, name)):
        raise ValueError(f"{name}: expected its values at the other model's ids, got values at other ids")
    return side.gathered


def background_pool(student: TopK, *, seed: int, address: Tensor | None = None) -> Tensor:
    """Ids outside the student's top-k for the destinations that draw from a pool: int32 ``[..., 64]``, -1 pads."""
    if student.ids is None:
        raise ValueError("student: a full support leaves no ids for a pool")
    lead = student.logits.shape[:-1]
    pool: Tensor = call(
        ops.background_pool,
        _host_ids(student.ids, "student.ids"),
        _addresses(address, lead),
        student.real_ids,
        _seed(seed),
    )
    return pool.reshape((*lead, -1)).to(student.ids.device)


@torch.inference_mode(mode=False)  # what is routed there is trained on outside
@torch.no_grad()
def route(
    student: TopK,
    teacher: TopK,
    options: Options | None = None,
    *,
    seed: int = 42,
    address: Tensor | None = None,
    valid: Tensor | None = None,
    pool: tuple[Tensor, Tensor] | None = None,
    with_support: bool = False,
) -> Routes:
    """Routes every state: sources, destinations, targets, weights and statistics.

    The C++ kernel runs on the host: values are copied there once, and routes are on the device of the student's
    values again. Random numbers are a function of ``seed`` and each state's ``address`` (int ``[..., 4]``: step,
    prompt, response, position; without it positions are row numbers), so routes depend neither on the batch nor on
    threads, and are those of ``routeopd route --precision float`` for the same values.

    ``valid``: a mask of states to route; or uint8, indices into VALIDITY. ``pool``: ids from ``background_pool`` and
    the student's logits there, for the destinations that need them.
    """
    options = Options() if options is None else options
    if not isinstance(options, Options):
        raise ValueError(f"options: expected Options, got {type(options).__name__}")
    for side, name in ((student, "student"), (teacher, "teacher")):
        if not isinstance(side, TopK):
            raise ValueError(f"{name}: expected a TopK, got {type(side).__name__}")
    lead, device = student.logits.shape[:-1], student.logits.device
    if teacher.logits.shape[:-1] != lead:
        raise ValueError(
            f"teacher: expected states of shape {list(lead)}, as the student's, got {list(teacher.logits.shape[:-1])}"
        )
    if student.real_ids != teacher.real_ids:
        raise ValueError(f"teacher: expected {student.real_ids} real ids, as the student's, got {teacher.real_ids}")
    if (student.ids is None) != (teacher.ids is None):
        raise ValueError("teacher: expected a full support on both sides, or on none")
    if student.ids is None or teacher.ids is None:
        none, empty = torch.empty((0, 0), dtype=torch.int32, device="cpu"), torch.empty((0, 0), device="cpu")
        sides: tuple[Tensor, ...] = (none, _host(student.logits), empty, none, _host(teacher.logits), empty)
    else:
        sides = _sides(student, student.ids, teacher, teacher.ids)
    lse = [None if side.logsumexp is None else _host(side.logsumexp.unsqueeze(-1))[:, 0] for side in (student, teacher)]
    pools: tuple[Tensor | None, Tensor | None] = (None, None)
    if pool is not None:
        pools = (_host_ids(pool[0], "pool"), _host(pool[1]))
    elif options.needs_pool:
        raise ValueError(
            f"destination: {options.destination} draws from a pool; expected pool=(ids, student's logits there), "
            f"as pool_of(student, hidden, weight, seed=…, address=…) makes it"
        )
    found = call(
        ops.route,
        *sides,
        *pools,
        *lse,
        _reasons(valid, lead),
        _addresses(address, lead),
        options.as_json(),
        _seed(seed),
        student.real_ids,
        with_support,
    )
    return _routes(found, options, lead, device)


def _sides(student: TopK, student_ids: Tensor, teacher: TopK, teacher_ids: Tensor) -> tuple[Tensor, ...]:
    """Both lists and each model's values at the other's ids; an id at which a model is not known leaves its list."""
    at_student = _host(_values_at(teacher, student_ids, "teacher"))
    at_teacher = _host(_values_at(student, teacher_ids, "student"))
    s_ids, t_ids = _host_ids(student_ids, "student.ids"), _host_ids(teacher_ids, "teacher.ids")
    s_logits, t_logits = _host(student.logits), _host(teacher.logits)
    return (
        s_ids.masked_fill(at_student.isnan() & ~s_logits.isnan(), -1),
        s_logits,
        at_student,
        t_ids.masked_fill(at_teacher.isnan() & ~t_logits.isnan(), -1),
        t_logits,
        at_teacher,
    )


def _reasons(valid: Tensor | None, lead: torch.Size) -> Tensor | None:
    if valid is None:
        return None
    if valid.shape != lead or valid.dtype not in (torch.bool, torch.uint8):
        raise ValueError(f"valid: expected bool or uint8 of shape {list(lead)}, got {valid.dtype} {list(valid.shape)}")
    host = valid.detach().reshape(-1).to("cpu")
    if host.dtype == torch.uint8:
        return host.contiguous()
    return torch.where(host, 0, VALIDITY.index("padding")).to(torch.uint8)


def _routes(found: tuple[Tensor, ...], options: Options, lead: torch.Size, device: torch.device) -> Routes:
    source, destination, target, old, statistics, n_deficit, validity, routed, ids, values = found
    support = Support(ids, values) if ids.shape[1] else None
    routes = Routes(source, destination, target, old, statistics, n_deficit, validity, routed.bool(), options, support)
    return routes.reshape(*lead).to(device)


def pool_of(
    student: TopK,
    hidden: Tensor,
    weight: Tensor,
    *,
    seed: int,
    address: Tensor | None = None,
    head: HeadArguments | None = None,
) -> tuple[Tensor, Tensor]:
    """A background pool with the student's logits there, as ``route`` takes it."""
    ids = background_pool(student, seed=seed, address=address)
    return ids, gather_logits(hidden, weight, ids, **(head or {}))
