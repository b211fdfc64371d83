"""y = (act(x Wgᵀ) · (x Wuᵀ)) Wdᵀ: Liger's activation between three cuBLAS products."""

from lab import device
from lab.contender import Contender, Launch

from .. import _gated, _liger


def prepare(problem, inputs, tile=None):
    liger = _liger.gated(problem, device.current())

    def bind(inputs):
        x, wg, wu, wd = (inputs[name] for name in problem.shapes)

        def launch():
            gate = _gated.linear(x, wg, problem.layout)
            h = liger.call(gate, _gated.linear(x, wu, problem.layout))
            return _gated.linear(h, wd, problem.layout)

        return launch

    bind(inputs)()
    return Launch(bind)


CONTENDER = Contender(
    "liger", "mlp", prepare, files=("../_gated.py", "../_liger.py", "../_triton.py")
)
