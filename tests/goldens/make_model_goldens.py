"""Writes tiny/: small random Qwen3 checkpoints, their log-probabilities, and one whole update of each arm.

    student/ teacher/ untied/       config.json, generation_config.json, model.safetensors (float32), by transformers
    forward_NAME.safetensors        i = 0..3: ids_i int32 [L], logprobs_i float32 [L, vocab_size], all rows of the head
    batch.json                      versions, settings, prompts, responses, figures of each arm, routing of each state
    update_ARM.safetensors          grad.NAME and delta.NAME, float32, of every parameter (tied: embedding alone)

logprobs_i come from transformers in float32 with eager attention. Updates come from `decode` below, the same decoder
written in float64, since transformers' own casts norms, angles and the attention's softmax to float32 in a float64
model too. Both are held together here: log-probabilities and every gradient agree up to float32.

The update is the first of a rollout: pi_old = pi_theta = the student as saved, and the weights are the saved float32
values, widened. A state is a response token; it is the distribution that predicts this token. The loss is the sum over
states divided by their number. Only ids below real_ids take part in any softmax, partition or top-k; rows above are
never read. grad is of the loss before clipping. delta = theta_new - theta_old of one torch.optim.AdamW step after
torch.nn.utils.clip_grad_norm_ (factor min(1, max_norm / (norm + 1e-6))), in float64; a float32 weight cannot hold it to
more than about 1e-7. loss_after is the loss at theta_new with pi_old, supports and pairs as they were.

Routing statistics and token losses are those of make_route_goldens.py. Pairs are drawn with Philox4x32-10 at the
address (routing seed, purpose 2, step 0, prompt index, response index, position): word 0 of draw i gives the source of
pair i, word 1 its destination, each by inverse distribution function over ascending ids of U. No draw, top-k edge or
sign of p_S - p_T lies closer to turning than float32 rounding could reach, by a factor of ten or more (MARGIN). The
teacher is drawn near the student, so that potentials lie on both sides of the budget.

Written with torch 2.13.0+cpu, transformers 5.22.2, safetensors 0.8.0 and Python 3.11.7 by:
python tests/goldens/make_model_goldens.py
"""
from __future__ import annotations

import json
import math
import platform
import random
from itertools import accumulate
from pathlib import Path
from typing import Any, Callable

import safetensors
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import cross_entropy, silu
from transformers import Qwen3Config, Qwen3ForCausalLM

from make_route_goldens import forward_kl, huber, reverse_kl, route, sampled_rkl, statistics

OUT = Path(__file__).with_name("tiny")
REAL_IDS, K, M, ROUTING_SEED, STEP = 90, 8, 2, 42, 0
PURPOSE_ROUTE_PAIRS = 2
BATCH_SEED = 1
PROMPT_LENGTHS = (2, 5, 9)
RESPONSE_LENGTHS = ((4, 7), (6, 1), (3, 9))
MAX_NORM = 1.0
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-4, "weight_decay": 0.01}
BUDGETS = {"routeopd": "adaptive", "fixed_mid": "fixed_mid"}
ARMS = (*BUDGETS, "sampled_rkl", "full_rkl", "full_fkl", "union_rkl", "union_fkl", "sft")
FLOAT32 = 1e-5  # how far float32 may stray from float64: in log-probabilities, and in gradients relative to the largest
MARGIN = 1e-4   # how far logits, log-odds and draws stay from where a pair, a support or a sign would turn
VERSIONS = {"made_by": "make_model_goldens.py", "torch": torch.__version__, "transformers": transformers.__version__,
            "safetensors": safetensors.__version__, "python": platform.python_version(),
            "command": "python tests/goldens/make_model_goldens.py"}
TINY = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 96, "rope_theta": 10000.0, "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6, "eos_token_id": 1}
UNTIED = TINY | {"intermediate_size": 20, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 12,
                 "vocab_size": 64, "rope_theta": 1e6, "tie_word_embeddings": False, "rms_norm_eps": 1e-3,
                 "eos_token_id": [1, 2]}
Weights = dict[str, Tensor]


# ---- models ---------------------------------------------------------------------------------------------------------

def draw_weights(model: Qwen3ForCausalLM, seed: int) -> Weights:
    """Norms about 1, embeddings and head of deviation 0.5, matrices 0.3: far from uniform, no part near identity."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        wide = name.endswith(("embed_tokens.weight", "lm_head.weight"))
        drawn[name] = 1 + 0.3 * noise if parameter.dim() == 1 else (0.5 if wide else 0.3) * noise
    return drawn


def make_model(shape: dict[str, Any], seed: int, near: Weights | None = None) -> Qwen3ForCausalLM:
    """Random weights; `near` draws them towards those of another model, so that some potentials are small."""
    rest = dict(shape)
    config = Qwen3Config(**rest, rope_parameters={"rope_type": "default", "rope_theta": rest.pop("rope_theta")},
                         max_position_embeddings=128, attn_implementation="eager")
    model = Qwen3ForCausalLM(config).eval()
    assert model.dtype == torch.float32 and config.pad_token_id is None  # a padding id would lose its gradient
    with torch.no_grad():
        for name, weight in draw_weights(model, seed).items():
            model.get_parameter(name).copy_(weight if near is None else 0.95 * near[name] + 0.05 * weight)
    return model


def weights_of(model: Qwen3ForCausalLM) -> Weights:
    return {name: parameter.detach().double() for name, parameter in model.named_parameters()}


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return weight * x * torch.rsqrt((x ** 2).mean(-1, keepdim=True) + epsilon)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turns element i of a head together with element i + head_dim / 2."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()), dim=-1)


def decode(shape: dict[str, Any], w: Weights, ids: list[int]) -> Tensor:
    """Logits [L, V] of one sequence, in the weights' precision (float64 for all that is written)."""
    heads, groups, width, eps = (shape[key] for key in (
        "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps"))
    length = len(ids)
    x = w["model.embed_tokens.weight"][ids]
    frequency = shape["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = (torch.arange(length, dtype=torch.float64)[:, None] * frequency)[:, None, :].to(x.dtype)
    future = torch.ones(length, length).triu(1).bool()
    for layer in range(shape["num_hidden_layers"]):
        def part(name: str) -> Tensor:
            return w[f"model.layers.{layer}.{name}.weight"]
        h = rms_norm(x, part("input_layernorm"), eps)
        query = (h @ part("self_attn.q_proj").T).view(length, heads, width)
        key = (h @ part("self_attn.k_proj").T).view(length, groups, width)
        value = (h @ part("self_attn.v_proj").T).view(length, groups, width)
        query = rotate(rms_norm(query, part("self_attn.q_norm"), eps), angles)
        key = rotate(rms_norm(key, part("self_attn.k_norm"), eps), angles)
        key, value = (y.repeat_interleave(heads // groups, dim=1) for y in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query, key) / math.sqrt(width)
        attention = scores.masked_fill(future, -math.inf).softmax(-1)
        x = x + torch.einsum("hqk,khd->qhd", attention, value).reshape(length, -1) @ part("self_attn.o_proj").T
        h = rms_norm(x, part("post_attention_layernorm"), eps)
        gated = silu(h @ part("mlp.gate_proj").T) * (h @ part("mlp.up_proj").T)
        x = x + gated @ part("mlp.down_proj").T
    head = "model.embed_tokens.weight" if shape["tie_word_embeddings"] else "lm_head.weight"
    return rms_norm(x, w["model.norm.weight"], eps) @ w[head].T


def assert_every_part_matters(shape: dict[str, Any], w: Weights, ids: list[int]) -> None:
    """A decoder that leaves out or mixes up any one part is far from the goldens."""
    right = decode(shape, w, ids).log_softmax(-1)

    def wrong(named: str, shape_changes: dict[str, Any], changes: Weights) -> None:
        change = (decode(shape | shape_changes, w | changes, ids).log_softmax(-1) - right).abs().max()
        assert float(change) > 100 * FLOAT32, f"{named} hardly matters: {float(change)}"
    for name, weight in w.items():
        wrong(name, {}, {name: torch.ones_like(weight) if weight.dim() == 1 else weight.flip(0)})
    wrong("rope_theta", {"rope_theta": 2 * shape["rope_theta"]}, {})
    wrong("rms_norm_eps", {"rms_norm_eps": 10 * shape["rms_norm_eps"] + 1e-4}, {})
    heads, groups, width = (shape[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    if groups > 1:  # head h with group h % groups in place of h // (heads / groups)
        order = torch.arange(heads * width).view(groups, -1, width).transpose(0, 1).reshape(-1)
        q, o = "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.o_proj.weight"
        wrong("grouping of heads", {}, {q: w[q][order], o: w[o][:, order]})


def write_forward(name: str, shape: dict[str, Any], model: Qwen3ForCausalLM, seed: int) -> float:
    rng = random.Random(seed)
    sequences = [[rng.randrange(shape["vocab_size"]) for _ in range(length)] for length in (1, 5, 12, 23)]
    tensors, strayed = {}, 0.0
    for i, ids in enumerate(sequences):
        with torch.no_grad():
            single = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        strayed = max(strayed, float((single - decode(shape, weights_of(model), ids).log_softmax(-1)).abs().max()))
        assert strayed < FLOAT32 and float(single.max(-1).values.mean().exp()) > 5 / shape["vocab_size"]
        tensors |= {f"ids_{i}": torch.tensor(ids, dtype=torch.int32), f"logprobs_{i}": single}
    assert_every_part_matters(shape, weights_of(model), sequences[-1])
    save_file(tensors, OUT / f"forward_{name}.safetensors", metadata={"made_by": json.dumps(VERSIONS)})
    return strayed


# ---- routing --------------------------------------------------------------------------------------------------------

def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 of Salmon et al., SC 2011: ten rounds of two multiplications, the key stepped by Weyl constants."""
    word = 0xFFFFFFFF
    for _ in range(10):
        first, third = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [third >> 32 ^ counter[1] ^ key[0], third & word, first >> 32 ^ counter[3] ^ key[1], first & word]
        key = [key[0] + 0x9E3779B9 & word, key[1] + 0xBB67AE85 & word]
    return counter


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([2 ** 32 - 1] * 4, [2 ** 32 - 1] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def inverse_distribution(ids: list[int], q: Tensor, word: int) -> tuple[int, float]:
    """The id, and how far the draw lies from the nearest edge of two ids."""
    uniform = (word >> 8) / 2 ** 24
    cumulative = list(accumulate(q.tolist()))
    return next(i for i, c in zip(ids, cumulative) if c > uniform), min(abs(c - uniform) for c in cumulative)


def draw_pairs(stats: dict[str, Any], step: int, prompt: int, response: int,
               position: int) -> tuple[list[list[int]], float]:
    """The pairs of a state, and the nearest edge of any of their draws."""
    pairs, edges = [], []
    for draw in range(M):
        counter = [PURPOSE_ROUTE_PAIRS << 24 | draw, step, prompt << 8 | response, position]
        words = philox(counter, [ROUTING_SEED & 0xFFFFFFFF, ROUTING_SEED >> 32])
        drawn = [inverse_distribution(stats["ids"], stats[q], word) for q, word in zip(("q_minus", "q_plus"), words)]
        pairs.append([i for i, _ in drawn])
        edges += [edge for _, edge in drawn]
    return pairs, min(edges)


def nearest_turn(stats: dict[str, Any], student: Tensor, teacher: Tensor) -> float:
    """How far the logits are from a tie at the edge of a top-k, and the potentials from another sign of p_S - p_T."""
    tops = [logits.sort(descending=True).values for logits in (student, teacher)]
    return min(float(stats["potential"].abs().min()), *(float(top[K - 1] - top[K]) for top in tops))


# ---- the batch and its losses ---------------------------------------------------------------------------------------

class Batch:
    """Prompts and responses, and all that is fixed before the update: old and teacher logits, supports, pairs."""

    def __init__(self, student: Weights, teacher: Weights, prompts: list[list[int]], responses: list[list[list[int]]],
                 step: int) -> None:
        self.prompts, self.responses = prompts, responses
        addresses = [(p, r, j) for p, group in enumerate(self.responses) for r, ids in enumerate(group)
                     for j in range(len(ids))]
        self.actions = [self.responses[p][r][j] for p, r, j in addresses]
        with torch.no_grad():
            self.old_NV, self.teacher_NV = (self.logits(lambda ids: decode(TINY, w, ids)).double()
                                            for w in (student, teacher))
        self.old, self.teacher = self.old_NV[:, :REAL_IDS], self.teacher_NV[:, :REAL_IDS]
        self.states, self.nearest = [], math.inf  # the smallest distance of all that float32 rounding might turn
        for (p, r, j), action, old, wanted in zip(addresses, self.actions, self.old, self.teacher):
            by_arm = {arm: statistics(old, wanted, {"k": K, "budget": budget}) for arm, budget in BUDGETS.items()}
            stats = by_arm["routeopd"]
            assert stats["routed"]
            pairs, edge = draw_pairs(stats, step, p, r, j)
            self.nearest = min(self.nearest, edge, nearest_turn(stats, old, wanted))
            phi = {arm: dict(zip(s["ids"], s["bounded"].tolist())) for arm, s in by_arm.items()}
            self.states.append({
                "prompt": p, "response": r, "position": j, "action": action, "support": stats["ids"],
                "mass": stats["mass"], "concentration": stats["concentration"], "pairs": pairs,
                "budget": {arm: s["budget"] for arm, s in by_arm.items()},
                "target": {arm: [phi[arm][b] - phi[arm][a] for a, b in pairs] for arm in by_arm}})

    def assert_telling(self) -> None:
        assert self.nearest > MARGIN, "float32 rounding might turn a draw, a top-k or a sign"
        for rows in (self.old_NV, self.teacher_NV):
            padded = [bool(row[REAL_IDS:].gt(row[:REAL_IDS].topk(K).values[-1]).any()) for row in rows]
            assert any(padded), "padding must matter"
        loose = [t < 0.9 * s["budget"]["routeopd"] for s in self.states for t in s["target"]["routeopd"]]
        assert sum(loose) > len(loose) / 5, "targets that all reach their budget would not tell potentials apart"

    def logits(self, forward: Callable[[list[int]], Tensor]) -> Tensor:
        """[N, V]: the rows that predict the response tokens, in the order of prompts, responses, positions."""
        return torch.cat([forward(prompt + ids)[len(prompt) - 1:-1]
                          for prompt, group in zip(self.prompts, self.responses) for ids in group])

    def token_loss(self, arm: str, n: int, z: Tensor, old: Tensor | None = None) -> Tensor:
        """Of state n at current logits z [REAL_IDS]; `old` replaces the old logits in changes and ratios."""
        old, wanted, state = self.old[n] if old is None else old, self.teacher[n], self.states[n]
        log_p = z.log_softmax(0)
        if arm in BUDGETS:
            source, destination = zip(*state["pairs"])
            change = log_p - old.log_softmax(0)
            delta = change[list(destination)] - change[list(source)]
            target = torch.tensor(state["target"][arm], dtype=torch.float64)
            return state["mass"] / M * huber(delta - target, 1.0).sum()
        if arm == "sampled_rkl":
            a = state["action"]
            return sampled_rkl(log_p[a], old.log_softmax(0)[a], wanted.log_softmax(0)[a], 0.0, 1e-8)
        if arm == "sft":
            return -log_p[state["action"]]
        ids = state["support"] if arm.startswith("union") else list(range(REAL_IDS))
        log_p, log_t = z[ids].log_softmax(0), wanted[ids].log_softmax(0)
        return reverse_kl(log_p, log_t, 1e-8) if arm.endswith("rkl") else forward_kl(log_p, log_t)

    def loss(self, arm: str, forward: Callable[[list[int]], Tensor]) -> Tensor:
        rows = self.logits(forward)[:, :REAL_IDS]
        return torch.stack([self.token_loss(arm, n, row) for n, row in enumerate(rows)]).mean()

    def assert_losses_match_route(self) -> None:
        """Losses and gradients at the old logits are those that make_route_goldens.py gives for each state by itself.

        The value of a routed loss does not tell the sign of its target while pi_theta = pi_old; its gradient does.
        """
        for n, state in enumerate(self.states):
            plain = cross_entropy(self.old[n], torch.tensor(state["action"]))
            assert abs(float(self.token_loss("sft", n, self.old[n]) - plain)) < 1e-12
            for arm, budget in BUDGETS.items():
                out = route({"student_logits": self.old[n].tolist(), "teacher_logits": self.teacher[n].tolist(),
                             "options": {"k": K, "m": M, "budget": budget}, "pairs": state["pairs"],
                             "action": state["action"]})
                expected = {arm: (out["loss"], out["grad"])}
                expected |= {a: (out[a]["loss"], out[a]["grad"]) for a in ARMS if a in out}
                assert len(expected) == 6
                for name, (value, grad) in expected.items():
                    z = self.old[n].clone().requires_grad_()
                    loss = self.token_loss(name, n, z)
                    loss.backward()
                    if isinstance(grad, dict):  # over the ids that it reaches
                        grad = [grad.get(str(i), 0.0) for i in range(REAL_IDS)]
                    assert abs(float(loss.detach()) - value) < 1e-12, (name, n)
                    assert float((z.grad - torch.tensor(grad, dtype=torch.float64)).abs().max()) < 1e-12, (name, n)
                    if name == arm:  # -(M / m) sum of D (e_b - e_a), from the paper's first-update gradient
                        for (a, b), target in zip(state["pairs"], state["target"][arm]):
                            assert 0 < target < 1
                            z.grad[b] += state["mass"] / M * target
                            z.grad[a] -= state["mass"] / M * target
                        assert float(z.grad.abs().max()) < 1e-12, (name, n)

    def assert_states_match_labels(self, model: Qwen3ForCausalLM) -> None:
        """The rows are those that transformers shifts its labels to."""
        total = 0.0
        for prompt, group in zip(self.prompts, self.responses):
            for ids in group:
                labels = torch.tensor([[-100] * len(prompt) + ids])
                with torch.no_grad():
                    total += len(ids) * float(model(torch.tensor([prompt + ids]), labels=labels).loss)
        rows = self.logits(lambda ids: decode(TINY, weights_of(model), ids))
        assert abs(float(cross_entropy(rows, torch.tensor(self.actions), reduction="sum")) / total - 1) < FLOAT32


def one_batch(student: Weights, teacher: Weights) -> Batch:
    rng = random.Random(BATCH_SEED)
    prompts = [[rng.randrange(REAL_IDS) for _ in range(length)] for length in PROMPT_LENGTHS]
    responses = [[[rng.randrange(REAL_IDS) for _ in range(length)] for length in lengths]
                 for lengths in RESPONSE_LENGTHS]
    batch = Batch(student, teacher, prompts, responses, STEP)
    batch.assert_telling()
    return batch


# ---- updates --------------------------------------------------------------------------------------------------------

def assert_gradient(batch: Batch, arm: str, start: Weights, grads: Weights, model: Qwen3ForCausalLM) -> None:
    """Finite differences along the gradient give its length, sign included; autograd through transformers agrees."""
    norm = math.sqrt(sum(float((g ** 2).sum()) for g in grads.values()))

    def along(step: float) -> float:
        moved = {name: w + step / norm * grads[name] for name, w in start.items()}
        return float(batch.loss(arm, lambda ids: decode(TINY, moved, ids)))
    h = 1e-4
    slope = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    assert abs(slope - norm) < 1e-7 * norm < abs(slope + norm), (arm, slope, norm)
    model.zero_grad()
    batch.loss(arm, lambda ids: model(torch.tensor([ids])).logits[0]).backward()
    for name, parameter in model.named_parameters():
        largest = float(grads[name].abs().max())
        assert largest > 0 and float((parameter.grad - grads[name]).abs().max()) < 10 * FLOAT32 * largest, (arm, name)


def write_update(batch: Batch, arm: str, model: Qwen3ForCausalLM) -> dict[str, float]:
    start = weights_of(model)
    weights = {name: w.clone().requires_grad_() for name, w in start.items()}
    loss = batch.loss(arm, lambda ids: decode(TINY, weights, ids))
    loss.backward()
    grads = {name: w.grad.clone() for name, w in weights.items()}
    assert not grads["model.embed_tokens.weight"][REAL_IDS:].any()
    assert_gradient(batch, arm, start, grads, model)
    norm = float(torch.nn.utils.clip_grad_norm_(weights.values(), MAX_NORM))
    torch.optim.AdamW(weights.values(), **ADAMW).step()
    deltas = {name: (w - start[name]).detach() for name, w in weights.items()}

    def moved(share: float) -> float:
        there = {name: w + share * deltas[name] for name, w in start.items()}
        return float(batch.loss(arm, lambda ids: decode(TINY, there, ids)))
    # A hundredth of the step: the whole one, of one size in nearly all parameters, may overshoot a small loss.
    assert moved(0.01) < moved(0) < moved(-0.01), (arm, "the update must lower its loss, and its opposite raise it")
    tensors = {f"{kind}.{name}": tensor.float().contiguous()
               for kind, named in (("grad", grads), ("delta", deltas)) for name, tensor in named.items()}
    save_file(tensors, OUT / f"update_{arm}.safetensors", metadata={"made_by": json.dumps(VERSIONS)})
    return {"loss": float(loss.detach()), "grad_norm": norm, "loss_after": moved(1)}


def lines(items: list[Any]) -> str:
    return "[\n  " + ",\n  ".join(json.dumps(item, allow_nan=False) for item in items) + "\n ]"


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.disable_progress_bar()
    student = make_model(TINY, seed=1)
    teacher = make_model(TINY, seed=2, near=dict(student.named_parameters()))
    untied = make_model(UNTIED, seed=3)
    for seed, (name, shape, model) in enumerate((
            ("student", TINY, student), ("teacher", TINY, teacher), ("untied", UNTIED, untied))):
        model.save_pretrained(OUT / name)
        strayed = write_forward(name, shape, model, seed)
        print(f"{name}: float32 within {strayed:.1e} of float64")
    batch = one_batch(weights_of(student), weights_of(teacher))
    batch.assert_states_match_labels(student)
    batch.assert_losses_match_route()
    arms = {arm: write_update(batch, arm, student) for arm in ARMS}
    settings = {"real_ids": REAL_IDS, "k": K, "m": M, "seed": ROUTING_SEED, "step": STEP, "kappa": 1.0, "delta_p": 1e-8,
                "max_norm": MAX_NORM, "adamw": ADAMW, "states": len(batch.states)}
    parts = {**{key: json.dumps(value) for key, value in VERSIONS.items()}, "settings": json.dumps(settings),
             "prompts": lines(batch.prompts), "responses": lines(batch.responses),
             "arms": "{\n  " + ",\n  ".join(f'"{arm}": {json.dumps(row)}' for arm, row in arms.items()) + "\n }",
             "states": lines(batch.states)}
    text = "{\n " + ",\n ".join(f'"{key}": {value}' for key, value in parts.items()) + "\n}\n"
    assert list(json.loads(text)) == list(parts)
    (OUT / "batch.json").write_text(text, encoding="utf-8")
    for arm, row in arms.items():
        print(f"{arm:12} loss {row['loss']:.6f}  gradient norm {row['grad_norm']:.6f}  after {row['loss_after']:.6f}")


if __name__ == "__main__":
    main()
