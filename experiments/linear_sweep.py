"""Which kernel, and which tile, wins y = x Wᵀ + b as tokens go from 1 to 16384 at the hidden sizes
of real models, and at odd sizes that are no multiple of any tile?"""

from lab.experiment import Experiment
from lab.problem import LAYOUTS, Problem

SIZES = (  # m tokens, n out, k in
    (1, 3072, 768),  # GPT-2, MLP up
    (1, 4096, 14336),  # Llama 3 8B, MLP down
    (4, 14336, 4096),  # Llama 3 8B, MLP up
    (16, 4096, 4096),  # Llama 3 8B, attention out
    (16, 6144, 4096),  # Llama 3 8B, fused QKV
    (64, 768, 3072),  # GPT-2, MLP down
    (64, 14336, 4096),
    (128, 9216, 2304),  # Gemma 2 2B, MLP up
    (256, 14336, 4096),
    (256, 4096, 1024),  # BERT large, MLP up
    (512, 2304, 768),  # GPT-2, fused QKV
    (512, 1024, 4096),  # BERT large, MLP down
    (1024, 768, 3072),
    (1024, 3072, 768),
    (1024, 24576, 3072),  # Gemma 7B, MLP up
    (2048, 4096, 4096),
    (2048, 2304, 9216),  # Gemma 2 2B, MLP down
    (4096, 6144, 4096),
    (4096, 4096, 16384),
    (8192, 4096, 64),  # a low-rank adapter's way back up
    (8192, 14336, 4096),
    (16384, 3072, 768),
    (16384, 768, 3072),
    (1000, 1000, 1000),  # multiples of 8, of no tile
    (1023, 3000, 776),
    (4097, 4104, 520),
    (777, 3001, 1001),  # odd strides: no tensor-memory access
)
FP16_SIZES = ((2048, 4096, 4096), (16, 4096, 4096))
CPU_SIZES = ((1, 768, 256), (33, 72, 104), (17, 200, 136))

EXPERIMENT = Experiment(
    problems=tuple(
        Problem("linear", m, n, k, layout, dtype)
        for dtype, sizes in (("bf16", SIZES), ("fp16", FP16_SIZES))
        for m, n, k in sizes
        for layout in LAYOUTS
    ),
    cpu_problems=tuple(
        Problem("linear", m, n, k, layout, "fp16") for m, n, k in CPU_SIZES for layout in LAYOUTS
    ),
)
