"""y = x Wᵀ + b (tn) or x W + b (nn) on Hopper by CUTLASS 3, the bias fused into the epilogue.

    TMA, wgmma  a producer warp loads tiles through tensor descriptors, multicast in a cluster;
                two warpgroups multiply, either in turns on tiles of their own (pingpong: one's
                epilogue hides behind the other's mainloop) or both on one tile (cooperative).
    persistent  one CTA per SM walks the output tiles, in an order that `raster` and `swizzle`
                choose at launch.
    stream_k    the k steps of all tiles are dealt evenly to the SMs, or each tile is cut into
                `split_k` equal parts; partial sums meet in a workspace. Cooperative only.
    swap        yᵀ = W xᵀ: wgmma's M, at least 64, then runs along n, and few rows of y cost a
                narrow N instead of a mostly empty M.

All fields of a tile speak of y, with swap and without: `block_m` counts its rows, a cluster of
2x1 is two CTAs along its rows, `along_m` walks along its rows first.

The kernel is cutlass_sm90.cu; one build per tile serves both layouts and both dtypes.
"""

import functools
from dataclasses import replace
from pathlib import Path

from lab.contender import Contender
from lab.tile import Rejection, Space, Tile

from . import _cutlass

_SMEM = 232_448  # bytes a Hopper CTA can have
_WARPS = 12  # a producer warpgroup and two that multiply
_SMS = 132  # of an H100 or H200 module: the target where no GPU is given
_MAX_ACCUMULATORS = 256  # per thread
_UNSPILT_ACCUMULATORS = 208
_SWAPPED_ROWS = 512
_SWIZZLED_CTAS = {2: 2, 4: 3, 8: 6}  # along the shorter side, or CUTLASS takes a lower swizzle


def _declared(*texts: str) -> tuple[Tile, ...]:
    return tuple(replace(Tile.parse(text), warps=_WARPS) for text in texts)


TILES = _declared(
    "128x128x64-s6-c2x1-pingpong-persistent",
    "128x192x64-s5-c2x1-pingpong-persistent",
    "128x256x64-s4-c2x1-cooperative-persistent",
    "256x128x64-s4-c1x2-cooperative-persistent",
    "256x192x64-s3-c1x1-cooperative-persistent",
    "128x224x64-s4-c2x1-cooperative-persistent",
    "128x96x64-s7-c2x1-pingpong-persistent",
    # Few rows.
    "64x128x64-s9-c1x1-pingpong-persistent",
    "64x96x128-s5-c2x1-pingpong-persistent",
    "64x64x128-s6-c1x1-pingpong-persistent",
    "32x64x128-s9-c1x1-pingpong-persistent-swap",
    "16x64x128-s11-c1x1-pingpong-persistent-swap",
    # Too few tiles for the SMs, or a last wave that is mostly empty.
    "128x256x64-s4-c2x1-cooperative-stream_k",
    "128x128x64-s6-c2x1-cooperative-stream_k",
    "64x128x128-s4-c1x1-cooperative-stream_k-swap",
    "16x128x128-s6-c1x1-cooperative-stream_k-swap",
)


def tiles(problem) -> list[Tile]:
    """The declared tiles; each is built for both layouts and both dtypes."""
    return list(TILES)


def _launched(tile: Tile) -> tuple[int, int, int, int]:
    """M, N and the cluster along M and N as the kernel has them, operands swapped or not."""
    m, n = tile.block_m, tile.block_n
    cluster_m, cluster_n = map(int, tile.cluster.split("x"))
    return (n, m, cluster_n, cluster_m) if tile.swap else (m, n, cluster_m, cluster_n)


def _complete(tile: Tile) -> Tile:
    """What is left out: the default tile's blocks, no cluster, as many stages as fit, and the
    schedule that suits the block and the scheduler."""
    tile = tile.filled(
        Tile(
            block_m=TILES[0].block_m,
            block_n=TILES[0].block_n,
            block_k=TILES[0].block_k,
            warps=_WARPS,
            cluster="1x1",
            scheduler="stream_k" if tile.split_k else "persistent",
        )
    )
    if tile.schedule is None:
        m, n, *_ = _launched(tile)
        large = m % 128 == 0 and m * n > 128 * 192
        cooperative = large or tile.scheduler == "stream_k"
        tile = replace(tile, schedule="cooperative" if cooperative else "pingpong")
    return tile


def _smem(tile: Tile, stages: int) -> int:
    """Bytes of shared memory, barriers aside: the operands' stages and two epilogue subtiles."""
    m, n, *_ = _launched(tile)
    rows = 64 if tile.schedule == "pingpong" else 128
    columns = next(c for c in (32, 16, 8) if n % c == 0)
    return 2 * (stages * (m + n) * tile.block_k + 2 * rows * columns)


def _stages(tile: Tile) -> int:
    """The stages asked for, or as many as shared memory holds."""
    one = _smem(tile, 1) - _smem(tile, 0)
    return tile.stages or (_SMEM - _smem(tile, 0)) // one


def why_not(tile: Tile, gpu=None) -> str | None:
    """Why this complete tile can't be built, or None. The rules are CUTLASS' and Hopper's."""
    m, n, cluster_m, cluster_n = _launched(tile)
    side_m, side_n = ("block_n", "block_m") if tile.swap else ("block_m", "block_n")
    cooperative = tile.schedule == "cooperative"
    if tile.schedule not in ("pingpong", "cooperative"):
        return f"schedule is pingpong or cooperative, not {tile.schedule}"
    if tile.scheduler == "stream_k" and not cooperative:
        return "stream_k needs the cooperative schedule"
    if tile.split_k and tile.scheduler != "stream_k":
        return "split_k needs the stream_k scheduler"
    if m % (128 if cooperative else 64):
        return f"{side_m} must be a multiple of {128 if cooperative else 64} when {tile.schedule}"
    if n > 256:
        return f"{side_n} is at most 256 (wgmma)"
    if n % 16 and not (n == 8 and tile.swap and not cooperative):
        return f"{side_n} must be a multiple of 16, or 8 when swapped and pingpong"
    if tile.block_k % 16:
        return "block_k must be a multiple of 16 (wgmma)"
    accumulators = m * n // (256 if cooperative else 128)
    if accumulators > _MAX_ACCUMULATORS:
        return f"{accumulators} accumulators a thread; {_MAX_ACCUMULATORS} is the most"
    if cluster_m * cluster_n > 8 or any(c not in (1, 2, 4, 8) for c in (cluster_m, cluster_n)):
        return f"cluster {tile.cluster} must have powers of two and at most 8 CTAs"
    if n % (8 * cluster_m) or m % (8 * cluster_n):
        return f"cluster {tile.cluster} must cut the blocks it shares into multiples of 8 rows"
    stages = max(2, _stages(tile))
    if tile.stages == 1:
        return "at least 2 stages"
    if (smem := _smem(tile, stages)) > _SMEM:
        return f"{stages} stages need {smem} bytes of shared memory; a CTA has {_SMEM}"
    if tile.swizzle not in (None, 1, 2, 4, 8):
        return f"swizzle is 1, 2, 4 or 8, not {tile.swizzle}"
    if tile.warps != _WARPS:
        return f"this kernel has {_WARPS} warps"
    if tile.epilogue:
        return "this kernel's epilogue can't be chosen"
    return None


def _pruned(tile: Tile, problem, sms: int) -> str | None:
    """Why this tile won't win on this problem, or None."""
    m, n, *_ = _launched(tile)
    cooperative = tile.schedule == "cooperative"
    if (accumulators := m * n // (256 if cooperative else 128)) > _UNSPILT_ACCUMULATORS:
        return f"{accumulators} accumulators a thread would spill"
    if _stages(tile) < 3:
        return f"{_stages(tile)} stages don't hide the loads"
    if tile.block_k < 64 < problem.k:
        return "rows of less than 128 bytes waste half of a TMA load's swizzle"
    if tile.swap and problem.m > _SWAPPED_ROWS:
        return f"operands are swapped for few rows: at most {_SWAPPED_ROWS}"
    rows, columns = (_ceil(problem.m, 8), _ceil(problem.n, 8))
    padded = _ceil(problem.m, tile.block_m) * _ceil(problem.n, tile.block_n)
    if padded > 2 * rows * columns:
        return f"{padded / (rows * columns):.1f} times the outputs: more than half is padding"
    along_m, along_n = -(-problem.m // tile.block_m), -(-problem.n // tile.block_n)
    cluster_m, cluster_n = map(int, tile.cluster.split("x"))
    if cluster_m > along_m or cluster_n > along_n:
        return f"a cluster of {tile.cluster} is longer than {along_m}x{along_n} blocks"
    ctas, steps = along_m * along_n, -(-problem.k // tile.block_k)
    if ctas > 8 * sms and m * n < 128 * 128:
        return f"{ctas} small blocks on {sms} SMs: larger ones load less"
    if tile.scheduler == "persistent" and 4 * ctas < sms and (m, n) > (64, 32):
        return f"{ctas} blocks leave most of {sms} SMs idle"
    if tile.scheduler == "stream_k" and ctas > 4 * sms:
        return f"{ctas} blocks on {sms} SMs leave no tail worth dealing out"
    if tile.split_k and (ctas * tile.split_k > 2 * sms or steps < 3 * tile.split_k):
        return f"{tile.split_k} parts of {ctas} blocks and {steps} steps are too many"
    if (tile.swizzle or 1) > 1 and min(along_m, along_n) < _SWIZZLED_CTAS[tile.swizzle]:
        return f"swizzle {tile.swizzle} comes to less on {along_m}x{along_n} blocks"
    return None


def _ceil(size: int, block: int) -> int:
    return -(-size // block) * block


def _reject(tile: Tile, problem, gpu=None) -> Rejection | None:
    if reason := why_not(tile, gpu):
        return Rejection("invalid", reason)
    if reason := _pruned(tile, problem, gpu.sms if gpu else _SMS):
        return Rejection("pruned", reason)
    return None


SPACE = Space(
    {
        "block_m": (8, 16, 32, 64, 96, 128, 192, 256),
        "block_n": (8, *range(16, 257, 16)),
        "block_k": (32, 64, 128),
        "warps": (_WARPS,),
        "cluster": ("1x1", "2x1", "1x2", "2x2", "4x1", "1x4"),
        "schedule": ("pingpong", "cooperative"),
        "scheduler": ("persistent", "stream_k"),
        "swap": (None, True),
    },
    _reject,
    {
        "split_k": (None, 2, 3, 4, 6, 8),
        "raster": ("heuristic", "along_m", "along_n"),
        "swizzle": (1, 2, 4, 8),
    },
)


def _why_not_on(gpu) -> str | None:
    if gpu.capability == (9, 0):
        return None
    return (
        f"built for Hopper (capability 9.0), this GPU has {gpu.capability[0]}.{gpu.capability[1]}"
    )


def _defines(tile: Tile) -> dict[str, int]:
    cluster_m, cluster_n = map(int, tile.cluster.split("x"))
    return {
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_K": tile.block_k,
        "CLUSTER_M": cluster_m,
        "CLUSTER_N": cluster_n,
        "STAGES": tile.stages or 0,
        "COOPERATIVE": int(tile.schedule == "cooperative"),
        "STREAM_K": int(tile.scheduler == "stream_k"),
        "SWAP": int(bool(tile.swap)),
    }


def _splits(tile: Tile, problem, sms: int) -> list[int | None]:
    """Equal parts pay where tiles leave SMs idle and each part keeps some steps along k."""
    steps = -(-problem.k // tile.block_k)
    if tile.split_k:
        return [tile.split_k] if tile.split_k <= steps else []
    if tile.scheduler != "stream_k":
        return [None]
    ctas = _cutlass.ctas(tile, problem)
    parts = [s for s in (2, 3, 4, 6, 8) if ctas * s <= 2 * sms and steps >= 3 * s]
    return [None, *parts]


FAMILY = _cutlass.Family(
    source=Path(__file__).with_name("cutlass_sm90.cu"),
    gencode="-gencode=arch=compute_90a,code=sm_90a",
    arch=lambda gpu: "sm_90a",
    defines=_defines,
    tiles=TILES,
    complete=_complete,
    why_not=why_not,
    why_not_on=_why_not_on,
    rasters=("along_m", "along_n"),
    splits=_splits,
)

CONTENDER = Contender(
    "cutlass",
    "linear",
    functools.partial(_cutlass.prepare, FAMILY),
    tiles=tiles,
    space=SPACE,
    files=(
        "cutlass_sm90.cu",
        "_cutlass.cuh",
        "_cutlass.py",
        "../_screen.py",
        "../../lab/nvcc.py",
    ),
)
