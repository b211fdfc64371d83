"""The GPU's clocks: CUDA graphs and events; timing.py argues why they are as they are."""

import contextlib
import math
import time
from collections.abc import Callable

import numpy as np

from lab import device, timing

FLUSH_GRAPHS = 32  # that the sets are spread over
LEAD_US = 200.0  # untimed launches at the start of a visit, longer than the replay's enqueueing
EAGER_PER_VISIT = 2
UNCAPTURED_PER_VISIT = 4


def estimate_us(calls: list[Callable]) -> float:
    """About how long one call takes under the cold clock; infinite if it can't be captured."""
    try:
        graph, _ = _captured(calls, len(calls))
    except RuntimeError:
        return float("inf")
    return min(_replay_us(graph, graph, len(calls)) for _ in range(3))


def gpu_racer(
    name: str, calls: list[Callable], clock: str, launches: int, us: float, flush: Callable
) -> tuple[timing.Racer, str | None]:
    """A racer over `calls`, one per input set, and why it couldn't be captured, if it couldn't.

    `us` is about how long one call takes; the other arguments are the same for all contenders.
    """

    def eager():
        return [_host_us(calls[0]) for _ in range(1 + EAGER_PER_VISIT)][1:]

    def warm():
        return [_replay_us(warm_graph, lead, launches)]

    def cold():
        return [_replay_us(graph, lead, launches)]

    try:
        # A graph's own memory pool outlives its outputs: nothing else can be given that memory.
        warm_graph, _ = _captured(calls[:1], launches)
        # The lead-in runs over the last sets: the timed replay starts with the first.
        lead, _ = _captured(calls[::-1], max(1, math.ceil(LEAD_US / us)))
        if clock == "flush":
            return _flush_racer(name, calls, flush, warm, eager), None
        graph, outputs = _captured(calls, launches)
        return timing.Racer(name, clock, graph.replay, outputs, cold, warm, eager), None
    except RuntimeError as error:
        reason = f"can't be captured in a CUDA graph: {error}"
        return _uncaptured(name, calls, flush, eager), " ".join(reason.split())


def _flush_racer(name, calls, flush, warm, eager) -> timing.Racer:
    graphs, outputs, events = [], [], []
    size = math.ceil(len(calls) / FLUSH_GRAPHS)

    def grow():
        if part := calls[len(outputs) : len(outputs) + size]:
            graph, outs, pairs = _flushed(part, flush)
            graphs.append(graph)
            outputs.extend(outs)
            events.extend(pairs)

    def replay():
        for graph in graphs:
            graph.replay()

    def cold():
        replay()
        _synchronize()
        return [float(np.mean([start.elapsed_time(stop) for start, stop in events])) * 1e3]

    return timing.Racer(name, "flush", replay, outputs, cold, warm, eager, grow)


def _uncaptured(name, calls, flush, eager) -> timing.Racer:
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

    return timing.Racer(name, "flush-uncaptured", replay, outputs, cold, None, eager)


def empty_interval_us(flush: Callable) -> float:
    """What the flush clock reads around nothing: the median of its interval, in µs."""
    graph, _, events = _flushed([lambda: None] * timing.MAX_SETS, flush)
    graph.replay()
    _synchronize()
    return float(np.median([start.elapsed_time(stop) * 1e3 for start, stop in events]))


def flusher(l2_bytes: int) -> Callable[[], None]:
    """A call that overwrites 2 × L2 of memory on the current stream."""
    import torch

    return torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda").zero_


def warm_up(racers: list[timing.Racer], monitor: device.Monitor) -> bool:
    """Keeps the GPU busy until its SM clock is steady: windows of 100 ms within 1 %, 0.5 to 3 s.

    Returns whether the power cap was met.
    """
    start, before, capped = time.perf_counter(), None, False
    while (now := time.perf_counter()) < start + 3.0:
        clocks = []
        while time.perf_counter() < now + 0.1:
            for racer in racers:
                racer.replay()
                sample = monitor.sample()
                clocks.append(sample.sm_mhz or 0)
                capped |= "sw_power_cap" in sample.throttled
                _synchronize()
        mean = sum(clocks) / len(clocks)
        if before is not None and abs(mean - before) <= 0.01 * before and now - start >= 0.4:
            break
        before = mean
    return capped


def _captured(calls: list[Callable], launches: int):
    """(graph, outputs): `launches` launches rotating over `calls`; all outputs kept alive."""
    outputs = [call() for call in calls]  # lazy set-up happens outside the capture
    graph = _new_graph()
    with _capturing(graph):
        for index in range(launches):
            outputs[index % len(calls)] = calls[index % len(calls)]()
    return graph, outputs


def _flushed(calls: list[Callable], flush: Callable):
    """(graph, outputs, event pairs): every call alone between two events, after a flush."""
    import torch

    outputs = [call() for call in calls]
    events = [
        tuple(torch.cuda.Event(enable_timing=True, external=True) for _ in range(2)) for _ in calls
    ]
    graph = _new_graph()
    with _capturing(graph):
        for index, (call, (start, stop)) in enumerate(zip(calls, events, strict=True)):
            flush()
            start.record()
            outputs[index] = call()
            stop.record()
    return graph, outputs, events


def _new_graph():
    import torch

    return torch.cuda.CUDAGraph()


@contextlib.contextmanager
def _capturing(graph):
    """torch.cuda.graph without its emptying of the allocator's cache, which costs milliseconds."""
    import torch

    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        try:
            yield
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the capture is invalid, by that error
                graph.capture_end()
            raise
        graph.capture_end()


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
