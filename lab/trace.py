"""Reads the Chrome traces that torch.profiler writes: operators, launch calls, GPU work.

Needs neither torch nor a GPU, and reads traces of any machine, `.json` or `.json.gz`. Times are
µs from the first event of the trace.

How things are tied together:

- Operators, annotations and launch calls of one thread nest by time.
- A kernel, memset or memcpy belongs to the launch call of the same correlation id. Where the
  events carry none, the id of their `ac2g` flow stands in. Where the call is not in the trace,
  the event hangs under the operator of the same External id; where that fails too, it is listed
  without an owner.
- In a trace merged from several processes correlation ids repeat. Each device is then given to
  the process whose calls precede its work most often.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.trace_events import GPU, Found, Malformed, text_of, walk, why_nanoseconds

_SLACK_US = 1.0  # old profilers round to whole µs, so a kernel may seem to precede its call
_ROUNDING_US = 2e-3  # of a float that counts µs since the machine's start


class BadTrace(Exception):
    """A file that can't be read as a torch.profiler trace; one line that names it and says why."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuEvent:
    """One kernel, memset or memcpy as it ran. None where the trace doesn't say.

    `grid` and `block` are (x, y, z); `regs` is per thread, `smem_bytes` per CTA, `bytes` what a
    memset or memcpy moved.
    """

    kind: str  # kernel, memset or memcpy
    name: str
    start_us: float
    us: float
    device: int | str
    stream: int | str
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    regs: int | None = None
    smem_bytes: int | None = None
    bytes: int | None = None

    @property
    def end_us(self) -> float:
        return self.start_us + self.us


@dataclass(slots=True, eq=False)
class Op:
    """An operator, an annotation or a call to the GPU's runtime, with what it contains.

    `gpu` is the GPU work tied to this very node; `launched()` also counts what is below it.
    """

    kind: str  # op, annotation or call
    name: str
    start_us: float
    us: float
    pid: int | str
    tid: int | str
    children: list["Op"] = field(default_factory=list)
    gpu: list[GpuEvent] = field(default_factory=list)

    @property
    def end_us(self) -> float:
        return self.start_us + self.us

    def walk(self) -> Iterator["Op"]:
        """This node and all below it, in order of their start."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def launched(self) -> list[GpuEvent]:
        """GPU work of this node and all below it."""
        if not self.children:
            return self.gpu
        return [event for node in self.walk() for event in node.gpu]


@dataclass(slots=True, eq=False)
class Trace:
    """What a trace holds. `roots` are the topmost nodes by thread, `gpu` is in order of start.

    `meta` are the document's other top-level values, `notes` one line for each thing that was
    left out or had to be decided.
    """

    path: Path
    roots: list[Op]
    gpu: list[GpuEvent]
    orphans: list[GpuEvent]  # GPU work without an owner in the trace
    meta: dict
    notes: list[str]

    @property
    def devices(self) -> list[int | str]:
        return sorted({event.device for event in self.gpu}, key=str)

    @property
    def kernels(self) -> list[GpuEvent]:
        return [event for event in self.gpu if event.kind == "kernel"]

    @property
    def memops(self) -> list[GpuEvent]:
        return [event for event in self.gpu if event.kind != "kernel"]

    def nodes(self) -> Iterator[Op]:
        for root in self.roots:
            yield from root.walk()


def read(path: Path | str) -> Trace:
    """Reads one trace.

    Raises:
        BadTrace: the file can't be opened, is empty, truncated or damaged, is no Chrome trace, or
            holds neither operators nor GPU work.
    """
    path = Path(path)
    found = Found()
    try:
        meta = walk(text_of(path), found.add)
    except Malformed as error:
        raise BadTrace(f"{path}: {error}") from None
    except RecursionError:
        raise BadTrace(f"{path}: nested too deeply to be a trace") from None
    except MemoryError:
        raise BadTrace(f"{path}: too large for this machine's memory") from None
    found.close_pairs()
    if not found.spans:
        what = f"none of its {found.count} events is an operator, a launch call or GPU work"
        raise BadTrace(f"{path}: {what}; was it written by torch.profiler?")
    notes = []
    if found.unreadable:
        notes.append(f"{found.unreadable} malformed events are left out")
    if found.python_frames:
        notes.append(f"{found.python_frames} Python frames are left out")
    if why := why_nanoseconds(found.spans, meta):
        notes.append(f"times are read as nanoseconds: {why}")
    roots, gpu, orphans = _tie(found, 1e-3 if why else 1.0)
    if orphans:
        notes.append(f"{len(orphans)} GPU events have no launch call or operator in the trace")
    return Trace(path, roots, gpu, orphans, meta, notes)


def _tie(found: Found, scale: float) -> tuple[list[Op], list[GpuEvent], list[GpuEvent]]:
    """Builds each thread's tree and hangs the GPU work in it."""
    origin = min(span[1] for span in found.spans)
    threads, calls, by_external = defaultdict(list), defaultdict(list), {}
    work = []
    # Outer before inner: earlier start, later end, operators before calls, then file order.
    found.spans.sort(key=lambda s: (s[1], -s[2], s[0] == "call"))
    for kind, start, duration, name, pid, tid, args in found.spans:
        correlation, external = args[:2]
        if correlation is None:
            correlation = found.flows.get((pid, tid, start))
        begin, us = (start - origin) * scale, duration * scale
        if kind in GPU:
            device, stream = args[2], args[3]
            event = GpuEvent(
                kind,
                name,
                begin,
                us,
                pid if isinstance(pid, int) or device is None else device,
                tid if stream is None else stream,
                *args[4:9],
            )
            work.append((event, correlation, external))
            continue
        op = Op(kind, name, begin, us, pid, tid)
        threads[pid, tid].append(op)
        if kind == "call" and correlation is not None:
            calls[correlation].append(op)
        elif kind == "op" and external is not None:
            by_external[external] = op
    found.spans.clear()

    owner = _owners(work, calls)
    orphans = []
    for event, correlation, external in work:
        if correlation in calls:
            _launcher(event, calls[correlation], owner.get(event.device)).gpu.append(event)
        elif external != correlation and external in by_external:
            # Old profilers repeat the correlation as External id: that names no operator.
            by_external[external].gpu.append(event)
        else:
            orphans.append(event)
    roots = [root for key in sorted(threads, key=str) for root in _nest(threads[key])]
    return roots, [event for event, _, _ in work], orphans


def _nest(ops: list[Op]) -> list[Op]:
    roots, stack = [], []
    for op in ops:
        while stack and op.start_us >= stack[-1].end_us - _ROUNDING_US:
            stack.pop()
        (stack[-1].children if stack else roots).append(op)
        stack.append(op)
    return roots


def _owners(work: list[tuple], calls: dict) -> dict:
    """Device -> process that launches on it: most calls that precede their work, then nearest."""
    fits = defaultdict(lambda: [0, 0.0])
    for event, correlation, _ in work:
        for call in calls.get(correlation, ()):
            delay = event.start_us - call.start_us
            if delay >= -_SLACK_US:
                fit = fits[event.device, call.pid]
                fit[0] += 1
                fit[1] -= delay
    owner = {}
    for (device, pid), fit in fits.items():
        if device not in owner or fit > fits[device, owner[device]]:
            owner[device] = pid
    return owner


def _launcher(event: GpuEvent, calls: list[Op], pid) -> Op:
    ours = [call for call in calls if call.pid == pid] or calls
    before = [call for call in ours if call.start_us <= event.start_us + _SLACK_US]
    return max(before or ours, key=lambda call: call.start_us)
