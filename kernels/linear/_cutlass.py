"""What the CUTLASS contenders share: building tiles, calling them through ctypes, choosing one.

A contender describes its kernels as a Family; `prepare` does the rest. A tile has fields that are
compiled and fields that are arguments of a launch (raster, swizzle, split_k). A tile that is
asked for may leave out any: the declared tiles that agree with it are raced; where none does, it
is built itself, with defaults for what it leaves out.
"""

import ctypes
import functools
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from lab import device, nvcc
from lab.contender import Launch, Resources, Unsupported
from lab.problem import Problem
from lab.tile import Tile

from .. import _screen

RASTERS = ("heuristic", "along_m", "along_n")  # the order of `Raster` in _cutlass.cuh
ALIGNMENT = 8  # elements of 16 bits: TMA, cp.async and the stores move 16 bytes at a time


@dataclass(frozen=True)
class Family:
    """The kernels of one .cu file.

    `tiles` are declared, with every compiled field set; the first is the default. `complete`
    fills in what a tile from outside leaves open. `why_not(tile, gpu)` is a reason against a
    complete tile, `why_not_on(gpu)` one against a GPU. `rasters` are the orders of CTAs to choose
    from; `splits(tile, problem, sms)` the values of split_k worth trying, None for no split.
    """

    source: Path
    gencode: str
    arch: Callable[[device.Device | None], str | None]  # of the code that runs there: sm_90a
    defines: Callable[[Tile], dict[str, int]]
    tiles: tuple[Tile, ...]
    complete: Callable[[Tile], Tile]
    why_not: Callable[[Tile, device.Device | None], str | None]
    why_not_on: Callable[[device.Device], str | None]
    rasters: tuple[str, ...]
    splits: Callable[[Tile, Problem, int], list[int | None]]


def prepare(family: Family, problem: Problem, inputs, tile: Tile | None = None) -> Launch:
    """Builds, and on a GPU races, the family's tiles, or those that agree with `tile`.

    Without a GPU one tile is compiled, and the launch is not bound.

    Raises:
        Unsupported: this problem, this tile or this machine; the reason names what is needed.
        RuntimeError: no tile computes the right result.
    """
    if problem.dtype not in ("bf16", "fp16"):
        raise Unsupported(f"bf16 or fp16 only, not {problem.dtype}")
    if problem.k % ALIGNMENT or problem.n % ALIGNMENT:
        raise Unsupported(
            f"k and n must be multiples of {ALIGNMENT} (rows of 16 bytes), "
            f"not k = {problem.k}, n = {problem.n}"
        )
    gpu = device.current()
    if gpu and (reason := family.why_not_on(gpu)):
        raise Unsupported(reason)
    candidates = _candidates(family, gpu, tile)
    if gpu is None:
        (kernel,) = _build(family, problem, gpu, candidates[:1])
        return Launch(None, kernel.tile, "declared", kernel.resources)
    kernels = _build(family, problem, gpu, candidates)
    if tile is None:
        worth = hopeful(candidates, problem, gpu.sms)
        kernels = [k for t, k in zip(candidates, kernels, strict=True) if t in worth]
    return _race(family, problem, inputs, kernels, gpu)


def hopeful(tiles: Iterable[Tile], problem: Problem, sms: int) -> list[Tile]:
    """The tiles worth racing. Hopeless are those that pad y to more than twice the outputs that
    the best fitting tile computes; blocks smaller than a third of the largest where there are
    more than eight of them per SM; and stream-K where there are more than four."""
    tiles = list(tiles)
    area = {t: t.block_m * t.block_n for t in tiles}
    waves = {t: ctas(t, problem) / sms for t in tiles}
    least = min(waves[t] * area[t] for t in tiles)
    largest = max(area.values())
    return [
        t
        for t in tiles
        if waves[t] * area[t] <= 2 * least
        and (waves[t] <= 8 or 3 * area[t] >= largest)
        and (waves[t] <= 4 or t.scheduler != "stream_k")
    ]


def ctas(tile: Tile, problem: Problem) -> int:
    """How many blocks of the tile cover y."""
    return -(-problem.m // tile.block_m) * -(-problem.n // tile.block_n)


class _Facts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("stages", "threads", "smem_bytes")]


class _Plan(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("raster", "swizzle", "split_k")]


class _Task(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("x", "w", "b", "y")] + [
        (name, ctypes.c_int) for name in ("m", "n", "k", "raster", "swizzle", "split_k", "device")
    ]


@functools.cache
def _library(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, *arguments in (
        ("facts", _Facts, ctypes.c_int, ctypes.c_int),
        ("create", text, pointer, ctypes.c_int, ctypes.c_int, pointer),
        ("plan", _Plan, pointer),
        ("workspace_bytes", ctypes.c_size_t, pointer),
        ("set_workspace", text, pointer, pointer),
        ("launch", text, pointer, pointer),
        ("destroy", None, pointer),
    ):
        function = getattr(library, f"linear_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class _Bound:
    """One problem's operands bound to a kernel: calling it launches and returns the output.

    Raises:
        ValueError: an operand that is not packed or not aligned to 16 bytes.
        RuntimeError: CUTLASS or CUDA refuses; the message is theirs.
    """

    def __init__(self, kernel: "_Kernel", options: Tile, inputs, y: torch.Tensor | None):
        for name, operand in inputs.items():
            if not operand.is_contiguous() or operand.data_ptr() % 16:
                raise ValueError(f"{name} must be contiguous and start at a multiple of 16 bytes")
        problem = kernel.problem
        x = inputs["x"]
        if y is None:
            y = torch.empty(problem.out_shape, dtype=x.dtype, device=x.device)
        self.y = y
        self._what = f"{kernel.tile} on {problem}"
        self._keep = inputs
        self._device = x.device
        self._library = kernel.library
        task = _Task(
            *(t.data_ptr() for t in (x, inputs["w"], inputs["b"], self.y)),
            *(problem.m, problem.n, problem.k),
            RASTERS.index(options.raster or "heuristic"),
            options.swizzle or 1,
            options.split_k or 1,
            x.device.index,
        )
        handle = ctypes.c_void_p()
        self._check(
            self._library.linear_create(ctypes.byref(handle), *kernel.which, ctypes.byref(task))
        )
        self._handle = handle
        weakref.finalize(self, self._library.linear_destroy, handle)
        size = self._library.linear_workspace_bytes(handle)
        self._workspace = torch.empty(size, dtype=torch.uint8, device=x.device) if size else None
        if size:
            self._check(self._library.linear_set_workspace(handle, self._workspace.data_ptr()))

    def __call__(self) -> torch.Tensor:
        stream = torch.cuda.current_stream(self._device).cuda_stream
        self._check(self._library.linear_launch(self._handle, stream))
        return self.y

    @property
    def plan(self) -> _Plan:
        return self._library.linear_plan(self._handle)

    def _check(self, error: bytes | None) -> None:
        if error:
            raise RuntimeError(f"{self._what}: {error.decode()}")


class _Kernel:
    """A tile that is built, seen for one problem's layout and dtype."""

    def __init__(self, problem: Problem, tile: Tile, build: nvcc.Build, arch: str):
        self.problem = problem
        self.library = _library(build.library)
        self.which = (int(problem.dtype == "fp16"), int(problem.layout == "tn"))
        facts = self.library.linear_facts(*self.which)
        entry = _entry(build, problem, arch)
        self.tile = replace(tile, stages=facts.stages, warps=facts.threads // 32)
        self.resources = Resources(
            regs=entry and entry.regs,
            spill_bytes=entry and entry.spill_bytes,
            smem_bytes=facts.smem_bytes,
            threads=facts.threads,
        )

    def bind(self, options: Tile, inputs, y: torch.Tensor | None = None) -> _Bound:
        return _Bound(self, options, inputs, y)

    def launched(self, options: Tile, inputs) -> Tile:
        """The tile as a launch with these options would run it on this problem."""
        plan = self.bind(options, inputs).plan
        return replace(
            self.tile,
            raster=RASTERS[plan.raster],
            swizzle=plan.swizzle,
            split_k=plan.split_k if plan.split_k > 1 else None,
        )


def _entry(build: nvcc.Build, problem: Problem, arch: str | None) -> nvcc.Entry | None:
    element = {"bf16": "10bfloat16_t", "fp16": "6half_t"}[problem.dtype]
    mangled = f"6LinearINS_{element}ELb{int(problem.layout == 'tn')}E"
    return next((e for e in build.entries if mangled in e.name and e.arch == arch), None)


def _candidates(family: Family, gpu, tile: Tile | None) -> list[Tile]:
    """The tiles to build, with their launch arguments as far as they are asked for."""
    asked = list(family.tiles)
    if tile is not None:
        compiled = replace(tile, raster=None, swizzle=None, split_k=None)
        asked = [tile.filled(t) for t in asked if compiled.covers(t)] or [family.complete(tile)]
    reasons = [family.why_not(t, gpu) for t in asked]
    fitting = [t for t, reason in zip(asked, reasons, strict=True) if reason is None]
    if not fitting:
        raise Unsupported(f"{asked[0]}: {reasons[0]}")
    return fitting


def _build(family: Family, problem: Problem, gpu, tiles: list[Tile]) -> list[_Kernel]:
    units = [
        nvcc.Unit(
            family.source,
            (family.gencode, *(f"-D{name}={v}" for name, v in family.defines(tile).items())),
            cutlass=True,
        )
        for tile in tiles
    ]
    try:
        builds = nvcc.build(units)
    except nvcc.BuildError as error:
        raise Unsupported(str(error)) from error
    arch = family.arch(gpu)
    return [_Kernel(problem, t, b, arch) for t, b in zip(tiles, builds, strict=True)]


def _race(family: Family, problem: Problem, inputs, kernels: list[_Kernel], gpu) -> Launch:
    """The fastest tile first, then for the best two the order in which their CTAs run."""

    def options(kernel, rasters, swizzles, splits):
        tile = kernel.tile
        for raster in [tile.raster] if tile.raster else rasters:
            for swizzle in [tile.swizzle] if tile.swizzle else swizzles:
                for split_k in splits:
                    yield kernel, replace(tile, raster=raster, swizzle=swizzle, split_k=split_k)

    entrants = _entrants(
        inputs,
        (
            pair
            for kernel in kernels
            for pair in options(
                kernel, [None], (1, 8), family.splits(kernel.tile, problem, gpu.sms)
            )
        ),
    )
    if not entrants:
        raise Unsupported(f"{kernels[0].tile}: k = {problem.k} has fewer steps than parts")
    best = _ranked(problem, inputs, entrants, seconds=0.5)[:2]
    refined = _entrants(
        inputs,
        (
            pair
            for tile in best
            for pair in options(entrants[tile][0], family.rasters, (1, 2, 4, 8), [tile.split_k])
        ),
    )
    chosen = _ranked(problem, inputs, refined, seconds=0.3)[0]
    kernel, arguments = refined[chosen]
    return Launch(
        functools.partial(kernel.bind, arguments),
        chosen,
        "declared" if len(entrants) == len(refined) == 1 else "autotuned",
        kernel.resources,
    )


def _entrants(inputs, pairs) -> dict[Tile, tuple[_Kernel, Tile]]:
    """Tile as launched -> kernel and launch arguments; what comes to the same is raced once."""
    found = {}
    for kernel, arguments in pairs:
        found.setdefault(kernel.launched(arguments, inputs), (kernel, arguments))
    return found


def _ranked(problem: Problem, inputs, entrants, seconds: float) -> list[Tile]:
    if len(entrants) == 1:
        return list(entrants)
    outputs = {}  # one per set of inputs, shared by the entrants, of which one runs at a time

    def bind(kernel, arguments, inputs):
        pointer = inputs["x"].data_ptr()
        bound = kernel.bind(arguments, inputs, outputs.get(pointer))
        outputs[pointer] = bound.y
        return bound

    binds = {tile: functools.partial(bind, *entrant) for tile, entrant in entrants.items()}
    return _screen.ranked(problem, inputs, binds, seconds)
