# SPDX-License-Identifier: Apache-2.0
"""RouteOPD: on-policy distillation as explicit probability transport, in a PyTorch trainer of your own.

from routeopd import Options, pair_log_odds, route, route_loss, top_k

student = top_k(hidden_S, lm_head_S.weight, k=32)
teacher = top_k(hidden_T, lm_head_T.weight, k=32, gather=student.ids)
student = student.gathered_at(hidden_S, lm_head_S.weight, teacher.ids)
routes = route(student, teacher, Options(m=2), seed=42, address=address)
odds = pair_log_odds(hidden, lm_head.weight, routes.source, routes.destination)
loss = route_loss(odds, routes).sum() / denominator
"""

from importlib import metadata as _metadata

from ._compatible import Check, Compatibility, compatible
from ._head import HeadArguments, LoRA
from .arms import arm_loss, arm_values
from .dense import full_kl, log_probs
from .heads import gather_logits, pair_log_odds
from .losses import exact_loss, route_loss, sampled_rkl_loss, union_kl
from .options import ARMS, Options
from .routes import VALIDITY, Routes, Support
from .routing import background_pool, pool_of, route
from .sharded import HeadMode, head_mode
from .topk import TopK, top_k

try:
    __version__ = _metadata.version("routeopd")
except _metadata.PackageNotFoundError:  # run from a clone
    __version__ = "0+clone"

__all__ = [
    "ARMS",
    "VALIDITY",
    "Check",
    "Compatibility",
    "HeadArguments",
    "HeadMode",
    "LoRA",
    "Options",
    "Routes",
    "Support",
    "TopK",
    "__version__",
    "arm_loss",
    "arm_values",
    "background_pool",
    "compatible",
    "exact_loss",
    "full_kl",
    "gather_logits",
    "head_mode",
    "log_probs",
    "pair_log_odds",
    "pool_of",
    "route",
    "route_loss",
    "sampled_rkl_loss",
    "top_k",
    "union_kl",
]
