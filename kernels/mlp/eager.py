"""y = (act(x Wgᵀ) · (x Wuᵀ)) Wdᵀ as PyTorch runs it: three products and two pointwise kernels."""

from lab.contender import Contender, Launch

from .. import _gated


def prepare(problem, inputs, tile=None):
    def bind(inputs):
        operands = [inputs[name] for name in problem.shapes]
        return lambda: _gated.mlp(*operands, problem.layout, problem.activation)

    return Launch(bind)


CONTENDER = Contender("eager", "mlp", prepare, files=("../_gated.py",), baseline=True)
