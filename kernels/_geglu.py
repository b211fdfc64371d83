"""h = act(gate) · up as Triton kernels, and the launches that cover every shape with them.

`_geglu` is flat: gate, up and h are contiguous and walked as 1-D arrays.

    no mask   a full block takes a branch without masks, whose loads are 16 bytes a thread; only
              the last block is masked. Odd widths waste nothing and n is no constant of the kernel.
    one key   numel is an i64 that Triton doesn't specialise on: neither its value, its
              divisibility by 16 nor its passing 2³¹ compiles anything anew. Offsets inside a
              block stay 32-bit; the block's start, a scalar, is 64-bit.

`_geglu_rows` reads gate and up as the halves of each row of one [m, 2n] array, as one product
with stacked weights leaves them. A block lies in one row. n comes in units of UNIT elements, not
specialised on, so that there are two kernels in all: units of 8 elements, which keep every access
at 16 bytes of a 16-bit dtype, and of 1 for the widths that 8 doesn't divide.

Everything is computed in fp32 and rounded once.

Gelu-tanh is x·σ(2z), z = √(2/π)(x + 0.044715 x³), that is x / (1 + 2^(−2 log₂(e) z)): one exp2
and one division, hidden under the memory traffic, where tanh is a longer sequence. It can't give
NaN for finite x: where exp2 overflows, x/∞ is the right −0.

Gelu-erf is relu(x) − |x|·erfc(|x|/√2)/2. In fp32, where an element is 12 bytes of traffic, the
library's erf fits under it; of the 16-bit dtypes' 6 bytes it would take the SM's whole issue rate,
so erfc comes from Abramowitz and Stegun 7.1.26, absolute error 1.5e-7 (a bf16 ulp at 1 is 8e-3).
"""

import torch
import triton
import triton.language as tl

from lab import device
from lab.tile import Tile

from . import _triton

_TANH_1 = tl.constexpr(-2.302208198144325)  # −2 log₂(e) √(2/π)
_TANH_3 = tl.constexpr(-0.1029432395800635)  # the same times 0.044715
_SILU = tl.constexpr(-1.4426950408889634)  # −log₂(e)
_NORMAL = tl.constexpr(-0.7213475204444817)  # −log₂(e) / 2
_SQRT_HALF = tl.constexpr(0.7071067811865476)
_P_SQRT_HALF = tl.constexpr(0.2316418882663604)  # 0.3275911 √½


@triton.jit
def _half_erfc(z):
    """erfc(z / √2) / 2 for z ≥ 0, by Abramowitz and Stegun 7.1.26."""
    t = 1 / (z * _P_SQRT_HALF + 1)
    series = 1.421413741 + t * (-1.453152027 + t * 1.061405429)
    series = t * (0.254829592 + t * (-0.284496736 + t * series))
    return 0.5 * series * tl.exp2(z * z * _NORMAL)


@triton.jit
def _gated(gate, up, ACTIVATION: tl.constexpr):
    x = gate.to(tl.float32)
    if ACTIVATION == "tanh":
        act = x / (1 + tl.exp2(x * (x * x * _TANH_3 + _TANH_1)))
    elif ACTIVATION == "silu":
        act = x / (1 + tl.exp2(x * _SILU))
    elif gate.dtype == tl.float32:
        act = 0.5 * x * (1 + tl.erf(x * _SQRT_HALF))
    else:
        act = tl.maximum(x, 0.0) - tl.abs(x) * _half_erfc(tl.abs(x))
    return (act * up.to(tl.float32)).to(gate.dtype)


@triton.jit
def _block(gate, up, h, left, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    """One block, of which `left` elements are there; without masks where that is all."""
    at = tl.arange(0, BLOCK)
    if left >= BLOCK:
        tl.store(h + at, _gated(tl.load(gate + at), tl.load(up + at), ACTIVATION))
    else:
        live = at < left
        g = tl.load(gate + at, mask=live, other=0.0)
        u = tl.load(up + at, mask=live, other=0.0)
        tl.store(h + at, _gated(g, u, ACTIVATION), mask=live)


@triton.jit(do_not_specialize=["numel"])
def _geglu(gate, up, h, numel: tl.int64, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    _block(gate + start, up + start, h + start, numel - start, ACTIVATION, BLOCK)


@triton.jit(do_not_specialize=["units"])
def _geglu_rows(
    both, h, units: tl.int32, UNIT: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr
):
    n = units * UNIT
    blocks = tl.cdiv(n, BLOCK)
    row = tl.program_id(0) // blocks
    column = (tl.program_id(0) - row * blocks) * BLOCK
    start = row.to(tl.int64) * n
    gate = both + 2 * start + column
    _block(gate, gate + n, h + start + column, n - column, ACTIVATION, BLOCK)


# The launch set, smallest first. A block is 4 or 8 elements a thread.
LAUNCH_SET = (
    Tile(block_n=256, warps=2),
    Tile(block_n=512, warps=4),
    Tile(block_n=1024, warps=4),
)
_THREADS_PER_SM = 2048
_MAX_WASTE = 1.1  # elements of a row's blocks over the row's own


def tile_for(problem) -> Tile:
    """The largest block that gives every SM one block, and from a full wave on the largest.

    A small problem is latency: it wants every SM to have work. Where full occupancy with the
    largest block leaves nothing idle, that block launches the fewest CTAs.
    """
    gpu = device.current()
    sms = gpu.sms if gpu else 1
    small, middle, large = LAUNCH_SET
    numel = problem.m * problem.n
    if numel >= sms * large.block_n * (_THREADS_PER_SM // (32 * large.warps)):
        return large
    return middle if numel >= sms * middle.block_n else small


def row_tile_for(problem) -> Tile:
    """As `tile_for`, but no larger than lets the blocks of a row waste little."""
    chosen = tile_for(problem)
    for tile in reversed(LAUNCH_SET):
        padded = triton.cdiv(problem.n, tile.block_n) * tile.block_n
        if tile.block_n <= chosen.block_n and padded <= _MAX_WASTE * problem.n:
            return tile
    return LAUNCH_SET[0]


def compiled(dtype, activation: str, also: tuple[Tile, ...] = ()) -> dict[Tile, object]:
    """Kernels `_geglu` of the launch set and of the tiles in `also`: no later shape compiles.

    Raises:
        Unsupported: no tile fits the GPU.
    """
    t = torch.empty(0, dtype=dtype, device="cuda")
    return _triton.compiled(
        {
            tile: lambda tile=tile: _geglu.warmup(
                t, t, t, 1, activation, tile.block_n, grid=(1,), num_warps=tile.warps
            )
            for tile in dict.fromkeys((*also, *LAUNCH_SET))
        }
    )


def compiled_rows(dtype, activation: str, unit: int) -> dict[Tile, object]:
    """Kernels `_geglu_rows` of the launch set for widths in units of `unit`; as `compiled`."""
    t = torch.empty(0, dtype=dtype, device="cuda")
    return _triton.compiled(
        {
            tile: lambda tile=tile: _geglu_rows.warmup(
                t, t, 1, unit, activation, tile.block_n, grid=(1,), num_warps=tile.warps
            )
            for tile in LAUNCH_SET
        }
    )
