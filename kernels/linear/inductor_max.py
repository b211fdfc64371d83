"""y = x Wᵀ + b through torch.compile with max-autotune: Inductor races its Triton GEMM templates
against cuBLAS and keeps the winner. Tens of seconds per problem, so it runs only when asked for.

"no-cudagraphs", because the lab captures graphs itself. The formulas stand here again: Dynamo
caches per code object, and a shared one would hold `inductor`'s graph.
"""

import torch
import torch.nn.functional as F

from lab.contender import Contender, Launch

from .. import _torch_compile

_MODE = "max-autotune-no-cudagraphs"


def _tn(x, w, b):
    return F.linear(x, w, b)


def _nn(x, w, b):
    return torch.addmm(b, x, w)


def prepare(problem, inputs, tile=None):
    formula = _tn if problem.layout == "tn" else _nn
    x, w, b = inputs["x"], inputs["w"], inputs["b"]
    done = _torch_compile.compiled(formula, x, w, b, kind="tem", mode=_MODE)

    def bind(inputs):
        x, w, b = inputs["x"], inputs["w"], inputs["b"]
        return lambda: done.call(x, w, b)

    return Launch(bind, done.tile, done.tile_from, done.resources)


CONTENDER = Contender("inductor_max", "linear", prepare, files=("../_torch_compile.py",), slow=True)
