# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped,misc,valid-type"
"""Settings: those of TRL's DistillationConfig, and those of an objective under the names of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..options import Options
from . import hooks

if TYPE_CHECKING:
    from trl import DistillationConfig
else:
    DistillationConfig, _ = hooks.base_classes()

_HELP = Options.help()
_WORDS = ("k", "budget")  # a number or a word, which a command line gives as text


def _setting(name: str) -> Any:
    return field(default=None, metadata={"help": f"{_HELP[name]}. None is the arm's own value."})


@dataclass
class RouteOPDConfig(DistillationConfig):
    """TRL's settings with those of an objective; ``routeopd.Options.help()`` says what each of them means.

    What is None has the value that the arm stands for. ``temperature``, ``top_p`` and the like are about sampling
    alone: the objective reads both models at temperature 1. ``beta`` has no meaning here, since the arm says what is
    compared. ``num_iterations`` updates are made on each generation batch; from the second on they keep its pairs and
    the values from before the first. ``diagnostics`` costs a product with each head for arms that need no routes.
    """

    arm: str = field(default="routeopd", metadata={"help": _HELP["arm"]})
    k: int | str | None = _setting("k")
    m: int | None = _setting("m")
    pairs: str | None = _setting("pairs")
    budget: float | str | None = _setting("budget")
    destination: str | None = _setting("destination")
    side: str | None = _setting("side")
    weight: str | None = _setting("weight")
    target: str | None = _setting("target")
    rank_window: int | None = _setting("rank_window")
    b_min: float | None = _setting("b_min")
    b_max: float | None = _setting("b_max")
    kappa: float | None = _setting("kappa")
    ratio_clip: float | None = _setting("ratio_clip")
    delta_p: float | None = _setting("delta_p")
    delta_m: float | None = _setting("delta_m")
    delta_diag: float | None = _setting("delta_diag")
    delta_target: float | None = _setting("delta_target")
    objective_seed: int = field(default=42, metadata={"help": "seed of the pairs, which depend on nothing else but it"})
    num_iterations: int = field(default=1, metadata={"help": "updates on each generation batch"})
    diagnostics: bool = field(
        default=True,
        metadata={"help": "top-k and routes for the logs, where the arm's loss reads none: sampled_rkl and full KLs"},
    )

    def __post_init__(self) -> None:
        for name in _WORDS:
            setattr(self, name, _number(getattr(self, name)))
        self.objective()
        if not 0 <= self.objective_seed < 1 << 64:
            raise ValueError(f"objective_seed: expected a whole number from 0 to 2^64 - 1, got {self.objective_seed}")
        if self.num_iterations < 1:
            raise ValueError(f"num_iterations: expected a whole number from 1, got {self.num_iterations}")
        if self.beta != 1:
            raise ValueError(f"beta: the arm says what is compared, so expected TRL's default 1.0, got {self.beta}")
        super().__post_init__()

    def objective(self) -> Options:
        """The settings of the objective, complete; ValueError says what is wrong with them."""
        options = Options(arm=self.arm, **{name: getattr(self, name) for name in _HELP if name != "arm"})
        if options.arm == "sft":
            raise ValueError("arm: sft learns from given answers, and this trainer from the student's own; use another")
        if options.k == "full" and options.arm not in ("sampled_rkl", "full_rkl", "full_fkl"):
            if options.needs_pool:
                raise ValueError(f"k: a full support leaves no ids for the pool of destination = {options.destination}")
            if options.pairs == "exact" or options.arm in ("union_rkl", "union_fkl"):
                raise ValueError(
                    "k: a loss on a full support would hold the logits of the whole vocabulary; use full_rkl or "
                    "full_fkl, or pairs = sample"
                )
        return options


def _number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
