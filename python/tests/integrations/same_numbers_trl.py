# SPDX-License-Identifier: Apache-2.0
"""The road of TRL: one optimizer step of RouteOPDTrainer on the given batch, in two micro-batches."""

from __future__ import annotations

import contextlib
from unittest import mock

import torch
from safetensors.torch import load_file
from same_numbers import ARMS, FED, STUDENT, TEACHER, Answer, K, M, given_student, routes_of, rows_at
from same_numbers_plain import model
from trl_cases import Case

from routeopd.trl import objective as objective_module


class GivenCase(Case):
    """A trainer whose generation answers with the batch's ids, and whose states have its addresses."""

    def __init__(self, rows, arm):
        self.rows, self.made, self.numbers = rows, [], []
        student, teacher = (model(path, torch.float32) for path in (STUDENT, TEACHER))
        super().__init__(student, teacher, micro=4, accumulation=2, k=K, m=M, **ARMS[arm])
        trainer = self.trainer
        score, at = trainer.score, trainer.objective.at

        def scored(batch):
            address = batch["routeopd_address"]
            for place, number in enumerate(self.numbers):
                given = torch.tensor(rows[number].address)
                address[place, : len(given)] = given
            return score(batch)

        def kept(*arguments, address, **more):
            found = at(*arguments, address=address, **more)
            if found.routes is not None:
                self.made.append((address, found.routes))
            return found

        trainer.score, trainer.objective.at = scored, kept

    def _generate(self, prompts):
        self.numbers = [int(prompt) for prompt in prompts]
        answers = [self.rows[number] for number in self.numbers]
        return [r.prompt for r in answers], [r.response for r in answers], [r.mask for r in answers], None, None

    def answer(self):
        self.train()
        return Answer(self.losses[0], self.gradients[0], routes_of(self.rows, self.made))


@contextlib.contextmanager
def fed(case, given):
    """In place of what the models say at a state: the given values. Their hidden states stay what they are."""
    objective = case.trainer.objective
    score, routes = case.trainer.score, objective._routes

    def scored(batch):
        found = score(batch)
        for place, number in enumerate(case.numbers):
            rows = rows_at(case.rows, torch.tensor(case.rows[number].address))
            for name, value in (
                ("ids", "ids"),
                ("logits", "logits"),
                ("logsumexp", "logsumexp"),
                ("log_prob", "taken"),
            ):
                if "routeopd_" + name in found:
                    found["routeopd_" + name][place, : len(rows)] = given["teacher_" + value][rows]
        return found

    def made(student, teacher, address):
        states = rows_at(case.rows, address)
        ours = given_student(given, states)
        with (
            mock.patch.object(objective_module, "top_k", return_value=ours),
            mock.patch.object(teacher, "gather", return_value=given["teacher_at_student"][states]),
        ):
            return routes(student, teacher, address)

    with mock.patch.object(case.trainer, "score", scored), mock.patch.object(objective, "_routes", made):
        yield


def answer(folder, rows, scoring, arm, mutate=None):
    """Loss, gradients and routes; `mutate(trainer)` changes the trainer before its step."""
    case = GivenCase(rows, arm)
    if mutate is not None:
        mutate(case.trainer)
    with fed(case, load_file(folder / "given.safetensors")) if scoring == FED else contextlib.nullcontext():
        return case.answer()


# ---- mutations ------------------------------------------------------------------------------------------------------


def denominator(trainer):
    given = trainer._compute_loss
    trainer._compute_loss = lambda student, inputs, items: given(student, inputs, items + 1)


def mask(trainer):
    given = trainer._compute_loss
    without = lambda inputs: {name: value for name, value in inputs.items() if name != "tool_mask"}
    trainer._compute_loss = lambda student, inputs, items: given(student, without(inputs), items)


def shift(trainer):
    given = trainer._get_last_hidden_state
    trainer._get_last_hidden_state = lambda *a, **k: given(*a, **k).roll(-1, 1)


def temperature(trainer):
    given = trainer._head

    @contextlib.contextmanager
    def head(network):
        with given(network) as found:
            found._arguments = {**found._arguments, "logit_scale": 1 / 0.9}
            yield found

    trainer._head = head


MUTATIONS = {"denominator": denominator, "mask": mask, "shift": shift, "temperature": temperature}
