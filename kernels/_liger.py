"""Liger's activation kernels and where they come from.

From the liger-kernel package, or through the `kernels` package: from the folder that LOCAL_KERNELS
names for `kernels-community/liger-kernels`, which comes first, or from its cache where
liger-kernel isn't installed. Nothing is downloaded.

One program computes one row in one block, the next power of two of n (of 4096 columns for 3072 a
quarter is masked), and n is a constant of the kernel, so every new n compiles. The activation is
rounded before it is multiplied.
"""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from lab import device
from lab.contender import Inputs, Unsupported
from lab.device import Device
from lab.problem import Problem
from lab.tile import Tile

from . import _triton

_FORWARD = {"tanh": ("geglu", "geglu_forward"), "silu": ("swiglu", "swiglu_forward")}
_MAX_COLUMNS = 65536  # Liger's limit on its block


@dataclass(frozen=True)
class Gated:
    """`call(gate, up)` gives act(gate) · up, for contiguous operands; `source` is whose it is."""

    call: Callable
    tile: Tile
    source: str


def gated(problem: Problem, gpu: Device | None) -> Gated:
    """Liger's kernel for the problem's activation and n.

    Raises:
        Unsupported: it has no such kernel, there is no GPU, or it isn't installed.
    """
    if problem.activation not in _FORWARD:
        raise Unsupported(f"Liger has the tanh GELU alone, and SiLU, not {problem.activation}")
    if problem.n > _MAX_COLUMNS:
        raise Unsupported(f"Liger's block is one row of at most {_MAX_COLUMNS} columns")
    if gpu is None:
        raise Unsupported("needs a CUDA GPU (its tanh is none of the interpreter's)")
    module, name = _FORWARD[problem.activation]
    forward, settings, source = _found(module, name)
    block, warps = settings(problem.n)
    tile = Tile(block_m=1, block_n=block, warps=warps)
    return Gated(lambda gate, up: forward(gate, up)[-1], tile, source)


def require_contiguous(inputs: Inputs) -> None:
    """Raises ValueError: the kernels walk all three operands by the output's stride."""
    _triton.require_contiguous(inputs)


def _found(module: str, name: str) -> tuple[Callable, Callable, str]:
    """(forward, calculate_settings, where they come from)."""
    source = device.liger_source()
    if source is None:
        raise Unsupported("liger-kernel is missing: pip install liger-kernel")
    try:
        if source.startswith(device.LIGER_ON_HUB):
            return *_from_hub(module, name), source
        return *_from_package(module, name), source
    except (ImportError, OSError, ValueError) as error:  # ValueError: not in the hub's cache
        why = f"{source} can't be imported ({' '.join(str(error).split())})"
        raise Unsupported(f"{why}: pip install liger-kernel") from None


def _from_package(module: str, name: str):
    ops = importlib.import_module(f"liger_kernel.ops.{module}")
    return getattr(ops, name), importlib.import_module("liger_kernel.ops.utils").calculate_settings


def _from_hub(module: str, name: str):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when huggingface_hub is imported
    hub = importlib.import_module("kernels").get_kernel(device.LIGER_ON_HUB, version=1)
    return getattr(getattr(hub, module), name), hub.utils.calculate_settings
