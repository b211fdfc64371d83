"""How near to copy speed does h = gelu(gate) · up run, fused by Inductor, by Liger and by hand,
from one row to 65536 and with odd widths?"""

from lab.experiment import Experiment
from lab.problem import Problem

SIZES = (  # rows, columns
    (1, 3072),
    (1, 14336),
    (16, 4096),
    (64, 3072),
    (128, 14336),
    (512, 768),
    (1000, 3000),
    (1024, 3072),
    (1024, 4097),
    (2048, 9216),
    (4096, 8192),
    (4096, 28672),
    (8192, 3072),
    (8192, 14336),
    (16384, 3000),
    (16384, 4097),
    (65536, 768),
    (65536, 3072),
)
OTHERS = (  # dtype, activation, at the seed's shape
    ("bf16", "erf"),
    ("bf16", "silu"),
    ("fp16", "tanh"),
    ("fp32", "tanh"),
)

EXPERIMENT = Experiment(
    problems=tuple(Problem("geglu", m, n, activation="tanh") for m, n in SIZES)
    + tuple(Problem("geglu", 8192, 3072, dtype=d, activation=a) for d, a in OTHERS),
    cpu_problems=(
        Problem("geglu", 64, 3072, activation="tanh"),
        Problem("geglu", 33, 4097, dtype="fp16", activation="erf"),
        Problem("geglu", 16, 3000, dtype="fp32", activation="silu"),
    ),
)
