"""Contenders, and how their files are found.

A contender is one file under `kernels/<op>/` that ends in `CONTENDER = Contender(...)`.

`kernels` is also the name of a package that users have beside ours, so our folder is no package
and is never imported by that name. Its files are loaded as `lab_kernels.<op>.<name>`; files
there import shared code beside them by relative import (`from . import _gemm`).
"""

import hashlib
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.problem import OPS, Problem
from lab.tile import Space, Tile

KERNELS = Path(__file__).resolve().parent.parent / "kernels"
ALIAS = "lab_kernels"

Inputs = dict[str, Any]  # operand name -> torch.Tensor, as Problem.inputs draws them


class Unsupported(Exception):
    """This contender cannot run this problem here; the message is one line that says why."""


@dataclass(frozen=True)
class Resources:
    """What one CTA of the chosen kernel takes. None where the binary doesn't tell."""

    regs: int | None = None  # per thread
    spill_bytes: int | None = None  # per thread
    smem_bytes: int | None = None  # per CTA, static and dynamic
    threads: int | None = None  # per CTA


@dataclass(frozen=True)
class Launch:
    """A contender made ready for one problem.

    `bind(inputs) -> fn` is cheap: it sets pointers, descriptors and an output of its own.
    `fn()` launches on the current stream and returns the output. `bind=None` means that the
    kernel was compiled but can't be launched on this machine.
    `tile_from` says how the tile is known: declared, autotuned, tuned-table, kernel-name or
    compiler.
    """

    bind: Callable[[Inputs], Callable[[], Any]] | None
    tile: Tile | None = None
    tile_from: str | None = None
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True)
class Contender:
    """One kernel in the race.

    `prepare(problem, inputs, tile=None) -> Launch` compiles and tunes; it raises Unsupported
    for what it cannot run. `files` are the further files that its code stands in, relative to its
    own: they count for staleness. `baseline` is what the op's speedups are measured against;
    `slow` ones run only when asked.

    A tunable contender also has `tiles(problem)`, those it races by itself; `space`, those a
    tuner may try; and `compile(problem, tiles, gpu)`, which builds tiles for a GPU that need not
    be there (a device.Device, None for the one the kernel was written for). It gives one answer
    per tile, in their order: a Launch with `bind=None`, whose tile has every field known, or the
    Unsupported that says why there is none.
    """

    name: str
    op: str
    prepare: Callable[..., Launch]
    tiles: Callable[[Problem], list[Tile]] | None = None
    space: Space | None = None
    compile: Callable[..., list[Launch | Unsupported]] | None = None
    files: tuple[str, ...] = ()
    baseline: bool = False
    slow: bool = False


@dataclass(frozen=True)
class Entry:
    """A contender as planned: picklable, loaded again in the process that runs it.

    `name` is its row's name: the contender's, `<contender>@<tile>`, or `<baseline>.aa` for the
    baseline's twin. `source` hashes its files and the timing code.
    """

    name: str
    path: Path
    source: str
    tile: Tile | None = None
    baseline: bool = False


class BadContender(Exception):
    """A contender's file that can't be used; the message names the file and the fix."""


def load(path: Path) -> Contender:
    """Loads one contender's file, from our tree or the user's.

    Raises:
        BadContender: the file doesn't load, or has no `CONTENDER`.
    """
    path = Path(path).resolve()
    try:
        contender = _import(path).CONTENDER
    except FileNotFoundError:
        raise BadContender(f"{path}: no such file") from None
    except AttributeError as error:
        if "CONTENDER" not in str(error):
            raise BadContender(f"{path}: {type(error).__name__}: {error}") from error
        raise BadContender(f"{path}: has no CONTENDER = Contender(...) at its end") from None
    except Exception as error:
        line = " ".join(str(error).split())
        raise BadContender(f"{path}: {type(error).__name__}: {line}") from error
    if not isinstance(contender, Contender):
        raise BadContender(f"{path}: CONTENDER is a {type(contender).__name__}, not a Contender")
    if contender.op not in OPS:
        raise BadContender(f"{path}: op {contender.op!r} is none of {', '.join(OPS)}")
    return contender


def discover(op: str) -> list[Path]:
    """The files of our own contenders of `op`, by name."""
    return sorted(p for p in (KERNELS / op).glob("*.py") if not p.name.startswith("_"))


def source_hash(path: Path, contender: Contender, also: Iterable[Path] = ()) -> str:
    """Twelve hex digits over the contender's files and `also` (the timing code)."""
    digest = hashlib.sha256()
    for file in (path, *(path.parent / name for name in contender.files), *also):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _import(path: Path) -> types.ModuleType:
    if path.is_relative_to(KERNELS):
        if ALIAS not in sys.modules:
            package = types.ModuleType(ALIAS)
            package.__path__ = [str(KERNELS)]
            sys.modules[ALIAS] = package
        dotted = ".".join(path.relative_to(KERNELS).with_suffix("").parts)
        return importlib.import_module(f"{ALIAS}.{dotted}")
    name = f"{ALIAS}_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
