"""What `lab guess` prints and writes of a report."""

import csv
from pathlib import Path

from tabulate import tabulate

from lab.expect import Claim, Finding
from lab.guess import Judged, Report
from lab.trace_show import short


def write(report: Report, path: Path) -> None:
    """`expectations.csv`: a row for every expectation."""
    names = ("device", "torch", "triton")
    header = ("experiment", "setup", "contender", "problem", "expectation", "observed")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*header, "verdict", "evidence", *names))
        for one in report.judged:
            for claim, finding in one.findings:
                row = (report.experiment.name, one.setup.name, one.setup.contender, one.problem)
                evidence = " | ".join(finding.evidence)
                facts = [report.facts.get(name) or "" for name in names]
                writer.writerow(
                    (*row, claim.text, finding.observed, finding.verdict, evidence, *facts)
                )


def text(report: Report) -> str:
    """Expectation, observation and verdict; below each setup the evidence of its misses."""
    parts = []
    for one in report.judged:
        lines = [f"{one.setup.name}: {one.problem} by {one.setup.contender}"]
        if one.seen is None:
            lines.append(f"  not traced: {one.reason}")
            parts.append("\n".join(lines))
            continue
        rows = [(finding.verdict, claim.text, finding.observed) for claim, finding in one.findings]
        headers = ("verdict", "expected", "observed")
        made = tabulate(rows, headers, maxcolwidths=[None, 50, 70], disable_numparse=True)
        lines += [f"  {line}" for line in made.splitlines()]
        for claim, finding in one.findings:
            if finding.verdict == "missed":
                lines += [f"  Missed: {claim.text}", *(f"    {e}" for e in finding.evidence)]
        parts.append("\n".join(lines))
    counts = ", ".join(f"{report.count(v)} {v}" for v in ("met", "missed", "unchecked"))
    return "\n\n".join([*parts, f"{counts}."])


def table(report: Report) -> str:
    """A row for every setup: what changed, what stayed the same, with what was observed here.

    Below it, what no trace shows, and the kernels beside those of another machine.
    """
    rows, below = [], []
    for one in report.judged:
        found = {id(claim): finding for claim, finding in one.findings}
        cells = [
            "\n".join(_cell(claim, found[id(claim)]) for claim in claims) or "—"
            for claims in (one.setup.changed, one.setup.same)
        ]
        if one.seen is None:
            cells = [f"not traced: {one.reason}", ""]
        rows.append((one.setup.name, *cells))
        notes = [one.setup.note] * bool(one.setup.note) + differences(one)
        below += [f"{one.setup.name}: {note}" for note in notes]
    headers = ("setup", "what changed", "what stayed the same")
    made = tabulate(rows, headers, tablefmt="grid", maxcolwidths=[18, 60, 60])
    return "\n".join([made, *below])


def differences(one: Judged) -> list[str]:
    """The kernels that ran beside those that the setup tells of another machine."""
    if one.seen is None or not one.seen.trace.gpu or not one.setup.elsewhere:
        return []
    here, elsewhere, there = one.seen.trace.kernels, one.setup.elsewhere, one.setup.there
    lines = []
    for number, (a, (b, us)) in enumerate(zip(here, elsewhere, strict=False), 1):
        told = "the same" if a.name.startswith(b.rstrip("…")) else b
        told += f", {us:g} µs" if us else ""
        lines.append(f"kernel {number}: {short(a.name, 80)}, {a.us:.1f} µs; {there} {told}")
    if len(here) != len(elsewhere):
        lines.append(f"{len(here)} kernels; {there} {len(elsewhere)}")
    memops = [event.name for event in one.seen.trace.memops]
    if memops:
        lines.append(
            f"besides, {len(memops)} × {', '.join(dict.fromkeys(memops))}; {there} none is told of"
        )
    return lines


def _cell(claim: Claim, finding: Finding) -> str:
    told = f"{claim.text} ({finding.observed})"
    if finding.verdict != "met":
        return f"{finding.verdict.upper()}: {told}"
    plain = finding.observed == "none" or finding.observed in claim.text
    return claim.text if plain else told
