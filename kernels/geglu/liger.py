"""h = act(gate) · up by Liger's kernel, GELU (tanh) or SiLU: one program per row."""

from lab import device
from lab.contender import Contender, Launch

from .. import _liger


def prepare(problem, inputs, tile=None):
    liger = _liger.gated(problem, device.current())

    def bind(inputs):
        _liger.require_contiguous(inputs)
        gate, up = inputs["gate"], inputs["up"]
        return lambda: liger.call(gate, up)

    bind(inputs)()
    return Launch(bind, liger.tile, "declared")


CONTENDER = Contender("liger", "geglu", prepare, files=("../_liger.py", "../_triton.py"))
