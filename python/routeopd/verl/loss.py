# SPDX-License-Identifier: Apache-2.0
"""The loss under its names in verl's registry. The engine has computed it by then: here it meets verl's masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verl.trainer.distillation.losses import DistillationLossSettings, register_distillation_loss
from verl.workers.utils.padding import no_padding_2_padding

from .objective import loss_modes
from .states import flat_mask, shaped_mask

if TYPE_CHECKING:
    from torch import Tensor

MARK = "routeopd"  # in the engine's output: the losses beside it are ours


@register_distillation_loss(DistillationLossSettings(names=loss_modes(sampled=True), use_estimator=True))
@register_distillation_loss(DistillationLossSettings(names=loss_modes(sampled=False), use_topk=True))
def routeopd_loss(
    config: Any, distillation_config: Any, model_output: dict[str, Any], data: Any
) -> tuple[Tensor, dict[str, Any]]:
    """Losses per response token, [sequences, tokens]; verl divides their sum by the tokens of the whole batch."""
    if MARK not in model_output:
        # verl's own engine computes a forward KL whatever the name of the loss.
        raise ValueError(
            f"loss_mode {distillation_config.distillation_loss.loss_mode}: backend {config.strategy} runs verl's own "
            f"engine; set VERL_ENGINE_VENDOR=routeopd in every process"
        )
    losses = no_padding_2_padding(model_output["distillation_losses"], data)
    mask = data["response_mask"]
    if not distillation_config.distillation_loss.use_task_rewards and not flat_mask(mask).any():
        # A micro-batch of padding: verl takes the least of its losses, and there must be one. A zero counts.
        entries = flat_mask(mask).clone()
        entries[0] = 1
        data["response_mask"] = shaped_mask(entries, mask)
    return losses, {}
