"""The clocks: planning and the race on made-up racers; the GPU's clocks on a GPU."""

import numpy as np
import pytest
import torch

from lab import device, gpu_clock, stats, timing
from lab.timing import Plan, Racer

L2 = 60 * 2**20


@pytest.mark.parametrize(
    ("bytes_per_set", "l2", "plan"),
    [
        (2**30, L2, Plan("rotate", 2)),  # large: two sets at least
        (90 * 2**20, L2, Plan("rotate", 2)),
        (90 * 2**20 - 1, L2, Plan("rotate", 3)),  # 3 x L2 is a lower bound
        (3 * L2 // 256, L2, Plan("rotate", 256)),
        (3 * L2 // 256 - 1, L2, Plan("flush", 256)),
        (100, None, Plan("cpu", 2)),
    ],
)
def test_the_plan(bytes_per_set, l2, plan):
    assert timing.plan(bytes_per_set, l2) == plan


@pytest.mark.parametrize(("sets", "us"), [(2, 1600.0), (3, 55.0), (256, 2.0), (256, 900.0)])
def test_launches_are_a_multiple_of_the_sets_and_fill_a_millisecond(sets, us):
    count = timing.launches(sets, us)
    assert count % sets == 0
    assert count * us >= timing.REPLAY_US
    assert count == sets or (count - sets) * us < timing.REPLAY_US


def test_nothing_that_can_be_captured_still_gives_a_graph_size():
    assert timing.launches(4, float("inf")) == 4


def racer(name, log, us=100.0, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)

    def cold():
        log.append(name)
        return [us * (1 + noise * rng.standard_normal())]

    return Racer(name, "rotate", lambda: None, [], cold, lambda: [us / 2], lambda: [us * 2] * 2)


def run(racers, seconds=20.0, rest=False, **hooks):
    nothing = {name: lambda *_: None for name in ("before_visit", "after_visit", "each_round")}
    return timing.race(racers, seed=0, seconds=seconds, rest=rest, **(nothing | hooks))


def test_every_round_visits_each_once_in_another_order():
    log = []
    times = run([racer(name, log) for name in "abcd"])
    rounds = [tuple(log[i : i + 4]) for i in range(0, len(log), 4)]
    assert len(rounds) == timing.MIN_SAMPLES  # noiseless: as soon as there are enough
    assert all(sorted(visited) == list("abcd") for visited in rounds)
    assert len(set(rounds)) > 10
    for name in "abcd":
        assert times[name].order == [visited.index(name) for visited in rounds]
        assert len(times[name].cold) == len(rounds)
    again = []
    run([racer(name, again) for name in "abcd"])
    assert again == log  # the order is seeded


def test_warm_and_eager_are_sampled_in_full_rounds_only():
    times = run([racer("a", [])])["a"]
    full = [index for index in range(len(times.order)) if timing.is_full(index)]
    assert len(times.warm) == len(times.eager) == len(full)
    assert set(range(stats.MIN_ROUNDS)) <= set(full)


def test_noise_asks_for_more_rounds_until_the_interval_is_narrow():
    times = run([racer("quiet", []), racer("noisy", [], noise=0.02)])
    cold = np.array(times["noisy"].cold)
    assert len(cold) > 2 * timing.MIN_SAMPLES
    median, low, high = stats.median_interval(cold)
    assert max(high - median, median - low) <= 1.3 * timing.PRECISION * median


def test_the_race_gives_up_in_time_and_keeps_what_it_has():
    times = run([racer("wild", [], noise=0.5)], seconds=0.2)
    assert len(times["wild"].cold) >= 1


def test_a_rest_is_as_long_as_the_visit():
    def cold():
        timing.time.sleep(0.002)
        return [1.0]

    def lasting(rest):
        start = timing.time.perf_counter()
        run([Racer("a", "rotate", lambda: None, [], cold)], rest=rest)
        return timing.time.perf_counter() - start

    assert lasting(rest=True) > 1.6 * lasting(rest=False)


def test_hooks_see_every_visit_and_what_they_raise_ends_the_race():
    seen = []

    def after_visit(name):
        seen.append(name)
        if len(seen) == 7:
            raise RuntimeError("compiled again")

    with pytest.raises(RuntimeError, match="compiled again"):
        run([racer("a", []), racer("b", [])], after_visit=after_visit)
    assert len(seen) == 7


def test_the_cpu_clock_measures_what_it_is_given():
    def call():
        # 2 ms of sleep; a busy machine makes it longer, never shorter.
        torch.zeros(1)
        timing.time.sleep(0.002)
        return torch.zeros(1)

    one = timing.cpu_racer("sleeper", [call, call])
    samples = one.cold()
    assert len(samples) == timing.CPU_PER_VISIT
    assert all(2000 <= us < 50_000 for us in samples)


# On a GPU


def calls(sets, n=1 << 20):
    inputs = [torch.randn(n, device="cuda") for _ in range(sets)]
    return [lambda x=x: x * 2 for x in inputs]


def gpu_racer(name, sets, clock, made=None):
    made = made or calls(sets)
    us = gpu_clock.estimate_us(made)
    flush = gpu_clock.flusher(device.current().l2_bytes)
    count = timing.launches(sets, us)
    return gpu_clock.gpu_racer(name, made, clock, count, us, flush)


@pytest.mark.gpu
def test_cold_is_colder_than_warm_and_every_set_has_its_own_output():
    l2 = device.current().l2_bytes
    sets = 3 * l2 // (8 << 20) + 1
    one, reason = gpu_racer("x2", sets, "rotate")
    assert reason is None
    assert len({out.data_ptr() for out in one.outputs}) == sets
    for out in one.outputs:
        out.fill_(float("nan"))
    one.replay()
    torch.cuda.synchronize()
    assert not any(out.isnan().any() for out in one.outputs)
    cold, warm = (
        np.median([one.cold() for _ in range(9)]),
        np.median([one.warm() for _ in range(9)]),
    )
    assert 1.1 * warm < cold < 10 * warm
    assert min(one.eager()) > warm


@pytest.mark.gpu
def test_the_flush_clock_is_cold_too_and_its_empty_interval_small():
    l2 = device.current().l2_bytes
    empty = gpu_clock.empty_interval_us(gpu_clock.flusher(l2))
    assert 0.2 < empty < 4
    rotate, _ = gpu_racer("x2", 3 * l2 // (8 << 20) + 1, "rotate")
    flush, _ = gpu_racer("x2", 64, "flush")
    for _ in range(gpu_clock.FLUSH_GRAPHS):
        flush.grow()
    assert len({out.data_ptr() for out in flush.outputs}) == 64
    by_rotation = np.median([rotate.cold() for _ in range(9)])
    by_flush = np.median([flush.cold() for _ in range(9)])
    # The interval holds the events and an idle GPU's ramp; the flush itself would add 30 µs.
    assert by_rotation * 0.8 < by_flush < by_rotation + 6


@pytest.mark.gpu
def test_a_call_that_synchronises_is_timed_all_the_same():
    x = torch.randn(1 << 20, device="cuda")

    def call():
        y = x * 2
        torch.cuda.synchronize()
        return y

    one, reason = gpu_racer("synchronous", 2, "rotate", [call, call])
    assert one.clock == "flush-uncaptured" and "can't be captured" in reason
    assert all(0 < us < 1000 for us in one.cold())
    assert torch.cuda.is_available() and (x * 2).isfinite().all()  # the context survived
