"""y = x Wᵀ + b by PyTorch's own op: one cuBLAS(Lt) GEMM whose epilogue adds the bias."""

import torch
import torch.nn.functional as F

from lab.contender import Contender, Launch


def prepare(problem, inputs, tile=None):
    def bind(inputs):
        x, w, b = inputs["x"], inputs["w"], inputs["b"]
        if problem.layout == "tn":
            return lambda: F.linear(x, w, b)
        return lambda: torch.addmm(b, x, w)

    return Launch(bind)


CONTENDER = Contender("cublas", "linear", prepare, baseline=True)
