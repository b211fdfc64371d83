"""The `lab` command. Bad input is one line on stderr that names the fix, and exit code 2."""

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from tabulate import tabulate

from lab import (
    cli_churn,
    cli_guess,
    cli_name,
    cli_trace,
    contender,
    experiment,
    record,
    runner,
    show,
)
from lab import doctor as doctor_
from lab.contender import BadContender
from lab.experiment import BadExperiment
from lab.problem import OPS
from lab.record import BadRun
from lab.runner import BadChoice
from lab.show import BadColumn
from lab.worker import Died

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Races GPU kernels against each other: fairly, verified, tile by tile.",
)

app.command()(cli_name.name)
app.command()(cli_guess.guess)
app.command()(cli_churn.churn)
app.add_typer(cli_trace.app, name="trace")

_BAD_INPUT = (BadChoice, BadColumn, BadContender, BadExperiment, BadRun)


def main() -> None:
    """Runs the command and exits: 2 for bad input, 130 for Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: tidy, resumable
    try:
        code = app(standalone_mode=False)
    except _BAD_INPUT as error:
        code = _fail(str(error))
    except OSError as error:
        code = _fail(
            f"{error.filename or 'a file'}: {error.strerror}; rows written so far are safe"
        )
    except Died as error:
        code = _fail(f"the worker can't start: {error}; its output is in the run's worker.log")
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own errors have it
            raise
        message = error.format_message()
        code = _fail(message) if message else 2  # without a word, help was printed
    sys.exit(code or 0)


def _fail(message: str) -> int:
    print(f"lab: {' '.join(message.split())}", file=sys.stderr)
    return 2


Sizes = Annotated[list[int] | None, typer.Option(min=1, help="Repeatable.")]
Words = Annotated[list[str] | None, typer.Option(help="Repeatable.")]


@app.command()
def sweep(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Experiments by name; all of them if left out.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the newest run, or --out's.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Race only this one and the baseline. Repeatable."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Race the slow contenders too.")] = False,
    tile: Annotated[
        list[str] | None,
        typer.Option(help="Race tunable contenders at this tile: 128x256x64-pingpong. Repeatable."),
    ] = None,
    with_: Annotated[
        list[str] | None, typer.Option("--with", help="Race a contender's file too. Repeatable.")
    ] = None,
    op: Annotated[
        str | None, typer.Option(help=f"For sizes of your own: {', '.join(OPS)}.")
    ] = None,
    m: Sizes = None,
    n: Sizes = None,
    k: Sizes = None,
    layout: Words = None,
    dtype: Words = None,
    activation: Words = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds a contender may take at one stage.")
    ] = 900,
) -> None:
    """Races contenders and records every row under results/runs/.

    Sizes narrow the named experiments; without a name they are an experiment of their own.
    """
    run = out or (record.latest() if resume else runner.new_run_folder())
    if resume:
        stored = record.read_json(run / "run.json").get("options", {})
    elif (run / "run.json").exists():
        raise BadRun(f"{run} holds a run already; go on with --resume, or give another --out")
    else:
        stored = {}
    sizes = {"m": m, "n": n, "k": k}
    words = {"layout": layout, "dtype": dtype, "activation": activation}
    given = {
        "experiments": experiments,
        "only": only,
        "all": all or None,
        "tiles": tile,
        "files": [str(Path(f).resolve()) for f in with_ or ()] or None,
        "op": op,
        "sizes": sizes if any(sizes.values()) else None,
        "words": words if any(words.values()) else None,
    }
    asked = stored | {name: value for name, value in given.items() if value}
    choice = runner.Choice(
        only=tuple(asked.get("only", ())),
        slow=asked.get("all", False),
        tiles=tuple(asked.get("tiles", ())),
        files=tuple(asked.get("files", ())),
    )
    chosen = _experiments(asked)
    runner.plan(chosen, choice, gpu=False)  # bad input shows before a worker starts
    with _progress() as show_step:
        try:
            rows = runner.sweep(
                lambda gpu: runner.plan(chosen, choice, gpu),
                run,
                options=asked,
                limit=timeout,
                show=show_step,
            )
        except KeyboardInterrupt:
            print(f"\nInterrupted; finished problems are in {run}.", file=sys.stderr)
            print(f"Go on with: lab sweep --resume --out {run}", file=sys.stderr)
            raise
    print(show.summary(rows))
    print(f"\n{_measured(rows)}\n{run}")


def _experiments(asked: dict) -> list[experiment.Experiment]:
    sizes, words = asked.get("sizes") or {}, asked.get("words") or {}
    names = asked.get("experiments")
    if not names and (any(sizes.values()) or asked.get("op")):
        op = asked.get("op") or "linear"
        if op not in OPS:
            raise runner.BadChoice(f"no op {op!r}; there are {', '.join(OPS)}")
        return [runner.adhoc(op, sizes, words)]
    chosen = [experiment.load(name) for name in dict.fromkeys(names or experiment.names())]
    if not (any(sizes.values()) or any(words.values())):
        return chosen
    return [runner.narrowed(one, sizes, words) for one in chosen]


def _progress():
    """A context that gives a function to show the runner's Progress with."""
    import contextlib

    @contextlib.contextmanager
    def showing():
        bar = Bar(
            TextColumn("{task.fields[problem]}"),
            BarColumn(20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[doing]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        bar.disable = not bar.console.is_terminal
        task = bar.add_task("", problem="starting a worker", doing="", total=None)
        told = None

        def show_step(p):
            nonlocal told
            if bar.disable and told != (told := p.step):
                print(f"{p.done + 1}/{p.total} {p.step.experiment}: {p.step.problem}", flush=True)
            bar.update(
                task,
                problem=f"{p.step.experiment}: {p.step.problem}",
                doing=f"{p.contender} {p.stage}".strip(),
                completed=p.done,
                total=p.total,
            )

        with bar:
            yield show_step

    return showing()


def _measured(rows: list[record.Row]) -> str:
    """One plain sentence on what these rows are worth."""
    counts = {s: sum(row.status == s for row in rows) for s in record.STATUSES}
    told = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    if any(row.clock == "cpu" for row in rows):
        return (
            f"{told}. No GPU here: eager and Inductor were timed on this CPU, Triton was only "
            "verified in its interpreter, CUTLASS only compiled. None of it tells a GPU's times."
        )
    return f"{told}."


@app.command("list")
def list_() -> None:
    """Lists experiments and contenders."""
    print(
        tabulate(
            [
                (one.name, len(one.problems), len(one.cpu_problems), one.question)
                for one in map(experiment.load, experiment.names())
            ],
            headers=("experiment", "problems", "without a GPU", "question"),
            maxcolwidths=[None, None, None, 70],
        )
    )
    lines = []
    for op in OPS:
        for path in contender.discover(op):
            one = contender.load(path)
            marks = ("baseline" * one.baseline, "tunable" * bool(one.tiles), "slow" * one.slow)
            lines.append((op, one.name, " ".join(filter(None, marks)), _first_line(one)))
    print("\n" + tabulate(lines, headers=("op", "contender", "", "what it is")))


def _first_line(one) -> str:
    return (sys.modules[one.prepare.__module__].__doc__ or "").strip().split("\n")[0]


@app.command("show")
def show_(
    run: Annotated[
        Path | None, typer.Argument(help="A run's folder or id; the newest if left out.")
    ] = None,
    experiments: Annotated[
        list[str] | None, typer.Option("--experiment", help="Repeatable.")
    ] = None,
    contenders: Annotated[list[str] | None, typer.Option("--contender", help="Repeatable.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns to print, with commas: m,n,k,contender,us,tile.")
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="Put the winners' table between this file's markers.")
    ] = None,
) -> None:
    """Shows a run: the winners, or the columns asked for."""
    folder = run or record.latest()
    if not folder.exists() and (record.RUNS / folder).exists():
        folder = record.RUNS / folder
    names = record.experiments(folder)
    if not names:
        raise BadRun(f"{folder}: no run's folder; `lab sweep` prints the path of each")
    for name in experiments or ():
        if name not in names:
            raise BadRun(f"{folder} has no experiment {name!r}; it has {', '.join(names)}")
    chosen = [name for name in names if name in (experiments or names)]
    rows = [row for name in chosen for row in record.read(folder / f"{name}.csv")]
    for name in contenders or ():
        if name not in {row.contender for row in rows}:
            have = ", ".join(sorted({row.contender for row in rows}))
            raise BadRun(f"{folder} has no contender {name!r}; it has {have}")
    rows = [row for row in rows if not contenders or row.contender in contenders]
    if into:
        try:
            into.write_text(show.put_between_markers(into.read_text(), show.markdown(rows)))
        except ValueError as error:
            raise BadRun(f"{into}: {error}") from None
    elif columns:
        print(show.columns(rows, columns.split(",")))
    else:
        print(show.summary(rows))


@app.command()
def doctor() -> None:
    """Says what this machine can run, and what to install for the rest."""
    print(
        tabulate(
            doctor_.findings(),
            headers=("part", "found", "what to do"),
            maxcolwidths=[None, None, 70],
        )
    )
