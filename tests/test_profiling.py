"""What ran, as the profiler sees it: on a GPU."""

import math

import pytest
import torch

from lab import device
from lab.kernel_names import parse
from lab.profiling import profile_once

# m, n, k whose nvjet grid has one CTA per output tile, because there are fewer tiles than SMs.
FEW_TILES = [
    (1, 3072, 768),
    (64, 14336, 4096),
    (128, 9216, 2304),
    (512, 2304, 768),
    (1024, 768, 3072),
    (8192, 96, 1024),
    (8192, 200, 1024),
    (1023, 3000, 776),
]


@pytest.mark.gpu
def test_nvjets_first_number_counts_columns_of_a_row_major_y():
    """Settled by grids: only tiles of `first` columns by `second` rows come to so many CTAs."""
    calls, sizes = {}, {}
    for m, n, k in FEW_TILES:
        x, w, b = (
            torch.randn(*s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (n, k), (n,))
        )
        for layout, weight in (("tn", w.t()), ("nn", w.t().contiguous())):
            name = f"{m}x{k}->{n} {layout}"
            calls[name] = lambda x=x, weight=weight, b=b: torch.addmm(b, x, weight)
            sizes[name] = (m, n)
    events, failures = profile_once(calls)
    assert not failures
    told = {}
    for name, found in events.items():
        kernel = max(found, key=lambda event: event.us)
        parsed = parse(kernel.name)
        if parsed.family != "nvjet" or parsed.split_k:
            continue
        m, n = sizes[name]
        first, second = parsed.block_m, parsed.block_n
        ctas = math.prod(kernel.grid)
        across = math.ceil(n / first) * math.ceil(m / second)
        along = math.ceil(m / first) * math.ceil(n / second)
        if ctas in (across, along) and across != along and ctas < device.current().sms:
            told[name] = (kernel.name, ctas, across, along)
    print(*told.items(), sep="\n")
    assert len(told) >= 4, "too few kernels tell"
    assert all(ctas == across for _, ctas, across, _ in told.values())
    for name in told:
        tile = parse(told[name][0]).tile()
        m, n = sizes[name]
        assert math.ceil(m / tile.block_m) * math.ceil(n / tile.block_n) == told[name][1]


@pytest.mark.gpu
def test_a_kernel_launched_past_torch_is_seen():
    """A library of its own CUDA runtime, called through ctypes, as CUTLASS' contenders are."""
    from lab import contender
    from lab.problem import Problem

    problem = Problem("linear", 256, 256, 256, "tn")
    loaded = contender.load(contender.KERNELS / "linear" / "cutlass_sm80.py")
    inputs = problem.inputs("cuda")
    launch = loaded.prepare(problem, inputs, tile=loaded.tiles(problem)[0])
    events, failures = profile_once({"cutlass_sm80": launch.bind(inputs)})
    assert not failures
    (event,) = events["cutlass_sm80"]
    named = parse(event.name).tile()
    assert (named.block_m, named.block_n) == (launch.tile.block_m, launch.tile.block_n)
    assert event.regs == launch.resources.regs
