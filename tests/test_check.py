"""The checker against outputs that are wrong on purpose."""

import re

import pytest
import torch

from lab import check
from lab.problem import Problem

LINEAR = Problem("linear", 64, 96, 128, "tn")
GEGLU = Problem("geglu", 64, 96, activation="tanh", dtype="fp16")


@pytest.fixture(params=[LINEAR, GEGLU], ids=str)
def case(request):
    problem = request.param
    sets = [problem.inputs("cpu", draw) for draw in range(3)]
    references = [problem.reference(s) for s in sets]
    right = [r.to(problem.torch_dtype) for r in references]
    return problem, references, right


def judge(case, outputs, baseline_err=None):
    problem, references, _ = case
    return check.compare(
        outputs=outputs, references=references, problem=problem, baseline_err=baseline_err
    )


def test_a_rounded_reference_is_right(case):
    problem, _, right = case
    verdict = judge(case, right)
    assert verdict.reason is None
    assert 0 < verdict.err < check.ROUNDOFF[problem.dtype]


@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda t: t.zero_(), "of the norm"),
        (lambda t: t[0, 0].fill_(float("nan")), "NaN"),
        (lambda t: t[-1, -1].fill_(float("inf")), "NaN or infinite"),
        (lambda t: t.mul_(1.02), "of the norm"),
        (lambda t: t.copy_(t.flip(0)), "of the norm"),
        (lambda t: t[3, 5].add_(0.5), "elementwise|of the norm"),
        (lambda t: t[-1].copy_(t[0]), "of the norm"),
    ],
)
def test_one_spoiled_set_is_enough(case, index, spoil, says):
    _, _, right = case
    outputs = [t.clone() for t in right]
    spoil(outputs[index])
    verdict = judge(case, outputs)
    assert re.search(says, verdict.reason)
    assert f"set {index}" in verdict.reason


def test_a_single_element_is_caught_where_the_norm_is_not():
    problem = Problem("linear", 512, 512, 64, "tn")
    reference = problem.reference(problem.inputs("cpu"))
    out = reference.to(problem.torch_dtype)
    out[100, 100] += 0.25
    verdict = check.compare(
        outputs=[out], references=[reference], problem=problem, baseline_err=None
    )
    assert verdict.err < check.ROUNDOFF["bf16"]
    assert "1 elements outside" in verdict.reason


def test_twice_the_baselines_error_is_allowed_but_no_more(case):
    problem, references, _ = case
    u = check.ROUNDOFF[problem.dtype]
    scaled = [(r * (1 + 1.5 * u)).to(problem.torch_dtype) for r in references]
    assert judge(case, scaled).reason
    assert judge(case, scaled, baseline_err=u).reason is None
    assert judge(case, scaled, baseline_err=0.5 * u).reason


def test_the_baseline_itself_may_be_out_by_its_chain_of_roundings(case):
    problem, references, _ = case
    u = check.ROUNDOFF[problem.dtype]
    for factor, right in ((3, True), (5, False)):
        scaled = [(r * (1 + factor * u)).to(problem.torch_dtype) for r in references]
        verdict = check.compare(
            outputs=scaled, references=references, problem=problem, is_baseline=True
        )
        assert (verdict.reason is None) == right


def test_shape_and_dtype_are_part_of_it(case):
    problem, _, right = case
    assert "returned 64x95" in judge(case, [t[:, 1:] for t in right]).reason
    assert "float32" in judge(case, [t.float() for t in right]).reason
    assert problem.dtype != "fp32"


def test_a_second_chunk_is_looked_at(case, monkeypatch):
    monkeypatch.setattr(check, "_CHUNK", 96)
    _, _, right = case
    outputs = [t.clone() for t in right]
    outputs[1][40] = 0
    assert "set 1" in judge(case, outputs).reason


def test_fingerprints_see_one_changed_bit(case):
    problem, _, _ = case
    sets = [problem.inputs("cpu", 0), problem.inputs("cpu", 1)]
    before = check.fingerprint(sets)
    assert check.fingerprint(sets) == before
    first = next(iter(sets[1].values()))
    first.view(torch.int16)[0, 0] ^= 1
    assert check.fingerprint(sets) != before
