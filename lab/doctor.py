"""What this machine can run, and what to install for the rest."""

import importlib.util
import shutil
from collections.abc import Callable

from lab import device, nvcc

Finding = tuple[str, str, str]  # part, what was found, what to do


def findings() -> list[Finding]:
    """One line for each part that a sweep stands on; the last column is empty where all is well."""
    return [
        check() for check in (_gpu, _torch, _triton, _nvcc, _cutlass, _liger, _compiler, _cache)
    ]


def _gpu() -> Finding:
    gpu = device.current()
    if gpu is None:
        return ("GPU", "none", "problems for the CPU are run; times need an NVIDIA GPU and driver")
    major, minor = gpu.capability
    found = f"{gpu.name}, sm_{major}{minor}, {gpu.sms} SMs, {gpu.l2_bytes >> 20} MiB L2"
    if gpu.capability != (9, 0):
        return ("GPU", found, "cutlass needs sm_90 and is unsupported here; cutlass_sm80 runs")
    return ("GPU", found, "")


def _torch() -> Finding:
    import torch

    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
    found = f"{torch.__version__}, {built}"
    if not torch.version.cuda and shutil.which("nvidia-smi"):
        return ("torch", found, "this build can't use the GPU: pip install a CUDA build")
    return ("torch", found, "")


def _triton() -> Finding:
    import triton

    return ("triton", triton.__version__, "")


def _nvcc() -> Finding:
    return _built("nvcc", lambda: "{0.release} at {0.path}".format(nvcc.find()))


def _cutlass() -> Finding:
    return _built("CUTLASS", lambda: nvcc.cutlass().release)


def _built(part: str, find: Callable[[], str]) -> Finding:
    try:
        return (part, find(), "")
    except nvcc.BuildError as error:
        return (part, "unusable", str(error))


def _liger() -> Finding:
    if importlib.util.find_spec("liger_kernel"):
        return ("liger-kernel", "found", "")
    return ("liger-kernel", "none", "pip install liger-kernel packaging")


def _compiler() -> Finding:
    path = shutil.which("g++") or shutil.which("c++")
    return (
        "C++ compiler",
        path or "none",
        "" if path else "install g++: nvcc and Inductor call it",
    )


def _cache() -> Finding:
    folder = nvcc.cache_dir()
    builds = list(folder.glob("*.so"))
    size = sum(path.stat().st_size for path in builds) / 2**20
    return ("build cache", f"{len(builds)} builds, {size:.0f} MiB in {folder}", "")
