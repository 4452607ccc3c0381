# SPDX-License-Identifier: Apache-2.0
"""RouteOPD inside verl, as a plug-in: no line of verl changes, and two of its configuration.

    VERL_USE_EXTERNAL_MODULES=routeopd.verl VERL_ENGINE_VENDOR=routeopd python -m verl.trainer.main_ppo … \\
        distillation.distillation_loss.loss_mode=routeopd

Names of the loss: ``routeopd``, or ``routeopd:ARM`` for another arm. Every other setting of ``routeopd.Options`` stands
in the environment variable ROUTEOPD_OPTIONS (``objective``). What runs where:

    loss        the loss that verl looks up by its name, and the metrics
    engine      verl's FSDP engine with a head that computes the objective in its own forward
    worker      verl's training worker; keeps the student's values where a rollout is used for several updates
    objective   settings, and what is refused
    states      the response states of a packed batch: masks, addresses, the teacher's answers
    head        the objective of one micro-batch, between the hooks around the head's forward

Every process imports it before verl's workers are made. An entry point of the group ``verl.plugins`` does so too, but
verl tells what goes wrong there at debug level alone: this module says it aloud.
"""

from __future__ import annotations

import os
import sys

try:
    from .engine import RouteEngine
    from .loss import routeopd_loss
    from .objective import ENVIRONMENT, Objective, loss_modes
    from .worker import RouteWorker
except Exception as error:
    sentence = (
        f"routeopd.verl: the plug-in cannot be loaded ({type(error).__name__}: {error}); known to work: verl 0.9.1"
    )
    print(sentence, file=sys.stderr, flush=True)
    if os.environ.get("VERL_ENGINE_VENDOR") == "routeopd":
        # verl swallows every Exception of an entry point, and would train with an objective of its own.
        raise SystemExit(sentence) from error
    raise ImportError(sentence) from error

__all__ = ["ENVIRONMENT", "Objective", "RouteEngine", "RouteWorker", "loss_modes", "routeopd_loss"]
