"""What is known of one contender after it ran: a traced step, and what a trace doesn't hold."""

from dataclasses import dataclass
from pathlib import Path

from lab.kernel_names import parse
from lab.trace import GpuEvent, Trace

PRODUCTS = {"gate_up": ("gate", "up"), "mlp": ("gate", "up", "down")}
PARTS = ("gemm", "pointwise", *PRODUCTS["mlp"])
FAMILIES = (
    *("nvjet", "cublas", "xmma", "cutlass2x", "cutlass3x", "gemv", "splitk_reduce"),
    *("cublas_helper", "cute_dsl", "inductor", "triton", "liger", "aten", "cub", "unknown"),
)


@dataclass(frozen=True)
class Counters:
    """Dynamo's own counters over one contender's preparation and calls with fresh data."""

    graphs: int  # compiled
    recompiles: int  # graphs compiled after the first call
    breaks: int


@dataclass(frozen=True)
class Seen:
    """What is known of one contender: a traced step, its output's bits, Dynamo's counters.

    `output` is a .npy file. Both it and `counters` are None for a trace that was taken elsewhere.
    """

    contender: str
    trace: Trace
    op: str
    output: Path | None = None
    counters: Counters | None = None

    @property
    def ops(self) -> list[str]:
        """Operators and annotations in order of their start, thread by thread."""
        return [node.name for node in self.trace.nodes() if node.kind != "call"]

    def count(self, name: str) -> int:
        """Calls of an operator, or annotations that begin so."""
        return sum(is_named(found, name) for found in self.ops)

    def kernels(self, of: str | None = None) -> list[GpuEvent]:
        """The step's kernels, or those that `of` selects."""
        if of is None:
            return self.trace.kernels
        gemms = [k for k in self.trace.kernels if _is_product(k)]
        if of == "gemm":
            return gemms
        if of == "pointwise":
            return [k for k in self.trace.kernels if k not in gemms and not _helps(k)]
        if of in PARTS:
            names = PRODUCTS.get(self.op, ())
            if of not in names or len(gemms) != len(names):  # fused: no kernel is that product
                return []
            return [gemms[names.index(of)]]
        return [k for k in self.trace.kernels if parse(k.name).family == of]


def is_named(found: str, wanted: str) -> bool:
    """`aten::mm` is that very operator; an annotation goes on with a counter or a hash."""
    return found == wanted if "::" in wanted else found.startswith(wanted)


def fused_ops(name: str) -> tuple[str, ...]:
    """The operators in the name of a kernel of Inductor's, Triton or C++: both are built alike."""
    _, fused, rest = name.partition("fused_")
    return parse(f"triton_poi_fused_{rest}").ops if fused else ()


def _is_product(kernel: GpuEvent) -> bool:
    return parse(kernel.name).operation in ("gemm", "gemv", "template")


def _helps(kernel: GpuEvent) -> bool:
    """Whether it finishes or prepares a product."""
    return parse(kernel.name).family in ("splitk_reduce", "cublas_helper")
