"""The GPU as it is found: what it is, what it can do at most, and what state it is in.

Peaks are measured, never quoted. Clocks, power and throttle reasons come from NVML, which needs
no CUDA context.
"""

import functools
import importlib.metadata
import os
import platform
import statistics
import time
from dataclasses import dataclass

LIGER_ON_HUB = "kernels-community/liger-kernels"


@dataclass(frozen=True)
class Device:
    """What the driver says of the current GPU."""

    name: str
    capability: tuple[int, int]
    sms: int
    l2_bytes: int
    memory_bytes: int
    smem_per_block: int  # opt-in maximum, bytes
    smem_per_sm: int  # bytes
    regs_per_sm: int
    threads_per_sm: int


@functools.cache
def current() -> Device | None:
    """The current CUDA device, or None on a machine without one. Initialises CUDA."""
    import torch

    if not torch.cuda.is_available():
        return None
    p = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Device(
        name=p.name,
        capability=(p.major, p.minor),
        sms=p.multi_processor_count,
        l2_bytes=p.L2_cache_size,
        memory_bytes=p.total_memory,
        smem_per_block=p.shared_memory_per_block_optin,
        smem_per_sm=p.shared_memory_per_multiprocessor,
        regs_per_sm=p.regs_per_multiprocessor,
        threads_per_sm=p.max_threads_per_multi_processor,
    )


def ctas_per_sm(device: Device, threads: int, regs: int, smem_bytes: int) -> int:
    """CTAs of such a kernel that fit on one SM at once.

    Registers are allotted per warp in units of 256, shared memory with 1 KiB for the system per
    CTA (CUDA C++ programming guide, compute capabilities 8.x to 10.x).
    """
    warps = -(-threads // 32)
    by_regs = device.regs_per_sm // (warps * -(-regs * 32 // 256) * 256)
    by_smem = device.smem_per_sm // (smem_bytes + 1024)
    return min(device.threads_per_sm // (warps * 32), by_regs, by_smem)


def describe() -> dict:
    """Facts for run.json: GPU, driver, clock and power limits, software versions."""
    import torch

    gpu = current()
    facts = {
        "device": gpu.name if gpu else f"cpu: {_cpu_name()}",
        "torch": torch.__version__,
        "triton": _version("triton"),
        "cutlass": _version("nvidia-cutlass"),
        "liger": liger_source(),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }
    if gpu:
        facts |= Monitor().limits()
    return facts


def liger_source() -> str | None:
    """Whose Liger kernels run: those of the `kernels` package where LOCAL_KERNELS names a folder
    for them, else liger-kernel's, else those in the cache of `kernels`; None for nobody's."""
    package, hub = _version("liger-kernel"), _version("kernels")
    named = f"{LIGER_ON_HUB}=" in os.environ.get("LOCAL_KERNELS", "")
    if hub and (named or not package):
        return f"{LIGER_ON_HUB} by kernels {hub}"
    return package and f"liger-kernel {package}"


def peaks() -> tuple[float, float]:
    """(copy bandwidth in GB/s, read and write counted; bf16 matmul rate in TFLOP/s), measured.

    Medians of short bursts on random data: an 8192³ product runs slower once power-capped.
    """
    import torch

    size = min(2**31, current().memory_bytes // 8)
    source = torch.empty(size, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    copy_us = _burst_us(lambda: target.copy_(source))
    x, w = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    w *= 8192**-0.5
    out = torch.empty_like(x)
    matmul_us = _burst_us(lambda: torch.mm(x, w, out=out))
    return 2 * size / copy_us / 1e3, 2 * 8192**3 / matmul_us / 1e6


def _burst_us(call, bursts: int = 7, calls: int = 3) -> float:
    import torch

    times = []
    for _ in range(bursts):
        time.sleep(0.05)  # let the power integrator recover between bursts
        call()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / calls)
    return statistics.median(times)


class Monitor:
    """NVML's view of the current GPU: one `sample()` costs well under a millisecond.

    On a machine whose NVML doesn't answer, every value is None.
    """

    def __init__(self):
        import pynvml
        import torch

        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except (pynvml.NVMLError, AttributeError):
            self._handle = None

    def sm_mhz(self) -> int | None:
        return self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM)

    def sample(self) -> "Sample":
        milliwatts = self._ask("nvmlDeviceGetPowerUsage")
        mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        reasons = {name for name, bit in _THROTTLE.items() if mask & bit}
        return Sample(self.sm_mhz(), milliwatts and milliwatts / 1e3, frozenset(reasons))

    def limits(self) -> dict:
        """Driver version, the highest SM clock in MHz and the power limit in W."""
        driver = None
        if self._handle is not None:
            driver = self._nvml.nvmlSystemGetDriverVersion()
        milliwatts = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        return {
            "driver": driver,
            "max_sm_mhz": self._ask("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM),
            "power_limit_w": milliwatts and milliwatts / 1e3,
        }

    def _ask(self, function: str, *arguments):
        if self._handle is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None


@dataclass(frozen=True)
class Sample:
    """One reading: SM clock in MHz, power in W, and why the clock is below its maximum."""

    sm_mhz: int | None
    power_w: float | None
    throttled: frozenset[str]


# nvml.h, nvmlClocksEventReasons: those that slow the clock; idle and application clocks don't.
_THROTTLE = {
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
}


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.machine()
