"""From samples to columns: medians and intervals, rates, speedups, ties, waves."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lab import device, stats
from lab.contender import Launch
from lab.problem import Problem
from lab.record import Row, Sample
from lab.timing import Times


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


def samples(times: Mapping[str, Times]) -> list[Sample]:
    """Every raw sample of every clock."""
    return [
        Sample(name, clock, index, order, us)
        for name, of in times.items()
        for clock in ("cold", "warm", "eager")
        for index, (order, visit) in enumerate(zip(of.order, getattr(of, clock), strict=False))
        for us in visit
    ]
