"""Tables for people, from rows: who won, with which tile, by how much; and what went wrong."""

from collections.abc import Iterable
from itertools import groupby
from statistics import geometric_mean

from tabulate import tabulate

from lab.record import HEADER, Row

START, END = "<!-- results: start -->", "<!-- results: end -->"


class BadColumn(Exception):
    """A column that rows don't have; the message lists those that they do."""


def summary(rows: list[Row]) -> str:
    """Per experiment: who won each problem, how all did in the mean, what is not ok and why."""
    parts = []
    for experiment, group in groupby(rows, key=lambda row: row.experiment):
        of = list(group)
        parts.append(f"{experiment} on {of[0].device}")
        lines = _winner_lines(of)
        parts.append(_table(_HEADERS, lines) if lines else "Nothing was timed.")
        parts.append(_table(_MEAN_HEADERS, _mean_lines(of)) if lines else "")
        parts.append(_failures(of))
    return "\n\n".join(part for part in parts if part)


def columns(rows: list[Row], names: Iterable[str]) -> str:
    """The rows' chosen columns as a table.

    Raises:
        BadColumn: a name that is no column.
    """
    names = list(names)
    for name in names:
        if name not in HEADER:
            raise BadColumn(f"no column {name!r}; there are {', '.join(HEADER)}")
    return tabulate(
        [[getattr(row, name) for name in names] for row in rows], headers=names, missingval=""
    )


def markdown(rows: list[Row]) -> str:
    """How all contenders did over each experiment, and the first experiment's winners."""
    first = rows[0]
    clocks = sorted(row.sm_mhz for row in rows if row.sm_mhz)
    experiments = {name: list(group) for name, group in groupby(rows, lambda r: r.experiment)}
    means = [(name, *line) for name, of in experiments.items() for line in _mean_lines(of)]
    shortest = min(experiments.values(), key=len)
    return "\n".join(
        [
            _table(("experiment", *_MEAN_HEADERS), means, "github"),
            "",
            f"The winners of `{shortest[0].experiment}`:",
            "",
            _table(_HEADERS, _winner_lines(shortest), "github"),
            "",
            f"{first.device}, torch {first.torch}, triton {first.triton}, CUTLASS {first.cutlass}, "
            f"commit {first.commit}; SM clock {clocks[0]} to {clocks[-1]} MHz. Cold clock; bf16 "
            "unless said otherwise. × is the baseline's time over the contender's, with its 95 % "
            "interval. Contenders joined by = can't be told apart.",
        ]
    )


def put_between_markers(text: str, table: str) -> str:
    """`text` with what stands between the result markers replaced.

    Raises:
        ValueError: the markers aren't there.
    """
    if START not in text or END not in text:
        raise ValueError(f"no {START} … {END} to put the table between")
    head, rest = text.split(START, 1)
    return f"{head}{START}\n{table}\n{END}{rest.split(END, 1)[1]}"


_HEADERS = ("problem", "fastest", "its tile", "µs", "× baseline", "baseline µs", "% of roofline")


_MEAN_HEADERS = ("contender", "timed", "best", "× baseline, mean", "worst", "at its best")


def _table(headers, lines, style: str = "simple") -> str:
    return tabulate(lines, headers=headers, tablefmt=style, disable_numparse=True)


def _mean_lines(rows: list[Row]) -> list[tuple[str, ...]]:
    """Per contender: how many problems, how often best, geometric mean and range of speedups."""
    lines = []
    for name in dict.fromkeys(row.contender for row in rows):
        timed = [r for r in rows if r.contender == name and r.status == "ok" and r.speedup]
        if not timed or name.endswith(".aa"):
            continue
        speedups = [row.speedup for row in timed]
        lines.append(
            (
                name,
                str(len(timed)),
                str(sum(bool(row.best) for row in timed)),
                f"{geometric_mean(speedups):.3f}",
                f"{min(speedups):.3f}",
                f"{max(speedups):.3f}",
            )
        )
    return lines


def _winner_lines(rows: list[Row]) -> list[tuple[str, ...]]:
    lines = []
    for problem, group in groupby(rows, key=lambda row: row.problem):
        timed = [row for row in group if row.us is not None and row.status == "ok"]
        best = sorted((row for row in timed if row.best), key=lambda row: row.us)
        if not best:
            continue
        base = next((row for row in timed if f"{row.contender}.aa" in _names(timed)), None)
        first = best[0]
        lines.append(
            (
                str(problem).replace(" bf16", ""),
                " = ".join(row.contender for row in best),
                first.tile or "",
                f"{first.us:.2f}",
                _interval(first),
                f"{base.us:.2f}" if base else "",
                f"{first.pct_roofline:.0f}" if first.pct_roofline else "",
            )
        )
    return lines


def _failures(rows: list[Row]) -> str:
    lines = [
        (row.status, row.contender, str(row.problem), row.reason or "")
        for row in rows
        if row.status != "ok"
    ]
    by_kind = {}
    for status, contender, problem, reason in lines:
        by_kind.setdefault((status, contender, reason), []).append(problem)
    table = [
        (status, contender, problems[0] if len(problems) == 1 else f"{len(problems)} problems", why)
        for (status, contender, why), problems in by_kind.items()
    ]
    if not table:
        return ""
    return tabulate(
        table,
        headers=("status", "contender", "problem", "reason"),
        maxcolwidths=[None, None, None, 70],
    )


def _interval(row: Row) -> str:
    if row.speedup is None:
        return ""
    return f"{row.speedup:.3f} [{row.speedup_lo:.3f}, {row.speedup_hi:.3f}]"


def _names(rows: list[Row]) -> set[str]:
    return {row.contender for row in rows}
