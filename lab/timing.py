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

Tiny problems would need thousands of sets. N stops at 256; where that is under 3 × L2, the graph
is {flush 2 × L2, event, call, event} for each of the 256 sets, with external timing events, so
that neither the flush nor Python is inside an interval; a sample is the mean of the intervals.
They must be many: an event ticks in 32 ns, and on an H200 the same kernel's interval was seen to
differ by 5 % between sets, by the addresses they lie at. The events themselves are in the
interval: run.json records what an empty one reads. A call that can't be captured is enqueued
behind a device-side sleep longer than its enqueue time (`flush-uncaptured`).

On a machine without a GPU the `cpu` clock is the host's around calls that rotate over two sets.
Its times are never set beside a GPU's.

Contenders are timed in rounds. A round visits each once, in a freshly shuffled order, so that
drift of clock and temperature hits all alike and ratios can be taken within rounds. A visit
starts with a few untimed launches and enqueues the timed replay behind them, so that the GPU is
never idle when an event is recorded. The device is synchronised at each switch, so a fault is
blamed on the contender that caused it. Under a power cap the clock dithers by some percent over
tens of milliseconds, which replays of one visit share: one timed replay per visit and many
rounds tell more than the reverse. Warm and eager samples are taken in the first rounds and in
every fifth later.

Rounds go on until there are MIN_SAMPLES in MIN_ROUNDS and every contender's 95 % interval of the
median lies within ±0.5 %, or the time is up; the interval then says so. Every sample is kept.
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lab import device, stats

MIN_SAMPLES = 30
PRECISION = 0.005  # half-width of the median's interval, relative
GPU_SECONDS = 20.0  # give up after
CPU_SECONDS = 2.0
MAX_SETS = 256
REPLAY_US = 1000.0
LEAD_US = 200.0  # untimed launches at the start of a visit, longer than the replay's enqueueing
EAGER_PER_VISIT = 2
CPU_PER_VISIT = 2
UNCAPTURED_PER_VISIT = 4


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
    """

    name: str
    clock: str
    replay: Callable[[], None]
    outputs: list
    cold: Callable[[], list[float]]
    warm: Callable[[], list[float]] | None = None
    eager: Callable[[], list[float]] | None = None


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
    before_visit: Callable[[str], None],
    after_visit: Callable[[str], None],
    each_round: Callable[[], None],
) -> dict[str, Times]:
    """Times all racers in interleaved rounds; see the module's docstring for when it stops.

    `before_visit` and `after_visit` are told the racer's name; what they raise ends the race.
    """
    rng = random.Random(seed)
    times = {racer.name: Times() for racer in racers}
    deadline = time.perf_counter() + seconds
    rounds = 0
    while True:
        each_round()
        for place, racer in enumerate(rng.sample(racers, len(racers))):
            before_visit(racer.name)
            of = times[racer.name]
            of.order.append(place)
            of.cold.append(racer.cold())
            if is_full(rounds):
                if racer.warm:
                    of.warm.append(racer.warm())
                if racer.eager:
                    of.eager.append(racer.eager())
            after_visit(racer.name)
        rounds += 1
        if time.perf_counter() > deadline:
            return times
        if rounds >= stats.MIN_ROUNDS and rounds % 5 == 0 and all(map(_settled, times.values())):
            return times


def is_full(index: int) -> bool:
    """Whether the round of this index samples the warm and eager clocks too."""
    return index < stats.MIN_ROUNDS or index % 5 == 0


def _settled(times: Times) -> bool:
    cold = np.array(times.cold)
    if cold.size < MIN_SAMPLES:
        return False
    median, low, high = stats.median_interval(cold, draws=200)
    return max(high - median, median - low) <= PRECISION * median


# On the GPU


def estimate_us(calls: list[Callable]) -> float:
    """About how long one call takes under the cold clock; infinite if it can't be captured."""
    try:
        graph, _ = _captured(calls, len(calls))
    except RuntimeError:
        return float("inf")
    return min(_replay_us(graph, graph, len(calls)) for _ in range(3))


def launches(sets: int, fastest_us: float) -> int:
    """Launches per graph: the multiple of the sets for which a replay lasts REPLAY_US."""
    return sets * max(1, math.ceil(REPLAY_US / (sets * fastest_us)))


def gpu_racer(
    name: str, calls: list[Callable], clock: str, launches: int, us: float, flush: Callable
) -> tuple[Racer, str | None]:
    """A racer over `calls`, one per input set, and why it couldn't be captured, if it couldn't.

    `us` is about how long one call takes; the other arguments are the same for all contenders.
    """

    def eager():
        return [_host_us(calls[0]) for _ in range(1 + EAGER_PER_VISIT)][1:]

    def warm():
        return [_replay_us(warm_graph, lead, launches)]

    def cold():
        return [_replay_us(graph, lead, launches)]

    def cold_flushed():
        graph.replay()
        _synchronize()
        return [float(np.mean([a.elapsed_time(b) for a, b in events])) * 1e3]

    try:
        # A graph's own memory pool outlives its outputs: nothing else can be given that memory.
        warm_graph, _ = _captured(calls[:1], launches)
        # The lead-in runs over the last sets: the timed replay starts with the first.
        lead, _ = _captured(calls[::-1], max(1, math.ceil(LEAD_US / us)))
        if clock == "rotate":
            graph, outputs = _captured(calls, launches)
            return Racer(name, clock, graph.replay, outputs, cold, warm, eager), None
        graph, outputs, events = _flushed(calls, flush)
        return Racer(name, clock, graph.replay, outputs, cold_flushed, warm, eager), None
    except RuntimeError as error:
        reason = f"can't be captured in a CUDA graph: {error}"
        return _uncaptured(name, calls, flush, eager), " ".join(reason.split())


def _uncaptured(name, calls, flush, eager) -> Racer:
    import torch

    outputs = [call() for call in calls]
    _synchronize()
    enqueue_us = max(_enqueue_us(call) for call in calls)
    cycles = int(3 * enqueue_us * (device.Monitor().sm_mhz() or 2000))

    def replay():
        outputs[:] = [call() for call in calls]

    def cold():
        pairs = []
        for call in calls[:UNCAPTURED_PER_VISIT]:
            flush()
            torch.cuda._sleep(cycles)
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            stop.record()
            pairs.append((start, stop))
            _synchronize()
        return [start.elapsed_time(stop) * 1e3 for start, stop in pairs]

    return Racer(name, "flush-uncaptured", replay, outputs, cold, None, eager)


def empty_interval_us(flush: Callable) -> float:
    """What the flush clock reads around nothing: the median of its interval, in µs."""
    graph, _, events = _flushed([lambda: None] * MAX_SETS, flush)
    graph.replay()
    _synchronize()
    return float(np.median([start.elapsed_time(stop) * 1e3 for start, stop in events]))


def flusher(l2_bytes: int) -> Callable[[], None]:
    """A call that overwrites 2 × L2 of memory on the current stream."""
    import torch

    return torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda").zero_


def warm_up(racers: list[Racer], monitor: device.Monitor) -> None:
    """Keeps the GPU busy until its SM clock is steady: windows of 100 ms within 1 %, 0.5 to 3 s."""
    start, before = time.perf_counter(), None
    while (now := time.perf_counter()) < start + 3.0:
        clocks = []
        while time.perf_counter() < now + 0.1:
            for racer in racers:
                racer.replay()
                clocks.append(monitor.sm_mhz() or 0)
                _synchronize()
        mean = sum(clocks) / len(clocks)
        if before is not None and abs(mean - before) <= 0.01 * before and now - start >= 0.4:
            return
        before = mean


def _captured(calls: list[Callable], launches: int):
    """(graph, outputs): `launches` launches rotating over `calls`; all outputs kept alive."""
    import torch

    outputs = [call() for call in calls]  # lazy set-up happens outside the capture
    _synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(launches):
            outputs[index % len(calls)] = calls[index % len(calls)]()
    return graph, outputs


def _flushed(calls: list[Callable], flush: Callable):
    """(graph, outputs, event pairs): every call alone between two events, after a flush."""
    import torch

    outputs = [call() for call in calls]
    _synchronize()
    events = [
        tuple(torch.cuda.Event(enable_timing=True, external=True) for _ in range(2)) for _ in calls
    ]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index, (call, (start, stop)) in enumerate(zip(calls, events, strict=True)):
            flush()
            start.record()
            outputs[index] = call()
            stop.record()
    return graph, outputs, events


def _replay_us(graph, lead, launches: int) -> float:
    """µs per launch of one replay, enqueued behind an untimed one of `lead`."""
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    lead.replay()
    start.record()
    graph.replay()
    stop.record()
    _synchronize()
    return start.elapsed_time(stop) * 1e3 / launches


def _host_us(call: Callable) -> float:
    start = time.perf_counter_ns()
    call()
    _synchronize()
    return (time.perf_counter_ns() - start) / 1e3


def _enqueue_us(call: Callable) -> float:
    start = time.perf_counter_ns()
    call()
    enqueued = (time.perf_counter_ns() - start) / 1e3
    _synchronize()
    return enqueued


def _synchronize() -> None:
    import torch

    torch.cuda.synchronize()


# On the CPU


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
