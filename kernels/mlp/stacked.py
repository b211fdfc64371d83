"""y = (act(x Wgᵀ) · (x Wuᵀ)) Wdᵀ: gate and up as one cuBLAS product over the stacked weights, our
Triton kernel, the product of down."""

import torch

from lab.contender import Contender, Launch

from .. import _stacked


def prepare(problem, inputs, tile=None):
    bind_gated = _stacked.prepare(problem, inputs)

    def bind(inputs):
        gated = bind_gated(inputs)
        down = inputs["wd"].t() if problem.layout == "tn" else inputs["wd"]

        def launch():
            h = torch.empty((problem.m, problem.n), dtype=down.dtype, device=down.device)
            return torch.mm(gated(h), down)

        return launch

    return Launch(bind)


CONTENDER = Contender(
    "stacked", "mlp", prepare, files=("../_stacked.py", "../_geglu.py", "../_triton.py")
)
