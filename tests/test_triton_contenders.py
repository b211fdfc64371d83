"""The Triton contenders of linear and geglu: on the GPU, or in Triton's interpreter without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton

from lab.contender import KERNELS, Unsupported, load
from lab.problem import Problem
from lab.tile import Tile

LINEAR = load(KERNELS / "linear/triton.py")
GEGLU = load(KERNELS / "geglu/triton.py")
linear = sys.modules["lab_kernels.linear.triton"]
geglu = sys.modules["lab_kernels.geglu.triton"]
shared = sys.modules["lab_kernels._triton"]

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
# The interpreter rounds fp32 to bf16 towards zero, which doubles the unit roundoff.
ROUNDOFF = {"bf16": 2**-8 if CUDA else 2**-7, "fp16": 2**-11, "fp32": 2**-22}
BF16 = pytest.param("bf16", marks=pytest.mark.gpu)  # its dot is wrong in the interpreter
DESCRIPTORS = pytest.mark.skipif(
    not CUDA and tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7),
    reason="Triton's interpreter has descriptors from 3.7",
)


def error(problem, inputs, out):
    expected = problem.reference(inputs)
    assert out.shape == expected.shape
    assert out.dtype == problem.torch_dtype
    return ((out.to(expected.dtype) - expected).norm() / expected.norm()).item()


def check(contender, problem, tile=None):
    """Prepares on one draw, binds and runs another; returns the Launch."""
    launch = contender.prepare(problem, problem.inputs(DEVICE), tile)
    inputs = problem.inputs(DEVICE, draw=1)
    run = launch.bind(inputs)
    assert error(problem, inputs, run()) <= ROUNDOFF[problem.dtype]
    problem.refill(inputs, draw=2)  # bound to the tensors, not to their values
    assert error(problem, inputs, run()) <= ROUNDOFF[problem.dtype]
    return launch


# linear


@pytest.mark.parametrize("layout", ["tn", "nn"])
@pytest.mark.parametrize("dtype", ["fp16", "fp32", BF16])
@pytest.mark.parametrize(
    "size", [(1, 1, 1), (1, 24, 40), (3, 5, 7), (17, 33, 70), (96, 129, 64), (200, 72, 136)]
)
def test_linear(size, dtype, layout):
    problem = Problem("linear", *size, layout, dtype)
    launch = check(LINEAR, problem, linear._ranked(problem)[0])
    assert launch.tile.scheduler == "persistent"
    assert launch.tile_from == "declared"


@DESCRIPTORS
@pytest.mark.parametrize("layout", ["tn", "nn"])
@pytest.mark.parametrize("stores", [True, False])
def test_linear_through_descriptors(layout, stores, monkeypatch):
    if not CUDA:
        monkeypatch.setattr(linear, "_tma", lambda problem, inputs: (True, stores))
    n = 72 if stores or layout == "nn" else 73  # an odd n still loads by TMA in tn
    check(LINEAR, Problem("linear", 70, n, 136, layout, "fp16"), Tile.parse("64x64x64"))


@pytest.mark.parametrize(
    "tile",
    [
        "16x32x128-s4-w4",
        "64x128x64-swizzle1",
        "128x64x64-w4-swizzle3",
        "128x256x64-s3-w8-epi_subtile",
        "m256-n64-s3",
    ],
)
def test_linear_takes_a_tile(tile):
    tile = Tile.parse(tile)
    launch = check(LINEAR, Problem("linear", 150, 264, 72, "tn", "fp16"), tile)
    assert launch.tile_from == "declared"
    assert tile.covers(launch.tile)
    assert launch.tile.epilogue == tile.epilogue
    assert None not in (launch.tile.block_k, launch.tile.stages, launch.tile.warps)


@pytest.mark.parametrize(
    ("tile", "why"),
    [
        ("128x128x64-c2x1", "no cluster"),
        ("128x128x64-split2", "no split_k"),
        ("96x128x64", "power of two"),
        ("128x128x64-epi_other", "epilogue"),
        ("8x128x64", "16 and more"),
    ],
)
def test_linear_refuses_a_tile_it_does_not_have(tile, why):
    problem = Problem("linear", 32, 32, 32, "tn", "fp16")
    with pytest.raises(Unsupported, match=why):
        LINEAR.prepare(problem, problem.inputs(DEVICE), Tile.parse(tile))


@pytest.mark.skipif(CUDA, reason="on a GPU bf16 is right, and tested")
def test_linear_refuses_bf16_in_the_interpreter():
    problem = Problem("linear", 32, 32, 32, "tn")
    with pytest.raises(Unsupported, match="use fp16 or fp32"):
        LINEAR.prepare(problem, problem.inputs(DEVICE))


def test_linear_refuses_operands_that_are_not_contiguous():
    problem = Problem("linear", 32, 48, 32, "tn", "fp16")
    inputs = problem.inputs(DEVICE)
    launch = LINEAR.prepare(problem, inputs, Tile.parse("32x32x64"))
    transposed = inputs | {"w": inputs["w"].t().contiguous().t()}
    with pytest.raises(ValueError, match="w must be contiguous"):
        launch.bind(transposed)
    with pytest.raises(ValueError, match="w must be contiguous"):
        LINEAR.prepare(problem, transposed)


def test_linear_with_unaligned_operands():
    problem = Problem("linear", 32, 48, 64, "tn", "fp16")
    inputs = problem.inputs(DEVICE)
    store = torch.empty(32 * 64 + 1, dtype=torch.float16, device=DEVICE)
    x = store[1:].view(32, 64).copy_(inputs["x"])
    inputs = inputs | {"x": x}
    out = LINEAR.prepare(problem, inputs, Tile.parse("32x32x64")).bind(inputs)()
    assert error(problem, inputs, out) <= ROUNDOFF["fp16"]


@pytest.mark.gpu
def test_linear_refuses_to_lose_the_alignment_it_was_prepared_for():
    problem = Problem("linear", 32, 48, 64, "tn", "fp16")
    inputs = problem.inputs(DEVICE)
    launch = LINEAR.prepare(problem, inputs, Tile.parse("32x32x64"))
    store = torch.empty(32 * 64 + 1, dtype=torch.float16, device=DEVICE)
    with pytest.raises(ValueError, match="16-byte aligned"):
        launch.bind(inputs | {"x": store[1:].view(32, 64)})


@pytest.mark.parametrize("m", [1, 16, 20, 64, 100, 8192])
@pytest.mark.parametrize("nk", [(64, 32), (3072, 768), (768, 3072), (50257, 768)])
def test_linear_candidates_suit_the_shape(m, nk):
    problem = Problem("linear", m, *nk, "tn")
    space, ranked = linear.SPACE.tiles(problem), linear._ranked(problem)
    assert len(space) >= 12
    assert set(ranked) <= set(space)
    assert len({(t.block_m, t.block_n) for t in ranked[: linear._MAX_CANDIDATES]}) >= 2
    assert ranked[0].block_m <= max(16, 2 * m)
    if m == 1:
        assert {t.block_m for t in ranked} == {16}
    assert all(why for _, why in linear.SPACE.rejected(problem))


def test_linear_ranks_large_tiles_first_where_they_fill_the_gpu():
    best = linear._ranked(Problem("linear", 8192, 8192, 8192, "tn"))[0]
    assert best.block_m * best.block_n >= 128 * 128
    small = linear._ranked(Problem("linear", 256, 768, 768, "tn"))[0]
    assert small.block_m * small.block_n < 128 * 128


def test_linear_without_a_tile_chooses_one():
    problem = Problem("linear", 40, 50, 60, "tn", "fp16")
    launch = check(LINEAR, problem)
    assert launch.tile in linear._ranked(problem)
    assert launch.tile_from == ("autotuned" if CUDA else "declared")


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["tn", "nn"])
@pytest.mark.parametrize(
    "size", [(1, 768, 3072), (16, 3072, 768), (1000, 768, 3072), (4096, 4096, 4096)]
)
def test_linear_is_tuned_and_does_not_spill(size, layout):
    launch = check(LINEAR, Problem("linear", *size, layout))
    assert launch.tile_from == "autotuned"
    assert launch.resources.spill_bytes == 0
    assert launch.resources.threads == 32 * launch.tile.warps
    assert launch.resources.regs > 0
    assert launch.resources.smem_bytes > 0


@pytest.mark.gpu
def test_linear_says_that_a_tile_is_too_large():
    problem = Problem("linear", 512, 512, 512, "tn")
    with pytest.raises(Unsupported, match="doesn't fit this GPU: out of resource: shared memory"):
        LINEAR.prepare(problem, problem.inputs(DEVICE), Tile.parse("256x256x128-s5-w8"))


# geglu

GEGLU_SIZES = [(1, 1), (1, 7), (3, 5), (1, 1024), (33, 64), (5, 4097), (7, 3000)]


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("activation", ["tanh", "erf", "silu"])
@pytest.mark.parametrize("size", GEGLU_SIZES)
def test_geglu(size, activation, dtype):
    launch = check(GEGLU, Problem("geglu", *size, dtype=dtype, activation=activation))
    assert launch.tile in GEGLU.tiles(None)
    assert launch.tile_from == "declared"


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("activation", ["tanh", "erf", "silu"])
def test_geglu_is_about_as_accurate_as_eager(activation, dtype):
    problem = Problem("geglu", 100, 1003, dtype=dtype, activation=activation)
    inputs = problem.inputs(DEVICE)
    eager = error(problem, inputs, problem.activate(inputs["gate"]) * inputs["up"])
    ours = error(problem, inputs, GEGLU.prepare(problem, inputs).bind(inputs)())
    assert ours <= max(2 * eager, ROUNDOFF[dtype])
    assert ours <= 1.5 * eager + 2**-24  # far inside what the lab tolerates


@pytest.mark.filterwarnings("ignore:overflow")  # meant: x / ∞ is right
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("activation", ["tanh", "erf", "silu"])
def test_geglu_at_large_values(activation, dtype):
    problem = Problem("geglu", 1, 256, dtype=dtype, activation=activation)
    largest = torch.finfo(problem.torch_dtype).max
    gate = torch.cat([torch.linspace(-30, 30, 252), torch.tensor([0.0, -0.0, -largest, largest])])
    inputs = {
        "gate": gate.to(problem.torch_dtype).to(DEVICE)[None],
        "up": torch.ones(1, 256, dtype=problem.torch_dtype, device=DEVICE),
    }
    out = GEGLU.prepare(problem, inputs).bind(inputs)()
    expected = problem.activate(inputs["gate"].double())
    bound = 2 * ROUNDOFF[dtype] * expected.abs() + 1e-6
    assert (out.double() - expected).abs().le(bound).all()


@pytest.mark.parametrize("tile", ["n256-w1", "n128-w4", "n2048-w8", "n4096"])
def test_geglu_takes_a_tile(tile):
    tile = Tile.parse(tile)
    launch = check(GEGLU, Problem("geglu", 3, 3000, activation="tanh"), tile)
    assert tile.covers(launch.tile)
    assert launch.tile.warps


@pytest.mark.parametrize(
    ("tile", "why"), [("m1-n256", "no block_m"), ("n1000", "power of two"), ("n64-w64", "32 warps")]
)
def test_geglu_refuses_a_tile_it_does_not_have(tile, why):
    problem = Problem("geglu", 3, 100, activation="tanh")
    with pytest.raises(Unsupported, match=why):
        GEGLU.prepare(problem, problem.inputs(DEVICE), Tile.parse(tile))


def test_geglu_refuses_operands_that_are_not_contiguous():
    problem = Problem("geglu", 8, 64, activation="tanh")
    inputs = problem.inputs(DEVICE)
    launch = GEGLU.prepare(problem, inputs)
    halves = torch.cat([inputs["gate"], inputs["up"]], dim=1).chunk(2, dim=1)
    with pytest.raises(ValueError, match="gate must be contiguous"):
        launch.bind(dict(zip(inputs, halves, strict=True)))


def test_geglu_with_unaligned_operands():
    problem = Problem("geglu", 3, 1001, dtype="fp16", activation="tanh")
    inputs = problem.inputs(DEVICE)
    store = torch.empty(3 * 1001 + 1, dtype=torch.float16, device=DEVICE)
    unaligned = inputs | {"gate": store[1:].view(3, 1001).copy_(inputs["gate"])}
    for given in (inputs, unaligned):  # prepared for the first
        out = GEGLU.prepare(problem, inputs).bind(given)()
        assert error(problem, given, out) <= ROUNDOFF["fp16"]


def test_geglu_blocks_grow_with_the_problem():
    problems = [Problem("geglu", m, 3072, activation="tanh") for m in (1, 64, 256, 1024, 65536)]
    blocks = [geglu._tile(p).block_n for p in problems]
    assert blocks == sorted(blocks)
    assert blocks[-1] == geglu._LAUNCH_SET[-1].block_n


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["tanh", "erf", "silu"])
def test_geglu_compiles_once_for_all_shapes(activation):
    compilations = []
    hooks = triton.knobs.runtime
    before, hooks.jit_post_compile_hook = (
        hooks.jit_post_compile_hook,
        lambda **kernel: compilations.append(kernel["repr"]),
    )
    geglu._geglu.device_caches.clear()
    try:
        for size in [*GEGLU_SIZES, (1024, 3072), (8192, 3072), (2**16 + 1, 2**15 + 1)]:
            problem = Problem("geglu", *size, activation=activation)
            gate = torch.zeros(size, dtype=torch.bfloat16, device=DEVICE)
            inputs = {"gate": gate, "up": gate}
            GEGLU.prepare(problem, inputs).bind(inputs)()
            assert len(compilations) == len(GEGLU.tiles(problem))
    finally:
        hooks.jit_post_compile_hook = before
    torch.cuda.synchronize()


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["tanh", "erf"])
def test_geglu_past_2_to_the_31_elements(activation):
    problem = Problem("geglu", 65537, 32771, activation=activation)
    assert problem.m * problem.n > 2**31
    inputs = problem.inputs(DEVICE)
    launch = GEGLU.prepare(problem, inputs)
    out = launch.bind(inputs)()
    for rows in (slice(0, 4), slice(32768, 32772), slice(65533, 65537)):
        part = {name: t[rows] for name, t in inputs.items()}
        assert error(problem.with_(m=4), part, out[rows]) <= ROUNDOFF["bf16"]
    assert launch.resources.spill_bytes == 0


# Where Triton can do neither, and what it compiles to


def test_neither_gpu_nor_interpreter_is_unsupported(monkeypatch):
    monkeypatch.setattr(shared, "interpreted", lambda: False)
    monkeypatch.setattr(shared.device, "current", lambda: None)
    for contender, problem in (
        (LINEAR, Problem("linear", 8, 8, 8, "tn")),
        (GEGLU, Problem("geglu", 8, 8, activation="tanh")),
    ):
        with pytest.raises(Unsupported, match="CUDA GPU, or TRITON_INTERPRET=1"):
            contender.prepare(problem, problem.inputs("cpu"))


_AHEAD_OF_TIME = """
import re, sys
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile, make_backend
from triton.runtime.jit import create_function_from_signature
from lab.contender import KERNELS, load
from lab.problem import Problem
from lab.tile import Tile

load(KERNELS / "linear/triton.py")
load(KERNELS / "geglu/triton.py")
linear = sys.modules["lab_kernels.linear.triton"]
geglu = sys.modules["lab_kernels.geglu.triton"]

def specialised(kernel, capability, args, options):
    target = GPUTarget("cuda", capability, 32)
    backend = make_backend(target)
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    return target, backend, *bind(*args, **options)

def ptx(kernel, capability, args, options):
    target, backend, bound, key, left = specialised(kernel, capability, args, options)
    packed = kernel._pack_args(backend, dict(options), bound, key, left)
    parsed, signature, constants, attributes = packed
    source = ASTSource(kernel, signature, constants, attributes)
    return compile(source, target=target, options=parsed.__dict__).asm["ptx"]

for layout in ("tn", "nn"):
    problem = Problem("linear", 512, 512, 256, layout)
    inputs = problem.inputs("cpu")
    for text in ("128x256x64-s3-w8-swizzle8", "128x256x64-s4-w8-swizzle8-epi_subtile"):
        args, options, _ = linear._arguments(problem, inputs, Tile.parse(text), (True, True))
        code = ptx(linear._linear, 90, args, options)
        assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16" in code
        assert re.search(r"wgmma.wait_group.sync.aligned\\s+1;", code), "not pipelined"
        assert re.search(r"cp.async.bulk.tensor.2d.shared\\S*.global", code), "no TMA load"
        assert re.search(r"cp.async.bulk.tensor.2d.global.shared", code), "no TMA store"
    tile = Tile.parse("128x128x32-s4-w4-swizzle8")
    args, options, _ = linear._arguments(problem, inputs, tile, (False, False))
    code = ptx(linear._linear, 80, args, options)
    assert "mma.sync.aligned.m16n8k16" in code
    assert "cp.async.cg.shared.global" in code and "0x10" in code, "no 16-byte async copies"

tensors = [torch.empty(64, dtype=torch.bfloat16)] * 3
def geglu_arguments(numel):
    return (*tensors, numel, "tanh", 1024), {"num_warps": 4}
code = ptx(geglu._geglu, 90, *geglu_arguments(4096))
assert code.count("ld.global.v4.b32") == 2 and code.count("st.global.v4.b32") == 1
keys = {
    str(specialised(geglu._geglu, 90, *geglu_arguments(numel))[3])
    for numel in (1, 16, 4097, 2**31 - 1, 2**31, 2**33 + 5)
}
assert len(keys) == 1, keys
print("done")
"""


def test_what_the_kernels_compile_to():
    """wgmma, TMA and 16-byte accesses are in the code; numel is in no cache key. No GPU needed."""
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
