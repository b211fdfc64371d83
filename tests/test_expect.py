"""Claims about an MLP's products, tiles, times and outputs; and wrong guesses about real runs."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from lab import expect, guess, guess_show, record
from lab.expect import BadExpectation, Setup
from lab.experiment import Experiment
from lab.problem import Problem
from lab.seen import Seen
from lab.trace import GpuEvent, Op, Trace

MLP = Problem("mlp", 8192, 3072, 768, "tn", activation="tanh")
CPU_MLP = Problem("mlp", 8, 128, 64, "tn", "fp16", "tanh")

WIDE = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
NARROW = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopA_TNT"
ATEN = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>(int)"
EAGER = ((WIDE, 55.5), (WIDE, 55.4), (ATEN.format("Gelu"), 29.6), (ATEN.format("Mul"), 36.4))
EAGER += ((NARROW, 51.5),)
FUSED = ((WIDE, 55.5), (WIDE, 55.4), ("triton_poi_fused__unsafe_view_gelu_mul_0", 36.9))
FUSED += ((NARROW, 51.5),)
ALONE = (("my_whole_mlp_kernel", 150.0),)  # everything in one


def seen(contender, kernels, ops=(), output=None, memsets=0):
    events, at = [], 0.0
    for name, us in kernels:
        events.append(GpuEvent("kernel", name, at, us, 0, 7))
        at += us
    events += [GpuEvent("memset", "Memset (Device)", at, 0.7, 0, 7)] * memsets
    roots = [Op("op", name, float(index), 0.5, 1, 1) for index, name in enumerate(ops)]
    return Seen(contender, Trace(Path("made.json"), roots, events, [], {}, []), "mlp", output)


EAGERS, FUSEDS = seen("eager", EAGER, memsets=1), seen("inductor", FUSED)


def verdict(claim, one, *others):
    return claim.check(one, {other.contender: other for other in others}, {})


@pytest.mark.parametrize(
    ("claim", "observed"),
    [
        (expect.kernels(5), "5: 55.5 \\+ 55.4"),
        (expect.kernels(3, of="gemm"), "3: "),
        (expect.memops(1), "1"),
        (expect.same_tile("gate", "up"), "gate 128x256x64"),
        (expect.other_tile("gate", "down"), "down 128x192x64"),
        (expect.other_tile("down", "inductor:gate"), "inductor:gate 128x256x64"),
        (expect.faster("down", than="gate"), "down 51.5 µs, gate 55.5 µs"),
        (expect.faster("inductor:pointwise", than="pointwise"), "36.9 µs, pointwise 66.0"),
        (expect.share("pointwise", above=0.25, below=0.3), "28.9%"),
        (expect.same_kernels("inductor", of="gemm"), "nvjet"),
    ],
    ids=lambda v: getattr(v, "text", ""),
)
def test_what_holds_of_an_eager_mlp(claim, observed):
    finding = verdict(claim, EAGERS, FUSEDS)
    assert finding.verdict == "met"
    assert re.search(observed, finding.observed)


@pytest.mark.parametrize(
    ("claim", "shows"),
    [
        (expect.kernels(4), "3: 29.6 µs vectorized_elementwise_kernel"),
        (expect.same_tile("gate", "down"), "down: nvjet_sm90_tst_192x128"),
        (expect.other_tile("gate", "up"), "up: nvjet_sm90_tst_256x128"),
        (expect.faster("gate", than="down"), "1: 55.5 µs nvjet"),
        (expect.share("pointwise", below=0.2), "36.4 µs"),
        (expect.same_kernels("inductor"), "3: vectorized.* here, triton_poi_fused.* in inductor"),
        (expect.same_kernels("inductor", of="liger"), ""),
        (expect.fused("gelu", "mul"), "vectorized_elementwise_kernel"),
        (expect.epilogue("bias"), "nvjet"),
    ],
    ids=lambda v: getattr(v, "text", ""),
)
def test_wrong_guesses_about_it_are_missed_and_show_why(claim, shows):
    finding = verdict(claim, EAGERS, FUSEDS)
    assert finding.verdict == "missed"
    assert re.search(shows, " ".join(finding.evidence)), finding.evidence


@pytest.mark.parametrize(
    "claim",
    [
        expect.same_tile("gate", "up"),
        expect.other_tile("gate", "down"),
        expect.faster("down", than="gate"),
        expect.share("gate", below=0.9),
        expect.epilogue("bias", of="gate"),
    ],
    ids=lambda v: v.text,
)
def test_products_that_are_no_kernels_of_their_own_have_nothing_to_be_met(claim):
    assert verdict(claim, seen("mine", ALONE)).verdict == "missed"


def test_operators_are_matched_whole_and_annotations_by_their_beginning():
    one = seen("inductor", FUSED, ops=("Torch-Compiled Region: 0/0", "aten::mm", "aten::mm_x"))
    assert verdict(expect.ops("Torch-Compiled Region"), one).verdict == "met"
    assert verdict(expect.op_count("aten::mm", 1), one).verdict == "met"
    assert verdict(expect.no_ops("aten::m"), one).verdict == "met"
    backwards = verdict(expect.in_order("aten::mm", "Torch-Compiled Region"), one)
    assert backwards.verdict == "missed" and "aten::mm_x" in backwards.evidence[0]


def test_without_gpu_work_what_needs_it_is_unchecked():
    host = seen("eager", (), ops=("aten::t",))
    for claim in (expect.kernels(0), expect.launch_nothing("aten::t"), expect.memops(0)):
        assert verdict(claim, host).verdict == "unchecked"
    assert verdict(expect.ops("aten::t"), host).verdict == "met"


@pytest.fixture
def outputs(tmp_path):
    bits = np.arange(6, dtype=np.int16)
    other = bits.copy()
    other[4] = -1
    for name, array in {"a": bits, "b": bits.reshape(2, 3), "c": other, "d": bits[:5]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    return lambda contender, name: seen(contender, EAGER, output=tmp_path / f"{name}.npy")


def test_outputs_are_compared_bit_by_bit(outputs):
    claim = expect.same_output("eager")
    assert verdict(claim, outputs("x", "a"), outputs("eager", "b")).verdict == "met"
    differs = verdict(claim, outputs("x", "c"), outputs("eager", "a"))
    assert (differs.verdict, differs.observed) == ("missed", "1 of 6 elements differ")
    assert differs.evidence == ("first at 4: bits 0xffff, eager 0x4",)
    shorter = verdict(claim, outputs("x", "d"), outputs("eager", "a"))
    assert shorter.verdict == "missed" and "5 elements" in shorter.observed


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: expect.share("gate"), "without a bound it can never fail"),
        (lambda: expect.share("gate", below=1.5), "can never fail"),
        (lambda: expect.share("gate", above=-0.1), "can never fail"),
        (lambda: expect.share("gate", above=0.5, below=0.2), "nothing is above 50% and below 20%"),
        (lambda: expect.same_tile("gate", "gate"), "with itself"),
        (lambda: expect.faster("gate", than="gate"), "with itself"),
        (lambda: expect.faster("gate", than="inductor:donw"), "no kernels are called 'donw'"),
        (lambda: expect.in_order("aten::mm"), "one operator is always in order"),
        (lambda: expect.epilogue(""), "can never fail"),
        (lambda: expect.fused(), "can never fail"),
        (lambda: expect.memops(True), "whole number"),
        (lambda: expect.kernels(1.0), "whole number"),
    ],
)
def test_claims_that_are_refused(make, says):
    with pytest.raises(BadExpectation, match=says):
        make()


@pytest.mark.parametrize(
    "pair",
    [
        (expect.same_tile("gate", "up"), expect.other_tile("up", "gate")),
        (expect.faster("gate", than="down"), expect.faster("down", than="gate")),
        (expect.share("gate", below=0.2), expect.share("gate", above=0.3)),
        (expect.launch_nothing("aten::t"), expect.no_ops("aten::t")),
        (expect.in_order("aten::t", "aten::mm"), expect.op_count("aten::mm", 0)),
        (expect.op_count("aten::mm", 2), expect.op_count("aten::mm", 3)),
        (expect.memops(0), expect.memops(1)),
    ],
    ids=lambda v: f"{v[0].text}, {v[1].text}",
)
def test_contradictions_are_refused(pair):
    with pytest.raises(BadExpectation, match="contradicts"):
        Setup("mine", "eager", MLP, CPU_MLP, changed=pair[:1], same=pair[1:])


def test_what_agrees_is_not_taken_for_a_contradiction():
    claims = (expect.kernels(5), expect.kernels(3, of="gemm"), expect.ops("aten::mm"))
    claims += (expect.op_count("aten::mm", 3), expect.share("gate", above=0.1))
    assert Setup("mine", "eager", MLP, CPU_MLP, changed=claims).claims == claims


# Runs


WRONG = '''"""Are wrong guesses found out?"""
from lab.expect import Setup, compiled_once, fused, in_order, no_ops, op_count, same_output
from lab.experiment import Experiment
from lab.problem import Problem

P = Problem("mlp", 8, 128, 64, "tn", "fp16", "tanh")

EXPERIMENT = Experiment(
    problems=(P,),
    cpu_problems=(P,),
    expectations=(
        Setup("2-D", "inductor", P, P,
              changed=(fused("_unsafe_view", "gelu", "mul"), op_count("aten::mm", 2)),
              same=(same_output("eager"), compiled_once())),
        Setup("3-D", "eager", P, P, batch=4, changed=(no_ops("aten::_unsafe_view"),)),
        Setup("no compiler", "eager", P, P, changed=(compiled_once(), no_ops("aten::gelu"))),
        Setup("two dimensions alone", "stacked", P, P, batch=4, changed=(op_count("aten::mm", 2),)),
    ),
)
'''


def test_wrong_guesses_about_real_runs_are_missed(lab, tmp_path):
    """In a file of the user's, with Inductor's real kernels and Dynamo's real counters."""
    (tmp_path / "mine.py").write_text(WRONG)
    done = lab("guess", tmp_path / "mine.py", "--out", tmp_path / "run")
    assert done.returncode == 1, done.stderr
    with open(tmp_path / "run/expectations.csv") as file:
        rows = {(row["setup"], row["expectation"]): row for row in csv.DictReader(file)}

    def missed(setup, claim, shows):
        row = rows[setup, claim]
        assert row["verdict"] == "missed", row
        assert re.search(shows, row["observed"] + row["evidence"]), row

    # Without the batch the name tells no view; with it there is one.
    missed("2-D", "one kernel fuses _unsafe_view, gelu, mul", "fused_gelu_mul")
    missed("2-D", "2 × aten::mm", "3 × aten::mm")
    missed("2-D", "output bitwise eager's", "first at [0-9]+: bits 0x")  # it rounds less
    assert rows["2-D", "compiled once, no recompile, no graph break"]["verdict"] == "met"
    missed("3-D", "no aten::_unsafe_view", "3 × aten::_unsafe_view")
    missed("no compiler", "compiled once, no recompile, no graph break", "doesn't use it")
    missed("no compiler", "no aten::gelu", "1 × aten::gelu")
    missed("two dimensions alone", "2 × aten::mm", "not traced: .*Error")
    assert "Missed: no aten::gelu" in done.stdout
    allowed = lab("guess", tmp_path / "mine.py", "--out", tmp_path / "run", "--allow-surprises")
    assert allowed.returncode == 0 and "missed" in allowed.stdout
    noted = record.read_json(tmp_path / "run/run.json")
    assert ["--allow-surprises" in c["command"] for c in noted["commands"]] == [False, True]
    assert all(c["commit"] for c in noted["commands"]) and "liger" in noted["facts"]


def judged(setup, one, others=()):
    done = {(setup.problem, o.contender): (o, "") for o in (one, *others)}
    return guess._judge(setup, setup.problem, done)


def test_the_table_tells_what_differs_from_elsewhere():
    setup = Setup(
        "Eager MLP",
        "eager",
        MLP,
        CPU_MLP,
        changed=(expect.kernels(5),),
        same=(expect.same_kernels("inductor", of="gemm"),),
        note="a round trip of 50.3 MB",
        elsewhere=(("ampere_128x128…", 190.0), ("nvjet_sm90…", None)),
        there="on an A100",
    )
    one = judged(setup, EAGERS, [FUSEDS])
    made = guess_show.table(
        guess.Report(Experiment((), (), expectations=(setup,), name="e"), (one,), {})
    )
    lines = made.splitlines()
    assert "5 kernels (5: 55.5 + 55.4 + 29.6" in made
    assert "Eager MLP: a round trip of 50.3 MB" in lines
    told = f"kernel 1: {WIDE}, 55.5 µs; on an A100 ampere_128x128…, 190 µs"
    assert f"Eager MLP: {told}" in lines
    assert f"Eager MLP: kernel 2: {WIDE}, 55.4 µs; on an A100 the same" in lines
    assert "Eager MLP: 5 kernels; on an A100 2" in lines
    assert "Eager MLP: besides, 1 × Memset (Device); on an A100 none is told of" in lines
