"""h = act(gate) · up through torch.compile: Inductor fuses it into one pointwise Triton kernel."""

import torch.nn.functional as F

from lab.contender import Contender, Launch

from .. import _torch_compile


def _tanh(gate, up):
    return F.gelu(gate, approximate="tanh") * up


def _erf(gate, up):
    return F.gelu(gate) * up


def _silu(gate, up):
    return F.silu(gate) * up


_FORMULAS = {"tanh": _tanh, "erf": _erf, "silu": _silu}


def prepare(problem, inputs, tile=None):
    formula = _FORMULAS[problem.activation]
    done = _torch_compile.compiled(formula, inputs["gate"], inputs["up"], kind="poi")

    def bind(inputs):
        gate, up = inputs["gate"], inputs["up"]
        return lambda: done.call(gate, up)

    return Launch(bind, done.tile, done.tile_from, done.resources)


CONTENDER = Contender("inductor", "geglu", prepare, files=("../_torch_compile.py",))
