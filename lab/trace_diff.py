"""What changed between two traces and what stayed the same: kernels, memops, operators.

Totals of each name are set side by side. A total counts as the same within 5 % on the GPU and
within 25 % on the host, where a profiler and the scheduler add noise; two traces can't tell
less. Operators include what they contain, so a change inside shows in all that contain it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tabulate import tabulate

from lab.kernel_names import parse
from lab.trace import Trace
from lab.trace_show import METADATA, compile_role, cut, left, short, verdict_lines
from lab.trace_usage import is_step, usage

_SAME_GPU = 0.05
_SAME_HOST = 0.25
_ORDER = ("appears", "vanishes", "slower", "faster", "count", "same")


@dataclass(frozen=True)
class Change:
    """One name's calls in both traces: how many, and µs in all."""

    what: str  # kernel, memop or operator
    name: str
    count_a: int
    us_a: float
    count_b: int
    us_b: float

    @property
    def ratio(self) -> float | None:
        """Time in B over time in A; None where A has none."""
        return self.us_b / self.us_a if self.us_a else None

    @property
    def verdict(self) -> str:
        """appears, vanishes, slower, faster, count (only the number of calls differs) or same."""
        if not self.count_a:
            return "appears"
        if not self.count_b:
            return "vanishes"
        margin = 1 + (_SAME_HOST if self.what == "operator" else _SAME_GPU)
        if self.us_b > self.us_a * margin:
            return "slower"
        if self.us_b * margin < self.us_a:
            return "faster"
        return "same" if self.count_a == self.count_b else "count"


def compare(a: Trace, b: Trace) -> list[Change]:
    """Every kernel, memop and operator of either trace; changed ones first, then by time."""
    changes = []
    for what in ("kernel", "memop", "operator"):
        before, after = _totals(a, what), _totals(b, what)
        for name in dict.fromkeys([*before, *after]):
            counted = (*before.get(name, (0, 0.0)), *after.get(name, (0, 0.0)))
            changes.append(Change(what, name, *counted))
    return sorted(changes, key=lambda c: (_ORDER.index(c.verdict), -max(c.us_a, c.us_b)))


def diff(a: Trace, b: Trace, limit: int = 40) -> str:
    """The comparison as text. `limit` bounds the rows of each table; 0 is none."""
    changes = compare(a, b)
    parts = [f"A: {a.path}\nB: {b.path}", *_steps(a, b)]
    for what in ("kernel", "memop", "operator"):
        found = [change for change in changes if change.what == what]
        if found:
            parts.append(_table(what, found, limit))
    parts.append("\n".join(_fate(letter, trace) for letter, trace in (("A", a), ("B", b))))
    return "\n\n".join(parts) + "\n"


def _totals(trace: Trace, what: str) -> dict[str, tuple[int, float]]:
    totals = defaultdict(lambda: (0, 0.0))
    for name, us in _named_times(trace, what):
        count, spent = totals[name]
        totals[name] = count + 1, spent + us
    return totals


def _named_times(trace: Trace, what: str) -> Iterable[tuple[str, float]]:
    if what == "operator":
        for node in trace.nodes():
            if node.kind != "call" and not is_step(node.name):
                # The hash of a compiled graph is another in every version and process.
                yield re.sub(r"\b[a-z0-9]{32,}\b", "…", node.name), node.us
    else:
        for event in trace.kernels if what == "kernel" else trace.memops:
            yield event.name, event.us


def _steps(a: Trace, b: Trace) -> list[str]:
    counts = [sum(is_step(node.name) for node in trace.nodes()) for trace in (a, b)]
    if counts[0] == counts[1]:
        return []
    return [f"Note: A has {counts[0]} steps and B {counts[1]}; totals are of the whole traces."]


def _table(what: str, changes: list[Change], limit: int) -> str:
    rows, more = cut([_row(change) for change in changes], limit)
    last = {"kernel": "family and tile", "memop": "", "operator": "what it is"}[what]
    headers = [what, "change", "A", "A µs", "B", "B µs", "B ÷ A", last]
    formats = ["", "", "", ".1f", "", ".1f", ".2f", ""]
    table = tabulate(rows, headers, floatfmt=formats, disable_numparse=[0, 7])
    counts = [f"{v}: {n}" for v in _ORDER if (n := sum(c.verdict == v for c in changes))]
    return f"{table}\n{what}s: {', '.join(counts)}{left(more, f'{what}s')}"


def _row(change: Change) -> list:
    what, name = "", change.name
    if change.what == "kernel":
        parsed = parse(name)
        what, name = f"{parsed.family} {parsed.tile() or ''}".strip(), short(name)
    elif change.what == "operator":
        what = compile_role(name) or ("metadata" if name in METADATA else "")
    numbers = [change.count_a, change.us_a, change.count_b, change.us_b]
    return [name, change.verdict, *numbers, change.ratio if change.count_b else None, what]


def _fate(letter: str, trace: Trace) -> str:
    lines = []
    for device in trace.devices:
        account = usage(trace, device)
        lines.append(
            f"{letter}: GPU {device} busy {account.busy_us:.1f} of {account.span_us:.1f} µs "
            f"({account.busy_share:.1%}); {verdict_lines(account)[0]}"
        )
    return "\n".join(lines) or f"{letter}: no GPU events"
