"""Picks the fastest of a contender's tiles on the real shape, quickly and under the cold clock.

Every candidate is checked against one reference first: a tile that gives NaN is fast. The
candidates then run as CUDA graphs that rotate over copies of the inputs, interleaved in rounds;
after each round those that are clearly behind drop out (successive halving). This is a screen,
not a measurement: the lab's clock times the winner afterwards.
"""

import time
from collections.abc import Callable, Mapping

import torch

from lab import device
from lab.contender import Inputs
from lab.problem import Problem
from lab.tile import Tile

_MAX_ERROR = 2**-6  # of the norm: far above rounding in any dtype, far below a wrong kernel
_MAX_SETS = 32
_MIN_LAUNCHES = 8


def fastest(
    problem: Problem,
    inputs: Inputs,
    binds: Mapping[Tile, Callable[[Inputs], Callable]],
    seconds: float = 0.5,
) -> Tile:
    """The first of `ranked`."""
    return ranked(problem, inputs, binds, seconds)[0]


def ranked(
    problem: Problem,
    inputs: Inputs,
    binds: Mapping[Tile, Callable[[Inputs], Callable]],
    seconds: float = 0.5,
) -> list[Tile]:
    """The tiles that computed the right result, the one whose launches took the least time first.

    `binds` maps each tile to its `Launch.bind`. About `seconds` are spent on timing.

    Raises:
        RuntimeError: no tile ran and computed the right result; the message has the first reason.
    """
    expected = problem.reference(inputs)
    why_not, right = {}, {}
    for tile, bind in binds.items():
        try:
            launch = bind(inputs)
            launch().fill_(float("nan"))  # or memory that another tile left right could pass
            out = launch().to(expected.dtype)
            error = ((out - expected).norm() / expected.norm()).item()
            if not error <= _MAX_ERROR:  # NaN fails too
                raise RuntimeError(f"error {error:.3g} of the norm")
            right[tile] = bind
        except RuntimeError as reason:
            why_not[tile] = reason
    del expected
    if not right:
        tile, reason = next(iter(why_not.items()))
        raise RuntimeError(f"no tile works; {tile}: {reason}")
    if len(right) == 1:
        return list(right)

    sets = [inputs] + [
        {name: t.clone() for name, t in inputs.items()} for _ in range(_copies(problem))
    ]
    # Bound launches are kept until the end: a graph holds no reference to the memory it writes.
    launches = {tile: [bind(s) for s in sets] for tile, bind in right.items()}
    graphs = {tile: _graph(launches[tile]) for tile in right}
    best = dict.fromkeys(graphs, float("inf"))
    deadline = time.perf_counter() + seconds
    cut = 2.0  # how far behind the leader a candidate may be and stay; tightened each round
    while time.perf_counter() < deadline and len(graphs) > 1:
        for tile, graph in graphs.items():
            best[tile] = min(best[tile], _milliseconds(graph))
        leader = min(best[tile] for tile in graphs)
        graphs = {tile: g for tile, g in graphs.items() if best[tile] <= cut * leader}
        cut = max(1.01, 1 + (cut - 1) / 2)
    return sorted(graphs, key=best.__getitem__) + sorted(
        best.keys() - graphs.keys(), key=best.__getitem__
    )


def _copies(problem: Problem) -> int:
    """How many further input sets push the footprint past three L2 caches."""
    wanted = 3 * device.current().l2_bytes // problem.min_bytes
    return min(_MAX_SETS, wanted + 1) - 1 if wanted else 0


def _graph(launches: list[Callable]) -> torch.cuda.CUDAGraph:
    repeats = -(-_MIN_LAUNCHES // len(launches))
    for launch in launches:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches * repeats:
            launch()
    return graph


def _milliseconds(graph: torch.cuda.CUDAGraph) -> float:
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop)
