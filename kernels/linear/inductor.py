"""y = x Wᵀ + b through torch.compile's default mode: cuBLAS again, behind Dynamo's guards."""

import torch
import torch.nn.functional as F

from lab.contender import Contender, Launch

from .. import _torch_compile


def _tn(x, w, b):
    return F.linear(x, w, b)


def _nn(x, w, b):
    return torch.addmm(b, x, w)


def prepare(problem, inputs, tile=None):
    formula = _tn if problem.layout == "tn" else _nn
    done = _torch_compile.compiled(formula, inputs["x"], inputs["w"], inputs["b"], kind="tem")

    def bind(inputs):
        x, w, b = inputs["x"], inputs["w"], inputs["b"]
        return lambda: done.call(x, w, b)

    return Launch(bind, done.tile, done.tile_from, done.resources)


CONTENDER = Contender("inductor", "linear", prepare, files=("../_torch_compile.py",))
