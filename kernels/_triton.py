"""What the Triton contenders share: where they run, parallel compilation, what a kernel takes."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import triton
from triton.runtime.errors import OutOfResources, PTXASError

from lab import device
from lab.contender import Inputs, Resources, Unsupported
from lab.tile import Tile


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter (TRITON_INTERPRET=1), on the CPU."""
    return bool(triton.knobs.runtime.interpret)


def require_target() -> None:
    """Raises Unsupported where Triton can neither launch nor interpret a kernel."""
    if not interpreted() and device.current() is None:
        raise Unsupported("needs a CUDA GPU, or TRITON_INTERPRET=1 for Triton's interpreter")


def require_contiguous(inputs: Inputs) -> None:
    """Raises ValueError for an operand that these kernels would read wrongly."""
    for name, tensor in inputs.items():
        if not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous: strides {tuple(tensor.stride())}")


def require_fields(tile: Tile, allowed: tuple[str, ...]) -> None:
    """Raises Unsupported for a tile that sets what the kernel doesn't have, or breaks its rules."""
    for name in (f.name for f in fields(tile) if getattr(tile, f.name) is not None):
        if name not in allowed:
            raise Unsupported(f"{tile}: this kernel has no {name}; it has {', '.join(allowed)}")
    for name in ("block_m", "block_n", "block_k", "warps"):
        size = getattr(tile, name)
        if size and size & (size - 1):
            raise Unsupported(f"{tile}: {name} must be a power of two in Triton")
    if tile.warps and tile.warps > 32:
        raise Unsupported(f"{tile}: a CTA has at most 32 warps")


def compiled(warmups: Mapping[Tile, Callable[[], object]]) -> dict[Tile, object]:
    """Compiles and loads in parallel; returns the kernels of the tiles that fit the GPU.

    Each `warmups[tile]()` calls `kernel.warmup` with the launch's own arguments. Threads do,
    because Triton's compiler lets go of the GIL and ptxas is a process of its own.

    Raises:
        Unsupported: no tile fits; the message has the first reason.
    """
    with (
        ThreadPoolExecutor(max(1, min(len(warmups), os.cpu_count() or 1))) as pool,
        # Errors come up below, where each is known by its tile.
        triton.AsyncCompileMode(pool, ignore_errors=True),
    ):
        kernels = {tile: warmup() for tile, warmup in warmups.items()}
    fits, why_not = {}, {}
    for tile, kernel in kernels.items():
        try:
            # A compilation still in flight has `result`; one that was cached is a kernel already.
            kernel = kernel.result() if hasattr(kernel, "result") else kernel
            _ = kernel.run  # loads the binary: registers are known, too large ones raise
            fits[tile] = kernel
        except (OutOfResources, PTXASError) as reason:
            why_not[tile] = reason
    if not fits:
        tile, reason = next(iter(why_not.items()))
        raise Unsupported(f"{tile} doesn't fit this GPU: {' '.join(str(reason).split())}")
    return fits


def resources(kernel) -> Resources:
    """What one CTA of a loaded kernel takes. Triton counts spills in 4-byte words."""
    return Resources(
        regs=kernel.n_regs,
        spill_bytes=4 * kernel.n_spills,
        smem_bytes=kernel.metadata.shared,
        threads=32 * kernel.metadata.num_warps,
    )


def ctas_per_sm(kernel) -> int:
    """How many CTAs of a loaded kernel an SM holds at once."""
    needs = resources(kernel)
    return max(1, device.ctas_per_sm(device.current(), needs.threads, needs.regs, needs.smem_bytes))
