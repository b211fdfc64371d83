"""h = gelu_tanh(gate) · up by Liger's kernel: one program per row, the row in one block.

Its block is the next power of two of n (of 4096 columns for 3072 a quarter is masked), and n is a
constant of the kernel, so every new n compiles. It rounds the activation before it multiplies.
"""

from lab import device
from lab.contender import Contender, Launch, Unsupported
from lab.tile import Tile

from .. import _triton

_MAX_COLUMNS = 65536  # Liger's limit on its block


def prepare(problem, inputs, tile=None):
    if problem.activation != "tanh":
        raise Unsupported(f"Liger's GeGLU has the tanh GELU alone, not {problem.activation}")
    if problem.n > _MAX_COLUMNS:
        raise Unsupported(f"Liger's block is one row of at most {_MAX_COLUMNS} columns")
    if device.current() is None:
        raise Unsupported("needs a CUDA GPU (its tanh is none of the interpreter's)")
    try:
        from liger_kernel.ops.geglu import geglu_forward
        from liger_kernel.ops.utils import calculate_settings
    except ImportError as error:
        why = f"liger-kernel can't be imported ({error}): pip install liger-kernel"
        raise Unsupported(why) from error

    def bind(inputs):
        _triton.require_contiguous(inputs)  # it walks all three operands by the output's stride
        gate, up = inputs["gate"], inputs["up"]
        return lambda: geglu_forward(gate, up)[-1]

    bind(inputs)()
    block, warps = calculate_settings(problem.n)
    return Launch(bind, Tile(block_m=1, block_n=block, warps=warps), "declared")


CONTENDER = Contender("liger", "geglu", prepare, files=("../_triton.py",))
