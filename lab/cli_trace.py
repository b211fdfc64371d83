"""`lab trace`: capture traces of an experiment's contenders, read anyone's, compare two."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from lab import trace, trace_diff, trace_show


class _CaptureByDefault(TyperGroup):
    """Makes `lab trace EXPERIMENT` mean `lab trace run EXPERIMENT`."""

    def parse_args(self, ctx, args):
        if args and args[0] not in {*self.commands, "--help"}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_CaptureByDefault,
    no_args_is_help=True,
    help="Traces: `lab trace EXPERIMENT` captures, `read` prints any trace, `diff` compares two.",
)

Limit = Annotated[int, typer.Option(min=0, help="Rows of each part; 0 prints all.")]


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="As `lab list` names them.")],
    problem: Annotated[
        list[str] | None, typer.Option(help="Only problems that contain this, such as 8192x768.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this contender; may be repeated.")
    ] = None,
    tile: Annotated[
        list[str] | None, typer.Option(help="Run tunable contenders with this tile.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the traces go; results/runs/traces/EXPERIMENT without it."),
    ] = None,
    limit: Limit = 40,
):
    """Traces one steady-state step of each contender and prints what it holds."""
    from lab import experiment as experiments
    from lab import trace_capture
    from lab.contender import BadContender
    from lab.record import RUNS
    from lab.runner import BadChoice, Choice
    from lab.worker import Died

    names = tuple(name for word in only or () for name in word.split(","))
    written = 0
    try:
        found = trace_capture.capture(
            experiments.load(experiment),
            out or RUNS / "traces" / experiment,
            choice=Choice(only=names, tiles=tuple(tile or ())),
            problems=tuple(problem or ()),
            on_journal=lambda name, stage: typer.echo(f"{name}: {stage}", err=True) if name else 0,
        )
        for one in found:
            if one.path is None:
                typer.echo(f"{one.problem} by {one.contender}: not traced, {one.reason}\n")
                continue
            written += 1
            typer.echo(f"{one.path}\n{trace_show.summary(trace.read(one.path), limit)}")
    except (experiments.BadExperiment, BadChoice, BadContender, Died, trace.BadTrace) as error:
        _stop(error)
    except OSError as error:
        _stop(f"{error.filename or out}: {error.strerror}")
    if not written:
        raise typer.Exit(1)


@app.command()
def read(
    files: Annotated[list[Path], typer.Argument(help="Traces, .json or .json.gz.")],
    limit: Limit = 40,
):
    """Prints what a trace holds: operators, kernels, gaps, verdict. Needs no GPU and no torch."""
    _print(lambda: (trace_show.summary(trace.read(file), limit) for file in files))


@app.command()
def diff(a: Path, b: Path, limit: Limit = 40):
    """Compares two traces: kernels and operators that appear, vanish or change time."""
    _print(lambda: [trace_diff.diff(trace.read(a), trace.read(b), limit)])


def _print(texts: Callable) -> None:
    try:
        for text in texts():
            typer.echo(text)
    except trace.BadTrace as error:
        _stop(error)


def _stop(message: object) -> None:
    typer.echo(f"lab: {' '.join(str(message).split())}", err=True)
    raise typer.Exit(2)
