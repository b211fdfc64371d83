"""`lab churn`: what changing shapes cost, for compilers and for handwritten kernels.

A seeded stream of requests runs through one contender at a time, each in a fresh process with
empty Triton and Inductor caches. First the number of tokens varies, then the hidden size; within
each phase every shape comes several times, in shuffled order. A request's time is the host's, from
the call to the synchronised result, with everything that a new shape makes the contender do in it:
tracing, compiling, tuning, preparing. Its inputs are made before. CUDA and cuBLAS are started
before the first request; the compiler is not.

`inductor_*` is torch.compile of the op's formula, with dynamic=False (static), None (automatic:
static first, dynamic from the second shape on) and True, without fullgraph, so that Dynamo's
recompile limit shows as it does for users: it goes on in eager, with no more than a log line.

When compiling pays: a contender whose first call of a shape takes f and whose later ones take c
(their median) has spent f + (N − 1) c after N calls; eager, at e a call, N e. So it pays from

    N = ⌈(f − c) / (e − c)⌉  where c < e (1 where f ≤ e), and never where c ≥ e.

f holds what was compiled during that very call. A shape that an earlier shape's kernel serves
pays at once; that kernel's price stands with the shape that paid it.
"""

import contextlib
import dataclasses
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tabulate import tabulate

from lab import check, contender, device, files, record
from lab.contender import KERNELS, Unsupported
from lab.problem import Problem
from lab.worker import Died, Worker

OPS = ("geglu", "mlp")
DYNAMIC = {"inductor_static": False, "inductor_auto": None, "inductor_dynamic": True}
HANDWRITTEN = {"geglu": ("liger", "triton"), "mlp": ("liger", "stacked")}  # files in kernels/<op>
_LIMIT_S = 600.0  # for one shape
_ERRORS = 4  # unit roundoffs: a few roundings, far below a wrong kernel


@dataclass(frozen=True)
class Call:
    """One request: its shape, its time, and whether the shape was new."""

    problem: Problem
    us: float
    first: bool


@dataclass
class Row:
    """One contender's way through the stream. The order of the fields is churn.csv's header."""

    op: str
    contender: str
    dtype: str | None
    status: str = "ok"
    reason: str | None = None
    shapes: int | None = None
    calls: int | None = None
    graphs: int | None = None
    recompiles: int | None = None
    graph_breaks: int | None = None
    gave_up_at: int | None = None
    kernels: int | None = None
    kernels_later: int | None = None
    first_us: float | None = None
    total_us: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    max_us: float | None = None
    device: str | None = None
    torch: str | None = None
    triton: str | None = None


@dataclass
class ShapeRow:
    """One contender on one shape. The order of the fields is churn.shapes.csv's header."""

    op: str
    contender: str
    dtype: str
    m: int
    n: int
    k: int | None
    first_us: float
    later_us: float
    eager_us: float | None
    calls_to_pay: int | None


@dataclass(frozen=True)
class Stream:
    """What the requests are drawn from: distinct shapes in each phase, and how often each comes."""

    seed: int = 0
    tokens: int = 32
    hidden: int = 16
    repeats: int = 6
    dtype: str | None = None  # bf16 on a GPU, else fp32

    def requests(self, op: str, gpu: bool) -> list[Problem]:
        """In the order they come; smaller ones without a GPU."""
        rng = random.Random(f"{op} {self.seed}")
        dtype = self.dtype or ("bf16" if gpu else "fp32")
        most, unit = (8192, 64) if gpu else (256, 16)
        n, k = (3072, 768) if gpu else (256, 64)

        def problem(m, n, k):
            if op == "geglu":
                return Problem(op, m, n, dtype=dtype, activation="tanh")
            return Problem(op, m, n, k, "tn", dtype, "tanh")

        def distinct(count, low, high):  # uniform in the logarithm
            found: dict[int, None] = {}
            while len(found) < count:
                found[round(low * (high / low) ** rng.random())] = None
            return list(found)

        phases = [[problem(m, n, k) for m in distinct(self.tokens, 1, most)]]
        if op == "geglu":
            phases.append(
                [problem(most // 8, n, None) for n in distinct(self.hidden, n // 4, 4 * n)]
            )
        else:
            sizes = [unit * size for size in distinct(self.hidden, 4, 64)]
            phases.append([problem(most // 8, 4 * k, k) for k in sizes])
        order = []
        for shapes in phases:
            order += rng.sample(shapes * self.repeats, len(shapes) * self.repeats)
        return order


def environment(out: Path) -> dict:
    """What run.json says of this machine, asked in a process of its own.

    Raises:
        Died: that process can't start.
    """
    worker = Worker(out / "worker.log")
    try:
        return {"facts": worker.call(_facts, limit=60, on_journal=lambda *_: None)}
    finally:
        worker.close()


def contenders(op: str) -> tuple[str, ...]:
    return ("eager", *DYNAMIC, *HANDWRITTEN[op])


def run(
    ops: tuple[str, ...],
    stream: Stream,
    out: Path,
    *,
    only: tuple[str, ...] = (),
    on_journal: Callable[[str, str], None],
) -> tuple[list[Row], list[ShapeRow]]:
    """Runs each op's stream through each contender, or `only` those and eager.

    A contender's rows are written when it is done, so an interruption loses no more than one.

    Raises:
        OSError: `out` can't be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    log = out / "worker.log"
    rows, shape_rows = [], []
    for op in ops:
        eager: dict[Problem, float] = {}
        for name in contenders(op):
            if only and name not in only and name != "eager":
                continue
            row, calls = _in_fresh_process(op, name, stream, log, on_journal)
            rows.append(row)
            later = {p: _later(calls, p) for p in dict.fromkeys(c.problem for c in calls)}
            if name == "eager":
                eager = later
            firsts = {c.problem: c.us for c in calls if c.first}
            made = [
                ShapeRow(
                    *(op, name, row.dtype, p.m, p.n, p.k),
                    *(firsts[p], later[p], eager.get(p)),
                    None if name == "eager" else calls_to_pay(firsts[p], later[p], eager.get(p)),
                )
                for p in later
            ]
            shape_rows += made
            _append(out / "churn.csv", Row, [row])
            _append(out / "churn.shapes.csv", ShapeRow, made)
    return rows, shape_rows


def calls_to_pay(first_us: float, later_us: float, eager_us: float | None) -> int | None:
    """After how many calls of a shape its first one has paid; None for never, or not known."""
    if eager_us is None:
        return None
    if first_us <= eager_us:
        return 1
    return math.ceil((first_us - later_us) / (eager_us - later_us)) if later_us < eager_us else None


def text(rows: list[Row], shape_rows: list[ShapeRow]) -> str:
    """Both tables' digest: the contenders, and after how many calls of a shape each pays."""
    headers = ("op", "contender", "status", "graphs", "recompiles", "gave up at call", "kernels")
    headers += ("of these later", "first ms", "total s", "p50 µs", "p99 µs", "max ms", "pays after")
    lines = []
    for r in rows:
        counts = [r.graphs, r.recompiles, r.gave_up_at, r.kernels, r.kernels_later]
        times = [None] * 5
        if r.calls:
            times = [r.first_us / 1e3, r.total_us / 1e6, r.p50_us, r.p99_us, r.max_us / 1e3]
        own = [s for s in shape_rows if (s.op, s.contender) == (r.op, r.contender)]
        pays = sorted(s.calls_to_pay for s in own if s.calls_to_pay)
        told = ""
        if own and r.contender != "eager":
            told = f"{len(pays)} of {len(own)} shapes"
            told += f", median {statistics.median_low(pays)} calls" if pays else ""
        lines.append([r.op, r.contender, r.status, *counts, *times, told])
    table = tabulate(lines, headers, floatfmt=".1f")
    return "\n".join([table, *(f"{r.op} {r.contender}: {r.reason}" for r in rows if r.reason)])


# In the child


def _facts(*, journal: Callable[[str, str], None]) -> dict:
    journal("", "start")
    return device.describe()


def ride(
    op: str, name: str, stream: Stream, *, journal: Callable[[str, str], None]
) -> tuple[Row, list[Call]]:
    """The whole stream through one contender, in this process."""
    import torch

    gpu = device.current()
    requests = stream.requests(op, gpu is not None)
    facts = device.describe()
    row = Row(op, name, requests[0].dtype, device=facts["device"], torch=facts["torch"])
    row.triton = facts["triton"]
    try:
        with torch.no_grad(), _counting() as count:
            _start(gpu)
            calls = list(_calls(_request(op, name), requests, count, row, journal, name))
    except Unsupported as why:
        row.status, row.reason = "unsupported", str(why)
        return row, []
    except Exception as error:
        row.status, row.reason = "error", " ".join(f"{type(error).__name__}: {error}".split())
        return row, []
    times = np.array([call.us for call in calls])
    row.shapes, row.calls = len({call.problem for call in calls}), len(calls)
    row.first_us, row.total_us = float(times[0]), float(times.sum())
    row.p50_us, row.p99_us = (float(q) for q in np.quantile(times, [0.5, 0.99]))
    row.max_us = float(times.max())
    return row, calls


def _calls(request, requests, count, row: Row, journal, name: str) -> Iterator[Call]:
    import torch

    where = "cuda" if torch.cuda.is_available() else "cpu"
    seen: set[Problem] = set()
    for index, problem in enumerate(requests, 1):
        journal(name, str(problem))
        inputs = problem.inputs(where, draw=index)
        _synchronize()
        start = time.perf_counter_ns()
        out = request(problem, inputs)
        _synchronize()
        us = (time.perf_counter_ns() - start) / 1e3
        first = problem not in seen
        seen.add(problem)
        if first:
            expected = problem.reference(inputs, "float32")
            error = float((out.to(expected.dtype) - expected).norm() / expected.norm())
            if not error <= _ERRORS * check.ROUNDOFF[problem.dtype]:
                raise RuntimeError(f"{problem}: error {error:.3g} of the norm")
        count.after(index, row)
        yield Call(problem, us, first)


def _request(op: str, name: str) -> Callable:
    """request(problem, inputs) -> output, as a caller would make it."""
    import torch
    import torch.nn.functional as F

    def geglu(gate, up):
        return F.gelu(gate, approximate="tanh") * up

    def mlp(x, wg, wu, wd):
        return F.linear(geglu(F.linear(x, wg), F.linear(x, wu)), wd)

    formula = {"geglu": geglu, "mlp": mlp}[op]
    if name in DYNAMIC:
        formula = torch.compile(formula, dynamic=DYNAMIC[name])
    if name in DYNAMIC or name == "eager":
        return lambda problem, inputs: formula(*inputs.values())
    if device.current() is None:
        raise Unsupported("needs a CUDA GPU: Triton's interpreter compiles nothing")
    prepare = contender.load(KERNELS / op / f"{name}.py").prepare
    ready = {}

    def request(problem, inputs):
        if problem not in ready:
            ready[problem] = prepare(problem, inputs)
        return ready[problem].bind(inputs)()

    return request


class _Count:
    """Reads Dynamo's, Inductor's and Triton's own counters into a row, after every call."""

    def __init__(self):
        self.triton = 0  # compilations by the JIT in this process, heard by its hook

    def after(self, index: int, row: Row) -> None:
        kernels = self.triton
        if "torch._dynamo.utils" in sys.modules and row.contender in DYNAMIC:
            from torch._dynamo.utils import counters, get_compilation_metrics
            from torch._inductor import metrics

            frames = counters["frames"]
            row.graphs = counters["stats"]["unique_graphs"]
            row.recompiles = sum(
                bool(m.recompile_reason) and not m.fail_type for m in get_compilation_metrics()
            )
            row.graph_breaks = sum(counters["graph_break"].values())
            if frames["total"] > frames["ok"] and row.gave_up_at is None:
                row.gave_up_at = index  # a frame that wasn't compiled runs in eager from here on
            kernels = metrics.generated_kernel_count
        row.kernels_later = 0 if index == 1 else row.kernels_later + kernels - row.kernels
        row.kernels = kernels


@contextlib.contextmanager
def _counting() -> Iterator[_Count]:
    import triton

    count, hooks = _Count(), triton.knobs.runtime
    before = hooks.jit_post_compile_hook

    def heard(**_):
        count.triton += 1

    hooks.jit_post_compile_hook = heard
    try:
        yield count
    finally:
        hooks.jit_post_compile_hook = before


def _start(gpu) -> None:
    """CUDA's context and cuBLAS' handle belong to no contender."""
    import torch

    if gpu:
        t = torch.ones(64, 64, device="cuda", dtype=torch.bfloat16)
        torch.mm(t, t)
        _synchronize()


def _synchronize() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


# In the parent


def _in_fresh_process(
    op: str, name: str, stream: Stream, log: Path, on_journal
) -> tuple[Row, list[Call]]:
    with (
        tempfile.TemporaryDirectory() as caches,
        _environment(
            TRITON_CACHE_DIR=f"{caches}/triton", TORCHINDUCTOR_CACHE_DIR=f"{caches}/inductor"
        ),
    ):
        worker = Worker(log)
        try:
            return worker.call(ride, op, name, stream, limit=_LIMIT_S, on_journal=on_journal)
        except Died as death:
            return Row(op, name, None, death.status, f"{death} (see {log.name})"), []
        finally:
            worker.close()


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """The environment that a child started within gets."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _later(calls: list[Call], problem: Problem) -> float:
    return statistics.median(c.us for c in calls if c.problem == problem and not c.first)


def _append(path: Path, kind: type, rows: list) -> None:
    header = [f.name for f in dataclasses.fields(kind)]
    files.append(path, header, [map(record.text, dataclasses.astuple(row)) for row in rows])
