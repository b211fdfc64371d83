"""The clocks: how a contender's time is taken, and why so.

**cold** (the headline) times kernels whose inputs are not in L2, as in a model where every layer
brings its own weights. A CUDA graph rotates over N input sets whose footprint, outputs counted,
is at least 3 × L2, so that a set has left the cache before it comes round again. Graph replay
keeps Python and the driver's launch cost out of the interval. The number of launches is a
multiple of N (fewer would be silently warm), the same for all contenders of the problem, and
makes even the fastest one's replay last a millisecond, against which an event's microsecond is
nothing. Every set's output stays referenced through capture; otherwise the allocator hands each
call the same hot buffer.

**warm** times the same number of launches over one set: inputs as hot as they get.

**eager** is the host's clock around single un-graphed synchronised calls: what a caller waits
for, with Python, dispatcher, guards and launch in it.

Tiny problems would need thousands of sets. N stops at 256; where that is under 3 × L2, graphs
are {flush 2 × L2, event, call, event} for each set, with external timing events, so that neither
the flush nor Python is inside an interval; a sample is the mean of the 256. They must be many: an
event ticks in 32 ns, and on an H200 the same kernel's intervals were seen to differ by 5 % between
sets, steadily, by the addresses that things lie at. For the same reason the sets are spread over 32
graphs, which are captured in turns with the other contenders'. The events themselves are inside:
run.json records what an empty interval reads. A call that can't be captured is enqueued behind a
device-side sleep longer than its enqueue time (`flush-uncaptured`).

On a machine without a GPU the `cpu` clock is the host's around calls that rotate over two sets.
Its times are never set beside a GPU's.

Contenders are timed in rounds. A round visits each once, in a freshly shuffled order, so that
drift of clock and temperature hits all alike and ratios can be taken within rounds. A visit
starts with a few untimed launches and enqueues the timed replay behind them, so that the GPU is
never idle when an event is recorded. The device is synchronised at each switch, so a fault is
blamed on the contender that caused it. Warm and eager samples are taken in the first rounds and
in every fifth later.

Where the warm-up runs into the power cap, as large matrix products do, each visit is followed by
a rest as long as itself. Without it the clock dithers by some percent over tens of milliseconds
and the median takes a minute to settle; with it, kernels run at the clock of short bursts, as
those of the measured peaks do. `throttled` still says when the cap was met while timing.

Rounds go on until there are MIN_SAMPLES in MIN_ROUNDS and every contender's 95 % interval of the
median lies within ±0.5 %, or the time is up; the interval then says so. Every sample is kept.
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lab import stats

MIN_SAMPLES = 30
PRECISION = 0.005  # half-width of the median's interval, relative
GPU_SECONDS = 20.0  # give up after
CPU_SECONDS = 1.0
MAX_SETS = 256
REPLAY_US = 1000.0
CPU_PER_VISIT = 2


@dataclass(frozen=True)
class Plan:
    """Which cold clock a problem gets, and over how many input sets."""

    clock: str  # rotate, flush or cpu
    sets: int


def plan(bytes_per_set: int, l2_bytes: int | None) -> Plan:
    """The clock and the number of sets for a problem of so many input and output bytes.

    `l2_bytes` is None on a machine without a GPU.
    """
    if l2_bytes is None:
        return Plan("cpu", 2)
    sets = max(2, -(-3 * l2_bytes // bytes_per_set))
    return Plan("rotate", sets) if sets <= MAX_SETS else Plan("flush", MAX_SETS)


@dataclass
class Racer:
    """A contender on the track: each clock is a function that returns samples in µs.

    `replay` runs the timed launches once, untimed; `outputs` are what it writes, one per set.
    `grow` captures the next of its graphs, where there are several; it is called before all else.
    """

    name: str
    clock: str
    replay: Callable[[], None]
    outputs: list
    cold: Callable[[], list[float]]
    warm: Callable[[], list[float]] | None = None
    eager: Callable[[], list[float]] | None = None
    grow: Callable[[], None] = lambda: None


@dataclass
class Times:
    """One contender's samples in µs: arrays [rounds, samples per round]."""

    cold: list[list[float]] = field(default_factory=list)
    warm: list[list[float]] = field(default_factory=list)
    eager: list[list[float]] = field(default_factory=list)
    order: list[int] = field(default_factory=list)  # its place in each round


def race(
    racers: list[Racer],
    seed: int,
    seconds: float,
    rest: bool,
    before_visit: Callable[[str], None],
    after_visit: Callable[[str], None],
    each_round: Callable[[], None],
) -> dict[str, Times]:
    """Times all racers in interleaved rounds; see the module's docstring for when it stops.

    `rest` makes each visit be followed by an idle time as long as itself. `before_visit` and
    `after_visit` are told the racer's name; what they raise ends the race.
    """
    rng = random.Random(seed)
    times = {racer.name: Times() for racer in racers}
    deadline = time.perf_counter() + seconds
    rounds = 0
    while True:
        each_round()
        for place, racer in enumerate(rng.sample(racers, len(racers))):
            before_visit(racer.name)
            start = time.perf_counter()
            of = times[racer.name]
            of.order.append(place)
            of.cold.append(racer.cold())
            if is_full(rounds):
                if racer.warm:
                    of.warm.append(racer.warm())
                if racer.eager:
                    of.eager.append(racer.eager())
            after_visit(racer.name)
            if rest:
                time.sleep(time.perf_counter() - start)
        rounds += 1
        if time.perf_counter() > deadline:
            return times
        if rounds >= stats.MIN_ROUNDS and rounds % 5 == 0 and all(map(_settled, times.values())):
            return times


def launches(sets: int, fastest_us: float) -> int:
    """Launches per graph: the multiple of the sets for which a replay lasts REPLAY_US."""
    return sets * max(1, math.ceil(REPLAY_US / (sets * fastest_us)))


def is_full(index: int) -> bool:
    """Whether the round of this index samples the warm and eager clocks too."""
    return index < stats.MIN_ROUNDS or index % 5 == 0


def _settled(times: Times) -> bool:
    cold = np.array(times.cold)
    if cold.size < MIN_SAMPLES:
        return False
    median, low, high = stats.median_interval(cold, draws=200)
    return max(high - median, median - low) <= PRECISION * median


def cpu_racer(name: str, calls: list[Callable]) -> Racer:
    """A racer on the host's clock; a sample is at least a millisecond of calls."""
    outputs = [call() for call in calls]

    def replay():
        outputs[:] = [call() for call in calls]

    def sample_us() -> float:
        start, count = time.perf_counter_ns(), 0
        while True:
            for call in calls:
                call()
            count += len(calls)
            elapsed_us = (time.perf_counter_ns() - start) / 1e3
            if elapsed_us >= REPLAY_US:
                return elapsed_us / count

    def cold():
        replay()
        return [sample_us() for _ in range(CPU_PER_VISIT)]

    return Racer(name, "cpu", replay, outputs, cold)
