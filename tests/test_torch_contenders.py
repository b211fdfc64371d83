"""The contenders made of PyTorch's own ops, of torch.compile and of Liger's package."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._inductor import compile_fx

from lab.contender import KERNELS, Unsupported, discover, load
from lab.problem import Problem
from lab.tile import Tile

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
ROUNDOFF = {"bf16": 2**-8, "fp16": 2**-11, "fp32": 2**-22}
ROUNDINGS = 2  # these round after the matmul or the activation, and again at the end

LINEAR = {name: load(KERNELS / f"linear/{name}.py") for name in ("matmul_add", "cublas")}
INDUCTOR = load(KERNELS / "linear/inductor.py")
INDUCTOR_MAX = load(KERNELS / "linear/inductor_max.py")
EAGER_GEGLU = load(KERNELS / "geglu/eager.py")
INDUCTOR_GEGLU = load(KERNELS / "geglu/inductor.py")
LIGER = load(KERNELS / "geglu/liger.py")
torch_compile = sys.modules["lab_kernels._torch_compile"]


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
    """Prepares on one draw, binds and runs another; returns the Launch."""
    launch = contender.prepare(problem, problem.inputs(DEVICE))
    inputs = problem.inputs(DEVICE, draw=1)
    run = launch.bind(inputs)
    assert error(problem, inputs, run()) <= ROUNDINGS * ROUNDOFF[problem.dtype]
    problem.refill(inputs, draw=2)
    assert error(problem, inputs, run()) <= ROUNDINGS * ROUNDOFF[problem.dtype]
    return launch


@pytest.fixture
def graph_shapes(monkeypatch):
    """The input shapes of every graph that Inductor compiles, symbols included."""
    shapes = []

    def spy(graph, inputs, *args, real=compile_fx.compile_fx, **kwargs):
        shapes.append(
            [s for i in inputs for s in (i.shape if isinstance(i, torch.Tensor) else [i])]
        )
        return real(graph, inputs, *args, **kwargs)

    monkeypatch.setattr(compile_fx, "compile_fx", spy)
    return shapes


def static(shapes):
    return all(type(s) is int for s in shapes)


@pytest.mark.parametrize("layout", ["tn", "nn"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("size", [(1, 1, 1), (1, 24, 40), (3, 5, 7), (96, 129, 64)])
@pytest.mark.parametrize("name", LINEAR)
def test_linear(name, size, dtype, layout):
    launch = check(LINEAR[name], Problem("linear", *size, layout, dtype))
    assert (launch.tile, launch.tile_from) == (None, None)  # read from its kernel's name, later


@pytest.mark.parametrize("name", LINEAR)
def test_linear_reads_any_strides(name):
    problem = Problem("linear", 5, 7, 9, "tn", "fp32")
    inputs = problem.inputs(DEVICE)
    strided = {key: t.repeat_interleave(2, dim=-1)[..., ::2] for key, t in inputs.items()}
    assert not strided["w"].is_contiguous()
    out = LINEAR[name].prepare(problem, strided).bind(strided)()
    assert error(problem, inputs, out) <= ROUNDOFF["fp32"]


@pytest.mark.parametrize("layout", ["tn", "nn"])
@pytest.mark.parametrize(("size", "dtype"), [((3, 5, 7), "fp32"), ((64, 96, 32), "bf16")])
def test_linear_inductor(size, dtype, layout):
    check(INDUCTOR, Problem("linear", *size, layout, dtype))


def test_linear_inductor_max_has_graphs_of_its_own(graph_shapes):
    problem = Problem("linear", 16, 24, 32, "tn", "fp32")
    check(INDUCTOR, problem)
    check(INDUCTOR_MAX, problem)  # would raise, had it found the other's graph
    assert all(shapes == [16, 32, 24, 32, 24] for shapes in graph_shapes)
    assert INDUCTOR_MAX.slow


def test_twelve_problems_in_a_row_compile_statically(graph_shapes):
    for m in range(1, 13):
        torch._dynamo.reset()
        check(INDUCTOR, Problem("linear", m, 8, 16, "tn", "fp32"))
        assert len(graph_shapes) == m
        assert graph_shapes[-1] == [m, 16, 8, 16, 8]


def test_without_resets_the_ninth_problem_would_fail(graph_shapes):
    for m in range(1, 9):
        check(INDUCTOR, Problem("linear", m, 8, 16, "tn", "fp32"))
    with pytest.raises(FailOnRecompileLimitHit):
        check(INDUCTOR, Problem("linear", 9, 8, 16, "tn", "fp32"))
    assert len(graph_shapes) == 8


def test_left_alone_the_second_shape_would_be_dynamic(graph_shapes):
    """What the static graphs above are static in contrast to."""
    compiled = torch.compile(lambda x: x @ x.t())
    compiled(torch.ones(3, 4))
    compiled(torch.ones(5, 4))
    assert static(graph_shapes[0])
    assert not static(graph_shapes[1])


def test_a_formula_that_did_not_compile_is_an_error():
    problem = Problem("linear", 4, 8, 16, "tn", "fp32")
    inputs = problem.inputs(DEVICE)
    INDUCTOR.prepare(problem, inputs)
    with pytest.raises(RuntimeError, match=r"_tn was not compiled.*reset"):
        INDUCTOR.prepare(problem, inputs)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(disable=True), pytest.raises(RuntimeError, match="compiled"):
        INDUCTOR.prepare(problem, inputs)


def test_bound_calls_never_compile_again(graph_shapes):
    problem = Problem("linear", 4, 8, 16, "nn", "fp32")
    with torch.no_grad():  # as the worker does
        launch = INDUCTOR.prepare(problem, problem.inputs(DEVICE))
    run = launch.bind(problem.inputs(DEVICE, draw=1))
    for _ in range(3):
        run()
    assert len(graph_shapes) == 1


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("activation", ["tanh", "erf", "silu"])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (7, 3000), (5, 4097)])
def test_geglu_eager(size, activation, dtype):
    check(EAGER_GEGLU, Problem("geglu", *size, dtype=dtype, activation=activation))


@pytest.mark.parametrize("activation", ["tanh", "erf", "silu"])
def test_geglu_inductor(activation):
    launch = check(INDUCTOR_GEGLU, Problem("geglu", 33, 65, activation=activation))
    if not CUDA:
        assert (launch.tile, launch.tile_from) == (None, None)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("size", [(1, 1), (7, 3000), (5, 4097), (1024, 3072)])
def test_geglu_inductor_says_what_it_compiled(size, dtype):
    problem = Problem("geglu", *size, dtype=dtype, activation="tanh")
    for _ in range(2):  # compiled, then from Inductor's cache
        torch._dynamo.reset()
        launch = check(INDUCTOR_GEGLU, problem)
        assert launch.tile_from == "compiler"
        assert launch.tile.block_m is None
        assert launch.tile.block_n >= 1
        assert launch.resources.threads == 32 * launch.tile.warps
        assert launch.resources.regs > 0
        assert launch.resources.spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["tanh", "erf"])
def test_geglu_inductor_past_2_to_the_31_elements(activation):
    problem = Problem("geglu", 65537, 32771, activation=activation)
    inputs = problem.inputs(DEVICE)
    out = INDUCTOR_GEGLU.prepare(problem, inputs).bind(inputs)()
    part = {name: t[-4:] for name, t in inputs.items()}
    assert error(problem.with_(m=4), part, out[-4:]) <= ROUNDOFF["bf16"]


def kernel(kwargs, config_args=None, launchers=1, **launcher):
    """A stand-in for Inductor's CachingAutotuner after its first run."""
    config = SimpleNamespace(kwargs=kwargs, num_warps=4, num_stages=3)
    made = SimpleNamespace(config=config, **launcher)
    meta = {} if config_args is None else {"config_args": config_args}
    return SimpleNamespace(launchers=[made] * launchers, inductor_meta=meta)


def wrapper(**kernels):
    return SimpleNamespace(call=None, **kernels)


def test_the_tile_is_read_from_the_compiled_kernel():
    flat = kernel({"XBLOCK": 1024}, n_regs=30, n_spills=2, shared=16)
    # The kernel's own module has no `call`; an older graph's wrapper comes first.
    modules = [wrapper(triton_poi_old=kernel({"XBLOCK": 1})), wrapper(triton_poi_f=flat), flat]
    tile, resources = torch_compile.read_kernel(modules, "poi")
    assert tile == Tile(block_n=1024, warps=4, stages=3)
    assert (resources.regs, resources.spill_bytes) == (30, 8)
    assert (resources.smem_bytes, resources.threads) == (16, 128)

    square = kernel({"XBLOCK": 64, "YBLOCK": 32})  # a version that tells no registers
    tile, resources = torch_compile.read_kernel([wrapper(triton_poi_f=square)], "poi")
    assert tile == Tile(block_m=32, block_n=64, warps=4, stages=3)
    assert (resources.regs, resources.spill_bytes) == (None, None)

    gemm = kernel({}, {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "EVEN_K": True})
    tile, _ = torch_compile.read_kernel([wrapper(triton_tem_f=gemm, triton_poi_g=flat)], "tem")
    assert tile == Tile(128, 64, 32, stages=3, warps=4, swizzle=8)


@pytest.mark.parametrize(
    "modules",
    [
        [],
        [SimpleNamespace()],
        [wrapper()],
        [wrapper(triton_tem_f=kernel({"XBLOCK": 64}))],  # of another kind
        [wrapper(triton_poi_f=kernel({"XBLOCK": 64}, launchers=2))],  # not tuned yet
        [wrapper(triton_poi_f=kernel({"SOMETHING": 64}))],
        [wrapper(triton_poi_f=kernel({"XBLOCK": 64}), triton_poi_g=kernel({"XBLOCK": 64}))],
        [wrapper(triton_poi_f=kernel({"XBLOCK": -1}))],
    ],
)
def test_what_is_not_as_expected_is_none(modules):
    tile, resources = torch_compile.read_kernel(modules, "poi")
    assert tile is None
    assert resources.regs is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"activation": "erf"}, "tanh GELU alone"), ({"n": 65537}, "at most 65536 columns")],
)
def test_liger_says_what_it_cannot_run(changes, why):
    problem = Problem("geglu", 2, 64, activation="tanh").with_(**changes)
    with pytest.raises(Unsupported, match=why):
        LIGER.prepare(problem, problem.inputs(DEVICE))


@pytest.mark.skipif(CUDA, reason="with a GPU it runs")
def test_liger_needs_a_gpu():
    problem = Problem("geglu", 2, 64, activation="tanh")
    with pytest.raises(Unsupported, match="needs a CUDA GPU"):
        LIGER.prepare(problem, problem.inputs(DEVICE))


def test_liger_says_that_the_package_is_missing(monkeypatch):
    problem = Problem("geglu", 2, 64, activation="tanh")
    liger = sys.modules["lab_kernels.geglu.liger"]
    monkeypatch.setattr(liger.device, "current", lambda: object())
    monkeypatch.setitem(sys.modules, "liger_kernel.ops.geglu", None)
    with pytest.raises(Unsupported, match="pip install liger-kernel"):
        LIGER.prepare(problem, problem.inputs("cpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize(
    ("size", "tile"),
    [
        ((1, 1), "1x1-w4"),
        ((7, 3000), "1x4096-w8"),
        ((5, 4097), "1x8192-w16"),
        ((3, 65536), "1x65536-w32"),
    ],
)
def test_liger(size, tile, dtype):
    launch = check(LIGER, Problem("geglu", *size, dtype=dtype, activation="tanh"))
    assert (str(launch.tile), launch.tile_from) == (tile, "declared")


@pytest.mark.gpu
def test_liger_refuses_operands_that_are_not_contiguous():
    problem = Problem("geglu", 8, 64, activation="tanh")
    inputs = problem.inputs(DEVICE)
    launch = LIGER.prepare(problem, inputs)
    halves = torch.cat([inputs["gate"], inputs["up"]], dim=1).chunk(2, dim=1)
    with pytest.raises(ValueError, match="gate must be contiguous"):
        launch.bind(dict(zip(inputs, halves, strict=True)))


@pytest.mark.parametrize(("op", "baseline"), [("linear", "cublas"), ("geglu", "eager")])
def test_each_op_has_one_baseline(op, baseline):
    contenders = [load(path) for path in discover(op)]
    assert [c.name for c in contenders if c.baseline] == [baseline]
    assert all(c.op == op for c in contenders)
