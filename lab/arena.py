"""One problem with all its contenders: prepared, verified, timed, verified again, made into rows.

`run_problem` is a plain function of picklable arguments, so that anything that can start a
process can run it. It tells `journal(contender, stage)` what it is about to do; if the process
dies, the last word in the journal names the culprit.
"""

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab import check, contender, derive, device, gpu_clock, timing
from lab.contender import Entry, Launch, Unsupported
from lab.problem import Problem
from lab.record import Row, Sample

WHERE = ("device", "torch", "triton", "cutlass")  # a row made elsewhere is stale


@dataclass(frozen=True)
class Environment:
    """What is the same for all rows of a run; the runner writes it to run.json."""

    run_id: str
    commit: str | None
    facts: dict  # device.describe()
    gpu: device.Device | None = None
    copy_gbps: float | None = None
    matmul_tflops: float | None = None
    flush_empty_us: float | None = None


@dataclass(frozen=True)
class Task:
    """One problem of one experiment, and who races on it."""

    experiment: str
    problem: Problem
    entries: tuple[Entry, ...]
    environment: Environment


@dataclass
class Outcome:
    rows: list[Row]
    samples: list[Sample]


class DeviceLost(BaseException):
    """The CUDA context is dead after an asynchronous fault: this process must end."""


@dataclass
class _Entrant:
    """A contender in this process: its row so far and, while it is in the race, its launch."""

    entry: Entry
    row: Row
    launch: Launch | None = None
    racer: timing.Racer | None = None

    def out(self, status: str, reason: object) -> None:
        text = f"{type(reason).__name__}: {reason}" if status == "error" else str(reason)
        self.row.status, self.row.reason = status, " ".join(text.split())[:500]
        self.launch = self.racer = None


def measure_environment(run_id: str, commit: str | None, journal) -> Environment:
    """Device facts, peaks and the flush clock's empty interval, measured here and now."""
    journal("", "peaks")
    facts = device.describe()
    gpu = device.current()
    if gpu is None:
        return Environment(run_id, commit, facts)
    copy_gbps, matmul_tflops = device.peaks()
    empty = gpu_clock.empty_interval_us(gpu_clock.flusher(gpu.l2_bytes))
    return Environment(run_id, commit, facts, gpu, copy_gbps, matmul_tflops, empty)


def run_problem(task: Task, journal: Callable[[str, str], None]) -> Outcome:
    """Prepares, verifies, times and verifies again; a contender's failure is its row.

    Raises:
        DeviceLost: a fault killed the CUDA context; the journal names the contender.
    """
    import torch

    try:
        with torch.no_grad():
            return _Race(task, journal).run()
    finally:
        release()


def blank_row(task: Task, entry: Entry) -> Row:
    """The row of a planned contender, before anything is known of it."""
    environment = task.environment
    return Row.of(
        task.problem,
        run_id=environment.run_id,
        experiment=task.experiment,
        contender=entry.name,
        source=entry.source,
        status="ok",
        commit=environment.commit,
        **{name: environment.facts[name] for name in WHERE},
    )


class _Race:
    def __init__(self, task: Task, journal):
        self.task, self.problem, self.journal = task, task.problem, journal
        self.gpu = device.current()
        self.where = "cuda" if self.gpu else "cpu"
        self.plan = timing.plan(self.problem.min_bytes, self.gpu and self.gpu.l2_bytes)
        self.conditions: list[device.Sample] = []
        self.capped = False
        self.entrants = [_Entrant(entry, blank_row(task, entry)) for entry in task.entries]
        self.times: dict[str, timing.Times] = {}

    @property
    def alive(self) -> list[_Entrant]:
        return [e for e in self.entrants if e.row.status == "ok"]

    def run(self) -> Outcome:
        why = self._does_not_fit()
        if why:
            for entrant in self.alive:
                entrant.out("oom", why)
            return self._outcome()
        self.journal("", "inputs")
        self.sets = [self.problem.inputs(self.where, draw) for draw in range(self.plan.sets)]
        reset_dynamo()
        for entrant in self.entrants:
            self._guarded(entrant, "prepare", self._prepare)
        self._bind()
        self._check(draw=1)
        self._time()
        self._check(draw=2)
        return self._outcome()

    # Each step

    def _does_not_fit(self) -> str | None:
        """Why the problem can't be held in memory, reference and outputs counted, or None."""
        p, sets = self.problem, self.plan.sets
        reference = p.out_shape[0] * p.out_shape[1] * (8 if p.dtype == "fp32" else 4)
        weights = 8 * sum(s[0] * s[1] for n, s in p.shapes.items() if n.startswith("w"))
        need = sets * (p.input_bytes + reference + len(self.entrants) * p.output_bytes)
        # Eager contenders hold intermediates, every graph one more output; the reference a chunk.
        need += 2 * len(self.entrants) * p.output_bytes + weights + 2**31
        have = _free_bytes(self.gpu)
        if need <= have:
            return None
        return f"needs {need / 2**30:.1f} GiB for {sets} input sets, {have / 2**30:.1f} GiB free"

    def _prepare(self, entrant: _Entrant):
        start = time.perf_counter()
        prepare = contender.load(entrant.entry.path).prepare
        launch = prepare(self.problem, self.sets[0], tile=entrant.entry.tile)
        self._synchronize()
        entrant.row.prepare_s = time.perf_counter() - start
        entrant.row.set_tile(launch.tile, launch.tile_from)
        resources = launch.resources
        entrant.row.regs, entrant.row.spill_bytes = resources.regs, resources.spill_bytes
        entrant.row.smem_bytes = resources.smem_bytes
        entrant.row.waves = derive.waves(self.gpu, self.problem, launch)
        if launch.bind is None:
            entrant.out("compiled", "built for its target, which this machine is not")
        entrant.launch = launch

    def _bind(self):
        """Every alive contender's calls, one per set, made into its racer."""
        calls, us = {}, {}

        def bind(entrant):
            name = entrant.entry.name
            calls[name] = [entrant.launch.bind(s) for s in self.sets]
            if self.gpu:
                us[name] = gpu_clock.estimate_us(calls[name])

        def capture(entrant):
            name = entrant.entry.name
            if not self.gpu:
                entrant.racer = timing.cpu_racer(name, calls[name])
                return
            entrant.racer, entrant.row.reason = gpu_clock.gpu_racer(
                name, calls[name], self.plan.clock, launches, us[name], flush
            )

        for entrant in self.alive:
            self._guarded(entrant, "bind", bind)
        if us:
            launches = timing.launches(self.plan.sets, min(us.values()))
            flush = gpu_clock.flusher(self.gpu.l2_bytes)
        for entrant in self.alive:
            self._guarded(entrant, "capture", capture)
        if self.plan.clock == "flush":
            for _ in range(gpu_clock.FLUSH_GRAPHS):
                for entrant in self.alive:
                    self._guarded(entrant, "capture", lambda e: e.racer.grow())

    def _check(self, draw: int):
        """Fresh data in the bound inputs, NaN in the bound outputs, the very launches timed."""
        if not self.alive:
            return
        self.journal("", "reference")

        def fill():
            for index, inputs in enumerate(self.sets):
                self.problem.refill(inputs, draw * self.plan.sets + index)

        fill()
        accumulate = self._accumulate()
        references = [self.problem.reference(s, accumulate) for s in self.sets]
        prints = check.fingerprint(self.sets)

        def judge(entrant):
            for out in entrant.racer.outputs:
                out.fill_(float("nan"))
            entrant.racer.replay()
            self._synchronize()
            verdict = check.compare(
                outputs=entrant.racer.outputs,
                references=references,
                problem=self.problem,
                is_baseline=entrant.entry.baseline,
                baseline_err=self.baseline_err,
            )
            row = entrant.row
            if row.err is None or not verdict.err <= row.err:  # the worse one, and NaN is worst
                row.err = verdict.err
            if accumulate != "float64":
                row.reason = f"reference accumulated in {accumulate}, not float64"
            if entrant.entry.baseline and not verdict.reason:
                self.baseline_err = verdict.err
            if check.fingerprint(self.sets) != prints:
                fill()  # or its rivals would be judged on what it left
                return entrant.out("wrong", "it writes to its inputs")
            if verdict.reason:
                entrant.out("wrong", verdict.reason)

        self.baseline_err = None
        for entrant in sorted(self.alive, key=lambda e: not e.entry.baseline):
            self._guarded(entrant, "check", judge)

    def _accumulate(self) -> str:
        """float64 where its products take a second or two at most."""
        if self.gpu is None:
            return "float64"
        fast = self.gpu.capability in ((8, 0), (9, 0), (10, 0))  # fp64 at half the fp32 rate
        seconds = 2 * self.plan.sets * self.problem.flops / (2e13 if fast else 4e11)
        return "float64" if seconds < 4 else "float32"

    def _time(self):
        for entrant in self.alive:
            if self.gpu is None and interpreted(entrant.entry.path):
                entrant.out("verified", "right in Triton's interpreter, which can't be timed")
        if self.gpu and self.alive:
            self.journal("", "warm up")
            self.monitor = device.Monitor()
            self.capped = gpu_clock.warm_up([e.racer for e in self.alive], self.monitor)
        while self.alive and not self.times:
            self._guarded_race()

    def _guarded_race(self):
        """One race of those alive; who fails in it is out, and the others race again."""
        racing = {e.entry.name: e for e in self.alive}
        graphs = _unique_graphs()
        visited = self.alive[0]

        def before_visit(name):
            nonlocal visited
            visited = racing[name]
            self.journal(name, "time")

        def after_visit(name):
            if _unique_graphs() != graphs:
                raise RuntimeError("Dynamo compiled again while it was timed")

        def each_round():
            if self.gpu:
                visited.racer.replay()  # the clock of an idle GPU says nothing
                self.conditions.append(self.monitor.sample())
                self._synchronize()

        try:
            self.times = timing.race(
                [e.racer for e in racing.values()],
                seed=self.problem.seed,
                seconds=timing.GPU_SECONDS if self.gpu else timing.CPU_SECONDS,
                rest=self.capped,
                before_visit=before_visit,
                after_visit=after_visit,
                each_round=each_round,
            )
        except Exception as error:
            self._fail(visited, error)

    # Rows

    def _outcome(self) -> Outcome:
        timed = {
            e.entry.name: derive.Timed(
                e.row, self.times[e.entry.name], e.racer.clock, e.entry.baseline
            )
            for e in self.alive
            if e.entry.name in self.times
        }
        environment = self.task.environment
        for one in timed.values():
            derive.fill_times(one, environment.copy_gbps, environment.matmul_tflops)
            derive.fill_conditions(one.row, self.conditions)
        derive.compare(timed)
        baseline_err = next((e.row.err for e in self.entrants if e.entry.baseline), None)
        for entrant in self.entrants:
            entrant.row.err_baseline = baseline_err
        return Outcome([e.row for e in self.entrants], derive.samples(self.times))

    # Failures

    def _guarded(self, entrant: _Entrant, stage: str, step: Callable[[_Entrant], None]) -> None:
        """Runs a step for one contender; whatever it raises becomes its row."""
        if entrant.row.status != "ok":
            return
        self.journal(entrant.entry.name, stage)
        try:
            step(entrant)
            self._synchronize()
        except (Exception, SystemExit) as error:
            self._fail(entrant, error)

    def _fail(self, entrant: _Entrant, error: BaseException) -> None:
        import torch

        if isinstance(error, Unsupported):
            return entrant.out("unsupported", error)
        entrant.out("oom" if isinstance(error, torch.OutOfMemoryError) else "error", error)
        try:
            self._synchronize()
        except RuntimeError:
            raise DeviceLost(entrant.row.reason) from None

    def _synchronize(self):
        if self.gpu:
            import torch

            torch.cuda.synchronize()


def interpreted(path: Path) -> bool:
    """Whether a contender's file, or ours that it imports, holds kernels for the interpreter."""
    if "triton" not in sys.modules:
        return False
    from triton.runtime.interpreter import InterpretedFunction

    module = sys.modules[contender.load(path).prepare.__module__]
    ours = [v for v in vars(module).values() if getattr(v, "__name__", "").startswith("lab_")]
    return any(
        isinstance(value, InterpretedFunction)
        for scope in (module, *ours)
        for value in getattr(scope, "__dict__", {}).values()
    )


def reset_dynamo() -> None:
    """Once per problem, so that each shape is the first one Dynamo sees, and static."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


def _unique_graphs() -> int:
    if "torch._dynamo.utils" not in sys.modules:
        return 0
    return sys.modules["torch._dynamo.utils"].counters["stats"]["unique_graphs"]


def release() -> None:
    """Gives the GPU's memory back: the profiling process needs some next."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _free_bytes(gpu) -> int:
    if gpu:
        import torch

        return torch.cuda.mem_get_info()[0]
    with open("/proc/meminfo") as lines:
        return next(int(s.split()[1]) * 1024 for s in lines if s.startswith("MemAvailable"))
