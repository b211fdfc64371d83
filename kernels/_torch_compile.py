"""torch.compile, proven to have compiled, and the tile of the Triton kernel that it generated.

Dynamo caches per code object: two contenders never share a formula. The worker resets Dynamo
once per problem, so that every shape is the first one it sees; left alone it would compile all
further shapes as dynamic, and give up at its recompile limit. `fullgraph=True` makes it raise
there instead of running eager.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch._dynamo.utils import counters

from lab.contender import Resources
from lab.tile import Tile


@dataclass(frozen=True)
class Compiled:
    """A compiled formula, and the generated Triton kernel of the kind that was asked for.

    `tile` is None where there is no such kernel (on the CPU, or an extern cuBLAS call).
    """

    call: Callable
    tile: Tile | None = None
    resources: Resources = field(default_factory=Resources)

    @property
    def tile_from(self) -> str | None:
        return "compiler" if self.tile else None


def compiled(formula: Callable, *args: torch.Tensor, kind: str, mode: str | None = None):
    """Compiles `formula` for the static shapes of `args` by calling it once.

    `kind` is the kind of generated kernel whose tile is wanted: "poi" (pointwise) or "tem" (a
    GEMM template), as in `triton_poi_fused_gelu_mul_0`.

    Raises:
        RuntimeError: the call didn't compile a new graph.
    """
    before, first_new = _graphs(), len(_modules())
    call = torch.no_grad()(torch.compile(formula, mode=mode, dynamic=False, fullgraph=True))
    call(*args)
    if _graphs() == before:
        raise RuntimeError(
            f"{formula.__qualname__} was not compiled: Dynamo counts no new graph "
            "(was torch._dynamo.reset() called before this problem's first prepare?)"
        )
    tile, resources = read_kernel(_modules()[first_new:], kind)
    return Compiled(call, tile, resources)


def read_kernel(modules, kind: str) -> tuple[Tile | None, Resources]:
    """Tile and resources of the one `triton_<kind>_` kernel in the newest compiled wrapper.

    Inductor's wrapper is the module that has `call`; its kernels are globals that keep, once
    tuned, a single launcher. These are internals: whatever is not as expected is None.
    """
    try:
        wrapper = [module for module in modules if hasattr(module, "call")][-1]
        (kernel,) = (
            value
            for name, value in vars(wrapper).items()
            if name.startswith(f"triton_{kind}_") and hasattr(value, "launchers")
        )
        (launcher,) = kernel.launchers
        config = launcher.config
        # A template's blocks are constants of its source, recorded beside it.
        blocks = {**kernel.inductor_meta.get("config_args", {}), **config.kwargs}
        rows, columns = ("BLOCK_M", "BLOCK_N") if kind == "tem" else ("YBLOCK", "XBLOCK")
        tile = Tile(
            block_m=blocks.get(rows),
            block_n=blocks[columns],  # flat elements where the kernel is one-dimensional
            block_k=blocks.get("BLOCK_K"),
            stages=config.num_stages,
            warps=config.num_warps,
            swizzle=blocks.get("GROUP_M"),
        )
        spills = getattr(launcher, "n_spills", None)  # in 4-byte words
        resources = Resources(
            regs=getattr(launcher, "n_regs", None),
            spill_bytes=None if spills is None else 4 * spills,
            smem_bytes=getattr(launcher, "shared", None),
            threads=32 * config.num_warps,
        )
        return tile, resources
    except Exception:  # another version's internals must cost the tile, not the contender
        return None, Resources()


def _graphs() -> int:
    return counters["stats"]["unique_graphs"]


def _modules() -> list:
    try:
        from torch._inductor.codecache import PyCodeCache

        return PyCodeCache.modules
    except Exception:  # as in read_kernel
        return []
