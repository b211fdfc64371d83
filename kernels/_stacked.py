"""Gate and up by one cuBLAS product over stacked weights, the activation by our Triton kernel.

The weights must lie side by side in memory, as models that merge the two projections store them
and as the lab's inputs do: the stack is then a view, sees whatever is written to wg and wu, and
costs nothing. A stack that were copied once would be stale after the next write.

    tn   wg and wu [n, k] are one weight [2n, k]: the product is [m, 2n], gate and up are the
         halves of each row.
    nn   no stride makes [k, n] and [k, n] one [k, 2n], so it is a batch of two products that share
         x (its stride over the batch is 0): [2, m, n], gate and up are contiguous.
"""

from collections.abc import Callable

import torch
import triton

from lab.contender import Inputs, Unsupported
from lab.problem import Problem

from . import _triton
from ._geglu import _geglu, _geglu_rows, compiled, compiled_rows, row_tile_for, tile_for


def prepare(problem: Problem, inputs: Inputs) -> Callable[[Inputs], Callable]:
    """Compiles; returns bind(inputs) -> fn(h), which writes act(x Wgᵀ) · (x Wuᵀ) into h [m, n].

    Raises:
        Unsupported: wg and wu don't lie side by side, or Triton can't run here.
    """
    _triton.require_target()
    stack(inputs)
    return (_wide if problem.layout == "tn" else _batched)(problem)


def stack(inputs: Inputs) -> torch.Tensor:
    """wg and wu as one view [2, *shape].

    Raises:
        Unsupported: wu doesn't start where wg ends, in one allocation.
        ValueError: an operand isn't contiguous.
    """
    _triton.require_contiguous(inputs)
    wg, wu = inputs["wg"], inputs["wu"]
    if (
        wg.untyped_storage().data_ptr() != wu.untyped_storage().data_ptr()
        or wg.data_ptr() + wg.nbytes != wu.data_ptr()
    ):
        raise Unsupported("the weights of gate and up don't lie side by side in memory")
    return wg.as_strided((2, *wg.shape), (wg.numel(), *wg.stride()))


def _wide(problem: Problem):
    tile = row_tile_for(problem)
    unit = 8 if problem.n % 8 == 0 else 1
    grid = (problem.m * triton.cdiv(problem.n, tile.block_n),)
    constants = (problem.n // unit, unit, problem.activation, tile.block_n)
    if not _triton.interpreted():
        compiled_rows(problem.torch_dtype, problem.activation, unit)

    def bind(inputs):
        x, w = inputs["x"], stack(inputs).flatten(0, 1).t()

        def run(h):
            _geglu_rows[grid](torch.mm(x, w), h, *constants, num_warps=tile.warps)
            return h

        return run

    return bind


def _batched(problem: Problem):
    tile = tile_for(problem)
    numel = problem.m * problem.n
    grid = (triton.cdiv(numel, tile.block_n),)
    constants = (numel, problem.activation, tile.block_n)
    if not _triton.interpreted():
        compiled(problem.torch_dtype, problem.activation)

    def bind(inputs):
        x, w = inputs["x"].expand(2, -1, -1), stack(inputs)

        def run(h):
            _geglu[grid](*torch.bmm(x, w), h, *constants, num_warps=tile.warps)
            return h

        return run

    return bind
