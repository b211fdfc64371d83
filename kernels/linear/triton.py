"""y = x Wᵀ + b (tn) or x W + b (nn) as one persistent Triton GEMM with the bias in its epilogue.

    persistent  as many CTAs as the GPU holds walk the output tiles; `flatten` makes one loop of
                tiles and k-steps, so the loads of the next tile start under this one's epilogue.
    grouped     GROUP_M rows of tiles are walked column by column, so that the tiles in flight
                share panels of x and w in L2.
    TMA         loads and stores go through host-made tensor descriptors where the GPU has them
                (capability 9 and up) and rows are multiples of 16 bytes; through masked pointers
                elsewhere. An odd n alone still loads by TMA in tn.
    subtile     of a large accumulator, half at a time is staged for the store, which leaves
                shared memory for one more pipeline stage.
    fp32        accumulated in fp32, the bias added before the one rounding. fp32 operands are
                multiplied in full precision, not in TF32.

No warp specialisation: on Hopper it gains nothing in Triton 3.6 and gave NaNs for some tiles.
"""

import math
from dataclasses import replace

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from lab import device
from lab.contender import Contender, Launch, Unsupported
from lab.problem import ITEMSIZE
from lab.tile import Rejection, Space

from .. import _screen, _triton


@triton.jit
def _load(matrix, row, col, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr, TMA: tl.constexpr):
    """The block at (row, col) of a row-major [rows, cols] matrix; zeros outside."""
    if TMA:
        block = matrix.load([row, col])
    else:
        r = (row + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        c = (col + tl.arange(0, COLS))[None, :]
        block = tl.load(matrix + r * cols + c, mask=(r < rows) & (c < cols), other=0.0)
    return block


@triton.jit
def _finish(
    y, b, acc, row, col, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TMA: tl.constexpr
):
    """Adds the bias to an accumulator, rounds and stores it at (row, col) of y."""
    c = col + tl.arange(0, BLOCK_N)
    bias = tl.load(b + c, mask=c < n, other=0.0).to(tl.float32)
    out = (acc + bias[None, :]).to(b.dtype.element_ty)
    if TMA:
        y.store([row, col], out)
    else:
        r = (row + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
        tl.store(y + r * n + c[None, :], out, mask=(r < m) & (c < n)[None, :])


@triton.jit(do_not_specialize=["m"])
def _linear(
    x,
    w,
    b,
    y,
    m,
    n,
    k,
    W_IS_NK: tl.constexpr,
    LOAD_TMA: tl.constexpr,
    STORE_TMA: tl.constexpr,
    SUBTILE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    k_steps = tl.cdiv(k, BLOCK_K)
    in_group = GROUP_M * tiles_n
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        first = tile // in_group * GROUP_M
        group_m = min(tiles_m - first, GROUP_M)
        row = (first + tile % in_group % group_m) * BLOCK_M
        col = tile % in_group // group_m * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(k_steps):
            at = step * BLOCK_K
            xs = _load(x, row, at, m, k, BLOCK_M, BLOCK_K, LOAD_TMA)
            if W_IS_NK:
                ws = _load(w, col, at, n, k, BLOCK_N, BLOCK_K, LOAD_TMA).T
            else:
                ws = _load(w, at, col, k, n, BLOCK_K, BLOCK_N, LOAD_TMA)
            acc = tl.dot(xs, ws, acc, input_precision="ieee")
        if SUBTILE:
            HALF: tl.constexpr = BLOCK_N // 2
            halves = acc.reshape(BLOCK_M, 2, HALF).permute(0, 2, 1)
            left, right = halves.split()
            _finish(y, b, left, row, col, m, n, BLOCK_M, HALF, STORE_TMA)
            _finish(y, b, right, row, col + HALF, m, n, BLOCK_M, HALF, STORE_TMA)
        else:
            _finish(y, b, acc, row, col, m, n, BLOCK_M, BLOCK_N, STORE_TMA)


_SMEM = 227 * 1024  # of a CTA where no GPU is given: an H200 is meant


def _refused(tile):
    """Why the kernel can't be written with this tile, or None."""
    if tile.epilogue not in (None, "subtile"):
        return f"the epilogue is subtile or none, not {tile.epilogue}"
    if min(tile.block_m, tile.block_n, tile.block_k) < 16:
        return "tl.dot takes blocks of 16 and more"
    return None


def _too_large(tile, problem, gpu):
    """Why the tile doesn't fit a CTA of `gpu`, by Triton's way of using shared memory, or None."""
    smem = gpu.smem_per_block if gpu else _SMEM
    size = ITEMSIZE[problem.dtype]
    outputs = tile.block_m * tile.block_n
    ring = tile.stages * (tile.block_m + tile.block_n) * tile.block_k * size
    staged = outputs * size // (2 if tile.epilogue else 1)
    if ring + staged > smem:
        return f"needs {ring + staged} bytes of shared memory of {smem}"
    return None


def _pruned(tile, problem, gpu):
    """Why the tile won't win, or None."""
    outputs = tile.block_m * tile.block_n
    thin = tile.block_m <= 32
    depth = 32 if gpu and gpu.capability < (9, 0) else 64
    rows = triton.next_power_of_2(problem.m)
    if outputs > 128 * 32 * tile.warps:
        return "more than 128 accumulators a thread spill"
    if tile.warps == 8 and outputs < 32 * 32 * tile.warps:
        return "8 warps want 32 accumulators a thread"
    if tile.epilogue and outputs < 128 * 256:
        return "a smaller accumulator is staged whole"
    if problem.dtype == "fp32":
        if outputs > 64 * 32 or tile.block_k > 32:
            return "fp32 is multiplied by CUDA cores, whose operands would spill"
    elif tile.block_k < 64 if thin else tile.block_k != depth:
        return f"k is cut in {depth}s, longer only where thin tiles need bytes in flight"
    if not (rows // 2 if rows <= 64 else 64) <= tile.block_m <= max(16, rows):
        return f"block_m doesn't suit {problem.m} rows"
    if tile.block_n > max(32, triton.next_power_of_2(problem.n)):
        return f"block_n is wider than {problem.n} columns"
    return None


def _why_not(tile, problem, gpu):
    if reason := _refused(tile) or _too_large(tile, problem, gpu):
        return Rejection("invalid", reason)
    if reason := _pruned(tile, problem, gpu):
        return Rejection("pruned", reason)
    return None


SPACE = Space(
    {
        "block_m": (16, 32, 64, 128, 256),
        "block_n": (32, 64, 128, 256),
        "block_k": (32, 64, 128, 256),
        "stages": (3, 4, 5),
        "warps": (4, 8),
        "scheduler": ("persistent",),
        "swizzle": (8,),
        "epilogue": (None, "subtile"),
    },
    _why_not,
)
_FIELDS = tuple(SPACE.axes)
_MAX_CANDIDATES = 12
_MAX_SIZE = 2**31 - 1024  # the last tile may reach past the edge
_INTERPRETED_CTAS = 2  # any number is right; more than one shows that the tiles are shared out


def _cost(tile, problem, gpu):
    """A coarse model of a tile's time, to rank candidates and no more.

    Waves of tiles, each the longer of its multiply-adds and its operand traffic (an SM multiplies
    and adds about 64 times in the time it fetches an element), and a constant for its ends.
    """
    waves = math.ceil(
        math.ceil(problem.m / tile.block_m)
        * math.ceil(problem.n / tile.block_n)
        / (gpu.sms if gpu else 132)
    )
    depth = math.ceil(problem.k / tile.block_k) * tile.block_k
    step = max(tile.block_m * tile.block_n, 64 * (tile.block_m + tile.block_n))
    return waves * (depth * step + 2**21)


def _ranked(problem):
    """The space's tiles, best guess first; of those that differ in stages alone, the deepest."""
    gpu = device.current()
    deepest = {}
    for tile in SPACE.tiles(problem, gpu):  # stages ascend within the product
        deepest[tile.block_m, tile.block_n, tile.block_k, tile.warps, tile.epilogue] = tile
    return sorted(deepest.values(), key=lambda tile: _cost(tile, problem, gpu))


def _tma(problem, inputs):
    """Whether loads and stores go through TMA: bases and rows must be multiples of 16 bytes."""
    gpu = device.current()
    if gpu is None or gpu.capability < (9, 0):
        return False, False
    k_whole, n_whole = ((row * ITEMSIZE[problem.dtype]) % 16 == 0 for row in (problem.k, problem.n))
    w_whole = k_whole if problem.layout == "tn" else n_whole
    return k_whole and w_whole and _aligned(inputs), n_whole


def _aligned(inputs):
    return all(inputs[name].data_ptr() % 16 == 0 for name in ("x", "w"))


def _descriptor(matrix, block):
    """A row-major matrix for TMA. (torch leaves the strides of a dimension of size 1 open.)"""
    rows, columns = matrix.shape
    return TensorDescriptor(matrix, [rows, columns], [columns, 1], block)


def _arguments(problem, inputs, tile, tma):
    """The kernel's arguments and options for these tensors, and the output among them."""
    x, w, b = inputs["x"], inputs["w"], inputs["b"]
    y = torch.empty(problem.out_shape, dtype=x.dtype, device=x.device)
    load_tma, store_tma = tma
    block_m, block_n, block_k = tile.block_m, tile.block_n, tile.block_k
    stored_n = block_n // 2 if tile.epilogue else block_n
    if load_tma:
        x = _descriptor(x, [block_m, block_k])
        w = _descriptor(w, [block_n, block_k] if problem.layout == "tn" else [block_k, block_n])
    y_arg = _descriptor(y, [block_m, stored_n]) if store_tma else y
    args = (x, w, b, y_arg, problem.m, problem.n, problem.k)
    options = {
        "W_IS_NK": problem.layout == "tn",
        "LOAD_TMA": load_tma,
        "STORE_TMA": store_tma,
        "SUBTILE": bool(tile.epilogue),
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "GROUP_M": tile.swizzle,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }
    return args, options, y


def _bind(problem, tile, tma, ctas):
    """`Launch.bind` for one tile; at most `ctas` CTAs walk the output."""
    output_tiles = math.ceil(problem.m / tile.block_m) * math.ceil(problem.n / tile.block_n)
    grid = (min(output_tiles, ctas),)

    def bind(inputs):
        _triton.require_contiguous(inputs)
        if tma[0] and not _aligned(inputs):
            raise ValueError("x and w must be 16-byte aligned, as they were when prepared")
        args, options, y = _arguments(problem, inputs, tile, tma)

        def launch():
            _linear[grid](*args, **options)
            return y

        return launch

    return bind


def prepare(problem, inputs, tile=None):
    _triton.require_target()
    _triton.require_contiguous(inputs)
    if max(problem.m, problem.n, problem.k) > _MAX_SIZE:
        raise Unsupported(f"tile coordinates are 32-bit: m, n and k are at most {_MAX_SIZE}")
    ranked, tma = _ranked(problem), _tma(problem, inputs)
    candidates, tile_from = ranked[:_MAX_CANDIDATES], "autotuned"
    if tile is not None:
        _triton.require_fields(tile, _FIELDS)
        # No epilogue in a tile means none, so that one is never filled in.
        like = [t for t in ranked if t.epilogue == tile.epilogue and tile.covers(t)]
        chosen = tile.filled(like[0] if like else replace(ranked[0], epilogue=None))
        if reason := _refused(chosen):
            raise Unsupported(f"{tile}: {reason}")
        candidates, tile_from = [chosen], "declared"

    if _triton.interpreted():
        if problem.dtype == "bf16":
            raise Unsupported("bf16 tl.dot is wrong in Triton's interpreter; use fp16 or fp32")
        return Launch(
            _bind(problem, candidates[0], tma, _INTERPRETED_CTAS), candidates[0], "declared"
        )

    def warmup(tile):
        args, options, _ = _arguments(problem, inputs, tile, tma)
        return _linear.warmup(*args, grid=(1,), **options)

    kernels = _triton.compiled({t: lambda t=t: warmup(t) for t in candidates})
    sms = device.current().sms
    binds = {
        t: _bind(problem, t, tma, sms * _triton.ctas_per_sm(kernel))
        for t, kernel in kernels.items()
    }
    chosen = _screen.fastest(problem, inputs, binds) if tile is None else candidates[0]
    return Launch(binds[chosen], chosen, tile_from, _triton.resources(kernels[chosen]))


CONTENDER = Contender(
    "triton",
    "linear",
    prepare,
    tiles=SPACE.tiles,
    space=SPACE,
    files=("../_triton.py", "../_screen.py"),
)
