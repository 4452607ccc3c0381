"""Directories of runs, evaluations, probes, judgements and studies with made-up numbers, for the tests of `routeopd report`.

Every number is a plain function of its place, so that the same call writes the same bytes.
"""
import json
import math
import os

TOKENS = [" So", " Then", " First", " Now", " To", " At", " Clearly", " Maybe", "\n", " Let", " We", " There", " It", " Sofia", " the"]
ARMS = {"sampled_rkl": 48, "full_rkl": 62, "full_fkl": 61, "fixed_mid": 60, "routeopd": 64, "exact": 65, "union_rkl": 63}
CONTROLS = {"uniform_deficit": 59, "student_proportional": 54, "random_background": 51, "rank_matched": 52, "source_only": 57,
            "destination_only": 58, "no_mass": 60, "independent_clipping": 59, "fixed_low": 57, "fixed_high": 61, "reversed": 58}
SWEEP = {"routeopd-k8": 61, "routeopd-k64": 66, "routeopd-kfull": 66, "routeopd-m1": 62, "routeopd-m4": 65, "routeopd-m8": 65}
MTIME = 1_790_000_000


def noise(*place):
    """A number from 0 to 1 that only its place decides."""
    x = 0
    for part in place:
        for byte in str(part).encode():
            x = (x * 1099511628211 + byte + 1) % 2**61
    return math.modf(math.sin(x % 1_000_003) * 10000)[0] % 1


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) + "\n")


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def settle(directory):
    """All files get one date."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            os.utime(path, (MTIME, MTIME))


def write_eval(path, level, name="m", problems=20, samples=4, suites=("heldout",), labels=True):
    """`level`: percent right, about."""
    responses, labelled, summaries = [], [], {}
    for suite in suites:
        right = []
        for problem in range(problems):
            for sample in range(samples):
                draw = noise(suite, problem, sample) * 0.8 + 0.2 * noise(name, suite, problem, sample)
                correct = 100 * draw < level
                format_ok = correct or noise("f", problem, sample) > 0.06
                right.append(correct)
                responses.append({"suite": suite, "problem": f"p{problem}", "sample": sample, "response": "…", "extracted": "1",
                                  "correct": correct, "format_ok": format_ok, "clipped": False, "tokens": 20 + problem})
                kind = "correct" if correct else "format" if not format_ok else \
                    ["reasoning", "arithmetic", "reasoning", "premature_stop"][(problem + sample) % 4]
                labelled.append({"suite": suite, "problem": f"p{problem}", "sample": sample, "label": kind, "pass1": None,
                                 "pass2": None, "adjudicated": False, "clipped": False})
        average = sum(right) / len(right)
        summaries[suite] = {"file": f"{suite}.jsonl", "sha256": "0" * 64, "n": problems, "samples": samples, "avg": average,
                            "avg_interval": [max(0, average - 0.05), min(1, average + 0.05)], "pass@k": {"1": average},
                            "maj@k": {"1": average},
                            "length": {"mean": 30, "p10": 21, "p25": 24, "p50": 29, "p75": 34, "p90": 37, "max": 39},
                            "clip_rate": 0.0, "format_rate": 0.97}
    average = sum(each["avg"] for each in summaries.values()) / len(summaries)
    write_json(path / "summary.json", {"model": {"path": f"models/{name}", "sha256": "1" * 64, "step": 0},
                                       "decoding": {"temperature": 0.7, "top_p": 0.95, "max_new_tokens": 64}, "seed": 42,
                                       "template": "raw", "extractor": "math", "suites": summaries, "avg": average,
                                       "average": {"avg": average, "format_rate": 0.97}})
    write_lines(path / "responses.jsonl", responses)
    if labels:
        write_lines(path / "labels.jsonl", labelled)


def write_run(path, arm="routeopd", seed=42, steps=20, level=60, k=16, probes=True, evals=(5, 10, 15, 20)):
    path.mkdir(parents=True, exist_ok=True)
    (path / "recipe.toml").write_text(
        f'seed = {seed}\nout = "runs/x"\n[student]\npath = "lab/base"\n[teacher]\npath = "lab/teacher"\n'
        f'[objective]\narm = "{arm}"\nk = {json.dumps(k)}\nm = 2\n[train]\nsteps = {steps}\n')
    write_lines(path / "metrics.jsonl", [
        {"step": step, "tokens": 1000, "loss": 0.02 * math.exp(-step / 9) + 0.002 * noise(arm, seed, step), "lr": 1e-5,
         "grad_norm": 1 + noise("g", step, seed), "mass": 0.19 * math.exp(-step / 14) + 0.01 * noise("m", step, seed, arm),
         "concentration": 0.4, "budget": 0.29, "saturated": 0.8, "routed_share": 0.97, "student_mass": 0.98, "teacher_mass": 0.97,
         "coverage": 0.7, "entropy": 0.8 - 0.01 * step, "teacher_entropy": 0.5, "response_tokens": 24 + step / 4, "clip_ratio": 0.02,
         "teacher_calls": 12, "time": {"rollout": 2 + noise("t", step), "score": 0.8, "route": 0.05, "learn": 1.5, "total": 4.6},
         "memory": {"peak_bytes": 2_000_000_000}} for step in range(1, steps + 1)])
    if probes:
        fidelity = {"sampled_rkl": 0.35, "fixed_mid": 0.7, "routeopd": 0.75}.get(arm, 0.6)
        write_lines(path / "probe.jsonl", [
            {"step": step, "mass": 0.19 * math.exp(-step / (12 if arm == "routeopd" else 25)), "rms": 0.04,
             "fidelity": {"mean": fidelity + 0.007 * step + 0.01 * noise(step, seed), "p10": 0.4, "median": 0.8},
             "leakage": {"mean": 0.45 - 0.25 * fidelity - 0.008 * step + 0.02 * noise("l", step, seed), "p10": 0.1, "median": 0.2}}
            for step in range(0, steps + 1, 5)])
    for step in evals:
        write_eval(path / "eval" / f"step_{step}", 30 + (level - 30) * step / steps, name=f"{arm}-{seed}-{step}")


def example_state():
    student = [0.26, 0.05, 0.17, 0.02, 0.07, 0.09, 0.20, 0.06, 0.01, 0.02, 0.01, 0.02, 0.005, 0.005, 0.01]
    teacher = [0.17, 0.10, 0.15, 0.06, 0.16, 0.15, 0.01, 0.01, 0.02, 0.05, 0.04, 0.05, 0.01, 0.01, 0.01]
    excess = [max(s - t, 0) for s, t in zip(student, teacher)]
    deficit = [max(t - s, 0) for s, t in zip(student, teacher)]
    budget, step = 0.24, 0.02
    ids = []
    for i, token in enumerate(TOKENS):
        potential = math.log(teacher[i] / student[i])
        sampled = -step * (1 - student[i]) if i == 6 else step * student[i] / (1 - student[6]) * 0.98
        ids.append({"id": 100 + i, "text": token, "p_student": student[i], "p_teacher": teacher[i], "excess": excess[i],
                    "deficit": deficit[i], "q_minus": excess[i] / sum(excess), "q_plus": deficit[i] / sum(deficit),
                    "potential": potential, "bounded": budget / 2 * math.tanh(2 * potential / budget),
                    "change_sampled_rkl": sampled, "change_routeopd": step * (deficit[i] - excess[i]) * 3})
    ids.sort(key=lambda each: -(each["excess"] + each["deficit"]))
    return {"state": 3, "prompt": 1, "position": 4, "prefix": "Problem: Sofia has 14 boxes. Then Sofia finds 7.\nSolution:",
            "action": {"id": 106, "text": " Clearly"}, "advantage": -3.0, "mass": sum(excess), "concentration": 0.21,
            "budget": budget, "rms": 0.04, "ids": ids, "rest": {"change_sampled_rkl": 0.0004, "change_routeopd": 0.0},
            "pairs": [{"source": 106, "destination": 104, "target": 0.24}, {"source": 100, "destination": 105, "target": 0.22}]}


def spread(mean):
    return {"mean": mean, "p10": mean * 0.7, "median": mean * 1.02, "low": mean - 0.02, "high": mean + 0.02, "states": 64}


def write_probe(path, arms=None, interventions=("fresh_adamw",), states=64):
    arms = arms or [*ARMS, "rank_matched", "random_background"]
    fidelity = {"sampled_rkl": 0.35, "full_rkl": 0.58, "full_fkl": 0.62, "fixed_mid": 0.76, "routeopd": 0.84, "exact": 0.88,
                "union_rkl": 0.7, "rank_matched": 0.26, "random_background": 0.2}
    rows, measured, routes = [], [], []
    for arm in arms:
        base = fidelity.get(arm, 0.5)
        for how, each in enumerate(interventions):
            strata = {"concentration": [{"low": i / 4, "high": (i + 1) / 4, "states": 16, "budget": 0.2 + 0.05 * i,
                                         "fidelity": base + 0.02 * i, "leakage": 0.7 - 0.6 * base - 0.01 * i,
                                         "deficit_reduction": 0.01, "completion": 0.8} for i in range(4)]}
            for kind, key in (("mismatch", "mass"), ("entropy", "entropy")):
                strata[kind] = [{"quartile": i + 1, "states": 16, key: 0.1 * i, "fidelity": base - 0.03 * i,
                                 "leakage": 0.7 - 0.6 * base + 0.02 * i, "deficit_reduction": 0.01, "completion": 0.8} for i in range(4)]
            rows.append({"name": arm, "intervention": each, "scale": 1.0, "rms": 0.04, "fidelity": spread(base - 0.05 * how),
                         "leakage": spread(0.72 - 0.6 * base), "target_mae": 0.06, "completion": 0.8, "overshoot": 0.01,
                         "deficit_reduction": 0.011, "strata": strata})
    for state in range(states):
        concentration = noise("c", state)
        measured.append({"state": state, "sequence": state // 4, "prompt": state // 8, "position": state % 8, "token": 100,
                         "token_text": TOKENS[state % len(TOKENS)], "mass": 0.1, "concentration": concentration, "budget": 0.3,
                         "teacher_entropy": 0.7,
                         "values": [{"name": arm, "intervention": each, "fidelity": min(1, fidelity.get(arm, 0.5) + 0.3 * (noise(arm, each, state) - 0.5)),
                                     "leakage": max(0, 0.7 - 0.6 * fidelity.get(arm, 0.5) + 0.2 * (noise("l", arm, each, state) - 0.5)),
                                     "deficit_reduction": 0.01} for arm in arms for each in interventions]})
        for route in range(2):
            target = 0.18 + 0.22 * concentration + 0.01 * noise("t", state, route)
            routes.append({"state": state, "prompt": 0, "position": 1, "name": "routeopd", "intervention": "fresh_adamw", "source": 106,
                           "destination": 104, "source_text": " Clearly", "destination_text": " To", "p_student_source": 0.2,
                           "p_teacher_source": 0.01, "p_student_destination": 0.07, "p_teacher_destination": 0.16, "target": target,
                           "achieved": target * (0.5 + 0.7 * noise("a", state, route))})
    write_json(path / "probe.json", {
        "kind": "probe", "version": 1, "bank": {"path": "bank.safetensors", "sha256": "2" * 64, "states": states, "sequences": states // 4,
                                                "seed": 42, "k": 16, "m": 2},
        "student": {"path": "lab/base", "sha256": "3" * 64, "frozen": True, "step": None}, "teacher": {"path": "lab/teacher", "sha256": "4" * 64},
        "optimizer": None, "lr": 5e-5, "rms": 0.043,
        "statistics": {"mass": 0.1, "concentration": 0.4, "budget": 0.27, "routed_share": 1.0, "student_mass": 0.98, "teacher_mass": 0.97,
                       "sign_agreement": 0.99, "student_entropy": 0.8, "teacher_entropy": 0.6, "states": states},
        "arms": [{"name": arm, "arm": arm, "k": 16, "m": 2, "pairs": "sample", "budget": 0.27, "coverage": 0.76, "loss_variance": 0.001,
                  "relative_loss_variance": 0.5, "cycle_violations": 0.0} for arm in arms],
        "rows": rows})
    write_lines(path / "states.jsonl", measured)
    write_lines(path / "routes.jsonl", routes)
    write_json(path / "example.json", example_state())


def write_judge(path, directories):
    """`directories`: eval directories that were labelled; every response is said to be a reasoning error."""
    lines = []
    for directory in directories:
        for line in (directory / "responses.jsonl").read_text().splitlines():
            response = json.loads(line)
            lines.append({"suite": response["suite"], "problem": response["problem"], "sample": response["sample"], "label": "reasoning",
                          "pass1": "reasoning", "pass2": "reasoning", "adjudicated": False, "clipped": False, "run": directory.name})
    write_lines(path / "labels.jsonl", lines)
    write_json(path / "summary.json", {"judge": {"model": "a judge", "endpoint": "…"},
                                       "directories": {directory.name: str(directory) for directory in directories}})


def write_study(path, seeds=(42, 43)):
    write_eval(path / "base" / "eval", 30, "base")
    write_eval(path / "teacher" / "eval", 96, "teacher")
    runs = []
    for name, level in {**ARMS, **CONTROLS, **SWEEP}.items():
        arm = "routeopd" if name == "exact" else name.split("-")[0]
        for seed in seeds:
            followed = name in ("routeopd", "fixed_mid", "sampled_rkl", "full_rkl")
            write_run(path / "runs" / f"{name}-seed{seed}", arm, seed, level=level, probes=followed,
                      evals=(5, 10, 15, 20) if followed else (20,))
            place = f"runs/{name}-seed{seed}"
            k = name.split("-k")[1] if "-k" in name else "16"
            runs.append({"name": name, "arm": arm, "k": "full" if k == "full" else int(k), "m": 2, "pairs": "sample", "settings": {},
                         "seed": seed, "path": place, "eval": f"{place}/eval/step_20", "complete": True})
    write_probe(path / "probes" / "arms")
    write_probe(path / "probes" / "ladder", ["routeopd"], ("pair_isolated", "potential_wide", "potential_matched", "fresh_adamw", "saved_adamw", "sgd"))
    write_probe(path / "probes" / "support", ["routeopd-k8", "routeopd", "routeopd-k64", "routeopd-kfull"])
    overhead = {"sampled_rkl-lean": 1.0, "sampled_rkl": 1.005, "full_rkl": 1.21, "full_fkl": 1.2, "fixed_mid": 1.02, "routeopd": 1.03, "routeopd-k8": 1.015,
                "routeopd-k64": 1.06, "routeopd-kfull": 1.14, "exact": 1.05, "union_rkl": 1.04}
    write_json(path / "cost.json", {"rounds": 5, "reference": "sampled_rkl-lean", "arms": [
        {"name": name, "k": "full" if name.endswith("full") else 64 if name.endswith("64") else 8 if name.endswith("k8") else 16, "m": 2,
         "seconds": {"rollout": 2.0, "score": 1.0, "route": 0.1, "learn": 1.4, "learner": 1.5, "total": 4.5 * ratio}, "tokens_per_second": 900,
         "peak_bytes": int(2e9 * ratio**3), "teacher_calls": 12, "relative_total": {"mean": ratio, "low": ratio - 0.01, "high": ratio + 0.012},
         "relative_learner": {"mean": ratio, "low": ratio - 0.02, "high": ratio + 0.02}} for name, ratio in overhead.items()],
        "routes": [{"k": 16, "m": 2, "top_k_ms": 1.0, "routing_ms": 2.0, "gather_ms": 0.3}]})
    write_lines(path / "concentration.jsonl", [{"suite": "heldout", "problem": f"p{i}", "states": 20, "mass": 0.1, "concentration": i / 20,
                                                "budget": 0.3} for i in range(20)])
    write_json(path / "study.json", {
        "kind": "study", "version": 1,
        "pair": {"family": "sums", "student": "lab/base", "teacher": "lab/teacher", "prompts": "lab/train.jsonl",
                 "suites": {"heldout": "lab/heldout.jsonl"}},
        "options": {"steps": 20, "lr": 5e-5, "k": 16, "m": 2, "samples": 4, "seeds": list(seeds), "main_seeds": list(seeds), "problems": 20,
                    "states": 64, "quick": True, "prompts_per_step": 8, "n": 4},
        "machine": {"cpu": "a processor", "threads": 2},
        "parts": {part: {"complete": True, "seconds": 12.5} for part in
                  ("main", "ablations", "sweeps", "dynamics", "mechanism", "cost", "behaviour")},
        "evals": {"base": "base/eval", "teacher": "teacher/eval"}, "bank": None, "concentration": "concentration.jsonl", "runs": runs,
        "probes": [{"name": "arms", "path": "probes/arms", "at": "base"}, {"name": "ladder", "path": "probes/ladder", "at": "routeopd-seed42 step 15"},
                   {"name": "support", "path": "probes/support", "at": "base"}], "cost": "cost.json"})
