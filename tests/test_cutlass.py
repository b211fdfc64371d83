"""The CUTLASS contenders of linear: what they accept, what they build, and on a GPU whether every
declared tile computes the right result."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab import check, nvcc
from lab import device as devices
from lab.contender import KERNELS, Launch, Unsupported, load, source_hash
from lab.problem import Problem
from lab.tile import Tile

SM90 = load(KERNELS / "linear/cutlass.py")
SM80 = load(KERNELS / "linear/cutlass_sm80.py")
sm90 = sys.modules["lab_kernels.linear.cutlass"]
sm80 = sys.modules["lab_kernels.linear.cutlass_sm80"]
shared = sys.modules["lab_kernels.linear._cutlass"]

FAMILIES = {"sm90": sm90.FAMILY, "sm80": sm80.FAMILY}
CONTENDERS = {"sm90": SM90, "sm80": SM80}
EVERY_TILE = [
    pytest.param(name, tile, id=f"{name}:{tile}")
    for name, family in FAMILIES.items()
    for tile in family.tiles
]
ADA = devices.Device("Ada", (8, 9), 128, 72 << 20, 24 << 30, 101_376, 102_400, 65_536, 1536)
AMPERE = replace(ADA, name="A100", capability=(8, 0), sms=108, smem_per_block=166_912)
HOPPER = replace(ADA, name="H200", capability=(9, 0), sms=132, smem_per_block=232_448)


def linear(m=128, n=64, k=256, layout="tn", dtype="bf16"):
    return Problem("linear", m, n, k, layout, dtype)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(shared.device, "current", lambda: None)


@pytest.fixture
def no_build(monkeypatch):
    def build(units):
        raise AssertionError("compiled something")

    monkeypatch.setattr(shared.nvcc, "build", build)


# Tiles


@pytest.mark.parametrize("name", FAMILIES)
def test_declared_tiles(name):
    family, tiles = FAMILIES[name], CONTENDERS[name].tiles(linear())
    assert len(set(tiles)) == len(tiles) >= 6
    assert all(Tile.parse(str(tile)) == tile for tile in tiles)
    assert all(family.complete(tile) == tile for tile in tiles)
    for gpu in (None, {"sm90": HOPPER, "sm80": AMPERE}[name]):
        assert [family.why_not(tile, gpu) for tile in tiles] == [None] * len(tiles)


def test_tiles_that_are_promised():
    blocks = {(t.block_m, t.block_n, t.block_k, t.stages) for t in sm80.TILES}
    assert {(128, 128, 32, 5), (128, 256, 64, 3), (128, 128, 64, 4)} <= blocks
    assert len({(t.block_m, t.block_n, t.block_k, t.schedule) for t in sm90.TILES}) >= 6


@pytest.mark.parametrize(
    ("tile", "reason"),
    [
        ("64x128x64-cooperative", "block_m must be a multiple of 128"),
        ("96x128x64-pingpong", "block_m must be a multiple of 64"),
        ("128x16x64-pingpong-swap", "block_n must be a multiple of 64"),
        ("128x64x64-cooperative-swap", "block_n must be a multiple of 128"),
        ("128x512x64", "block_n is at most 256"),
        ("128x72x64-pingpong", "block_n must be a multiple of 16"),
        ("24x128x64-cooperative-swap", "block_m must be a multiple of 16"),
        ("24x64x64-pingpong-swap", "block_m must be a multiple of 16, or 8"),
        ("8x64x64-pingpong-swap", None),
        ("12x64x64-pingpong-swap", "block_m must be a multiple of 16"),
        ("128x128x24", "block_k must be a multiple of 16"),
        ("256x256x64-pingpong", "512 accumulators a thread"),
        ("128x128x64-s8", "8 stages need 270336 bytes of shared memory; a CTA has 232448"),
        ("128x128x64-s1", "at least 2 stages"),
        ("256x192x256", "2 stages need"),
        ("128x128x64-c3x1", "powers of two"),
        ("128x128x64-c4x4", "at most 8 CTAs"),
        ("16x64x64-pingpong-c1x2-swap", None),
        ("16x64x64-pingpong-c4x1-swap", None),
        ("16x64x64-pingpong-c1x4-swap", "must cut the blocks it shares"),
        ("128x128x64-pingpong-stream_k", "stream_k needs the cooperative schedule"),
        ("128x128x64-persistent-split2", "split_k needs the stream_k scheduler"),
        ("128x128x64-multistage", "schedule is pingpong or cooperative"),
        ("128x128x64-swizzle3", "swizzle is 1, 2, 4 or 8"),
        ("128x128x64-w8", "this kernel has 12 warps"),
        ("128x128x64-epi_subtile", "epilogue can't be chosen"),
        ("128x160x64", None),
        ("192x128x64-c1x2", None),
        ("128x128", None),
        ("k128-split4", None),
    ],
)
def test_sm90_rules(tile, reason):
    said = sm90.why_not(sm90.FAMILY.complete(Tile.parse(tile)))
    assert said is None if reason is None else reason in said


@pytest.mark.parametrize(
    ("tile", "gpu", "reason"),
    [
        ("128x256x64-s3", None, None),
        ("128x256x64-s3", AMPERE, None),
        ("128x256x64-s3", ADA, "3 stages need 147456 bytes of shared memory; a CTA has 101376"),
        ("128x128x32-s5", ADA, None),
        ("256x256x32", None, "each warp's part"),
        ("96x128x32", None, "32 times a power of two"),
        ("32x32x32-w2", None, "each warp's part is from 16x32"),
        ("32x32x32", None, None),
        ("64x256x32", None, None),
        ("128x128x128", None, "block_k is 32 or 64"),
        ("128x128x32-s2", None, "at least 3 stages"),
        ("128x128x32-w3", None, "warps is one of 1, 2, 4, 8"),
        ("128x128x32-c2x1", None, "has no cluster"),
        ("128x128x32-stream_k", None, "has no scheduler"),
        ("128x128x32-pingpong", None, "schedule is multistage"),
        ("128x128x32-along_n", None, "raster is along_m"),
        ("128x128x32-swizzle16", None, "swizzle is 1, 2, 4 or 8"),
    ],
)
def test_sm80_rules(tile, gpu, reason):
    said = sm80.why_not(sm80.FAMILY.complete(Tile.parse(tile)), gpu)
    assert said is None if reason is None else reason in said


def test_what_is_asked_for_is_matched_with_what_is_declared():
    def found(text, family=sm90.FAMILY):
        return shared._candidates(family, None, Tile.parse(text))

    for tile in sm90.TILES:
        assert tile in found(str(tile))
    (one,) = found("128x192-swizzle4-along_n")
    assert replace(one, swizzle=None, raster=None) == sm90.TILES[1]
    assert (one.swizzle, one.raster) == (4, "along_n")
    assert len(found("pingpong")) > 3
    assert {t.scheduler for t in found("128x256-split2")} == {"stream_k"}
    (own,) = found("128x160")
    assert (own.block_m, own.block_n, own.block_k, own.stages) == (128, 160, 64, None)
    assert own not in sm90.TILES
    assert found("128x128x32-swizzle4", sm80.FAMILY)[0].swizzle == 4
    with pytest.raises(Unsupported, match="multiple of 64"):
        found("96x128x64-pingpong")


def test_the_default_is_the_first_declared():
    assert shared._candidates(sm90.FAMILY, None, None)[0] == sm90.TILES[0]


@given(m=st.integers(1, 20_000), n=st.integers(1, 4000).map(lambda i: 8 * i))
def test_never_all_tiles_are_hopeless(m, n):
    for family in FAMILIES.values():
        assert shared.hopeful(family.tiles, linear(m, n), 132)


def test_hopeless_tiles_are_dropped():
    few = shared.hopeful(sm90.TILES, linear(1, 4096), 132)
    assert few
    assert all(tile.block_m <= 32 for tile in few)
    many = shared.hopeful(sm90.TILES, linear(8192, 8192), 132)
    assert sm90.TILES[0] in many
    assert all(tile.block_m * tile.block_n >= 128 * 128 for tile in many)
    assert all(tile.scheduler == "persistent" for tile in many)


def test_splits_keep_steps_and_do_not_overfill():
    stream_k = next(t for t in sm90.TILES if t.scheduler == "stream_k" and not t.swap)
    idle = linear(1024, 768, 3072)
    assert set(sm90._splits(stream_k, idle, 132)) >= {None, 2, 3}
    assert sm90._splits(stream_k, linear(16384, 16384, 3072), 132) == [None]
    assert sm90._splits(stream_k, linear(1024, 768, 64), 132) == [None]
    assert sm90._splits(replace(stream_k, split_k=5), idle, 132) == [5]
    assert sm90._splits(replace(stream_k, split_k=5), linear(1024, 768, 64), 132) == []
    assert sm90._splits(sm90.TILES[0], idle, 132) == [None]


# What is refused


@pytest.mark.parametrize("contender", CONTENDERS.values(), ids=CONTENDERS)
@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (linear(k=12), "multiples of 8 (rows of 16 bytes), not k = 12, n = 64"),
        (linear(n=1001), "not k = 256, n = 1001"),
        (linear(dtype="fp32"), "bf16 or fp16 only, not fp32"),
    ],
)
def test_problems_that_are_refused(contender, problem, reason, no_build):
    with pytest.raises(Unsupported) as caught:
        contender.prepare(problem, None)
    assert reason in str(caught.value)


def test_gpus_that_are_refused(monkeypatch, no_build):
    monkeypatch.setattr(shared.device, "current", lambda: ADA)
    with pytest.raises(Unsupported, match=r"built for Hopper .* this GPU has 8\.9"):
        SM90.prepare(linear(), None)
    with pytest.raises(Unsupported, match="147456 bytes"):
        SM80.prepare(linear(), None, Tile.parse("128x256x64-s3"))
    monkeypatch.setattr(shared.device, "current", lambda: replace(ADA, capability=(7, 5)))
    with pytest.raises(Unsupported, match="needs Ampere"):
        SM80.prepare(linear(), None)


@pytest.mark.parametrize("contender", CONTENDERS.values(), ids=CONTENDERS)
def test_a_missing_compiler_is_a_reason_with_its_fix(contender, monkeypatch, no_gpu):
    monkeypatch.setattr(nvcc, "_candidates", lambda: iter(()))
    with pytest.raises(Unsupported, match=r"nvcc is missing.+pip install"):
        contender.prepare(linear(), None)


def test_an_illegal_tile_is_refused_before_it_is_compiled(no_gpu, no_build):
    with pytest.raises(Unsupported, match="must be a multiple of 64"):
        SM90.prepare(linear(), None, Tile.parse("96x128x64-pingpong"))


@pytest.mark.parametrize("name", CONTENDERS)
def test_files_exist_and_count_for_staleness(name):
    contender = CONTENDERS[name]
    path = Path(sys.modules[f"lab_kernels.linear.{contender.name}"].__file__)
    assert len(source_hash(path, contender)) == 12
    assert f"cutlass_{name}.cu" in contender.files


# What is built, without a GPU


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CONTENDERS)
def test_the_default_tile_compiles(name, no_gpu):
    try:
        nvcc.find()
    except nvcc.BuildError as error:
        pytest.skip(str(error))
    contender, tile = CONTENDERS[name], FAMILIES[name].tiles[0]
    launches = {
        (layout, dtype): contender.prepare(linear(layout=layout, dtype=dtype), None)
        for layout in ("tn", "nn")
        for dtype in ("bf16", "fp16")
    }
    for launch in launches.values():
        assert launch.bind is None
        assert launch.tile == tile
        assert launch.tile_from == "declared"
        resources = launch.resources
        assert 32 < resources.regs <= 255
        assert resources.spill_bytes == 0
        assert resources.threads == 32 * tile.warps
        operands = 2 * tile.stages * (tile.block_m + tile.block_n) * tile.block_k
        assert operands <= resources.smem_bytes <= 232_448
    (kernel,) = shared._build(FAMILIES[name], linear(), None, [tile])
    log = Path(kernel.library._name).with_suffix(".log").read_text()
    assert "C7510" not in log  # wgmma serialised


# On the GPU

SHAPES = [
    (1, 8, 8),
    (1, 3072, 768),
    (7, 24, 64),
    (129, 1000, 520),
    (16, 256, 4096),
    (300, 3072, 200),
    (777, 136, 1032),
    (1030, 520, 640),
]


@pytest.fixture(scope="module")
def built():
    """All declared tiles that this GPU runs, compiled in parallel once."""
    for family in FAMILIES.values():
        gpu = devices.current()
        if family.why_not_on(gpu) is None:
            shared._build(family, linear(), gpu, shared._candidates(family, gpu, None))


def verify(launch, problem, inputs):
    """Eager, then replayed twice from a graph over outputs of NaN and with fresh inputs."""

    def right(out):
        verdict = check.compare(
            outputs=[out],
            references=[problem.reference(inputs)],
            problem=problem,
            baseline_err=None,
        )
        assert verdict.reason is None, f"{launch.tile} on {problem}: {verdict.reason}"

    run = launch.bind(inputs)
    run().fill_(float("nan"))
    right(run())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    for draw in (1, 2):
        problem.refill(inputs, draw)
        out.fill_(float("nan"))
        graph.replay()
        right(out)


def skip_where_it_does_not_run(family, tile=None):
    gpu = devices.current()
    reason = family.why_not_on(gpu) or (tile and family.why_not(tile, gpu))
    if reason:
        pytest.skip(reason)


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "tile"), EVERY_TILE)
@pytest.mark.parametrize("layout", ["tn", "nn"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_every_declared_tile_is_right(name, tile, layout, dtype, built):
    family = FAMILIES[name]
    skip_where_it_does_not_run(family, tile)
    asked = replace(tile, raster=family.rasters[0], swizzle=1)
    for size in SHAPES:
        problem = linear(*size, layout, dtype)
        inputs = problem.inputs("cuda")
        launch = CONTENDERS[name].prepare(problem, inputs, asked)
        assert replace(launch.tile, raster=None, split_k=None, swizzle=None) == replace(
            tile, raster=None
        )
        verify(launch, problem, inputs)


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "tile"), EVERY_TILE)
def test_every_order_and_split_is_right(name, tile, built):
    family = FAMILIES[name]
    skip_where_it_does_not_run(family, tile)
    problem = linear(1000, 1160, 1544)
    inputs = problem.inputs("cuda")
    splits = (None, 2, 3, 5) if tile.scheduler == "stream_k" else (None,)
    for raster in family.rasters:
        for swizzle in (1, 2, 4, 8):
            for split_k in splits:
                asked = replace(tile, raster=raster, swizzle=swizzle, split_k=split_k)
                (kernel,) = shared._build(family, problem, devices.current(), [asked])
                launched = kernel.launched(asked, inputs)
                assert (launched.raster, launched.split_k) == (raster, split_k)
                assert launched.swizzle <= swizzle
                launch = Launch(lambda i, k=kernel, a=asked: k.bind(a, i), launched)
                verify(launch, problem, inputs)


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CONTENDERS)
@pytest.mark.parametrize("size", [(1, 4096, 4096), (1024, 768, 3072), (4097, 1000, 1000)])
def test_the_tile_is_chosen_on_the_real_shape(name, size, built):
    skip_where_it_does_not_run(FAMILIES[name])
    problem = linear(*size)
    inputs = problem.inputs("cuda")
    launch = CONTENDERS[name].prepare(problem, inputs)
    assert launch.tile_from == "autotuned"
    assert None not in (launch.tile.stages, launch.tile.raster, launch.tile.swizzle)
    assert launch.resources.spill_bytes == 0
    assert launch.resources.threads == 32 * launch.tile.warps
    verify(launch, problem, problem.inputs("cuda"))
    again = CONTENDERS[name].prepare(problem, inputs, launch.tile)
    assert again.tile == launch.tile


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CONTENDERS)
def test_it_runs_on_the_current_stream(name, built):
    skip_where_it_does_not_run(FAMILIES[name])
    problem = linear(512, 512, 512)
    inputs = problem.inputs("cuda")
    run = CONTENDERS[name].prepare(problem, inputs, FAMILIES[name].tiles[0]).bind(inputs)
    run()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        problem.refill(inputs, draw=1)  # behind the sleep: another stream would see the old data
        out = run()
    stream.synchronize()
    verdict = check.compare(
        outputs=[out], references=[problem.reference(inputs)], problem=problem, baseline_err=None
    )
    assert verdict.reason is None


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CONTENDERS)
def test_operands_that_cannot_be_read_are_refused(name, built):
    skip_where_it_does_not_run(FAMILIES[name])
    problem = linear(64, 64, 64)
    inputs = problem.inputs("cuda")
    launch = CONTENDERS[name].prepare(problem, inputs, FAMILIES[name].tiles[0])
    with pytest.raises(ValueError, match="x must be contiguous"):
        launch.bind({**inputs, "x": inputs["x"].t()})
    shifted = torch.empty(65, dtype=torch.bfloat16, device="cuda")[1:]
    with pytest.raises(ValueError, match="b must be contiguous and start at a multiple of 16"):
        launch.bind({**inputs, "b": shifted})


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_a_split_beyond_the_steps_along_k_is_refused(built):
    skip_where_it_does_not_run(sm90.FAMILY)
    problem = linear(64, 64, 64)
    with pytest.raises(Unsupported, match="k = 64 has fewer steps than parts"):
        SM90.prepare(problem, problem.inputs("cuda"), Tile.parse("128x128x64-stream_k-split2"))
