#!/usr/bin/env bash
# Setting 2 of the paper under verl 0.9.1 on 24 GPUs: JustRL-DeepSeek-1.5B teaches DeepSeek-R1-Distill-Qwen-1.5B. Three
# nodes of eight GPUs under one Ray cluster: two for the student, one for the teacher.
#
# NEVER RUN ON GPUS: none were at hand. Names of settings are checked against verl's configuration, values are the recipe's
# (recipes/paper_2_justrl_deepseek_to_deepseek_1_5b.toml), which says where each comes from.
#   examples/verl/paper_2.sh [SETTING=VALUE…]     more settings of verl; --cfg job prints the resolved configuration
set -euo pipefail
cd "$(dirname "$0")/../.."

export VERL_USE_EXTERNAL_MODULES=routeopd.verl VERL_ENGINE_VENDOR=routeopd
export ROUTEOPD_OPTIONS=${ROUTEOPD_OPTIONS:-'{"k": 32, "m": 2, "seed": 42}'}
env=+ray_kwargs.ray_init.runtime_env.env_vars  # the same on every node

exec "${PYTHON:-python3}" -m verl.trainer.main_ppo \
  $env.VERL_USE_EXTERNAL_MODULES=routeopd.verl $env.VERL_ENGINE_VENDOR=routeopd "$env.ROUTEOPD_OPTIONS='$ROUTEOPD_OPTIONS'" \
  data.train_files=data/dapo_math_17k.parquet data.val_files=data/aime24.parquet data.seed=42 \
  data.train_batch_size=512 data.max_prompt_length=2048 data.max_response_length=16384 data.truncation=error \
  actor_rollout_ref.model.path=deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B \
  actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.model.enable_gradient_checkpointing=True \
  actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.loss_agg_mode=token-mean \
  actor_rollout_ref.actor.use_kl_loss=False actor_rollout_ref.actor.entropy_coeff=0 \
  actor_rollout_ref.actor.ppo_mini_batch_size=512 actor_rollout_ref.actor.ppo_epochs=1 \
  actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=18433 \
  actor_rollout_ref.actor.optim.lr=1e-6 actor_rollout_ref.actor.optim.weight_decay=0.01 \
  'actor_rollout_ref.actor.optim.betas=[0.9,0.999]' actor_rollout_ref.actor.optim.clip_grad=1.0 \
  actor_rollout_ref.actor.optim.lr_scheduler_type=cosine actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.03 \
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=4 actor_rollout_ref.rollout.temperature=1.0 \
  actor_rollout_ref.rollout.top_p=1.0 actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.7 actor_rollout_ref.rollout.calculate_log_probs=True \
  actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=18433 \
  algorithm.adv_estimator=grpo algorithm.use_kl_in_reward=False algorithm.rollout_correction.bypass_mode=True \
  distillation.enabled=True distillation.nnodes=1 distillation.n_gpus_per_node=8 \
  distillation.teacher_models.teacher_model.model_path=hbx/JustRL-DeepSeek-1.5B \
  distillation.teacher_models.teacher_model.inference.tensor_model_parallel_size=1 \
  distillation.teacher_models.teacher_model.inference.gpu_memory_utilization=0.8 \
  distillation.teacher_models.teacher_model.inference.max_model_len=18433 \
  distillation.distillation_loss.loss_mode=routeopd distillation.distillation_loss.topk=128 \
  distillation.distillation_loss.use_task_rewards=False distillation.distillation_loss.use_policy_gradient=False \
  trainer.nnodes=2 trainer.n_gpus_per_node=8 trainer.total_epochs=1 trainer.total_training_steps=35 \
  trainer.save_freq=5 trainer.test_freq=-1 trainer.val_before_train=False \
  trainer.project_name=routeopd trainer.experiment_name=paper_2 'trainer.logger=[console,tensorboard]' \
  "$@"
