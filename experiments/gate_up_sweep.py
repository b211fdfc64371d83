"""What does it cost to keep h = act(x Wgᵀ) · (x Wuᵀ) apart from its two products, and what do
stacked weights give, over the MLPs of real models from 1 to 16384 tokens?"""

from lab.experiment import Experiment
from lab.problem import Problem

SIZES = (  # m tokens, k hidden, n intermediate
    (1, 4096, 14336),  # Llama 3 8B
    (16, 2304, 9216),  # Gemma 2 2B
    (64, 4096, 14336),
    (128, 896, 4864),  # Qwen2.5 0.5B
    (256, 3584, 18944),  # Qwen2.5 7B
    (512, 1024, 4096),  # BERT large
    (1024, 768, 3072),  # GPT-2
    (2048, 2048, 8192),  # Llama 3.2 1B
    (2048, 4096, 14336),
    (4096, 2048, 8192),
    (4096, 2304, 9216),
    (8192, 768, 3072),
    (8192, 4096, 14336),
    (16384, 768, 3072),
)
OTHERS = (  # m, k, n, layout, dtype, activation
    (8192, 768, 3072, "nn", "bf16", "tanh"),
    (4096, 2048, 8192, "nn", "bf16", "tanh"),
    (8192, 768, 3072, "tn", "fp16", "tanh"),
    (8192, 768, 3072, "tn", "bf16", "erf"),
    (4096, 2048, 8192, "tn", "bf16", "silu"),
)
CPU_SIZES = (  # m, k, n, layout, activation
    (64, 96, 256, "tn", "tanh"),
    (33, 104, 264, "tn", "erf"),
    (17, 64, 250, "nn", "silu"),
    (64, 96, 256, "nn", "tanh"),
)

EXPERIMENT = Experiment(
    problems=tuple(Problem("gate_up", m, n, k, "tn", "bf16", "tanh") for m, k, n in SIZES)
    + tuple(Problem("gate_up", m, n, k, *words) for m, k, n, *words in OTHERS),
    cpu_problems=tuple(
        Problem("gate_up", m, n, k, layout, "fp16", activation)
        for m, k, n, layout, activation in CPU_SIZES
    ),
)
