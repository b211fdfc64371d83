"""h = act(x Wgᵀ) · (x Wuᵀ): Liger's activation after two cuBLAS products."""

from lab import device
from lab.contender import Contender, Launch

from .. import _gated, _liger


def prepare(problem, inputs, tile=None):
    liger = _liger.gated(problem, device.current())

    def bind(inputs):
        x, wg, wu = (inputs[name] for name in problem.shapes)

        def launch():
            gate = _gated.linear(x, wg, problem.layout)
            return liger.call(gate, _gated.linear(x, wu, problem.layout))

        return launch

    bind(inputs)()
    return Launch(bind)


CONTENDER = Contender(
    "liger", "gate_up", prepare, files=("../_gated.py", "../_liger.py", "../_triton.py")
)
