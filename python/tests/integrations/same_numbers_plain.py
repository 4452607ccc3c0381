# SPDX-License-Identifier: Apache-2.0
"""The road of plain PyTorch: transformers' forward in float64, routing and losses as their equations say, autograd.

Nothing of the package is used here, nor of the program: pairs are drawn by a Philox of its own.

Shapes: N response states of the batch, n of them that count, R real ids, K columns of a top-k, M pairs per state.
"""

from __future__ import annotations

import itertools
import math

import torch
import transformers
from safetensors.torch import load_file, save_file
from same_numbers import FED, REAL_IDS, SEED, STUDENT, TEACHER, Answer, K, M, states_of

KAPPA, B_MIN, B_MAX, FIXED_MID = 1.0, math.log(1.2), math.log(1.5), math.log(1.35)
DELTA_M, DELTA_P = 1e-6, 1e-8
PURPOSE_OF_PAIRS = 2


def model(path, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager").eval()


def logits_of(network, rows):
    """[N, R]: row j of a response is what the network says after the prompt and j tokens of it."""
    found = []
    for row in rows:
        logits = network(torch.tensor([row.prompt + row.response]), use_cache=False).logits[0, :, :REAL_IDS]
        found.append(logits[len(row.prompt) - 1 : -1])
    return torch.cat(found)


def top_of(logits):
    values, ids = logits.sort(dim=-1, descending=True, stable=True)
    return ids[:, :K], values[:, :K]


def write_given(folder, rows):
    """Both models' values at all states in float32; the teacher's are log-probabilities, as a server sends them."""
    with torch.no_grad():
        student = logits_of(model(STUDENT, torch.float32), rows)
        teacher = logits_of(model(TEACHER, torch.float32), rows).log_softmax(-1)
    taken = torch.tensor([row.response[j] for row in rows for j in range(len(row.response))])[:, None]
    (s_ids, s_values), (t_ids, t_values) = top_of(student), top_of(teacher)
    given = {
        "student_ids": s_ids.int(), "student_logits": s_values, "student_logsumexp": student.logsumexp(-1),
        "student_at_teacher": student.gather(1, t_ids), "student_taken": student.log_softmax(-1).gather(1, taken)[:, 0],
        "teacher_ids": t_ids.int(), "teacher_logits": t_values, "teacher_logsumexp": torch.zeros(len(student)),
        "teacher_at_student": teacher.gather(1, s_ids), "teacher_taken": teacher.gather(1, taken)[:, 0],
    }  # fmt: skip
    save_file({name: value.contiguous() for name, value in given.items()}, folder / "given.safetensors")


# ---- routing of one state -------------------------------------------------------------------------------------------


def philox(counter, key):
    """Philox4x32-10 of Salmon et al., SC 2011."""
    word = 0xFFFFFFFF
    for _ in range(10):
        first, third = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [third >> 32 ^ counter[1] ^ key[0], third & word, first >> 32 ^ counter[3] ^ key[1], first & word]
        key = [key[0] + 0x9E3779B9 & word, key[1] + 0xBB67AE85 & word]
    return counter


def drawn(q, word):
    """Where the uniform falls in the distribution, and how far it is from the nearest step."""
    uniform = (word >> 8) / 2**24
    steps = list(itertools.accumulate(q.tolist()))
    return next(i for i, step in enumerate(steps) if step > uniform), min(abs(step - uniform) for step in steps)


def pairs_of(q_minus, q_plus, address):
    """Columns of M sources and destinations, and the nearest step of either's uniform."""
    step, prompt, response, position = address
    found = []
    for draw in range(M):
        counter = [PURPOSE_OF_PAIRS << 24 | draw, step, prompt << 8 | response, position]
        words = philox(counter, [SEED & 0xFFFFFFFF, SEED >> 32])
        (a, one), (b, other) = drawn(q_minus, words[0]), drawn(q_plus, words[1])
        found.append((a, b, min(one, other)))
    return found


def route(student, teacher, address, budget):
    """Of values of both models on the union: support statistics and pairs, float64."""
    ids = sorted(student)
    z, t = (torch.tensor([side[i] for i in ids], dtype=torch.float64) for side in (student, teacher))
    p, log_t = z.softmax(0), t.log_softmax(0)
    potential = log_t.exp().clamp(min=DELTA_P).log() - p.clamp(min=DELTA_P).log()
    excess, deficit = (p - log_t.exp()).clamp(min=0), (log_t.exp() - p).clamp(min=0)
    mass = float(excess.sum() + deficit.sum()) / 2
    q_minus, q_plus = excess / excess.sum(), deficit / deficit.sum()
    count = int((deficit > 0).sum())
    concentration = 1.0 if count == 1 else (count * float(q_plus.square().sum()) - 1) / (count - 1)
    bound = B_MIN + (B_MAX - B_MIN) * min(max(concentration, 0.0), 1.0) if budget == "adaptive" else FIXED_MID
    bounded = bound / 2 * torch.tanh(2 * potential / bound)
    assert mass > DELTA_M, "such a state would not be routed"
    return {
        "ids": torch.tensor(ids), "p_student": p, "p_teacher": log_t.exp(), "log_teacher": log_t, "mass": mass,
        "bounded": bounded, "q_minus": q_minus, "q_plus": q_plus, "pairs": pairs_of(q_minus, q_plus, address),
    }  # fmt: skip


def unions(sides):
    """Values of both models on the union at each state, by id: from given values, or from logits [n, R]."""
    if isinstance(sides, dict):
        for n in range(len(sides["student_ids"])):
            row = {name: value[n].tolist() for name, value in sides.items() if value.dim() == 2}
            ids = row["student_ids"] + row["teacher_ids"]
            students = zip(ids, row["student_logits"] + row["student_at_teacher"], strict=True)
            teachers = zip(ids, row["teacher_at_student"] + row["teacher_logits"], strict=True)
            yield dict(students), dict(teachers)
        return
    student, teacher = sides
    for z, t, one, other in zip(student, teacher, top_of(student)[0], top_of(teacher)[0], strict=True):
        ids = sorted({*one.tolist(), *other.tolist()})
        yield dict(zip(ids, z[ids].tolist(), strict=True)), dict(zip(ids, t[ids].tolist(), strict=True))


# ---- losses ---------------------------------------------------------------------------------------------------------


def huber(x):
    return torch.where(x.abs() <= KAPPA, x.square() / 2, KAPPA * (x.abs() - KAPPA / 2))


def state_loss(arm, z, routed):
    """At current logits z [R] of a first update, where the old policy is the current one."""
    if arm == "union_rkl":
        log_p = z[routed["ids"]].log_softmax(0)
        return (log_p.exp() * (log_p - routed["log_teacher"])).sum()
    change = (z.log_softmax(0) - z.detach().log_softmax(0))[routed["ids"]]
    moved = change - routed["bounded"]
    if arm == "exact":
        weights = routed["q_minus"][:, None] * routed["q_plus"][None, :]
        return routed["mass"] * (weights * huber(moved[None, :] - moved[:, None])).sum()
    a, b, _ = (list(column) for column in zip(*routed["pairs"], strict=True))
    return routed["mass"] / M * huber(moved[b] - moved[a]).sum()


def answer(folder, rows, scoring, arm):
    """Loss, gradients and routes of the batch; routes also have "edge", how near a uniform was to a step."""
    states = states_of(rows)
    counted = torch.tensor([mask == 1 for _, _, mask, _ in states])
    addresses = [address for _, _, mask, address in states if mask]
    student = model(STUDENT, torch.float64)
    z = logits_of(student, rows)[counted]
    with torch.no_grad():
        t = logits_of(model(TEACHER, torch.float64), rows)[counted].log_softmax(-1)
    given = {name: value[counted] for name, value in load_file(folder / "given.safetensors").items()}
    taken = torch.tensor([rows[b].response[j] for b, j, mask, _ in states if mask])[:, None]
    budget = "fixed_mid" if arm == "fixed_mid" else "adaptive"
    sides = unions(given if scoring == FED else (z.detach(), t))
    routed = [route(*side, address, budget) for side, address in zip(sides, addresses, strict=True)]
    if arm == "sampled_rkl":
        log_p = z.log_softmax(-1).gather(1, taken)[:, 0]
        teacher_taken = given["teacher_taken"].double() if scoring == FED else t.gather(1, taken)[:, 0]
        losses = -(log_p - log_p.detach()).exp() * (teacher_taken - log_p.detach())
    else:
        losses = torch.stack([state_loss(arm, row, of) for row, of in zip(z, routed, strict=True)])
    loss = losses.sum() / int(counted.sum())
    loss.backward()
    gradients = {name: value.grad for name, value in student.named_parameters() if value.grad is not None}
    return Answer(float(loss.detach()), gradients, _routes(arm, routed))


def _routes(arm, routed):
    if arm == "sampled_rkl":
        return {}
    found = {"weight": torch.tensor([of["mass"] for of in routed], dtype=torch.float64)}
    if arm in ("exact", "union_rkl"):
        found["support_sizes"] = torch.tensor([len(of["ids"]) for of in routed], dtype=torch.int32)
        found["support_ids"] = torch.cat([of["ids"] for of in routed]).int()
        for name in ("p_student", "p_teacher") + (("bounded",) if arm == "exact" else ()):
            found[f"support_{name}"] = torch.cat([of[name] for of in routed])
        return found
    at = lambda name, column: torch.stack([of[name][[pair[column] for pair in of["pairs"]]] for of in routed])
    found |= {"source": at("ids", 0).int(), "destination": at("ids", 1).int()}
    found |= {"target": at("bounded", 1) - at("bounded", 0)}
    found["edge"] = torch.tensor([[pair[2] for pair in of["pairs"]] for of in routed], dtype=torch.float64)
    return found
