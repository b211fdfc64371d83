"""The statistics on samples whose truth is known."""

import numpy as np
import pytest

from lab import stats


def drifting(rng, rounds, per_round, median=100.0):
    """Samples with a shared drift per round and noise of their own; skewed, as times are."""
    drift = 1 + 0.01 * rng.standard_normal((rounds, 1))
    noise = 0.002 * rng.gamma(1.0, size=(rounds, per_round))
    return median * drift * (1 + noise - 0.002 * np.log(2)), drift


@pytest.mark.parametrize("rounds", [stats.MIN_ROUNDS, 30])
def test_the_interval_of_the_median_covers_95_percent(rounds):
    rng = np.random.default_rng(1)
    trials, hits = 400, 0
    for _ in range(trials):
        samples, _ = drifting(rng, rounds, 2)
        _, low, high = stats.median_interval(samples, draws=400)
        hits += low <= 100.0 <= high
    # 400 trials of a 95 % interval: 92 to 98 % is within three standard errors.
    assert 0.92 <= hits / trials <= 0.985


def test_too_few_rounds_would_not():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        samples, _ = drifting(rng, 5, 2)
        _, low, high = stats.median_interval(samples, draws=400)
        hits += low <= 100.0 <= high
    assert hits / 400 < 0.93


def test_pairing_removes_drift():
    rng = np.random.default_rng(2)
    a, drift = drifting(rng, 30, 1)
    b = 50.0 * drift * (1 + 0.0005 * rng.standard_normal((30, 1)))
    ratio, low, high = stats.paired_ratio(a, b)
    assert low <= 2.0 <= high or abs(ratio - 2.0) < 0.003
    assert high - low < 0.004  # the unpaired medians each move by about a percent


def test_the_floor_bounds_what_a_twin_shows():
    rng = np.random.default_rng(3)
    drift = 1 + 0.01 * rng.standard_normal((40, 1))
    twin, base = (drift * (1 + 0.003 * rng.standard_normal((40, 1))) for _ in range(2))
    floor = stats.floor(twin, base)
    assert 0.0002 < floor < 0.004
    assert stats.floor(twin * 1.05, base) > 0.045  # twins that differ say so


def test_ties_and_who_is_not_one():
    rng = np.random.default_rng(4)
    drift = 1 + 0.01 * rng.standard_normal((30, 1))

    def contender(us):
        return us * drift * (1 + 0.001 * rng.standard_normal((30, 2)))

    samples = {"fast": contender(100.0), "same": contender(100.05), "slow": contender(103.0)}
    assert stats.ties(samples, floor=0.002) == {"fast", "same"}
    assert stats.ties(samples, floor=0.05) == {"fast", "same", "slow"}
    assert stats.ties({}, floor=0.0) == set()


def test_intervals_are_reproducible():
    samples = np.random.default_rng(5).gamma(2.0, size=(20, 2))
    assert stats.median_interval(samples) == stats.median_interval(samples)
