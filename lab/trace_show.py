"""Prints a trace: the operators as a tree with their kernels, what ran on the GPU, the verdict.

Siblings that repeat, one by one or as a block, are printed once with × N; times are then the
mean of one occurrence. An operator's CPU time includes what it contains, its GPU time is that of
all work launched below it. An operator without GPU work is marked: `metadata` for those known to
change shapes and strides alone, `launches nothing` for the rest, the latter only where the trace
has GPU events at all.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from tabulate import tabulate

from lab.kernel_names import clean, parse
from lab.trace import GpuEvent, Op, Trace
from lab.trace_usage import Usage, is_allocating, is_blocking, is_step, union, usage

_VIEWS = """
    _conj _neg_view _reshape_alias _unsafe_view alias as_strided broadcast_to chunk detach diagonal
    expand expand_as flatten lift_fresh movedim narrow numpy_T permute real reshape reshape_as
    resolve_conj resolve_neg select slice split split_with_sizes squeeze swapaxes swapdims t
    tensor_split transpose unbind unflatten unfold unsafe_chunk unsafe_split unsqueeze view view_as
    view_as_complex view_as_real vsplit hsplit
"""
METADATA = frozenset(f"aten::{name}" for name in _VIEWS.split())

_COMPILE = (  # start of an operator's name -> its part in running compiled code
    ("TorchDynamo Cache Lookup", "guards are checked, the compiled code is looked up"),
    ("Torch-Compiled Region", "the compiled frame"),
    ("Pregraph bytecode", "Dynamo's bytecode ahead of the graph"),
    ("AOTDispatcher Runtime Wrapper Prologue", "AOTAutograd prepares the inputs"),
    ("## Call CompiledFxGraph", "Inductor's generated code"),
    ("CompiledFunction", "AOTAutograd's forward or backward"),
    ("Guard", "guards are checked"),
)
_MAX_DEPTH = 60  # of the printed tree
_MAX_PERIOD = 64  # siblings in a block that is looked for as a repetition
_MIN_COVERED = 8  # siblings that a repeated block must replace, or it is harder to read than they


def summary(trace: Trace, limit: int = 40) -> str:
    """All there is to say of a trace, as text. `limit` bounds the rows of each part; 0 is none."""
    accounts = [usage(trace, device) for device in trace.devices]
    parts = [_header(trace), *_trees(trace, limit), _compile_table(trace)]
    if trace.gpu:
        parts += [_kernels(trace, limit), _memops(trace, limit), *map(_usage, accounts)]
    else:
        parts.append("No GPU events: the trace tells what the host did, not how a GPU fared.")
    return "\n\n".join(part for part in parts if part) + "\n"


@lru_cache(maxsize=1 << 16)
def label(name: str) -> str:
    """An operator's name on one line, the long hash of a compiled graph cut to 8 characters."""
    return re.sub(r"\b([a-z0-9]{8})[a-z0-9]{24,}\b", r"\1…", " ".join(name.split()))


@lru_cache(maxsize=1 << 16)
def short(name: str, width: int = 60) -> str:
    """A kernel's name without its argument list and namespaces, cut in the middle if need be.

    Both ends tell kernels apart: what it is, and the functor it applies.
    """
    text = clean(name).replace("(anonymous namespace)::", "")
    text = re.sub(r"(?:\w+::)+", "", text.split("(")[0] or text)
    # ATen's pointers are in every such name; a comma is left where the cut text began.
    text = re.sub(r", [Aa]rray<char\*, \d+(ul)?>", "", text).rstrip(", ")
    tail = width // 2 - 1
    return text if len(text) <= width else f"{text[: width - tail - 1]}…{text[-tail:]}"


def _gpu_label(event: GpuEvent) -> str:
    return short(event.name) if event.kind == "kernel" else label(event.name)


@lru_cache(maxsize=1 << 16)
def compile_role(name: str) -> str | None:
    return next((role for start, role in _COMPILE if name.startswith(start)), None)


def cut(lines: list, limit: int) -> tuple[list, int]:
    """The first `limit` lines, and how many are left; a single one is not worth leaving."""
    if not limit or len(lines) <= limit + 1:
        return lines, 0
    return lines[:limit], len(lines) - limit


def left(count: int, what: str) -> str:
    return f"\n… {count} more {what}; --limit 0 prints all" if count else ""


def _header(trace: Trace) -> str:
    words = [trace.path.name]
    lab = trace.meta.get("lab")
    if isinstance(lab, dict):
        words.append(f"{lab.get('problem')} by {lab.get('contender')}")
    words += _gpu_names(trace)
    rank = trace.meta.get("distributedInfo")
    if isinstance(rank, dict) and "rank" in rank:
        world = rank.get("world_size")
        words.append(f"rank {rank['rank']}" + (f" of {world}" if world else ""))
    counts = {
        "operator": sum(node.kind == "op" for node in trace.nodes()),
        "kernel": len(trace.kernels),
        "memset or memcpy": len(trace.memops),
        "step": sum(is_step(node.name) for node in trace.nodes()),
    }
    words.append(", ".join(_counted(n, what) for what, n in counts.items() if n))
    return "\n".join([" · ".join(words), *(f"Note: {note}." for note in trace.notes)])


def _counted(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number} " + ("memsets and memcpys" if what.startswith("mem") else f"{what}s")


def _gpu_names(trace: Trace) -> list[str]:
    properties = trace.meta.get("deviceProperties")
    gpus = [g for g in properties if isinstance(g, dict)] if isinstance(properties, list) else []
    # Ids may be counted anew within the visible devices, and the events' ids not.
    used = [gpu for gpu in gpus if gpu.get("id") in trace.devices] or gpus
    return list(dict.fromkeys(str(gpu["name"]) for gpu in used if gpu.get("name")))


# The operators


def _trees(trace: Trace, limit: int) -> Iterable[str]:
    threads = defaultdict(list)
    for root in trace.roots:
        threads[root.pid, root.tid].append(root)
    signatures, gpu_us = _signatures(trace)
    for (_, tid), roots in threads.items():
        tree = _Tree(signatures, gpu_us, bool(trace.gpu))
        tree.siblings([_items(roots)], 0)
        if not any(root.kind != "call" or root.launched() for root in roots):
            continue  # a thread of bare look-ups
        lines, more = cut(tree.lines, limit)
        yield "\n".join([f"Thread {tid}", "  CPU µs   GPU µs", *lines]) + left(more, "lines")


def _items(nodes: list[Op]) -> list[Op | GpuEvent]:
    """What is printed of sibling nodes: of launch calls the GPU work alone, in their place."""
    found: list[Op | GpuEvent] = []
    for node in nodes:
        if node.kind != "call" or is_blocking(node) or is_allocating(node):
            found.append(node)
        else:
            found += node.launched()
    return found


def _below(node: Op) -> list[Op | GpuEvent]:
    return _items(node.children) + list(node.gpu)


def _signatures(trace: Trace) -> tuple[dict, dict]:
    """Node -> a number shared by all nodes that print the same; node -> GPU µs below it."""
    numbers: dict[tuple, int] = {}
    signature: dict[Op | GpuEvent, int] = {}
    gpu_us: dict[Op, float] = {}
    for event in trace.gpu:
        signature[event] = numbers.setdefault((event.kind, event.name), len(numbers))
    for root in trace.roots:
        for node in reversed(list(root.walk())):  # children come before their parents
            name = "ProfilerStep" if is_step(node.name) else node.name
            key = (name, *(signature[item] for item in _below(node)))
            signature[node] = numbers.setdefault(key, len(numbers))
            own = sum(event.us for event in node.gpu)
            gpu_us[node] = own + sum(gpu_us[child] for child in node.children)
    return signature, gpu_us


class _Tree:
    """Lines of one thread. Siblings come as parallel lists: one for each occurrence of a parent
    that is printed once."""

    def __init__(self, signatures: dict, gpu_us: dict, gpu_known: bool):
        self.signatures, self.gpu_us, self.gpu_known = signatures, gpu_us, gpu_known
        self.lines: list[str] = []

    def siblings(self, lists: list[list], depth: int) -> None:
        if depth > _MAX_DEPTH:
            self._line("", "", depth, "…")
            return
        signatures = [self.signatures[item] for item in lists[0]]
        for start, period, repeats in runs(signatures):
            if period > 1:
                self._line("", "", depth, f"× {repeats}: the next {period}")
            times = f"  × {repeats}" if period == 1 and repeats > 1 else ""
            for place in range(start, start + period):
                same = [items[place + r * period] for items in lists for r in range(repeats)]
                self._item(same, depth + (period > 1), times)

    def _item(self, same: list, depth: int, times: str) -> None:
        first, us = same[0], sum(item.us for item in same) / len(same)
        if isinstance(first, GpuEvent):
            self._line("", f"{us:.1f}", depth, f"▸ {_gpu_label(first)}{times}")
            return
        gpu_us = sum(self.gpu_us[node] for node in same) / len(same)
        name = "ProfilerStep" if is_step(first.name) and len(same) > 1 else label(first.name)
        mark = self._mark(first)
        text = f"{name}{times}" + (f"  · {mark}" if mark else "")
        self._line(f"{us:.1f}", f"{gpu_us:.1f}" if gpu_us else "", depth, text)
        below = [_below(node) for node in same]
        if below[0]:
            self.siblings(below, depth + 1)

    def _mark(self, node: Op) -> str:
        if node.kind == "call":
            return "the host waits" if is_blocking(node) else ""
        if role := compile_role(node.name):
            return f"compiled: {role}"
        if self.gpu_us[node] or node.kind == "annotation":
            return ""
        if node.name in METADATA:
            return "metadata, launches nothing"
        return "launches nothing" if self.gpu_known else ""

    def _line(self, cpu: str, gpu: str, depth: int, text: str) -> None:
        self.lines.append(f"{cpu:>8} {gpu:>8}  {'  ' * depth}{text}")


def runs(signatures: list[int]) -> list[tuple[int, int, int]]:
    """Cuts a sequence into (start, period, repeats), each block as long as it goes on repeating."""
    found, at, size = [], 0, len(signatures)
    while at < size:
        best = (1, 1)
        for period in range(1, min(_MAX_PERIOD, (size - at) // 2) + 1):
            if signatures[at] != signatures[at + period]:
                continue
            block, repeats = signatures[at : at + period], 1
            while block == signatures[at + repeats * period : at + (repeats + 1) * period]:
                repeats += 1
            covered = period * repeats
            worth = repeats > 1 and (period == 1 or covered >= _MIN_COVERED)
            if worth and covered > best[0] * best[1]:
                best = (period, repeats)
        found.append((at, *best))
        at += best[0] * best[1]
    return found


def _compile_table(trace: Trace) -> str:
    spent = defaultdict(list)
    for node in trace.nodes():
        if node.kind != "call" and compile_role(node.name):
            spent[label(node.name)].append(node)
    rows = [[name, compile_role(name), len(nodes), union(nodes)] for name, nodes in spent.items()]
    if not rows:
        return ""
    headers = ["running compiled code", "what it is", "count", "CPU µs"]
    return tabulate(rows, headers, floatfmt=".1f")


# The GPU's work


def _kernels(trace: Trace, limit: int) -> str:
    kernels = trace.kernels
    if not kernels:
        return "No kernels."
    if limit and len(kernels) > limit:
        return _kernels_by_name(kernels, limit)
    rows, done = [], {}
    for number, event in enumerate(kernels, 1):
        name = parse(event.name)
        gap = event.start_us - done.get((event.device, event.stream), event.start_us)
        done[event.device, event.stream] = event.end_us
        place = [number, event.device, event.stream, event.us, gap]
        rows.append([*place, name.family, str(name.tile() or ""), short(event.name)])
    headers = ["#", "GPU", "stream", "µs", "gap µs", "family", "tile", "kernel"]
    return tabulate(rows, headers, floatfmt=".1f", disable_numparse=[6, 7])


def _kernels_by_name(kernels: list[GpuEvent], limit: int) -> str:
    groups = defaultdict(list)
    for event in kernels:
        groups[event.name].append(event.us)
    total = sum(event.us for event in kernels)
    rows = []
    for raw, times in sorted(groups.items(), key=lambda g: -sum(g[1])):
        name, spent = parse(raw), sum(times)
        share = f"{spent / total:.1%}" if total else ""
        mean = spent / len(times)
        tile = str(name.tile() or "")
        rows.append([len(times), spent, share, mean, name.family, tile, short(raw)])
    rows, more = cut(rows, limit)
    headers = ["count", "µs", "share", "mean µs", "family", "tile", "kernel"]
    table = tabulate(rows, headers, floatfmt=".1f", disable_numparse=[2, 5, 6])
    return f"{table}{left(more, 'kernel names')}"


def _memops(trace: Trace, limit: int) -> str:
    groups = defaultdict(list)
    for event in trace.memops:
        groups[event.name, event.bytes].append(event.us)
    rows = [
        [label(name), size, len(times), sum(times)]
        for (name, size), times in sorted(groups.items(), key=lambda g: -sum(g[1]))
    ]
    if not rows:
        return "No memsets or memcpys."
    rows, more = cut(rows, limit)
    table = tabulate(rows, ["memset or memcpy", "bytes", "count", "µs"], floatfmt=".1f")
    return f"{table}{left(more, 'memops')}"


def _usage(u: Usage) -> str:
    idle = sum(gap.us for gap in u.gaps)
    lines = [
        f"GPU {u.device}: busy {u.busy_us:.1f} of {u.span_us:.1f} µs ({u.busy_share:.1%}); "
        f"{_counted(len(u.gaps), 'launch gap')}, idle {idle:.1f} µs in all"
    ]
    if u.gaps:
        longest = max(u.gaps, key=lambda gap: gap.us)
        why = "though it was queued" if longest.queued else "waiting for its launch"
        kernel = short(longest.event.name, 40)
        lines.append(f"  longest gap {longest.us:.1f} µs, before {kernel}, {why}")
    if len(u.streams) > 1:
        rows = [[s.stream, s.events, s.busy_us, s.idle_us, s.longest_gap_us] for s in u.streams]
        headers = ["stream", "events", "busy µs", "idle µs", "longest gap µs"]
        table = tabulate(rows, headers, floatfmt=".1f", disable_numparse=[0])
        lines += [f"  {line}" for line in table.splitlines()]
    return "\n".join([*lines, *(f"  {line}" for line in verdict_lines(u))])


def verdict_lines(u: Usage) -> list[str]:
    """The verdict with its numbers, and the witness of the queue."""
    if u.verdict is None:
        return ["no verdict: the trace has no launch calls"]
    details = [f"of which {u.allocating_us:.1f} allocating"] if u.allocating_us else []
    details += [f"{u.blocked_us:.1f} more blocked on the GPU"] if u.blocked_us else []
    host = f"host {u.host_us:.1f} µs" + (f" ({'; '.join(details)})" if details else "")
    sign = ">" if u.verdict == "launch-bound" else "≤"
    launching = f"  {u.waited} of {u.waited + u.queued} events waited for their launch"
    if u.latency_us is not None:
        launching += f" and began {u.latency_us:.1f} µs after its call (median)"
    return [
        f"{u.verdict}: {host} {sign} GPU {u.busy_us:.1f} µs",
        f"{launching}; {u.queued} were queued; a launch call takes {u.launch_us:.1f} µs",
    ]
