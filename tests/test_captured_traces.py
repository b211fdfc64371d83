"""What the contenders ran at the seed shapes on an H200, from traces that `lab trace` captured."""

from pathlib import Path

import pytest

from lab.kernel_names import parse
from lab.trace import read
from lab.trace_diff import diff
from lab.trace_show import METADATA, summary

FOLDER = Path(__file__).parent / "traces"
UP, DOWN = "linear-8192x768-3072-tn-bf16", "linear-8192x3072-768-tn-bf16"
GEGLU = "geglu-8192x3072-bf16-tanh"
NAMES = sorted(path.name for path in FOLDER.glob("*.json.gz"))


def trace(problem, contender):
    return read(FOLDER / f"{problem}.{contender}.json.gz")


def kernels(problem, contender):
    return [event.name for event in trace(problem, contender).kernels]


def ops(problem, contender):
    return {node.name: node for node in trace(problem, contender).nodes()}


def test_every_contender_has_one():
    linear = {"cublas", "cutlass", "cutlass_sm80", "inductor", "matmul_add", "triton"}
    geglu = {"eager", "inductor", "liger", "triton"}
    wanted = {f"{p}.{c}" for p in (UP, DOWN) for c in linear} | {f"{GEGLU}.{c}" for c in geglu}
    assert {name.removesuffix(".json.gz") for name in NAMES} == wanted
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2 << 20


@pytest.mark.parametrize("name", NAMES)
def test_each_is_read_whole(name):
    one = read(FOLDER / name)
    assert one.kernels and not one.orphans
    text = summary(one)
    assert "-bound: host" in text and "NVIDIA H200" in text


def test_the_bias_is_in_the_epilogue():
    """One kernel and no add: its name says bias. A memset of cuBLAS' is counted apart."""
    one = trace(UP, "cublas")
    (name,) = kernels(UP, "cublas")
    assert parse(name).family == "nvjet" and "bias" in parse(name).epilogue
    assert [event.kind for event in one.memops] == ["memset"]
    assert "aten::addmm" in ops(UP, "cublas") and "aten::add" not in ops(UP, "cublas")


def test_two_ops_are_two_kernels():
    families = [parse(name).family for name in kernels(UP, "matmul_add")]
    assert families == ["nvjet", "aten"]
    assert "aten::add" in ops(UP, "matmul_add")


def test_transposing_launches_nothing():
    node = ops(UP, "cublas")["aten::t"]
    assert not node.launched() and "aten::t" in METADATA


def test_compile_leaves_the_product_alone_and_drops_the_views():
    assert kernels(UP, "inductor") == kernels(UP, "cublas")
    compiled = ops(UP, "inductor")
    assert "aten::t" not in compiled
    assert any("TorchDynamo Cache Lookup" in name for name in compiled)
    assert any("Torch-Compiled Region" in name for name in compiled)


def test_equal_flops_run_other_tiles():
    up, down = (parse(kernels(p, "cublas")[0]).tile() for p in (UP, DOWN))
    assert (up.block_m, up.block_n) == (128, 256)
    assert (down.block_m, down.block_n) == (128, 192)


def test_our_kernels_say_their_tiles():
    tile = parse(kernels(UP, "cutlass")[0]).tile()
    assert (tile.block_m, tile.block_n, tile.schedule) == (128, 192, "pingpong")
    assert parse(kernels(UP, "cutlass_sm80")[0]).tile().schedule == "multistage"
    assert parse(kernels(UP, "triton")[0]).family == "triton"


def test_gelu_and_product_are_fused_by_three_and_not_by_eager():
    assert len(kernels(GEGLU, "eager")) == 2
    (fused,) = kernels(GEGLU, "inductor")
    assert parse(fused).ops == ("gelu", "mul")
    assert parse(kernels(GEGLU, "liger")[0]).family == "liger"
    assert len(kernels(GEGLU, "triton")) == 1


def test_the_difference_of_eager_and_compiled_is_told():
    text = diff(trace(GEGLU, "eager"), trace(GEGLU, "inductor"))
    assert "triton_poi_fused_gelu_mul" in text and "aten::gelu" in text
