"""`lab guess`: runs one traced step per setup of an experiment and holds it to its expectations.

Every setup is run in a child process: prepared once, called with fresh data, then traced. Dynamo
is reset before each, so that no contender finds another's graph.
"""

import functools
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import arena, contender, device, trace, trace_capture
from lab.contender import Entry, Unsupported
from lab.expect import BadExpectation, Claim, Finding, Setup
from lab.experiment import Experiment
from lab.problem import Problem
from lab.seen import Counters, Seen
from lab.trace_show import compile_role
from lab.worker import Died, Worker

_LIMIT_S = 900.0  # for one contender at one stage
_CALLS = 4  # with fresh data each, to see whether anything compiles again


@dataclass(frozen=True)
class Batched(Problem):
    """A problem whose x is [batch, m / batch, k]: contenders of PyTorch's ops take it as it is."""

    batch: int = 1

    def inputs(self, device: str, draw: int = 0):
        made = super().inputs(device, draw)
        return made | {"x": made["x"].view(self.batch, -1, self.k)}

    def __str__(self) -> str:
        return f"{super().__str__()} x[{self.batch}, {self.m // self.batch}, {self.k}]"


@dataclass(frozen=True)
class Judged:
    """One setup with what was seen of it (None where it didn't run, for `reason`)."""

    setup: Setup
    problem: Problem
    seen: Seen | None
    reason: str
    findings: tuple[tuple[Claim, Finding], ...]

    @property
    def missed(self) -> int:
        return sum(finding.verdict == "missed" for _, finding in self.findings)


@dataclass(frozen=True)
class Report:
    """All setups of an experiment, judged; `facts` are device.describe() where they ran."""

    experiment: Experiment
    judged: tuple[Judged, ...]
    facts: Mapping[str, object]

    def count(self, verdict: str) -> int:
        return sum(f.verdict == verdict for one in self.judged for _, f in one.findings)


def validate(experiment: Experiment) -> None:
    """Checks what an experiment's setups name against what there is.

    Raises:
        BadExpectation: there are none, two share a name, or one names what there is not.
        BadContender: a contender's file that can't be used.
    """
    if not experiment.expectations:
        raise BadExpectation(f"{experiment.name} declares no expectations")
    seen = set()
    for setup in experiment.expectations:
        if not isinstance(setup, Setup):
            raise BadExpectation(f"{experiment.name}: {setup!r} is not a Setup")
        if setup.name in seen:
            raise BadExpectation(f"two setups are named {setup.name!r}; rename one")
        seen.add(setup.name)
        there = _contenders(setup.problem.op)
        for name in setup.contenders:
            if name not in there:
                raise BadExpectation(
                    f"{setup.name}: no contender {name!r} of {setup.problem.op}; "
                    f"there are {', '.join(there)}"
                )
        for claim in setup.claims:
            for name in claim.names:
                if why := _no_such_op(name, name in claim.absent):
                    raise BadExpectation(f"{setup.name}: '{claim.text}': {why}")


def run(experiment: Experiment, out: Path, on_journal: Callable[[str, str], None]) -> Report:
    """Runs and judges every setup; traces go to `out`/traces.

    Raises:
        BadExpectation, BadContender: as `validate`.
        Died: the first process can't start.
        OSError: `out` can't be written.
    """
    validate(experiment)
    traces = out / "traces"
    traces.mkdir(parents=True, exist_ok=True)
    log = out / "worker.log"
    with tempfile.TemporaryDirectory() as outputs:
        desk = _Desk(log, traces, Path(outputs), on_journal)
        try:
            gpu, facts = desk.call(describe)
            done = {}
            for setup in experiment.expectations:
                problem = _problem(setup, gpu)
                for name in setup.contenders:
                    if (problem, name) not in done:
                        path = _contenders(problem.op)[name]
                        done[problem, name] = desk.see(problem, Entry(name, path, ""))
            judged = tuple(_judge(s, _problem(s, gpu), done) for s in experiment.expectations)
        finally:
            desk.close()
    return Report(experiment, judged, facts)


def check_traces(experiment: Experiment, files: list[Path], names: list[str]) -> Report:
    """Judges traces that were taken elsewhere, each by the setup of the same place in `names`.

    Without names, a trace must be one of the lab's own, which tells its contender and problem.

    Raises:
        BadExpectation: as `validate`; no setup of that name, or none that fits the trace.
        BadTrace: a file that can't be read as a trace.
    """
    validate(experiment)
    by_name = {setup.name: setup for setup in experiment.expectations}
    seen: dict[str, tuple[Setup, Seen]] = {}
    for index, file in enumerate(files):
        read = trace.read(file)
        name = names[index] if index < len(names) else _setup_of(read, experiment)
        if name not in by_name:
            raise BadExpectation(f"no setup {name!r}; there are {', '.join(map(repr, by_name))}")
        setup = by_name[name]
        seen[name] = (setup, Seen(setup.contender, read, setup.problem.op))
    done = {(s.problem, s.contender): (one, "") for s, one in seen.values()}
    judged = tuple(_judge(s, s.problem, done) for s, _ in seen.values())
    return Report(experiment, judged, {})


def _judge(setup: Setup, problem: Problem, done: Mapping) -> Judged:
    """`done` maps (problem, contender) to (seen or None, why not)."""
    seen, reason = done[problem, setup.contender]
    same = {name: one for (p, name), one in done.items() if p == problem}
    others = {name: one for name, (one, _) in same.items() if one}
    why_not = {name: why for name, (_, why) in same.items() if why}

    def find(claim: Claim) -> Finding:
        if seen:
            return claim.check(seen, others, why_not)
        # What can't run here says nothing; what should run and fails is a finding.
        verdict = "unchecked" if reason.startswith("unsupported") else "missed"
        return Finding(verdict, f"not traced: {reason}", (reason,))

    return Judged(setup, problem, seen, reason, tuple((c, find(c)) for c in setup.claims))


def _problem(setup: Setup, gpu: bool) -> Problem:
    problem = setup.problem if gpu else setup.cpu_problem
    if setup.batch is None:
        return problem
    return Batched(**vars(problem), batch=setup.batch)


def _setup_of(read: trace.Trace, experiment: Experiment) -> str:
    """The setup that one of the lab's own traces belongs to."""
    told = read.meta.get("lab")
    told = told if isinstance(told, dict) else {}
    fits = [
        setup.name
        for setup in experiment.expectations
        if setup.contender == told.get("contender")
        and told.get("problem") in [str(_problem(setup, gpu)) for gpu in (True, False)]
    ]
    if len(fits) != 1:
        names = ", ".join(repr(setup.name) for setup in experiment.expectations)
        raise BadExpectation(f"{read.path}: say which setup it is, with --setup: {names}")
    return fits[0]


@functools.cache
def _contenders(op: str) -> dict[str, Path]:
    return {contender.load(path).name: path for path in contender.discover(op)}


def _no_such_op(name: str, absent: bool) -> str | None:
    """Why an operator's name can't be meant, or None. An absent one must be known to exist."""
    if "::" in name:
        import torch

        if torch._C._jit_get_schemas_for_operator(name):
            return None
        return f"torch has no operator {name}"
    if absent and not compile_role(name):
        return f"{name!r} is no annotation that is known, so its absence could never fail"
    return None


class _Desk:
    """One child at a time, which sees one contender at a time."""

    def __init__(self, log: Path, traces: Path, outputs: Path, on_journal):
        self.log, self.traces, self.outputs = log, traces, outputs
        self.on_journal, self.worker = on_journal, None

    def call(self, function, *arguments):
        self.worker = self.worker or Worker(self.log)
        try:
            return self.worker.call(
                function, *arguments, limit=_LIMIT_S, on_journal=self.on_journal
            )
        except Died:
            self.worker = None
            raise

    def see(self, problem: Problem, entry: Entry) -> tuple[Seen | None, str]:
        """(what is seen, why not)."""
        name = f"{trace_capture.slug(str(problem))}.{trace_capture.slug(entry.name)}"
        path, output = self.traces / f"{name}.json.gz", self.outputs / f"{name}.npy"
        path.unlink(missing_ok=True)
        try:
            counters, why = self.call(observe, problem, entry, output)
            why = why or self.call(trace_capture.record, problem, entry, path, True)
        except Died as death:
            why = f"{death.status}: {death} (see {self.log.name})"
        if why:
            return None, why
        return Seen(entry.name, trace.read(path), problem.op, output, counters), ""

    def close(self):
        if self.worker:
            self.worker.close()


# In the child


def describe(*, journal: Callable[[str, str], None]) -> tuple[bool, dict]:
    journal("", "start")
    return device.current() is not None, device.describe()


def observe(
    problem: Problem, entry: Entry, output: Path, *, journal: Callable[[str, str], None]
) -> tuple[Counters | None, str]:
    """Calls a contender with fresh data; saves its first output's bits as a .npy file.

    Returns Dynamo's counters and an empty reason, or why it can't be run.
    """
    import numpy as np
    import torch

    journal(entry.name, "prepare")
    arena.reset_dynamo()
    try:
        with torch.no_grad():
            where = "cuda" if torch.cuda.is_available() else "cpu"
            inputs = problem.inputs(where)
            before = _dynamo()
            launch = contender.load(entry.path).prepare(problem, inputs, tile=entry.tile)
            if launch.bind is None:
                return None, "unsupported: compiled for a GPU that this machine doesn't have"
            call = launch.bind(inputs)
            out = call()
            bits = {2: torch.int16, 4: torch.int32}[out.element_size()]
            np.save(output, out.cpu().contiguous().view(bits).numpy())
            first = _dynamo()
            for draw in range(1, _CALLS):
                problem.refill(inputs, draw)
                call()
            after = _dynamo()
    except Unsupported as why:
        return None, f"unsupported: {why}"
    except (Exception, SystemExit) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        if torch.cuda.is_available():
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                raise arena.DeviceLost(why) from None
        return None, why
    counters = Counters(after[0] - before[0], after[0] - first[0], after[1] - before[1])
    return counters, ""


def _dynamo() -> tuple[int, int]:
    """(graphs, graph breaks) that Dynamo counted so far in this process."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return 0, 0
    return utils.counters["stats"]["unique_graphs"], sum(utils.counters["graph_break"].values())
