"""Verdicts on correctness: every element of every output, against a float64 reference.

Two rules, both must hold:

- the relative Frobenius error of every set is at most max(2 × the baseline's own, u), where u is
  the unit roundoff of the dtype (2⁻²² for fp32, whose accumulation order is free). Twice the
  baseline alone would reject correct kernels on tiny problems. The baseline itself may be out by
  4 u, since eager chains round after every step; where it is out by more it is wrong, and the
  others have u;
- no element is further from the reference than `4 u |ref| + 8 u + 8 k 2⁻²⁴`: the rounding of the
  result and of one intermediate, whose magnitude stays under 8 for the lab's N(0, 1) data, and k
  roundings of a float32 accumulator of that magnitude.

An output of zeros has Frobenius error 1, and NaN fails both comparisons.
"""

from dataclasses import dataclass

from lab.problem import Problem

ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-22}

_CHUNK = 2**26  # elements compared at a time; bounds the temporaries


@dataclass(frozen=True)
class Verdict:
    """`err` is ‖out - ref‖ / ‖ref‖ of the worst set; `reason` is None where the output is right."""

    err: float
    reason: str | None = None


def compare(
    *,
    outputs,
    references,
    problem: Problem,
    baseline_err: float | None = None,
    is_baseline: bool = False,
) -> Verdict:
    """Judges one contender's outputs, one per input set, against the sets' references.

    `baseline_err` is the baseline's own error, None where it failed.
    """
    u = ROUNDOFF[problem.dtype]
    for out in outputs:
        if tuple(out.shape) != problem.out_shape or out.dtype != problem.torch_dtype:
            shape = "x".join(map(str, out.shape))
            return Verdict(float("nan"), f"returned {shape} {out.dtype}".replace("torch.", ""))
    allowed = 4 * u if is_baseline else max(u, 2 * (baseline_err or 0.0))
    worst, reason = 0.0, None
    for index, (err, outside) in enumerate(_distances(outputs, references, u, problem.k or 0)):
        if not err < float("inf"):  # NaN too
            return Verdict(float("nan"), f"set {index}: NaN or infinite elements")
        if err > allowed:
            reason = reason or f"set {index}: error {err:.3g} exceeds {allowed:.3g} of the norm"
        elif outside:
            reason = reason or f"set {index}: {outside} elements outside the elementwise bound"
        worst = max(worst, err)
    return Verdict(worst, reason)


def fingerprint(sets) -> list[int]:
    """One number per operand that changes when its bits do, to catch kernels that write inputs."""
    import torch

    integers = {2: torch.int16, 4: torch.int32}
    sums = [
        t.view(integers[t.element_size()]).sum(dtype=torch.int64)
        for inputs in sets
        for t in inputs.values()
    ]
    return torch.stack(sums).tolist()


def _distances(outputs, references, u: float, k: int) -> list[tuple[float, int]]:
    """Per set: relative Frobenius error, and elements outside the bound.

    Small sets are compared many at a time, large ones in chunks of rows.
    """
    import torch

    m, n = outputs[0].shape
    absolute = 8 * u + 8 * k * 2.0**-24
    together, rows = max(1, _CHUNK // (m * n)), max(1, _CHUNK // n)
    sums = torch.zeros(len(outputs), 3, dtype=torch.float64, device=outputs[0].device)
    for first in range(0, len(outputs), together):
        sets = slice(first, first + together)
        for start in range(0, m, rows):
            out, want = (
                torch.stack([t[start : start + rows] for t in tensors[sets]]).flatten(1)
                for tensors in (outputs, references)
            )
            diff = (out.to(want.dtype) - want).abs_()
            sums[sets, 0] += diff.square().sum(1, dtype=torch.float64)
            sums[sets, 1] += want.square().sum(1, dtype=torch.float64)
            sums[sets, 2] += (~(diff <= want.abs().mul_(4 * u).add_(absolute))).sum(1)
    return [((err / ref) ** 0.5, int(outside)) for err, ref, outside in sums.tolist()]
