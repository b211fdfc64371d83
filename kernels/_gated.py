"""The formulas of gate_up and mlp in PyTorch's ops, for any layout and activation.

x may have leading dimensions: [batch, sequence, hidden] as well as [tokens, hidden]. A contender
that compiles one wraps it in a function of its own: Dynamo caches per code object, so a shared one
would hold another contender's graph; what it inlines may be shared.
"""

import torch
import torch.nn.functional as F


def gate_up(x, wg, wu, layout: str, activation: str):
    """h = act(x Wgᵀ) · (x Wuᵀ)"""
    gate, up = linear(x, wg, layout), linear(x, wu, layout)
    return activate(gate, activation) * up


def mlp(x, wg, wu, wd, layout: str, activation: str):
    """y = (act(x Wgᵀ) · (x Wuᵀ)) Wdᵀ"""
    return linear(gate_up(x, wg, wu, layout, activation), wd, layout)


def linear(x, w, layout: str):
    return F.linear(x, w) if layout == "tn" else torch.matmul(x, w)


def activate(t, activation: str):
    if activation == "silu":
        return F.silu(t)
    return F.gelu(t, approximate="tanh" if activation == "tanh" else "none")
