#!/usr/bin/env python3
"""`routeopd route` against goldens that an independent implementation wrote (goldens/make_route_goldens.py).

    goldens_test.py PROGRAM GOLDENS

Both precisions run: double must agree to rounding, float to what single precision allows.
"""
import json
import subprocess
import sys

program, goldens = sys.argv[1:]
lines = [json.loads(line) for line in open(goldens)]
header, cases = lines[0], lines[1:]
assert header["made_by"] == "make_route_goldens.py" and len(cases) >= 40, header



def tolerance_of(precision, case):
    """(absolute, relative to the largest entry of the vector)."""
    if precision == "float":  # the logits are rounded to single precision on the way in: 2^-24 of the largest, each
        largest = max(abs(value) for key in ("student_logits", "teacher_logits", "current_logits")
                      for value in case["in"].get(key, []) if value != "-inf")
        return 1e-6 + 4 * 2**-24 * largest, 1e-5
    if case["name"].startswith("mass-just"):  # M is 1e-6: the goldens lose digits to the cancellation in p_S - p_T
        return 1e-12, 1e-9
    return 1e-12, 1e-11



def differences(name, want, got, tolerance, path=""):
    """Yields a line for every value of `want` that `got` does not have."""
    if isinstance(want, dict):
        if not isinstance(got, dict) or set(want) != set(got):
            yield f"{name}{path}: fields {sorted(want)} expected, got {sorted(got) if isinstance(got, dict) else got}"
            return
        if want and all(isinstance(value, float | int) for value in want.values()):  # a map of ids: one vector
            keys = sorted(want)
            yield from differences(name, [want[k] for k in keys], [got[k] for k in keys], tolerance, path)
            return
        for key in want:
            yield from differences(name, want[key], got[key], tolerance, f"{path}.{key}")
    elif isinstance(want, list):
        if len(want) != len(got):
            yield f"{name}{path}: {len(want)} entries expected, got {len(got)}"
        elif want and isinstance(want[0], dict):
            for index, (left, right) in enumerate(zip(want, got)):
                for key in left:  # a pair's fields; target and delta are of the size of log-odds
                    yield from differences(name, left[key], right[key], tolerance, f"{path}[{index}].{key}")
        elif want:
            allowed = tolerance[0] + tolerance[1] * max(abs(value) for value in want)
            worst = max(abs(left - right) for left, right in zip(want, got))
            if not worst <= allowed:
                yield f"{name}{path}: off by {worst:.3g}, {allowed:.3g} allowed"
    elif isinstance(want, bool) or isinstance(want, str):
        if want != got:
            yield f"{name}{path}: {want} expected, got {got}"
    elif not abs(want - got) <= tolerance[0] + tolerance[1] * abs(want):
        yield f"{name}{path}: {want} expected, got {got}"


found = []
checked = 0
for precision in ("double", "float"):
    # Single precision cannot hold a mass of 1e-6 to one part in a hundred: whether such a state is routed is a coin toss.
    chosen = [case for case in cases if precision == "double" or not case["name"].startswith("mass-just")]
    run = subprocess.run([program, "route", "--precision", precision], text=True, capture_output=True,
                         input="".join(json.dumps(case["in"]) + "\n" for case in chosen))
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(chosen)
    for case, answer in zip(chosen, answers):
        found += differences(f"{precision} {case['name']}", case["out"], answer, tolerance_of(precision, case))
        checked += 1

print("\n".join(found))
print(f"{checked} cases, {len(found)} differences\n{checked} checks")
sys.exit(1 if found else 0)
