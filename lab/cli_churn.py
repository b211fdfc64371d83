"""`lab churn`: what changing shapes cost."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lab import record, runner
from lab.problem import DTYPES


def churn(
    ops: Annotated[
        list[str] | None, typer.Argument(help="geglu, mlp; both if left out.", metavar="OP…")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this contender, and eager. Repeatable.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, max=64, help="Distinct numbers of tokens.")] = 32,
    hidden: Annotated[int, typer.Option(min=0, max=32, help="Distinct hidden sizes.")] = 16,
    dtype: Annotated[
        str | None, typer.Option(help="bf16, fp16 or fp32; bf16 on a GPU, else fp32 if left out.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the stream.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
) -> None:
    """Sends a stream of changing shapes through compilers and handwritten kernels.

    Each contender starts in a fresh process with empty caches. Writes churn.csv and
    churn.shapes.csv.
    """
    from lab import churn as churns

    chosen = tuple(dict.fromkeys(ops or churns.OPS))
    for op in chosen:
        if op not in churns.OPS:
            raise runner.BadChoice(f"no stream of {op!r}; there are {', '.join(churns.OPS)}")
    there = dict.fromkeys(name for op in chosen for name in churns.contenders(op))
    for name in only or ():
        if name not in there:
            raise runner.BadChoice(f"no contender {name!r}; there are {', '.join(there)}")
    if dtype not in (None, *DTYPES):
        raise runner.BadChoice(f"no dtype {dtype!r}; there are {', '.join(DTYPES)}")
    folder = out or runner.new_run_folder()
    if (folder / "churn.csv").exists():
        raise record.BadRun(f"{folder} holds a churn.csv already; give another --out")
    told = None

    def tell(name, problem):
        nonlocal told
        if name and told != (told := name):
            typer.echo(f"{name}: {problem}", err=True)

    stream = churns.Stream(seed, tokens, hidden, dtype=dtype)
    folder.mkdir(parents=True, exist_ok=True)
    with record.lock(folder):
        runner.note_start(folder, churns.environment(folder) | {"stream": asdict(stream)})
        started = time.monotonic()
        rows, shapes = churns.run(chosen, stream, folder, only=tuple(only or ()), on_journal=tell)
        runner.note_end(folder, seconds=round(time.monotonic() - started, 1))
    typer.echo(churns.text(rows, shapes))
    typer.echo(folder)
