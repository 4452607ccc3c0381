"""Writes route.jsonl: the RouteOPD operator computed independently of the C++ code, as goldens for `routeopd route`.

Everything is written from the paper's equations, in float64; every gradient is torch autograd of the loss formula on
the full vector of current logits, checked here against finite differences. Nothing is derived by hand. The first line
of route.jsonl tells how it was made; each other line is {"name", "in": route in, "out": route out}.
Pairs are given in "in" wherever they are needed, so no reader samples. No residual lies on the Huber knee, and no id
has p_student == p_teacher unless the models are identical on U, so no golden hangs on an implementation's last bit.
Where the mass is near 1e-6, excess, deficit and q hold to about 1e-10 relative only (cancellation in p_S - p_T).

Written with torch 2.13.0+cpu and Python 3.11.7 by: python tests/goldens/make_route_goldens.py
"""
from __future__ import annotations

import json
import math
import platform
import random
import warnings
from functools import partial
from pathlib import Path
from typing import Any, Callable, Sequence

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
from torch import Tensor

SEED = 20260
DEFAULTS: dict[str, Any] = {
    "k": 32, "pairs": "sample", "budget": "adaptive", "side": "pair", "weight": "mass", "target": "shared",
    "b_min": math.log(1.2), "b_max": math.log(1.5), "kappa": 1.0, "ratio_clip": 0.0,
    "delta_p": 1e-8, "delta_m": 1e-6, "delta_diag": 1e-12}
FIXED_BUDGETS = {"fixed_low": math.log(1.2), "fixed_mid": math.log(1.35), "fixed_high": math.log(1.5)}
KNEE_STEP, SMOOTH_STEP = 1e-5, 1e-3  # finite-difference steps: losses with a Huber knee, and smooth ones
Loss = Callable[[Tensor], Tensor]
vector = partial(torch.tensor, dtype=torch.float64)
log_softmax = partial(torch.log_softmax, dim=0)


def huber(residual: Tensor, kappa: float) -> Tensor:
    size = residual.abs()
    return torch.where(size <= kappa, 0.5 * residual ** 2, kappa * (size - 0.5 * kappa))


def top_k(logits: Tensor, k: int | str) -> list[int]:
    ranked = sorted(range(len(logits)), key=lambda i: (-float(logits[i]), i))
    return ranked if k == "full" else ranked[:int(k)]


def gradient(loss: Loss, current: Tensor, step: float, noise: float) -> tuple[float, list[float]]:
    """The loss and its autograd gradient on the full current logits, checked by fourth-order differences."""
    logits = current.clone().requires_grad_()
    value = loss(logits)
    value.backward()
    grad, largest = logits.grad, float(logits.grad.abs().max())
    assert abs(float(grad.sum())) <= 1e-12 * max(1.0, largest), "every objective is invariant to a common shift"
    for i in range(len(current)):
        if current[i] == -math.inf and grad[i] == 0:
            continue
        unit = torch.zeros_like(current)
        unit[i] = step
        near, far = loss(current + unit) - loss(current - unit), loss(current + 2 * unit) - loss(current - 2 * unit)
        numeric = float(8 * near - far) / (12 * step)
        assert abs(numeric - float(grad[i])) <= 1e-6 * largest + noise, (i, numeric, float(grad[i]))
    return float(value.detach()), grad.tolist()


def restricted(grad: list[float], ids: Sequence[int]) -> dict[str, float]:
    """The gradient as a map over `ids`; what is left out must be zero up to rounding."""
    assert all(abs(g) <= 1e-13 * max(map(abs, grad)) for i, g in enumerate(grad) if i not in set(ids))
    return {str(i): grad[i] for i in sorted(set(ids))}


def reverse_kl(log_p: Tensor, log_teacher: Tensor, delta_p: float) -> Tensor:
    kept = torch.isfinite(log_p.detach())
    floored = torch.where(torch.isfinite(log_teacher), log_teacher, math.log(delta_p))[kept]
    return (log_p[kept].exp() * (log_p[kept] - floored)).sum()


def forward_kl(log_p: Tensor, log_teacher: Tensor) -> Tensor:
    kept = torch.isfinite(log_p.detach()) & torch.isfinite(log_teacher)
    return (log_teacher[kept].exp() * (log_teacher[kept] - log_p[kept])).sum()


def sampled_rkl(log_p: Tensor, log_old: Tensor, log_teacher: Tensor, clip: float, delta_p: float) -> Tensor:
    advantage = (log_teacher if torch.isfinite(log_teacher) else math.log(delta_p)) - log_old
    ratio = (log_p - log_old).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip) if clip > 0 else ratio
    return -torch.minimum(ratio * advantage, clipped * advantage)


def statistics(student: Tensor, teacher: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """The detached routing statistics of one state, under the names of `route out`."""
    opt = DEFAULTS | options
    union = sorted(i for i in {*top_k(student, opt["k"]), *top_k(teacher, opt["k"])} if student[i] != -math.inf)
    p_s, p_t = torch.softmax(student[union], 0), torch.softmax(teacher[union], 0)
    excess, deficit = (p_s - p_t).clamp(min=0), (p_t - p_s).clamp(min=0)
    mass = float(excess.sum() + deficit.sum()) / 2
    potential = p_t.clamp(min=opt["delta_p"]).log() - p_s.clamp(min=opt["delta_p"]).log()
    n = int((deficit > 0).sum())
    out: dict[str, Any] = {
        "ids": union, "p_student": p_s, "p_teacher": p_t, "excess": excess, "deficit": deficit, "mass": mass,
        "routed": mass > opt["delta_m"], "potential": potential, "n_deficit": n,
        "student_mass": float(torch.softmax(student, 0)[union].sum()),
        "teacher_mass": float(torch.softmax(teacher, 0)[union].sum())}
    assert all(abs(float(p.sum()) - 1) < 1e-14 for p in (p_s, p_t)) and abs(float((excess - deficit).sum())) < 1e-14
    assert torch.equal(p_s, p_t) or bool(((p_s - p_t).abs() > 1e-9 * torch.maximum(p_s, p_t)).all()), "brittle sign"
    if mass > 0:
        q_minus, q_plus = excess / excess.sum(), deficit / deficit.sum()
        assert all(abs(float(q.sum()) - 1) < 1e-14 for q in (q_minus, q_plus))
        c = 1.0 if n == 1 else min(max((n * float((q_plus ** 2).sum()) - 1) / (n - 1), 0.0), 1.0)
        span = opt["b_max"] - opt["b_min"]
        named = FIXED_BUDGETS | {"adaptive": opt["b_min"] + span * c, "reversed": opt["b_max"] - span * c}
        budget = named[opt["budget"]] if isinstance(opt["budget"], str) else float(opt["budget"])
        out |= {"q_minus": q_minus, "q_plus": q_plus, "bounded": budget / 2 * torch.tanh(2 * potential / budget),
                "concentration": c, "budget": budget}
    return out


def assert_monte_carlo(costs: Tensor, out: dict[str, Any], exact: float) -> None:
    """The mean cost of 20,000 drawn pairs lies within five standard errors of the exact expectation."""
    generator = torch.Generator().manual_seed(SEED)
    a, b = (torch.multinomial(out[q], 20000, replacement=True, generator=generator) for q in ("q_minus", "q_plus"))
    variance = float(out["q_minus"] @ (costs - exact) ** 2 @ out["q_plus"])
    assert abs(float(costs[a, b].mean()) - exact) <= 5 * math.sqrt(variance / 20000) + 1e-9 * exact


def route(given: dict[str, Any]) -> dict[str, Any]:
    """`route out` for one `route in` object."""
    opt = DEFAULTS | given["options"]
    student, teacher = vector(given["student_logits"]), vector(given["teacher_logits"])
    current = vector(given.get("current_logits", given["student_logits"]))
    out = statistics(student, teacher, given["options"])
    union, kappa = out["ids"], opt["kappa"]
    log_old, log_teacher = log_softmax(student), log_softmax(teacher)
    out |= {"pairs": [], "loss": 0.0, "grad": {}, "exact_loss": 0.0, "exact_grad": {}}

    def huber_gradient(residual: Loss, weights: Tensor) -> tuple[float, list[float]]:
        gap = (residual(current).abs() - kappa).abs()[weights > 0].min()
        assert float(gap) > 4 * KNEE_STEP, "a residual sits on the Huber knee"
        return gradient(lambda z: (weights * huber(residual(z), kappa)).sum(), current, KNEE_STEP, 0.0)

    if out["routed"]:
        weight = out["mass"] if opt["weight"] == "mass" else 1.0
        phi, g = out["bounded"], out["potential"]

        def exact_residual(logits: Tensor) -> Tensor:
            change = (log_softmax(logits) - log_old)[union]
            return (change[None, :] - change[:, None]) - (phi[None, :] - phi[:, None])
        exact, grad = huber_gradient(exact_residual, weight * out["q_minus"][:, None] * out["q_plus"][None, :])
        assert_monte_carlo(huber(exact_residual(current), kappa), out, exact / weight)
        on_union = restricted(grad, union)
        out |= {"loss": exact, "grad": on_union, "exact_loss": exact, "exact_grad": on_union}
    if out["routed"] and opt["pairs"] != "exact":
        sources, destinations = (list(side) for side in zip(*given["pairs"]))
        a, b = [union.index(i) for i in sources], [union.index(i) for i in destinations]
        pair_target = phi[b] - phi[a] if opt["target"] == "shared" else (g[b] - g[a]).clamp(0, out["budget"])
        target = {"pair": pair_target, "source": phi[a], "destination": phi[b]}[opt["side"]]

        def delta(logits: Tensor) -> Tensor:
            change = log_softmax(logits) - log_old
            at_a, at_b = change[sources], change[destinations]
            return {"pair": at_b - at_a, "source": at_a, "destination": at_b}[opt["side"]]
        loss, grad = huber_gradient(lambda z: delta(z) - target, torch.full_like(target, weight / len(a)))
        finite = [i for i, z in enumerate(current.tolist()) if z != -math.inf]
        rows = zip(sources, destinations, target.tolist(), delta(current).tolist())
        out |= {"loss": loss, "grad": restricted(grad, sources + destinations if opt["side"] == "pair" else finite),
                "pairs": [dict(zip(("source", "destination", "target", "delta"), row)) for row in rows]}

    def dense(loss: Loss) -> dict[str, Any]:
        return dict(zip(("loss", "grad"), gradient(loss, current, SMOOTH_STEP, 1e-11)))
    if "action" in given:
        i = given["action"]
        out["sampled_rkl"] = dense(lambda z: sampled_rkl(log_softmax(z)[i], log_old[i], log_teacher[i],
                                                         opt["ratio_clip"], opt["delta_p"]))
    for support, ids in (("full", list(range(len(student)))), ("union", union)):
        log_t = log_softmax(teacher[ids])
        out[f"{support}_rkl"] = dense(lambda z: reverse_kl(log_softmax(z[ids]), log_t, opt["delta_p"]))
        out[f"{support}_fkl"] = dense(lambda z: forward_kl(log_softmax(z[ids]), log_t))
    for kind in ("union_rkl", "union_fkl"):
        out[kind]["grad"] = restricted(out[kind]["grad"], union)
    if "current_logits" in given:
        before, after = torch.softmax(student, 0), torch.softmax(current, 0)
        gain, drop = (after - before).clamp(min=0), (before - after).clamp(min=0)
        removed = float(drop[union][out["excess"] > 0].sum())
        if removed > 0:
            out["fidelity"] = min(removed, float(gain[union][out["deficit"] > 0].sum())) / removed
        outside = ~(torch.softmax(teacher, 0) > before)
        out["leakage"] = float(gain[outside].sum()) / (float(gain.sum()) + opt["delta_diag"])
    return out


def cases() -> list[dict[str, Any]]:
    rng = random.Random(SEED)
    done: list[dict[str, Any]] = []

    def logits(size: int, scale: float = 2.0) -> list[float]:
        return [round(rng.gauss(0, scale), 3) for _ in range(size)]

    def near(base: list[float], scale: float = 0.2) -> list[float]:
        return [x if x == -math.inf else round(x + rng.gauss(0, scale), 3) for x in base]

    def masked(base: list[float], *ids: int) -> list[float]:
        return [-math.inf if i in ids else x for i, x in enumerate(base)]

    def add(name: str, student: list[float], teacher: list[float], current: list[float] | None = None,
            routes: int | list[list[int]] | None = 2, action: int | None = None, **options: Any) -> None:
        """One golden. `routes` are its pairs, or how many of them to draw, here and once, from q_minus x q_plus."""
        stats = statistics(vector(student), vector(teacher), options)
        if not stats["routed"] or options.get("pairs") == "exact":
            routes = None
        elif isinstance(routes, int):
            draw = partial(random.Random(f"{SEED} {name}").choices, stats["ids"], k=routes)
            routes = [list(pair) for pair in zip(draw(stats["q_minus"].tolist()), draw(stats["q_plus"].tolist()))]
        optional = {"current_logits": current, "pairs": routes, "action": action}
        given = {"student_logits": student, "teacher_logits": teacher, "options": options} | {
            key: value for key, value in optional.items() if value is not None}
        done.append({"name": name, "in": given, "out": route(given)})

    for scale, size in ((0.3, 12), (1, 16), (3, 24), (10, 20)):
        s, t = logits(size, scale), logits(size, scale)
        add(f"defaults-scale-{scale}-first-update", s, t, action=rng.randrange(size))
        add(f"defaults-scale-{scale}-near", s, t, near(s), action=rng.randrange(size))
    add("defaults-vocabulary-60-far", s := logits(60), logits(60), near(s, 2), 8)
    s, t = logits(12), logits(12)
    for k in (2, 5, 12, 32, "full"):
        add(f"k-{k}-of-12", s, t, near(s), k=k)
    add("k-full-of-40", s := logits(40), logits(40), near(s), k="full")
    add("ties-k-4", s := [1.0, 0.5, 1.0, 0.5, 0.5, 2.0, 0.5, -1.0], [0.25] * 5 + [1.0, 0.25, 3.0], near(s), k=4)
    add("ties-all-equal-student-k-3", [0.0] * 7, [0.0, 0.5, 1.0, 1.0, 1.0, -1.0, 1.0], k=3)
    add("k-1-different-tops", s := [3.0, 1.0, 0.0, -1.0, 0.5], [0.0, 1.0, 2.5, -1.0, 0.7], near(s), k=1)
    add("k-1-same-top-not-routed", s, [2.0, 1.0, 1.5, -1.0, 0.5], action=2, k=1)
    s, t = logits(9), logits(9)
    c, far = near(s), near(s, 3)
    for budget in ("adaptive", "reversed", "fixed_low", "fixed_mid", "fixed_high", 0.3, 1.7):
        add(f"budget-{budget}", s, t, c, budget=budget)
    add("budget-own-bounds", s, t, c, b_min=0.1, b_max=0.9)
    for side in ("pair", "source", "destination"):
        for weight in ("mass", "one"):
            add(f"side-{side}-weight-{weight}", s, t, c, 3, side=side, weight=weight, budget="fixed_mid")
        add(f"side-{side}-far-kappa-0.05", s, t, far, 4, side=side, kappa=0.05)
    add("independent-loose", small := logits(8, 0.02), logits(8, 0.02), near(small), 4, target="independent")
    routes = [[7, 5], [4, 5], [8, 6], [7, 3], [8, 3]]  # with a budget of 2.5 the clip binds for three of the five
    add("independent-clip-binds-for-some", s, t, c, routes, target="independent", budget=2.5, kappa=1.7)
    add("independent-clip-binds", s, t, c, routes, target="independent", budget="fixed_mid")
    for target in ("independent", "shared"):
        add(f"backward-pairs-{target}", s, t, c, [[b, a] for a, b in routes], target=target)
    for kappa in (1.0, 0.05):
        for name, now in (("first-update", None), ("near", c), ("far", far)):
            add(f"exact-{name}-kappa-{kappa}", s, t, now, pairs="exact", kappa=kappa)
    s, t = logits(30), logits(30)
    add("exact-vocabulary-30-kappa-0.05", s, t, near(s, 0.1), pairs="exact", kappa=0.05, k=10)
    add("exact-weight-one", s, t, near(s), pairs="exact", weight="one", k=6)
    add("current-equals-student", s := logits(8), t := logits(8), list(s), action=3)
    t_inf, s_inf = masked(t, 1, 4), masked(s, t.index(max(t)), 2)
    add("teacher-neg-inf", s, t_inf, near(s), 4, action=4)
    for side in ("pair", "source", "destination"):
        add(f"student-neg-inf-{side}", s_inf, t, near(s_inf), side=side, action=0)
    add("both-neg-inf", masked(s, 5, 6), masked(t, 0, 6), near(masked(s, 5, 6)), 4)
    add("teacher-fewer-finite-than-k", s, masked(t, 0, 1, 2, 3, 4, 7), near(s), k=4)
    add("student-fewer-finite-than-k", masked(s, 0, 1, 2, 3, 5), t, k=4)
    s, t = [0.0, 0.5, -40.0, -1.0, 0.3, -40.0, -45.0, -44.0], [0.7, -0.5, 0.2, -40.0, -0.6, -46.0, -41.0, -42.5]
    add("floor-one-side", s[:5], t[:5], near(s[:5]), [[3, 2], [1, 2], [3, 0]], action=3)
    add("floor-both-sides", s, t, near(s), [[5, 6], [5, 7], [3, 2], [5, 0], [1, 7]], action=6)
    add("floor-both-sides-exact", s, t, near(s), pairs="exact")
    add("floor-delta-p-0.05", s := logits(10), t := logits(10), near(s), 4, delta_p=0.05)
    for name, shift, budget in (("deficit", 2, "adaptive"), ("deficit", 2, "reversed"), ("excess", -2, "adaptive")):
        add(f"single-{name}-{budget}", s, s[:3] + [s[3] + shift] + s[4:], near(s), budget=budget)
    for name, now in (("first-update", None), ("moved", near(s))):
        add(f"identical-models-{name}", s, list(s), now, action=1)
    mass, tiny = (statistics(vector(s), other, {})["mass"] for other in (vector(t), vector(s) + 1e-6 * vector(t)))
    for name, factor in (("under", 0.99), ("above", 1.01)):
        add(f"mass-just-{name}-1e-6", s, [x + factor * 1e-12 / tiny * y for x, y in zip(s, t)], near(s))
        add(f"mass-just-{name}-own-delta-m", s, t, near(s), delta_m=mass / factor)
    (a, b), (x, y) = done[-1]["in"]["pairs"]
    for routes in ([[a, b]], [[a, b]] * 2, [[a, b]] * 4 + [[x, y]] * 2 + [[a, y], [x, b]]):
        add(f"pairs-{len(routes)}-repeated", s, t, near(s), routes, m=len(routes))
    s, t = [1.0, 0.0, -0.5, 0.4, -1.0, 0.2], [-0.5, 1.5, -0.7, 0.3, 0.6, 0.1]
    for gap in (-0.6, -0.05, 0.6):
        for token in (0, 1):
            c = [x + gap * (i == token) for i, x in enumerate(s)]
            add(f"ratio-clip-0.2-action-{token}-moved-{gap}", s, t, c, 1, token, ratio_clip=0.2)
    add("delta-diag-own", s := logits(10), t := logits(10), c := near(s), delta_diag=0.05)
    s, t = [x + 1000 for x in s], [x + 1000 for x in t]
    add("offset-1000", s, t, near(s), 4, action=2)
    add("offset-1000-current-without-exact", s, t, c, pairs="exact", kappa=0.05)
    return done


def main() -> None:
    torch.set_num_threads(1)
    lines = [json.dumps({"made_by": "make_route_goldens.py", "torch": torch.__version__, "seed": SEED,
                         "python": platform.python_version(), "command": "python tests/goldens/make_route_goldens.py"})]
    for golden in cases():
        json.dumps(golden["out"], default=Tensor.tolist, allow_nan=False)  # raises if anything infinite or NaN came out
        lines.append(json.dumps(golden, default=Tensor.tolist).replace("-Infinity", '"-inf"'))
    Path(__file__).with_name("route.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
