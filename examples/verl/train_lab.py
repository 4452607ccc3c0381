# SPDX-License-Identifier: Apache-2.0
"""verl's workers train the laboratory pair with RouteOPD on a CPU: Ray, FSDP2, the plug-in's engine, loss and worker.

    PYTHONPATH=python python examples/verl/train_lab.py --workers 2 --steps 30

What verl's trainer does on GPUs with vLLM is done here by transformers in the driver: rollouts with the student's
newest weights, and the teacher's answers as its servers send them. The workers, their engine and their batches are
verl's own.

Shapes: B sequences, P tokens of a prompt, R of a response, J values of the teacher per state.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import sys
import types
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPK = 64  # values that the teacher sends per state; k of the objective is smaller


def environment(arguments: argparse.Namespace) -> dict[str, str]:
    """What every process needs, set before verl is imported."""
    paths = [str(ROOT / "python/tests/integrations"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    found = {
        "VERL_PLATFORM": "cpu",  # verl has no CPU platform: verl_cpu is one
        "VERL_USE_EXTERNAL_MODULES": "verl_cpu,routeopd.verl",
        "VERL_ENGINE_VENDOR": "routeopd",
        "ROUTEOPD_OPTIONS": json.dumps({"k": 16, "m": 2}),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    if "ROUTEOPD_OPERATORS" in os.environ:
        found["ROUTEOPD_OPERATORS"] = os.environ["ROUTEOPD_OPERATORS"]
    return found


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--prompts", type=int, default=32, help="per step, of 4 responses each")
    parser.add_argument("--updates", type=int, default=1, help="minibatches of a step")
    parser.add_argument("--loss", default="routeopd", help="routeopd or routeopd:ARM")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--tokens", type=int, default=64, help="of a response, at most")
    parser.add_argument("--frozen", action="store_true", help="train on the first rollout again and again")
    parser.add_argument("--student", default=str(ROOT / "lab/base"))
    parser.add_argument("--out", help="a file for metrics and weights")
    return parser.parse_args()


def main() -> None:
    """Trains, and prints a line per step."""
    arguments = parsed()
    found = environment(arguments)
    os.environ.update(found)
    sys.path[:0] = found["PYTHONPATH"].split(os.pathsep)
    import ray
    import torch
    import transformers

    torch.set_num_threads(2)
    ray.init(
        num_cpus=max(2, arguments.workers),
        include_dashboard=False,
        object_store_memory=200 << 20,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": found},
        _node_ip_address="127.0.0.1",
    )
    try:
        workers = make_workers(arguments)
        load = functools.partial(transformers.AutoModelForCausalLM.from_pretrained, dtype=torch.float32)
        student, teacher = load(arguments.student).eval(), load(ROOT / "lab/teacher").eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "lab/base", padding_side="left")
        problems = [json.loads(line)["problem"] for line in (ROOT / "lab/train.jsonl").open()]
        lines, data = [], None
        for step in range(arguments.steps):
            if data is None or not arguments.frozen:
                first = step * arguments.prompts % (len(problems) - arguments.prompts)
                prompts = problems[first : first + arguments.prompts]
                data = rolled_out(student, teacher, tokenizer, prompts, step, arguments)
            lines.append(update(workers, data, arguments))
            print(json.dumps({"step": step, **lines[-1]}), flush=True)
            weights = next(answer for answer in workers.weights() if answer)
            student.load_state_dict(weights, strict=False)
        if arguments.out:
            torch.save({"metrics": lines, "weights": weights}, arguments.out)
    finally:
        ray.shutdown()


def make_workers(arguments: argparse.Namespace) -> Any:
    """verl's actors on their ranks, with an engine each and the loss set."""
    import ray
    from verl.single_controller.base.decorator import Dispatch, register
    from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
    from verl.trainer.config import CheckpointConfig
    from verl.trainer.distillation import distillation_ppo_loss
    from verl.workers.config import (
        ActorConfig,
        DistillationLossConfig,
        FSDPEngineConfig,
        FSDPOptimizerConfig,
        HFModelConfig,
        TrainingWorkerConfig,
    )

    from routeopd.verl import RouteWorker

    class LabWorker(RouteWorker):
        """verl's trainer sends weights to the rollout engine; here the driver asks for them."""

        @register(dispatch_mode=Dispatch.ONE_TO_ALL)
        def weights(self) -> dict[str, Any] | None:
            named, _ = self.engine.get_per_tensor_param()
            whole = {name: tensor.detach().clone() for name, tensor in named}  # every rank takes part
            return whole if self.rank == 0 else None

    fp32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    sizes = {"micro_batch_size_per_gpu": 8, "infer_micro_batch_size_per_gpu": 8, "max_token_len_per_gpu": 4096}
    config = TrainingWorkerConfig(
        model_type="language_model",
        model_config=HFModelConfig(
            path=arguments.student,
            use_remove_padding=True,  # without flash-attn, transformers masks packed sequences by their positions
            override_config={"attn_implementation": "sdpa"},
            enable_gradient_checkpointing=True,
        ),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2",
            forward_only=False,
            fsdp_size=arguments.workers,
            use_dynamic_bsz=True,
            use_torch_compile=False,
            infer_max_token_len_per_gpu=4096,
            mixed_precision=fp32,
            **sizes,
        ),
        optimizer_config=FSDPOptimizerConfig(lr=arguments.lr, total_training_steps=arguments.steps),
        checkpoint_config=CheckpointConfig(),
    )
    pool = RayResourcePool(process_on_nodes=[arguments.workers], use_gpu=False, max_colocate_count=1)
    made = RayClassWithInitArgs(cls=ray.remote(LabWorker), config=config)
    workers = RayWorkerGroup(resource_pool=pool, ray_cls_with_init=made, device_name="cpu")
    workers.reset()
    actor = ActorConfig(strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=8, loss_agg_mode="token-mean")
    loss = DistillationLossConfig(
        loss_mode=arguments.loss, topk=TOPK, use_task_rewards=False, use_policy_gradient=False, loss_max_clamp=None
    )
    distillation = types.SimpleNamespace(distillation_loss=loss)
    workers.set_loss_fn(functools.partial(distillation_ppo_loss, config=actor, distillation_config=distillation))
    return workers


def rolled_out(
    student: Any, teacher: Any, tokenizer: Any, problems: list[str], step: int, arguments: argparse.Namespace
) -> Any:
    """A rollout with the teacher's answers, as verl's trainer hands it to its actor."""
    import torch
    from verl import DataProto
    from verl.utils import tensordict_utils as tu
    from verl.utils.model import compute_position_id_with_mask
    from verl.workers.utils.padding import left_right_2_no_padding

    torch.manual_seed(step)
    texts = [f"Problem: {problem}\nSolution:" for problem in problems for _ in range(4)]
    prompts = tokenizer(texts, return_tensors="pt", padding=True)
    P = prompts["input_ids"].shape[1]
    with torch.no_grad():
        ids = student.generate(
            input_ids=prompts["input_ids"], attention_mask=prompts["attention_mask"], do_sample=True, temperature=1.0,
            top_k=0, top_p=1.0, max_new_tokens=arguments.tokens,
        )  # fmt: skip
        ended = (ids[:, P:] == tokenizer.eos_token_id).long()
        response_mask = (ended.cumsum(1) - ended == 0).long()  # the end itself counts
        mask = torch.cat([prompts["attention_mask"], response_mask], 1)
        positions = compute_position_id_with_mask(mask)
        log_p = teacher(input_ids=ids, attention_mask=mask, position_ids=positions).logits.float().log_softmax(-1)
        if arguments.loss == "routeopd:sampled_rkl":  # verl then asks for the tokens taken
            teacher_ids = ids.roll(-1, 1)[..., None]
            values = log_p.gather(-1, teacher_ids)
        else:
            values, teacher_ids = log_p.topk(TOPK, -1)
    tensors = {
        "input_ids": ids, "prompts": ids[:, :P], "responses": ids[:, P:], "attention_mask": mask,
        "position_ids": positions, "response_mask": response_mask, "teacher_ids": teacher_ids.int(),
        "teacher_logprobs": values,
    }  # fmt: skip
    meta = {"temperature": 1.0, "global_steps": step}
    data = left_right_2_no_padding(DataProto.from_single_dict(tensors, meta_info=meta).to_tensordict())
    size = len(texts) // arguments.updates
    topk = teacher_ids.shape[-1] > 1
    tu.assign_non_tensor(
        data, global_batch_size=size, mini_batch_size=size, epochs=1, seed=0, dataloader_kwargs={"shuffle": False},
        distillation_use_topk=topk, distillation_only=topk,
    )  # fmt: skip
    return data


def update(workers: Any, data: Any, arguments: argparse.Namespace) -> dict[str, float]:
    """One step of verl's actor; its metrics, means over the step's updates."""
    from verl.utils import tensordict_utils as tu

    answer = workers.train_mini_batch(data)
    answer = answer.get() if hasattr(answer, "get") and not hasattr(answer, "keys") else answer
    found = {}
    for name, values in tu.get(answer, "metrics").items():
        if name in ("loss", "grad_norm") or name.startswith("distillation/"):
            values = values if isinstance(values, list) else [values]
            found[name] = sum(map(float, values)) / len(values)
    return found


if __name__ == "__main__":
    main()
