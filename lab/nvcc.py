"""Finds nvcc, compiles CUDA sources in parallel and keeps the results by content.

A build is a shared object with plain C entry points, loaded by ctypes. It carries its own CUDA
runtime and is not linked to the driver, so it loads on a machine without one. Beside it lies
ptxas' report: registers and spills are known without a GPU, too.

The cache is `$LAB_CACHE`, else `$XDG_CACHE_HOME/kernel-comparison-lab`, else
`~/.cache/kernel-comparison-lab`. A build's name hashes all that it was made from, so nothing in
the cache is ever stale. It appears whole or not at all, whoever else builds or is interrupted.
"""

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

OLDEST = (12, 3)  # the first whose wgmma code CUTLASS' Hopper kernels are fast with

_JOB_BYTES = 4 << 30  # what compiling one CUTLASS source takes at its peak
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-DNDEBUG",
    "--expt-relaxed-constexpr",
    "-shared",
    "-cudart=static",
    "-Xptxas=-v",
    "-Xcompiler=-fPIC,-fvisibility=hidden",
    "-Xlinker=--exclude-libs=ALL",  # or the CUDA runtimes of torch and of the build would mix
)
# nvcc's wheel asks for any release of crt and nvvm, and fails with newer ones than its own.
_INSTALL_NVCC = "pip install " + " ".join(
    f"'nvidia-{part}==13.0.*'"
    for part in ("cuda-nvcc", "cuda-runtime", "cuda-cccl", "cuda-crt", "nvvm")
)
_INSTALL_CUTLASS = "pip install nvidia-cutlass==4.2.0.0"


class BuildError(Exception):
    """Something can't be built; the message is one line that names the fix or the full log."""


@dataclass(frozen=True)
class Compiler:
    path: Path
    release: str  # as nvcc prints it: 13.0.88

    @property
    def version(self) -> tuple[int, int]:
        major, minor = self.release.split(".")[:2]
        return int(major), int(minor)


@dataclass(frozen=True)
class Headers:
    folders: tuple[Path, ...]
    release: str


@dataclass(frozen=True)
class Unit:
    """One source and what sets this build of it apart: macros, the target, CUTLASS or not."""

    source: Path
    flags: tuple[str, ...]
    cutlass: bool = False


@dataclass(frozen=True)
class Entry:
    """What ptxas reports of one kernel, per thread; shared memory is the static part, per CTA."""

    name: str  # mangled
    arch: str  # sm_90a
    regs: int
    spill_bytes: int
    smem_bytes: int


@dataclass(frozen=True)
class Build:
    library: Path
    report: Path

    @property
    def entries(self) -> list[Entry]:
        return entries(self.report.read_text())


def find() -> Compiler:
    """The first nvcc that is new enough: on PATH, in CUDA_HOME or CUDA_PATH, in
    /usr/local/cuda, in the nvidia-cuda-nvcc wheel.

    Raises:
        BuildError: there is none, or all are too old.
    """
    old = None
    for path in _candidates():
        if not os.access(path, os.X_OK):
            continue
        release = _release(path, path.stat().st_mtime_ns)
        if release is None:
            continue
        compiler = Compiler(path, release)
        if compiler.version >= OLDEST:
            return compiler
        old = old or compiler
    if old:
        wanted = ".".join(map(str, OLDEST))
        raise BuildError(
            f"nvcc {old.release} at {old.path} is too old, {wanted} or newer is needed: "
            + _INSTALL_NVCC
        )
    raise BuildError(f"nvcc is missing (not on PATH, CUDA_HOME is not set): {_INSTALL_NVCC}")


def cutlass() -> Headers:
    """CUTLASS' headers, from the nvidia-cutlass wheel; nothing of it is imported.

    Raises:
        BuildError: the wheel is missing or holds no headers.
    """
    spec = importlib.util.find_spec("cutlass_library")
    root = Path(spec.origin).parent / "source" if spec and spec.origin else None
    try:
        text = (root / "include/cutlass/version.h").read_text() if root else ""
    except OSError:
        text = ""
    numbers = re.findall(r"#define CUTLASS_(?:MAJOR|MINOR|PATCH)\s+(\d+)", text)
    if len(numbers) != 3:
        raise BuildError(f"CUTLASS' headers are missing: {_INSTALL_CUTLASS}")
    return Headers((root / "include", root / "tools/util/include"), ".".join(numbers))


def cache_dir() -> Path:
    """Where builds are kept; it need not exist yet."""
    if given := os.environ.get("LAB_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kernel-comparison-lab"


def build(units: Sequence[Unit]) -> list[Build]:
    """Each unit's build, from the cache or compiled now, as many at once as the machine bears.

    Where some fail, the others are still finished and kept.

    Raises:
        BuildError: no usable nvcc, CUTLASS missing, a source that doesn't compile (with its
            first error and the path of the log), or a cache that can't be written.
    """
    compiler = find()
    headers = cutlass() if any(unit.cutlass for unit in units) else None
    pool = ThreadPoolExecutor(min(_jobs(), max(1, len(units))))
    try:
        futures = [pool.submit(_build, unit, compiler, headers) for unit in units]
        errors = [error for future in futures if (error := future.exception())]
    finally:
        pool.shutdown(cancel_futures=True)
    if errors:
        raise errors[0]
    return [future.result() for future in futures]


def entries(report: str) -> list[Entry]:
    """The kernels of a ptxas report (`-Xptxas -v`), in its order."""
    found = []
    for part in re.split(r"(?=Compiling entry function )", report)[1:]:
        name, arch = re.match(r"Compiling entry function '([^']*)' for '(\w+)'", part).groups()
        spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part)
        used = re.search(r"Used (\d+) registers(.*)", part)
        smem = re.search(r"(\d+) bytes smem", used[2])
        found.append(
            Entry(
                name=name,
                arch=arch,
                regs=int(used[1]),
                spill_bytes=max(map(int, spills.groups())),
                smem_bytes=int(smem[1]) if smem else 0,
            )
        )
    return found


def _build(unit: Unit, compiler: Compiler, headers: Headers | None) -> Build:
    folder = cache_dir()
    stem = f"{unit.source.stem}-{_key(unit, compiler, headers)}"
    made = Build(folder / f"{stem}.so", folder / f"{stem}.log")
    if made.library.exists():
        return made
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / f"{stem}.lock"):
            if not made.library.exists():
                _remove_abandoned(folder)
                _compile(unit, compiler, headers, made)
    except OSError as error:
        raise BuildError(
            f"the build cache {folder} can't be written ({error.strerror}): "
            "make room there, or set LAB_CACHE to another folder"
        ) from error
    return made


def _compile(unit: Unit, compiler: Compiler, headers: Headers | None, made: Build) -> None:
    paths = [f"-I{folder}" for folder in headers.folders] if unit.cutlass else []
    paths.append(f"-L{compiler.path.parent.parent / 'lib'}")  # the wheels' nvcc looks in lib64
    # Everything is written in a folder of its own, on the cache's file system; a build that is
    # interrupted leaves nothing with a final name.
    with tempfile.TemporaryDirectory(dir=made.library.parent, prefix="building-") as temporary:
        output = Path(temporary) / made.library.name
        ran = subprocess.run(
            [compiler.path, *_FLAGS, *unit.flags, *paths, unit.source, "-o", output],
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "TMPDIR": temporary},
        )
        log = Path(temporary) / made.report.name
        log.write_text(ran.stdout + ran.stderr)
        if ran.returncode:
            failed = made.report.with_suffix(".failed.log")
            os.replace(log, failed)
            raise BuildError(f"{unit.source.name} doesn't compile: {_reason(failed)} ({failed})")
        os.replace(log, made.report)  # before the library, whose presence says that all is there
        os.replace(output, made.library)


def _remove_abandoned(folder: Path) -> None:
    """What killed builds have left there, once it is a day old."""
    for left in folder.glob("building-*"):
        with contextlib.suppress(OSError):  # its builder may finish just now
            if time.time() - left.stat().st_mtime > 86_400:
                shutil.rmtree(left)


def _reason(log: Path) -> str:
    lines = [" ".join(line.split()) for line in log.read_text().splitlines() if line.strip()]
    wrong = [line for line in lines if re.search(r"\b(error|fatal|cannot find)\b", line)]
    return (wrong or lines or ["nvcc says nothing"])[0][:300]


def _key(unit: Unit, compiler: Compiler, headers: Headers | None) -> str:
    digest = hashlib.sha256(repr((_FLAGS, unit.flags, compiler.release)).encode())
    digest.update((headers.release if unit.cutlass else "").encode())
    for file in _own_files(unit.source):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _own_files(source: Path) -> list[Path]:
    """The source and what it includes from its own folder, each once."""
    found = [source]
    for file in found:
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read_text(), re.M):
            beside = file.parent / name
            if beside.exists() and beside not in found:
                found.append(beside)
    return found


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Held by one builder at a time; the kernel releases it when its holder dies."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _jobs() -> int:
    """Compilations at once: one per core, as far as memory goes."""
    free = int(re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())[1]) << 10
    with contextlib.suppress(OSError, ValueError):  # a container may allow less
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current")
        )
        free = min(free, limit - used)
    return max(1, min(len(os.sched_getaffinity(0)), free // _JOB_BYTES))


def _candidates() -> Iterator[Path]:
    if on_path := shutil.which("nvcc"):
        yield Path(on_path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield Path(home) / "bin/nvcc"
    yield Path("/usr/local/cuda/bin/nvcc")
    spec = importlib.util.find_spec("nvidia")  # a namespace package: nothing is imported
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(folder).glob("cu*/bin/nvcc"), reverse=True)


@functools.cache
def _release(path: Path, _changed: int) -> str | None:
    """13.0.88 as `nvcc --version` prints it, None where that isn't an nvcc."""
    try:
        ran = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bV(\d+\.\d+\.\d+)", ran.stdout)
    return match[1] if match else None
