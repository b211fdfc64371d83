"""y = x Wᵀ + b (tn) or x W + b (nn) on Ampere and later by CUTLASS 2, the bias in its epilogue.

    multistage  cp.async fills a pipeline of `stages` blocks in shared memory, mma.sync empties it.
    warps       divide the CTA's block evenly: 4 as 2 x 2; 8 as 4 x 2 or 2 x 4, along the longer
                side; 2 along n.
    raster      always along_m: CTAs run along the rows of y, `swizzle` columns of blocks at a time.

The kernel is cutlass_sm80.cu. One build per tile serves both layouts and both dtypes. It holds
machine code for sm_80, which Ampere and Ada run, and for sm_90 (from the same PTX: no wgmma),
and PTX that the driver compiles for what comes later.
"""

import functools
from dataclasses import replace
from pathlib import Path

from lab.contender import Contender
from lab.tile import Rejection, Space, Tile

from . import _cutlass

_SMEM = 166_912  # bytes an A100's CTA can have: the target where there is no GPU
_SMS = 108  # of an A100
_WARP_GRIDS = {1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (4, 2)}


def _declared(*texts: str) -> tuple[Tile, ...]:
    common = Tile(schedule="multistage", raster="along_m")
    return tuple(Tile.parse(text).filled(common) for text in texts)


TILES = _declared(
    "128x128x32-s5-w4",
    "128x128x64-s4-w4",
    "128x256x64-s3-w8",
    "256x128x32-s3-w8",
    "128x64x64-s4-w4",
    "64x128x64-s4-w4",
    "64x64x64-s5-w4",
    "32x64x64-s6-w2",
)


def tiles(problem) -> list[Tile]:
    """The declared tiles; each is built for both layouts and both dtypes."""
    return list(TILES)


def _warp_grid(tile: Tile) -> tuple[int, int]:
    """How many warps along m and n."""
    grid = _WARP_GRIDS[tile.warps]
    return grid[::-1] if tile.warps == 8 and tile.block_n > tile.block_m else grid


def _complete(tile: Tile) -> Tile:
    """What is left out: the default tile's blocks, warps for a warp tile of up to 64x64, three
    stages."""
    default = TILES[0]
    tile = tile.filled(replace(default, stages=3, warps=None, swizzle=None))
    if tile.warps is None:
        m, n = tile.block_m, tile.block_n
        warps = 8 if max(m, n) > 128 else 4 if m * n > 32 * 64 else 2 if m * n > 32 * 32 else 1
        tile = replace(tile, warps=warps)
    return tile


def why_not(tile: Tile, gpu=None) -> str | None:
    """Why this complete tile can't be built, or not be run on `gpu`, or None."""
    if tile.schedule != "multistage":
        return f"schedule is multistage, not {tile.schedule}"
    for name in ("cluster", "scheduler", "split_k", "swap", "epilogue"):
        if getattr(tile, name):
            return f"this kernel has no {name}"
    if tile.warps not in _WARP_GRIDS:
        return f"warps is one of {', '.join(map(str, _WARP_GRIDS))}, not {tile.warps}"
    along_m, along_n = _warp_grid(tile)
    if any(size % 32 or size // 32 & (size // 32 - 1) for size in (tile.block_m, tile.block_n)):
        return "block_m and block_n must be 32 times a power of two"
    warp = (tile.block_m // along_m, tile.block_n // along_n)
    if not (16 <= warp[0] <= 64 and 32 <= warp[1] <= 64):
        return f"each warp's part is from 16x32 to 64x64, not {warp[0]}x{warp[1]}"
    if tile.block_k not in (32, 64):
        return f"block_k is 32 or 64, not {tile.block_k}"
    if tile.stages < 3:
        return "at least 3 stages"
    limit = gpu.smem_per_block if gpu else _SMEM
    smem = 2 * tile.stages * (tile.block_m + tile.block_n) * tile.block_k
    if smem > limit:
        return f"{tile.stages} stages need {smem} bytes of shared memory; a CTA has {limit}"
    if tile.raster != "along_m":
        return f"raster is along_m, not {tile.raster}"
    if tile.swizzle not in (None, 1, 2, 4, 8):
        return f"swizzle is 1, 2, 4 or 8, not {tile.swizzle}"
    return None


def _pruned(tile: Tile, problem, sms: int) -> str | None:
    """Why this tile won't win on this problem, or None."""
    along_m, along_n = -(-problem.m // tile.block_m), -(-problem.n // tile.block_n)
    ctas, area = along_m * along_n, tile.block_m * tile.block_n
    padded = ctas * area
    least = -(-problem.m // 32) * -(-problem.n // 32) * 32 * 32
    if padded > 2 * least:
        return f"{padded / least:.1f} times the outputs: more than half is padding"
    if ctas > 8 * sms and area < 128 * 128:
        return f"{ctas} small blocks on {sms} SMs: larger ones load less"
    if 4 * ctas < sms and area > 32 * 64:
        return f"{ctas} blocks leave most of {sms} SMs idle"
    if (tile.swizzle or 1) > 1 and along_n < tile.swizzle:
        return f"swizzle {tile.swizzle} comes to less on {along_n} columns of blocks"
    return None


def _reject(tile: Tile, problem, gpu=None) -> Rejection | None:
    if reason := why_not(tile, gpu):
        return Rejection("invalid", reason)
    if reason := _pruned(tile, problem, gpu.sms if gpu else _SMS):
        return Rejection("pruned", reason)
    return None


SPACE = Space(
    {
        "block_m": (32, 64, 128, 256),
        "block_n": (32, 64, 128, 256),
        "block_k": (32, 64),
        "stages": (3, 4, 5, 6),
        "warps": (1, 2, 4, 8),
        "schedule": ("multistage",),
        "raster": ("along_m",),
    },
    _reject,
    {"swizzle": (1, 2, 4, 8)},
)


def _why_not_on(gpu) -> str | None:
    if gpu.capability >= (8, 0):
        return None
    return f"needs Ampere (capability 8.0) or later, this GPU has {gpu.capability[0]}.x"


def _arch(gpu) -> str | None:
    """Which of the build's codes runs there; None where the driver compiles its PTX."""
    return {None: "sm_80", 8: "sm_80", 9: "sm_90"}.get(gpu and gpu.capability[0])


def _defines(tile: Tile) -> dict[str, int]:
    along_m, along_n = _warp_grid(tile)
    return {
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_K": tile.block_k,
        "WARPS_M": along_m,
        "WARPS_N": along_n,
        "STAGES": tile.stages,
    }


FAMILY = _cutlass.Family(
    source=Path(__file__).with_name("cutlass_sm80.cu"),
    gencode="-gencode=arch=compute_80,code=[sm_80,sm_90,compute_80]",
    arch=_arch,
    defines=_defines,
    tiles=TILES,
    complete=_complete,
    why_not=why_not,
    why_not_on=_why_not_on,
    rasters=("along_m",),
    splits=lambda tile, problem, sms: [None],
)

CONTENDER = Contender(
    "cutlass_sm80",
    "linear",
    functools.partial(_cutlass.prepare, FAMILY),
    tiles=tiles,
    space=SPACE,
    files=(
        "cutlass_sm80.cu",
        "_cutlass.cuh",
        "_cutlass.py",
        "../_screen.py",
        "../../lab/nvcc.py",
    ),
)
