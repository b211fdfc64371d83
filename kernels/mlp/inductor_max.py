"""y = (act(x Wgᵀ) · (x Wuᵀ)) Wdᵀ through torch.compile with max-autotune: Inductor races its
Triton GEMM templates against cuBLAS. Tens of seconds per problem, so it runs only when asked for.

"no-cudagraphs", because the lab captures graphs itself.
"""

from lab.contender import Contender, Launch

from .. import _gated, _torch_compile

_MODE = "max-autotune-no-cudagraphs"


def _formula(x, wg, wu, wd, layout, activation):
    return _gated.mlp(x, wg, wu, wd, layout, activation)


def prepare(problem, inputs, tile=None):
    words = (problem.layout, problem.activation)
    operands = [inputs[name] for name in problem.shapes]
    # Several templates may run; which is the longest, and its tile, isn't known before it is timed.
    done = _torch_compile.compiled(_formula, *operands, *words, kind="tem", mode=_MODE)

    def bind(inputs):
        operands = [inputs[name] for name in problem.shapes]
        return lambda: done.call(*operands, *words)

    return Launch(bind)


CONTENDER = Contender(
    "inductor_max", "mlp", prepare, files=("../_gated.py", "../_torch_compile.py"), slow=True
)
