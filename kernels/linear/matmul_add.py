"""y = x Wᵀ + b as two ops: a matmul that writes y, an addition that reads it back and writes it."""

import torch

from lab.contender import Contender, Launch


def prepare(problem, inputs, tile=None):
    def bind(inputs):
        x, w, b = inputs["x"], inputs["w"], inputs["b"]
        if problem.layout == "tn":
            return lambda: torch.add(torch.matmul(x, w.t()), b)
        return lambda: torch.add(torch.matmul(x, w), b)

    return Launch(bind)


CONTENDER = Contender("matmul_add", "linear", prepare)
