"""`lab guess`: what a trace should hold, said first, against what it does hold."""

from pathlib import Path
from typing import Annotated

import typer

from lab import experiment as experiments
from lab import record, runner
from lab.expect import BadExpectation
from lab.trace import BadTrace


def guess(
    experiment: Annotated[
        str, typer.Argument(help="An experiment's name, or a file of your own: guesses.py.")
    ],
    allow_surprises: Annotated[
        bool, typer.Option(help="Exit with 0 even if an expectation was missed.")
    ] = False,
    trace: Annotated[
        list[Path] | None,
        typer.Option(help="Check this trace, taken elsewhere, and run nothing. Repeatable."),
    ] = None,
    setup: Annotated[
        list[str] | None,
        typer.Option(help="Which setup the trace of the same place belongs to. Repeatable."),
    ] = None,
    table: Annotated[
        bool, typer.Option(help="Print what changed and what stayed the same, setup by setup.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
) -> None:
    """Checks an experiment's expectations against one traced step of each contender.

    Exit code 1 if an expectation was missed, 2 if none could be checked.
    """
    from lab import guess as guesses
    from lab import guess_show
    from lab.worker import Died

    def tell(name, stage):
        if name:
            typer.echo(f"{name}: {stage}", err=True)

    try:
        chosen = experiments.load(experiment)
        if setup and not trace:
            raise BadExpectation("--setup says what a --trace is; give that, too")
        if trace:
            report = guesses.check_traces(chosen, trace, setup or [])
        else:
            folder = out or runner.new_run_folder()
            folder.mkdir(parents=True, exist_ok=True)
            with record.lock(folder):
                report = guesses.run(chosen, folder, tell)
                guess_show.write(report, folder / "expectations.csv")
                runner.note_start(folder, {"facts": report.facts})
    except (BadExpectation, BadTrace, Died) as error:
        typer.echo(f"lab: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(2) from None
    typer.echo(guess_show.table(report) if table else guess_show.text(report))
    if not trace:
        typer.echo(folder)
    if not report.count("met") + report.count("missed"):
        typer.echo("lab: nothing could be checked here", err=True)
        raise typer.Exit(2)
    if report.count("missed") and not allow_surprises:
        raise typer.Exit(1)
