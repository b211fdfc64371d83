"""From samples to columns: medians and intervals, rates, speedups, ties, waves."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lab import device, kernel_names, stats
from lab.contender import Launch, Resources
from lab.problem import Problem
from lab.record import Kernel, Row, Sample
from lab.tile import Tile
from lab.timing import Times, is_full
from lab.trace import GpuEvent


@dataclass
class Timed:
    """A contender that was timed: its row, its times, and by which cold clock."""

    row: Row
    times: Times
    clock: str
    baseline: bool

    @cached_property
    def cold(self) -> np.ndarray:
        return np.array(self.times.cold)


def fill_times(one: Timed, copy_gbps: float | None, matmul_tflops: float | None) -> None:
    """Times in µs and the rates that follow; the roofline's peaks are those measured."""
    row, problem = one.row, one.row.problem
    row.us, row.us_lo, row.us_hi = stats.median_interval(one.cold)
    row.us_p10, row.us_p90 = map(float, np.quantile(one.cold, [0.1, 0.9]))
    row.samples, row.clock = one.cold.size, one.clock
    row.warm_us = float(np.median(one.times.warm)) if one.times.warm else None
    row.eager_us = float(np.median(one.times.eager)) if one.times.eager else None
    row.gbps = problem.min_bytes / row.us / 1e3
    row.tflops = problem.flops / row.us / 1e6 if problem.flops else None
    if copy_gbps and matmul_tflops:
        memory_us = problem.min_bytes / copy_gbps / 1e3
        math_us = problem.flops / matmul_tflops / 1e6
        row.pct_roofline = 100 * max(memory_us, math_us) / row.us


def fill_conditions(row: Row, conditions: list[device.Sample]) -> None:
    """Median SM clock and power over the problem, and every throttle reason seen."""
    clocks = [c.sm_mhz for c in conditions if c.sm_mhz]
    watts = [c.power_w for c in conditions if c.power_w]
    row.sm_mhz = int(np.median(clocks)) if clocks else None
    row.power_w = float(np.median(watts)) if watts else None
    row.throttled = "|".join(sorted(set().union(*(c.throttled for c in conditions)))) or None


def compare(timed: Mapping[str, Timed]) -> None:
    """Speedups over the baseline and who is best, among those on the same clock as it."""
    base = next((one for one in timed.values() if one.baseline), None)
    twin = base and timed.get(f"{base.row.contender}.aa")
    floor = stats.floor(twin.cold, base.cold) if twin else 0.0
    clocks = [base.clock] if base else sorted({one.clock for one in timed.values()})
    for clock in clocks:
        same = {name: one for name, one in timed.items() if one.clock == clock}
        rivals = {name: one.cold for name, one in same.items() if not name.endswith(".aa")}
        best = stats.ties(rivals, floor)
        for name, one in same.items():
            one.row.best = name in best
            if base:
                ratio = stats.paired_ratio(base.cold, one.cold)
                one.row.speedup, one.row.speedup_lo, one.row.speedup_hi = ratio


def waves(gpu: device.Device | None, problem: Problem, launch: Launch) -> float | None:
    """Output tiles over the CTAs that the GPU holds at once; None where either isn't known."""
    tile, r = launch.tile, launch.resources
    if not (gpu and tile and tile.block_n and r.threads and r.regs):
        return None
    at_once = device.ctas_per_sm(gpu, r.threads, r.regs, r.smem_bytes or 0)
    m, n = problem.out_shape
    if tile.block_m:
        tiles = -(-m // tile.block_m) * -(-n // tile.block_n) * (tile.split_k or 1)
    else:
        tiles = -(-m * n // tile.block_n)  # a flat kernel: its block runs over all elements
    return tiles / (gpu.sms * at_once) if at_once else None


def fill_ran(row: Row, events: list[GpuEvent], gpu: device.Device) -> None:
    """What one call launched. The tile columns are the longest kernel's.

    A tile that wasn't known is read from that kernel's name. One that was known must agree with
    the name where the name tells: else the row is an error, for something else was timed.
    """
    kernels = [event for event in events if event.kind == "kernel"]
    row.kernels, row.memops = len(kernels), len(events) - len(kernels)
    if not kernels:
        return
    longest = max(kernels, key=lambda event: event.us)
    row.kernel = longest.name
    named = kernel_names.parse(longest.name).tile()
    if row.tile is None:
        row.set_tile(named, "kernel-name")
    elif named and (differs := _disagreement(Tile.parse(row.tile), named)):
        row.status, row.reason, row.best = (
            "error",
            f"the launched kernel's name says {differs}",
            None,
        )
        return
    row.regs = longest.regs if row.regs is None else row.regs
    row.smem_bytes = longest.smem_bytes if row.smem_bytes is None else row.smem_bytes
    if row.waves is None and row.tile and longest.block:
        resources = Resources(longest.regs, None, longest.smem_bytes, math.prod(longest.block))
        row.waves = waves(gpu, row.problem, Launch(None, Tile.parse(row.tile), None, resources))


def kernels(name: str, events: list[GpuEvent]) -> list[Kernel]:
    """The kernels of a contender that launches several, in order."""
    found = [event for event in events if event.kind == "kernel"]
    if len(found) < 2:
        return []
    tiles = [kernel_names.parse(event.name).tile() for event in found]
    return [
        Kernel(name, position, event.name, event.us, str(tile) if tile else None)
        for position, (event, tile) in enumerate(zip(found, tiles, strict=True))
    ]


def _disagreement(known: Tile, named: Tile) -> str:
    """Fields that both have and that differ; the epilogue's word is each one's own."""
    both = {
        f.name: (getattr(known, f.name), getattr(named, f.name))
        for f in dataclasses.fields(Tile)
        if f.name != "epilogue"
    }
    return ", ".join(
        f"{name} {theirs}, not {ours}"
        for name, (ours, theirs) in both.items()
        if None not in (ours, theirs) and ours != theirs
    )


def samples(times: Mapping[str, Times]) -> list[Sample]:
    """Every raw sample of every clock."""
    made = []
    for name, of in times.items():
        every = list(enumerate(of.order))
        full = [(index, order) for index, order in every if is_full(index)]
        for clock, places in (("cold", every), ("warm", full), ("eager", full)):
            # A contender that lacks a clock has no visits of it.
            for (index, order), visit in zip(places, getattr(of, clock), strict=False):
                made += [Sample(name, clock, index, order, us) for us in visit]
    return made
