"""Medians, their intervals, paired ratios and ties, all by bootstrap over rounds.

Samples of one contender are an array [rounds, samples per round]. Rounds, not samples, are
resampled: samples of one round share a clock and a temperature, so they are not independent.
The bootstrap is the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap,
1993, chapter 13); over 5 rounds it covers about 85 %, over 15 about 95 %, hence MIN_ROUNDS.
"""

from collections.abc import Mapping

import numpy as np

LEVEL = 0.95
MIN_ROUNDS = 15
_DRAWS = 1000


def median_interval(samples: np.ndarray, draws: int = _DRAWS) -> tuple[float, float, float]:
    """(median, low, high): the median of all samples and its 95 % interval, in their unit."""
    samples = np.asarray(samples, dtype=float)
    picks = _picks(len(samples), draws)
    medians = np.median(samples[picks].reshape(draws, -1), axis=1)
    return (float(np.median(samples)), *_bounds(medians))


def paired_ratio(over: np.ndarray, under: np.ndarray) -> tuple[float, float, float]:
    """(ratio, low, high) of `over` to `under`: the median over rounds of the rounds' own ratios.

    Both arrays have the same rounds; what drifts between rounds cancels.
    """
    ratios = _round_ratios(over, under)
    return (float(np.median(ratios)), *_bounds(_resampled(ratios)))


def floor(a: np.ndarray, b: np.ndarray) -> float:
    """The upper 95 % bound of |A/A - 1|: differences below it are not differences."""
    return float(np.quantile(np.abs(_resampled(_round_ratios(a, b)) - 1), LEVEL))


def ties(samples: Mapping[str, np.ndarray], floor: float) -> set[str]:
    """All that can't be told from the fastest: paired ratio to it has a low bound <= 1 + floor."""
    if not samples:
        return set()
    fastest = min(samples, key=lambda name: np.median(samples[name]))
    return {
        name
        for name in samples
        if name == fastest or paired_ratio(samples[name], samples[fastest])[1] <= 1 + floor
    }


def _round_ratios(over, under) -> np.ndarray:
    return np.median(over, axis=1) / np.median(under, axis=1)


def _picks(rounds: int, draws: int) -> np.ndarray:
    return np.random.default_rng(0).integers(rounds, size=(draws, rounds))


def _resampled(per_round: np.ndarray) -> np.ndarray:
    return np.median(per_round[_picks(len(per_round), _DRAWS)], axis=1)


def _bounds(resampled: np.ndarray) -> tuple[float, float]:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return float(low), float(high)
