# SPDX-License-Identifier: Apache-2.0
"""The objective as verl's configuration and one environment variable say it, and what is refused.

``distillation.distillation_loss.loss_mode`` names the arm: ``routeopd`` or ``routeopd:ARM``. ``topk`` beside it is the
number of values that the teacher's servers send per state, at least k: more than k are looked up at the student's ids.
Everything else is JSON in ROUTEOPD_OPTIONS, under the names of ``routeopd.Options`` and ``seed``:

    ROUTEOPD_OPTIONS='{"k": 32, "m": 4, "seed": 7}'

verl's own settings that would bend the objective are refused: policy gradients, a clamp where losses can reach it,
means other than over tokens.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from .. import ARMS, Options

ENVIRONMENT = "ROUTEOPD_OPTIONS"
NAME = "routeopd"
_REFUSED = {
    "full_rkl": "the teacher's servers send a few values per state and not the whole vocabulary",
    "full_fkl": "the teacher's servers send a few values per state and not the whole vocabulary",
    "sft": "it has no teacher; verl has a trainer for it",
}
# Losses of a state that verl's clamp can reach; routed ones stay under kappa * B.
_UNBOUNDED = frozenset({"sampled_rkl", "union_rkl", "union_fkl"})


def loss_modes(*, sampled: bool) -> list[str]:
    """Names for ``loss_mode``: those that read the teacher's top-k, or its value at the token taken."""
    arms = [arm for arm in ARMS if arm not in _REFUSED and (arm == "sampled_rkl") == sampled]
    return [f"{NAME}:{arm}" for arm in arms] + ([] if sampled else [NAME])


@dataclasses.dataclass(frozen=True)
class Objective:
    """What to compute at every state."""

    options: Options
    seed: int
    topk: int  # values of the teacher per state
    task_rewards: bool = False  # whether verl's policy loss is added, which needs log-probabilities of tokens taken

    @property
    def sampled(self) -> bool:
        """Whether the token taken is all that is looked at."""
        return self.options.arm == "sampled_rkl"

    @property
    def k(self) -> int:
        """Columns of each model's top-k."""
        return int(self.options.k)

    def as_json(self) -> str:
        """All settings, to compare processes."""
        return json.dumps({**self.options.as_dict(), "seed": self.seed, "topk": self.topk}, sort_keys=True)

    @staticmethod
    def of(loss_function: Any) -> Objective | None:
        """The objective of a loss function as verl's workers hold it; None where it is not one of ours."""
        given = getattr(loss_function, "keywords", {})
        distillation, actor = given.get("distillation_config"), given.get("config")
        loss = getattr(distillation, "distillation_loss", None)
        mode = str(getattr(loss, "loss_mode", ""))
        if mode != NAME and not mode.startswith(f"{NAME}:"):
            return None
        objective = _read(mode, os.environ.get(ENVIRONMENT, ""), getattr(loss, "topk", None))
        _refuse(objective, loss, actor)
        return dataclasses.replace(objective, task_rewards=bool(getattr(loss, "use_task_rewards", False)))


def _read(mode: str, text: str, topk: int | None) -> Objective:
    try:
        settings = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f'{ENVIRONMENT}: expected JSON such as {{"m": 4}}, got {text!r} ({error})') from None
    if not isinstance(settings, dict):
        raise ValueError(f"{ENVIRONMENT}: expected an object of settings, got {text!r}")
    seed = settings.pop("seed", 42)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise ValueError(f"{ENVIRONMENT}: seed: expected a whole number from 0 to 2^64 - 1, got {seed}")
    arm = mode.removeprefix(NAME).removeprefix(":")
    if arm and settings.get("arm", arm) != arm:
        raise ValueError(f"{ENVIRONMENT}: arm {settings['arm']} and loss_mode {mode} name two arms")
    if arm:
        settings["arm"] = arm
    try:
        options = Options(**settings)
    except ValueError as error:
        raise ValueError(f"{ENVIRONMENT}: {error}") from None
    if options.arm in _REFUSED:
        raise ValueError(f"arm {options.arm} is not supported under verl: {_REFUSED[options.arm]}")
    if options.k == "full":
        raise ValueError("k = full is not supported under verl: the teacher's servers send a few values per state")
    if options.arm == "sampled_rkl":
        if mode != f"{NAME}:sampled_rkl":
            raise ValueError(
                f"arm sampled_rkl: expected loss_mode = {NAME}:sampled_rkl, which asks the teacher for the tokens "
                f"taken, got {mode}"
            )
    elif topk is None or topk < int(options.k):
        raise ValueError(
            f"distillation_loss.topk: expected at least k = {options.k} values of the teacher, got {topk}; set k in "
            f"{ENVIRONMENT}"
        )
    return Objective(options, seed, int(topk or 1))


def _refuse(objective: Objective, loss: Any, actor: Any) -> None:
    arm = objective.options.arm
    if getattr(loss, "use_policy_gradient", False):
        raise ValueError(
            "distillation_loss.use_policy_gradient: expected False, since the objective is differentiated itself"
        )
    if arm in _UNBOUNDED and getattr(loss, "loss_max_clamp", None) is not None:
        raise ValueError(
            f"distillation_loss.loss_max_clamp: expected null for arm {arm}, since a clamp takes the gradient from the "
            f"states that are furthest off, got {loss.loss_max_clamp}"
        )
    if getattr(actor, "loss_agg_mode", "token-mean") != "token-mean":
        raise ValueError(
            f"actor.loss_agg_mode: expected token-mean, the method's mean over states, got {actor.loss_agg_mode}"
        )
