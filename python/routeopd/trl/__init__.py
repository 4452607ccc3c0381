# SPDX-License-Identifier: Apache-2.0
"""RouteOPD on TRL's trainer: its DistillationTrainer with another objective, and nothing else changed.

from routeopd.trl import RouteOPDConfig, RouteOPDTrainer

trainer = RouteOPDTrainer(
    model="student",
    teacher_model="teacher",
    args=RouteOPDConfig(output_dir="run", arm="routeopd", m=2, gradient_accumulation_steps=8),
    train_dataset=dataset,  # a column "prompt", as TRL's trainer takes it
)
trainer.train()
"""

from .config import RouteOPDConfig
from .hooks import TESTED
from .trainer import RouteOPDTrainer

__all__ = ["TESTED", "RouteOPDConfig", "RouteOPDTrainer"]
