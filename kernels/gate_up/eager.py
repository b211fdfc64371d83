"""h = act(x Wgᵀ) · (x Wuᵀ) as PyTorch runs it: two products and two pointwise kernels."""

from lab.contender import Contender, Launch

from .. import _gated


def prepare(problem, inputs, tile=None):
    def bind(inputs):
        operands = [inputs[name] for name in problem.shapes]
        return lambda: _gated.gate_up(*operands, problem.layout, problem.activation)

    return Launch(bind)


CONTENDER = Contender("eager", "gate_up", prepare, files=("../_gated.py",), baseline=True)
