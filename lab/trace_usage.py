"""What the GPU did with the time, and who set the pace: the host's launching or the kernels.

The span of a device runs from the start of the first step (a `ProfilerStep#N` annotation with
GPU work below it) or, without one, of the first operator that leads to GPU work, to the end of
the last GPU event. Busy is the union of the GPU events' intervals in it; the rest is idle.

The verdict compares the two paces over the span:

    host_us  from the span's start to the return of the last launch call, less the time in which
             the host was blocked on the GPU (synchronising calls; copies that return only when
             they are done)
    busy_us  the GPU's

    launch-bound if host_us > busy_us, else kernel-bound

Were the step repeated without end, the slower of the two would set its period: a launch-bound
step gets no faster by faster kernels, a kernel-bound one no faster by CUDA graphs. The queue is
the witness: an event *waited for its launch* if all earlier work of the device had ended before
its launch call returned, and was *queued* otherwise. In a launch-bound step nearly all of them
wait for their launch; in a kernel-bound one those after the first are queued.

A profiler slows the host, by about 1 µs a launch and more with stacks or shapes recorded, so a
step close to the border may be kernel-bound without one.
"""

import re
import statistics
from collections import defaultdict
from dataclasses import dataclass

from lab.trace import GpuEvent, Op, Trace

_CLOCK_US = 2e-3  # a shorter gap is the rounding of a float that counts from the machine's start


@dataclass(frozen=True)
class Gap:
    """Idle time before `event`, µs; `queued` if its launch had returned when the gap began."""

    us: float
    event: GpuEvent
    queued: bool


@dataclass(frozen=True)
class Stream:
    """One stream's own account: µs its events took, and µs idle between the first and the last."""

    stream: int | str
    events: int
    busy_us: float
    idle_us: float
    longest_gap_us: float


@dataclass(frozen=True)
class Usage:
    """One device's account.

    `allocating_us` is the part of `host_us` spent in the runtime's malloc and free, which a
    steady state doesn't have. `latency_us` is the median from launch call to start of the events
    that waited for their launch; `launch_us` the median duration of the launch calls. Both are
    None, and `host_us` is 0, where the trace has no launch calls.
    """

    device: int | str
    span_us: float
    busy_us: float
    host_us: float
    blocked_us: float
    allocating_us: float
    waited: int
    queued: int
    latency_us: float | None
    launch_us: float | None
    gaps: tuple[Gap, ...]
    streams: tuple[Stream, ...]

    @property
    def busy_share(self) -> float:
        return self.busy_us / self.span_us if self.span_us else 0.0

    @property
    def verdict(self) -> str | None:
        """launch-bound, kernel-bound, or None where no launch call is known."""
        if self.launch_us is None:
            return None
        return "launch-bound" if self.host_us > self.busy_us else "kernel-bound"


def usage(trace: Trace, device: int | str) -> Usage:
    """The account of one of `trace.devices`."""
    events = [event for event in trace.gpu if event.device == device]
    launches = _launches(trace, device)
    first = min(_step_starts(trace, device), default=events[0].start_us)
    start = min(first, events[0].start_us)
    end = max(event.end_us for event in events)
    gaps, waited, queued, latencies = [], 0, 0, []
    done, returned = start, set()  # when the work so far ended; calls whose first event was seen
    for event in events:
        call = launches.get(event)
        # A graph's launch call releases many kernels: those after the first are queued.
        behind = call is not None and (call in returned or call.end_us <= done)
        if call is not None:
            returned.add(call)
            waited, queued = waited + (not behind), queued + behind
            if not behind:
                latencies.append(event.start_us - call.start_us)
        if event.start_us - done > _CLOCK_US and event is not events[0]:
            gaps.append(Gap(event.start_us - done, event, behind))
        done = max(done, event.end_us)
    calls = set(launches.values())
    host = blocked = allocating = 0.0
    if calls:
        stop = max(call.end_us for call in calls)
        pids = {call.pid for call in calls}
        others = [
            node
            for node in trace.nodes()
            if node.kind == "call"
            and node.pid in pids
            and start <= node.start_us
            and node.end_us <= stop
        ]
        blocked = union(filter(is_blocking, others))
        allocating = union(filter(is_allocating, others))
        host = max(0.0, stop - start - blocked)
    return Usage(
        device,
        end - start,
        union(events),
        host,
        blocked,
        allocating,
        waited,
        queued,
        statistics.median(latencies) if latencies else None,
        statistics.median(call.us for call in calls) if calls else None,
        tuple(gaps),
        tuple(_streams(events)),
    )


def union(intervals) -> float:
    """µs covered by events or operators, each moment counted once."""
    total, done = 0.0, float("-inf")
    for interval in sorted(intervals, key=lambda i: i.start_us):
        total += max(0.0, interval.end_us - max(done, interval.start_us))
        done = max(done, interval.end_us)
    return total


def is_step(name: str) -> bool:
    """Whether an annotation is one of torch.profiler's own, around a step."""
    return name.startswith("ProfilerStep")


def is_blocking(op: Op) -> bool:
    """Whether a call made the host wait: by its name, or because its own copy ended within it."""
    if op.kind != "call":
        return False
    copies = any(event.kind == "memcpy" and event.end_us <= op.end_us for event in op.gpu)
    return copies or "Synchronize" in op.name


def is_allocating(op: Op) -> bool:
    return op.kind == "call" and re.search("Malloc|Free", op.name) is not None


def _launches(trace: Trace, device) -> dict[GpuEvent, Op]:
    return {
        event: node
        for node in trace.nodes()
        if node.kind == "call"
        for event in node.gpu
        if event.device == device
    }


def _step_starts(trace: Trace, device) -> list[float]:
    """Starts of the steps with work on `device`, or else of its topmost operators and calls."""
    steps, others = [], []
    waiting = list(trace.roots)
    while waiting:
        node = waiting.pop()
        if node.kind == "annotation" and not is_step(node.name):
            waiting.extend(node.children)
            others += [node.start_us] if any(e.device == device for e in node.gpu) else []
        elif any(event.device == device for event in node.launched()):
            (steps if is_step(node.name) else others).append(node.start_us)
    return steps or others


def _streams(events: list[GpuEvent]) -> list[Stream]:
    by_stream = defaultdict(list)
    for event in events:
        by_stream[event.stream].append(event)
    found = []
    for stream in sorted(by_stream, key=str):
        mine = by_stream[stream]
        done, gaps = mine[0].start_us, [0.0]
        for event in mine:
            gaps.append(max(0.0, event.start_us - done))
            done = max(done, event.end_us)
        found.append(Stream(stream, len(mine), union(mine), sum(gaps), max(gaps)))
    return found
