"""The contenders of gate_up and mlp: eager, Inductor's, Liger's and the stacked product."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from lab import device
from lab.contender import KERNELS, Unsupported, discover, load
from lab.problem import Problem

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
# The interpreter rounds fp32 to bf16 towards zero, which doubles the unit roundoff.
ROUNDOFF = {"bf16": 2**-8 if CUDA else 2**-7, "fp16": 2**-11, "fp32": 2**-22}
ROUNDINGS = 2  # of gate, up, activation and result, whose errors add as squares

OPS = ("gate_up", "mlp")
NAMES = ("eager", "inductor", "stacked", pytest.param("liger", marks=pytest.mark.gpu))
CONTENDER = {
    op: {name: load(KERNELS / op / f"{name}.py") for name in ("eager", "inductor")}
    | {name: load(KERNELS / op / f"{name}.py") for name in ("inductor_max", "liger", "stacked")}
    for op in OPS
}
stacked = sys.modules["lab_kernels._stacked"]
liger = sys.modules["lab_kernels._liger"]
rows = sys.modules["lab_kernels._geglu"]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """As the worker does before a problem's first prepare."""
    torch._dynamo.reset()


def error(problem, inputs, out):
    expected = problem.reference(inputs)
    assert out.shape == expected.shape
    assert out.dtype == problem.torch_dtype
    return ((out.to(expected.dtype) - expected).norm() / expected.norm()).item()


def check(contender, problem):
    """Prepares on one draw, binds and runs another, and again with fresh data in its inputs."""
    bound = ROUNDINGS * ROUNDOFF[problem.dtype]
    launch = contender.prepare(problem, problem.inputs(DEVICE))
    inputs = problem.inputs(DEVICE, draw=1)
    run = launch.bind(inputs)
    assert error(problem, inputs, run()) <= bound
    problem.refill(inputs, draw=2)  # bound to the tensors, not to their values
    assert error(problem, inputs, run()) <= bound
    assert launch.tile is None  # read from its longest kernel's name, later


@pytest.mark.parametrize("layout", ["tn", "nn"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("size", [(1, 64, 64), (33, 264, 104), (5, 250, 64)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("op", OPS)
def test_right_in_every_layout_and_dtype(op, name, size, dtype, layout):
    check(CONTENDER[op][name], Problem(op, *size, layout, dtype, "tanh"))


@pytest.mark.parametrize("activation", ["tanh", "erf", "silu"])
@pytest.mark.parametrize("name", ["eager", "inductor", "stacked"])
@pytest.mark.parametrize("op", OPS)
def test_every_activation(op, name, activation):
    check(CONTENDER[op][name], Problem(op, 9, 128, 64, "tn", "fp16", activation))


@pytest.mark.parametrize("op", OPS)
def test_inductor_and_inductor_max_have_graphs_of_their_own(op):
    problem = Problem(op, 16, 128, 64, "tn", "fp32", "tanh")
    check(CONTENDER[op]["inductor"], problem)
    check(CONTENDER[op]["inductor_max"], problem)  # would raise, had it found the other's graph
    assert CONTENDER[op]["inductor_max"].slow


@pytest.mark.parametrize("op", OPS)
def test_each_op_has_one_baseline(op):
    contenders = [load(path) for path in discover(op)]
    assert [c.name for c in contenders if c.baseline] == ["eager"]
    assert {c.name for c in contenders} >= set(CONTENDER[op])


# The stack


@pytest.mark.parametrize("layout", ["tn", "nn"])
def test_the_labs_weights_lie_side_by_side(layout):
    problem = Problem("mlp", 5, 264, 104, layout, "fp16", "tanh")
    inputs = problem.inputs(DEVICE)
    stack = stacked.stack(inputs)
    assert torch.equal(stack, torch.stack([inputs["wg"], inputs["wu"]]))
    problem.refill(inputs, draw=3)
    assert torch.equal(stack, torch.stack([inputs["wg"], inputs["wu"]]))
    assert all(t.is_contiguous() for t in inputs.values())


@pytest.mark.parametrize("op", OPS)
def test_stacked_refuses_weights_that_lie_apart(op):
    problem = Problem(op, 5, 64, 64, "tn", "fp16", "tanh")
    inputs = problem.inputs(DEVICE)
    launch = CONTENDER[op]["stacked"].prepare(problem, inputs)
    apart = inputs | {"wu": inputs["wu"].clone()}
    swapped = inputs | {"wu": inputs["wg"], "wg": inputs["wu"]}
    for wrong in (apart, swapped):
        with pytest.raises(Unsupported, match="side by side"):
            launch.bind(wrong)
        with pytest.raises(Unsupported, match="side by side"):
            CONTENDER[op]["stacked"].prepare(problem, wrong)


def test_stacked_runs_on_the_labs_inputs_or_says_why():
    odd = Problem("gate_up", 5, 3, 5, "tn", "fp16", "tanh")  # its weights are no whole cache lines
    with pytest.raises(Unsupported, match="side by side"):
        CONTENDER["gate_up"]["stacked"].prepare(odd, odd.inputs(DEVICE))


def test_stacked_refuses_operands_that_are_not_contiguous():
    problem = Problem("gate_up", 5, 64, 64, "tn", "fp16", "tanh")
    inputs = problem.inputs(DEVICE)
    transposed = inputs | {"wg": inputs["wg"].t(), "wu": inputs["wu"].t()}
    with pytest.raises(ValueError, match="wg must be contiguous"):
        stacked.stack(transposed)


@pytest.mark.parametrize(
    ("n", "block"), [(3072, 1024), (18944, 1024), (4864, 1024), (1536, 512), (768, 256), (100, 256)]
)
def test_a_rows_blocks_waste_little(n, block):
    tile = rows.row_tile_for(Problem("gate_up", 16384, n, 64, "tn", activation="tanh"))
    assert tile.block_n == block


# Liger


@pytest.mark.parametrize("op", OPS)
def test_liger_says_what_it_cannot_run(op):
    problem = Problem(op, 2, 64, 64, "tn", activation="erf")
    with pytest.raises(Unsupported, match="not erf"):
        CONTENDER[op]["liger"].prepare(problem, problem.inputs(DEVICE))


@pytest.mark.skipif(CUDA, reason="with a GPU it runs")
@pytest.mark.parametrize("op", OPS)
def test_liger_needs_a_gpu(op):
    problem = Problem(op, 2, 64, 64, "tn", activation="tanh")
    with pytest.raises(Unsupported, match="needs a CUDA GPU"):
        CONTENDER[op]["liger"].prepare(problem, problem.inputs(DEVICE))


@pytest.mark.gpu
@pytest.mark.parametrize("op", OPS)
def test_liger_silu(op):
    check(CONTENDER[op]["liger"], Problem(op, 9, 128, 64, "tn", "bf16", "silu"))


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for the `kernels` package, which records what it is asked for."""
    asked = []

    def get_kernel(name, version):
        asked.append((name, version))
        forward = lambda gate, up: (gate, up, "from the hub")  # noqa: E731
        return SimpleNamespace(
            geglu=SimpleNamespace(geglu_forward=forward),
            utils=SimpleNamespace(calculate_settings=lambda n: (64, 4)),
        )

    monkeypatch.setitem(sys.modules, "kernels", SimpleNamespace(get_kernel=get_kernel))
    monkeypatch.setattr(device, "_version", lambda name: "1.2.3")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop("LOCAL_KERNELS", None)
    return asked


GATED = Problem("geglu", 2, 64, activation="tanh")


def test_liger_comes_from_its_package(hub):
    found = liger.gated(GATED, object())
    assert found.source == "liger-kernel 1.2.3"
    assert not hub


@pytest.mark.parametrize("named", [True, False])
def test_liger_comes_through_the_kernels_package(hub, named, monkeypatch):
    """Where LOCAL_KERNELS names it, and where liger-kernel isn't installed."""
    if named:
        os.environ["LOCAL_KERNELS"] = "kernels-community/liger-kernels=/somewhere"
    else:
        monkeypatch.setattr(device, "_version", {"kernels": "1.2.3"}.get)
    found = liger.gated(GATED, object())
    assert hub == [("kernels-community/liger-kernels", 1)]
    assert found.call(1, 2) == "from the hub"
    assert found.source == "kernels-community/liger-kernels by kernels 1.2.3"
    assert device.describe()["liger"] == found.source
    assert os.environ["HF_HUB_OFFLINE"] == "1"  # it never downloads


def test_liger_that_is_nowhere_says_what_to_install(hub, monkeypatch):
    monkeypatch.setattr(device, "_version", lambda name: None)
    with pytest.raises(Unsupported, match="is missing: pip install liger-kernel"):
        liger.gated(GATED, object())
    monkeypatch.setattr(device, "_version", lambda name: "1.2.3")
    monkeypatch.setitem(sys.modules, "liger_kernel.ops.geglu", None)
    with pytest.raises(Unsupported, match=r"1\.2\.3 can't be imported.*pip install liger-kernel"):
        liger.gated(GATED, object())
    monkeypatch.setattr(device, "_version", {"kernels": "1.2.3"}.get)

    def offline(name, version):
        raise ValueError("not in the cache")

    monkeypatch.setattr(sys.modules["kernels"], "get_kernel", offline)
    with pytest.raises(Unsupported, match=r"not in the cache.*pip install liger-kernel"):
        liger.gated(GATED, object())


# What the rows kernel compiles to

_AHEAD_OF_TIME = """
import re, sys
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile, make_backend
from triton.runtime.jit import create_function_from_signature
from lab.contender import KERNELS, load

load(KERNELS / "mlp/stacked.py")
kernel = sys.modules["lab_kernels._geglu"]._geglu_rows
target = GPUTarget("cuda", 90, 32)
backend = make_backend(target)
tensors = [torch.empty(64, dtype=torch.bfloat16)] * 2

def specialised(units, unit):
    args, options = (*tensors, units, unit, "tanh", 1024), {"num_warps": 4}
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    return options, bind(*args, **options)

options, (bound, key, left) = specialised(3072 // 8, 8)
packed = kernel._pack_args(backend, dict(options), bound, key, left)
parsed, signature, constants, attributes = packed
source = ASTSource(kernel, signature, constants, attributes)
code = compile(source, target=target, options=parsed.__dict__).asm["ptx"]
accesses = re.findall(r"(?:ld|st)\\.global\\S*", code)
assert len(accesses) == 6 and all("v4.b32" in a for a in accesses), accesses
keys = {str(specialised(units, 8)[1][1]) for units in (1, 2, 16, 384, 2368, 2**20)}
assert len(keys) == 1, keys
print("done")
"""


def test_what_the_rows_kernel_compiles_to():
    """16-byte accesses at widths that are multiples of 8, one key for all. No GPU needed."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    ran = subprocess.run(
        [sys.executable, "-c", _AHEAD_OF_TIME],
        cwd=Path(__file__).parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout.strip().endswith("done"), ran.stderr
