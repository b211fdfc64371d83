"""Experiments, and how their files are found.

An experiment is one file under `experiments/` whose docstring is the question and which ends in
`EXPERIMENT = Experiment(...)`.
"""

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

from lab.problem import Problem

EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments"


@dataclass(frozen=True)
class Experiment:
    """A question, the problems that answer it, and the smaller ones for a machine without a GPU.

    `contenders` names a subset; None races all of the op's. `expectations` are lab.expect.Setups,
    which `lab guess` checks. `name` and `question` are filled in from the file's name and
    docstring.
    """

    problems: tuple[Problem, ...]
    cpu_problems: tuple[Problem, ...]
    contenders: tuple[str, ...] | None = None
    expectations: tuple = ()
    name: str = ""
    question: str = ""


class BadExperiment(Exception):
    """An experiment that can't be used; the message names the file and the fix."""


def names() -> list[str]:
    return sorted(p.stem for p in EXPERIMENTS.glob("*.py") if not p.name.startswith("_"))


def load(name: str) -> Experiment:
    """Loads one experiment by its file's name, or from the path of a file of the user's.

    Raises:
        BadExperiment: there is no such file, it doesn't load, or it declares no problems.
    """
    if name in names():
        path = EXPERIMENTS / f"{name}.py"
    elif name.endswith(".py") and Path(name).is_file():
        path, name = Path(name), Path(name).stem
    else:
        raise BadExperiment(f"no experiment {name!r}; there are {', '.join(names())}")
    try:
        spec = importlib.util.spec_from_file_location(f"lab_experiments_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        experiment = module.EXPERIMENT
    except Exception as error:
        line = " ".join(str(error).split())
        raise BadExperiment(f"{path}: {type(error).__name__}: {line}") from error
    question = " ".join((module.__doc__ or "").split())
    if not question:
        raise BadExperiment(f"{path}: its docstring must state the question")
    for field in ("problems", "cpu_problems"):
        problems = getattr(experiment, field)
        if not problems or len(set(problems)) < len(problems):
            raise BadExperiment(f"{path}: {field} must be a non-empty tuple without repeats")
    return replace(experiment, name=name, question=question)
