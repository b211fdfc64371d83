"""Rows, and the files they are kept in: the only writer of results/.

A run's folder holds `run.json`, `<experiment>.csv`, `samples/<experiment>.csv.gz` and, where some
contender launches several kernels, `<experiment>.kernels.csv`. A problem's rows are written
together in one flushed append; replacing them is atomic. results/README.md explains every column.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab import files
from lab.problem import Problem
from lab.tile import Tile

RESULTS = Path(__file__).resolve().parent.parent / "results"
RUNS = RESULTS / "runs"
STATUSES = (
    "ok",
    "verified",
    "compiled",
    "wrong",
    "unsupported",
    "oom",
    "timeout",
    "crashed",
    "error",
)


class BadRun(Exception):
    """A run folder or file that can't be used; the message names it and the fix."""


@dataclass
class Row:
    """One contender on one problem. The order of the fields is the CSV's header."""

    run_id: str
    experiment: str
    op: str
    m: int
    n: int
    k: int | None
    layout: str | None
    dtype: str
    activation: str | None
    seed: int
    contender: str
    source: str | None
    status: str
    reason: str | None = None
    err: float | None = None
    err_baseline: float | None = None
    us: float | None = None
    us_lo: float | None = None
    us_hi: float | None = None
    us_p10: float | None = None
    us_p90: float | None = None
    samples: int | None = None
    clock: str | None = None
    warm_us: float | None = None
    eager_us: float | None = None
    tflops: float | None = None
    gbps: float | None = None
    pct_roofline: float | None = None
    speedup: float | None = None
    speedup_lo: float | None = None
    speedup_hi: float | None = None
    best: bool | None = None
    tile: str | None = None
    tile_from: str | None = None
    block_m: int | None = None
    block_n: int | None = None
    block_k: int | None = None
    stages: int | None = None
    warps: int | None = None
    cluster: str | None = None
    schedule: str | None = None
    scheduler: str | None = None
    raster: str | None = None
    swizzle: int | None = None
    split_k: int | None = None
    swap: bool | None = None
    epilogue: str | None = None
    kernel: str | None = None
    kernels: int | None = None
    memops: int | None = None
    regs: int | None = None
    spill_bytes: int | None = None
    smem_bytes: int | None = None
    waves: float | None = None
    sm_mhz: int | None = None
    power_w: float | None = None
    throttled: str | None = None
    prepare_s: float | None = None
    device: str | None = None
    torch: str | None = None
    triton: str | None = None
    cutlass: str | None = None
    commit: str | None = None

    @classmethod
    def of(cls, problem: Problem, **fields) -> "Row":
        return cls(**{f.name: getattr(problem, f.name) for f in _PROBLEM}, **fields)

    @property
    def problem(self) -> Problem:
        return Problem(**{f.name: getattr(self, f.name) for f in _PROBLEM})

    def set_tile(self, tile: Tile | None, tile_from: str | None) -> None:
        """Fills `tile`, `tile_from` and the columns of the tile's own fields."""
        if tile is None:
            return
        self.tile, self.tile_from = str(tile), tile_from
        for f in dataclasses.fields(Tile):
            setattr(self, f.name, getattr(tile, f.name))


@dataclass(frozen=True)
class Sample:
    """One raw sample: which clock, which round, its contender's place in the round, and µs."""

    contender: str
    clock: str  # cold, warm or eager
    round: int
    order: int
    us: float


@dataclass(frozen=True)
class Kernel:
    """One kernel of a contender that launches several: its place, name, µs and tile."""

    contender: str
    position: int
    name: str
    us: float
    tile: str | None


_PROBLEM = dataclasses.fields(Problem)
_KEY = tuple(f.name for f in _PROBLEM)
_TYPES = {
    name: next(t for t in (*typing.get_args(hint), hint) if t is not type(None))
    for name, hint in typing.get_type_hints(Row).items()
}
HEADER = tuple(_TYPES)
SAMPLE_HEADER = _KEY + tuple(f.name for f in dataclasses.fields(Sample))
KERNEL_HEADER = _KEY + tuple(f.name for f in dataclasses.fields(Kernel))


class Table:
    """One experiment's files in a run's folder: its CSV, and beside it samples and kernels."""

    def __init__(self, run: Path, experiment: str):
        self.csv = run / f"{experiment}.csv"
        self.samples = run / "samples" / f"{experiment}.csv.gz"
        self.kernels = run / f"{experiment}.kernels.csv"

    def rows(self) -> list[Row]:
        return read(self.csv) if self.csv.exists() else []

    def repair(self) -> None:
        """Makes files that a crash cut in half whole again: call it once before writing.

        What goes is the torn end, and samples and kernels whose rows were never written.
        """
        if self.csv.exists() and not self.csv.read_bytes().endswith(b"\n"):
            files.replace(self.csv, files.read(self.csv))
        have = {_key(row.problem) for row in self.rows()}
        for path, header in self._details():
            if lines := files.read(path):
                kept = [line for line in lines[1:] if tuple(line[: len(_KEY)]) in have]
                files.replace(path, [header, *kept])

    def write(
        self,
        problem: Problem,
        rows: list[Row],
        samples: list[Sample] = (),
        kernels: list[Kernel] = (),
    ) -> None:
        """Puts a problem's rows and their details in place of whatever the files hold of it.

        Raises:
            OSError: no permission, or the disk is full; rows already written are untouched.
        """
        key = _key(problem)
        again = any(row.problem == problem for row in self.rows())
        for (path, header), details in zip(self._details(), (samples, kernels), strict=True):
            new = [[*key, *map(text, dataclasses.astuple(detail))] for detail in details]
            if again and (lines := files.read(path)):
                files.replace(path, [r for r in lines if tuple(r[: len(key)]) != key] + new)
            elif new:
                path.parent.mkdir(parents=True, exist_ok=True)
                files.append(path, header, new)
        new = [[text(value) for value in dataclasses.astuple(row)] for row in rows]
        if again:
            key_at = slice(HEADER.index(_KEY[0]), HEADER.index(_KEY[0]) + len(_KEY))
            left = [line for line in files.read(self.csv) if tuple(line[key_at]) != key]
            files.replace(self.csv, left + new)
        else:
            files.append(self.csv, HEADER, new)

    def _details(self):
        return ((self.samples, SAMPLE_HEADER), (self.kernels, KERNEL_HEADER))


def experiments(run: Path) -> list[str]:
    """The names of the experiments that a run's folder holds."""
    return sorted(p.stem for p in run.glob("*.csv") if not p.name.endswith(".kernels.csv"))


def read(path: Path) -> list[Row]:
    """The rows of a CSV; a last line that a crash cut in half is left out.

    Raises:
        BadRun: the file isn't there or its header isn't ours.
    """
    lines = files.read(path)
    if lines is None:
        raise BadRun(f"{path}: no such file; `lab sweep` makes one")
    if not lines:
        return []
    header, *body = lines
    if tuple(header) != HEADER:
        raise BadRun(f"{path}: its columns are not this version's; sweep again into a new folder")
    try:
        return [
            Row(**{n: _value(n, text) for n, text in zip(HEADER, r, strict=True)}) for r in body
        ]
    except ValueError as error:
        raise BadRun(f"{path}: a value can't be read ({error}); move the file away") from error


def latest() -> Path:
    """The newest of the user's own runs.

    Raises:
        BadRun: there is none.
    """
    link = RUNS / "latest"
    if not link.exists():
        raise BadRun("there is no run yet; `make sweep` makes one")
    return link.resolve()


def point_latest(run: Path) -> None:
    """Makes `runs/latest` name this run, when it is one of the user's own."""
    if run.resolve().parent == RUNS.resolve():
        link = RUNS / f".latest-{os.getpid()}"
        link.symlink_to(run.name)
        link.replace(RUNS / "latest")


@contextlib.contextmanager
def lock(run: Path) -> Iterator[None]:
    """Holds the run's folder against a second command that would write there.

    Raises:
        BadRun: another process holds it.
    """
    with open(run / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRun(
                f"{run}: another command is writing here; wait for it, or give --out another folder"
            ) from None
        yield


def write_json(path: Path, value: dict) -> None:
    files.replace_bytes(path, (json.dumps(value, indent=1) + "\n").encode())


def read_json(path: Path) -> dict:
    """
    Raises:
        BadRun: the file isn't there or isn't JSON.
    """
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise BadRun(f"{path}: no such file; is {path.parent} a run's folder?") from None
    except ValueError as error:
        raise BadRun(f"{path}: not JSON ({error})") from None


def _key(problem: Problem) -> tuple[str, ...]:
    return tuple(text(getattr(problem, name)) for name in _KEY)


def text(value) -> str:
    """A value as it stands in a cell; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(value).split())  # one row is one line, so that a torn one can be told


def _value(name: str, text: str):
    if text == "":
        return None
    kind = _TYPES[name]
    return text == "1" if kind is bool else kind(text)
