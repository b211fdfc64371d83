"""The four operations as problems: what is computed, from what, and how little it could cost.

    linear   y = x Wᵀ + b (tn) or x W + b (nn)
    geglu    h = act(gate) · up
    gate_up  h = act(x Wgᵀ) · (x Wuᵀ)
    mlp      y = (act(x Wgᵀ) · (x Wuᵀ)) Wdᵀ

Layout letters follow cuBLAS' column-major convention: tn stores a weight as nn.Linear does,
[out, in]; nn stores it [in, out]. torch is imported when tensors are asked for, not before.
"""

from dataclasses import dataclass, replace

OPS = ("linear", "geglu", "gate_up", "mlp")
LAYOUTS = ("tn", "nn")
DTYPES = ("bf16", "fp16", "fp32")
ACTIVATIONS = ("tanh", "erf", "silu")
ITEMSIZE = {"bf16": 2, "fp16": 2, "fp32": 4}

_CHUNK_BYTES = 2**30  # float64 temporaries of the reference
_LINE_BYTES = 128  # a GPU's cache line


@dataclass(frozen=True)
class Problem:
    """One operation at one size.

    For geglu: m rows, n columns, no k, no layout. For linear: y is [m, n], k is contracted.
    For gate_up and mlp: m tokens, k hidden, n intermediate. `activation` is tanh or erf GELU or
    SiLU, for the gated ops alone.

    Raises:
        ValueError: a field outside its values, or one that the op doesn't have.
    """

    op: str
    m: int
    n: int
    k: int | None = None
    layout: str | None = None
    dtype: str = "bf16"
    activation: str | None = None
    seed: int = 0

    def __post_init__(self):
        def need(name, allowed):
            if getattr(self, name) not in allowed:
                words = ", ".join(str(a) for a in allowed)
                raise ValueError(f"{name} is one of {words}, not {getattr(self, name)!r}")

        need("op", OPS)
        need("dtype", DTYPES)
        matmul = self.op != "geglu"
        gated = self.op != "linear"
        for name in ("m", "n", "k") if matmul else ("m", "n"):
            size = getattr(self, name)
            if type(size) is not int or not 1 <= size < 2**31:
                raise ValueError(f"{name} is a whole number from 1 to 2^31 - 1, not {size!r}")
        if not matmul and (self.k, self.layout) != (None, None):
            raise ValueError("geglu has neither k nor layout")
        if matmul:
            need("layout", LAYOUTS)
        need("activation", ACTIVATIONS if gated else (None,))
        if type(self.seed) is not int or self.seed < 0:
            raise ValueError(f"seed is a whole number from 0, not {self.seed!r}")

    def __str__(self) -> str:
        size = f"{self.m}x{self.k}->{self.n}" if self.k else f"{self.m}x{self.n}"
        words = (self.op, size, self.layout, self.dtype, self.activation)
        return " ".join(w for w in words if w)

    @property
    def flops(self) -> int:
        """Multiplies and adds of the matrix products; pointwise work is not counted."""
        if self.op == "geglu":
            return 0
        products = {"linear": 1, "gate_up": 2, "mlp": 3}[self.op]
        return products * 2 * self.m * self.n * self.k

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Operand name -> shape; every operand is contiguous."""
        m, n, k = self.m, self.n, self.k
        if self.op == "geglu":
            return {"gate": (m, n), "up": (m, n)}
        up = (n, k) if self.layout == "tn" else (k, n)
        if self.op == "linear":
            return {"x": (m, k), "w": up, "b": (n,)}
        operands = {"x": (m, k), "wg": up, "wu": up}
        return operands | {"wd": up[::-1]} if self.op == "mlp" else operands

    @property
    def out_shape(self) -> tuple[int, int]:
        return (self.m, self.k if self.op == "mlp" else self.n)

    @property
    def input_bytes(self) -> int:
        return ITEMSIZE[self.dtype] * sum(_numel(s) for s in self.shapes.values())

    @property
    def output_bytes(self) -> int:
        return ITEMSIZE[self.dtype] * _numel(self.out_shape)

    @property
    def min_bytes(self) -> int:
        """Each input read once, each output written once."""
        return self.input_bytes + self.output_bytes

    @property
    def torch_dtype(self):
        import torch

        return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[self.dtype]

    def with_(self, **changes) -> "Problem":
        return replace(self, **changes)

    def inputs(self, device: str, draw: int = 0):
        """Operand name -> tensor: seeded, never zeros; weights ~ N(0, 1/fan-in), the rest N(0, 1).

        Another `draw` is other data. The scale keeps every product's outputs near N(0, 1).
        The weights wg and wu are halves of one buffer, in this order, as models that merge them
        store them, unless that would take the second off a cache line.
        """
        import torch

        def empty(*shape):
            return torch.empty(shape, dtype=self.torch_dtype, device=device)

        made = {name: empty(*shape) for name, shape in self.shapes.items()}
        if "wu" in made and made["wu"].nbytes % _LINE_BYTES == 0:
            made["wg"], made["wu"] = empty(2, *self.shapes["wu"])
        self.refill(made, draw)
        return made

    def refill(self, inputs, draw: int) -> None:
        """Overwrites `inputs` in place with the data of `draw`."""
        import torch

        fan_in = {"w": self.k, "wg": self.k, "wu": self.k, "wd": self.n}
        for index, (name, tensor) in enumerate(inputs.items()):
            generator = torch.Generator(tensor.device)
            generator.manual_seed((self.seed * 1_000_003 + draw) * 16 + index)
            tensor.normal_(0.0, fan_in.get(name, 1) ** -0.5, generator=generator)

    def reference(self, inputs, accumulate: str = "float64"):
        """The result [m, ·] from the same rounded inputs, accumulated in `accumulate`.

        Computed in chunks of rows. Kept in float32 for the 16-bit dtypes, whose unit roundoff is
        2^13 times larger, and in float64 for fp32.
        """
        import torch

        wide = getattr(torch, accumulate)
        first = next(iter(inputs.values()))
        keep = torch.float64 if self.dtype == "fp32" else torch.float32
        out = torch.empty(self.out_shape, dtype=keep, device=first.device)
        weights = {
            name: (t.t() if self.layout == "tn" and t.dim() == 2 else t).to(wide)
            for name, t in inputs.items()
            if name in ("w", "b", "wg", "wu", "wd")
        }
        rows = max(1, _CHUNK_BYTES // (8 * (self.n * 3 + (self.k or 0))))
        for start in range(0, self.m, rows):
            chunk = {
                name: t[start : start + rows].to(wide)
                for name, t in inputs.items()
                if name not in weights
            }
            out[start : start + rows] = self._formula(**chunk, **weights)
        return out

    def _formula(self, x=None, w=None, b=None, gate=None, up=None, wg=None, wu=None, wd=None):
        if self.op == "linear":
            return x @ w + b
        if self.op == "geglu":
            return self.activate(gate) * up
        h = self.activate(x @ wg) * (x @ wu)
        return h @ wd if self.op == "mlp" else h

    def activate(self, t):
        """The problem's activation, by torch."""
        import torch.nn.functional as F

        if self.activation == "silu":
            return F.silu(t)
        return F.gelu(t, approximate="tanh" if self.activation == "tanh" else "none")


def _numel(shape) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
