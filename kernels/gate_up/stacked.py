"""h = act(x Wgᵀ) · (x Wuᵀ): one cuBLAS product over the stacked weights, then our Triton kernel."""

import torch

from lab.contender import Contender, Launch

from .. import _stacked


def prepare(problem, inputs, tile=None):
    bind_gated = _stacked.prepare(problem, inputs)

    def bind(inputs):
        gated = bind_gated(inputs)
        h = torch.empty(problem.out_shape, dtype=inputs["x"].dtype, device=inputs["x"].device)
        return lambda: gated(h)

    return Launch(bind)


CONTENDER = Contender(
    "stacked", "gate_up", prepare, files=("../_stacked.py", "../_geglu.py", "../_triton.py")
)
