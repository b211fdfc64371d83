"""Captures one steady-state step of a contender with torch.profiler, in a process of its own.

The step is profiled after the contender was prepared and ran a few times, and after the profiler
warmed up too: both compile, allocate and load at first. It ends with a synchronisation, so that
all its GPU work is in the trace, and it starts with an idle GPU.
"""

import gzip
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import arena, contender, runner
from lab.contender import Entry, Unsupported
from lab.experiment import Experiment
from lab.problem import Problem
from lab.runner import BadChoice, Choice
from lab.trace_usage import is_step
from lab.worker import Died, Worker

_WARM_CALLS = 3
_PROFILER_WARM_UP = 2  # steps
_RECORDED = 2  # steps, of which the last is kept: the first pays for the profiler's own start
_LIMIT_S = 900.0  # for one contender at one stage
_PRIVATE = ("host_name", "traceName", "trace_id")  # of the machine, not of the kernel


@dataclass(frozen=True)
class Captured:
    """One contender's trace on one problem: `path`, or else the one-line `reason` for none."""

    problem: Problem
    contender: str
    path: Path | None = None
    reason: str = ""


def capture(
    experiment: Experiment,
    out: Path,
    *,
    choice: Choice,
    problems: tuple[str, ...] = (),
    on_journal: Callable[[str, str], None] = lambda name, stage: None,
) -> Iterator[Captured]:
    """Writes `<problem>.<contender>.json.gz` into `out`, one at a time, as Perfetto opens them.

    `problems` are parts of problems as they are printed ("8192x768"); all race without any. With
    `choice.only` nobody else is traced, not even the baseline. On a machine without a GPU the
    experiment's smaller problems are traced, on the host alone.

    Raises:
        BadChoice: no such contender, or no problem that contains one of `problems`.
        BadContender: a contender's file that can't be used.
        Died: the first process can't start.
        OSError: `out` can't be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    log = out / "worker.log"
    worker = Worker(log)
    try:
        gpu = worker.call(has_gpu, limit=_LIMIT_S, on_journal=on_journal)
        steps = runner.plan([experiment], choice, gpu)
        chosen = [s for s in steps if not problems or any(p in str(s.problem) for p in problems)]
        if not chosen:
            there = ", ".join(f"'{s.problem}'" for s in steps)
            raise BadChoice(f"no problem contains {' or '.join(problems)}; there are {there}")
        for step in chosen:
            fresh = True
            for entry in _traced(step.entries, choice):
                path = out / f"{slug(str(step.problem))}.{slug(entry.name)}.json.gz"
                path.unlink(missing_ok=True)  # a failure must not leave an older trace
                worker = worker or Worker(log)
                task = (step.problem, entry, path, fresh)
                fresh = False
                try:
                    why = worker.call(record, *task, limit=_LIMIT_S, on_journal=on_journal)
                except Died as death:
                    worker, why = None, f"{death.status}: {death} (see {log})"
                yield Captured(step.problem, entry.name, None if why else path, why)
    finally:
        if worker:
            worker.close()


def slug(text: str) -> str:
    """The text as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.@]+", "-", text)


def _traced(entries: tuple[Entry, ...], choice: Choice) -> list[Entry]:
    """Those asked for, without the baseline's twin."""
    return [
        entry
        for entry in entries
        if not entry.name.endswith(".aa")
        and (not choice.only or entry.name.split("@")[0] in choice.only)
    ]


# In the child


def has_gpu(*, journal: Callable[[str, str], None]) -> bool:
    import torch

    journal("", "start")
    return torch.cuda.is_available()


def record(
    problem: Problem,
    entry: Entry,
    path: Path,
    fresh: bool,
    *,
    journal: Callable[[str, str], None],
) -> str:
    """Traces one contender into `path`; returns why it can't be, or nothing.

    `fresh` marks a problem's first contender: Dynamo is reset, so that the shape is the first
    one it sees and is compiled as static.

    Raises:
        DeviceLost: a fault killed the CUDA context.
    """
    import torch

    journal(entry.name, "prepare")
    if fresh and "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
    try:
        with torch.no_grad():
            return _record(problem, entry, path, journal)
    except Unsupported as why:
        return f"unsupported: {why}"
    except (Exception, SystemExit) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        if torch.cuda.is_available():
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                raise arena.DeviceLost(why) from None
        return why


def _record(problem: Problem, entry: Entry, path: Path, journal) -> str:
    import torch

    gpu = torch.cuda.is_available()
    if not gpu:  # Inductor's C++ kernels are operators of the trace only when asked for
        from torch._inductor import config

        config.cpp.enable_kernel_profile = True
    inputs = problem.inputs("cuda" if gpu else "cpu")
    launch = contender.load(entry.path).prepare(problem, inputs, tile=entry.tile)
    if launch.bind is None:
        return "compiled for a GPU that this machine doesn't have"
    if not gpu and arena.interpreted(entry.path):
        return "runs in Triton's interpreter here, which says nothing of the kernel"
    fn = launch.bind(inputs)
    journal(entry.name, "profile")
    document = _profiled(fn, gpu)
    lab = {"problem": str(problem), "contender": entry.name, "tile": str(launch.tile or "")}
    document = {"lab": lab} | {k: v for k, v in document.items() if k not in _PRIVATE}
    # No time in the gzip header: the same trace is the same file.
    path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))
    return ""


def _profiled(fn: Callable[[], Any], gpu: bool) -> dict:
    """The Chrome trace of one call of `fn`, as torch.profiler exports it, as a document."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    def step():
        fn()
        if gpu:
            torch.cuda.synchronize()

    for _ in range(_WARM_CALLS):
        step()
    phases = schedule(wait=0, warmup=_PROFILER_WARM_UP, active=_RECORDED, repeat=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with profile(
            activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * gpu,
            schedule=phases,
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        ) as profiler:
            for _ in range(_PROFILER_WARM_UP + _RECORDED):
                step()
                profiler.step()
        document = json.loads(path.read_bytes())
    events = document["traceEvents"]
    # Each step ended with a synchronisation, so a moment parts the work of one from the next.
    last = max(e["ts"] for e in events if e.get("cat") == "user_annotation" and is_step(e["name"]))
    kept = [e for e in events if e["ph"] == "M" or e["ts"] >= last]
    return document | {"traceEvents": kept}
