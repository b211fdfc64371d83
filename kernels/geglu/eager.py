"""h = act(gate) · up as PyTorch runs it: two kernels, the activation's result through memory."""

import torch

from lab.contender import Contender, Launch


def prepare(problem, inputs, tile=None):
    def bind(inputs):
        gate, up = inputs["gate"], inputs["up"]
        return lambda: torch.mul(problem.activate(gate), up)

    return Launch(bind)


CONTENDER = Contender("eager", "geglu", prepare, baseline=True)
