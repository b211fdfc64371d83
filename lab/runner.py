"""The parent: plans what races, hands problems to a worker, survives it, resumes.

It never touches CUDA. The worker's unit is one problem with all its contenders; when a contender
ends the process, it becomes a row and a fresh worker goes on with the rest.
"""

import dataclasses
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab import arena, contender, derive, profiling, record
from lab.arena import Environment, Task
from lab.contender import Contender, Entry
from lab.device import Device
from lab.experiment import Experiment
from lab.problem import Problem
from lab.record import Row, Table
from lab.tile import Tile
from lab.worker import Died, Worker

ROOT = Path(__file__).resolve().parent.parent
_TIMING = tuple(Path(__file__).parent / name for name in ("timing.py", "gpu_clock.py", "arena.py"))


class BadChoice(Exception):
    """What was asked for can't be planned; the message names the fix."""


@dataclass(frozen=True)
class Choice:
    """Which contenders race: those of the tree, narrowed and widened by the user's words."""

    only: tuple[str, ...] = ()
    slow: bool = False
    tiles: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One problem of one experiment and who races on it."""

    experiment: str
    problem: Problem
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Progress:
    """What the runner is doing, for whoever shows it."""

    step: Step
    done: int
    total: int
    contender: str = ""
    stage: str = ""


def lineup(op: str, choice: Choice, among: tuple[str, ...] | None = None) -> tuple[Entry, ...]:
    """Who races on `op`: the baseline and its twin first, then the chosen, in order of name.

    The baseline always races, since all ratios hang on it. With tiles, a tunable contender runs
    once per tile, as `<contender>@<tile>`.

    Raises:
        BadChoice: two contenders of one name, no baseline or several, or a tile that isn't one.
        BadContender: a file that can't be used.
    """
    found: dict[str, tuple[Path, Contender]] = {}
    mine = [Path(f) for f in choice.files]
    for path in contender.discover(op) + mine:
        loaded = contender.load(path)
        if loaded.op != op:
            continue
        if loaded.name in found:
            raise BadChoice(
                f"two contenders of {op} are named {loaded.name!r}: {found[loaded.name][0]} and "
                f"{path}; rename one"
            )
        found[loaded.name] = (path, loaded)
    baselines = [name for name, (_, c) in found.items() if c.baseline]
    if len(baselines) != 1:
        raise BadChoice(f"{op} needs one baseline, it has {baselines or 'none'}")
    tiles = [_tile(text) for text in choice.tiles]
    entries = []
    for name, (path, c) in sorted(found.items(), key=lambda item: (not item[1][1].baseline, item)):
        chosen = name in choice.only or path in mine
        if not (c.baseline or chosen):
            if choice.only or (c.slow and not choice.slow):
                continue
            if among is not None and name not in among:
                continue
        entry = Entry(name, path.resolve(), contender.source_hash(path, c, _TIMING))
        if c.baseline:
            entries += [
                dataclasses.replace(entry, baseline=True),
                dataclasses.replace(entry, name=f"{name}.aa"),
            ]
        elif c.tiles and tiles:
            entries += [dataclasses.replace(entry, name=f"{name}@{t}", tile=t) for t in tiles]
        else:
            entries.append(entry)
    return tuple(entries)


def plan(experiments: list[Experiment], choice: Choice, gpu: bool) -> list[Step]:
    """Every problem of every experiment for this machine, with its line-up.

    Raises:
        BadChoice, BadContender: as `lineup`; also an `only` that no experiment has.
    """
    steps, seen = [], set()
    ops = {}
    for one in experiments:
        for problem in one.problems if gpu else one.cpu_problems:
            key = (problem.op, one.contenders)
            if key not in ops:
                ops[key] = lineup(problem.op, choice, one.contenders)
                seen |= {e.name.split("@")[0] for e in ops[key]}
            steps.append(Step(one.name, problem, ops[key]))
    unknown = [name for name in choice.only if name not in seen]
    if unknown:
        raise BadChoice(
            f"no contender {unknown[0]!r} of {', '.join(sorted({s.problem.op for s in steps}))}; "
            f"there are {', '.join(sorted(n for n in seen | _names(steps) if '.aa' not in n))}"
        )
    return steps


def sweep(
    steps_of: Callable[[bool], list[Step]],
    run: Path,
    *,
    options: dict,
    limit: float,
    show: Callable[[Progress], None],
) -> list[Row]:
    """Runs what `steps_of(gpu)` plans into the folder `run`, and gives the rows of the plan.

    Problems that already have a fresh row for every planned contender are skipped; all others
    are timed whole, since ratios are paired within rounds. `limit` is how many seconds a
    contender may take at one stage; `options` go to run.json.

    Raises:
        BadRun: the folder is in use, or holds files of another version.
        Died: the first worker can't start.
        OSError: the folder can't be written; rows already written are safe.
    """
    started = time.monotonic()
    run.mkdir(parents=True, exist_ok=True)
    with record.lock(run):
        desk = _Desk(run, limit)
        try:
            environment = desk.environment()
            steps = steps_of(environment.gpu is not None)
            note_start(run, dataclasses.asdict(environment) | {"options": options})
            tables = {s.experiment: Table(run, s.experiment) for s in steps}
            for table in tables.values():
                table.repair()
            have = {name: table.rows() for name, table in tables.items()}
            record.point_latest(run)
            todo = [s for s in steps if not _fresh(s, have[s.experiment], environment.facts)]
            for index, step in enumerate(todo):

                def on_journal(name, stage, index=index, step=step):
                    show(Progress(step, index, len(todo), name, stage))

                rows, samples = desk.race(step, environment, on_journal)
                kernels = []
                if environment.gpu:
                    kernels = desk.profile(step, rows, environment.gpu, on_journal)
                tables[step.experiment].write(step.problem, rows, samples, kernels)
            seconds = round(time.monotonic() - started, 1)
            note_end(run, problems=len(todo), seconds=seconds)
        finally:
            desk.close()
    planned = {(s.experiment, s.problem) for s in steps}
    rows = [row for table in tables.values() for row in table.rows()]
    return [row for row in rows if (row.experiment, row.problem) in planned]


class _Desk:
    """Keeps two workers alive, one that times and one that profiles, and outlives their deaths."""

    def __init__(self, run: Path, limit: float):
        self.log, self.limit, self.run_id = run / "worker.log", limit, run.name
        self.workers: dict[str, Worker] = {}

    def call(self, role: str, function, *arguments, on_journal):
        worker = self.workers.get(role) or self.workers.setdefault(role, Worker(self.log))
        try:
            return worker.call(function, *arguments, limit=self.limit, on_journal=on_journal)
        except Died:
            del self.workers[role]
            raise

    def environment(self) -> Environment:
        return self.call(
            "times", arena.measure_environment, self.run_id, commit(), on_journal=lambda *_: None
        )

    def race(self, step: Step, environment: Environment, on_journal):
        """(rows in planned order, samples) of one problem, however many workers it takes."""
        failed: dict[str, Row] = {}
        blameless = 0
        while True:
            left = tuple(e for e in step.entries if e.name not in failed)
            task = Task(step.experiment, step.problem, left, environment)
            try:
                outcome = self.call("times", arena.run_problem, task, on_journal=on_journal)
                break
            except Died as death:
                culprits = [e for e in left if e.name == death.contender]
                blameless += not culprits
                if blameless == 2:  # twice without a culprit: the problem itself ends the worker
                    culprits = left
                for entry in culprits:
                    row = arena.blank_row(task, entry)
                    row.status, row.reason = death.status, f"{death} (see {self.log.name})"
                    failed[entry.name] = row
        rows = {row.contender: row for row in outcome.rows} | failed
        return [rows[e.name] for e in step.entries], outcome.samples

    def profile(self, step: Step, rows: list[Row], gpu: Device, on_journal):
        """Fills in what ran, for the rows that were timed; gives the kernels of several.

        The baseline's twin ran what the baseline did.
        """
        timed = {row.contender: row for row in rows if row.status == "ok"}
        entries = tuple(
            dataclasses.replace(e, tile=row.tile and Tile.parse(row.tile))
            for e in step.entries
            if (row := timed.get(e.name)) and not e.name.endswith(".aa")
        )
        try:
            events, why_not = self.call(
                "profiles", profiling.profile_problem, step.problem, entries, on_journal=on_journal
            )
        except Died as death:
            events, why_not = {}, {e.name: str(death) for e in entries}
        for name, row in timed.items():
            name = name.removesuffix(".aa")
            if name in events:
                derive.fill_ran(row, events[name], gpu)
            elif name in why_not:
                row.reason = f"what ran isn't known: {' '.join(why_not[name].split())}"
        return [kernel for name in events for kernel in derive.kernels(name, events[name])]

    def close(self):
        for worker in self.workers.values():
            worker.close()


def adhoc(op: str, sizes: dict[str, list[int]], words: dict[str, list[str]]) -> Experiment:
    """An experiment of the product of sizes and words that were given on the command line.

    Raises:
        BadChoice: a size or word that the op needs and wasn't given, or one it can't have.
    """
    needed = ("m", "n") if op == "geglu" else ("m", "n", "k")
    missing = [f"--{name}" for name in needed if not sizes.get(name)]
    if missing:
        raise BadChoice(f"{op} also needs {' and '.join(missing)}, or name an experiment")
    problems: list[dict] = [{"op": op}]
    defaults = {"layout": [None] if op == "geglu" else ["tn", "nn"], "dtype": ["bf16"]}
    defaults["activation"] = [None] if op == "linear" else ["tanh"]
    for name in ("m", "n", "k", "layout", "dtype", "activation"):
        given = sizes.get(name) or words.get(name) or defaults.get(name, [None])
        problems = [p | {name: value} for p in problems for value in dict.fromkeys(given)]
    try:
        made = tuple(Problem(**p) for p in problems)
    except ValueError as error:
        raise BadChoice(str(error)) from None
    return Experiment(made, made, name=op, question="Shapes given on the command line.")


def narrowed(one: Experiment, sizes: dict, words: dict) -> Experiment:
    """The experiment's problems that have the given sizes and words.

    Raises:
        BadChoice: none has.
    """
    wanted = {name: values for name, values in (sizes | words).items() if values}

    def matching(problems):
        return tuple(
            p for p in problems if all(getattr(p, name) in v for name, v in wanted.items())
        )

    left = dataclasses.replace(
        one, problems=matching(one.problems), cpu_problems=matching(one.cpu_problems)
    )
    if not (left.problems or left.cpu_problems):
        raise BadChoice(
            f"no problem of {one.name} has these sizes; leave the experiment's name out to race "
            "sizes of your own"
        )
    return left


def new_run_folder() -> Path:
    """A folder of its own under results/runs/, named by the time in UTC."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{i}" for i in range(2, 100))):
        folder = record.RUNS / f"{stamp}{suffix}"
        if not folder.exists():
            return folder
    raise BadChoice(f"{record.RUNS} is full of runs of this second; wait one")


def _names(steps: list[Step]) -> set[str]:
    """Every contender's name of the ops in play, raced or not."""
    return {contender.load(p).name for s in steps for p in contender.discover(s.problem.op)}


def _tile(text: str) -> Tile:
    try:
        return Tile.parse(text)
    except ValueError as error:
        raise BadChoice(str(error)) from None


def _fresh(step: Step, rows: list[Row], facts: dict) -> bool:
    have = {row.contender: row for row in rows if row.problem == step.problem}
    return all(
        e.name in have
        and have[e.name].source == e.source
        and all(getattr(have[e.name], f) == facts[f] for f in arena.WHERE)
        for e in step.entries
    )


def note_start(run: Path, known: dict) -> None:
    """Adds this command to the run.json of `run`; what is `known` now replaces what was there.

    Raises:
        BadRun: the file that is there can't be read.
        OSError: the folder can't be written.
    """
    path = run / "run.json"
    noted = record.read_json(path) if path.exists() else {}
    command = {
        "command": shlex.join(["lab", *sys.argv[1:]]),
        "commit": commit(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    commands = [*noted.pop("commands", []), command]
    record.write_json(path, noted | known | {"commands": commands})


def note_end(run: Path, **figures) -> None:
    """Adds figures to what run.json holds of this command."""
    path = run / "run.json"
    noted = record.read_json(path)
    noted["commands"][-1] |= figures
    record.write_json(path, noted)


def commit() -> str | None:
    """The commit by $LAB_COMMIT or git, with -dirty when the code differs from it."""
    if os.environ.get("LAB_COMMIT"):
        return os.environ["LAB_COMMIT"]

    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        commit = git("rev-parse", "--short", "HEAD")
        if commit and git("status", "--porcelain", "--", "lab", "kernels", "experiments"):
            commit += "-dirty"
        return commit
    except FileNotFoundError:
        return None
