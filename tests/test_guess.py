"""Guesses against traces: met, missed with the evidence, unchecked, refused."""

import csv
import re
from pathlib import Path

import pytest

from lab import expect, guess
from lab.expect import BadExpectation, Setup
from lab.experiment import Experiment
from lab.problem import Problem
from lab.seen import Counters, Seen
from lab.trace import read

TRACES = Path(__file__).parent / "traces"
UP, DOWN = "linear-8192x768-3072-tn-bf16", "linear-8192x3072-768-tn-bf16"
GEGLU = "geglu-8192x3072-bf16-tanh"
LINEAR = Problem("linear", 8192, 3072, 768, "tn")


def seen(problem, contender, counters=None):
    one = read(TRACES / f"{problem}.{contender}.json.gz")
    return Seen(contender, one, problem.split("-")[0], counters=counters)


def verdict(claim, one, *others):
    return claim.check(one, {other.contender: other for other in others}, {})


ONE, TWO = seen(UP, "cublas"), seen(UP, "matmul_add")
COMPILED = seen(UP, "inductor")

MET = [
    (expect.kernels(1), ONE),
    (expect.kernels(2), TWO),
    (expect.kernels(1, of="pointwise"), TWO),
    (expect.kernels(1, of="liger"), seen(GEGLU, "liger")),
    (expect.memops(1), ONE),
    (expect.epilogue("bias"), ONE),
    (expect.no_ops("aten::add"), ONE),
    (expect.ops("TorchDynamo Cache Lookup", "Torch-Compiled Region"), COMPILED),
    (expect.op_count("aten::addmm", 1), COMPILED),
    (expect.in_order("aten::linear", "aten::t", "aten::addmm"), ONE),
    (expect.launch_nothing("aten::t", "aten::transpose"), ONE),
    (expect.fused("gelu", "mul"), seen(GEGLU, "inductor")),
    (expect.share("pointwise", above=0.5), TWO),
]
MISSED = [  # claim, what it is held against, what the evidence must show
    (expect.kernels(1), TWO, r"2: 67\.6 µs elementwise_kernel"),
    (expect.memops(0), ONE, "Memset"),
    (expect.epilogue("bias"), TWO, "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"),
    (expect.no_ops("aten::add"), TWO, "aten::add"),
    (expect.ops("Torch-Compiled Region"), ONE, "aten::addmm"),
    (expect.op_count("aten::addmm", 2), ONE, "aten::addmm"),
    (expect.in_order("aten::addmm", "aten::t"), ONE, "aten::t"),
    (expect.launch_nothing("aten::addmm"), ONE, "nvjet"),
    (expect.fused("gelu", "mul"), seen(GEGLU, "eager"), "Gelu"),
    (expect.share("pointwise", below=0.2), TWO, "elementwise"),
]


@pytest.mark.parametrize(("claim", "one"), MET, ids=lambda v: getattr(v, "text", ""))
def test_met(claim, one):
    assert verdict(claim, one).verdict == "met"


@pytest.mark.parametrize(("claim", "one", "shows"), MISSED, ids=lambda v: getattr(v, "text", ""))
def test_a_wrong_guess_is_missed_and_shows_why(claim, one, shows):
    finding = verdict(claim, one)
    assert finding.verdict == "missed"
    assert re.search(shows, " ".join(finding.evidence)), finding.evidence


def test_guesses_about_two_contenders():
    assert verdict(expect.same_kernels("cublas"), COMPILED, ONE).verdict == "met"
    finding = verdict(expect.same_kernels("cublas"), TWO, ONE)
    assert finding.verdict == "missed" and finding.evidence
    assert verdict(expect.same_kernels("cublas"), COMPILED).verdict == "unchecked"


def test_what_a_trace_cannot_hold_is_unchecked_not_met():
    assert verdict(expect.compiled_once(), COMPILED).verdict == "unchecked"
    assert verdict(expect.same_output("cublas"), COMPILED, ONE).verdict == "unchecked"


@pytest.mark.parametrize(
    ("counters", "told"),
    [((1, 0, 0), "met"), ((1, 1, 0), "missed"), ((1, 0, 2), "missed"), ((0, 0, 0), "missed")],
)
def test_dynamos_counters(counters, told):
    one = seen(UP, "inductor", Counters(*counters))
    assert verdict(expect.compiled_once(), one).verdict == told


def setup(*claims, contender="cublas", **words):
    return Setup("mine", contender, LINEAR, LINEAR, changed=claims, **words)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: setup(), "never fail"),
        (lambda: setup(expect.same_kernels("cublas")), "compares cublas with itself"),
        (lambda: setup(expect.kernels(1), expect.kernels(2)), "contradicts"),
        (lambda: setup(expect.kernels(1), expect.kernels(2, of="gemm")), "contradicts"),
        (lambda: setup(expect.ops("aten::add"), expect.no_ops("aten::add")), "contradicts"),
        (lambda: setup(expect.kernels(1), batch=7), "doesn't divide m"),
        (lambda: expect.kernels(-1), "whole number"),
        (lambda: expect.kernels(1, of="gem"), "gem"),
        (lambda: expect.no_ops(), "name"),
    ],
)
def test_guesses_that_are_refused(make, says):
    with pytest.raises(BadExpectation, match=says):
        make()


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (setup(expect.kernels(1), contender="cublass"), "no contender 'cublass' of linear"),
        (setup(expect.same_kernels("nobody")), "no contender 'nobody'"),
        (setup(expect.no_ops("aten::addd")), "torch has no operator aten::addd"),
        (setup(expect.no_ops("Torch-Compild Region")), "could never fail"),
    ],
)
def test_guesses_about_what_there_is_not_are_refused(one, says):
    with pytest.raises(BadExpectation, match=says):
        guess.validate(Experiment((LINEAR,), (LINEAR,), expectations=(one,), name="e"))


def test_the_command_reads_a_trace_from_elsewhere(lab):
    words = ["guess", "seed_table", "--setup", "Eager nn.Linear", "--trace"]
    good = lab(*words, TRACES / f"{UP}.cublas.json.gz")
    assert good.returncode == 0 and "5 met, 0 missed" in good.stdout
    bad = lab(*words, TRACES / f"{UP}.matmul_add.json.gz")
    assert bad.returncode == 1 and "Missed: no aten::add" in bad.stdout
    allowed = lab(*words, TRACES / f"{UP}.matmul_add.json.gz", "--allow-surprises")
    assert allowed.returncode == 0
    for trace, says in (("none.json", "none.json"), (__file__, "test_guess.py")):
        done = lab(*words, trace)
        assert done.returncode == 2 and says in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_the_seed_table_holds_here(lab, tmp_path):
    done = lab("guess", "seed_table", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "expectations.csv") as file:
        rows = list(csv.DictReader(file))
    verdicts = {(row["setup"], row["expectation"]): row["verdict"] for row in rows}
    assert "missed" not in verdicts.values()
    assert verdicts["Compiled nn.Linear", "compiled once, no recompile, no graph break"] == "met"
    assert verdicts["Compiled MLP", "one kernel fuses _unsafe_view, gelu, mul"] == "met"
    assert verdicts["Compiled nn.Linear", "output bitwise cublas's"] == "met"


def test_an_experiment_without_guesses_says_so(lab):
    done = lab("guess", "linear_sweep")
    assert done.returncode == 2 and "linear_sweep declares no expectations" in done.stderr
