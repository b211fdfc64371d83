"""How do the kernels behind nn.Linear compare at four textbook shapes: a tiny layer, the two
projections of a GPT-2 MLP (equal flops, other tiles), and a square product?"""

from lab.experiment import Experiment
from lab.problem import LAYOUTS, Problem

SIZES = ((1024, 64, 32), (8192, 3072, 768), (8192, 768, 3072), (4096, 4096, 4096))  # m, n, k
CPU_SIZES = ((1024, 64, 32), (16, 384, 96), (16, 96, 384))  # the projections at an eighth

EXPERIMENT = Experiment(
    problems=tuple(Problem("linear", m, n, k, layout) for m, n, k in SIZES for layout in LAYOUTS),
    cpu_problems=tuple(
        Problem("linear", m, n, k, layout, "fp16") for m, n, k in CPU_SIZES for layout in LAYOUTS
    ),
)
