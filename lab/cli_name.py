"""`lab name`: what kernel names say. One name, two to compare, or a file of them."""

import csv
import io
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from tabulate import tabulate

from lab.kernel_names import KernelName, parse

_FIELDS = [f.name for f in fields(KernelName) if f.name != "raw"]


class BadNames(ValueError):
    """The names can't be read; the message says why in one line."""


def name(
    names: Annotated[
        list[str] | None, typer.Argument(help="One name, or two to compare.", metavar="NAME…")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="One name a line, or a table with a `name` column, by tabs or commas."),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="CSV, all fields, instead of text.")
    ] = False,
) -> None:
    """Says what a kernel's name tells: types, tile, stages, layout, what is fused."""
    try:
        chosen = _chosen(names or [], file)
    except BadNames as why:
        print(f"lab name: {why}", file=sys.stderr)
        raise typer.Exit(2) from None
    parsed = [parse(text) for text in chosen]
    if as_csv:
        text = as_table(parsed)
    elif file is not None or len(parsed) > 2:
        text = overview(parsed)
    else:
        text = describe(parsed[0]) if len(parsed) == 1 else compare(*parsed)
    print(text.rstrip("\n"))


def _chosen(names: list[str], file: Path | None) -> list[str]:
    if bool(names) == (file is not None):
        raise BadNames("give either kernel names or --file FILE, with one name a line")
    names = read(file) if file is not None else names
    if not any(text.strip() for text in names):
        raise BadNames("the name is empty" if file is None else f"{file}: holds no kernel name")
    return names


def read(file: Path) -> list[str]:
    """The names in a file: its `name` column where the first line has one, else its lines.

    Raises:
        BadNames: the file can't be read, or isn't text.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise BadNames(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadNames(f"{file}: is not a text file; give one kernel name a line") from None
    lines = [line for line in lines if line.strip()]
    header = lines[0] if lines else ""
    for delimiter, quoting in (("\t", csv.QUOTE_NONE), (",", csv.QUOTE_MINIMAL)):
        if "name" in header.split(delimiter):
            rows = csv.DictReader(lines, delimiter=delimiter, quoting=quoting)
            try:
                return [text for row in rows if (text := row["name"])]
            except csv.Error as error:
                raise BadNames(f"{file}: {error}") from None
    return lines


def _shown(value: object) -> str:
    """A field's value as text; tuples are joined by spaces."""
    if isinstance(value, tuple):
        return " ".join(value)
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _said(kernel: KernelName) -> dict[str, str]:
    said = {field: _shown(value) for field, value in kernel.known().items()}
    tile = kernel.tile()
    return said | ({"tile": str(tile)} if tile else {})


def describe(kernel: KernelName) -> str:
    """The fields that are known, one a line; `tile` has them in the lab's words."""
    return tabulate(_said(kernel).items(), tablefmt="plain", disable_numparse=True)


def compare(one: KernelName, other: KernelName) -> str:
    """What two names have in common, and what differs; `-` where one doesn't say."""
    a, b = _said(one), _said(other)
    order = [field for field in (*_FIELDS, "tile") if field in a or field in b]
    same = [(field, a[field]) for field in order if a.get(field) == b.get(field)]
    differs = [
        (field, a.get(field, "-"), b.get(field, "-"))
        for field in order
        if a.get(field) != b.get(field)
    ]
    parts = []
    for title, rows in (("same", same), ("differs", differs)):
        body = tabulate(rows, tablefmt="plain", disable_numparse=True) if rows else "nothing"
        parts.append(f"{title}\n" + "\n".join("  " + line for line in body.splitlines()))
    return "\n\n".join(parts)


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def overview(kernels: Iterable[KernelName]) -> str:
    """A table of the fields that matter most, one kernel a row; what is too long is clipped."""
    columns = ("family", "operation", "a", "out", "accumulator", "layout", "arch")
    rows = []
    for kernel in kernels:
        said = _said(kernel)
        what = said.get("tile") or said.get("ops") or said.get("functor") or ""
        name = _clip(" ".join(kernel.raw.split()), 60)
        rows.append(
            [name, *(_clip(said.get(column, ""), 24) for column in columns), _clip(what, 60)]
        )
    headers = ["name", *columns, "tile, ops or functor"]
    return tabulate(rows, headers=headers, disable_numparse=True)


def as_table(kernels: Iterable[KernelName]) -> str:
    """CSV: name, every field, tile. Unknown fields are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, ["name", *_FIELDS, "tile"], lineterminator="\n")
    writer.writeheader()
    for kernel in kernels:
        writer.writerow({"name": kernel.raw} | _said(kernel))
    return out.getvalue()
