"""From samples to columns, and from what ran to columns."""

import numpy as np
import pytest

from lab import derive
from lab.contender import Launch, Resources
from lab.derive import Timed
from lab.device import Device, ctas_per_sm
from lab.problem import Problem
from lab.record import Row
from lab.tile import Tile
from lab.timing import Times, is_full
from lab.trace import GpuEvent

PROBLEM = Problem("linear", 8192, 3072, 768, "tn")
H200 = Device("H200", (9, 0), 132, 60 << 20, 141 << 30, 232448, 233472, 65536, 2048)
NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"


def row(name="cublas", problem=PROBLEM):
    return Row.of(problem, run_id="r", experiment="e", contender=name, source="s", status="ok")


def timed(name, us, clock="rotate", baseline=False, seed=0, rounds=30):
    rng = np.random.default_rng(seed)
    drift = 1 + 0.01 * np.random.default_rng(99).standard_normal((rounds, 1))
    cold = us * drift * (1 + 0.0005 * rng.standard_normal((rounds, 1)))
    return Timed(row(name), Times(cold=cold.tolist(), order=[0] * rounds), clock, baseline)


def field(*racers):
    return {one.row.contender: one for one in racers}


def test_rates_follow_from_the_median():
    one = timed("cublas", 60.0)
    one.times.warm, one.times.eager = [[50.0]], [[100.0, 120.0]]
    derive.fill_times(one, copy_gbps=4000.0, matmul_tflops=800.0)
    r = one.row
    assert r.us_lo < r.us < r.us_hi and r.us_p10 < r.us < r.us_p90
    assert (r.samples, r.clock, r.warm_us, r.eager_us) == (30, "rotate", 50.0, 110.0)
    assert r.tflops == pytest.approx(PROBLEM.flops / r.us / 1e6)
    assert r.gbps == pytest.approx(PROBLEM.min_bytes / r.us / 1e3)
    bound_us = max(PROBLEM.flops / 800e6, PROBLEM.min_bytes / 4e6)
    assert r.pct_roofline == pytest.approx(100 * bound_us / r.us)


def test_without_peaks_there_is_no_roofline():
    one = timed("cublas", 60.0)
    derive.fill_times(one, None, None)
    assert one.row.pct_roofline is None and one.row.warm_us is None


def test_speedups_are_paired_and_ties_are_all_best():
    racers = field(
        timed("cublas", 60.0, baseline=True, seed=1),
        timed("cublas.aa", 60.0, seed=2),
        timed("fast", 50.0, seed=3),
        timed("as_fast", 50.005, seed=4),
        timed("slow", 75.0, seed=5),
    )
    derive.compare(racers)
    rows = {name: one.row for name, one in racers.items()}
    assert rows["fast"].speedup == pytest.approx(1.2, rel=2e-3)
    assert rows["fast"].speedup_lo < rows["fast"].speedup < rows["fast"].speedup_hi
    assert rows["slow"].speedup == pytest.approx(0.8, rel=2e-3)
    assert rows["cublas"].speedup == 1.0
    assert {n for n, r in rows.items() if r.best} == {"fast", "as_fast"}


def test_the_twin_is_never_best():
    racers = field(timed("cublas", 60.0, baseline=True, seed=1), timed("cublas.aa", 59.0, seed=2))
    derive.compare(racers)
    assert racers["cublas"].row.best and not racers["cublas.aa"].row.best


def test_without_a_baseline_the_others_keep_their_times():
    racers = field(timed("fast", 50.0), timed("slow", 75.0))
    derive.compare(racers)
    assert racers["fast"].row.best and not racers["slow"].row.best
    assert racers["fast"].row.speedup is None


def test_clocks_are_never_mixed():
    racers = field(
        timed("cublas", 60.0, baseline=True),
        timed("cublas.aa", 60.0, seed=1),
        timed("odd", 10.0, clock="flush-uncaptured"),
    )
    derive.compare(racers)
    assert racers["odd"].row.speedup is None and racers["odd"].row.best is None
    assert racers["cublas"].row.best


def test_samples_know_their_round():
    of = Times()
    for index in range(21):
        of.order.append(index % 3)
        of.cold.append([1.0])
        if is_full(index):
            of.warm.append([2.0 + index])
    made = derive.samples({"a": of})
    assert [s.round for s in made if s.clock == "cold"] == list(range(21))
    for sample in made:
        if sample.clock == "warm":
            assert is_full(sample.round) and sample.us == 2.0 + sample.round
            assert sample.order == sample.round % 3
    assert sum(s.clock == "warm" for s in made) == len(of.warm)


def test_ctas_per_sm():
    assert ctas_per_sm(H200, 384, 168, 200 * 1024) == 1  # shared memory
    assert ctas_per_sm(H200, 128, 32, 0) == 16  # threads
    assert ctas_per_sm(H200, 256, 128, 1024) == 2  # registers


def test_waves():
    resources = Resources(regs=168, smem_bytes=200 * 1024, threads=384)
    launch = Launch(None, Tile(128, 256, 64), "declared", resources)
    assert derive.waves(H200, PROBLEM, launch) == pytest.approx(64 * 12 / 132)
    geglu = Problem("geglu", 8192, 3072, activation="tanh")
    flat = Launch(None, Tile(block_n=1024), None, Resources(regs=32, threads=128))
    assert derive.waves(H200, geglu, flat) == pytest.approx(8192 * 3 / (132 * 16))
    assert derive.waves(None, PROBLEM, launch) is None
    assert derive.waves(H200, PROBLEM, Launch(None)) is None


def event(name, us=10.0, kind="kernel"):
    shape = {"grid": (132, 1, 1), "block": (384, 1, 1), "regs": 168, "smem_bytes": 213000}
    return GpuEvent(kind, name, 0.0, us, 0, 7, **(shape if kind == "kernel" else {}))


def test_what_ran_fills_the_columns():
    r = row()
    derive.fill_ran(
        r, [event("Memset (Device)", 1.0, "memset"), event(NVJET), event("tiny", 2.0)], H200
    )
    assert (r.kernel, r.kernels, r.memops) == (NVJET, 2, 1)
    assert (r.tile_from, r.block_m, r.block_n, r.block_k, r.stages) == (
        "kernel-name",
        128,
        256,
        64,
        4,
    )
    assert (r.cluster, r.schedule, r.regs, r.smem_bytes) == ("2x1", "cooperative", 168, 213000)
    assert r.waves == pytest.approx(64 * 12 / 132)


def test_a_tile_that_the_name_contradicts_is_an_error():
    r = row("cutlass")
    r.set_tile(Tile(128, 128, 64), "declared")
    r.best = True
    derive.fill_ran(r, [event(NVJET)], H200)
    assert r.status == "error" and "block_n 256, not 128" in r.reason
    assert not r.best


def test_a_tile_that_the_name_confirms_stays_as_declared():
    r = row("cutlass")
    r.set_tile(Tile(128, 256, 64, warps=12), "declared")
    derive.fill_ran(r, [event(NVJET)], H200)
    assert (r.status, r.tile_from, r.warps) == ("ok", "declared", 12)


def test_nothing_launched_is_said():
    r = row()
    derive.fill_ran(r, [event("Memset (Device)", 1.0, "memset")], H200)
    assert (r.kernels, r.memops, r.kernel) == (0, 1, None)


def test_several_kernels_are_listed_and_one_is_not():
    memset = event("Memset (Device)", 1.0, "memset")
    assert derive.kernels("cublas", [memset, event(NVJET)]) == []
    first, second = derive.kernels("mlp", [event(NVJET), memset, event("tiny", 2.0)])
    assert (first.position, first.name, first.us) == (0, NVJET, 10.0)
    assert Tile.parse(first.tile).block_n == 256
    assert (second.position, second.name, second.tile) == (1, "tiny", None)
