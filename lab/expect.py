"""What a trace is expected to hold, said before it is looked at, and whether it does.

An experiment's file declares its expectations as `Setup`s: a contender on a problem, and claims
about one traced step of it.

    Setup(
        "compiled MLP", "inductor", problem=MLP, cpu_problem=SMALL,
        changed=(kernels(4), fused("gelu", "mul"), no_ops("aten::gelu")),
        same=(same_kernels("eager", of="gemm"),),
    )

A claim that doesn't hold is *missed*: a finding, with the evidence. One that can't be decided from
what there is (no GPU, no trace of the other contender) is *unchecked*, never met.

`of` selects kernels: `gemm` all matrix products; `gate`, `up` and `down` the first, second and
third of them; `pointwise` all others; or a family of lab.kernel_names, such as `liger`.

Operators are named as traces name them. `aten::…` must match whole; annotations such as
`Torch-Compiled Region` match by their beginning, for what follows is a counter or a hash.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from lab.kernel_names import parse
from lab.problem import Problem
from lab.seen import FAMILIES, PARTS, Seen, fused_ops, is_named
from lab.trace import GpuEvent
from lab.trace_show import short


class BadExpectation(ValueError):
    """An expectation that can't be used; the message says which and why."""


@dataclass(frozen=True)
class Finding:
    """One claim's verdict: met, missed or unchecked. `evidence` are lines, for a miss."""

    verdict: str
    observed: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """One expectation. Made by the functions below.

    `judge(seen, others)` decides; what it needs is named beside it: GPU work in the trace (`gpu`),
    other contenders, outputs, counters. `asserts` are numbers that it pins to an interval, by
    which contradictions are found. `absent` are the names it expects not to find.
    """

    text: str
    judge: Callable[[Seen, Mapping[str, Seen]], Finding]
    gpu: bool = True
    others: tuple[str, ...] = ()
    output: bool = False
    counters: bool = False
    asserts: Mapping[tuple, tuple[float, float]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def check(self, seen: Seen, others: Mapping[str, Seen], why_not: Mapping[str, str]) -> Finding:
        """The verdict; unchecked where what it needs isn't there. `why_not` says why for others."""
        if self.gpu and not seen.trace.gpu:
            return Finding("unchecked", "the trace has no GPU work")
        for other in self.others:
            if other not in others:
                reason = why_not.get(other, "no trace of it was given")
                return Finding("unchecked", f"needs {other}: {reason}")
        needed = (seen, *(others[name] for name in self.others))
        if self.output and any(one.output is None for one in needed):
            return Finding("unchecked", "a trace doesn't hold the output")
        if self.counters and seen.counters is None:
            return Finding("unchecked", "a trace doesn't hold Dynamo's counters")
        return self.judge(seen, others)


@dataclass(frozen=True)
class Setup:
    """One contender on one problem, and what is expected of it.

    `cpu_problem` stands in on a machine without a GPU. With `batch`, x is [batch, m / batch, k]
    instead of [m, k]. `note` says what no trace can show. `elsewhere` are the kernels of a run on
    another machine in order, (name, µs or None), and `there` says which: told, not judged.

    Raises:
        BadExpectation: no claims, contradictory ones, or a batch that doesn't divide m.
    """

    name: str
    contender: str
    problem: Problem
    cpu_problem: Problem
    changed: tuple[Claim, ...] = ()
    same: tuple[Claim, ...] = ()
    batch: int | None = None
    note: str = ""
    elsewhere: tuple[tuple[str, float | None], ...] = ()
    there: str = "elsewhere"

    def __post_init__(self):
        if not self.claims:
            raise BadExpectation(f"{self.name}: expects nothing, so it can never fail")
        for problem in (self.problem, self.cpu_problem):
            if self.batch is not None and (self.batch < 1 or problem.m % self.batch):
                raise BadExpectation(f"{self.name}: a batch of {self.batch} doesn't divide m")
            if problem.op != self.problem.op:
                raise BadExpectation(f"{self.name}: its problems are of two ops")
        for claim in self.claims:
            if self.contender in claim.others:
                raise BadExpectation(
                    f"{self.name}: '{claim.text}' compares {self.contender} with itself, "
                    "so it can never fail"
                )
        for one, other in combinations(self.claims, 2):
            if clash(one, other):
                raise BadExpectation(f"{self.name}: '{one.text}' contradicts '{other.text}'")

    @property
    def claims(self) -> tuple[Claim, ...]:
        return self.changed + self.same

    @property
    def contenders(self) -> tuple[str, ...]:
        """Its own first, then those that it is compared with."""
        return (self.contender, *(other for claim in self.claims for other in claim.others))


def clash(one: Claim, other: Claim) -> bool:
    """Whether no trace can meet both: a number that they pin to intervals that don't meet.

    The kernels of a part are at most all kernels.
    """

    def most(claim, total):  # a part's count binds the total from below
        low = max((v[0] for k, v in claim.asserts.items() if k[0] == "kernels"), default=0)
        return total is not None and low > total[1]

    for key, (low, high) in one.asserts.items():
        if key in other.asserts and (low > other.asserts[key][1] or high < other.asserts[key][0]):
            return True
    everything = ("kernels", None)
    return most(one, other.asserts.get(everything)) or most(other, one.asserts.get(everything))


# Kernels


def kernels(count: int, of: str | None = None) -> Claim:
    """So many GPU kernels, memsets and memcpys apart."""
    _whole(count, "kernels")

    def judge(seen, others):
        found = seen.kernels(of)
        return _decide(len(found) == count, _told(found), _listed(seen.trace.kernels))

    what = f"kernel{'s' * (count != 1)}" + (f" of {_part(of)}" if of else "")
    return Claim(f"{count} {what}", judge, asserts={("kernels", of): (count, count)})


def memops(count: int) -> Claim:
    """So many memsets and memcpys."""
    _whole(count, "memops")

    def judge(seen, others):
        found = seen.trace.memops
        lines = [f"{e.kind} {e.name} {e.us:.1f} µs" for e in found]
        return _decide(len(found) == count, str(len(found)), lines)

    text = f"{count} memset{'s' * (count != 1)} or memcpys"
    return Claim(text, judge, asserts={("memops",): (count, count)})


def same_kernels(other: str, of: str | None = None) -> Claim:
    """The same kernel names as another contender's, in the same order; at least one."""
    if of:
        _part(of)

    def judge(seen, others):
        ours = [k.name for k in seen.kernels(of)]
        theirs = [k.name for k in others[other].kernels(of)]
        lines = [
            f"{number}: {_name(a)} here, {_name(b)} in {other}"
            for number, (a, b) in enumerate(_padded(ours, theirs), 1)
            if a != b
        ]
        if not (ours and theirs):
            return _decide(False, "no such kernels in one of them", lines)
        told = "; ".join(dict.fromkeys(short(name, 72) for name in ours))
        return _decide(ours == theirs, told if ours == theirs else "names differ", lines)

    what = f"{of} kernels" if of else "kernels"
    return Claim(f"the same {what} as {other}", judge, others=(other,))


def same_tile(one: str, other: str) -> Claim:
    """Two kernels have the same tile, by their names: `gate`, or `inductor:gate` of a contender."""
    return _tiles(one, other, equal=True)


def other_tile(one: str, other: str) -> Claim:
    """Two kernels have different tiles, by their names."""
    return _tiles(one, other, equal=False)


def _tiles(one: str, other: str, equal: bool) -> Claim:
    _differ(one, other, "the tile of")
    contenders = tuple(c for c, _ in map(_place, (one, other)) if c)

    def judge(seen, others):
        tiles, lines = [], []
        for place in (one, other):
            found = _found(place, seen, others)
            named = {parse(k.name).tile() for k in found}
            lines += [f"{place}: {short(k.name, 80)}" for k in found] or [f"{place}: no kernel"]
            tiles.append(named.pop() if len(named) == 1 else None)
        a, b = tiles
        if a is None or b is None:
            return _decide(False, "a name tells no tile", lines)
        return _decide((a == b) == equal, f"{one} {a}, {other} {b}", lines)

    text = f"{one} and {other} have {'the same tile' if equal else 'different tiles'}"
    key = ("tile", *sorted((one, other)))
    return Claim(text, judge, others=contenders, asserts={key: (equal, equal)})


def epilogue(word: str, of: str = "gemm") -> Claim:
    """The names of all selected kernels tell this word of an epilogue, such as bias."""
    if not word:
        raise BadExpectation("an epilogue without a word can never fail")
    _part(of)

    def judge(seen, others):
        found = seen.kernels(of)
        has = [word in parse(k.name).epilogue for k in found]
        told = "; ".join(dict.fromkeys(short(k.name, 72) for k in found))
        return _decide(bool(has) and all(has), told or "no such kernels", _listed(found))

    return Claim(f"{word} in the epilogue of {of}", judge)


# Time


def share(of: str, below: float | None = None, above: float | None = None) -> Claim:
    """The part of all kernels' time that the selected ones take, between 0 and 1."""
    _part(of)
    if below is None and above is None:
        raise BadExpectation(f"share of {of}: without a bound it can never fail")
    low, high = above or 0.0, 1.0 if below is None else below
    if (below is not None and below > 1) or (above is not None and above < 0):
        raise BadExpectation(f"share of {of}: it always lies in 0 to 1, so this can never fail")
    if low >= high:
        raise BadExpectation(f"share of {of}: nothing is above {low:.0%} and below {high:.0%}")

    def judge(seen, others):
        found = seen.kernels(of)
        if not found:
            return _decide(False, "no such kernels", _listed(seen.trace.kernels))
        part = sum(k.us for k in found) / sum(k.us for k in seen.trace.kernels)
        return _decide(low < part < high, f"{part:.1%}", _listed(seen.trace.kernels))

    bounds = [
        f"{word} {bound:.0%}"
        for word, bound in (("above", above), ("below", below))
        if bound is not None
    ]
    text = f"share of {of} in the time {' and '.join(bounds)}"
    return Claim(text, judge, asserts={("share", of): (low, high)})


def faster(one: str, than: str) -> Claim:
    """The selected kernels take less time: `down` than `gate`, `pointwise` than `liger:pointwise`.

    One traced step decides; the cold clock of a sweep tells more.
    """
    _differ(one, than, "the time of")
    contenders = tuple(c for c, _ in map(_place, (one, than)) if c)

    def judge(seen, others):
        found = [_found(place, seen, others) for place in (one, than)]
        a, b = (sum(k.us for k in part) for part in found)
        told = f"{one} {a:.1f} µs, {than} {b:.1f} µs"
        return _decide(all(found) and a < b, told, _listed([*found[0], *found[1]]))

    order = (0, 0) if one < than else (1, 1)
    key = ("faster", *sorted((one, than)))
    return Claim(
        f"{one} takes less time than {than}", judge, others=contenders, asserts={key: order}
    )


# Operators


def ops(*names: str) -> Claim:
    """All of these operators or annotations are there."""
    _some(names, "ops")

    def judge(seen, others):
        missing = [name for name in names if not seen.count(name)]
        told = f"without {', '.join(missing)}" if missing else _counted(seen, names)
        return _decide(not missing, told, _chain(seen))

    asserts = {("op", name): (1, math.inf) for name in names}
    return Claim(f"has {', '.join(names)}", judge, gpu=False, asserts=asserts, names=names)


def no_ops(*names: str) -> Claim:
    """None of these operators or annotations is there."""
    _some(names, "no_ops")

    def judge(seen, others):
        there = [name for name in names if seen.count(name)]
        told = _counted(seen, there) if there else "none"
        return _decide(not there, told, _chain(seen))

    asserts = {("op", name): (0, 0) for name in names}
    text = f"no {', '.join(names)}"
    return Claim(text, judge, gpu=False, asserts=asserts, names=names, absent=names)


def op_count(name: str, count: int) -> Claim:
    """So many calls of one operator."""
    _whole(count, name)

    def judge(seen, others):
        found = seen.count(name)
        return _decide(found == count, f"{found} × {name}", _chain(seen))

    asserts = {("op", name): (count, count)}
    absent = (name,) if count == 0 else ()
    text = f"{count} × {name}"
    return Claim(text, judge, gpu=False, asserts=asserts, names=(name,), absent=absent)


def in_order(*names: str) -> Claim:
    """These operators start one after the other; others may lie between."""
    if len(names) < 2:
        raise BadExpectation("in_order: one operator is always in order; name two or more")

    def judge(seen, others):
        left = iter(seen.ops)
        for name in names:
            if not any(is_named(found, name) for found in left):
                return _decide(False, f"no {name} in its place", _chain(seen))
        return _decide(True, "in order", ())

    asserts = {("op", name): (1, math.inf) for name in names}
    return Claim(f"in order {' → '.join(names)}", judge, gpu=False, asserts=asserts, names=names)


def launch_nothing(*names: str) -> Claim:
    """These operators are there, and no GPU work was launched below them."""
    _some(names, "launch_nothing")

    def judge(seen, others):
        lines, missing = [], []
        for name in names:
            nodes = [n for n in seen.trace.nodes() if n.kind != "call" and is_named(n.name, name)]
            missing += [name] * (not nodes)
            lines += [f"{name} launched {e.name}" for n in nodes for e in n.launched()]
        if missing:
            return _decide(False, f"without {', '.join(missing)}", _chain(seen))
        return _decide(not lines, lines[0] if lines else _counted(seen, names), lines)

    asserts = {("op", name): (1, math.inf) for name in names}
    return Claim(f"{', '.join(names)} launch nothing", judge, asserts=asserts, names=names)


# Compilers


def fused(*names: str) -> Claim:
    """One kernel of Inductor's names all of these operators: `fused("gelu", "mul")`.

    On a machine without a GPU, Inductor's C++ kernels are operators of the trace.
    """
    _some(names, "fused")

    def judge(seen, others):
        there = [k.name for k in seen.trace.kernels] + [n for n in seen.ops if "_cpp_fused_" in n]
        named = {name: fused_ops(name) for name in there if "fused_" in name}
        hits = [name for name, ops in named.items() if set(names) <= set(ops)]
        told = ", ".join(hits or named) or "no kernel of Inductor's"
        return _decide(bool(hits), told, _listed(seen.trace.kernels) or _chain(seen))

    return Claim(f"one kernel fuses {', '.join(names)}", judge, gpu=False)


def compiled_once() -> Claim:
    """Dynamo compiled one graph, without graph breaks, and fresh data compiled nothing more."""

    def judge(seen, others):
        c = seen.counters
        told = f"graphs {c.graphs}, recompiles {c.recompiles}, graph breaks {c.breaks}"
        lines = [told] if c.graphs else ["Dynamo compiled nothing: this contender doesn't use it"]
        return _decide((c.graphs, c.recompiles, c.breaks) == (1, 0, 0), told, lines)

    return Claim("compiled once, no recompile, no graph break", judge, gpu=False, counters=True)


def same_output(other: str) -> Claim:
    """The output is bitwise another contender's."""

    def judge(seen, others):
        import numpy as np

        ours, theirs = (np.load(one.output).reshape(-1) for one in (seen, others[other]))
        if ours.size != theirs.size:
            told = f"{ours.size} elements, {other} has {theirs.size}"
            return _decide(False, told, [told])
        differs = np.flatnonzero(ours != theirs)
        told = f"{differs.size} of {ours.size} elements differ"
        lines = [told]
        if differs.size:
            first = int(differs[0])
            lines = [f"first at {first}: bits {_bits(ours[first])}, {other} {_bits(theirs[first])}"]
        return _decide(not differs.size, told, lines)

    return Claim(f"output bitwise {other}'s", judge, gpu=False, others=(other,), output=True)


# Helpers


def _decide(holds: bool, observed: str, evidence: Iterable[str]) -> Finding:
    return Finding("met", observed) if holds else Finding("missed", observed, tuple(evidence))


def _told(found: list[GpuEvent]) -> str:
    if not found:
        return "0"
    return f"{len(found)}: {' + '.join(f'{k.us:.1f}' for k in found)} µs"


def _listed(found: list[GpuEvent]) -> list[str]:
    return [f"{n}: {k.us:.1f} µs {short(k.name, 80)}" for n, k in enumerate(found, 1)]


def _name(name: str | None) -> str:
    return "nothing" if name is None else short(name, 80)


def _padded(a: list, b: list) -> list[tuple]:
    size = max(len(a), len(b))
    return list(zip(a + [None] * (size - len(a)), b + [None] * (size - len(b)), strict=True))


def _counted(seen: Seen, names: Iterable[str]) -> str:
    return ", ".join(f"{seen.count(name)} × {name}" for name in names)


def _chain(seen: Seen) -> list[str]:
    """What is there instead, each operator once."""
    names = list(dict.fromkeys(name for name in seen.ops if "::" in name or "fused" in name))
    rest = list(dict.fromkeys(name for name in seen.ops if name not in names))
    return [f"there are {', '.join((names + rest)[:40]) or 'no operators'}"]


def _bits(value) -> str:
    return f"{int(value) & (2 ** (8 * value.itemsize) - 1):#x}"


def _place(text: str) -> tuple[str | None, str]:
    """(contender or None, part) of `gate` or `inductor:gate`."""
    contender, colon, part = text.rpartition(":")
    return (contender if colon else None), part


def _found(place: str, seen: Seen, others: Mapping[str, Seen]) -> list[GpuEvent]:
    contender, part = _place(place)
    return (others[contender] if contender else seen).kernels(part)


def _part(of: str) -> str:
    if of not in PARTS + FAMILIES:
        raise BadExpectation(
            f"no kernels are called {of!r}; there are {', '.join(PARTS)}, "
            f"or a family: {', '.join(FAMILIES)}"
        )
    return of


def _differ(one: str, other: str, what: str) -> None:
    for place in (one, other):
        _part(_place(place)[1])
    if one == other:
        raise BadExpectation(f"{what} {one} compared with itself can't tell anything")


def _whole(count: int, what: str) -> None:
    if type(count) is not int or count < 0:
        raise BadExpectation(f"{what}: a count is a whole number from 0, not {count!r}")


def _some(names: tuple[str, ...], what: str) -> None:
    if not names or not all(names):
        raise BadExpectation(f"{what}: without a name it can never fail")
