# SPDX-License-Identifier: Apache-2.0
"""The road of verl: one optimizer batch of its FSDP2 engine under the plug-in, in two micro-batches.

Fields of verl's batch carry the teacher's given values, as its server sends them; the student's take the place of those
that the training forward would have found.

Shapes: B responses, P columns of prompts, R of responses, L packed rows, N response states.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from unittest import mock

import torch
import verl_lab
from safetensors.torch import load_file
from same_numbers import ARMS, FED, SEED, Answer, K, M, given_student, routes_of, rows_at

import routeopd.verl.engine as engine_module
import routeopd.verl.head as head_module
from routeopd.verl import ENVIRONMENT
from routeopd.verl.states import AT_STUDENT


@functools.cache
def engine():
    return verl_lab.engine_of()


def padded(rows):
    """Ids and mask [B, P + R], response mask [B, R], and P: prompts end at column P, responses begin there."""
    P, R = max(len(row.prompt) for row in rows), max(len(row.response) for row in rows)
    ids, mask = (torch.zeros(len(rows), P + R, dtype=torch.long) for _ in range(2))
    response_mask = torch.zeros(len(rows), R, dtype=torch.long)
    for b, row in enumerate(rows):
        part = slice(P - len(row.prompt), P + len(row.response))
        ids[b, part], mask[b, part] = torch.tensor(row.prompt + row.response), 1
        response_mask[b, : len(row.response)] = torch.tensor(row.mask)
    return ids, mask, response_mask, P


def at_columns(rows, values, P, columns):
    """Values of all states [N, …] at the columns of the tokens that they follow: [B, columns, …]."""
    found = values.new_zeros((len(rows), columns, *values.shape[1:]))
    first = 0
    for b, row in enumerate(rows):
        found[b, P - 1 : P - 1 + len(row.response)] = values[first : first + len(row.response)]
        first += len(row.response)
    return found


def data_of(rows, arm, given):
    """The batch as verl's trainer hands it over; `given`: both models' values, or None."""
    ids, mask, response_mask, P = padded(rows)
    sampled = arm == "sampled_rkl"
    spread = lambda values: at_columns(rows, values, P, ids.shape[1])
    if given is None:
        teacher = verl_lab.scored(verl_lab.model(verl_lab.TEACHER), ids, mask, 0 if sampled else verl_lab.VOCABULARY)
    elif sampled:
        teacher = (ids.roll(-1, 1)[..., None], spread(given["teacher_taken"][:, None]))
    else:
        teacher = (spread(given["teacher_ids"]), spread(given["teacher_logits"]))
    address = torch.zeros(*response_mask.shape, 4, dtype=torch.long)
    for b, row in enumerate(rows):
        address[b, : len(row.response)] = torch.tensor(row.address)
    data = verl_lab.batch(ids, mask, response_mask, *teacher, P, routeopd_address=address)
    if given is not None and not sampled:
        at_student = spread(given["teacher_at_student"])[mask.bool()]
        data[AT_STUDENT] = torch.nested.nested_tensor_from_jagged(at_student, data["input_ids"].offsets())
    return data


def answer(folder, rows, scoring, arm, mutate=None):
    """Loss, gradients and routes; `mutate` names a change of the plug-in or of what it is given."""
    given = load_file(folder / "given.safetensors") if scoring == FED else None
    data = data_of(rows, arm, given)
    sampled, made = arm == "sampled_rkl", []
    compute, work_of = engine_module.compute, engine_module.Work

    def kept(hidden, weight, work, **head):
        head |= {"logit_scale": 1 / 0.9} if mutate == "temperature" else {}
        with contextlib.ExitStack() as stack:
            if given is not None:
                ours = given_student(given, rows_at(rows, work.states.address))
                stack.enter_context(mock.patch.object(head_module, "top_k", return_value=ours))
            found = compute(hidden, weight, work, **head)
        if work.routes is not None:
            made.append((work.states.address, work.routes))
        return found

    def placed(objective, states, hidden_rows):
        return work_of(objective, states, hidden_rows + (mutate == "shift"))

    everything = (data["attention_mask"][:, data["prompts"].shape[1] :] > 0).long()  # a tool's tokens too
    if mutate == "mask":
        data["response_mask"] = data["loss_mask"] = everything
    if mutate == "denominator":
        data["loss_mask"] = everything
    settings = {name: value for name, value in ARMS[arm].items() if name != "arm"} | {"k": K, "m": M, "seed": SEED}
    topk = K if scoring == FED else verl_lab.VOCABULARY
    with (
        mock.patch.dict(os.environ, {ENVIRONMENT: json.dumps(settings)}),
        mock.patch.object(engine_module, "compute", kept),
        mock.patch.object(engine_module, "Work", placed),
    ):
        loss = verl_lab.loss_of(f"routeopd:{ARMS[arm]['arm']}", topk)
        value, gradients, _ = verl_lab.one_batch(engine(), verl_lab.ready(data, topk=not sampled), loss)
    return Answer(float(value), gradients, routes_of(rows, made) if made else {})


MUTATIONS = {name: name for name in ("denominator", "mask", "shift", "temperature")}
