# SPDX-License-Identifier: Apache-2.0
"""The package itself: what its library asks of torch, and that settings, names and words are the project's own."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys

import pytest
import torch
from conftest import ROOT, run_route, sides_of

import routeopd
from routeopd import ARMS, VALIDITY, Options, _library

LIBRARY = pathlib.Path(_library._FILE)

# The stable ABI: C functions that torch promises to keep. torch/csrc/stable calls nothing else.
STABLE = re.compile(r"(aoti_torch_|torch_)[a-z0-9_]+$")


def symbols(*arguments):
    if shutil.which("nm") is None:
        pytest.skip("no nm: install binutils")
    run = subprocess.run(["nm", "-D", *arguments], text=True, capture_output=True, check=True)
    return {line.split()[-1] for line in run.stdout.splitlines()}


def test_library_needs_nothing_of_torch_but_its_stable_abi():
    wanted = {name for name in symbols("--undefined-only", str(LIBRARY)) if "@" not in name}
    folder = pathlib.Path(torch.__file__).parent / "lib"
    offered = {
        name.split("@")[0]
        for lib in ("libtorch_cpu.so", "libc10.so")
        for name in symbols("--defined-only", str(folder / lib))
    }
    # What torch's libraries happen to export of the C++ runtime is not theirs to give.
    runtime = re.compile(
        r"_Z(N?K?St|N?KSt|NSt|St|n|d|T[VISv]|GV)|__cxa|__gxx|_ITM|__gmon|_Unwind|.*St\d|_ZNKRSt|_ZNOSt"
    )
    of_torch = {name for name in wanted & offered if not runtime.match(name)}
    assert of_torch, "it must ask something of torch"
    assert {name for name in of_torch if not STABLE.match(name)} == set()
    # And every stable function that it asks for is there.
    assert {name for name in wanted if STABLE.match(name)} <= offered


def test_library_does_not_know_python():
    if shutil.which("readelf") is None:
        pytest.skip("no readelf: install binutils")
    told = subprocess.run(["readelf", "-d", str(LIBRARY)], text=True, capture_output=True, check=True).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", told)
    assert not [name for name in needed if "python" in name or name.startswith(("libtorch.so", "libgomp"))]
    assert {name for name in needed if "torch" in name or "c10" in name} <= {"libtorch_cpu.so", "libc10.so"}
    assert not [name for name in symbols("--undefined-only", str(LIBRARY)) if name.startswith(("Py", "_Py"))]


def test_import_is_light():
    """Nothing but torch, and none of torch's heavy parts."""
    script = (
        "import sys, torch; before = set(sys.modules); import routeopd;"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], text=True, capture_output=True, check=True, env=dict(os.environ)
    )
    roots = set(eval(run.stdout)) - set(sys.stdlib_module_names)
    assert roots <= {"routeopd", "torch"}, roots


def test_a_library_that_is_not_there_is_said_in_a_sentence():
    run = subprocess.run(
        [sys.executable, "-c", "import routeopd"],
        text=True,
        capture_output=True,
        check=False,
        env=os.environ | {"ROUTEOPD_OPERATORS": "/nowhere/_operators.so"},
    )
    assert run.returncode == 1
    assert "ImportError: routeopd: /nowhere/_operators.so cannot be loaded" in run.stderr


def test_options_are_the_recipe_s(program):
    """Names, defaults and arms as the program has them; the class declares each name."""
    names = set(Options().as_dict())
    assert {"arm", "k", "m", "pairs", "budget", "kappa"} <= names
    declared = {name for name in Options.__annotations__ if not name.startswith("_")} | {"arm"}
    assert declared == names == set(Options.help())
    told = subprocess.run([program, "route", "--help"], text=True, capture_output=True, check=True).stdout
    for name in names:
        assert re.search(rf"--{name}\b", told), name
    for arm in ARMS:
        assert arm in told
        assert Options.arm(arm).arm == arm


def test_options_are_values():
    options = Options.arm("fixed_mid", k=16)
    assert options == Options(arm="fixed_mid", k=16) != Options(k=16)
    assert len({options, Options.arm("fixed_mid", k=16)}) == 1
    assert pickle.loads(pickle.dumps(options)) == copy.deepcopy(options) == options
    assert eval(repr(options), {"Options": Options}) == options
    with pytest.raises(AttributeError, match="Options do not change"):
        options.k = 3
    assert options.but(k=8) == Options.arm("fixed_mid", k=8)
    assert options.but(arm="no_mass").weight == "one"
    assert json.loads(options.as_json()) == options.as_dict()


def test_names_of_validity_are_the_header_s():
    header = (ROOT / "src/routeopd/types/validity.h").read_text()
    names = re.search(r"kValidityNames = \{([^}]*)\}", header)[1]
    assert tuple(re.findall(r'"(\w+)"', names)) == VALIDITY


def test_everything_promised_is_there_and_documented():
    for name in routeopd.__all__:
        assert getattr(routeopd, name) is not None
        if callable(getattr(routeopd, name)):
            assert getattr(routeopd, name).__doc__, name


def test_version_is_the_project_s():
    version = re.search(r"project\(routeopd VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert routeopd.__version__ in (version, "0+clone")


def test_routes_move_select_and_reshape(program):
    student, teacher = torch.randn(12, 30), torch.randn(12, 30)
    s, t = sides_of(student.reshape(3, 4, 30), teacher.reshape(3, 4, 30), 6)
    routes = routeopd.route(s, t, with_support=True)
    assert routes.source.shape == (3, 4, 2)
    told = run_route(
        program,
        [
            {"student_logits": a, "teacher_logits": b, "options": {"k": 6}}
            for a, b in zip(student, teacher, strict=True)
        ],
        "--precision",
        "float",
    )
    assert routes.reshape(12).source.tolist() == [[p["source"] for p in line["pairs"]] for line in told]
    mask = torch.rand(3, 4) > 0.5
    picked = routes[mask]
    assert torch.equal(picked.mass, routes.mass[mask])
    assert torch.equal(picked.support.p_teacher, routes.support.p_teacher[mask])
    assert torch.equal(routes[1].target, routes.target[1])
    assert torch.equal(routes[0, 1:3].weight, routes.weight[0, 1:3])
    moved = routes.to("meta")
    assert moved.source.device.type == moved.support.values.device.type == "meta"
    again = pickle.loads(pickle.dumps(routes))
    assert torch.equal(again.old, routes.old)
    assert again.options == routes.options


def test_metrics_are_means_over_valid_and_routed_states():
    """As metrics.jsonl has them, also from sums of parts; what is not known is left out."""
    s, t = sides_of(torch.randn(40, 30), torch.randn(40, 30), 6)
    mask = torch.arange(40) % 5 > 0
    routes = routeopd.route(s, t, Options(delta_m=0.5), valid=mask)
    assert 0 < int(routes.routed.sum()) < int(routes.valid.sum()) == 32
    plain = {
        name: getattr(routes, name)[routes.valid].double().mean() for name in ("mass", "student_mass", "teacher_mass")
    }
    plain |= {
        name: getattr(routes, name)[routes.routed].double().mean()
        for name in ("concentration", "budget", "saturated", "coverage")
    }
    plain["routed_share"] = routes.routed.sum() / 32
    assert routes.metrics() == pytest.approx({name: float(value) for name, value in plain.items()}, rel=1e-12)
    parts = [routes[:7], routes[7:30], routes[30:]]
    assert routeopd.Routes.means(sum(part.sums() for part in parts)) == pytest.approx(routes.metrics(), rel=1e-12)
    joined = routeopd.Routes.cat(parts)
    for name in ("source", "destination", "target", "old", "statistics", "n_deficit", "validity", "routed"):
        assert torch.equal(getattr(joined, name), getattr(routes, name)), name
    unknown = routeopd.TopK(s.ids, s.logits, None, 30, s.gathered_ids, s.gathered)
    assert set(plain) - set(routeopd.route(unknown, t).metrics()) == {"student_mass"}
    assert "coverage" not in routeopd.route(s, t, Options(pairs="exact")).metrics()
    assert routes[:0].metrics() == {}
