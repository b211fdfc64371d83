"""What ran: one launch of every contender under torch.profiler, in a process of its own."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import arena, contender
from lab.contender import Entry
from lab.problem import Problem
from lab.trace import GpuEvent, read

_WARM_CALLS = 3
_RECORDED = 2  # calls of each, of which the last is kept: the first pays for the profiler's start
_MARK = "lab: "
_APART_S = 2e-4  # between marked calls; the host's and the GPU's clock agree to some µs


def profile_problem(
    problem: Problem, entries: tuple[Entry, ...], journal: Callable[[str, str], None]
) -> tuple[dict[str, list[GpuEvent]], dict[str, str]]:
    """What one call of each contender puts on the GPU, and why where that isn't known.

    The entries carry the tiles that were timed, so nothing is tuned again. To be run in a
    process of its own, after all timing of the problem.
    """
    import torch

    fns, failures = {}, {}
    arena.reset_dynamo()
    try:
        with torch.no_grad():
            journal("", "inputs")
            inputs = problem.inputs("cuda")
            for entry in entries:
                journal(entry.name, "profile")
                try:
                    loaded = contender.load(entry.path)
                    tile = entry.tile if loaded.tiles else None
                    fns[entry.name] = loaded.prepare(problem, inputs, tile=tile).bind(inputs)
                except Exception as error:
                    failures[entry.name] = f"{type(error).__name__}: {error}"
            events, why_not = profile_once(fns)
        return events, failures | why_not
    finally:
        fns.clear()
        arena.release()


def profile_once(
    fns: dict[str, Callable[[], Any]],
) -> tuple[dict[str, list[GpuEvent]], dict[str, str]]:
    """What one launch of each bound contender puts on the GPU, and why where that isn't known.

    Each `fn` runs several times, warm; of the last call the kernels, memsets and memcpys come
    back in order of their start, with name, µs, grid, block, registers per thread and shared
    memory per CTA. A contender is in exactly one of the two results. To be called in a process
    of its own, after all timing: an attached profiler changes graphs. Without a GPU every list
    is empty.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    gpu = torch.cuda.is_available()
    ready, failures = {}, {}
    for name, fn in fns.items():
        try:
            for _ in range(_WARM_CALLS):
                fn()
                if gpu:
                    torch.cuda.synchronize()
            ready[name] = fn
        except Exception as error:
            failures[name] = " ".join(f"{type(error).__name__}: {error}".split())
    if not gpu:
        return {name: [] for name in ready}, failures
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(_RECORDED):
                for name, fn in ready.items():
                    time.sleep(_APART_S)
                    with record_function(_MARK + name):
                        fn()
                        torch.cuda.synchronize()
        profiler.export_chrome_trace(str(path))
        trace = read(path)
    events = {}
    for node in trace.nodes():  # in order of start: a contender's last call is kept
        if node.name.startswith(_MARK):
            # By time, not by launch call: a kernel launched past torch has none in its tree.
            within = (node.start_us - _APART_S * 5e5, node.end_us + _APART_S * 5e5)
            found = [e for e in trace.gpu if within[0] <= e.start_us and e.end_us <= within[1]]
            events[node.name.removeprefix(_MARK)] = found
    for name in ready:
        if not events.get(name):
            events.pop(name, None)
            failures[name] = (
                "the profiler saw no GPU work: is another profiler attached, "
                "or are performance counters forbidden?"
            )
    return events, failures
