"""h = act(gate) · up as one flat Triton kernel: three launches cover every shape and compile once.

The kernel, which others share, and the argument for it are in kernels/_geglu.py.
"""

import torch
import triton

from lab.contender import Contender, Launch

from .. import _triton
from .._geglu import LAUNCH_SET as _LAUNCH_SET
from .._geglu import _geglu, compiled
from .._geglu import tile_for as _tile


def prepare(problem, inputs, tile=None):
    _triton.require_target()
    _triton.require_contiguous(inputs)
    chosen = _tile(problem)
    if tile is not None:
        _triton.require_fields(tile, ("block_n", "warps"))
        chosen = tile.filled(chosen)

    def bind(inputs):
        _triton.require_contiguous(inputs)
        gate, up = inputs["gate"], inputs["up"]
        h = torch.empty_like(gate)
        args = (gate, up, h, h.numel(), problem.activation, chosen.block_n)
        grid = (triton.cdiv(h.numel(), chosen.block_n),)

        def launch():
            _geglu[grid](*args, num_warps=chosen.warps)
            return h

        return launch

    if _triton.interpreted():
        return Launch(bind, chosen, "declared")
    kernels = compiled(problem.torch_dtype, problem.activation, (chosen,))
    return Launch(bind, chosen, "declared", _triton.resources(kernels[chosen]))


def tiles(problem):
    return list(_LAUNCH_SET)


CONTENDER = Contender("triton", "geglu", prepare, tiles, files=("../_geglu.py", "../_triton.py"))
