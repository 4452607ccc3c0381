# SPDX-License-Identifier: Apache-2.0
"""The settings of an objective, as in the ``[objective]`` section of a recipe."""

from __future__ import annotations

import json
import math
from typing import Any, Literal, Protocol, overload

from ._library import option_help, resolve_options

__all__ = ["ARMS", "Options"]

ARMS: tuple[str, ...] = tuple(option_help()["arms"])
"""Names of all arms, in the order of the method's table."""

Support = int | Literal["full"]
Budget = float | Literal["adaptive", "reversed", "fixed_low", "fixed_mid", "fixed_high"]
Destination = Literal[
    "teacher_deficit",
    "uniform_deficit",
    "student_proportional",
    "random_background",
    "rank_matched",
    "rank_matched_neutral",
]


class _Preset(Protocol):
    def __call__(self, name: str, /, **settings: Any) -> Options: ...


class _Arm:
    """``Options.arm("fixed_mid")`` makes the options of an arm; ``options.arm`` is the name of theirs."""

    @overload
    def __get__(self, instance: None, owner: type[Options]) -> _Preset: ...
    @overload
    def __get__(self, instance: Options, owner: type[Options]) -> str: ...
    def __get__(self, instance: Options | None, owner: type[Options]) -> _Preset | str:
        if instance is None:
            return lambda name, /, **settings: owner(arm=name, **settings)
        return str(instance._values["arm"])


class Options:
    """Settings of an objective: names, defaults and checks are those of a recipe's ``[objective]`` section.

    ``arm`` is a preset; whatever else is given wins over it. What is not given has the arm's value, or the default.
    ``Options.help()`` says what each means. Options do not change once they are made.

    >>> Options(m=4).budget
    'adaptive'
    >>> Options.arm("fixed_mid", k=16).budget
    'fixed_mid'
    """

    arm = _Arm()
    k: Support
    m: int
    pairs: Literal["sample", "exact"]
    budget: Budget
    destination: Destination
    side: Literal["pair", "source", "destination"]
    weight: Literal["mass", "one"]
    target: Literal["shared", "independent"]
    rank_window: int
    b_min: float
    b_max: float
    kappa: float
    ratio_clip: float
    delta_p: float
    delta_m: float
    delta_diag: float
    delta_target: float

    def __init__(
        self,
        *,
        arm: str | None = None,
        k: Support | None = None,
        m: int | None = None,
        pairs: Literal["sample", "exact"] | None = None,
        budget: Budget | None = None,
        destination: Destination | None = None,
        side: Literal["pair", "source", "destination"] | None = None,
        weight: Literal["mass", "one"] | None = None,
        target: Literal["shared", "independent"] | None = None,
        rank_window: int | None = None,
        b_min: float | None = None,
        b_max: float | None = None,
        kappa: float | None = None,
        ratio_clip: float | None = None,
        delta_p: float | None = None,
        delta_m: float | None = None,
        delta_diag: float | None = None,
        delta_target: float | None = None,
        **unknown: object,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "unknown", "__class__")}
        given = {name: value for name, value in given.items() if value is not None} | unknown
        for name, value in given.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name}: expected a finite number, got {value}")
        try:
            resolved = resolve_options(given)
        except TypeError as error:
            raise ValueError(f"Options: expected numbers and words, got {error}") from None
        values: dict[str, Any] = resolved["value"]
        for name, value in values.items():
            if name != "arm":
                object.__setattr__(self, name, value)
        object.__setattr__(self, "_values", values)
        # Made now: torch.compile traces neither json nor the library's check of settings.
        object.__setattr__(self, "_json", json.dumps(values))
        unions = {arm: json.dumps({**values, "arm": arm, "pairs": "sample"}) for arm in ("union_rkl", "union_fkl")}
        object.__setattr__(self, "_union_json", unions)
        object.__setattr__(self, "_needs_pool", bool(resolved["needs_pool"]))

    _values: dict[str, Any]
    _json: str
    _union_json: dict[str, str]
    _needs_pool: bool

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Options do not change: make new ones with options.but({name}=…)")

    def but(self, **settings: Any) -> Options:
        """These options with some settings changed. A new arm replaces all that the old one stood for."""
        kept = dict(self._values)
        if "arm" in settings:
            kept = {name: kept[name] for name in kept if name not in _SET_BY_ARM}
        return Options(**{**kept, **settings})

    @property
    def needs_pool(self) -> bool:
        """Whether the destination is drawn from a background pool, which ``route`` must then be given."""
        return self._needs_pool

    def as_dict(self) -> dict[str, Any]:
        """Every setting under its name, as a recipe would have it."""
        return dict(self._values)

    def as_union_json(self, *, reverse: bool) -> str:
        """The same for a divergence on the union."""
        return self._union_json["union_rkl" if reverse else "union_fkl"]

    def as_json(self) -> str:
        """The same in JSON."""
        return self._json

    @staticmethod
    def help() -> dict[str, str]:
        """What each setting means."""
        return dict(option_help()["fields"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self.as_json())

    def __repr__(self) -> str:
        default = resolve_options({"arm": self.arm})["value"]
        changed = [f"{name}={value!r}" for name, value in self._values.items() if value != default[name]]
        return f"Options({', '.join([f'arm={self.arm!r}', *changed])})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_dict, (self._values,)


_SET_BY_ARM = frozenset({"budget", "destination", "side", "weight", "target"})


def _from_dict(values: dict[str, Any]) -> Options:
    return Options(**values)
