"""The Triton kernels in Triton's interpreter, on CPU tensors, against float64 autograd and the torch operations.

The interpreter runs a kernel's lines with NumPy. What it cannot show, that the kernels compile for a GPU, a test at
the end does; that they run on one, none does. It is chosen by TRITON_INTERPRET=1 before triton is imported: without
it, this file runs itself in a process of its own.

Tolerances, with u = 2^-24, half the spacing of float32 at 1:
- A sum in float32 may be off by 16 u times the sum of its terms' absolute values, for inputs of any type: they are
  widened exactly, and no term here passes more than 16 additions unless a test says so.
- A gradient of the weight is rounded once more, to its type: half a spacing, so 2^-11 of itself for float16 (2^-25 at
  least). The interpreter cuts bfloat16 off where GPUs and torch round it: a whole spacing, 2^-7.
"""

import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys
import types

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from routeopd import _composite, _triton

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed: its kernels are not tested", allow_module_level=True)

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
OPERATORS = ("pair_log_odds", "pair_log_odds_backward", "gather_logits", "gather_logits_backward")
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
U = 2.0**-24
ROUNDING = {torch.float32: (0.0, 0.0), torch.float16: (2.0**-11, 2.0**-25), torch.bfloat16: (2.0**-7, 0.0)}
ROWS = 11  # few, so that rows are visited more than once


@pytest.fixture
def kernels(monkeypatch):
    """Small blocks, so that a small H has several, and nothing computed by the torch operations."""
    monkeypatch.setattr(_triton, "COLUMNS", 64)
    monkeypatch.setattr(_triton, "_composite", types.SimpleNamespace())
    return _triton


def example(hidden_dtype, weight_dtype, width, columns, tokens=5, seed=0):
    """Hidden states, weight, source, destination, gradient; a fifth of the pairs and the first token's are none."""
    random = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, width, generator=random).to(hidden_dtype)
    weight = torch.randn(ROWS, width, generator=random).to(weight_dtype)
    source, destination = torch.randint(ROWS, (2, tokens, columns), generator=random, dtype=torch.int32)
    none = torch.rand(tokens, columns, generator=random) < 0.2
    none[0] = True
    source[none], destination[none] = -1, -1
    return hidden, weight, source, destination, torch.randn(tokens, columns, generator=random)


def expected(hidden, weight, source, destination, grad):
    """Of the plain formula in float64: values and both gradients by autograd, each with the sum of its absolute terms.

    Without a source, of the logits at the destinations.
    """
    present = (destination if source is None else source) >= 0

    def formula(h, w, sign):
        logits = h @ w.T
        values = logits.gather(1, destination.clamp(min=0).long())
        if source is not None:
            values = values + sign * logits.gather(1, source.clamp(min=0).long())
        return values.where(present, 0)

    results = []
    for sign, of in ((-1, lambda value: value), (1, torch.abs)):
        h, w = (of(one.detach().double()).requires_grad_() for one in (hidden, weight))
        values = formula(h, w, sign)
        results.append((values.detach(), *torch.autograd.grad((values * of(grad.double())).sum(), (h, w))))
    return tuple(zip(*results, strict=True))


def assert_close(actual, reference, dtype=torch.float32, additions=16, of=1):
    """Within the tolerance of the file's head; ``of`` 2 where both sides may be off."""
    value, absolute = reference
    relative, least = ROUNDING[dtype]
    assert actual.dtype == dtype
    error = (actual.double() - value.double()).abs()
    allowed = of * ((relative + U) * value.double().abs() + least + additions * U * absolute)
    assert (error <= allowed).all(), f"{(error / allowed).max():.2f} of the tolerance"


def check(hidden, weight, source, destination, grad, additions=16):
    """All four operators against float64, and against the torch operations."""
    for sources, name in ((source, "pair_log_odds"), (None, "gather_logits")):
        ids = (destination,) if sources is None else (source, destination)
        values, of_hidden, of_weight = expected(hidden, weight, sources, destination, grad)
        forward = getattr(_triton, name)(hidden, weight, *ids)
        backward = getattr(_triton, name + "_backward")(grad, hidden, weight, *ids, True, True)
        assert_close(forward, values)
        assert_close(backward[0], of_hidden)
        assert_close(backward[1], of_weight, weight.dtype, additions)
        torch_forward = getattr(_composite, name)(hidden, weight, *ids)
        torch_backward = getattr(_composite, name + "_backward")(grad, hidden, weight, *ids, True, True)
        assert_close(forward, (torch_forward, values[1]), of=2)
        assert_close(backward[0], (torch_backward[0], of_hidden[1]), of=2)
        assert_close(backward[1], (torch_backward[1], of_weight[1]), weight.dtype, additions, of=2)


# ---- right ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 7, 63, 64, 65, 200])
def test_any_width(kernels, width):
    check(*example(torch.float32, torch.float32, width, columns=3))


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
def test_any_number_of_pairs(kernels, columns):
    check(*example(torch.float32, torch.float32, 65, columns, seed=columns))


@pytest.mark.parametrize("weight_dtype", FLOATS, ids=str)
@pytest.mark.parametrize("hidden_dtype", FLOATS, ids=str)
def test_any_types(kernels, hidden_dtype, weight_dtype):
    check(*example(hidden_dtype, weight_dtype, 65, columns=3))


def test_difference_before_product(kernels):
    # Rows that differ little: within 16 u of the differences' products, not of the rows'.
    random = torch.Generator().manual_seed(0)
    hidden, row = torch.randn(2, 1, 65, generator=random)
    weight = torch.cat([row, row + 2.0**-16 * torch.randn(1, 65, generator=random)])
    odds = kernels.pair_log_odds(hidden, weight, torch.zeros(1, 1).int(), torch.ones(1, 1).int())
    terms = hidden.double() * (weight[1].double() - weight[0].double())
    assert_close(odds, (terms.sum(), terms.abs().sum()))


def test_one_row_with_very_many_visits(kernels):
    hidden, weight, source, destination, grad = example(torch.bfloat16, torch.float32, 7, columns=2, tokens=61)
    # 160 visits, added up in 4 lanes; 80 of them cancel out.
    source[1:], destination[1:] = torch.where(torch.arange(60)[:, None] % 3 > 0, 5, 4), 4
    check(hidden, weight, source, destination, grad, additions=160 // _triton.VISITS + 16)


def test_sum_of_the_weight_is_rounded_once(kernels):
    for dtype in (torch.float16, torch.bfloat16):
        hidden, weight, source, destination, grad = example(torch.float32, dtype, 63, columns=5, tokens=8)
        args = (source, destination, False, True)
        _, rounded = kernels.pair_log_odds_backward(grad, hidden, weight, *args)
        _, exact = kernels.pair_log_odds_backward(grad, hidden, weight.float(), *args)
        nearest = rounded == exact.to(dtype)
        cut_off = rounded.float().view(torch.int32) == exact.view(torch.int32) >> 16 << 16
        assert (nearest | cut_off if dtype == torch.bfloat16 else nearest).all()


def test_strides_of_rows(kernels):
    hidden, weight, source, destination, grad = example(torch.float16, torch.bfloat16, 65, columns=2)
    # What lies between the rows is NaN, and is not read.
    wide_hidden = torch.full((10, 70), torch.nan, dtype=hidden.dtype)[::2, 3:68].copy_(hidden)
    wide_weight = torch.full((3 * ROWS, 81), torch.nan, dtype=weight.dtype)[1::3, 16:].copy_(weight)
    assert wide_weight.stride() == (243, 1)
    check(wide_hidden, wide_weight, source, destination, grad)
    turned = (one.T.contiguous().T for one in (source, destination, grad))
    check(wide_hidden, wide_weight, *turned)
    same_token = hidden[:1].expand(5, -1)
    assert same_token.stride(0) == 0
    check(same_token, weight, source, destination, grad)


def test_rows_past_int32(kernels, monkeypatch):
    # Three rows, 2^30 elements apart, of a tensor whose pages are never touched but for the rows.
    from triton.runtime.interpreter import GridExecutor

    monkeypatch.setattr(GridExecutor, "_restore_args_dev", lambda *_: None)  # it copies tensors onto themselves
    apart = 1 << 30
    weight = torch.empty(2 * apart + 7, dtype=torch.float16).as_strided((3, 7), (apart, 1))
    weight.copy_(torch.randn(3, 7, generator=torch.Generator().manual_seed(0)))
    source, destination = torch.tensor([[0], [2]]).int(), torch.tensor([[2], [1]]).int()
    hidden, grad = torch.randn(2, 2, 7, generator=torch.Generator().manual_seed(1))
    grad = grad[:, :1].contiguous()
    near = weight.clone(memory_format=torch.contiguous_format)
    args = (source, destination)
    assert torch.equal(kernels.pair_log_odds(hidden, weight, *args), kernels.pair_log_odds(hidden, near, *args))
    of_hidden, of_weight = kernels.pair_log_odds_backward(grad, hidden, near, *args, True, True)
    assert torch.equal(kernels.pair_log_odds_backward(grad, hidden, weight, *args, True, False)[0], of_hidden)
    # A dense gradient of that size would be touched: the kernel is told that rows are this wide, and does one block.
    out = weight.zero_()
    ids, order = torch.cat(args, 1).flatten().sort(stable=True)
    ends = torch.searchsorted(ids, ids, right=True, out_int32=True)
    coefficients = torch.cat([-grad, grad], 1)
    padded = torch.nn.functional.pad(hidden, (0, 1))
    _triton._kernels()[2][4, 1](padded, ids, ends, order, coefficients, out, 8, 3, 2, apart, BATCH=4, BLOCK=4)
    assert torch.equal(out[:, :4], of_weight[:, :4])


# ---- what is not there ------------------------------------------------------------------------------------------


def test_no_pair_has_no_part(kernels):
    hidden, weight, source, destination, grad = example(torch.float32, torch.float32, 65, columns=3)
    destination[0, 1] = 5  # without a source it is ignored
    clean = kernels.pair_log_odds_backward(grad, hidden, weight, source, destination, True, True)
    hidden[0], weight[0] = torch.nan, torch.nan
    source[source == 0], destination[destination == 0] = 1, 1
    none = source < 0
    grad[none] = torch.nan
    assert (kernels.pair_log_odds(hidden, weight, source, destination)[none] == 0).all()
    assert (kernels.gather_logits(hidden, weight, source)[none] == 0).all()
    of_hidden, of_weight = kernels.pair_log_odds_backward(grad, hidden, weight, source, destination, True, True)
    assert clean[0].isfinite().all()
    assert (of_hidden[0] == 0).all()
    assert of_hidden.isfinite().all()
    assert (of_weight[0] == 0).all()
    assert of_weight.isfinite().all()


def test_ids_that_are_no_rows(kernels):
    weight = torch.randn(ROWS + 1, 7)[:ROWS]
    hidden, grad = torch.randn(1, 7), torch.ones(1, 4)
    source = torch.tensor([[ROWS, 1, 2, 3]]).int()
    destination = torch.tensor([[0, ROWS, -1, 4]]).int()
    odds = kernels.pair_log_odds(hidden, weight, source, destination)
    assert odds.isnan().tolist() == [[True, True, True, False]]
    assert kernels.gather_logits(hidden, weight, source).isnan().tolist() == [[True, False, False, False]]
    of_hidden, of_weight = kernels.gather_logits_backward(grad, hidden, weight, source, True, True)
    assert torch.allclose(of_hidden, weight[1:4].sum(0), atol=1e-6)
    assert of_weight.any(1).nonzero().flatten().tolist() == [1, 2, 3]


@pytest.mark.parametrize("of_hidden", [False, True])
@pytest.mark.parametrize("of_weight", [False, True])
def test_only_what_is_needed(kernels, of_hidden, of_weight):
    hidden, weight, source, destination, grad = example(torch.float32, torch.bfloat16, 7, columns=2)
    both = kernels.pair_log_odds_backward(grad, hidden, weight, source, destination, True, True)
    some = kernels.pair_log_odds_backward(grad, hidden, weight, source, destination, of_hidden, of_weight)
    for needed, one, full in zip((of_hidden, of_weight), some, both, strict=True):
        assert torch.equal(one, full if needed else full[:0])
        assert one.dtype == full.dtype


@pytest.mark.parametrize(("tokens", "columns"), [(0, 2), (3, 0), (0, 0)])
def test_nothing_to_compute(tokens, columns):
    hidden, weight = torch.randn(tokens, 7).half(), torch.randn(ROWS, 7).bfloat16()
    ids, grad = torch.zeros(tokens, columns).int(), torch.zeros(tokens, columns)
    for odds in (_triton.pair_log_odds(hidden, weight, ids, ids), _triton.gather_logits(hidden, weight, ids)):
        assert odds.shape == (tokens, columns)
        assert odds.dtype == torch.float32
    for of_hidden, of_weight in (
        _triton.pair_log_odds_backward(grad, hidden, weight, ids, ids, True, True),
        _triton.gather_logits_backward(grad, hidden, weight, ids, True, True),
    ):
        assert torch.equal(of_hidden, torch.zeros(tokens, 7))
        assert torch.equal(of_weight, torch.zeros(ROWS, 7).bfloat16())


# ---- bits, memory -----------------------------------------------------------------------------------------------


def test_same_bits_twice(kernels):
    args = example(torch.bfloat16, torch.float32, 65, columns=3, tokens=8)
    hidden, weight, _, destination, grad = args
    results = [
        (
            kernels.pair_log_odds(*args[:4]),
            kernels.gather_logits(*args[:3]),
            *kernels.pair_log_odds_backward(grad, *args[:4], True, True),
            *kernels.gather_logits_backward(grad, *args[:3], True, True),
        )
        for _ in range(2)
    ]
    for one, other in zip(*results, strict=True):
        assert torch.equal(one.view(torch.int32), other.view(torch.int32))
    # Nor do they depend on the rows of other visits: a row's sum is that of its visits in order.
    destination[:, 0] = 7
    alone = destination.where(destination == 7, -1)
    _, of_weight = kernels.gather_logits_backward(grad, hidden, weight, alone, False, True)
    _, beside_others = kernels.gather_logits_backward(grad, hidden, weight, destination, False, True)
    before = [int((ids < 7).sum()) % _triton.VISITS for ids in (alone, destination)]
    assert before[0] != before[1]  # places of the row's visits among all
    assert torch.equal(of_weight[7], beside_others[7])


def test_no_tensor_of_visits_times_width(kernels):
    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for one in result if isinstance(result, tuple) else (result,):
                if isinstance(one, torch.Tensor):
                    self.size = max(self.size, one.numel() * one.element_size())
            return result

    hidden, weight, source, destination, grad = example(torch.float32, torch.bfloat16, 64, columns=4, tokens=12)
    with Largest() as largest:
        kernels.pair_log_odds(hidden, weight, source, destination)
        kernels.pair_log_odds_backward(grad, hidden, weight, source, destination, True, True)
    assert largest.size == 4 * hidden.numel()


# ---- what the kernels leave to torch operations -----------------------------------------------------------------


def test_signatures_are_those_of_the_torch_operations():
    for name in OPERATORS:
        assert inspect.signature(getattr(_triton, name)) == inspect.signature(getattr(_composite, name))


@pytest.mark.parametrize("why", ["float64", "columns", "no triton", "old device"])
def test_left_to_torch_operations(monkeypatch, why):
    hidden, weight, source, destination, grad = example(torch.float32, torch.float32, 7, columns=2)
    if why == "float64":
        hidden = hidden.double()
    elif why == "columns":
        weight = weight.T.contiguous().T
    elif why == "no triton":
        monkeypatch.setitem(sys.modules, "triton", None)
        monkeypatch.setattr(_triton, "_kernels", _triton._kernels.__wrapped__)
        assert _triton._kernels() is None
    else:
        monkeypatch.setattr(_triton, "_runs_on", lambda _: False)
    args = (hidden, weight, source, destination)
    called = []
    for name in OPERATORS:
        composite = getattr(_composite, name)
        monkeypatch.setattr(
            _composite, name, lambda *args, name=name, composite=composite: called.append(name) or composite(*args)
        )
    odds, logits = _triton.pair_log_odds(*args), _triton.gather_logits(*args[:3])
    gradients = _triton.pair_log_odds_backward(grad, *args, True, True)
    _triton.gather_logits_backward(grad, *args[:3], True, True)
    assert sorted(called) == sorted(OPERATORS)
    monkeypatch.undo()
    assert torch.equal(odds, _composite.pair_log_odds(*args))
    assert torch.equal(logits, _composite.gather_logits(*args[:3]))
    assert torch.equal(gradients[0], _composite.pair_log_odds_backward(grad, *args, True, True)[0])


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5) if device.index else (8, 0))
    runs_on = _triton._runs_on.__wrapped__
    assert runs_on(torch.device("cuda:0"))
    assert not runs_on(torch.device("cuda:1"))
    monkeypatch.delenv("TRITON_INTERPRET")
    assert not runs_on(torch.device("cpu"))


def test_shapes_that_do_not_fit_are_not_read():
    hidden, weight, source, destination, grad = example(torch.float32, torch.float32, 7, columns=2)
    for args in (
        (hidden[:, :6], weight, source, destination),
        (hidden[:3], weight, source, destination),
        (hidden, weight, source, destination[:2]),
        (hidden, weight, source, destination[:, [0, 1, 0]]),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            _triton.pair_log_odds(*args)
    with pytest.raises((RuntimeError, IndexError)):
        _triton.gather_logits_backward(grad[:3], hidden, weight, source, True, True)


# ---- the compiler -----------------------------------------------------------------------------------------------


def run(code, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    kept["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run([sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True)


def test_triton_is_imported_at_the_first_call():
    done = run("import sys, routeopd._triton\nassert 'triton' not in sys.modules")
    assert done.returncode == 0, done.stderr


COMPILE = """
import re, sys, torch, triton
from routeopd import _triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# What a launch on a GPU would compile, from the arguments of the launch. Triton makes a 1 a constant, and takes
# addresses and numbers that 16 divides for what they are.
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.int32: "i32", torch.int64: "i64"}
compiled = 0

class Compiled:
    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def launch(*values, enable_fp_fusion, **constants):
            global compiled
            signature, aligned = {}, {}
            for place, (name, value) in enumerate(zip(self.kernel.arg_names, (*values, *constants.values()))):
                if name in constants or (isinstance(value, int) and value == 1):
                    signature[name], constants[name] = "constexpr", value
                elif isinstance(value, torch.Tensor):
                    signature[name], aligned[(place,)] = "*" + NAMES[value.dtype], [["tt.divisibility", 16]]
                else:
                    signature[name] = "i64" if value >= 1 << 31 else "i32"
                    if value % 16 == 0:
                        aligned[(place,)] = [["tt.divisibility", 16]]
            for capability in (80, 90):
                result = triton.compile(ASTSource(self.kernel, signature, constants, aligned),
                                        target=GPUTarget("cuda", capability, 32),
                                        options={"enable_fp_fusion": enable_fp_fusion})
                assert not re.search(r"\\b(atom|red)\\.", result.asm["ptx"])
                assert re.search(r"cvt.rn.bf16", result.asm["ptx"]) or "*bf16" != signature["out"]
                assert len(result.asm["cubin"]) > 0
                compiled += 1
        return launch

kernels = tuple(Compiled(kernel) for kernel in _triton._kernels())
_triton._kernels = lambda: kernels
_triton._runs_on = lambda device: True
for weight_dtype, (tokens, columns, width, rows) in (
        (torch.bfloat16, (2, 2, 64, 5)), (torch.float32, (2, 3, 63, 5)), (torch.float16, (1, 1, 1, 1))):
    hidden, weight = torch.zeros(tokens, width).bfloat16(), torch.zeros(rows, width, dtype=weight_dtype)
    ids, grad = torch.zeros(tokens, columns).int(), torch.zeros(tokens, columns)
    _triton.pair_log_odds(hidden, weight, ids, ids)
    _triton.gather_logits(hidden, weight, ids)
    _triton.gather_logits_backward(grad, hidden, weight, ids, True, True)
print(compiled)
"""


def test_kernels_compile_for_gpus(tmp_path):
    done = run(COMPILE, TRITON_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["24"]


if not INTERPRETED:
    for _name in [name for name in globals() if name.startswith("test_")]:
        del globals()[_name]

    def test_in_the_interpreter():
        kept = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", str(pathlib.Path(__file__))], env=kept)
        assert done.returncode == 0
