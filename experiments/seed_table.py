"""What does each step from nn.Linear to a fused MLP change on the GPU, and what does it leave
untouched, guessed before the traces are looked at?"""

from lab.expect import (
    Setup,
    compiled_once,
    epilogue,
    faster,
    fused,
    in_order,
    kernels,
    launch_nothing,
    no_ops,
    op_count,
    ops,
    other_tile,
    same_kernels,
    same_output,
    same_tile,
    share,
)
from lab.experiment import Experiment
from lab.problem import Problem

# x is [batch, sequence, hidden] = [64, 128, 768]; smaller without a GPU.
BATCH = 64
LINEAR = Problem("linear", 8192, 3072, 768, "tn")
MLP = Problem("mlp", 8192, 3072, 768, "tn", activation="tanh")
CPU_LINEAR = Problem("linear", 128, 96, 64, "tn", "fp16")
CPU_MLP = Problem("mlp", 128, 192, 64, "tn", "fp16", "tanh")

# The text's kernels, with its µs. Its single linear was smaller.
THERE = "on the text's A100"
GATE_UP = ("ampere_bf16_s16816gemm_bf16_128x128…", 190)
DOWN = ("ampere_bf16_s16816gemm_bf16_128x256…", 170)
POINTWISE = ("void at::native::vectorized_elementwise_kernel…", None)
SMALL = (
    "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8 (1024x32->64)",
    None,
)

INTERMEDIATE_MB = MLP.m * MLP.n * 2 / 1e6


def linear(name, contender, **words):
    words |= {"elsewhere": (SMALL,), "there": THERE}
    return Setup(name, contender, LINEAR, CPU_LINEAR, batch=BATCH, **words)


def mlp(name, contender, **words):
    return Setup(name, contender, MLP, CPU_MLP, batch=BATCH, there=THERE, **words)


EXPECTATIONS = (
    linear(
        "Eager nn.Linear",
        "cublas",
        changed=(
            kernels(1),
            epilogue("bias"),
            no_ops("aten::add"),
            in_order("aten::linear", "aten::t", "aten::addmm"),
            launch_nothing("aten::t", "aten::transpose", "aten::as_strided"),
        ),
    ),
    linear(
        "Compiled nn.Linear",
        "inductor",
        changed=(
            no_ops("aten::linear", "aten::t", "aten::transpose"),
            ops("TorchDynamo Cache Lookup", "Torch-Compiled Region", "## Call CompiledFxGraph"),
        ),
        same=(
            kernels(1),
            op_count("aten::addmm", 1),
            same_kernels("cublas"),
            same_output("cublas"),
            compiled_once(),
        ),
    ),
    mlp(
        "Eager MLP",
        "eager",
        changed=(
            kernels(5),
            kernels(3, of="gemm"),
            in_order("aten::linear", "aten::t", "aten::matmul", "aten::reshape", "aten::mm"),
            in_order("aten::mm", "aten::_unsafe_view", "aten::gelu", "aten::mul", "aten::mm"),
            launch_nothing("aten::t", "aten::reshape", "aten::view", "aten::_unsafe_view"),
        ),
        same=(op_count("aten::mm", 3), no_ops("aten::add", "aten::addmm")),
        elsewhere=(GATE_UP, GATE_UP, POINTWISE, POINTWISE, DOWN),
        note=f"the [{MLP.m}, {MLP.n}] intermediate makes a round trip through memory: "
        f"{INTERMEDIATE_MB:.1f} MB written and read again, by its size; no trace shows it",
    ),
    mlp(
        "Equal-FLOP GEMMs",
        "eager",
        changed=(other_tile("gate", "down"), faster("down", than="gate")),
        same=(same_tile("gate", "up"),),
    ),
    mlp(
        "Compiled MLP",
        "inductor",
        changed=(
            kernels(4),
            kernels(1, of="inductor"),
            fused("_unsafe_view", "gelu", "mul"),
            no_ops("aten::linear", "aten::t", "aten::_unsafe_view", "aten::gelu", "aten::mul"),
            ops("TorchDynamo Cache Lookup", "Torch-Compiled Region", "## Call CompiledFxGraph"),
            share("pointwise", below=0.2),
        ),
        same=(op_count("aten::mm", 3), same_kernels("eager", of="gemm"), compiled_once()),
        elsewhere=(GATE_UP, GATE_UP, ("triton_poi_fused__unsafe_view_gelu_mul_0", 89.4), DOWN),
    ),
    mlp(
        "Liger MLP",
        "liger",
        changed=(
            kernels(4),
            kernels(1, of="liger"),
            no_ops("TorchDynamo Cache Lookup", "Torch-Compiled Region"),
            no_ops("aten::gelu", "aten::mul"),
        ),
        same=(op_count("aten::mm", 3), same_kernels("eager", of="gemm")),
        elsewhere=(GATE_UP, GATE_UP, ("_geglu_tanh_forward_kernel", 92.8), DOWN),
    ),
)

EXPERIMENT = Experiment(
    problems=(LINEAR, MLP),
    cpu_problems=(CPU_LINEAR, CPU_MLP, CPU_LINEAR.with_(layout="nn"), CPU_MLP.with_(layout="nn")),
    contenders=("inductor", "liger"),
    expectations=EXPECTATIONS,
)
