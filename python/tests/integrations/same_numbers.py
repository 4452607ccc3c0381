# SPDX-License-Identifier: Apache-2.0
"""One rollout through every implementation: the batch, both models' values at its states, answers, and their
comparison. Each implementation ("road") writes its answer to the same folder, so that environments that cannot be one
(TRL's, verl's) are compared all the same.

    batch.jsonl                one line per response: ids, mask, addresses
    given.safetensors          both models' top-k there, for roads that are fed the same values
    ROAD-SCORING-ARM.safetensors   loss, routes and gradients of a road

Shapes: B responses, N response states of the batch, n of them that count, K columns of a top-k, M pairs per state.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess

import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[3]
STUDENT, TEACHER = ROOT / "lab/base", ROOT / "lab/teacher"
REAL_IDS, SEED, K, M = 493, 42, 16, 2
ARMS = {
    "routeopd": {"arm": "routeopd"},
    "fixed_mid": {"arm": "fixed_mid"},
    "exact": {"arm": "routeopd", "pairs": "exact"},
    "union_rkl": {"arm": "union_rkl"},
    "sampled_rkl": {"arm": "sampled_rkl"},
}
FED, OWN = "fed", "own"  # the same top-k values for all, or each road's own scoring
# Of a loss, absolute; of each tensor's gradient, the norm of its error in units of its own.
TOLERANCES = {FED: (1e-6, 1e-5), OWN: (1e-4, 1e-4)}
# A uniform this near to a step of a distribution may fall on its other side. The distributions are differences of
# probabilities, which float32 rounds by up to 2^-24 each, divided by the mass M of the state: their steps are good to
# ROUNDING / M, whoever scores. Below M = 1.2e-3 that is more than EDGE.
EDGE, ROUNDING = 1e-4, 2.0**-23


@dataclasses.dataclass(frozen=True)
class Row:
    """One response."""

    prompt: list[int]
    response: list[int]
    mask: list[int]  # 0: a tool's token
    address: list[list[int]]  # step, prompt, response, position of each state

    def shifted(self) -> Row:
        """The same values and addresses, one position later in the same text."""
        ids = [*self.response[1:], self.response[0]]
        return dataclasses.replace(self, prompt=[*self.prompt, self.response[0]], response=ids)


def write_batch(rows, path):
    path.write_text("".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in rows))


def read_batch(folder):
    return [Row(**json.loads(line)) for line in (folder / "batch.jsonl").read_text().splitlines()]


def states_of(rows):
    """Response, position, mask and address of every state, in the batch's order."""
    return [(b, j, row.mask[j], tuple(row.address[j])) for b, row in enumerate(rows) for j in range(len(row.response))]


def places(rows):
    """Number of the state among all N, by its address."""
    return {address: n for n, (_, _, _, address) in enumerate(states_of(rows))}


def rows_at(rows, address):
    """Numbers of the states at addresses [n, 4]."""
    known = places(rows)
    return torch.tensor([known[tuple(at)] for at in address.tolist()], dtype=torch.long)


def make_batch(program, tokenizer, folder):
    """Eight responses of the laboratory's student, written by the program, with a tool's tokens marked in some."""
    run = [program, "train", "recipes/lab.toml", "--out", str(folder / "run"), "--quiet"]
    for setting in (
        "train.steps=1", "train.rollouts=true", "rollout.prompts_per_step=4", "rollout.n=2", "data.shuffle=false",
        "rollout.max_new_tokens=48",
    ):  # fmt: skip
        run += ["--set", setting]
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True)
    problems = [json.loads(line) for line in (ROOT / "lab/train.jsonl").read_text().splitlines()[:64]]
    texts = {str(problem["id"]): f"Problem: {problem['problem']}\nSolution:" for problem in problems}
    rows = []
    for line in map(json.loads, (folder / "run/rollouts.jsonl").read_text().splitlines()):
        number, length = len(rows), len(line["ids"])
        prompt = tokenizer(texts[str(line["id"])], add_special_tokens=False)["input_ids"]
        mask = [0 if number % 3 == 0 and j in (1, 2) else 1 for j in range(length)]
        address = [[3, number // 2, line["sample"], j] for j in range(length)]
        rows.append(Row(prompt, line["ids"], mask, address))
    write_batch(rows, folder / "batch.jsonl")


@dataclasses.dataclass
class Answer:
    """Of one road: routes at the states that count, ordered by address."""

    loss: float
    gradients: dict[str, torch.Tensor]
    routes: dict[str, torch.Tensor]  # source, destination, target [n, M]; weight, support_sizes [n]; support_… [L]

    def save(self, path):
        tensors = {"loss": torch.tensor([self.loss], dtype=torch.float64)}
        tensors |= {f"gradient.{name}": value for name, value in self.gradients.items()} | self.routes
        save_file({name: value.contiguous() for name, value in tensors.items()}, path)

    @staticmethod
    def load(path):
        tensors = load_file(path)
        loss = float(tensors.pop("loss"))
        gradients = {n.removeprefix("gradient."): v for n, v in tensors.items() if n.startswith("gradient.")}
        routes = {name: value for name, value in tensors.items() if not name.startswith("gradient.")}
        flat = lambda name, value: value.reshape(-1) if name.startswith(("weight", "support_")) else value
        return Answer(loss, gradients, {name: flat(name, value) for name, value in routes.items()})


def given_student(given, states):
    """The student's given side of some states, as the package takes it."""
    from routeopd import TopK  # the plain road and the trainer's do without the package

    names = ("student_ids", "student_logits", "student_logsumexp", "teacher_ids", "student_at_teacher")
    ids, logits, total, theirs, at_theirs = (given[name][states] for name in names)
    return TopK(ids, logits, total, REAL_IDS, theirs, at_theirs)


def routes_of(rows, made):
    """Routes of the package, made in parts [(address, Routes)…], as an answer has them."""
    order = torch.cat([rows_at(rows, address) for address, _ in made]).argsort()
    whole = lambda take: torch.cat([take(routes) for _, routes in made])[order]
    found = {name: whole(lambda r, name=name: getattr(r, name)) for name in ("source", "destination", "target")}
    found["weight"] = whole(lambda r: r.weight)
    if made[0][1].support is None:
        return found
    width = max(routes.support.ids.shape[1] for _, routes in made)
    padded = lambda value, pad: torch.nn.functional.pad(value, (0, width - value.shape[1]), value=pad)
    ids = whole(lambda r: padded(r.support.ids, -1))
    found |= {"support_sizes": (ids >= 0).sum(1).int(), "support_ids": ids[ids >= 0]}
    for name in ("p_student", "p_teacher", "bounded"):
        found[f"support_{name}"] = whole(lambda r, name=name: padded(getattr(r.support, name), 0.0))[ids >= 0]
    return found


def trainer_answer(folder, scoring, arm, out, *, batch=None, given=None, student=STUDENT):
    """The C++ trainer's answer; `batch`, `given` and `student` in place of the folder's and the laboratory's."""
    default = ROOT / "build/tests/learner_gradients"
    tool = os.environ.get("ROUTEOPD_LEARNER_GRADIENTS", str(default))
    command = [tool, "recipes/lab.toml", str(batch or folder / "batch.jsonl"), str(out)]
    settings = {f"objective.{name}": value for name, value in ARMS[arm].items()} | {"objective.k": K, "objective.m": M}
    settings |= {"student.path": student, "seed": SEED, "rollout.old_scores": "rescore"}
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    if scoring == FED:
        command += ["--given", str(given or folder / "given.safetensors")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return Answer.load(out)


def gradient_gap(got, want):
    """The largest relative error of a tensor, norm by norm, and the tensor's name."""
    assert got.keys() == want.keys(), got.keys() ^ want.keys()
    gaps = {n: float((got[n].double() - want[n].double()).norm() / want[n].double().norm()) for n in want}
    worst = max(gaps, key=gaps.get)
    return gaps[worst], worst


def differences(got, want, scoring, *, edges=None):
    """What of an answer is not as in another one, in words; nothing where they agree.

    `edges`: how near the uniforms of the pairs were to a step, [n, M], as plain PyTorch says; None: pairs are not to
    differ at all.
    """
    found = []
    loss, gradient = TOLERANCES[scoring]
    if not abs(got.loss - want.loss) <= loss:
        found.append(f"loss {got.loss!r}, expected {want.loss!r}")
    gap, name = gradient_gap(got.gradients, want.gradients)
    if not gap <= gradient:
        found.append(f"gradient of {name}: {gap:.1e}")
    return found + _route_differences(got.routes, want.routes, scoring, edges)


def _route_differences(got, want, scoring, edges):
    both = got.keys() & want.keys()
    if any(got[name].shape != want[name].shape for name in both):
        return ["routes of another shape"]
    found = [
        name for name in ("support_sizes", "support_ids") if name in both and not torch.equal(got[name], want[name])
    ]
    gaps = {}
    if "source" in both and want["source"].numel():
        same = (got["source"] == want["source"]) & (got["destination"] == want["destination"])
        allowed = ROUNDING / want["weight"].double()[:, None]
        allowed = allowed.clamp(min=EDGE) if scoring == OWN else allowed
        turned = ~same if edges is None else ~same & (edges >= allowed)
        if bool(turned.any()):
            found.append(f"{int(turned.sum())} pairs")
        gaps["target"] = _gap(got, want, "target", want["weight"][:, None])[same]
    # What a target adds to the loss is its product with the mass, and so are errors of the budget in it.
    if "support_sizes" in both and not found:
        weight = want["weight"].repeat_interleave(want["support_sizes"].long())
        weights = {"support_p_student": 1, "support_p_teacher": 1, "support_bounded": weight}
        gaps |= {name: _gap(got, want, name, of) for name, of in weights.items() if name in both}
    gaps["weight"] = _gap(got, want, "weight", 1) if "weight" in both else torch.zeros(0)
    tolerance = TOLERANCES[scoring][0]
    return found + [f"{n}: {float(gap.max()):.1e}" for n, gap in gaps.items() if gap.numel() and gap.max() > tolerance]


def _gap(got, want, name, weight):
    return (got[name].double() - want[name].double()).abs() * weight
