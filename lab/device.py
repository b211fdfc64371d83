"""The GPU as it is found: what it is, what it can do at most, and what state it is in.

Peaks are measured, never quoted. Clocks, power and throttle reasons come from NVML, which needs
no CUDA context.
"""

import functools
from dataclasses import dataclass


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
