"""h = act(x Wgᵀ) · (x Wuᵀ) through torch.compile's default mode: cuBLAS products, the
pointwise part fused into one Triton kernel."""

from lab.contender import Contender, Launch

from .. import _gated, _torch_compile


def _formula(x, wg, wu, layout, activation):
    return _gated.gate_up(x, wg, wu, layout, activation)


def prepare(problem, inputs, tile=None):
    words = (problem.layout, problem.activation)
    operands = [inputs[name] for name in problem.shapes]
    # The longest kernel is a product; its tile is read from its name, not from the pointwise one.
    done = _torch_compile.compiled(_formula, *operands, *words, kind="poi")

    def bind(inputs):
        operands = [inputs[name] for name in problem.shapes]
        return lambda: done.call(*operands, *words)

    return Launch(bind)


CONTENDER = Contender(
    "inductor", "gate_up", prepare, files=("../_gated.py", "../_torch_compile.py")
)
